"""Probes of order: kernels on streams unknown to syncblob, pushes, captures, zeros."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_checks.device import cupy_of_this_machine, delay, is_model, side_stream, warm_up
from gpu_checks.probes.report import probe
from syncblob import Blob, Head
from syncblob.devices import accelerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_checks.probes.report import Report

__all__ = ["captures", "first_zeros", "late_push_failure", "readers", "writers"]

SIZE = 1 << 12


def _blob(value: float, size: int = SIZE) -> Blob:
    """Make a Blob that is the same on both sides."""
    blob = Blob(size, device="cuda:0")
    blob.overwrite_cpu_data().fill(value)
    blob.gpu_data()
    cupy_of_this_machine().cuda.Device(0).synchronize()
    return blob


def _seen(array: Any) -> list[float]:
    """Return the unique values of a device array, at most a few."""
    return [float(value) for value in np.unique(array.get())[:4]]


def _read_late(array: Any, stream: Any) -> Any:
    """Queue a read of an array on a stream, after a delay."""
    cupy = cupy_of_this_machine()
    seen = cupy.zeros(array.shape, array.dtype)
    cupy.cuda.Device().synchronize()
    delay(stream)
    with stream:
        seen[...] = array
    return seen


@probe("does a kernel that still reads see what is uploaded or pushed after it?")
def readers(report: Report) -> None:
    """Start a kernel that reads late, change the host's side, upload, check what was read."""
    cupy = cupy_of_this_machine()
    warm_up()
    _race_is_there(report, cupy)
    starts: dict[str, Callable[[Blob], object]] = {
        "gpu_data": lambda blob: blob.gpu_data(),
        "mutable_gpu_data": lambda blob: blob.mutable_gpu_data(),
        "async_gpu_push": lambda blob: blob.async_gpu_push(),
        "async_gpu_push to a stream": lambda blob: blob.async_gpu_push(side_stream()),
        "prefetch": lambda blob: blob.prefetch(),
    }
    for name, start in starts.items():
        blob, stream = _blob(1), side_stream()
        seen = _read_late(blob.gpu_data(), stream)
        blob.mutable_cpu_data().fill(9)
        start(blob)
        stream.synchronize()
        report.equal(f"{name}: the kernel reads what was there", _seen(seen), [1.0])
        report.equal(f"{name}: the new contents arrive", _seen(blob.gpu_data()), [9.0])
    blob, stream = _blob(1), side_stream()
    seen = _read_late(blob.gpu_data(), stream)
    blob[: SIZE // 2].mutable_cpu_data().fill(9)
    blob[: SIZE // 2].gpu_data()
    stream.synchronize()
    report.equal("a part: the kernel reads what was there", _seen(seen), [1.0])


def _race_is_there(report: Report, cupy: Any) -> None:
    """Show that such a kernel sees an unordered copy. Otherwise the probe proves nothing."""
    runtime = cupy.cuda.runtime
    array, host = cupy.ones(SIZE, "float32"), np.full(SIZE, 9, np.float32)
    cupy.cuda.Device().synchronize()
    stream, other = side_stream(), side_stream()
    seen = _read_late(array, stream)
    runtime.memcpyAsync(
        array.data.ptr, host.ctypes.data, host.nbytes, runtime.memcpyHostToDevice, other.ptr
    )
    other.synchronize()
    stream.synchronize()
    if _seen(seen) != [9.0]:
        report.doubt(f"a copy without any order was not seen either, but {_seen(seen)}")


@probe("does a read on the host wait for a kernel on any stream that writes?")
def writers(report: Report) -> None:
    """Start a kernel that writes late, on streams of three kinds, and read on the host."""
    cupy = cupy_of_this_machine()
    warm_up()
    streams = {
        "the null stream": cupy.cuda.Stream.null,
        "a blocking stream": cupy.cuda.Stream(),
        "a non-blocking stream": side_stream(),
    }
    for name, stream in streams.items():
        blob = _blob(1)
        array = blob.mutable_gpu_data()
        delay(stream)
        with stream:
            array.fill(4)
        report.equal(name, blob.tolist()[:2], [4.0, 4.0])
        alias = cupy.asarray(blob.gpu)
        delay(stream)
        with stream:
            alias.fill(5)
        report.equal(f"{name}, through an alias", blob.tolist()[:2], [5.0, 5.0])
        del alias


@probe("does a kernel on another stream see the first zeros of a buffer?")
def first_zeros(report: Report) -> None:
    """Keep the current stream busy, make a buffer from used memory, read it on another stream."""
    cupy = cupy_of_this_machine()
    warm_up()
    accesses: dict[str, Callable[[Blob], Any]] = {
        "gpu_data": lambda blob: blob.gpu_data(),
        "mutable_gpu_data": lambda blob: blob.mutable_gpu_data(),
        "cupy.asarray(blob.gpu)": lambda blob: cupy.asarray(blob.gpu),
    }
    for name, access in accesses.items():
        # The next memory from the pool is full of sevens.
        used = cupy.full(SIZE, 7, "float32")
        cupy.cuda.Device().synchronize()
        del used
        delay(cupy.cuda.Stream.null)
        array, stream = access(Blob(SIZE, device="cuda:0")), side_stream()
        seen = cupy.empty(SIZE, "float32")
        with stream:
            seen[...] = array
        stream.synchronize()
        report.equal(name, _seen(seen), [0.0])
    blob, stream = _blob(7), side_stream()
    blob.mutable_gpu_data()
    blob.resize(2)
    delay(cupy.cuda.Stream.null)
    blob.resize(SIZE)
    seen = cupy.empty(SIZE, "float32")
    array = blob.gpu_data()
    with stream:
        seen[...] = array
    stream.synchronize()
    report.equal("a Blob that grew again", _seen(seen), [0.0, 7.0])


# Accesses that a capture must refuse: the head before, and the access.
NEEDS: dict[str, tuple[Head, Callable[[Blob], object]]] = {
    "an upload": (Head.HEAD_AT_CPU, lambda blob: blob.gpu_data()),
    "an upload to write": (Head.HEAD_AT_CPU, lambda blob: blob.mutable_gpu_data()),
    "a push": (Head.HEAD_AT_CPU, lambda blob: blob.async_gpu_push()),
    "a push to a stream": (Head.HEAD_AT_CPU, lambda blob: blob.async_gpu_push(side_stream())),
    "a prefetch": (Head.HEAD_AT_CPU, lambda blob: blob.prefetch()),
    "the first zeros": (Head.UNINITIALIZED, lambda blob: blob.mutable_gpu_data()),
    "the first zeros to read": (Head.UNINITIALIZED, lambda blob: blob.gpu_data()),
    "a download": (Head.HEAD_AT_GPU, lambda blob: blob.cpu_data()),
    "a download to write": (Head.HEAD_AT_GPU, lambda blob: blob.mutable_cpu_data()),
}


def _blob_in(head: Head) -> Blob:
    blob = Blob(SIZE, device="cuda:0")
    if head:
        blob.overwrite_cpu_data().fill(1)
    if head is Head.HEAD_AT_GPU:
        blob.mutable_gpu_data()
    return blob


@probe("is what a graph cannot hold refused while one is captured, and the capture left good?")
def captures(report: Report) -> None:
    """Make such accesses between two kernels of a capture, then launch the graph."""
    cupy = cupy_of_this_machine()
    warm_up()
    for name, (head, access) in NEEDS.items():
        blob, work = _blob_in(head), cupy.zeros(SIZE, "float32")
        cupy.cuda.Device().synchronize()
        stream = side_stream()
        graph = None
        with stream:
            stream.begin_capture()
            work += 1
            report.refused(f"{name}: refused", lambda access=access, blob=blob: access(blob))  # type: ignore[misc]  # a closure
            try:
                work += 1
                graph = stream.end_capture()
            except Exception as error:  # noqa: BLE001  # the error is the answer
                report.fault(f"{name}: the capture stays good", error)
                with suppress(Exception):
                    stream.end_capture()
        if graph is not None:
            graph.launch(stream)
            stream.synchronize()
            report.equal(f"{name}: the graph", _seen(work), [2.0])
        expected = [1.0] if head else [0.0]
        report.check(f"{name}: the head", blob.head is head, blob.head)
        report.equal(f"{name}: the contents", sorted(set(blob.tolist())), expected)
        report.equal(f"{name}: the contents on the device", _seen(blob.gpu_data()), expected)


@probe("does a push that fails after its copy was queued free nothing that is in use?")
def late_push_failure(report: Report) -> None:
    """Push to a stream that queues the copy after a delay and then cannot record an event."""
    cupy = cupy_of_this_machine()
    warm_up("float32", "uint8")

    class Failing(cupy.cuda.Stream):  # type: ignore[misc]  # CuPy has no types
        """A stream that cannot record events."""

        def record(self, event: Any = None) -> Any:
            del event
            raise OSError("this stream cannot record")

    # Small enough that both sides come from pools, which reuse freed memory.
    blob = Blob(SIZE, "uint8", device="cuda:0")
    blob.overwrite_cpu_data().fill(5)
    stream = Failing(non_blocking=True)
    delay(stream)
    try:
        blob.async_gpu_push(stream)
    except OSError as error:
        report.check("the failure arrives", "cannot record" in str(error), error)
    else:
        report.doubt("the push has not used the stream's own record")
    report.equal("the head is as it was", blob.head, Head.HEAD_AT_CPU)
    if not is_model():
        report.notes["the stream was idle when the error arrived"] = stream.done
    del blob
    gc.collect()
    backend = accelerator("cuda:0")
    others = [cupy.zeros(SIZE, "uint8") for _ in range(3)]
    hosts = [backend.allocate_host(SIZE) for _ in range(3)]
    for host in hosts:
        # The delayed copy would read these new contents of its source.
        host.fill(7)
    cupy.cuda.Stream.null.synchronize()
    cupy.cuda.Device(0).synchronize()
    report.equal("memory of others on the device", [_seen(each) for each in others], [[0.0]] * 3)
    report.check("memory of others on the host", all((each == 7).all() for each in hosts))  # noqa: PLR2004  # as filled
