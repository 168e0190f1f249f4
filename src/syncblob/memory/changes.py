"""Changes of state: functions that plan one as a value, and `commit`, which carries it out.

Call the functions under the memory's lock. A change is made completely or not at all, whatever
raises, even a signal handler, which CPython runs after calls and at jumps backwards only. So
`commit` first prepares what can be undone, or makes no difference. Then come assignments without a
call between them, each of which leaves a true state: the map last, because readers without the lock
look at it first. Last comes what may be left undone.
"""

from __future__ import annotations

from functools import lru_cache, partial, reduce
from itertools import chain
from operator import and_
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._source_lines import user_instruction
from syncblob.devices import Side
from syncblob.devices.base import WRITERS, begin
from syncblob.memory.buffers import DIRECTIONS, EMPTY, PAIR, Window, find_window
from syncblob.memory.ledger import OLDEST, Transition, Upload
from syncblob.memory.loans import BORROW, NO_LOANS, require_announced
from syncblob.memory.operations import is_written_elsewhere, let_go, running, searches
from syncblob.memory.state_machine import CONST, OVERWRITE, Access, Run, Spans, plan_access
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from syncblob._layout import Layout
    from syncblob.devices.base import Push
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.loans import Loan

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
    # The sides whose aliases lose it too; 0 unless it writes.
    stale: int = 0
    # Whether the side's buffer is filled with zeros first.
    zeroed: bool = False
    # Whether it is an access, which needs a buffer, and of which open logs count what it avoids.
    counted: bool = False
    # Does what can fail, and returns the windows that the side has then.
    prepare: Callable[[Ledger, Change], tuple[Window, ...]] | None = None
    # By side, a function that starts a copy from there, which may still run afterwards.
    starts: Mapping[int, Callable[[Any, Any], Push]] = EMPTY
    # The map while the side gets another buffer, or none; None if the buffer stays.
    between: Spans | None = None
    # The bytes that it allocates, for an error; None for those of the whole memory.
    needed: int | None = None
    # If spans beside its range are joined, the number above which they may be joined next.
    span_limit: int = 0


def plan(  # noqa: PLR0913  # the table, and what it leaves open
    ledger: Ledger,
    side: Side,
    access: Access,
    start: int,
    stop: int,
    announced: Collection[set[Loan]] = (),
    *,
    joins: bool = True,
) -> Change:
    """Plan an access by the table. Changes nothing. `joins` lets it be widened; see `MAX_SPANS`."""
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
        reach = [Run(each.start, each.stop, ledger.alike(each.side)) for each in writers]
        pieces, runs = plan_access(before, side, access, start, stop, writers=reach)
        after = before.replaced(runs)
    limit = 0
    many = joins and not new and len(after.holders) > max(MAX_SPANS, ledger.span_limit)
    if many and not is_written_elsewhere(ledger):
        pieces, after = _join(ledger, pieces, after, side, start, stop)
        limit = max(MAX_SPANS, 2 * len(after.holders))
    lost: Sequence[tuple[int, int]] = ()
    if loans.live:
        lost = [piece[:2] for piece in pieces]
        if writes or not nbytes:
            lost.append(changed)
    if pieces and part and side is Side.HOST and nbytes <= SMALL and not limit:
        # The bytes beside its ends that are where those come along. What another side holds keeps
        # its holders, because other code may be writing it there.
        low, high = before.span_of(start)[0], before.span_of(stop - 1)[1]
        pieces = before.lacking(low, high, mine)
        for run in pieces:
            if not run.holders:
                after = after.put(run.start, run.stop, mine)
    # The caller of an access of a part on the host may reach further, and must not find old bytes
    # of the heap there.
    zeroed = (initial and access is not OVERWRITE) or (part and (initial or (new and not side)))
    stale = ~ledger.alike(side) if writes else 0
    fields = side, before, after, start, stop, pieces, ~mine, lost, stale, zeroed, True
    return Change(*fields, span_limit=limit)


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
def _known_plan(*_alike: int) -> list[Change]:
    """Return the list in which the plan of accesses of memories that are alike is remembered."""
    return []


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
        spans = ledger.spans
        # Of such memories, `plan` asks nothing else.
        plain = (
            planner is plan
            and spans.uniform is not None
            and (stop - start == spans.nbytes or (spans.uniform and ledger.whole[side]))
            and not (ledger.loans.live or ledger.source or ledger.shared)
        )
        alike = (spans.nbytes, spans.uniform, side, access, start, stop, SMALL)
        known = _known_plan(*alike) if plain else []
        if not known:
            known.append(planner(ledger, side, access, start, stop, argument))
        change = known[0]
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


