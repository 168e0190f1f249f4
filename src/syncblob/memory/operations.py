"""Calls that run: the operands that they pin, and the line in which they wait for room.

The operands of calls are not evicted while they run: they are *pinned*. A call that needs more room
than there is begins again when it has some, and has nothing in use meanwhile: two calls that waited
with what they have for the rest of what they need would wait for each other. So only the outermost
call waits, and its first turn comes after those of all that came before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from syncblob.memory.residents import any_is_locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob.devices.base import Home
    from syncblob.memory.ledger import Ledger

# The seconds for which the first in line waits, those between two tries, and those for which no
# other thread may have been at work before it gives up. A thread may be between two calls.
PATIENCE, PAUSE, IDLE = 5.0, 0.005, 0.03

# What a call does: it reads, or is about to write; or has begun to, and cannot begin again.
_READS, _WRITES, _HAS_WRITTEN = range(3)

# The attribute of an error of a call that its caller begins again: where memory is short.
SHORT_OF = "short_of_memory"


class _Call:
    """A call that runs, with the Blobs and memories that it was given.

    Attributes
    ----------
    operands, outer, state
        They, the call of the same thread that has called it, and one of the states above.
    last
        Whether it has waited, and is not made again.
    waiting
        Whether it waits and has nothing in use.
    """

    __slots__ = ("last", "operands", "outer", "state", "waiting")

    def __init__(self, operands: Any, outer: _Call | None, state: int = _READS) -> None:
        self.operands: Any = operands
        self.outer: _Call | None = outer
        self.state: int = state
        self.last: bool = False
        self.waiting: bool = False


# The innermost call of each thread, and the calls that wait, in the order in which they came.
_calls: dict[int, _Call] = {}
_lines: dict[Home, list[Place]] = {}
_turn = threading.Condition()


def _after_fork_in_child() -> None:
    global _turn  # noqa: PLW0603  # another thread may have held its lock
    _turn = threading.Condition()
    _lines.clear()
    for thread in [*_calls]:
        if thread != threading.get_ident():
            del _calls[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# --- pins -----------------------------------------------------------------------------------------


def _chain(call: _Call | None) -> Iterator[_Call]:
    while call is not None:
        yield call
        call = call.outer


def _add_used(operands: Iterable[Any], found: set[Any], depth: int = 3) -> None:
    """Add what operands use, also those in tuples, lists and dicts."""
    for x in operands:
        kind = type(x)
        if kind is tuple or kind is list or kind is dict:
            if depth:
                _add_used(x.values() if kind is dict else x, found, depth - 1)
        elif hasattr(kind, "used"):
            found.update(x.used())


def pinned(*, writes: bool = False, own: bool = True, others: bool = True) -> set[Any]:
    """Return the ledgers and homes that running calls use, or only those that they may write."""
    found: set[Any] = set()
    this = threading.get_ident()
    for thread, innermost in [*_calls.items()]:
        if innermost.waiting or not (own if thread == this else others):
            continue
        for call in _chain(innermost):
            if call.state or not writes:
                _add_used(call.operands, found)
    return found


def innermost() -> _Call | None:
    """Return the innermost call of this thread."""
    return _calls.get(threading.get_ident())


def pin(operands: Any) -> None:
    """Pin only some operands of the call of this thread from now on."""
    call: Any = innermost()
    call.operands = operands


def will_write() -> None:
    """Tell that the call of this thread is about to write its operands."""
    call: Any = innermost()
    call.state = max(call.state, _WRITES)


def has_written() -> None:
    """Tell that what this thread calls may have written, and must not begin again."""
    for call in _chain(innermost()):
        call.state = _HAS_WRITTEN


# --- calls ----------------------------------------------------------------------------------------


def attempt(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that the caller knows what to do without: it evicts, but waits for nobody."""
    return _call(_READS, (args, keywords), function, args, keywords)


