"""The operators of Blob: elementwise operations and ``@``.

In-place operators keep the shape and dtype of the Blob.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import SCALARS, SUPPORTED, can_hold
from syncblob.arrays.foreign import is_array, is_ndarray_like
from syncblob.arrays.native import array_of_tensor
from syncblob.blob.core import BlobCore
from syncblob.calls.engine import Cache, Plan, plans_of
from syncblob.calls.foreign import answer_of, known_form, operator_with
from syncblob.calls.operands import as_operand, is_number, is_operand
from syncblob.calls.tables import Rules, keeps_dtype

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds


def plans_of_operator(name: str, kernel: Callable[..., Any], *, mirrored: bool = False) -> Cache:
    """Return the plans of an operator by the type of one operand; the other is a Blob.

    `name` is Python's name of it, such as ``"add"``. The Blob is the second operand if `mirrored`.
    Operators also take arrays of other libraries.
    """
    rules = Rules(kernel.__name__, kernel, kernel, elementwise=True)
    return _plans(name, rules, int(mirrored), operator_with)


def plans_in_place(name: str, kernel: Callable[..., Any]) -> Cache:
    """Return the plans of an in-place operator by the type of the second operand.

    An exception leaves the Blob unchanged, except those that NumPy raises while it writes:
    floating-point errors under ``numpy.errstate``, and that of integers to negative powers.
    """
    written: Any = {0: False}
    name_of = f"in-place {kernel.__name__}"
    rules = Rules(name_of, kernel, kernel, lambda _: written, elementwise=True, check=_check)
    return _plans(name, rules, 0, _in_place_with)


def _plans(name: str, rules: Rules, blob: int, compute_with: Callable[..., Any]) -> Cache:
    """Return the plans of an operator by the type of one operand; that at a position is a Blob.

    `compute_with` computes with what is neither array nor scalar.
    """

    def foreign(x1: Any, x2: Any) -> Any:
        like, other = (x2, x1) if blob else (x1, x2)
        if rules.check is None and getattr(other, "requires_grad", False) is True:
            # torch's own operator, which Python tries next, computes the gradient.
            return NotImplemented
        operand: Any = array_of_tensor(other)
        if operand is None or operand.dtype not in SUPPORTED or not like.home.plain:
            operand = as_operand(other, like)
        if operand is NotImplemented:
            return compute_with(name, rules.function, x1, x2, like)
        return plans[type(operand)](*((operand, like) if blob else (like, operand)))

    def plan(rules: Rules, others: Kinds) -> Callable[..., Any]:
        kinds = [*others.values()]
        kinds.insert(blob, BlobCore)
        if not all(map(is_operand, kinds)):
            return foreign
        return Plan(rules, dict(enumerate(kinds)), foreign, like=blob).run

    plans = plans_of(rules._replace(plan=plan))
    return plans


# --- in place ------------------------------------------------------------------------------------


def _in_place_with(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, _blob: Any) -> Any:
    """Compute an in-place operator as `operator_with` does."""
    of_arrays = is_ndarray_like(x2)
    if not (of_arrays or is_number(x2)):
        return NotImplemented
    answer: Any = NotImplemented
    if not (is_array(x2) or isinstance(x2, np.generic)):
        answer = answer_of(name, kernel, known_form(x1, x2) if of_arrays else x1, x2)
    if of_arrays and (answer is NotImplemented or isinstance(answer, np.ndarray)):
        # The operator would bind the caller's name to a new array.
        raise _other_type(kernel, x2)
    if answer is NotImplemented:
        # As a Python scalar, because an array would change the dtype.
        answer = getattr(operator, f"__i{name}__")(x1, np.asarray(x2).item())
    return answer


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
    if kernel is corrected.matmul or other_shape in {shape, ()}:
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
