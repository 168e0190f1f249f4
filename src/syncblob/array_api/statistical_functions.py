"""Statistical functions.

`axis` is one axis, a tuple of axes, or None for all; `keepdims` keeps them, with length 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from syncblob._dtypes import as_dtype
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob

if TYPE_CHECKING:
    from syncblob._blob import Blob
    from syncblob.array_api._checks import Axes, DType


def cumulative_prod(
    x: Blob, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False
) -> Blob:
    """Return the cumulative products along an axis; see `cumulative_sum`. The initial one is 1."""
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial)


def cumulative_sum(
    x: Blob, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False
) -> Blob:
    """Return the cumulative sums along an axis, or along the only one.

    `dtype` as for `sum`. `include_initial` includes the initial 0, which makes the axis longer by
    one. A 0-d Blob counts as one with a single element.
    """
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


def _cumulative(name: str, x: Blob, axis: int | None, dtype: DType, initial: object) -> Blob:
    x = as_blob(name, x)
    if not x.shape:
        # CuPy does not accept an array without axes; NumPy does.
        x = x.reshape(1)
    wanted = None if dtype is None else as_dtype(dtype)
    return apply(name, x, axis=axis, dtype=wanted, include_initial=initial)


def max(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Return the maximum along axes; NaN if an element is NaN. Without elements a ValueError."""
    return apply("max", x, axis=axis, keepdims=keepdims)


def mean(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Return the arithmetic mean along axes, float64 for integers; NaN if there are no elements."""
    return apply("mean", x, axis=axis, keepdims=keepdims)


def min(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Return the minimum along axes; NaN if an element is NaN. Without elements a ValueError."""
    return apply("min", x, axis=axis, keepdims=keepdims)


def prod(x: Blob, /, *, axis: Axes = None, dtype: DType = None, keepdims: bool = False) -> Blob:
    """Return the product of the elements along axes; 1 if there are none. `dtype` as for `sum`."""
    wanted = None if dtype is None else as_dtype(dtype)
    return apply("prod", x, axis=axis, dtype=wanted, keepdims=keepdims)


def std(
    x: Blob, /, *, axis: Axes = None, correction: float = 0, keepdims: bool = False, ddof: float = 0
) -> Blob:
    """Return the standard deviation along axes: the square root of `var`."""
    return _spread("std", x, axis, correction + ddof, keepdims)


def sum(x: Blob, /, *, axis: Axes = None, dtype: DType = None, keepdims: bool = False) -> Blob:
    """Return the sum of the elements along axes; 0 if there are none.

    `dtype` is that of the result and of the sum: None for that of `x`; for integers of fewer than
    64 bits, int64 or uint64.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    return apply("sum", x, axis=axis, dtype=wanted, keepdims=keepdims)


def var(
    x: Blob, /, *, axis: Axes = None, correction: float = 0, keepdims: bool = False, ddof: float = 0
) -> Blob:
    """Return the variance along axes.

    The divisor is the number of elements minus `correction`, 1 for a sample; the variance is NaN if
    it is not positive. `ddof` is NumPy's name for `correction`, which xarray uses.
    """
    return _spread("var", x, axis, correction + ddof, keepdims)


def _spread(name: str, x: Blob, axis: Axes, correction: float, keepdims: bool) -> Blob:
    x = as_blob(name, x)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    if math.prod(x.shape[one] for one in axes) > correction:
        return apply(name, x, axis=axis, correction=correction, keepdims=keepdims)
    # NumPy divides by zero, which may give infinity; the standard requires NaN.
    return apply(_nans, x, axes=axes, keepdims=keepdims)


def _nans(xp: Any, a: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    shape = xp.any(a, axis=axes, keepdims=keepdims).shape
    return xp.full(shape, math.nan, dtype=np.float64 if a.dtype.kind in "iub" else a.real.dtype)
