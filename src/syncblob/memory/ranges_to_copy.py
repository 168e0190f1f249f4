"""The bytes that a side lacks: which ones an access copies, at once or by a copy under way.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob.devices import Side
from syncblob.memory.borrows_and_aliases import NO_LOANS
from syncblob.memory.changes import Change, commit
from syncblob.memory.span_limit import shortened
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_aliases import require_announced
from syncblob.memory.transitions import CONST, MUTABLE, OVERWRITE, SMALL, Access, plan_access
from syncblob.memory.uploads import Upload, await_uploads
from syncblob.memory.window_growth import provide
from syncblob.memory.windows import part_of
from syncblob.transfers import open_logs, transfer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger

# The usual number of sides, and how bytes come to each of them from the other.
PAIR = 2
DIRECTIONS = ("download", "upload")


def plan_crossing(  # noqa: C901, PLR0913, PLR0917  # an access; inlined, because calls take time
    ledger: Ledger,
    side: Side,
    access: Access,
    start: int,
    stop: int,
    announced: Collection[Lease],
) -> Change:
    """Plan an access of a side that lacks bytes of the range."""
    before = ledger.spans
    here, there = ledger.loans[side], ledger.others(side)
    mine, nbytes, writes = 1 << side, before.nbytes, access is not CONST
    if writes and there.leases:
        # Check again: an alias may have been made since.
        require_announced(ledger.loans, announced, start, stop, side)
    window = ledger.buffers.sides[side] is None and ledger.buffers.containing(side, start, stop)
    initial = before.uniform == 0 and ledger.source is None and not window
    pieces: Sequence[Run] = ()
    changed = (start, stop)
    # A signal handler may have copied the range to this side since the caller looked.
    held = before.alike(start, stop)
    if initial or not nbytes:
        # The first access allocates and fills a whole buffer.
        changed = (0, nbytes)
        after = Spans.whole(nbytes, mine if initial or writes else before.holders[0] | mine)
    elif held and not held & mine and (writes or not (here.may_be_written or there.may_be_written)):
        # The usual case: the other side holds the whole range.
        if access is not OVERWRITE:
            pieces = (Run(start, stop, held),)
        after = before.put(start, stop, mine if writes else held | mine)
    else:
        # Bytes that an alias writes during the copy must be copied again.
        writers = [
            loans.writers(start, stop) if loans.may_be_written else () for loans in ledger.loans
        ]
        pieces, runs = plan_access(before, side, access, start, stop, writers=writers)
        after = before.replaced(runs) if start < stop else before
    if after is not before and len(after.holders) > 1:
        pieces, after = shortened(ledger, pieces, after, side, start, stop)
    losses: Sequence[tuple[Side, Sequence[tuple[int, int]]]] = ()
    if there is not NO_LOANS and (there.borrows.live or (writes and there.may_be_written)):
        ranges = [piece[:2] for piece in pieces]
        if writes or not nbytes:
            ranges.append(changed)
        for other in ledger.buffers.all_sides:
            if other is not side:
                losses = (*losses, (other, ranges))
    part = stop - start < nbytes
    if pieces and part and side is Side.HOST and nbytes <= SMALL:
        pieces, after = _with_rest(before, pieces, after, start, stop)
    # The caller of an access of a part on the host may reach further, and must not find old bytes
    # of the heap there.
    new = side is Side.HOST and ledger.buffers.sides[side] is None
    zeroed = (initial and access is not OVERWRITE) or (part and (initial or new))
    copies = pieces and (before.uniform or any(piece.holders for piece in pieces))
    copied = DIRECTIONS[side > 0] if copies else ""
    if copied and len(ledger.loans) > PAIR:
        copied = _direction(ledger, side, pieces)
    return Change(
        side,
        before,
        after,
        start,
        stop,
        pieces,
        copied,
        losses,
        writes,
        zeroed,
        _bring,
        counted=True,
    )


def _direction(ledger: Ledger, side: Side, pieces: Sequence[Run]) -> str:
    """Return the direction of copies to a side; of both kinds, ``"peer"``."""
    if not side:
        return DIRECTIONS[0]
    nearest = ledger.buffers.nearest
    peers = any(piece.holders and nearest(side, piece.holders) for piece in pieces)
    return "peer" if peers else "upload"


def _with_rest(
    before: Spans, pieces: Sequence[Run], after: Spans, start: int, stop: int
) -> tuple[Sequence[Run], Spans]:
    """Let bytes come to the host along with pieces of a range, in the same copies.

    These are the bytes before and behind the range that are where those at its ends are.

    Returns
    -------
    pieces
        The pieces to bring.
    after
        The new map. What comes from the other side keeps its holders, because other code may be
        writing it there. What comes from the source is held by the host.
    """
    first, last = pieces[0], pieces[-1]
    low = before.span_of(first.start)[0] if first.start == start else first.start
    high = before.span_of(last.stop - 1)[1] if last.stop == stop else last.stop
    brought = [*pieces]
    brought[0] = first._replace(start=low)
    brought[-1] = brought[-1]._replace(stop=high)
    for piece, outside in ((first, (low, start)), (last, (stop, high))):
        if not piece.holders and outside[0] < outside[1]:
            after = after.put(*outside, 1 << Side.HOST)
    return brought, after


def _bring(ledger: Ledger, change: Change, reason: str) -> tuple[Any, Sequence[Upload]]:
    """Copy or fill the pieces of an access."""
    side, buffers = change.side, ledger.buffers
    buffer = buffers.get(side, change.start, change.stop, zeroed=change.zeroed)
    for start, stop, holders in change.pieces:
        if not holders:
            buffers.fill(ledger.source, side, buffer, start, stop, reason)
            continue
        origin, because = buffers.nearest(side, holders), ""
        if not change.writes and open_logs:
            because = ledger.loans[origin].writer_in(origin, start, stop)
        buffers.bring(origin, side, buffer, start, stop, reason, because)
    return buffer, ()


def push(  # noqa: PLR0913, PLR0917  # a copy
    ledger: Ledger, side: Side, stream: object, start: int, stop: int, reason: str
) -> None:
    """Start to upload the bytes of a range that the host holds and an accelerator lacks."""
    if ledger.buffers.sides[side] is None:
        provide(ledger, side, start, stop, reason)
    await_uploads(ledger, Side.HOST, MUTABLE, start, stop)
    commit(ledger, _plan_push, Side.HOST, MUTABLE, start, stop, reason, side, stream)


def pull(ledger: Ledger, origin: Side, start: int, stop: int, reason: str) -> bool:
    """Start to download the bytes of a range that the host lacks and an accelerator holds.

    Returns
    -------
    bool
        False if the device cannot, if aliases may write into the range, so that the host would not
        hold the newest contents afterwards, or if more than the range has to come along, as in a
        small memory. Nothing has changed then.
    """
    await_uploads(ledger, Side.HOST, MUTABLE, start, stop)
    accelerator: Any = ledger.buffers.home(origin)
    aliased = any([*loans.writers(start, stop)] for loans in ledger.loans)
    nbytes = ledger.spans.nbytes
    more = nbytes <= SMALL and stop - start < nbytes
    if not accelerator.pulls or aliased or more or ledger.watch is not None:
        return False
    commit(ledger, _plan_push, origin, CONST, start, stop, reason, Side.HOST, None)
    return True


def _plan_push(  # noqa: PLR0913, PLR0917  # a copy
    ledger: Ledger,
    side: Side,
    _access: Access,
    start: int,
    stop: int,
    target: Side,
    stream: object,
) -> Change:
    """Plan an asynchronous copy from a side to another."""
    before = ledger.spans
    # An alias of either side may write before the copy arrives, so neither is trusted.
    writers = [w for each in (side, target) for w in ledger.loans[each].writers(start, stop)]
    of_sides = [writers if each in {side, target} else [] for each in ledger.buffers.all_sides]
    lacking, runs = plan_access(before, target, CONST, start, stop, writers=of_sides)
    after = before.replaced(runs if before.nbytes else [Run(0, 0, before.holders[0] | 1 << target)])
    pieces, after = shortened(ledger, lacking, after, target, start, stop, source=False)
    ranges = [piece[:2] for piece in pieces] if before.nbytes else [(0, 0)]
    return Change(
        target,
        before,
        after,
        start,
        stop,
        pieces,
        "upload" if target else "download",
        ((side, ranges),),
        prepare=partial(_start, side, stream),
        counted=True,
        undo=partial(_await_started, side or target),
    )


def _start(
    origin: Side, stream: object, ledger: Ledger, change: Change, reason: str
) -> tuple[Any, Sequence[Upload]]:
    """Start to copy the pieces of a push or a pull."""
    buffers, side = ledger.buffers, change.side
    accelerator: Any = buffers.home(origin or side)
    # A caller on the host may reach beyond a part, and must not find old bytes of the heap there.
    part = change.stop - change.start < change.before.nbytes
    zeroed = side is Side.HOST and buffers.sides[side] is None and part
    buffer = buffers.get(side, change.start, change.stop, zeroed=zeroed)
    copying = buffers.copying(accelerator, reason)
    way, on = ("upload", (stream,)) if side else ("download", ())
    start_copy = accelerator.push if side else accelerator.pull
    uploads = []
    for piece in change.pieces:
        for window in buffers.within(origin, piece.start, piece.stop):
            start, stop = max(piece.start, window.start), min(piece.stop, window.stop)
            parts = part_of(window, start, stop), part_of(buffer, start, stop)
            work = transfer(copying, way, stop - start, start, start_copy, *parts, *on)
            uploads.append(Upload(start, stop, work, side, origin))
    return buffer, uploads


def _await_started(side: Side, ledger: Ledger) -> None:
    """Wait for copies that a failed push or pull has started: no access would.

    They must not arrive when the buffer holds something newer. During a capture none starts, and a
    wait would break the capture.
    """
    accelerator: Any = ledger.buffers.home(side)
    if not accelerator.capturing:
        accelerator.synchronize()
