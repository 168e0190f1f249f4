"""Orders of work on a model of CUDA that once gave wrong values or ended a capture."""

import gc
import warnings

import numpy as np
import pytest
from cuda_model import CUDARuntimeError
from cupy_model import compute, launch, side_stream
from in_threads import in_threads
from made_blobs import filled

import syncblob
from syncblob import Blob, Head
from syncblob.blob.core import fresh
from syncblob.devices import cuda_streams
from syncblob.memory import CONST, room

pytestmark = pytest.mark.usefixtures("machine")
lazily = pytest.mark.parametrize("machine", ["lazy"], indirect=True)
modes = pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "thread-local", "relaxed"])
# The bytes of a Blob of `ready`, which are one block of the pool.
BLOCK = 512


def ready(value, machine, size=128):
    """Return a Blob with a value everywhere, on both sides, and no work under way."""
    blob = filled(value, size, device="cuda:0")
    blob.prefetch()
    machine.finish()
    return blob


def reading(seen):
    return lambda array: seen.append(float(array[0]))


# --- memory that is freed -------------------------------------------------------------------------


@lazily
@pytest.mark.parametrize("end", ["eviction", "deletion"])
@pytest.mark.parametrize("result", [False, True])
def test_memory_is_not_used_again_before_its_last_use_on_another_stream(
    machine, backend, end, result
):
    blob, seen = ready(1, machine), []
    if result:
        blob = fresh(
            Blob, backend.compute(backend.copy, blob.array_in(backend, CONST, "test")), backend
        )
        machine.finish()
    with side_stream() as stream:
        compute(blob, reading(seen))
        if end == "eviction":
            blob.evict()
    del blob
    gc.collect()
    others = [ready_to_overwrite() for _ in range(2)]
    stream.synchronize()
    assert seen == [1]
    # Afterwards it is.
    address = {other.memory.buffer(1).data.ptr for other in others}
    assert backend.allocate(BLOCK).data.ptr not in address
    backend.give_back()
    assert not backend.order.under_way


@lazily
def test_memory_is_not_used_again_before_another_stream_has_copied_it(machine):
    blob, target = ready(1, machine), ready(2, machine)
    with side_stream() as stream:
        target[...] = blob
    del blob
    gc.collect()
    _others = [ready_to_overwrite() for _ in range(2)]
    stream.synchronize()
    assert set(target.tolist()) == {1}


def ready_to_overwrite():
    """Return a Blob of the size of the others, whose new memory is overwritten on its stream."""
    import cupy

    blob = filled(9, 128, device="cuda:0")
    blob.array_in(blob.home, CONST, "test")
    cupy.cuda.Stream.null.synchronize()
    return blob


@lazily
def test_memory_is_not_used_again_while_the_stream_of_its_last_use_is_captured(machine, backend):
    blob, other, seen, stream = ready(1, machine), ready(2, machine), [], side_stream()
    address = blob.memory.buffer(1).data.ptr
    with stream:
        compute(blob, reading(seen))
    stream.begin_capture()
    del blob
    gc.collect()
    # A transfer looks for memory that can be freed.
    other.overwrite_cpu_data()[...] = 3
    other.prefetch()
    assert backend.allocate(BLOCK).data.ptr != address
    stream.end_capture()
    stream.synchronize()
    assert seen == [1]


