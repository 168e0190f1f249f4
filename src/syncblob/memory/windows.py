"""Windows: buffers of ranges of a memory, and parts of them."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from itertools import chain
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
    """Windows of disjoint ranges, in ascending order. Immutable.

    They are in groups. So a change copies one group, and not all windows.

    Parameters
    ----------
    groups
        The groups, none of them empty.
    nbytes
        As below.

    Attributes
    ----------
    nbytes
        The number of bytes of all windows.
    """

    __slots__ = ("_groups", "_starts", "nbytes")

    def __init__(self, groups: Sequence[list[Window]] = (), nbytes: int = 0) -> None:
        self._groups: Sequence[list[Window]] = groups
        self._starts: list[int] = [group[0].start for group in groups]
        self.nbytes: int = nbytes

    def __iter__(self) -> Iterator[Window]:
        """Iterate over the windows."""
        return chain.from_iterable(self._groups)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._groups)

    def containing(self, start: int, stop: int) -> Window | None:
        """Return the window that contains a range; None if none does."""
        place = bisect_right(self._starts, start) - 1
        if place < 0:
            return None
        group = self._groups[place]
        window = group[bisect_right(group, start, key=_START) - 1]
        return window if stop <= window.stop else None

    def overlapping(self, start: int, stop: int) -> list[Window]:
        """Return the windows that overlap a range."""
        near = chain.from_iterable(self._groups[self._near(start, stop)])
        return [window for window in near if window.start < stop and start < window.stop]

    def inside(self, start: int, stop: int, used: int) -> list[Window]:
        """Return the windows whose bytes in use lie in a range."""
        end = stop if stop < used else sys.maxsize
        near = chain.from_iterable(self._groups[self._near(start, end)])
        return [each for each in near if start <= each.start and min(each.stop, used) <= stop]

    def exchange(self, gone: Sequence[Window], new: Sequence[Window] = ()) -> Windows:
        """Return the windows without some, and with new ones."""
        changed = [*gone, *new]
        if not changed:
            return self
        near = self._near(min(map(_START, changed)), max(each.stop for each in changed))
        left = set(chain.from_iterable(self._groups[near])).difference(gone).union(new)
        ordered = sorted(left, key=_START)
        step = len(ordered) if len(ordered) <= 2 * _GROUP else _GROUP
        made = [ordered[at : at + step] for at in range(0, len(ordered), step or 1)]
        nbytes = sum(each.nbytes for each in new) - sum(each.nbytes for each in gone)
        groups = [*self._groups[: near.start], *made, *self._groups[near.stop :]]
        return Windows(groups, self.nbytes + nbytes)

    def _near(self, start: int, stop: int) -> slice:
        """Return the groups, one at least, in which windows may overlap a range."""
        low = max(bisect_right(self._starts, start) - 1, 0)
        return slice(low, max(bisect_left(self._starts, stop), low + 1))


_START = attrgetter("start")

# A group has at most twice as many windows.
_GROUP = 64


def laid(  # an array, and its use
    home: Home, buffer: Any, layout: Layout, *, writable: bool, own: bool = False
) -> Any:
    """Lay an array over a buffer or a window that contains it, without a copy.

    `own` tells that it is only passed to `Home.compute`; see `Home.own_view`.
    """
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
    """Return a range of a buffer or of a window. Skips the slice if the range is all of it.

    After an adoption the two buffers of a memory may have different sizes.
    """
    if type(buffer) is Window:
        start, stop, buffer = start - buffer.start, stop - buffer.start, buffer.array
    return buffer if stop - start == buffer.nbytes else buffer[start:stop]
