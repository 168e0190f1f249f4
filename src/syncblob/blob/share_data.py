"""Memory that a Blob takes over: an array as one of its sides, or the memory of another Blob."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob._layout import Layout
from syncblob.arrays.native import buffer_of
from syncblob.blob.core import NOTHING_KEPT, BlobCore, keep_diff
from syncblob.blob.resize import let_go
from syncblob.devices import Accelerator, Side

if TYPE_CHECKING:
    from syncblob.memory import SyncedMemory


def replace_side(blob: BlobCore, side: Side, array: Any, action: str, *, diff: bool) -> None:
    """Adopt an array as one side of data or diff; see `Blob.set_cpu_data`."""
    blob.require_writable(action)
    if isinstance(array, BlobCore):
        raise TypeError(f"{action} expects an array, got a Blob; use share_data or copy_from")
    if not blob.layout.contiguous or blob.layout.offset:
        raise ValueError(f"{action} is for a C-contiguous Blob, and this is a strided view")
    memory, home = blob.memory_of(diff=diff), blob.home
    accelerator = home if isinstance(home, Accelerator) else memory.accelerator
    buffer = buffer_of(array, side, accelerator, blob.layout)
    if blob.layout.nbytes < memory.nbytes and blob.base is None:
        _leave_for(blob, memory, side, buffer, action, diff=diff)
        return
    memory.replace_side(side, *buffer)
    # Views of this Blob release the replaced buffer when they are next used.
    blob.accessor_arrays = NOTHING_KEPT
    if not diff and blob.raw_array is not None:
        # Exchanges the array. Another thread may be about to use it, so it is never missing.
        blob.current_array()


def _leave_for(  # noqa: PLR0913  # a Blob, and what it leaves for what
    blob: BlobCore, memory: SyncedMemory, side: Side, buffer: Any, action: str, *, diff: bool
) -> None:
    """Let a Blob that is smaller than its memory leave it for one over a buffer, as in Caffe."""
    successor = memory.successor(blob.layout.nbytes)
    successor.replace_side(side, *buffer)
    let_go(action, [memory], partial(_exchange, blob, successor, diff=diff))


def _exchange(blob: BlobCore, memory: SyncedMemory, *, diff: bool) -> None:
    """Replace the memory of data or diff."""
    if diff:
        blob.accessor_arrays = NOTHING_KEPT
        blob.own_diff = memory
        return
    layout = Layout.c_order(blob.shape, blob.dtype)
    keep_diff(blob)
    blob.use_memory(memory, layout)


def share(blob: BlobCore, other: BlobCore, *, diff: bool) -> None:
    """Share the memory of another Blob's data or diff; see `Blob.share_data`."""
    action = "share_diff" if diff else "share_data"
    blob.require_own(action)
    if not isinstance(other, BlobCore):
        raise TypeError(f"{action} expects a Blob, got {type(other).__name__}")
    if other.dtype != blob.dtype:
        raise TypeError(f"{action} expects dtype {blob.dtype}, got {other.dtype}")
    if other.size != blob.size:
        raise ValueError(
            f"{action} expects {blob.size} elements, shape {blob.shape}, got {other.size}, "
            f"shape {other.shape}"
        )
    if not other.layout.contiguous or other.layout.offset or other.readonly:
        raise ValueError(
            f"{action} expects a writable C-contiguous Blob that starts where its memory "
            "starts; copy it first"
        )
    memory = other.memory_of(diff=diff)
    old = blob.own_diff if diff else blob.memory
    if memory is old:
        return

    replace = partial(_exchange, blob, memory, diff=diff)
    if old is None:
        replace()
    else:
        let_go(action, [old], replace)
