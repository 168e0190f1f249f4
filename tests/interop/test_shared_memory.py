"""Blobs whose host buffer is in a block that several processes share."""

import gc
import multiprocessing
import os
import pickle
import uuid

import numpy as np
import other_processes
import pytest
from made_blobs import address
from other_processes import run

import syncblob
from syncblob import Blob, Head
from syncblob.interop import shared_memory


@pytest.fixture
def name():
    return f"syncblob-{uuid.uuid4().hex[:12]}"


def exists(name):
    try:
        shared_memory.attach(name, 0, None)
    except FileNotFoundError:
        return False
    return True


def test_a_new_one_is_zero_and_aligned_and_on_the_device_asked_for():
    blob = Blob.in_shared_memory((2, 3), "float64", device="simulated")
    assert (blob.shape, blob.dtype, str(blob.device)) == ((2, 3), np.float64, "simulated:0")
    assert address(np.asarray(blob)) % 64 == 0
    assert blob.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,)])
def test_attached_by_name_it_is_the_same_memory(name, shape):
    blob = Blob.in_shared_memory(shape, "int16", name=name)
    other = Blob.in_shared_memory(shape, "int16", name=name, create=False)
    blob[...] = 7
    np.testing.assert_array_equal(np.asarray(other), np.full(shape, 7, np.int16))
    other[...] = 8
    np.testing.assert_array_equal(np.asarray(blob), np.full(shape, 8, np.int16))


def test_what_another_writes_reaches_a_device_that_has_been_written(name):
    blob = Blob.in_shared_memory(2, name=name, device="simulated")
    other = Blob.in_shared_memory(2, name=name, create=False)
    blob.mutable_gpu_data()[...] = 1
    assert blob.tolist() == [1, 1]
    other[...] = 5
    assert blob.gpu_data().tolist() == [5, 5]
    assert "exposed" in str(blob.explain())
    blob.assume_unaliased()
    assert blob.gpu_data().tolist() == [5, 5]
    other[...] = 6
    assert blob.gpu_data().tolist() == [5, 5]


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (FileExistsError, "File exists", {}),
        (ValueError, "at least 4000000 bytes", {"shape": 10**6, "create": False}),
        (ValueError, "got None", {"name": None, "create": False}),
        (FileNotFoundError, "keep that Blob", {"name": "syncblob-no-such", "create": False}),
        (TypeError, "holds numbers", {"dtype": "object"}),
        (ValueError, "non-negative", {"shape": -1}),
    ],
)
def test_what_is_refused(name, error, message, arguments):
    blob = Blob.in_shared_memory(3, name=name)
    with pytest.raises(error, match=message):
        Blob.in_shared_memory(**{"shape": 3, "name": name} | arguments)
    assert blob.tolist() == [0, 0, 0]


# --- lifetime ------------------------------------------------------------------------------------


def test_the_block_goes_with_the_last_array_over_it(name):
    blob = Blob.in_shared_memory(3, name=name)
    blob[...] = 4
    kept = [np.asarray(blob)[1:], np.from_dlpack(blob), blob[:2]]
    del blob
    while kept:
        gc.collect()
        assert exists(name)
        assert np.asarray(kept.pop()).tolist()[0] == 4
    gc.collect()
    assert not exists(name)


def test_who_attached_keeps_the_memory_when_the_name_has_gone(name):
    blob = Blob.in_shared_memory(3, name=name)
    other = Blob.in_shared_memory(3, name=name, create=False)
    blob[...] = 2
    del blob
    assert not exists(name)
    assert other.tolist() == [2, 2, 2]


