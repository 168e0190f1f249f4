"""Blobs in their usual state, and the extra cost of calls with Blobs, in calls of ``np.add``."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rows import Row
from syncblob import Blob
from syncblob.devices import CPU, accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.rows import Goal
    from benchmarks.timing import Timer

    # The name of a call, the call with Blobs, and the same with the library's own arrays.
    Pair = tuple[str, Callable[[], object], Callable[[], object]]

__all__ = ["as_blob", "medians", "on_both_sides", "rows_in_adds"]

# The array of ``np.add(a, a)``, whose time is the unit.
_A = np.ones((8, 8), np.float32)


def as_blob(array: np.ndarray) -> Blob:
    """Return a Blob with a copy of an array, used on both sides."""
    blob = Blob(array.shape, array.dtype)
    blob[...] = array
    return on_both_sides(blob)


def on_both_sides(blob: Blob) -> Blob:
    """Read a Blob on its other side, then write it on its own, and return it.

    That is the usual state of a Blob in a program that uses two sides: a Blob with one buffer has
    fewer questions to answer.
    """
    if blob.device == CPU:
        # Not a CUDA device, if there is one: its host buffers differ.
        blob.memory.bind(accelerator("simulated:0"))
        blob.gpu_data()
        blob.mutable_cpu_data()
    else:
        blob.cpu_data()
        blob.mutable_gpu_data()
    return blob


def medians(timer: Timer, calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the result of `Timer.medians`, without the first calls, which import and plan."""
    for call in calls.values():
        call()
    return timer.medians(calls)


def rows_in_adds(
    timer: Timer, library: str, rival: str, pairs: Iterable[Pair], goals: list[Goal]
) -> Iterator[Row]:
    """Time calls with Blobs and the same calls without.

    Parameters
    ----------
    library, rival
        The library of the functions, and the operands of the rival.
    pairs
        The calls.
    goals
        The goals for the median and for the maximum of the extra cost of Blobs.
    """
    section = f"{library}'s functions, in calls of np.add(a, a)"
    extra = []
    for name, ours, theirs in pairs:
        times = medians(timer, {"ours": ours, "rival": theirs, "add": lambda: np.add(_A, _A)})
        value, rival_value = times["ours"] / times["add"], times["rival"] / times["add"]
        extra.append(value - rival_value)
        yield Row(section, name, value, f"the same, {rival}", rival_value, "adds")
    section = f"what Blobs add to {library}'s functions, in calls of np.add(a, a)"
    found = {"median": statistics.median(extra), "worst": max(extra)}
    for (which, value), goal in zip(found.items(), goals, strict=True):
        yield Row(section, f"the {which} of {len(extra)}", value, unit="adds", goal=goal)
