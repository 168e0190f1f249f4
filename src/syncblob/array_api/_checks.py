"""Checks of operands, and types of parameters, that several chapters share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from syncblob._blob import Blob
from syncblob._dtypes import SCALARS, SUPPORTED
from syncblob.calls.operands import as_blob

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.devices import Device

    # None stands for the default.
    DType: TypeAlias = DTypeLike | None
    OnDevice: TypeAlias = Device | str | None
    Axes: TypeAlias = int | tuple[int, ...] | None


def require_blobs(name: str, operands: Sequence[Any]) -> Sequence[Any]:
    """Return Blobs in place of scalars and arrays; see `as_blob`. Without any, a ValueError."""
    if len(operands) == 0:
        raise ValueError(f"{name} expects at least one Blob, got none")
    for x in operands:
        if not isinstance(x, Blob):
            return [as_blob(name, x, *operands) for x in operands]
    return operands


def require_indices(name: str, x: Any, *beside: Any) -> Any:
    """Return a Blob of `intp`, or an ndarray of it as it is; raise a TypeError for other dtypes."""
    plain = type(x) is np.ndarray and x.dtype in SUPPORTED
    known = isinstance(x, Blob) or (plain and isinstance(beside[0], Blob))
    blob = x if known else as_blob(name, x, *beside)
    dtype = blob.dtype
    if dtype.kind not in "iu":
        raise TypeError(f"{name} expects integers, got dtype {dtype}")
    # NumPy accepts no uint64 indices. To compare first saves a call for the usual dtype.
    return blob if dtype == np.intp else blob.astype(np.intp)


def as_array(xp: Any, x: Any, beside: Any) -> Any:
    """Convert a scalar to an array, with the dtype that promotion with another array gives.

    Without this, NumPy's `searchsorted` compares float32 elements with a float64, and its `where`
    truncates an integer that is too large.
    """
    if type(x) not in SCALARS:
        return x
    return xp.asarray(x, dtype=np.result_type(getattr(beside, "dtype", beside), x))
