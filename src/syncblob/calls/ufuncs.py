"""Ufuncs called with Blobs: ``__array_ufunc__``."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncblob._dtypes import SCALARS, is_supported
from syncblob.arrays.foreign import is_stranger
from syncblob.blob.core import BlobCore
from syncblob.calls.elementwise import as_blobs, binary, out_for, unary
from syncblob.calls.foreign_protocols import ufunc_with_strangers
from syncblob.calls.general_call import call
from syncblob.calls.tables import ELEMENTWISE
from syncblob.devices import HOST
from syncblob.devices.host import LARGE
from syncblob.memory import from_the_start


def array_ufunc(like: Any, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Implement ``__array_ufunc__``; `like` is the Blob whose protocol NumPy calls."""
    if not kwargs and method == "__call__" and ufunc in ELEMENTWISE:
        if len(inputs) == 1:
            return unary(ufunc, like)
        x1, x2 = inputs
        if type(x1) is type(x2) or type(x2) in SCALARS:
            return binary(ufunc, x1, x2)
        array = _array_at_hand(like, x2 if x1 is like else x1)
        if array is not None:
            array1 = array if x1 is like else x1
            array2 = array if x2 is like else x2
            large = array.nbytes >= LARGE
            aligned = out_for(like.home, ufunc, array1, array2) if large else {}
            return as_blobs(like, ufunc(array1, array2, **aligned), like.home)
    out = kwargs.get("out", ())
    if type(out) is not tuple or (method == "__call__" and len(inputs) > ufunc.nin):
        # Numba's `vectorize` passes what to write as it was given, unlike NumPy.
        inputs, given = inputs[: ufunc.nin], inputs[ufunc.nin :]
        out = given or (out,)
        kwargs = {**kwargs, "out": out}
    operands = (*inputs, *out)
    kinds = [type(x) for x in operands if not isinstance(x, BlobCore)]
    if kinds and any(is_stranger(kind, "__array_ufunc__") for kind in kinds):
        return ufunc_with_strangers(ufunc, method, inputs, kwargs)
    written: dict[int | str, bool] = {}
    if "out" in kwargs:
        # A reduction writes every element, even with a mask.
        masked = kwargs.get("where", True) is not True and method in {"__call__", "outer"}
        written["out"] = not masked
    if method == "at":
        written[0] = False
    name, function, by_name = ufunc.__name__, ufunc, method != "__call__"
    if by_name:
        name, function = f"{name}.{method}", getattr(ufunc, method)
    # The second operand of these is an index, which may be a tuple.
    index = 1 if method in {"at", "reduceat"} else None
    arrays = [
        np.asarray(x) if isinstance(x, (list, tuple)) and position != index else x
        for position, x in enumerate(inputs)
    ]
    return from_the_start(
        call, function, arrays, kwargs, like, name=name, written=written, by_name=by_name
    )


def _array_at_hand(blob: Any, other: Any) -> Any:
    """Return a Blob's array if NumPy can compute with it and an operand as they are, else None."""
    home, shortcut, array = blob.home, blob._shortcut, blob._array
    known = isinstance(other, np.generic) or (type(other) is np.ndarray and home is HOST)
    usable = known and home.direct and shortcut.readable and is_supported(other.dtype)
    return array if usable else None
