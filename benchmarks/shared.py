"""Steps on the host and on a device in turn, on one array in memory that both share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import Blob, NoDeviceError, memory_kind, set_memory_kind
from syncblob.devices import accelerator

# Of float32: 64 MB.
SIZE, BRIEF_SIZE = 16_000_000, 1000
SYCL, SIMULATED = "sycl:0", "simulated:8"


def measure(timer: Timer) -> Measured:
    """Measure the time of two steps, and the memory, on one array, in each kind of memory."""
    try:
        home, notes = accelerator(SYCL), []
        import dpnp as library  # there is a SYCL device, so dpnp is there
    except NoDeviceError as error:
        home, notes, library = accelerator(SIMULATED), [f"a simulated device: {error}"], np
    size = BRIEF_SIZE if timer.brief else SIZE
    blobs, allocated = {}, {}
    for kind in ("shared", "separate"):
        with of_kind(home, kind), counting(home) as counted:
            blobs[kind] = Blob(size, "float32", device=home.device)
            blobs[kind].mutable_cpu_data().fill(1)
            blobs[kind].gpu_data()
        allocated[kind] = sum(counted)
    with of_kind(home, "shared"):
        device: Any = home.allocate(4 * size)
        host = home.share(device).view(np.float32)
        device = device.view(np.float32)

    def on_blob(blob: Blob) -> Callable[[], object]:
        def steps() -> None:
            on_host(blob.mutable_cpu_data())
            on_device(blob.mutable_gpu_data())

        return steps

    def on_device(array: Any) -> None:
        library.multiply(array, 0.5, out=array)

    def without() -> None:
        home.finish(device)
        on_host(host)
        on_device(device)

    host.fill(1)
    alone = "one array in shared memory, without Blobs"
    times = timer.medians(
        {**{kind: on_blob(blob) for kind, blob in blobs.items()}, alone: without}, rounds=15
    )
    if not np.array_equal(blobs["shared"].cpu_data(), blobs["separate"].cpu_data()):
        raise RuntimeError("the results differ")
    section = f"time of a step on the host and one on {home.device}, of {4e-6 * size:.0f} MB"
    ours, other = "a Blob in shared memory", "a Blob with two copies"
    nbytes = float(allocated["shared"])
    rows = [
        Row(section, ours, times["shared"], alone, times[alone], goal=Goal(1.1)),
        Row(section, ours, times["shared"], other, times["separate"]),
        Row("memory", ours, nbytes, other, allocated["separate"], "bytes", Goal(0.5)),
    ]
    return Measured(rows, notes)


def on_host(array: Any) -> None:
    """Make a step on the host."""
    np.add(array, 1, out=array)


@contextmanager
def of_kind(home: Any, kind: str) -> Iterator[None]:
    """Let a device allocate memory of a kind inside a block."""
    before = memory_kind(home.device)
    set_memory_kind(home.device, kind)
    try:
        yield
    finally:
        set_memory_kind(home.device, before)


@contextmanager
def counting(home: Any) -> Iterator[list[int]]:
    """Give the sizes of the buffers that are allocated inside a block."""
    sizes: list[int] = []

    def quantity(allocate: Callable[..., Any]) -> Callable[..., Any]:
        def call(nbytes: int, **keywords: Any) -> Any:
            sizes.append(nbytes)
            return allocate(nbytes, **keywords)

        return call

    home.allocate, home.allocate_host = quantity(home.allocate), quantity(home.allocate_host)
    try:
        yield sizes
    finally:
        del home.allocate, home.allocate_host
