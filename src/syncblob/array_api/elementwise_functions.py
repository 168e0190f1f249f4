"""Elementwise functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/elementwise_functions.html

Every function returns a new Blob, except those documented to return a view. Operands are broadcast,
and their dtypes promoted as in NumPy. Every function computes on its operands' device, without a
transfer; if they are on both the CPU and an accelerator, it computes on the accelerator. Functions
of two operands accept a Python scalar as one of them, and beside a Blob an array of any library.
Without a Blob, arrays of other libraries raise a TypeError; `asarray` converts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected_elementwise
from syncblob.blob.compute import apply
from syncblob.blob.elementwise import binary, unary
from syncblob.blob.operands import as_blob

if TYPE_CHECKING:
    from syncblob._blob import Blob

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]


def abs(x: Blob, /) -> Blob:
    """Compute the absolute value; for complex numbers, the modulus."""
    return unary(np.absolute, x)


def acos(x: Blob, /) -> Blob:
    """Compute the inverse cosine, in radians."""
    return unary(np.arccos, x)


def acosh(x: Blob, /) -> Blob:
    """Compute the inverse hyperbolic cosine."""
    return unary(_corrected_elementwise.arccosh, x)


def add(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Add: ``x1 + x2``."""
    return binary(np.add, x1, x2)


def asin(x: Blob, /) -> Blob:
    """Compute the inverse sine, in radians."""
    return unary(np.arcsin, x)


def asinh(x: Blob, /) -> Blob:
    """Compute the inverse hyperbolic sine."""
    return unary(np.arcsinh, x)


def atan(x: Blob, /) -> Blob:
    """Compute the inverse tangent, in radians."""
    return unary(np.arctan, x)


