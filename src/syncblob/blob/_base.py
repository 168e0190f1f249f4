"""A Blob's plain attributes, and how the files above this one get at its arrays."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import as_dtype, is_bfloat16
from syncblob._shape import Layout, as_shape
from syncblob.blob._state import BlobState, making_lock
from syncblob.devices import HOST, Side
from syncblob.memory import Access, Head, SyncedMemory
from syncblob.transfers import recording

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import ClassVar, SupportsIndex

    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    from syncblob.blob._state import HostView
    from syncblob.devices import Device

__all__ = ["BlobBase"]

# References to a memory that only one Blob holds, as sys.getrefcount sees them: the Blob's and
# that of the call.
_SOLE = 2


class BlobBase(BlobState):
    """Attributes, which move nothing, and the plumbing."""

    __slots__ = ()

    # Contents change, and in the array API equality is element by element: no key for a dict.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # the documented way to say so

    def __init__(
        self,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike = "float32",
        *,
        device: Device | str | None = None,
    ) -> None:
        resolved = as_dtype(dtype)
        layout = Layout.c_order(as_shape(shape, resolved.itemsize), resolved)
        self._fill(SyncedMemory(layout.nbytes, device=device), layout)

    # --- attributes ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        array = self._array
        shape: tuple[int, ...] = self._layout.shape if array is None else array.shape
        return shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The data type of the elements, in data and in diff."""
        array = self._array
        dtype: np.dtype[np.generic] = self._layout.dtype if array is None else array.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def num_axes(self) -> int:
        """The number of axes. Caffe's name."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; 1 for a Blob without axes."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements of data, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self._layout.strides

    @property
    def device(self) -> Device:
        """Where data was last written, and so where it is computed on. Reading never changes it.

        Before the first write it is the device asked for.
        """
        held = self._held
        return self._home.device if held is None else held.device

    @property
    def head(self) -> Head:
        """Where the newest contents of data are."""
        return self._memory.head

    @property
    def diff_head(self) -> Head:
        """Where the newest contents of diff are. Does not create diff."""
        diff = self._existing_diff()
        return Head.UNINITIALIZED if diff is None else diff.head

    @property
    def memory(self) -> SyncedMemory:
        """The memory of data, which views and Blobs that share data have in common."""
        return self._memory

    def __len__(self) -> int:
        """Return the first dimension.

        Raises
        ------
        TypeError
            If there is no axis.
        """
        shape = self.shape
        if not shape:
            raise TypeError("a Blob without axes has no length")
        return shape[0]

    def __repr__(self) -> str:
        """Show shape, dtype, device and head. Never moves anything."""
        const = ", const" if self._readonly else ""
        return (
            f"Blob(shape={self.shape}, dtype={self.dtype.name}, device={self.device}, "
            f"head={self.head.name}{const})"
        )

    # --- the plumbing ----------------------------------------------------------------------------

    def _memory_of(self, *, diff: bool) -> SyncedMemory:
        """Return the memory of diff, created where it must be, or that of data."""
        return self._diff_memory() if diff else self._memory

    def _meet(self, partner: SyncedMemory, side: Side) -> None:
        """Put another memory on this Blob's accelerator, for work with it on a side.

        Raises
        ------
        DeviceMismatchError
            If it is on another one.
        """
        accelerator = self._memory.accelerator
        if side is Side.ACCELERATOR and accelerator is not None:
            partner.bind(accelerator)

    def _lend(self, side: Side, access: Access, reason: str, *, diff: bool = False) -> Any:
        """Return a borrow of data or diff; see `SyncedMemory.lend`."""
        if access is not Access.CONST:
            self._require_writable(reason)
        return self._memory_of(diff=diff).lend(side, access, self._layout, reason)

    def _array_on(self, side: Side, access: Access, reason: str) -> Any:
        """Return an array over data for work that is over soon; see `SyncedMemory.array`."""
        if access is not Access.CONST:
            self._require_writable(reason)
        return self._memory.array(side, access, self._layout, reason)

    def _read_host(self, reason: str) -> NDArray[Any]:
        """Return a read-only array over data on the host; the const path in a hurry."""
        kept = self._host_view
        if kept is not None:
            held: Any = self._held
            if held._sole is kept[0] or (held.host_if_newest() is kept[0] and not recording()):
                return kept[1].view()
        array: NDArray[Any] = self._memory.array(Side.HOST, Access.CONST, self._layout, reason)
        self._host_view = self._templates(self._memory, kept)
        return array

    def _read_host_diff(self, reason: str) -> NDArray[Any]:
        """Do for diff what `_read_host` does for data."""
        memory = self._diff_memory()
        kept = self._diff_view
        if kept is not None and memory.host_if_newest() is kept[0] and not recording():
            return kept[1].view()
        array: NDArray[Any] = memory.array(Side.HOST, Access.CONST, self._layout, reason)
        self._diff_view = self._templates(memory, kept)
        return array

    def _write_host(self, access: Access, reason: str) -> NDArray[Any]:
        """Return a writable borrow of data on the host; see `SyncedMemory.lend`."""
        kept = self._host_view
        if kept is not None:
            held: Any = self._held
            array: NDArray[Any] | None = held.lend_again(kept[0], kept[2])
            if array is not None:
                return array
        array = self._lend(Side.HOST, access, reason)
        self._host_view = self._templates(self._memory, kept)
        return array

    def _write_host_diff(self, access: Access, reason: str) -> NDArray[Any]:
        """Do for diff what `_write_host` does for data."""
        self._require_writable(reason)
        memory = self._diff_memory()
        kept = self._diff_view
        array: NDArray[Any] | None = None
        if kept is not None:
            array = memory.lend_again(kept[0], kept[2])
        if array is None:
            array = memory.lend(Side.HOST, access, self._layout, reason)
            self._diff_view = self._templates(memory, kept)
        return array

    def _templates(self, memory: SyncedMemory, kept: HostView | None) -> HostView | None:
        """Make the arrays over a host buffer that borrows and exports are made from."""
        # For the sake of the next time: then one comparison tells that nothing has changed.
        memory.sole_buffer()
        buffer = memory.host_if_newest()
        if buffer is None or (kept is not None and kept[0] is buffer):
            return kept
        layout = self._layout
        const = HOST.view(buffer, layout, writable=False)
        writable = None
        # NumPy exports no bfloat16.
        if not self._readonly and not is_bfloat16(layout.dtype):
            writable = HOST.view(buffer, layout, writable=True)
        return buffer, const, writable

    def _require_writable(self, action: str) -> None:
        if self._readonly:
            raise ValueError(
                f"{action} writes, and this Blob is a const view; use the Blob it was taken from"
            )

    def _existing_diff(self) -> SyncedMemory | None:
        base: BlobBase | None = self._base
        if base is not None and base._memory is self._memory:
            diff = base._existing_diff()
            if diff is None or diff.nbytes >= self._layout.end:
                return diff
        return self._diff

    def _diff_memory(self) -> SyncedMemory:
        """Return the memory of diff; created here, with the capacity of data."""
        base: BlobBase | None = self._base
        if base is not None and base._memory is self._memory:
            diff = base._diff_memory()
            # A smaller one may have been shared into the base since.
            if diff.nbytes >= self._layout.end:
                return diff
        if self._diff is None:
            diff = self._memory.successor(self._memory.nbytes)
            diff.fit(self._memory.used_nbytes)
            with making_lock:
                if self._diff is None:
                    self._diff = diff
        return self._diff

    def _owns_data_alone(self) -> bool:
        """Tell whether no other Blob or view can see the memory of data.

        CPython counts the references for us. A reference held elsewhere for a moment makes the
        answer False, which is the careful one.
        """
        return sys.getrefcount(self._memory) <= _SOLE

    def _owns_diff_alone(self) -> bool:
        """Tell whether no other Blob or view can see the memory of diff."""
        return sys.getrefcount(self._diff) <= _SOLE
