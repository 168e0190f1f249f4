"""Devices: names, selection, the simulated device's controls, and errors without a GPU."""

import contextvars
import copy
import pickle
import threading
import weakref

import numpy as np
import pytest
from in_threads import in_threads
from made_blobs import filled

import syncblob
from syncblob import Blob, Device, Head, NoDeviceError, use_device
from syncblob._layout import Layout
from syncblob.devices import (
    CPU,
    HOST,
    POISON,
    Accelerator,
    SimulatedBackend,
    accelerator,
    cuda,
    register,
    simulated,
    unregister,
)
from syncblob.devices.host import NumpyHome

without_cuda = pytest.mark.skipif(cuda.device_count() > 0, reason="there is a CUDA device here")


@pytest.mark.parametrize(
    ("name", "canonical", "index"),
    [
        ("cpu", "cpu", 0),
        ("cpu:0", "cpu", 0),
        ("cuda", "cuda:0", 0),
        ("cuda:3", "cuda:3", 3),
        ("simulated", "simulated:0", 0),
        ("simulated:01", "simulated:1", 1),
    ],
)
def test_a_device_equals_its_name(name, canonical, index):
    device = Device(name)
    assert device == canonical == str(device)
    assert (device.type, device.index) == (canonical.partition(":")[0], index)
    assert device == Device(device)
    assert {canonical: 1}[device] == 1
    assert device != "elsewhere"
    assert device != 7
    assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device
    assert repr(device) == f"Device({canonical!r})"


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", "cuda:²", 0])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="cpu"):
        Device(name)


def test_use_device_is_local_to_the_context():
    with use_device("simulated:1") as device:
        assert device == syncblob.default_device() == "simulated:1"
        with use_device("cpu"):
            assert syncblob.default_device() == "cpu"
        seen = in_threads(syncblob.default_device)
        assert Blob(3).device == "simulated:1"
    assert seen == ["cpu"]
    assert Blob(3).device == syncblob.default_device() == "cpu"


def test_blocks_of_use_device_end_in_any_order_and_in_any_context():
    def on(device):
        with use_device(device):
            yield

    outer, elsewhere = on("simulated:1"), on("simulated:2")
    next(outer)
    contextvars.copy_context().run(next, elsewhere)
    with use_device("simulated:3"):
        assert [*outer, *elsewhere] == []
        assert syncblob.default_device() == "simulated:3"
    assert syncblob.default_device() == "cpu"


@pytest.mark.parametrize("task", [False, True])
def test_a_block_that_another_context_leaves_ends_in_its_own(*, task):
    def on(device):
        with use_device(device):
            yield

    def here():
        return str(syncblob.default_device())

    mine, theirs = (contextvars.copy_context() for _ in range(2))
    block = on("simulated:1")
    mine.run(next, block)
    if task:
        # It has the device that it was started with, until the block is left from outside.
        theirs = mine.run(contextvars.copy_context)
    outer = on("simulated:2")
    theirs.run(next, outer)
    del block  # finalised here, in a third context
    assert (here(), mine.run(here), theirs.run(here)) == ("cpu", "cpu", "simulated:2")
    block = on("simulated:1")
    mine.run(next, block)
    theirs.run(block.close)
    assert mine.run(Blob, 3).device == mine.run(here) == "cpu"
    assert theirs.run(Blob, 3).device == theirs.run(here) == "simulated:2"
    theirs.run(outer.close)
    assert theirs.run(here) == "cpu"


def test_use_device_ends_with_an_exception():
    with pytest.raises(KeyError), use_device("simulated"):
        raise KeyError
    assert syncblob.default_device() == "cpu"


def test_set_default_device_is_for_the_process_and_a_blob_keeps_that_of_its_birth():
    syncblob.set_default_device("simulated")
    (blob,) = in_threads(lambda: Blob(3))
    syncblob.set_default_device("cpu")
    assert blob.device == "simulated:0"


def test_devices_lists_the_host_first_and_what_was_named():
    Blob(3, device="simulated:2")
    listed = syncblob.available_devices()
    assert listed[0] == "cpu"
    assert {"simulated:0", "simulated:2"} <= set(map(str, listed))
    assert isinstance(listed, tuple)


