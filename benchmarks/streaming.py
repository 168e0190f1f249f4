"""An array that is larger than the memory of its device, doubled there in parts, and its rivals."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machine import cuda_device
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from benchmarks.transfers import copy_async, pinned_array
from syncblob import Blob, record_transfers, set_memory_limit

ROWS, BRIEF_ROWS = 1024, 16
ROW = 1 << 18
# The array is this many times as large as the limit, and consists of this many parts.
TIMES, PARTS = 4, 16


def measure(timer: Timer) -> Measured:
    """Measure bytes and time of doubling an array in parts within a limit on memory."""
    device = cuda_device()
    shape = (BRIEF_ROWS if timer.brief else ROWS, ROW)
    blob = Blob(shape, device=device or "simulated:0")
    blob.overwrite_cpu_data().fill(1)

    def on_blobs() -> None:
        with set_memory_limit(blob.device, blob.nbytes // TIMES):
            for part in blob.parts(nbytes=blob.nbytes // PARTS):
                operator.imul(part, 2.0)

    with record_transfers() as log:
        on_blobs()
    if blob.cpu_data().min() == 1:
        raise RuntimeError("a part was not doubled")
    blob.mutable_cpu_data().fill(1)
    sizes = f"{blob.nbytes >> 20} MiB through {blob.nbytes // TIMES >> 20} MiB"
    section, least = f"bytes moved, {sizes}", 2 * blob.nbytes
    moved = Row(section, "parts", log.nbytes, "the least possible", least, "bytes", Goal(1.0))
    calls = _on_host(shape) if device is None else _with_cupy(shape)
    times = timer.medians({"parts": on_blobs, **calls}, rounds=7, seconds=0)
    ours = times.pop("parts")
    rows = [Row(f"time, {sizes}", "parts", ours, *rival) for rival in times.items()]
    notes = [] if device else ["there is no CUDA device: copies are those of memory"]
    return Measured([moved, *rows], notes)


def _on_host(shape: tuple[int, int]) -> dict[str, Callable[[], object]]:
    array = np.ones(shape, np.float32)
    step = len(array) // PARTS
    buffer = np.empty_like(array[:step])

    def copies() -> None:
        for start in range(0, len(array), step):
            np.copyto(buffer, array[start : start + step])
            np.multiply(buffer, 2, out=buffer)
            np.copyto(array[start : start + step], buffer)

    return {"NumPy, with a copy there and back": copies}


def _with_cupy(shape: tuple[int, int]) -> dict[str, Callable[[], object]]:
    import cupy  # there is a CUDA device, so CuPy is there

    ordinary = np.ones(shape, np.float32)
    pinned = pinned_array(cupy, ordinary.nbytes).view(np.float32).reshape(shape)
    pinned.fill(1)
    step = len(ordinary) // PARTS
    buffers = [cupy.empty((step, shape[1]), np.float32) for _ in range(3)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in buffers]

    def one_after_another() -> None:
        for start in range(0, len(ordinary), step):
            part: Any = cupy.asarray(ordinary[start : start + step])
            part *= 2
            part.get(out=ordinary[start : start + step])

    def overlapping() -> None:
        for number, start in enumerate(range(0, len(pinned), step)):
            buffer, stream = buffers[number % 3], streams[number % 3]
            host = pinned[start : start + step]
            with stream:
                copy_async(cupy, host, buffer, stream, up=True)
                buffer *= 2
                copy_async(cupy, host, buffer, stream, up=False)
        for stream in streams:
            stream.synchronize()

    return {
        "CuPy, one part after another": one_after_another,
        "CuPy, pinned memory and three streams": overlapping,
    }