@lazily
def test_the_old_window_is_not_used_again_before_it_was_copied(machine, backend):
    size = 1 << 20
    blob = filled(1, size, device="cuda:0")
    part = blob[: size // 8]
    part.array_in(backend, CONST, "test")
    part[...] = 3
    machine.finish()
    (old,) = blob.memory.windows(1)
    nbytes, address = old.nbytes, old.array.data.ptr
    del old
    with side_stream():
        # A larger window. The copy from the old one is on this stream.
        larger = blob[: size // 4].array_in(backend, CONST, "test")
    assert backend.allocate(nbytes).data.ptr != address
    # The pool would overwrite it at once.
    seen = []
    backend.compute(launch, reading(seen), larger)
    machine.finish(latest_first=True)
    assert seen == [3]


@lazily
def test_memory_that_is_left_is_waited_for_where_there_is_no_other(machine):
    blob, seen = ready(1, machine), []
    with side_stream():
        compute(blob, reading(seen))
    del blob
    with syncblob.set_memory_limit("cuda:0", BLOCK):
        other = Blob(128, device="cuda:0")
        other.overwrite_gpu_data()
    assert seen == [1]


# --- captures -------------------------------------------------------------------------------------


@lazily
@modes
def test_a_download_does_not_end_a_capture_on_the_stream_of_the_last_use(machine, mode):
    blob, stream = ready(1, machine), side_stream()
    with stream:
        blob[...] = 2
    stream.synchronize()
    stream.begin_capture(mode)
    with pytest.raises(RuntimeError, match="would end the capture"):
        in_threads(lambda: np.asarray(blob))
    stream.end_capture()
    assert np.asarray(blob)[0] == 2


@lazily
@modes
def test_a_prefetch_without_memory_evicts_beside_a_capture(machine, mode):
    other, blob = ready(1, machine), Blob(256, device="cuda:0")
    blob.overwrite_cpu_data()[...] = 2
    stream = side_stream()
    stream.begin_capture(mode)
    with machine.failing(allocation=1):
        in_threads(blob.prefetch)
    stream.end_capture()
    assert (other.head, blob.head) == (Head.HEAD_AT_CPU, Head.SYNCED)
    assert machine.calls["deviceSynchronize"] == 0


@lazily
def test_room_is_made_beside_a_capture_by_what_need_not_be_waited_for(machine, backend):
    lent, free = ready(1, machine), ready(2, machine)
    lent.mutable_gpu_data()
    free[...] = 3
    machine.finish()
    stream = side_stream()
    with stream:
        ready(4, machine).gpu_data()
    stream.begin_capture()
    # First, what the pool keeps is given back.
    assert [room.make_room(backend, "test", 10**9) for _ in range(2)] == [1, 1]
    stream.end_capture()
    assert (lent.head, free.head) == (Head.HEAD_AT_GPU, Head.HEAD_AT_CPU)
    assert free.tolist() == [3] * 128


@lazily
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_what_a_graph_uses_stays_where_it_is(machine, backend, library, monkeypatch):
    torch = pytest.importorskip("torch")
    torch_model = pytest.importorskip("torch_model")
    torch_function = pytest.importorskip("syncblob.calls.torch.make_call")
    blob, seen, stream = ready(1, machine), [], side_stream()
    blob.array_in(backend, CONST, "test")

    def run(call):
        import cupy

        # PyTorch would queue its kernel on its current stream.
        tensor = call._operands[0]
        memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), BLOCK, tensor, 0)
        array = cupy.ndarray((128,), np.float32, cupy.cuda.MemoryPointer(memory, 0))
        launch(reading(seen), array, stream=stream)
        return torch.zeros(1)

    monkeypatch.setattr(torch_function.Call, "_compute", run)
    with torch_model.installed() as streams:
        if library == "cupy":
            with stream, streams.stream(stream):
                stream.begin_capture()
                compute(blob, reading(seen))
                graph = stream.end_capture()
        else:
            with streams.graph(stream, 2) as made:
                torch.sum(blob)
            (graph,) = made
        gc.collect()
        assert room.make_room(backend, "test", 1) == 0
        with pytest.raises(BufferError, match=r"a CUDA graph .* may be launched again"):
            blob.evict()
        for value in (5, 6):
            blob.overwrite_cpu_data()[...] = value
            blob.array_in(backend, CONST, "test")
            machine.finish()
            graph.launch(stream)
            stream.synchronize()
    assert seen == [5, 6]


@lazily
def test_an_upload_waits_for_a_graph_that_reads(machine):
    blob, seen, stream = ready(1, machine), [], side_stream()
    with stream:
        stream.begin_capture()
        compute(blob, reading(seen))
        graph = stream.end_capture()
    graph.launch(other := side_stream())
    blob.overwrite_cpu_data()[...] = 5
    blob.array_in(blob.home, CONST, "test")
    other.synchronize()
    assert seen == [1]


@lazily
def test_a_stream_that_was_used_in_its_capture_only_is_asked_before_a_wait(machine):
    lent, blob, stream = ready(1, machine), ready(2, machine), side_stream()
    lent.mutable_gpu_data()
    with stream:
        stream.begin_capture()
        compute(blob, lambda _: None)
    with pytest.raises(RuntimeError, match="would end the capture"):
        in_threads(lambda: np.asarray(lent))
    stream.end_capture()


