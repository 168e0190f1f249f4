"""Changes of state: functions that plan one as a value, and `commit`, which carries it out.

Call the functions under the memory's lock. A change is made completely or not at all, whatever
raises, even a signal handler, which CPython runs after calls and at jumps backwards only. So
`commit` first prepares what can be undone, or makes no difference. Then come assignments without a
call between them, each of which leaves a true state: the map last, because readers without the lock
look at it first. Last comes what may be left undone.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import chain
from operator import and_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._source_lines import user_instruction
from syncblob.devices import Side
from syncblob.devices.base import WRITERS
from syncblob.memory.buffers import PAIR, Window, find_window
from syncblob.memory.ledger import OLDEST, Transition
from syncblob.memory.loans import NO_LOANS, require_announced, restore
from syncblob.memory.operations import is_written_elsewhere, let_go, running, searches
from syncblob.memory.state_machine import (
    COLUMNS,
    CONST,
    COPY,
    INITIAL,
    MUTABLE,
    OVERWRITE,
    TABLE,
    Access,
    Run,
    Spans,
    plan_access,
)
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from syncblob._layout import Layout
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.loans import Loan

# How bytes come to each of two sides from the other.
DIRECTIONS = ("download", "upload")

SMALL = 1 << 14
"""Of a memory of at most so many bytes, what lies beside a part comes to the host with it.

