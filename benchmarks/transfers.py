"""How fast contents move: bandwidth beside the bare copy, and uploads during a computation.

On a GPU the bare copy is ``cudaMemcpyAsync`` between page-locked and device memory. Without one the
copies of the simulated device are measured, which are copies in memory, beside ``np.copyto``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import cuda_device
from benchmarks.rows import Goal, Measured, Row
from syncblob import Blob
from syncblob.devices import accelerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing import Timer

__all__ = ["measure"]

SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)
BRIEF_SIZES = (1 << 10,)
# So little that the time is ours.
SMALL = 64
# What a transfer may cost above the copy itself, in seconds.
OWN_TIME = 5e-6
# Parts of a memory that are stale, and what lies between them.
PIECES = 128
PIECE = 1 << 12
GAPS = (1 << 13, 1 << 15, 1 << 17)
# What moves, and what is computed on, while a computation runs.
PUSHED = 1 << 26
WORK = 1 << 22


def measure(timer: Timer) -> Measured:
    """Time uploads and downloads of several sizes, and `async_gpu_push` beside a kernel."""
    device = cuda_device()
    bare: BareCopies = SimulatedCopies() if device is None else CudaCopies()
    rows = [
        row
        for size in (BRIEF_SIZES if timer.brief else SIZES)
        for row in _bandwidth(timer, bare, size)
    ]
    rows += _own_time(timer, bare)
    rows += [row for gap in GAPS for row in _pieces(timer, bare, gap)]
    rows += _overlap(timer, bare)
    notes = [] if device else ["there is no CUDA device: the simulated device's copies are timed"]
    return Measured(rows, notes)


class BareCopies(ABC):
    """The rival: copies without anything around them, and a computation on the device."""

    device: str
    namespace: Any

    @abstractmethod
    def copies(self, nbytes: int) -> dict[tuple[str, str], Callable[[], object]]:
        """Return copies of so many bytes, by direction and name."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device is idle."""


class SimulatedCopies(BareCopies):
    """Copies in memory."""

    device = "simulated:0"
    namespace = np

    def copies(self, nbytes: int) -> dict[tuple[str, str], Callable[[], object]]:
        """Return NumPy's copy, for both directions."""
        host, buffer = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
        return {
            ("upload", "np.copyto"): lambda: np.copyto(buffer, host),
            ("download", "np.copyto"): lambda: np.copyto(host, buffer),
        }

    def synchronize(self) -> None:
        """Do nothing: NumPy has finished when it returns."""


class CudaCopies(BareCopies):
    """Copies by CUDA, from and to page-locked memory, and CuPy's own from and to ordinary one."""

    device = "cuda:0"

    def __init__(self) -> None:
        import cupy  # there is a CUDA device, so CuPy is there

        self.namespace = cupy

    def copies(self, nbytes: int) -> dict[tuple[str, str], Callable[[], object]]:
        """Return CUDA's asynchronous copy, waited for, and CuPy's `set` and `get`."""
        cupy = self.namespace
        runtime = cupy.cuda.runtime
        pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)
        pinned.fill(1)
        ordinary = np.ones(nbytes, np.uint8)
        buffer = cupy.ones(nbytes, np.uint8)

        def copy(*, up: bool) -> None:
            here, there = pinned.ctypes.data, buffer.data.ptr
            kind = runtime.memcpyHostToDevice if up else runtime.memcpyDeviceToHost
            stream = cupy.cuda.get_current_stream()
            runtime.memcpyAsync(*((there, here) if up else (here, there)), nbytes, kind, stream.ptr)
            stream.synchronize()

        def upload_ordinary() -> None:
            buffer.set(ordinary)
            self.synchronize()

        return {
            ("upload", "cudaMemcpyAsync, pinned"): partial(copy, up=True),
            ("upload", "cupy_array.set(ndarray)"): upload_ordinary,
            ("download", "cudaMemcpyAsync, pinned"): partial(copy, up=False),
            ("download", "cupy_array.get(out=ndarray)"): lambda: buffer.get(out=ordinary),
        }

    def synchronize(self) -> None:
        """Wait for all streams."""
        self.namespace.cuda.Device(0).synchronize()


# --- bandwidth ------------------------------------------------------------------------------------