def writing(operands: Any, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that writes Blobs or memories, the operands."""
    for call in _chain(innermost()):
        call.state = _HAS_WRITTEN
    return _call(_HAS_WRITTEN, operands, function, args, keywords)


def _call(state: int, operands: Any, function: Callable[..., Any], args: Any, keywords: Any) -> Any:
    thread = threading.get_ident()
    outer = _calls.get(thread)
    try:
        _calls[thread] = _Call(operands, outer, state)
        return function(*args, **keywords)
    finally:
        _restore(thread, outer)


def _restore(thread: int, outer: _Call | None) -> None:
    if outer is None:
        _calls.pop(thread, None)
    else:
        _calls[thread] = outer


def from_the_start(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function; again, from its start, if other threads use the room that it lacks.

    The function takes its arrays itself, and tells before it writes. So nothing is in use between
    two tries, and others can evict its operands. Within another such call, the function is called
    once, and its error is raised.
    """
    thread = threading.get_ident()
    outer = _calls.get(thread)
    try:
        _calls[thread] = call = _Call((args, keywords), outer)
        call.last = outer is not None and outer.last
        try:
            return function(*args, **keywords)
        except MemoryError as error:
            home = vars(error).get(SHORT_OF)
            if home is None or call.state == _HAS_WRITTEN or not is_outermost(outer):
                raise
        # Only here: the error keeps frames alive, and these keep arrays.
        return _begin_again(call, home, function, args, keywords)
    finally:
        _restore(thread, outer)


def is_outermost(call: _Call | None) -> bool:
    """Return whether nothing further out begins again: neither a call nor one that was its last."""
    return call is None or call.state == _HAS_WRITTEN


def _begin_again(
    call: _Call, home: Home, function: Callable[..., Any], args: Any, keywords: Any
) -> Any:
    place, failure = Place(home), MemoryError()
    try:
        while not call.last and call.state != _HAS_WRITTEN:
            call.state, call.waiting = _READS, True
            try:
                call.last = not place.wait()
            finally:
                call.waiting = False
            try:
                return function(*args, **keywords)
            except MemoryError as error:
                # A program that keeps the error would keep the arrays of its frames.
                failure = error.with_traceback(None)
            if vars(failure).get(SHORT_OF) is None:
                break
        raise failure
    finally:
        place.leave()
        # It refers to this frame.
        del failure


class NotNowError(MemoryError):
    """An access has to wait for another thread, and for no room."""


class NotFirstError(NotNowError):
    """An allocation that can be made later would take room from the first thread in line."""

    def __init__(self, home: Home) -> None:
        super().__init__(f"another thread has waited longer for memory of {home.device}")
        self.home: Home = home


class BeingWrittenError(NotNowError):
    """Another thread is writing into a window that is to be replaced. It does not take long.

    A copy that is made meanwhile would lack what it writes.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(f"another thread is writing into {ledger.buffers.described()}")


def short_of(error: Exception) -> bool:
    """Return whether a call failed for lack of room that it did not wait for."""
    return SHORT_OF in vars(error)


# --- the line -------------------------------------------------------------------------------------


def leave_room(home: Home) -> None:
    """Call this before an allocation: let threads that stand in line go first.

    Raises
    ------
    NotFirstError
        If another thread is the first, unless this one has something in use that it may wait for.
    """
    line = _lines.get(home) if _lines else None
    if not line:
        # Nearly always.
        return
    thread = threading.get_ident()
    call = _calls.get(thread)
    if (call is None or call.state != _HAS_WRITTEN) and line[:1] and line[0].thread != thread:
        raise NotFirstError(home)


class Place:
    """A place in the line of a home.

    Parameters
    ----------
    home
        The home.
    stands
        Whether to stand in line. Who has something in use only waits.
    """

    __slots__ = ("_began", "_busy", "_home", "_stands", "thread")

    def __init__(self, home: Home, *, stands: bool = True) -> None:
        self.thread: int = threading.get_ident()
        self._home: Home = home
        self._stands: bool = stands
        self._began: float = 0.0
        self._busy: float = 0.0

    def wait(self) -> bool:
        """Wait for the turn, and then a little. Return False if no other thread may free any."""
        if threading.active_count() == 1:
            return False
        with _turn:
            line = _lines.setdefault(self._home, [])
            if self._stands and self not in line:
                line.append(self)
            waited = False
            while self in line and line[0] is not self:
                waited = True
                _turn.wait(IDLE)
            now = time.monotonic()
            if not self._began:
                self._began = self._busy = now
                if waited:
                    # What the one before has left.
                    return True
            _turn.wait(PAUSE)
        now = time.monotonic()
        if self._home in pinned(own=False) or any_is_locked(self._home):
            self._busy = now
        return now - self._busy < IDLE and now - self._began < PATIENCE

    def leave(self) -> None:
        """Let the next one be the first."""
        with suppress(KeyError, ValueError):
            _lines[self._home].remove(self)
            with _turn:
                if not _lines[self._home]:
                    del _lines[self._home]
                _turn.notify_all()
