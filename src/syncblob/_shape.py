"""Shapes: the arithmetic of axes, counts and indices, without arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np

Shape = tuple[int, ...]

# NumPy's own limit.
MAX_AXES = 64
_MAX_BYTES = 2**63 - 1


def as_shape(shape: SupportsIndex | Iterable[SupportsIndex], itemsize: int = 1) -> Shape:
    """Return a shape, one integer or several, as a tuple; an element has `itemsize` bytes.

    ValueError if an entry is negative, there are too many axes, or too many bytes.
    """
    entries = (shape,) if type(shape) is not tuple and is_integer(shape) else shape
    try:
        dims = tuple(map(operator.index, entries))  # type: ignore[arg-type]  # a wrong kind raises the TypeError handled here
    except TypeError:
        raise TypeError(
            f"a shape is an integer or a tuple of integers, got {shape!r}; a Blob of data is made "
            "by syncblob.asarray()"
        ) from None
    smallest = min(dims, default=1)
    if smallest < 0:
        raise ValueError(f"the dimensions of a shape are non-negative, got {dims}")
    if len(dims) > MAX_AXES:
        raise ValueError(f"a shape has at most {MAX_AXES} axes, got {len(dims)}")
    if math.prod(dims if smallest else filter(None, dims)) * itemsize > _MAX_BYTES:
        each = f" with {itemsize} bytes an element" if itemsize > 1 else ""
        raise ValueError(f"shape {dims}{each} exceeds 2**63 - 1 bytes")
    return dims


def require_repeats(shape: Shape, itemsize: int, repeats: Any, axis: int | None) -> None:
    """Raise ValueError if an array of elements repeated as by `numpy.repeat` cannot exist.

    NumPy raises the errors for other problems.
    """
    counts = np.asarray(repeats)
    outside = axis is not None and not -len(shape) <= axis < len(shape)
    if counts.dtype.kind not in "biu" or outside:
        return
    length = math.prod(shape) if axis is None else shape[axis]
    total = int(np.sum(counts, dtype=np.float64)) * (length if counts.size == 1 else 1)
    rest = 1 if axis is None else math.prod(shape[:axis]) * math.prod(shape[axis:][1:])
    if total > 0:
        as_shape((total, rest), itemsize)


def shape_from(shape: tuple[Any, ...]) -> Any:
    """Accept a shape as one argument, or as one argument for each dimension."""
    return shape[0] if len(shape) == 1 else shape


def is_integer(value: object) -> bool:
    """Return whether an object is an integer, which includes 0-d arrays of integers."""
    return hasattr(value, "__index__") and not getattr(value, "shape", ())


def canonical_axis(axis: SupportsIndex, shape: Shape) -> int:
    """Return the non-negative index of an axis; see `Blob.canonical_axis_index`."""
    axis = operator.index(axis)
    if not -len(shape) <= axis < len(shape):
        raise IndexError(
            f"axis {axis} is out of range for a Blob of {len(shape)} axes, shape {shape}"
        )
    return axis % len(shape)


def offset(shape: Shape, indices: tuple[Any, ...]) -> int:
    """Return the index of an element in C order; see `Blob.offset`."""
    if len(indices) == 1 and not is_integer(indices[0]):
        indices = tuple(indices[0])
    index = tuple(map(operator.index, indices))
    if len(index) > len(shape) or any(
        not 0 <= entry < dim for entry, dim in zip(index, shape, strict=False)
    ):
        raise IndexError(
            f"expected at most {len(shape)} indices from 0 up to the dimensions of "
            f"{shape}, got {index}"
        )
    result = 0
    for axis, dim in enumerate(shape):
        result = result * dim + (index[axis] if axis < len(index) else 0)
    return result


@lru_cache(maxsize=1024)
def contiguous_strides(shape: Shape, itemsize: int) -> Shape:
    """Return the strides, in bytes, of a C-contiguous array. Cached: programs have few shapes."""
    strides = []
    step = itemsize
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))
