"""What an access copies to a side that lacks bytes, and which borrows of other sides it ends.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.devices import Side
from syncblob.memory.borrows_and_aliases import NO_LOANS
from syncblob.memory.span_limit import shortened
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_alias_warning import require_announced
from syncblob.memory.state_machine import CONST, OVERWRITE, Access, plan_access
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from syncblob.memory.await_async_copies import Upload
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.buffers import Windows
    from syncblob.memory.ledger import Ledger

# The usual number of sides, and how bytes come to each of them from the other.
PAIR = 2
DIRECTIONS = ("download", "upload")

SMALL = 1 << 14
"""Of a memory of at most so many bytes, what lies beside a part comes to the host with it.

That takes hardly longer: ``python -m benchmarks regions`` compares the two. Consumers that are
given a view, and reach the rest of its base, find the newest contents there. Libraries that
compute on accelerators are not known to do that, and a larger upload would wait for more work.
"""


class Change(NamedTuple):
    """A change of the state of a memory, as planned.

    Attributes
    ----------
    side
        The side that gets bytes.
    before, after
        The maps.
    start, stop
        The range of the access.
    pieces
        The runs to copy to the side, with the sides that hold them. A run that no side holds is
        filled from the source.
    copied
        The direction of the copies; empty if there are none.
    losses
        The sides whose contents become stale, with the ranges. Borrows of these lose their write
        permission.
    writes
        Whether aliases lose it too, and exposures of these sides end.
    zeroed
        Whether the side's buffer is filled with zeros first.
    prepare
        A function of the ledger, the change and the reason. It does what can fail, and returns the
        windows that the side gets, and the uploads that it has started. None if there is nothing to
        prepare.
    undo
        A function of the ledger that is called if `prepare` or anything after it fails.
    between
        The map while the side gets another buffer, or none; None if the buffer stays.
    counted
        Whether open logs count what it avoids.
    needed
        The bytes that it allocates, for an error; None for those of the whole memory.
    """

    side: Side
    before: Spans
    after: Spans
    start: int
    stop: int
    pieces: Sequence[Run] = ()
    copied: str = ""
    losses: Sequence[tuple[Side, Sequence[tuple[int, int]]]] = ()
    writes: bool = False
    zeroed: bool = False
    prepare: Callable[[Ledger, Change, str], tuple[Any, Sequence[Upload]]] | None = None
    undo: Callable[[Ledger], None] | None = None
    between: Spans | None = None
    counted: bool = False
    needed: int | None = None


def plan(  # noqa: PLR0913, PLR0917  # an access
    ledger: Ledger,
    side: Side,
    access: Access,
    start: int,
    stop: int,
    announced: Collection[set[Lease]],
) -> Change:
    """Plan an access, of which `commit` does not know all by the table. Changes nothing."""
    before = ledger.spans
    there = ledger.others(side)
    mine, nbytes, writes = 1 << side, before.nbytes, access is not CONST
    if writes and there.leases:
        # Check again: an alias may have been made since.
        require_announced(ledger.loans, announced, start, stop, side)
    new = ledger.buffers.sides[side] is None
    window = side and new and ledger.buffers.containing(side, start, stop)
    initial = before.uniform == 0 and ledger.source is None and not window
    pieces: Sequence[Run] = ()
    changed = (start, stop)
    if initial or not nbytes:
        # The first access allocates and fills a whole buffer.
        changed = (0, nbytes)
        after = Spans.whole(nbytes, mine if initial or writes else before.holders[0] | mine)
    else:
        # Bytes that an alias writes during the copy must be copied again.
        writers = [
            loans.writers(start, stop) if loans.may_be_written else () for loans in ledger.loans
        ]
        pieces, runs = plan_access(before, side, access, start, stop, writers=writers)
        after = before.replaced(runs)
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
    zeroed = (initial and access is not OVERWRITE) or (part and (initial or (new and not side)))
    known = pieces and any(before.holders)
    copies = known and (before.uniform or any(piece.holders for piece in pieces))
    copied = DIRECTIONS[side > 0] if copies else ""
    if copied and len(ledger.loans) > PAIR:
        copied = _direction(ledger, side, pieces)
    change = side, before, after, start, stop, pieces, copied, losses, writes, zeroed, bring
    return Change(*change, counted=True)


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


def bring(ledger: Ledger, change: Change, reason: str) -> tuple[Windows, Sequence[Upload]]:
    """Copy or fill the pieces of an access."""
    side, buffers = change.side, ledger.buffers
    window = buffers.sides[side]
    if window is None or change.zeroed:
        window = buffers.get(side, change.start, change.stop, zeroed=change.zeroed)
    for start, stop, holders in change.pieces:
        if not holders:
            buffers.fill(ledger.source, side, window, start, stop, reason)
            continue
        origin = buffers.nearest(side, holders) if len(ledger.loans) > PAIR else 1 - side
        writers = ledger.loans[origin].writers(start, stop) if open_logs else ()
        because = (
            partial(writers[0].described, Side(origin)) if writers and not change.writes else None
        )
        buffers.bring(origin, side, window, start, stop, reason, because)
    windows = buffers.windows[side]
    return windows if window in windows else (window,), ()
