"""The state machine: what an access moves, and who holds the contents afterwards.

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
from typing import TYPE_CHECKING

from syncblob.devices import Side
from syncblob.memory.spans import Run, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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

    @property
    def purpose(self) -> str:
        """What it is for, in words."""
        return ("read", "read and write", "write everything and read nothing")[self]


# For the hot paths: Python 3.11 takes 80 ns to look a member up in its class.
CONST, MUTABLE, OVERWRITE = Access


class Brings(enum.Enum):
    """What an access brings to its side."""

    NOTHING = ""
    INITIAL = "zeros, or the contents of the source"
    COPY = "the bytes of another side"


NOTHING, INITIAL, COPY = Brings
_NONE, _CPU, _GPU, _BOTH = Head.UNINITIALIZED, Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED

# Without adoptions and pushes: what an access brings to its side, and the head afterwards.
# A row for each head; in it, CONST, MUTABLE and OVERWRITE on the host, then on the accelerator.
TABLE: tuple[tuple[tuple[Brings, int], ...], ...] = (
    (
        *((INITIAL, _CPU), (INITIAL, _CPU), (NOTHING, _CPU)),
        *((INITIAL, _GPU), (INITIAL, _GPU), (NOTHING, _GPU)),
    ),
    (
        *((NOTHING, _CPU), (NOTHING, _CPU), (NOTHING, _CPU)),
        *((COPY, _BOTH), (COPY, _GPU), (NOTHING, _GPU)),
    ),
    (
        *((COPY, _BOTH), (COPY, _CPU), (NOTHING, _CPU)),
        *((NOTHING, _GPU), (NOTHING, _GPU), (NOTHING, _GPU)),
    ),
    (
        *((NOTHING, _BOTH), (NOTHING, _CPU), (NOTHING, _CPU)),
        *((NOTHING, _BOTH), (NOTHING, _GPU), (NOTHING, _GPU)),
    ),
)

# The index into a row of the table of the first access on each side.
COLUMNS = (0, len(Access))


def look_up(held: int, side: int, access: Access) -> tuple[Brings, int]:
    """Return by the table what comes to a side, and the holders afterwards; all others are one."""
    mine = 1 << side
    others = held & ~mine
    brings, head = TABLE[(held & mine and 2) | (others and 1)][COLUMNS[1] + access]
    return brings, mine | others if head & 1 else mine


def head_over(spans: Spans, start: int, stop: int, side: Side = Side.ACCELERATOR) -> Head:
    """Return the head of a range, for the host and one accelerator's side."""
    common = spans.common(start, stop)
    if common:
        return Head((common & 1) | (common >> side & 1) << 1) or Head.ELSEWHERE
    return Head.SPLIT if spans.any(start, stop) else Head.UNINITIALIZED


def plan_access(
    spans: Spans, side: Side, access: Access, start: int, stop: int, *, writers: Sequence[Run] = ()
) -> tuple[list[Run], list[Run]]:
    """Apply the table to every run of a range. `writers` may write at any moment.

    Returns the runs to bring to its side, with the sides that hold them, or none if the source
    does, and the holders of the range afterwards.
    """
    holder = 1 << side
    # The bytes that writers of sides reach, by the mask of these sides.
    reached: dict[int, Spans] = {}
    pieces: list[Run] = []
    runs: list[Run] = []
    for run in spans.runs(start, stop):
        brings, holders = look_up(run.holders, side, access)
        if brings is not NOTHING:
            pieces.append(run)
        if brings is COPY and access is CONST and writers:
            for sides in (holder, run.holders):
                if sides not in reached:
                    ranges = [writer[:2] for writer in writers if writer.holders & sides]
                    reached[sides] = Spans.covering(spans.nbytes, ranges)
            runs += _after_copy(run, holder, reached[holder], reached[run.holders])
        else:
            runs.append(run._replace(holders=holders))
    return pieces, runs


def _after_copy(run: Run, holder: int, here: Spans, there: Spans) -> Iterator[Run]:
    """Yield the holders of a run that a const access has copied, with what writers here reach."""
    for part in there.runs(run.start, run.stop):
        if part.holders:
            # Later writes there must be copied again.
            yield Run(part.start, part.stop, run.holders)
            continue
        for rest in here.runs(part.start, part.stop):
            # Later writes on this side make the other copies stale.
            yield Run(rest.start, rest.stop, holder if rest.holders else run.holders | holder)
