"""Linear algebra functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/linear_algebra_functions.html

Operands are Blobs; arrays of other libraries and scalars are refused. dtypes are promoted as NumPy
promotes them. It is computed on the device of the operands, without a transfer; on the accelerator
where only one of two is there. The functions of the extension ``syncblob.linalg`` include these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncblob.array_api import _corrected_linalg
from syncblob.array_api._operands import require_blobs
from syncblob.blob.compute import apply, view
from syncblob.blob.elementwise import binary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.blob import Blob

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Blob, x2: Blob, /) -> Blob:
    """Multiply matrices, or stacks of them: ``x1 @ x2``.

    Parameters
    ----------
    x1, x2
        Of shapes (..., M, K) and (..., K, N), whose leading axes broadcast. One of a single axis is
        a row (`x1`) or a column (`x2`).

    Returns
    -------
    Blob
        New, of shape (..., M, N); without the axis of a row or a column that was none before.

    Raises
    ------
    ValueError
        If one has no axis, or the shapes do not fit.
    """
    if type(x1) is not type(x2):
        require_blobs("matmul", x1, x2)
    return binary(np.matmul, x1, x2)


def matrix_transpose(x: Blob, /) -> Blob:
    """Return a view of a stack of matrices with the last two axes exchanged.

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
        Which axes are summed over: a number N for the last N of `x1` and the first N of `x2`, or
        two sequences of as many axes, those of `x1` and those of `x2`. They are not broadcast.

    Returns
    -------
    Blob
        New; its axes are the other axes of `x1`, then those of `x2`.

    Raises
    ------
    ValueError
        If the number is negative, an axis is named twice, or the sizes of two axes differ.
    IndexError
        If there is no such axis.
    """
    require_blobs("tensordot", x1, x2)
    return apply(_corrected_linalg.tensordot, x1, x2, axes=axes)


def vecdot(x1: Blob, x2: Blob, /, *, axis: int = -1) -> Blob:
    """Multiply vectors, or stacks of them: the sum of ``conj(x1) * x2`` along one axis.

    Parameters
    ----------
    x1, x2
        Their other axes broadcast.
    axis
        The axis of the vectors, counted from the last, of the same size in both.

    Returns
    -------
    Blob
        New, without that axis.

    Raises
    ------
    ValueError
        If the sizes of the axis differ, or there is no such axis.
    """
    require_blobs("vecdot", x1, x2)
    return apply("vecdot", x1, x2, axis=axis)
