"""Transfers: bandwidth compared with a bare copy, and uploads during a computation.

On a GPU, the bare copy is ``cudaMemcpyAsync`` between page-locked and device memory. Without one,
the simulated device, whose transfers are copies in memory, is compared with ``np.copyto``.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from benchmarks.machine import cuda_device
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import Blob, max_transfers, record_transfers
from syncblob._formatting import human_bytes
from syncblob.devices import accelerator

SIZES, BRIEF_SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 28), (1 << 10,)
# So few bytes that the time is syncblob's own.
SMALL = 64
# The transfers while a log is open, which opens rarely.
MANY = 100
# The goals for the cost of a transfer above the copy itself, in seconds: on the simulated device,
# and on a GPU, where it looks for captures and for work of others.
OWN_TIME, OWN_TIME_ON_GPU = 5e-6, 7.5e-6
# The sizes of pushes. Small ones do not pay.
PUSHED, BRIEF_PUSHED = (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 26), (1 << 10,)


def measure(timer: Timer) -> Measured:
    """Time uploads and downloads of several sizes, and `async_gpu_push` during a kernel."""
    device = cuda_device()
    sizes = BRIEF_SIZES if timer.brief else SIZES
    rows = [row for size in sizes for row in _bandwidth(timer, device, size)]
    rows += _own_time(timer, device or "simulated:0")
    for size in BRIEF_PUSHED if timer.brief else PUSHED:
        rows += _overlap(timer, device, size)
    if device is not None:
        rows += [row for size in sizes[:3] for row in _loop(timer, device, size)]
    notes = [] if device else ["there is no CUDA device: the simulated device's copies are timed"]
    return Measured(rows, notes)


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


def _rivals(device: str | None, nbytes: int) -> dict[str, dict[str, Callable[[], object]]]:
    """Return copies without anything around them, by direction and name."""
    ordinary = np.ones(nbytes, np.uint8)
    if device is None:
        buffer = np.ones(nbytes, np.uint8)
        return {
            "upload": {"np.copyto": lambda: np.copyto(buffer, ordinary)},
            "download": {"np.copyto": lambda: np.copyto(ordinary, buffer)},
        }
    import cupy  # there is a CUDA device, so CuPy is there

    pinned, array = pinned_array(cupy, nbytes), cupy.ones(nbytes, np.uint8)
    pinned.fill(1)

    def copy(*, up: bool) -> None:
        stream = cupy.cuda.get_current_stream()
        copy_async(cupy, pinned, array, stream, up=up)
        stream.synchronize()

    def upload_ordinary() -> None:
        array.set(ordinary)
        cupy.cuda.Device(0).synchronize()

    name = "cudaMemcpyAsync, pinned"
    return {
        "upload": {name: partial(copy, up=True), "cupy_array.set(ndarray)": upload_ordinary},
        "download": {
            name: partial(copy, up=False),
            "cupy_array.get(out=ndarray)": lambda: array.get(out=ordinary),
        },
    }


def _written(nbytes: int, device: str) -> Blob:
    blob = Blob(nbytes, "uint8", device=device)
    blob.mutable_cpu_data()[...] = 1
    return blob


def _bandwidth(timer: Timer, device: str | None, nbytes: int) -> list[Row]:
    blob = _written(nbytes, device or "simulated:0")

    def upload() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()

    def download() -> None:
        blob.mutable_gpu_data()
        blob.cpu_data()

    names = {
        "upload": (upload, "mutable_cpu_data, gpu_data"),
        "download": (download, "mutable_gpu_data, cpu_data"),
    }
    rows = []
    for direction, rivals in _rivals(device, nbytes).items():
        ours, name = names[direction]
        times = timer.medians({"ours": ours, **rivals})
        speed = {key: nbytes / seconds for key, seconds in times.items()}
        section = f"{direction} of {human_bytes(nbytes)}, more is better"
        rows += [Row(section, name, speed["ours"], one, speed[one], "B/s") for one in rivals]
    return rows


def _own_time(timer: Timer, device: str) -> list[Row]:
    """Time a transfer of a few bytes, with both of its accesses, against the device's copy.

    And against itself while a log or a guard is open, and after a `prefetch`.
    """
    blob = Blob(SMALL, "uint8", device=device)

    def there_and_back() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()
        blob.mutable_gpu_data()
        blob.cpu_data()

    backend = accelerator(device)
    host, buffer = backend.allocate_host(SMALL), backend.allocate(SMALL)

    def alone() -> None:
        backend.upload(host, buffer)
        backend.download(buffer, host)

    def many(context: Callable[[], Any]) -> None:
        with context():
            for _ in range(MANY):
                there_and_back()

    def upload() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()

    def prefetched() -> None:
        blob.mutable_cpu_data()
        blob.prefetch()
        blob.gpu_data()

    times = timer.medians({"ours": there_and_back, "alone": alone})
    name = "mutable_cpu_data, gpu_data, mutable_gpu_data, cpu_data"
    section = f"an upload and a download of {human_bytes(SMALL)}"
    own_time = OWN_TIME_ON_GPU if device.startswith("cuda") else OWN_TIME
    goal = Goal(2 * own_time, "difference")
    rows = [Row(section, name, times["ours"], "the device's copies", times["alone"], goal=goal)]
    contexts: dict[str, Callable[[], Any]] = {
        "no log": nullcontext,
        "record_transfers": record_transfers,
    }
    contexts["max_transfers"] = partial(max_transfers, 2 * MANY)
    times = timer.medians({name: partial(many, context) for name, context in contexts.items()})
    plain = times.pop("no log")
    section = f"{MANY} of them, while a log or a guard is open"
    rows += [Row(section, key, time, "no log", plain, goal=Goal(2)) for key, time in times.items()]
    times = timer.medians({"prefetch": prefetched, "none": upload})
    section = f"an upload of {human_bytes(SMALL)}, with and without prefetch"
    name = "mutable_cpu_data, prefetch, gpu_data"
    goal = Goal(4 * own_time, "difference")
    return [
        *rows,
        Row(section, name, times["prefetch"], "without prefetch", times["none"], goal=goal),
    ]


def _overlap(timer: Timer, device: str | None, pushed: int) -> list[Row]:
    """Time an upload and a computation of about the same length, overlapped and in sequence."""
    work = pushed >> 4
    xp: Any = np
    if device is not None:
        import cupy as xp  # there is a CUDA device, so CuPy is there
    values = xp.ones(work, np.float32)
    blob = _written(pushed, device or "simulated:0")

    def wait() -> None:
        if device is not None:
            xp.cuda.Device(0).synchronize()

    def upload() -> None:
        blob.mutable_cpu_data()
        blob.gpu_data()
        wait()

    def compute(repeats: int) -> None:
        for _ in range(repeats):
            xp.sin(values, out=values)

    def computation(repeats: int) -> None:
        compute(repeats)
        wait()

    alone = timer.medians({"upload": upload, "once": partial(computation, 1)})
    repeats = max(1, round(alone["upload"] / alone["once"]))

    def at_once() -> None:
        blob.mutable_cpu_data()
        blob.async_gpu_push()
        compute(repeats)
        blob.gpu_data()
        wait()

    def one_by_one() -> None:
        upload()
        computation(repeats)

    calls: dict[str, Callable[[], object]] = {"ours": at_once, "gpu_data, then compute": one_by_one}
    times = timer.medians({**calls, "upload": upload, "work": partial(computation, repeats)})
    times["the longer of the two alone"] = max(times.pop("upload"), times.pop("work"))
    ours = times.pop("ours")
    section = f"async_gpu_push of {human_bytes(pushed)}, during a computation"
    # Small ones do not pay.
    goal = Goal(1.2) if pushed >= 1 << 22 else None
    return [Row(section, "push, compute, gpu_data", ours, *one, goal=goal) for one in times.items()]


def _loop(timer: Timer, device: str, nbytes: int) -> list[Row]:
    """Time a step of a loop that computes and reads the result, with its allocations."""
    import cupy  # there is a CUDA device, so CuPy is there

    x, array, pinned = (
        _written(nbytes, device),
        cupy.ones(nbytes, np.uint8),
        pinned_array(cupy, nbytes),
    )
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: np.asarray(x + x),
        "get()": lambda: (array + array).get(),  # noqa: PLW0108  # the sum belongs to the call
        "get(out=pinned)": lambda: (array + array).get(out=pinned),
    }
    times = timer.medians(calls)
    ours = times.pop("ours")
    section = f"a result of {human_bytes(nbytes)} read in a loop"
    goals = {"get()": Goal(1.4), "get(out=pinned)": Goal(2.0)}
    return [
        Row(section, "np.asarray(x + x)", ours, name, time, goal=goals[name])
        for name, time in times.items()
    ]