@without_cuda
@pytest.mark.parametrize(
    "select",
    [
        lambda: Blob(3, device="cuda:0"),
        lambda: syncblob.set_default_device("cuda"),
        lambda: use_device("cuda").__enter__(),
        lambda: Blob(3).gpu_data(),
        lambda: Blob(3).mutable_gpu_diff(),
        lambda: Blob(3).gpu_shape(),
        lambda: Blob(3).to_device("cuda"),
        lambda: syncblob.asarray([1], device="cuda"),
    ],
)
def test_without_a_gpu_the_error_says_why_and_what_to_do(select):
    with pytest.raises(NoDeviceError, match=r"cuda:0 cannot be used: .*use_device\('simulated'\)"):
        select()
    assert syncblob.default_device() == "cpu"


def test_the_host_is_no_accelerator():
    with pytest.raises(ValueError, match="cpu"):
        accelerator(CPU)


# --- the simulated device ------------------------------------------------------------------------


def test_new_memory_is_poisoned_and_shows_as_nan(simulated):
    assert simulated.allocate(8).tolist() == [POISON] * 8
    assert simulated.allocate(8, zeroed=True).tolist() == [0] * 8
    blob = Blob(4, device="simulated")
    assert np.isnan(blob.overwrite_gpu_data()).all()
    assert np.isnan(np.asarray(syncblob.empty((2, 3), device="simulated"))).all()
    assert syncblob.empty((), dtype="int8", device="simulated").item() == -1
    assert Blob(4, device="simulated").tolist() == [0] * 4


def test_an_array_keeps_the_buffer_by_whose_id_it_is_known(simulated):
    buffer = simulated.wrap(np.zeros(2))
    array, kept = simulated.view(buffer, Layout.raw(16), writable=True), weakref.ref(buffer)
    del buffer
    assert np.shares_memory(array, kept())


def test_the_kth_operation_of_a_kind_fails_once(simulated):
    with simulated.failing(allocation=2, transfer=1):
        buffer = simulated.allocate(4)
        with pytest.raises(MemoryError, match="injected failure of an allocation"):
            simulated.allocate(4)
        simulated.allocate(4)
        with pytest.raises(RuntimeError, match="transfer"):
            simulated.upload(np.zeros(4, np.uint8), buffer)
        simulated.upload(np.zeros(4, np.uint8), buffer)
    assert (simulated.allocations, simulated.uploads) == (2, 1)


def test_failures_that_did_not_happen_end_with_the_block(simulated):
    with simulated.failing(allocation=1):
        pass
    simulated.allocate(4)
    with pytest.raises(ValueError, match="k >= 1"), simulated.failing(allocation=0):
        pass
    with pytest.raises(ValueError, match="allocation"), simulated.failing(download=1):
        pass


def test_a_stream_that_nobody_has_is_synchronized_too(simulated):
    host, buffer = np.ones(4, np.uint8), simulated.allocate(4)
    simulated.push(host, buffer, simulated.stream(delay=0.1))
    simulated.synchronize()
    assert buffer.tolist() == [1] * 4
    assert simulated.uploads == 1


def test_a_push_needs_a_stream_of_its_own_device(simulated):
    other = syncblob.simulated(1).stream()
    blob = filled(1, 4)
    with pytest.raises(TypeError, match="simulated:0"):
        blob.async_gpu_push(other)
    blob.async_gpu_push(simulated.stream())
    assert blob.gpu_data().tolist() == [1] * 4


@pytest.mark.parametrize("nbytes", [0, 1, 1000, 1 << 20, 16 << 20])
def test_host_buffers_are_aligned(nbytes):
    buffer = HOST.allocate(nbytes)
    assert buffer.nbytes == nbytes
    assert buffer.ctypes.data % 64 == 0 or nbytes == 0


# --- registered kinds of devices -----------------------------------------------------------------


class Shelf(SimulatedBackend):
    """A device of a new kind."""

    def __init__(self, index):
        super().__init__(index)
        self.device = Device(f"shelf:{index}")


