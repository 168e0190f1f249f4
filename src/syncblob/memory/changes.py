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

from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob._source_lines import user_instruction
from syncblob.devices import Side
from syncblob.devices.base import WRITERS
from syncblob.memory import access_plan
from syncblob.memory.access_plan import DIRECTIONS, PAIR, SMALL, Change, shorten
from syncblob.memory.access_plan import plan as plan_access
from syncblob.memory.borrows_and_aliases import NO_LOANS, restore
from syncblob.memory.buffers import Window, Windows
from syncblob.memory.history import Transition, note_arrival, note_use, noted_user
from syncblob.memory.ledger import REMEMBERED
from syncblob.memory.operations import innermost_of, is_written_elsewhere, reside
from syncblob.memory.spans import Spans
from syncblob.memory.stale_alias_warning import require_announced
from syncblob.memory.state_machine import (
    COLUMNS,
    CONST,
    COPY,
    INITIAL,
    MUTABLE,
    NOTHING,
    OVERWRITE,
    TABLE,
    Access,
)
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger, Upload

_new = tuple.__new__


def commit(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  # the steps of every change, in order
    ledger: Ledger,
    plan: Callable[..., Change],
    side: Side,
    access: Access,
    start: int,
    stop: int,
    reason: str,
    argument: Any = None,
    layout: Layout | None = None,
    fill: Callable[..., None] | None = None,
) -> Any:
    """Plan a change and carry it out. If anything raises, the state is as before.

    Parameters
    ----------
    ledger
        The ledger.
    plan
        A function that returns the change. It gets the ledger, side, access, start, stop and
        `argument`, unless that is None, when nothing else can change the state any more.
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
    window
        The side's window.
    """
    revoked: list[NDArray[Any]] = []
    written: list[object] = []
    change: Change | None = None
    after: Spans | None = None
    uploads: Sequence[Upload] = ()
    done = False
    shortcuts = ledger.shortcuts
    try:
        # Accesses that interrupt this on the same thread are refused from now on.
        ledger.moving = True
        # As `Shortcuts.revoke`, without the call. From here on, not even a finaliser can make an
        # alias.
        epoch = object()
        shortcuts.epoch = epoch
        for shortcut in shortcuts.sides:
            if shortcut is not None:
                shortcut.readable = shortcut.writable = False
        if shortcuts.parts:
            shortcuts.revoke()
            epoch = shortcuts.epoch
        if ledger.uploads:
            # A signal handler may have started one since the caller waited.
            ledger.finish_uploads(side, access, start, stop)
        before, writes = ledger.spans, access is not CONST
        of_access = plan is plan_access
        # What another thread has begun to write is copied, and not trusted to be all of it.
        passing = (
            of_access
            and not writes
            and (WRITERS or len(innermost_of) > 1)
            and is_written_elsewhere(ledger)
        )
        step = None
        if of_access and len(ledger.loans) == PAIR:
            step = _step_by_table(ledger, side, access, start, stop, reason, passing)
        if step is not None:
            after, copied, window = step
        else:
            args = () if argument is None else (argument,)
            change = plan(ledger, side, access, start, stop, *args)
            side, before, after, start, stop, pieces, copied = change[:7]
            if passing and pieces and all(piece[2] for piece in pieces):
                after = before
            window, uploads = _prepare(ledger, change, reason, revoked)
        user = -1
        if open_logs:
            if _is_arrival(start, stop, copied, change):
                # The side held nothing of it.
                note_arrival(ledger, side, start, stop)
            elif change is None or change.counted:
                note_use(ledger, side, start, stop)
                epoch = shortcuts.epoch
            user = noted_user(ledger)
        if fill is not None:
            # Bytes that several sides hold are about to be overwritten here, perhaps only in part.
            if before.uniform is None or before.uniform & 1 << side:
                ledger.spans = before.left_to(start, stop, 1 << side)
            fill(window, written)
        if uploads:
            ledger.uploads = (*ledger.uploads, *uploads)
        ledger.spans = after
        done = True
        exchanged = change is not None and change.between is not None
        if exchanged:
            _forget_buffer(ledger, side, adopted=change.writes)  # type: ignore[union-attr]  # there is one
        if ledger.source is not None and 0 not in after.holders:
            ledger.source = ledger.source.rest()
        if reason and (copied or after is not before or exchanged):
            # Two more frames are ours: this function and its caller.
            noted = user_instruction(3)
            entry = _new(Transition, (reason, before, after, copied, noted, start, stop))
            ledger.history = (*ledger.history[1 - REMEMBERED :], entry)
            if change is not None and change.losses:
                _note_losses(ledger, change, revoked)
        elif revoked:
            for loans in ledger.loans:
                loans.borrows.forget(revoked)
        if after.uniform is not None and ledger.follows_logs:
            aliased = False
            for loans in ledger.loans:
                if loans.leases or loans.exposures:
                    aliased = True
            if not aliased and ledger.watch is None and ledger.source is None:
                # As `Ledger.usable`, so that the next access need not ask.
                newest, mine = after.uniform, 1
                usable = newest & user
                for upload in ledger.uploads:
                    usable &= ~(1 << upload.side)
                for shortcut in shortcuts.sides:
                    # Each time: a signal handler may run between two rounds, but not in one.
                    if shortcut is not None and shortcuts.epoch is epoch:
                        shortcut.readable = readable = usable & mine != 0
                        shortcut.writable = readable and newest == mine and not ledger.uploads
                    mine <<= 1
                if shortcuts.epoch is not epoch:
                    # Another thread has revoked the shortcuts meanwhile, which needs no lock.
                    shortcuts.clear()
    except BaseException as error:
        if written and after is not None:
            # An interrupt came right after the write. The parts that this side held before have the
            # new contents already, so the whole range must have them.
            ledger.spans = after
            done = True
        if not done:
            restore(revoked)
            if change is not None and change.undo is not None:
                change.undo(ledger)
        if isinstance(error, MemoryError):
            needed = change and change.needed
            needed = ledger.buffers.nbytes if needed is None else needed
            ledger.buffers.explain_shortage(error, side, needed, reason, layout)
        raise
    finally:
        ledger.moving = False
    watch = ledger.watch
    if watch is not None and change is not None:
        for piece in pieces:
            (watch.drop if uploads else watch.renew)(side, piece[0], piece[1])
    return window


