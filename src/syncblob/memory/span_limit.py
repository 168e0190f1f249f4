"""The limit of spans: an access that would leave too many parts with different heads is widened."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from syncblob.memory.spans import Run, Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncblob.devices.base import Side
    from syncblob.memory.ledger import Ledger

MAX_SPANS = 1024
"""An access that would leave more spans than this is widened to the whole memory.

A map may get longer by pushes, or if arrays are held over many parts, or only a source has many.
"""

_ALL = ~0


def shortened(  # noqa: PLR0913, PLR0917  # an access, and its plan
    ledger: Ledger,
    pieces: Sequence[Run],
    after: Spans,
    side: Side,
    start: int,
    stop: int,
    *,
    moves: bool = True,
) -> tuple[Sequence[Run], Spans]:
    """Widen an access to the whole memory if the map that it would leave is too long.

    The side then lacks nothing that another side holds, apart from bytes that arrays are held over
    or that uploads are under way to, and bytes that only a source has. All that it got, or had, has
    the same holders afterwards. If nothing can move, bytes that several sides hold are left to the
    side alone, or to the others, whichever makes the map shorter.

    Parameters
    ----------
    ledger
        The ledger.
    pieces, after
        What the access copies, and the map that it leaves.
    side, start, stop
        The side and the range of the access.
    moves
        Whether bytes may be copied for this.

    Returns
    -------
    pieces, after
        What the wider access copies, and the map that it leaves.
    """
    count = len(after.holders)
    if count <= (ledger.span_limit or MAX_SPANS):
        if count <= MAX_SPANS // 2:
            ledger.span_limit = min(ledger.span_limit, MAX_SPANS)
        return pieces, after
    buffers, mine = ledger.buffers, 1 << side
    others = [each for each in buffers.all_sides if each is not side]
    in_use = [upload[:2] for upload in ledger.uploads]
    for loans in ledger.loans:
        in_use += loans.ranges()
    kept = Spans.covering(after.nbytes, in_use)
    runs = [*after.runs(0, after.nbytes)]
    free = {
        run
        for run in runs
        if run.holders
        and not (run.start < stop and start < run.stop)
        and not kept.any(run.start, run.stop)
    }

    def change(holders: Callable[[int], int]) -> Spans:
        return after.replaced(
            run._replace(holders=holders(run.holders)) if run in free else run for run in runs
        )

    more: Sequence[Run] = ()
    # Windows may not contain what would be copied, and a copy would end borrows.
    room = buffers.sides[side] or not buffers.windows[side]
    if moves and room and all(map(buffers.tracks_borrows, others)):
        more = [run for run in free if not run.holders & mine]
        common = reduce(and_, [run.holders | mine for run in free], _ALL)
        after = change(lambda _: common)
    else:
        alone = change(lambda held: mine if held & mine else held)
        shared = change(lambda held: held & ~mine or held)
        after = min(alone, shared, key=lambda spans: len(spans.holders))
    # To look at all spans takes long, so the next time is when there are twice as many.
    ledger.span_limit = max(MAX_SPANS, 2 * len(after.holders))
    return sorted([*pieces, *more]), after
