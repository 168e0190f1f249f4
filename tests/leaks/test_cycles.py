"""Nothing is left of objects that were made and dropped, over thousands of cycles.

Each cycle makes a Blob, does one thing with it, and drops everything. Afterwards, objects, memory,
buffers of the host and of the simulated device, open files and mappings are counted.
``SYNCBLOB_CYCLES`` sets the number of cycles.
"""

import copy
import gc
import pickle
import threading
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
import tiers
from leak_counts import held, resident_nbytes, watched_buffers

import syncblob as xp
from syncblob import Blob, Layer, ModelFile, StaleAliasWarning, open_model, save_model, simulated
from syncblob.devices import Side

try:
    import torch
except ImportError:
    torch = None

ROUNDS = 6

BACKEND = simulated(0)


def made(device="simulated"):
    blob = Blob((4, 8), device=device)
    blob.memory.side_of(BACKEND)
    blob.mutable_cpu_data()[...] = 1
    return blob


def sync():
    blob = made()
    blob.gpu_data()
    blob.mutable_gpu_data()
    blob.cpu_data()
    blob.mutable_cpu_diff()
    blob.gpu_diff()


def push():
    blob = made()
    blob.async_gpu_push()
    blob.gpu_data()


def push_that_nobody_waits_for():
    made().async_gpu_push()


def parts():
    """Use each row of a Blob in a different way."""
    blob = made()
    borrow = blob[0].mutable_cpu_data()
    kept = [np.asarray(blob[1].gpu), np.from_dlpack(blob[2].cpu)]
    blob[3].async_gpu_push()
    blob.memory.expose(Side.ACCELERATOR, start=96, stop=100)
    for _ in range(3):
        blob.cpu_data()
        blob.gpu_data()
        blob[:, ::3].copy()
        np.array(blob[1:, ::2])
        blob.tolist()
    with xp.verified_const():
        kept.append(np.asarray(blob[0].cpu.const))
        blob[0].mutable_gpu_data()
    assert blob.head is xp.Head.SPLIT
    assert not borrow.flags.writeable


def parts_of_a_source():
    contents = np.ones(128, np.uint8)
    blob = Blob.from_source((4, 8), "float32", lambda: contents, device="simulated")
    blob[0].cpu_data()
    blob[2].gpu_data()
    blob[:, 3].tolist()
    blob[1].overwrite_gpu_data()


def aliases():
    blob = made("cpu")
    kept = [np.asarray(blob.cpu), np.from_dlpack(blob), memoryview(np.asarray(blob.cpu))[1:]]
    blob.gpu_data()
    kept.append(blob)


def an_alias_that_outlives_its_blob():
    alias = np.from_dlpack(made())
    assert alias[0, 0] == 1


def an_alias_that_was_left_behind():
    blob = made()
    alias = np.asarray(blob.cpu)
    with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
        blob.mutable_gpu_data()
        blob.set_cpu_data(np.zeros((4, 8), np.float32))
    del alias


def an_alias_in_a_reference_cycle():
    loop = [np.from_dlpack(made())]
    loop.append(loop)


def a_capsule_that_nobody_takes():
    blob = made()
    blob.__dlpack__()
    blob.__dlpack__(max_version=(1, 0))
    blob.gpu.__dlpack__(max_version=(1, 0))
    blob.const.__dlpack__(max_version=(1, 0))


def a_capsule_that_outlives_its_blob():
    capsule = made().__dlpack__()
    assert "dltensor" in repr(capsule)


def imports():
    array = np.ones((4, 8), np.float32)
    blob = xp.asarray(array, device="simulated")
    assert xp.from_dlpack(array).shape == (4, 8)
    blob.gpu_data()
    other = Blob((4, 8), device="simulated")
    other.set_gpu_data(array)
    other.cpu_data()


def views():
    blob = made()
    view = blob[1:, ::2].T.reshape(-1)
    view.cpu_data()
    blob[::2].gpu_data()
    blob.resize(8, 8)
    blob.resize(4, 8)
    blob.share_data(made()[:])


def operators():
    blob, other = made(), made("cpu")
    result = (blob + other) * 2 - blob
    result += 1
    xp.sum(result @ other.T)
    np.add(blob, 1, out=other)


