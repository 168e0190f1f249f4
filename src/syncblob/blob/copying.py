"""Copies: of the whole Blob, into another Blob, as another dtype, on another device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from syncblob._dtypes import SUPPORTED, is_bfloat16, is_supported, numpy_dtype
from syncblob._layout import Layout
from syncblob.arrays.native import native_array
from syncblob.blob.core import BlobCore, Gradient, fresh
from syncblob.blob.flags import Flags
from syncblob.blob.replace_memory import assign
from syncblob.calls.operands import blob_to_read
from syncblob.devices import HOST, Accelerator, Device, Side, home_of, supervisors
from syncblob.memory import CONST, MUTABLE, SyncedMemory, compute, from_the_start
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class Copies(BlobCore):
    """The methods of a Blob that copy it."""

    __slots__ = ()

    def copy(self, order: Literal["C", "F", "A", "K"] = "C") -> Self:
        """Return an independent copy of data, and in C order of diff, if there is one.

        Copies on this Blob's device, after transferring what is newer on the other side, so that a
        second copy transfers nothing. Of a view with gaps only the elements are transferred. The
        copy of a const view is writable. `order` is its memory layout, as in NumPy.
        """
        if order != "C":
            return self.astype(self.dtype, order)
        home = self.home
        existing = self.existing_diff()
        if existing is None and (self.raw_array is not None or not self.memory.blank):
            try:
                result = fresh(type(self), private_array(self, "copy"), home)
            except MemoryError:
                if home.can_hold(2 * self.nbytes):
                    raise
            else:
                held = self.known_memory
                partner = None if held is None else held.accelerator
                if home is HOST and partner is not None:
                    result.origin = partner
                return result
        memory = _duplicate(self, self.memory)
        diff = None if existing is None else _duplicate(self, existing)
        layout = Layout.c_order(self.shape, self.dtype)
        return self.from_memory(memory, layout, home=home, gradient=Gradient(diff))

    def __copy__(self) -> Self:
        """Copy, as NumPy does; see `copy`."""
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy; see `copy`."""
        del memo
        return self.copy()

    def astype(  # NumPy's parameters, in their order
        self,
        dtype: DTypeLike,
        order: Any = None,
        casting: Any = "unsafe",
        subok: bool = True,  # noqa: FBT002  # NumPy's parameter
        copy: bool = True,  # noqa: FBT002  # may be given by position, as in NumPy
    ) -> Self:
        """Return data in another dtype, converted on this Blob's device.

        Parameters
        ----------
        dtype
            The new dtype. For one that Blobs do not support, the result is an ndarray, converted
            on the host.
        order
            The memory layout, as in NumPy. By default a copy is in C order, as every copy of a
            Blob.
        casting
            Which conversions are allowed, as for `numpy.can_cast`; TypeError for others.
        subok
            Without effect: the class stays.
        copy
            False returns this Blob itself if nothing changes.
        """
        del subok
        wanted = numpy_dtype(dtype)
        if wanted not in SUPPORTED and not is_supported(wanted):
            require_device(HOST.device, "astype")
            # As of NumPy's functions, the result is an ndarray then.
            array: Any = self.host_elements("astype").astype(wanted, order or "C", casting)
            return array
        if order is not None or casting != "unsafe":
            # Let NumPy check the arguments.
            np.empty(0, self.dtype).astype(wanted, order, casting)
        if not copy and wanted == self.dtype:
            kind = "K" if order is None else order.upper()
            if kind in {"A", "K"} or getattr(Flags(self), f"{kind.lower()}_contiguous"):
                return self
        if supervisors:
            require_device(self.device, "astype")
        return fresh(type(self), private_array(self, "astype", wanted, order or "C"), self.home)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Self:
        """Return this Blob if `device` is its device, else a copy of data on `device`.

        Goes through the host if both are accelerators. NoDeviceError if the device is not
        available. `stream` is None: work is ordered on CuPy's current stream.
        """
        if stream is not None:
            raise ValueError(f"expected stream=None, got {stream!r}; use CuPy's current stream")
        device = Device(device)
        if device == self.device:
            return self
        home, memory = home_of(device), self.memory
        if home is HOST or home is memory.accelerator:
            array = memory.copy_of(memory.side_of(home), self.layout, "to_device")
            return fresh(type(self), array, home)
        if memory.accelerator is not None:
            array = memory.gather(memory.side_of(home), self.layout, "to_device")
            return fresh(type(self), array, home)
        contents = np.array(self.host_elements("to_device"), order="C")
        flat = contents.reshape(-1).view(np.uint8)
        layout = Layout.c_order(self.shape, self.dtype)
        memory = SyncedMemory(layout.nbytes, device=device, source=lambda: flat)
        memory.array(Side.ACCELERATOR, MUTABLE, layout, "to_device")
        return self.from_memory(memory, layout)

    def copy_from(self, source: Any, *, copy_diff: bool = False, resize: bool = False) -> None:
        """Copy the data of another Blob, or with `copy_diff` its diff and no data.

        Runs on this Blob's device. Newer contents of the source on the other side are transferred
        first. This Blob's old contents are not. DeviceMismatchError if the two are on different
        accelerators.

        Parameters
        ----------
        source
            A Blob of this shape, or any array (then there is no diff to copy). Another dtype is
            converted if that is NumPy's ``same_kind``, else it is a TypeError.
        copy_diff
            False copies data and leaves diff as it is. True copies diff and leaves data as it is,
            like Caffe's CopyFrom, or clearer ``blob.diff.copy_from(source.diff)``.
        resize
            Take the source's shape first if it differs. Otherwise another shape is a ValueError;
            equal counts are not enough, as in Caffe.
        """
        self.require_writable("copy_from")
        if not isinstance(source, BlobCore):
            if copy_diff:
                raise TypeError(
                    f"copy_diff=True copies the diff of a Blob and no data, got "
                    f"{type(source).__name__}; blob.diff.copy_from(array) copies an array into the "
                    "diff"
                )
            source = blob_to_read(native_array(source)[0], self)
        _require_conversion(source.dtype, self.dtype)
        if source.shape != self.shape and not resize:
            raise ValueError(
                f"copy_from expects shape {self.shape}, got {source.shape}; resize=True takes over "
                "the shape of the source"
            )
        require_device(self.device, "copy_from")
        from_the_start(_copy_contents, self, source, diff=copy_diff)


