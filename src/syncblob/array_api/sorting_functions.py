"""Sorting functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/sorting_functions.html

Both return a new Blob, computed on its operand's device, without a transfer. NaN counts as greater
than every number: it is last in ascending order and first in descending order. Operands that are
not Blobs raise a TypeError. An axis out of range raises an IndexError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.lib.array_utils import normalize_axis_index

from syncblob._corrected import functions as corrected
from syncblob.blob.compute import apply
from syncblob.blob.operands import as_blob

if TYPE_CHECKING:
    from syncblob._blob import Blob


def argsort(x: Blob, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Blob:
    """Return the indices that sort a Blob along an axis.

    Parameters
    ----------
    x
        The Blob.
    axis
        The axis.
    descending
        Sort in descending order.
    stable
        Keep the order of equal elements, in either direction.
    """
    x = as_blob("argsort", x)
    axis = normalize_axis_index(axis, x.ndim)
    return apply(corrected.argsort, x, axis=axis, descending=descending, stable=stable)


def sort(x: Blob, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Blob:
    """Sort a Blob along an axis; see `argsort`."""
    x = as_blob("sort", x)
    axis = normalize_axis_index(axis, x.ndim)
    return apply(corrected.sort, x, axis=axis, descending=descending, stable=stable)
