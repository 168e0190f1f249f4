"""Making Blobs: from arrays of any library, from a source, and in shared memory."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype, is_supported
from syncblob._layout import Layout
from syncblob._shape import as_shape
from syncblob._source_lines import Place, user_instruction
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import array_of_tensor, backend_of, import_array, native_array
from syncblob.blob.copying import astype, to_device
from syncblob.blob.core import GPU_DATA, AnyBlob, BlobCore, fresh
from syncblob.devices import CPU, HOST, Device, default_device, home_of
from syncblob.interop.adopt import adopt
from syncblob.memory import Shortcut, SyncedMemory, compute

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def dense_layout(shape: Any, dtype: DTypeLike) -> Layout:
    """Check a shape and a dtype, and return the C-contiguous layout of a whole memory.

    An array is no shape: it was meant for values.
    """
    if type(shape) not in {tuple, int} and is_array(shape):
        raise TypeError(
            f"expected a shape, one integer or a tuple of them, got {type(shape).__name__}; for a "
            "Blob of values use syncblob.asarray(), for a shape in an array tuple()"
        )
    resolved = as_dtype(dtype)
    return _dense_layout(as_shape(shape, resolved.itemsize), resolved)


# Programs have few shapes, and a layout takes longer to make than the rest of a Blob. Sharing is
# safe because layouts are not changed.
@lru_cache(maxsize=256)
def _dense_layout(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Layout:
    return Layout.c_order(shape, dtype)


def asarray(
    cls: type[AnyBlob],
    x: Any,
    dtype: DTypeLike | None,
    device: Device | str | None,
    copy: bool | None,
) -> AnyBlob:
    """Convert an array, or an object that converts to one, to a Blob; see `Blob.asarray`."""
    if isinstance(x, BlobCore):
        return _of_blob(cls, x, dtype, device, copy)
    wanted = None if dtype is None else as_dtype(dtype)
    owned = False
    if copy or (wanted is not None and type(x) is not np.ndarray):
        # Not for a moment only: see `array_of_tensor`.
        array = None
    else:
        array = x if type(x) is np.ndarray else array_of_tensor(x, keep=True)
    if array is None:
        try:
            array, owned = native_array(x, copy=copy, dtype=wanted)
        except BufferError as error:
            if copy is False:
                raise ValueError(str(error)) from error
            raise
        _require_array(x, array, wanted)
    if device is not None:
        device = Device(device)
    elif copy is not False and isinstance(array, np.ndarray):
        device = default_device()
    return _over(cls, array, wanted, device, copy, owned=owned)


def _of_blob(
    cls: type[AnyBlob],
    x: Any,
    dtype: DTypeLike | None,
    device: Device | str | None,
    copy: bool | None,
) -> AnyBlob:
    """Return a Blob of a class that shares the memory of a Blob, or a copy; see `asarray`."""
    wanted = None if dtype is None else as_dtype(dtype)
    same_dtype = wanted is None or wanted == x.dtype
    same_device = device is None or Device(device) == x.device
    if same_dtype and same_device and not copy and isinstance(x, cls):
        return x
    if copy is False:
        change = "dtype" if not same_dtype else "device"
        raise ValueError(f"copy=False was asked for, but the {change} differs")
    blob = cls.from_memory(x.memory, x.layout, home=x.home, base=x.root(), readonly=x.readonly)
    if not same_dtype or (copy and same_device):
        blob = astype(blob, x.dtype if wanted is None else wanted, None, "unsafe", copy=True)
    return blob if device is None else to_device(blob, device, stream=None)


def _require_array(x: Any, array: Any, dtype: np.dtype[np.generic] | None) -> None:
    """Raise TypeError if an object without a dtype was no array, of which NumPy makes a scalar."""
    if dtype is None and not array.shape and array.dtype == object:
        raise TypeError(
            "a Blob is made of an array, numbers, or an object with a protocol of arrays, "
            f"such as __dlpack__ or __array__, got {type(x).__name__}; convert it to an ndarray"
        )


def from_dlpack(
    cls: type[AnyBlob], x: Any, device: Device | str | None, copy: bool | None
) -> AnyBlob:
    """Make a Blob over the memory of an object with ``__dlpack__``; see `Blob.from_dlpack`."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"expected an object with __dlpack__, got {type(x).__name__}; asarray takes others"
        )
    try:
        if isinstance(x, BlobCore):
            return asarray(cls, x, None, device, copy)
        own = type(x) is np.ndarray and x.dtype in SUPPORTED
        array = x if own else array_of_tensor(x, keep=True)
        if array is None:
            array = import_array(x, copy=copy)
        return _over(cls, array, None, None if device is None else Device(device), copy)
    except ValueError as error:
        raise BufferError(str(error)) from error


def gpu_shape(blob: BlobCore) -> Any:
    """Return the shape as an int32 array on the accelerator; see `Blob.gpu_shape`."""
    shape, memory = blob.shape, blob.memory
    home = memory.home(blob.accelerator_side(memory))
    of, known = blob.shape_blob
    if of != shape or known.home is not home:
        dims = np.array(shape, dtype=np.int32)
        memory = SyncedMemory.adopting(dims.view(np.uint8), device="cpu")
        known = blob.from_memory(memory, Layout.c_order((len(shape),), dims.dtype), home=home)
        blob.shape_blob = (shape, known)
    return known.const_view(GPU_DATA, "gpu_shape")


def _over(  # noqa: PLR0913  # an array, and what it becomes
    cls: type[AnyBlob],
    array: Any,
    dtype: np.dtype[np.generic] | None,
    device: Device | None,
    copy: bool | None,
    *,
    owned: bool = False,
) -> AnyBlob:
    """Make a Blob over an array of NumPy or CuPy; `device` defaults to that of the array.

    An array that has another owner is copied if it is on another device: because the owner may
    still write it, each use on the device would have to transfer the contents again.
    """
    if (
        type(array) is np.ndarray
        and not (copy or owned)
        and (device is None or device is CPU or device == CPU)
        and array.flags.carray
        and (dtype is None or array.dtype == dtype)
        and (array.dtype in SUPPORTED or is_supported(array.dtype))
    ):
        blob = fresh(cls, array.view(), HOST)
        # Other code may still write it.
        blob.shortcut = Shortcut(Place(*user_instruction()), usable=True)
        return blob
    here = CPU if isinstance(array, np.ndarray) else backend_of(array).device
    elsewhere = device is not None and device != here
    if owned and elsewhere and not array.shape:
        # The device fills it: nothing is transferred.
        dtype = as_dtype(array.dtype) if dtype is None else dtype
        home, value = home_of(device), array.astype(dtype).item()
        return fresh(cls, compute(home, home.namespace.full, (), value, dtype=dtype), home)
    if elsewhere and copy is None and not owned:
        copy = True
    memory, layout = adopt(array, dtype=dtype, device=device or here, copy=copy, owned=owned)
    return cls.from_memory(memory, layout)