That takes hardly longer. Consumers that reach the rest of a view's base find the newest contents
there. None is known to do that on accelerators, and a larger upload would wait for more work.
"""

MAX_SPANS = 1024
"""An access that would leave more spans than this is widened to the whole memory, if it can be."""


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
    # The sides whose contents become stale, as a bit mask, and the ranges. Borrows of these lose
    # their write permission.
    losers: int = 0
    lost: Sequence[tuple[int, int]] = ()
    # The sides whose aliases lose it too, and whose exposures end; 0 unless it writes.
    stale: int = 0
    # Whether the side's buffer is filled with zeros first.
    zeroed: bool = False
    # Whether it is an access, which needs a buffer, and of which open logs count what it avoids.
    counted: bool = False
    # In place of the copies: does what can fail, and returns the windows that the side has then.
    prepare: Callable[[Ledger, Change, str], tuple[Window, ...]] | None = None
    # Called if `prepare` or anything after it fails.
    undo: Callable[[], object] | None = None
    # The map while the side gets another buffer, or none; None if the buffer stays.
    between: Spans | None = None
    # The bytes that it allocates, for an error; None for those of the whole memory.
    needed: int | None = None
    # If spans beside its range are joined, the number above which they may be joined next.
    span_limit: int = 0


def plan(
    ledger: Ledger,
    side: Side,
    access: Access,
    start: int,
    stop: int,
    announced: Collection[set[Loan]] = (),
) -> Change:
    """Plan an access by the table. Changes nothing."""
    before, loans = ledger.spans, ledger.loans
    mine, nbytes, writes = 1 << side, before.nbytes, access is not CONST
    if writes and loans.live:
        # Check again: an alias may have been made since.
        require_announced(loans, announced, start, stop, ~ledger.alike(side))
    new, part = ledger.whole[side] is None, stop - start < nbytes
    window = side and new and ledger.window_over(side, start, stop)
    # Of the whole memory only: a part may have been left by an eviction.
    initial = before.uniform == 0 and ledger.source is None and not window
    pieces: Sequence[Run] = ()
    changed = start, stop
    if initial or not nbytes:
        # The first access allocates and fills a whole buffer.
        changed = 0, nbytes
        after = Spans.whole(nbytes, mine if initial or writes else before.holders[0] | mine)
    else:
        # Bytes that an alias writes during the copy must be copied again.
        writers = () if writes or not loans.live else loans.writers(start, stop)
        reach = [Run(each.start, each.stop, 1 << each.side) for each in writers]
        pieces, runs = plan_access(before, side, access, start, stop, writers=reach)
        after = before.replaced(runs)
    limit = 0
    if len(after.holders) > max(MAX_SPANS, ledger.span_limit) and not new:
        pieces, after = _join(ledger, pieces, after, side, start, stop)
        # To look at all spans takes long.
        limit = max(MAX_SPANS, 2 * len(after.holders))
    lost: Sequence[tuple[int, int]] = ()
    if loans.live:
        lost = [piece[:2] for piece in pieces]
        if writes or not nbytes:
            lost.append(changed)
    if pieces and part and side is Side.HOST and nbytes <= SMALL:
        pieces, after = _with_rest(before, pieces, after)
    # The caller of an access of a part on the host may reach further, and must not find old bytes
    # of the heap there.
    zeroed = (initial and access is not OVERWRITE) or (part and (initial or (new and not side)))
    stale = ~ledger.alike(side) if writes else 0
    change = side, before, after, start, stop, pieces, ~mine, lost, stale, zeroed, True
    return Change(*change, span_limit=limit)


def _join(
    ledger: Ledger, pieces: Sequence[Run], after: Spans, side: Side, start: int, stop: int
) -> tuple[Sequence[Run], Spans]:
    """Let an access bring all that its side lacks; what it holds has the same holders afterwards.

    Bytes that arrays are held over, or that uploads are under way to, stay as they are, and so do
    bytes that only a source has, and all if borrows of another side cannot be tracked.
    """
    others = [ledger.windows(each) for each in ledger.all_sides if each is not side]
    if not all(isinstance(window.array, np.ndarray) for window in chain(*others)):
        return pieces, after
    mine = 1 << side
    kept = [Run(start, stop, mine), *[Run(*upload[:2], mine) for upload in ledger.uploads]]
    kept += [Run(loan.start, loan.stop, mine) for loan in list(ledger.loans.live)]
    stays = Spans.covering(after.nbytes, kept)
    runs = after.runs(0, after.nbytes)
    free = {run for run in runs if run.holders and not stays.any(run.start, run.stop)}
    common = reduce(and_, [run.holders | mine for run in free], ~0)
    more = [run for run in free if not run.holders & mine]
    after = after.replaced(run._replace(holders=common) if run in free else run for run in runs)
    return sorted([*pieces, *more]), after


@lru_cache(maxsize=512)
def _plan_uniform(  # noqa: PLR0913, PLR0917  # what such a change depends on
    nbytes: int, held: int, side: Side, access: Access, start: int, stop: int, small: int
) -> Change:
    """Plan an access, as `plan` does, if two sides hold the same bytes, and it has a buffer."""
    brings, holders = TABLE[held][COLUMNS[side] + access]
    before = Spans.whole(nbytes, held)
    after = before.put(start, stop, holders)
    low, high = (0, nbytes) if side is Side.HOST and nbytes <= small else (start, stop)
    pieces = (Run(low, high, held),) if brings is COPY else ()
    others, zeroed = ~(1 << side), brings is INITIAL
    stale = 0 if access is CONST else others
    return Change(side, before, after, start, stop, pieces, others, (), stale, zeroed, counted=True)


def _with_rest(before: Spans, pieces: Sequence[Run], after: Spans) -> tuple[Sequence[Run], Spans]:
    """Let the bytes beside a range that are where those at its ends are come to the host along.

    What another side holds keeps its holders, because other code may be writing it there.
    """
    low, high = before.span_of(pieces[0].start)[0], before.span_of(pieces[-1].stop - 1)[1]
    brought = [*pieces]
    brought[0] = brought[0]._replace(start=low)
    brought[-1] = brought[-1]._replace(stop=high)
    for run in brought:
        if not run.holders:
            after = after.put(run.start, run.stop, 1 << Side.HOST)
    return brought, after


def commit(  # noqa: C901, PLR0912, PLR0913, PLR0917  # the steps of every change, in order
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

    The planner gets the ledger, side, access, start, stop and `argument`, when nothing else can
    change the state any more. `reason` is the name of the access for the log and the history; empty
    if the history does not have such changes. `fill` writes into the window, its first argument,
    and sets the item of its second, with no signal handler in between.
    """
    revoked: list[Loan] = []
    change: Change | None = None
    done, fields, written = False, None, [0]
    try:
        # Accesses that interrupt this on the same thread are refused from now on.
        ledger.moving = True
        # As `revoke_shortcuts`, without the call. From here on, not even a finaliser can make an
        # alias.
        ledger.epoch = epoch = object()
        for shortcut in [*ledger.shortcuts.values()]:
            shortcut.readable = shortcut.writable = False
        if ledger.uploads:
            # A signal handler may have started one since the caller waited.
            ledger.finish_uploads(side, access, start, stop)
        spans, rare = ledger.spans, ledger.loans.live or ledger.source or ledger.shared
        plain = planner is plan and start < stop and not rare and len(ledger.homes) <= len(PAIR)
        ready = stop - start == spans.nbytes or (spans.uniform and ledger.whole[side])
        if plain and ready and spans.uniform is not None:
            change = _plan_uniform(spans.nbytes, spans.uniform, side, access, start, stop, SMALL)
        else:
            change = planner(ledger, side, access, start, stop, argument)
        side, before, after, start, stop, pieces, _, lost, _, zeroed, counted = change[:11]
        window, user, copied = ledger.whole[side], -1, ""
        if pieces or lost or zeroed or window is None or change.prepare or ledger.shared:
            after, window, copied = _prepare(ledger, planner, change, reason, revoked)
        if open_logs:
            user = counted and ledger.note_use(side, start, stop)
            epoch = ledger.epoch
        if fill is not None:
            _fill(ledger, change, window, fill, written)
        # The map last.
        ledger.span_limit, ledger.spans = change.span_limit or ledger.span_limit, after
        done = True
        if reason and (copied or after is not before or change.between is not None):
            # Two more frames are ours: this function and its caller.
            fields = (reason, before, after, copied, start, stop, *user_instruction(3))
            ledger.noted = ledger.noted[OLDEST:] + fields
        if ledger.loans.live or ledger.source or ledger.watch or change.between is not None:
            user = _clean_up(ledger, change, revoked, fields and Transition(*fields)) and user
        if after.uniform is not None and ledger.last_used and user and not ledger.uploads:
            # As `Ledger.shortcut`, so that the next access need not ask.
            ledger.last_search = searches[0]
            usable = after.uniform & user
            for shortcut in [*ledger.shortcuts.values()]:
                # Each time: a signal handler may run between two rounds, but not in one.
                if ledger.epoch is epoch:
                    shortcut.readable = usable >> shortcut.side & 1 != 0
                    shortcut.writable = after.uniform == usable == 1 << shortcut.side
            if ledger.epoch is not epoch:
                # Another thread has revoked the shortcuts meanwhile, which needs no lock.
                ledger.revoke_shortcuts()
    except BaseException as error:
        if not done:
            _undo(ledger, change, revoked, written)
        if isinstance(error, MemoryError):
            ledger.explain_shortage(error, side, change and change.needed, reason, layout)
        raise
    finally:
        ledger.moving = False
    return window


