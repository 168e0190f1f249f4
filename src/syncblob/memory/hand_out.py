"""The arrays that a memory hands out: borrows, aliases, and const exports that are checked.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.memory.accesses import acquire
from syncblob.memory.state_machine import CONST
from syncblob.memory.verify import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob._layout import Layout
    from syncblob.devices.base import Side
    from syncblob.memory.buffers import Window
    from syncblob.memory.ledger import Ledger

    # Returns an array over a window, and records it.
    HandOut = Callable[[Ledger, Side, Window, Layout], Any]


def borrow(ledger: Ledger, side: Side, window: Window, layout: Layout) -> Any:
    """Return a borrow; see `SyncedMemory.lend`."""
    array = window.view(ledger.buffers.home(side), layout, writable=True)
    # Only NumPy arrays have a write permission to revoke.
    if isinstance(array, np.ndarray):
        ledger.own_loans(side).borrows.add(array, layout.start, layout.stop)
    elif window is not ledger.buffers.windows[side].whole:
        # A larger window would leave it behind, and nothing could stop its writes.
        return alias("borrowed", None, ledger, side, window, layout)
    return array


def alias(  # noqa: PLR0913, PLR0917  # an alias, and its consumer
    kind: str, target: object | None, ledger: Ledger, side: Side, window: Window, layout: Layout
) -> Any:
    """Return a writable alias; see `SyncedMemory.export`."""
    loans = ledger.own_loans(side)
    array, owner = loans.alias(ledger.buffers.home(side), window, layout)
    loans.lease(owner if target is None else target, kind, layout.start, layout.stop)
    return array


def note_alias(  # noqa: PLR0913, PLR0917  # an alias, and its consumer
    kind: str, target: object, ledger: Ledger, side: Side, window: Window, layout: Layout
) -> None:
    """Record an array that lies over a buffer already as an alias; see `SyncedMemory.track`."""
    ledger.own_loans(side).lease(target, kind, layout.start, layout.stop)
    home = ledger.buffers.home(side)
    if not home.native:
        home.lend(window.view(home, layout, writable=True, own=True))


def export_watched(  # noqa: PLR0913, PLR0917  # an access, and its consumer
    ledger: Ledger, side: Side, layout: Layout, reason: str, kind: str, target: object | None
) -> Any:
    """Return a const export that is checked."""
    window = acquire(ledger, side, CONST, layout, reason, locked=True)
    loans = ledger.own_loans(side)
    array, owner = loans.alias(ledger.buffers.home(side), window, layout)
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    reach = layout.start, layout.stop
    if not layout.size or loans.borrows.overlapping(*reach) or loans.may_write_in(*reach):
        # Borrows or aliases may write here legitimately, so a difference proves nothing. No bytes
        # overlap an eviction, which could not end their watch.
        return array
    watch = ledger.watch = ledger.watch or Watch(ledger.lock, ledger.buffers)
    # The access may have renewed them.
    ledger.shortcuts.revoke()
    watch.add(side, owner if target is None else target, kind, layout.start, layout.stop)
    if ledger.watch is not watch:
        # A signal handler has written, and so ended a watch of nothing.
        ledger.watch = watch
        ledger.shortcuts.revoke()
    return array
