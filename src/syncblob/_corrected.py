"""Elementwise functions where NumPy and CuPy differ from the array API standard.

The functions are composed of ufuncs, which CuPy arrays override through NumPy's protocol, so that
all devices share this code. They have an optional `out`.

The rules are those of the special cases in the standard, version 2025.12
(https://data-apis.org/array-api/2025.12/API_specification/elementwise_functions.html).
"""

from __future__ import annotations

from typing import Any

import numpy as np


def floor_divide(x1: Any, x2: Any, out: Any = None) -> Any:
    """Divide and round down. For infinite operands, the quotient is rounded down, too."""
    result = np.floor_divide(x1, x2)
    if result.dtype.kind == "f":
        # `isinf` takes no Python integers of more than 64 bits.
        x1, x2 = (result.dtype.type(x) if type(x) is int else x for x in (x1, x2))
        infinite = np.isinf(x1) | np.isinf(x2)
        with np.errstate(all="ignore"):
            result = np.where(infinite, np.floor(np.divide(x1, x2)), result)
    if out is not None and type(x2) is float and out.dtype.kind == "V":
        # NumPy computes bfloat16, a void type, as float32 beside a Python float.
        result = result.astype(out.dtype)
    return _put(result, out)


def remainder(x1: Any, x2: Any, out: Any = None) -> Any:
    """Return the remainder of the division, with the sign of `x2`.

    CuPy returns NaN for infinite divisors, and its zeros have no sign.
    """
    native = isinstance(x1, np.ndarray) or isinstance(x2, np.ndarray)
    if native or np.result_type(x1, x2).kind != "f":
        return np.remainder(x1, x2, out)
    result = np.fmod(x1, x2)
    otherwise_signed = np.signbit(result) != np.signbit(x2)
    result = np.where(otherwise_signed & (result != 0), result + x2, result)
    return _put(np.where(result == 0, np.copysign(result, x2), result), out)


def power(x1: Any, x2: Any, out: Any = None) -> Any:
    """Raise to a power. The power 0.5 of either zero is +0, that of either infinity +infinity."""
    if type(x2) is int or (type(x2) is float and x2 != 0.5):  # noqa: PLR2004  # a square root
        return np.power(x1, x2, out)
    roots = np.equal(x2, 0.5)
    # For bfloat16, `result_type` may give another dtype than `power`, or raise.
    if not np.any(roots) or {np.result_type(x).kind for x in (x1, x2)} & {"c", "V"}:
        return np.power(x1, x2, out)
    unsigned = roots & (np.equal(x1, 0) | np.isinf(x1))
    base = np.where(unsigned, abs(x1), x1).astype(np.result_type(x1, x2))
    return np.power(base, x2, out)


def matmul(x1: Any, x2: Any, out: Any = None) -> Any:
    """Multiply matrices into `out`, of the shape of `x1`. NumPy would broadcast the product."""
    axes = np.ndim(x2)
    if not x1.ndim or not 2 <= axes <= max(2, x1.ndim):  # noqa: PLR2004  # a matrix has two axes
        raise ValueError(
            f"in-place matmul keeps the shape, {x1.shape}, and expects stacks of matrices of at "
            f"most as many axes, got an operand of {axes} axes"
        )
    return np.matmul(x1, x2, out)


def expm1(x: Any, out: Any = None) -> Any:
    """Compute ``exp(x) - 1``; by this formula for non-finite and zero complex numbers."""
    result = np.expm1(x, out)
    if result.dtype.kind == "c":
        special = ~np.isfinite(x) | np.equal(x, 0)
        with np.errstate(all="ignore"):
            result = _put(np.where(special, np.exp(x) - 1, result), out)
    return result


def log(x: Any, out: Any = None) -> Any:
    """Compute the natural logarithm; infinite if one part of `x` is, even if the other is NaN."""
    return _infinite_with_a_part(np.log, x, out)


def log1p(x: Any, out: Any = None) -> Any:
    """Compute the natural logarithm of ``1 + x``; infinite in the cases of `log`."""
    return _infinite_with_a_part(np.log1p, x, out)


def _infinite_with_a_part(logarithm: Any, x: Any, out: Any) -> Any:
    if x.dtype.kind != "c":
        return logarithm(x, out)
    result = logarithm(x, np.empty_like(x) if out is None else out)
    result.real[np.isinf(x.real) | np.isinf(x.imag)] = np.inf
    return result


def arccosh(x: Any, out: Any = None) -> Any:
    """Compute the inverse hyperbolic cosine; its imaginary part at ``0 + NaN j`` is π/2."""
    if x.dtype.kind != "c":
        return np.arccosh(x, out)
    result = np.arccosh(x, np.empty_like(x) if out is None else out)
    result.imag[np.equal(x.real, 0) & np.isnan(x.imag)] = np.pi / 2
    return result


def tanh(x: Any, out: Any = None) -> Any:
    """Compute the hyperbolic tangent; its real part is ±1 if the real part of `x` is infinite.

    If the real part is zero, so is that of the result, even if the imaginary part is NaN.
    """
    if x.dtype.kind != "c":
        return np.tanh(x, out)
    # With `out`, because NumPy returns scalars for 0-d arrays, which cannot be written.
    result = np.tanh(x, np.empty_like(x) if out is None else out)
    infinite = np.isinf(x.real)
    result.real[infinite] = np.copysign(1, x.real)[infinite]
    zero = np.equal(x.real, 0)
    result.real[zero] = x.real[zero]
    result.imag[infinite] = np.copysign(0, x.imag)[infinite]
    return result


def sign(x: Any, out: Any = None) -> Any:
    """Return the sign of each element; +0 for both zeros."""
    result = np.sign(x, out)
    if result.dtype.kind in "fc":
        result = np.add(result, 0, out)
    return result


def rint(x: Any, out: Any = None) -> Any:
    """Round to the nearest integer, and halves to even. Integers are copied."""
    return (np.positive if x.dtype.kind in "iu" else np.rint)(x, out)


def _put(result: Any, out: Any) -> Any:
    if out is None:
        return result
    # Assignment would drop leading axes, and convert numbers to bool.
    if result.shape != out.shape:
        raise ValueError(f"expected a result of shape {out.shape}, got {result.shape}")
    if result.dtype != out.dtype:
        raise TypeError(f"expected a result of dtype {out.dtype}, got {result.dtype}")
    out[...] = result
    return out
