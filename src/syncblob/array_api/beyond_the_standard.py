"""Functions of NumPy's that the standard lacks, but that libraries built on it call.

https://numpy.org/doc/stable/reference/routines.html

They compute on their operands' device; if the operands are on both the CPU and an accelerator, they
compute on the accelerator. Without a Blob among the operands, they raise a TypeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.array_api._operands import require_blobs
from syncblob.blob.compute import apply, view

if TYPE_CHECKING:
    from syncblob._blob import Blob


def einsum(subscripts: str, /, *operands: Blob, optimize: Any = False) -> Blob:
    """Evaluate the Einstein summation convention on the operands.

    Parameters
    ----------
    subscripts
        The axes of the operands and of the result, such as ``"ij,jk->ik"``.
    *operands
        The factors.
    optimize
        True optimizes the order of the products. Other values as for `numpy.einsum`.

    Returns
    -------
    Blob
        A view if nothing is summed or multiplied, as for ``"ii->i"``; else a new Blob.

    Raises
    ------
    ValueError
        If the subscripts do not match the operands.
    """
    blobs = require_blobs("einsum", operands)
    return np.einsum(subscripts, *blobs, optimize=optimize)


def pad(
    x: Blob,
    /,
    pad_width: int | tuple[int, ...] | Sequence[tuple[int, int]],
    mode: str = "constant",
    **options: Any,
) -> Blob:
    """Return a new Blob with elements added at the ends of the axes.

    Parameters
    ----------
    x
        The Blob to pad.
    pad_width
        The number of elements to add: one number, ``(before, after)`` for all axes, or a pair for
        each axis.
    mode
        ``"constant"``, ``"edge"``, ``"reflect"`` or another mode of `numpy.pad`.
    **options
        Options of the mode, such as ``constant_values``.

    Raises
    ------
    ValueError
        If the mode is unknown, or the widths do not match the axes.
    """
    return apply("pad", x, pad_width=pad_width, mode=mode, **options)


def transpose(x: Blob, /, axes: Sequence[int] | None = None) -> Blob:
    """Return a view with the axes permuted; reversed by default.

    Raises
    ------
    ValueError
        If `axes` does not name every axis once.
    """
    return view(x, "transpose", lambda a: a.transpose(axes))
