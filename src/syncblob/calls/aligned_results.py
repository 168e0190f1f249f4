"""Aligned memory for large results on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import is_supported
from syncblob.devices import HOST
from syncblob.devices.host import LARGE

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def out_for(home: Home, kernel: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """Return ``out=`` with aligned memory for a large result on the host; empty for others."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    if home is not HOST or max([x.nbytes for x in arrays]) < LARGE:
        return {}
    kinds: list[Any] = [getattr(x, "dtype", type(x)) for x in operands]
    dtype = _result_dtype(kernel, *kinds)
    if kernel is np.matmul:
        fits, shape = {x.ndim for x in arrays} == {2}, (*arrays[0].shape[:1], *arrays[-1].shape[1:])
    else:
        fits, shape = False not in [x.flags.c_contiguous for x in arrays], arrays[0].shape
    if dtype is None or not fits:
        return {}
    if kernel is not np.matmul and arrays[-1].shape != shape:
        try:
            shape = np.broadcast_shapes(shape, arrays[-1].shape)
        except ValueError:
            # The kernel's own message is better.
            return {}
    return {"out": HOST.empty(shape, dtype)} if math.prod(shape) * dtype.itemsize >= LARGE else {}


@lru_cache(maxsize=256)
def _result_dtype(kernel: Callable[..., Any], *kinds: Any) -> np.dtype[Any] | None:
    """Return the dtype of results, given dtypes or classes of scalars; None if NumPy makes them."""
    # `floor_divide` would copy its result there.
    generalized = getattr(kernel, "signature", None) is not None and kernel is not np.matmul
    if generalized or kernel is corrected.floor_divide or getattr(kernel, "nout", 1) > 1:
        return None
    operands = [kind(1) if isinstance(kind, type) else np.empty((0, 0), kind) for kind in kinds]
    dtype: np.dtype[Any] = kernel(*operands).dtype
    return dtype if is_supported(dtype) else None
