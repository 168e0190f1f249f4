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

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._source_lines import user_instruction
from syncblob.devices import Side
from syncblob.devices.base import WRITERS
from syncblob.memory.buffers import NO_WINDOWS, Window, Windows
from syncblob.memory.ledger import REMEMBERED, Transition, note_arrival, note_use, noted_user
from syncblob.memory.loans import NO_LOANS, require_announced, restore
from syncblob.memory.operations import is_written_elsewhere, let_go, reside, running, searches
from syncblob.memory.spans import Run, Spans
from syncblob.memory.state_machine import (
    COLUMNS,
    CONST,
    COPY,
    MUTABLE,
    NOTHING,
    OVERWRITE,
    TABLE,
    Access,
    plan_access,
)
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from syncblob._layout import Layout
    from syncblob.memory.ledger import Ledger, Upload
    from syncblob.memory.loans import Loan

# How bytes come to each of two sides from the other.
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

_new = tuple.__new__


class Change(NamedTuple):
    """A change of the state of a memory, as planned."""

    # The side that gets bytes, the maps, and the range of the access.
    side: Side
    before: Spans
    after: Spans
    start: int
    stop: int
    # The runs to copy to the side, with the sides that hold them. If none does, the source has it.
    pieces: Sequence[Run] = ()
    # The direction of the copies; empty if there are none.
    copied: str = ""
    # The sides whose contents become stale, as a bit mask, and the ranges. Borrows of these lose
    # their write permission.
    losers: int = 0
    lost: Sequence[tuple[int, int]] = ()
    # Whether aliases lose it too, and exposures of these sides end.
    writes: bool = False
    # Whether the side's buffer is filled with zeros first.
    zeroed: bool = False
    # Whether it is an access, which needs a buffer, and of which open logs count what it avoids.
    counted: bool = False
    # In place of the copies: does what can fail, and returns the windows that the side gets, and
    # the uploads that it has started.
    prepare: Callable[[Ledger, Change, str], tuple[Windows, Sequence[Upload]]] | None = None
    # Called if `prepare` or anything after it fails.
    undo: Callable[[Ledger], None] | None = None
    # The map while the side gets another buffer, or none; None if the buffer stays.
    between: Spans | None = None
    # The bytes that it allocates, for an error; None for those of the whole memory.
    needed: int | None = None


