"""Calls that are made again when evictions have made room for them on an accelerator.

Threads that have waited long for room stand in a line. While there is one, the first thread gets
what becomes free: others make no allocation that they can make later. Otherwise, threads that need
little would take each bit of room before there is enough for one that needs much.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from contextlib import suppress
from enum import IntEnum
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from syncblob.devices.base import Home

    Function = TypeVar("Function", bound=Callable[..., Any])

# The seconds for which an operation waits for other threads.
PATIENCE = 5.0

# The shortest and the longest time, in seconds, until an operation begins again.
_PAUSE, _LONGEST = 0.001, 0.02

# The seconds until it stands in line, and those for which an allocation that cannot be made later
# waits for the line.
_OVERTAKEN, _LEAVES_ROOM = 0.05, 0.25

# The attribute of an error of a call without patience: the home, if others use some of its memory.
BESIDE_OTHERS = "beside_others"

# The calls in line, by home. Lists change in single steps, and so need no lock. The references are
# weak, and those of calls that have ended are removed. A call that fails leaves before, because its
# error keeps it.
_lines: dict[Home, list[ref[Shortage]]] = {}
if hasattr(os, "register_at_fork"):
    # The child has one thread.
    os.register_at_fork(after_in_child=_lines.clear)


class NotFirstError(MemoryError):
    """An allocation that can be made later would take room from the first thread in line."""

    def __init__(self, home: Home) -> None:
        super().__init__(f"another thread has waited longer for memory of {home.device}")
        vars(self)[BESIDE_OTHERS] = home


def ahead(home: Home) -> int | None:
    """Return the thread that has waited longest for room on a home, unless it is this one."""
    line = _lines.get(home, [])
    for place in line[:]:
        first = place()
        if first is None:
            # Unless another thread has.
            with suppress(ValueError):
                line.remove(place)
        elif not first.outdated():
            return first.thread if first.thread != threading.get_ident() else None
    return None


def leave_room(home: Home) -> None:
    """Call this before an allocation: let threads that stand in line go first.

    Raises
    ------
    NotFirstError
        If the operation can begin again. Otherwise, this only waits a little, because the thread
        may have in use what the first one waits for.
    """
    if not _lines.get(home) or ahead(home) is None:
        # Nearly always, there is no line.
        return
    waits = patience()
    if waits is Patience.AT_ONCE:
        raise NotFirstError(home)
    until = time.monotonic() + _LEAVES_ROOM * (waits is Patience.PATIENT)
    while ahead(home) is not None and time.monotonic() < until:
        time.sleep(_PAUSE)


class Patience(IntEnum):
    """What a call waits for when memory is short and nothing can be evicted."""

    AT_ONCE = 0
    """For nothing: it knows what else to do."""
    THOROUGH = 1
    """For a search of all objects for garbage."""
    PATIENT = 2
    """For other threads, too, with what it has in use."""


class Shortage:
    """What is known of a call that fails because memory is short, from one try to the next.

    Attributes
    ----------
    began : float or None
        When it failed first, in seconds of `time.monotonic`.
    last : bool
        Whether there was nothing to evict, so that the next failure is the last one.
    home : Home or None
        The home that it stands in line for.
    first : float
        When it was seen to be the first, in the same seconds. Set when it stands in line.
    thread : int
        The thread.
    """

    __slots__ = ("__weakref__", "began", "first", "home", "last", "thread")

    # The module that knows Blobs, `blob.automatic_eviction`, assigns it.
    make_room: ClassVar[Callable[[Shortage, Home, Exception, str], bool]]

    def __init__(self) -> None:
        self.began: float | None = None
        self.first: float
        self.last: bool = False
        self.home: Home | None = None
        self.thread: int = threading.get_ident()

    def stand_in_line(self, home: Home, since: float) -> None:
        """Let this call stand in line for a home, if it has waited for a while."""
        if home is not self.home and time.monotonic() - since > _OVERTAKEN:
            self.leave_line()
            self.home, self.first = home, 0.0
            _lines.setdefault(home, []).append(ref(self))

    def outdated(self) -> bool:
        """Tell whether it has been first in line for too long; call this if it is the first."""
        now = time.monotonic()
        self.first = self.first or now
        return now - self.first > 2 * PATIENCE

    def leave_line(self) -> None:
        """Let the next one be the first."""
        home, self.home = self.home, None
        if home is not None:
            # In a forked child, there is no line any more.
            with suppress(KeyError, ValueError):
                _lines[home].remove(ref(self))


def patience(frame: FrameType | None = None) -> Patience:
    """Return the patience of the calls on the stack, from a frame outwards.

    The innermost marked function decides, unless `patiently` or `thoroughly` has called it. What
    `from_the_start` calls waits for nothing; in a thorough call, it is thorough.
    """
    frame = frame or sys._getframe()  # noqa: SLF001  # documented, in spite of its name
    inner = None
    while frame is not None:
        mark, code = _marks.get(frame.f_code), frame.f_code
        frame = frame.f_back
        if mark is None:
            continue
        if mark is Patience.AT_ONCE and frame is not None:
            mark = _marks.get(frame.f_code) or mark
        if mark is not Patience.AT_ONCE:
            return mark if inner is None or mark is Patience.THOROUGH else inner
        inner = mark
        if code is not from_the_start.__code__:
            break
    return Patience.PATIENT if inner is None else inner


def at_once(function: Function) -> Function:
    """Mark a function that knows what else to do if there is no room, and waits for nothing."""
    _marks[function.__code__] = Patience.AT_ONCE
    return function


def patiently(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that waits nevertheless."""
    return function(*args, **keywords)


