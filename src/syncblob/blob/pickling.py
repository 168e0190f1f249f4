"""Pickling: the contents, in-band or out-of-band, or the name of shared memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from syncblob._layout import Layout
from syncblob.blob.core import BlobCore, Gradient
from syncblob.devices import Side, accelerator, home_of
from syncblob.errors import NoDeviceError
from syncblob.interop import shared_memory
from syncblob.memory import CONST, MUTABLE, SyncedMemory
from syncblob.memory.accesses import expose

_OUT_OF_BAND = 5
# The alignment of complex128, the largest dtype.
_ALIGNMENT = 16


def reduce(blob: BlobCore, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the value for pickle; see `Blob.__reduce_ex__`."""
    memory, layout, existing = blob.memory, blob.layout, blob.existing_diff()
    bound_to = memory.accelerator
    where = str(blob.device), None if bound_to is None else str(bound_to.device)
    if shared_memory.name_of(memory) is None:
        data, diff = (
            _contents(each, layout, out_of_band=int(protocol) >= _OUT_OF_BAND)
            for each in (memory, existing)
        )
        placed: tuple[Any, ...] = blob.shape, blob.dtype
        return _unpickle, (type(blob), placed, data, diff, where, blob.readonly)
    # All bytes of diff, so that the offsets of a view are valid in both memories.
    access = CONST if blob.readonly else MUTABLE
    memory.array(Side.HOST, access, layout, "pickle")
    if access is MUTABLE:
        expose(memory, Side.HOST, start=layout.start, stop=layout.stop, shared=True)
    block = shared_memory.name_of(memory), memory.nbytes
    diff = existing and _contents(existing, Layout.raw(existing.nbytes), out_of_band=False)
    placed = layout.shape, layout.dtype, layout.strides, layout.offset
    return _unpickle, (type(blob), placed, block, diff, where, blob.readonly)


def _contents(memory: SyncedMemory | None, layout: Layout, *, out_of_band: bool) -> Any:
    if memory is None or memory.blank:
        return None
    array = memory.elements(Side.HOST, layout, "pickle")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    # Read-only, because loading adopts writable buffers, and a pickle may be loaded twice.
    flat.flags.writeable = False
    return pickle.PickleBuffer(flat.data) if out_of_band else flat.tobytes()


def _unpickle(
    cls: type[BlobCore],
    placed: tuple[Any, ...],
    data: Any,
    diff: Any,
    where: tuple[str, str | None],
    readonly: bool = False,  # noqa: FBT002  # pickled by position
) -> BlobCore:
    """Make a Blob; `placed` has the arguments of its layout."""
    layout = Layout(*placed)
    memory = _memory(data, layout.nbytes, where)
    gradient = None if diff is None else _memory(diff, layout.nbytes, where)
    return cls.from_memory(memory, layout, gradient=Gradient(gradient), readonly=readonly)


def _usable(device: str) -> bool:
    try:
        home_of(device)
    except (NoDeviceError, ValueError):
        # No such device here, or its backend is not registered in this process.
        return False
    return True


def _memory(contents: Any, nbytes: int, where: tuple[str, str | None]) -> SyncedMemory:
    """Make a memory of a buffer, of the name and size of a block, or of zeros, on its devices."""
    device, bound_to = (name if name is not None and _usable(name) else None for name in where)
    device = device or "cpu"
    if isinstance(contents, tuple):
        memory = shared_memory.attach(contents[0], contents[1], device)
    elif contents is None or not memoryview(contents).nbytes:
        memory = SyncedMemory(nbytes, device=device)
    else:
        array = np.frombuffer(contents, dtype=np.uint8)
        if array.flags.writeable and array.ctypes.data % _ALIGNMENT == 0:
            # An out-of-band buffer is this Blob's alone; buffers inside a pickle are read-only.
            memory = SyncedMemory.adopting(array, device=device)
        else:
            memory = SyncedMemory(array.nbytes, device=device)
            memory.overwrite_cpu_data()[...] = array
    if bound_to is not None:
        memory.side_of(accelerator(bound_to))
    return memory
