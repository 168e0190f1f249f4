"""Timing in turn, so that a drift in the speed of the machine affects all calls alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


class Timer:
    """Times several calls in turn.

    The usual tools, such as pytest-benchmark and pyperf, time one call after the other, and so
    compare times of different minutes.

    `brief`: Time everything once, with small inputs. This shows that a benchmark runs, and nothing
        about speed.
    """

    def __init__(self, *, brief: bool = False) -> None:
        self.brief = brief

    def medians(
        self,
        calls: Mapping[str, Callable[[], object]],
        *,
        rounds: int = 60,
        seconds: float = 0.0025,
        of: Callable[[Sequence[float]], float] = statistics.median,
    ) -> dict[str, float]:
        """Return the median of seconds per call, for each of several calls.

        `calls`: the calls to time, by name.
        `rounds`: the number of timings of each.
        `seconds`: the minimum duration of one timing. Faster calls are repeated. It is short,
            because the speed of a shared machine changes within milliseconds.
        `of`: another statistic, such as ``min`` for calls that wait for a disk, whose other users
            and housekeeping only add time.
        """
        if self.brief:
            rounds, seconds = 1, 0.0
        repeats = {name: _repeats(call, seconds) for name, call in calls.items()}
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                samples[name].append(_time(call, repeats[name]) / repeats[name])
        return {name: of(values) for name, values in samples.items()}


def _time(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - start


def _repeats(call: Callable[[], object], seconds: float) -> int:
    # The first calls import and plan, and take much longer than the others.
    call()
    call()
    repeats = 1
    while _time(call, repeats) < seconds:
        repeats *= 2
    return repeats
