"""In-place operators, in as few steps as possible. The Blob keeps its shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import SCALARS, SUPPORTED, can_hold, is_bfloat16
from syncblob.arrays.foreign import is_array, is_ndarray_like
from syncblob.arrays.native import array_of_tensor
from syncblob.blob.core import BlobCore
from syncblob.calls.choose_home import require_device_of
from syncblob.calls.engine import finish_write, plan_of
from syncblob.calls.foreign_operators import answer_of, known_form
from syncblob.calls.operands import converted, is_number
from syncblob.calls.tables import rules_in_place
from syncblob.devices import HOST
from syncblob.guards import may_compute_directly
from syncblob.memory import MUTABLE
from syncblob.memory.living_arrays import Reference

# All integers up to this are exact in every floating-point dtype of Blobs, except bfloat16.
_EXACT = 2048


def inplace(kernel: Callable[..., Any], x1: Any, x2: Any, name: str) -> Any:  # noqa: C901, PLR0912, PLR0915  # each case is inlined, because calls take time
    """Compute ``kernel(x1, x2)`` into x1, without a temporary array, and return x1.

    `name` is Python's name of the operator, such as ``"add"``.

    Runs on the accelerator if one of the operands is there. An exception leaves x1 unchanged,
    except those that NumPy raises while it writes: floating-point errors under ``numpy.errstate``,
    and the ValueError for integers to negative powers. Operands that do not fit on the device
    together are computed in parts; see `compute_in_room`.

    Raises
    ------
    TypeError
        If the dtype of the result differs from that of `x1`.
    ValueError
        If the shape differs, or `x1` is const.
    """
    if x1.readonly:
        x1.require_writable(_reason(kernel))
    home = x1.home
    direct = home.direct or (home.queues and HOST.direct)
    # In this order; see `BlobCore`.
    shortcut, array1 = x1.shortcut, x1.raw_array
    if array1 is not None and shortcut.readable:
        array2 = x2
        if type(x2) is type(x1):
            shortcut2, array2 = x2.shortcut, x2.raw_array
            # Most kernels keep the common dtype.
            usable = home is x2.home and array2 is not None and shortcut2.readable
            usable = usable and array1.dtype is array2.dtype
        else:
            kind: Any = type(x2)
            if kind is np.ndarray:
                usable = home is HOST and array1.dtype is x2.dtype
            else:
                usable = kind in SCALARS and _keeps_dtype(kernel, array1.dtype, kind)
        if usable and not shortcut.writable:
            # The write is prepared here if certainly nothing raises.
            usable = direct and _cannot_raise(kernel, array1, array2)
            array1 = x1.array_in(home, MUTABLE, _reason(kernel)) if usable else None
            shortcut, usable = x1.shortcut, array1 is not None
        if usable and (direct or may_compute_directly(home, _reason(kernel))):
            note, writers = None, home.writers
            try:
                if writers is not None:
                    note = {shortcut}
                    writers.add(Reference(note, writers.discard))
                # Again: it may have been revoked before.
                if writers is None or (shortcut.writable and x1.raw_array is array1):
                    try:
                        if home.queues:
                            home.compute(kernel, array1, array2, array1)
                            return x1
                        if array1.size == 1 and array2 is not x2 and array1.shape == array2.shape:
                            # For one element, NumPy's ``out=`` takes twice as long.
                            result = kernel(array1, array2)
                            if result.dtype is array1.dtype:
                                array1[...] = result
                                return x1
                        kernel(array1, array2, array1)
                    except TypeError:
                        _require_kept_dtype(kernel, array1.dtype, array2)
                        raise
                    except MemoryError:
                        if not home.queues:
                            raise
                    else:
                        return x1
                    finally:
                        if not x1.shortcut.writable:
                            finish_write(x1, home, array1, kernel.__name__)
            finally:
                # Frames of an error would keep it.
                note = None
    if type(x2) not in SCALARS and not isinstance(x2, BlobCore):
        other: Any = x2 if type(x2) is np.ndarray else array_of_tensor(x2, keep=False)
        if other is None or other.dtype not in SUPPORTED or home.bounded:
            other = converted(x2, x1)
        if other is NotImplemented:
            return _by_other(kernel, x1, x2, name)
        x2 = other
    if not home.direct:
        require_device_of(_reason(kernel), x1, x2)
    # Raise before anything is transferred.
    _require_kept_dtype(kernel, x1.dtype, x2)
    _require_same_shape(kernel, x1.shape, getattr(x2, "shape", ()))
    # Drop our references, so that the buffers can be evicted if memory is short.
    array1 = array2 = shortcut = shortcut2 = None
    return plan_of(rules_in_place, kernel, (), type(x1), type(x2)).run(x1, (x1, x2), {})


def _cannot_raise(kernel: Callable[..., Any], array1: Any, x2: Any) -> bool:
    """Tell whether a kernel certainly takes a second operand, and keeps the shape and the dtype.

    Of a scalar, its dtype is known to be kept, but its conversion may raise.
    """
    if type(x2) in SCALARS:
        return abs(x2) <= _EXACT and (type(x2) is not int or array1.dtype.kind in "fc")
    same = array1.shape == x2.shape and kernel is not corrected.matmul
    return same and _keeps_dtype(kernel, array1.dtype, x2.dtype)


def _by_other(kernel: Callable[..., Any], x1: Any, x2: Any, name: str) -> Any:
    """Compute `inplace` with an object that cannot become a Blob."""
    own = is_array(x2) or isinstance(x2, np.generic)
    like = own or is_ndarray_like(x2)
    number = not like and is_number(x2)
    ask = number or (like and not own)
    form = known_form(x1, x2) if ask and not number else x1
    answer = answer_of(name, kernel, form, x2) if ask else NotImplemented
    if number and answer is NotImplemented:
        # As a Python scalar, because an array would change the dtype.
        answer = inplace(kernel, x1, np.asarray(x2).item(), name)
    elif like and (answer is NotImplemented or isinstance(answer, np.ndarray)):
        # The operator would bind the caller's name to a new array.
        raise _other_type(kernel, x2)
    return answer


@cache
def _reason(kernel: Any) -> str:
    return f"in-place {kernel.__name__}"


@cache
def _keeps_dtype(kernel: Any, dtype: Any, other: Any) -> bool:
    """Tell whether a kernel gives the first of two dtypes. The second may be the type of a scalar.

    For NumPy, bfloat16 is no float, and a Python float beside it has the dtype float64.
    """
    one: Any = np.ones((1, 1), dtype)
    if other is float and is_bfloat16(one.dtype):
        return True
    try:
        with np.errstate(all="ignore"):
            result = kernel(one, one.astype(other) if isinstance(other, np.dtype) else other(1))
    except TypeError:
        return False
    kept: bool = result.dtype == dtype
    return kept


def _require_kept_dtype(kernel: Callable[..., Any], dtype: Any, x: Any) -> None:
    """Raise if the kernel gives another dtype, as integers divided do, or takes no such operand."""
    kind: Any = type(x)
    if kind is int:
        # Raises for one that does not fit.
        np.asarray(x, dtype)
    if _keeps_dtype(kernel, dtype, kind if kind in SCALARS else x.dtype):
        return
    result = kernel(np.ones((1, 1), dtype), x if kind in SCALARS else np.ones((1, 1), x.dtype))
    raise TypeError(
        f"in-place {kernel.__name__} keeps the dtype, {dtype}, and the result would be "
        f"{result.dtype}; write x = x op y, or convert the operand with .astype()"
    ) from None


def _other_type(kernel: Callable[..., Any], x: Any) -> TypeError:
    """Return the error for an operand of an in-place operator that cannot become a Blob."""
    what, advice = type(x).__name__, "convert it with numpy.asarray()"
    if isinstance(x, (np.ndarray, np.generic)) and not can_hold(x.dtype):
        what = f"{what} of dtype {x.dtype}"
        advice = "cast it with astype() to a dtype that Blobs support, such as float64"
    return TypeError(
        f"in-place {kernel.__name__} keeps the Blob, and cannot take {what}; {advice}, or write "
        "x = x op y"
    )


def _require_same_shape(
    kernel: Callable[..., Any], shape: tuple[int, ...], other: tuple[int, ...]
) -> None:
    if kernel is corrected.matmul:
        return
    result = np.broadcast_shapes(shape, other)
    if result != shape:
        raise ValueError(
            f"in-place {kernel.__name__} keeps the shape, {shape}, and with an operand of shape "
            f"{other} the result would have {result}"
        )
