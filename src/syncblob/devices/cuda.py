"""CUDA devices, through CuPy, which is imported only when a device is used.

Device memory comes from CuPy's allocator. Work is ordered on CuPy's current stream of the device;
every method switches to its own device and back. Transfers run on streams of their own, after the
last use of their bytes: see `cuda_streams`. The result of an upload or a download is visible to
every stream when the call returns. A push continues after its call; later accesses on the device
make their stream wait for it. What allocates, copies or waits for a push raises a RuntimeError
while a graph is being captured.
"""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import nullcontext, suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._formatting import extend, human_bytes
from syncblob._locks_lost_in_fork import notify
from syncblob.devices import page_locked, timed_computations
from syncblob.devices.base import DLPACK_CUDA, ENDING, NEEDED, Accelerator, BesideCaptureError, Push
from syncblob.devices.cuda_shared import SharedMemory
from syncblob.devices.cuda_streams import Order, Owner, Stretch, as_stream
from syncblob.devices.device import Device
from syncblob.devices.host import HOST
from syncblob.errors import NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Never

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.devices.base import Moment

# `cudaErrorMemoryAllocation`; `cudaMemcpyHostToDevice` and `cudaMemcpyDeviceToHost`.
_OUT_OF_MEMORY = 2
_TO_DEVICE, _TO_HOST = 1, 2

_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


@cache
def _why_not() -> str | None:
    """Return why CUDA cannot be used; None if it can. Cached."""
    try:
        ctypes.CDLL(_DRIVER)
        import cupy  # imported only if a CUDA device is used

        return None if cupy.cuda.runtime.getDeviceCount() else "there is no CUDA device"
    except OSError:
        return "there is no NVIDIA driver on this machine"
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); pip install 'syncblob[cuda13]'"
    except RuntimeError as error:
        return f"CUDA reports: {error}"


def device_count() -> int:
    """Return the number of CUDA devices that CuPy can use."""
    return 0 if _why_not() else sys.modules["cupy"].cuda.runtime.getDeviceCount()


def current_index() -> int:
    """Return the index of CuPy's current device; 0 if CUDA cannot be used."""
    return 0 if _why_not() else sys.modules["cupy"].cuda.runtime.getDevice()


