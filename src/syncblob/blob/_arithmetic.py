"""Copies, sums and updates: what Caffe's Blob computes itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncblob._dtypes import is_bfloat16
from syncblob._shape import Layout
from syncblob.blob import _sums
from syncblob.blob._arrays import write_by
from syncblob.blob._base import BlobBase
from syncblob.blob._guarded import require_device_of
from syncblob.blob._views import Views
from syncblob.devices import Side
from syncblob.guards import require_device
from syncblob.interop.adopt import native_array
from syncblob.memory import Access, Head, SyncedMemory

__all__ = ["Arithmetic"]


class Arithmetic(Views):
    """Caffe's arithmetic. It runs where the head is, SYNCED meaning the accelerator.

    Where no side has all of the contents, it runs on the Blob's device.
    """

    __slots__ = ()

    def copy_from(self, source: Any, *, copy_diff: bool = False, resize: bool = False) -> None:
        """Copy the contents of another Blob, on this Blob's device.

        Where the source has newer contents on the other side, they are transferred first. What
        this Blob held is not.

        Parameters
        ----------
        source
            A Blob of this shape, or any array (then there is no diff to copy). Another dtype is
            converted if that is NumPy's ``same_kind``.
        copy_diff
            Copy diff to diff, and not data.
        resize
            Take the source's shape first where it differs.

        Raises
        ------
        ValueError
            If the shapes differ and `resize` is False; equal counts are not enough, as in Caffe.
        TypeError
            If the dtypes do not convert.
        DeviceMismatchError
            If the two are on different accelerators.
        """
        self._require_writable("copy_from")
        if not isinstance(source, BlobBase):
            if copy_diff:
                raise TypeError(f"copy_diff needs a Blob, got {type(source).__name__}")
            source = self._from_array(native_array(source)[0])
        _require_conversion(source.dtype, self.dtype)
        if source.shape != self.shape and not resize:
            raise ValueError(
                f"copy_from expects shape {self.shape}, got {source.shape}; resize=True takes over "
                "the shape of the source"
            )
        require_device_of("copy_from", self)
        side = self._side
        origin = source._memory_of(diff=copy_diff)
        self._meet(origin, side)
        contents = origin.array(side, Access.CONST, source._layout, "copy_from")
        # No local name for the target: whether it may shrink depends on who holds it.
        self._meet(self._memory_of(diff=copy_diff), side)
        if source.dtype != self.dtype:
            # Before anything is overwritten: a conversion may raise, where the user asks for it.
            contents = self._memory.home(side).compute(contents.astype, self.dtype)
        elif origin is self._memory_of(diff=copy_diff):
            contents = self._memory.home(side).compute(contents.copy)
        layout = Layout.c_order(source.shape, self.dtype)
        self._assign(contents, layout, side, "copy_from", diff=copy_diff)

    def update(self) -> None:
        """Subtract diff from data: one step of gradient descent. In the Blob's dtype.

        Runs where the head of data is; diff is transferred there if it must. UNINITIALIZED
        contents count as zeros.

        Raises
        ------
        TypeError
            For bool.
        """
        self._require_writable("update")
        if self.dtype.kind == "b":
            raise TypeError("update subtracts, and bool has no subtraction; use an integer dtype")
        side = self._head_side(self._memory)
        require_device(self._memory.home(side).device, "update")
        diff = self._diff_memory()
        self._meet(diff, side)
        gradient = diff.array(side, Access.CONST, self._layout, "update")
        data = self._memory.array(side, Access.MUTABLE, self._layout, "update")
        write_by(self._memory, self._layout, side, "update", _sums.subtract, gradient, data)

    def asum_data(self) -> float | int:
        """Return the sum of the absolute values of data; ``|re| + |im|`` of complex ones, as BLAS.

        Runs where the head is, and so transfers nothing; of a SPLIT Blob, on its device. 0 for
        UNINITIALIZED memory, without allocating it. Floating-point numbers are accumulated in
        float64, integers in 64 bits, where they wrap around.
        """
        return self._reduce(self._memory, _sums.asum, "asum_data")

    def asum_diff(self) -> float | int:
        """Return the sum of the absolute values of diff; see `asum_data`."""
        return self._reduce(self._existing_diff(), _sums.asum, "asum_diff")

    def sumsq_data(self) -> float | int:
        """Return the sum of the squares of data, of the squared moduli of complex ones.

        Where and how as `asum_data`.
        """
        return self._reduce(self._memory, _sums.sumsq, "sumsq_data")

    def sumsq_diff(self) -> float | int:
        """Return the sum of the squares of diff; see `sumsq_data`."""
        return self._reduce(self._existing_diff(), _sums.sumsq, "sumsq_diff")

    def scale_data(self, factor: complex) -> None:
        """Multiply data by a factor in place, in the Blob's dtype.

        Where and how as `asum_data`. UNINITIALIZED memory stays as it is.

        Raises
        ------
        TypeError
            If the dtype cannot take the factor: a fraction for integers, a complex number for
            real ones, any for bool.
        """
        self._scale(self._memory, factor, "scale_data")

    def scale_diff(self, factor: complex) -> None:
        """Multiply diff by a factor in place; see `scale_data`."""
        self._scale(self._existing_diff(), factor, "scale_diff")

    # --- how -------------------------------------------------------------------------------------

    def _head_side(self, memory: SyncedMemory) -> Side:
        """Choose the side Caffe computes on: the head's, the accelerator for SYNCED.

        Where the head is neither, it is the side of the device.
        """
        head = memory.head_over(*memory.range_of(self._layout))
        if head in {Head.UNINITIALIZED, Head.SPLIT}:
            return self._side
        return Side.HOST if head is Head.HEAD_AT_CPU else Side.ACCELERATOR

    def _reduce(self, memory: SyncedMemory | None, function: Any, reason: str) -> float | int:
        if memory is None or memory.blank:
            return 0 if self.dtype.kind in "iub" else 0.0
        side = self._head_side(memory)
        require_device(memory.home(side).device, reason)
        array = memory.array(side, Access.CONST, self._layout, reason)
        home = memory.home(side)
        result: float | int = home.compute(function, array, home.namespace)
        return result

    def _scale(self, memory: SyncedMemory | None, factor: complex, reason: str) -> None:
        self._require_writable(reason)
        _require_factor(factor, self.dtype)
        if memory is None or memory.blank:
            return
        side = self._head_side(memory)
        require_device(memory.home(side).device, reason)
        array = memory.array(side, Access.MUTABLE, self._layout, reason)
        write_by(memory, self._layout, side, reason, _sums.scal, factor, array)


def _require_conversion(source: np.dtype[np.generic], target: np.dtype[np.generic]) -> None:
    if is_bfloat16(target):
        fits = source.kind in "fiub" or is_bfloat16(source)
    elif is_bfloat16(source):
        fits = target.kind in "fc"
    else:
        fits = np.can_cast(source, target, casting="same_kind")
    if not fits:
        raise TypeError(f"copy_from does not convert {source} to {target}; use .astype() first")


def _require_factor(factor: complex, dtype: np.dtype[np.generic]) -> None:
    if dtype.kind == "b":
        raise TypeError("bool has no multiplication by numbers; use an integer dtype")
    kinds: tuple[type, ...] = (int, np.integer)
    expected = "an integer"
    if dtype.kind in "fcV":
        expected, kinds = "a real number", (*kinds, float, np.floating)
    if dtype.kind == "c":
        expected, kinds = "a number", (*kinds, complex, np.complexfloating)
    if isinstance(factor, (bool, np.bool)) or not isinstance(factor, kinds):
        raise TypeError(f"expected {expected} to scale a Blob of dtype {dtype}, got {factor!r}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.name)
        if not limits.min <= factor <= limits.max:  # type: ignore[operator]  # an integer here
            raise ValueError(f"{factor} does not fit in {dtype}")
