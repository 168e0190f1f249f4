"""Searching functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/searching_functions.html

Every function returns new Blobs. It computes on the device of the operands, without a transfer; on
the accelerator where some operands are there and some are not. What is neither a Blob nor a scalar
where one is allowed is refused with a TypeError. Indices are 64-bit integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from syncblob.array_api import _corrected
from syncblob.array_api._operands import (
    require_blob_and_scalar,
    require_blobs,
    require_integers,
)
from syncblob.blob.compute import apply

if TYPE_CHECKING:
    from syncblob.blob import Blob

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]


def argmax(x: Blob, /, *, axis: int | None = None, keepdims: bool = False) -> Blob:
    """Return the indices of the first maxima along an axis; without one, in C order over all.

    Raises
    ------
    ValueError
        If there is no element to choose from.
    IndexError
        If the axis is out of range.
    """
    return apply("argmax", x, axis=axis, keepdims=keepdims)


def argmin(x: Blob, /, *, axis: int | None = None, keepdims: bool = False) -> Blob:
    """Return the indices of the first minima along an axis; without one, in C order over all.

    Raises
    ------
    ValueError
        If there is no element to choose from.
    IndexError
        If the axis is out of range.
    """
    return apply("argmin", x, axis=axis, keepdims=keepdims)


def count_nonzero(
    x: Blob,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Blob:
    """Count the elements that are not zero, along axes or all of them.

    Raises
    ------
    IndexError
        If an axis is out of range.
    """
    return apply("count_nonzero", x, axis=axis, keepdims=keepdims)


def nonzero(x: Blob, /) -> tuple[Blob, ...]:
    """Return the indices, in C order, of the elements that are not zero.

    On an accelerator the host waits for it, because the contents say how long the results are.

    Returns
    -------
    tuple of Blob
        One for each axis.

    Raises
    ------
    ValueError
        If `x` has no axes.
    """
    require_blobs("nonzero", x)
    if not x.shape:
        raise ValueError("nonzero expects a Blob with axes, got shape (); reshape it to (1,)")
    return apply("nonzero", x)


def searchsorted(
    x1: Blob,
    x2: Blob | float,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Blob | None = None,
) -> Blob:
    """Find where values belong in a sorted Blob.

    Parameters
    ----------
    x1
        A Blob of one axis, in ascending order; NaN comes last, as `sort` puts it.
    x2
        The values: a Blob, or a scalar, which takes the dtype of `x1` where it can.
    side
        Among equal elements, ``"left"`` finds the first place and ``"right"`` the last.
    sorter
        Indices that put `x1` in ascending order.

    Returns
    -------
    Blob
        Indices, in the shape of `x2`.

    Raises
    ------
    ValueError
        If `x1` has not one axis, `sorter` another length, or `side` is something else.
    TypeError
        If `sorter` has no integer dtype.
    """
    require_blobs("searchsorted", x1)
    require_blob_and_scalar("searchsorted", x1, x2)
    if sorter is not None:
        require_blobs("searchsorted", sorter)
        require_integers("searchsorted", sorter)
    if side not in ("left", "right"):
        # NumPy says so itself; CuPy takes anything else for "left".
        raise ValueError(f'expected side to be "left" or "right", got {side!r}')
    return apply(_corrected.searchsorted, x1, x2, sorter, side=side)


def where(
    condition: Blob,
    x1: Blob | complex,
    x2: Blob | complex,
    /,
) -> Blob:
    """Choose elements of `x1` where a condition holds, and of `x2` elsewhere.

    Parameters
    ----------
    condition
        Truth values; of another dtype, what is not zero is true.
    x1, x2
        Blobs, one of which may be a Python scalar. The three are broadcast.

    Raises
    ------
    TypeError
        If neither of `x1` and `x2` is a Blob.
    ValueError
        If the shapes do not broadcast.
    OverflowError
        If a scalar does not fit into the dtype of the result.
    """
    require_blobs("where", condition)
    require_blob_and_scalar("where", x1, x2)
    return apply(_corrected.where, condition, x1, x2)
