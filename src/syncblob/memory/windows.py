"""Windows: buffers of ranges of a memory, and parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
