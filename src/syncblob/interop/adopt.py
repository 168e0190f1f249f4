"""Adopting arrays of other libraries as memories, without a copy if possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype, is_supported
from syncblob._layout import Layout
from syncblob.arrays.native import backend_of
from syncblob.devices import HOST, Device
from syncblob.memory import CONST, SyncedMemory, compute, in_room
from syncblob.memory.accesses import expose
from syncblob.memory.buffers import next_serial
from syncblob.memory.operations import in_turn
from syncblob.transfers import Copying, transfer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Home


def adopt(
    array: Any,
    *,
    dtype: np.dtype[np.generic] | None,
    device: Device | str | None,
    copy: bool | None,
    backend: Accelerator | None = None,
    owned: bool = False,
) -> tuple[SyncedMemory, Layout]:
    """Make a memory from a NumPy or CuPy array.

    An array is adopted without a copy if it is writable and aligned, and if every byte from its
    first to its last belongs to exactly one element, because transfers write that whole range. The
    order of the axes does not matter. Other arrays are copied. Contents are transferred to `device`
    on first use. The memory of an array that has another owner (`owned` is False) is exposed.
    `backend` is the accelerator of a NumPy array on a simulated device.

    Raises ValueError if `copy` is False and a copy or a transfer is needed; TypeError if Blobs do
    not support the dtype.
    """
    if backend is None and not isinstance(array, np.ndarray):
        backend = backend_of(array)
    home: Home = backend or HOST
    obstacle = _obstacle(array, dtype, home)
    if copy is False and obstacle is None and device is not None:
        elsewhere = Device(device) != home.device
        obstacle = f"the array is not on {device}" if elsewhere else None
    if copy is False and obstacle is not None:
        raise ValueError(f"copy=False was asked for, but {obstacle}")
    if obstacle is not None or copy:
        target = as_dtype(array.dtype.newbyteorder("=")) if dtype is None else dtype
        array = compute(home, home.astype, array, target)
        owned = True
    base = _dense_base(array, home)
    if base is array:
        layout = Layout(tuple(array.shape), array.dtype)
    else:
        layout = home.layout(array, home.address(base))
    memory = SyncedMemory.adopting(home.wrap(base), accelerator=backend, device=device)
    if not owned:
        expose(memory, memory.side_of(home))
    return memory, layout


def array_in(home: Any, array: Any, reason: str) -> Any:
    """Return an array in a home with the elements of one of NumPy or CuPy, only to be read.

    An upload is recorded as `reason`; there is none if the home can use the memory of the array.
    """
    if not isinstance(array, np.ndarray):
        memory, layout = adopt(array, dtype=None, device=None, copy=None, owned=True)
        return memory.array(memory.side_of(home), CONST, layout, reason)
    if home is HOST:
        return array
    dtype = array.dtype
    native = dtype if dtype in SUPPORTED else as_dtype(dtype.newbyteorder("="))
    dense = np.asarray(array, native, order="C")
    contents = HOST.wrap(dense)
    buffer = home.share(contents) if home.shared else None
    if buffer is None:
        buffer = _upload(home, contents, reason)
    else:
        # Its owner may write again when the call has returned.
        home.end_next()
    if not home.native:
        return home.own_view(buffer, Layout(dense.shape, native), writable=False)
    # In fewer steps.
    uploaded = buffer.view(native).reshape(dense.shape)
    uploaded.flags.writeable = False
    return uploaded


def _upload(accelerator: Accelerator, contents: NDArray[np.uint8], reason: str) -> Any:
    """Return a new buffer of an accelerator with a copy of bytes of the host.

    Logs and guards see a transfer of a memory of its own, with this reason.
    """
    nbytes = contents.nbytes
    call = in_turn, accelerator, accelerator.allocate, nbytes
    buffer = in_room(accelerator, reason, MemoryError, *call)
    if nbytes:
        copying = Copying(accelerator, reason, next_serial())
        transfer(copying, "upload", nbytes, 0, accelerator.upload, contents, buffer)
    return buffer


def can_adopt(array: Any, home: Home) -> bool:
    """Return whether an array of a home can be adopted without a copy."""
    if type(array) is np.ndarray and array.flags.carray and array.dtype in SUPPORTED:
        # The usual case.
        return True
    return _obstacle(array, None, home) is None


def _obstacle(array: Any, dtype: np.dtype[np.generic] | None, home: Home) -> str | None:
    """Return why an array cannot be adopted without a copy; None if it can."""
    if dtype is not None and array.dtype != dtype:
        return f"a conversion from {array.dtype} to {dtype} is needed"
    if not is_supported(array.dtype):
        as_dtype(array.dtype.newbyteorder("="))
        return f"a conversion from {array.dtype} to native byte order is needed"
    if home.read_only(array):
        return "the array is read-only, and a Blob's memory is written by transfers"
    if isinstance(array, np.ndarray) and not array.flags.aligned:
        return "the array is not aligned"
    if _dense_base(array, home) is None:
        return "the array has gaps or repeats elements, and transfers move whole blocks"
    return None


def _dense_base(array: Any, home: Home) -> Any:
    """Return a C-contiguous view of exactly an array's bytes; None if there is none."""
    if array.flags.c_contiguous:
        return array
    forward = array[tuple(slice(None, None, -1 if step < 0 else 1) for step in home.strides(array))]
    strides = home.strides(forward)
    order = sorted(range(array.ndim), key=lambda axis: -strides[axis])
    base = forward.transpose(order)
    return base if base.flags.c_contiguous else None
