"""Timing in turn, so that a drift in the speed of the machine affects all calls alike."""

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
        Time everything once, with small inputs. This shows that a benchmark runs, and nothing about
        speed.
    """

    def __init__(self, *, brief: bool = False) -> None:
        self.brief = brief

    def medians(
        self,
        calls: Mapping[str, Callable[[], object]],
        *,
        rounds: int = 60,
        seconds: float = 0.0025,
    ) -> dict[str, float]:
        """Return the median seconds per call, for each of several calls.

        Parameters
        ----------
        calls
            The calls to time, by name.
        rounds
            The number of timings of each.
        seconds
            The minimum duration of one timing. Faster calls are repeated. It is short, because the
            speed of a shared machine changes within milliseconds.
        """
        samples = self._samples(calls, rounds, seconds)
        return {name: statistics.median(values) for name, values in samples.items()}

    def fastest(
        self, calls: Mapping[str, Callable[[], object]], *, rounds: int = 15
    ) -> dict[str, float]:
        """Return the minimum of seconds per call, for each of several calls.

        For calls that wait for a disk: other users of the disk and its housekeeping only add time.
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
    # The first call may import or build something once, and take much longer than the others.
    call()
    repeats = 1
    while _time(call, repeats) < seconds:
        repeats *= 2
    return repeats
