"""The operators of the array API: elementwise, except ``@``.

Each returns a new Blob, computed on the accelerator if one of the operands is there. The other
operand may be a Python scalar or an array of any library, on either side of the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from syncblob import _corrected as corrected
from syncblob._made_functions import name_made_functions
from syncblob.blob.core import AnyBlob, BlobCore
from syncblob.calls.elementwise import plans_in_place, plans_of_operator
from syncblob.calls.namespace import plans_of_kernel

if TYPE_CHECKING:
    from syncblob.calls.engine import Cache

    class _OfOne(Protocol):
        """The type of an operator of one Blob, as a method."""

        def __get__(self, blob: AnyBlob, owner: Any, /) -> Callable[[], AnyBlob]: ...

    class _OfTwo(Protocol):
        """The type of an operator of a Blob and another operand, as a method."""

        def __get__(self, blob: AnyBlob, owner: Any, /) -> Callable[[Any], AnyBlob]: ...


def _of_one(kernel: Callable[..., Any], text: str) -> Any:
    plans = plans_of_kernel(kernel)

    def operator(self: Any) -> Any:
        return plans[type(self)](self)

    operator.__doc__ = f"Return ``{text}``."
    return operator


def _of_two(name: str, kernel: Callable[..., Any], sign: str) -> Any:
    return _of_plans(plans_of_operator(name, kernel), f"Return ``self {sign} other``.")


def _in_place(name: str, kernel: Callable[..., Any], sign: str) -> Any:
    return _of_plans(plans_in_place(name, kernel), f"Compute ``self {sign}= other``.")


def _of_plans(plans: Cache, description: str) -> Any:
    def operator(self: Any, other: Any, /) -> Any:
        return plans[type(other)](self, other)

    operator.__doc__ = description
    return operator


def _reflected(name: str, kernel: Callable[..., Any], sign: str) -> Any:
    plans = plans_of_operator(name, kernel, mirrored=True)

    def operator(self: Any, other: Any, /) -> Any:
        return plans[type(other)](other, self)

    operator.__doc__ = f"Return ``other {sign} self``."
    return operator


class Operators(BlobCore):
    """The operators. In-place operators keep dtype and shape, and need no temporary array."""

    __slots__ = ()

    # Not hashable, because contents change and ``==`` is elementwise.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as Python documents it

    __neg__: _OfOne = _of_one(np.negative, "-self")
    __pos__: _OfOne = _of_one(np.positive, "+self")
    __abs__: _OfOne = _of_one(np.absolute, "abs(self)")
    __invert__: _OfOne = _of_one(np.invert, "~self")

    __eq__: _OfTwo = _of_two("eq", np.equal, "==")  # type: ignore[assignment]  # elementwise, as in NumPy
    __ne__: _OfTwo = _of_two("ne", np.not_equal, "!=")  # type: ignore[assignment]  # as ``==``
    __lt__: _OfTwo = _of_two("lt", np.less, "<")
    __le__: _OfTwo = _of_two("le", np.less_equal, "<=")
    __gt__: _OfTwo = _of_two("gt", np.greater, ">")
    __ge__: _OfTwo = _of_two("ge", np.greater_equal, ">=")

    __add__: _OfTwo = _of_two("add", np.add, "+")
    __radd__: _OfTwo = _reflected("add", np.add, "+")
    __iadd__: _OfTwo = _in_place("add", np.add, "+")

    __sub__: _OfTwo = _of_two("sub", np.subtract, "-")
    __rsub__: _OfTwo = _reflected("sub", np.subtract, "-")
    __isub__: _OfTwo = _in_place("sub", np.subtract, "-")

    __mul__: _OfTwo = _of_two("mul", np.multiply, "*")
    __rmul__: _OfTwo = _reflected("mul", np.multiply, "*")
    __imul__: _OfTwo = _in_place("mul", np.multiply, "*")

    __truediv__: _OfTwo = _of_two("truediv", np.true_divide, "/")
    __rtruediv__: _OfTwo = _reflected("truediv", np.true_divide, "/")
    __itruediv__: _OfTwo = _in_place("truediv", np.true_divide, "/")

    __floordiv__: _OfTwo = _of_two("floordiv", corrected.floor_divide, "//")
    __rfloordiv__: _OfTwo = _reflected("floordiv", corrected.floor_divide, "//")
    __ifloordiv__: _OfTwo = _in_place("floordiv", corrected.floor_divide, "//")

    __mod__: _OfTwo = _of_two("mod", corrected.remainder, "%")
    __rmod__: _OfTwo = _reflected("mod", corrected.remainder, "%")
    __imod__: _OfTwo = _in_place("mod", corrected.remainder, "%")

    __matmul__: _OfTwo = _of_two("matmul", np.matmul, "@")
    __rmatmul__: _OfTwo = _reflected("matmul", np.matmul, "@")
    __imatmul__: _OfTwo = _in_place("matmul", corrected.matmul, "@")

    __and__: _OfTwo = _of_two("and", np.bitwise_and, "&")
    __rand__: _OfTwo = _reflected("and", np.bitwise_and, "&")
    __iand__: _OfTwo = _in_place("and", np.bitwise_and, "&")

    __or__: _OfTwo = _of_two("or", np.bitwise_or, "|")
    __ror__: _OfTwo = _reflected("or", np.bitwise_or, "|")
    __ior__: _OfTwo = _in_place("or", np.bitwise_or, "|")

    __xor__: _OfTwo = _of_two("xor", np.bitwise_xor, "^")
    __rxor__: _OfTwo = _reflected("xor", np.bitwise_xor, "^")
    __ixor__: _OfTwo = _in_place("xor", np.bitwise_xor, "^")

    __lshift__: _OfTwo = _of_two("lshift", np.left_shift, "<<")
    __rlshift__: _OfTwo = _reflected("lshift", np.left_shift, "<<")
    __ilshift__: _OfTwo = _in_place("lshift", np.left_shift, "<<")

    __rshift__: _OfTwo = _of_two("rshift", np.right_shift, ">>")
    __rrshift__: _OfTwo = _reflected("rshift", np.right_shift, ">>")
    __irshift__: _OfTwo = _in_place("rshift", np.right_shift, ">>")

    # It takes no modulus, like NumPy's.
    __pow__: _OfTwo = _of_two("pow", corrected.power, "**")
    __rpow__: _OfTwo = _reflected("pow", corrected.power, "**")
    __ipow__: _OfTwo = _in_place("pow", corrected.power, "**")

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(self // other, self % other)``."""
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(other // self, other % self)``."""
        return other // self, other % self


name_made_functions(vars(Operators), "Blob")
