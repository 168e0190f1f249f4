"""The computations of Caffe's Blob: sums, scaling and updates, for every dtype.

They run on the head's side; on the accelerator for SYNCED, and on the Blob's device if neither side
has all newest contents. The kernels accept NumPy and CuPy arrays. Sums are accumulated in double
precision or 64-bit integers, which is at least as accurate as BLAS in the array's precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Complex, Integral, Real
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.blob.core import BlobCore, newest_side
from syncblob.calls.results import write_by
from syncblob.memory import CONST, SyncedMemory, compute, from_the_start
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.devices import Side

# The number of elements converted at a time, so that temporary arrays fit in the cache.
_BLOCK = 1 << 16

# The dtypes of sums, by the kind of the elements; bfloat16 is of kind V.
_ACCUMULATORS = {
    "b": np.uint64,
    "u": np.uint64,
    "i": np.int64,
    "f": np.float64,
    "V": np.float64,
    "c": np.complex128,
}


# What scales elements, by their kind.
_FACTORS: dict[str, tuple[str, type]] = {
    **dict.fromkeys("iu", ("an integer", Integral)),
    **dict.fromkeys("fV", ("a real number", Real)),
    "c": ("a number", Complex),
}


class CaffeMath(BlobCore):
    """The methods of a Blob that compute what Caffe's do."""

    __slots__ = ()

    def update(self) -> None:
        """Subtract diff from data: one step of gradient descent. In the Blob's dtype.

        Runs where data is newest; diff is transferred there if needed. UNINITIALIZED contents
        count as zeros. TypeError for bool.
        """
        self.require_writable("update")
        if self.dtype.kind == "b":
            raise TypeError("update subtracts, and bool has no subtraction; use an integer dtype")
        side = _head_side(self, self.memory)
        home = self.memory.home(side)
        require_device(home.device, "update")
        diff = self.diff_memory()
        gradient = diff.array(diff.side_of(home), CONST, self.layout, "update")
        place = self.memory, self.layout, side, "update"
        from_the_start(write_by, *place, _subtract, gradient)

    def asum_data(self) -> float | int:
        """Return the sum of absolute values of data; ``|re| + |im|`` for complex ones, as BLAS.

        Runs where data is newest, and so transfers nothing; for a SPLIT Blob, on its device. 0 for
        UNINITIALIZED memory, without allocating it. Floating-point numbers are accumulated in
        float64, integers in 64 bits, where they wrap around.
        """
        return _sum_over(self, self.memory, "abs", "asum_data")

    def asum_diff(self) -> float | int:
        """Return the sum of the absolute values of diff; see `asum_data`."""
        return _sum_over(self, self.existing_diff(), "abs", "asum_diff")

    def sumsq_data(self) -> float | int:
        """Return the sum of squares of data, or of squared moduli of complex numbers.

        Runs and accumulates as `asum_data`.
        """
        return _sum_over(self, self.memory, "square", "sumsq_data")

    def sumsq_diff(self) -> float | int:
        """Return the sum of the squares of diff; see `sumsq_data`."""
        return _sum_over(self, self.existing_diff(), "square", "sumsq_diff")

    def scale_data(self, factor: complex) -> None:
        """Multiply data by a factor in place, in the Blob's dtype.

        Runs where `asum_data` does. UNINITIALIZED memory is unchanged. TypeError if the dtype
        cannot take the factor: a fraction for integers, a complex number for real ones, any for
        bool.
        """
        _scale_memory(self, self.memory, factor, "scale_data")

    def scale_diff(self, factor: complex) -> None:
        """Multiply diff by a factor in place; see `scale_data`."""
        _scale_memory(self, self.existing_diff(), factor, "scale_diff")


def _sum_over(blob: BlobCore, memory: SyncedMemory | None, term: str, reason: str) -> float | int:
    """Sum a term of each element; `term` is the name of a function of the device's library."""
    if memory is None or memory.blank:
        return 0 if blob.dtype.kind in "iub" else 0.0
    side = _head_side(blob, memory)
    home = memory.home(side)
    require_device(home.device, reason)
    array = memory.array(side, CONST, blob.layout, reason)
    return compute(home, _total, getattr(home.namespace, term), array, home.namespace)


def _scale_memory(
    blob: BlobCore, memory: SyncedMemory | None, factor: complex, reason: str
) -> None:
    blob.require_writable(reason)
    _require_factor(factor, blob.dtype)
    if memory is None or memory.blank:
        return
    side = _head_side(blob, memory)
    require_device(memory.home(side).device, reason)
    place = memory, blob.layout, side, reason
    from_the_start(write_by, *place, _scale, factor)


def _head_side(blob: BlobCore, memory: SyncedMemory) -> Side:
    """Return the side on which Caffe computes: the head's, the accelerator, or the device's."""
    newest = newest_side(blob, memory, memory.spans)
    return memory.side_of(blob.home) if newest is None else newest


def _require_factor(factor: complex, dtype: np.dtype[np.generic]) -> None:
    if dtype.kind == "b":
        raise TypeError("bool has no multiplication by numbers; use an integer dtype")
    expected, kind = _FACTORS[dtype.kind]
    if isinstance(factor, (bool, np.bool)) or not isinstance(factor, kind):
        raise TypeError(f"expected {expected} to scale a Blob of dtype {dtype}, got {factor!r}")
    if kind is Integral:
        limits = np.iinfo(dtype.name)
        if not limits.min <= factor <= limits.max:  # type: ignore[operator]  # an integer here
            raise ValueError(f"{factor} does not fit in {dtype}")


# --- kernels -------------------------------------------------------------------------------------


def _subtract(x: Any, gradient: Any) -> None:
    """Subtract a gradient from x in place."""
    x -= gradient


def _scale(x: Any, factor: complex) -> None:
    """Multiply x by a factor in place, in the dtype of x."""
    x *= x.dtype.type(factor)


def _total(term: Callable[[Any], Any], array: Any, xp: ModuleType) -> float | int:
    """Sum a term of each element; of a complex one, those of the real and the imaginary part."""
    total: Any = 0
    for part in _blocks(array):
        numbers = (part.real, part.imag) if part.dtype.kind == "c" else (part,)
        for each in numbers:
            total += xp.sum(term(each)).item()
    # Integer sums wrap around as in a 64-bit accumulator.
    if array.dtype.kind == "i":
        return (int(total) + 2**63) % 2**64 - 2**63
    return int(total) % 2**64 if array.dtype.kind in "ub" else float(total)


def _blocks(array: Any) -> Iterator[Any]:
    """Yield an array piece by piece, in the accumulator's dtype."""
    accumulator = _ACCUMULATORS[array.dtype.kind]
    if not isinstance(array, np.ndarray):
        yield array.astype(accumulator)
        return
    flat = array.reshape(-1) if array.flags.c_contiguous else array.ravel()
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK].astype(accumulator)