def test_a_resize_that_needs_more_than_the_block_is_refused(name):
    blob = Blob.in_shared_memory(4, name=name, device="simulated")
    blob[...] = 3
    blob.diff[...] = 1
    larger = Blob(5)
    for change in (
        lambda: blob.resize(5),
        lambda: blob.copy_from(larger, resize=True),
        lambda: blob.load_proto(larger.to_proto()),
    ):
        with pytest.raises(ValueError, match=f"at most 16 bytes.*{name}.*got 20; make a larger"):
            change()
    assert (blob.head, blob.tolist(), blob.diff.tolist()) == (Head.HEAD_AT_GPU, [3] * 4, [1] * 4)
    blob.resize(2)
    blob.resize(2, 2)  # within the block
    assert pickle.loads(pickle.dumps(blob)).tolist() == [[3, 3], [3, 3]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_leaves_the_block_to_its_parent(name):
    blob = Blob.in_shared_memory(1, name=name)
    code = (
        "import os, gc\n"
        "from syncblob import Blob\n"
        f"blob = Blob.in_shared_memory(1, name={name + 'f'!r})\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    blob[...] = 3\n"
        "    del blob\n"
        "    gc.collect()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        f"print(Blob.in_shared_memory(1, name={name + 'f'!r}, create=False).tolist())\n"
    )
    done = run(code)
    assert (done.stdout, done.stderr) == ("[3.0]\n", "")
    assert not exists(name + "f")
    assert blob.tolist() == [0]


def test_an_unrelated_process_attaches_and_ends_without_taking_the_block_with_it(name):
    blob = Blob.in_shared_memory(2, name=name)
    code = (
        "from syncblob import Blob\n"
        f"blob = Blob.in_shared_memory(2, name={name!r}, create=False)\n"
        "blob += 6\n"
    )
    for total in (6, 12):
        done = run(code)
        assert (done.stdout, done.stderr) == ("", "")
        assert blob.tolist() == [total, total]


def test_at_the_end_of_the_process_the_block_goes_and_arrays_are_still_good(name):
    code = (
        "import atexit\n"
        "import numpy as np\n"
        "from syncblob import Blob\n"
        "atexit.register(lambda: print(array.tolist()))\n"
        f"array = np.asarray(Blob.in_shared_memory(2, name={name!r}))\n"
    )
    done = run(code)
    assert (done.stdout, done.stderr) == ("[0.0, 0.0]\n", "")
    assert not exists(name)


# --- what is on a device at the end ---------------------------------------------------------------


def attached(blob):
    return pickle.loads(pickle.dumps(blob))


def test_what_only_the_device_holds_reaches_the_block_with_the_end_of_the_last_blob(name):
    blob = Blob.in_shared_memory((3, 2), name=name)
    other = attached(blob).on("simulated")
    other[1] = 5
    alias, part = np.from_dlpack(other[1]), other[:1]
    blob[2] = 7  # by another process, which keeps it
    del other
    assert blob[1].tolist() == [0, 0]
    with syncblob.record_transfers() as log, syncblob.no_transfers():
        del part
    assert blob.tolist() == [[0, 0], [5, 5], [7, 7]]
    assert [(t.offset, t.nbytes, t.reason) for t in log] == [(8, 8, "end of memory")]
    alias[...] = 1  # too late


def test_a_device_that_fails_at_the_end_warns_of_the_loss(name):
    blob = Blob.in_shared_memory(2, name=name)
    other = attached(blob).on("simulated")
    other += 1
    with (
        syncblob.simulated(0).failing(transfer=1),
        pytest.warns(RuntimeWarning, match=f"lost to the shared memory '{name}'.*injected"),
    ):
        del other
    assert blob.tolist() == [0, 0]


def test_nothing_is_written_into_an_array_that_has_replaced_the_block():
    blob = Blob.in_shared_memory(2)
    other, array = attached(blob).on("simulated"), np.zeros(2, np.float32)
    other.set_cpu_data(array)
    other += 1
    del other
    assert (blob.tolist(), array.tolist()) == ([0, 0], [0, 0])


@pytest.mark.parametrize(
    "method", [each for each in multiprocessing.get_all_start_methods() if each != "fork"]
)
def test_a_process_that_ends_brings_what_it_has_on_its_device(method):
    blob = Blob.in_shared_memory(2, device="simulated")
    context = multiprocessing.get_context(method)
    process = context.Process(target=other_processes.keep, args=(blob, 5))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert blob.on("cpu").tolist() == [5, 5]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_brings_only_what_it_has_attached_itself():
    code = (
        "import multiprocessing, pickle\n"
        "import other_processes\n"
        "from syncblob import Blob\n"
        "def end(pickled, number):\n"
        "    global parents\n"
        "    del parents\n"
        "    other_processes.keep(pickle.loads(pickled), number)\n"
        "blob = Blob.in_shared_memory((2, 1), device='simulated')\n"
        "parents = pickle.loads(pickle.dumps(blob))\n"
        "parents[0] = 3\n"
        "blob[0].on('cpu')[...] = 4\n"
        "process = multiprocessing.get_context('fork').Process(\n"
        "    target=end, args=(pickle.dumps(blob[1]), 5))\n"
        "process.start()\n"
        "process.join(60)\n"
        "print(process.exitcode, blob.on('cpu').tolist())\n"
    )
    done = run(code)
    assert (done.stdout, done.stderr) == ("0 [[4.0], [5.0]]\n", "")


# --- pickles -------------------------------------------------------------------------------------


def test_every_pickle_brings_the_device_back():
    blob = Blob.in_shared_memory(2, device="simulated:1")
    blob.fill(3)
    for _ in range(2):
        other = pickle.loads(pickle.dumps(blob))
        assert other.gpu_data().tolist() == [3, 3]
        assert str(other.memory.accelerator.device) == "simulated:1"


def test_a_pickle_has_the_name_only():
    blob = Blob.in_shared_memory((1000, 1000))
    assert len(pickle.dumps(blob)) < 1000
    other = pickle.loads(pickle.dumps(blob))
    blob[3, 4] = 1
    assert (other.shape, other[3, 4].item()) == ((1000, 1000), 1)


def test_pickling_brings_what_the_device_has_into_the_block():
    blob = Blob.in_shared_memory(3, device="simulated")
    blob[...] = 1
    assert blob.head is Head.HEAD_AT_GPU
    with syncblob.record_transfers() as log:
        other = pickle.loads(pickle.dumps(blob))
    assert (log.downloads, log.uploads) == (1, 0)
    assert blob.head is Head.HEAD_AT_CPU
    assert (str(other.device), other.head) == ("simulated:0", Head.HEAD_AT_CPU)
    other.mutable_cpu_data()[...] = 2
    assert blob.gpu_data().tolist() == [2, 2, 2]


def test_views_come_back_as_views_with_their_diff():
    blob = Blob.in_shared_memory((3, 4), "int32")
    blob[...] = np.arange(12).reshape(3, 4)
    blob.diff[...] = -np.arange(12).reshape(3, 4)
    view = pickle.loads(pickle.dumps(blob[::-1, 1::2]))
    assert view.tolist() == [[9, 11], [5, 7], [1, 3]]
    assert view.diff.tolist() == [[-9, -11], [-5, -7], [-1, -3]]
    view[0, 0] = 99
    assert blob[2, 1].item() == 99
    view.diff[0, 0] = 99
    assert blob.diff[2, 1].item() == -9


def test_a_const_one_comes_back_const():
    blob = Blob.in_shared_memory(3, device="simulated")
    blob.mutable_gpu_data()[...] = 1
    other = pickle.loads(pickle.dumps(blob.const))
    # Pickling reads on the host, which other processes may write from then on.
    assert (other.tolist(), blob.head) == ([1, 1, 1], Head.HEAD_AT_CPU)
    with pytest.raises(ValueError, match="const"):
        other[0] = 1


def test_a_spawned_process_computes_on_the_same_memory():
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    blob = Blob.in_shared_memory((2, 2), device="simulated")
    blob[...] = 41
    process = context.Process(target=other_processes.add_one, args=(there,))
    process.start()
    here.send(blob)
    assert here.recv() == ("HEAD_AT_CPU", "simulated:0")
    process.join()
    assert process.exitcode == 0
    assert np.asarray(blob).tolist() == [[42, 42], [42, 42]]


def test_a_blob_over_a_part_of_a_block_is_pickled_with_its_own_contents():
    blob = Blob.in_shared_memory(4, "int32")
    blob[...] = range(4)
    part = Blob.asarray(blob.mutable_cpu_data()[1:])
    other = pickle.loads(pickle.dumps(part))
    assert other.tolist() == [1, 2, 3]
    other[...] = 9
    assert blob.tolist() == [0, 1, 2, 3]


# --- writes by others ----------------------------------------------------------------------------


def uploads(blob):
    """Compute on the device twice; return the uploaded ranges and the contents seen."""
    with syncblob.record_transfers() as log:
        found = [(blob + 0).tolist() for _ in range(2)]
    assert found[0] == found[1]
    return [(t.offset, t.nbytes) for t in log if t.direction == "upload"], found[0]


def test_what_has_been_seen_is_uploaded_once(name):
    blob = Blob.in_shared_memory((2, 2), name=name, device="simulated")
    other = Blob.in_shared_memory((2, 2), name=name, create=False)
    assert uploads(blob) == ([(0, 16)] * 2, [[0, 0]] * 2)
    other[...] = 5
    with syncblob.no_transfers():
        blob.refresh()
    assert blob.head is Head.HEAD_AT_CPU
    assert "exposed" not in str(blob.explain())
    assert uploads(blob) == ([(0, 16)], [[5, 5]] * 2)
    other[...] = 6  # not seen without a refresh
    assert uploads(blob) == ([], [[5, 5]] * 2)
    blob[1].refresh()
    assert uploads(blob) == ([(8, 8)], [[5, 5], [6, 6]])


def test_what_this_process_has_on_its_device_stays_newest(name):
    blob = Blob.in_shared_memory((2, 2), name=name, device="simulated")
    other = Blob.in_shared_memory((2, 2), name=name, create=False)
    blob[0].mutable_gpu_data()[...] = 1
    other[1] = 2
    blob.refresh()
    assert [row.head.name for row in blob] == ["HEAD_AT_GPU", "HEAD_AT_CPU"]
    assert uploads(blob) == ([(8, 8)], [[1, 1], [2, 2]])
    assert blob.on("cpu").tolist() == other.tolist() == [[1, 1], [2, 2]]


def test_a_view_with_gaps_is_refreshed_and_stays_exposed(name):
    blob = Blob.in_shared_memory((2, 3), name=name, device="simulated")
    other = Blob.in_shared_memory((2, 3), name=name, create=False)
    other[...] = 7
    blob[:, 1].refresh()
    assert uploads(blob) == ([(0, 24)] * 2, [[7] * 3] * 2)
    blob.refresh()
    view = pickle.loads(pickle.dumps(blob))[:, 1:]
    view.refresh()
    view.mutable_gpu_data()[...] = 1
    assert other.tolist() == [[7] * 3] * 2
    np.testing.assert_array_equal(np.asarray(view), 1)
    other[...] = 9  # still seen: a write on the device does not end the exposure
    assert (view + 0).tolist() == [[9, 9]] * 2


def test_an_array_that_was_adopted_is_refreshed_too():
    array = np.zeros(2, np.float32)
    blob = syncblob.asarray(array).on("simulated")
    _ = blob + 0
    array[:] = 3
    blob.const.refresh()
    assert uploads(blob) == ([(0, 8)], [3, 3])


def test_the_block_stays_when_the_host_side_is_evicted_after_a_refresh():
    blob = Blob.in_shared_memory(2, device="simulated")
    other = pickle.loads(pickle.dumps(blob)).on("cpu")
    blob.refresh()
    blob += 1
    with pytest.raises(BufferError, match=r"shared memory.*or use a copy"):
        blob.evict("cpu")
    np.asarray(blob)
    assert other.tolist() == [1, 1]
