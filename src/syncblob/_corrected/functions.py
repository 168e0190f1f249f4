"""Corrected versions of functions in which NumPy or CuPy differs from the array API standard.

Each takes the device's array library and arrays of it, and has the name of the public function.
Comments say what it corrects.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from syncblob._dtypes import SCALARS

# --- with scalars --------------------------------------------------------------------------------


def isin(xp: ModuleType, a1: Any, a2: Any, *, invert: bool) -> Any:
    """Return for each element of one array whether it is in another; one may be a scalar."""
    try:
        a1, a2 = _as_array(xp, a1, a2), _as_array(xp, a2, a1)
    except OverflowError:
        # No element of that dtype equals the scalar.
        return xp.full(getattr(a1, "shape", ()), invert)
    return xp.isin(a1, a2, invert=invert)


def searchsorted(xp: ModuleType, a: Any, values: Any, sorter: Any, *, side: str) -> Any:
    """Find the indices at which to insert values, or one scalar, into a sorted array."""
    if sorter is not None:
        sorter = _as_indices(sorter)
    return xp.searchsorted(a, _as_array(xp, values, a), side=side, sorter=sorter)


def where(xp: ModuleType, condition: Any, a1: Any, a2: Any) -> Any:
    """Choose elements from two arrays, one of which may be a scalar."""
    return xp.where(condition, _as_array(xp, a1, a2), _as_array(xp, a2, a1))


def _as_array(xp: ModuleType, x: Any, beside: Any) -> Any:
    """Convert a scalar to an array, with the dtype that promotion with another array gives.

    Without this, NumPy's `searchsorted` compares float32 elements with a float64, and its `where`
    truncates an integer that is too large.
    """
    return xp.asarray(x, dtype=np.result_type(beside.dtype, x)) if type(x) in SCALARS else x


# --- with indices of any integer dtype -----------------------------------------------------------


def take(xp: ModuleType, a: Any, indices: Any, *, axis: int | None) -> Any:
    """Select elements along an axis, by indices of any integer dtype."""
    return xp.take(a, _as_indices(indices), axis=axis)


def repeat(xp: ModuleType, a: Any, repeats: Any, *, axis: int | None) -> Any:
    """Repeat each element; `repeats` is an integer or an array of any integer dtype."""
    return xp.repeat(a, repeats if isinstance(repeats, int) else _as_indices(repeats), axis)


def _as_indices(a: Any) -> Any:
    """Convert to `intp`: NumPy accepts no uint64 indices."""
    return a.astype(np.intp, copy=False)


# --- in order ------------------------------------------------------------------------------------


def argsort(xp: ModuleType, a: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """Return the indices that sort an array."""
    if not descending:
        return xp.argsort(a, axis=axis, stable=stable)
    # Flipping before and after the sort keeps equal elements in order.
    indices = xp.argsort(xp.flip(a, axis=axis), axis=axis, stable=stable)
    return a.shape[axis] - 1 - xp.flip(indices, axis=axis)


def sort(xp: ModuleType, a: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    """Sort an array."""
    if not descending:
        return xp.sort(a, axis=axis, stable=stable)
    # As in argsort: 0.0 and -0.0 are equal, but their order can be seen.
    backwards = xp.sort(xp.flip(a, axis=axis), axis=axis, stable=stable)
    # A copy, because PyTorch does not support negative strides.
    return xp.flip(backwards, axis=axis).copy()


def unique(xp: ModuleType, a: Any, **results: bool) -> Any:
    """Return the unique elements in order, which NumPy's `unique_values` does not guarantee."""
    return xp.unique(a, equal_nan=False, **results)


# --- joined ---------------------------------------------------------------------------------


def concat(xp: ModuleType, *arrays: Any, axis: int | None) -> Any:
    """Join arrays along an axis. As separate operands they are brought to one device."""
    return xp.concat(arrays, axis=axis)


def stack(xp: ModuleType, *arrays: Any, axis: int) -> Any:
    """Join arrays along a new axis. As separate operands they are brought to one device."""
    return xp.stack(arrays, axis=axis)


def diff(xp: ModuleType, *parts: Any, axis: int, n: int) -> Any:
    """Join arrays, then return the differences of neighbouring elements."""
    a = xp.concat(parts, axis=axis) if len(parts) > 1 else parts[0]
    # For n=0, NumPy returns the operand itself and ignores `prepend` and `append`.
    return a.copy() if n == 0 else xp.diff(a, n=n, axis=axis)


# --- statistics ----------------------------------------------------------------------------------


def sum(a: Any) -> Any:
    """Sum all elements; the method is faster than the function."""
    return a.sum()


def undefined(xp: ModuleType, a: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return NaN with the shape and dtype of a variance."""
    shape = tuple(
        1 if axis in axes else length
        for axis, length in enumerate(a.shape)
        if keepdims or axis not in axes
    )
    return xp.full(shape, math.nan, dtype=np.float64 if a.dtype.kind in "iub" else a.real.dtype)
