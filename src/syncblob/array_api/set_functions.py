"""Set functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/set_functions.html

Every function returns new Blobs. It computes on the device of the operands, without a transfer; on
the accelerator where only one of two is there. Elements are the same if they are equal: each NaN is
another element, and zeros of both signs are one. Unique elements come in ascending order. On an
accelerator the host waits for them, because the contents say how many there are. What is no Blob is
refused with a TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob.array_api import _corrected
from syncblob.array_api._operands import require_blob_and_scalar
from syncblob.blob.compute import apply

if TYPE_CHECKING:
    from syncblob.blob import Blob

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Blob
    indices: Blob
    inverse_indices: Blob
    counts: Blob


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Blob
    counts: Blob


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Blob
    inverse_indices: Blob


def isin(x1: Blob | int, x2: Blob | int, /, *, invert: bool = False) -> Blob:
    """Tell for each element of `x1` whether it is in `x2`.

    Parameters
    ----------
    x1, x2
        Blobs, one of which may be a Python scalar.
    invert
        Tell whether it is not.

    Returns
    -------
    Blob
        Truth values, in the shape of `x1`.
    """
    require_blob_and_scalar("isin", x1, x2)
    return apply(_corrected.isin, x1, x2, invert=invert)


def unique_all(x: Blob, /) -> UniqueAllResult:
    """Return the unique elements, where they are, and how often.

    Returns
    -------
    values
        The unique elements, in ascending order, along one axis.
    indices
        For each, where it occurs first in `x`, counted in C order.
    inverse_indices
        For each element of `x`, in the shape of `x`, its index in `values`.
    counts
        For each of `values`, how often it occurs.
    """
    return UniqueAllResult(*apply(_corrected.unique_all, x))


def unique_counts(x: Blob, /) -> UniqueCountsResult:
    """Return the unique elements, `values`, and how often each occurs, `counts`."""
    return UniqueCountsResult(*apply(_corrected.unique_counts, x))


def unique_inverse(x: Blob, /) -> UniqueInverseResult:
    """Return the unique elements, `values`, and what makes `x` of them, `inverse_indices`."""
    return UniqueInverseResult(*apply(_corrected.unique_inverse, x))


def unique_values(x: Blob, /) -> Blob:
    """Return the unique elements, in ascending order, along one axis."""
    return apply(_corrected.unique_values, x)
