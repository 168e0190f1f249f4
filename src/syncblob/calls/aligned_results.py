"""Results of kernels before they are computed: their dtypes, and aligned memory for large ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import is_bfloat16, is_supported
from syncblob.devices import HOST
from syncblob.devices.host import LARGE

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def out_for(home: Home, kernel: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """Return ``out=`` with aligned memory for a large result on the host; empty for others."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    if home is not HOST or max([x.nbytes for x in arrays]) < LARGE:
        return {}
    # `floor_divide` would copy its result there.
    generalized = getattr(kernel, "signature", None) is not None and kernel is not np.matmul
    if generalized or kernel is corrected.floor_divide:
        return {}
    kinds: list[Any] = [getattr(x, "dtype", type(x)) for x in operands]
    dtype = _result_dtype(kernel, *kinds)
    if kernel is np.matmul:
        fits, shape = {x.ndim for x in arrays} == {2}, (*arrays[0].shape[:1], *arrays[-1].shape[1:])
    else:
        fits, shape = False not in [x.flags.c_contiguous for x in arrays], arrays[0].shape
    if dtype is None or not (fits and is_supported(dtype)):
        return {}
    if kernel is not np.matmul and arrays[-1].shape != shape:
        try:
            shape = np.broadcast_shapes(shape, arrays[-1].shape)
        except ValueError:
            # The kernel's own message is better.
            return {}
    return {"out": HOST.empty(shape, dtype)} if math.prod(shape) * dtype.itemsize >= LARGE else {}


@cache
def keeps_dtype(kernel: Callable[..., Any], dtype: np.dtype[Any], other: Any) -> bool:
    """Tell whether a kernel gives the first dtype; the other may be the type of a scalar."""
    if other is float and is_bfloat16(dtype):
        return True
    found = _result_dtype(kernel, dtype, other)
    return found is not None and found == dtype


@lru_cache(maxsize=256)
def _result_dtype(kernel: Callable[..., Any], *kinds: Any) -> np.dtype[Any] | None:
    """Return the dtype of the result, given dtypes or classes of scalars; None if there is none."""
    operands = [kind(1) if isinstance(kind, type) else np.ones((1, 1), kind) for kind in kinds]
    try:
        with np.errstate(all="ignore"):
            return getattr(kernel(*operands), "dtype", None)
    except TypeError:
        return None