def thoroughly(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that does not wait for other threads, but for a search for garbage."""
    return function(*args, **keywords)


# By code, the patience of functions.
_marks: dict[CodeType, Patience] = {
    patiently.__code__: Patience.PATIENT,
    thoroughly.__code__: Patience.THOROUGH,
}


@at_once
def from_the_start(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function; again, from its start, if other threads use the room that it lacks.

    The function takes its arrays itself, and writes nothing before it has room. So nothing is in
    use between two calls, and others can evict its operands: two operations that waited with what
    they have for the rest of what they need would wait for each other. As part of an operation that
    can begin again itself, the function is called once, and its error is raised.
    """
    try:
        return function(*args, **keywords)
    except MemoryError as error:
        waits = patience(sys._getframe(1))  # noqa: SLF001  # as above
        if BESIDE_OTHERS not in vars(error) or waits is not Patience.PATIENT:
            # Patience is of no use, or the caller begins again.
            raise
        home = vars(error)[BESIDE_OTHERS]
    # Only here: the error keeps frames alive, and these keep arrays.
    return begin_again(function, args, keywords, home)


def begin_again(function: Callable[..., Any], args: Any, keywords: Any, home: Home | None) -> Any:
    """Wait and call a function, until it has room or no other thread uses what it lacks.

    `home` is where it lacks room; None if no other thread uses any there.
    """
    since, pause, before = time.monotonic(), _PAUSE, None
    began, shortage = since, Shortage()
    try:
        while True:
            over = time.monotonic() - began > PATIENCE
            if not over and home is not None:
                # At random, or two operations would meet again and again.
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # no secret
                pause = min(2 * pause, _LONGEST)
                shortage.stand_in_line(home, since)
                first = ahead(home)
                if first is not None:
                    if first != before:
                        # The line moves.
                        began, before = time.monotonic(), first
                    continue
                if shortage.home is home:
                    # The first in line meets nobody.
                    pause = _PAUSE
            try:
                if over or home is None:
                    return thoroughly(function, *args, **keywords)
                return function(*args, **keywords)
            except MemoryError as error:
                was, home = home, vars(error).get(BESIDE_OTHERS)
                if over or (was is None and home is None):
                    # A program that keeps the error would keep the arrays of its frames.
                    clear_frames(error.__traceback__)
                    raise
    finally:
        shortage.leave_line()


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    leave_room(home)
    reason = getattr(function, "__name__", "a computation")
    return in_room(home, reason, MemoryError, home.compute, function, *args, **keywords)


def in_room(
    home: Home,
    reason: str,
    short: type[Exception],
    function: Callable[..., Any],
    *args: Any,
    **keywords: Any,
) -> Any:
    """Call a function, and again as long as evictions make room on a home.

    `short` is the error of which memory that is short is the reason.
    """
    shortage = None
    while True:
        try:
            return function(*args, **keywords)
        except short as error:
            shortage = shortage or Shortage()
            if not shortage.make_room(home, error, reason):
                raise
