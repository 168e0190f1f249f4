"""What a Blob consists of: an array, a memory, how data lies in it, and which of them are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._forks import Lock
from syncblob._shape import Layout
from syncblob._source_lines import Place, user_place
from syncblob.devices import HOST, Side
from syncblob.devices.base import Accelerator
from syncblob.interop.adopt import adopt
from syncblob.memory import Access, SyncedMemory

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from syncblob.devices.base import Home

    # A buffer, and arrays over it to make views of: one to read, one to write, and one to export
    # through DLPack; None where that is not possible.
    Kept = tuple[Any, NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]

__all__ = ["NOTHING_KEPT", "NO_BUFFER", "BlobState", "making"]

# Held for the moment in which a memory of a Blob comes to be.
making = Lock()

_new = object.__new__

# In the place of a buffer: unlike None, it is never the sole buffer of a memory.
NO_BUFFER = object()

NO_SHAPE: tuple[None, None] = (None, None)

# For `BlobState._kept`; also where a buffer is given up, so that it is not held for longer.
NOTHING_KEPT = (None,) * 4


class BlobState:
    """The state of a Blob.

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
        "_kept",
        "_placed",
        "_readonly",
        "_shape_blob",
    )

    # An array of data, of this shape, dtype and strides; None where none was made yet.
    _array: Any
    # The home of the Blob's device, where operations run and that array lies.
    _home: Home
    # The buffer under the array. For a fresh Blob `NO_BUFFER`, or the place where the array was
    # taken from somebody who still has it.
    _buffer: Any
    # The memory of data, and how data lies in it. None where they are not made yet: see `_memory`
    # and `_layout`.
    _held: SyncedMemory | None
    _placed: Layout | None
    # None until somebody asks for the gradient.
    _diff: SyncedMemory | None
    # The Blob that a view was taken from, or None: its gradient is the view's gradient too.
    _base: Any
    _readonly: bool
    # Buffers whose address went out through __cuda_array_interface__: the consumer keeps the Blob.
    _exposed: tuple[Any, ...]
    # A shape, and a Blob of it, once somebody asked for it on the accelerator.
    _shape_blob: tuple[tuple[int, ...] | None, Any]
    # For data on the host and on the accelerator and for diff on the two, once they were asked for.
    _kept: tuple[Kept | None, ...]

    def _fill(  # noqa: PLR0913  # what a Blob consists of
        self,
        memory: SyncedMemory,
        layout: Layout,
        *,
        home: Home | None = None,
        diff: SyncedMemory | None = None,
        base: Any = None,
        readonly: bool = False,
    ) -> None:
        self._array = None
        self._home = memory.device_home if home is None else home
        self._buffer = NO_BUFFER
        self._held = memory
        if base is not None:
            layout = layout.of_view()
        elif layout.covers(memory.used_nbytes):
            layout.whole = True
        self._placed = layout
        self._diff = diff
        self._base = base
        self._readonly = readonly
        self._exposed = ()
        self._kept = NOTHING_KEPT
        self._shape_blob = NO_SHAPE

    @classmethod
    def _of(  # noqa: PLR0913  # what a Blob consists of
        cls,
        memory: SyncedMemory,
        layout: Layout,
        *,
        home: Home | None = None,
        diff: SyncedMemory | None = None,
        base: Any = None,
        readonly: bool = False,
    ) -> Self:
        """Make a Blob over an existing memory; its home is that of the memory's device, or another.

        A memory has to be bound to the accelerator that the home is.
        """
        blob = cls.__new__(cls)
        blob._fill(memory, layout, home=home, diff=diff, base=base, readonly=readonly)
        return blob

    @classmethod
    def _fresh(cls, array: Any, home: Home) -> Self:
        """Make a Blob of an array that nobody else has, in the home where it was computed.

        The array owns its memory, or `adopt` finds nothing against it.
        """
        # Each attribute here, and not by `_fill`: a call would take time with each operation.
        blob = _new(cls)
        blob._array = array
        blob._home = home
        blob._buffer = NO_BUFFER
        blob._held = None
        blob._placed = None
        blob._diff = None
        blob._base = None
        blob._readonly = False
        blob._exposed = ()
        blob._kept = NOTHING_KEPT
        blob._shape_blob = NO_SHAPE
        return blob

    @classmethod
    def _lent(cls, array: NDArray[Any]) -> Self:
        """Make a fresh Blob of a view of an array on the host that somebody else can write into.

        The array is C-contiguous, aligned, writable and of a dtype that a Blob can have.
        """
        blob = cls._fresh(array.view(), HOST)
        blob._buffer = user_place()
        return blob

    def _view(self, layout: Layout) -> Self:
        """Make a view of this Blob."""
        return self._of(
            self._memory, layout, home=self._home, base=self._root(), readonly=self._readonly
        )

    def _view_of_array(self, array: Any) -> Self:
        """Make a view of this Blob from a view of its array, which must be in use."""
        memory = self._memory
        # Here too.
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
        blob._kept = NOTHING_KEPT
        blob._shape_blob = NO_SHAPE
        return blob

    def _root(self) -> Any:
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
        with making.held:
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
                    if isinstance(self._buffer, Place):
                        memory.expose(Side.HOST, self._buffer)
                    buffer = memory.exclusive_buffer()
                else:
                    memory, layout = adopt(
                        array,
                        dtype=None,
                        device=home.device,
                        copy=None,
                        backend=accelerator,
                        owned=True,
                    )
                    buffer = memory.exclusive_buffer()
                    array = home.view(buffer, layout, writable=not self._readonly)
                # An interrupt or a fork before this changes nothing: as long as there is no memory,
                # the array is the Blob. Readers without the lock look at the memory first.
                self._placed = layout
                self._held = memory
                self._array = array
                self._buffer = buffer
            return self._held

    @property
    def _side(self) -> Side:
        """The side of this Blob's device."""
        return Side.HOST if self._home is HOST else Side.ACCELERATOR

    def _keep_array(self, memory: SyncedMemory, layout: Layout) -> None:
        """Make the array that computations use, if the memory's one buffer is on the device."""
        buffer = memory.exclusive_buffer()
        if buffer is not None and buffer is memory.buffer(self._side):
            self._array = self._home.view(buffer, layout, writable=not self._readonly)
            self._buffer = buffer

    def _array_is_current(self) -> bool:
        """Tell whether `_array` is data as it is now."""
        held = self._held
        return held is None or held._exclusive_buffer is self._buffer

    def _array_in_use(self) -> bool:
        """Tell whether `_array` is data as it is now, and not under way; make it if it can be."""
        held = self._held
        if held is None:
            held = self._settle()
        if held._exclusive_buffer is not self._buffer and not held.on_both_sides:
            self._keep_array(held, self._layout)
        return held._exclusive_buffer is self._buffer

    def _use(self, memory: SyncedMemory, layout: Layout | None = None) -> None:
        """Put another memory in the place of data's, or keep it with another layout."""
        if layout is None:
            layout = self._layout
        # Plain assignments, of which no interrupt finds only a part done.
        self._placed = layout
        self._array = None
        self._buffer = NO_BUFFER
        self._kept = NOTHING_KEPT
        self._held = memory

    def _on_device(self, reason: str) -> tuple[Any, Home]:
        """Return data as an array on this Blob's device, to read, and the home it lies in."""
        held = self._held
        if held is None or held._exclusive_buffer is self._buffer:
            return self._array, self._home
        layout = self._layout
        array = held.array(self._side, Access.CONST, layout, reason)
        if not held.on_both_sides:
            self._keep_array(held, layout)
        return array, self._home
