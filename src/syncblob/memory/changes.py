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

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._layout import Layout
from syncblob.copies import observed, recording
from syncblob.devices import Accelerator, Side
from syncblob.memory.history import note, note_use
from syncblob.memory.leases import NO_LOANS, Exposure, restore
from syncblob.memory.span_limit import exceeds_limit, joined, lowered, next_limit
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_aliases import require_announced
from syncblob.memory.state import CONST, MUTABLE, OVERWRITE, SMALL, Access, plan_access
from syncblob.memory.uploads import await_uploads, finish_uploads, start_uploads
from syncblob.memory.windows import Window, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from syncblob.memory.leases import Lease
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.shortcut import Shortcut
    from syncblob.memory.uploads import Upload

# The usual number of sides, and how bytes come to each of them from the other.
_PAIR = 2
_DIRECTIONS = ("download", "upload")
_OTHER = (Side.ACCELERATOR, Side.HOST)


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
        side's buffer, or the window of the access, or a tuple of all windows that the side gets;
        and the uploads that it has started. None if there is nothing to prepare.
    undo
        A function of the ledger that is called if `prepare` or anything after it fails.
    between
        The map while the side gets another buffer, or none; None if the buffer stays.
    capacity
        The new capacity; None if it stays.
    counted
        Whether open logs count what it avoids.
    limit, exposures
        The new limit of the source, and exposures of the side; None if they stay.
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
    exposures: tuple[Exposure, ...] | None = None


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
            ledger.revoke_in(loser, ranges, revoked, aliases=change.writes)
        uploads: Sequence[Upload] = ()
        if change.prepare is not None:
            buffer, uploads = change.prepare(ledger, change, reason)
            if type(buffer) is tuple:
                whole, windows = None, buffer
            elif type(buffer) is not Window:
                whole, windows = buffer, ()
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
        if change.counted and recording():
            note_use(ledger, side, change.start, change.stop)
        if fill is not None:
            # Bytes that several sides hold are about to be overwritten here, perhaps only in part.
            ledger.spans = before.left_to(1 << side, change.start, change.stop)
            fill(buffer, written)
        if uploads:
            ledger.uploads = (*ledger.uploads, *uploads)
        if change.limit is not None and ledger.source is not None:
            ledger.source.limit = change.limit
        if change.exposures is not None:
            ledger.loans[side].exposures = change.exposures
        ledger.spans = after
        done = True
        if change.capacity is not None:
            ledger.loans[side].detach()
        elif change.between is not None:
            ledger.own_loans(side).exporter = (None, None)
        if ledger.source is not None and change.limit is None and 0 not in after.holders:
            ledger.source = ledger.source.rest()
        if reason and (change.copied or after is not before or change.between is not None):
            history = note(ledger, reason, before, after, change.start, change.stop, change.copied)
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
        if isinstance(error, MemoryError):
            grown = change is not None and change.prepare is _enlarge
            needed = stop - start if grown else buffers.nbytes
            buffers.explain_shortage(error, side, needed, reason, layout)
        raise
    finally:
        ledger.moving = False
    if ledger.watch is not None:
        for piece in change.pieces:
            (ledger.watch.drop if uploads else ledger.watch.renew)(side, piece.start, piece.stop)
    return buffer


# --- accesses ------------------------------------------------------------------------------------


