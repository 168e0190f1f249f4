"""A Blob as text: `repr`, and `str` as NumPy formats it, reading only the elements shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.blob.scalars import element
from syncblob.devices import Side
from syncblob.errors import TransferGuardError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.blob.core import BlobCore

    # Returns the elements of one block: a slice for each axis, with a start and a stop.
    Read = Callable[[tuple[slice, ...]], NDArray[Any]]


def describe(blob: BlobCore) -> str:
    """Return shape, dtype, device and head for `repr`. Causes no transfer."""
    const = ", const" if blob.readonly else ""
    head = blob.memory.head_over(*blob.layout.reach)
    return (
        f"shape={blob.shape}, dtype={blob.dtype.name}, device={blob.device}, "
        f"head={head.name}{const}"
    )


def values_of(blob: BlobCore) -> str:
    """Return the values as text, or the reason why they are not shown; see `Blob.__str__`."""

    def read(key: tuple[slice, ...]) -> NDArray[Any]:
        if not key:
            return element(blob, "str")
        return blob.memory.gather(Side.HOST, block_of(blob.layout, key), "str")

    homes: Any = blob.memory.homes[1:]
    capturing = [home.device for home in homes if home.capturing]
    lacking = blob.memory.spans.lacking(blob.layout.start, blob.layout.stop, 1 << Side.HOST)
    if capturing and any(run.holders for run in lacking):
        return _without_values(blob, f"{capturing[0]} is capturing a graph")
    try:
        return text_of(blob.shape, blob.dtype, read)
    except TransferGuardError as error:
        return _without_values(blob, error.allowed)


def block_of(layout: Layout, key: tuple[slice, ...]) -> Layout:
    """Return the layout of one block of elements."""
    # The Ellipsis makes it a view even for 0-d.
    index: Any = (*key, ...)
    return layout.derive(lambda array: array[index])


def _without_values(blob: BlobCore, reason: str) -> str:
    return f"Blob({describe(blob)}; values not shown: {reason})"


def text_of(shape: tuple[int, ...], dtype: np.dtype[np.generic], read: Read) -> str:
    """Return the ``str`` of an ndarray with these elements, under NumPy's print options.

    `read` is called once for each block that the text shows; never if there are no elements.
    """
    if 0 in shape:
        return str(np.empty(shape, dtype))
    options = np.get_printoptions()
    edge = options["edgeitems"]
    summarised = shape and math.prod(shape) > options["threshold"]
    # If `edgeitems` is less than 1, NumPy's format depends on elements that it does not show.
    if not summarised or edge < 1:
        return str(read(tuple(slice(0, dim) for dim in shape)))
    # NumPy's format depends on the numbers that it shows. The threshold of 0 makes it summarize
    # this smaller array too.
    return np.array2string(_corners(shape, edge, read), threshold=0)


def _corners(
    shape: tuple[int, ...], edge: int, read: Read, key: tuple[slice, ...] = ()
) -> NDArray[Any]:
    """Return the array with each summarized axis cut to both edges and one item between."""
    axis = len(key)
    if axis == len(shape):
        return read(key)
    dim = shape[axis]
    if dim <= 2 * edge:
        return _corners(shape, edge, read, (*key, slice(0, dim)))
    # The item between is a copy of one at the edge, so that it cannot change the format.
    first = _corners(shape, edge, read, (*key, slice(0, edge)))
    last = _corners(shape, edge, read, (*key, slice(dim - edge, dim)))
    return np.concatenate((first, last.take([0], axis), last), axis)
