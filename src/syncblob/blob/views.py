"""Views: Blobs that share the memories of another, with the same or another shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex

import numpy as np

from syncblob._dtypes import SUPPORTED, is_supported, numpy_dtype
from syncblob._layout import Layout
from syncblob._shape import shape_from
from syncblob.arrays.native import native_array
from syncblob.blob.copying import Copies, private_array
from syncblob.blob.core import HOST_DATA, BlobCore, fresh
from syncblob.calls.ndarray_methods import NdarrayMethods
from syncblob.devices import Device, Side, home_of, supervisors
from syncblob.interop.side_view import SideView
from syncblob.memory import CONST, MUTABLE, SyncedMemory
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class Views(Copies, NdarrayMethods):
    """The methods and attributes of a Blob that return views of it.

    A view shares memory, head, buffers and gradient with the Blob it was taken from, as long as
    that Blob keeps its memory.
    """

    __slots__ = ()

    @property
    def data(self) -> Self:
        """A Blob over the memory of data. ``blob.data[...] = x`` writes the contents.

        ``blob.data *= 2`` works too; assigning another object raises.
        """
        return self.view_at(self.layout)

    @data.setter
    def data(self, value: Self) -> None:
        self._require_in_place(value, self.memory, "data")

    @property
    def diff(self) -> Self:
        """A Blob over the memory of diff, the gradient; created on first use, with zeros.

        As for `data`, ``blob.diff[...] = x`` and ``blob.diff += x`` write it.
        """
        return self.from_memory(
            self.diff_memory(),
            self.layout,
            home=self.home,
            gradient=self.second_gradient(),
            base=self.root(),
            readonly=self.readonly,
        )

    @diff.setter
    def diff(self, value: Self) -> None:
        self._require_in_place(value, self.existing_diff(), "diff")

    def _require_in_place(self, value: Any, memory: SyncedMemory | None, name: str) -> None:
        """Accept the assignment of an in-place operator: its own operand, already written."""
        self.require_writable(f"assignment to {name}")
        own = isinstance(value, BlobCore) and value.memory is memory
        if not own or value.layout != self.layout:
            raise AttributeError(
                f"{name} cannot be replaced; blob.{name}[...] = values copies values in, and "
                f"share_{name} takes another Blob's memory"
            )

    @property
    def const(self) -> Self:
        """A read-only view: every export of it is a const access, and writing it raises."""
        return self.view_at(self.layout, readonly=True)

    def view(self, dtype: DTypeLike | None = None) -> Self:
        """Return a view of the same bytes as elements of another dtype. Transfers nothing.

        The gradient of the view is that of this Blob, seen in the same way. `dtype` None is this
        one. If the itemsize differs, the length of the last axis changes; ValueError if the sizes
        do not match, or the elements would not be aligned. For a dtype that Blobs do not support,
        the view is a read-only ndarray over the host side: a const access.
        """
        if dtype is None:
            return self.view_at(self.layout)
        wanted = numpy_dtype(dtype)
        if wanted not in SUPPORTED and not is_supported(wanted):
            # As of NumPy's functions. `dtype` itself may be a subclass of ndarray.
            array: Any = self.const_view(HOST_DATA, "view").view(dtype)
            return array
        if self.home.native and wanted.alignment <= self.dtype.alignment:
            return self.derive(lambda a: a.view(wanted))
        view = self.layout.derive(lambda a: a.view(wanted))
        if any(step % wanted.alignment for step in (view.offset, *view.strides)):
            raise ValueError(
                f"a view as {wanted} begins at byte {view.offset} of the memory, with strides "
                f"{view.strides}, and accelerators need multiples of {wanted.alignment}; use "
                ".copy().view(dtype)"
            )
        return self.view_at(view)

    def on(self, device: Device | str) -> Self:
        """Return a view of the same memory whose operations run on another device.

        Copies nothing; an operation transfers what it needs. `to_device` makes a copy.
        NoDeviceError if the device is not available, DeviceMismatchError if it cannot use this
        memory.
        """
        view = self.view_at(self.layout)
        view.home = home_of(device)
        for memory in (self.memory, self.existing_diff()):
            if memory is not None:
                memory.side_of(view.home)
        return view

    @property
    def cpu(self) -> SideView:
        """The host side, for other libraries: ``np.asarray(blob.cpu)`` is writable.

        ``blob.cpu.const`` is for reading, ``blob.cpu.overwrite`` for writing every element.
        Nothing is transferred before a library takes it.
        """
        return self._side_view(host=True)

    @property
    def gpu(self) -> SideView:
        """The accelerator side, for other libraries: ``cupy.asarray(blob.gpu)``; see `cpu`.

        These aliases are tracked, unlike those of ``cupy.asarray(blob)``.
        """
        return self._side_view(host=False)

    def _side_view(self, *, host: bool) -> SideView:
        def what() -> tuple[SyncedMemory, Side, Layout]:
            memory = self.memory
            side = Side.HOST if host else self.accelerator_side(memory)
            return memory, side, self.layout

        return SideView(what, CONST if self.readonly else MUTABLE, host=host)

    # --- other shapes of the same elements -------------------------------------------------------

    def reshape(
        self,
        *shape: SupportsIndex | Iterable[SupportsIndex],
        order: Literal["C", "F", "A"] = "C",
        copy: bool | None = None,
    ) -> Self:
        """Return the elements in C order in another shape; a view if possible.

        Parameters
        ----------
        *shape
            The new dimensions, or one tuple of them; one may be -1.
        order
            The order in which elements are read and placed, as in NumPy.
        copy
            None copies only if no view is possible, True always, on this Blob's device. False is a
            ValueError if no view is possible; so is another count, which `resize` sets.
        """
        if order != "C":
            return self._call(np.reshape, shape_from(shape), order=order, copy=copy)
        if not copy:
            view = self._view_in_shape(shape)
            if view is not None:
                return view
            if copy is False:
                raise ValueError(
                    f"copy=False was asked for, but strides {self.strides} allow no view of shape "
                    f"{self._complete_shape(shape_from(shape))}"
                )
        if supervisors:
            require_device(self.device, "reshape")
        wanted = -1 if shape == (-1,) else self._complete_shape(shape_from(shape))
        return fresh(type(self), private_array(self, "reshape").reshape(wanted), self.home)

    def _view_in_shape(self, shape: tuple[Any, ...]) -> Self | None:
        array = self.viewable_array()
        if array is self.raw_array and array.flags.c_contiguous:
            try:
                return self.view_of_array(array, array.reshape(*shape))
            except (TypeError, ValueError):
                pass  # raised below, with our message
        wanted = self._complete_shape(shape_from(shape))
        try:
            return self.view_at(self.layout.derive(lambda a: a.reshape(wanted, copy=False)))
        except ValueError:
            return None

    def _complete_shape(self, shape: Any) -> Any:
        """Replace a negative dimension as NumPy does, and check the number of elements."""
        try:
            return Layout.c_order(self.shape, self.dtype).dummy().reshape(shape).shape
        except ValueError as error:
            raise ValueError(
                f"{error}, got {shape} for a Blob of shape {self.shape}; reshape keeps the count, "
                "resize changes it"
            ) from None

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex]) -> Self:
        """Return a view with the axes permuted; reversed by default."""
        order = shape_from(axes) if axes else None
        return self.derive(lambda a: a.transpose(order))

    @property
    def T(self) -> Self:  # noqa: N802  # the name in NumPy and the array API
        """A view with the axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802  # the name in NumPy and the array API
        """A view with the last two axes exchanged; ValueError if there are fewer."""
        if self.ndim < 2:  # noqa: PLR2004  # a matrix has two axes
            raise ValueError(f"expected at least two axes, got shape {self.shape}")
        return self.derive(lambda a: a.swapaxes(-1, -2))

    def squeeze(self, axis: Any = None) -> Self:
        """Return a view without the axes of length 1."""
        return self.derive(lambda a: a.squeeze(axis))

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Self:
        """Return a view with two axes exchanged."""
        return self.derive(lambda a: a.swapaxes(axis1, axis2))

    def ravel(self, order: Any = "C") -> Self:
        """Return the elements along one axis; a view if they are contiguous in that order."""
        if order == "C" and self.layout.contiguous:
            return self.reshape(-1)
        return self._call(np.ravel, order=order)

    def flatten(self, order: Literal["C", "F", "A", "K"] = "C") -> Self:
        """Return a copy of the elements along one axis."""
        return self.reshape(-1, copy=True) if order == "C" else self.ravel(order).copy()

    @property
    def flat(self) -> Self:
        """The elements in C order along one axis: a view, so that ``blob.flat[3] = x`` writes.

        If no view is possible it is a const copy. ``blob.flat = values`` assigns values in C order,
        as NumPy does: too few are repeated, too many are truncated.
        """
        elements = self.reshape(-1)
        return elements if elements.memory is self.memory else elements.const

    @flat.setter
    def flat(self, values: Any) -> None:
        self.require_writable("assignment to flat")
        source: Any = values if isinstance(values, BlobCore) else native_array(values)[0]
        if source.size:
            blob: Any = self
            one = source.size == 1
            blob[...] = source.reshape(()) if one else np.resize(source, self.shape)

    @property
    def real(self) -> Self:
        """The real parts, a view; this Blob itself unless it is complex. Assigning writes them."""
        return self.derive(lambda a: a.real) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, values: Any) -> None:
        part: Any = self.real
        part[...] = values

    @property
    def imag(self) -> Self:
        """The imaginary parts, a view. Assigning writes them.

        For a Blob that is not complex, a new const one of zeros.
        """
        if self.dtype.kind == "c":
            return self.derive(lambda a: a.imag)
        zeros = self._call(np.zeros_like)
        zeros.make_const()
        return zeros

    @imag.setter
    def imag(self, values: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError(
                f"expected a complex Blob to set the imaginary part of, got {self.dtype}; "
                "use .astype() first"
            )
        part: Any = self.imag
        part[...] = values