def claim(  # noqa: C901, PLR0911, PLR0912, PLR0913, PLR0915, PLR0917  # an access; inlined, because calls take time
    ledger: Ledger, buffer: Any, side: Side, access: Access, start: int, stop: int, reason: str
) -> bool:
    """Prepare a side for an access, if nothing can make that fail but the copy.

    These are the usual cases: the side holds the range, or another side holds the whole memory, the
    range, and nothing has been handed out there. So there is nothing to warn of, to revoke or to
    undo, and this does without `commit`.

    Returns
    -------
    bool
        Whether the buffer, the side's, may be used. If not, nothing has changed.
    """
    if ledger.moving:
        return False
    pair = len(ledger.loans) == _PAIR
    there = ledger.loans[1 - side] if pair else ledger.others(side)
    if ledger.uploads and not there.leases:
        finish_uploads(ledger, side, access, start, stop)
        shortcut = ledger.shortcuts.sides[side] if pair else None
        if (
            access is not CONST
            and shortcut is not None
            and shortcut.buffer is buffer
            and claim_shared(ledger, shortcut, side, start, stop, reason)
        ):
            return True
    copied = ""
    try:
        # From here on, not even a finaliser can change anything.
        ledger.moving = True
        before, buffers = ledger.spans, ledger.buffers
        here, there = ledger.loans[side], ledger.loans[1 - side] if pair else ledger.others(side)
        # What is copied from beside an alias is not trusted, so the map stays.
        sticky = bool(there.leases or there.exposures)
        if (
            (sticky and (access is not CONST or not there.may_write_all(start, stop)))
            or ledger.uploads
            or ledger.watch is not None
            or start >= stop
            or buffers.sides[side] is not buffer
            or buffer is None
        ):
            return False
        if access is not CONST and ledger.source is not None:
            ledger.forget_source(start, stop)
        uniform, mine = before.uniform, 1 << side
        held = before.common(start, stop) if uniform is None else uniform
        shortcuts = ledger.shortcuts
        if held & mine:
            if recording():
                note_use(ledger, side, start, stop)
            if access is CONST or before.any(start, stop) == mine:
                return True
            after = before.put(start, stop, mine)
            if exceeds_limit(after, ledger.span_limit):
                return False
            shortcuts.revoke()
        else:
            if not uniform or start or stop != before.nbytes or observed():
                return False
            if not pair:
                # What `others` returns is a copy then, and misses what is lent from here on.
                return False
            if access is CONST and (here.leases or here.exposures):
                return False
            if not sticky:
                shortcuts.revoke()
            # Now that the shortcuts are revoked: until then, one may lend without the lock.
            if there.borrows.live or (there.leases and not sticky):
                return False
            contents = buffers.sides[1 - side]
            if access is not OVERWRITE:
                if contents is None:
                    return False
                target = buffer if buffer.nbytes == stop else buffer[:stop]
                if contents.nbytes != stop:
                    contents = contents[:stop]
                accelerator: Accelerator = buffers.accelerator  # type: ignore[assignment]  # it has bytes
                if side:
                    accelerator.upload(contents, target)
                else:
                    accelerator.download(contents, target)
                copied = _DIRECTIONS[side]
            after = before
            if not sticky:
                after = Spans.whole(stop, held | mine if access is CONST else mine)
        epoch = shortcuts.epoch
        ledger.spans = after
        if ledger.follows_logs and after.uniform is not None:
            ledger.renew_shortcuts(epoch, after.uniform)
    finally:
        ledger.moving = False
    note(ledger, reason, before, after, start, stop, copied)
    return True


