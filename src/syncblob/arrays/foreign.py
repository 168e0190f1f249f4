"""Recognizing arrays of other libraries, and those that implement NumPy's protocols."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncblob.devices.base import is_on_device

# Every array library has one of these, or one for its devices.
PROTOCOLS = ("__dlpack__", "__array__")


class NoValuesError(BufferError):
    """An array gives no values by any protocol, as lazy arrays do."""


def is_array(x: Any) -> bool:
    """Return whether an object is an array of any library; not a scalar or a type."""
    if isinstance(x, np.ndarray):
        return True
    if isinstance(x, (np.generic, type)):
        return False
    kind = type(x)
    return any(hasattr(kind, protocol) for protocol in PROTOCOLS) or is_on_device(kind)


def is_ndarray_like(x: Any) -> bool:
    """Return whether an object takes part in the operators of ndarrays, by NumPy's protocols."""
    return is_array(x) or any(
        getattr(type(x), name, None) is not None
        for name in ("__array_ufunc__", "__array_priority__")
    )


def is_stranger(kind: type, protocol: str) -> bool:
    """Return whether a type other than Blob implements a protocol of NumPy's in its own way.

    Arrays of NumPy and of devices do not; they are ordinary operands. Masked arrays count, because
    their masks would be lost. `protocol` is ``"__array_ufunc__"`` or ``"__array_function__"``.
    """
    usual = getattr(np.ndarray, protocol)
    own = getattr(kind, protocol, usual) is not usual
    return issubclass(kind, np.ma.MaskedArray) or (own and not is_on_device(kind))
