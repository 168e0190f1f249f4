"""Operands: what may stand beside a Blob, Blobs made of it, and the device that they choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import PYTHON_SCALARS, SCALARS, can_hold, is_supported
from syncblob.arrays.foreign import NoValuesError, is_array, is_stranger
from syncblob.arrays.native import native_array
from syncblob.blob.core import BlobCore
from syncblob.devices import HOST, default_device
from syncblob.devices.base import Accelerator, is_on_device
from syncblob.interop.adopt import adopt

if TYPE_CHECKING:
    from syncblob.devices import Device
    from syncblob.devices.base import Home

# Types of arguments that are passed on unchanged, but for NumPy's scalars that Blobs cannot hold.
_LEAVES = (bool, int, float, complex, str, bytes, type, np.generic, np.dtype, np.ufunc)
_FOR_HOST = (np.clongdouble, np.datetime64, np.longdouble, np.timedelta64, np.void)


def _is_leaf(kind: type) -> bool:
    return kind is type(None) or (issubclass(kind, _LEAVES) and not issubclass(kind, _FOR_HOST))


# Returns whether arguments of a type do not determine where to compute. It keeps the types alive.
is_leaf: Callable[[type], bool] = lru_cache(maxsize=1024)(_is_leaf)


def as_blob(name: str, x: Any, *beside: Any) -> Any:
    """Return a Blob, also for a NumPy scalar; raise a TypeError for other objects.

    Beside a Blob, also for an array, only to be read, or a number of a subclass. It goes to the
    device of the first Blob beside it, or else to the default device. `name` is the operation.
    """
    if isinstance(x, BlobCore):
        return x
    like = next((other for other in beside if isinstance(other, BlobCore)), None)
    if like is not None and is_number(x) and type(x) not in PYTHON_SCALARS:
        # As in NumPy, it has a dtype of its own, and does not adapt to that of the Blob.
        x = np.asarray(x)[()]
    if isinstance(x, np.generic) and is_supported(x.dtype):
        device = None if like is None else like.device
        return BlobCore.class_of_results.asarray(x, device=device)
    operand = NotImplemented if like is None else as_operand(x, like)
    if operand is not NotImplemented:
        return operand
    # `from None` hides the AttributeError that callers handle.
    raise refusal(name, x) from None


def is_operand(kind: type) -> bool:
    """Return whether the engine takes operands of a type as they are."""
    return issubclass(kind, BlobCore) or kind in SCALARS or kind is np.ndarray


def is_number(x: Any) -> bool:
    """Return whether an object is a number that takes part in operators with arrays."""
    return isinstance(x, (int, float, complex)) and not hasattr(type(x), "__array_ufunc__")


def blob_to_read(array: Any, like: Any) -> Any:
    """Make a Blob over an array of NumPy or CuPy, only for reading."""
    device = HOST.device if isinstance(array, np.ndarray) else None
    # A device that has no copy of its own must have read it when its owner writes again.
    return blob_over(array, like, device, owned=not Accelerator.any_shared)


def as_operand(x: Any, like: Any) -> Any:
    """Return a Blob for an array or scalar of another library; NotImplemented for other objects."""
    if is_stranger(type(x), "__array_ufunc__") or isinstance(x, np.matrix):
        return NotImplemented
    if isinstance(x, np.generic) or is_array(x):
        try:
            array = native_array(x)[0]
        except NoValuesError:
            return NotImplemented
        if can_hold(array.dtype):
            return blob_to_read(array, like)
    return NotImplemented


def refusal(name: str, x: object) -> TypeError:
    """Return the error for an operand that is not a Blob."""
    return TypeError(f"{name} expects a Blob, got {type(x).__name__}; use syncblob.asarray() first")


def of_device(x: Any, like: BlobCore) -> Any:
    """Wrap an array on a device in a Blob, because its device determines where to compute."""
    found = is_on_device(x) and not isinstance(x, (BlobCore, type))
    return blob_over(native_array(x)[0], like, None) if found else x


def blob_over(array: Any, like: Any, device: Device | None, *, owned: bool = False) -> Any:
    """Make a Blob for use on a device, over an array that may have other owners."""
    memory, layout = adopt(array, dtype=None, device=device, copy=None, owned=owned)
    return like.from_memory(memory, layout)


def shape_only(x: Any) -> Any:
    """Replace a Blob by an array of the same shape, strides and dtype, which must not be read."""
    if not isinstance(x, BlobCore):
        return x
    # An array that is out of date has the shape nevertheless.
    array = x.raw_array
    return array if isinstance(array, np.ndarray) else x.layout.dummy()


# --- the device -----------------------------------------------------------------------------------


def home_of(operands: Iterable[Any], like: BlobCore) -> Home:
    """Return the home where a call runs: of several accelerators the default one, or the first.

    The host if there is none, or an accelerator cannot hold an operand.
    """
    homes: dict[Home, None] = {}
    for x in operands:
        if isinstance(x, BlobCore):
            homes[x.home] = None
        elif not (isinstance(x, (str, bytes)) or can_hold(x.dtype)):
            return HOST
    accelerators = [home for home in homes if home is not HOST]
    preferred = [home for home in accelerators[1:] if home.device == default_device()]
    return (*preferred, *accelerators, HOST if homes else like.home)[0]
