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
    operator = plans_of_kernel(kernel)[BlobCore]
    operator.__doc__ = f"Return ``{text}``."
    return operator


def _of_two(name: str, kernel: Callable[..., Any], sign: str, *, mirrored: bool = False) -> Any:
    plans = plans_of_operator(name, kernel, mirrored=mirrored)
    if not mirrored:
        return _of_plans(plans, f"Return ``self {sign} other``.")

    def operator(self: Any, other: Any, /) -> Any:
        return plans[type(other)](other, self)

    operator.__doc__ = f"Return ``other {sign} self``."
    return operator


def _of_plans(plans: Cache, description: str) -> Any:
    def operator(self: Any, other: Any, /) -> Any:
        return plans[type(other)](self, other)

    operator.__doc__ = description
    return operator


def _operators(
    name: str, sign: str, kernel: Callable[..., Any], in_place: Any = None
) -> tuple[_OfTwo, _OfTwo, _OfTwo]:
    """Return an operator, the one that Python calls on the right, and that in place."""
    return (
        _of_two(name, kernel, sign),
        _of_two(name, kernel, sign, mirrored=True),
        _of_plans(plans_in_place(name, in_place or kernel), f"Compute ``self {sign}= other``."),
    )


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

    __add__, __radd__, __iadd__ = _operators("add", "+", np.add)
    __sub__, __rsub__, __isub__ = _operators("sub", "-", np.subtract)
    __mul__, __rmul__, __imul__ = _operators("mul", "*", np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators("truediv", "/", np.true_divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(
        "floordiv", "//", corrected.floor_divide
    )
    __mod__, __rmod__, __imod__ = _operators("mod", "%", corrected.remainder)
    __matmul__, __rmatmul__, __imatmul__ = _operators("matmul", "@", np.matmul, corrected.matmul)
    __and__, __rand__, __iand__ = _operators("and", "&", np.bitwise_and)
    __or__, __ror__, __ior__ = _operators("or", "|", np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _operators("xor", "^", np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = _operators("lshift", "<<", np.left_shift)
    __rshift__, __rrshift__, __irshift__ = _operators("rshift", ">>", np.right_shift)
    # It takes no modulus, like NumPy's.
    __pow__, __rpow__, __ipow__ = _operators("pow", "**", corrected.power)

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(self // other, self % other)``."""
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(other // self, other % self)``."""
        return other // self, other % self


name_made_functions(vars(Operators), "Blob")
