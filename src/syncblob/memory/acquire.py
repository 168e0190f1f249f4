"""Accesses: what a side needs before a range of it is read or written.

`acquire` does what any access needs. `claim` and `claim_shared` are short ways of the usual ones.
Call the functions under the memory's lock, unless they take it.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob.devices import Side
from syncblob.guards import running_guards
from syncblob.memory import span_limit
from syncblob.memory.access_plan import DIRECTIONS, PAIR, SMALL, plan_crossing
from syncblob.memory.await_async_copies import await_uploads
from syncblob.memory.changes import commit, take
from syncblob.memory.history import note_arrival, note_use
from syncblob.memory.spans import Spans
from syncblob.memory.stale_alias_warning import require_announced
from syncblob.memory.state_machine import CONST, MUTABLE, OVERWRITE, Access
from syncblob.memory.window_allocation import provide
from syncblob.transfers import open_logs, transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.devices import Accelerator
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.shortcut import Shortcut


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
    layout: Layout | None = None,
) -> bool:
    """Prepare a side for an access, if nothing can make that fail but the copy.

    These are the usual cases: the side holds the range, or another side holds all of it, or only
    the source has it, and nothing has been handed out there. So there is nothing to warn of, to
    revoke or to undo, and this does without `commit`. Takes the lock.

    Parameters
    ----------
    ledger, side, access, start, stop, reason
        The access.
    buffer
        The buffer that the caller will use. None if the side has none yet: with a `layout`, that of
        the host is made, if the access fills it.
    array, value
        An array over the range, and a number to write into it in the same step. To assign it must
        not raise.
    layout
        That of the access, for the error if the host has no memory for its buffer.

    Returns
    -------
    bool
        Whether the range may be used, or was written. If not, nothing has changed.
    """
    with ledger.lock:
        if ledger.moving:
            return False
        pair = len(ledger.loans) == PAIR
        if ledger.uploads:
            ledger.forget_arrived()
        copied = ""
        try:
            # From here on, not even a finaliser can change anything.
            ledger.moving = True
            before, buffers = ledger.spans, ledger.buffers
            here = ledger.loans[side]
            there = ledger.loans[1 - side] if pair else ledger.others(side)
            # What an alias may be writing is copied, but not trusted, so the map stays.
            sticky = there.writers(start, stop) if there.leases or there.exposures else []
            if (
                (sticky and access is not CONST)
                or (sticky and not any(x.start <= start and stop <= x.stop for x in sticky))
                or ledger.uploads
                or ledger.watch is not None
                or start >= stop
                or stop > before.nbytes
                or buffers.sides[side] is not buffer
                or (buffer is None and (layout is None or side or sticky))
                or (buffer is None and stop - start < before.nbytes)
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
                    if ledger.span_limit or len(after.holders) > span_limit.MAX_SPANS:
                        return False
                    shortcuts.revoke()
                    # Bytes that several sides hold may be overwritten here from now on.
                    ledger.spans = after
            else:
                source, known = None, before.alike(start, stop)
                if known == 0 and not (side or buffer is None or sticky or access is OVERWRITE):
                    source = ledger.source
                held = known or 0
                part = stop - start < before.nbytes
                if not (pair and (held or source is not None)):
                    # What `others` returns is a copy then, and misses what is lent from here on.
                    return False
                beyond = part and side is Side.HOST and before.nbytes <= SMALL
                if beyond and access is not OVERWRITE:
                    return False
                lent = access is CONST and (here.leases or here.exposures)
                if lent and here.may_write_in(start, stop):
                    return False
                if not sticky:
                    holders = held | mine if access is CONST else mine
                    if not part:
                        after = Spans.whole(stop, holders)
                    else:
                        after = before.put(start, stop, holders)
                        if ledger.span_limit or len(after.holders) > span_limit.MAX_SPANS:
                            return False
                    shortcuts.revoke()
                # Now that the shortcuts are revoked: until then, one may lend without the lock.
                if there.borrows.live or (
                    there.leases and not sticky and there.may_write_in(start, stop)
                ):
                    return False
                contents, nbytes = buffers.sides[1 - side], stop - start
                if contents is None and access is not OVERWRITE and source is None:
                    return False
                if buffer is None:
                    buffer = buffers.allocate(side, buffers.nbytes)
                if source is not None:
                    source.fill(buffer[start:stop], start)
                elif access is not OVERWRITE:
                    target = buffer
                    if target.nbytes != nbytes:
                        target = target[start:stop]
                    if contents.nbytes != nbytes:
                        contents = contents[start:stop]
                    accelerator: Accelerator = buffers.accelerator  # type: ignore[assignment]  # it has bytes
                    copied = DIRECTIONS[side]
                    if open_logs or running_guards.get():
                        again = sticky and access is CONST
                        because = partial(sticky[0].described, Side(1 - side)) if again else None
                        copying = buffers.copying(accelerator, reason, because)
                        copy = accelerator.upload if side else accelerator.download
                        transfer(copying, copied, nbytes, start, copy, contents, target)
                    elif side:
                        accelerator.upload(contents, target)
                    else:
                        accelerator.download(contents, target)
            if array is not None:
                home = buffers.home(side)
                if home.direct:
                    array[...] = value
                else:
                    home.compute(operator.setitem, array, ..., value)
            if after is before and not copied:
                return True
            buffers.sides[side] = buffer
            if open_logs and not held & mine:
                note_arrival(ledger, side, start, stop)
            epoch = shortcuts.epoch
            # Until now, the other side has the contents of what it alone holds.
            ledger.spans = after
            if ledger.source is not None and 0 not in after.holders:
                ledger.source = ledger.source.rest()
            if ledger.follows_logs and after.uniform is not None:
                ledger.renew_shortcuts(epoch, after.uniform)
        except MemoryError as error:
            if buffer is None:
                buffers.explain_shortage(error, side, buffers.nbytes, reason, layout)
                raise
            # The caller makes a usual access now, which makes room.
            return False
        finally:
            ledger.moving = False
        ledger.note(reason, before, after, start, stop, copied)
        return True


def claim_shared(  # noqa: PLR0913, PLR0917  # a write
    ledger: Ledger,
    shortcut: Shortcut,
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
    ledger, shortcut, start, stop, reason
        The write.
    array, value
        A host array over the range, and a number to write into it in the same step.

    Returns
    -------
    bool
        Whether the range may be written now. If not, nothing has changed.
    """
    with ledger.lock:
        before, side, sides = ledger.spans, shortcut.side, ledger.shortcuts.sides
        nbytes, uniform = before.nbytes, before.uniform
        if start >= stop or stop > nbytes or ledger.moving or uniform is None:
            return False
        if len(sides) > PAIR:
            # The shortcuts of several sides cannot be cleared in one step.
            return False
        after = Spans.with_part(nbytes, uniform, start, stop, 1 << side)
        try:
            ledger.moving = True
            # Nothing is called from here on, so no signal handler can run.
            shortcuts = ledger.shortcuts
            # A caller that this interrupts on the same thread may be about to set them.
            epoch: object = []
            shortcuts.epoch = epoch
            if not shortcut.shared or sides[side] is not shortcut or ledger.spans is not before:
                return False
            if shortcuts.parts:
                # The shortcuts of windows cannot be cleared in one step, either.
                return False
            other = sides[1 - side]
            shortcut.shared = False
            if other is not None:
                other.readable = other.shared = False
            ledger.spans = after
            if array is not None:
                array[...] = value
            # The side may be read everywhere, also if it shares the rest.
            shortcut.writable = stop - start == nbytes
            if shortcuts.epoch is not epoch:
                # Another thread has opened a log, which needs no lock.
                shortcuts.clear()
        finally:
            ledger.moving = False
        ledger.note(reason, before, after, start, stop)
        return True