def _bandwidth(timer: Timer, bare: BareCopies, nbytes: int) -> list[Row]:
    blob = Blob(nbytes, "uint8", device=bare.device)
    blob.mutable_cpu_data()[...] = 1

    def upload() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()

    def download() -> None:
        blob.mutable_gpu_data()
        blob.cpu_data()

    rows = []
    copies = bare.copies(nbytes)
    for direction, ours, name in (
        ("upload", upload, "mutable_cpu_data, gpu_data"),
        ("download", download, "mutable_gpu_data, cpu_data"),
    ):
        rivals = {rival: call for (way, rival), call in copies.items() if way == direction}
        times = timer.medians({"ours": ours, **rivals})
        section = f"{direction} of {_size(nbytes)}, more is better"
        rows += [
            Row(section, name, nbytes / times["ours"], rival, nbytes / times[rival], "B/s")
            for rival in rivals
        ]
    return rows


def _own_time(timer: Timer, bare: BareCopies) -> list[Row]:
    """Time a transfer of a few bytes, with both of its accesses, beside the device's copy."""
    blob = Blob(SMALL, "uint8", device=bare.device)

    def there_and_back() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()
        blob.mutable_gpu_data()
        blob.cpu_data()

    backend = accelerator(bare.device)
    host, buffer = backend.allocate_host(SMALL), backend.allocate(SMALL)

    def alone() -> None:
        backend.upload(host, buffer)
        backend.download(buffer, host)

    times = timer.medians({"ours": there_and_back, "alone": alone})
    name = "mutable_cpu_data, gpu_data, mutable_gpu_data, cpu_data"
    section = f"an upload and a download of {_size(SMALL)}"
    goal = Goal(2 * OWN_TIME, "difference")
    return [Row(section, name, times["ours"], "the device's copies", times["alone"], goal=goal)]


def _pieces(timer: Timer, bare: BareCopies, gap: int) -> list[Row]:
    """Time the copies of many pieces, and one copy that takes the gaps between them along.

    That is what a memory decides where more than 64 pieces of it are stale: gaps of at most 32 KiB
    are copied too.
    """
    backend = accelerator(bare.device)
    step = PIECE + gap
    host, buffer = backend.allocate_host(PIECES * step), backend.allocate(PIECES * step)
    host.fill(1)

    def each() -> None:
        for start in range(0, PIECES * step, step):
            backend.upload(host[start : start + PIECE], buffer[start : start + PIECE])

    times = timer.medians({"each": each, "all": lambda: backend.upload(host, buffer)})
    section = f"{PIECES} stale pieces of {_size(PIECE)}, with gaps of {_size(gap)}"
    return [Row(section, "a copy for each", times["each"], "one copy of all", times["all"])]


def _size(nbytes: int) -> str:
    for shift, name in ((20, "MiB"), (10, "KiB")):
        if nbytes >> shift:
            return f"{nbytes >> shift} {name}"
    return f"{nbytes} B"


# --- overlap --------------------------------------------------------------------------------------


def _overlap(timer: Timer, bare: BareCopies) -> list[Row]:
    """Time an upload and a computation of about the same length: at once, and one by one."""
    pushed, work = (1 << 10, 1 << 8) if timer.brief else (PUSHED, WORK)
    xp = bare.namespace
    values = xp.ones(work, np.float32)
    blob = Blob(pushed, "uint8", device=bare.device)
    blob.mutable_cpu_data()[...] = 1

    def upload() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()
        bare.synchronize()

    def compute(repeats: int) -> None:
        for _ in range(repeats):
            xp.sin(values, out=values)

    def computation(repeats: int) -> None:
        compute(repeats)
        bare.synchronize()

    alone = timer.medians({"upload": upload, "once": partial(computation, 1)})
    repeats = max(1, round(alone["upload"] / alone["once"]))

    def at_once() -> None:
        blob.mutable_cpu_data()
        blob.async_gpu_push()
        compute(repeats)
        blob.gpu_data()
        bare.synchronize()

    def one_by_one() -> None:
        upload()
        computation(repeats)

    times = timer.medians(
        {
            "at once": at_once,
            "one by one": one_by_one,
            "upload": upload,
            "computation": partial(computation, repeats),
        }
    )
    section = f"async_gpu_push of {_size(pushed)}, during a computation"
    name = "push, compute, gpu_data"
    return [
        Row(section, name, times["at once"], "gpu_data, then compute", times["one by one"]),
        Row(
            section,
            name,
            times["at once"],
            "the longer of the two alone",
            max(times["upload"], times["computation"]),
        ),
    ]