def acquire(  # noqa: C901, PLR0912, PLR0913, PLR0917  # an access
    ledger: Ledger,
    side: Side,
    access: Access,
    layout: Layout,
    reason: str,
    announced: Collection[Lease] = (),
    fill: Callable[..., None] | None = None,
) -> Any:
    """Bring the range of a layout up to date on one side, and return the side's buffer.

    Parameters
    ----------
    ledger
        The ledger.
    side, access, layout, reason
        The access.
    announced
        The aliases of the other side that a warning has named.
    fill
        Writes into the buffer, its argument. If the contents that an overwrite discards have to be
        kept until then, it also gets a list, and appends to it when it has written.

    Raises
    ------
    Unannounced
        If the access may write, and aliases of the other side that no warning has named overlap its
        range.
    """
    start, stop = (0, ledger.spans.nbytes) if layout.whole else (layout.start, layout.stop)
    if access is OVERWRITE and not (layout.gapless and layout.stop - layout.start == stop - start):
        access = MUTABLE
    buffer = ledger.buffers.sides[side]
    if buffer is None and side:
        buffer = provide(ledger, side, start, stop, reason, layout)
    if fill is None and claim(ledger, buffer, side, access, start, stop, reason):
        return buffer
    writes, mine = access is not CONST, 1 << side
    if writes:
        ledger.forget_source(start, stop)
    if writes and ledger.others(side).leases:
        require_announced(ledger.loans, announced, start, stop, side)
    held = ledger.spans.common(start, stop) & mine
    if ledger.moving:
        if held and not writes:
            return buffer
        ledger.refuse_reentry()
    if ledger.uploads:
        await_uploads(ledger, side, access, start, stop)
    if ledger.watch is not None:
        ledger.compare_watch(side, access, start, stop)
    if not held or buffer is None:
        plan = _plan_crossing, side, access, start, stop, reason, announced
        return commit(ledger, *plan, layout=layout, fill=fill)
    if recording():
        note_use(ledger, side, start, stop)
    if writes:
        for other, loans in enumerate(ledger.loans):
            if other != side and loans.exposures:
                loans.exposures = loans.without_exposures(start, stop)
        # No borrow or alias can write on the other side: the access that synced both ended that.
        take(ledger, side, start, stop, reason)
    if fill is not None:
        fill(buffer)
        if start < stop and not ledger.spans.common(start, stop) & mine:
            # A signal handler or a finaliser has written on the other side meanwhile.
            return acquire(ledger, side, access, layout, reason, announced, fill)
    return buffer


