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
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

from syncblob._weak_list import WeakTable
from syncblob.devices import HOST
from syncblob.devices.base import WRITERS

if TYPE_CHECKING:
    from collections.abc import Collection

    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Window
    from syncblob.memory.ledger import Ledger


class NotNowError(MemoryError):
    """A call has to wait for another thread, and evictions do not help."""


class Operation:
    """An operation that runs, and the operands that it pins."""

    # Whether it may have written, and cannot begin again. In the class, because an assignment would
    # slow every operation.
    written: bool = False

    def __init__(self, operands: Any) -> None:
        self.operands: Any = operands


# The operation of each thread. What an interrupt leaves here does not live.
running: dict[int, ref[Operation]] = {}


def current() -> Operation | None:
    """Return the operation that runs on this thread."""
    known = running.get(threading.get_ident())
    return None if known is None else known()


def attempt(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function as an operation: it evicts, but waits for nobody.

    Within another one, it is a part of that.
    """
    if current() is not None:
        return function(*args, **keywords)
    thread, operation = threading.get_ident(), Operation((args, keywords))
    known = ref(operation)
    try:
        running[thread] = known
        if len(running) > 1:
            # Writes on the host are noted as soon as threads work side by side.
            HOST.writers = WRITERS
        return function(*args, **keywords)
    finally:
        running.pop(thread, None)


def has_written() -> None:
    """Tell that the operation of this thread may have written, and must not begin again."""
    operation = current()
    if operation is not None:
        operation.written = True


def pins(*, own: bool = True) -> set[Any]:
    """Return the ledgers and homes that operations use, with or without that of this thread."""
    this = threading.get_ident()
    found = [known() for thread, known in running.copy().items() if own or thread != this]
    return {used for each in found if each is not None for used in used_by(each.operands)}


def used_by(operands: Any, depth: int = 6) -> Iterator[Any]:
    """Yield what operands use, also those in tuples, lists and dicts."""
    kind = type(operands)
    if kind is tuple or kind is list or kind is dict:
        for x in (operands.values() if kind is dict else operands) if depth else ():
            yield from used_by(x, depth - 1)
    elif hasattr(kind, "_used"):
        yield from operands._used()


def are_written(windows: Iterable[Window]) -> bool:
    """Return whether arrays over windows are being written without the lock."""
    written = {shortcut.buffer for shortcut in WRITERS.copy().values()}
    return not written.isdisjoint(windows)


def is_written_elsewhere(ledger: Ledger) -> bool:
    """Return whether another thread is writing into a memory, also if it has not finished that."""
    noted = bool(WRITERS) and any(are_written(ledger.windows(side)) for side in ledger.all_sides)
    return noted or ledger in pins(own=False)


# --- the line -------------------------------------------------------------------------------------


# The threads that stand in line, in the order in which they came, and the homes they stand for.
line: dict[int, Home] = {}


def first_in_line(home: Home) -> int | None:
    """Return the thread that has stood in line for a home for the longest time, if any does."""
    return next((thread for thread, of in line.copy().items() if of is home), None)


def in_turn(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that allocates, unless another thread is the first in line.

    Then it raises NotNowError, unless this one has written, and so has something in use.
    """
    if line and first_in_line(home) not in {None, threading.get_ident()}:
        operation = current()
        if operation is None or not operation.written:
            raise NotNowError(f"another thread has waited longer for memory of {home.device}")
    return function(*args, **keywords)


def _after_fork_in_child() -> None:
    line.clear()
    for thread in {*running} - {threading.get_ident()}:
        del running[thread]
    WRITERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# --- residents and keepers ------------------------------------------------------------------------


# The number of searches for buffers to evict so far; see `room`.
searches: list[int] = [0]

# The Blobs that may keep arrays over buffers of accelerators.
keepers: WeakTable = WeakTable()


def let_go(gone: Collection[Window]) -> None:
    """Let Blobs drop arrays over windows that are gone."""
    for blob in keepers.living() if gone else ():
        blob._let_go(gone)


def settle() -> None:
    """Make the memories of results, so that they can be found."""
    for blob in keepers.living():
        blob._settle()
