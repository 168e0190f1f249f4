"""Views: Blobs that share the memories of another, and indexing."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from syncblob._dtypes import as_dtype
from syncblob._shape import Layout, as_shape, is_basic_index, is_integer
from syncblob.blob._accessors import Accessors
from syncblob.blob._arrays import write_by
from syncblob.blob._base import BlobBase
from syncblob.blob._guarded import require_device_of
from syncblob.blob._indices import completed, full_index, require_broadcast, selected_shape
from syncblob.blob._shape_methods import shape_from
from syncblob.devices import HOST, Accelerator, Side, home_of
from syncblob.guards import require_device
from syncblob.interop.adopt import adopt, can_adopt, native_array
from syncblob.interop.side_view import SideView
from syncblob.memory import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from syncblob.devices import Device
    from syncblob.memory import SyncedMemory

__all__ = ["Views"]

_NUMBERS = frozenset({bool, int, float})


class Views(Accessors):
    """Views and indexing.

    A view shares memory, head and buffers with the Blob it was taken from, and its gradient too,
    for as long as that Blob keeps its memory.
    """

    __slots__ = ()

    @property
    def data(self) -> Self:
        """A Blob over the memory of data. ``blob.data[...] = x`` writes the contents.

        ``blob.data *= 2`` works too. Nothing else can be put in its place.
        """
        return self._view(self._layout)

    @data.setter
    def data(self, value: Self) -> None:
        self._require_in_place(value, self._memory, "data")

    @property
    def diff(self) -> Self:
        """A Blob over the memory of diff, the gradient; created on first use, with zeros.

        As for `data`, ``blob.diff[...] = x`` and ``blob.diff += x`` write it.
        """
        return self._of(
            self._diff_memory(),
            self._layout,
            home=self._home,
            base=self._root(),
            readonly=self._readonly,
        )

    @diff.setter
    def diff(self, value: Self) -> None:
        self._require_in_place(value, self._existing_diff(), "diff")

    @property
    def const(self) -> Self:
        """A read-only view: whatever takes it gets the const path, and it refuses writes."""
        return self._of(
            self._memory, self._layout, home=self._home, base=self._root(), readonly=True
        )

    def on(self, device: Device | str) -> Self:
        """Return a view of the same memory whose operations run on another device.

        Copies nothing: the contents move when an operation needs them there. `to_device` makes a
        copy.

        Parameters
        ----------
        device
            ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``.

        Raises
        ------
        NoDeviceError
            If the device cannot be used here.
        DeviceMismatchError
            If the memory is on another accelerator.
        """
        home = home_of(device)
        if isinstance(home, Accelerator):
            self._memory.bind(home)
            diff = self._existing_diff()
            if diff is not None:
                diff.bind(home)
        view = self._view(self._layout)
        view._home = home
        return view

    @property
    def cpu(self) -> SideView:
        """The host side, to be handed to other libraries: ``np.asarray(blob.cpu)`` may write.

        ``blob.cpu.const`` is to be read only, ``blob.cpu.overwrite`` to be written completely.
        Nothing moves before a library takes it.
        """
        return self._side_view(Side.HOST)

    @property
    def gpu(self) -> SideView:
        """The accelerator side, to be handed to other libraries: ``cupy.asarray(blob.gpu)``.

        Aliases made this way are tracked, which those of ``cupy.asarray(blob)`` cannot be.
        ``blob.gpu.const`` is to be read only, ``blob.gpu.overwrite`` to be written completely.
        Nothing moves before a library takes it.
        """
        return self._side_view(Side.ACCELERATOR)

    @property
    def overwrite(self) -> SideView:
        """The side of `device`, to be written completely by another library, without a transfer.

        ``torch.mm(a, b, out=torch.from_dlpack(blob.overwrite))``.

        Raises
        ------
        ValueError
            If this is a const view.
        """
        return self._side_view(self._side).overwrite

    def _side_view(self, side: Side) -> SideView:
        access = Access.CONST if self._readonly else Access.MUTABLE
        return SideView(lambda: (self._memory, self._layout), side, access)

    def assume_unaliased(self) -> None:
        """Promise that nobody outside writes into this Blob's part of its memories any more.

        Ends the exposure that ``__cuda_array_interface__`` and adopted arrays cause: later reads
        may trust an older copy again. Tracked aliases need no promise.
        """
        layout = self._layout
        self._memory.assume_unaliased(layout.start, layout.stop)
        diff = self._existing_diff()
        if diff is not None:
            diff.assume_unaliased(layout.start, layout.stop)

    # --- other shapes of the same elements -------------------------------------------------------

    def reshape(
        self, *shape: SupportsIndex | Iterable[SupportsIndex], copy: bool | None = None
    ) -> Self:
        """Return the elements in C order in another shape; a view wherever one is possible.

        Parameters
        ----------
        *shape
            The new dimensions, or one tuple of them; one may be -1.
        copy
            None copies only a view whose strides fit no other way, True always, False never.

        Returns
        -------
        Blob
            A view that shares memory; a copy on this Blob's device where `copy` says so.

        Raises
        ------
        ValueError
            If the count differs (`resize` changes the count), or if `copy` is False and a view is
            impossible.
        """
        held = self._held
        if (
            not copy
            and (
                (held is not None and held._exclusive_buffer is self._buffer)
                or self._array_in_use()
            )
            and self._array.flags.c_contiguous
        ):
            try:
                return self._view_of_array(self._array.reshape(*shape))
            except (TypeError, ValueError):
                pass  # said below, in our words
        wanted = self._complete(shape_from(shape))
        if copy:
            return self._compact(wanted)
        layout = self._layout
        if layout.contiguous:
            return self._view(Layout.c_order(wanted, layout.dtype, layout.offset))
        try:
            return self._view(layout.derive(lambda a: a.reshape(wanted, copy=False)))
        except ValueError:
            if copy is False:
                raise ValueError(
                    f"copy=False was asked for, but strides {self.strides} allow no view of shape "
                    f"{wanted}"
                ) from None
        return self._compact(wanted)

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex]) -> Self:
        """Return a view with the axes in another order, reversed if none is given."""
        order: Any = None if not axes else shape_from(axes)
        return self._derived(lambda a: a.transpose(order))

    @property
    def T(self) -> Self:  # noqa: N802  # the name in NumPy and the array API
        """A view with the axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802  # the name in NumPy and the array API
        """A view with the last two axes exchanged.

        Raises
        ------
        ValueError
            If there are fewer than two axes.
        """
        if self.ndim < 2:  # noqa: PLR2004  # a matrix has two axes
            raise ValueError(f"expected at least two axes, got shape {self.shape}")
        return self._derived(lambda a: a.swapaxes(-1, -2))

    # --- indexing --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Self:
        """Index as NumPy does.

        Integers, slices, None and Ellipsis give a view; nothing moves. Arrays of integers or
        booleans give a new Blob, computed on this Blob's device.
        """
        full = full_index(key)
        if full is None:
            if type(key) is type(self):
                # One Blob of integers or truth values, the usual case.
                if not HOST.direct and key.shape:
                    require_device_of("__getitem__", self)
                indices, home = key._on_device("__getitem__")
                array, here = self._on_device("__getitem__")
                if home is here and key.shape:
                    selected = home.compute(operator.getitem, array, indices)
                    return self._fresh(home.as_array(selected), home)
            key = _plain(key)
            if not is_basic_index(key):
                return self._selected(key)
            full = completed(key)
        held = self._held
        if (held is not None and held._exclusive_buffer is self._buffer) or self._array_in_use():
            return self._view_of_array(self._array[full])
        return self._view(self._layout.derive(lambda a: a[full]))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign as NumPy does, on this Blob's device.

        Values from elsewhere are brought to that device. An assignment to all elements moves
        nothing else; one to a part is a mutable access. Where key or value do not fit, nothing has
        changed.
        """
        self._require_writable("assignment")
        full = full_index(key)
        if full is not None and type(value) in _NUMBERS and self._array_in_use():
            home = self._home
            if home.direct:
                self._array[full] = value
            else:
                require_device(home.device, "__setitem__")
                home.compute(operator.setitem, self._array, full, value)
            self._wrote(home, "__setitem__")
            return
        require_device_of("__setitem__", self)
        side = self._side
        key = _plain(key)
        if is_basic_index(key):
            full = completed(key)
            target = self._layout.derive(lambda a: a[full])
            prepared = self._prepared(value, target.shape, side)
            if getattr(prepared, "dtype", self.dtype) != self.dtype:
                # Before anything is overwritten: a conversion may raise, where a user wants it.
                prepared = self._memory.home(side).compute(prepared.astype, self.dtype)
            self._memory.write(
                side, Access.OVERWRITE, target, "__setitem__", operator.setitem, ..., prepared
            )
            return
        key = self._keys_on(key, side)
        prepared = self._prepared(value, selected_shape(self.shape, key), side)
        array = self._array_on(side, Access.MUTABLE, "__setitem__")
        write_by(
            self._memory, self._layout, side, "__setitem__", operator.setitem, array, key, prepared
        )

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the first axis; the items are views.

        Raises
        ------
        TypeError
            If there is no axis.
        """
        if not self.shape:
            raise TypeError("a Blob without axes cannot be iterated over")
        return (self[index] for index in range(self.shape[0]))

    # --- how -------------------------------------------------------------------------------------

    def _require_in_place(self, value: Any, memory: SyncedMemory | None, name: str) -> None:
        """Accept what an in-place operator assigns: the Blob that it was given, written already."""
        self._require_writable(f"assignment to {name}")
        if (
            not isinstance(value, BlobBase)
            or value._memory is not memory
            or value._layout != self._layout
        ):
            raise AttributeError(
                f"{name} cannot be replaced; blob.{name}[...] = values copies values in, and "
                f"share_{name} takes another Blob's memory"
            )

    def _derived(self, view: Callable[[Any], Any]) -> Self:
        """Return the view that a function makes of this Blob's array, without reading elements."""
        if self._array_in_use():
            return self._view_of_array(view(self._array))
        return self._view(self._layout.derive(view))

    def _selected(self, key: Any) -> Self:
        """Copy the elements that arrays of integers or booleans select."""
        require_device_of("__getitem__", self)
        side = self._side
        array = self._array_on(side, Access.CONST, "__getitem__")
        home = self._memory.home(side)
        return self._result(home.compute(operator.getitem, array, self._keys_on(key, side)), side)

    def _compact(self, shape: tuple[int, ...]) -> Self:
        """Copy to a new C-contiguous Blob of another shape, on this Blob's device."""
        require_device_of("reshape", self)
        side = self._side
        blob = self._result(self._elements(side, "reshape"), side, copy=True)
        # A fresh Blob is its array. A reshaped Blob would be a view.
        blob._array = blob._array.reshape(shape)
        return blob

    def _result(
        self,
        array: Any,
        side: Side,
        *,
        dtype: np.dtype[np.generic] | None = None,
        copy: bool = False,
    ) -> Self:
        """Make a Blob of an array that was computed on one side of this one."""
        home = self._memory.home(side)
        array = home.as_array(array)
        if dtype is not None and dtype != array.dtype:
            array = home.compute(array.astype, dtype, order="C")
        elif copy or not can_adopt(array):
            array = home.compute(array.copy, order="C")
        return self._fresh(array, home)

    def _complete(self, shape: Any) -> tuple[int, ...]:
        """Fill in a dimension of -1 and check the count."""
        entries = (shape,) if is_integer(shape) else tuple(shape)
        dims = [operator.index(entry) for entry in entries]
        if dims.count(-1) == 1:
            place = dims.index(-1)
            others = as_shape(dims[:place] + dims[place + 1 :])
            known = Layout.c_order(others, self.dtype).size
            if known and self.size % known == 0:
                dims[place] = self.size // known
        if -1 in dims or Layout.c_order(as_shape(dims), self.dtype).size != self.size:
            raise ValueError(
                f"cannot reshape {self.size} elements, shape {self.shape}, to {tuple(dims)}; "
                "reshape keeps the count, resize changes it"
            )
        return tuple(dims)

    def _keys_on(self, key: Any, side: Side) -> Any:
        """Replace Blobs in an index by their arrays on one side."""
        if isinstance(key, tuple):
            return tuple(self._keys_on(entry, side) for entry in key)
        if isinstance(key, BlobBase):
            return self._operand(key, side, "__getitem__")
        return key

    def _operand(self, other: BlobBase, side: Side, reason: str) -> Any:
        """Return another Blob's data on one side, for an operation with this Blob there."""
        self._meet(other._memory, side)
        return other._array_on(side, Access.CONST, reason)

    def _prepared(self, value: Any, shape: tuple[int, ...] | None, side: Side) -> Any:
        """Bring a value to a side, and check that it fits before anything is touched."""
        if isinstance(value, np.generic):
            if value.dtype.kind != "c":
                return value.astype(self.dtype)
        elif isinstance(value, (int, float, complex)):
            return np.array(value, dtype=self.dtype)[()]
        if not isinstance(value, BlobBase):
            value = native_array(value)[0]
            as_dtype(value.dtype.newbyteorder("="))
        if value.dtype.kind == "c" and self.dtype.kind != "c":
            raise TypeError(f"cannot assign {value.dtype} values to a Blob of dtype {self.dtype}")
        require_broadcast(tuple(value.shape), shape)
        if isinstance(value, np.ndarray) and side is Side.HOST:
            return value
        if not isinstance(value, BlobBase):
            value = self._from_array(value)
        prepared = self._operand(value, side, "__setitem__")
        if value._memory is self._memory:
            # NumPy copes with overlap, but the source must be up to date before it is overwritten.
            prepared = self._memory.home(side).compute(prepared.copy)
        return prepared

    def _from_array(self, array: Any) -> Self:
        """Adopt any array for reading."""
        device = "cpu" if isinstance(array, np.ndarray) else None
        memory, layout = adopt(array, dtype=None, device=device, copy=None, owned=True)
        return self._of(memory, layout)


def _plain(key: Any) -> Any:
    """Replace what is an integer to Python, 0-d Blobs and tensors too, in an index by integers.

    As in NumPy its own arrays without axes select a copy.
    """
    if isinstance(key, tuple):
        return tuple(_plain(entry) for entry in key)
    if isinstance(key, BlobBase):
        if not key.shape and key.dtype.kind in "iu":
            return operator.index(key)  # type: ignore[arg-type]  # every Blob has __index__
        return key
    if isinstance(key, (int, np.generic, np.ndarray)) or not is_integer(key):
        return key
    try:
        return operator.index(key)
    except TypeError:
        # Tensors have the method, whatever they hold.
        return key
