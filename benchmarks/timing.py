"""Timing by turns, so that a machine whose speed drifts treats all alike."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["fastest", "medians", "print_table"]


def medians(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = 15, seconds: float = 0.01
) -> dict[str, float]:
    """Return the median seconds a call, for each of several calls timed in turn.

    Parameters
    ----------
    calls
        What to time, by name.
    rounds
        How often each is timed.
    seconds
        How long one timing takes at least; a call that is faster is repeated.
    """
    samples = _samples(calls, rounds, seconds)
    return {name: statistics.median(values) for name, values in samples.items()}


def fastest(calls: Mapping[str, Callable[[], object]], *, rounds: int = 15) -> dict[str, float]:
    """Return the fewest seconds a call, for each of several calls timed in turn.

    For what waits for a disk: others that use it, and its own housekeeping, only ever add.
    """
    samples = _samples(calls, rounds, seconds=0)
    return {name: min(values) for name, values in samples.items()}


def _samples(
    calls: Mapping[str, Callable[[], object]], rounds: int, seconds: float
) -> dict[str, list[float]]:
    repeats = {name: _repeats(call, seconds) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(_time(call, repeats[name]) / repeats[name])
    return samples


def _time(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - start


def _repeats(call: Callable[[], object], seconds: float) -> int:
    repeats = 1
    while _time(call, repeats) < seconds:
        repeats *= 2
    return repeats


def print_table(title: str, rows: list[tuple[str, float, str, float]]) -> None:
    """Print what was timed, the rival, and the ratio of the two.

    Parameters
    ----------
    title
        The heading.
    rows
        Our call and its seconds, the rival's call and its seconds.
    """
    print(f"\n{title}")
    print(f"  {'ours':<28} {'us':>9}   {'rival':<28} {'us':>9}   {'ratio':>6}")
    for ours, our_seconds, rival, rival_seconds in rows:
        print(
            f"  {ours:<28} {our_seconds * 1e6:>9.3f}   {rival:<28} {rival_seconds * 1e6:>9.3f}"
            f"   {our_seconds / rival_seconds:>6.2f}"
        )
