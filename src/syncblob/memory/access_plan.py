"""What an access copies to a side that lacks bytes, and which borrows of other sides it ends.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.devices import Side
from syncblob.memory.borrows_and_aliases import NO_LOANS
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_alias_warning import require_announced
from syncblob.memory.state_machine import CONST, OVERWRITE, Access, plan_access
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.buffers import Windows
    from syncblob.memory.ledger import Ledger, Upload

# The usual number of sides, and how bytes come to each of them from the other.
PAIR = 2
DIRECTIONS = ("download", "upload")

SMALL = 1 << 14
"""Of a memory of at most so many bytes, what lies beside a part comes to the host with it.

That takes hardly longer: ``python -m benchmarks regions`` compares the two. Consumers that are
given a view, and reach the rest of its base, find the newest contents there. Libraries that
compute on accelerators are not known to do that, and a larger upload would wait for more work.
"""


MAX_SPANS = 1024
"""An access that would leave more spans than this is widened to the whole memory.

A map may get longer by pushes, or if arrays are held over many parts, or only a source has many.
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


def plan(  # noqa: C901, PLR0913, PLR0917  # an access
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
        require_announced(ledger.losing(side), announced, start, stop, side)
    new = ledger.buffers.windows[side].whole is None
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
        pieces, after = shorten(ledger, pieces, after, side, start, stop)
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
    if copies and ledger.buffers.shared:
        nearest, are_one = ledger.buffers.nearest, ledger.buffers.are_one
        copies = any(x.holders and not are_one(side, nearest(side, x.holders)) for x in pieces)
    copied = DIRECTIONS[side > 0] if copies else ""
    if copied and len(ledger.loans) > PAIR:
        copied = _direction(ledger, side, pieces)
    change = side, before, after, start, stop, pieces, copied, losses, writes, zeroed, bring
    return Change(*change, counted=True)


def shorten(  # noqa: PLR0913, PLR0917  # an access, and its plan
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
    the same holders afterwards. If nothing `moves`, bytes that several sides hold are left to the
    side alone, or to the others, whichever makes the map shorter.

    Returns
    -------
    pieces, after
        What the wider access copies, and the map that it leaves.
    """
    count, buffers, mine = len(after.holders), ledger.buffers, 1 << side
    if count <= (ledger.span_limit or MAX_SPANS):
        if count <= MAX_SPANS // 2:
            ledger.span_limit = min(ledger.span_limit, MAX_SPANS)
        return pieces, after
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
    others = [each for each in buffers.all_sides if each is not side]
    # Windows may not contain what would be copied, and a copy would end borrows.
    room = buffers.windows[side].whole or not buffers.windows[side].all
    if moves and room and all(map(buffers.tracks_borrows, others)):
        more = [run for run in free if not run.holders & mine]
        common = reduce(and_, [run.holders | mine for run in free], ~0)
        after = change(lambda _: common)
    else:
        alone = change(lambda held: mine if held & mine else held)
        shared = change(lambda held: held & ~mine or held)
        after = min(alone, shared, key=lambda spans: len(spans.holders))
    # To look at all spans takes long, so the next time is when there are twice as many.
    ledger.span_limit = max(MAX_SPANS, 2 * len(after.holders))
    return sorted([*pieces, *more]), after


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
    windows = buffers.windows[side]
    window = windows.whole
    if window is None or change.zeroed:
        window, windows = buffers.get(side, change.start, change.stop, zeroed=change.zeroed)
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
    return windows, ()
