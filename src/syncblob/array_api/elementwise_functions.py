"""Elementwise functions.

Operands are broadcast, and their dtypes promoted as in NumPy. Functions of two operands accept a
Python scalar as one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from syncblob import _corrected as corrected
from syncblob._made_functions import name_made_functions
from syncblob.calls.namespace import apply, plans_of_kernel
from syncblob.calls.operands import as_blob

if TYPE_CHECKING:
    from syncblob._blob import Blob

    # Functions of one Blob, and of two, one of which may be a Python scalar.
    _One: TypeAlias = Callable[[Blob], Blob]
    _Bools: TypeAlias = Callable[[Blob | bool, Blob | bool], Blob]
    _Ints: TypeAlias = Callable[[Blob | int, Blob | int], Blob]
    _Reals: TypeAlias = Callable[[Blob | float, Blob | float], Blob]
    _Numbers: TypeAlias = Callable[[Blob | complex, Blob | complex], Blob]


def _one(kernel: Callable[..., Any], description: str) -> Any:
    plans = plans_of_kernel(kernel)

    def function(x: Blob, /) -> Blob:
        return plans[type(x)](x)

    function.__doc__ = description
    return function


def _two(kernel: Callable[..., Any], description: str) -> Any:
    plans = plans_of_kernel(kernel)

    def function(x1: Blob | complex, x2: Blob | complex, /) -> Blob:
        return plans[type(x1), type(x2)](x1, x2)

    function.__doc__ = description
    return function


abs: _One = _one(np.absolute, "Compute the absolute value; for complex numbers, the modulus.")
acos: _One = _one(np.arccos, "Compute the inverse cosine, in radians.")
acosh: _One = _one(corrected.arccosh, "Compute the inverse hyperbolic cosine.")
add: _Numbers = _two(np.add, "Add: ``x1 + x2``.")
asin: _One = _one(np.arcsin, "Compute the inverse sine, in radians.")
asinh: _One = _one(np.arcsinh, "Compute the inverse hyperbolic sine.")
atan: _One = _one(np.arctan, "Compute the inverse tangent, in radians.")
atan2: _Reals = _two(
    np.arctan2, "Compute the angle, in radians, of the point ``(x2, x1)`` from the positive x axis."
)
atanh: _One = _one(np.arctanh, "Compute the inverse hyperbolic tangent.")
bitwise_and: _Ints = _two(np.bitwise_and, "Compute the bitwise AND: ``x1 & x2``.")
bitwise_invert: _One = _one(np.invert, "Invert every bit of integers; for bool, the logical NOT.")
bitwise_left_shift: _Ints = _two(
    np.left_shift, "Shift the bits of `x1` to the left by `x2` places."
)
bitwise_or: _Ints = _two(np.bitwise_or, "Compute the bitwise OR: ``x1 | x2``.")
bitwise_right_shift: _Ints = _two(
    np.right_shift, "Shift the bits of `x1` to the right by `x2` places, keeping the sign."
)
bitwise_xor: _Ints = _two(np.bitwise_xor, "Compute the bitwise XOR: ``x1 ^ x2``.")
ceil: _One = _one(np.ceil, "Round up to integers, keeping the dtype of `x`.")
conj: _One = _one(np.conjugate, "Compute the complex conjugate.")
copysign: _Reals = _two(np.copysign, "Return `x1` with the signs of `x2`.")
cos: _One = _one(np.cos, "Compute the cosine of angles in radians.")
cosh: _One = _one(np.cosh, "Compute the hyperbolic cosine.")
divide: _Numbers = _two(np.true_divide, "Divide: ``x1 / x2``.")
equal: _Numbers = _two(np.equal, "Compare: ``x1 == x2``.")
exp: _One = _one(np.exp, "Compute the exponential function.")
expm1: _One = _one(corrected.expm1, "Compute ``exp(x) - 1``, accurately for small `x`.")
floor: _One = _one(np.floor, "Round down to integers, keeping the dtype of `x`.")
floor_divide: _Reals = _two(corrected.floor_divide, "Divide and round down: ``x1 // x2``.")
greater: _Reals = _two(np.greater, "Compare: ``x1 > x2``.")
greater_equal: _Reals = _two(np.greater_equal, "Compare: ``x1 >= x2``.")
hypot: _Reals = _two(np.hypot, "Compute ``sqrt(x1**2 + x2**2)`` without needless overflow.")
isfinite: _One = _one(np.isfinite, "Test elements for being finite, neither infinite nor NaN.")
isinf: _One = _one(np.isinf, "Test elements for positive or negative infinity.")
isnan: _One = _one(np.isnan, "Test elements for NaN.")
less: _Reals = _two(np.less, "Compare: ``x1 < x2``.")
less_equal: _Reals = _two(np.less_equal, "Compare: ``x1 <= x2``.")
log: _One = _one(corrected.log, "Compute the natural logarithm.")
log10: _One = _one(np.log10, "Compute the logarithm to base 10.")
log1p: _One = _one(corrected.log1p, "Compute ``log(1 + x)``, accurately for small `x`.")
log2: _One = _one(np.log2, "Compute the logarithm to base 2.")
logaddexp: _Reals = _two(
    np.logaddexp, "Compute ``log(exp(x1) + exp(x2))`` without needless overflow."
)
logical_and: _Bools = _two(np.logical_and, "Compute the logical AND.")
logical_not: _One = _one(np.logical_not, "Compute the logical NOT.")
logical_or: _Bools = _two(np.logical_or, "Compute the logical OR.")
logical_xor: _Bools = _two(np.logical_xor, "Compute the logical XOR.")
maximum: _Reals = _two(np.maximum, "Return the elementwise maximum; NaN if either operand is NaN.")
minimum: _Reals = _two(np.minimum, "Return the elementwise minimum; NaN if either operand is NaN.")
multiply: _Numbers = _two(np.multiply, "Multiply: ``x1 * x2``.")
negative: _One = _one(np.negative, "Compute ``-x``.")
nextafter: _Reals = _two(
    np.nextafter, "Return the next representable number after `x1`, towards `x2`."
)
not_equal: _Numbers = _two(np.not_equal, "Compare: ``x1 != x2``.")
positive: _One = _one(np.positive, "Return a copy of `x`.")
pow: _Numbers = _two(corrected.power, "Raise to a power: ``x1 ** x2``.")
reciprocal: _One = _one(np.reciprocal, "Compute ``1 / x``.")
remainder: _Reals = _two(
    corrected.remainder, "Return the remainder of the division, with the sign of `x2`: ``x1 % x2``."
)
round: _One = _one(
    corrected.rint, "Round to the nearest integer, and halves to even, keeping the dtype of `x`."
)
sign: _One = _one(
    corrected.sign, "Compute the sign: -1, 0 or 1; for complex numbers, ``x / abs(x)``."
)
signbit: _One = _one(np.signbit, "Test whether the sign bit is set, as it is in -0.0.")
sin: _One = _one(np.sin, "Compute the sine of angles in radians.")
sinh: _One = _one(np.sinh, "Compute the hyperbolic sine.")
sqrt: _One = _one(np.sqrt, "Compute the square root.")
square: _One = _one(np.square, "Compute the square.")
subtract: _Numbers = _two(np.subtract, "Subtract: ``x1 - x2``.")
tan: _One = _one(np.tan, "Compute the tangent of angles in radians.")
tanh: _One = _one(corrected.tanh, "Compute the hyperbolic tangent.")
trunc: _One = _one(np.trunc, "Round towards zero to integers, keeping the dtype of `x`.")

name_made_functions(globals())


def clip(x: Blob, /, min: float | Blob | None = None, max: float | Blob | None = None) -> Blob:
    """Clip real elements to the range from `min` to `max`, scalars or Blobs; None for no bound.

    The result has the dtype of `x`: `max` if `min` is greater than `max`, NaN if an operand is NaN.
    """
    return apply(_clip, as_blob("clip", x, min, max), min, max)


def imag(x: Blob, /) -> Blob:
    """Return a view of the imaginary parts; raise a TypeError if `x` is not complex."""
    x = as_blob("imag", x)
    if x.dtype.kind != "c":
        raise TypeError(f"imag expects a complex Blob, got dtype {x.dtype}")
    return x.imag


def real(x: Blob, /) -> Blob:
    """Return the real parts: a view of `x` if it is complex, else `x` itself."""
    x = as_blob("real", x)
    return x.real


def _clip(xp: Any, x: Any, lower: Any, upper: Any) -> Any:
    if lower is None and upper is None:
        return x.copy()
    # The standard keeps the dtype of x for bounds of any dtype.
    return xp.clip(x, lower, upper).astype(x.dtype, copy=False)
