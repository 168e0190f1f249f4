"""The map of a memory: which sides hold the newest contents of each byte. Pure arithmetic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Run(NamedTuple):
    """Bytes that the same sides, a bit mask, hold; 0 if no side does."""

    start: int
    stop: int
    holders: int

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.stop - self.start


class Spans:
    """A map of bytes to holders: sorted spans, by their ends. Adjacent ones differ in holders.

    Immutable, so that readers without the lock see a whole one. A map of no bytes has one span,
    because an empty memory has a head too.
    """

    __slots__ = ("ends", "holders", "nbytes", "uniform")

    def __init__(self, ends: tuple[int, ...], holders: tuple[int, ...]) -> None:
        self.ends: tuple[int, ...] = ends
        self.holders: tuple[int, ...] = holders
        self.nbytes: int = ends[-1]
        # The holders of every byte; None if they differ.
        self.uniform: int | None = holders[0] if len(holders) == 1 else None

    @staticmethod
    @lru_cache(maxsize=256)
    def whole(nbytes: int, holders: int) -> Spans:
        """Return a map of one span. Cached, because the same few are needed all the time."""
        return Spans((nbytes,), (holders,))

    @classmethod
    def covering(cls, nbytes: int, ranges: Iterable[tuple[int, int]]) -> Spans:
        """Make a map with 1 for every byte in any of the ranges."""
        runs, place = [], 0
        for start, stop in sorted(ranges):
            low, high = max(start, place), min(stop, nbytes)
            if low < high:
                runs += [Run(place, low, 0), Run(low, high, 1)]
                place = high
        runs.append(Run(place, nbytes, 0))
        return cls.whole(nbytes, 0).replaced(run for run in runs if run.nbytes)

    def alike(self, start: int, stop: int) -> int | None:
        """Return the holders of every byte of a range; None if they differ or it is empty."""
        if start >= stop or self.uniform is not None:
            return self.uniform if start < stop else None
        first, last = self._indices(start, stop)
        return self.holders[first] if first == last else None

    def common(self, start: int, stop: int) -> int:
        """Return the sides that hold every byte of a range; of an empty one, the next byte."""
        if self.uniform is not None:
            return self.uniform
        first, last = self._indices(start, stop)
        return reduce(and_, self.holders[first : last + 1])

    def any(self, start: int, stop: int) -> int:
        """Return the sides that hold any byte of a range; for an empty range, as `common`."""
        if self.uniform is not None:
            return self.uniform
        first, last = self._indices(start, stop)
        return reduce(or_, self.holders[first : last + 1])

    def span_of(self, place: int) -> tuple[int, int]:
        """Return the range of the whole span that a byte lies in."""
        index = bisect_right(self.ends, place)
        return self.ends[index - 1] if index else 0, self.ends[index]

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """Yield the spans of a range, clipped to it. An empty range has none."""
        if start >= stop:
            return
        first, last = self._indices(start, stop)
        for index in range(first, last + 1):
            end = min(self.ends[index], stop)
            yield Run(start, end, self.holders[index])
            start = end

    def lacking(self, start: int, stop: int, holder: int) -> list[Run]:
        """Return the runs of a range that a side, as a bit mask, does not hold."""
        return [run for run in self.runs(start, stop) if not run.holders & holder]

    def replaced(self, runs: Iterable[Run]) -> Spans:
        """Return a map with these runs, in order and without gaps, in place of what is there."""
        runs = list(runs)
        if not runs:
            return self
        start, stop = runs[0].start, runs[-1].stop
        if len(runs) == 1 and stop - start == self.nbytes:
            return Spans.whole(stop, runs[0].holders)
        first, last = self._indices(start, stop)
        ends: Any = list(self.ends[:first])
        held: Any = list(self.holders[:first])
        if start > (ends[-1] if ends else 0):
            ends.append(start)
            held.append(self.holders[first])
        rest = [Run(stop, self.ends[last], self.holders[last])] if stop < self.ends[last] else []
        if not rest and last + 1 < len(self.ends):
            last += 1
            rest = [Run(stop, self.ends[last], self.holders[last])]
        for run in (*runs, *rest):
            if held and held[-1] == run.holders:
                ends[-1] = run.stop
            else:
                ends.append(run.stop)
                held.append(run.holders)
        ends, held = (*ends, *self.ends[last + 1 :]), (*held, *self.holders[last + 1 :])
        return self if held == self.holders and ends == self.ends else Spans(ends, held)

    def put(self, start: int, stop: int, holders: int) -> Spans:
        """Return a map with one run in place of what is there."""
        return self.replaced([Run(start, stop, holders)])

    def left_to(self, start: int, stop: int, holder: int) -> Spans:
        """Return a map in which what a side shares in a range with others is its own alone."""
        if start >= stop and self.nbytes:
            return self
        if self.common(start, stop) & holder:
            return self.put(start, stop, holder)
        return self.replaced(
            run._replace(holders=holder) if run.holders & holder else run
            for run in self.runs(start, stop)
        )

    def without(self, start: int, stop: int, holder: int) -> Spans:
        """Return a map in which a side does not hold a range."""
        runs = self.runs(start, stop)
        return self.replaced(run._replace(holders=run.holders & ~holder) for run in runs)

    def _indices(self, start: int, stop: int) -> tuple[int, int]:
        """Return the indices of the first and the last span of a range."""
        ends = self.ends
        top = len(ends) - 1
        if not top:
            return 0, 0
        first = bisect_right(ends, start, 0, top)
        return first, first if stop <= ends[first] else bisect_left(ends, stop, first, top)

    def __eq__(self, other: object) -> bool:
        """Compare span by span."""
        if not isinstance(other, Spans):
            return NotImplemented
        return self.ends == other.ends and self.holders == other.holders

    def __hash__(self) -> int:
        """Hash all spans."""
        return hash((self.ends, self.holders))

    def __repr__(self) -> str:
        """Show the spans."""
        spans = ", ".join(
            f"{run.start}:{run.stop}={run.holders}" for run in self.runs(0, self.nbytes)
        )
        return f"Spans({spans or f'0:0={self.holders[0]}'})"
