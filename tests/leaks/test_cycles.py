"""Nothing is left of objects that were made and dropped, over thousands of cycles.

Each cycle makes a Blob, does one thing with it, and drops everything. Afterwards, objects, memory,
buffers of the host and of the simulated device, open files and mappings are counted.
``SYNCBLOB_CYCLES`` sets the number of cycles.
"""

import gc
import pickle
import tracemalloc
import weakref
from functools import partial

import numpy as np
import pytest
import tiers
from leak_counts import held, resident_nbytes, watched_buffers
from leak_cycles import BACKEND, QUICK, made

import syncblob as xp
from syncblob import Blob, Layer, ModelFile, open_model, save_model

ROUNDS = 6

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
@tiers.amount("cycles", 40, 200, variable="SYNCBLOB_CYCLES")
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


FILES = [opened, opened_and_kept_by_a_blob, opened_and_never_touched]
FILES += [edited_and_saved, damaged, closed_too_early]


def objects_left(cycle, cycles):
    """Run many cycles; return the growth in objects, and check that of files and mappings."""
    for _ in range(20):
        cycle()
    before = held()
    for _ in range(cycles):
        cycle()
    after = held()
    assert after.files <= before.files
    assert after.mappings - before.mappings < max(20, cycles // 10)
    return after.objects - before.objects


@tiers.amount("cycles", 15, 150)
@pytest.mark.parametrize("cycle", FILES, ids=lambda cycle: cycle.__name__)
@pytest.mark.parametrize("model_path", ["net.caffemodel", "net.caffemodel.h5"], indirect=True)
def test_files_are_closed_and_unmapped(cycle, model_path, cycles):
    assert objects_left(partial(cycle, model_path), cycles) < cycles


@tiers.amount("cycles", 40, 500)
@pytest.mark.parametrize("name", ["created", "attached by a pickle"])
def test_shared_memory_is_given_back(name, cycles):
    def cycle():
        blob = Blob.in_shared_memory((4, 8), device="simulated")
        blob.gpu_data()
        if name != "created":
            pickle.loads(pickle.dumps(blob)).gpu_data()

    assert objects_left(cycle, cycles) < cycles // 5


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
