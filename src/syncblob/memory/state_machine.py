"""The map of who holds the newest contents, and the state machine: what an access moves.

Every byte has Caffe's head, a bit mask of the sides that hold the newest contents. An access names
a side, an intent and a range, and `TABLE` is applied to each run of bytes with equal holders in the
range.

The table is that of the host and one accelerator. With several accelerators, a const access adds
its side to the holders and copies from the nearest one; any other access leaves its side alone.

While an alias or an exposure may write into a range of one side, a const access of the other side
copies the overlap every time and leaves its holders as they are, so that later writes are seen.

All columns except the overwrite ones are Caffe's (``src/caffe/syncedmem.cpp``). A memory that is
always accessed as a whole is Caffe's machine, transition for transition and copy for copy.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.devices import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Run(NamedTuple):
    """Bytes that the same sides, a bit mask, hold; 0 if no side does."""

    start: int
    stop: int
    holders: int

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.stop - self.start


@dataclass(init=False, slots=True, unsafe_hash=True)
class Spans:
    """A map of bytes to holders: sorted spans, by their ends. Adjacent ones differ in holders.

    Immutable, so that readers without the lock see a whole one. A map of no bytes has one span,
    because an empty memory has a head too.
    """

    ends: tuple[int, ...]
    holders: tuple[int, ...]
    nbytes: int = field(compare=False)
    # The holders of every byte; None if they differ.
    uniform: int | None = field(compare=False)

    def __init__(self, ends: tuple[int, ...], holders: tuple[int, ...]) -> None:
        self.ends = ends
        self.holders = holders
        self.nbytes = ends[-1]
        self.uniform = holders[0] if len(holders) == 1 else None

    @staticmethod
    @lru_cache(maxsize=256)
    def whole(nbytes: int, holders: int) -> Spans:
        """Return a map of one span. Cached, because the same few are needed all the time."""
        return Spans((nbytes,), (holders,))

    @classmethod
    def covering(cls, nbytes: int, runs: Iterable[Run]) -> Spans:
        """Make a map of every byte to the holders of all runs over it, together."""
        steps = []
        for run in runs:
            if run.start < run.stop:
                steps += [(run.start, run.holders, 1), (min(run.stop, nbytes), run.holders, -1)]
        place, made = 0, []
        over: dict[int, int] = {}
        for step, holders, change in sorted(steps):
            if place < step <= nbytes:
                made.append(Run(place, step, reduce(or_, [each for each in over if over[each]], 0)))
                place = step
            over[holders] = over.get(holders, 0) + change
        return cls.whole(nbytes, 0).replaced(made)

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

    def head(self, start: int = 0, stop: int | None = None, side: Side = Side.ACCELERATOR) -> Head:
        """Return the head of a range, for the host and one accelerator's side."""
        stop = self.nbytes if stop is None else stop
        common = self.common(start, stop)
        if common:
            return Head((common & 1) | (common >> side & 1) << 1) or Head.ELSEWHERE
        return Head.SPLIT if self.any(start, stop) else Head.UNINITIALIZED

    def span_of(self, place: int) -> tuple[int, int]:
        """Return the range of the whole span that a byte lies in."""
        index = bisect_right(self.ends, place)
        return self.ends[index - 1] if index else 0, self.ends[index]

    def runs(self, start: int, stop: int) -> list[Run]:
        """Return the spans of a range, clipped to it. An empty range has none."""
        if start >= stop:
            return []
        first, last = self._indices(start, stop)
        if first == last:
            return [Run(start, stop, self.holders[first])]
        stops = [*self.ends[first:last], stop]
        return [*map(Run, [start, *stops], stops, self.holders[first : last + 1])]

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
        # The span that reaches its start, and the one that goes on from its stop.
        first, last = bisect_left(self.ends, start), bisect_right(self.ends, stop)
        ends: Any = list(self.ends[:first])
        held: Any = list(self.holders[:first])
        if start:
            ends.append(start)
            held.append(self.holders[first])
        rest = [Run(stop, self.ends[last], self.holders[last])] if stop < self.nbytes else []
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

    def left_to(self, start: int, stop: int, holder: int, alike: int) -> Spans:
        """Return a map in which what alike sides share in a range with others is one's alone."""
        if not self.nbytes and self.holders[0] & alike:
            return Spans.whole(0, holder)
        return self.changed(start, stop, lambda held: holder if held & alike else held)

    def changed(self, start: int, stop: int, change: Callable[[int], int]) -> Spans:
        """Return a map with the result of a function of its holders for each run of a range."""
        runs = self.runs(start, stop)
        return self.replaced(Run(run.start, run.stop, change(run.holders)) for run in runs)

    def _indices(self, start: int, stop: int) -> tuple[int, int]:
        """Return the indices of the first and the last span of a range."""
        ends, top = self.ends, len(self.ends) - 1
        first = bisect_right(ends, start, 0, top)
        return first, first if stop <= ends[first] else bisect_left(ends, stop)