def pickles():
    blob = made()
    blob.gpu_data()
    pickle.loads(pickle.dumps(blob, 5)).cpu_data()
    buffers = []
    content = pickle.dumps(blob, 5, buffer_callback=buffers.append)
    pickle.loads(content, buffers=buffers)
    copy.deepcopy(blob)


def messages():
    blob = made()
    Blob.from_proto(blob.to_proto(write_diff=True)).cpu_diff()


def records():
    blob = made()
    with xp.record_transfers() as log, xp.max_transfers(5):
        blob.gpu_data()
    assert log.uploads == 1
    guard = xp.compute_only_on("simulated")
    with guard, guard, pytest.raises(xp.DeviceGuardError):
        xp.ones(3)
    assert guard(xp.ones)(3, device="simulated").tolist() == [1] * 3
    blob.explain()


def verified():
    blob = made()
    with xp.verified_const():
        kept = np.asarray(blob)
        blob.mutable_gpu_data()
    del kept


def an_exception_in_the_middle():
    blob, other = made(), made()
    alias = np.asarray(blob.cpu)
    for kind in ("allocation", "transfer"):
        with BACKEND.failing(**{kind: 1}), pytest.raises((MemoryError, RuntimeError)):
            xp.sum(blob.data[1:] + other.gpu_data())
    with pytest.raises(ValueError, match="reshape"):
        blob.reshape(5, 5)
    with pytest.raises(xp.TransferGuardError), xp.no_transfers():
        blob.gpu_data()
    del alias


def a_push_that_fails():
    blob = made()
    with BACKEND.failing(transfer=1):
        blob.async_gpu_push()
        with pytest.raises(RuntimeError, match="injected"):
            blob.gpu_data()