class CudaBackend(Accelerator):
    """One CUDA device. Making it raises a NoDeviceError if CuPy, the driver or it is missing."""

    def __init__(self, index: int) -> None:
        count = device_count()
        if index >= count:
            reason = _why_not() or f"there are {count} CUDA devices, the first is cuda:0"
            raise NoDeviceError(
                f"cuda:{index} cannot be used: {reason}. Select another device, for example "
                "with syncblob.use_device('simulated')"
            )
        import array_api_compat.cupy as namespace  # needs CuPy
        import cupy  # imported only if a CUDA device is used

        self.device: Device = Device(f"cuda:{index}")
        self.namespace: ModuleType = namespace
        self._cupy = cupy
        self.order: Order = Order(cupy, index, ctypes.CDLL(_DRIVER))
        self._context = self.order.device
        self.lend: Any = self.order.lend
        self.is_seen: Any = self.order.is_seen
        self._page_locked = page_locked.PageLocked(cupy.cuda.PinnedMemory, self.order)
        self._runtime: ModuleType = cupy.cuda.runtime
        self._copy = self._runtime.memcpyAsync
        self._short_of_memory = MemoryError, self._runtime.CUDARuntimeError
        self._no_pool = cupy.cuda.MemoryPool()
        self._shared_memory = SharedMemory(cupy, index)
        self.can_share: bool = self._shared_memory.can
        self.share_memory(shared=self.can_share)
        # The streams of transfers, on which nothing is captured. A device copies both ways at once.
        with self.order.calls():
            self._up, self._down = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
            self._later: tuple[Any, float] = self._now()
        # The numbers of the devices whose memory this one accesses, if it can.
        self._peers: set[int] = set()
        notify(self)

    native = False
    queues = True
    checks_values = False
    protocol = "__cuda_array_interface__"
    dlpack_type = DLPACK_CUDA

    # --- computations ----------------------------------------------------------------------------

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call the function with this device as CuPy's current one."""
        order, result = self.order, None
        if getattr(function, "__name__", "") == "power":
            self.require_powers(*args[:2])
        stream = order.plain()
        # Else this is another device than the current one, beside torch's stream, or in a graph.
        with self._context if stream is None else nullcontext():
            if stream is None:
                order.join(computing=True)
            try:
                if timed_computations.watchers:
                    result = timed_computations.run(self, function, args, keywords)
                else:
                    result = function(*args, **keywords)
            except self._short_of_memory as error:
                raise self._shortage(error) from None
            finally:
                order.note((*args, *keywords.values()), result, stream)
                if ENDING:
                    self.end()
        return result

    def used(self, *arrays: Any) -> None:
        """Record that work which uses arrays was queued by a function that `compute` has called."""
        self.order.note(arrays)

    def as_array(self, result: Any) -> Any:
        """Return an array. CuPy returns no scalars, but array-api-compat may return Python's."""
        with self._context:
            return self._cupy.asarray(result)

    def overlap(self, array: Any, buffer: Any) -> bool:
        """Compare the memory bounds of both."""
        return bool(self._cupy.may_share_memory(array, buffer))

    # --- memory ----------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        """Return a new buffer from CuPy's allocator. Zeros are visible to every stream."""
        make = self._shared_memory.allocate if self.shared else self._cupy.empty
        with self.order.calls():
            self._refuse_capture("an allocation")
            try:
                buffer = make(nbytes, np.uint8)
            except self._short_of_memory as error:
                raise self._shortage(error, nbytes) from None
            # The pool gives out memory that work on the current stream has not finished with.
            self.order.note((), buffer, self.order.current())
            if zeroed:
                self.zero(buffer)
        return buffer

    def holder(self, buffer: Any) -> str:
        """Return the reason why a buffer has to stay where it is: a graph that uses it."""
        known = self.order.known(buffer)
        captured = known is not None and known.captured
        return "a CUDA graph that was captured with it, and may be launched again" * captured

    def _pool(self) -> Any:
        """Return the pool that CuPy allocates from; an empty one if that is not one of its own."""
        pool = getattr(self._cupy.cuda.get_allocator(), "__self__", None)
        return pool if isinstance(pool, self._cupy.cuda.MemoryPool) else self._no_pool

    def room(self) -> tuple[int, int]:
        """Ask CUDA, and respect the limit of CuPy's pool."""
        with self._context:
            pool, (free, total) = self._pool(), self._runtime.memGetInfo()
            limit = pool.get_limit() or total
            return min(free, limit - pool.used_bytes()), min(total, limit)

    def give_back(self) -> bool:
        """Give back what CuPy's pool and PyTorch's allocator keep; nothing during a capture."""
        with self.order.calls():
            if self.capturing:
                return False
            found, pool = self.order.drop_finished(wait=True), self._pool()
            before = pool.free_bytes()
            pool.free_all_blocks()
            found |= pool.free_bytes() < before
            if (torch := self.order.torch()) is not None:
                before = torch.cuda.memory_reserved(self.device.index)
                # PyTorch asserts that no graph is being captured anywhere.
                with suppress(RuntimeError):
                    torch.cuda.empty_cache()
                found |= torch.cuda.memory_reserved(self.device.index) < before
            return found

    def limit_memory(self, nbytes: int | None) -> int | None:
        """Limit CuPy's pool on this device; 0 and None mean no limit."""
        pool = self._pool()
        if pool is self._no_pool:
            raise NotImplementedError(
                f"the memory of {self.device} cannot be limited, because CuPy allocates with "
                f"{self._cupy.cuda.get_allocator()!r}: set a limit of that, such as RMM's "
                "LimitingResourceAdaptor"
            )
        with self._context:
            before: int = pool.get_limit()
            pool.set_limit(size=nbytes or 0)
        return before or None

    def _shortage(self, error: Any, nbytes: int = 0) -> Exception:
        """Return a MemoryError that says how much is in use; another error as it is."""
        if not isinstance(error, MemoryError):
            if error.status != _OUT_OF_MEMORY:
                return error
            # Without a pool, CuPy raises CUDA's error.
            error = MemoryError(str(error))
        vars(error).setdefault(NEEDED, nbytes)
        with self._context:
            free, total = map(human_bytes, self._runtime.memGetInfo())
        extend(error, f"{free} of the {total} of {self.device} are free")
        return error

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a page-locked host buffer, or an ordinary one if no memory can be page-locked.

        `is_page_locked` tells which. In a forked child it is an ordinary one.
        """
        if not nbytes or isinstance(self._context, _Lost):
            return HOST.allocate(nbytes, zeroed=zeroed)
        if self.shared:
            shared = self.allocate(nbytes, zeroed=zeroed)
            # Work on the current stream may still use this memory; see `allocate`.
            self.finish(shared)
            return self.share(shared)
        try:
            buffer = self._page_locked.allocate(nbytes)
        except self._short_of_memory as error:
            if not isinstance(self._shortage(error), MemoryError):
                raise
            return HOST.allocate(nbytes, zeroed=zeroed)
        if zeroed:
            buffer.fill(0)
        return buffer

    def share(self, buffer: Any) -> Any:
        """Return the same memory for the other processor; see `SharedMemory`."""
        with self._context:
            return self._shared_memory.on_the_other(buffer)

    def finish(self, buffer: Any) -> None:
        """Wait for the last uses of a buffer."""
        self._queue("a wait for what the host is to use", self._down, buffer, lambda _: None)

    def is_page_locked(self, host: NDArray[np.uint8]) -> bool:
        """Return whether a host buffer is page-locked, so that copies run at full speed."""
        with self._context:
            kind = self._runtime.pointerGetAttributes(host.ctypes.data).type
        return not host.nbytes or bool(kind == self._runtime.memoryTypeHost)

    def zero(self, buffer: Any) -> None:
        """Set every byte of a buffer to zero, after all work that uses it, and wait for that."""
        memset, zeros = self._runtime.memsetAsync, (buffer.data.ptr, 0, buffer.nbytes)
        self._queue("a transfer", self._up, buffer, memset, *zeros)

    # --- transfers -------------------------------------------------------------------------------

    def settle(self, buffer: Any, stream: Any = None) -> None:
        """Order a stream, or the current one, after all work that may use a buffer."""
        self._queue("a transfer", self.order.current() if stream is None else stream, buffer, None)

    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        """Copy on a stream of this package, after all work that uses the buffer; wait for it."""
        ends = buffer.data.ptr, host.ctypes.data
        self._queue("an upload", self._up, buffer, self._copy, *ends, host.nbytes, _TO_DEVICE)

    def download(self, buffer: Any, host: NDArray[np.uint8]) -> None:
        """Copy on a stream of this package, after all work that uses the buffer; wait for it."""
        ends = host.ctypes.data, buffer.data.ptr
        self._queue("a download", self._down, buffer, self._copy, *ends, host.nbytes, _TO_HOST)

    def push(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
        """Start an upload after all work that uses the buffer, on a stream or the backend's own.

        A stream is one of CuPy's, a pointer, or an object with ``__cuda_stream__``.
        """
        action, on = "an asynchronous upload", self._up if stream is None else as_stream(stream)
        self._refuse_capture(action, on.ptr)
        copied = buffer.data.ptr, host.ctypes.data, host.nbytes, _TO_DEVICE
        return self._queue(action, on, buffer, self._copy, *copied, kept=host)

    def pull(self, buffer: Any, host: NDArray[np.uint8]) -> Push:
        """Start a download, after all work that may use the buffer, and return at once."""
        copied = host.ctypes.data, buffer.data.ptr, host.nbytes, _TO_HOST
        action = "an asynchronous download"
        return self._queue(action, self._down, buffer, self._copy, *copied, kept=host)

    def _queue(
        self, action: str, stream: Any, buffer: Any, copy: Any, *arguments: Any, kept: Any = None
    ) -> Any:
        """Copy on a stream, after all work that uses the buffer, and wait; or order it only so.

        If the host's buffer is `kept` until the copy is over, return a push without a wait.
        """
        order = self.order
        with order.calls():
            if order.plain() is None:
                self._refuse_capture(action)
                order.join()
            if order.under_way:
                order.drop_finished()
            if self._page_locked.nbytes > page_locked.MOST_KEPT:
                self._page_locked.give_back(page_locked.MOST_KEPT)
            order.wait(stream, buffer)
            if copy is None:
                return None
            try:
                copy(*arguments, stream.ptr)
                if kept is None:
                    return stream.synchronize()
                # Later transfers of these bytes, and uses, wait for the push.
                stretch = Stretch(stream)
                stretch.event = stream.record()
                order.under_way[stretch.event] = [stretch], (kept, buffer)
                return _CudaPush(self, stretch.event)
            except BaseException:
                # The copy may be queued, and the caller releases both buffers.
                for waiting in (stream, self._context):
                    # This may fail for the same reason; the original error is being raised already.
                    with suppress(Exception):
                        waiting.synchronize()
                        break
                raise

    def reaches(self, other: object) -> bool:
        """Return whether it is a CUDA device: the driver copies between any two."""
        return isinstance(other, CudaBackend)

    def copy_from(self, other: Accelerator, contents: Any, buffer: Any) -> None:
        """Copy from another device; from a CUDA device by the driver, directly where that can."""
        if not isinstance(other, CudaBackend):
            super().copy_from(other, contents, buffer)
            return
        here, there = self.device.index, other.device.index
        if there not in self._peers:
            self._peers.add(there)
            # They may not be able to, and CuPy or PyTorch may have enabled it already.
            with self._context, suppress(RuntimeError):
                self._runtime.deviceEnablePeerAccess(there)
        other.settle(contents, self._up)
        copied = buffer.data.ptr, here, contents.data.ptr, there, buffer.nbytes
        self._queue("a peer copy", self._up, buffer, self._runtime.memcpyPeerAsync, *copied)

    # --- streams ---------------------------------------------------------------------------------

    def moment(self) -> Moment:
        """Return a function that tells when the current stream had run the work queued so far."""
        with self._context:
            stream = self.order.current()
            # In a capture, the event would become part of the graph.
            captured = self.order.is_captured(stream.ptr)
            return super().moment() if captured else partial(self.time_of, stream.record())

    def time_of(self, event: Any) -> float | None:
        """Return when an event happened, in seconds of `time.perf_counter`; None if unknown.

        CUDA tells only the time between two events, if both happened. So this waits for a later
        one, and uses it for other events, too: the times between them are exact.
        """
        since = self._cupy.cuda.get_elapsed_time
        with suppress(RuntimeError), self.order.calls():
            later = self._later
            if since(event, later[0]) < 0:
                later = self._later = self._now()
            return later[1] - since(event, later[0]) / 1e3
        return None

    def _now(self) -> tuple[Any, float]:
        """Return an event that has just happened, on a stream that is not captured, and when."""
        now = self._down.record()
        now.synchronize()
        return now, time.perf_counter()

    def synchronize(self) -> None:
        """Block until all streams of this device are idle."""
        with self.order.calls():
            self._context.synchronize()

    @property
    def capturing(self) -> bool:
        """Whether a graph is captured on CuPy's current stream or PyTorch's, or forbids its use."""
        return self.order.captures()

    def _refuse_capture(self, action: str, *pointers: int) -> None:
        """Raise for an action that cannot be captured, before CUDA invalidates the capture."""
        if self.order.captures(*pointers):
            raise BesideCaptureError(
                f"{action} cannot be part of a CUDA graph, and one is being captured: transfer the "
                f"contents to {self.device} before the capture, with gpu_data() for example, and "
                "back to the host after it"
            )

    def after_fork(self) -> None:
        """Make every use raise in a forked child, where CUDA does not work."""
        lost: Any = _Lost(self.device)
        order: Any = self.order
        self._context = order.device = lost
        order.plain = order.join = lost.synchronize
        self._page_locked.after_fork()

    # --- arrays ----------------------------------------------------------------------------------

    def view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Return an array over a buffer, for any use. CuPy arrays are always writable."""
        return self.order.lend(self.own_view(buffer, layout, writable=writable))

    def own_view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Return an array over a buffer that only this package uses, through `compute`."""
        del writable
        # A view has a base, as in NumPy. A result without a base would be taken for a new array.
        return self._over(buffer, self.order.owner_of(buffer), layout).view()

    def _over(self, buffer: Any, owner: Owner, layout: Layout) -> Any:
        """Return an array over a buffer, which keeps an owner alive."""
        cuda = self._cupy.cuda
        with self._context:
            memory = cuda.UnownedMemory(buffer.data.ptr, buffer.nbytes, owner, self.device.index)
            pointer = cuda.MemoryPointer(memory, layout.offset)
            return self._cupy.ndarray(layout.shape, layout.dtype, pointer, layout.strides)

    def accessor_views(self, buffer: Any, layout: Layout) -> tuple[Any, Any]:
        """Return an array twice, whose views are lent."""
        array = self.own_view(buffer, layout, writable=True)
        kept = SimpleNamespace(array=array, view=partial(self.order.lend, array))
        return kept, kept

    def address(self, array: Any) -> int:
        """Return the address of the first element of an array."""
        return array.data.ptr

    def alias(self, exporter: Any, layout: Layout) -> tuple[Any, object]:
        """Return an array over a buffer, and an owner that lives as long as the last view of it."""
        # Not the one of other arrays, because this one's life is observed.
        owner = Owner(exporter)
        return self.order.lend(self._over(exporter, owner, layout)), owner

    def wrap(self, array: Any) -> Any:
        """Return the buffer under a C-contiguous CuPy array of this device, without a copy."""
        if array.device.id != self.device.index:
            raise self.mismatch(array)
        with self._context:
            flat = array.reshape(-1) if array.size else self._cupy.empty(0)
            return flat.view(np.uint8)

    def capsule(self, array: Any, *, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return CuPy's DLPack capsule; `stream` waits for the current stream."""
        with self._context:
            return super().capsule(array, stream=stream, max_version=max_version)

    @classmethod
    def device_of(cls, array: Any) -> Device:
        """Return the device of a CuPy array."""
        return Device(f"cuda:{array.device.id}")

    def describe(self, array: Any, *, readonly: bool) -> dict[str, Any]:
        """Return CuPy's ``__cuda_array_interface__`` of an array, with the current stream."""
        with self._context:
            return array.__cuda_array_interface__ | {"data": (array.data.ptr, readonly)}


