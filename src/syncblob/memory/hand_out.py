"""The arrays that a memory hands out: borrows, aliases, and const exports that are checked.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices.base import Calls
from syncblob.memory.acquire import acquire
from syncblob.memory.changes import finish_write
from syncblob.memory.state_machine import CONST, Access
from syncblob.memory.verify import Watch
from syncblob.memory.windows import Window, laid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from syncblob._layout import Layout
    from syncblob.devices.base import Side
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger

    # Returns an array over a side's buffer, and records it.
    HandOut = Callable[[Ledger, Side, Any, Layout], Any]


def lend(  # noqa: PLR0913, PLR0917  # an access, and what is handed out
    ledger: Ledger,
    side: Side,
    access: Access,
    layout: Layout,
    reason: str,
    hand_out: HandOut,
    announced: Collection[Lease],
) -> Any:
    """Prepare a side for an access that may write, and hand out an array over it."""
    while True:
        buffer = acquire(ledger, side, access, layout, reason, announced)
        array = hand_out(ledger, side, buffer, layout)
        # A signal handler or a finaliser may have used another side before it was recorded.
        if ledger.is_alone(side, *ledger.range_of(layout)):
            return array


def view(ledger: Ledger, side: Side, buffer: Any, layout: Layout) -> Any:
    """Return an array that is only passed to `Home.compute`."""
    return laid(ledger.buffers.home(side), buffer, layout, writable=True, own=True)


def borrow(ledger: Ledger, side: Side, buffer: Any, layout: Layout) -> Any:
    """Return a borrow; see `SyncedMemory.lend`."""
    array = laid(ledger.buffers.home(side), buffer, layout, writable=True)
    # Only NumPy arrays have a write permission to revoke.
    if isinstance(array, np.ndarray):
        ledger.own_loans(side).borrows.add(array, layout.start, layout.stop)
    elif type(buffer) is Window:
        # A larger window would leave it behind, and nothing could stop its writes.
        return alias("borrowed", None, ledger, side, buffer, layout)
    return array


def alias(  # noqa: PLR0913, PLR0917  # an alias, and its consumer
    kind: str, target: object | None, ledger: Ledger, side: Side, buffer: Any, layout: Layout
) -> Any:
    """Return a writable alias; see `SyncedMemory.export`."""
    loans = ledger.own_loans(side)
    array, owner = loans.alias(ledger.buffers.home(side), buffer, layout)
    loans.lease(owner if target is None else target, kind, layout.start, layout.stop)
    return array


def export_watched(  # noqa: PLR0913, PLR0917  # an access, and its consumer
    ledger: Ledger, side: Side, layout: Layout, reason: str, kind: str, target: object | None
) -> Any:
    """Return a const export that is checked."""
    buffer = acquire(ledger, side, CONST, layout, reason)
    loans = ledger.own_loans(side)
    array, owner = loans.alias(ledger.buffers.home(side), buffer, layout)
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    reach = layout.start, layout.stop
    if not layout.size or loans.borrows.overlapping(*reach) or loans.may_write_in(*reach):
        # Borrows or aliases may write here legitimately, so a difference proves nothing. No bytes
        # overlap an eviction, which could not end their watch.
        return array
    if ledger.watch is None:
        ledger.watch = Watch(ledger.lock, ledger.buffers)
        # The access may have renewed them.
        ledger.shortcuts.revoke()
    owner = owner if target is None else target
    ledger.watch.add(side, owner, kind, layout.start, layout.stop)
    return array


def write(  # noqa: PLR0913, PLR0917  # an access, and what is done in it
    ledger: Ledger,
    side: Side,
    access: Access,
    layout: Layout,
    reason: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    announced: Collection[Lease],
) -> None:
    """Prepare a side, and write into an array over it, as one step; see `SyncedMemory.write`."""

    def fill(buffer: Any, written: list[object] | None = None) -> None:
        home = ledger.buffers.home(side)
        array = view(ledger, side, buffer, layout)
        if written is None:
            home.compute(function, array, *args)
            return
        # One call in C makes both calls, so that no signal handler can run between them.
        calls = Calls(partial(function, array, *args), partial(written.append, object()))
        home.compute(deque, calls, 0)

    acquire(ledger, side, access, layout, reason, announced, fill)
    finish_write(ledger, side, *ledger.range_of(layout), reason)
