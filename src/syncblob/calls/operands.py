"""Operands: what may stand beside a Blob, and bringing the operands to one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import PYTHON_SCALARS, SCALARS, can_hold, is_supported
from syncblob.arrays.foreign import NoValuesError, is_array, is_stranger
from syncblob.arrays.native import native_array
from syncblob.blob.core import AnyBlob, BlobCore
from syncblob.calls.choose_home import preferred, require_device_of
from syncblob.devices import HOST
from syncblob.interop.adopt import adopt

if TYPE_CHECKING:
    from syncblob.devices.base import Home

_NUMBERS = (int, float, complex)


def as_blob(name: str, x: Any, *beside: Any) -> Any:
    """Return a Blob as it is, and a NumPy scalar as a 0-d Blob; raise a TypeError for others.

    Beside a Blob, also an array of another library, only to be read, or an instance of a subclass
    of a Python scalar's type, becomes a Blob. It goes to the device of the first Blob beside it, or
    else to the default device. `name` is the operation.
    """
    if isinstance(x, BlobCore):
        return x
    like = next((other for other in beside if isinstance(other, BlobCore)), None)
    if like is not None and is_number(x) and type(x) not in PYTHON_SCALARS:
        # As in NumPy, it has a dtype of its own, and does not adapt to that of the Blob.
        x = np.asarray(x)[()]
    if isinstance(x, np.generic) and is_supported(x.dtype):
        device = None if like is None else like.device
        return BlobCore._class_of_results.asarray(x, device=device)
    operand = NotImplemented if like is None else converted(x, like)
    if operand is not NotImplemented:
        return operand
    # `from None` hides the AttributeError that callers handle.
    raise refusal(name, x) from None


def is_number(x: Any) -> bool:
    """Return whether an object is a number that takes part in operators with arrays."""
    return isinstance(x, _NUMBERS) and not hasattr(type(x), "__array_ufunc__")


def gather(name: str, *operands: Any) -> tuple[list[Any], Home, tuple[Any, ...]]:
    """Bring the data of Blobs to one device, that of `common_home`.

    Scalars and None are unchanged if there is a Blob. Otherwise NumPy scalars become Blobs.

    Returns
    -------
    arrays
        The arrays and scalars to compute with.
    home
        The home of the arrays.
    operands
        The operands, with NumPy scalars replaced by Blobs if that was necessary.
    """
    if not HOST.direct:
        require_device_of(name, *operands)
    home: Home | None = None
    for x in operands:
        if isinstance(x, BlobCore):
            other = x.home
            if home is None or home is HOST:
                home = other
            elif other is not home and other is not HOST:
                home = preferred(home, other)
    if home is None:
        return gather(name, *_with_blobs(name, operands))
    arrays: list[Any] = []
    for x in operands:
        if x is None or type(x) in SCALARS:
            arrays.append(x)
        elif not isinstance(x, BlobCore):
            return gather(name, *_with_blobs(name, operands))
        else:
            # An access on that home alone: one on the host would count as another use of it.
            arrays.append(x._array_in(home, name))
    return arrays, home, operands


def _with_blobs(name: str, operands: tuple[Any, ...]) -> list[Any]:
    """Replace NumPy scalars by Blobs.

    Raises
    ------
    TypeError
        As `gather`.
    """
    weak = PYTHON_SCALARS
    blobs = [x if x is None or type(x) in weak else as_blob(name, x, *operands) for x in operands]
    if any(isinstance(x, BlobCore) for x in blobs):
        return blobs
    raise refusal(name, operands[0])


def blob_to_read(array: Any, like: AnyBlob) -> AnyBlob:
    """Make a Blob over an array of NumPy or CuPy, only for reading."""
    device = "cpu" if isinstance(array, np.ndarray) else None
    memory, layout = adopt(array, dtype=None, device=device, copy=None, owned=True)
    return like._of(memory, layout)


def converted(x: Any, like: Any) -> Any:
    """Convert an array or scalar of another library to a Blob.

    Return NotImplemented for other objects, for arrays without values, for dtypes that Blobs do not
    support, and for `numpy.matrix`, whose operators have another meaning.
    """
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
