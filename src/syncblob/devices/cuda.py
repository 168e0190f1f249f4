"""CUDA devices, through CuPy. The one module that imports CuPy, and only when a device is used.

Device memory comes from CuPy's allocator, and page-locked memory for the host side. Work is ordered
on CuPy's current stream of the device; every method switches to its own device and back.

A user's kernels may run on any stream, and nothing tells us of them. So what a transfer replaces or
reads is waited for on the whole device, and what it has brought is there for every stream when the
call returns. Only a push goes on after that: accesses on the device order their stream after it.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._forks import notify
from syncblob._shape import Layout
from syncblob.devices.base import DLPACK_CUDA, Accelerator, Device, Push
from syncblob.devices.host import HOST
from syncblob.errors import DeviceMismatchError, NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Never

    from numpy.typing import NDArray

__all__ = ["CudaBackend", "current_index", "device_count"]

# CuPy's pool of page-locked memory rounds up to powers of two and keeps what it has. Buffers of
# this size and larger are allocated one by one, and freed with the last array over them.
_POOLED_AT_MOST = 1 << 16

# `cudaErrorMemoryAllocation`.
_OUT_OF_MEMORY = 2


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
        # The pushes that may be under way: their events, and the buffers that they use, because the
        # allocators may hand memory out again as soon as a buffer is gone. A finaliser comes too
        # late to keep them: in garbage with cycles, CuPy's event may be destroyed before it runs.
        self._under_way: dict[Any, tuple[Any, Any]] = {}
        # Those that nobody waits for any more.
        self._abandoned: set[Any] = set()
        notify(self)

    native = False
    asynchronous = True

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
        """Return a new buffer from CuPy's allocator. Zeros are there for every stream."""
        with self._context:
            if zeroed:
                self._refuse_capture("setting memory to zero")
            buffer = self._cupy.empty(nbytes, dtype=np.uint8)
            if zeroed:
                self._zero_now(buffer)
        return buffer

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a page-locked host buffer, or an ordinary one where no memory can be locked.

        `is_page_locked` tells which. In the child of a fork it is an ordinary one.
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
        """Return page-locked memory; None where CUDA has none to give."""
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
        """Tell whether a host buffer is page-locked, so that copies of it run at full speed."""
        if not host.nbytes:
            return True
        runtime = self._cupy.cuda.runtime
        with self._context:
            attributes = runtime.pointerGetAttributes(host.ctypes.data)
        return bool(attributes.type == runtime.memoryTypeHost)

    def zero(self, buffer: Any) -> None:
        """Wait for every stream, set every byte of a buffer to zero, and wait for that.

        Raises
        ------
        RuntimeError
            During the capture of a graph.
        """
        with self._context:
            self._refuse_capture("setting memory to zero")
            self._context.synchronize()
            self._zero_now(buffer)

    def _zero_now(self, buffer: Any) -> None:
        buffer.data.memset_async(0, buffer.nbytes)
        # Work on other streams finds zeros too.
        self._cupy.cuda.get_current_stream().synchronize()

    def wait_for_work(self) -> None:
        """Wait for every stream: a kernel may use what a transfer is about to read or replace.

        Raises
        ------
        RuntimeError
            During the capture of a graph.
        """
        with self._context:
            self._refuse_capture("a transfer")
            self._context.synchronize()

    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        """Copy on the current stream and wait for it.

        Raises
        ------
        RuntimeError
            During the capture of a graph.
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
        """Wait for every stream of the device, then copy.

        Another library may still be writing through an alias, on a stream nobody told us of.

        Raises
        ------
        RuntimeError
            During the capture of a graph.
        """
        runtime = self._cupy.cuda.runtime
        with self._context:
            self._refuse_capture("a download")
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

        Raises
        ------
        RuntimeError
            During the capture of a graph.
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
                # The copy may be queued, and the caller lets go of both buffers.
                self._finish(target)
                raise
        return _CudaPush(self, event)

    def synchronize(self) -> None:
        """Block until all streams of this device are idle."""
        self._context.synchronize()

    @property
    def capturing(self) -> bool:
        """Whether a CUDA graph is being captured on CuPy's current stream.

        True as well where a capture on another stream forbids the use of this one.
        """
        with self._context:
            return self._is_capturing(self._cupy.cuda.get_current_stream())

    @staticmethod
    def _is_capturing(stream: Any) -> bool:
        try:
            return bool(stream.is_capturing())
        except RuntimeError as error:
            # During a capture CUDA may refuse to answer for the legacy stream; CuPy raises for a
            # capture that has failed.
            if "captur" in str(error):
                return True
            raise

    def _refuse_capture(self, action: str, stream: Any = None) -> None:
        """Refuse what a graph would do again at each launch, before CUDA ends the capture for it.

        Parameters
        ----------
        action
            What would be done.
        stream
            Where, besides the current stream.
        """
        current = self._cupy.cuda.get_current_stream()
        if self._is_capturing(current) or (stream is not None and self._is_capturing(stream)):
            raise RuntimeError(
                f"{action} cannot be part of a CUDA graph, and one is being captured: transfer the "
                f"contents to {self.device} before the capture, with gpu_data() for example, and "
                "back to the host after it"
            )

    def _finish(self, stream: Any) -> None:
        """Wait until nothing queued on a stream uses a buffer that is about to be freed."""
        for waiting in (stream, self._context):
            # What failed may be what fails now; the error that matters is on its way already.
            with suppress(Exception):
                waiting.synchronize()
                return

    def let_go(self, event: Any) -> None:
        """Let go of the buffers of a push that is over."""
        self._under_way.pop(event, None)
        self._abandoned.discard(event)

    def abandon(self, event: Any) -> None:
        """Note that nobody waits for a push any more. Its buffers are kept until it is over.

        Waits for nothing, because finalisers run anywhere: also during a capture, where CUDA lets
        nobody wait.
        """
        if event in self._under_way:
            self._abandoned.add(event)

    def _drop_finished(self) -> None:
        """Let go of the buffers of abandoned pushes that are over."""
        if self._abandoned and not self.capturing:
            with self._context:
                for event in list(self._abandoned):
                    if event.done:
                        self.let_go(event)

    def after_fork(self) -> None:
        """Refuse to work in the child of a fork, where CUDA does not."""
        self._context = _LostContext(self.device)

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
                "are not copied between accelerators: copy it through the host"
            )
        with self._context:
            if array.size == 0:
                return self._cupy.empty(0, dtype=np.uint8)
            return array.reshape(-1).view(np.uint8)

    def dlpack_device_of(self, buffer: Any) -> tuple[int, int]:
        """Return what DLPack calls the place of a buffer: an allocator may give managed memory."""
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
        """Make work that follows on the current stream wait for an event.

        Raises
        ------
        RuntimeError
            During the capture of a graph, which cannot wait for what is not part of it.
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
    """An upload on another stream, known by its event."""

    def __init__(self, backend: CudaBackend, event: Any) -> None:
        self._backend = backend
        self._event = event

    def order(self) -> bool:
        # First of all, because during a capture CUDA does not let anybody ask for `done`.
        self._backend.current_stream_wait(self._event)
        over = bool(self._event.done)
        if over:
            self._backend.let_go(self._event)
        return over

    def wait(self) -> None:
        self._event.synchronize()
        self._backend.let_go(self._event)

    @property
    def over(self) -> bool:
        """Whether it is over, once a wait has raised: during a capture, waits are only refused."""
        return not self._backend.capturing

    def __del__(self) -> None:
        self._backend.abandon(self._event)


class _LostContext:
    """In the child of a fork, what stands for a device of the parent's."""

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
        """No-op; ``with`` asks for it."""

    def synchronize(self) -> Never:
        """Refuse."""
        raise NoDeviceError(
            f"{self._device} cannot be used in the child of a fork, because CUDA cannot: start "
            "the process with the method 'spawn', or leave the device to the parent"
        )
