"""Calls that are made again when evictions have made room for them on an accelerator."""

from __future__ import annotations

import math
import random
import sys
import time
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from syncblob.devices.base import Home

    Function = TypeVar("Function", bound=Callable[..., Any])

# By code, whether functions wait when memory is short. The innermost decides, unless `patiently`
# has called it.
_patience: dict[CodeType, bool] = {}

# The seconds for which an operation waits for other threads.
PATIENCE = 5.0

# The shortest and the longest time, in seconds, until an operation begins again.
_PAUSE, _LONGEST = 0.001, 0.02

# The attribute of an error of a call without patience: whether others use some of the memory.
BESIDE_OTHERS = "beside_others"


class Shortage:
    """What is known of a call that fails because memory is short, from one try to the next.

    Attributes
    ----------
    began : float or None
        When it failed first, in seconds of `time.monotonic`; minus infinity if it waits for
        nothing.
    last : bool
        Whether there was nothing to evict, so that the next failure is the last one.
    """

    __slots__ = ("began", "last")

    # The module that knows Blobs, `blob.make_room`, assigns it.
    make_room: ClassVar[Callable[[Shortage, Home, Exception, str], bool]]

    def __init__(self, began: float | None = None) -> None:
        self.began: float | None = began
        self.last: bool = False

    @property
    def patient(self) -> bool:
        """Whether it waits for other threads, and for a search of all objects for garbage."""
        if self.began == -math.inf:
            return False
        frame: FrameType | None = sys._getframe()  # noqa: SLF001  # documented, in spite of its name
        patience = None
        while frame is not None and patience is None:
            patience, frame = _patience.get(frame.f_code), frame.f_back
            if patience is False and frame is not None and frame.f_code is patiently.__code__:
                patience = True
        # Nor does this keep a frame.
        frame = None
        return patience is not False


def at_once(function: Function) -> Function:
    """Mark a function that knows what else to do if there is no room, and waits for nothing."""
    _patience[function.__code__] = False
    return function


def patiently(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function that waits nevertheless."""
    return function(*args, **keywords)


_patience[patiently.__code__] = True


@at_once
def from_the_start(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function; again, from its start, if other threads use the room that it lacks.

    The function takes its arrays itself, and writes nothing before it has room. So nothing is in
    use between two calls, and others can evict its operands: two operations that waited with what
    they have for the rest of what they need would wait for each other.
    """
    try:
        return function(*args, **keywords)
    except MemoryError as error:
        beside_others = vars(error).get(BESIDE_OTHERS)
        if beside_others is None:
            # Patience is of no use.
            raise
    # Only here: the error keeps frames alive, and these keep arrays.
    return begin_again(function, args, keywords, beside_others=beside_others)


def begin_again(
    function: Callable[..., Any], args: Any, keywords: Any, *, beside_others: bool
) -> Any:
    """Wait and call a function, until it has room or no other thread uses what it lacks."""
    began, pause = time.monotonic(), _PAUSE
    while beside_others and time.monotonic() - began < PATIENCE:
        # At random, or two operations would meet again and again.
        time.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # no secret
        pause = min(2 * pause, _LONGEST)
        try:
            return function(*args, **keywords)
        except MemoryError as error:
            beside_others = vars(error).get(BESIDE_OTHERS, False)
    try:
        return patiently(function, *args, **keywords)
    except MemoryError as error:
        # A program that keeps the error would keep the arrays of its frames.
        clear_frames(error.__traceback__)
        raise


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
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
