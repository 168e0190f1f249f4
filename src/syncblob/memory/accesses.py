"""Accesses: bringing a range of a side up to date, at once or by a copy under way.

`acquire` does what any access needs. `claim` and `claim_shared` are short ways of the usual ones.
Call the functions under the memory's lock, unless they take it.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob.devices import Side
from syncblob.guards import running_guards
from syncblob.memory.borrows_and_aliases import NO_LOANS
from syncblob.memory.changes import Change, commit, take
from syncblob.memory.history import note, note_use
from syncblob.memory.span_limit import may_exceed_limit, shortened
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_aliases import require_announced
from syncblob.memory.transitions import CONST, MUTABLE, OVERWRITE, SMALL, Access, plan_access
from syncblob.memory.uploads import Upload, await_uploads, finish_uploads
from syncblob.memory.window_growth import provide
from syncblob.memory.windows import part_of
from syncblob.transfers import open_logs, transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.devices import Accelerator
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.shortcut import Shortcut

# The usual number of sides, and how bytes come to each of them from the other.
_PAIR = 2
_DIRECTIONS = ("download", "upload")
_OTHER = (Side.ACCELERATOR, Side.HOST)


def claim(  # noqa: C901, PLR0911, PLR0912, PLR0913, PLR0915, PLR0917  # an access; inlined, because calls take time
    ledger: Ledger,
    buffer: Any,
    side: Side,
    access: Access,
    start: int,
    stop: int,
    reason: str,
    array: NDArray[Any] | None = None,
    value: Any = None,
) -> bool:
    """Prepare a side for an access, if nothing can make that fail but the copy.

    These are the usual cases: the side holds the range, or another side holds all of it, and
    nothing has been handed out there. So there is nothing to warn of, to revoke or to undo, and
    this does without `commit`.

    Parameters
    ----------
    ledger, side, access, start, stop, reason
        The access.
    buffer
        The buffer that the caller will use.
    array, value
        An array over the range, and a number to write into it in the same step. To assign it must
        not raise.

    Returns
    -------
    bool
        Whether the range may be used, or was written. If not, nothing has changed.
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
            and (array is None or ledger.buffers.home(side).direct)
            and claim_shared(ledger, shortcut, side, start, stop, reason, array, value)
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
            or stop > before.nbytes
            or buffers.sides[side] is not buffer
            or buffer is None
        ):
            return False
        if access is not CONST and ledger.source is not None:
            ledger.forget_source(start, stop)
        uniform, mine = before.uniform, 1 << side
        held = before.common(start, stop) if uniform is None else uniform
        shortcuts, after = ledger.shortcuts, before
        if held & mine:
            if open_logs:
                note_use(ledger, side, start, stop)
            if access is not CONST and before.any(start, stop) != mine:
                after = before.put(start, stop, mine)
                if may_exceed_limit(ledger, after):
                    return False
                shortcuts.revoke()
                # Bytes that several sides hold may be overwritten here from now on.
                ledger.spans = after
        else:
            held = (before.alike(start, stop) or 0) if uniform is None else uniform
            part = stop - start < before.nbytes
            if not (held and pair):
                # What `others` returns is a copy then, and misses what is lent from here on.
                return False
            if access is not OVERWRITE and (
                open_logs
                or running_guards.get()
                or (part and side is Side.HOST and before.nbytes <= SMALL)
            ):
                return False
            if access is CONST and (here.leases or here.exposures):
                return False
            if not sticky:
                after = before.put(start, stop, held | mine if access is CONST else mine)
                if part and may_exceed_limit(ledger, after):
                    return False
                shortcuts.revoke()
            # Now that the shortcuts are revoked: until then, one may lend without the lock.
            if there.borrows.live or (there.leases and not sticky):
                return False
            if access is not OVERWRITE:
                contents, target, nbytes = buffers.sides[1 - side], buffer, stop - start
                if contents is None:
                    return False
                if target.nbytes != nbytes:
                    target = target[start:stop]
                if contents.nbytes != nbytes:
                    contents = contents[start:stop]
                accelerator: Accelerator = buffers.accelerator  # type: ignore[assignment]  # it has bytes
                if side:
                    accelerator.upload(contents, target)
                else:
                    accelerator.download(contents, target)
                copied = _DIRECTIONS[side]
            elif open_logs:
                note_use(ledger, side, start, stop)
        if array is not None:
            home = buffers.home(side)
            if home.direct:
                array[...] = value
            else:
                home.compute(operator.setitem, array, ..., value)
        if after is before and not copied:
            return True
        epoch = shortcuts.epoch
        # Until now, the other side has the contents of what it alone holds.
        ledger.spans = after
        if ledger.follows_logs and after.uniform is not None:
            ledger.renew_shortcuts(epoch, after.uniform)
    finally:
        ledger.moving = False
    note(ledger, reason, before, after, start, stop, copied)
    return True


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
    if open_logs:
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


def _plan_crossing(  # noqa: C901, PLR0913, PLR0917  # an access; inlined, because calls take time
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
        if not change.writes and open_logs:
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
    pieces, after = shortened(ledger, plan.pieces, after, target, start, stop, source=False)
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