def _step_by_table(  # noqa: C901, PLR0911, PLR0913, PLR0917  # each condition of a plain memory
    ledger: Ledger, side: Side, access: Access, start: int, stop: int, reason: str, passing: bool
) -> tuple[Spans, str, Any] | None:
    """Copy what an access of a plain memory needs, where the table alone decides.

    Returns the map afterwards, the direction of the copy and the side's window; None if the access
    has to be planned: it concerns loans, or a range of several heads.
    """
    before, buffers = ledger.spans, ledger.buffers
    window, nbytes = buffers.windows[side].whole, before.nbytes
    there, here = ledger.loans[1 - side], ledger.loans[side]
    held = before.uniform
    if held is None:
        held = before.alike(start, stop)
    if not held and ledger.source is None:
        # Only of the whole memory: a part may have been left by an eviction.
        first = before.uniform == 0 and there is here is NO_LOANS
        return _first_step(ledger, side, access, start, stop) if first else None
    writes = access is not CONST
    if (
        held is None
        or not start < stop <= nbytes
        or window is None
        or ledger.watch is not None
        or there.borrows.live
        or (not writes and (here.leases or here.exposures))
    ):
        return None
    brings, holders = TABLE[held][COLUMNS[side] + access]
    because = None
    if there.leases or there.exposures:
        beside = there.writers(start, stop)
        if beside and (writes or not any(x.start <= start and stop <= x.stop for x in beside)):
            return None
        if beside:
            # What may be written there is copied, and not trusted to stay the same.
            passing, because = True, partial(beside[0].described, Side(1 - side))
    if passing:
        holders = held
    after = Spans.whole(nbytes, holders) if stop - start == nbytes else None
    if brings is not NOTHING and (
        (not side and after is None and nbytes <= SMALL)
        or (brings is COPY and buffers.windows[1 - side].whole is None)
    ):
        return None
    if after is None:
        after = before.put(start, stop, holders)
        if len(after.holders) > access_plan.MAX_SPANS or ledger.span_limit:
            return None
    if brings is COPY:
        buffers.bring(1 - side, side, window, start, stop, reason, because)
        return after, DIRECTIONS[side], window
    if brings is INITIAL:
        buffers.fill(ledger.source, side, window, start, stop, reason)
    return after, "", window


def _first_step(
    ledger: Ledger, side: Side, access: Access, start: int, stop: int
) -> tuple[Spans, str, Any] | None:
    """Make the first access of a memory, which fills a whole buffer; see `_step_by_table`."""
    buffers, nbytes = ledger.buffers, ledger.spans.nbytes
    window = buffers.windows[side].whole
    if window is None and buffers.windows[side].all:
        return None
    zeroed = access is not OVERWRITE or stop - start < nbytes
    if window is None:
        window = Window(0, nbytes, buffers.allocate(side, nbytes, zeroed=zeroed))
        if side:
            reside(ledger, buffers.homes[side])
        buffers.windows[side] = Windows(nbytes, window)
    elif zeroed:
        # An interrupted access has left it.
        buffers.home(side).zero(window.array)
    return Spans.whole(nbytes, 1 << side), "", window


