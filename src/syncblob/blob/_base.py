"""What a Blob is: two memories, a layout, and its attributes."""

from __future__ import annotations

import math
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import as_dtype
from syncblob._shape import Layout, as_shape
from syncblob.devices import HOST, Side
from syncblob.devices.base import Accelerator
from syncblob.interop.adopt import adopt
from syncblob.memory import Access, Head, SyncedMemory
from syncblob.transfers import recording

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self, SupportsIndex

    from numpy.typing import DTypeLike, NDArray

    from syncblob.devices import Device
    from syncblob.devices.base import Home

__all__ = ["BlobBase"]

# Taken for the moment in which a Blob's memories come to be.
_making_lock = threading.RLock()

_new = object.__new__

# In the place of a buffer: unlike None, it is never the sole buffer of a memory.
_NONE = object()

# References to a memory that only one Blob holds, as sys.getrefcount sees them: the Blob's and
# that of the call.
_SOLE = 2


class BlobBase:
    """The state of a Blob and its plain attributes. Nothing here moves data.

    The result of a computation is a *fresh* Blob: an array and the home it lies in, which nobody
    else has. Its memory is made when something but a computation needs it. From then on the array
    is a mere shortcut: good while the memory has one buffer, and that is the one under the array.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_base",
        "_buffer",
        "_diff",
        "_exposed",
        "_held",
        "_home",
        "_host_view",
        "_placed",
        "_readonly",
        "_shape_blob",
    )

    # An array of data, of this shape, dtype and strides; None where none was made yet.
    _array: Any
    # The home of that array, and the buffer under it; `_NONE` for a fresh Blob.
    _home: Home
    _buffer: Any
    # The memory of data, and how data lies in it. None where they are not made yet: see `_memory`
    # and `_layout`.
    _held: SyncedMemory | None
    _placed: Layout | None
    # None until somebody asks for the gradient.
    _diff: SyncedMemory | None
    # The Blob that a view was taken from: its gradient is the view's gradient too.
    _base: BlobBase | None
    _readonly: bool
    # Buffers whose address went out through __cuda_array_interface__: the consumer keeps the Blob.
    _exposed: tuple[Any, ...]
    _shape_blob: BlobBase | None
    # A layout, a host buffer, and a read-only array over the two, to make further ones from.
    _host_view: tuple[Layout, Any, NDArray[Any]] | None

    # Contents change, and in the array API equality is element by element: no key for a dict.
    __hash__ = None  # type: ignore[assignment]  # the documented way to say so

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

    def _fill(
        self,
        memory: SyncedMemory,
        layout: Layout,
        *,
        diff: SyncedMemory | None = None,
        base: BlobBase | None = None,
        readonly: bool = False,
    ) -> None:
        self._array = None
        self._home = HOST
        self._buffer = _NONE
        self._held = memory
        self._placed = layout
        self._diff = diff
        self._base = base
        self._readonly = readonly
        self._exposed = ()
        self._host_view = None
        self._shape_blob = None

    @classmethod
    def _of(
        cls,
        memory: SyncedMemory,
        layout: Layout,
        *,
        diff: SyncedMemory | None = None,
        base: BlobBase | None = None,
        readonly: bool = False,
    ) -> Self:
        """Make a Blob over an existing memory."""
        blob = cls.__new__(cls)
        blob._fill(memory, layout, diff=diff, base=base, readonly=readonly)
        return blob

    @classmethod
    def _fresh(cls, array: Any, home: Home) -> Self:
        """Make a Blob of an array that nobody else has, in the home where it was computed.

        The array owns its memory, or `adopt` finds nothing against it.
        """
        blob = _new(cls)
        blob._array = array
        blob._home = home
        blob._buffer = _NONE
        blob._held = None
        blob._placed = None
        blob._diff = None
        blob._base = None
        blob._readonly = False
        blob._exposed = ()
        blob._host_view = None
        blob._shape_blob = None
        return blob

    def _view(self, layout: Layout) -> Self:
        """Make a view of this Blob."""
        return self._of(self._memory, layout, base=self._root(), readonly=self._readonly)

    def _view_of_array(self, array: Any) -> Self:
        """Make a view of this Blob from a view of its array, which must be in use."""
        memory = self._memory
        blob = _new(type(self))
        blob._array = array
        blob._home = self._home
        blob._buffer = self._buffer
        blob._held = memory
        blob._placed = None
        blob._diff = None
        base = self._base
        blob._base = self if base is None else base
        blob._readonly = self._readonly
        blob._exposed = ()
        blob._host_view = None
        blob._shape_blob = None
        return blob

    def _root(self) -> BlobBase:
        """Return the Blob that this one is a view of, or this one."""
        return self if self._base is None else self._base

    # --- what is made when it is needed ----------------------------------------------------------

    @property
    def _memory(self) -> SyncedMemory:
        """The memory of data. A fresh Blob gets one now, over its array."""
        held = self._held
        return self._settle() if held is None else held

    @property
    def _layout(self) -> Layout:
        """How data lies in the memory."""
        placed = self._placed
        if placed is None:
            if self._held is None:
                self._settle()
            placed = self._placed
        if placed is None:
            placed = self._placed = self._home.layout(self._array, self._buffer)
        return placed

    def _settle(self) -> SyncedMemory:
        """Make the memory of a fresh Blob, without a copy."""
        with _making_lock:
            if self._held is None:
                home = self._home
                array = self._array
                accelerator = home if isinstance(home, Accelerator) else None
                if array.flags.c_contiguous:
                    memory = SyncedMemory.adopting(
                        Side.HOST if accelerator is None else Side.ACCELERATOR,
                        home.wrap(array),
                        accelerator=accelerator,
                        device=home.device,
                    )
                    layout = Layout.dense(array)
                    self._buffer = memory.sole_buffer()
                else:
                    memory, layout = adopt(
                        array,
                        dtype=None,
                        device=home.device,
                        copy=None,
                        backend=accelerator,
                        owned=True,
                    )
                    self._keep_array(memory, layout, home)
                self._placed = layout
                # Last of all: readers without the lock look at this first.
                self._held = memory
            return self._held

    def _keep_array(self, memory: SyncedMemory, layout: Layout, home: Home) -> None:
        """Make the array that computations use, if the memory has but one buffer."""
        buffer = memory.sole_buffer()
        if buffer is not None:
            self._array = home.view(buffer, layout, writable=not self._readonly)
            self._home = home
            self._buffer = buffer

    def _array_in_use(self) -> bool:
        """Tell whether `_array` is data as it is now, and not under way; make it if it can be."""
        held = self._held
        if held is None:
            held = self._settle()
        if held._sole is not self._buffer and held.head:
            home: Home = held.accelerator or HOST if held.side is Side.ACCELERATOR else HOST
            self._keep_array(held, self._layout, home)
        return held._sole is self._buffer

    def _use(self, memory: SyncedMemory, layout: Layout | None = None) -> None:
        """Put another memory in the place of data's, or keep it with another layout."""
        self._placed = self._layout if layout is None else layout
        self._array = None
        self._buffer = _NONE
        self._host_view = None
        self._held = memory

    def _on_device(self, reason: str) -> tuple[Any, Home]:
        """Return data as an array on this Blob's device, to read, and the home it lies in."""
        held = self._held
        if held is None or held._sole is self._buffer:
            return self._array, self._home
        side = held.side
        layout = self._layout
        array = held.array(side, Access.CONST, layout, reason)
        accelerator = held.accelerator
        home: Home = HOST if side is Side.HOST or accelerator is None else accelerator
        self._keep_array(held, layout, home)
        return array, home

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
        memory = self._memory
        layout = self._layout
        kept = self._host_view
        if (
            kept is not None
            and kept[0] is layout
            and memory.host_if_newest() is kept[1]
            and not recording()
        ):
            return kept[2].view()
        array: NDArray[Any] = memory.array(Side.HOST, Access.CONST, layout, reason)
        buffer = memory.host_if_newest()
        # Another thread may have replaced the buffer meanwhile; then this array is not kept.
        if buffer is not None and np.may_share_memory(array, buffer):
            self._host_view = (layout, buffer, array)
        return array.view()

    def _require_writable(self, action: str) -> None:
        if self._readonly:
            raise ValueError(
                f"{action} writes, and this Blob is a const view; use the Blob it was taken from"
            )

    def _existing_diff(self) -> SyncedMemory | None:
        base = self._base
        if base is not None and base._memory is self._memory:
            diff = base._existing_diff()
            if diff is None or diff.nbytes >= self._layout.end:
                return diff
        return self._diff

    def _diff_memory(self) -> SyncedMemory:
        """Return the memory of diff; created here, with the capacity of data."""
        base = self._base
        if base is not None and base._memory is self._memory:
            diff = base._diff_memory()
            # A smaller one may have been shared into the base since.
            if diff.nbytes >= self._layout.end:
                return diff
        if self._diff is None:
            diff = self._memory.successor(self._memory.nbytes)
            diff.fit(self._memory.used_nbytes)
            with _making_lock:
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