# --- the table ------------------------------------------------------------------------------------


class Head(enum.IntEnum):
    """Where the newest contents are: on the host, on the Blob's accelerator, or on both.

    The numbers are Caffe's, except those of SPLIT and ELSEWHERE, which Caffe lacks. SPLIT means
    that no side holds all of the contents: some parts are newer on one and some on another, or some
    were never accessed. ELSEWHERE means that only another accelerator holds all of them.
    """

    UNINITIALIZED = 0
    HEAD_AT_CPU = 1 << Side.HOST
    HEAD_AT_GPU = 1 << Side.ACCELERATOR
    SYNCED = HEAD_AT_CPU | HEAD_AT_GPU
    SPLIT = 4
    ELSEWHERE = 5

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Access(enum.IntEnum):
    """What the caller of an access may do with the bytes: its column of `TABLE`."""

    CONST = 0
    MUTABLE = 1
    OVERWRITE = 2


# For the hot paths: Python 3.11 takes 80 ns to look a member up in its class.
CONST, MUTABLE, OVERWRITE = Access


_GPU, _BOTH = Head.HEAD_AT_GPU, Head.SYNCED

# Without adoptions and pushes: whether bytes come to the accelerator, and the head afterwards. What
# comes are the bytes of the host, or the initial contents if it has none. A row for each head; in
# it, CONST, MUTABLE and OVERWRITE there. For the host it is the same, with the sides exchanged.
TABLE: tuple[tuple[tuple[bool, int], ...], ...] = (
    ((True, _GPU), (True, _GPU), (False, _GPU)),
    ((True, _BOTH), (True, _GPU), (False, _GPU)),
    ((False, _GPU), (False, _GPU), (False, _GPU)),
    ((False, _BOTH), (False, _GPU), (False, _GPU)),
)


def look_up(held: int, side: int, access: Access) -> tuple[bool, int]:
    """Return by the table if bytes come to a side, and the holders afterwards; others are one."""
    mine = 1 << side
    others = held & ~mine
    brings, head = TABLE[2 * bool(held & mine) + bool(others)][access]
    return brings, mine | others if head & 1 else mine


def plan_access(
    spans: Spans, side: Side, access: Access, start: int, stop: int, *, writers: Sequence[Run] = ()
) -> tuple[list[Run], list[Run]]:
    """Apply the table to every run of a range. `writers` may write at any moment.

    Returns the runs to bring to its side, with the sides that hold them, or none if the source
    does, and the holders of the range afterwards.
    """
    mine = 1 << side
    reached = Spans.covering(spans.nbytes, writers) if writers else spans
    pieces: list[Run] = []
    runs: list[Run] = []
    for run in spans.runs(start, stop):
        brings, holders = look_up(run.holders, side, access)
        if brings:
            pieces.append(run)
        # Only after a copy for a const access several sides hold what writers reach.
        copies = writers and brings and run.holders and access is CONST
        for low, high, reach in reached.runs(*run[:2]) if copies else [(*run[:2], 0)]:
            if reach & run.holders:
                # Later writes there must be copied again.
                runs.append(Run(low, high, run.holders))
            else:
                # Later writes on this side make the other copies stale.
                runs.append(Run(low, high, mine if reach & mine else holders))
    return pieces, runs