def _prepare(  # noqa: C901, PLR0912  # all that can fail, in order
    ledger: Ledger, planner: Callable[..., Change], change: Change, reason: str, revoked: list[Loan]
) -> tuple[Spans, Any, str]:
    """Do what can fail. Return the map afterwards, the side's window, and the way of copies."""
    side, before, after, start, stop, pieces, losers, lost, stale, zeroed, counted = change[:11]
    loans, copied = ledger.loans, ""
    if (
        pieces
        and planner is plan
        and not stale
        and (WRITERS or len(running) > (get_ident() in running))
        and all(piece[2] for piece in pieces)
        and is_written_elsewhere(ledger)
    ):
        # What another thread has begun to write is copied, and not trusted to be all of it.
        after = before
    for reach in lost:
        part = None if reach == (0, before.nbytes) else reach
        loans.revoke(revoked, losers, part, aliases=stale)
    window: Any = ledger.whole[side]
    missing = counted and (zeroed or window is None)
    windows = known = ledger.windows(side) if missing or change.prepare is not None else ()
    if change.prepare is not None:
        windows = change.prepare(ledger, change)
    elif missing:
        window = find_window(known, start, stop) if known else None
        if window is None:
            # Of everything: parts of large memories have been provided.
            window = Window(0, before.nbytes, ledger.allocate(side, before.nbytes, zeroed=zeroed))
            windows = (window,)
        elif zeroed:
            # Just made for this access, or an interrupted access left it.
            ledger.finish_others(side, 0, before.nbytes)
            ledger.home(side).zero(window.array)
    for low, high, holders in pieces:
        if not holders:
            ledger.fill(ledger.source, side, window, low, high, reason)
            continue
        origin = ledger.nearest(side, holders) if ledger.homes[2:] else PAIR[1 - side]
        if window.common is not None:
            ledger.finish_others(side, low, high)
            if ledger.alike(side) >> origin & 1:
                continue
        logged = open_logs and loans.live and not (stale or change.starts)
        near = loans.writers(low, high, ledger.alike(origin)) if logged else ()
        because = near[0].description if near else None
        places: Any = [(ledger.whole[origin], low, high)]
        if ledger.whole[origin] is None:
            there = ledger.within(origin, low, high)
            places = [(each, max(low, each.start), min(high, each.stop)) for each in there]
        for each, first, last in places:
            contents, target = each.array, window.array
            if contents.nbytes != last - first:
                contents = each.part(first, last)
            if target.nbytes != last - first:
                target = window.part(first, last)
            start_copy = change.starts.get(origin)
            if start_copy:
                # First, and with its push as soon as that returns: an interrupt forgets no copy.
                ledger.uploads += (Upload(first, last, [], side, origin),)
                start_copy = partial(begin, ledger.uploads[-1].begun, start_copy)
            ledger.move(origin, side, contents, target, first, reason, because, start_copy)
        copied = "peer" if side and origin else copied or DIRECTIONS[side > 0]
    if stale and window is not None and window.common is not None:
        # Work of others may still read what is about to be written.
        ledger.finish_others(side, start, stop)
    if windows != known:
        _exchange(ledger, change, known, windows)
    return after, window, copied


def _exchange(
    ledger: Ledger, change: Change, known: tuple[Window, ...], windows: tuple[Window, ...]
) -> None:
    """Give a side its windows. Harmless before the map changes: it does not count their bytes."""
    side, loans, parts = change.side, ledger.loans, ledger.parts
    if side:
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
    side, before, after, start, stop = change[:5]
    if after is not before and before.any(start, stop) & ledger.alike(side):
        ledger.spans = before.left_to(start, stop, 1 << side, ledger.alike(side))
    fill(window, written)


