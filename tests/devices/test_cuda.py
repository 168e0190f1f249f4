"""CUDA devices on a model of CUDA: transfers, streams, captures, aliases, two devices, protocols.

The model is `cuda_model`. In its lazy mode, work runs only when something waits for it, so a
missing wait or order shows. In its eager mode, all work runs immediately. This does not test CUDA
itself; `tests/gpu` does. The probes in `gpu_checks` test on both what only a GPU can prove: kernels
of streams that syncblob does not know, captures, forks, host callbacks.
"""

import gc
import re
import sys
import time
import types
import weakref

import cuda_model
import numpy as np
import pytest
from cuda_model import CUDARuntimeError
from cupy_model import compute, launch, side_stream
from made_blobs import DTYPES, filled, values
from made_blobs import on_cuda as blob_in

import syncblob
from syncblob import Blob, Head, record_transfers, set_memory_limit
from syncblob._layout import Layout
from syncblob.arrays import dlpack_capsules
from syncblob.arrays.native import import_cuda_array
from syncblob.blob.core import fresh
from syncblob.devices import Side, accelerator, cuda, current_accelerator
from syncblob.memory import CONST, MUTABLE
from syncblob.memory.changes import MAX_SPANS

pytestmark = pytest.mark.usefixtures("machine")

NONE, CPU, GPU, SYNCED, SPLIT = PAIR = [*Head][:5]  # with one accelerator


def add_one(array):
    array += 1


# --- with and without CUDA ------------------------------------------------------------------------


def test_the_devices_are_cupys():
    assert cuda.device_count() == 2
    assert [str(device) for device in syncblob.available_devices() if device.type == "cuda"] == [
        "cuda:0",
        "cuda:1",
    ]
    assert accelerator("cuda:1").dlpack_device == (2, 1)
    with pytest.raises(syncblob.NoDeviceError, match="there are 2 CUDA devices"):
        Blob(3, device="cuda:2")


def test_a_memory_without_a_device_goes_to_the_current_one(cupy):
    with cupy.cuda.Device(1):
        assert cuda.current_index() == 1
        assert current_accelerator().device == "cuda:1"
        assert Blob(3).gpu_data().device.id == 1
    assert Blob(3).gpu_data().device.id == 0


def fail(error):
    def raises(*_):
        raise error

    return raises


BREAKS = {
    "no NVIDIA driver": lambda patch, _: patch.setattr(
        cuda, "ctypes", types.SimpleNamespace(CDLL=fail(OSError()))
    ),
    "CuPy cannot be imported": lambda patch, _: patch.setitem(sys.modules, "cupy", None),
    "no CUDA device": lambda patch, machine: patch.setattr(machine, "devices", 0),
    "CUDA reports: cudaErrorMemoryAllocation": lambda patch, machine: patch.setattr(
        machine, "getDeviceCount", fail(CUDARuntimeError(cuda_model.OUT_OF_MEMORY))
    ),
}


@pytest.mark.parametrize("reason", BREAKS)
def test_what_is_missing_is_said_and_asked_once(machine, monkeypatch, reason):
    BREAKS[reason](monkeypatch, machine)
    cuda._why_not.cache_clear()
    assert (cuda.device_count(), cuda.current_index()) == (0, 0)
    with pytest.raises(syncblob.NoDeviceError, match=reason):
        Blob(3, device="cuda:0")
    with pytest.raises(syncblob.NoDeviceError, match=reason):
        import_cuda_array(object())
    assert not hasattr(Blob(3), "__cuda_array_interface__")


# --- buffers and transfers ------------------------------------------------------------------------


def test_buffers_are_of_the_device_and_zeros_are_there_for_every_stream(machine, backend):
    with side_stream():
        zeroed, arbitrary = backend.allocate(5, zeroed=True), backend.allocate(5)
        assert machine.idle
        assert zeroed.tolist() == [0] * 5
        assert arbitrary.tolist() == [cuda_model.POISON] * 5
        backend.zero(arbitrary)
    assert arbitrary.tolist() == [0] * 5
    assert (zeroed.dtype, zeroed.device.id) == (np.uint8, 0)
    # All that are empty have the same address.
    empty = backend.allocate(0)
    assert (empty.size, backend.order.known(empty)) == (0, None)


def test_host_buffers_are_page_locked(cupy, backend, machine):
    for zeroed in (False, True):
        buffer = backend.allocate_host(5, zeroed=zeroed)
        attributes = cupy.cuda.runtime.pointerGetAttributes(buffer.ctypes.data)
        assert attributes.type == cupy.cuda.runtime.memoryTypeHost
        assert (buffer.dtype, buffer.shape, buffer.flags.writeable) == (np.uint8, (5,), True)
        assert buffer.tolist() == [0 if zeroed else cuda_model.POISON] * 5
    before = machine.calls["hostAlloc"]
    empty = backend.allocate_host(0)
    assert (empty.size, backend.is_page_locked(empty)) == (0, True)
    assert backend.is_page_locked(np.empty(0, np.uint8))
    assert machine.calls["hostAlloc"] == before


def test_a_scalar_is_filled_on_the_device():
    with syncblob.no_transfers():
        made = [syncblob.asarray(1, dtype=dtype, device="cuda:1") for dtype in DTYPES]
    for blob, dtype in zip(made, DTYPES, strict=True):
        assert (blob.head, blob.device, blob.dtype.name) == (GPU, "cuda:1", dtype)
        assert blob.item() == 1


