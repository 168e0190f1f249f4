"""Timing by turns, so that a machine whose speed drifts treats all alike."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Timer"]


class Timer:
    """Times several calls in turn.

    Parameters
    ----------
    brief
        Time everything once, and make whatever is measured small: shows that a benchmark runs, and
        nothing about speed.
    """

    def __init__(self, *, brief: bool = False) -> None:
        self.brief = brief

    def medians(
        self,
        calls: Mapping[str, Callable[[], object]],
        *,
        rounds: int = 15,
        seconds: float = 0.01,
    ) -> dict[str, float]:
        """Return the median seconds a call, for each of several calls.

        Parameters
        ----------
        calls
            What to time, by name.
        rounds
            How often each is timed.
        seconds
            How long one timing takes at least; a call that is faster is repeated.
        """
        samples = self._samples(calls, rounds, seconds)
        return {name: statistics.median(values) for name, values in samples.items()}

    def fastest(
        self, calls: Mapping[str, Callable[[], object]], *, rounds: int = 15
    ) -> dict[str, float]:
        """Return the fewest seconds a call, for each of several calls.

        For what waits for a disk: others that use it, and its own housekeeping, only ever add.
        """
        samples = self._samples(calls, rounds, seconds=0)
        return {name: min(values) for name, values in samples.items()}

    def _samples(
        self, calls: Mapping[str, Callable[[], object]], rounds: int, seconds: float
    ) -> dict[str, list[float]]:
        if self.brief:
            rounds, seconds = 1, 0.0
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
