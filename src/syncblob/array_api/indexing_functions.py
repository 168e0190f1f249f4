"""Indexing functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/indexing_functions.html

Both return a new Blob. They compute on the device of the operands, without a transfer; on the
accelerator where only one of two is there. Negative indices count from the end. Indices out of
range raise an IndexError on the host, and select some other element on CUDA devices, as CuPy does,
which does not wait to see them. What is no Blob is refused with a TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.lib.array_utils import normalize_axis_index

from syncblob.array_api import _corrected
from syncblob.array_api._operands import require_blobs, require_integers
from syncblob.blob.compute import apply

if TYPE_CHECKING:
    from syncblob.blob import Blob

__all__ = ["take", "take_along_axis"]


def take(x: Blob, indices: Blob, /, *, axis: int | None = None) -> Blob:
    """Select along an axis, by indices.

    Parameters
    ----------
    x
        The Blob.
    indices
        A Blob of integers with one axis.
    axis
        The axis. It must be given if there are several.

    Raises
    ------
    TypeError
        If the indices have no integer dtype.
    ValueError
        If they have not one axis, or `x` has several and none is given.
    IndexError
        If the axis is out of range.
    """
    require_blobs("take", x, indices)
    require_integers("take", indices)
    if indices.ndim != 1:
        raise ValueError(f"take expects indices with one axis, got shape {indices.shape}")
    if axis is None and x.ndim > 1:
        raise ValueError(f"take expects an axis for a Blob of {x.ndim} axes, got None")
    return apply(_corrected.take, x, indices, axis=axis)


def take_along_axis(x: Blob, indices: Blob, /, *, axis: int = -1) -> Blob:
    """Select along an axis, with other indices for each position on the other axes.

    Parameters
    ----------
    x
        The Blob.
    indices
        A Blob of integers with as many axes. The other axes are broadcast.
    axis
        The axis.

    Raises
    ------
    TypeError
        If the indices have no integer dtype.
    ValueError
        If the numbers of axes differ, or the shapes do not broadcast.
    IndexError
        If the axis is out of range.
    """
    require_blobs("take_along_axis", x, indices)
    require_integers("take_along_axis", indices)
    return apply("take_along_axis", x, indices, axis=normalize_axis_index(axis, x.ndim))
