"""Statistical functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/statistical_functions.html

Every function returns a new Blob, computed on the device of the operand, without a transfer.
`axis` is one axis, a tuple of them, or None for all; with `keepdims` they stay, with length 1. An
axis out of range raises an IndexError. What is no Blob is refused with a TypeError.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numpy.lib.array_utils import normalize_axis_tuple

from syncblob._dtypes import as_dtype
from syncblob.array_api import _corrected
from syncblob.array_api._operands import require_blobs
from syncblob.blob.compute import apply
from syncblob.blob.elementwise import unary

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.blob import Blob

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]

Axes = int | tuple[int, ...] | None


def cumulative_prod(
    x: Blob,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Blob:
    """Return the products of the elements up to each along an axis.

    Parameters
    ----------
    x
        The Blob. Without axes, it counts as one element along one axis.
    axis
        The axis. It must be given if there are several.
    dtype
        As for `sum`.
    include_initial
        Begin with 1, so that the axis is longer by one.

    Raises
    ------
    ValueError
        If there are several axes and none is given.
    """
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial)


def cumulative_sum(
    x: Blob,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Blob:
    """Return the sums of the elements up to each along an axis.

    Parameters
    ----------
    x
        The Blob. Without axes, it counts as one element along one axis.
    axis
        The axis. It must be given if there are several.
    dtype
        As for `sum`.
    include_initial
        Begin with 0, so that the axis is longer by one.

    Raises
    ------
    ValueError
        If there are several axes and none is given.
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


def _cumulative(
    name: str, x: Blob, axis: int | None, dtype: DTypeLike | None, include_initial: bool
) -> Blob:
    require_blobs(name, x)
    if not x.shape:
        # What NumPy does, and CuPy does not.
        x = x.reshape(1)
    wanted = None if dtype is None else as_dtype(dtype)
    return apply(name, x, axis=axis, dtype=wanted, include_initial=include_initial)


def max(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Return the greatest element, along axes or of all; NaN where there is one.

    Raises
    ------
    ValueError
        If there is no element to choose from.
    """
    return apply("max", x, axis=axis, keepdims=keepdims)


def mean(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Return the arithmetic mean, along axes or of all; of no elements it is NaN.

    The result has the dtype of `x`; float64 for integers.
    """
    return apply("mean", x, axis=axis, keepdims=keepdims)


def min(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Return the least element, along axes or of all; NaN where there is one.

    Raises
    ------
    ValueError
        If there is no element to choose from.
    """
    return apply("min", x, axis=axis, keepdims=keepdims)


def prod(
    x: Blob, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Blob:
    """Multiply the elements, along axes or all; of no elements the product is 1.

    Parameters
    ----------
    x
        The Blob.
    axis, keepdims
        See above.
    dtype
        As for `sum`.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    return apply("prod", x, axis=axis, dtype=wanted, keepdims=keepdims)


def std(
    x: Blob,
    /,
    *,
    axis: Axes = None,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: float | None = None,
) -> Blob:
    """Return the standard deviation, along axes or of all: the square root of `var`."""
    return _spread("std", x, axis, correction, ddof, keepdims)


def sum(
    x: Blob, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Blob:
    """Add the elements up, along axes or all; of no elements the sum is 0.

    Parameters
    ----------
    x
        The Blob.
    axis, keepdims
        See above.
    dtype
        The dtype of the result, which elements are converted to first. None means that of `x`; for
        integers of fewer than 64 bits the one with 64, signed or unsigned as they are.
    """
    if axis is None and dtype is None and not keepdims:
        return unary(_corrected.sum, x)
    wanted = None if dtype is None else as_dtype(dtype)
    return apply("sum", x, axis=axis, dtype=wanted, keepdims=keepdims)


def var(
    x: Blob,
    /,
    *,
    axis: Axes = None,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: float | None = None,
) -> Blob:
    """Return the variance, along axes or of all.

    Parameters
    ----------
    x
        The Blob.
    axis, keepdims
        See above.
    correction
        Degrees of freedom that are subtracted from the number of elements, the divisor; 1 for a
        sample. Where nothing is left, the variance is NaN.
    ddof
        NumPy's name of `correction`, which xarray uses.

    Raises
    ------
    ValueError
        If both are given.
    """
    return _spread("var", x, axis, correction, ddof, keepdims)


def _spread(  # noqa: PLR0913, PLR0917  # what the two functions are given
    name: str, x: Blob, axis: Axes, correction: float, ddof: float | None, keepdims: bool
) -> Blob:
    require_blobs(name, x)
    if ddof is not None:
        if correction:
            raise ValueError(
                f"{name} got correction={correction} and ddof={ddof}, two names of the same; "
                "give one"
            )
        correction = ddof
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    if math.prod(x.shape[place] for place in axes) > correction:
        return apply(name, x, axis=axis, correction=correction, keepdims=keepdims)
    # NumPy divides by zero, which may give infinity; the standard has NaN here.
    return apply(_corrected.undefined, x, axes=axes, keepdims=keepdims)
