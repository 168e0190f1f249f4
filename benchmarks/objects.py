"""Many small objects: the bytes that each takes, and the time to make, use and unpickle them."""

import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.calls import torch_of_one_thread, traced
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import Blob

COUNT = 100_000
SHAPE = (16,)
# Of a small list, so that the time does not contain that of a full memory.
LIST = 1_000
ROUNDS = 15

NOTE = (
    f"{COUNT:,} objects of 64 bytes of float32 at a time; bytes as counted by tracemalloc, which "
    "sees the allocations of Python and NumPy, and not those of torch"
)


def measure(timer: Timer) -> Measured:
    """Measure Blobs, ndarrays and tensors side by side."""
    with torch_of_one_thread() as torch:
        return Measured([*_bytes(timer), *_times(timer, torch)], [NOTE])


def written() -> Blob:
    """Return a new Blob after its first write."""
    blob = Blob(SHAPE)
    blob[...] = 1
    return blob


def used() -> Blob:
    """Return a Blob that was written and read."""
    blob = written()
    np.asarray(blob)
    return blob


def on_both_sides() -> Blob:
    """Return a Blob with contents on both sides."""
    blob = Blob(SHAPE, device="simulated:0")
    blob.mutable_cpu_data()[...] = 1
    blob.gpu_data()
    return blob


def _ndarray() -> np.ndarray:
    array = np.empty(SHAPE, np.float32)
    array[...] = 1
    return array


def _bytes(timer: Timer) -> Iterator[Row]:
    count = 10 if timer.brief else COUNT
    rival = _each(_ndarray, count)
    goals: dict[Callable[[], Any], Goal | None] = {
        written: None,
        used: Goal(1000.0, "value"),
        on_both_sides: Goal(1600.0, "value"),
    }
    for make, goal in goals.items():
        name = (make.__doc__ or "").removeprefix("Return a ").removeprefix("new ").rstrip(".")
        yield Row(
            "bytes of an object", name, _each(make, count), "an ndarray", rival, "bytes", goal
        )


def _each(make: Callable[[], Any], count: int) -> float:
    make()
    return traced(lambda: [make() for _ in range(count)])[0] / count


def _times(timer: Timer, torch: Any) -> Iterator[Row]:
    blobs = [written() for _ in range(LIST)]
    arrays = [_ndarray() for _ in range(LIST)]
    lists: dict[str, Any] = {"Blobs": blobs, "ndarrays": arrays}
    if torch:
        lists["tensors"] = [torch.ones(SHAPE) for _ in range(LIST)]
    makers: dict[str, Callable[[], Any]] = {
        "Blobs": lambda: Blob(SHAPE),
        "ndarrays": lambda: np.empty(SHAPE, np.float32),
    }
    if torch:
        makers["tensors"] = lambda: torch.empty(SHAPE)
    yield from _rows("making one", makers, _of_many(makers, timer), None)
    found = _of_many(makers, timer, _fill)
    limit = Goal(12e-6, "value")
    yield from _rows("the first write into a new one, and making it", makers, found, limit)
    stored = {name: pickle.dumps(each) for name, each in lists.items()}
    loads = {name: (lambda each=each: pickle.loads(each)) for name, each in stored.items()}  # noqa: S301  # our own
    yield from _rows(f"unpickling a list of {LIST:,}", loads, timer.medians(loads), Goal(1.0))


def _fill(one: Any) -> None:
    one[...] = 1


def _of_many(
    makers: dict[str, Callable[[], Any]], timer: Timer, use: Callable[[Any], None] | None = None
) -> dict[str, float]:
    """Return the time of each of many new objects, which all stay alive."""
    count = 10 if timer.brief else COUNT
    samples: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(1 if timer.brief else ROUNDS):
        for name, make in makers.items():
            kept = []
            start = time.perf_counter()
            for _ in range(count):
                one = make()
                if use is not None:
                    use(one)
                kept.append(one)
            samples[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(each) for name, each in samples.items()}


def _rows(
    section: str, names: dict[str, Any], times: dict[str, float], goal: Goal | None
) -> Iterator[Row]:
    """Yield a row for each rival. The goal is that of the last: tensors, if torch is there."""
    rivals = [name for name in names if name != "Blobs"]
    for rival in rivals:
        limit = goal if rival == rivals[-1] or "first write" in section else None
        yield Row(section, "Blobs", times["Blobs"], rival, times[rival], goal=limit)
