"""CUDA devices, through CuPy. The one module that imports CuPy, and only when a device is used.

Memory comes from CuPy's pools, pinned memory for the host side. Work is ordered on CuPy's current
stream of the device; every method switches to its own device and back.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._shape import Layout
from syncblob.devices.base import DLPACK_CUDA, Accelerator, Device, Push
from syncblob.errors import DeviceMismatchError, NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numpy.typing import NDArray

__all__ = ["CudaBackend", "current_index", "device_count"]


@cache
def _why_not() -> str | None:
    """Say why CUDA cannot be used, or None where it can. Asked once."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver on this machine"
    try:
        import cupy  # imported only where a CUDA device is asked for
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); pip install 'syncblob[cuda13]'"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "there is no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA reports: {error}"


def device_count() -> int:
    """Return the number of CUDA devices that CuPy can use; 0 where it cannot be used."""
    if _why_not() is not None:
        return 0
    import cupy  # imported only where a CUDA device is asked for

    count: int = cupy.cuda.runtime.getDeviceCount()
    return count


def current_index() -> int:
    """Return the index of CuPy's current device."""
    import cupy  # imported only where a CUDA device is asked for

    index: int = cupy.cuda.runtime.getDevice()
    return index


class CudaBackend(Accelerator):
    """One CUDA device.

    Raises
    ------
    NoDeviceError
        If CuPy, the driver or the device is missing.
    """

    def __init__(self, index: int) -> None:
        reason = _why_not()
        if reason is None and index >= device_count():
            reason = f"there are {device_count()} CUDA devices, the first is cuda:0"
        if reason is not None:
            raise NoDeviceError(
                f"cuda:{index} cannot be used: {reason}. Select another device, for example "
                "with syncblob.use_device('simulated')"
            )
        import array_api_compat.cupy as namespace  # needs CuPy
        import cupy  # imported only where a CUDA device is asked for

        self.device: Device = Device(f"cuda:{index}")
        self.namespace: ModuleType = namespace
        self._cupy = cupy
        self._context = cupy.cuda.Device(index)
        self._push_stream: Any = None

    native = False

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call the function with this device as CuPy's current one."""
        with self._context:
            return function(*args, **keywords)

    def as_array(self, result: Any) -> Any:
        """Return the array; CuPy gives no scalars, but array-api-compat may give Python's."""
        if isinstance(result, self._cupy.ndarray):
            return result
        with self._context:
            return self._cupy.asarray(result)

    def overlap(self, array: Any, buffer: Any) -> bool:
        """Compare the bounds of the two."""
        with self._context:
            return bool(self._cupy.may_share_memory(array, buffer))

    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        """Return a new buffer from CuPy's memory pool, zeroed on the current stream if asked."""
        with self._context:
            make = self._cupy.zeros if zeroed else self._cupy.empty
            return make(nbytes, dtype=np.uint8)

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a page-locked host buffer from CuPy's pinned memory pool."""
        if nbytes == 0:
            return np.empty(0, dtype=np.uint8)
        with self._context:
            pinned = self._cupy.cuda.alloc_pinned_memory(nbytes)
        buffer = np.frombuffer(pinned, dtype=np.uint8, count=nbytes)
        if zeroed:
            buffer.fill(0)
        return buffer

    def zero(self, buffer: Any) -> None:
        """Set every byte of a buffer to zero, on the current stream."""
        with self._context:
            buffer.data.memset_async(0, buffer.nbytes)

    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        """Copy on the current stream and wait for it."""
        with self._context:
            stream = self._cupy.cuda.get_current_stream()
            self._start_upload(host, buffer, stream)
            stream.synchronize()

    def download(self, buffer: Any, host: NDArray[np.uint8]) -> None:
        """Wait for every stream of the device, then copy.

        Another library may still be writing through an alias, on a stream nobody told us of.
        """
        runtime = self._cupy.cuda.runtime
        with self._context:
            self._context.synchronize()
            runtime.memcpy(
                host.ctypes.data, buffer.data.ptr, host.nbytes, runtime.memcpyDeviceToHost
            )

    def push(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
        """Start an upload on `stream`, after the work already on the current stream.

        Parameters
        ----------
        host, buffer
            Of equal length.
        stream
            A CuPy stream, a pointer, an object with ``__cuda_stream__``, or None for a stream of
            this backend's own.
        """
        with self._context:
            target = self._as_stream(stream)
            target.wait_event(self._cupy.cuda.get_current_stream().record())
            self._start_upload(host, buffer, target)
            return _CudaPush(self, target.record(), (host, buffer))

    def synchronize(self) -> None:
        """Block until all streams of this device are idle."""
        self._context.synchronize()

    @property
    def capturing(self) -> bool:
        """Whether a CUDA graph is being captured on CuPy's current stream.

        True as well where a capture on another stream forbids the use of this one.
        """
        try:
            with self._context:
                return bool(self._cupy.cuda.get_current_stream().is_capturing())
        except RuntimeError as error:
            # During a capture CUDA may refuse to answer for the legacy stream; CuPy raises for a
            # capture that has failed.
            if "captur" in str(error):
                return True
            raise

    def view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Lay an array over a buffer. CuPy arrays can always be written."""
        del writable
        with self._context:
            array = self._cupy.ndarray(
                layout.shape, layout.dtype, buffer.data + layout.offset, layout.strides
            )
            # With a base, as NumPy's have: an array without one is taken for a new one when a
            # function returns it.
            return array.view()

    def layout(self, array: Any, buffer: Any) -> Layout:
        """Return how an array lies in its buffer."""
        offset = array.data.ptr - buffer.data.ptr if array.size else 0
        return Layout(tuple(array.shape), array.dtype, tuple(array.strides), offset)

    def exporter(self, buffer: Any) -> Any:
        """Return the buffer: each alias has an owner of its own."""
        return buffer

    def alias(self, exporter: Any, layout: Layout) -> tuple[Any, object]:
        """Lay an array over a buffer; the owner of its memory dies with the last view of it."""
        cuda = self._cupy.cuda
        owner = _Owner(exporter)
        with self._context:
            memory = cuda.UnownedMemory(
                exporter.data.ptr, exporter.nbytes, owner, self.device.index
            )
            pointer = cuda.MemoryPointer(memory, layout.offset)
            array = self._cupy.ndarray(layout.shape, layout.dtype, pointer, layout.strides)
        return array, owner

    def wrap(self, array: Any) -> Any:
        """Return the buffer under a C-contiguous CuPy array of this device, without a copy."""
        if array.device.id != self.device.index:
            raise DeviceMismatchError(
                f"expected an array on {self.device}, got one on cuda:{array.device.id}; arrays "
                "are not copied between accelerators: bring it over through the host"
            )
        with self._context:
            if array.size == 0:
                return self._cupy.empty(0, dtype=np.uint8)
            return array.reshape(-1).view(np.uint8)

    def capsule(self, array: Any, *, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return CuPy's DLPack capsule; `stream` waits for the current stream."""
        with self._context:
            return array.__dlpack__(stream=stream, max_version=max_version)

    def interface(self, array: Any) -> dict[str, Any]:
        """Return CuPy's ``__cuda_array_interface__`` of an array, with the current stream."""
        with self._context:
            return dict(array.__cuda_array_interface__)

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """(kDLCUDA, index)."""
        return (DLPACK_CUDA, self.device.index)

    def current_stream_wait(self, event: Any) -> None:
        """Make work that follows on the current stream wait for an event."""
        with self._context:
            self._cupy.cuda.get_current_stream().wait_event(event)

    def _start_upload(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> None:
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(
            buffer.data.ptr,
            host.ctypes.data,
            host.nbytes,
            runtime.memcpyHostToDevice,
            stream.ptr,
        )

    def _as_stream(self, stream: Any) -> Any:
        cuda = self._cupy.cuda
        if stream is None:
            if self._push_stream is None:
                self._push_stream = cuda.Stream(non_blocking=True)
            return self._push_stream
        if isinstance(stream, (cuda.Stream, cuda.ExternalStream)):
            return stream
        if isinstance(stream, int):
            stream = _Pointer(stream)
        if hasattr(stream, "__cuda_stream__"):
            if hasattr(cuda.Stream, "from_external"):
                return cuda.Stream.from_external(stream)
            # CuPy before version 14.
            return cuda.ExternalStream(stream.__cuda_stream__()[1], self.device.index)
        raise TypeError(
            "expected a CuPy stream, a stream pointer, an object with __cuda_stream__ or None, "
            f"got {stream!r}"
        )


class _Pointer:
    """A stream known by its address only."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:  # a protocol of CUDA's
        """Return the version of the protocol and the address."""
        return (0, self._address)


class _Owner:
    """What CuPy's views of an alias keep alive: the buffer, seen from outside."""

    __slots__ = ("__weakref__", "_buffer")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer


class _CudaPush(Push):
    """An upload on another stream, known by its event. Keeps both buffers until it is over."""

    def __init__(self, backend: CudaBackend, event: Any, buffers: tuple[Any, Any]) -> None:
        self._backend = backend
        self._event = event
        self._buffers = buffers

    def order(self) -> bool:
        if self._event.done:
            return True
        self._backend.current_stream_wait(self._event)
        return False

    def wait(self) -> None:
        self._event.synchronize()

    def __del__(self) -> None:
        # The pools may hand the memory out again as soon as the buffers are gone.
        self._event.synchronize()