def overwrite_of(layout: Layout, start: int, stop: int) -> Access:
    """Return the access of a range that an overwrite through a layout is.

    It is a mutable access if it leaves bytes of the range, in gaps or beyond the elements.
    """
    everything = layout.gapless and layout.stop - layout.start == stop - start
    return OVERWRITE if everything else MUTABLE


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
    if access is OVERWRITE:
        access = overwrite_of(layout, start, stop)
    buffer = ledger.buffers.sides[side]
    if buffer is None and side:
        buffer = provide(ledger, side, start, stop, reason, layout)
    if fill is None and claim(ledger, buffer, side, access, start, stop, reason, layout=layout):
        return ledger.buffers.sides[side]
    writes, mine = access is not CONST, 1 << side
    if writes:
        ledger.forget_source(start, stop)
    if writes and ledger.others(side).leases:
        require_announced(ledger.loans, announced, start, stop, side)
    uniform = ledger.spans.uniform
    held = (ledger.spans.common(start, stop) if uniform is None else uniform) & mine
    if ledger.moving:
        if held and not writes:
            return buffer
        ledger.refuse_reentry()
    if ledger.uploads:
        await_uploads(ledger, side, access, start, stop)
    if ledger.watch is not None:
        ledger.compare_watch(side, start, stop, writes=writes)
    if not held or buffer is None:
        plan = plan_crossing, side, access, start, stop, reason, announced
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
        try:
            fill(buffer)
        except BaseException:
            # `fill` may have written in part, after a read on another side.
            take(ledger, side, start, stop, reason)
            raise
        if start < stop and not ledger.spans.common(start, stop) & mine:
            # A signal handler or a finaliser has written on the other side meanwhile.
            return acquire(ledger, side, access, layout, reason, announced, fill)
    return buffer
