"""The supported dtypes: those of the array API, float16, and bfloat16 with ml_dtypes."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._optional import import_optional

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

UINT8 = np.dtype(np.uint8)

# The dtypes of Blobs but bfloat16, which needs ml_dtypes.
NAMES = tuple(
    """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64
    complex128
    """.split()  # noqa: SIM905  # reads best as words
)
# In native byte order.
SUPPORTED = frozenset(np.dtype(name) for name in NAMES)
# NumPy's scalar classes of these dtypes.
SCALAR_CLASSES = frozenset(dtype.type for dtype in SUPPORTED)

# Python's scalars, which adapt to the dtype beside them.
PYTHON_SCALARS = frozenset({bool, int, float, complex})
# Python's and NumPy's scalars.
SCALARS = PYTHON_SCALARS | SCALAR_CLASSES

# The usual ways to name dtypes; a lookup here is faster than `numpy.dtype`.
_BY_NAME: dict[object, np.dtype[np.generic]] = {
    key: np.dtype(name) for name in NAMES for key in (name, np.dtype(name), np.dtype(name).type)
}

# What arrays of unsupported kinds of dtypes hold, by NumPy's letter of the kind.
_KINDS = {"O": "objects", "S": "bytes", "U": "texts", "T": "texts", "M": "dates", "m": "durations"}


def is_bfloat16(dtype: np.dtype[np.generic]) -> bool:
    """Return whether a dtype is ml_dtypes' bfloat16, which NumPy treats as a void type."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def is_supported(dtype: np.dtype[np.generic]) -> bool:
    """Return whether Blobs support a dtype, which must be in native byte order."""
    return dtype in SUPPORTED or is_bfloat16(dtype)


def can_hold(dtype: np.dtype[np.generic]) -> bool:
    """Return whether Blobs support a dtype after a conversion to native byte order."""
    return is_supported(dtype) or is_supported(dtype.newbyteorder("="))


def as_dtype(dtype: DTypeLike) -> np.dtype[np.generic]:
    """Convert to a supported NumPy dtype anything that NumPy accepts as one, or ``"bfloat16"``."""
    try:
        return _BY_NAME[dtype]
    except (KeyError, TypeError):
        pass
    result = numpy_dtype(dtype)
    if is_supported(result):
        return result
    if result.kind in _KINDS:
        raise TypeError(
            f"a Blob holds numbers and booleans, not {_KINDS[result.kind]} (dtype {result.str!r}); "
            "convert the array to numbers first"
        )
    advice = (
        f"; convert to native byte order first, with .astype({result.name!r})"
        if can_hold(result)
        else ""
    )
    raise TypeError(
        f"a Blob holds {', '.join(NAMES)} or bfloat16 (with ml_dtypes), got {result!r}{advice}"
    )


def numpy_dtype(dtype: DTypeLike) -> np.dtype[np.generic]:
    """Convert to a NumPy dtype as `as_dtype` does; Blobs need not support it."""
    if dtype is None:
        raise TypeError("expected a dtype, got None, which NumPy would take for float64")
    if isinstance(dtype, str) and dtype == "bfloat16":
        dtype = import_optional("ml_dtypes", "bfloat16").bfloat16
    try:
        result: np.dtype[np.generic] = np.dtype(dtype)
    except TypeError as error:
        # For example Blob(2, 3), or Blob(2, torch.float32).
        named = 'dtypes are named as "float32" or numpy.float32'
        shape = "a shape of several dimensions is one tuple"
        advice = shape if isinstance(dtype, int) else named
        raise TypeError(f"expected a dtype, got {dtype!r} ({error}); {advice}") from None
    return result


@cache
def register_for_dlpack(dtype: np.dtype[np.generic]) -> None:
    """Let NumPy take bfloat16 by DLPack. Since version 2.5, it can if the dtype is registered."""
    register: Any = getattr(np.dtypes, "register_dlpack_dtype", None)
    if register is not None:
        # NumPy raises if ml_dtypes has registered the dtype already.
        with suppress(ValueError):
            register((4, 16), dtype)  # kDLBfloat, bits