@pytest.mark.parametrize(
    ("head", "access", "failure"),
    [
        *((CPU, "gpu_data", failure) for failure in ("memcpyAsync", "streamSynchronize")),
        (CPU, "gpu_data", "allocation"),
        *((GPU, "cpu_data", failure) for failure in ("memcpyAsync", "streamSynchronize")),
        (GPU, "cpu_data", "deviceSynchronize"),
    ],
)
def test_an_access_that_fails_changes_nothing(machine, backend, monkeypatch, head, access, failure):
    # Nothing that other tests have left is evicted instead.
    monkeypatch.setattr(backend, "bounded", False)
    blob = blob_in(head)
    if head is GPU:
        launch(add_one, blob.overwrite_gpu_data())
    with machine.failing(**{failure: 1}), pytest.raises((CUDARuntimeError, MemoryError)):
        getattr(blob, access)()
    assert blob.head is head
    assert blob.tolist() == blob.gpu_data().tolist() == (values() + (head is GPU)).tolist()


def test_a_device_without_memory_says_what_is_used_and_what_helps(
    cupy, machine, backend, monkeypatch
):
    monkeypatch.setattr(backend, "bounded", False)
    blob = blob_in(CPU)
    blob.name = "weights"
    with machine.failing(allocation=1), pytest.raises(cupy.cuda.memory.OutOfMemoryError) as caught:
        blob.gpu_data()
    text = str(caught.value)
    assert text.startswith("Out of memory allocating 24 bytes")
    assert re.search(r"; \S+ GiB of the \S+ GiB of cuda:0 are free; ", text)
    assert "gpu_data needs 24 B on cuda:0 for Blob 'weights' of shape (2, 3), float32, 24 " in text
    assert f"at {__file__}:" in text


# --- asynchronous uploads -------------------------------------------------------------------------


def external(cupy, stream):
    with pytest.warns(DeprecationWarning, match="from_external"):
        return cupy.cuda.ExternalStream(stream.ptr)


SPELLINGS = {
    "none": lambda _, _stream: None,
    "stream": lambda _, stream: stream,
    "pointer": lambda _, stream: stream.ptr,
    "protocol": lambda _, stream: types.SimpleNamespace(__cuda_stream__=lambda: (0, stream.ptr)),
    "external": external,
    "the null stream": lambda cupy, _: cupy.cuda.Stream.null,
    "the legacy stream": lambda _, _stream: cuda_model.LEGACY,
    "the per-thread stream": lambda _, _stream: cuda_model.PER_THREAD,
}


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_push_goes_to_the_stream_that_is_named(cupy, machine, spelled):
    stream = side_stream()
    blob = blob_in(CPU)
    blob.async_gpu_push(SPELLINGS[spelled](cupy, stream))
    assert blob.head is SYNCED
    assert machine.idle == machine.eager
    assert blob.gpu_data().tolist() == values().tolist()


@pytest.mark.parametrize("wrong", ["a stream", 2.5, "one of another device"])
def test_what_is_no_stream_here_is_refused_before_anything_changes(cupy, machine, wrong):
    if wrong == "one of another device":
        with cupy.cuda.Device(1):
            wrong = side_stream()
    blob = blob_in(CPU)
    with pytest.raises((TypeError, RuntimeError), match=r"expected a CuPy stream|ResourceHandle"):
        blob.async_gpu_push(wrong)
    assert (blob.head, machine.idle) == (CPU, True)
    assert blob.gpu_data().tolist() == values().tolist()


def test_a_push_to_a_stream_that_is_captured_is_refused_and_the_capture_left_good():
    blob, stream = blob_in(CPU), side_stream()
    blob.gpu_data()
    blob.mutable_cpu_data()
    stream.begin_capture()
    with pytest.raises(RuntimeError, match="an asynchronous upload cannot be part of a CUDA graph"):
        blob.async_gpu_push(stream)
    stream.end_capture()
    assert blob.head is CPU


def test_when_a_push_arrived_is_known_afterwards(machine, backend):
    host, buffer = backend.allocate_host(3), backend.allocate(3)
    gone = weakref.ref(buffer)
    before = time.perf_counter()
    push = backend.push(host, buffer, None)
    arrival = push.arrival
    if not machine.eager:
        assert arrival() is None
    push.wait()
    with side_stream() as stream:
        stream.begin_capture()
        # The event after it is not in the graph.
        assert before <= arrival() <= time.perf_counter()
        assert not stream.end_capture()._nodes
    assert before <= arrival() <= time.perf_counter()
    del push, buffer
    assert gone() is None


def test_a_log_times_the_work_of_the_stream_and_not_the_calls(cupy, machine):
    blob, started = Blob(3, device="cuda:0"), time.perf_counter()
    with record_transfers(operations=True) as log:
        blob.overwrite_cpu_data()
        blob.async_gpu_push()
        blob.gpu_data()
        made = syncblob.zeros(3, device="cuda:0")
    called = time.perf_counter()
    if not machine.eager:
        assert log.operations == []
        time.sleep(0.01)
    cupy.cuda.get_current_stream().synchronize()
    (operation,) = log.operations
    assert (operation.name, operation.device) == ("zeros", "cuda:0")
    assert (operation.start > called) != machine.eager
    assert 0 <= operation.seconds <= time.perf_counter() - started
    assert log[0].arrived is not None
    with record_transfers(operations=True) as later:
        syncblob.zeros(3, device="cuda:0")
    cupy.cuda.get_current_stream().synchronize()
    assert later.operations[0].start > operation.start + operation.seconds
    assert log.operations == [operation]
    assert made.tolist() == [0] * 3


def test_an_array_of_another_device_is_not_this_ones(cupy, backend):
    def function():
        with cupy.cuda.Device(1):
            return cupy.zeros(3)

    array = backend.compute(function)
    assert array.device.id == 1
    assert backend.order.known(array) is None


def test_two_moments_are_measured_by_the_same_event(backend, machine):
    first, last = backend.moment(), backend.moment()
    backend.synchronize()
    later = last()
    with machine.failing(eventCreate=1):
        assert first() <= later == last()


