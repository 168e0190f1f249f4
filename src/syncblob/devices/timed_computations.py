"""When computations begin and end, for logs that record operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncblob.devices.base import Home, Moment
    from syncblob.devices.device import Device

    # Gets the device, the name of the operation, its beginning and its end.
    Watcher = Callable[[Device, str, Moment, Moment], None]

# Functions that are called after each computation.
watchers: list[Watcher] = []


def begin(home: Home) -> Moment | None:
    """Return the present moment of a home; None if nothing watches."""
    return home.moment() if watchers else None


def end(home: Home, name: str, beginning: Moment | None) -> None:
    """Tell the watchers of a computation, unless it began when nothing watched."""
    if beginning is not None:
        now = home.moment()
        for watcher in [*watchers]:
            watcher(home.device, name, beginning, now)


def run(
    home: Home, function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Any:
    """Call a function with arrays of a home, and tell the watchers."""
    beginning = begin(home)
    result = function(*args, **keywords)
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    # `SyncedMemory.write` calls a function by way of a deque.
    end(home, "write" if name == "deque" else name.lstrip("_"), beginning)
    return result
