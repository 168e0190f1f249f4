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
    from syncblob.memory.untracked_aliases import Exposure

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
    beside: Sequence[Lease | Exposure] = ()
    because: Callable[[], str] | None = None
    done = False
    buffers, shortcuts = ledger.buffers, ledger.shortcuts
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
        before, loans, windows = ledger.spans, ledger.loans, buffers.windows[side]
        nbytes, writes, after, copied = before.nbytes, access is not CONST, None, ""
        buffer = windows.whole
        # What another thread has begun to write is copied, and not trusted to be all of it.
        passing = (
            plan is plan_access
            and not writes
            and (WRITERS or len(innermost_of) > 1)
            and is_written_elsewhere(ledger)
        )
        if plan is plan_access and len(loans) == PAIR:
            there, here = loans[1 - side], loans[side]
            if there.leases or there.exposures:
                beside = there.writers(start, stop)
            held = before.uniform
            if held is None:
                held = before.alike(start, stop)
            if held == 0 == before.uniform and there is here is NO_LOANS:
                if ledger.source is None and (buffer or not windows.all):
                    # The first access fills a whole buffer.
                    after = Spans.whole(nbytes, 1 << side)
                    zeroed = access is not OVERWRITE or stop - start < nbytes
                    if buffer is None:
                        array = buffers.allocate(side, nbytes, zeroed=zeroed)
                        buffer = Window(0, nbytes, array)
                        if side:
                            reside(ledger, buffers.homes[side])
                        buffers.windows[side] = Windows(nbytes, buffer)
                    elif zeroed:
                        # An interrupted access has left it.
                        buffers.home(side).zero(buffer.array)
            elif (
                (held or (held == 0 and ledger.source is not None))
                and start < stop <= nbytes
                and buffer is not None
                and ledger.watch is None
                and not there.borrows.live
                and (writes or not (here.leases or here.exposures))
                and not (beside and writes)
                and (not beside or any(x.start <= start and stop <= x.stop for x in beside))
            ):
                # A plain memory, where the table alone decides.
                brings, holders = TABLE[held][COLUMNS[side] + access]
                if beside:
                    # What may be written there is copied, and not trusted to stay the same.
                    holders = held
                    because = partial(beside[0].described, Side(1 - side))
                elif passing:
                    holders = held
                if brings is NOTHING or (
                    (side or stop - start == nbytes or nbytes > SMALL)
                    and (brings is INITIAL or buffers.windows[1 - side].whole is not None)
                ):
                    if stop - start == nbytes:
                        after = Spans.whole(nbytes, holders)
                    else:
                        after = before.put(start, stop, holders)
                        if len(after.holders) > access_plan.MAX_SPANS or ledger.span_limit:
                            after = None
                if after is not None and brings is COPY:
                    copied = DIRECTIONS[side]
                    buffers.bring(1 - side, side, buffer, start, stop, reason, because)
                elif after is not None and brings is INITIAL:
                    buffers.fill(ledger.source, side, buffer, start, stop, reason)
        if after is None:
            args = () if argument is None else (argument,)
            change = plan(ledger, side, access, start, stop, *args)
            side, before, after, start, stop, pieces, copied, losses, writes = change[:9]
            if passing and pieces and all(piece[2] for piece in pieces):
                after = before
            windows = buffers.windows[side]
            buffer = windows.whole
            for loser, ranges in losses:
                lent = ledger.loans[loser]
                if lent.borrows.live or (writes and lent.leases):
                    for reach in ranges:
                        all_of_it = reach == (0, before.nbytes)
                        lent.revoke(revoked, None if all_of_it else reach, aliases=writes)
            uploads: Sequence[Upload] = ()
            if change.prepare is not None:
                windows, uploads = change.prepare(ledger, change, reason)
                if 0 < side < len(buffers.homes):
                    reside(ledger, buffers.homes[side])
                buffer = windows.containing(start, stop)
            if change.between is not None:
                # Before the exchange: afterwards, an interrupt could leave it to be granted again.
                shortcuts.forget(side)
                ledger.spans = change.between
            # Harmless before the map changes: bytes that the map does not count may hold anything.
            buffers.windows[side] = windows
        user = -1
        if open_logs:
            alone = change is None or [piece[:2] for piece in pieces] == [(start, stop)]
            if copied and alone:
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
            fill(buffer, written)
        if change is not None and uploads:
            ledger.uploads = (*ledger.uploads, *uploads)
        ledger.spans = after
        done = True
        if change is not None and change.between is not None:
            if writes:
                ledger.own_loans(side).detach()
            else:
                ledger.own_loans(side).exporter = (None, None)
        if ledger.source is not None and 0 not in after.holders:
            ledger.source = ledger.source.rest()
        exchanged = change is not None and change.between is not None
        if reason and (copied or after is not before or exchanged):
            # Two more frames are ours: this function and its caller.
            noted = user_instruction(3)
            entry = _new(Transition, (reason, before, after, copied, noted, start, stop))
            history = ledger.history = (*ledger.history[1 - REMEMBERED :], entry)
            if change is not None:
                for loser, _ in losses:
                    lent = ledger.loans[loser]
                    if writes and lent.exposures:
                        lent.exposures = lent.without_exposures(start, stop)
                    if lent is not NO_LOANS and (revoked or (writes and lent.leases)):
                        lent.note_end(history, loser, revoked)
        elif revoked:
            for lent in ledger.loans:
                lent.borrows.forget(revoked)
        newest = after.uniform
        if (
            newest is not None
            and ledger.follows_logs
            and ledger.watch is None
            and ledger.source is None
            and not (
                ledger.aliased
                if change is not None
                else here.leases or here.exposures or there.leases or there.exposures
            )
        ):
            # As `Ledger.usable`, so that the next access need not ask.
            usable, mine = newest & user, 1
            for upload in ledger.uploads:
                usable &= ~(1 << upload.side)
            for shortcut in shortcuts.sides:
                # Each time: a signal handler may run between two rounds, but not in one.
                if shortcut is not None and shortcuts.epoch is epoch:
                    shortcut.readable = readable = usable & mine != 0
                    shortcut.writable = readable and newest == mine and not ledger.uploads
                mine <<= 1
            if shortcuts.epoch is not epoch:
                # Another thread has cleared them meanwhile, which needs no lock.
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
            needed = buffers.nbytes if needed is None else needed
            buffers.explain_shortage(error, side, needed, reason, layout)
        raise
    finally:
        ledger.moving = False
    watch = ledger.watch
    if watch is not None and change is not None:
        for piece in pieces:
            (watch.drop if uploads else watch.renew)(side, piece[0], piece[1])
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