def test_operations_of_a_capture_are_timed_by_their_calls(backend):
    buffer = backend.allocate(3)
    with record_transfers(operations=True) as log, side_stream() as stream:
        stream.begin_capture()
        backend.compute(launch, add_one, buffer)
        stream.end_capture()
    (operation,) = log.operations
    assert (operation.name, operation.seconds < 1) == ("launch", True)


def test_what_follows_on_the_current_stream_is_after_a_push(machine, backend):
    buffer, host = backend.allocate(3), backend.allocate_host(3)
    host[:] = 5
    push = backend.push(host, buffer, None)
    # Whether the push is over. If it is not, the current stream waits for it.
    assert push.arrived == push.order() == machine.eager
    launch(add_one, buffer)
    assert buffer.tolist() == [6] * 3
    assert push.order()
    assert push.arrived
    with backend._cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        # What has arrived can be used in a graph, also if nobody has asked before.
        assert push.arrived
        assert push.order()
        stream.end_capture()
    assert push.over


@pytest.mark.parametrize("cycle", [False, True])
def test_a_push_keeps_its_buffers_until_it_is_over_also_when_it_is_gone(machine, backend, cycle):
    buffer, host = backend.allocate(600), backend.allocate_host(600)
    small, on_host = backend.allocate(3), backend.allocate_host(3)
    address = buffer.data.ptr
    host[:] = 5
    pushes = [backend.push(host, buffer, None)]
    del host, buffer
    gc.collect()
    others = [backend.allocate(600)]
    if cycle:
        # The collector runs the finalisers of all objects that it finds, also that of the event.
        pushes.append(pushes)
    del pushes
    gc.collect()
    others.append(backend.allocate(600))
    assert address not in [other.data.ptr for other in others]
    machine.finish()
    # A transfer lets go of them.
    backend.upload(on_host, small)
    assert backend.allocate(600).data.ptr == address


# --- captures -------------------------------------------------------------------------------------


def test_a_capture_counts_on_the_current_stream_or_if_it_forbids_the_use_of_that(cupy, backend):
    assert not backend.capturing
    stream = cupy.cuda.Stream()
    stream.begin_capture()
    assert backend.capturing
    stream.end_capture()
    assert not backend.capturing
    with side_stream() as stream:
        stream.begin_capture()
        assert backend.capturing
        with pytest.raises(CUDARuntimeError):
            stream.synchronize()
        # The capture is invalid now.
        assert backend.capturing
        with pytest.raises(CUDARuntimeError):
            stream.end_capture()


def test_another_error_is_not_taken_for_a_capture(backend, machine, monkeypatch):
    error = CUDARuntimeError(cuda_model.INVALID_HANDLE)
    monkeypatch.setattr(machine, "streamIsCapturing", fail(error))
    with pytest.raises(CUDARuntimeError, match="InvalidResourceHandle"):
        _ = backend.capturing


def test_a_blob_that_is_ready_is_used_in_a_capture():
    blob = blob_in(GPU)
    with side_stream() as stream:
        stream.begin_capture()
        assert "capturing" in str(blob)
        launch(add_one, blob.mutable_gpu_data())
        graph = stream.end_capture()
    graph.launch(stream)
    graph.launch(stream)
    assert blob.tolist() == (values() + 2).tolist()


# --- arrays over buffers --------------------------------------------------------------------------


def test_a_view_lies_in_its_buffer_as_it_was_asked_to(backend):
    buffer = backend.allocate(24, zeroed=True)
    layout = Layout((2, 2), np.dtype("int16"), (8, -2), 6)
    array = backend.view(buffer, layout, writable=False)
    assert (array.shape, array.dtype, array.strides) == ((2, 2), np.int16, (8, -2))
    assert array.data.ptr == buffer.data.ptr + 6
    assert backend.layout(array, backend.address(buffer)) == layout
    assert backend.overlap(array, buffer)
    assert not backend.overlap(backend.allocate(8), buffer)
    # An array without a base is treated as a new one.
    assert array.base is not None


def test_the_target_of_an_alias_lives_as_long_as_the_last_view_of_it(backend):
    buffer = backend.allocate(24, zeroed=True)
    layout = Layout((6,), np.dtype("int16"), (2,), 12)
    array, target = backend.alias(backend.exporter(buffer), layout)
    gone, alive = weakref.ref(target), weakref.ref(buffer)
    del target, buffer
    assert (array.data.ptr - array.data.mem.ptr, array.device.id) == (12, 0)
    part = array[2:]
    del array
    gc.collect()
    assert gone() is not None
    assert alive() is not None
    assert part.tolist() == [0] * 4
    del part
    gc.collect()
    assert gone() is None
    assert alive() is None


def test_a_view_keeps_the_memory_that_it_was_made_of(cupy, backend):
    array, layout, cuda = cupy.zeros(3, "u1"), Layout.raw(3), cupy.cuda
    gone, views = [], []
    # At the same address, and only the second keeps it.
    for owner in (None, cuda.Stream()):
        memory = cuda.UnownedMemory(array.data.ptr, 3, owner, 0)
        buffer = cupy.ndarray((3,), "u1", cuda.MemoryPointer(memory, 0))
        views.append(backend.own_view(buffer, layout, writable=True))
        gone.append(owner and weakref.ref(owner))
    del owner, memory, buffer
    assert gone[1]() is not None


