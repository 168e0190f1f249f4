"""The limit of spans: an access that would leave too many parts with different heads joins some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob.memory.spans import Run, Spans

if TYPE_CHECKING:
    from syncblob.devices.base import Side

__all__ = ["MAX_SPANS", "exceeds_limit", "joined"]

MAX_SPANS = 1024
"""An access that would leave more spans than this joins others, and copies as that requires.

A map may get longer if there is a living array over each of its spans.
"""


def exceeds_limit(spans: Spans) -> bool:
    """Return whether a map has more than `MAX_SPANS` spans."""
    return len(spans.holders) > MAX_SPANS


def joined(  # noqa: PLR0913  # an access, and what must stay
    spans: Spans, side: Side | None, start: int, stop: int, kept: Spans, *, source: bool
) -> tuple[list[Run], Spans]:
    """Join spans of a map until it has at most `MAX_SPANS`, or no more can be joined.

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
    while exceeds_limit(spans):
        found = _cheapest_join(spans, side, start, stop, kept)
        # A join that copies nothing would have been found before one that reads a source.
        if found is None or not (found[0].holders or source):
            break
        run, holders = found
        if holders & ~run.holders:
            pieces.append(run)
        spans = spans.put(run.start, run.stop, holders)
    return pieces, spans


def _cheapest_join(
    spans: Spans,
    side: Side | None,
    start: int,
    stop: int,
    kept: Spans,
) -> tuple[Run, int] | None:
    """Find the span of a long map whose join with a neighbour copies the fewest bytes.

    A span that both sides hold may be left to one of them, which moves nothing. Other spans have
    to be copied to a side.

    The parameters are those of `joined`.

    Returns
    -------
    run : Run
        The span.
    holders : int
        Its holders afterwards, which are those of the neighbour. If the side of the access is
        among them and did not hold the span before, the span must be copied to it.
    """
    holder = 0 if side is None else 1 << side
    ends, held = spans.ends, spans.holders
    best: tuple[int, int, int, int] | None = None
    for index, holders in enumerate(held):
        low, high = ends[index - 1] if index else 0, ends[index]
        if low < stop and start < high:
            continue
        for beside in held[max(index - 1, 0) : index + 2 : 2] if index else held[1:2]:
            if not beside or beside & ~(holders | holder):
                continue
            costs = high - low if beside & ~holders else 0
            rank = costs, high - low, index, beside
            if best is not None and best < rank:
                continue
            if not kept.any(low, high):
                best = rank
    if best is None:
        return None
    _, nbytes, index, beside = best
    return Run(ends[index] - nbytes, ends[index], held[index]), beside
