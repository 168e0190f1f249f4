"""Transfers: bandwidth compared with a bare copy, and uploads during a computation.

On a GPU, the bare copy is ``cudaMemcpyAsync`` between page-locked and device memory. Without one,
the simulated device, whose transfers are copies in memory, is compared with ``np.copyto``.
"""

from __future__ import annotations

import statistics
import time
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

__all__ = ["copy_async", "measure", "pinned_array"]

SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 28)
BRIEF_SIZES = (1 << 10,)
# So few bytes that the time is syncblob's own.
SMALL = 64
# The goal for the cost of a transfer above the copy itself, in seconds.
OWN_TIME = 5e-6
# The sizes of a push and of the computation during it.
PUSHED = 1 << 26
WORK = 1 << 22
# Repeats of a computation on another stream, so that it takes longer than an upload.
REPEATS = 500


def measure(timer: Timer) -> Measured:
    """Time uploads and downloads of several sizes, and `async_gpu_push` during a kernel."""
    device = cuda_device()
    bare: BareCopies = SimulatedCopies() if device is None else CudaCopies()
    rows = [
        row
        for size in (BRIEF_SIZES if timer.brief else SIZES)
        for row in _bandwidth(timer, bare, size)
    ]
    rows += _own_time(timer, bare)
    rows += _overlap(timer, bare)
    if isinstance(bare, CudaCopies):
        rows += _whole_device(timer, bare)
    notes = [] if device else ["there is no CUDA device: the simulated device's copies are timed"]
    return Measured(rows, notes)


class BareCopies(ABC):
    """The rival: copies without anything around them, and a computation on the device."""

    device: str
    namespace: Any

    @abstractmethod
    def copies(self, nbytes: int) -> dict[tuple[str, str], Callable[[], object]]:
        """Return copies of `nbytes` bytes, by direction and name."""

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
        """No-op: NumPy calls are synchronous."""


class CudaCopies(BareCopies):
    """Copies by CUDA with page-locked memory, and CuPy's own with pageable memory."""

    device = "cuda:0"

    def __init__(self) -> None:
        import cupy  # there is a CUDA device, so CuPy is there

        self.namespace = cupy

    def copies(self, nbytes: int) -> dict[tuple[str, str], Callable[[], object]]:
        """Return CUDA's asynchronous copy with a wait, and CuPy's `set` and `get`."""
        cupy = self.namespace
        pinned = pinned_array(cupy, nbytes)
        pinned.fill(1)
        ordinary = np.ones(nbytes, np.uint8)
        buffer = cupy.ones(nbytes, np.uint8)

        def copy(*, up: bool) -> None:
            stream = cupy.cuda.get_current_stream()
            copy_async(cupy, pinned, buffer, stream, up=up)
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

    def pushed_by_hand(self, nbytes: int) -> Callable[[Callable[[], object]], None]:
        """Return a function that computes during an upload, as written for CuPy."""
        cupy = self.namespace
        pinned, buffer = pinned_array(cupy, nbytes), cupy.empty(nbytes, np.uint8)
        pinned.fill(1)
        side = cupy.cuda.Stream(non_blocking=True)

        def push(compute: Callable[[], object]) -> None:
            current = cupy.cuda.get_current_stream()
            side.wait_event(current.record())
            copy_async(cupy, pinned, buffer, side, up=True)
            compute()
            current.wait_event(side.record())
            self.synchronize()

        return push


def pinned_array(cupy: Any, nbytes: int) -> np.ndarray[Any, Any]:
    """Return bytes in page-locked memory from CuPy's pool."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)


def copy_async(
    cupy: Any, host: np.ndarray[Any, Any], device: Any, stream: Any, *, up: bool
) -> None:
    """Start a copy between contiguous arrays of equal length on a stream."""
    runtime = cupy.cuda.runtime
    here, there = host.ctypes.data, device.data.ptr
    if up:
        runtime.memcpyAsync(there, here, host.nbytes, runtime.memcpyHostToDevice, stream.ptr)
    else:
        runtime.memcpyAsync(here, there, host.nbytes, runtime.memcpyDeviceToHost, stream.ptr)


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
    """Time a transfer of a few bytes, with both of its accesses, against the device's copy."""
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


