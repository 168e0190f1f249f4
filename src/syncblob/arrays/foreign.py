"""Recognizing arrays of other libraries, and those that implement NumPy's protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices.base import is_on_device

if TYPE_CHECKING:
    from collections.abc import Iterable

# Every array library has one of these, or one for its devices.
_PROTOCOLS = ("__dlpack__", "__array__")


def is_array(x: Any) -> bool:
    """Return whether an object is an array of any library; not a scalar or a type."""
    if isinstance(x, np.ndarray):
        return True
    if isinstance(x, (np.generic, type)):
        return False
    kind = type(x)
    return any(hasattr(kind, protocol) for protocol in _PROTOCOLS) or is_on_device(kind)


def is_ndarray_like(x: Any) -> bool:
    """Return whether an object takes part in the operators of ndarrays, by NumPy's protocols."""
    return is_array(x) or any(
        getattr(type(x), name, None) is not None
        for name in ("__array_ufunc__", "__array_priority__")
    )


def is_stranger(kinds: Iterable[type], protocol: str) -> bool:
    """Return whether one of the types implements a protocol of NumPy's in its own way.

    Arrays of NumPy and of devices do not count; they are ordinary operands. Masked arrays count,
    because their masks would be lost.

    Parameters
    ----------
    kinds
        Types that are not Blobs.
    protocol
        ``"__array_ufunc__"`` or ``"__array_function__"``.
    """
    usual = getattr(np.ndarray, protocol)
    for kind in kinds:
        answer = getattr(kind, protocol, usual)
        if issubclass(kind, np.ma.MaskedArray):
            return True
        if answer is not usual and not is_on_device(kind):
            return True
    return False
