"""A Blob's memories, and arrays over them: new ones, or views of arrays that are kept for that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import is_bfloat16
from syncblob.blob._state import NOTHING_KEPT, BlobState, making
from syncblob.devices import HOST, Side
from syncblob.memory import Access, SyncedMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from syncblob._shape import Layout
    from syncblob.blob._state import Kept
    from syncblob.devices.base import Accelerator, Home

__all__ = ["GPU_DATA", "GPU_DIFF", "HOST_DATA", "HOST_DIFF", "Arrays", "write_by"]

# Where arrays are kept: the side, and 2 for diff.
HOST_DATA, GPU_DATA, HOST_DIFF, GPU_DIFF = range(4)

_SIDES = tuple(Side)

# References to a memory that only one Blob holds, as sys.getrefcount sees them: the Blob's and
# that of the call.
_SOLE = 2


class Arrays(BlobState):
    """How the files above get at the memories, and at arrays over them."""

    __slots__ = ()

    # --- memories --------------------------------------------------------------------------------

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

    def _require_writable(self, action: str) -> None:
        if self._readonly:
            raise ValueError(
                f"{action} writes, and this Blob is a const view; use the Blob it was taken from"
            )

    def _existing_diff(self) -> SyncedMemory | None:
        base: Arrays | None = self._base
        if base is not None and base._memory is self._memory:
            diff = base._existing_diff()
            if diff is None or diff.nbytes >= self._layout.stop:
                return diff
        diff = self._diff
        # A resize may have been interrupted before it let go of one that is too small now.
        return None if diff is None or diff.nbytes < self._layout.stop else diff

    def _diff_memory(self) -> SyncedMemory:
        """Return the memory of diff; created here, with the capacity of data."""
        base: Arrays | None = self._base
        if base is not None and base._memory is self._memory:
            diff = base._diff_memory()
            # A smaller one may have been shared into the base since.
            if diff.nbytes >= self._layout.stop:
                return diff
        existing = self._diff
        if existing is not None and existing.nbytes >= self._layout.stop:
            return existing
        diff = self._memory.successor(self._memory.nbytes)
        diff.fit(self._memory.used_nbytes)
        with making.held:
            if self._diff is existing:
                self._diff = diff
            return self._diff  # type: ignore[return-value]  # another thread may have been quicker

    def _owns_data_alone(self) -> bool:
        """Tell whether no other Blob or view can see the memory of data.

        CPython counts the references for us. A reference held elsewhere for a moment makes the
        answer False, which is the careful one.
        """
        return sys.getrefcount(self._memory) <= _SOLE

    def _owns_diff_alone(self) -> bool:
        """Tell whether no other Blob or view can see the memory of diff."""
        return sys.getrefcount(self._diff) <= _SOLE

    # --- arrays ----------------------------------------------------------------------------------

    def _values(self, layout: Layout, reason: str) -> NDArray[Any]:
        """Return a private copy of elements on the host. Moves no others, and changes no state."""
        array: NDArray[Any] = self._memory.gather(Side.HOST, layout, reason)
        return array

    def _elements(self, side: Side, reason: str) -> Any:
        """Return data on a side, to be copied; see `SyncedMemory.elements`."""
        return self._memory.elements(side, self._layout, reason)

    def _array_on(self, side: Side, access: Access, reason: str) -> Any:
        """Return an array over data for work that is over soon; see `SyncedMemory.array`."""
        if access is not Access.CONST:
            self._require_writable(reason)
        return self._memory.array(side, access, self._layout, reason)

    def _wrote(self, home: Home, reason: str) -> None:
        """Say that work on an array of data on a home, which may write, is over."""
        held = self._held
        if held is not None and held._fast_buffer is None:
            layout = self._layout
            side = Side.HOST if home is HOST else Side.ACCELERATOR
            held.finish_write(side, *held.range_of(layout), reason)

    def _downloads_from(self) -> Accelerator | None:
        """Return the accelerator that `_values` would copy from; None where it need not."""
        memory, layout = self._memory, self._layout
        if memory.holds_newest(Side.HOST, layout.start, layout.stop):
            return None
        return memory.accelerator

    # --- in a hurry ------------------------------------------------------------------------------

    def _read_host(self, reason: str) -> NDArray[Any]:
        """Return a read-only array over data on the host."""
        kept = self._kept[HOST_DATA]
        if kept is not None:
            held: Any = self._held
            if held._exclusive_buffer is kept[0]:
                return kept[1].view()
            if held.read_again(0, self._placed, reason, kept[0]):
                return kept[1].view()
        template = None if kept is None else kept[:2]
        array: NDArray[Any] = self._memory.array(
            Side.HOST, Access.CONST, self._layout, reason, template
        )
        self._keep(HOST_DATA, self._memory)
        return array

    def _read(self, place: int, reason: str) -> Any:
        """Return a read-only array over data or diff on a side."""
        kept = self._kept[place]
        if kept is not None:
            held: Any = self._diff_memory() if place > GPU_DATA else self._held
            if held.read_again(place & 1, self._placed, reason, kept[0]):
                return kept[1].view()
        memory = self._diff_memory() if place > GPU_DATA else self._memory
        template = None if kept is None else kept[:2]
        array = memory.array(_SIDES[place & 1], Access.CONST, self._layout, reason, template)
        self._keep(place, memory)
        return array

    def _write(self, place: int, access: Access, reason: str) -> Any:
        """Return a writable borrow of data or diff on a side."""
        kept = self._kept[place]
        if kept is not None and kept[2] is not None:
            held: Any = self._diff_memory() if place > GPU_DATA else self._held
            layout: Any = self._placed
            array = held.lend_again(place & 1, access, layout, reason, kept[0], kept[2])
            if array is not None:
                return array
        self._require_writable(reason)
        memory = self._diff_memory() if place > GPU_DATA else self._memory
        template = None if kept is None or kept[2] is None else (kept[0], kept[2])
        array = memory.lend(_SIDES[place & 1], access, self._layout, reason, template)
        self._keep(place, memory)
        return array

    def _keep(self, place: int, memory: SyncedMemory) -> None:
        """Make the arrays that further ones are views of, if NumPy computes on that side."""
        side = place & 1
        if memory._fast_buffer is None and not memory.on_both_sides:
            # So that one comparison will tell that nothing has changed.
            memory.exclusive_buffer()
        kept = self._kept[place]
        if kept is not None and kept[0] is memory.buffer(_SIDES[side]):
            return
        home = memory.home(_SIDES[side])
        if not home.native:
            return
        layout = self._layout
        buffer = memory.newest(side, layout)
        if buffer is None:
            return
        if layout.stop > memory.used_nbytes:
            # A resize on another thread has come in between.
            return
        const = home.view(buffer, layout, writable=False)
        writable = exported = None
        if not self._readonly:
            writable = home.view(buffer, layout, writable=True)
            # NumPy exports no bfloat16, and `dlpack.export` no negative strides.
            if not is_bfloat16(layout.dtype) and not layout.backwards:
                exported = writable
        arrays: list[Kept | None] = list(self._kept)
        arrays[place] = buffer, const, writable, exported, None
        self._kept = tuple(arrays)
        # A resize on another thread forgets these, before or now.
        if self._placed is not layout:
            self._kept = NOTHING_KEPT


def write_by(
    memory: SyncedMemory,
    layout: Layout,
    side: Side,
    reason: str,
    function: Callable[..., Any],
    *arguments: Any,
) -> None:
    """Call a function that writes into an array of one side, on its home, and say when it is over.

    Parameters
    ----------
    memory, layout, side
        What the array is over.
    reason
        The operation, for the history.
    function, arguments
        What is called. An array that may be written is among the arguments.
    """
    try:
        memory.home(side).compute(function, *arguments)
    finally:
        memory.finish_write(side, *memory.range_of(layout), reason)
