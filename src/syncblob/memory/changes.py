"""Changes of state: functions that plan one as a value, and `commit`, which carries it out.

Call the functions under the memory's lock. A change is made completely or not at all, whatever
raises, even a signal handler. CPython runs signal handlers only after calls, at the start of
functions and at backward jumps. So `commit` has three steps:

1. Prepare: only what can be undone or makes no difference. Buffers are allocated and filled; write
   permissions are revoked, and restored after an exception.
2. Assign: plain assignments without a call between them. Each leaves a true state. The map is
   assigned last, because readers without the lock look at it first.
3. Clean up: only what may be left undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.devices import Side
from syncblob.memory.await_async_copies import await_uploads, finish_uploads
from syncblob.memory.borrows_and_aliases import NO_LOANS, restore
from syncblob.memory.history import note_use
from syncblob.memory.operations import reside
from syncblob.memory.span_limit import shortened
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_alias_warning import require_announced
from syncblob.memory.state_machine import CONST, MUTABLE, OVERWRITE, Access
from syncblob.memory.windows import Window, Windows
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.memory.await_async_copies import Upload
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger


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
        side's buffer, or the window of the access, or all `Windows` that the side gets;
        and the uploads that it has started. None if there is nothing to prepare.
    undo
        A function of the ledger that is called if `prepare` or anything after it fails.
    between
        The map while the side gets another buffer, or none; None if the buffer stays.
    capacity
        The new capacity; None if it stays.
    counted
        Whether open logs count what it avoids.
    limit
        The new limit of the source; None if it stays.
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
    capacity: int | None = None
    counted: bool = False
    limit: int | None = None
    needed: int | None = None


def commit(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  # the steps of every change, in order
    ledger: Ledger,
    plan: Callable[..., Change],
    side: Side,
    access: Access,
    start: int,
    stop: int,
    reason: str,
    *args: Any,
    layout: Layout | None = None,
    fill: Callable[..., None] | None = None,
) -> Any:
    """Plan a change and carry it out. If anything raises, the state is as before.

    Parameters
    ----------
    ledger
        The ledger.
    plan
        A function that returns the change. It gets the ledger, side, access, start, stop and `args`
        when nothing else can change the state any more.
    side, access, start, stop
        An access, which determines the uploads to wait for.
    reason
        The name of the access, for the log and the history. Empty if the history does not have
        such changes.
    layout
        That of the access, for errors.
    fill
        A function that writes into the side's new buffer, its first argument. It appends to a list,
        the second argument, when it has written.

    Returns
    -------
    buffer
        The side's buffer.
    """
    revoked: list[NDArray[Any]] = []
    written: list[object] = []
    change: Change | None = None
    done = False
    buffers, shortcuts = ledger.buffers, ledger.shortcuts
    try:
        # Accesses that interrupt this on the same thread are refused from now on.
        ledger.moving = True
        # From here on, not even a finaliser can make an alias.
        shortcuts.revoke()
        epoch = shortcuts.epoch
        if ledger.uploads:
            # A signal handler may have started one since the caller waited.
            finish_uploads(ledger, side, access, start, stop)
        change = plan(ledger, side, access, start, stop, *args)
        side, before, after = change.side, change.before, change.after
        buffer = whole = buffers.sides[side]
        windows = buffers.windows[side]
        for loser, ranges in change.losses:
            loans = ledger.loans[loser]
            if loans.borrows.live or (change.writes and loans.leases):
                for reach in ranges:
                    all_of_it = reach == (0, before.nbytes)
                    loans.revoke(revoked, None if all_of_it else reach, aliases=change.writes)
        uploads: Sequence[Upload] = ()
        if change.prepare is not None:
            buffer, uploads = change.prepare(ledger, change, reason)
            if 0 < side < len(buffers.homes):
                reside(ledger, buffers.homes[side])
            if type(buffer) is Windows:
                whole, windows = None, buffer
            elif type(buffer) is not Window:
                whole, windows = buffer, Windows()
        if change.between is not None:
            # Before the exchange: afterwards, an interrupt could leave it to be renewed.
            shortcuts.forget(side)
            if change.capacity is not None:
                # Another side's buffer may be larger. The bytes in use fit in both.
                buffers.nbytes = change.capacity
            ledger.spans = change.between
        # Harmless before the map changes: bytes that the map does not count may hold anything.
        buffers.sides[side] = whole
        buffers.windows[side] = windows
        if change.counted and open_logs:
            note_use(ledger, side, change.start, change.stop)
        if fill is not None:
            # Bytes that several sides hold are about to be overwritten here, perhaps only in part.
            ledger.spans = before.left_to(change.start, change.stop, 1 << side)
            fill(buffer, written)
        if uploads:
            ledger.uploads = (*ledger.uploads, *uploads)
        if change.limit is not None and ledger.source is not None:
            ledger.source.limit = change.limit
        ledger.spans = after
        done = True
        if change.capacity is not None:
            ledger.loans[side].detach()
        elif change.between is not None:
            ledger.own_loans(side).exporter = (None, None)
        if ledger.source is not None and change.limit is None and 0 not in after.holders:
            ledger.source = ledger.source.rest()
        if reason and (change.copied or after is not before or change.between is not None):
            history = ledger.note(reason, before, after, change.start, change.stop, change.copied)
            for loser, _ in change.losses:
                loans = ledger.loans[loser]
                if change.writes and loans.exposures:
                    loans.exposures = loans.without_exposures(change.start, change.stop)
                if loans is not NO_LOANS and (revoked or (change.writes and loans.leases)):
                    loans.note_end(history, loser, revoked)
        elif revoked:
            for loans in ledger.loans:
                loans.borrows.forget(revoked)
        if ledger.follows_logs and after.uniform is not None and after.nbytes == before.nbytes:
            ledger.renew_shortcuts(epoch, after.uniform)
    except BaseException as error:
        if written and change is not None:
            # An interrupt came right after the write. The parts that this side held before have the
            # new contents already, so the whole range must have them.
            ledger.spans = change.after
            done = True
        if not done:
            restore(revoked)
            if change is not None and change.undo is not None:
                change.undo(ledger)
        if isinstance(error, MemoryError) and change is not None:
            needed = buffers.nbytes if change.needed is None else change.needed
            buffers.explain_shortage(error, side, needed, reason, layout)
        raise
    finally:
        ledger.moving = False
    if ledger.watch is not None:
        for piece in change.pieces:
            (ledger.watch.drop if uploads else ledger.watch.renew)(side, piece.start, piece.stop)
    return buffer


def take(  # noqa: PLR0913  # a range
    ledger: Ledger, side: Side, start: int, stop: int, reason: str = "", *, everything: bool = False
) -> None:
    """Make a side the only holder of what it shares in a range, or of everything in it."""
    if ledger.is_alone(side, start, stop):
        return
    try:
        if ledger.uploads and ledger.awaits(side):
            # Refuse accesses that interrupt this on the same thread.
            ledger.moving = True
            # No copy may arrive once this side alone holds the newest contents.
            finish_uploads(ledger, side, MUTABLE, start, stop)
    finally:
        plan = _plan_taking, side, CONST if side is Side.HOST else MUTABLE, start, stop, reason
        commit(ledger, *plan, everything)


def _plan_taking(  # a range
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, everything: bool
) -> Change:
    before, mine = ledger.spans, 1 << side
    after = (before.put if everything else before.left_to)(start, stop, mine)
    if after is not before:
        after = shortened(ledger, (), after, side, start, stop, moves=False)[1]
    return Change(side, before, after, start, stop)


def finish_write(ledger: Ledger, side: Side, start: int, stop: int, reason: str) -> None:
    """Record that work which may write into a range of one side has ended. Takes the lock.

    Meanwhile, a thread, a signal handler or a finaliser may have copied bytes to the other side,
    and the copy may lack some of the writes. So bytes that both sides hold are this side's alone
    again. Bytes that the other side alone holds were written there since, and stay its own, unless
    spans were ever joined: then this side gets the whole range.
    """
    with ledger.lock:
        take(ledger, side, start, stop, reason, everything=ledger.span_limit > 0)


def adopt(ledger: Ledger, side: Side, buffer: Any, announced: Collection[Lease]) -> None:
    """Replace the buffer of one side by another, whose contents are newer."""
    used = ledger.spans.nbytes
    ledger.forget_source(0, used)
    await_uploads(ledger, side, OVERWRITE, 0, used)
    ledger.compare_watch(side, 0, used, writes=True)
    capacity = ledger.buffers.nbytes
    commit(ledger, _plan_adoption, side, OVERWRITE, 0, used, "adoption", buffer, announced)
    for loans in ledger.loans:
        if loans.exposures:
            # Those of bytes that no buffer has any more.
            loans.exposures = loans.without_exposures(used, capacity)


def _plan_adoption(  # noqa: PLR0913, PLR0917  # a buffer
    ledger: Ledger,
    side: Side,
    _access: Access,
    start: int,
    stop: int,
    buffer: Any,
    announced: Collection[Lease],
) -> Change:
    require_announced(ledger.loans, announced, start, stop)
    before, mine = ledger.spans, 1 << side
    # While the buffer is exchanged, this side must not count as a holder.
    runs = [run._replace(holders=run.holders & ~mine) for run in before.runs(start, stop)]
    return Change(
        side,
        before,
        Spans.whole(stop, mine),
        start,
        stop,
        losses=[(loser, ((start, stop),)) for loser in ledger.buffers.all_sides],
        writes=True,
        prepare=lambda *_: (buffer, ()),
        between=before.replaced(runs),
        capacity=stop,
    )


def leave(
    ledger: Ledger,
    others: Sequence[Ledger],
    give_up: Callable[[], Any],
    announced: Collection[Lease],
) -> None:
    """Detach a Blob from memories by a function, which is called under their locks.

    If a writable alias of any is alive, and was not announced, there has to be a warning first.
    """
    with ledger.lock:
        try:
            ledger.moving = True
            ledger.shortcuts.revoke()
            require_announced(ledger.loans, announced, 0, ledger.buffers.nbytes)
            if others:
                leave(others[0], others[1:], give_up, announced)
            else:
                give_up()
        finally:
            ledger.moving = False
