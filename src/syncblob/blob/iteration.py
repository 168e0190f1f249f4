"""Iteration over the first axis: views, or elements that are read on the host."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

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
    blob._make_memory()
    array: Any = ()
    seen = None
    for place in count():
        # A change on the accelerator replaces the map of the memory. A read while aliases may write
        # there also replaces it, by an equal one. No local name keeps the memory over a `yield`,
        # because `resize` counts references to it.
        spans = blob._held._spans  # type: ignore[union-attr]  # it was made
        if spans is not seen:
            if spans != seen:
                array = blob._read_host("__iter__")
            seen = spans
        try:
            element = array[place]
        except IndexError:
            return
        yield element
