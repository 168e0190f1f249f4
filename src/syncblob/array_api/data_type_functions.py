"""Data type functions. Only `astype` reads elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._blob import Blob
from syncblob._dtypes import PYTHON_SCALARS, SCALARS, as_dtype, is_bfloat16
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import native_array
from syncblob.calls.operands import as_blob, is_number

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.array_api._checks import OnDevice


@dataclass(frozen=True, slots=True)
class FInfo:
    """Machine limits of a real floating-point `dtype`: numbers as Python floats, and its `bits`.

    `eps` is the distance from 1.0 to the next greater number, `max` and `min` are the greatest and
    the least finite number, `smallest_normal` the least positive one with full precision.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[np.generic]


def astype(x: Blob, dtype: DTypeLike, /, *, copy: bool = True, device: OnDevice = None) -> Blob:
    """Convert to another dtype, on a device; None for that of `x`.

    An array of another library is converted as by `asarray`. ``copy=False`` returns `x` itself if
    it is a Blob of that dtype. TypeError for a conversion from complex to real dtypes; take `real`
    or `abs` first.
    """
    array: Any = x
    if is_array(array) and not isinstance(array, Blob):
        # xarray promotes the dtypes of arrays beside a Blob.
        x = Blob.asarray(array, device=device)
    x = as_blob("astype", x)
    wanted = as_dtype(dtype)
    if x.dtype.kind == "c" and wanted.kind not in "cb":
        raise TypeError(
            f"astype does not drop imaginary parts: expected a complex dtype or bool for "
            f"{x.dtype}, got {wanted}; take real(x) or abs(x) first"
        )
    result = x.astype(wanted, copy=copy)
    return result if device is None else result.to_device(device)


def can_cast(from_: DTypeLike | Blob, to: DTypeLike, /) -> bool:
    """Return whether type promotion converts one dtype, or that of a Blob, to another."""
    return np.can_cast(_dtype_of(from_), as_dtype(to))


def finfo(type: DTypeLike | Blob, /) -> FInfo:
    """Return the machine limits of a floating-point dtype, or of that of a Blob.

    For a complex dtype they are those of its parts; a TypeError for other dtypes.
    """
    dtype = _dtype_of(type)
    limits: Any
    if is_bfloat16(dtype):
        import ml_dtypes  # installed: the dtype comes from it

        limits = ml_dtypes.finfo("bfloat16")  # type: ignore[no-untyped-call]  # it ships no types
    elif dtype.kind in "fc":
        limits = np.finfo(dtype.name)
    else:
        raise TypeError(f"expected a floating-point dtype, got {dtype}; iinfo is for integers")
    values = limits.eps, limits.max, limits.min, limits.smallest_normal
    eps, most, least, normal = map(float, values)
    return FInfo(int(limits.bits), eps, most, least, normal, np.dtype(limits.dtype))


def iinfo(type: DTypeLike | Blob, /) -> np.iinfo[Any]:
    """Return the machine limits of an integer dtype, or of that of a Blob; else a TypeError."""
    dtype = _dtype_of(type)
    if dtype.kind not in "iu":
        raise TypeError(f"expected an integer dtype, got {dtype}; finfo is for floating point")
    return np.iinfo(dtype)


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> bool:
    """Return whether a dtype is of a kind. float16 and bfloat16 are real floating.

    `kind` is a dtype; ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
    ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or a tuple of those, for any of
    them. Raises a TypeError or ValueError if it is none of these.
    """
    wanted = as_dtype(dtype)
    if is_bfloat16(wanted):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # For NumPy, bfloat16 is a void type. It is of the same kinds as float32.
        return any(
            np.isdtype(np.float32, entry) if isinstance(entry, str) else wanted == entry
            for entry in kinds
        )
    return np.isdtype(wanted, kind)


def result_type(*arrays_and_dtypes: Blob | complex | DTypeLike) -> np.dtype[np.generic]:
    """Return the dtype that type promotion gives for Blobs, arrays, dtypes and scalars.

    Raises a ValueError if there are only Python scalars, which have no dtype, or nothing.
    """
    parts = [x if type(x) in SCALARS or is_number(x) else _dtype_of(x) for x in arrays_and_dtypes]
    if all(type(part) in PYTHON_SCALARS for part in parts):
        raise ValueError("expected at least one Blob or dtype, got nothing but Python scalars")
    return np.result_type(*parts)


def _dtype_of(x: Any) -> np.dtype[np.generic]:
    if isinstance(x, (Blob, np.generic)):
        return x.dtype
    return as_dtype(native_array(x)[0].dtype if is_array(x) else x)