def _prepare(
    ledger: Ledger, planner: Callable[..., Change], change: Change, reason: str, revoked: list[Loan]
) -> tuple[Spans, Any, str]:
    """Do what can fail. Return the map afterwards, the side's window, and the way of copies."""
    side, before, after, start, stop, pieces, losers, lost, stale, zeroed, counted = change[:11]
    loans, copied = ledger.loans, ""
    if (
        pieces
        and planner is plan
        and not stale
        and (WRITERS or len(running) > 1)
        and all(piece[2] for piece in pieces)
        and is_written_elsewhere(ledger)
    ):
        # What another thread has begun to write is copied, and not trusted to be all of it.
        after = before
    for reach in lost if loans.live else ():
        part = None if reach == (0, before.nbytes) else reach
        loans.revoke(revoked, losers, part, aliases=stale)
    window: Any = ledger.whole[side]
    missing = counted and (zeroed or window is None)
    windows = known = ledger.windows(side) if missing or change.prepare is not None else ()
    if change.prepare is not None:
        windows = change.prepare(ledger, change, reason)
        window, copied = find_window(windows, start, stop), DIRECTIONS[side > 0] if pieces else ""
        pieces = ()
    elif missing:
        window, windows = ledger.window_for(side, known, start, stop, zeroed=zeroed)
    for low, high, holders in pieces:
        if holders:
            pair = len(ledger.homes) <= len(PAIR)
            origin = 1 - side if pair else ledger.nearest(side, holders)
            beside = open_logs and not stale and loans.writers(low, high, 1 << origin)
            because = beside[0].description if beside else None
            if ledger.bring(origin, side, window, low, high, reason, because):
                copied = "peer" if side and origin else copied or DIRECTIONS[side > 0]
        else:
            ledger.fill(ledger.source, side, window, low, high, reason)
    if windows != known:
        _exchange(ledger, change, known, windows)
    if stale and window is not None and window.common is not None:
        # Work of others may still read what is about to be written.
        ledger.finish_others(side, start, stop)
    return after, window, copied


def _exchange(
    ledger: Ledger, change: Change, known: tuple[Window, ...], windows: tuple[Window, ...]
) -> None:
    """Give a side its windows. Harmless before the map changes: it does not count their bytes."""
    side, loans, parts = change.side, ledger.loans, ledger.parts
    if 0 < side < len(ledger.homes):
        ledger.homes[side].residents.add(ledger)  # type: ignore[attr-defined]  # an accelerator
    everything = windows and (windows[0].start, windows[0].stop) == (0, change.before.nbytes)
    whole = windows[0] if everything else None
    if whole is None or parts:
        parts = {**parts, side: () if whole else windows}
    if known:
        # Before the exchange: afterwards, an interrupt could leave one to be granted again.
        ledger.forget_shortcuts(side)
    if change.between is not None:
        ledger.spans = change.between
    ledger.whole[side] = whole
    ledger.parts = parts
    if not (loans.live or loans.foreign or loans.ended):
        # They take memory, and a side that is used for the first time may be the last.
        ledger.loans = NO_LOANS


