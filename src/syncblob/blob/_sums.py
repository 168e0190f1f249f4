"""The four vector operations that Caffe asks of BLAS, for every dtype a Blob can have.

They run on NumPy and CuPy arrays alike. Sums are accumulated in double precision or 64-bit
integers, which is at least as accurate as BLAS in the array's own precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_bfloat16

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = ["asum", "scal", "subtract", "sumsq"]

# Elements converted at a time: the temporary arrays stay in the cache.
_BLOCK = 1 << 16


def asum(array: Any, xp: ModuleType) -> float | int:
    """Sum the absolute values; of a complex number ``|re| + |im|``, as BLAS's scasum does."""
    return _total(array, lambda part: xp.sum(_magnitudes(part, xp)))


def sumsq(array: Any, xp: ModuleType) -> float | int:
    """Sum the squares; of a complex number its squared modulus."""
    return _total(array, lambda part: xp.sum(_squares(part)))


def subtract(x: Any, y: Any) -> None:
    """Subtract x from y in place, in the dtype of y: BLAS's axpy with alpha -1."""
    y -= x


def scal(factor: complex, x: Any) -> None:
    """Multiply x by a factor in place, in the dtype of x."""
    x *= x.dtype.type(factor)


def _total(array: Any, reduce: Any) -> float | int:
    total: Any = 0
    for part in _blocks(array):
        total += reduce(part).item()
    # Integers wrap around like the 64-bit accumulator that this is.
    if array.dtype.kind == "i":
        return (int(total) + 2**63) % 2**64 - 2**63
    return int(total) % 2**64 if array.dtype.kind in "ub" else float(total)


def _blocks(array: Any) -> Iterator[Any]:
    """Yield an array piece by piece, in the accumulator's dtype."""
    accumulator = _accumulator(array.dtype)
    if not isinstance(array, np.ndarray):
        yield array.astype(accumulator)
        return
    flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel()
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK].astype(accumulator)


def _accumulator(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    if dtype.kind == "i":
        return np.dtype(np.int64)
    if dtype.kind in "ub":
        return np.dtype(np.uint64)
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    if dtype.kind == "f" or is_bfloat16(dtype):
        return np.dtype(np.float64)
    raise TypeError(f"there are no sums of dtype {dtype}")


def _magnitudes(part: Any, xp: ModuleType) -> Any:
    if part.dtype.kind == "c":
        return xp.abs(part.real) + xp.abs(part.imag)
    return part if part.dtype.kind == "u" else xp.abs(part)


def _squares(part: Any) -> Any:
    if part.dtype.kind == "c":
        return part.real * part.real + part.imag * part.imag
    return part * part
