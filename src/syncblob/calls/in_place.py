"""In-place operators. The Blob keeps its shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import SCALARS, can_hold
from syncblob.arrays.foreign import is_array, is_ndarray_like
from syncblob.calls.elementwise import operand_of, plans_of_operands
from syncblob.calls.foreign_operators import answer_of, known_form
from syncblob.calls.operands import is_number
from syncblob.calls.tables import keeps_dtype, rules_in_place

if TYPE_CHECKING:
    from syncblob.calls.engine import Plans


def plans_in_place(name: str, kernel: Callable[..., Any]) -> Plans:
    """Return the plans of an in-place operator by the type of the second operand.

    An exception leaves the Blob unchanged, except those that NumPy raises while it writes:
    floating-point errors under ``numpy.errstate``, and that of integers to negative powers.
    """

    def foreign(like: Any, x2: Any) -> Any:
        operand = operand_of(like, x2)
        if operand is not NotImplemented:
            return plans[type(operand)](like, operand)
        if is_array(x2) or isinstance(x2, np.generic):
            raise _other_type(kernel, x2)
        if is_ndarray_like(x2):
            answer = answer_of(name, kernel, known_form(like, x2), x2)
            if answer is NotImplemented or isinstance(answer, np.ndarray):
                # The operator would bind the caller's name to a new array.
                raise _other_type(kernel, x2)
            return answer
        if not is_number(x2):
            return NotImplemented
        answer = answer_of(name, kernel, like, x2)
        if answer is NotImplemented:
            # As a Python scalar, because an array would change the dtype.
            number = np.asarray(x2).item()
            answer = plans[type(number)](like, number)
        return answer

    plans = plans_of_operands(rules_in_place(kernel, _check), foreign, 0)
    return plans


def _check(kernel: Callable[..., Any], x1: Any, x2: Any) -> None:
    """Raise unless a kernel of arrays, Blobs or a scalar keeps the dtype and shape of the first."""
    kind: Any = type(x2)
    if kind is int:
        # Raises for one that does not fit.
        np.asarray(x2, x1.dtype)
    if not keeps_dtype(kernel, x1.dtype, kind if kind in SCALARS else x2.dtype):
        other = x2 if kind in SCALARS else np.ones((1, 1), x2.dtype)
        result = kernel(np.ones((1, 1), x1.dtype), other)
        raise TypeError(
            f"in-place {kernel.__name__} keeps the dtype, {x1.dtype}, and the result would be "
            f"{result.dtype}; write x = x op y, or convert the operand with .astype()"
        ) from None
    shape, other_shape = tuple(x1.shape), tuple(getattr(x2, "shape", ()))
    if kernel is corrected.matmul:
        return
    result_shape = np.broadcast_shapes(shape, other_shape)
    if result_shape != shape:
        raise ValueError(
            f"in-place {kernel.__name__} keeps the shape, {shape}, and with an operand of shape "
            f"{other_shape} the result would have {result_shape}"
        )


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
