"""The limit of spans: an access that would leave too many parts with different heads joins some.

A walk over the whole map finds the cheapest. So it joins more spans than the access needs, and the
next walk comes only when the map has grown by as many: an access takes no longer in a long map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob.memory.spans import Run, Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Side
    from syncblob.memory.ledger import Ledger

MAX_SPANS = 1024
"""An access that would leave more spans than this joins others, and copies as that requires.

It leaves three quarters of them. A map may get longer if there are many living arrays.
"""


def shortened(  # noqa: PLR0913, PLR0917  # an access, and its plan
    ledger: Ledger,
    pieces: Sequence[Run],
    after: Spans,
    side: Side | None,
    start: int,
    stop: int,
    *,
    source: bool = True,
) -> tuple[Sequence[Run], Spans]:
    """Shorten the map that a change would leave, if it is too long; see `joined`.

    Returns the pieces with those that must be copied for that, and the map.
    """
    count = len(after.holders)
    if count <= (ledger.span_limit or MAX_SPANS):
        if count <= _joined_count():
            ledger.span_limit = min(ledger.span_limit, MAX_SPANS)
        return pieces, after
    buffers = ledger.buffers
    if side is not None and (
        # They may not contain what would be copied.
        buffers.windows[side]
        # A copy would end borrows of the others, and those are not tracked.
        or not all(buffers.tracks_borrows(each) for each in buffers.all_sides if each is not side)
    ):
        side = None
    in_use = [upload[:2] for upload in ledger.uploads]
    for loans in ledger.loans:
        in_use += loans.ranges()
    kept = Spans.covering(after.nbytes, in_use)
    more, after = joined(after, side, start, stop, kept, source=source)
    # The longer this walk was, the longer the map may get before the next one. To look at a span
    # takes about as long as to sort four arrays. Before the map changes: another thread may be
    # working on a span that loses holders.
    count = len(after.holders)
    ledger.span_limit = max(MAX_SPANS, count + max(count, len(in_use) // 4) // 3)
    return sorted([*pieces, *more]), after


def _joined_count() -> int:
    """Return the number of spans to leave."""
    return MAX_SPANS * 3 // 4


def joined(  # noqa: PLR0913  # an access, and what must stay
    spans: Spans, side: Side | None, start: int, stop: int, kept: Spans, *, source: bool
) -> tuple[list[Run], Spans]:
    """Join spans of a map until a quarter of `MAX_SPANS` is free, or no more can be joined.

    Parameters
    ----------
    spans
        The map that an access of a range would leave.
    side
        The side of the access: spans may be copied to it. None if nothing may move.
    start, stop
        The range of the access. Its holders stay.
    kept
        A map with 1 for bytes whose holders must stay: an alias may write there at any moment, or
        an upload is under way.
    source
        Whether bytes that no side holds may be filled from the source for that.

    Returns
    -------
    pieces : list of Run
        What must be copied to the side.
    spans : Spans
        The map afterwards.
    """
    pieces: list[Run] = []
    while (surplus := len(spans.holders) - _joined_count()) > 0:
        runs = [*spans.runs(0, spans.nbytes)]
        joins = _joins(runs, 0 if side is None else 1 << side, start, stop, kept, source=source)
        if not joins:
            break
        # The cheapest first. A join depends on the neighbours, so they stay until the next walk.
        settled: set[int] = set()
        for _, _, index, holders in sorted(joins):
            if surplus <= 0:
                break
            if index in settled:
                continue
            settled.update((index - 1, index, index + 1))
            run = runs[index]
            if holders & ~run.holders:
                pieces.append(run)
            around = runs[max(index - 1, 0) : index + 2]
            surplus -= sum(beside.holders == holders for beside in around)
            runs[index] = run._replace(holders=holders)
        spans = spans.replaced(runs)
    return pieces, spans


def _joins(  # noqa: PLR0913  # an access, and what must stay
    runs: list[Run], holder: int, start: int, stop: int, kept: Spans, *, source: bool
) -> list[tuple[int, int, int, int]]:
    """Find the spans of a map that can be joined to a neighbour.

    A span that both sides hold may be left to one of them, which moves nothing. Other spans have
    to be copied to the side of the access.

    Parameters
    ----------
    runs
        The spans of the map.
    holder
        The side of the access, as a bit mask; 0 if nothing may move.
    start, stop, kept, source
        As for `joined`.

    Returns
    -------
    list of tuple of int
        For each join, the number of bytes to copy, the length of the span, its index, and its
        holders afterwards, which are those of the neighbour.
    """
    joins: list[tuple[int, int, int, int]] = []
    for index, run in enumerate(runs):
        if (run.start < stop and start < run.stop) or kept.any(run.start, run.stop):
            continue
        for beside in runs[max(index - 1, 0) : index + 2 : 2] if index else runs[1:2]:
            holders = beside.holders
            if not holders or holders & ~(run.holders | holder):
                continue
            copies = holders & ~run.holders
            if run.holders or source or not copies:
                joins.append((run.nbytes if copies else 0, run.nbytes, index, holders))
    return joins
