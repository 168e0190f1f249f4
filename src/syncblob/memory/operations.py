"""Operations that run, with the operands that they pin, and the line of those that wait for room.

Operations *pin* their operands, which are not evicted for others meanwhile. Of those that need more
room than there is only the outermost waits, and nothing is in use then, because it begins again:
two that waited with what they have for the rest of what they need would wait for each other.

Ledgers with buffers on an accelerator are *residents* of it, and Blobs with arrays over them are
*keepers*. Both are only referred to weakly.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from syncblob._locks_lost_in_fork import LostLock
from syncblob._weak_list import WeakList
from syncblob.devices import HOST
from syncblob.devices.base import WRITERS

if TYPE_CHECKING:
    from syncblob.devices import Accelerator
    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Window
    from syncblob.memory.ledger import Ledger

# The seconds for which the first in line waits, those between two tries, and the tries before which
# no other thread was at work that it needs to give up. A thread may be between two operations.
PATIENCE, PAUSE, IDLE = 5.0, 0.005, 6

# The attribute of an error of what an outer operation begins again: the home that is short of room.
SHORT_OF = "short_of_memory"


class NotNowError(MemoryError):
    """An access has to wait for another thread, and for no room."""


class NotFirstError(NotNowError):
    """An allocation has to wait, because another thread has waited longer for room."""

    def __init__(self, home: Home) -> None:
        super().__init__(f"another thread has waited longer for memory of {home.device}")
        self.home: Home = home


class Operation:
    """An operation that runs.

    Attributes
    ----------
    operands, outer
        What it pins, and the operation of the same thread in which it runs.
    written
        Whether it may have written, and cannot begin again.
    last
        Whether it has waited, and does not begin again either.
    waiting
        Whether it waits, with nothing in use.
    """

    # In the class, because each assignment would slow every operation.
    written: bool = False
    last: bool = False
    waiting: bool = False

    def __init__(self, operands: Any, outer: Operation | None) -> None:
        self.operands: Any = operands
        self.outer: Operation | None = outer


# The innermost operation of each thread.
innermost_of: dict[int, Operation] = {}


def run(operation: Operation, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function as an operation of this thread."""
    thread = threading.get_ident()
    try:
        innermost_of[thread] = operation
        if len(innermost_of) > 1:
            # Writes on the host are noted as soon as threads work side by side.
            HOST.writers = WRITERS
        return function(*args, **keywords)
    finally:
        if operation.outer is None:
            innermost_of.pop(thread, None)
        else:
            innermost_of[thread] = operation.outer


def innermost() -> Operation | None:
    """Return the innermost operation of this thread."""
    return innermost_of.get(threading.get_ident())


def has_written() -> None:
    """Tell that the operation of this thread may have written, and must not begin again."""
    operation = innermost()
    while operation is not None:
        operation.written = True
        operation = operation.outer


