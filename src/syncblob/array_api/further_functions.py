"""Functions that the standard does not have and that libraries built on it call: NumPy's.

https://numpy.org/doc/stable/reference/routines.html

They compute on the device of the operands; on the accelerator where some operands are there and
some are not. What is no Blob is refused with a TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.array_api._operands import require_blobs
from syncblob.blob.compute import apply, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.blob import Blob

__all__ = ["einsum", "pad", "transpose"]


def einsum(subscripts: str, /, *operands: Blob, optimize: Any = False) -> Blob:
    """Sum products of elements as Einstein's convention says.

    Parameters
    ----------
    subscripts
        The axes of the operands and of the result, as ``"ij,jk->ik"``.
    *operands
        The factors.
    optimize
        True looks for a good order of the products first; or what NumPy's einsum takes.

    Returns
    -------
    Blob
        A view where nothing is summed or multiplied, as for ``"ii->i"``.

    Raises
    ------
    ValueError
        If the subscripts do not fit the operands.
    """
    require_blobs("einsum", *operands)
    return np.einsum(subscripts, *operands, optimize=optimize)


def pad(
    x: Blob,
    /,
    pad_width: int | tuple[int, ...] | Sequence[tuple[int, int]],
    mode: str = "constant",
    **options: Any,
) -> Blob:
    """Add elements at the ends of axes, in a new Blob.

    Parameters
    ----------
    x
        What stands in the middle.
    pad_width
        How many: a number, ``(before, after)`` for all axes, or a pair for each axis.
    mode
        ``"constant"``, ``"edge"``, ``"reflect"`` or another one of NumPy's.
    **options
        What the mode takes, as ``constant_values``.

    Raises
    ------
    ValueError
        If there is no such mode, or the widths do not fit the axes.
    """
    return apply("pad", x, pad_width=pad_width, mode=mode, **options)


def transpose(x: Blob, /, axes: Sequence[int] | None = None) -> Blob:
    """Return a view with the axes in another order; in reverse order by default.

    Raises
    ------
    ValueError
        If `axes` does not name every axis once.
    """
    return view(x, "transpose", lambda a: a.transpose(axes))