@lazily
def test_a_window_that_a_graph_uses_does_not_grow(machine, backend):
    size = 1 << 20
    blob, seen, stream = filled(1, size, device="cuda:0"), [], side_stream()
    part = blob[: size // 8]
    part.array_in(backend, CONST, "test")
    machine.finish()
    with stream:
        stream.begin_capture()
        compute(part, reading(seen))
        graph = stream.end_capture()
    with pytest.raises(BufferError, match="a CUDA graph"):
        blob[: size // 4].array_in(backend, CONST, "test")
    part.overwrite_cpu_data()[...] = 2
    part.array_in(backend, CONST, "test")
    machine.finish()
    graph.launch(stream)
    stream.synchronize()
    assert seen == [2]


def test_memory_of_torchs_is_left_where_it_is_beside_a_capture(machine, backend, monkeypatch):
    torch = pytest.importorskip("torch")
    import torch_model

    with torch_model.installed() as streams:
        streams.cached = 1000

        def empty_cache():
            if machine._captures:
                raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")
            streams.cached = 0

        monkeypatch.setattr(torch.cuda, "empty_cache", empty_cache)
        stream = side_stream()
        stream.begin_capture()
        assert not backend.give_back()
        stream.end_capture()
        assert backend.give_back()


# --- streams --------------------------------------------------------------------------------------


@lazily
def test_a_point_between_a_kernel_of_torchs_and_the_end_of_the_operation_is_not_waited_for(
    machine, backend, monkeypatch
):
    pytest.importorskip("torch")
    import torch_model

    blob, seen, theirs = ready(1, machine), [], side_stream()
    other = ready(1, machine)
    with torch_model.installed() as streams, streams.stream(theirs):
        array, join = blob.array_in(backend, CONST, "test"), backend.order.join

        def joined(**keywords):
            if seen_kernel:
                # Another thread makes a point of this stream before torch's is joined to it.
                in_threads(other_point)
            join(**keywords)

        def other_point():
            other.array_in(backend, CONST, "test")
            backend.order.wait(side_stream(), other.memory.buffer(1))

        seen_kernel = []

        def kernel(of):
            # As a function of torch's does: the kernel is on its stream.
            launch(reading(seen), of, stream=theirs)
            seen_kernel.append(of)

        compute(other, lambda _: None)
        monkeypatch.setattr(backend.order, "join", joined)
        backend.compute(kernel, array)
        monkeypatch.setattr(backend.order, "join", join)
        seen_kernel.clear()
        del array
        blob.overwrite_cpu_data()[...] = 5
        blob.array_in(backend, CONST, "test")
        machine.finish()
    assert seen == [1]


@lazily
def test_a_stream_that_its_owner_has_destroyed_is_not_asked(machine, cupy):
    blob, stream = ready(1, machine), side_stream()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        external = cupy.cuda.ExternalStream(stream.ptr)
    with external:
        blob[...] = 2
    stream.synchronize()
    del external, stream
    gc.collect()
    assert np.asarray(blob)[0] == 2


@lazily
def test_a_use_that_another_thread_notes_meanwhile_is_kept(machine, backend, monkeypatch):
    blob, other, seen = ready(1, machine), ready(1, machine), []
    array, add = blob.array_in(backend, CONST, "test"), cuda_streams.Allocation.add
    compute(other, lambda _: None)

    def meanwhile():
        # A point of the stream, and a use after it.
        backend.order.wait(side_stream(), other.memory.buffer(1))
        backend.compute(launch, reading(seen), array)

    def added(*use):
        monkeypatch.setattr(cuda_streams.Allocation, "add", add)
        in_threads(meanwhile)
        add(*use)

    monkeypatch.setattr(cuda_streams.Allocation, "add", added)
    backend.compute(launch, lambda _: None, array)
    blob.overwrite_cpu_data()[...] = 5
    blob.array_in(backend, CONST, "test")
    machine.finish()
    assert seen == [1]


# --- room -----------------------------------------------------------------------------------------


@lazily
@pytest.mark.parametrize("allocator", [None, "malloc_async", "malloc_managed"])
def test_memory_runs_out_without_a_pool_too(machine, cupy, backend, allocator):
    cupy.cuda.set_allocator(allocator and getattr(cupy.cuda, allocator))
    blob, other = ready(1, machine), Blob(128, device="cuda:0")
    other.overwrite_cpu_data()[...] = 2
    with machine.failing(allocation=1):
        other.prefetch()
    assert blob.head is Head.HEAD_AT_CPU
    blob[...] = 1
    with machine.failing(allocation=1):
        result = syncblob.memory.compute(
            backend, backend.copy, other.array_in(backend, CONST, "test")
        )
    assert result.get()[0] == 2


@lazily
def test_another_error_of_cudas_is_raised_as_it_is(machine, backend):
    blob = ready(1, machine)

    def fail(_):
        raise CUDARuntimeError(400)

    with pytest.raises(CUDARuntimeError, match="InvalidResourceHandle"):
        backend.compute(fail, blob.array_in(backend, CONST, "test"))


@lazily
def test_results_leave_a_full_device(machine, backend):
    blob, results = ready(3, machine), []
    with syncblob.set_memory_limit("cuda:0", 4 * BLOCK):
        for _ in range(8):
            array = syncblob.memory.compute(
                backend, backend.copy, blob.array_in(backend, CONST, "t")
            )
            results.append(fresh(Blob, array, backend))
            del array
    assert [each.head for each in results].count(Head.HEAD_AT_CPU) >= 4
    assert [each.item(5) for each in results] == [3] * 8