def test_the_buffer_under_an_array_is_its_bytes(cupy, backend):
    array = cupy.asarray(values())
    buffer = backend.wrap(array)
    assert (buffer.shape, buffer.dtype, buffer.data.ptr) == ((24,), np.uint8, array.data.ptr)
    # What is empty keeps no memory.
    part = backend.wrap(array[:0])
    assert (part.shape, part.data.ptr) == ((0,), 0)
    with cupy.cuda.Device(1):
        elsewhere = cupy.zeros(3)
    with pytest.raises(syncblob.DeviceMismatchError, match=r"shape \(3,\) on cuda:1") as caught:
        backend.wrap(elsewhere)
    assert f"at {__file__}:" in str(caught.value)


# --- two devices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("current", [0, 1])
def test_everything_is_done_on_the_blobs_own_device(cupy, current):
    with cupy.cuda.Device(current):
        blob = blob_in(CPU, device="cuda:1")
        assert blob.gpu_data().device.id == 1
        blob.mutable_cpu_data()[...] = 3
        blob.async_gpu_push()
        assert blob.gpu_data().device.id == 1
        with cupy.cuda.Device(1):
            launch(add_one, blob.mutable_gpu_data())
        assert blob.tolist() == [[4] * 3] * 2
        assert blob.__dlpack_device__() == (2, 1)
        assert cupy.from_dlpack(blob).device.id == 1
        accelerator("cuda:1").synchronize()
        assert cupy.cuda.runtime.getDevice() == current


def on_both(cupy):
    """Return two Blobs with work queued on their devices, and their contents."""
    blobs = [blob_in(GPU, device=f"cuda:{index}") for index in range(2)]
    for index, blob in enumerate(blobs):
        with cupy.cuda.Device(index):
            launch(add_one, blob.mutable_gpu_data())
    return blobs


@pytest.mark.parametrize("peers", [True, False])
def test_a_peer_copy_comes_after_the_work_on_both_devices(cupy, machine, peers):
    machine.peers = peers
    one, other = on_both(cupy)
    with syncblob.record_transfers() as log:
        one.copy_from(other)
        one.on("cuda:1").gpu_data()
    assert [(each.direction, each.device, each.nbytes) for each in log] == [
        ("peer", "cuda:0", 24),
        ("peer", "cuda:1", 24),
    ]
    # Once for each direction, if the devices can.
    one.mutable_gpu_data()
    one.on("cuda:1").gpu_data()
    assert sorted(machine.enabled) == [(0, 1), (1, 0)] * peers
    assert one.tolist() == other.tolist() == (values() + 1).tolist()


@pytest.mark.parametrize("machine", ["lazy"], indirect=True)
def test_a_peer_copy_comes_after_the_last_use_on_any_stream(machine):
    blob = Blob((2, 3), device="cuda:0")
    blob.overwrite_cpu_data()[...] = values()
    blob.prefetch()
    machine.finish()
    with side_stream():
        compute(blob, add_one)
        blob.array_in(blob.home, MUTABLE, "test")
        there = blob.on("cuda:1").array_in(accelerator("cuda:1"), CONST, "test")
    # No bytes were lent.
    assert machine.calls["deviceSynchronize"] == 0
    machine.finish()
    with there.device:
        assert there.tolist() == (values() + 1).tolist()


def test_a_copy_from_another_kind_of_device_goes_through_the_host():
    blob = Blob(3, device="simulated")
    blob.overwrite_gpu_data()[...] = 5
    assert blob.on("cuda:0").gpu_data().get().tolist() == [5] * 3


def test_a_result_that_is_part_of_an_array_leaves_only_where_that_is_asked_for(cupy, backend):
    blob = fresh(Blob, backend.compute(lambda: cupy.full(6, 2, "f4")[:3]), backend)
    # Others may have the whole array.
    assert backend.is_seen(blob.memory.buffer(Side.ACCELERATOR))
    blob.evict()
    assert (blob.head, blob.tolist()) == (CPU, [2] * 3)


def test_a_negative_power_of_an_integer_is_refused_before_it_is_computed(backend):
    def power(*_):
        raise NotImplementedError

    with pytest.raises(ValueError, match="expected non-negative exponents of integers"):
        backend.compute(power, backend.allocate(3), -1)


def test_peers_are_made_known_once(machine, monkeypatch):
    blob, asked, enable = blob_in(GPU), [], machine.deviceEnablePeerAccess
    monkeypatch.setattr(
        machine, "deviceEnablePeerAccess", lambda peer: (asked.append(peer), enable(peer))
    )
    for _ in range(3):
        blob.mutable_gpu_data()
        blob.on("cuda:1").gpu_data()
    assert asked == [0]


@pytest.mark.parametrize("failure", ["memcpyPeerAsync", "streamSynchronize"])
def test_a_peer_copy_that_fails_changes_nothing(cupy, machine, failure):
    one, other = on_both(cupy)
    one.tolist()
    before = one.head, other.head
    with machine.failing(**{failure: 1}), pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        other.on("cuda:0").gpu_data()
    assert (one.head, other.head) == before
    assert other.on("cuda:0").gpu_data().get().tolist() == (values() + 1).tolist()


def test_a_peer_copy_cannot_be_captured(cupy):
    _, other = on_both(cupy)
    other.on("cuda:0").gpu_data()
    other.mutable_gpu_data()
    with side_stream() as stream:
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="a peer copy cannot be part of a CUDA graph"):
            other.on("cuda:0").gpu_data()
        stream.end_capture()
    assert other.on("cuda:0").head is Head.ELSEWHERE


def test_a_simulated_device_copies_from_a_cuda_device_through_the_host():
    blob = blob_in(GPU)
    with syncblob.record_transfers() as log:
        seen = blob.on("simulated:0").gpu_data()
    assert [(each.direction, each.device) for each in log] == [("peer", "simulated:0")]
    assert seen.tolist() == values().tolist()
    blob.on("simulated:0").mutable_gpu_data()[...] = 3
    blob.cpu_data()
    with syncblob.record_transfers() as log:
        assert blob.gpu_data().get().tolist() == [[3] * 3] * 2
    # The host is nearer.
    assert [each.direction for each in log] == ["upload"]


