"""Windows of parts of a large memory: accesses of parts make them, and larger ones.

Call the functions under the memory's lock.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from syncblob.memory.buffers import Window
from syncblob.memory.changes import Change, commit
from syncblob.memory.operations import NotNowError, are_written, pins
from syncblob.memory.state_machine import MUTABLE, Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob._layout import Layout
    from syncblob.devices import Side
    from syncblob.memory.buffers import Buffers, Windows
    from syncblob.memory.ledger import Ledger, Upload


# A memory of at most so many bytes has no windows: one buffer costs little more.
_WHOLE = 1 << 20

# If windows would be more than this share of a memory, it gets one buffer, too.
_MOST = 0.5

_NBYTES = operator.attrgetter("array.nbytes")


def divisible(buffers: Buffers) -> bool:
    """Return whether a memory is large enough for windows."""
    return buffers.nbytes > _WHOLE


def provide(
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, layout: Layout | None = None
) -> Window | None:
    """Return the window of a side that contains a range; make one of a part of a large memory.

    That is of the union of the range and the windows that it overlaps. If most of the memory would
    have windows then, it is of everything if possible. Returns None if the access is to make it.
    """
    buffers = ledger.buffers
    found = buffers.containing(side, start, stop)
    if found is not None or not side or not divisible(buffers) or ledger.moving:
        return found
    gone = buffers.within(side, start, stop)
    low = min([start, *(window.start for window in gone)])
    # An array of no elements needs an address, too.
    high = max([stop, low + 1, *(window.stop for window in gone)])
    nbytes = high - low + sum(map(_NBYTES, buffers.windows[side].all)) - sum(map(_NBYTES, gone))
    if nbytes > _MOST * buffers.nbytes and (low, high) != (0, buffers.nbytes):
        with suppress(MemoryError, BufferError):
            return grow(ledger, side, 0, buffers.nbytes, reason, layout)
    return grow(ledger, side, low, high, reason, layout)


def grow(
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, layout: Layout | None = None
) -> Window:
    """Make a window of a range, which replaces those that it overlaps."""
    window: Window = commit(ledger, _plan_growth, side, MUTABLE, start, stop, reason, layout=layout)
    return window


def _plan_growth(ledger: Ledger, side: Side, _access: Access, start: int, stop: int) -> Change:
    """Plan to make a window, which replaces those that it overlaps. The map stays."""
    windows = ledger.buffers.within(side, start, stop)
    replaced = [(w.start, w.stop) for w in windows]
    # Other threads write without the lock. The shortcuts are revoked, so that none begins to.
    if replaced and (are_written(windows) or ledger in pins(own=False)):
        raise NotNowError(f"another thread is using {ledger.buffers.described()}")
    home: Any = ledger.buffers.home(side)
    for window, part in zip(windows, replaced, strict=True):
        holder = ledger.loans.holder_in(side, *part) or home.holder(window.array)
        if holder:
            raise BufferError(
                f"bytes {start} to {stop} of {ledger.buffers.described()} are needed in one "
                f"buffer, and bytes {part[0]} to {part[1]} have one that cannot be moved, because "
                f"of {holder}; delete it first, or make it when the accelerator has room for the "
                "whole Blob"
            )
    before = ledger.spans
    change = side, before, before, start, stop
    needed = stop - start
    return Change(*change, losers=1 << side, lost=replaced, prepare=_enlarge, needed=needed)


def _enlarge(ledger: Ledger, change: Change, _reason: str) -> tuple[Windows, Sequence[Upload]]:
    """Return the windows of a side with a new one, which has the old contents."""
    buffers, side = ledger.buffers, change.side
    replaced = buffers.within(side, change.start, change.stop)
    window = Window(change.start, change.stop, buffers.allocate(side, change.stop - change.start))
    accelerator: Any = buffers.home(side)
    for old in replaced:
        accelerator.settle(old.array)
        target = window.part(old.start, old.stop)
        accelerator.compute(operator.setitem, target, ..., old.array)
    return buffers.windows[side].exchange(buffers.nbytes, replaced, window), ()