def threads():
    blob = made()

    def work():
        alias = np.asarray(blob.cpu)
        blob.gpu_data()
        alias[0, 0] = 2

    several = [threading.Thread(target=work) for _ in range(2)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()


def tensors():
    blob = made("cpu")
    tensor = torch.from_dlpack(blob)[1:]
    tensor.add_(1)
    torch.add(blob, 1)
    torch.as_tensor(blob.cpu)
    tensor = torch.from_dlpack(made())[1:]
    tensor.add_(1)
    xp.asarray(torch.ones(3), device="simulated").gpu_data()


def autograd():
    blob = made()
    parameter = blob.as_parameter()
    (torch.nn.functional.linear(torch.ones(2, 8), parameter) ** 2).sum().backward()
    blob.update()


def autograd_that_is_not_finished():
    loss = (made().as_parameter() * 2).sum()
    assert loss.requires_grad


QUICK = [
    sync,
    push,
    push_that_nobody_waits_for,
    parts,
    parts_of_a_source,
    aliases,
    an_alias_that_outlives_its_blob,
    an_alias_that_was_left_behind,
    an_alias_in_a_reference_cycle,
    a_capsule_that_nobody_takes,
    a_capsule_that_outlives_its_blob,
    imports,
    views,
    operators,
    pickles,
    messages,
    records,
    verified,
    an_exception_in_the_middle,
    a_push_that_fails,
    threads,
]
if torch is not None:
    QUICK += [tensors, autograd, autograd_that_is_not_finished]

# The cycles of the short tier, and what each stands for.
SHORT = {
    "parts": "accesses of both sides, and of ranges",
    "a_push_that_fails": "transfers under way, and exceptions",
    "an_alias_in_a_reference_cycle": "what others hold",
    "pickles": "messages and pickles",
    "threads": "threads",
}


def named(cycle):
    return cycle.__name__


def grown(cycle, cycles):
    """Run many cycles; return the growth in objects and bytes, and check the other counts."""
    with watched_buffers() as count:
        before = held()
        for _ in range(cycles):
            cycle()
        BACKEND.synchronize()
        made_buffers, alive = count()
        after = held()
    assert made_buffers >= cycles
    assert alive == 0
    assert after.files <= before.files
    assert after.mappings - before.mappings < max(20, cycles // 10)
    # The watch keeps a weak reference for each buffer, of at most 120 bytes.
    return (
        after.objects - before.objects - made_buffers,
        after.nbytes - before.nbytes - made_buffers * 120,
    )


@pytest.fixture
def traced():
    """Trace memory from before the first cycle, so that frees of cached objects are traced, too."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def leaves_nothing(cycle, cycles):
    for _ in range(max(20, cycles // 5)):
        cycle()
    for _ in range(ROUNDS):
        objects, nbytes = grown(cycle, cycles)
        # Caches of this and other libraries may grow once, and the tables of sets of references
        # change their size now and then. A leak grows with each cycle, in each round.
        if objects < cycles // 5 and nbytes < cycles * 32 + 4096:
            return
    pytest.fail(f"{cycles} cycles leave {objects} objects and {nbytes} bytes, each time")


@pytest.mark.usefixtures("traced")
@tiers.amount("cycles", 40, 500, variable="SYNCBLOB_CYCLES")
@pytest.mark.parametrize("cycle", tiers.representatives(QUICK, SHORT, name=named), ids=named)
def test_nothing_is_left(cycle, cycles):
    leaves_nothing(cycle, cycles)


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("keeps", ["Blobs", "objects", "bytes"])
def test_a_leak_would_be_seen(keeps):
    kept = []

    def cycle():
        blob = made()
        what = {"Blobs": blob, "objects": [{}], "bytes": bytes(blob.nbytes)}
        kept.append(what[keeps])

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        leaves_nothing(cycle, 40)


def test_memories_go_with_the_last_of_their_blobs():
    blob = made()
    blob.gpu_data()
    memory, view = weakref.ref(blob.memory), blob[1:]
    del blob
    gc.collect()
    assert memory() is not None
    del view
    assert memory() is None


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def model_path(tmp_path, request):
    path = tmp_path / request.param
    values = np.ones((16, 16), np.float32)
    save_model(ModelFile("net", [Layer("ip", blobs=[values, values[0]])]), path)
    return path


def opened(path):
    model = open_model(path)
    model["ip"].blobs[0].cpu_data()


def opened_and_kept_by_a_blob(path):
    blob = open_model(path)["ip"].blobs[0]
    assert blob.cpu_data()[0, 0] == 1


def opened_and_never_touched(path):
    assert len(open_model(path)["ip"].blobs) == 2


def edited_and_saved(path):
    with open_model(path) as model:
        model["ip"].blobs[1].mutable_cpu_data()[...] = 1
        save_model(model, path)


def damaged(path):
    broken = path.with_name("broken.caffemodel")
    broken.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(xp.ModelFileError):
        open_model(broken)


def closed_too_early(path):
    with open_model(path) as model:
        blob = model["ip"].blobs[0]
    with pytest.raises(ValueError, match="closed"):
        blob.cpu_data()


FILES = [
    opened,
    opened_and_kept_by_a_blob,
    opened_and_never_touched,
    edited_and_saved,
    damaged,
    closed_too_early,
]


@tiers.amount("cycles", 15, 150)
@pytest.mark.parametrize("cycle", FILES, ids=lambda cycle: cycle.__name__)
@pytest.mark.parametrize("model_path", ["net.caffemodel", "net.caffemodel.h5"], indirect=True)
def test_files_are_closed_and_unmapped(cycle, model_path, cycles):
    for _ in range(20):
        cycle(model_path)
    before = held()
    for _ in range(cycles):
        cycle(model_path)
    after = held()
    assert after.files <= before.files
    assert after.mappings - before.mappings < max(20, cycles // 10)
    assert after.objects - before.objects < cycles


@tiers.amount("cycles", 40, 500)
@pytest.mark.parametrize("name", ["created", "attached by a pickle"])
def test_shared_memory_is_given_back(name, cycles):
    def cycle():
        blob = Blob.in_shared_memory((4, 8), device="simulated")
        blob.gpu_data()
        if name != "created":
            pickle.loads(pickle.dumps(blob)).gpu_data()

    for _ in range(20):
        cycle()
    before = held()
    for _ in range(cycles):
        cycle()
    after = held()
    assert after.files <= before.files
    assert after.mappings - before.mappings < max(20, cycles // 10)
    assert after.objects - before.objects < cycles // 5


def test_large_buffers_are_given_back_to_the_system():
    def cycle():
        blob = Blob((1 << 20,), device="simulated")
        blob.mutable_cpu_data()[...] = 1
        alias = np.from_dlpack(blob)
        blob.gpu_data()
        return float(alias[-1])

    for _ in range(10):
        cycle()
    before = resident_nbytes()
    for _ in range(100):
        cycle()
    # 800 MB were allocated in total.
    assert resident_nbytes() - before < 100_000_000