# --- the CUDA array interface ---------------------------------------------------------------------


@pytest.mark.parametrize("const", [False, True])
@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
def test_the_interface_describes_the_memory_on_the_device_each_time(const, head):
    blob = blob_in(head)
    lender = blob.const if const else blob
    described = lender.__cuda_array_interface__
    assert (described["version"], described["strides"]) == (3, None)
    assert (described["shape"], described["typestr"]) == ((2, 3), "<f4")
    state = blob.head
    assert state is (SYNCED if const and head in (CPU, SYNCED) else GPU)
    with syncblob.no_transfers():
        assert lender.__cuda_array_interface__ == described
    assert blob.head is state
    # One `assume_unaliased` ends the exposure of both.
    blob.assume_unaliased()
    with syncblob.record_transfers() as log:
        blob.cpu_data()
        blob.cpu_data()
    assert log.downloads == (state is GPU)
    assert described["data"] == (blob.gpu_data().data.ptr, const)


def test_the_interface_names_the_current_stream():
    blob = blob_in(GPU)
    assert blob.__cuda_array_interface__["stream"] == cuda_model.LEGACY
    with side_stream() as stream:
        assert blob.__cuda_array_interface__["stream"] == stream.ptr


def test_the_interface_has_no_name_for_bfloat16_and_cupys_protocol_has():
    blob = blob_in(CPU, "bfloat16")
    with pytest.raises(AttributeError, match="use DLPack"):
        _ = blob.__cuda_array_interface__
    assert blob.head is CPU
    array = blob.__cupy_get_ndarray__()
    assert array.data.ptr == blob.gpu_data().data.ptr


def test_an_exposed_buffer_outlives_a_growing_resize(cupy):
    blob = blob_in(CPU)
    array = cupy.asarray(blob)
    blob.resize(1000)
    gc.collect()
    noise = [cupy.empty((2, 3), "f4") for _ in range(5)]
    assert array.data.ptr not in [other.data.ptr for other in noise]
    assert array.tolist() == values().tolist()


# --- arrays of other libraries --------------------------------------------------------------------


class Lender:
    """An array of another library that has some of the protocols."""

    def __init__(self, array, *, interface=None, capsule=None):
        self._array = array
        if interface is not None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__ | interface
        if capsule is not None:
            self.__dlpack__ = lambda **keywords: capsule(array.__dlpack__(**keywords))
            self.__dlpack_device__ = array.__dlpack_device__


def read_only(capsule):
    return dlpack_capsules.edit(capsule, flags=dlpack_capsules.READ_ONLY)


def test_an_array_with_gaps_is_copied_on_its_device(cupy):
    array = cupy.asarray(values())[:, ::2]
    with pytest.raises(ValueError, match="copy=False"):
        Blob.asarray(array, copy=False)
    with syncblob.no_transfers():
        blob = Blob.asarray(array)
    assert blob.device == "cuda:0"
    assert blob.tolist() == array.tolist()


LENDERS = {
    "interface": lambda array: Lender(array, interface={}),
    "DLPack": lambda array: Lender(array, capsule=lambda capsule: capsule),
}
READ_ONLY_LENDERS = {
    "interface": lambda array: Lender(array, interface={"data": (array.data.ptr, True)}),
    "DLPack": lambda array: Lender(array, capsule=read_only),
    "unversioned DLPack": lambda array: Lender(array, capsule=lambda _: array.__dlpack__()),
}


def taken(cupy, lend, index):
    """Return an array on a device, and what another library passes for it; cuda:0 is current."""
    with cupy.cuda.Device(index):
        array = cupy.asarray(values())
        lent = lend(array)
        cupy.cuda.Stream.null.synchronize()
    return array, lent


on_each = pytest.mark.parametrize("index", [0, 1])


@on_each
@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("lend", [*LENDERS.values(), lambda array: array], ids=[*LENDERS, "cupy"])
def test_an_array_of_another_library_is_adopted_where_it_is(cupy, lend, copy, index):
    array, lent = taken(cupy, lend, index)
    blob = Blob.asarray(lent, copy=copy)
    assert blob.device == f"cuda:{index}"
    assert blob.gpu_data().data.ptr == array.data.ptr
    with cupy.cuda.Device(index):
        launch(add_one, blob.mutable_gpu_data())
    assert blob.tolist() == array.tolist() == (values() + 1).tolist()


@on_each
@pytest.mark.parametrize("lend", READ_ONLY_LENDERS.values(), ids=READ_ONLY_LENDERS)
def test_an_array_that_must_not_be_written_is_copied_where_it_is(cupy, lend, index):
    array, lent = taken(cupy, lend, index)
    with pytest.raises(ValueError, match="read-only"):
        Blob.asarray(lent, copy=False)
    for copy in (None, True):
        blob = Blob.asarray(lent, copy=copy)
        assert blob.device == f"cuda:{index}"
        with cupy.cuda.Device(index):
            launch(add_one, blob.mutable_gpu_data())
        assert blob.tolist() == (values() + 1).tolist()
    assert array.tolist() == values().tolist()


def test_dlpack_is_asked_for_the_dtype_where_the_interface_has_no_name_for_it(cupy):
    array = cupy.asarray(values("bfloat16"))
    lender = Lender(array.view("u2"), interface={"typestr": "|V2"}, capsule=bfloat16)
    blob = Blob.asarray(lender)
    assert blob.dtype.name == "bfloat16"
    assert blob.tolist() == values("bfloat16").tolist()


def bfloat16(capsule):
    return dlpack_capsules.edit(capsule, code=dlpack_capsules.BFLOAT)


