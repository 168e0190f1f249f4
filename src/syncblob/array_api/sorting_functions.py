"""Sorting functions.

NaN counts as greater than every number: it is last in ascending order and first in descending
order.
"""

from __future__ import annotations

from typing import Any

from numpy.lib.array_utils import normalize_axis_index

from syncblob._blob import Blob
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob


def argsort(x: Blob, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Blob:
    """Return the indices that sort a Blob along an axis.

    With `stable`, equal elements keep their order, in either direction.
    """
    x = x if isinstance(x, Blob) else as_blob("argsort", x)
    axis = normalize_axis_index(axis, len(x.shape))
    return apply(_argsort, x, axis=axis, descending=descending, stable=stable)


def _argsort(xp: Any, a: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    if not descending:
        return xp.argsort(a, axis=axis, stable=stable)
    # Flipping before and after the sort keeps equal elements in order.
    indices = xp.argsort(xp.flip(a, axis=axis), axis=axis, stable=stable)
    return a.shape[axis] - 1 - xp.flip(indices, axis=axis)


def sort(x: Blob, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Blob:
    """Sort a Blob along an axis; see `argsort`."""
    x = x if isinstance(x, Blob) else as_blob("sort", x)
    axis = normalize_axis_index(axis, len(x.shape))
    return apply(_sort, x, axis=axis, descending=descending, stable=stable)


def _sort(xp: Any, a: Any, *, axis: int, descending: bool, stable: bool) -> Any:
    if not descending:
        return xp.sort(a, axis=axis, stable=stable)
    # As in `_argsort`: 0.0 and -0.0 are equal, but their order can be seen.
    backwards = xp.sort(xp.flip(a, axis=axis), axis=axis, stable=stable)
    # A copy, because PyTorch does not support negative strides.
    return xp.flip(backwards, axis=axis).copy()
