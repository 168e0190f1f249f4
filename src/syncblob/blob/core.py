"""BlobCore: the fields of a Blob, and the methods that the modules around the class use.

A Blob is *untouched*, *fresh* or *settled*. A Blob made from a shape is untouched: it has a layout
and a home. The result of a computation, and a Blob of the host that was filled with a number, is
fresh: it has an array that nothing else references, and the home of that array. The memory is made
on demand: by nearly any use of an untouched Blob, and by any use of a fresh one except a
computation and `__array__`. From then on the Blob is settled, and its array may be
out of date: its shortcut tells.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar
from weakref import ref

import numpy as np

from syncblob._dtypes import SUPPORTED
from syncblob._layout import Layout
from syncblob._locks_lost_in_fork import Lock, if_free
from syncblob._source_lines import Place
from syncblob.devices import HOST, Side, supervisors
from syncblob.devices.base import NEEDED, Accelerator
from syncblob.interop import export_numpy
from syncblob.interop.adopt import adopt
from syncblob.memory import CONST, FRESH, NO_SHORTCUT, Access, Shortcut, SyncedMemory, acquire
from syncblob.memory.accesses import expose
from syncblob.memory.loans import BORROW, NO_LOANS
from syncblob.memory.operations import keepers
from syncblob.memory.state_machine import Spans
from syncblob.transfers.verify import verifying

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

    from syncblob.devices import Device
    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Window

# Results have the class of the Blob that they are computed from.
AnyBlob = TypeVar("AnyBlob", bound="BlobCore")

# Held while a memory of a Blob is made.
making: Lock = Lock()

_new = object.__new__

# Stands for the memory of an untouched Blob.
# False, as None is.
NO_MEMORY: Any = ()

# The indices into `BlobCore.accessor_arrays`: the side, plus 2 for diff.
HOST_DATA, GPU_DATA, HOST_DIFF, GPU_DIFF = range(4)


class Gradient:
    """What a Blob and its views have in common: the memory of diff, or None until it is used."""

    __slots__ = ("memory", "second")

    def __init__(self, memory: SyncedMemory | None = None) -> None:
        self.memory: SyncedMemory | None = memory
        # What the Blobs over diff have in common; None until there is one.
        self.second: Gradient | None = None


class AccessorArrays(NamedTuple):
    """Arrays over one buffer, from which the accessors of a Blob make views."""

    # The shortcut of the buffer.
    shortcut: Shortcut
    # Arrays to read, to write, and to export through DLPack; None if that is not possible.
    const: Any
    writable: Any
    exported: Any
    # What torch functions read on the host, once one was called; see `calls/torch/tensors.py`.
    tensor: Any = None


# What a Blob has before an accessor is used, and after a buffer is released.
NOTHING_KEPT: tuple[AccessorArrays | None, ...] = (None,) * 4

# Stands for the arrays of a side that was used once.
NOT_YET = AccessorArrays(NO_SHORTCUT, None, None, None)
_used_once: dict[tuple[AccessorArrays | None, ...], tuple[AccessorArrays | None, ...]] = {}


def fresh(cls: type[AnyBlob], array: Any, home: Home) -> AnyBlob:
    """Make a Blob of an array that nothing else references, in the home where it was computed.

    The array must own its memory, or be one that `adopt` accepts. As a function, because looking up
    a class method takes longer.
    """
    # Inline, because another call would slow every operation.
    blob = _new(cls)
    blob.raw_array = array
    blob.home = home
    blob.shortcut = FRESH
    blob.known_memory = blob.known_layout = blob.gradient = blob._base = None
    blob.readonly = False
    blob.origin = ()
    blob.accessor_arrays = NOTHING_KEPT
    if home is not HOST:
        keepers[id(blob)] = ref(blob)
    return blob


def newest_side(blob: BlobCore, memory: SyncedMemory, spans: Spans) -> Side | None:
    """Return a side with all newest contents of a Blob, its accelerator's if possible; or None."""
    holders = spans.common(*blob.layout.reach)
    sides = blob.accelerator_side(memory), *memory.all_sides
    return next((side for side in sides if holders >> side & 1), None)


