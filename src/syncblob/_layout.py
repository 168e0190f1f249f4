"""Layouts: strides, ranges and views of an array in a memory, without the array."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from syncblob._dtypes import UINT8
from syncblob._shape import Shape, contiguous_strides

# As a rule nothing is mapped at this address: a function that reads a dummy is stopped at once.
_DUMMY_ADDRESS = 1 << 40


class _Dummy:
    """An object from which NumPy makes an array at an address that is never read."""

    __slots__ = ("__array_interface__",)
    __array_interface__: dict[str, Any]


def is_dummy(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is a dummy or a view of one, which has no memory."""
    return isinstance(getattr(array.base, "base", None), _Dummy)


@dataclass(init=False, slots=True, unsafe_hash=True)
class Layout:
    """The layout of an array in a memory: shape, dtype, and strides and offset in bytes.

    Immutable, and independent of a particular memory or side.
    """

    shape: Shape
    dtype: np.dtype[np.generic]
    strides: Shape
    offset: int
    size: int = field(compare=False, repr=False)
    contiguous: bool = field(compare=False, repr=False)
    # The range of the elements in the memory: from the first byte to behind the last. Both are 0 if
    # there are no elements, and so is the offset.
    start: int = field(compare=False, repr=False)
    stop: int = field(compare=False, repr=False)

    def __init__(
        self,
        shape: Shape,
        dtype: np.dtype[np.generic],
        strides: Shape | None = None,
        offset: int = 0,
    ) -> None:
        c_order = contiguous_strides(shape, dtype.itemsize)
        self.shape = shape
        self.dtype = dtype
        self.strides = c_order if strides is None else strides
        self.offset = offset
        self.size = math.prod(shape)
        self.contiguous = (
            self.size == 0
            or self.strides == c_order
            or all(
                dim == 1 or step == c_step
                for dim, step, c_step in zip(shape, self.strides, c_order, strict=True)
            )
        )
        if not self.size:
            self.start = self.stop = self.offset = 0
        elif self.contiguous:
            self.start = offset
            self.stop = offset + self.size * dtype.itemsize
        else:
            reaches = [(dim - 1) * step for dim, step in zip(shape, self.strides, strict=True)]
            self.start = offset + sum(reach for reach in reaches if reach < 0)
            self.stop = offset + sum(reach for reach in reaches if reach > 0) + dtype.itemsize

    @classmethod
    def c_order(cls, shape: Shape, dtype: np.dtype[np.generic], offset: int = 0) -> Layout:
        """Return the layout of a C-contiguous array."""
        return cls(shape, dtype, None, offset)

    @classmethod
    def raw(cls, nbytes: int, offset: int = 0) -> Layout:
        """Return the layout of bytes."""
        return cls((nbytes,), UINT8, None, offset)

    def shift(self, nbytes: int) -> Layout:
        """Return the layout of an array that lies some bytes further on."""
        strides = None if self.contiguous else self.strides
        return Layout(self.shape, self.dtype, strides, self.offset + nbytes)

    @property
    def reach(self) -> tuple[int, int]:
        """The range of the elements in the memory: the start and the stop."""
        return self.start, self.stop

    @property
    def backwards(self) -> bool:
        """Whether any axis has a negative stride, which PyTorch does not support."""
        return min(self.strides, default=0) < 0

    def forwards(self) -> Layout:
        """Return the layout of the same elements with all axes of negative stride reversed."""
        if not self.backwards:
            return self
        if not self.size:
            return Layout.c_order(self.shape, self.dtype, self.offset)
        # The element of the lowest address is the first of the reversed axes.
        return Layout(self.shape, self.dtype, tuple(map(abs, self.strides)), self.start)

    @property
    def reversed_axes(self) -> tuple[int, ...]:
        """The axes along which `forwards` has the elements in the opposite order."""
        if self.contiguous or not self.size or not self.backwards:
            return ()
        axes = enumerate(zip(self.shape, self.strides, strict=True))
        return tuple(axis for axis, (dim, step) in axes if step < 0 and dim > 1)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def gapless(self) -> bool:
        """Whether writing every element writes every byte of the range."""
        if self.contiguous:
            return True
        if self.nbytes != self.stop - self.start:
            return False
        step = self.dtype.itemsize
        axes = zip(self.shape, self.strides, strict=True)
        for dim, stride in sorted(axes, key=lambda axis: abs(axis[1])):
            if dim == 1:
                continue
            if abs(stride) != step:
                return False
            step *= dim
        return True

    def derive(self, view: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Layout:
        """Return the layout of a view that NumPy would make of a dummy, without its elements."""
        array = view(self.dummy())
        address = array.__array_interface__["data"][0]
        return Layout(array.shape, array.dtype, array.strides, address - _DUMMY_ADDRESS)

    def dummy(self) -> np.ndarray[Any, Any]:
        """Return an array with this layout in a memory at an invalid address, always the same."""
        dummy = _Dummy()
        dummy.__array_interface__ = {
            "version": 3,
            "shape": self.shape,
            "typestr": f"|V{self.dtype.itemsize}",
            "data": (_DUMMY_ADDRESS + self.offset, False),
            "strides": self.strides,
        }
        return np.asarray(dummy).view(self.dtype)