def private_array(blob: BlobCore, reason: str, dtype: Any = None, order: Any = "C") -> Any:
    """Return the elements as an array of the Blob's home that is the caller's, in its dtype."""
    home = blob.home
    if home.plain and not supervisors:
        array = blob.raw_array
        if not blob.shortcut.readable:
            array = blob.current_array(reason if blob.layout.gapless else "")
        if array is not None:
            return home.astype(array, array.dtype if dtype is None else dtype, order)
    if dtype is None:
        return blob.memory.copy_of(blob.side, blob.layout, reason)
    return from_the_start(_convert, blob, reason, dtype, order)


def _convert(blob: BlobCore, reason: str, dtype: Any, order: Any) -> Any:
    array = blob.current_array()
    if array is None:
        array = blob.memory.elements(blob.side, blob.layout, reason)
    return compute(blob.home, blob.home.astype, array, dtype, order)


def _copy_contents(blob: BlobCore, source: BlobCore, *, diff: bool) -> None:
    home, origin = blob.home, source.memory_of(diff=diff)
    contents = origin.array(origin.side_of(home), CONST, source.layout, "copy_from")
    if source.dtype != blob.dtype:
        # Convert first: under ``numpy.errstate``, a conversion may raise.
        contents = compute(home, home.astype, contents, blob.dtype)
    elif origin is blob.memory_of(diff=diff):
        contents = compute(home, home.copy, contents)
    layout = Layout.c_order(source.shape, blob.dtype)
    assign(blob, contents, layout, home, "copy_from", diff=diff)


def _duplicate(blob: BlobCore, memory: SyncedMemory) -> SyncedMemory:
    """Copy this Blob's elements from a memory to a new one, on this Blob's device."""
    if memory.blank:
        duplicate = memory.successor(blob.nbytes)
        duplicate.name = ""
        return duplicate
    home, layout = blob.home, blob.layout
    try:
        contents = memory.copy_of(memory.side_of(home), layout, "copy")
    except MemoryError:
        if home.can_hold(2 * layout.nbytes):
            raise
        # A Blob that is too large for its device is copied on the host.
        home, contents = HOST, memory.copy_of(Side.HOST, layout, "copy")
    accelerator = home if isinstance(home, Accelerator) else None
    duplicate = SyncedMemory.adopting(
        home.wrap(contents), accelerator=accelerator, device=blob.device
    )
    if memory.accelerator is not None:
        duplicate.side_of(memory.accelerator)
    return duplicate


def _require_conversion(source: np.dtype[np.generic], target: np.dtype[np.generic]) -> None:
    # For NumPy, bfloat16 is of no kind of numbers.
    before, after = (np.dtype("f2") if is_bfloat16(x) else x for x in (source, target))
    if not np.can_cast(before, after, casting="same_kind"):
        raise TypeError(f"copy_from does not convert {source} to {target}; use .astype() first")
