"""CUDA devices, through CuPy, which is imported only when a device is used.

Device memory and page-locked host memory come from CuPy's allocators. Work is ordered on CuPy's
current stream of the device; every method switches to its own device and back.

User kernels may run on any stream, and cannot be tracked. Therefore a transfer first synchronizes
the whole device, and its result is visible to every stream when the call returns. Only a push
continues after its call; later accesses on the device make their stream wait for it.
"""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._formatting import extend, human_bytes
from syncblob._locks import notify
from syncblob._source_lines import user_line
from syncblob.devices import watching
from syncblob.devices.base import DLPACK_CUDA, Accelerator, Device, Push
from syncblob.devices.host import HOST
from syncblob.errors import DeviceMismatchError, NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Never

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.devices.base import Moment

__all__ = ["CudaBackend", "current_index", "device_count"]

# CuPy's pool of page-locked memory rounds up to powers of two and never shrinks. Buffers of this
# size and larger are allocated outside the pool, and freed with the last array over them.
_POOLED_AT_MOST = 1 << 16

# `cudaErrorMemoryAllocation`.
_OUT_OF_MEMORY = 2


@cache
def _why_not() -> str | None:
    """Return why CUDA cannot be used; None if it can. Cached."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver on this machine"
    try:
        import cupy  # imported only if a CUDA device is used
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); pip install 'syncblob[cuda13]'"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "there is no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA reports: {error}"


def device_count() -> int:
    """Return the number of CUDA devices that CuPy can use."""
    if _why_not() is not None:
        return 0
    import cupy  # imported only if a CUDA device is used

    count: int = cupy.cuda.runtime.getDeviceCount()
    return count


def current_index() -> int:
    """Return the index of CuPy's current device."""
    import cupy  # imported only if a CUDA device is used

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
        import cupy  # imported only if a CUDA device is used

        self.device: Device = Device(f"cuda:{index}")
        self.namespace: ModuleType = namespace
        self._cupy = cupy
        self._context = cupy.cuda.Device(index)
        self._push_stream: Any = None
        # An event, and when it happened; see `time_of`.
        self._later: tuple[Any, float] | None = None
        # The events of unfinished pushes, with their buffers, which the allocators may otherwise
        # reuse as soon as they are freed. A finalizer could not keep them alive, because in cyclic
        # garbage CuPy's event may be destroyed before it runs.
        self._under_way: dict[Any, tuple[Any, Any]] = {}
        # The events of pushes without waiters.
        self._abandoned: set[Any] = set()
        notify(self)

    native = False
    asynchronous = True

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call the function with this device as CuPy's current one."""
        with self._context:
            try:
                if watching.watchers:
                    return watching.run(self, function, args, keywords)
                return function(*args, **keywords)
            except MemoryError as error:
                extend(error, self._shortage())
                raise

    def as_array(self, result: Any) -> Any:
        """Return an array. CuPy returns no scalars, but array-api-compat may return Python's."""
        if isinstance(result, self._cupy.ndarray):
            return result
        with self._context:
            return self._cupy.asarray(result)

    def overlap(self, array: Any, buffer: Any) -> bool:
        """Compare the memory bounds of both."""
        with self._context:
            return bool(self._cupy.may_share_memory(array, buffer))

    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        """Return a new buffer from CuPy's allocator. Zeros are visible to every stream."""
        with self._context:
            if zeroed:
                self._refuse_capture("setting memory to zero")
            try:
                buffer = self._cupy.empty(nbytes, dtype=np.uint8)
            except MemoryError as error:
                extend(error, self._shortage())
                raise
            if zeroed:
                self._zero_now(buffer)
        return buffer

    def _shortage(self) -> str:
        """Return how much memory is in use, and what frees some."""
        # CuPy's pool and PyTorch's allocator keep memory that was freed, each for itself.
        kept = human_bytes(self._cupy.get_default_memory_pool().free_bytes())
        free, total = map(human_bytes, self._cupy.cuda.runtime.memGetInfo())
        return (
            f"{free} of the {total} of {self.device} are free, and CuPy keeps {kept}, which "
            "cupy.get_default_memory_pool().free_all_blocks() frees; "
            "torch.cuda.empty_cache() frees what PyTorch keeps"
        )

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a page-locked host buffer, or an ordinary one if no memory can be page-locked.

        `is_page_locked` tells which. In a forked child it is an ordinary one.
        """
        lost = isinstance(self._context, _LostContext)
        if not lost:
            self._drop_finished()
        pinned = self._pinned(nbytes) if nbytes and not lost else None
        if pinned is None:
            return HOST.allocate(nbytes, zeroed=zeroed)
        buffer = np.frombuffer(pinned, dtype=np.uint8, count=nbytes)
        if zeroed:
            buffer.fill(0)
        return buffer

    def _pinned(self, nbytes: int) -> Any:
        """Return page-locked memory; None if CUDA has none left."""
        cuda = self._cupy.cuda
        with self._context:
            for attempt in range(2):
                try:
                    if nbytes < _POOLED_AT_MOST:
                        return cuda.alloc_pinned_memory(nbytes)
                    return cuda.PinnedMemoryPointer(cuda.PinnedMemory(nbytes), 0)
                except cuda.runtime.CUDARuntimeError as error:
                    if error.status != _OUT_OF_MEMORY:
                        raise
                    if not attempt:
                        self._cupy.get_default_pinned_memory_pool().free_all_blocks()
        return None

    def is_page_locked(self, host: NDArray[np.uint8]) -> bool:
        """Return whether a host buffer is page-locked, so that copies run at full speed."""
        if not host.nbytes:
            return True
        runtime = self._cupy.cuda.runtime
        with self._context:
            attributes = runtime.pointerGetAttributes(host.ctypes.data)
        return bool(attributes.type == runtime.memoryTypeHost)

    def zero(self, buffer: Any) -> None:
        """Synchronize the device, set every byte of a buffer to zero, and wait for that.

        Raises
        ------
        RuntimeError
            During graph capture.
        """
        with self._context:
            self._refuse_capture("setting memory to zero")
            self._context.synchronize()
            self._zero_now(buffer)

    def _zero_now(self, buffer: Any) -> None:
        buffer.data.memset_async(0, buffer.nbytes)
        # Other streams must see the zeros, too.
        self._cupy.cuda.get_current_stream().synchronize()

    def wait_for_work(self) -> None:
        """Synchronize the device; a kernel may use memory that a transfer reads or replaces.

        Raises
        ------
        RuntimeError
            During graph capture.
        """
        with self._context:
            self._refuse_capture("a transfer")
            self._context.synchronize()

    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        """Copy on the current stream and wait for it.

        Raises
        ------
        RuntimeError
            During graph capture.
        """
        self._drop_finished()
        with self._context:
            self._refuse_capture("an upload")
            stream = self._cupy.cuda.get_current_stream()
            try:
                self._start_upload(host, buffer, stream)
                stream.synchronize()
            except BaseException:
                self._finish(stream)
                raise

    def download(self, buffer: Any, host: NDArray[np.uint8]) -> None:
        """Synchronize the device, then copy.

        Another library may still be writing through an alias, on an unknown stream.

        Raises
        ------
        RuntimeError
            During graph capture.
        """
        runtime = self._cupy.cuda.runtime
        with self._context:
            self._refuse_capture("a download")
            self._context.synchronize()
            runtime.memcpy(
                host.ctypes.data, buffer.data.ptr, host.nbytes, runtime.memcpyDeviceToHost
            )

    def push(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
        """Start an upload on `stream`, after the work queued on the current stream.

        Parameters
        ----------
        host, buffer
            Buffers of equal length.
        stream
            A CuPy stream, a pointer, an object with ``__cuda_stream__``, or None for the backend's
            own stream.

        Raises
        ------
        RuntimeError
            During graph capture.
        """
        self._drop_finished()
        with self._context:
            target = self._as_stream(stream)
            self._refuse_capture("an asynchronous upload", target)
            target.wait_event(self._cupy.cuda.get_current_stream().record())
            try:
                self._start_upload(host, buffer, target)
                event = target.record()
                self._under_way[event] = (host, buffer)
            except BaseException:
                # The copy may be queued, and the caller releases both buffers.
                self._finish(target)
                raise
        return _CudaPush(self, event)

    def moment(self) -> Moment:
        """Return a function that tells when the current stream had run the work queued so far."""
        with self._context:
            stream = self._cupy.cuda.get_current_stream()
            if self._is_capturing(stream):
                # The event would become part of the graph.
                return super().moment()
            return partial(self.time_of, stream.record())

    def time_of(self, event: Any) -> float | None:
        """Return when an event happened, in seconds of `time.perf_counter`; None if unknown.

        CUDA tells only the time between two events. So this waits for a later one, and uses it for
        other events, too: the times between them are exact.
        """
        cuda = self._cupy.cuda
        with suppress(NoDeviceError, cuda.runtime.CUDARuntimeError), self._context:
            stream = cuda.get_current_stream()
            if self._is_capturing(stream) or not event.done:
                return None
            later = self._later
            if later is None or cuda.get_elapsed_time(event, later[0]) < 0:
                now = stream.record()
                now.synchronize()
                later = self._later = now, time.perf_counter()
            elapsed: float = cuda.get_elapsed_time(event, later[0])
            return later[1] - elapsed / 1e3
        return None

    def synchronize(self) -> None:
        """Block until all streams of this device are idle."""
        self._context.synchronize()

    @property
    def capturing(self) -> bool:
        """Whether a CUDA graph is being captured on CuPy's current stream.

        Also True if a capture on another stream forbids the use of this one.
        """
        with self._context:
            return self._is_capturing(self._cupy.cuda.get_current_stream())

    @staticmethod
    def _is_capturing(stream: Any) -> bool:
        try:
            return bool(stream.is_capturing())
        except RuntimeError as error:
            # During a capture, CUDA may raise for the legacy stream, and CuPy raises for a failed
            # capture.
            if "captur" in str(error):
                return True
            raise

    def _refuse_capture(self, action: str, stream: Any = None) -> None:
        """Raise for an action that cannot be captured, before CUDA invalidates the capture.

        Parameters
        ----------
        action
            The action, for the message.
        stream
            A stream to check in addition to the current one.
        """
        current = self._cupy.cuda.get_current_stream()
        if self._is_capturing(current) or (stream is not None and self._is_capturing(stream)):
            raise RuntimeError(
                f"{action} cannot be part of a CUDA graph, and one is being captured: transfer the "
                f"contents to {self.device} before the capture, with gpu_data() for example, and "
                "back to the host after it"
            )

    def _finish(self, stream: Any) -> None:
        """Wait for a stream, because a buffer that it uses is about to be freed."""
        for waiting in (stream, self._context):
            # This may fail for the same reason; the original error is being raised already.
            with suppress(Exception):
                waiting.synchronize()
                return

    def let_go(self, event: Any) -> None:
        """Release the buffers of a finished push."""
        self._under_way.pop(event, None)
        self._abandoned.discard(event)

    def abandon(self, event: Any) -> None:
        """Record that a push has no waiters left. Its buffers are kept until it has finished.

        Does not wait, because finalizers run at any time, even during a capture, which forbids
        waiting.
        """
        if event in self._under_way:
            self._abandoned.add(event)

    def _drop_finished(self) -> None:
        """Release the buffers of abandoned pushes that have finished."""
        if self._abandoned and not self.capturing:
            with self._context:
                for event in list(self._abandoned):
                    if event.done:
                        self.let_go(event)

    def after_fork(self) -> None:
        """Make every use raise in a forked child, where CUDA does not work."""
        self._context = _LostContext(self.device)

    def view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Return an array over a buffer. CuPy arrays are always writable."""
        del writable
        with self._context:
            array = self._cupy.ndarray(
                layout.shape, layout.dtype, buffer.data + layout.offset, layout.strides
            )
            # A view has a base, as in NumPy. A result without a base would be taken for a new
            # array.
            return array.view()

    def address(self, array: Any) -> int:
        """Return the address of the first element of an array."""
        address: int = array.data.ptr
        return address

    def exporter(self, buffer: Any) -> Any:
        """Return the buffer; each alias has its own owner."""
        return buffer

    def alias(self, exporter: Any, layout: Layout) -> tuple[Any, object]:
        """Return an array over a buffer, and an owner that lives as long as the last view of it."""
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
                f"expected an array on {self.device}, got one of shape {array.shape} on "
                f"cuda:{array.device.id}, at {user_line().described()}; arrays are not copied "
                "between accelerators: copy it through the host"
            )
        with self._context:
            if array.size == 0:
                return self._cupy.empty(0, dtype=np.uint8)
            return array.reshape(-1).view(np.uint8)

    def dlpack_device_of(self, buffer: Any) -> tuple[int, int]:
        """Return the DLPack device of a buffer; an allocator may return managed memory."""
        kind, index = buffer.__dlpack_device__()
        return int(kind), int(index)

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
        """Make the current stream wait for an event.

        Raises
        ------
        RuntimeError
            During graph capture, because a graph cannot wait for an event outside of it.
        """
        with self._context:
            self._refuse_capture("waiting for an asynchronous upload")
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
    """A stream of which only the address is known."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:  # a protocol of CUDA's
        """Return the version of the protocol and the address."""
        return (0, self._address)


class _Owner:
    """An object that CuPy's views of an alias keep alive; it references the buffer."""

    __slots__ = ("__weakref__", "_buffer")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer


