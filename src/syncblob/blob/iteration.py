"""Iteration over the first axis: views, or elements that are read on the host."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from syncblob.blob.core import HOST_DATA
from syncblob.memory import NO_SHORTCUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncblob.blob.core import BlobCore

__all__ = ["iterate"]


def iterate(blob: BlobCore) -> Iterator[Any]:
    """Return an iterator over the first axis; see `Blob.__iter__`."""
    if blob.ndim == 1:
        return _elements(blob)
    if not blob.shape:
        raise TypeError("a 0-d Blob cannot be iterated over; use item() for its element")
    indexed: Any = blob  # by the class, which may have another `__getitem__`
    return (indexed[index] for index in range(blob.shape[0]))


def _elements(blob: BlobCore) -> Iterator[Any]:
    """Yield the elements of a 1-d Blob as NumPy scalars."""
    array: Any = None
    seen = None
    shortcut = NO_SHORTCUT
    for place in count():
        if not shortcut.readable:
            # While aliases may write on the other side, no shortcut can be used. Then only a change
            # of the map causes a new read. No local name keeps the memory over a `yield`, because
            # `resize` counts references to it.
            spans = blob._memory.spans
            if array is None or spans != seen:
                array = blob._read_host("__iter__")
                kept = blob._kept[HOST_DATA]
                shortcut = NO_SHORTCUT if kept is None else kept[0]
                seen = None if shortcut.readable else spans
        try:
            element = array[place]
        except IndexError:
            return
        yield element