class _CudaPush(Push):
    """A transfer on another stream, identified by its event."""

    def __init__(self, backend: CudaBackend, event: Any) -> None:
        self._backend = backend
        self._event = event

    def order(self) -> bool:
        if self.arrived:
            return True
        order = self._backend.order
        with order.calls():
            # A graph cannot wait for an event outside of it.
            self._backend._refuse_capture("waiting for an asynchronous transfer")  # noqa: SLF001  # of this module
            order.current().wait_event(self._event)
        return False

    @property
    def arrived(self) -> bool:
        order = self._backend.order
        with suppress(RuntimeError), order.calls():
            if self._event.done:
                order.under_way.pop(self._event, None)
                return True
        return False

    def wait(self) -> None:
        order = self._backend.order
        with order.calls():
            self._event.synchronize()
            order.under_way.pop(self._event, None)

    @property
    def arrival(self) -> Moment:
        return partial(self._backend.time_of, self._event)

    @property
    def over(self) -> bool:
        """Whether it has finished, after a wait has raised; a capture only forbids waiting."""
        return not self._backend.capturing


class _Lost:
    """Stands for a device of the parent in a forked child: every use raises a NoDeviceError."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def synchronize(self, **_: object) -> Never:
        raise NoDeviceError(
            f"{self._device} cannot be used in the child of a fork, because CUDA cannot: start "
            "the process with the method 'spawn', or leave the device to the parent"
        )

    __enter__ = __exit__ = synchronize
