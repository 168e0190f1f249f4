"""Elementwise operations and ``@``: of the operators of Blob, and of the array API's functions.

In-place operators keep the shape and dtype of the Blob.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import SCALARS, SUPPORTED, can_hold
from syncblob.arrays.foreign import is_array, is_ndarray_like
from syncblob.arrays.native import array_of_tensor
from syncblob.blob.core import BlobCore
from syncblob.calls.engine import Cache, Plan, plans_of
from syncblob.calls.foreign import answer_of, by_array, has_operator, known_form
from syncblob.calls.operands import converted, is_number, refusal, with_blobs
from syncblob.calls.tables import Rules, keeps_dtype
from syncblob.devices import HOST
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds


def _rules(kernel: Callable[..., Any]) -> Rules:
    return Rules(kernel.__name__, kernel, kernel, elementwise=True)


def _plans_of_operands(rules: Rules, foreign: Callable[..., Any], blob: int | None = None) -> Cache:
    """Return plans by the types of operands; with others than arrays and numbers, of `foreign`.

    If one operand is always a Blob, `blob` is its position, and its type is not in the keys.
    """

    def plan(rules: Rules, others: Kinds) -> Callable[..., Any]:
        kinds = [*others.values()]
        if blob is not None:
            kinds.insert(blob, BlobCore)
        blobs = [n for n, kind in enumerate(kinds) if issubclass(kind, BlobCore)]
        known = {*SCALARS, np.ndarray, *(kinds[n] for n in blobs)}
        if not (blobs and known.issuperset(kinds)):
            return foreign
        like = blobs[0] if blob is None else blob
        return Plan(rules, dict(enumerate(kinds)), foreign, like=like).run

    return plans_of(rules._replace(plan=plan))


def plans_of_kernel(kernel: Callable[..., Any]) -> Cache:
    """Return the plans of a function that computes a kernel elementwise, in a new Blob.

    The operands are Blobs; one may be a scalar or an array of any library. Without a Blob, NumPy's
    scalars become Blobs.
    """

    def foreign(*operands: Any) -> Any:
        if any(x is None for x in operands):
            # `with_blobs` keeps None, and NumPy would compute an array of objects.
            raise refusal(kernel.__name__, None)
        blobs = with_blobs(kernel.__name__, operands)
        return plans[tuple(map(type, blobs))](*blobs)

    plans = _plans_of_operands(_rules(kernel), foreign)
    return plans


def plans_of_operator(name: str, kernel: Callable[..., Any], *, mirrored: bool = False) -> Cache:
    """Return the plans of an operator by the type of one operand; the other is a Blob.

    `name` is Python's name of it, such as ``"add"``. The Blob is the second operand if `mirrored`.
    Operators also take arrays of other libraries.
    """

    def foreign(x1: Any, x2: Any) -> Any:
        like, other = (x2, x1) if mirrored else (x1, x2)
        if getattr(other, "requires_grad", False) is True:
            # torch's own operator, which Python tries next, computes the gradient.
            return NotImplemented
        operand: Any = array_of_tensor(other)
        if operand is None or operand.dtype not in SUPPORTED or not like.home.plain:
            operand = converted(other, like)
        if operand is NotImplemented:
            answer, operand = _by_foreign(name, kernel, x1, x2, like)
            if operand is NotImplemented:
                return answer
        return plans[type(operand)](*((operand, like) if mirrored else (like, operand)))

    plans = _plans_of_operands(_rules(kernel), foreign, int(mirrored))
    return plans


def _by_foreign(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, like: Any) -> Any:
    """Compute an operator with an object that is no array, as ndarray's operators do.

    Returns the result, or an operand that the object becomes; NotImplemented for what is not.
    """
    mirrored = like is x1
    other = x2 if mirrored else x1
    answer = operand = NotImplemented
    if is_ndarray_like(other):
        answer = by_array(name, kernel, x1, x2, like)
    elif is_number(other) or (
        # Python would call sequences and other numbers unequal.
        kernel in {np.equal, np.not_equal}
        and isinstance(other, (Number, Sequence))
        and not hasattr(type(other), "__array_ufunc__")
    ):
        answer = answer_of(name, kernel, like, other) if mirrored else NotImplemented
        array = np.asarray(other)
        if answer is NotImplemented and array.dtype.hasobject:
            # Python compares these, on the host.
            require_device(HOST.device, kernel.__name__)
            answer = like.asarray(kernel(np.asarray(like), array), device=like.device)
        elif answer is NotImplemented:
            operand = converted(array, like)
    elif not (like.shape or isinstance(other, Sequence)) and has_operator(
        name, other, mirrored=mirrored
    ):
        answer = by_array(name, kernel, x1, x2, like)
    return answer, operand


# --- in place ------------------------------------------------------------------------------------


def plans_in_place(name: str, kernel: Callable[..., Any]) -> Cache:
    """Return the plans of an in-place operator by the type of the second operand.

    An exception leaves the Blob unchanged, except those that NumPy raises while it writes:
    floating-point errors under ``numpy.errstate``, and that of integers to negative powers.
    """

    def foreign(like: Any, x2: Any) -> Any:
        operand: Any = array_of_tensor(x2)
        if operand is None or operand.dtype not in SUPPORTED or not like.home.plain:
            operand = converted(x2, like)
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

    rules = Rules(
        f"in-place {kernel.__name__}",
        kernel,
        kernel,
        lambda *_: {0: False},
        elementwise=True,
        check=_check,
    )
    plans = _plans_of_operands(rules, foreign, 0)
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
