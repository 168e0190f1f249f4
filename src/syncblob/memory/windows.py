"""Windows: accesses of parts of a large memory make them, and larger ones; evictions free them.

Call the functions under the memory's lock.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob.devices import HOST, Side
from syncblob.devices.base import WRITERS
from syncblob.memory.buffers import Window
from syncblob.memory.changes import Change, commit
from syncblob.memory.operations import NotNowError, are_written, is_written_elsewhere, let_go, pins
from syncblob.memory.state_machine import CONST, MUTABLE, Access
from syncblob.transfers import count_eviction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob._layout import Layout
    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Buffers
    from syncblob.memory.ledger import Ledger


# A memory of at most so many bytes has no windows: one buffer costs little more.
_WHOLE = 1 << 20

# If windows would be more than this share of a memory, it gets one buffer, too.
_MOST = 0.5

_NBYTES = operator.attrgetter("array.nbytes")


def divisible(memory: Buffers, home: Home) -> bool:
    """Return whether a memory may have windows in a home: if it is large, and not shared."""
    return memory.nbytes > _WHOLE and not home.shared


def provide(
    ledger: Ledger, side: Side, reach: tuple[int, int], reason: str, layout: Layout | None = None
) -> Window | None:
    """Return the window of a side that contains a range, or make one of a part of a large memory.

    That is of the union of the range and the windows that it overlaps. If most of the memory would
    have windows then, it is of everything if possible. Returns None if the access is to find it, or
    to make it. What another side of the same space has is the window, too.
    """
    home = ledger.home(side)
    found = ledger.window_over(side, *reach)
    if found is None and home.shared:
        found = ledger.share(side)
    # Windows stay what they are if the memory kind of the device is changed.
    divides = divisible(ledger, home) or ledger.parts.get(side)
    if found is not None or ledger.moving or not divides:
        return found
    start, stop, replaced = _union(ledger, side, *reach)
    nbytes = stop - start + sum(map(_NBYTES, ledger.windows(side))) - sum(map(_NBYTES, replaced))
    if nbytes > _MOST * ledger.nbytes:
        with suppress(MemoryError, BufferError):
            grow(ledger, side, 0, ledger.nbytes, reason)
            return None
    grow(ledger, side, start, stop, reason, layout)
    return None


def _union(ledger: Ledger, side: Side, start: int, stop: int) -> tuple[int, int, list[Window]]:
    """Return the union of a range and the windows that it overlaps, and these."""
    # An array of no elements needs an address, too.
    start = min(start, ledger.nbytes - 1)
    stop = max(start + 1, stop)
    found = ledger.within(side, start, stop)
    if found:
        start, stop = min(start, found[0].start), max(stop, found[-1].stop)
    return start, stop, found


def grow(
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, layout: Any = None
) -> None:
    """Make a window of a range, and of the windows that it overlaps, which it replaces.

    The reason and the layout are for the error if there is no memory.
    """
    commit(ledger, _plan_growth, side, MUTABLE, start, stop, reason, layout=layout)


def _plan_growth(
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, _none: object
) -> Change:
    """Plan to make a window of a range and those that it overlaps. The map stays."""
    # A signal handler may have made larger ones since the caller looked.
    start, stop, replaced = _union(ledger, side, start, stop)
    # Other threads write without the lock. The shortcuts are revoked, so that none begins to.
    if replaced and is_written_elsewhere(ledger):
        raise NotNowError(f"another thread is using {ledger.description()}")
    action = f"be moved into a buffer of bytes {start} to {stop}"
    remedy = "delete it first, or make it when the accelerator has room for the whole Blob"
    _require_free(ledger, side, replaced, action, remedy)
    change = side, ledger.spans, ledger.spans, start, stop
    lost = [(window.start, window.stop) for window in replaced]
    prepare = partial(_replace, replaced)
    return Change(*change, losers=1 << side, lost=lost, prepare=prepare, needed=stop - start)


def _replace(gone: Sequence[Window], ledger: Ledger, change: Change) -> tuple[Window, ...]:
    """Return the windows of a side without some, or with one instead that has their contents."""
    side, start, stop = change.side, change.start, change.stop
    new = [Window(start, stop, ledger.allocate(side, change.needed))] if change.needed else []
    home = ledger.home(side)
    for window in gone:
        # Before it is copied, or its memory given to someone else.
        home.settle(window.array)
        for larger in new:
            part = larger.part(window.start, window.stop)
            home.compute(operator.setitem, part, ..., window.array)
    if new:
        let_go(gone)
    windows = ledger.windows(side)
    place = bisect_left(windows, start, key=operator.attrgetter("start"))
    return (*windows[:place], *new, *windows[place + len(gone) :])


def holder_of(ledger: Ledger, side: Side, window: Window) -> str:
    """Return what keeps a window where it is: an alias, an exposure or a graph; empty if none."""
    for writer in ledger.loans.writers(window.start, window.stop, ledger.alike(side)):
        return writer.description()
    if ledger.loans.foreign >> side & 1:
        return f"the {side.name.lower()} side, which is an adopted array or shared memory"
    return ledger.home(side).holder(window.array)


def _require_free(
    ledger: Ledger, side: Side, windows: Sequence[Window], action: str, remedy: str
) -> None:
    """Raise BufferError if anything keeps one of some windows where it is."""
    for window in windows:
        holder = holder_of(ledger, side, window)
        if holder:
            raise BufferError(
                f"bytes {window.start} to {window.stop} of {ledger.description()} cannot {action}, "
                f"because of {holder}; {remedy}"
            )


# --- evictions ------------------------------------------------------------------------------------


def free(
    ledger: Ledger, side: Side, reach: tuple[int, int], reason: str, *, unseen: bool = False
) -> int:
    """Free the windows of a side that lie in a range; what only they hold moves elsewhere.

    That is the host, or the first accelerator for what is on the host. What the source still has
    does not move. `unseen` leaves what an array lies over. Returns the number of bytes freed.

    Raises BufferError if an alias needs a window, or if an operation uses the memory.
    """
    if side is Side.HOST:
        # From now on. An operator that has begun before writes again.
        HOST.writers = WRITERS
    # From here on, who begins to use it waits for the lock.
    ledger.forget_shortcuts(side)
    home: Any = ledger.home(side)
    windows = ledger.inside(side, *reach)
    # Which windows of an operand are used is known by the arrays over them.
    pinned = (not unseen or ledger.whole[side] is not None) and ledger in pins()
    if pinned or are_written(windows):
        raise BufferError(
            "another thread, or an operation that this one interrupts, is using "
            f"{ledger.description()}"
        )
    if unseen and ledger.watch is not None and ledger.watch.lives:
        # What `verified_const` compares stays where it is.
        return 0
    try:
        ledger.finish_uploads(Side.HOST, MUTABLE, *reach)
    except Exception:
        if unseen:
            # Not of the operation that needs room.
            return 0
        raise
    remedy = "delete the alias, or use a copy, as of blob.copy(), which can leave"
    _require_free(ledger, side, windows, f"leave {home.device}", remedy)
    let_go(windows)
    if not windows or (unseen and any(home.is_seen(window.array) for window in windows)):
        return 0
    start, stop = windows[0].start, windows[-1].stop
    _rescue(ledger, side, start, stop, reason)
    # Afterwards, because a source that has been read completely is closed.
    if ledger.source is not None and not ledger.source.reopen():
        ledger.forget_source(0, ledger.nbytes)
        _rescue(ledger, side, start, stop, reason)
    ledger.compare_watch(side, start, stop, writes=True)
    commit(ledger, _plan_eviction, Side.HOST, MUTABLE, start, stop, reason, (side, windows))
    if unseen:
        count_eviction(ledger.serial, start, stop)
    # None is free if another side has the same buffer.
    return sum(window.nbytes for window in windows if window.common is None)


def _rescue(ledger: Ledger, side: Side, start: int, stop: int, reason: str) -> None:
    """Copy what only a side has in a range to another one."""
    # What has the same buffer, if anything has, gets no copy.
    others = ledger.alike(side) & ~(1 << side) or 1 << (not side)
    refuge = next(other for other in ledger.all_sides if others >> other & 1)
    runs = ledger.only_on(side, start, stop)
    if runs:
        # One window, because room for a second might be made by an eviction of the first.
        reach = runs[0].start, runs[-1].stop
        provide(ledger, refuge, reach, reason)
        ledger.compare_watch(refuge, *reach, writes=False)
        commit(ledger, _plan_rescue, refuge, CONST, *reach, reason, side)


def _plan_rescue(
    ledger: Ledger, refuge: Side, _access: Access, start: int, stop: int, side: Any
) -> Change:
    """Plan to move what only a side has in a range, and nothing beside it."""
    before = after = ledger.spans
    mine, theirs = 1 << refuge, 1 << side
    if ledger.loans.writers(start, stop, ledger.alike(side)):  # which a signal handler has made
        ledger.refuse_reentry()
    pieces = [run._replace(holders=theirs) for run in ledger.only_on(side, start, stop)]
    for low, high, _ in pieces:
        # Later writes through an alias make the other copy stale.
        aliased = ledger.loans.writers(low, high, ledger.alike(refuge))
        after = after.put(low, high, mine if aliased else mine | theirs)
    zeroed = not refuge and ledger.whole[refuge] is None  # as `plan` does for a part
    change = refuge, before, after, start, stop, pieces, ~mine, [run[:2] for run in pieces]
    return Change(*change, zeroed=zeroed, counted=True)


def _plan_eviction(
    ledger: Ledger, _host: Side, _access: Access, start: int, stop: int, evicted: Any
) -> Change:
    """Plan to free the windows of a side in a range."""
    side, windows = evicted
    if ledger.only_on(side, start, stop) or ledger.inside(side, start, stop) != windows:
        # A signal handler has written, or lent it to be written.
        ledger.refuse_reentry()
    before, prepare = ledger.spans, partial(_replace, windows)
    after = before.changed(start, stop, lambda held: held & ~(1 << side))
    # Borrows there lost their write permission when the bytes were copied elsewhere.
    return Change(side, before, after, start, stop, prepare=prepare, between=after)
