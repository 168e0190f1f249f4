"""Indices and assignments: what they select, and whether it fits, before an array is touched."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["completed", "full_index", "in_c_order", "require_broadcast", "selected_shape"]

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


def full_index(key: Any) -> Any:
    """Complete an index of integers, slices, None and Ellipsis; None where it is another one.

    For the types that indices nearly always have. An Ellipsis keeps a full index from reading an
    element.
    """
    kind = type(key)
    if kind is int:
        return (key, ...)
    if kind is slice:
        return key
    if kind is not tuple:
        return None
    for entry in key:
        if type(entry) not in _BASIC:
            return None
    return key if Ellipsis in key else (*key, ...)


def completed(key: Any) -> Any:
    """Complete any basic index."""
    entries = key if isinstance(key, tuple) else (key,)
    return entries if any(entry is Ellipsis for entry in entries) else (*entries, Ellipsis)


def selected_shape(shape: tuple[int, ...], key: Any) -> tuple[int, ...] | None:
    """Return the shape that an index selects; None if only an accelerator could tell.

    Raises
    ------
    IndexError
        If it does not fit.
    """
    entries = key if isinstance(key, tuple) else (key,)
    if any(hasattr(entry, "__cuda_array_interface__") for entry in entries):
        return None
    selected: tuple[int, ...] = np.broadcast_to(np.uint8(0), shape)[key].shape
    return selected


def require_broadcast(shape: tuple[int, ...], target: tuple[int, ...] | None) -> None:
    if target is None:
        return
    # NumPy's assignment drops leading axes of length 1.
    trimmed = shape
    while len(trimmed) > len(target) and trimmed[0] == 1:
        trimmed = trimmed[1:]
    try:
        fits = np.broadcast_shapes(trimmed, target) == target
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"cannot assign values of shape {shape} to elements of shape {target}")


def in_c_order(values: Any, shape: tuple[int, ...]) -> Any:
    """Return values, in C order, in another shape: repeated or cut off, as ``ndarray.flat`` does.

    Parameters
    ----------
    values
        A Blob, or an array of NumPy or CuPy; not without elements.
    """
    flat = values.reshape(-1)
    size = math.prod(shape)
    if flat.shape == (1,):
        return flat.reshape(())
    if flat.shape[0] < size:
        flat = np.resize(flat, size)
    return flat[:size].reshape(shape)
