"""The operators of the array API: elementwise, except ``@``.

Each returns a new Blob, computed on the accelerator if one of the operands is there. The other
operand may be a Python scalar or an array of any library, on either side of the operator. In-place
operators keep the shape and dtype of the Blob.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import SCALARS, SUPPORTED, can_hold
from syncblob._made_functions import name_made_functions
from syncblob.arrays.foreign import is_array, is_ndarray_like
from syncblob.arrays.native import array_of_tensor
from syncblob.blob.core import BlobCore
from syncblob.calls.engine import Cache, Plan, plans_of
from syncblob.calls.foreign import answer_of, known_form, operator_with
from syncblob.calls.namespace import plans_of_kernel
from syncblob.calls.operands import as_operand, is_number, is_operand
from syncblob.calls.tables import Arguments, Rules, keeps_dtype

if TYPE_CHECKING:
    from syncblob.calls.ndarray_methods import Method


def plans_of_operator(
    name: str, kernel: Callable[..., Any], *, mirrored: bool = False, in_place: bool = False
) -> Cache:
    """Return the plans of an operator by the type of one operand; the other is a Blob.

    `name` is Python's name of it, such as ``"add"``. The Blob is the second operand if `mirrored`.
    In place, an exception leaves the Blob unchanged, except those that NumPy raises while it
    writes: floating-point errors under ``numpy.errstate``, and that of integers to negative powers.
    """
    rules = Rules(kernel.__name__, kernel, kernel, elementwise=True)
    if in_place:
        written: Any = {0: False}
        rules = rules._replace(
            name=f"in-place {kernel.__name__}", written=lambda _: written, check=_check
        )

    def foreign(x1: Any, x2: Any) -> Any:
        like, other = (x2, x1) if mirrored else (x1, x2)
        if not in_place and getattr(other, "requires_grad", False) is True:
            # torch's own operator, which Python tries next, computes the gradient.
            return NotImplemented
        operand: Any = array_of_tensor(other)
        if operand is None or operand.dtype not in SUPPORTED or not like.home.plain:
            operand = as_operand(other, like)
        if operand is NotImplemented:
            # It is neither array nor scalar.
            return (_in_place_with if in_place else operator_with)(name, kernel, x1, x2, like)
        return plans[type(operand)](*((operand, like) if mirrored else (like, operand)))

    def plan(rules: Rules, others: Arguments) -> Callable[..., Any]:
        (kind,) = kinds = [*others.values()]
        kinds.insert(mirrored, BlobCore)
        if not all(map(is_operand, kinds)):
            return foreign
        run = Plan(rules, dict(enumerate(kinds)), foreign, like=int(mirrored)).run
        if in_place or kind is BlobCore.class_of_results or not issubclass(kind, BlobCore):
            return run
        # The result is of the class that NumPy chooses: the other operand's if it is a subclass.
        other = Plan(rules, dict(enumerate(kinds)), foreign, like=int(not mirrored)).run
        return lambda *both: (other if issubclass(kind, type(both[mirrored])) else run)(*both)

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


# --- the methods ----------------------------------------------------------------------------------


def _of_one(kernel: Callable[..., Any], text: str) -> Any:
    plans = plans_of_kernel(kernel)

    def compute(self: Any) -> Any:
        return plans[type(self)](self)

    compute.__doc__ = f"Return ``{text}``."
    return compute


def _of_two(name: str, kernel: Callable[..., Any], sign: str, *, in_place: bool = False) -> Any:
    plans = plans_of_operator(name, kernel, in_place=in_place)

    def compute(self: Any, other: Any, /) -> Any:
        return plans[type(other)](self, other)

    compute.__doc__ = f"{'Compute' if in_place else 'Return'} ``self {sign} other``."
    return compute


_in_place = partial(_of_two, in_place=True)


def _reflected(name: str, kernel: Callable[..., Any], sign: str) -> Any:
    plans = plans_of_operator(name, kernel, mirrored=True)

    def compute(self: Any, other: Any, /) -> Any:
        return plans[type(other)](other, self)

    compute.__doc__ = f"Return ``other {sign} self``."
    return compute


class Operators(BlobCore):
    """The operators. In-place operators keep dtype and shape, and need no temporary array."""

    __slots__ = ()

    # Not hashable, because contents change and ``==`` is elementwise.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as Python documents it

    __neg__: Method = _of_one(np.negative, "-self")
    __pos__: Method = _of_one(np.positive, "+self")
    __abs__: Method = _of_one(np.absolute, "abs(self)")
    __invert__: Method = _of_one(np.invert, "~self")

    __eq__: Method = _of_two("eq", np.equal, "==")  # type: ignore[assignment]  # elementwise, as in NumPy
    __ne__: Method = _of_two("ne", np.not_equal, "!=")  # type: ignore[assignment]  # as ``==``
    __lt__: Method = _of_two("lt", np.less, "<")
    __le__: Method = _of_two("le", np.less_equal, "<=")
    __gt__: Method = _of_two("gt", np.greater, ">")
    __ge__: Method = _of_two("ge", np.greater_equal, ">=")

    __add__: Method = _of_two("add", np.add, "+")
    __radd__: Method = _reflected("add", np.add, "+")
    __iadd__: Method = _in_place("add", np.add, "+=")

    __sub__: Method = _of_two("sub", np.subtract, "-")
    __rsub__: Method = _reflected("sub", np.subtract, "-")
    __isub__: Method = _in_place("sub", np.subtract, "-=")

    __mul__: Method = _of_two("mul", np.multiply, "*")
    __rmul__: Method = _reflected("mul", np.multiply, "*")
    __imul__: Method = _in_place("mul", np.multiply, "*=")

    __truediv__: Method = _of_two("truediv", np.true_divide, "/")
    __rtruediv__: Method = _reflected("truediv", np.true_divide, "/")
    __itruediv__: Method = _in_place("truediv", np.true_divide, "/=")

    __floordiv__: Method = _of_two("floordiv", corrected.floor_divide, "//")
    __rfloordiv__: Method = _reflected("floordiv", corrected.floor_divide, "//")
    __ifloordiv__: Method = _in_place("floordiv", corrected.floor_divide, "//=")

    __mod__: Method = _of_two("mod", corrected.remainder, "%")
    __rmod__: Method = _reflected("mod", corrected.remainder, "%")
    __imod__: Method = _in_place("mod", corrected.remainder, "%=")

    __matmul__: Method = _of_two("matmul", np.matmul, "@")
    __rmatmul__: Method = _reflected("matmul", np.matmul, "@")
    __imatmul__: Method = _in_place("matmul", corrected.matmul, "@=")

    __and__: Method = _of_two("and", np.bitwise_and, "&")
    __rand__: Method = _reflected("and", np.bitwise_and, "&")
    __iand__: Method = _in_place("and", np.bitwise_and, "&=")

    __or__: Method = _of_two("or", np.bitwise_or, "|")
    __ror__: Method = _reflected("or", np.bitwise_or, "|")
    __ior__: Method = _in_place("or", np.bitwise_or, "|=")

    __xor__: Method = _of_two("xor", np.bitwise_xor, "^")
    __rxor__: Method = _reflected("xor", np.bitwise_xor, "^")
    __ixor__: Method = _in_place("xor", np.bitwise_xor, "^=")

    __lshift__: Method = _of_two("lshift", np.left_shift, "<<")
    __rlshift__: Method = _reflected("lshift", np.left_shift, "<<")
    __ilshift__: Method = _in_place("lshift", np.left_shift, "<<=")

    __rshift__: Method = _of_two("rshift", np.right_shift, ">>")
    __rrshift__: Method = _reflected("rshift", np.right_shift, ">>")
    __irshift__: Method = _in_place("rshift", np.right_shift, ">>=")

    # It takes no modulus, like NumPy's.
    __pow__: Method = _of_two("pow", corrected.power, "**")
    __rpow__: Method = _reflected("pow", corrected.power, "**")
    __ipow__: Method = _in_place("pow", corrected.power, "**=")

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(self // other, self % other)``."""
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(other // self, other % self)``."""
        return other // self, other % self


name_made_functions(vars(Operators), "Blob")
