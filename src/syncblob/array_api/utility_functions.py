"""Utility functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.lib.array_utils import normalize_axis_index

from syncblob.array_api._checks import require_blobs
from syncblob.calls.namespace import apply

if TYPE_CHECKING:
    from syncblob._blob import Blob
    from syncblob.array_api._checks import Axes


def all(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Test whether all elements along axes are true, that is nonzero; true if there are none."""
    return apply("all", x, axis=axis, keepdims=keepdims)


def any(x: Blob, /, *, axis: Axes = None, keepdims: bool = False) -> Blob:
    """Test whether any element along axes is true, that is nonzero; false if there are none."""
    return apply("any", x, axis=axis, keepdims=keepdims)


def diff(
    x: Blob,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Blob | None = None,
    append: Blob | None = None,
) -> Blob:
    """Return the differences of neighbouring elements along an axis, taken `n` times.

    For bool, they tell whether neighbours differ. `prepend` and `append` are joined before and
    after `x` first. Raises a ValueError if `n` is negative, or the shapes do not match.
    """
    arrays = [part for part in (prepend, x, append) if part is x or part is not None]
    parts = require_blobs("diff", arrays)
    return apply(_diff, *parts, axis=normalize_axis_index(axis, x.ndim), n=n)


def _diff(xp: Any, *parts: Any, axis: int, n: int) -> Any:
    a = xp.concat(parts, axis=axis) if len(parts) > 1 else parts[0]
    # For n=0, NumPy returns the operand itself and ignores `prepend` and `append`.
    return a.copy() if n == 0 else xp.diff(a, n=n, axis=axis)
