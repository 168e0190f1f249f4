"""Copies: of the whole Blob, into another Blob, as another dtype, on another device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, is_bfloat16, is_supported, numpy_dtype
from syncblob._layout import Layout
from syncblob.arrays.native import native_array
from syncblob.blob.core import AnyBlob, BlobCore, fresh
from syncblob.blob.flags import Flags
from syncblob.blob.resize import assign
from syncblob.calls.choose_home import require_device_of
from syncblob.calls.operands import blob_to_read
from syncblob.devices import HOST, Accelerator, Device, Side, home_of
from syncblob.guards import require_device
from syncblob.memory import CONST, MUTABLE, Shortcut, SyncedMemory, compute, from_the_start

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def copy(blob: AnyBlob, order: str) -> AnyBlob:
    """Return an independent copy of data and diff; see `Blob.copy`."""
    if order != "C":
        axes = _axes_in_memory(blob, order)
        result = copy(blob.derive(lambda a: a.transpose(axes)), "C")
        layout = result.layout.derive(lambda a: a.transpose(np.argsort(axes)))
        return blob.from_memory(result.memory, layout, home=blob.home, diff=result.own_diff)
    home = blob.home
    existing = blob.existing_diff()
    if existing is None and (blob.raw_array is not None or not blob.memory.blank):
        try:
            result = fresh(type(blob), private_array(blob, "copy"), home)
        except MemoryError:
            if home.can_hold(2 * blob.nbytes):
                raise
        else:
            held = blob.known_memory
            partner = None if held is None else held.ledger.buffers.accelerator
            if home is HOST and partner is not None:
                result.shortcut = Shortcut(partner, usable=True)
            return result
    memory = _duplicate(blob, blob.memory)
    diff = None if existing is None else _duplicate(blob, existing)
    layout = Layout.c_order(blob.shape, blob.dtype)
    return blob.from_memory(memory, layout, home=home, diff=diff)


def private_array(blob: BlobCore, reason: str, dtype: Any = None, order: Any = "C") -> Any:
    """Return the elements as an array of the Blob's home that is the caller's.

    Parameters
    ----------
    blob, reason
        The Blob, and the name of the access.
    dtype, order
        Those of the array; None for the dtype of the Blob.
    """
    home = blob.home
    if home.direct:
        array = blob.raw_array if blob.shortcut.readable else blob.current_array()
        if array is None and blob.layout.gapless:
            array = blob.current_array(reason)
        if array is not None:
            return home.astype(array, array.dtype if dtype is None else dtype, order)
    if dtype is None:
        return blob.memory.copy_of(blob.side, blob.layout, reason)
    return from_the_start(_converted, blob, reason, dtype, order)


def _converted(blob: BlobCore, reason: str, dtype: Any, order: Any) -> Any:
    array = blob.current_array()
    if array is None:
        array = blob.memory.elements(blob.side, blob.layout, reason)
    return compute(blob.home, blob.home.astype, array, dtype, order)


def _axes_in_memory(blob: BlobCore, order: str) -> list[int]:
    """Return the axes in the order of a copy's memory; the last one varies fastest."""
    layout = blob.layout
    axes = list(range(blob.ndim))
    if order == "A":
        backwards = layout.derive(lambda a: a.transpose())
        order = "F" if backwards.contiguous and not layout.contiguous else "C"
    if order == "K":
        return sorted(axes, key=lambda axis: -abs(layout.strides[axis]))
    if order not in {"C", "F"}:
        raise ValueError(f"expected an order of 'C', 'F', 'A' or 'K', got {order!r}")
    return axes if order == "C" else axes[::-1]


def astype(blob: AnyBlob, dtype: DTypeLike, order: Any, casting: Any, *, copy: bool) -> AnyBlob:
    """Return data in another dtype, converted on this Blob's device; see `Blob.astype`."""
    wanted = numpy_dtype(dtype)
    if wanted not in SUPPORTED and not is_supported(wanted):
        require_device(HOST.device, "astype")
        # An ndarray, as of NumPy's functions.
        array: Any = blob.host_elements("astype").astype(wanted, order or "C", casting)
        return array
    if order is not None or casting != "unsafe":
        # NumPy checks the arguments.
        np.empty(0, blob.dtype).astype(wanted, order, casting)
    if not copy and wanted == blob.dtype:
        kind = "K" if order is None else order.upper()
        if kind in {"A", "K"} or getattr(Flags(blob), f"{kind.lower()}_contiguous"):
            return blob
    if not HOST.direct:
        require_device_of("astype", blob)
    return fresh(type(blob), private_array(blob, "astype", wanted, order or "C"), blob.home)


def to_device(blob: AnyBlob, device: Device | str, *, stream: Any) -> AnyBlob:
    """Return this Blob, or a copy of data on another device; see `Blob.to_device`."""
    if stream is not None:
        raise ValueError(f"expected stream=None, got {stream!r}; use CuPy's current stream")
    device = Device(device)
    if device == blob.device:
        return blob
    home, memory = home_of(device), blob.memory
    if home is HOST or home is memory.accelerator:
        array = memory.copy_of(memory.side_of(home), blob.layout, "to_device")
        return fresh(type(blob), array, home)
    if memory.accelerator is not None:
        array = memory.gather(memory.side_of(home), blob.layout, "to_device")
        return fresh(type(blob), array, home)
    contents = np.array(blob.host_elements("to_device"), order="C")
    flat = contents.reshape(-1).view(np.uint8)
    layout = Layout.c_order(blob.shape, blob.dtype)
    memory = SyncedMemory(layout.nbytes, device=device, source=lambda: flat)
    memory.array(Side.ACCELERATOR, MUTABLE, layout, "to_device")
    return blob.from_memory(memory, layout)


def copy_from(blob: BlobCore, source: Any, *, copy_diff: bool, resize: bool) -> None:
    """Copy the contents of another Blob or an array into this Blob; see `Blob.copy_from`."""
    blob.require_writable("copy_from")
    if not isinstance(source, BlobCore):
        if copy_diff:
            raise TypeError(
                f"copy_diff=True copies the diff of a Blob and no data, got "
                f"{type(source).__name__}; blob.diff.copy_from(array) copies an array into the diff"
            )
        source = blob_to_read(native_array(source)[0], blob)
    _require_conversion(source.dtype, blob.dtype)
    if source.shape != blob.shape and not resize:
        raise ValueError(
            f"copy_from expects shape {blob.shape}, got {source.shape}; resize=True takes over "
            "the shape of the source"
        )
    require_device_of("copy_from", blob)
    from_the_start(_copy_contents, blob, source, diff=copy_diff)


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
        # As a Blob that is too large for its device, the copy begins on the host.
        home, contents = HOST, memory.copy_of(Side.HOST, layout, "copy")
    accelerator = home if isinstance(home, Accelerator) else None
    duplicate = SyncedMemory.adopting(
        home.wrap(contents), accelerator=accelerator, device=blob.device
    )
    if memory.accelerator is not None:
        duplicate.side_of(memory.accelerator)
    return duplicate


def _require_conversion(source: np.dtype[np.generic], target: np.dtype[np.generic]) -> None:
    if is_bfloat16(target):
        fits = source.kind in "fiub" or is_bfloat16(source)
    elif is_bfloat16(source):
        fits = target.kind in "fc"
    else:
        fits = np.can_cast(source, target, casting="same_kind")
    if not fits:
        raise TypeError(f"copy_from does not convert {source} to {target}; use .astype() first")