def _plan_crossing(  # noqa: C901, PLR0912, PLR0913, PLR0917  # an access; inlined, because calls take time
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
    elif (
        held
        and not held & mine
        and not writes
        and any(
            held >> other & 1 and loans.may_write_all(start, stop)
            for other, loans in enumerate(ledger.loans)
        )
    ):
        # Nothing that is copied is trusted, so the map stays.
        pieces, after = (Run(start, stop, held),), before
    else:
        # Bytes that an alias writes during the copy must be copied again.
        writers = [
            loans.writers(start, stop) if loans.may_be_written else () for loans in ledger.loans
        ]
        pieces, runs = plan_access(before, side, access, start, stop, writers=writers)
        after = before.replaced(runs) if start < stop else before
    if after is not before and len(after.holders) > 1:
        pieces, after = _shortened(ledger, pieces, after, side, start, stop)
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
    copied = _DIRECTIONS[side > 0] if copies else ""
    if copied and len(ledger.loans) > _PAIR:
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
        return _DIRECTIONS[0]
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
    low = before.span_of(first.start).start if first.start == start else first.start
    high = before.span_of(last.stop - 1).stop if last.stop == stop else last.stop
    brought = [*pieces]
    brought[0] = first._replace(start=low)
    brought[-1] = brought[-1]._replace(stop=high)
    for piece, outside in ((first, (low, start)), (last, (stop, high))):
        if not piece.holders and outside[0] < outside[1]:
            after = after.put(*outside, 1 << Side.HOST)
    return brought, after


def _shortened(  # noqa: PLR0913, PLR0917  # an access, and its plan
    ledger: Ledger,
    pieces: Sequence[Run],
    after: Spans,
    side: Side | None,
    start: int,
    stop: int,
    *,
    source: bool = True,
) -> tuple[Sequence[Run], Spans]:
    """Shorten the map that a change would leave, if it is too long; see `joined`.

    Returns the pieces with those that must be copied for that, and the map.
    """
    if not exceeds_limit(after, ledger.span_limit):
        if ledger.span_limit:
            ledger.span_limit = lowered(ledger.span_limit, after)
        return pieces, after
    buffers = ledger.buffers
    if side is not None and (
        # They may not contain what would be copied.
        buffers.windows[side]
        # A copy would end borrows of the others, and those are not tracked.
        or not all(buffers.tracks_borrows(each) for each in buffers.all_sides if each is not side)
    ):
        side = None
    ranges = ledger.ranges_in_use()
    kept = Spans.covering(after.nbytes, ranges)
    more, after = joined(after, side, start, stop, kept, source=source)
    # Before the map changes: another thread may be working on a span that loses holders.
    ledger.span_limit = next_limit(after, len(ranges))
    return sorted([*pieces, *more]), after


def _bring(ledger: Ledger, change: Change, reason: str) -> tuple[Any, Sequence[Upload]]:
    """Copy or fill the pieces of an access."""
    side, buffers, pair = change.side, ledger.buffers, len(ledger.loans) == _PAIR
    accelerator = ledger.accelerator_of(side)
    buffer = buffers.get(side, accelerator, change.start, change.stop, zeroed=change.zeroed)
    for start, stop, holders in change.pieces:
        if not holders:
            upload = None if not side else buffers.copying(accelerator, reason)  # type: ignore[arg-type]  # its own
            buffers.fill(ledger.source, buffer, start, stop, upload)
            continue
        # With two sides, it is the other one.
        origin = _OTHER[side] if pair else buffers.nearest(side, holders)
        because = ""
        if not change.writes and recording():
            because = ledger.loans[origin].writer_in(origin, start, stop)
        partner = accelerator if side or pair else buffers.home(origin)
        copying = buffers.copying(partner, reason, because)  # type: ignore[arg-type]  # it is one
        buffers.bring(copying, origin, side, buffer, start, stop)
    if side and accelerator is not None and buffers.accelerator is None:
        buffers.add(accelerator)
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
    accelerator = ledger.accelerator_of(origin)
    aliased = any([*loans.writers(start, stop)] for loans in ledger.loans)
    nbytes = ledger.spans.nbytes
    more = nbytes <= SMALL and stop - start < nbytes
    if accelerator is None or not accelerator.pulls or aliased or more or ledger.watch is not None:
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
    plan = plan_access(before, target, CONST, start, stop, writers=of_sides)
    runs = plan.runs
    after = before.replaced(runs if before.nbytes else [Run(0, 0, before.holders[0] | 1 << target)])
    pieces, after = _shortened(ledger, plan.pieces, after, target, start, stop, source=False)
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
    accelerator = ledger.accelerator_of(origin or side)
    if accelerator is None:
        raise RuntimeError("a push needs an accelerator")
    # A caller on the host may reach beyond a part, and must not find old bytes of the heap there.
    part = change.stop - change.start < change.before.nbytes
    zeroed = side is Side.HOST and buffers.sides[side] is None and part
    buffer = buffers.get(side, accelerator, change.start, change.stop, zeroed=zeroed)
    pieces = [
        Run(max(piece.start, window.start), min(piece.stop, window.stop), piece.holders)
        for piece in change.pieces
        for window in buffers.within(origin, piece.start, piece.stop)
    ]
    uploads = start_uploads(ledger, accelerator, origin, side, buffer, pieces, stream, reason)
    if buffers.accelerator is None:
        buffers.add(accelerator)
    return buffer, uploads


def _await_started(side: Side, ledger: Ledger) -> None:
    """Wait for copies that a failed push or pull has started: no access would.

    They must not arrive when the buffer holds something newer. During a capture none starts, and a
    wait would break the capture.
    """
    accelerator = ledger.accelerator_of(side)
    if accelerator is not None and not accelerator.capturing:
        accelerator.synchronize()


def claim_shared(  # noqa: PLR0913, PLR0917  # a write
    ledger: Ledger,
    shortcut: Shortcut,
    side: Side,
    start: int,
    stop: int,
    reason: str,
    array: NDArray[Any] | None = None,
    value: Any = None,
) -> bool:
    """Make a side the only holder of a range, the first time that it is written after reads.

    Takes the lock. Nothing has to be looked at but the shortcut of the side, because everything
    that matters clears it.

    Parameters
    ----------
    ledger, shortcut, side, start, stop, reason
        The write.
    array, value
        A host array over the range, and a number to write into it in the same step.

    Returns
    -------
    bool
        Whether the range may be written now. If not, nothing has changed.
    """
    with ledger.lock:
        before, nbytes = ledger.spans, ledger.spans.nbytes
        if start >= stop or stop > nbytes or ledger.moving or not shortcut.shared:
            return False
        if len(ledger.loans) > _PAIR:
            # The shortcuts of several sides cannot be cleared in one step.
            return False
        whole = stop - start == nbytes
        after = Spans.whole(nbytes, 1 << side) if whole else before.put(start, stop, 1 << side)
        try:
            ledger.moving = True
            # Nothing is called from here on, so no signal handler can run.
            shortcuts = ledger.shortcuts
            sides = shortcuts.sides
            # A caller that this interrupts on the same thread may be about to set them.
            epoch: object = []
            shortcuts.epoch = epoch
            if not shortcut.shared or sides[side] is not shortcut or ledger.spans is not before:
                return False
            other = sides[1 - side]
            shortcut.shared = False
            if other is not None:
                other.readable = other.shared = False
            ledger.spans = after
            if array is not None:
                array[...] = value
            # The side may be read everywhere, also if it shares the rest.
            shortcut.writable = whole
            if shortcuts.epoch is not epoch:
                # Another thread has opened a log, which needs no lock.
                shortcuts.clear()
        finally:
            ledger.moving = False
        note(ledger, reason, before, after, start, stop)
        return True


def assign(  # noqa: C901, PLR0912, PLR0913, PLR0917  # a write
    ledger: Ledger,
    shortcut: Shortcut,
    side: Side,
    start: int,
    stop: int,
    reason: str,
    array: NDArray[Any],
    value: Any,
) -> bool:
    """Write a number into a range of a side, if nothing can make that fail. Takes the lock.

    The side need not hold the range if all of it is overwritten.

    Parameters
    ----------
    ledger
        The ledger.
    shortcut
        The shortcut of the buffer that the array lies over.
    side, start, stop, reason
        The write.
    array, value
        The array, and the number for all its elements. To assign it must not raise.

    Returns
    -------
    bool
        Whether it was written. If not, nothing has changed.
    """
    home = ledger.buffers.home(side)
    with ledger.lock:
        if ledger.moving or len(ledger.loans) > _PAIR:
            return False
        there = ledger.loans[1 - side]
        if ledger.uploads and not there.leases:
            finish_uploads(ledger, side, OVERWRITE, start, stop)
            if home.direct and claim_shared(
                ledger, shortcut, side, start, stop, reason, array, value
            ):
                return True
        try:
            # From here on, not even a finaliser can change anything.
            ledger.moving = True
            ledger.forget_source(start, stop)
            before, mine, there = ledger.spans, 1 << side, ledger.loans[1 - side]
            after = before.put(start, stop, mine)
            if (
                there.leases
                or there.exposures
                or ledger.uploads
                or ledger.watch is not None
                or stop > before.nbytes
                or ledger.buffers.sides[side] is not shortcut.buffer
                or shortcut.buffer is None
                or exceeds_limit(after, ledger.span_limit)
            ):
                return False
            held = before.uniform
            some = before.any(start, stop) if held is None else held
            holds = (before.common(start, stop) if held is None else held) & mine
            if not holds and (
                some & mine or ledger.source is not None or array.nbytes != stop - start
            ):
                # Of an array with gaps, the bytes in these would not be overwritten.
                return False
            if recording():
                note_use(ledger, side, start, stop)
            changes = some != mine
            if changes:
                ledger.shortcuts.revoke()
                # Now that the shortcuts are revoked: until then, one may lend without the lock.
                if there.borrows.live or there.leases:
                    return False
                if holds:
                    # Bytes that several sides hold are about to be overwritten here.
                    ledger.spans = after
            if home.direct:
                array[...] = value
            else:
                home.compute(operator.setitem, array, ..., value)
            # Until now, the other side has the old contents of what it alone holds.
            ledger.spans = after
        finally:
            ledger.moving = False
        if changes:
            note(ledger, reason, before, after, start, stop)
        return True


# --- windows -------------------------------------------------------------------------------------


def provide(  # noqa: PLR0913, PLR0917  # an access
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, layout: Layout | None = None
) -> Any:
    """Return the window of a side that contains a range; make one if the memory has windows.

    Returns
    -------
    Window or array
        The buffer of the whole memory, if it was made instead. None if the access is to make it.
    """
    found = ledger.buffers.containing(side, start, stop)
    reaches = ledger.buffers.reaches(side, start, stop) if found is None else ()
    if not reaches or ledger.moving:
        return found
    *larger, union = reaches
    try:
        grow(ledger, side, *reaches[0], reason, layout, union)
    except (MemoryError, BufferError):
        if not larger:
            raise
        grow(ledger, side, *union, reason, layout, union)
    return ledger.buffers.containing(side, start, stop)


def grow(  # noqa: PLR0913, PLR0917  # a range, and the access that needs it
    ledger: Ledger,
    side: Side,
    start: int,
    stop: int,
    reason: str,
    layout: Layout | None = None,
    needed: tuple[int, int] = (0, 0),
) -> None:
    """Make a window of a range, which replaces those that it overlaps; of everything, a buffer.

    An access needs the range `needed` in one buffer.
    """
    commit(ledger, _plan_growth, side, MUTABLE, start, stop, reason, *needed, layout=layout)


def _plan_growth(  # noqa: PLR0913, PLR0917  # an access, and what it needs
    ledger: Ledger,
    side: Side,
    _access: Access,
    start: int,
    stop: int,
    needed_start: int,
    needed_stop: int,
) -> Change:
    """Plan to make a window, which replaces those that it overlaps. The map stays."""
    replaced = [(w.start, w.stop) for w in ledger.buffers.within(side, start, stop)]
    untouched = any(low < needed_start or needed_stop < high for low, high in replaced)
    # Another thread may be writing into a part that this access does not touch, without the lock.
    # The shortcuts are revoked, so that no further thread begins to.
    if untouched and type(ledger).used_by_others(ledger):
        raise BufferError(f"another thread is using {ledger.buffers.described()}")
    for part in replaced:
        holder = ledger.loans[side].writer_in(side, *part)
        if holder:
            raise BufferError(
                f"bytes {start} to {stop} of {ledger.buffers.described()} are needed in one "
                f"buffer, and bytes {part[0]} to {part[1]} have one that cannot be moved, because "
                f"of {holder}; delete it first, or make it when the accelerator has room for the "
                "whole Blob"
            )
    before = ledger.spans
    return Change(side, before, before, start, stop, losses=((side, replaced),), prepare=_enlarge)


def _enlarge(ledger: Ledger, change: Change, _reason: str) -> tuple[Any, Sequence[Upload]]:
    accelerator = ledger.accelerator_of(change.side)
    if accelerator is None:
        raise RuntimeError("a window needs an accelerator")
    buffers = ledger.buffers
    replaced = buffers.within(change.side, change.start, change.stop)
    enlarged = buffers.enlarged(change.side, accelerator, change.start, change.stop)
    _forget_exports(ledger, change.side, replaced)
    if buffers.accelerator is None:
        buffers.add(accelerator)
    return enlarged, ()


def _forget_exports(ledger: Ledger, side: Side, windows: Sequence[Window]) -> None:
    """Compare the watched exports of windows that are about to go, and watch them no longer."""
    if ledger.watch is not None:
        ledger.watch.compare()
        for window in windows:
            ledger.watch.drop(side, window.start, window.stop)


def evict(ledger: Ledger, side: Side, start: int, stop: int, reason: str) -> int:
    """Free the windows of a side that lie in a range; what only they hold moves elsewhere.

    That is the host, or the first accelerator for what is on the host. What the source still has
    does not move. `blob.eviction` decides what is evicted, and when.

    Returns
    -------
    int
        The number of bytes freed.

    Raises
    ------
    BufferError
        If aliases need a window.
    """
    if ledger.moving:
        ledger.refuse_reentry()
    used = ledger.spans.nbytes
    windows = ledger.buffers.inside(side, start, stop, used)
    _rescue(ledger, side, windows, reason)
    # Afterwards, because a source that has been read completely is closed.
    if windows and ledger.source is not None and not ledger.source.reopen():
        ledger.forget_source(0, used)
        _rescue(ledger, side, windows, reason)
    if windows:
        # A host access that may write waits for uploads.
        commit(ledger, _plan_eviction, Side.HOST, MUTABLE, start, min(stop, used), reason, side)
    return sum(window.nbytes for window in windows)


def _rescue(ledger: Ledger, side: Side, windows: Sequence[Window], reason: str) -> None:
    """Copy what only a side has in windows to another one."""
    refuge = Side.HOST if side else Side.ACCELERATOR
    for window in windows:
        low, high = window.start, min(window.stop, ledger.spans.nbytes)
        _require_free(ledger, side, low, high)
        for run in ledger.only_on(side, low, high):
            acquire(ledger, refuge, CONST, Layout.raw(run.nbytes, run.start), reason)


def _require_free(ledger: Ledger, side: Side, start: int, stop: int) -> None:
    """Raise unless the bytes of a window may go elsewhere."""
    holder = ledger.loans[side].writer_in(side, start, stop)
    if holder:
        raise BufferError(
            f"bytes {start} to {stop} of {ledger.buffers.described()} cannot leave "
            f"{ledger.buffers.home(side).device}, because of {holder}; delete it first"
        )


def _plan_eviction(  # a range
    ledger: Ledger, _host: Side, _access: Access, start: int, stop: int, side: Side
) -> Change:
    before, mine = ledger.spans, 1 << side
    after, losses = before, []
    for window in ledger.buffers.inside(side, start, stop, before.nbytes):
        low, high = window.start, min(window.stop, before.nbytes)
        # Check again: an alias may have been made since.
        _require_free(ledger, side, low, high)
        runs = [run._replace(holders=run.holders & ~mine) for run in before.runs(low, high)]
        if ledger.only_on(side, low, high):
            raise RuntimeError(
                "this memory was written from a finaliser or a signal handler while it was evicted"
            )
        after = after.replaced(runs)
        losses.append((side, ((low, high),)))
    return Change(side, before, after, start, stop, losses=losses, prepare=_drop, between=after)


def _drop(ledger: Ledger, change: Change, _reason: str) -> tuple[Any, Sequence[Upload]]:
    side, buffers = change.side, ledger.buffers
    gone = buffers.inside(side, change.start, change.stop, change.before.nbytes)
    home = buffers.home(side)
    if isinstance(home, Accelerator):
        for window in gone:
            # Its memory may be given to someone else at once.
            home.settle(window.array)
    _forget_exports(ledger, side, gone)
    return tuple(each for each in buffers.windows[side] if each not in gone), ()


# --- changes without copies ----------------------------------------------------------------------


def take(  # noqa: PLR0913  # a range
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, *, everything: bool = False
) -> None:
    """Make a side the only holder of what it shares in a range, or of everything in it."""
    if ledger.spans.any(start, stop) == 1 << side:
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
    if everything and (start < stop or not before.nbytes):
        after = before.put(start, stop, mine)
    else:
        after = before.left_to(mine, start, stop)
    if after is not before:
        after = _shortened(ledger, (), after, None, start, stop)[1]
    return Change(side, before, after, start, stop)


def finish_write(ledger: Ledger, side: Side, start: int, stop: int, reason: str) -> None:
    """Record that a write has ended; see `SyncedMemory.finish_write`."""
    take(ledger, side, start, stop, reason, everything=ledger.span_limit > 0)


def expose(ledger: Ledger, side: Side, exposure: Exposure) -> None:
    """Add an exposure of a side, which becomes the only holder of what it shares there."""
    stop = min(exposure.stop, ledger.spans.nbytes)
    commit(
        ledger, _plan_exposure, side, MUTABLE if side else CONST, exposure.start, stop, "", exposure
    )


def _plan_exposure(  # noqa: PLR0913, PLR0917  # a range
    ledger: Ledger, side: Side, access: Access, start: int, stop: int, exposure: Exposure
) -> Change:
    exposures = ledger.own_loans(side).exposures
    change = _plan_taking(ledger, side, access, start, stop, everything=False)
    others = (other for other in exposures if other[:2] != exposure[:2])
    return change._replace(exposures=(*others, exposure))


def adopt(ledger: Ledger, side: Side, buffer: Any, announced: Collection[Lease]) -> None:
    """Replace the buffer of one side by another, whose contents are newer."""
    used = ledger.spans.nbytes
    ledger.forget_source(0, used)
    await_uploads(ledger, side, OVERWRITE, 0, used)
    if ledger.watch is not None:
        ledger.watch.compare()
        ledger.watch.drop(side, 0, used)
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


def fit(ledger: Ledger, nbytes: int) -> None:
    """Change the number of bytes in use; see `SyncedMemory.fit`."""
    used = ledger.spans.nbytes
    if ledger.moving:
        ledger.refuse_reentry()
    if nbytes > used:
        await_uploads(ledger, Side.ACCELERATOR, MUTABLE, used, nbytes)
    commit(ledger, _plan_fit, Side.ACCELERATOR, MUTABLE, used, nbytes, "")


def _plan_fit(ledger: Ledger, side: Side, _access: Access, used: int, nbytes: int) -> Change:
    """Plan to change the number of bytes in use. Those that come into use become zeros.

    Borrows and aliases of these bytes may remain from when they were last in use. The bytes of an
    alias become its side's alone. If aliases of several sides overlap, the last of these sides gets
    the bytes, and NumPy aliases of the host are revoked. A borrow is revoked unless its side alone
    holds its bytes.
    """
    before, buffers = ledger.spans, ledger.buffers
    after = before.resized(nbytes)
    if nbytes > used and any(buffers.windows):
        # They end before, so that they cannot hold the new bytes.
        windowed = sum(1 << owner for owner, windows in enumerate(buffers.windows) if windows)
        after = after.put(used, nbytes, after.common(used, nbytes) & ~windowed)
    losses = []
    if nbytes > used:
        for owner, loans in enumerate(ledger.loans):
            for writer in loans.writers(used, nbytes):
                start, stop = max(writer.start, used), min(writer.stop, nbytes)
                if buffers.containing(owner, start, stop) is not None and not writer.revoked:
                    after = after.put(start, stop, 1 << owner)
        for loser in buffers.all_sides:
            runs = after.runs(used, nbytes)
            losses.append((loser, [run[:2] for run in runs if run.holders != 1 << loser]))
    limit = None if ledger.source is None else min(ledger.source.limit, nbytes)
    return Change(
        side, before, after, used, nbytes, losses=losses, writes=True, prepare=_zero, limit=limit
    )


def _zero(ledger: Ledger, change: Change, _reason: str) -> tuple[Any, Sequence[Upload]]:
    """Zero the bytes that come into use, on the sides that hold them."""
    buffers = ledger.buffers
    for side in buffers.all_sides:
        if ledger.watch is not None:
            ledger.watch.drop(side, change.start, change.stop)
        for run in change.after.runs(change.start, change.stop):
            # Several, if aliases of windows reach there.
            for window in buffers.within(side, run.start, run.stop):
                if run.holders & (1 << side):
                    start, stop = max(run.start, window.start), min(run.stop, window.stop)
                    buffers.home(side).zero(part_of(window, start, stop))
    buffer = buffers.sides[change.side]
    return buffers.windows[change.side] if buffer is None else buffer, ()


def leave(
    ledger: Ledger,
    others: Sequence[Ledger],
    give_up: Callable[[], Any],
    announced: Collection[Lease],
) -> None:
    """Detach a Blob from memories by a function; see `SyncedMemory.leave`."""
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
