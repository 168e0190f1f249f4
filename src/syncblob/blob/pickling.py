"""Pickling: the contents, in-band or out-of-band, or the name of shared memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.devices import Side, accelerator, home_of
from syncblob.errors import NoDeviceError
from syncblob.interop import shared_blocks
from syncblob.memory import CONST, MUTABLE, SyncedMemory

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore

_OUT_OF_BAND = 5
# That of complex128, the largest dtype.
_ALIGNMENT = 16


def reduce(blob: BlobCore, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the value for pickle; see `Blob.__reduce_ex__`."""
    if shared_blocks.name_of(blob._memory) is not None:
        return _reduce_shared(blob)
    data, diff = (
        _contents(blob, memory, out_of_band=int(protocol) >= _OUT_OF_BAND)
        for memory in (blob._memory, blob._existing_diff())
    )
    return _unpickle, (type(blob), blob.shape, blob.dtype, data, diff, _where(blob))


def _reduce_shared(blob: BlobCore) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle the name of data's block, and all of diff; offsets of views are equal in both."""
    memory, layout = blob._memory, blob._layout
    where = _where(blob)
    access = CONST if blob._readonly else MUTABLE
    memory.array(Side.HOST, access, layout, "pickle")
    if access is MUTABLE:
        memory.expose(Side.HOST, start=layout.start, stop=layout.stop, shared=True)
    existing = blob._existing_diff()
    diff = None
    if existing is not None and not existing.blank:
        everything = Layout.raw(existing.used_nbytes)
        diff = existing.array(Side.HOST, CONST, everything, "pickle").tobytes()
    block = shared_blocks.name_of(memory), memory.used_nbytes
    return _attach, (type(blob), *block, layout, diff, where, blob._readonly)


def _where(blob: BlobCore) -> tuple[str, str | None]:
    """Return the names of the device and of the accelerator, which may differ."""
    accelerator = blob._memory.accelerator
    return str(blob.device), None if accelerator is None else str(accelerator.device)


def _contents(blob: BlobCore, memory: SyncedMemory | None, *, out_of_band: bool) -> Any:
    if memory is None or memory.blank:
        return None
    array = memory.elements(Side.HOST, blob._layout, "pickle")
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    # Read-only, because loading adopts writable buffers, and a pickle may be loaded twice.
    flat.flags.writeable = False
    return pickle.PickleBuffer(flat.data) if out_of_band else flat.tobytes()


def _unpickle(  # noqa: PLR0913, PLR0917  # the pickled values
    cls: type[BlobCore],
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic],
    data: Any,
    diff: Any,
    where: tuple[str, str | None],
) -> BlobCore:
    layout = Layout.c_order(shape, dtype)
    blob = cls._of(_holding(data, layout.nbytes, where), layout)
    if diff is not None:
        blob._diff = _holding(diff, layout.nbytes, where)
    return blob


def _attach(  # noqa: PLR0913, PLR0917  # the pickled values
    cls: type[BlobCore],
    name: str,
    nbytes: int,
    layout: Layout,
    diff: bytes | None,
    where: tuple[str, str | None],
    readonly: bool,
) -> BlobCore:
    memory = _bound(where, lambda device: shared_blocks.attach(name, nbytes, device))
    blob = cls._of(memory, layout, readonly=readonly)
    if diff is not None:
        blob._diff = _holding(diff, len(diff), where)
    return blob


def _bound(where: tuple[str, str | None], make: Callable[[str], SyncedMemory]) -> SyncedMemory:
    """Make a memory for a device, with its first accelerator, if these are available here."""
    device, bound_to = (name if name is not None and _usable(name) else None for name in where)
    memory = make(device or "cpu")
    if bound_to is not None:
        memory.side_of(accelerator(bound_to))
    return memory


def _usable(device: str) -> bool:
    try:
        home_of(device)
    except (NoDeviceError, ValueError):
        # No such device here, or its backend is not registered in this process.
        return False
    return True


def _holding(buffer: Any, nbytes: int, where: tuple[str, str | None]) -> SyncedMemory:
    def make(device: str) -> SyncedMemory:
        if buffer is None:
            return SyncedMemory(nbytes, device=device)
        contents = np.frombuffer(buffer, dtype=np.uint8) if nbytes else np.empty(0, dtype=np.uint8)
        if contents.flags.writeable and contents.ctypes.data % _ALIGNMENT == 0:
            # A buffer received for this Blob alone; pickle's own buffers are read-only.
            return SyncedMemory.adopting(contents, device=device)
        memory = SyncedMemory(nbytes, device=device)
        memory.overwrite_cpu_data()[...] = contents
        return memory

    return _bound(where, make)
