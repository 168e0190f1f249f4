"""Windows: buffers of ranges of a memory, and parts of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncblob._layout import Layout
    from syncblob.devices.base import Home


class Window:
    """A buffer of a range of a memory.

    Attributes
    ----------
    start, stop
        The range.
    array
        The buffer, in which the byte at `start` is the first.
    """

    __slots__ = ("array", "start", "stop")

    def __init__(self, start: int, stop: int, array: Any) -> None:
        self.start: int = start
        self.stop: int = stop
        self.array: Any = array

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.stop - self.start


class Windows:
    """Windows of disjoint ranges, in ascending order, and the number of their bytes. Immutable."""

    __slots__ = ("_windows", "nbytes")

    def __init__(self, windows: tuple[Window, ...] = (), nbytes: int = 0) -> None:
        self._windows: tuple[Window, ...] = windows
        self.nbytes: int = nbytes

    def __iter__(self) -> Iterator[Window]:
        """Iterate over the windows."""
        return iter(self._windows)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._windows)

    def containing(self, start: int, stop: int) -> Window | None:
        """Return the window that contains a range; None if none does."""
        place = bisect_right(self._windows, start, key=_START) - 1
        return self._windows[place] if place >= 0 and stop <= self._windows[place].stop else None

    def overlapping(self, start: int, stop: int) -> list[Window]:
        """Return the windows that overlap a range."""
        first = max(bisect_right(self._windows, start, key=_START) - 1, 0)
        near = self._windows[first : bisect_left(self._windows, stop, key=_START)]
        return [window for window in near if start < window.stop]

    def inside(self, start: int, stop: int) -> list[Window]:
        """Return the windows that lie in a range."""
        first = bisect_left(self._windows, start, key=_START)
        # One of no bytes may start where the range ends.
        last = bisect_right(self._windows, stop, key=_START)
        return [each for each in self._windows[first:last] if each.stop <= stop]

    def exchange(self, gone: Sequence[Window], new: Sequence[Window] = ()) -> Windows:
        """Return the windows without some, and with new ones in their place."""
        if not (gone or new):
            return self
        starts = [each.start for each in (*gone, *new)]
        first = bisect_left(self._windows, min(starts), key=_START)
        last = bisect_right(self._windows, max(starts), key=_START)
        left = sorted({*self._windows[first:last], *new}.difference(gone), key=_START)
        nbytes = sum(each.nbytes for each in new) - sum(each.nbytes for each in gone)
        windows = (*self._windows[:first], *left, *self._windows[last:])
        return Windows(windows, self.nbytes + nbytes)


_START = attrgetter("start")

NO_WINDOWS = Windows()


def laid(  # an array, and its use
    home: Home, buffer: Any, layout: Layout, *, writable: bool, own: bool = False
) -> Any:
    """Lay an array over a buffer or a window that contains it, without a copy.

    `own` tells that it is only passed to `Home.compute`; see `Home.own_view`.
    """
    if type(buffer) is Window:
        buffer, layout = placed_in(buffer, layout)
    return (home.own_view if own else home.view)(buffer, layout, writable=writable)


def array_of(buffer: Any) -> Any:
    """Return the array of a window, or a buffer itself."""
    return buffer.array if type(buffer) is Window else buffer


def placed_in(buffer: Any, layout: Layout) -> tuple[Any, Layout]:
    """Return the array of a buffer or a window, and a layout of the memory in that array."""
    if type(buffer) is Window:
        return buffer.array, layout.moved(-buffer.start)
    return buffer, layout


def layout_of(home: Home, array: Any, buffer: Any) -> Layout:
    """Return the layout in the memory of an array over a buffer or a window."""
    if type(buffer) is Window:
        return home.layout(array, buffer.array).moved(buffer.start)
    return home.layout(array, buffer)


def part_of(buffer: Any, start: int, stop: int) -> Any:
    """Return a range of a buffer or of a window. Skips the slice if the range is all of it."""
    if type(buffer) is Window:
        start, stop, buffer = start - buffer.start, stop - buffer.start, buffer.array
    return buffer if stop - start == buffer.nbytes else buffer[start:stop]