# --- DLPack ---------------------------------------------------------------------------------------


def test_dlpack_makes_a_copy_on_the_device_and_one_for_the_host():
    blob = blob_in(SYNCED)
    blob.const.__dlpack__(copy=True, dl_device=(2, 0), stream=1)
    assert blob.head is SYNCED
    array = np.from_dlpack(blob_in(GPU), device="cpu")
    assert array.tolist() == values().tolist()


@pytest.mark.parametrize("kind", ["a Blob", "const", "a copy"])
def test_the_stream_of_a_dlpack_consumer_waits_for_the_current_one(cupy, kind):
    blob, seen = blob_in(GPU), []
    consumer = side_stream()
    with side_stream():
        launch(add_one, blob.mutable_gpu_data())
        lender = blob.const if kind == "const" else blob
        capsule = lender.__dlpack__(
            stream=consumer.ptr, max_version=(1, 0), copy=True if kind == "a copy" else None
        )
        array = cupy.from_dlpack(Lender(blob.gpu_data(), capsule=lambda _: capsule))
    launch(lambda a: seen.append(a.tolist()), array, stream=consumer)
    consumer.synchronize()
    assert seen == [(values() + 1).tolist()]


@pytest.mark.parametrize("take", [Blob.asarray, Blob.from_dlpack, import_cuda_array])
def test_the_current_stream_waits_for_a_dlpack_producers(cupy, take):
    array, seen = cupy.asarray(values()), []
    cupy.cuda.Stream.null.synchronize()
    producer = side_stream()

    class Producer:
        """A producer that works on its own stream.

        The array is no attribute of the class, because free-threaded Python 3.13 frees no classes.
        """

        def __init__(self, array):
            self.array = array
            self.__dlpack_device__ = array.__dlpack_device__

        def __dlpack__(self, *, stream=None, **keywords):
            with producer:
                launch(add_one, self.array)
                return self.array.__dlpack__(stream=stream, **keywords)

    with side_stream() as stream:
        taken = take(Producer(array))
        taken = taken.gpu_data() if isinstance(taken, Blob) else taken
        launch(lambda a: seen.append(a.tolist()), taken)
        stream.synchronize()
    assert seen == [(values() + 1).tolist()]


def test_the_stream_of_an_interface_is_waited_for(cupy):
    array, seen = cupy.asarray(values()), []
    cupy.cuda.Stream.null.synchronize()
    with side_stream() as producer:
        launch(add_one, array)
        lender = Lender(array, interface={})
    with side_stream() as stream:
        launch(lambda a: seen.append(a.tolist()), Blob.asarray(lender).gpu_data())
        stream.synchronize()
    assert seen == [(values() + 1).tolist()]
    assert producer.done


# --- streams, captures and failures ---------------------------------------------------------------

lazily = pytest.mark.parametrize("machine", ["lazy"], indirect=True)


@lazily
def test_nothing_comes_between_while_a_write_is_ordered_after_an_upload(monkeypatch):
    blob = blob_in(CPU)
    blob.async_gpu_push()
    real, calls, refused = cuda._CudaPush.order, [], []

    def order(push):
        calls.append(push)
        if blob.memory.moving and not refused:
            # Just before the map changes.
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                blob.mutable_cpu_data()
            refused.append(True)
        return real(push)

    monkeypatch.setattr(cuda._CudaPush, "order", order)
    blob.mutable_gpu_data()
    assert refused == [True]


# The copy is queued. Recording the event then fails, and in the second case also the wait.
late = pytest.mark.parametrize(
    "failures", [{}, {"streamSynchronize": 1}], ids=["the event", "the event and the wait"]
)


@lazily
@late
def test_a_push_that_fails_late_does_not_write_into_memory_of_others(machine, backend, failures):
    blob = blob_in(CPU)
    # The first one is after the work that the allocator may still have for the memory.
    with machine.failing(eventRecord=2, **failures), pytest.raises(CUDARuntimeError):
        blob.async_gpu_push()
    gc.collect()
    others = [backend.allocate(24, zeroed=True) for _ in range(3)]
    machine.finish()
    assert [other.tolist() for other in others] == [[0] * 24] * 3
    assert blob.head is CPU
    assert blob.gpu_data().tolist() == values().tolist()


@lazily
def test_the_stream_of_an_interface_is_one_of_its_arrays_device(cupy):
    with cupy.cuda.Device(1):
        array = cupy.asarray(values())
        lender = Lender(array, interface={})
    assert lender.__cuda_array_interface__["stream"] == cuda_model.LEGACY
    taken = import_cuda_array(lender)
    seen = []
    with cupy.cuda.Device(1), side_stream() as stream:
        launch(lambda a: seen.append(a.tolist()), taken)
        stream.synchronize()
    assert seen == [values().tolist()]


ON_THE_HOST = {
    "a Blob": lambda: syncblob.asarray(values()),
    "one to be read": lambda: syncblob.asarray(values()).const,
    "a part": lambda: syncblob.asarray(values())[1:],
    "an untouched one": lambda: Blob((2, 3)),
    "a view for the host": lambda: blob_in(CPU).on("cpu"),
    "what is newest on the device": lambda: blob_in(GPU).on("cpu"),
}


@pytest.mark.parametrize("make", ON_THE_HOST.values(), ids=ON_THE_HOST)
def test_a_blob_of_the_host_has_no_interface_and_asking_touches_nothing(make):
    blob = make()
    before = (blob.head, blob.memory.accelerator)
    with syncblob.no_transfers():
        assert not hasattr(blob, "__cuda_array_interface__")
        # CuPy calls this method instead; `hasattr` does not call it.
        assert hasattr(blob, "__cupy_get_ndarray__")
    assert (blob.head, blob.memory.accelerator) == before