def plan(  # noqa: C901, PLR0912  # the usual access is planned without a call
    ledger: Ledger,
    side: Side,
    access: Access,
    start: int,
    stop: int,
    announced: Collection[set[Loan]] = (),
) -> Change:
    """Plan an access by the table. Changes nothing."""
    before, buffers, loans = ledger.spans, ledger.buffers, ledger.loans
    mine, nbytes, writes = 1 << side, before.nbytes, access is not CONST
    if writes and loans.live:
        # Check again: an alias may have been made since.
        require_announced(loans, announced, start, stop, ~buffers.alike(side))
    new, part = buffers.windows[side].whole is None, stop - start < nbytes
    window = side and new and buffers.containing(side, start, stop)
    # Of the whole memory only: a part may have been left by an eviction.
    initial = before.uniform == 0 and ledger.source is None and not window
    pieces: Sequence[Run] = ()
    changed = start, stop
    held = before.uniform if before.uniform is not None else before.alike(start, stop)
    # Bytes that an alias writes during the copy must be copied again.
    writers = () if writes or not loans.live else loans.writers(start, stop)
    pair = len(buffers.all_sides) == len(DIRECTIONS)
    alike, brings, holders = held is not None and pair and start < stop, NOTHING, 0
    if alike:
        brings, holders = TABLE[held][COLUMNS[side] + access]  # type: ignore[index]  # it is alike
        if writers and brings is COPY:
            holders = held  # type: ignore[assignment]  # as above
            # Else only a part of it stays where it is.
            alike = any(x.start <= start and stop <= x.stop and x.side != side for x in writers)
    if initial or not nbytes:
        # The first access allocates and fills a whole buffer.
        changed = 0, nbytes
        after = Spans.whole(nbytes, mine if initial or writes else before.holders[0] | mine)
    elif alike:
        pieces = () if brings is NOTHING else (_new(Run, (start, stop, held)),)
        after = before.put(start, stop, holders) if part else Spans.whole(nbytes, holders)
    else:
        reach = [Run(each.start, each.stop, 1 << each.side) for each in writers]
        pieces, runs = plan_access(before, side, access, start, stop, writers=reach)
        after = before.replaced(runs)
    if after is not before and (ledger.span_limit or len(after.holders) > MAX_SPANS // 2):
        pieces, after = shorten(ledger, pieces, after, side, start, stop)
    lost: Sequence[tuple[int, int]] = ()
    if loans.live:
        lost = [piece[:2] for piece in pieces]
        if writes or not nbytes:
            lost.append(changed)
    if pieces and part and side is Side.HOST and nbytes <= SMALL:
        pieces, after = _with_rest(before, pieces, after, start, stop)
    # The caller of an access of a part on the host may reach further, and must not find old bytes
    # of the heap there.
    zeroed = (initial and access is not OVERWRITE) or (part and (initial or (new and not side)))
    copied = ""
    for piece in pieces:
        if piece[2]:
            origin = 1 - side if pair else buffers.nearest(side, piece[2])
            if buffers.shared and buffers.alike(side) >> origin & 1:
                continue
            peer = side and not pair and origin
            copied = "peer" if peer else copied or DIRECTIONS[side > 0]
    change = side, before, after, start, stop, pieces, copied, ~mine, lost, writes, zeroed, True
    return Change(*change)


def shorten(  # noqa: PLR0913  # an access, and its plan
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
    """
    count, buffers, mine = len(after.holders), ledger.buffers, 1 << side
    if count <= (ledger.span_limit or MAX_SPANS):
        if count <= MAX_SPANS // 2:
            ledger.span_limit = min(ledger.span_limit, MAX_SPANS)
        return pieces, after
    in_use = [upload[:2] for upload in ledger.uploads]
    in_use += [(loan.start, loan.stop) for loan in list(ledger.loans.live)]
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


def _with_rest(
    before: Spans, pieces: Sequence[Run], after: Spans, start: int, stop: int
) -> tuple[Sequence[Run], Spans]:
    """Let bytes come to the host along with pieces of a range, in the same copies.

    These are the bytes before and behind the range that are where those at its ends are. What comes
    from another side keeps its holders, because other code may be writing it there. What comes from
    the source is held by the host.
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


def commit(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  # the steps of every change, in order
    ledger: Ledger,
    planner: Callable[..., Change],
    side: Side,
    access: Access,
    start: int,
    stop: int,
    reason: str,
    argument: Any = None,
    layout: Layout | None = None,
    fill: Callable[..., None] | None = None,
) -> Any:
    """Plan a change and carry it out, and return the side's window.

    The planner gets the ledger, side, access, start, stop and `argument`, unless that is None, when
    nothing else can change the state any more. `reason` is the name of the access for the log and
    the history; empty if the history does not have such changes. `fill` writes into the window, its
    first argument, and appends to a list, the second, when it has written.
    """
    revoked: list[Loan] = []
    written: list[object] = []
    change: Change | None = None
    uploads: Sequence[Upload] = ()
    done = False
    buffers = ledger.buffers
    try:
        # Accesses that interrupt this on the same thread are refused from now on.
        ledger.moving = True
        # As `revoke_shortcuts`, without the call. From here on, not even a finaliser can make an
        # alias.
        epoch = object()
        ledger.epoch = epoch
        for shortcut in [*ledger.shortcuts.values()]:
            shortcut.readable = shortcut.writable = False
        if ledger.uploads:
            # A signal handler may have started one since the caller waited.
            ledger.finish_uploads(side, access, start, stop)
        args = () if argument is None else (argument,)
        change = planner(ledger, side, access, start, stop, *args)
        side, before, after, start, stop, pieces, copied, losers, lost, writes, zeroed, counted = (
            change[:12]
        )
        loans = ledger.loans
        if (
            pieces
            and planner is plan
            and not writes
            and (WRITERS or len(running) > 1)
            and all(piece[2] for piece in pieces)
            and is_written_elsewhere(ledger)
        ):
            # What another thread has begun to write is copied, and not trusted to be all of it.
            after = before
        stale = losers
        if loans.live:
            if buffers.shared and change.between is None:
                # Aliases of the same buffer stay up to date.
                stale &= ~buffers.alike(side)
            for reach in lost:
                part = None if reach == (0, before.nbytes) else reach
                loans.revoke(revoked, losers, part, aliases=writes and stale == losers)
                if writes and stale != losers:
                    loans.revoke(revoked, stale, part, aliases=True)
        windows = buffers.windows[side]
        window: Any = windows.whole
        if change.prepare is not None:
            windows, uploads = change.prepare(ledger, change, reason)
            window = windows.containing(start, stop)
        else:
            if (window is None or zeroed) and counted:
                window, windows = buffers.get(side, start, stop, zeroed=zeroed)
            for piece in pieces:
                low, high, holders = piece
                if holders:
                    pair = len(buffers.all_sides) == len(DIRECTIONS)
                    origin = 1 - side if pair else buffers.nearest(side, holders)
                    because = None
                    if open_logs and not writes and loans.live:
                        beside = loans.writers(low, high, 1 << origin)
                        because = beside[0].described if beside else None
                    buffers.bring(origin, side, window, low, high, reason, because)
                else:
                    buffers.fill(ledger.source, side, window, low, high, reason)
        if windows is not buffers.windows[side]:
            if 0 < side < len(buffers.homes):
                reside(ledger, buffers.homes[side])
            # Before the exchange: afterwards, an interrupt could leave it to be granted again.
            ledger.forget_shortcuts(side)
            if change.between is not None:
                ledger.spans = change.between
            # Harmless before the map changes: bytes that the map does not count may hold anything.
            buffers.windows[side] = windows
            if loans.idle:
                # They take memory, and a side that is used for the first time may be the last.
                ledger.loans = NO_LOANS
        if access is not CONST and window is not None and window.common is not None:
            # Work of others may still read what is about to be written.
            buffers.finish(buffers.alike(side) & ~(1 << side), start, stop)
        user = -1
        if open_logs:
            if copied and len(pieces) == 1 and pieces[0][:2] == (start, stop):
                # The side held nothing of it.
                note_arrival(ledger, side, start, stop)
            elif counted:
                note_use(ledger, side, start, stop)
                epoch = ledger.epoch
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
        if change.between is not None and writes:
            ledger.own_loans().detach(side)
        if ledger.source is not None and 0 not in after.holders:
            ledger.source = ledger.source.rest()
        happened = reason and (copied or after is not before or change.between is not None)
        if happened:
            # Two more frames are ours: this function and its caller.
            noted = user_instruction(3)
            entry = _new(Transition, (reason, before, after, copied, start, stop, *noted))
            ledger.history = (*ledger.history[1 - REMEMBERED :], entry)
        if loans.live and lost:
            history = ledger.history if happened else ()
            loans.note_end(revoked, history, losers if writes else 0, stale)
        newest = after.uniform
        rare = ledger.watch is not None or ledger.source is not None
        if (
            newest is not None
            and ledger.follows_logs
            and not (rare or (loans.live and loans.may_be_written))
        ):
            # As `Ledger.shortcut`, so that the next access need not ask.
            ledger.last_search = searches[0]
            usable = newest & user
            for upload in ledger.uploads:
                usable &= ~(1 << upload.side)
            for shortcut in [*ledger.shortcuts.values()]:
                # Each time: a signal handler may run between two rounds, but not in one.
                if ledger.epoch is epoch:
                    mine = 1 << shortcut.side
                    shortcut.readable = readable = usable & mine != 0
                    shortcut.writable = readable and newest == mine and not ledger.uploads
            if ledger.epoch is not epoch:
                # Another thread has revoked the shortcuts meanwhile, which needs no lock.
                ledger.revoke_shortcuts()
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
        if isinstance(error, MemoryError):
            needed = change and change.needed
            needed = buffers.nbytes if needed is None else needed
            buffers.explain_shortage(error, side, needed, reason, layout)
        raise
    finally:
        ledger.moving = False
    watch = ledger.watch
    if watch is not None:
        for piece in pieces:
            (watch.drop if uploads else watch.renew)(side, piece[0], piece[1])
    return window


def take(
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
        access = CONST if side is Side.HOST else MUTABLE
        commit(ledger, _plan_taking, side, access, start, stop, reason, everything)


def _plan_taking(
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


def adopt(ledger: Ledger, side: Side, buffer: Any, announced: Collection[set[Loan]]) -> None:
    """Replace the buffer of one side by another, whose contents are newer."""
    nbytes = ledger.buffers.nbytes
    ledger.forget_source(0, nbytes)
    ledger.await_uploads(side, OVERWRITE, 0, nbytes)
    ledger.compare_watch(side, 0, nbytes, writes=True)
    buffers, replaced = ledger.buffers, ledger.buffers.windows[side].all
    commit(ledger, _plan_adoption, side, OVERWRITE, 0, nbytes, "adoption", (buffer, announced))
    let_go(lambda kept: kept.buffer in replaced)
    for other in buffers.all_sides if buffers.shared else ():
        has = other is not side and buffers.windows[other].all
        if has and buffers.home(other).shared and buffers.home(side).shared:
            # The next access there shares the new buffer, if it can.
            ledger.forget_shortcuts(other)
            buffers.windows[other] = NO_WINDOWS
            ledger.loans.live.difference_update(ledger.loans.of(other))


def _plan_adoption(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, adopted: Any
) -> Change:
    buffer, announced = adopted
    require_announced(ledger.loans, announced, start, stop)
    before = ledger.spans
    windows = Windows(stop, Window(start, stop, buffer))
    return Change(
        side,
        before,
        Spans.whole(stop, 1 << side),
        start,
        stop,
        losers=-1,
        lost=((start, stop),),
        writes=True,
        prepare=lambda *_: (windows, ()),
        # While the buffer is exchanged, this side must not count as a holder.
        between=before.without(start, stop, 1 << side),
    )


def leave(
    ledger: Ledger,
    others: Sequence[Ledger],
    give_up: Callable[[], Any],
    announced: Collection[set[Loan]],
) -> None:
    """Detach a Blob from memories by a function, which is called under their locks.

    If a writable alias of any is alive, and was not announced, there has to be a warning first.
    """
    with ledger.lock:
        try:
            ledger.moving = True
            ledger.revoke_shortcuts()
            require_announced(ledger.loans, announced, 0, ledger.buffers.nbytes)
            if others:
                leave(others[0], others[1:], give_up, announced)
            else:
                give_up()
        finally:
            ledger.moving = False
