"""Arrays of other libraries: what counts as one, and which must be asked what a function does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["is_array", "is_ndarray_like", "is_stranger"]

# What an array of any library has.
_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__", "__array__")


def is_array(x: Any) -> bool:
    """Tell whether something is an array of any library, and no scalar and no type."""
    if isinstance(x, np.ndarray):
        return True
    if isinstance(x, (np.generic, type)):
        return False
    kind = type(x)
    return any(hasattr(kind, protocol) for protocol in _PROTOCOLS)


def is_ndarray_like(x: Any) -> bool:
    """Tell whether something takes part in the operators of ndarrays, by NumPy's protocols."""
    return is_array(x) or any(
        getattr(type(x), name, None) is not None
        for name in ("__array_ufunc__", "__array_priority__")
    )


def is_stranger(kinds: Iterable[type], protocol: str) -> bool:
    """Tell whether a type has its own answer to a protocol of NumPy's, and must be asked.

    Arrays of NumPy and CuPy have one too, but are operands like any other. Masked arrays are
    strangers: their masks would be lost.

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
        if answer is not usual and not hasattr(kind, "__cuda_array_interface__"):
            return True
    return False