class BlobCore:
    """The fields of a Blob, its memories, and arrays over them.

    `Blob` is the only subclass that is instantiated. Modules below it test for this class.
    """

    __slots__ = {
        "__weakref__": None,
        "_base": "The Blob that a view was taken from, or None.",
        "accessor_arrays": "Of data on the host and on the accelerator, then of diff; or None.",
        "gradient": "None until diff is used, or a view is taken; its memory may be too small.",
        "home": "The backend of `device`, on which operations run, or that of the host.",
        "known_layout": "`layout`, or None if it was not asked for yet.",
        "known_memory": "`memory`; None for a fresh Blob and `NO_MEMORY` for an untouched one.",
        "origin": "Of a fresh Blob, what made it; then what __cuda_array_interface__ keeps alive.",
        "raw_array": "The array that computations use, or None. Current if `shortcut` says so.",
        "readonly": "Whether this Blob is const. Assign `flags.writeable` to change it.",
        "shortcut": "The shortcut of the buffer under `raw_array`.",
    }

    # The class of results if no operand is a Blob. `Blob` assigns itself.
    class_of_results: ClassVar[Any]

    # Invariants.
    #
    # - An untouched Blob has `NO_MEMORY` for `known_memory`, a layout, and no array.
    # - A fresh Blob has `raw_array`, and no `known_memory`. The array is the Blob.
    # - A settled Blob has `known_memory`. `raw_array`, if there is one, has the Blob's layout. It
    #   may be read or written as it is while its shortcut says so. The memory revokes shortcuts
    #   before any change, so looking at an attribute without the lock is enough.
    # - `known_memory` is assigned last when a memory is made, because readers without the lock look
    #   at it first. When a memory is replaced (`use_memory`), array and buffer are dropped first.
    # - Each of these changes is a series of assignments without a call in between. CPython runs
    #   signal handlers only after calls, so an interrupt never sees half of a change.
    # - Other threads may see half of a change without a GIL, in the order of its assignments. So
    #   code that changes `raw_array` and `shortcut` holds `making`. Code that uses the array reads
    #   first the shortcut, then the array, which may be None, then the shortcut's attribute.

    raw_array: Any
    home: Home
    # For a fresh Blob `FRESH`.
    shortcut: Shortcut
    known_memory: SyncedMemory | None
    known_layout: Layout | None
    gradient: Gradient | None
    _base: Any
    readonly: bool
    # For a fresh Blob the place in the user's code where the array was taken for a buffer, if it
    # still has another owner, the reason and the place of its first write, or the accelerator of
    # the Blob it is a copy of. Later the arrays that consumers use, which keep only the Blob.
    origin: Any
    accessor_arrays: tuple[AccessorArrays | None, ...]

    # --- making ----------------------------------------------------------------------------------

    def _init_fields(self, layout: Layout, home: Home) -> None:
        self.raw_array = self.gradient = self._base = None
        self.home = home
        self.shortcut = NO_SHORTCUT
        self.known_memory = NO_MEMORY
        self.known_layout = layout
        self.readonly = False
        self.origin = ()
        self.accessor_arrays = NOTHING_KEPT

    @classmethod
    def from_memory(
        cls,
        memory: SyncedMemory,
        layout: Layout,
        *,
        home: Home | None = None,
        gradient: Gradient | None = None,
        base: Any = None,
        readonly: bool = False,
    ) -> Self:
        """Make a Blob over an existing memory; `home` defaults to that of the memory's device."""
        blob = cls.__new__(cls)
        blob._init_fields(layout, memory.device_home if home is None else home)
        blob.known_memory = memory
        blob.gradient = gradient
        blob._base = base
        blob.readonly = readonly
        return blob

    def view_at(self, layout: Layout, *, readonly: bool = False) -> Self:
        """Make a view of this Blob; const if this Blob or `readonly` is."""
        return self.from_memory(
            self.memory,
            layout,
            home=self.home,
            gradient=self.shared_gradient(),
            base=self.root(),
            readonly=readonly or self.readonly,
        )

    def view_of_array(self, array: Any, view: Any) -> Self:
        """Make a view of this Blob from a view of an array of `viewable_array`."""
        home, shortcut, held = self.home, self.shortcut, self.known_memory
        if self.raw_array is not array or shortcut is NO_SHORTCUT:
            # The array is a dummy, or another thread or a signal handler has replaced it. The
            # elements have the same offsets in the memory.
            of = HOST if isinstance(array, np.ndarray) else home
            layout = of.layout(view, of.address(array) - self.layout.offset)
            if layout.stop > self.layout.stop:
                raise IndexError(
                    f"a view was taken of a Blob that was resized to {self.shape} meanwhile"
                )
            return self.view_at(layout)
        # Inline, as in `fresh`.
        blob = _new(type(self))
        blob.raw_array = view
        blob.home = home
        blob.shortcut = shortcut
        blob.known_memory = held
        blob.known_layout = None
        gradient = self.gradient
        blob.gradient = self.shared_gradient() if gradient is None else gradient
        base = self._base
        blob._base = self if base is None else base
        blob.readonly = self.readonly
        blob.origin = ()
        blob.accessor_arrays = NOTHING_KEPT
        if home is not HOST:
            keepers[id(blob)] = ref(blob)
        return blob

    def derive(self, view: Callable[[Any], Any]) -> Self:
        """Return the view that a function makes of this Blob's array. Reads no element."""
        array = self.raw_array
        # The first condition is the usual case of the second.
        if array is None or self.known_memory is None:
            array = self.viewable_array()
        return self.view_of_array(array, view(array))

    def root(self) -> Any:
        """Return the Blob that this one is a view of, or the Blob itself."""
        return self if self._base is None else self._base

    # --- memories and layouts, made on demand -----------------------------------------------------

    @property
    def memory(self) -> SyncedMemory:
        """The memory of data, shared by views and Blobs that share data."""
        return self.known_memory or self._make_memory()

    @property
    def layout(self) -> Layout:
        """Shape and dtype of data, and strides and offset in `memory`, in bytes."""
        placed = self.known_layout
        if placed is None:
            if self.known_memory is None:
                self._make_memory()
            with making.held:
                placed = self.known_layout
                if placed is None:
                    placed = self.shortcut.buffer.layout(self.home, self.raw_array)
                    self.known_layout = placed
        return placed

    def _make_memory(self) -> SyncedMemory:
        """Make the memory of a Blob, without a copy."""
        with making.held:
            if self.known_memory is NO_MEMORY:
                layout: Any = self.known_layout
                made = SyncedMemory(layout.nbytes, device=self.home)
                # A signal handler may have used the Blob meanwhile. Its writes are in its memory.
                if self.known_memory is NO_MEMORY:
                    self.known_memory = made
            if self.known_memory is None:
                home = self.home
                array = self.raw_array
                accelerator = home if isinstance(home, Accelerator) else None
                if array.flags.c_contiguous:
                    memory = SyncedMemory.adopting(
                        home.wrap(array), accelerator=accelerator, device=home
                    )
                    layout = Layout(tuple(array.shape), array.dtype)
                    origin = self.origin
                    if isinstance(origin, Place):
                        expose(memory, Side.HOST, origin)
                    elif isinstance(origin, Accelerator):
                        memory.side_of(origin)
                    elif origin:
                        before = Spans.whole(memory.nbytes, 0)
                        memory.note(origin[0], 0, memory.nbytes, origin[1:], before)
                else:
                    memory, layout = adopt(
                        array,
                        dtype=None,
                        device=home.device,
                        copy=None,
                        backend=accelerator,
                        owned=True,
                    )
                    buffer = memory.buffer(memory.side_of(home))
                    array = home.own_view(buffer, layout, writable=not self.readonly)
                side = Side.HOST if accelerator is None else Side.ACCELERATOR
                # Another thread may have evicted the buffer already.
                shortcut = memory.shortcuts.get(memory.whole[side], NO_SHORTCUT)
                # An interrupt or a fork before these lines changes nothing: without a memory, the
                # array is the Blob. The memory comes last: a thread that finds the memory may copy
                # from the array.
                if self.known_memory is None:
                    self.known_layout = layout
                    self.raw_array = None if shortcut is NO_SHORTCUT else array
                    self.shortcut = shortcut
                    self.origin = ()
                    self.known_memory = memory
            return self.known_memory

    def use_memory(self, memory: SyncedMemory, layout: Layout | None = None) -> None:
        """Replace the memory of data, its layout, or both."""
        layout = layout or self.layout
        with making.held:
            # Plain assignments, so that an interrupt never sees half of the change.
            self.known_layout = layout
            self.raw_array = None
            self.shortcut = NO_SHORTCUT
            self.accessor_arrays = NOTHING_KEPT
            self.known_memory = memory

    def make_const(self) -> None:
        """Make this Blob const; see ``Flags.writeable``."""
        self.readonly = True
        # Drops the kept arrays, which are writable.
        self.use_memory(self.memory)

    # --- evictions -------------------------------------------------------------------------------

    def _used(self) -> set[Any]:
        """Return what an operation on this Blob uses: its home, and its ledgers and theirs."""
        found: set[Any] = {self.home}
        diff = None if self.gradient is None else self.gradient.memory
        for memory in (self.known_memory, diff):
            if memory:
                found |= memory._used()
        return found

    def _settle(self) -> None:
        """Make the memory of a result, so that it can be evicted, unless a thread is making it."""
        if self.known_memory is None:
            if_free(making.held, lambda: bool(self._make_memory()), again=True)

    def _drop(self, memory: SyncedMemory) -> bool:
        self.use_memory(memory)
        return True

    def _let_go(self, gone: Collection[Window]) -> None:
        """Drop arrays over windows that are gone."""
        held = self.known_memory
        if not held:
            return
        if self.shortcut.buffer in gone:
            if_free(making.held, self._drop, held, again=True)
        elif any(kept and kept.shortcut.buffer in gone for kept in self.accessor_arrays):
            self.accessor_arrays = NOTHING_KEPT

    # --- the array that computations use ---------------------------------------------------------

    # Code in hot paths asks ``shortcut.readable`` or ``shortcut.writable`` itself, as `array_in`
    # does first.

    def array_in(self, home: Home, access: Access, reason: str) -> Any:
        """Return data as an array in a home, after an access: the way to an array to compute with.

        For use before the caller returns: an array of NumPy (host, simulated) or CuPy, which must
        not be written after a const access, although it may be writable. After a write, call
        `finish_write` with the array, also if the write has failed. `lend` of the memory makes
        arrays for others to keep.

        Parameters
        ----------
        home, access
            The home to compute in, and what the caller may do there. An overwrite of a Blob with
            gaps is mutable.
        reason
            The name of the access, for the log.

        Raises
        ------
        ValueError
            If the access writes, and the Blob is const.
        MemoryError
            If there is no memory for a buffer, and no room can be made.

        Warns
        -----
        StaleAliasWarning
            If the access writes, and a writable alias of another side overlaps the Blob.
        """
        writes = access is not CONST
        if writes and self.readonly:
            self.require_writable(reason)
        if home is not self.home:
            memory = self.memory
            return memory.array(memory.side_of(home), access, self.layout, reason)
        shortcut, array = self.shortcut, self.raw_array
        if array is not None and (shortcut.writable or (not writes and shortcut.readable)):
            return array
        layout = self.known_layout or self.layout
        held: Any = self.known_memory
        if array is not None and (
            shortcut.readable or not (shortcut is NO_SHORTCUT or held.aliased)
        ):
            # There is a buffer, and nearly always it stays. Beside an alias, a copy into it may not
            # stay up to date, and below would be another.
            buffer = acquire(held, shortcut.side, access, layout, reason)
            ready = shortcut.writable if writes else shortcut.readable
            if ready and shortcut.buffer is buffer:
                return array
        memory = self.memory
        while True:
            buffer = memory.acquire(self.side, access, layout, reason)
            shortcut, array = self._attach(memory, layout)
            if shortcut.buffer is buffer or (shortcut.writable if writes else shortcut.readable):
                buffer = shortcut.buffer
            else:
                # The buffer is a window, or another thread has replaced it meanwhile.
                array = buffer.own_view(home, layout, writable=writes)
            if memory.holds(buffer, self.side, layout):
                return array

    def current_array(self, reason: str = "") -> Any:
        """Return `raw_array` if it can be read as it is, else None. Allocates nothing.

        `reason` is the name of an access that brings an existing array up to date. By default,
        nothing is copied.
        """
        shortcut, array = self.shortcut, self.raw_array
        # Beside an alias, the copy may not stay up to date, and the caller would make another.
        if reason and array is not None and not (shortcut.readable or self.memory.aliased):
            # Without room, the caller begins again, with fewer arrays in use.
            with suppress(MemoryError):
                return self.array_in(self.home, CONST, reason)
            return None
        if array is None or not shortcut.readable:
            shortcut, array = self._attach(self.memory, self.layout)
        return array if shortcut.readable else None

    def host_elements(self, reason: str) -> Any:
        """Return data as an array of the host, only for the caller to copy at once."""
        # The shortcut first; see the invariants.
        shortcut, array = self.shortcut, self.raw_array
        at_hand = array is not None and self.home is HOST
        if at_hand and (shortcut.readable or self.current_array() is array):
            return array
        kept = self.accessor_arrays[HOST_DATA]
        if kept is not None and kept.shortcut.readable:
            return kept.const
        memory, layout = self.memory, self.layout
        if layout.gapless and not verifying():
            return self.const_view(HOST_DATA, reason)
        try:
            return memory.elements(Side.HOST, layout, reason)
        except MemoryError as error:
            if NEEDED not in vars(error):
                raise
            # Elements are gathered on their device. Only its own buffer may be left to be evicted.
            del array
        return memory.elements(Side.HOST, layout, reason)

    def viewable_array(self) -> Any:
        """Return an array over the memory to take views from, which may be out of date.

        A dummy if there is no buffer on the device; makes none.
        """
        if self.known_memory is None:
            self._make_memory()
        array = self.raw_array
        if array is None:
            array = self.current_array()
        return self.layout.dummy() if array is None else array

    def finish_write(self, home: Home, reason: str, array: Any) -> bool:
        """Finish a write of data in a home, made through an array of `array_in`.

        If the other side was read meanwhile, the written side becomes the newest again. Returns
        False if the array is given and its buffer has left the memory meanwhile, by an eviction or
        for a larger window. Then the caller has to write again.
        """
        held = self.known_memory
        if held is None or (self.shortcut.writable and home is self.home):
            return True
        layout, side = self.layout, held.side_of(home)
        with held.lock:
            buffer = held.window_over(side, *layout.reach)
            known = self.raw_array is array and self.shortcut.buffer is buffer
            return held.finish_write(side, layout, reason, None if known else array)

    def _attach(self, memory: SyncedMemory, layout: Layout) -> tuple[Shortcut, Any]:
        """Get the shortcut, and an array over its buffer; None if there is none."""
        shortcut = memory.shortcut(self.side, layout)
        if shortcut is NO_SHORTCUT or layout.stop > memory.spans.nbytes:
            # The layout may be too large if another thread has resized the Blob meanwhile.
            return NO_SHORTCUT, None
        # The shortcut first; see the invariants.
        array = self.raw_array if self.shortcut is shortcut else None
        if array is None:
            made = None
            if self.raw_array is None or shortcut.buffer is not self.shortcut.buffer:
                writable = not self.readonly
                made = shortcut.buffer.own_view(self.home, layout, writable=writable)
            if made is not None and self.home is not HOST:
                # First, so that evictions find the array.
                keepers.add(self)
            with making.held:
                array = self.raw_array if self.shortcut.buffer is shortcut.buffer else made
                if array is None or self.known_layout is not layout:
                    # Another thread has resized the Blob meanwhile, or evicted it.
                    return NO_SHORTCUT, None
                if self.raw_array is not array:
                    # A reader takes the array if it sees the same shortcut before and afterwards.
                    self.shortcut = NO_SHORTCUT
                    self.raw_array = array
                self.shortcut = shortcut
            if made is not None and not memory.holds(shortcut.buffer, self.side, layout):
                # Another thread or a signal handler has evicted it before it was there to be found.
                self.use_memory(memory)
                return NO_SHORTCUT, None
        return shortcut, array

    # --- attributes ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        array = self.raw_array
        return self.layout.shape if array is None else array.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The data type of the elements, in data and in diff."""
        array = self.raw_array
        return self.layout.dtype if array is None else array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; 1 for a 0-d Blob."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements of data, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next along each axis."""
        return self.layout.strides

    @property
    def device(self) -> Device:
        """The device on which operations run, which never changes.

        `on` returns a view with another device; `head` tells where the newest contents are.
        """
        return self.home.device

    @property
    def base(self) -> Self | None:
        """The Blob whose memory a view shares; None for a Blob that is not a view."""
        return self._base

    @property
    def side(self) -> Side:
        """The side of this Blob's device in the memory of data."""
        return Side.HOST if self.home is HOST else self.accelerator_side(self.memory)

    def accelerator_side(self, memory: SyncedMemory) -> Side:
        """Return the side of this Blob's accelerator in a memory of its.

        That is the accelerator of its device. For the host, it is the first of the memory.
        """
        home = self.home
        # The first accelerator of a memory is that of its device.
        if home is HOST or memory.device_home is home:
            return Side.ACCELERATOR
        return memory.side_of(home)

    # --- memories --------------------------------------------------------------------------------

    def memory_of(self, *, diff: bool) -> SyncedMemory:
        """Return the memory of diff, created if it does not exist, or that of data."""
        return self.diff_memory() if diff else self.memory

    def shared_gradient(self) -> Gradient:
        """Return the gradient that this Blob shares with its views."""
        gradient = self.gradient
        if gradient is None:
            gradient = Gradient()
            with making.held:
                if self.gradient is None:
                    self.gradient = gradient
                gradient = self.gradient
        return gradient

    def second_gradient(self) -> Gradient | None:
        """Return the gradient that the Blobs over diff share."""
        gradient = self.shared_gradient()
        if gradient.second is None:
            new = Gradient()
            with making.held:
                if gradient.second is None:
                    gradient.second = new
        return gradient.second

    def existing_diff(self) -> SyncedMemory | None:
        """Return the memory of diff, or None. Does not create it."""
        gradient = self.gradient
        diff = None if gradient is None else gradient.memory
        # An interrupted resize, or a Blob that shares a smaller one, leaves one that is too small.
        return None if diff is None or diff.nbytes < self.layout.stop else diff

    def diff_memory(self) -> SyncedMemory:
        """Return the memory of diff; create it if needed, as large as that of data."""
        gradient = self.shared_gradient()
        known = gradient.memory
        if known is not None and known.nbytes >= self.layout.stop:
            return known
        new = gradient if known is None else Gradient()
        diff = self.memory.successor(self.memory.nbytes)
        with making.held:
            if self.gradient is not gradient or gradient.memory is not known:
                # Another thread or a signal handler has made the memory.
                return self.diff_memory()
            new.memory = diff
            self.gradient = new
            return diff

    def require_writable(self, action: str) -> None:
        """Raise unless this Blob can be written."""
        if self.readonly:
            what = "a const view; use the Blob it was taken from"
            if self.root().readonly:
                what = "const; .copy() can be written"
            raise ValueError(f"{action} writes, and this Blob is {what}")

    def require_own(self, action: str) -> None:
        """Raise unless this Blob has its own memory, which can then be replaced."""
        self.require_writable(action)
        if self._base is not None:
            raise ValueError(f"{action} is for a Blob of its own, and this one is a view")
        if not self.layout.contiguous or self.layout.offset:
            raise ValueError(f"{action} is for a C-contiguous Blob, and this one is not; copy it")

    # --- accessors: views of arrays that are kept ------------------------------------------------

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return data on the host, read-only and without a copy. Downloads if needed.

        Parameters
        ----------
        dtype
            Convert to another dtype, as a private, writable copy.
        copy
            True returns a private, writable copy; False raises ValueError if a conversion is
            needed. A download into the Blob's own host memory is no copy.
        """
        if dtype is None and copy is None and not (supervisors and verifying()):
            array = self.raw_array
            if self.known_memory is None and self.home is HOST and array.flags.c_contiguous:
                # A fresh Blob, whose memory will lie over this array.
                array = array.view()
                array.flags.writeable = False
                return array
            return self.const_view(HOST_DATA, "__array__")
        if dtype is None and copy:
            return self.host_elements("__array__").copy()
        return export_numpy.to_ndarray(self.memory, self.layout, dtype, copy)

    def const_view(self, place: int, reason: str) -> Any:
        """Return a read-only array over data or diff on a side."""
        kept = self.accessor_arrays[place]
        if kept is not None and kept.shortcut.readable and place <= GPU_DATA:
            return kept.const.view()
        memory: Any = self.known_memory
        if place > GPU_DATA:
            memory = self.diff_memory()
        elif not memory:
            memory = self._make_memory()
        layout = self.known_layout or self.layout
        side = self.accelerator_side(memory) if place & 1 else Side.HOST
        buffer = acquire(memory, side, CONST, layout, reason)
        if kept is None:
            self._note_first_use(place)
            return memory.homes[side].view(buffer.array, buffer.inner(layout), writable=False)
        # The Blob may have another diff now, because its base shares one.
        if kept.shortcut.buffer is not buffer or not kept.shortcut.readable:
            # Asks for the shortcut again.
            self.keep_arrays(place, memory)
            kept = self.accessor_arrays[place]
        if kept is None or kept.shortcut.buffer is not buffer:
            return memory.homes[side].view(buffer.array, buffer.inner(layout), writable=False)
        return kept.const.view()

    def borrow(self, place: int, access: Access, reason: str) -> Any:
        """Return a writable borrow of data or diff on a side."""
        diff = place > GPU_DATA
        kept: Any = self.accessor_arrays[place]
        # A Blob with kept arrays has a memory.
        memory: Any = self.memory_of(diff=diff) if kept is None or diff else self.known_memory
        layout = self.known_layout or self.layout
        # The Blob may have another diff now, as above.
        known = kept is not None and kept.writable is not None
        if known and diff:
            known = kept.shortcut.buffer is memory.whole[kept.shortcut.side]
        if known:
            side = kept.shortcut.side
            if not kept.shortcut.writable:
                acquire(memory, side, access, layout, reason)
            if not kept.shortcut.writable:
                # Asks for the shortcut again.
                self.keep_arrays(place, memory)
                kept = self.accessor_arrays[place] or kept
            array, loans = kept.writable.view(), memory.loans
            # Only NumPy arrays have a write permission to revoke.
            if type(array) is np.ndarray:
                loans = memory.own_loans() if loans is NO_LOANS else loans
                loans.lend(array, BORROW, side, layout.start, layout.stop)
            # In this order; see `Loans`.
            if kept.shortcut.writable and memory.loans is loans:
                return array
            with memory.lock:
                # Beside an alias of another side, no shortcut allows a write.
                current = memory.window_over(side, *layout.reach) is kept.shortcut.buffer
                alone = memory.is_alone(side, *layout.reach)
                if current and alone and memory.loans is loans:
                    return array
        self.require_writable(reason)
        side = self.accelerator_side(memory) if place & 1 else Side.HOST
        array = memory.lend(side, access, layout, reason)
        if kept is None:
            self._note_first_use(place)
        else:
            self.keep_arrays(place, memory)
        return array

    def _note_first_use(self, place: int) -> None:
        """Let the next use keep arrays: there may be many Blobs that are used once on a side."""
        known = self.accessor_arrays
        once = (*known[:place], NOT_YET, *known[place + 1 :])
        if once.count(None) + once.count(NOT_YET) == len(once):
            # Many have the same.
            once = _used_once.setdefault(once, once)
        self.accessor_arrays = once

    def keep_arrays(self, place: int, memory: SyncedMemory) -> None:
        """Keep arrays from which later accesses make views; see ``Home.accessor_views``."""
        side = self.accelerator_side(memory) if place & 1 else Side.HOST
        layout: Layout = self.known_layout or self.layout
        shortcut = memory.shortcut(side, layout)
        kept = self.accessor_arrays[place]
        known = kept is not None and kept.shortcut is shortcut
        # Another thread may have resized the Blob meanwhile.
        resized = layout.stop > memory.spans.nbytes
        if known or shortcut is NO_SHORTCUT or resized:
            return
        if kept is not None and kept.shortcut.buffer is shortcut.buffer:
            entry = kept._replace(shortcut=shortcut)
        else:
            home = memory.homes[side]
            window = shortcut.buffer
            views = home.accessor_views(window.array, window.inner(layout))
            if views is None:
                return
            const, writable = views
            exported = None
            if self.readonly or (window is not memory.whole[side] and not home.native):
                # A borrow over a window has to be an alias there; see `accesses.borrow`.
                writable = None
            elif layout.dtype in SUPPORTED and (layout.contiguous or not layout.backwards):
                # NumPy does not export bfloat16, nor `export_dlpack.export` negative strides.
                exported = writable
            entry = AccessorArrays(shortcut, const, writable, exported)
        if side:
            keepers.add(self)
        arrays: list[AccessorArrays | None] = list(self.accessor_arrays)
        arrays[place] = entry
        self.accessor_arrays = tuple(arrays)
        # If another thread has resized or evicted the Blob meanwhile, these arrays are out of date.
        gone = shortcut.buffer is not memory.whole[side]
        gone = gone and not memory.holds(shortcut.buffer, side, layout)
        if gone or self.known_layout is not layout:
            self.accessor_arrays = NOTHING_KEPT
