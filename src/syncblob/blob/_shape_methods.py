"""Axes, counts and sizes: Caffe's shape arithmetic, and resize."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

from syncblob import _shape
from syncblob._shape import Layout, as_shape
from syncblob.blob._base import BlobBase
from syncblob.blob._state import NO_BUFFER, NOTHING_KEPT
from syncblob.memory import Access
from syncblob.memory.leases import restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        layout.whole = True
        if layout.nbytes > self._memory.nbytes:
            data = self._memory.successor(layout.nbytes)
            self._replace_memories(data, None, layout, "a growing resize")
        else:
            self._refit(layout, lambda: self._use(self._memory, layout))

    def _assign(  # noqa: PLR0913  # what is written, where, and for what
        self,
        contents: Any,
        layout: Layout,
        side: Side,
        reason: str,
        *,
        diff: bool = False,
        gradient: Any = None,
    ) -> None:
        """Take a shape and contents of that shape, which are written on one side.

        Whatever fails or interrupts it, all of that has been done or nothing.

        Parameters
        ----------
        contents
            An array on that side, of this Blob's dtype.
        layout, side, reason
            The shape, the side, and the operation for the journal.
        diff
            Whether the contents are for diff and not for data. The shape is that of both.
        gradient
            Contents for diff besides; None leaves it as it is.
        """
        old = self._layout
        new = old if layout.shape == old.shape else layout
        written = False

        def write(array: Any) -> None:
            nonlocal written
            # Assignments without a call: no interrupt comes between them.
            array[...] = contents
            written = True
            if new is not old:
                self._placed = new
                self._array = None
                self._buffer = NO_BUFFER
                self._kept = NOTHING_KEPT

        try:
            if new is old:
                memory = self._memory_of(diff=diff)
                memory.write(side, Access.OVERWRITE, old, reason, write)
                return
            self._require_own("resize")
            new.whole = True
            if new.nbytes <= self._memory.nbytes:
                if diff:
                    self._diff_memory()
                self._refit(
                    new,
                    lambda: self._memory_of(diff=diff).write(
                        side, Access.OVERWRITE, new, reason, write
                    ),
                )
                return
            data = self._memory.successor(new.nbytes)
            successor = data.successor(new.nbytes) if diff else None
            (successor or data).write(side, Access.OVERWRITE, new, reason, _fill, contents)
            try:
                self._replace_memories(data, successor, new, reason)
            finally:
                written = self._held is data
        finally:
            if written and gradient is not None:
                try:
                    self._assign(gradient, new, side, reason, diff=True)
                except BaseException:
                    # Half of it is done: an interrupt must not keep the other half from it.
                    self._assign(gradient, new, side, reason, diff=True)
                    raise

    def _refit(self, layout: Layout, finish: Callable[[], None]) -> None:
        """Take a layout within the capacity; fit both memories to it, unless others look at them.

        Parameters
        ----------
        layout
            The new layout.
        finish
            What puts it in the place of the old one. If it fails to, nothing has changed.
        """
        nbytes = layout.nbytes
        # A view of data can reach diff too. No local names for memories: they would be counted.
        alone, diff_alone = self._owns_data_alone(), self._owns_diff_alone()
        # Another Blob's, shared, and too small: from now on this one has its own.
        outgrown = self._diff is not None and nbytes > self._diff.nbytes
        fitting: list[SyncedMemory] = []
        if nbytes > self._memory.used_nbytes or (alone and not self._memory.aliased):
            fitting.append(self._memory)
        if (
            self._diff is not None
            and not outgrown
            and (
                nbytes > self._diff.used_nbytes or (alone and diff_alone and not self._diff.aliased)
            )
        ):
            fitting.append(self._diff)

        def refit() -> None:
            before = [memory.fitted() for memory in fitting]
            try:
                # Under the lock, so that a fork finds that this thread is in the middle of it.
                with self._memory.lock:
                    for memory in fitting:
                        memory.fit(nbytes)
                    finish()
            except BaseException:
                if self._placed is not layout:
                    for memory, fitted in zip(fitting, before, strict=True):
                        memory.refit(fitted)
                raise
            if outgrown:
                self._diff = None

        if self._diff is not None and outgrown:
            self._let_go("a growing resize", [(self._diff, diff_alone)], refit)
        else:
            refit()

    def _replace_memories(
        self, data: SyncedMemory, diff: SyncedMemory | None, layout: Layout, action: str
    ) -> None:
        """Put other memories, and a layout, in the place of both."""
        # First of all: local names are counted.
        alone, diff_alone = self._owns_data_alone(), self._owns_diff_alone()
        given_up = [(self._memory, alone)]
        if self._diff is not None:
            given_up.append((self._diff, diff_alone))

        def replace() -> None:
            self._use(data, layout)
            self._diff = diff

        self._let_go(action, given_up, replace)

    def _let_go(
        self,
        action: str,
        given_up: list[tuple[SyncedMemory, bool]],
        replace: Callable[[], None],
    ) -> None:
        """Give memories up for others, after a warning of all their aliases.

        Parameters
        ----------
        action
            What the warning calls it.
        given_up
            The memories, and of each whether this Blob has it alone: then nobody will see what is
            written into it, and the arrays that it has handed out lose their write permission.
        replace
            What puts others in their place. If it fails to, nothing has changed.
        """

        def let_go() -> None:
            revoked: list[Any] = []
            try:
                for memory, alone in given_up:
                    if alone:
                        memory.revoke(revoked)
                replace()
            except BaseException:
                restore(revoked)
                raise

        (first, _), *others = given_up
        first.leave(action, let_go, *(memory for memory, _ in others))


def _fill(array: Any, contents: Any) -> None:
    array[...] = contents
