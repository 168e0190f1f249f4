"""Uploads of bytes that no memory tracks, such as those of an ndarray beside a Blob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.memory.buffers import next_serial
from syncblob.memory.operations import leave_room
from syncblob.memory.room import in_room
from syncblob.transfers import Copying, transfer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from syncblob.devices import Accelerator


def upload(accelerator: Accelerator, contents: NDArray[np.uint8], reason: str) -> Any:
    """Return a new buffer of an accelerator with a copy of bytes of the host.

    Logs and guards see a transfer of a memory of its own, with this reason.
    """
    nbytes = contents.nbytes
    buffer = in_room(accelerator, reason, MemoryError, _allocate, accelerator, nbytes)
    if nbytes:
        copying = Copying(accelerator, reason, next_serial())
        transfer(copying, "upload", nbytes, 0, accelerator.upload, contents, buffer)
    return buffer


def _allocate(accelerator: Accelerator, nbytes: int) -> Any:
    leave_room(accelerator)
    return accelerator.allocate(nbytes)
