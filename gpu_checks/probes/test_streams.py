"""Order: kernels on streams that syncblob does not know, last uses, pushes, zeros."""

import gc

import numpy as np
import pytest

from gpu_checks.device import delay, is_model, side_stream
from syncblob import Blob, Head

STARTS = {
    "gpu_data": lambda blob: blob.gpu_data(),
    "mutable_gpu_data": lambda blob: blob.mutable_gpu_data(),
    "async_gpu_push": lambda blob: blob.async_gpu_push(),
    "async_gpu_push to a stream": lambda blob: blob.async_gpu_push(side_stream()),
    "prefetch": lambda blob: blob.prefetch(),
    "prefetch of a part": lambda blob: blob[:2048].prefetch(),
}


def test_an_upload_is_not_seen_by_a_kernel_that_still_reads(cupy, work):
    # Without any order, such a kernel sees the copy; else this proves nothing.
    runtime, host = cupy.cuda.runtime, np.full(work.size, 9, np.float32)
    array = cupy.zeros(work.size, "float32")
    seen = work.read_late(array, stream := side_stream())
    address, other = host.ctypes.data, side_stream()
    kind = runtime.memcpyHostToDevice
    runtime.memcpyAsync(array.data.ptr, address, host.nbytes, kind, other.ptr)
    other.synchronize()
    stream.synchronize()
    provoked = work.seen(seen) == [9.0]
    for name, start in STARTS.items():
        blob, stream = work.blob(1), side_stream()
        seen = work.read_late(blob.gpu_data(), stream)
        blob.mutable_cpu_data().fill(9)
        start(blob)
        stream.synchronize()
        assert work.seen(seen) == [1.0], name
        assert work.seen(blob.gpu_data()) == [9.0], name
    if not provoked:
        pytest.xfail("a copy without any order was not seen either")


def test_an_operation_on_any_stream_is_waited_for(cupy, work):
    if is_model():
        pytest.skip("needs a GPU: operations compute at once on the model")
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(), side_stream()):
        blob = work.blob(1)
        cupy.cuda.Device(0).synchronize()
        with stream:
            delay(stream)
            total = blob + 1
        blob.mutable_cpu_data().fill(9)
        blob.prefetch()
        stream.synchronize()
        assert set(total.tolist()) == {2.0}
        with stream:
            delay(stream)
            total = blob + 1
        total.prefetch("cpu")
        total += 1
        assert set(np.asarray(total).tolist()) == {11.0}


def test_the_first_zeros_are_seen_on_every_stream(cupy, work):
    for access in ("gpu_data", "mutable_gpu_data", "gpu"):
        # The next memory from the pool is full of sevens.
        used = cupy.full(work.size, 7, "float32")
        cupy.cuda.Device().synchronize()
        del used
        delay(cupy.cuda.Stream.null)
        blob = Blob(work.size, device="cuda:0")
        array = cupy.asarray(blob.gpu) if access == "gpu" else getattr(blob, access)()
        seen = cupy.empty(work.size, "float32")
        with side_stream() as stream:
            seen[...] = array
        stream.synchronize()
        assert work.seen(seen) == [0.0], access


def test_a_push_that_fails_late_frees_nothing_in_use(cupy, backend, work):
    class Failing(cupy.cuda.Stream):
        """A stream that cannot record events."""

        def record(self, event=None):
            del event
            raise OSError("this stream cannot record")

    # Small enough that both sides come from pools, which reuse freed memory.
    blob = Blob(work.size, "uint8", device="cuda:0")
    blob.overwrite_cpu_data().fill(5)
    stream = Failing(non_blocking=True)
    delay(stream)
    with pytest.raises(OSError, match="cannot record"):
        blob.async_gpu_push(stream)
    assert blob.head is Head.HEAD_AT_CPU
    del blob
    gc.collect()
    others = [cupy.zeros(work.size, "uint8") for _ in range(3)]
    hosts = [backend.allocate_host(work.size) for _ in range(3)]
    for host in hosts:
        # The delayed copy would read these new contents of its source.
        host.fill(7)
    cupy.cuda.Device(0).synchronize()
    assert [work.seen(each) for each in others] == [[0.0]] * 3
    assert all((each == 7).all() for each in hosts)


def test_torchs_functions_and_cupys_are_ordered_on_any_streams(cupy, torch, work):
    for stream in (cupy.cuda.Stream.null, side_stream()):
        side = torch.cuda.Stream()
        late = cupy.cuda.Stream.from_external(side)
        blob = work.blob(1)
        tensor = blob.to_torch()
        with torch.cuda.stream(side), stream:
            # torch, then CuPy, then torch, then CuPy: each border orders the two.
            delay(late)
            tensor.add_(1)
            doubled = blob * 2
            delay(stream)
            blob *= 3
            total = torch.add(blob, 1)
            delay(late)
            tensor.add_(1)
            blob *= 2
        torch.cuda.current_stream().wait_stream(side)
        assert set(doubled.tolist()) == {4.0}
        assert set(total.tolist()) == {7.0}
        assert set(blob.tolist()) == {14.0}


def test_torch_reads_the_interface_on_a_side_stream_after_cupys_work(cupy, torch, work):
    side = torch.cuda.Stream()
    blob = work.blob(1)
    with torch.cuda.stream(side):
        array = blob.mutable_gpu_data()
        delay(cupy.cuda.Stream.null)
        array += 1
        tensor = torch.as_tensor(blob, device="cuda:0")
        assert float(tensor.sum()) == 2.0 * work.size


def test_a_training_step_on_a_side_stream_of_torchs(torch, work):
    side = torch.cuda.Stream()
    blob = work.blob(2)
    parameter = blob.as_parameter()
    for _ in range(3):
        # The rule: torch's streams are the user's, as with any tensor.
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            parameter.grad = None
            (parameter * 3).sum().backward()
        torch.cuda.current_stream().wait_stream(side)
        blob.update()
    assert set(blob.tolist()) == {-7.0}


def test_per_thread_default_streams(cupy, work):
    if is_model():
        cupy.cuda.Stream.ptds.use()
    assert cupy.cuda.get_current_stream().ptr == 2
    blob = work.blob(1)
    assert blob.__cuda_array_interface__["stream"] == 2
    array = blob.mutable_gpu_data()
    with side_stream() as stream:
        delay(stream)
        array.fill(8)
    assert set(blob.tolist()) == {8.0}
    assert float(cupy.from_dlpack(blob)[0]) == 8.0
    torch = None if is_model() else pytest.importorskip("torch")
    if torch is not None and torch.cuda.is_available():
        # Its tensors refuse a consumer on stream 2.
        tensor = torch.ones(3, device="cuda:0")
        assert Blob.from_dlpack(tensor).tolist() == [1.0] * 3
        assert torch.add(blob, 1)[0].item() == 9.0
