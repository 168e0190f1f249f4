"""Shapes and layouts: the arithmetic of axes, counts, strides and views, without arrays."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from syncblob._dtypes import UINT8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "MAX_AXES",
    "Layout",
    "as_shape",
    "canonical_axis",
    "contiguous_strides",
    "count",
    "is_basic_index",
    "is_integer",
    "legacy_dimension",
    "offset",
    "shape_string",
]

Shape = tuple[int, ...]

# NumPy's own limit.
MAX_AXES = 64
_LEGACY_AXES = 4
_MAX_BYTES = 2**63 - 1
_PHANTOM_ADDRESS = 1 << 40


def as_shape(shape: SupportsIndex | Iterable[SupportsIndex], itemsize: int = 1) -> Shape:
    """Validate a shape.

    Parameters
    ----------
    shape
        One non-negative integer or an iterable of them.
    itemsize
        Bytes of one element.

    Raises
    ------
    TypeError
        If an entry is not an integer.
    ValueError
        If an entry is negative, there are more than 64 axes, or the bytes cannot be addressed.
    """
    entries = (shape,) if is_integer(shape) else shape
    try:
        dims = tuple(map(operator.index, entries))  # type: ignore[arg-type]  # a wrong kind raises the TypeError handled here
    except TypeError:
        raise TypeError(
            f"a shape is an integer or a tuple of integers, got {shape!r}; a Blob of data is made "
            "by syncblob.asarray()"
        ) from None
    if min(dims, default=0) < 0:
        raise ValueError(f"the dimensions of a shape are non-negative, got {dims}")
    if len(dims) > MAX_AXES:
        raise ValueError(f"a shape has at most {MAX_AXES} axes, got {len(dims)}")
    if math.prod(filter(None, dims)) * itemsize > _MAX_BYTES:
        each = f" with {itemsize} bytes an element" if itemsize > 1 else ""
        raise ValueError(f"shape {dims}{each} exceeds 2**63 - 1 bytes")
    return dims


def is_integer(value: object) -> bool:
    """Return whether an object is an integer, which includes 0-d arrays of integers."""
    return hasattr(value, "__index__") and not getattr(value, "shape", ())


def count(shape: Shape, start: int = 0, end: int | None = None) -> int:
    """Return the product of the dimensions from axis `start` up to, but not including, `end`.

    Raises
    ------
    IndexError
        Unless ``0 <= start <= end <= len(shape)``. Negative axes raise, as in Caffe.
    """
    end = len(shape) if end is None else operator.index(end)
    start = operator.index(start)
    if not 0 <= start <= end <= len(shape):
        raise IndexError(
            f"expected 0 <= start <= end <= {len(shape)} for a Blob of {len(shape)} axes, "
            f"got start={start}, end={end}"
        )
    return math.prod(shape[start:end])


def canonical_axis(axis: SupportsIndex, shape: Shape) -> int:
    """Normalize an axis in ``[-n, n)`` to ``[0, n)``.

    Raises
    ------
    IndexError
        If the axis is out of range.
    """
    axis = operator.index(axis)
    if not -len(shape) <= axis < len(shape):
        raise IndexError(
            f"axis {axis} is out of range for a Blob of {len(shape)} axes, shape {shape}"
        )
    return axis % len(shape)


def shape_string(shape: Shape) -> str:
    """Format a shape as Caffe does, with the count: ``"2 3 4 (24)"``."""
    return "".join(f"{dim} " for dim in shape) + f"({math.prod(shape)})"


def legacy_dimension(shape: Shape, index: SupportsIndex) -> int:
    """Return a dimension of a shape as four-dimensional; 1 for missing axes.

    Raises
    ------
    ValueError
        If there are more than four axes.
    IndexError
        Unless ``-4 <= index < 4``.
    """
    index = operator.index(index)
    if len(shape) > _LEGACY_AXES:
        raise ValueError(
            f"num, channels, height and width are for Blobs of up to {_LEGACY_AXES} axes, "
            f"this one has {len(shape)}; use shape"
        )
    if not -_LEGACY_AXES <= index < _LEGACY_AXES:
        raise IndexError(f"expected an index from -4 to 3, got {index}")
    if not -len(shape) <= index < len(shape):
        return 1
    return shape[index]


def offset(shape: Shape, indices: tuple[Any, ...]) -> int:
    """Return the index of an element in C order.

    Parameters
    ----------
    shape
        The dimensions.
    indices
        One non-negative integer for each axis, or a sequence of them; missing ones are 0.

    Raises
    ------
    IndexError
        If there are too many indices, or one is out of bounds.
    """
    if len(indices) == 1 and not is_integer(indices[0]):
        indices = tuple(indices[0])
    places = tuple(operator.index(index) for index in indices)
    if len(places) > len(shape) or any(
        not 0 <= place < dim for place, dim in zip(places, shape, strict=False)
    ):
        raise IndexError(
            f"expected at most {len(shape)} indices from 0 up to the dimensions of "
            f"{shape}, got {places}"
        )
    result = 0
    for axis, dim in enumerate(shape):
        result = result * dim + (places[axis] if axis < len(places) else 0)
    return result


def contiguous_strides(shape: Shape, itemsize: int) -> Shape:
    """Return the strides, in bytes, of a C-contiguous array."""
    strides = []
    step = itemsize
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


def is_basic_index(key: object) -> bool:
    """Return whether an index selects a view: only integers, slices, None and Ellipsis."""
    entries = key if isinstance(key, tuple) else (key,)
    return all(
        entry is None
        or entry is Ellipsis
        or isinstance(entry, slice)
        or (isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool)))
        for entry in entries
    )


class Layout:
    """The layout of an array in a memory: shape, dtype, and strides and offset in bytes.

    Immutable, and independent of a particular memory or side.
    """

    __slots__ = (
        "contiguous",
        "dtype",
        "offset",
        "shape",
        "size",
        "start",
        "stop",
        "strides",
        "view",
        "whole",
    )

    shape: Shape
    dtype: np.dtype[np.generic]
    strides: Shape
    offset: int
    size: int
    contiguous: bool
    # The range of the elements in the memory: from the first byte to behind the last. Both are 0 if
    # there are no elements.
    start: int
    stop: int
    # Whether accesses cover all bytes in use, even if these are more than those of the elements.
    # That is so for a Blob that is not a view and was made smaller while another Blob that shares
    # its memory was not. It then transfers the same bytes as Caffe.
    whole: bool
    # The cached result of `of_view`.
    view: Layout | None

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
        self.whole = False
        self.view = None
        self.contiguous = (
            self.size == 0
            or strides is None
            or all(
                dim == 1 or step == c_step
                for dim, step, c_step in zip(shape, strides, c_order, strict=True)
            )
        )
        if not self.size:
            self.start = self.stop = 0
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
    def dense(cls, array: Any) -> Layout:
        """Return the layout of a C-contiguous array that is the whole memory."""
        layout = cls.__new__(cls)
        layout.shape = array.shape
        layout.dtype = array.dtype
        layout.strides = array.strides
        layout.offset = 0
        layout.size = array.size
        layout.contiguous = True
        layout.start = 0
        layout.stop = array.nbytes
        layout.whole = True
        layout.view = None
        return layout

    @classmethod
    def raw(cls, nbytes: int, offset: int = 0) -> Layout:
        """Return the layout of bytes."""
        return cls((nbytes,), UINT8, None, offset)

    def of_view(self) -> Layout:
        """Return the layout of a view of the same elements, whose accesses cover only these."""
        if not self.whole:
            return self
        if self.view is not None:
            return self.view
        layout = Layout.__new__(Layout)
        layout.shape = self.shape
        layout.dtype = self.dtype
        layout.strides = self.strides
        layout.offset = self.offset
        layout.size = self.size
        layout.contiguous = self.contiguous
        layout.start = self.start
        layout.stop = self.stop
        layout.whole = False
        layout.view = None
        self.view = layout
        return layout

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
        offset = self.offset
        for dim, step in zip(self.shape, self.strides, strict=True):
            offset += min(0, (dim - 1) * step)
        return Layout(self.shape, self.dtype, tuple(map(abs, self.strides)), offset)

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

    def covers(self, nbytes: int) -> bool:
        """Return whether writing every element writes every one of the first `nbytes` bytes."""
        return not self.start and self.stop == nbytes and self.gapless

    def aligned(self, dtype: np.dtype[np.generic]) -> bool:
        """Return whether elements of a dtype in this layout are aligned."""
        return all(step % dtype.alignment == 0 for step in (self.offset, *self.strides))

    def derive(
        self,
        view: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
    ) -> Layout:
        """Return the layout of a view that NumPy would make.

        Parameters
        ----------
        view
            A function that makes a view: indexing, ``reshape(copy=False)``, ``transpose`` … It gets
            a phantom, an array with this layout at an invalid address, so it must not read an
            element or return a scalar.
        """
        return self.of_phantom(view(self.phantom()))

    def phantom(self) -> np.ndarray[Any, Any]:
        """Return an array with this layout in a memory at an invalid address, always the same."""
        return np.asarray(_Phantom(self)).view(self.dtype)

    def of_phantom(self, view: np.ndarray[Any, Any]) -> Layout:
        """Return the layout of a view of this layout's phantom."""
        offset = self.offset
        if view.size:
            offset = view.__array_interface__["data"][0] - _PHANTOM_ADDRESS
        return Layout(view.shape, view.dtype, view.strides, offset)

    def __eq__(self, other: object) -> bool:
        """Compare field by field."""
        if not isinstance(other, Layout):
            return NotImplemented
        return (self.shape, self.dtype, self.strides, self.offset) == (
            other.shape,
            other.dtype,
            other.strides,
            other.offset,
        )

    def __hash__(self) -> int:
        """Hash all fields."""
        return hash((self.shape, self.dtype, self.strides, self.offset))

    def __repr__(self) -> str:
        """Show all fields."""
        return (
            f"Layout(shape={self.shape}, dtype={self.dtype.name}, "
            f"strides={self.strides}, offset={self.offset})"
        )


class _Phantom:
    """An object from which NumPy makes an array at an address that is never read."""

    __slots__ = ("__array_interface__",)

    def __init__(self, layout: Layout) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.shape,
            "typestr": f"|V{layout.dtype.itemsize}",
            "data": (_PHANTOM_ADDRESS + layout.offset, False),
            "strides": layout.strides,
        }