def _prepare(
    ledger: Ledger, change: Change, reason: str, revoked: list[NDArray[Any]]
) -> tuple[Any, Sequence[Upload]]:
    """Do what a planned change needs before the map can change; see `commit`.

    Returns the window of the access, and the uploads that have begun.
    """
    side, buffers = change.side, ledger.buffers
    for loser, ranges in change.losses:
        loans = ledger.loans[loser]
        if loans.borrows.live or (change.writes and loans.leases):
            for reach in ranges:
                everything = reach == (0, change.before.nbytes)
                loans.revoke(revoked, None if everything else reach, aliases=change.writes)
    windows = buffers.windows[side]
    window = windows.whole
    uploads: Sequence[Upload] = ()
    if change.prepare is not None:
        windows, uploads = change.prepare(ledger, change, reason)
        if 0 < side < len(buffers.homes):
            reside(ledger, buffers.homes[side])
        window = windows.containing(change.start, change.stop)
    if change.between is not None:
        # Before the exchange: afterwards, an interrupt could leave it to be granted again.
        ledger.shortcuts.forget(side)
        ledger.spans = change.between
    # Harmless before the map changes: bytes that the map does not count may hold anything.
    buffers.windows[side] = windows
    return window, uploads


def _is_arrival(start: int, stop: int, copied: str, change: Change | None) -> bool:
    """Return whether an access has copied all of its range."""
    alone = change is None or [piece[:2] for piece in change.pieces] == [(start, stop)]
    return bool(copied) and alone


def _forget_buffer(ledger: Ledger, side: Side, *, adopted: bool) -> None:
    """Forget what was made over the previous buffer of a side."""
    if adopted:
        ledger.own_loans(side).detach()
    else:
        ledger.own_loans(side).exporter = (None, None)


def _note_losses(ledger: Ledger, change: Change, revoked: list[NDArray[Any]]) -> None:
    """Note for `explain` what the last transition has ended."""
    for loser, _ in change.losses:
        loans = ledger.loans[loser]
        if change.writes and loans.exposures:
            loans.exposures = loans.without_exposures(change.start, change.stop)
        if loans is not NO_LOANS and (revoked or (change.writes and loans.leases)):
            loans.note_end(ledger.history, loser, revoked)


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
            ledger.finish_uploads(side, MUTABLE, start, stop)
    finally:
        plan = _plan_taking, side, CONST if side is Side.HOST else MUTABLE, start, stop, reason
        commit(ledger, *plan, everything)


def _plan_taking(  # a range
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, everything: Any
) -> Change:
    before, mine = ledger.spans, 1 << side
    after = (before.put if everything else before.left_to)(start, stop, mine)
    if after is not before:
        after = shorten(ledger, (), after, side, start, stop, moves=False)[1]
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


def adopt(ledger: Ledger, side: Side, buffer: Any, announced: Collection[set[Lease]]) -> None:
    """Replace the buffer of one side by another, whose contents are newer."""
    nbytes = ledger.buffers.nbytes
    ledger.forget_source(0, nbytes)
    ledger.await_uploads(side, OVERWRITE, 0, nbytes)
    ledger.compare_watch(side, 0, nbytes, writes=True)
    commit(ledger, _plan_adoption, side, OVERWRITE, 0, nbytes, "adoption", (buffer, announced))


def _plan_adoption(  # a buffer
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, adopted: Any
) -> Change:
    buffer, announced = adopted
    require_announced(ledger.loans, announced, start, stop)
    before, mine = ledger.spans, 1 << side
    # While the buffer is exchanged, this side must not count as a holder.
    runs = [run._replace(holders=run.holders & ~mine) for run in before.runs(start, stop)]
    windows = Windows(stop, Window(start, stop, buffer))
    return Change(
        side,
        before,
        Spans.whole(stop, mine),
        start,
        stop,
        losses=[(loser, ((start, stop),)) for loser in ledger.buffers.all_sides],
        writes=True,
        prepare=lambda *_: (windows, ()),
        between=before.replaced(runs),
    )


def leave(
    ledger: Ledger,
    others: Sequence[Ledger],
    give_up: Callable[[], Any],
    announced: Collection[set[Lease]],
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