@pytest.mark.parametrize("make", ON_THE_HOST.values(), ids=ON_THE_HOST)
def test_cupy_shares_the_memory_of_a_blob_of_the_host_and_the_alias_is_tracked(cupy, make):
    blob = make()
    expected = blob.tolist()
    array = cupy.asarray(blob)
    assert array.data.ptr == blob.memory.buffer(Side.ACCELERATOR).data.ptr + blob.layout.start
    assert array.get().tolist() == expected
    assert blob.device == "cpu"
    loans = blob.memory.loans
    assert bool(loans.of(Side.ACCELERATOR)) == (not blob.readonly)
    del array
    gc.collect()
    assert not loans.of(Side.ACCELERATOR)


def test_cupy_causes_one_warning_of_an_alias_that_it_leaves_behind(cupy):
    blob = blob_in(CPU)
    alias = np.asarray(blob.cpu)
    with pytest.warns(syncblob.StaleAliasWarning) as caught:
        cupy.asarray(blob.gpu)
    assert len(caught) == 1
    assert alias.tolist() == values().tolist()


# --- waits for kernels ----------------------------------------------------------------------------


@lazily
@pytest.mark.parametrize("start", ["gpu_data", "prefetch"])
def test_a_part_that_comes_to_the_device_for_the_first_time_waits_for_no_kernel(start):
    blob = filled(1, (4, 3), device="cuda:0")
    ran = []
    launch(lambda _: ran.append(1), blob[0].gpu_data(), stream=side_stream())
    getattr(blob[1], start)()
    assert not ran
    blob[0].mutable_cpu_data()[...] = 2
    getattr(blob[0], start)()
    assert ran


@lazily
def test_a_push_is_not_waited_for_in_a_capture_and_goes_on(cupy):
    blob = blob_in(CPU)
    blob.async_gpu_push()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="waiting for an asynchronous transfer"):
            blob.gpu_data()
        stream.end_capture()
    assert blob.head is SYNCED
    assert blob.gpu_data().get().tolist() == values().tolist()


# --- page-locked and managed memory ---------------------------------------------------------------


def test_explain_says_where_host_memory_is_not_page_locked(machine):
    blob = blob_in(CPU)
    assert "page-locked" not in str(blob.explain())
    machine.can_pin = False
    slow = blob_in(CPU)
    assert "not page-locked: copies are slower" in str(slow.explain())
    assert slow.gpu_data().get().tolist() == values().tolist()


def test_an_error_that_is_not_about_memory_comes_up(backend, monkeypatch):
    error = CUDARuntimeError(cuda_model.INVALID_DEVICE)
    monkeypatch.setattr(backend._page_locked, "_lock_memory", fail(error))
    with pytest.raises(CUDARuntimeError, match="cudaErrorInvalidDevice"):
        backend.allocate_host(3)


def test_dlpack_lends_managed_memory_as_that_of_the_device(cupy):
    cupy.cuda.set_allocator(cupy.cuda.malloc_managed)
    managed = blob_in(GPU)
    # PyTorch takes no kDLCUDAManaged, and NumPy would read it without a wait.
    assert managed.__dlpack_device__() == (2, 0)
    assert dlpack_capsules._contents(managed.__dlpack__())[0].device.device_type == 2
    with pytest.raises(BufferError, match=r"one of \[\(1, 0\), \(2, 0\)\], got \(13, 0\)"):
        managed.__dlpack__(dl_device=(13, 0))
    assert cupy.from_dlpack(managed).get().tolist() == values().tolist()


# --- other libraries, and other processes ---------------------------------------------------------

WITHOUT_CUDA = [
    pytest.param(lambda _, blob: blob.to_torch(), id="to_torch"),
    pytest.param(lambda _, blob: blob.to_torch(copy=True), id="a copy"),
    pytest.param(lambda torch, blob: torch.add(blob, blob), id="a function"),
    pytest.param(lambda torch, blob: torch.add(blob, 1, out=blob), id="out"),
    pytest.param(lambda torch, blob: torch.relu_(blob), id="in place"),
    pytest.param(lambda torch, blob: torch.flatten(blob), id="a view"),
]


@pytest.mark.parametrize("use", WITHOUT_CUDA)
def test_a_torch_without_cuda_is_an_error_before_anything_moves(use):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this PyTorch has CUDA")
    blob = blob_in(CPU)
    blob.cpu_data()  # keeps arrays of the host
    with (
        syncblob.no_transfers(),
        pytest.raises(syncblob.NoDeviceError, match=r"PyTorch cannot use cuda:0: .* blob.on"),
    ):
        use(torch, blob)
    assert blob.head is CPU
    assert torch.add(blob.on("cpu"), 1).tolist() == (values() + 1).tolist()


# --- long maps ------------------------------------------------------------------------------------


def test_no_write_on_the_host_ends_a_borrow_of_other_elements_on_the_device():
    """Borrows on the device are not tracked, so a map that is too long stays too long."""
    size = 4 * MAX_SPANS
    blob = Blob(size, "uint8", device="cuda")
    blob.overwrite_gpu_data()[...] = 1
    # One byte on the device between bytes on the host is the smallest span.
    blob[4:5].mutable_cpu_data()
    blob[6:8].mutable_cpu_data()
    borrow = blob[5:6].mutable_gpu_data()
    for place in range(12, size, 4):
        blob[place : place + 2].mutable_cpu_data()
    borrow[...] = 7
    assert blob[4:8].cpu_data().tolist() == [1, 7, 1, 1]


# --- a full device --------------------------------------------------------------------------------


