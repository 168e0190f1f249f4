"""SYCL devices, through dpnp and dpctl, which are imported only when a device is used.

``sycl:N`` is the device of this index in `dpctl.get_devices`, as in DLPack. A CPU has USM shared
memory, because it is that of the host, and others have USM device memory. Work runs on the queue
that dpnp uses by default, on which dpnp runs one function after another; so users' arrays and those
of Blobs can be mixed. With an in-order queue of our own, dpnp would refuse to mix them, and what it
still writes through an alias, on its default queue, would be read too early.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_bfloat16
from syncblob._formatting import human_bytes
from syncblob._layout import Layout
from syncblob.devices.array_library import LibraryHome, Namespace
from syncblob.devices.base import ENDING, Push
from syncblob.devices.device import Device
from syncblob.errors import NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from syncblob.devices.base import Moment


_PROTOCOL = "__sycl_usm_array_interface__"


# Functions that compute float16 less precisely than NumPy, or not at all, in dpnp 0.20.
_IN_SINGLE = frozenset(
    """
    average dot inner linalg.norm linalg.tensordot matmul matvec mean nanmean nanstd nansum nanvar
    std sum tensordot trace trapezoid var vdot vecmat
    """.split()  # noqa: SIM905  # reads best as words
)


class SyclBackend(LibraryHome):
    """One SYCL device.

    Raises NoDeviceError if dpnp or the device is missing.
    """

    protocol = _PROTOCOL
    dlpack_type = 14  # kDLOneAPI

    def __init__(self, index: int) -> None:
        self.device: Device = Device(f"sycl:{index}")
        try:
            import dpctl  # imported only if a SYCL device is used
            import dpnp
        except ImportError as error:
            raise NoDeviceError(
                f"{self.device} cannot be used: dpnp cannot be imported ({error}); "
                "pip install 'syncblob[sycl]'"
            ) from None
        devices = dpctl.get_devices()
        if index >= len(devices):
            raise NoDeviceError(
                f"{self.device} cannot be used: dpctl.get_devices() returns {devices}. An x86 CPU "
                "needs intel-opencl-rt, and its library in OCL_ICD_FILENAMES"
            )
        self._dpnp = dpnp
        self._memory = dpctl.memory
        self._own_queue = dpnp.tensor.Device.create_device(devices[index]).sycl_queue
        self._process = os.getpid()
        self.can_share: bool = devices[index].has_aspect_usm_shared_allocations
        # Others have memory of their own, or may have, and what is shared moves page by page.
        self.share_memory(shared=self.can_share and devices[index].is_cpu)
        if hasattr(os, "register_at_fork"):
            # A child can read what was written in shared memory before, and computes nothing.
            os.register_at_fork(before=partial(self.finish, None), after_in_child=self._refuse_work)

    def _refuse_work(self) -> None:
        self.compute = lambda *_, **_named: self._queue  # type: ignore[method-assign]  # raises

    def share_memory(self, *, shared: bool) -> None:
        super().share_memory(shared=shared)
        kind = "shared" if shared else "device"
        self.namespace: Any = Namespace(self._dpnp, self._own_queue, usm_type=kind)

    @property
    def _queue(self) -> Any:
        if self._process != os.getpid():
            raise NoDeviceError(
                f"{self.device} cannot be used in the child of a fork: start the process with the "
                "method 'spawn', or leave the device to the parent"
            )
        return self._own_queue

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function; raise a TypeError for dtypes that it does not take, as NumPy does."""
        try:
            return super().compute(function, *args, **keywords)
        except ValueError as error:
            if "does not support input type" not in str(error):
                raise
            raise TypeError(str(error)) from None
        finally:
            if ENDING:
                self.end()

    def own(self, name: str) -> Callable[..., Any]:
        """Return dpnp's function of a name, on float32 in place of float16 where that is needed."""
        function = super().own(name)
        return partial(_in_single, function) if name in _IN_SINGLE else function

    # --- buffers and arrays ----------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        queue = self._queue
        make = self._memory.MemoryUSMShared if self.shared else self._memory.MemoryUSMDevice
        try:
            # An array without elements has memory, too.
            memory = make(max(nbytes, 1), queue=queue)
        except self._memory.USMAllocationError as error:
            needed = human_bytes(nbytes)
            raise MemoryError(f"{self.device} has no memory for {needed} more") from error
        buffer = self._dpnp.ndarray((nbytes,), np.uint8, buffer=memory)
        if zeroed:
            self.zero(buffer)
        return buffer

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a host buffer in USM memory, which the device shares, or copies from directly."""
        make = self._memory.MemoryUSMShared if self.shared else self._memory.MemoryUSMHost
        memory = make(max(nbytes, 1), queue=self._queue)
        buffer = np.frombuffer(memory, np.uint8, nbytes)
        if zeroed:
            buffer.fill(0)
        return buffer

    def zero(self, buffer: Any) -> None:
        """Set every byte of a buffer to zero, after all work, and wait for that."""
        buffer.fill(0)
        self._queue.wait()

    def finish(self, buffer: Any) -> None:
        del buffer
        # In the child of a fork there is no work.
        if self._process == os.getpid():
            self._own_queue.wait()

    def share(self, buffer: Any) -> Any:
        if not isinstance(buffer, np.ndarray):
            if buffer.usm_type == "device":
                return None
            return np.frombuffer(self._usm(buffer), np.uint8, buffer.nbytes)
        if not buffer.nbytes:
            return self.allocate(0)
        owner = _Owner(buffer, buffer.ctypes.data, buffer.nbytes, self._queue)
        try:
            memory = self._memory.as_usm_memory(owner)
        except ValueError:
            # It is no USM memory of the queue's context.
            return None
        return self._dpnp.ndarray((buffer.nbytes,), np.uint8, buffer=memory)

    def address(self, array: Any) -> int:
        return array.data.ptr

    def read_only(self, array: Any) -> bool:
        return not array.flags.writable

    def view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Return an array over a buffer; see `alias`."""
        array, _ = self.alias(buffer, layout)
        array.flags.writable = writable
        return array

    def alias(self, exporter: Any, layout: Layout) -> tuple[Any, object]:
        """Return an array over a buffer, and an owner that lives as long as the last view of it.

        Raises ValueError if a stride is no multiple of the size of an element, in which dpnp
        counts; TypeError for bfloat16.
        """
        itemsize = layout.dtype.itemsize
        if is_bfloat16(layout.dtype):
            raise TypeError(
                "dpnp has no bfloat16; compute on the host, or convert with .astype('float32')"
            )
        if any(step % itemsize for step in layout.strides):
            raise ValueError(
                f"dpnp needs strides that are multiples of {itemsize} bytes for {layout.dtype}, "
                f"got {layout.strides}; compute on the host, or use .copy()"
            )
        # An array without elements has memory, too, which keeps its owner.
        nbytes = max(layout.stop - layout.start, itemsize)
        address = exporter.data.ptr + layout.start
        owner = _Owner(exporter, address, nbytes, exporter.sycl_queue)
        array = self._dpnp.ndarray(
            layout.shape,
            layout.dtype,
            buffer=self._memory.as_usm_memory(owner),
            offset=(layout.offset - layout.start) // itemsize if layout.size else 0,
            strides=layout.strides if layout.size else None,
        )
        return array, owner

    def wrap(self, array: Any) -> Any:
        if self.device_of(array) != self.device:
            raise self.mismatch(array)
        if not array.size:
            # An array without elements may lie at an invalid address.
            return self.allocate(0)
        return self.view(array, Layout.raw(array.nbytes), writable=True)

    # --- arrays of others ------------------------------------------------------------------------

    @classmethod
    def import_array(cls, x: Any, *, copy: bool | None = None) -> Any:
        """Return a dpnp array on dpnp's default queue of the device, over the memory of `x`."""
        del copy  # never needed
        import dpnp  # only called with SYCL arrays

        if isinstance(x, dpnp.ndarray):
            array = x
        elif hasattr(x, _PROTOCOL):
            # dpnp's own function would copy.
            array = dpnp.asarray(dpnp.tensor.asarray(x, copy=False))
        else:
            array = dpnp.from_dlpack(x)
        queue = dpnp.tensor.Device.create_device(array.sycl_device).sycl_queue
        if array.sycl_queue != queue:
            array.sycl_queue.wait()
            array = array.to_device(queue)
        return array

    @classmethod
    def device_of(cls, array: Any) -> Device:
        return Device(f"sycl:{array.sycl_device.get_device_id()}")

    def describe(self, array: Any, *, readonly: bool) -> dict[str, Any]:
        """Return ``__sycl_usm_array_interface__``, version 1, of an array.

        Raises BufferError if a stride is negative: consumers take the address for the lowest.
        """
        if any(step < 0 and dim > 1 for step, dim in zip(array.strides, array.shape, strict=True)):
            raise BufferError(f"{_PROTOCOL} has no negative strides; use .copy()")
        own = getattr(array, _PROTOCOL)
        return {**own, "data": (self.address(array), readonly), "offset": 0}

    # --- copies and work -------------------------------------------------------------------------

    def _usm(self, buffer: Any) -> Any:
        owner = _Owner(buffer, buffer.data.ptr, buffer.nbytes, buffer.sycl_queue)
        return self._memory.as_usm_memory(owner)

    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        self._queue.wait()
        if host.nbytes:
            self._queue.memcpy(self._usm(buffer), host, host.nbytes)

    def download(self, buffer: Any, host: NDArray[np.uint8]) -> None:
        self._queue.wait()
        if host.nbytes:
            self._queue.memcpy(host, self._usm(buffer), host.nbytes)

    def push(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
        """Start an upload on a queue, after all work; None is the queue of the device.

        Raises TypeError if `stream` is something else.
        """
        queue = self._queue if stream is None else stream
        if not isinstance(queue, type(self._queue)):
            raise TypeError(f"expected a dpctl.SyclQueue or None, got {stream!r}")
        usm, earlier = self._usm(buffer), self._queue.submit_barrier()
        return _SyclPush(queue.memcpy_async(usm, host, host.nbytes, [earlier]), (usm, host))

    def synchronize(self) -> None:
        self._queue.wait()

    def moment(self) -> Moment:
        """Wait for all work, and return a function that tells when it had run."""
        self._queue.wait()
        return super().moment()


def _in_single(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Compute float16 as float32, and round the result."""
    dtypes = [getattr(x, "dtype", None) for x in args]
    wide = [
        x.astype(np.float32) if dtype == np.float16 else x
        for x, dtype in zip(args, dtypes, strict=True)
    ]
    result = function(*wide, **keywords)
    alike = {*dtypes} - {None} == {np.dtype(np.float16)} and keywords.get("dtype") is None
    return result.astype(np.float16) if alike else result


class _Owner:
    """Bytes of a buffer, which it keeps alive; memory made from it keeps this object alive."""

    def __init__(self, buffer: Any, address: int, nbytes: int, queue: Any) -> None:
        self._buffer = buffer
        described = {"version": 1, "syclobj": queue, "data": (address, False), "offset": 0}
        described |= {"shape": (nbytes,), "strides": None, "typestr": "|u1"}
        self.__sycl_usm_array_interface__ = described


class _SyclPush(Push):
    """An upload that runs, and the memory that it uses."""

    def __init__(self, event: Any, memory: Any) -> None:
        self._event = event
        self._used = memory
        self._process = os.getpid()

    def order(self) -> bool:
        """Wait: later work on dpnp's queue takes no events of others."""
        self.wait()
        return True

    def wait(self) -> None:
        """Block until the upload has run."""
        if self._process == os.getpid():
            self._event.wait()
        self._used = None

    __del__ = wait
