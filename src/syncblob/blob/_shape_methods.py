"""Axes, counts and sizes: Caffe's shape arithmetic, and resize."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

from syncblob import _shape
from syncblob._shape import Layout, as_shape
from syncblob.blob._base import BlobBase
from syncblob.blob._state import NOTHING_KEPT
from syncblob.memory import Access

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.devices import Side
    from syncblob.memory import SyncedMemory

__all__ = ["ShapeMethods", "shape_from"]

_LEGACY_AXES = 4


def shape_from(
    shape: tuple[SupportsIndex | Iterable[SupportsIndex], ...],
) -> SupportsIndex | Iterable[SupportsIndex]:
    """Accept a shape as one argument or as one argument for each dimension."""
    if len(shape) == 1:
        return shape[0]
    return shape  # type: ignore[return-value]  # as_shape refuses what is not an integer


class ShapeMethods(BlobBase):
    """Caffe's shape arithmetic. Only `resize` and `resize_like` change anything."""

    __slots__ = ()

    def count(self, start: int = 0, end: int | None = None) -> int:
        """Multiply the dimensions of the axes from `start` up to, not including, `end`.

        Parameters
        ----------
        start, end
            Axes with ``0 <= start <= end <= num_axes``; no negative ones, as in Caffe.

        Raises
        ------
        IndexError
            If they are not.
        """
        return _shape.count(self.shape, start, end)

    def canonical_axis_index(self, axis: SupportsIndex) -> int:
        """Turn an axis counted from either end into one counted from the first.

        Raises
        ------
        IndexError
            Unless ``-num_axes <= axis < num_axes``.
        """
        return _shape.canonical_axis(axis, self.shape)

    @property
    def shape_string(self) -> str:
        """The dimensions and the count, spelled as Caffe does: ``"2 3 4 (24)"``."""
        return _shape.shape_string(self.shape)

    def legacy_shape(self, index: SupportsIndex) -> int:
        """Return a dimension of the Blob seen as four-dimensional.

        Parameters
        ----------
        index
            From -4 to 3. Missing axes count as 1: behind the last for ``index >= 0``, before the
            first for ``index < 0``, as in Caffe.

        Raises
        ------
        ValueError
            If the Blob has more than four axes.
        IndexError
            If `index` is out of range.
        """
        index = operator.index(index)
        if self.ndim > _LEGACY_AXES:
            raise ValueError(
                f"num, channels, height and width are for Blobs of up to {_LEGACY_AXES} axes, "
                f"this one has {self.ndim}; use shape"
            )
        if not -_LEGACY_AXES <= index < _LEGACY_AXES:
            raise IndexError(f"expected an index from -4 to 3, got {index}")
        if not -self.ndim <= index < self.ndim:
            return 1
        return self.shape[index]

    @property
    def num(self) -> int:
        """The first dimension of at most four; 1 where there is none."""
        return self.legacy_shape(0)

    @property
    def channels(self) -> int:
        """The second dimension of at most four; 1 where there is none."""
        return self.legacy_shape(1)

    @property
    def height(self) -> int:
        """The third dimension of at most four; 1 where there is none."""
        return self.legacy_shape(2)

    @property
    def width(self) -> int:
        """The fourth dimension of at most four; 1 where there is none."""
        return self.legacy_shape(3)

    def offset(self, *indices: Any) -> int:
        """Return the place of an element in C order, counted in elements.

        Parameters
        ----------
        *indices
            One non-negative integer an axis, or a sequence of them; missing ones are 0.

        Raises
        ------
        IndexError
            If there are too many, or one is out of bounds (Caffe lets ``n == num`` pass).
        """
        if len(indices) == 1 and not _shape.is_integer(indices[0]):
            indices = tuple(indices[0])
        places = tuple(operator.index(index) for index in indices)
        if len(places) > self.ndim or any(
            not 0 <= place < dim for place, dim in zip(places, self.shape, strict=False)
        ):
            raise IndexError(
                f"expected at most {self.ndim} indices from 0 up to the dimensions of "
                f"{self.shape}, got {places}"
            )
        result = 0
        for axis, dim in enumerate(self.shape):
            result = result * dim + (places[axis] if axis < len(places) else 0)
        return result

    def shape_equals(self, other: BlobBase | BlobProto) -> bool:
        """Compare shapes with a Blob or, by Caffe's rules, with a BlobProto.

        A BlobProto with legacy dimensions is compared with ``legacy_shape(-4)`` … ``(-1)``, so
        that a Blob of shape (3, 2) equals (1, 1, 3, 2).
        """
        if isinstance(other, BlobBase):
            return self.shape == other.shape
        from syncblob.caffe import blobproto  # file formats are built on Blobs

        return blobproto.shape_equals(self.shape, other)

    # --- resize ----------------------------------------------------------------------------------

    def resize(self, *shape: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Change the shape in place: Caffe's ``Reshape``. Copies nothing.

        Within the capacity of the memory the contents stay where they are, in C order; elements
        that come into use read as zeros. Beyond it, data and diff are replaced by new memory, the
        contents of both are dropped, and Blobs that shared the old memory keep it. Memory never
        shrinks.

        While a view, another Blob, an alias or the owner of an adopted array can see the memory,
        elements that go out of use keep their values.

        Parameters
        ----------
        *shape
            The new dimensions, or one tuple of them.

        Raises
        ------
        ValueError
            If the shape is impossible, or this Blob is a view. Nothing has changed then.
        """
        self._require_own("resize")
        self._resize_to(Layout.c_order(as_shape(shape_from(shape), self.itemsize), self.dtype))

    def resize_like(self, other: BlobBase) -> None:
        """Take the shape of another Blob; see `resize`."""
        if not isinstance(other, BlobBase):
            raise TypeError(f"resize_like expects a Blob, got {type(other).__name__}; use resize")
        self.resize(other.shape)

    def _require_own(self, action: str) -> None:
        self._require_writable(action)
        if self._base is not None:
            raise ValueError(f"{action} is for a Blob of its own, and this one is a view")
        if not self._layout.contiguous or self._layout.offset:
            raise ValueError(f"{action} is for a C-contiguous Blob, and this one is not; copy it")

    def _resize_to(self, layout: Layout) -> None:
        """Change the layout, and the memories as far as they must."""
        if layout.nbytes > self._memory.nbytes:
            self._replace_memories(self._memory.successor(layout.nbytes), None, "a growing resize")
        else:
            self._refit(layout.nbytes)
        self._set_layout(layout)

    def _resized_array(self, layout: Layout, side: Side, reason: str, *, diff: bool = False) -> Any:
        """Resize, and return an array of the new shape to be overwritten.

        Whatever can fail or warn does so before anything has changed.
        """
        if layout.shape == self.shape:
            return self._memory_of(diff=diff).array(side, Access.OVERWRITE, self._layout, reason)
        self._require_own("resize")
        if layout.nbytes > self._memory.nbytes:
            data = self._memory.successor(layout.nbytes)
            gradient = data.successor(layout.nbytes) if diff else None
            array = (gradient or data).array(side, Access.OVERWRITE, layout, reason)
            self._replace_memories(data, gradient, reason)
            self._set_layout(layout)
            return array
        if diff and self._diff is not None and layout.nbytes > self._diff.nbytes:
            self._give_up_diff(reason)
        self._memory_of(diff=diff).array(side, Access.OVERWRITE, self._layout, reason)
        self._refit(layout.nbytes)
        self._set_layout(layout)
        return self._memory_of(diff=diff).array(side, Access.OVERWRITE, layout, reason)

    def _set_layout(self, layout: Layout) -> None:
        if layout.shape != self.shape:
            self._shape_blob = None
        self._use(self._memory, layout)

    def _refit(self, nbytes: int) -> None:
        """Fit both memories to new bytes in use, as far as nobody else looks at them."""
        if self._diff is not None and nbytes > self._diff.nbytes:
            # Another Blob's, shared, and too small: its own from now on.
            self._give_up_diff("a growing resize")
        # A view of data can reach diff too. No local names for memories: they would be counted.
        alone = self._owns_data_alone()
        if nbytes > self._memory.used_nbytes or (alone and not self._memory.aliased):
            self._memory.fit(nbytes)
        if self._diff is not None and (
            nbytes > self._diff.used_nbytes
            or (alone and self._owns_diff_alone() and not self._diff.aliased)
        ):
            self._diff.fit(nbytes)

    def _replace_memories(self, data: SyncedMemory, diff: SyncedMemory | None, action: str) -> None:
        """Let go of both memories for others. Warns of both before anything changes."""
        self._memory.warn_if_aliased(action)
        if self._diff is not None:
            self._diff.warn_if_aliased(action)
            if self._owns_diff_alone():
                self._diff.abandon()
        if self._owns_data_alone():
            self._memory.abandon()
        self._use(data)
        self._diff = diff

    def _give_up_diff(self, action: str) -> None:
        """Let go of the memory of diff, if there is one."""
        if self._diff is None:
            return
        self._diff.warn_if_aliased(action)
        if self._owns_diff_alone():
            self._diff.abandon()
        self._kept = NOTHING_KEPT
        self._diff = None
