"""Windows: accesses of parts of a large memory make them, and larger ones; evictions free them.

Call the functions under the memory's lock.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob._layout import Layout
from syncblob.devices import HOST, Side
from syncblob.devices.base import WRITERS
from syncblob.memory.buffers import Window
from syncblob.memory.changes import Change, commit, plan
from syncblob.memory.operations import NotNowError, are_written, is_written_elsewhere, let_go, pins
from syncblob.memory.state_machine import CONST, MUTABLE, Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Buffers
    from syncblob.memory.ledger import Ledger


# A memory of at most so many bytes has no windows: one buffer costs little more.
_WHOLE = 1 << 20

# If windows would be more than this share of a memory, it gets one buffer, too.
_MOST = 0.5

_NBYTES = operator.attrgetter("array.nbytes")

# Plans a copy that counts, whatever other threads have begun: they wait for the lock.
_plan_copy = partial(plan)


def divisible(memory: Buffers, home: Home) -> bool:
    """Return whether a memory is large enough for windows in a home. What it shares has none."""
    return memory.nbytes > _WHOLE and not home.shared


def provide(
    ledger: Ledger, side: Side, reach: tuple[int, int], reason: str, layout: Layout | None = None
) -> Window | None:
    """Return the window of a side that contains a range; make one of a part of a large memory.

    That is of the union of the range and the windows that it overlaps. If most of the memory would
    have windows then, it is of everything if possible. Returns None if the access is to make it.
    What another side of the same space has is the window, too.
    """
    start, stop = reach
    found = ledger.containing(side, start, stop)
    if found is None and (ledger.shared or ledger.accelerator is None):
        found = ledger.share(side)
        if found is not None and side:
            ledger.homes[side].residents.add(ledger)  # type: ignore[attr-defined]  # an accelerator
    if found is not None or not side or ledger.moving or not divisible(ledger, ledger.home(side)):
        return found
    gone = ledger.within(side, start, stop)
    low = min([start, *(window.start for window in gone)])
    # An array of no elements needs an address, too.
    high = max([stop, low + 1, *(window.stop for window in gone)])
    nbytes = high - low + sum(map(_NBYTES, ledger.windows(side))) - sum(map(_NBYTES, gone))
    if nbytes > _MOST * ledger.nbytes and (low, high) != (0, ledger.nbytes):
        with suppress(MemoryError, BufferError):
            return grow(ledger, side, (0, ledger.nbytes), reason, layout)
    return grow(ledger, side, (low, high), reason, layout)


def grow(
    ledger: Ledger, side: Side, reach: tuple[int, int], reason: str, layout: Layout | None = None
) -> Window:
    """Make a window of a range, which replaces those that it overlaps."""
    replaced = ledger.within(side, *reach)
    window: Window = commit(ledger, _plan_growth, side, MUTABLE, *reach, reason, layout=layout)
    if replaced:
        let_go(lambda kept: kept.buffer in replaced)
    return window


def _plan_growth(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, _none: object
) -> Change:
    """Plan to make a window, which replaces those that it overlaps. The map stays."""
    before = ledger.spans
    windows = ledger.within(side, start, stop)
    # A signal handler may have made larger ones since the caller looked.
    start = min([start, *(window.start for window in windows)])
    stop = max([stop, *(window.stop for window in windows)])
    # Other threads write without the lock. The shortcuts are revoked, so that none begins to.
    if windows and is_written_elsewhere(ledger):
        raise NotNowError(f"another thread is using {ledger.described()}")
    for window in windows:
        holder = holder_of(ledger, side, window)
        if holder:
            raise BufferError(
                f"bytes {start} to {stop} of {ledger.described()} are needed in one buffer, and "
                f"bytes {window.start} to {window.stop} have one that cannot be moved, because of "
                f"{holder}; delete it first, or make it when the accelerator has room for the "
                "whole Blob"
            )
    change = side, before, before, start, stop
    lost = [(window.start, window.stop) for window in windows]
    needed = stop - start
    return Change(*change, losers=1 << side, lost=lost, prepare=_enlarge, needed=needed)


def _enlarge(ledger: Ledger, change: Change, _reason: str) -> tuple[Window, ...]:
    """Return the windows of a side with a new one, which has the old contents."""
    side = change.side
    replaced = ledger.within(side, change.start, change.stop)
    window = Window(change.start, change.stop, ledger.allocate(side, change.stop - change.start))
    accelerator: Any = ledger.home(side)
    for old in replaced:
        accelerator.settle(old.array)
        target = window.part(old.start, old.stop)
        accelerator.compute(operator.setitem, target, ..., old.array)
    windows = ledger.windows(side)
    place = bisect_left(windows, change.start, key=operator.attrgetter("start"))
    return (*windows[:place], window, *windows[place + len(replaced) :])


def holder_of(ledger: Ledger, side: Side, window: Window) -> str:
    """Return what keeps a window where it is: an alias, an exposure or a graph; empty if none."""
    lent = ledger.loans.holder_in(side, window.start, window.stop)
    return lent or ledger.home(side).holder(window.array)


# --- evictions ------------------------------------------------------------------------------------


def free(
    ledger: Ledger,
    side: Side,
    reach: tuple[int, int],
    reason: str = "evict",
    *,
    unseen: bool = False,
) -> int:
    """Free the windows of a side that lie in a range; what only they hold moves elsewhere.

    That is the host, or the first accelerator for what is on the host. What the source still has
    does not move. `unseen` leaves what an array lies over. Returns the number of bytes freed.

    Raises BufferError if an alias needs a window, or if an operation uses the memory.
    """
    if side is Side.HOST:
        # From now on. An operator that has begun before writes again.
        HOST.writers = WRITERS
    # From here on, who begins to use it waits for the lock. For good, because evictions renew
    # shortcuts.
    ledger.revoke_shortcuts()
    ledger.forget_shortcuts(side)
    windows = ledger.inside(side, *reach)
    # Which windows of an operand are used is known by the arrays over them.
    pinned = (not unseen or ledger.whole[side] is not None) and ledger in pins()
    if pinned or are_written(windows):
        raise BufferError(
            "another thread, or an operation that this one interrupts, is using "
            f"{ledger.described()}"
        )
    if ledger.moving:
        ledger.refuse_reentry()
    if not windows:
        return 0
    home: Any = ledger.home(side)
    for window in windows:
        holder = holder_of(ledger, side, window)
        if holder:
            raise BufferError(
                f"bytes {window.start} to {window.stop} of {ledger.described()} cannot leave "
                f"{home.device}, because of {holder}; delete the alias, "
                "or use a copy, as of blob.copy(), which can leave"
            )
    let_go(lambda kept: kept.buffer in windows)
    if unseen and any(home.is_seen(window.array) for window in windows):
        return 0
    _rescue(ledger, side, windows, reason)
    # Afterwards, because a source that has been read completely is closed.
    if ledger.source is not None and not ledger.source.reopen():
        ledger.forget_source(0, ledger.nbytes)
        _rescue(ledger, side, windows, reason)
    # A host access that may write waits for uploads.
    commit(ledger, _plan_eviction, Side.HOST, MUTABLE, *reach, reason, side)
    # None is free if another side has the same buffer.
    return sum(window.nbytes for window in windows if window.common is None)


def _rescue(ledger: Ledger, side: Side, windows: Sequence[Window], reason: str) -> None:
    """Copy what only a side has in windows to another one."""
    refuge = Side.HOST if side else Side.ACCELERATOR
    for window in windows:
        runs = ledger.only_on(side, window.start, window.stop)
        if runs:
            # One window, because room for a second might be made by an eviction of the first.
            start, stop = runs[0].start, runs[-1].stop
            provide(ledger, refuge, (start, stop), reason, Layout.raw(stop - start, start))
        for run in runs:
            part = Layout.raw(run.nbytes, run.start)
            ledger.await_uploads(refuge, CONST, run.start, run.stop)
            ledger.compare_watch(refuge, run.start, run.stop, writes=False)
            commit(ledger, _plan_copy, refuge, CONST, run.start, run.stop, reason, (), part)


def _plan_eviction(  # a range
    ledger: Ledger, _host: Side, _access: Access, start: int, stop: int, side: Side
) -> Change:
    before, mine = ledger.spans, 1 << side
    after = before
    for window in ledger.inside(side, start, stop):
        low, high = window.start, window.stop
        if ledger.only_on(side, low, high):
            raise RuntimeError(
                "this memory was written, or lent to be written, while it was evicted; try again"
            )
        after = after.changed(low, high, lambda held: held & ~mine)
    # Borrows there lost their write permission when the bytes were copied elsewhere.
    return Change(side, before, after, start, stop, prepare=_drop, between=after)


def _drop(ledger: Ledger, change: Change, _reason: str) -> tuple[Window, ...]:
    side = change.side
    gone = ledger.inside(side, change.start, change.stop)
    home = ledger.home(side)
    for window in gone:
        # The memory of the window may be given to someone else at once.
        home.settle(window.array)
        ledger.compare_watch(side, window.start, window.stop, writes=True)
    return tuple([each for each in ledger.windows(side) if each not in gone])