def atan2(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compute the angle, in radians, of the point ``(x2, x1)`` from the positive x axis."""
    return binary(np.arctan2, x1, x2)


def atanh(x: Blob, /) -> Blob:
    """Compute the inverse hyperbolic tangent."""
    return unary(np.arctanh, x)


def bitwise_and(x1: Blob | int, x2: Blob | int, /) -> Blob:
    """Compute the bitwise AND: ``x1 & x2``."""
    return binary(np.bitwise_and, x1, x2)


def bitwise_invert(x: Blob, /) -> Blob:
    """Invert every bit of integers; for bool, the logical NOT."""
    return unary(np.invert, x)


def bitwise_left_shift(x1: Blob | int, x2: Blob | int, /) -> Blob:
    """Shift the bits of `x1` to the left by `x2` places."""
    return binary(np.left_shift, x1, x2)


def bitwise_or(x1: Blob | int, x2: Blob | int, /) -> Blob:
    """Compute the bitwise OR: ``x1 | x2``."""
    return binary(np.bitwise_or, x1, x2)


def bitwise_right_shift(x1: Blob | int, x2: Blob | int, /) -> Blob:
    """Shift the bits of `x1` to the right by `x2` places, keeping the sign."""
    return binary(np.right_shift, x1, x2)


def bitwise_xor(x1: Blob | int, x2: Blob | int, /) -> Blob:
    """Compute the bitwise XOR: ``x1 ^ x2``."""
    return binary(np.bitwise_xor, x1, x2)


def ceil(x: Blob, /) -> Blob:
    """Round up to integers, keeping the dtype of `x`."""
    return unary(_corrected_elementwise.ceil, x)


def clip(x: Blob, /, min: float | Blob | None = None, max: float | Blob | None = None) -> Blob:
    """Clip elements to the range from `min` to `max`.

    Parameters
    ----------
    x
        A Blob of real numbers.
    min, max
        Scalars, or Blobs that broadcast with `x`; None for no bound.

    Returns
    -------
    Blob
        With the dtype of `x`. `max` if `min` is greater than `max`; NaN if an operand is NaN.
    """
    return apply(_clip, as_blob("clip", x, min, max), min, max)


def conj(x: Blob, /) -> Blob:
    """Compute the complex conjugate."""
    return unary(np.conjugate, x)


def copysign(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Return `x1` with the signs of `x2`."""
    return binary(np.copysign, x1, x2)


def cos(x: Blob, /) -> Blob:
    """Compute the cosine of angles in radians."""
    return unary(np.cos, x)


def cosh(x: Blob, /) -> Blob:
    """Compute the hyperbolic cosine."""
    return unary(np.cosh, x)


def divide(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Divide: ``x1 / x2``."""
    return binary(np.true_divide, x1, x2)


def equal(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Compare: ``x1 == x2``."""
    return binary(np.equal, x1, x2)


def exp(x: Blob, /) -> Blob:
    """Compute the exponential function."""
    return unary(np.exp, x)


def expm1(x: Blob, /) -> Blob:
    """Compute ``exp(x) - 1``, accurately for small `x`."""
    return unary(_corrected_elementwise.expm1, x)


def floor(x: Blob, /) -> Blob:
    """Round down to integers, keeping the dtype of `x`."""
    return unary(_corrected_elementwise.floor, x)


def floor_divide(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Divide and round down: ``x1 // x2``."""
    return binary(_corrected_elementwise.floor_divide, x1, x2)


def greater(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compare: ``x1 > x2``."""
    return binary(np.greater, x1, x2)


def greater_equal(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compare: ``x1 >= x2``."""
    return binary(np.greater_equal, x1, x2)


def hypot(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compute ``sqrt(x1**2 + x2**2)`` without needless overflow."""
    return binary(np.hypot, x1, x2)


def imag(x: Blob, /) -> Blob:
    """Return a view of the imaginary parts.

    Raises
    ------
    TypeError
        If `x` is not complex.
    """
    x = as_blob("imag", x)
    if x.dtype.kind != "c":
        raise TypeError(f"imag expects a complex Blob, got dtype {x.dtype}")
    return x.imag


def isfinite(x: Blob, /) -> Blob:
    """Test elements for being finite, neither infinite nor NaN."""
    return unary(np.isfinite, x)


def isinf(x: Blob, /) -> Blob:
    """Test elements for positive or negative infinity."""
    return unary(np.isinf, x)


def isnan(x: Blob, /) -> Blob:
    """Test elements for NaN."""
    return unary(np.isnan, x)


def less(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compare: ``x1 < x2``."""
    return binary(np.less, x1, x2)


def less_equal(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compare: ``x1 <= x2``."""
    return binary(np.less_equal, x1, x2)


def log(x: Blob, /) -> Blob:
    """Compute the natural logarithm."""
    return unary(_corrected_elementwise.log, x)


def log10(x: Blob, /) -> Blob:
    """Compute the logarithm to base 10."""
    return unary(np.log10, x)


def log1p(x: Blob, /) -> Blob:
    """Compute ``log(1 + x)``, accurately for small `x`."""
    return unary(_corrected_elementwise.log1p, x)


def log2(x: Blob, /) -> Blob:
    """Compute the logarithm to base 2."""
    return unary(np.log2, x)


def logaddexp(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Compute ``log(exp(x1) + exp(x2))`` without needless overflow."""
    return binary(np.logaddexp, x1, x2)


def logical_and(x1: Blob | bool, x2: Blob | bool, /) -> Blob:
    """Compute the logical AND."""
    return binary(np.logical_and, x1, x2)


def logical_not(x: Blob, /) -> Blob:
    """Compute the logical NOT."""
    return unary(np.logical_not, x)


def logical_or(x1: Blob | bool, x2: Blob | bool, /) -> Blob:
    """Compute the logical OR."""
    return binary(np.logical_or, x1, x2)


def logical_xor(x1: Blob | bool, x2: Blob | bool, /) -> Blob:
    """Compute the logical XOR."""
    return binary(np.logical_xor, x1, x2)


def maximum(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Return the elementwise maximum; NaN if either operand is NaN."""
    return binary(np.maximum, x1, x2)


def minimum(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Return the elementwise minimum; NaN if either operand is NaN."""
    return binary(np.minimum, x1, x2)


def multiply(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Multiply: ``x1 * x2``."""
    return binary(np.multiply, x1, x2)


def negative(x: Blob, /) -> Blob:
    """Compute ``-x``."""
    return unary(np.negative, x)


def nextafter(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Return the next representable number after `x1`, towards `x2`."""
    return binary(np.nextafter, x1, x2)


def not_equal(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Compare: ``x1 != x2``."""
    return binary(np.not_equal, x1, x2)


def positive(x: Blob, /) -> Blob:
    """Return a copy of `x`."""
    return unary(np.positive, x)


def pow(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Raise to a power: ``x1 ** x2``."""
    return binary(_corrected_elementwise.power, x1, x2)


def real(x: Blob, /) -> Blob:
    """Return the real parts: a view of `x` if it is complex, else `x` itself."""
    x = as_blob("real", x)
    return x.real


def reciprocal(x: Blob, /) -> Blob:
    """Compute ``1 / x``."""
    return unary(np.reciprocal, x)


def remainder(x1: Blob | float, x2: Blob | float, /) -> Blob:
    """Return the remainder of the division, with the sign of `x2`: ``x1 % x2``."""
    return binary(_corrected_elementwise.remainder, x1, x2)


def round(x: Blob, /) -> Blob:
    """Round to the nearest integer, and halves to even, keeping the dtype of `x`."""
    return unary(_corrected_elementwise.rint, x)


def sign(x: Blob, /) -> Blob:
    """Compute the sign: -1, 0 or 1; for complex numbers, ``x / abs(x)``."""
    return unary(_corrected_elementwise.sign, x)


def signbit(x: Blob, /) -> Blob:
    """Test whether the sign bit is set, as it is in -0.0."""
    return unary(np.signbit, x)


def sin(x: Blob, /) -> Blob:
    """Compute the sine of angles in radians."""
    return unary(np.sin, x)


def sinh(x: Blob, /) -> Blob:
    """Compute the hyperbolic sine."""
    return unary(np.sinh, x)


def sqrt(x: Blob, /) -> Blob:
    """Compute the square root."""
    return unary(np.sqrt, x)


def square(x: Blob, /) -> Blob:
    """Compute the square."""
    return unary(np.square, x)


def subtract(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
    """Subtract: ``x1 - x2``."""
    return binary(np.subtract, x1, x2)


def tan(x: Blob, /) -> Blob:
    """Compute the tangent of angles in radians."""
    return unary(np.tan, x)


def tanh(x: Blob, /) -> Blob:
    """Compute the hyperbolic tangent."""
    return unary(_corrected_elementwise.tanh, x)


def trunc(x: Blob, /) -> Blob:
    """Round towards zero to integers, keeping the dtype of `x`."""
    return unary(_corrected_elementwise.trunc, x)


def _clip(xp: Any, x: Any, lower: Any, upper: Any) -> Any:
    if lower is None and upper is None:
        return x.copy()
    # The standard keeps the dtype of x for bounds of any dtype.
    return xp.clip(x, lower, upper).astype(x.dtype, copy=False)
