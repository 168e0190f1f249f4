"""Calls that are made again when evictions have made room for them on an accelerator."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from syncblob.devices.base import Home

    Function = TypeVar("Function", bound=Callable[..., Any])

# By code, whether functions wait when memory is short. The innermost decides.
_patience: dict[CodeType, bool] = {}


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

    # The module that knows Blobs, `blob.eviction`, assigns it.
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
        # Nor does this keep a frame.
        frame = None
        return patience is not False


def at_once(function: Function) -> Function:
    """Mark a function that knows what else to do if there is no room, and waits for nothing."""
    _patience[function.__code__] = False
    return function


def patiently(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that waits nevertheless."""
    return function(*args)


_patience[patiently.__code__] = True


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
