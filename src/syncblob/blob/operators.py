"""The operators of the array API: elementwise, except ``@``.

Each returns a new Blob, computed on the accelerator if one of the operands is there. The other
operand may be a Python scalar or an array of any library, on either side of the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected_elementwise
from syncblob.blob.core import BlobCore
from syncblob.blob.elementwise import OPERATOR, binary, unary
from syncblob.blob.inplace import inplace

if TYPE_CHECKING:
    from typing import ClassVar, Self

__all__ = ["Operators"]


class Operators(BlobCore):
    """The operators. In-place operators keep dtype and shape, and need no temporary array."""

    __slots__ = ()

    # Not hashable, because contents change and ``==`` is elementwise.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as Python documents it

    # --- of one Blob -----------------------------------------------------------------------------

    def __neg__(self) -> Self:
        """Return ``-self``."""
        return unary(np.negative, self)

    def __pos__(self) -> Self:
        """Return ``+self``, a copy."""
        return unary(np.positive, self)

    def __abs__(self) -> Self:
        """Return the absolute values."""
        return unary(np.absolute, self)

    def __invert__(self) -> Self:
        """Return ``~self``, the bitwise NOT; for bool, the logical NOT."""
        return unary(np.invert, self)

    # --- comparisons -----------------------------------------------------------------------------

    def __eq__(self, other: object, /) -> Self:  # type: ignore[override]  # elementwise, as in NumPy
        """Compare elementwise: ``self == other``."""
        return binary(np.equal, self, other, OPERATOR)

    def __ne__(self, other: object, /) -> Self:  # type: ignore[override]  # elementwise, as in NumPy
        """Compare elementwise: ``self != other``."""
        return binary(np.not_equal, self, other, OPERATOR)

    def __lt__(self, other: object, /) -> Self:
        """Compare elementwise: ``self < other``."""
        return binary(np.less, self, other, OPERATOR)

    def __le__(self, other: object, /) -> Self:
        """Compare elementwise: ``self <= other``."""
        return binary(np.less_equal, self, other, OPERATOR)

    def __gt__(self, other: object, /) -> Self:
        """Compare elementwise: ``self > other``."""
        return binary(np.greater, self, other, OPERATOR)

    def __ge__(self, other: object, /) -> Self:
        """Compare elementwise: ``self >= other``."""
        return binary(np.greater_equal, self, other, OPERATOR)

    # --- arithmetic ------------------------------------------------------------------------------

    def __add__(self, other: Any, /) -> Self:
        """Add: ``self + other``."""
        return binary(np.add, self, other, OPERATOR)

    def __radd__(self, other: Any, /) -> Self:
        """Add: ``other + self``."""
        return binary(np.add, other, self, OPERATOR)

    def __iadd__(self, other: Any, /) -> Self:
        """Add: ``self += other``."""
        return inplace(np.add, self, other)

    def __sub__(self, other: Any, /) -> Self:
        """Subtract: ``self - other``."""
        return binary(np.subtract, self, other, OPERATOR)

    def __rsub__(self, other: Any, /) -> Self:
        """Subtract: ``other - self``."""
        return binary(np.subtract, other, self, OPERATOR)

    def __isub__(self, other: Any, /) -> Self:
        """Subtract: ``self -= other``."""
        return inplace(np.subtract, self, other)

    def __mul__(self, other: Any, /) -> Self:
        """Multiply: ``self * other``."""
        return binary(np.multiply, self, other, OPERATOR)

    def __rmul__(self, other: Any, /) -> Self:
        """Multiply: ``other * self``."""
        return binary(np.multiply, other, self, OPERATOR)

    def __imul__(self, other: Any, /) -> Self:
        """Multiply: ``self *= other``."""
        return inplace(np.multiply, self, other)

    def __truediv__(self, other: Any, /) -> Self:
        """Divide: ``self / other``."""
        return binary(np.true_divide, self, other, OPERATOR)

    def __rtruediv__(self, other: Any, /) -> Self:
        """Divide: ``other / self``."""
        return binary(np.true_divide, other, self, OPERATOR)

    def __itruediv__(self, other: Any, /) -> Self:
        """Divide: ``self /= other``."""
        return inplace(np.true_divide, self, other)

    def __floordiv__(self, other: Any, /) -> Self:
        """Divide and round down: ``self // other``."""
        return binary(_corrected_elementwise.floor_divide, self, other, OPERATOR)

    def __rfloordiv__(self, other: Any, /) -> Self:
        """Divide and round down: ``other // self``."""
        return binary(_corrected_elementwise.floor_divide, other, self, OPERATOR)

    def __ifloordiv__(self, other: Any, /) -> Self:
        """Divide and round down: ``self //= other``."""
        return inplace(_corrected_elementwise.floor_divide, self, other)

    def __mod__(self, other: Any, /) -> Self:
        """Return the remainder, with the sign of the divisor: ``self % other``."""
        return binary(_corrected_elementwise.remainder, self, other, OPERATOR)

    def __rmod__(self, other: Any, /) -> Self:
        """Return the remainder, with the sign of the divisor: ``other % self``."""
        return binary(_corrected_elementwise.remainder, other, self, OPERATOR)

    def __imod__(self, other: Any, /) -> Self:
        """Return the remainder, with the sign of the divisor: ``self %= other``."""
        return inplace(_corrected_elementwise.remainder, self, other)

    def __divmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(self // other, self % other)``."""
        return self // other, self % other

    def __rdivmod__(self, other: Any, /) -> tuple[Self, Self]:
        """Return the floored quotient and the remainder: ``(other // self, other % self)``."""
        return other // self, other % self

    def __pow__(self, other: Any, modulo: Any = None, /) -> Self:
        """Raise to a power: ``self ** other``. A modulus is refused, as NumPy refuses it."""
        if modulo is not None:
            return NotImplemented
        return binary(_corrected_elementwise.power, self, other, OPERATOR)

    def __rpow__(self, other: Any, /) -> Self:
        """Raise to a power: ``other ** self``."""
        return binary(_corrected_elementwise.power, other, self, OPERATOR)

    def __ipow__(self, other: Any, /) -> Self:  # type: ignore[misc]  # Python has no modulus here
        """Raise to a power: ``self **= other``."""
        return inplace(_corrected_elementwise.power, self, other)

    def __matmul__(self, other: Any, /) -> Self:
        """Multiply matrices: ``self @ other``."""
        return binary(np.matmul, self, other, OPERATOR)

    def __rmatmul__(self, other: Any, /) -> Self:
        """Multiply matrices: ``other @ self``."""
        return binary(np.matmul, other, self, OPERATOR)

    def __imatmul__(self, other: Any, /) -> Self:
        """Multiply matrices: ``self @= other``."""
        return inplace(_corrected_elementwise.matmul, self, other)

    def __and__(self, other: Any, /) -> Self:
        """Compute the bitwise AND: ``self & other``."""
        return binary(np.bitwise_and, self, other, OPERATOR)

    def __rand__(self, other: Any, /) -> Self:
        """Compute the bitwise AND: ``other & self``."""
        return binary(np.bitwise_and, other, self, OPERATOR)

    def __iand__(self, other: Any, /) -> Self:
        """Compute the bitwise AND: ``self &= other``."""
        return inplace(np.bitwise_and, self, other)

    def __or__(self, other: Any, /) -> Self:
        """Compute the bitwise OR: ``self | other``."""
        return binary(np.bitwise_or, self, other, OPERATOR)

    def __ror__(self, other: Any, /) -> Self:
        """Compute the bitwise OR: ``other | self``."""
        return binary(np.bitwise_or, other, self, OPERATOR)

    def __ior__(self, other: Any, /) -> Self:
        """Compute the bitwise OR: ``self |= other``."""
        return inplace(np.bitwise_or, self, other)

    def __xor__(self, other: Any, /) -> Self:
        """Compute the bitwise XOR: ``self ^ other``."""
        return binary(np.bitwise_xor, self, other, OPERATOR)

    def __rxor__(self, other: Any, /) -> Self:
        """Compute the bitwise XOR: ``other ^ self``."""
        return binary(np.bitwise_xor, other, self, OPERATOR)

    def __ixor__(self, other: Any, /) -> Self:
        """Compute the bitwise XOR: ``self ^= other``."""
        return inplace(np.bitwise_xor, self, other)

    def __lshift__(self, other: Any, /) -> Self:
        """Shift the bits to the left: ``self << other``."""
        return binary(np.left_shift, self, other, OPERATOR)

    def __rlshift__(self, other: Any, /) -> Self:
        """Shift the bits to the left: ``other << self``."""
        return binary(np.left_shift, other, self, OPERATOR)

    def __ilshift__(self, other: Any, /) -> Self:
        """Shift the bits to the left: ``self <<= other``."""
        return inplace(np.left_shift, self, other)

    def __rshift__(self, other: Any, /) -> Self:
        """Shift the bits to the right: ``self >> other``."""
        return binary(np.right_shift, self, other, OPERATOR)

    def __rrshift__(self, other: Any, /) -> Self:
        """Shift the bits to the right: ``other >> self``."""
        return binary(np.right_shift, other, self, OPERATOR)

    def __irshift__(self, other: Any, /) -> Self:
        """Shift the bits to the right: ``self >>= other``."""
        return inplace(np.right_shift, self, other)
