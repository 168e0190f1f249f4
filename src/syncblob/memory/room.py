"""Room on a device: calls that fail for lack of it evict buffers, and are made again."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from syncblob._formatting import extend, human_bytes
from syncblob.devices import Accelerator
from syncblob.devices.base import NEEDED
from syncblob.memory.eviction import make_room
from syncblob.memory.memory_summary import rows
from syncblob.memory.operations import (
    SHORT_OF,
    BeingWrittenError,
    NotNowError,
    Place,
    innermost,
    is_outermost,
    leave_room,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob.devices.base import Home


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    reason = getattr(function, "__name__", "a computation")
    return in_room(home, reason, MemoryError, _compute, home, function, *args, **keywords)


def _compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    leave_room(home)
    return home.compute(function, *args, **keywords)


def in_room(  # the parameters of the function come last
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
    try:
        return function(*args, **keywords)
    except short as error:
        shortage = shortage_of(error, home, reason)
        if shortage is None:
            raise
    # Only here, as in `from_the_start`.
    return shortage.repeat(short, function, args, keywords)


def shortage_of(error: Exception, home: Home, reason: str) -> Shortage | None:
    """Return what to do about an error; None if nothing helps."""
    home = getattr(error, "home", home)
    if isinstance(error, BeingWrittenError):
        return Shortage(error, home, reason)
    if not home.bounded or not isinstance(home, Accelerator):
        return None
    needed = vars(error).get(NEEDED, 0)
    if not home.can_hold(needed):
        extend(error, f"{home.device} can never hold {human_bytes(needed)}", first=True)
        vars(error)[SHORT_OF] = None
        return None
    return Shortage(error, home, reason)


class Shortage:
    """A call for which memory is short, from one try to the next."""

    __slots__ = ("_error", "_home", "_reason")

    def __init__(self, error: Exception, home: Home, reason: str) -> None:
        # Its frames refer to buffers.
        self._error: Any = error.with_traceback(None)
        self._error.__context__ = None
        self._home: Any = home
        self._reason: str = reason

    def repeat(
        self, short: type[Exception], function: Callable[..., Any], args: Any, keywords: Any
    ) -> Any:
        """Call the function again, as long as there is a reason to."""
        call = innermost()
        outermost, last = is_outermost(call), False
        place = Place(self._home, stands=call is None)
        try:
            while not last:
                if not self._make_room():
                    if not (outermost or call.last):  # type: ignore[union-attr]  # there is a call
                        vars(self._error)[SHORT_OF] = self._home
                        break
                    last = not (outermost and place.wait())
                    if last:
                        # Cycles may keep memories and arrays.
                        gc.collect()
                try:
                    return function(*args, **keywords)
                except short as error:
                    self._error = error.with_traceback(None)
                if shortage_of(self._error, self._home, self._reason) is None:
                    break
            if last:
                self._explain()
            raise self._error
        finally:
            place.leave()
            # It refers to the frames that refer to this object.
            self._error = None

    def _make_room(self) -> bool:
        if isinstance(self._error, NotNowError):
            return False
        return make_room(self._home, self._reason, vars(self._error).get(NEEDED, 0))

    def _explain(self) -> None:
        if isinstance(self._error, NotNowError):
            return
        listed = "\n".join(map(str, rows(self._home, self._reason))) or (
            "    nothing that a Blob has; other arrays, and those that other code keeps of evicted "
            "buffers, are not listed"
        )
        extend(self._error, f"nothing there can be evicted:\n{listed}")
