"""Searching functions.

Indices are 64-bit integers. A maximum or minimum without elements raises a ValueError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from syncblob._dtypes import SCALARS
from syncblob.array_api._checks import as_array, require_indices
from syncblob.blob.core import BlobCore
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob, refusal

if TYPE_CHECKING:
    from syncblob._blob import Blob
    from syncblob.array_api._checks import Axes


def argmax(x: Blob, /, *, axis: int | None = None, keepdims: bool = False) -> Blob:
    """Return the indices of the first maxima along an axis, or in C order if it is None."""
    return apply("argmax", x, axis=axis, keepdims=keepdims)


def argmin(x: Blob, /, *, axis: int | None = None, keepdims: bool = False) -> Blob:
    """Return the indices of the first minima along an axis, or in C order if it is None."""
    return apply("argmin", x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Count the nonzero elements, along axes or in total."""
    return apply(_count_nonzero, x, axis=axis, keepdims=keepdims)


def _count_nonzero(np: Any, x: Any, **kwargs: Any) -> Any:
    # NumPy before 2.3 returns a total as a Python integer.
    return np.asarray(np.count_nonzero(x, **kwargs), dtype=np.int64)


def nonzero(x: Blob, /) -> tuple[Blob, ...]:
    """Return the indices of the nonzero elements, in C order, one Blob for each axis.

    On an accelerator this synchronizes, because the contents determine the shape of the results.
    """
    x = as_blob("nonzero", x)
    if not x.ndim:
        raise ValueError("nonzero expects a Blob with axes, got shape (); reshape it to (1,)")
    return apply("nonzero", x)


def searchsorted(
    x1: Blob,
    x2: Blob | float,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Blob | None = None,
) -> Blob:
    """Return the indices at which to insert values to keep a Blob sorted, with the shape of `x2`.

    `x1` is in ascending order, or `sorter` has the indices that put it so; NaN comes last. A scalar
    `x2` takes the dtype of `x1` if possible; an OverflowError if an integer does not fit. `side`
    ``"left"`` returns the first suitable index, ``"right"`` the last. Raises a TypeError if the
    dtype of `sorter` is not an integer dtype, a ValueError for other shapes and sides.
    """
    x1 = as_blob("searchsorted", x1, x2)
    if sorter is not None:
        sorter = require_indices("searchsorted", sorter, x1)
    if side not in ("left", "right"):
        # CuPy treats any other value as "left".
        raise ValueError(f'expected side to be "left" or "right", got {side!r}')
    return apply(_searchsorted, x1, x2, sorter, side=side)


def _searchsorted(xp: Any, a: Any, values: Any, sorter: Any, *, side: str) -> Any:
    return xp.searchsorted(a, as_array(xp, values, a), side=side, sorter=sorter)


def where(condition: Blob, x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Choose elements of `x1` where a condition is true (nonzero), and of `x2` elsewhere.

    `x1` and `x2` may be Python scalars; an OverflowError if it does not fit into the dtype
    of the result. The three broadcast.
    """
    if x1 is None or x2 is None:
        raise refusal("where", None)
    if not isinstance(condition, BlobCore):
        condition = as_blob("where", condition, x1, x2)  # type: ignore[unreachable]  # callers may have no types
    return apply(_where, condition, x1, x2)


def _where(xp: Any, condition: Any, a1: Any, a2: Any) -> Any:
    if type(a1) in SCALARS:
        a1 = as_array(xp, a1, a2)
    elif type(a2) in SCALARS:
        a2 = as_array(xp, a2, a1)
    return xp.where(condition, a1, a2)
