"""Elementwise functions where NumPy and CuPy differ from the array API standard.

Each is made of ufuncs, which CuPy's arrays take over by NumPy's own protocol, so that one text
serves all devices. Those of two arguments write into `out` where one is given.

The rules are those of the special cases in the standard, version 2025.12
(https://data-apis.org/array-api/2025.12/API_specification/elementwise_functions.html).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "arccosh",
    "ceil",
    "expm1",
    "floor",
    "floor_divide",
    "log",
    "log1p",
    "matmul",
    "power",
    "remainder",
    "rint",
    "sign",
    "tanh",
    "trunc",
]

_FLOATING = "fc"
_WHOLE = "iu"


def floor_divide(x1: Any, x2: Any, out: Any = None) -> Any:
    """Divide and round down. Where an operand is infinite: the quotient, rounded down."""
    result = np.floor_divide(x1, x2)
    if result.dtype.kind == "f":
        infinite = np.isinf(x1) | np.isinf(x2)
        with np.errstate(all="ignore"):
            result = np.where(infinite, np.floor(np.divide(x1, x2)), result)
    return _put(result, out)


def remainder(x1: Any, x2: Any, out: Any = None) -> Any:
    """Divide and return the remainder, with the sign of `x2`.

    CuPy's is undefined for infinite divisors, and its zeros have no sign.
    """
    native = isinstance(x1, np.ndarray) or isinstance(x2, np.ndarray)
    if native or np.result_type(x1, x2).kind != "f":
        return np.remainder(x1, x2, out)
    result = np.fmod(x1, x2)
    otherwise_signed = np.signbit(result) != np.signbit(x2)
    result = np.where(otherwise_signed & (result != 0), result + x2, result)
    return _put(np.where(result == 0, np.copysign(result, x2), result), out)


def power(x1: Any, x2: Any, out: Any = None) -> Any:
    """Raise to a power. The square root of a zero or of an infinity has no sign."""
    roots = np.equal(x2, 0.5)
    if not np.any(roots) or np.result_type(x1, x2).kind != "f":
        return np.power(x1, x2, out)
    unsigned = roots & (np.equal(x1, 0) | np.isinf(x1))
    base = np.where(unsigned, abs(x1), x1).astype(np.result_type(x1, x2))
    return np.power(base, x2, out)


def matmul(x1: Any, x2: Any, out: Any = None) -> Any:
    """Multiply matrices into `out`, of the shape of `x1`. NumPy alone would broadcast the product.

    Raises
    ------
    ValueError
        If the product has another shape.
    """
    axes = np.ndim(x2)
    if not x1.ndim or not 2 <= axes <= max(2, x1.ndim):  # noqa: PLR2004  # a matrix has two axes
        raise ValueError(
            f"in-place matmul keeps the shape, {x1.shape}, and expects stacks of matrices of at "
            f"most as many axes, got an operand of {axes} axes"
        )
    return np.matmul(x1, x2, out)


def expm1(x: Any) -> Any:
    """Compute ``exp(x) - 1``; of infinite, undefined and zero complex numbers in just this way."""
    result = np.expm1(x)
    if result.dtype.kind == "c":
        special = ~np.isfinite(x) | np.equal(x, 0)
        with np.errstate(all="ignore"):
            result = np.where(special, np.exp(x) - 1, result)
    return result


def log(x: Any) -> Any:
    """Compute the natural logarithm: infinite where one part is, even if the other is undefined."""
    return _infinite_with_a_part(np.log, x)


def log1p(x: Any) -> Any:
    """Compute the natural logarithm of ``1 + x``; infinite as `log` is."""
    return _infinite_with_a_part(np.log1p, x)


def _infinite_with_a_part(logarithm: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return logarithm(x)
    result = logarithm(x, out=np.empty_like(x))
    result.real[np.isinf(x.real) | np.isinf(x.imag)] = np.inf
    return result


def arccosh(x: Any) -> Any:
    """Compute the inverse hyperbolic cosine: π/2 is the imaginary part at 0 and undefined."""
    if x.dtype.kind != "c":
        return np.arccosh(x)
    result = np.arccosh(x, out=np.empty_like(x))
    result.imag[np.equal(x.real, 0) & np.isnan(x.imag)] = np.pi / 2
    return result


def tanh(x: Any) -> Any:
    """Compute the hyperbolic tangent: ±1, with the sign of the real part, at its infinities.

    Where the real part is a zero, so is that of the result, also if the rest is undefined.
    """
    if x.dtype.kind != "c":
        return np.tanh(x)
    # Into an array: what NumPy returns for one without axes cannot be written.
    result = np.tanh(x, out=np.empty_like(x))
    infinite = np.isinf(x.real)
    result.real[infinite] = np.copysign(1, x.real)[infinite]
    zero = np.equal(x.real, 0)
    result.real[zero] = x.real[zero]
    result.imag[infinite] = np.copysign(0, x.imag)[infinite]
    return result


def sign(x: Any) -> Any:
    """Return the sign of each element; that of either zero is +0."""
    result = np.sign(x)
    if result.dtype.kind in _FLOATING:
        result = np.add(result, 0)
    return result


def ceil(x: Any) -> Any:
    """Round up. Integers are what they were."""
    return x.copy() if x.dtype.kind in _WHOLE else np.ceil(x)


def floor(x: Any) -> Any:
    """Round down. Integers are what they were."""
    return x.copy() if x.dtype.kind in _WHOLE else np.floor(x)


def rint(x: Any) -> Any:
    """Round to the nearest whole number, halves to even. Integers are what they were."""
    return x.copy() if x.dtype.kind in _WHOLE else np.rint(x)


def trunc(x: Any) -> Any:
    """Round towards zero. Integers are what they were."""
    return x.copy() if x.dtype.kind in _WHOLE else np.trunc(x)


def _put(result: Any, out: Any) -> Any:
    if out is None:
        return result
    # Assignment would drop axes, and would make truth values of numbers.
    if result.shape != out.shape:
        raise ValueError(f"expected a result of shape {out.shape}, got {result.shape}")
    if result.dtype != out.dtype:
        raise TypeError(f"expected a result of dtype {out.dtype}, got {result.dtype}")
    out[...] = result
    return out