def test_a_limit_evicts_what_nobody_sees(cupy):
    with set_memory_limit("cuda:0", 1500):
        blobs = [Blob(128, "int32", device="cuda:0") for _ in range(5)]
        for value, blob in enumerate(blobs):
            blob.overwrite_gpu_data()[...] = value
        assert [blob.head for blob in blobs] == [Head.HEAD_AT_CPU] * 3 + [Head.HEAD_AT_GPU] * 2
        borrow = blobs[3].mutable_gpu_data()
        alias = cupy.from_dlpack(blobs[4])
        with pytest.raises(MemoryError, match=r"nothing there can be evicted:\n +512 B"):
            blobs[0].gpu_data()
        del alias
        assert blobs[0].gpu_data().get().tolist() == [0] * 128
        assert blobs[4].head is Head.HEAD_AT_CPU
        borrow[...] = 7
    assert blobs[3].tolist() == [7] * 128
    assert cupy.get_default_memory_pool().get_limit() == 0


def result_of_operation(cupy, backend, value):
    """Make a Blob as an operation does; the model computes nothing."""

    def full():
        array = cupy.empty(128, np.int32)
        array[...] = value
        return array

    return fresh(Blob, backend.compute(full), backend)


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[3:], lambda x: x[3:][2:].view("u4")])
def test_what_is_made_of_a_borrow_keeps_its_buffer(cupy, backend, part):
    result, other = result_of_operation(cupy, backend, 2), Blob(128, device="cuda:0")
    kept = part(result.mutable_gpu_data())
    with set_memory_limit("cuda:0", cupy.get_default_memory_pool().used_bytes()):
        with pytest.raises(MemoryError, match=r"an array over it, such as one of gpu_data\(\)"):
            other.gpu_data()
        kept[-1] = 7
        assert result.tolist() == [2] * 127 + [7]
        del kept
        other.gpu_data()
    assert result.tolist() == [2] * 127 + [7]


def test_a_limit_holds_for_what_the_device_tells(backend):
    kept = backend.allocate(512)
    with set_memory_limit("cuda:0", 3000):
        assert backend.room() == (3000 - kept.nbytes, 3000)
        with set_memory_limit("cuda:0", 1000):
            assert backend.room() == (1000 - kept.nbytes, 1000)
        assert backend.room() == (3000 - kept.nbytes, 3000)
    assert backend.room()[1] > 3000


def test_what_can_never_fit_evicts_nothing():
    blob = blob_in(GPU)
    with (
        set_memory_limit("cuda:0", 2000),
        pytest.raises(MemoryError, match=r"cuda:0 can never hold 2\.9 KiB"),
    ):
        Blob(3000, "uint8", device="cuda:0").overwrite_gpu_data()
    assert blob.head is GPU


def test_freed_memory_stays_in_its_pool_during_a_capture(cupy, backend):
    kept, pool = cupy.zeros(1 << 20, "u1"), cupy.get_default_memory_pool()
    cupy.cuda.Device(0).synchronize()
    del kept
    with side_stream() as stream:
        stream.begin_capture()
        # The graph may use it.
        assert not backend.give_back()
        assert pool.free_bytes()
        stream.end_capture()
    assert backend.give_back()
    assert not pool.free_bytes()


def test_memory_that_libraries_keep_is_given_back_before_anything_is_evicted(cupy, machine):
    torch_model = pytest.importorskip("torch_model")
    blob, kept = blob_in(GPU), cupy.zeros(1 << 20, "u1")
    pool = cupy.get_default_memory_pool()
    cupy.cuda.Device(0).synchronize()
    with torch_model.installed() as torch:
        for of_torch in (0, 100):
            torch.cached = of_torch
            kept = None
            with machine.failing(allocation=1):
                other = Blob(4, device="cuda:0")
                other.overwrite_gpu_data()
            assert (torch.cached, pool.free_bytes(), blob.head) == (0, 0, GPU)
        side = side_stream()
        torch.cached = 100
        with side:
            side.begin_capture()
            with pytest.raises(RuntimeError, match="CUDA graph"):
                Blob(4, device="cuda:0").overwrite_gpu_data()
            side.end_capture()
        assert torch.cached == 100
    assert kept is None


def test_another_allocator_evicts_and_has_no_limit_of_ours(cupy):
    """Like RMM's: a function, with an error of its own."""
    pool, in_use = cupy.cuda.MemoryPool(), weakref.WeakSet()

    def allocate(size):
        if sum(each.size for each in in_use) + size > 1536:
            raise MemoryError("std::bad_alloc: out_of_memory: RMM failure")
        pointer = pool.malloc(size)
        in_use.add(pointer.mem)
        return pointer

    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(allocate)
    try:
        with pytest.raises(NotImplementedError, match=r"allocates with .*set a limit of that"):
            set_memory_limit("cuda:0", 1000)
        blobs = [Blob(128, "int32", device="cuda:0") for _ in range(5)]
        for value, blob in enumerate(blobs):
            blob.overwrite_gpu_data()[...] = value
        assert [blob.head for blob in blobs] == [CPU] * 2 + [GPU] * 3
        assert [blob.tolist()[0] for blob in blobs] == [*range(5)]
    finally:
        cupy.cuda.set_allocator(before)


@pytest.mark.usefixtures("small")
def test_a_borrow_of_a_part_keeps_its_window_if_there_is_no_room_for_the_whole():
    blob = filled(3, 1000, "int32", device="cuda:0")
    with set_memory_limit("cuda:0", 2000):
        rows = blob[:10].mutable_gpu_data()
        with pytest.raises(BufferError, match=r"bytes 0 to 40 .* because of a borrowed alias of"):
            blob[5:20].gpu_data()
        rows[...] = 7
        assert blob.cpu_data().tolist() == [7] * 10 + [3] * 990
        assert blob.memory.buffer(1) is None
    del rows
    blob[:11].mutable_gpu_data()
    assert blob.memory.buffer(1) is not None