def test_a_registered_kind_is_a_device_like_the_others():
    with pytest.raises(ValueError, match="a device is"):
        Device("shelf")
    register("shelf", Shelf)
    unused = Device("shelf:7")
    try:
        with pytest.raises(ValueError, match=r'"simulated:N".*"shelf:N"'):
            Device("hook")
        blob = syncblob.ones(3, device="shelf:2")
        with syncblob.no_transfers():
            assert (blob + blob).device == "shelf:2"
        assert (blob + 1).tolist() == [2, 2, 2]
        assert syncblob.available_devices()[-1] == accelerator("shelf:2").device
        assert blob.to_device("simulated").to_device("shelf").tolist() == [1, 1, 1]
        assert pickle.loads(pickle.dumps(blob)).device == "shelf:2"
    finally:
        unregister("shelf")
    with use_device(blob.device), syncblob.no_transfers():
        assert (blob + blob).device == syncblob.zeros_like(blob).device == "shelf:2"
        assert blob.copy().to_device(blob.device).device == Blob(3).device == "shelf:2"
    assert blob.sum().tolist() == 3
    assert "shelf:2" not in syncblob.available_devices()
    with pytest.raises(NoDeviceError, match="not registered any more"):
        accelerator(unused)
    for refused in (Device, unregister):
        with pytest.raises(ValueError, match=r"a device is|expected a registered kind"):
            refused("shelf")


@pytest.mark.parametrize("make", [lambda _: object(), simulated])
def test_a_backend_of_something_else_is_refused(make):
    register("hook", make)
    try:
        with pytest.raises(TypeError, match="to return a backend of hook:1"):
            Blob(3, device="hook:1")
    finally:
        unregister("hook")
    with pytest.raises(TypeError, match="expected a function"):
        register("hook", 3)
    with pytest.raises(ValueError, match="a device is"):
        Device("hook")


@pytest.mark.parametrize("kind", ["cpu", "cuda", "simulated", "", "a b", "a:0"])
def test_names_that_are_taken_or_no_names_are_refused(kind):
    with pytest.raises(ValueError, match="new kind of device"):
        register(kind, Shelf)
    with pytest.raises(ValueError, match="expected a registered kind"):
        unregister(kind)
    assert syncblob.available_devices()[0] == CPU


@pytest.mark.parametrize("nbytes", [8, 1 << 21])
@pytest.mark.parametrize("delay", [0, 0.01])
def test_a_small_asynchronous_copy_is_made_at_once_unless_the_stream_is_busy(
    simulated, monkeypatch, nbytes, delay
):
    threads = []
    monkeypatch.setattr(simulated, "upload", lambda *_: threads.append(threading.get_ident()))
    host, buffer = np.ones(nbytes, np.uint8), simulated.allocate(nbytes)
    stream = simulated.stream(delay=delay)
    works = [simulated.push(host, buffer, stream)]
    if delay:
        stream.delay = 0
        works.append(simulated.push(host[:8], buffer[:8], stream))
    for work in works:
        work.wait()
    at_once = nbytes == 8 and not delay
    assert [thread == threading.get_ident() for thread in threads] == [at_once] * len(works)


def test_a_finaliser_on_the_thread_of_a_stream_waits_for_nothing_there(simulated):
    own, busy, results = filled(1, 1 << 19, device="cpu").on("simulated:0"), filled(2, 3), []
    stream = simulated.stream(delay=0)

    def finalise():
        own.memory.async_gpu_push(stream)
        results.append(float(own.sum()))
        stream.synchronize()

    work = stream.submit(finalise, 1 << 21)
    with pytest.raises(RuntimeError, match="a finaliser has interrupted the work"):
        work.wait()
    assert results == [1 << 19]
    stream.synchronize()
    assert (busy + 1).tolist() == [3] * busy.size


def test_an_interrupt_of_a_copy_that_is_made_at_once_leaves_the_blob_as_it_was(
    simulated, monkeypatch
):
    blob = filled(1, 3, device="simulated:0")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(simulated, "upload", interrupt)
        with pytest.raises(KeyboardInterrupt):
            blob.prefetch()
    assert blob.head is Head.HEAD_AT_CPU
    assert blob.gpu_data().tolist() == [1, 1, 1]


class _Bounded(NumpyHome, Accelerator):
    bounded = True


class _NotNative(SimulatedBackend):
    native = False


@pytest.mark.parametrize("backend", [_Bounded, _NotNative])
def test_a_backend_that_counts_its_memory_or_is_not_numpys_computes_by_itself(backend):
    assert not backend.plain
    assert SimulatedBackend.plain
    assert HOST.plain
