"""The Blob itself: how to make one, and one of another dtype or for another device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import as_dtype, is_supported
from syncblob._shape import Layout, as_shape
from syncblob.blob._base import BlobBase
from syncblob.blob._guarded import require_device_of
from syncblob.blob._messages import Messages
from syncblob.devices import CPU, HOST, Device, Side, default_device, home_of
from syncblob.interop import shared_memory
from syncblob.interop.adopt import adopt, native_array
from syncblob.interop.cuda import backend_of
from syncblob.interop.dlpack import import_array
from syncblob.memory import Access, SyncedMemory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self, SupportsIndex

    from numpy.typing import DTypeLike

    from syncblob.memory.sources import Function

__all__ = ["Blob"]


class Blob(Messages):
    """One N-dimensional array with a copy on the host and a copy on an accelerator.

    Each copy is allocated on first use, and brought up to date when somebody needs it there.
    NumPy, CuPy and PyTorch take a Blob without a copy; the contents move when they must. A Blob
    has two memories: data, and diff for the gradient, which does not exist before it is used.

    Parameters
    ----------
    shape
        One non-negative integer or a tuple of them; ``()`` holds one element. Never values, which
        `syncblob.asarray` takes: ``Blob([1, 2, 3])`` has three axes.
    dtype
        A dtype of the array API, float16, or bfloat16 with ml_dtypes; of data and of diff.
    device
        ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``: where operations run, for as long as the Blob
        lives. None means the default device.
    name
        What the journal and `explain` call the Blob.

    Raises
    ------
    TypeError, ValueError
        If shape or dtype are impossible.
    NoDeviceError
        If the device cannot be used here.

    Examples
    --------
    >>> import numpy as np
    >>> from syncblob import Blob
    >>> blob = Blob((2, 3), device="simulated")
    >>> blob.mutable_cpu_data()[...] = 1
    >>> blob.gpu_data().sum()
    np.float32(6.0)
    >>> blob
    Blob(shape=(2, 3), dtype=float32, device=simulated:0, head=SYNCED)
    >>> np.asarray(blob).flags.writeable
    False
    """

    __slots__ = ()

    # --- making Blobs ----------------------------------------------------------------------------

    @classmethod
    def asarray(
        cls,
        x: Any,
        dtype: DTypeLike | None = None,
        *,
        device: Device | str | None = None,
        copy: bool | None = None,
    ) -> Self:
        """Make a Blob of anything that is, or converts to, an array; without a copy if possible.

        Parameters
        ----------
        x
            A Blob, an array of NumPy, CuPy, torch or any library with DLPack or the CUDA array
            interface, a buffer, a nested sequence, or a scalar.
        dtype
            The dtype wanted; None for that of `x`.
        device
            The device the contents will be used on; they move on first use. None keeps a Blob's
            or an accelerator array's device, and means the default device otherwise.
        copy
            True always copies, False never, None where needed: for another dtype or device, and for
            memory that is read-only, unaligned, has gaps, or belongs to a converted object.

        Returns
        -------
        Blob
            `x` itself, if it is a Blob and nothing is to be changed; else a Blob over the memory
            of `x` or over a copy.

        Raises
        ------
        ValueError
            If `copy` is False and a copy or a transfer is needed.
        TypeError
            If a Blob cannot hold the dtype.
        """
        wanted = None if dtype is None else as_dtype(dtype)
        if not isinstance(x, BlobBase):
            try:
                array, owned = native_array(x, copy=copy, dtype=wanted)
            except BufferError as error:
                if copy is False:
                    raise ValueError(str(error)) from error
                raise
            target = None if device is None else Device(device)
            if target is None and copy is not False and isinstance(array, np.ndarray):
                target = default_device()
            return cls._over(array, wanted, target, copy, owned=owned)
        same_dtype = wanted is None or wanted == x.dtype
        same_device = device is None or Device(device) == x.device
        if same_dtype and same_device and not copy and isinstance(x, cls):
            return x
        if copy is False:
            change = "dtype" if not same_dtype else "device"
            raise ValueError(f"copy=False was asked for, but the {change} differs")
        blob = cls._of(x._memory, x._layout, home=x._home, base=x._root(), readonly=x._readonly)
        if not same_dtype or (copy and same_device):
            blob = blob.astype(x.dtype if wanted is None else wanted)
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
        """Make a Blob of an array of NumPy or CuPy, for a device; None for that of the array.

        An array that somebody else has is copied if it is not there: over memory that its owner may
        still write into, each use on the device would have to fetch the contents again.
        """
        here = CPU if isinstance(array, np.ndarray) else backend_of(array).device
        elsewhere = device is not None and device != here
        if (
            here == CPU
            and not (elsewhere or copy or owned)
            and array.flags.carray
            and (dtype is None or array.dtype == dtype)
            and is_supported(array.dtype)
        ):
            return cls._lent(array)
        if elsewhere and copy is None and not owned:
            copy = True
        memory, layout = adopt(array, dtype=dtype, device=device or here, copy=copy, owned=owned)
        return cls._of(memory, layout)

    @classmethod
    def from_dlpack(
        cls, x: Any, *, device: Device | str | None = None, copy: bool | None = None
    ) -> Self:
        """Make a Blob over the memory of an object with ``__dlpack__``.

        Parameters
        ----------
        x
            Any DLPack producer on the host or on a CUDA device.
        device
            The device the contents will be used on; None for that of `x`.
        copy
            As for `asarray`.

        Raises
        ------
        BufferError
            If the producer refuses, or its memory is on a device of another kind.
        TypeError
            If `x` is no DLPack producer.
        """
        if not hasattr(x, "__dlpack__"):
            raise TypeError(
                f"expected an object with __dlpack__, got {type(x).__name__}; asarray takes others"
            )
        try:
            if isinstance(x, BlobBase):
                return cls.asarray(x, device=device, copy=copy)
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
            bytes, read-only or not. Called by the first access that reads, again if that fails;
            on the accelerator its result is uploaded directly. `save_model` and conversions of
            files call it too, and leave the Blob as it is.
        diff_source
            The same for diff.
        """
        resolved = as_dtype(dtype)
        layout = Layout.c_order(as_shape(shape, resolved.itemsize), resolved)
        memory = SyncedMemory(layout.nbytes, device=device, source=source)
        diff = None
        if diff_source is not None:
            diff = SyncedMemory(layout.nbytes, device=device, source=diff_source)
        return cls._of(memory, layout, diff=diff)

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
        """Make a Blob whose data on the host is a block that several processes have.

        A pickle of it has the name of the block in place of data, and whoever loads it attaches.
        Each process has its own head: what it computes on a device is in the block once it has
        been read on the host. The host counts as exposed, and writing on the device does not end
        that: others write there at any time, and nothing orders their reads and writes. diff is
        not shared.

        The block is closed with the last array over it, and removed from the system then, or at
        the end of the process, by the process that created it.

        Parameters
        ----------
        shape, dtype, device
            As for the constructor.
        name
            The name of the block, as ``multiprocessing.shared_memory`` has it; None
            for one of its own.
        create
            True makes a new block, full of zeros; False attaches to that of another Blob.

        Raises
        ------
        FileExistsError
            If the block is to be created and exists.
        FileNotFoundError
            If it is to be attached to and does not exist.
        ValueError
            If it is too small, or has no name to attach by.
        """
        resolved = as_dtype(dtype)
        layout = Layout.c_order(as_shape(shape, resolved.itemsize), resolved)
        if create:
            memory = shared_memory.create(name, layout.nbytes, device)
        elif name is None:
            raise ValueError("expected the name of the shared memory to attach to, got None")
        else:
            memory = shared_memory.attach(name, layout.nbytes, device)
        return cls._of(memory, layout)

    # --- other dtypes and devices ----------------------------------------------------------------

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Self:
        """Return data in another dtype, converted on this Blob's device.

        Parameters
        ----------
        dtype
            The dtype wanted.
        copy
            False returns this Blob itself where nothing changes.
        """
        wanted = as_dtype(dtype)
        if wanted == self.dtype and not copy:
            return self
        require_device_of("astype", self)
        if self._array_is_current() or self._array_in_use():
            home = self._home
            return self._fresh(home.compute(self._array.astype, wanted, order="C"), home)
        side = self._side
        return self._result(self._elements(side, "astype"), side, dtype=wanted, copy=True)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Self:
        """Return this Blob if `device` is its device, else a copy of data that lives there.

        Goes through the host where both are accelerators.

        Parameters
        ----------
        device
            ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``.
        stream
            None; work is ordered on CuPy's current stream.

        Raises
        ------
        NoDeviceError
            If the device cannot be used here.
        """
        if stream is not None:
            raise ValueError(f"expected stream=None, got {stream!r}; use CuPy's current stream")
        device = Device(device)
        if device == self.device:
            return self
        home = home_of(device)
        if home is HOST or home is self._memory.accelerator:
            side = Side.HOST if home is HOST else Side.ACCELERATOR
            array = self._elements(side, "to_device")
            return self._fresh(home.compute(array.copy, order="C"), home)
        contents = np.array(self._elements(Side.HOST, "to_device"), order="C")
        flat = contents.reshape(-1).view(np.uint8)
        layout = Layout.c_order(self.shape, self.dtype)
        memory = SyncedMemory(layout.nbytes, device=device, source=lambda: flat)
        memory.array(Side.ACCELERATOR, Access.MUTABLE, layout, "to_device")
        return self._of(memory, layout)
