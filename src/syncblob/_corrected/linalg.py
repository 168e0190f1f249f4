"""Linear algebra where NumPy and CuPy differ from the array API standard, or from each other.

Each function takes a device's array library and arrays of it; functions that return views take an
array only. All devices share this code.

The rules are those of the standard, version 2025.12
(https://data-apis.org/array-api/2025.12/extensions/linear_algebra_functions.html).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from syncblob._shape import canonical_axis, is_integer

_SPACE = 3


# --- views ---------------------------------------------------------------------------------------


def diagonal(x: Any, offset: int) -> Any:
    """Return a view of a diagonal of each matrix."""
    result = x.diagonal(offset, -2, -1)
    if isinstance(x, np.ndarray):
        # NumPy's diagonal is always read-only; a view of a Blob is writable if the Blob is.
        result.flags.writeable = x.flags.writeable
    return result


# --- products ------------------------------------------------------------------------------------


def cross(xp: Any, x1: Any, x2: Any, axis: int) -> Any:
    """Compute the cross product. Raise for vectors of two elements, which CuPy accepts."""
    sizes = (
        x1.shape[canonical_axis(axis, x1.shape)],
        x2.shape[canonical_axis(axis, x2.shape)],
    )
    if sizes != (_SPACE, _SPACE):
        raise ValueError(
            f"cross expects axes of size {_SPACE}, and axis {axis} has sizes {sizes[0]} and "
            f"{sizes[1]} in operands of shapes {x1.shape} and {x2.shape}"
        )
    return xp.linalg.cross(x1, x2, axis=axis)


def outer(xp: Any, x1: Any, x2: Any) -> Any:
    """Compute the outer product of vectors. Raise for other arrays, which CuPy flattens."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer expects one axis in each, got shapes {x1.shape} and {x2.shape}")
    return xp.linalg.outer(x1, x2)


def tensordot(xp: Any, x1: Any, x2: Any, axes: int | tuple[Sequence[int], Sequence[int]]) -> Any:
    """Sum over axes. NumPy takes a negative number as 0, and CuPy accepts repeated axes."""
    if is_integer(axes):
        if axes < 0:  # type: ignore[operator]  # an integer here
            raise ValueError(f"tensordot expects a number of axes of at least 0, got {axes}")
        return xp.tensordot(x1, x2, axes=axes)
    first, second = axes  # type: ignore[misc]  # no integer here
    return xp.tensordot(x1, x2, axes=(_each_once(first, x1.shape), _each_once(second, x2.shape)))


def _each_once(axes: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    result = tuple(canonical_axis(axis, shape) for axis in axes)
    if len(set(result)) < len(result):
        raise ValueError(
            f"tensordot sums over each axis once, got axes {tuple(axes)} of shape {shape}"
        )
    return result


# --- solutions and decompositions ----------------------------------------------------------------


def eig(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return complex results for all matrices. NumPy's are real if all eigenvalues are."""
    values, vectors = xp.linalg.eig(x)
    return _as_complex(values), _as_complex(vectors)


def eigvals(xp: Any, x: Any) -> Any:
    """Return complex eigenvalues for all matrices. NumPy's are real if all of them are."""
    return _as_complex(xp.linalg.eigvals(x))


def _as_complex(array: Any) -> Any:
    # float32 gives complex64, float64 complex128.
    return array.astype(np.result_type(array.dtype, np.complex64), copy=False)


def matrix_rank(xp: Any, x: Any, rtol: Any) -> Any:
    """Count singular values above a fraction of the largest. NumPy would accept vectors."""
    singular = xp.linalg.svdvals(x)
    rtol = _default_rtol(x.shape, singular.dtype) if rtol is None else xp.asarray(rtol)[..., None]
    # Sorted in descending order. A slice, because empty matrices have no singular values.
    return xp.sum(singular > singular[..., :1] * rtol, axis=-1, dtype=np.int64)


def pinv(xp: Any, x: Any, rtol: Any) -> Any:
    """Compute the pseudo-inverse. NumPy's and CuPy's default tolerance ignores the shape."""
    if rtol is None:
        rtol = _default_rtol(x.shape, x.dtype if x.dtype.kind in "fc" else np.float64)
    return xp.linalg.pinv(x, rtol=rtol)


def _default_rtol(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the standard's default tolerance."""
    return max(shape[-2:]) * np.finfo(dtype).eps


def solve(xp: Any, x1: Any, x2: Any) -> Any:
    """Solve linear systems. CuPy does not broadcast stacks, and divides by the size of a result."""
    if x2.ndim > 1 and x1.shape[:-2] != x2.shape[:-2]:
        stack = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        x1 = xp.broadcast_to(x1, stack + x1.shape[-2:])
        x2 = xp.broadcast_to(x2, stack + x2.shape[-2:])
    matrix = x2.shape[-2:] if x2.ndim > 1 else (*x2.shape, 1)
    if 0 in matrix and x1.shape[-2:] == (matrix[0], matrix[0]):
        shape = x2.shape if x2.ndim > 1 else x1.shape[:-1]
        one = (np.ones((1, 1), x.dtype) for x in (x1, x2))
        return xp.empty(shape, dtype=np.linalg.solve(*one).dtype)
    return xp.linalg.solve(x1, x2)
