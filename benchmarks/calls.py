"""What a call costs more with Blobs, in calls of ``np.add``: for the groups of functions."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rows import Row
from syncblob import Blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.rows import Goal
    from benchmarks.timing import Timer

    # The name of a call, the call with Blobs, and the same with the library's own arrays.
    Pair = tuple[str, Callable[[], object], Callable[[], object]]

__all__ = ["as_blob", "medians", "rows_in_adds"]

# The array of ``np.add(a, a)``, in whose time everything is counted.
_A = np.ones((8, 8), np.float32)


def as_blob(array: np.ndarray) -> Blob:
    """Return a Blob of its own with the contents of an array."""
    blob = Blob(array.shape, array.dtype)
    blob[...] = array
    return blob


def medians(timer: Timer, calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return what `Timer.medians` does; the first calls, which import and plan, are not timed."""
    for call in calls.values():
        call()
    return timer.medians(calls)


def rows_in_adds(
    timer: Timer, library: str, rival: str, pairs: Iterable[Pair], goals: list[Goal]
) -> Iterator[Row]:
    """Time calls with Blobs beside the same calls without.

    Parameters
    ----------
    library, rival
        Whose functions they are, and what the rival's operands are.
    pairs
        The calls.
    goals
        For the median and the worst of what Blobs add.
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
