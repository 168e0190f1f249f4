"""Utility functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/utility_functions.html

Every function returns a new Blob. It computes on the device of the operands, without a transfer; on
the accelerator where some operands are there and some are not. An axis out of range raises an
IndexError. What is no Blob is refused with a TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.lib.array_utils import normalize_axis_index

from syncblob.array_api import _corrected
from syncblob.array_api._operands import require_blobs
from syncblob.blob.compute import apply

if TYPE_CHECKING:
    from syncblob.blob import Blob

__all__ = ["all", "any", "diff"]


def all(x: Blob, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Blob:
    """Tell whether all elements are true, or not zero, along axes or everywhere.

    NaN and the infinities are true. Of no elements, all are.
    """
    return apply("all", x, axis=axis, keepdims=keepdims)


def any(x: Blob, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Blob:
    """Tell whether an element is true, or not zero, along axes or anywhere.

    NaN and the infinities are true. Of no elements, none is.
    """
    return apply("any", x, axis=axis, keepdims=keepdims)


def diff(
    x: Blob,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Blob | None = None,
    append: Blob | None = None,
) -> Blob:
    """Subtract each element from the next one along an axis.

    Parameters
    ----------
    x
        The Blob. Of truth values, the differences tell whether the two differ.
    axis
        The axis, which gets shorter by `n`.
    n
        How often it is done.
    prepend, append
        What is put before and behind the elements first: Blobs of the shape of `x`, except for that
        axis.

    Raises
    ------
    ValueError
        If `n` is negative, or the shapes do not fit.
    """
    parts = [part for part in (prepend, x, append) if part is x or part is not None]
    require_blobs("diff", *parts)
    return apply(_corrected.diff, *parts, axis=normalize_axis_index(axis, x.ndim), n=n)
