"""The text of an array, exactly NumPy's, from no more elements than the text shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    # Gives the elements of one block: a slice for each axis, with a start and a stop.
    Read = Callable[[tuple[slice, ...]], NDArray[Any]]

__all__ = ["text_of"]


def text_of(shape: tuple[int, ...], dtype: np.dtype[np.generic], read: Read) -> str:
    """Return what ``str`` of an ndarray with these elements returns, with NumPy's print options.

    Parameters
    ----------
    shape, dtype
        Of the array.
    read
        Called with a slice for each axis, returns an ndarray of these elements. It is called for
        the blocks that the text shows, once for each, and not at all if there is no element.
    """
    if 0 in shape:
        return str(np.empty(shape, dtype))
    options = np.get_printoptions()
    edge = options["edgeitems"]
    summarised = shape and math.prod(shape) > options["threshold"]
    # With less than one item at each edge, NumPy measures elements that it does not show.
    if not summarised or edge < 1:
        return str(read(tuple(slice(0, dim) for dim in shape)))
    # NumPy decides how to format the numbers by those that it shows. It must summarise this array
    # too, which may have fewer elements than the threshold.
    return np.array2string(_corners(shape, edge, read), threshold=0)


def _corners(
    shape: tuple[int, ...], edge: int, read: Read, key: tuple[slice, ...] = ()
) -> NDArray[Any]:
    """Return the array with each axis that NumPy summarises cut to both edges and one item.

    The item between them stands for what is left out. It is a copy of one at the edge, so that it
    would not change the text even if it were looked at.
    """
    axis = len(key)
    if axis == len(shape):
        return read(key)
    dim = shape[axis]
    if dim <= 2 * edge:
        return _corners(shape, edge, read, (*key, slice(0, dim)))
    first = _corners(shape, edge, read, (*key, slice(0, edge)))
    last = _corners(shape, edge, read, (*key, slice(dim - edge, dim)))
    return np.concatenate((first, last.take([0], axis), last), axis)
