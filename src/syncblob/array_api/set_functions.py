"""Set functions.

Every NaN is unique, and 0.0 and -0.0 are the same element. Unique elements are in ascending order.
On an accelerator the functions synchronize, because the contents determine the number of results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.array_api._checks import as_array
from syncblob.calls.namespace import apply

if TYPE_CHECKING:
    from syncblob._blob import Blob


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Blob
    indices: Blob
    inverse_indices: Blob
    counts: Blob


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Blob
    counts: Blob


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Blob
    inverse_indices: Blob


def isin(x1: Blob | int, x2: Blob | int, /, *, invert: bool = False) -> Blob:
    """Return for each element of `x1` whether it is in `x2`, or whether it is not, if `invert`."""
    return apply(_isin, x1, x2, invert=invert)


def _isin(xp: Any, a1: Any, a2: Any, *, invert: bool) -> Any:
    try:
        a1, a2 = as_array(xp, a1, a2), as_array(xp, a2, a1)
    except OverflowError:
        # No element of that dtype equals the scalar.
        return xp.full(getattr(a1, "shape", ()), invert)
    return xp.isin(a1, a2, invert=invert)


def unique_all(x: Blob, /) -> UniqueAllResult:
    """Return the unique elements, along one axis, with indices and counts.

    `indices` are those of their first occurrences in `x`, in C order; `inverse_indices`, of the
    shape of `x`, give `x` from `values`; `counts` are the numbers of occurrences.
    """
    return UniqueAllResult(*_unique(x, return_index=True, return_inverse=True, return_counts=True))


def unique_counts(x: Blob, /) -> UniqueCountsResult:
    """Return the unique elements, `values`, and the number of occurrences of each, `counts`."""
    return UniqueCountsResult(*_unique(x, return_counts=True))


def unique_inverse(x: Blob, /) -> UniqueInverseResult:
    """Return the unique elements, `values`, and the indices into them that give `x`."""
    return UniqueInverseResult(*_unique(x, return_inverse=True))


def unique_values(x: Blob, /) -> Blob:
    """Return the unique elements, in ascending order, along one axis."""
    return _unique(x)


def _unique(x: Blob, **results: bool) -> Any:
    # NumPy's `unique_values` does not guarantee the order.
    return apply("unique", x, equal_nan=False, **results)
