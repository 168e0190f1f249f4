"""Linear algebra functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/linear_algebra_functions.html

Operands are Blobs; beside a Blob, also arrays of other libraries. Python scalars raise a TypeError.
Dtypes are promoted as in NumPy. Every function computes on its operands' device, without a
transfer; if they are on both the CPU and an accelerator, it computes on the accelerator. The
extension ``syncblob.linalg`` also contains these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncblob.array_api import _corrected_linalg
from syncblob.array_api._operands import require_two
from syncblob.blob.compute import apply, view
from syncblob.blob.elementwise import binary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob._blob import Blob


def matmul(x1: Blob, x2: Blob, /) -> Blob:
    """Multiply matrices, or stacks of them: ``x1 @ x2``.

    Parameters
    ----------
    x1, x2
        Of shapes (..., M, K) and (..., K, N), whose leading axes broadcast. A 1-d `x1` is a row, a
        1-d `x2` a column.

    Returns
    -------
    Blob
        New, of shape (..., M, N); without M if `x1` is 1-d, and without N if `x2` is 1-d.

    Raises
    ------
    ValueError
        If an operand is 0-d, or the shapes do not match.
    """
    if type(x1) is not type(x2):
        x1, x2 = require_two("matmul", x1, x2)
    return binary(np.matmul, x1, x2)


def matrix_transpose(x: Blob, /) -> Blob:
    """Return a view of a stack of matrices with the last two axes swapped.

    Raises
    ------
    ValueError
        If there are fewer than two axes.
    """
    return view(x, "matrix_transpose", _corrected_linalg.matrix_transpose)


def tensordot(
    x1: Blob,
    x2: Blob,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
) -> Blob:
    """Multiply two Blobs and sum over some axes of both.

    Parameters
    ----------
    x1, x2
        Blobs; complex ones are not conjugated.
    axes
        The axes to sum over: a number N for the last N of `x1` and the first N of `x2`, or two
        sequences of equal length, axes of `x1` and axes of `x2`. They do not broadcast.

    Returns
    -------
    Blob
        New; its axes are the other axes of `x1`, then those of `x2`.

    Raises
    ------
    ValueError
        If the number is negative, an axis is repeated, or the sizes of two axes differ.
    IndexError
        If the axis is out of range.
    """
    x1, x2 = require_two("tensordot", x1, x2)
    return apply(_corrected_linalg.tensordot, x1, x2, axes=axes)


def vecdot(x1: Blob, x2: Blob, /, *, axis: int = -1) -> Blob:
    """Multiply vectors, or stacks of them: the sum of ``conj(x1) * x2`` along one axis.

    Parameters
    ----------
    x1, x2
        Blobs; their other axes broadcast.
    axis
        The axis of the vectors, counted from the last, of the same size in both.

    Returns
    -------
    Blob
        A new Blob without that axis.

    Raises
    ------
    ValueError
        If the sizes of the axis differ, or the axis is out of range.
    """
    x1, x2 = require_two("vecdot", x1, x2)
    return apply("vecdot", x1, x2, axis=axis)