class _CudaPush(Push):
    """An upload on another stream, identified by its event."""

    def __init__(self, backend: CudaBackend, event: Any) -> None:
        self._backend = backend
        self._event = event

    def order(self) -> bool:
        # First, because `done` cannot be queried during a capture.
        self._backend.current_stream_wait(self._event)
        over = bool(self._event.done)
        if over:
            self._backend.let_go(self._event)
        return over

    def wait(self) -> None:
        self._event.synchronize()
        self._backend.let_go(self._event)

    @property
    def arrival(self) -> Moment:
        """A function that tells when the upload had arrived."""
        return partial(self._backend.time_of, self._event)

    @property
    def over(self) -> bool:
        """Whether it has finished, after a wait has raised; a capture only forbids waiting."""
        return not self._backend.capturing

    def __del__(self) -> None:
        self._backend.abandon(self._event)


class _LostContext:
    """Stands for a device of the parent in a forked child."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __enter__(self) -> Never:
        """Refuse.

        Raises
        ------
        NoDeviceError
            Always.
        """
        self.synchronize()

    def __exit__(self, *_: object) -> None:
        """No-op; required by ``with``."""

    def synchronize(self) -> Never:
        """Refuse."""
        raise NoDeviceError(
            f"{self._device} cannot be used in the child of a fork, because CUDA cannot: start "
            "the process with the method 'spawn', or leave the device to the parent"
        )
