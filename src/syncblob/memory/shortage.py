"""Calls that are made again when evictions have made room for them on an accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob.devices.base import Home


class Shortage:
    """What is known of a call that fails because memory is short, from one try to the next.

    Attributes
    ----------
    began : float or None
        When it failed first, in seconds of `time.monotonic`. If that is long ago, it waits for no
        other thread.
    last : bool
        Whether there was nothing to evict, so that the next failure is the last one.
    """

    __slots__ = ("began", "last")

    # The module that knows Blobs, `blob.eviction`, assigns it.
    make_room: ClassVar[Callable[[Shortage, Home, Exception, str], bool]]

    def __init__(self, began: float | None = None) -> None:
        self.began: float | None = began
        self.last: bool = False


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    shortage = None
    while True:
        try:
            return home.compute(function, *args, **keywords)
        except MemoryError as error:
            shortage = shortage or Shortage()
            if not shortage.make_room(home, error, getattr(function, "__name__", "a computation")):
                raise