def _fill(
    ledger: Ledger, change: Change, window: Any, fill: Callable[..., None], written: list[int]
) -> None:
    """Write into a window, of which other sides may hold bytes: perhaps only in part."""
    before, mine = change.before, 1 << change.side
    if before.uniform is None or before.uniform & mine:
        ledger.spans = before.left_to(change.start, change.stop, mine)
    fill(window, written)


def _clean_up(ledger: Ledger, change: Change, revoked: list[Loan], last: Transition | None) -> bool:
    """End what a change ends, after it. Return whether the map alone decides who may use what."""
    side, loans, watch = change.side, ledger.loans, ledger.watch
    if change.between is not None and change.stale:
        loans = ledger.own_loans()
        loans.detach(side)
    if ledger.source is not None and 0 not in change.after.holders:
        ledger.source = ledger.source.rest()
    if loans.live and change.lost:
        loans.note_end(revoked, last, change.losers if change.stale else 0, change.stale)
    if watch is not None:
        for start, stop, _ in change.pieces:
            (watch.renew if change.prepare is None else watch.drop)(side, start, stop)
    rare = watch or ledger.source or change.after.uniform is None
    return not (rare or ledger.aliased)


def _undo(ledger: Ledger, change: Change | None, revoked: list[Loan], written: list[int]) -> None:
    """Undo what a change that failed has prepared, unless its contents have been written."""
    if written[0] and change is not None:
        # An interrupt came right after the write. The parts that this side held before have the
        # new contents already, so the whole range must have them.
        ledger.spans = change.after
        return
    restore(revoked)
    if change is not None and change.undo is not None:
        change.undo()


def take(
    ledger: Ledger, side: Side, start: int, stop: int, reason: str = "", *, everything: bool = False
) -> None:
    """Make a side the only holder of what it shares in a range, or of everything in it."""
    if ledger.watch is not None:
        # Other code writes here, so a difference would prove nothing.
        ledger.watch.drop(side, start, stop)
    if ledger.is_alone(side, start, stop):
        return
    access = CONST if side is Side.HOST else MUTABLE
    try:
        # Refuse accesses that interrupt this on the same thread.
        ledger.moving = True
        # No copy may arrive once this side alone holds the newest contents.
        ledger.finish_uploads(side, access, start, stop)
    finally:
        # Not left to `commit`: an interrupt may come as that begins.
        ledger.moving = False
        commit(ledger, _plan_taking, side, access, start, stop, reason, everything)


def _plan_taking(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, everything: Any
) -> Change:
    before = ledger.spans
    after = (before.put if everything else before.left_to)(start, stop, 1 << side)
    return Change(side, before, after, start, stop)


def adopt(ledger: Ledger, side: Side, buffer: Any, announced: Collection[set[Loan]]) -> None:
    """Replace the buffer of one side by another, whose contents are newer."""
    reach = 0, ledger.nbytes
    ledger.forget_source(*reach)
    ledger.await_uploads(side, OVERWRITE, *reach)
    ledger.compare_watch(side, *reach, writes=True)
    replaced = ledger.windows(side)
    commit(ledger, _plan_adoption, side, OVERWRITE, *reach, "adoption", (buffer, announced))
    let_go(replaced)
    for other in ledger.all_sides:
        has = other is not side and ledger.windows(other)
        if has and ledger.home(other).shared and ledger.home(side).shared:
            # The next access there shares the new buffer, if it can.
            ledger.whole[other] = None
            ledger.forget_shortcuts()
            ledger.loans.live.difference_update(ledger.loans.of(other))


def _plan_adoption(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, adopted: Any
) -> Change:
    buffer, announced = adopted
    require_announced(ledger.loans, announced, start, stop)
    before = ledger.spans
    windows = (Window(start, stop, buffer),)
    return Change(
        side,
        before,
        Spans.whole(stop, 1 << side),
        start,
        stop,
        losers=-1,
        lost=((start, stop),),
        stale=-1,
        prepare=lambda *_: windows,
        # While the buffer is exchanged, this side must not count as a holder.
        between=before.changed(start, stop, lambda held: held & ~(1 << side)),
    )


def leave(
    ledger: Ledger,
    others: Sequence[Ledger],
    give_up: Callable[[], Any],
    announced: Collection[set[Loan]],
) -> None:
    """Call a function that gives memories up, under their locks, if aliases were announced."""
    with ledger.lock:
        try:
            ledger.moving = True
            ledger.revoke_shortcuts()
            require_announced(ledger.loans, announced, 0, ledger.nbytes)
            if others:
                leave(others[0], others[1:], give_up, announced)
            else:
                give_up()
        finally:
            ledger.moving = False