def _clean_up(ledger: Ledger, change: Change, revoked: list[Loan], last: Transition | None) -> bool:
    """End what a change ends, after it. Return whether the map alone decides who may use what."""
    side, loans, watch = change.side, ledger.loans, ledger.watch
    if change.between is not None and change.stale:
        # It has got a buffer that other code has made.
        loans = ledger.own_loans()
        loans.foreign |= 1 << side
        loans.live.difference_update([x for x in loans.of(side) if x.kind is not BORROW])
        for other in ledger.all_sides if ledger.home(side).shared else ():
            if other is not side and ledger.whole[other] and ledger.home(other).shared:
                # The next access there shares the new buffer, if it can.
                ledger.whole[other] = None
                ledger.forget_shortcuts()
                loans.live.difference_update(loans.of(other))
                if watch is not None:
                    watch.drop(other, change.start, change.stop)
    if ledger.source is not None and 0 not in change.after.holders:
        ledger.source = ledger.source.rest()
    if loans.live and change.lost:
        loans.note_end(ledger, revoked, last, change)
    if watch is not None:
        for other in ledger.all_sides:
            for start, stop, _ in change.pieces if ledger.alike(side) >> other & 1 else ():
                (watch.drop if change.starts else watch.renew)(other, start, stop)
    rare = watch or ledger.source or change.after.uniform is None
    return not (rare or ledger.aliased)


def _undo(ledger: Ledger, change: Change | None, revoked: list[Loan], written: list[int]) -> None:
    """Undo what a change that failed has prepared, unless its contents have been written."""
    if written[0] and change is not None:
        # An interrupt came right after the write. The parts that this side held before have the
        # new contents already, so the whole range must have them.
        ledger.spans = change.after
        return
    for array in [loan() for loan in revoked]:
        if array is not None:
            array.flags.writeable = True


def _surely(change: Callable[[], object]) -> None:
    """Make a change, and again if an asynchronous copy has failed, or an interrupt came."""
    try:
        change()
    except BaseException:
        change()
        raise


def take(
    ledger: Ledger, side: Side, start: int, stop: int, reason: str = "", *, everything: bool = False
) -> None:
    """Make a side the only holder of what it shares in a range, or of everything in it."""
    if ledger.moving:
        ledger.refuse_reentry()
    if ledger.watch is not None:
        # Other code writes here, so a difference would prove nothing.
        ledger.watch.drop(side, start, stop)
    if ledger.is_alone(side, start, stop):
        return
    _surely(lambda: commit(ledger, _plan_taking, side, CONST, start, stop, reason, everything))


def _plan_taking(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, everything: Any
) -> Change:
    before, mine, alike = ledger.spans, 1 << side, ledger.alike(side)
    # A signal handler may have evicted it.
    if not (everything and ledger.window_over(side, start, stop)):
        return Change(side, before, before.left_to(start, stop, mine, alike), start, stop)
    # Other sides may have lent what they lose.
    change = side, before, before.put(start, stop, mine), start, stop
    return Change(*change, losers=~mine, lost=((start, stop),), stale=~alike)


def adopt(ledger: Ledger, side: Side, buffer: Any, announced: Collection[set[Loan]]) -> None:
    """Replace the buffer of one side by another, whose contents are newer."""
    reach = 0, ledger.nbytes
    ledger.forget_source(*reach)
    ledger.compare_watch(side, *reach, writes=True)
    replaced = ledger.windows(side)
    change = _plan_adoption, side, OVERWRITE, *reach, "adoption", (buffer, announced)
    _surely(lambda: commit(ledger, *change))
    let_go(replaced)


def _plan_adoption(
    ledger: Ledger, side: Side, access: Access, start: int, stop: int, adopted: Any
) -> Change:
    buffer, announced = adopted
    change = _plan_leave(ledger, side, access, start, stop, announced)
    windows, after = (Window(start, stop, buffer),), Spans.whole(stop, 1 << side)
    # While the buffer is exchanged, this side must not count as a holder.
    between = change.before.changed(start, stop, lambda held: held & ~(1 << side))
    return change._replace(after=after, prepare=lambda *_: windows, between=between)


def leave(
    ledger: Ledger,
    others: Sequence[Ledger],
    replace: Callable[[], None],
    announced: Collection[set[Loan]],
) -> None:
    """Call a function that replaces memories, under their locks, and end what they have lent."""
    rest = partial(leave, others[0], others[1:], replace, announced) if others else replace

    def change(_: Ledger) -> None:
        fields = Side.HOST, CONST, 0, ledger.nbytes, "", announced
        commit(ledger, _plan_leave, *fields, fill=lambda *_: rest())  # if it raises, none ends

    ledger.under_lock(change)


def _plan_leave(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, announced: Any
) -> Change:
    """Plan to end everything that was lent."""
    require_announced(ledger.loans, announced, start, stop)
    change = side, ledger.spans, ledger.spans, start, stop
    return Change(*change, losers=-1, lost=((start, stop),), stale=-1)
