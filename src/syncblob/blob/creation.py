"""Making Blobs: from arrays of any library, from a source, and in shared memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype, is_supported
from syncblob._layout import Layout
from syncblob._shape import as_shape
from syncblob._source_lines import Place, user_instruction
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import array_of_tensor, backend_of, import_array, native_array
from syncblob.blob.copying import Copies
from syncblob.blob.core import BlobCore, Gradient, fresh
from syncblob.devices import CPU, HOST, Device, default_device, home_of
from syncblob.interop import shared_memory
from syncblob.interop.adopt import adopt
from syncblob.memory import SyncedMemory, compute

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.memory.buffers import Function


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


class Creation(Copies):
    """The methods that make a Blob of something else."""

    __slots__ = ()

    @classmethod
    def asarray(
        cls,
        x: Any,
        dtype: DTypeLike | None = None,
        *,
        device: Device | str | None = None,
        copy: bool | None = None,
    ) -> Self:
        """Make a Blob of this class as `syncblob.asarray` does, whose parameters these are.

        Returns `x` itself, if it is a Blob and nothing changes; else a Blob that shares the memory
        of `x`, or one with a copy.
        """
        if isinstance(x, BlobCore):
            return cls._of_blob(x, dtype, device, copy)
        wanted = None if dtype is None else as_dtype(dtype)
        owned = False
        if copy or (wanted is not None and type(x) is not np.ndarray):
            # A copy reads the tensor for a moment, and need not keep it from being resized.
            array = None
        else:
            array = x if type(x) is np.ndarray else array_of_tensor(x, "keep")
        if array is None:
            try:
                array, owned = native_array(x, copy=copy, dtype=wanted)
            except BufferError as error:
                if copy is False:
                    raise ValueError(str(error)) from error
                raise
            if dtype is None and not array.shape and array.dtype == object:
                # NumPy wraps what is no array in a 0-d array of objects.
                raise TypeError(
                    "a Blob is made of an array, numbers, or an object with a protocol of arrays, "
                    f"such as __dlpack__ or __array__, got {type(x).__name__}; convert it to an "
                    "ndarray"
                )
        if device is not None:
            device = Device(device)
        elif copy is not False and isinstance(array, np.ndarray):
            device = default_device()
        return cls._over(array, wanted, device, copy, owned=owned)

    @classmethod
    def from_dlpack(
        cls, x: Any, *, device: Device | str | None = None, copy: bool | None = None
    ) -> Self:
        """Make a Blob of this class as `syncblob.from_dlpack` does."""
        if not hasattr(x, "__dlpack__"):
            raise TypeError(
                f"expected an object with __dlpack__, got {type(x).__name__}; asarray takes others"
            )
        try:
            if isinstance(x, BlobCore):
                return cls.asarray(x, device=device, copy=copy)
            own = type(x) is np.ndarray and x.dtype in SUPPORTED
            array = x if own else array_of_tensor(x, "keep")
            if array is None:
                array = import_array(x, copy=copy)
            return cls._over(array, None, None if device is None else Device(device), copy)
        except ValueError as error:
            raise BufferError(str(error)) from error

    @classmethod
    def from_source(
        cls,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike,
        source: Function,
        *,
        diff_source: Function | None = None,
        device: Device | str | None = None,
    ) -> Self:
        """Make a Blob that is filled on first access instead of being zeroed.

        Parameters
        ----------
        shape, dtype, device
            As for the constructor.
        source
            A function that returns the contents as a one-dimensional uint8 array of `nbytes`
            bytes, read-only or not. The first access that reads calls it, and again if that
            fails; an access on the accelerator uploads its result directly. `save_model` and
            conversions of files call it too, without changing the Blob. It may have methods
            `read_into` and `again`; see "Lazy sources" in the documentation.
        diff_source
            The same for diff.
        """
        layout = dense_layout(shape, dtype)
        memory = SyncedMemory(layout.nbytes, device=device, source=source)
        diff = None
        if diff_source is not None:
            diff = SyncedMemory(layout.nbytes, device=device, source=diff_source)
        return cls.from_memory(memory, layout, gradient=Gradient(diff))

    @classmethod
    def in_shared_memory(
        cls,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike = "float32",
        *,
        name: str | None = None,
        create: bool = True,
        device: Device | str | None = None,
    ) -> Self:
        """Make a Blob whose host data is in shared memory, for several processes.

        Its pickle contains the name of the block instead of data; loading it attaches to the block.
        Each process has its own head: what it computes on a device reaches the block when it is
        read on the host, or when its last Blob over the block or the process ends. The host is
        exposed, because others may write at any time; writing on the device does not end that.
        Reads and writes of several processes are not ordered; if the processes synchronise, use
        `refresh`. diff is not shared.

        The block does not grow: a `resize` that needs more raises. It is freed when its last array
        is gone. The process that created it removes it from the system then, or when the process
        ends.

        Parameters
        ----------
        shape, dtype, device
            As for the constructor.
        name
            The name of the block, as for ``multiprocessing.shared_memory``; None for a new
            unique name.
        create
            True makes a new block of zeros, or raises FileExistsError. False attaches to that of
            another Blob: FileNotFoundError if there is none, ValueError if it is too small.
        """
        layout = dense_layout(shape, dtype)
        if create:
            memory = shared_memory.create(name, layout.nbytes, device)
        elif name is None:
            raise ValueError("expected the name of the shared memory to attach to, got None")
        else:
            memory = shared_memory.attach(name, layout.nbytes, device)
        return cls.from_memory(memory, layout)

    @classmethod
    def _of_blob(
        cls, x: Any, dtype: DTypeLike | None, device: Device | str | None, copy: bool | None
    ) -> Self:
        """Return a Blob of this class that shares the memory of a Blob, or a copy."""
        wanted = x.dtype if dtype is None else as_dtype(dtype)
        same_device = device is None or Device(device) == x.device
        changed = "dtype" if wanted != x.dtype else "" if same_device else "device"
        if not changed and not copy and isinstance(x, cls):
            return x
        if copy is False:
            raise ValueError(f"copy=False was asked for, but the {changed or 'class'} differs")
        blob = cls.from_memory(x.memory, x.layout, home=x.home, base=x.root(), readonly=x.readonly)
        blob.gradient = x.shared_gradient()
        if changed == "dtype" or (copy and same_device):
            blob = blob.astype(wanted)
        return blob if device is None else blob.to_device(device)

    @classmethod
    def _over(
        cls,
        array: Any,
        dtype: np.dtype[np.generic] | None,
        device: Device | None,
        copy: bool | None,
        *,
        owned: bool = False,
    ) -> Self:
        """Make a Blob over an array of NumPy or CuPy; `device` defaults to that of the array."""
        if (
            type(array) is np.ndarray
            and not (copy or owned)
            and (device is None or device is CPU or device == CPU)
            and array.flags.carray
            and (dtype is None or array.dtype == dtype)
            and (array.dtype in SUPPORTED or is_supported(array.dtype))
        ):
            blob = fresh(cls, array.view(), HOST)
            # Other code may still write the array, so the host side will be exposed.
            blob.origin = Place(*user_instruction())
            return blob
        here = CPU if isinstance(array, np.ndarray) else backend_of(array).device
        elsewhere = device is not None and device != here
        if owned and elsewhere and not array.shape:
            # The device fills a scalar itself: nothing is transferred.
            dtype = as_dtype(array.dtype) if dtype is None else dtype
            home, value = home_of(device), array.astype(dtype).item()
            return fresh(cls, compute(home, home.namespace.full, (), value, dtype=dtype), home)
        if elsewhere and copy is None and not owned:
            # The owner may still write the array, and each use on the device would transfer it.
            copy = True
        memory, layout = adopt(array, dtype=dtype, device=device or here, copy=copy, owned=owned)
        return cls.from_memory(memory, layout)