def _size(nbytes: int) -> str:
    for shift, name in ((20, "MiB"), (10, "KiB")):
        if nbytes >> shift:
            return f"{nbytes >> shift} {name}"
    return f"{nbytes} B"


# --- overlap --------------------------------------------------------------------------------------


def _overlap(timer: Timer, bare: BareCopies) -> list[Row]:
    """Time an upload and a computation of about the same length, overlapped and in sequence."""
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

    calls: dict[str, Callable[[], object]] = {
        "at once": at_once,
        "one by one": one_by_one,
        "upload": upload,
        "computation": partial(computation, repeats),
    }
    if isinstance(bare, CudaCopies):
        calls["by hand"] = partial(bare.pushed_by_hand(pushed), partial(compute, repeats))
    times = timer.medians(calls)
    section = f"async_gpu_push of {_size(pushed)}, during a computation"
    name = "push, compute, gpu_data"
    rivals = {
        "gpu_data, then compute": times["one by one"],
        "the longer of the two alone": max(times["upload"], times["computation"]),
    }
    if "by hand" in times:
        rivals["cudaMemcpyAsync, pinned, on a stream of its own"] = times["by hand"]
    return [Row(section, name, times["at once"], *rival) for rival in rivals.items()]


# --- order ----------------------------------------------------------------------------------------


def _whole_device(timer: Timer, bare: CudaCopies) -> list[Row]:
    """Time the cost of ordering an upload after all work on the device.

    A kernel that still reads may be on any stream, so `wait_for_work` waits for all of them. On an
    idle device that is a call; if another stream computes, it is the rest of that computation.
    """
    pushed, work = (1 << 10, 1 << 8) if timer.brief else (PUSHED, WORK)
    cupy, backend = bare.namespace, accelerator(bare.device)
    host, buffer = backend.allocate_host(SMALL), backend.allocate(SMALL)

    def ordered() -> None:
        backend.wait_for_work()
        backend.upload(host, buffer)

    idle = timer.medians({"ordered": ordered, "alone": lambda: backend.upload(host, buffer)})
    blob = Blob(pushed, "uint8", device=bare.device)
    blob.mutable_cpu_data()[...] = 1
    pinned, target = pinned_array(cupy, pushed), cupy.empty(pushed, np.uint8)
    values = cupy.ones(work, np.float32)
    stream, own = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))

    def compute() -> None:
        # Several times as long as the upload.
        with stream:
            for _ in range(REPEATS):
                cupy.sin(values, out=values)

    def upload() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()

    def by_hand() -> None:
        copy_async(cupy, pinned, target, own, up=True)
        own.synchronize()

    def during(call: Callable[[], object]) -> float:
        """Return the seconds until a call returns while another stream computes."""
        bare.synchronize()
        compute()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    rounds = 1 if timer.brief else 15
    times: dict[str, list[float]] = {"ours": [], "by hand": []}
    for _ in range(rounds):
        times["ours"].append(during(upload))
        times["by hand"].append(during(by_hand))
    bare.synchronize()
    ours, rival = (statistics.median(times[name]) for name in ("ours", "by hand"))
    return [
        Row(
            f"an upload of {_size(SMALL)} after the whole device, which is idle",
            "wait_for_work, upload",
            idle["ordered"],
            "upload",
            idle["alone"],
        ),
        Row(
            f"an upload of {_size(pushed)} while another stream computes",
            "mutable_cpu_data, gpu_data",
            ours,
            "cudaMemcpyAsync, pinned, on a stream of its own",
            rival,
        ),
    ]