def attempt(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that the caller knows what to do without: it evicts, but waits for nobody."""
    return run(Operation((args, keywords), innermost()), function, *args, **keywords)


def run_writer(operands: Any, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that writes Blobs or memories, the operands."""
    operation = Operation(operands, innermost())
    operation.written = True
    has_written()
    return run(operation, function, *args, **keywords)


def pins(*, own: bool = True, others: bool = True) -> set[Any]:
    """Return the ledgers and homes that operations use."""
    found: set[Any] = set()
    this = threading.get_ident()
    for thread, innermost_there in [*innermost_of.items()]:
        operation: Operation | None = innermost_there
        if not innermost_there.waiting and (own if thread == this else others):
            while operation is not None:
                _add_used(operation.operands, found)
                operation = operation.outer
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
    written = [shortcut.buffer for note in list(WRITERS) for shortcut in note() or ()]
    return any(window is each for window in windows for each in written)


def is_written_elsewhere(ledger: Ledger) -> bool:
    """Return whether another thread is writing into a memory, also if it has not finished that."""
    noted = WRITERS and any(are_written(windows.all) for windows in ledger.buffers.windows)
    return noted or ledger in pins(own=False)


# --- the line -------------------------------------------------------------------------------------

# The places in line. `_turn` tells that one has left.
lines: dict[Home, list[Place]] = {}
_turn = threading.Condition()


def leave_room(home: Home) -> None:
    """Call this before an allocation: let threads that stand in line go first.

    Raises
    ------
    NotFirstError
        If another thread is the first, unless this one has written, and so has something in use.
    """
    # Nearly always, there is none.
    line = lines.get(home) if lines else None
    if line:
        operation = innermost()
        if operation is None or not operation.written:
            for first in line[:1]:
                if first.thread != threading.get_ident():
                    raise NotFirstError(home)


class Place:
    """A place in the line of a home; not in line for who has something in use, and only waits."""

    __slots__ = ("_began", "_home", "_idle", "_stands", "thread")

    def __init__(self, home: Home, *, stands: bool) -> None:
        self.thread: int = threading.get_ident()
        self._home: Home = home
        self._stands: bool = stands
        self._began: float = 0.0
        self._idle: int = 0

    def wait(self) -> bool:
        """Wait for the turn, or else a little. Return False if no other thread may free any."""
        if threading.active_count() == 1:
            return False
        with _turn:
            line = lines.setdefault(self._home, [])
            if self._stands and self not in line:
                line.append(self)
            if self in line and line[0] is not self:
                while line[0] is not self:
                    _turn.wait(10 * PAUSE)
                return True
            _turn.wait(PAUSE)
        self._began = self._began or time.monotonic()
        at_work = self._home in pins(own=False) or bool(WRITERS)
        self._idle = 0 if at_work else self._idle + 1
        return self._idle < IDLE and time.monotonic() - self._began < PATIENCE

    def leave(self) -> None:
        """Let the next one be the first."""
        if lines:
            with _turn:
                line = lines.get(self._home, [])
                if self in line:
                    line.remove(self)
                if not line:
                    lines.pop(self._home, None)
                _turn.notify_all()


def _after_fork_in_child() -> None:
    global _turn  # noqa: PLW0603  # another thread may have held its lock
    _turn = threading.Condition()
    lines.clear()
    for thread in {*innermost_of} - {threading.get_ident()}:
        del innermost_of[thread]
    WRITERS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# --- residents and keepers ------------------------------------------------------------------------


# A list of the keys or the values takes one step. Entries vanish at any time.
_residents: WeakKeyDictionary[Accelerator, WeakList] = WeakKeyDictionary()
_keepers = WeakList()
# Registers a Blob that keeps an array over a buffer of an accelerator.
keep = _keepers.add
# Returns the Blobs that may keep such arrays.
keepers = _keepers.living


def reside(ledger: Ledger, home: Any) -> None:
    """Register a ledger that gets a buffer on an accelerator."""
    known = _residents.get(home)
    if known is None:
        known = _residents.setdefault(home, WeakList())
    known.add(ledger)


def residents(home: Any) -> list[Ledger]:
    """Return the ledgers that have had buffers on an accelerator, in the order of the first."""
    known = _residents.get(home)
    return [] if known is None else known.living()


def accelerators_in_use() -> list[Accelerator]:
    """Return the accelerators that have had residents."""
    return [*_residents]


def if_free(lock: Any, function: Callable[..., int], *args: Any, again: bool = False) -> int:
    """Call a function under a lock. Return 0, and never wait, if the lock is taken.

    Another thread that has it may be waiting for this one; and this one is in an access, unless
    `again` tells that it may take the lock again.
    """
    if isinstance(lock, LostLock) or (lock._is_owned() and not again):  # has no public name
        return 0
    taken: list[bool] = []
    try:
        # One call in C takes the lock and notes it, and none comes before the release. So no
        # interrupt leaves the lock held.
        taken.extend(filter(None, map(lock.acquire, (False,))))
        return function(*args) if taken else 0
    finally:
        if taken:
            lock.release()
