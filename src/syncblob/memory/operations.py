"""Operations that run, with the operands that they pin, and the line of those that wait for room.

Operations *pin* their operands, which are not evicted for others meanwhile. One that needs more
room than there is waits with nothing in use, and begins again: two that waited with what they have
for the rest of what they need would wait for each other. One within another is a part of that.

Ledgers with buffers on an accelerator are *residents* of it, and Blobs with arrays over them are
*keepers*. These, and operations, are only referred to weakly.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import ref

from syncblob._weak_list import WeakList
from syncblob.devices import HOST
from syncblob.devices.base import WRITERS

if TYPE_CHECKING:
    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Window
    from syncblob.memory.ledger import Ledger, Shortcut


class NotNowError(MemoryError):
    """A call has to wait for another thread, and evictions do not help."""


class Operation:
    """An operation that runs."""

    # Whether it may have written, and cannot begin again. In the class, because an assignment would
    # slow every operation.
    written: bool = False

    def __init__(self, operands: Any) -> None:
        # What it pins.
        self.operands: Any = operands


# The operation of each thread. What an interrupt leaves here does not live.
running: dict[int, ref[Operation]] = {}


def current() -> Operation | None:
    """Return the operation that runs on this thread."""
    known = running.get(threading.get_ident())
    return None if known is None else known()


def run(operation: Operation, function: Callable[..., Any], args: Any, keywords: Any) -> Any:
    """Call a function as an operation of this thread. Within another one, it is a part of that."""
    if current() is not None:
        return function(*args, **keywords)
    thread, known = threading.get_ident(), ref(operation)
    try:
        running[thread] = known
        if len(running) > 1:
            # Writes on the host are noted as soon as threads work side by side.
            HOST.writers = WRITERS
        return function(*args, **keywords)
    finally:
        running.pop(thread, None)


def attempt(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that the caller knows what to do without: it evicts, but waits for nobody."""
    return run(Operation((args, keywords)), function, args, keywords)


def has_written() -> None:
    """Tell that the operation of this thread may have written, and must not begin again."""
    operation = current()
    if operation is not None:
        operation.written = True


def pins(*, own: bool = True, others: bool = True) -> set[Any]:
    """Return the ledgers and homes that operations use."""
    found: set[Any] = set()
    this = threading.get_ident()
    for thread, known in [*running.items()]:
        operation = known() if (own if thread == this else others) else None
        if operation is not None:
            _add_used(operation.operands, found)
    return found


def _add_used(operands: Iterable[Any], found: set[Any], depth: int = 5) -> None:
    """Add what operands use, also those in tuples, lists and dicts."""
    for x in operands:
        kind = type(x)
        if kind is tuple or kind is list or kind is dict:
            if depth:
                _add_used(x.values() if kind is dict else x, found, depth - 1)
        elif hasattr(kind, "_used"):
            found.update(x._used())


def are_written(windows: Iterable[Window]) -> bool:
    """Return whether arrays over windows are being written without the lock."""
    written = [shortcut.buffer for shortcut in [*WRITERS.values()]]
    return any(window is each for window in windows for each in written)


def is_written_elsewhere(ledger: Ledger) -> bool:
    """Return whether another thread is writing into a memory, also if it has not finished that."""
    noted = WRITERS and any(are_written(ledger.windows(side)) for side in ledger.all_sides)
    return noted or ledger in pins(own=False)


# --- the line -------------------------------------------------------------------------------------


# The threads that stand in line, in the order in which they came, and the homes they stand for.
line: dict[int, Home] = {}


def first_in_line(home: Home) -> int | None:
    """Return the thread that has stood in line for a home for the longest time, if any does."""
    return next((thread for thread, of in [*line.items()] if of is home), None)


def leave_room(home: Home) -> None:
    """Call this before an allocation: let threads that stand in line go first.

    Raises NotNowError if another one is the first, unless this one has written, and so has
    something in use.
    """
    # Nearly always, there is none.
    first = first_in_line(home) if line else None
    if first is not None and first != threading.get_ident():
        operation = current()
        if operation is None or not operation.written:
            raise NotNowError(f"another thread has waited longer for memory of {home.device}")


def allocate(home: Home, nbytes: int, *, zeroed: bool = False) -> Any:
    """Allocate a buffer, unless another thread is the first in line; see `leave_room`."""
    leave_room(home)
    return home.allocate(nbytes, zeroed=zeroed)


def _after_fork_in_child() -> None:
    line.clear()
    for thread in {*running} - {threading.get_ident()}:
        del running[thread]
    WRITERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# --- residents and keepers ------------------------------------------------------------------------


# The number of searches for buffers to evict so far. Each use of an accelerator notes it.
searches: list[int] = [0]

# The Blobs that may keep arrays over buffers of accelerators.
keepers = WeakList()


def let_go(gone: Callable[[Shortcut], bool]) -> bool:
    """Let Blobs drop arrays over windows that are gone; return whether there were any."""
    return True in [blob._let_go(gone) for blob in keepers.living()]


def settle() -> None:
    """Make the memories of results, so that they can be found."""
    for blob in keepers.living():
        blob._settle()
