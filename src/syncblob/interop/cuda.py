"""The CUDA array interface, version 3, and arrays that come from CUDA devices.

https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._dtypes import is_bfloat16
from syncblob.devices import Side, accelerator
from syncblob.devices.cuda import CudaBackend, device_count
from syncblob.errors import NoDeviceError
from syncblob.interop import _capsule

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob._layout import Layout
    from syncblob.devices.base import Home
    from syncblob.memory import Access, SyncedMemory

__all__ = [
    "array_over_memory",
    "backend_of",
    "describe",
    "for_cupy",
    "from_dlpack",
    "from_interface",
    "require_cuda",
    "require_own_interface",
]


def require_cuda() -> None:
    """Raise NoDeviceError if CuPy has no CUDA device."""
    if not device_count():
        accelerator("cuda:0")


def _backend(memory: SyncedMemory, name: str = "__cuda_array_interface__") -> CudaBackend:
    """Return the CUDA device that a memory is or can be bound to.

    Raises
    ------
    AttributeError
        If there is none, so that ``hasattr(blob, name)`` is False.
    """
    try:
        backend = memory.home(Side.ACCELERATOR)
    except NoDeviceError as error:
        raise AttributeError(f"{name}: {error}") from None
    if not isinstance(backend, CudaBackend):
        raise AttributeError(  # noqa: TRY004  # what hasattr() expects of a missing protocol
            f"{name}: {backend.device} is not a CUDA device"
        )
    return backend


def require_own_interface(home: Home) -> None:
    """Raise AttributeError unless operations of the Blob run on a CUDA device.

    Libraries treat every object with this interface as an array on a CUDA device.
    """
    # The first test is faster than the second.
    if home.native or not isinstance(home, CudaBackend):
        raise AttributeError(  # what hasattr() expects of a missing protocol
            f"__cuda_array_interface__: operations of this Blob run on {home.device}; blob.gpu and "
            'blob.on("cuda:0") have it, and cupy.asarray(blob) needs none'
        )


def array_over_memory(
    memory: SyncedMemory, layout: Layout, access: Access, *, target: object | None = None
) -> Any:
    """Return a CuPy array over the accelerator side, for the CUDA array interface.

    Parameters
    ----------
    memory, layout
        The memory, and the layout of the array.
    access
        The access of the consumer.
    target
        An object that only the consumer keeps; None to make no lease.

    Raises
    ------
    AttributeError
        If this memory cannot be on a CUDA device, or the interface does not support the dtype.
    """
    _backend(memory)
    name = "__cuda_array_interface__"
    if is_bfloat16(layout.dtype):
        raise AttributeError(f"{name}: it does not support bfloat16; use DLPack")
    if target is not None:
        return memory.export(Side.ACCELERATOR, access, layout, name, "CUDA array interface", target)
    return memory.array(Side.ACCELERATOR, access, layout, name)


def describe(memory: SyncedMemory, array: Any, *, readonly: bool) -> dict[str, Any]:
    """Return the interface, version 3, of an array, with the current stream."""
    described = _backend(memory).interface(array)
    described["data"] = (described["data"][0], readonly)
    return described


def for_cupy(memory: SyncedMemory, lender: Any) -> Callable[[], Any]:
    """Return the function that CuPy calls if an object has no ``__cuda_array_interface__``.

    It returns a CuPy array over the accelerator side, through the DLPack of `lender`. Only its call
    causes a transfer.

    Raises
    ------
    AttributeError
        If this memory cannot be on a CUDA device.
    """
    _backend(memory, "__cupy_get_ndarray__")
    import cupy  # installed: there is a CUDA device

    return lambda: cupy.from_dlpack(lender)


def from_interface(x: Any, *, copy: bool | None = None) -> Any:
    """Return a CuPy array over the memory of an object with ``__cuda_array_interface__``.

    If the object also has DLPack, that is used: PyTorch's tensors have version 2 of the interface,
    which has no stream, and the interface cannot describe bfloat16.

    Parameters
    ----------
    x
        The object. If it is read-only, the array is a copy, because CuPy arrays are always
        writable.
    copy
        False raises instead of that copy; True leaves the copy to the caller.

    Raises
    ------
    NoDeviceError
        If CuPy cannot use a CUDA device here.
    ValueError
        If `copy` is False and `x` is read-only.
    """
    require_cuda()
    import cupy  # only called with CUDA arrays

    if isinstance(x, cupy.ndarray):
        return x
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return from_dlpack(x, copy=copy)
    described = x.__cuda_array_interface__
    address, readonly = described["data"]
    runtime = cupy.cuda.runtime
    # CuPy copies memory that is not on the current device.
    index = runtime.pointerGetAttributes(address).device if address else runtime.getDevice()
    with cupy.cuda.Device(index):
        array = cupy.asarray(x)
    return _writable(array, copy) if readonly else array


def from_dlpack(x: Any, *, copy: bool | None = None) -> Any:
    """Return a CuPy array over the CUDA memory of a DLPack producer.

    Parameters
    ----------
    x, copy
        As for `from_interface`.

    Raises
    ------
    NoDeviceError, ValueError
        As for `from_interface`.
    """
    require_cuda()
    import cupy  # only called with CUDA arrays

    producer = _Producer(x)
    array = cupy.from_dlpack(producer)
    return _writable(array, copy) if producer.read_only else array


def _writable(array: Any, copy: bool | None) -> Any:
    """Return a copy of a read-only array, or raise if `copy` is False."""
    if copy is False:
        raise ValueError(
            "copy=False was asked for, but the array is read-only, and a Blob's memory is written "
            "by transfers"
        )
    return array if copy else backend_of(array).compute(array.copy)


class _Producer:
    """A DLPack producer that records the read-only flag of its capsule, which CuPy ignores."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.read_only = False

    def __dlpack__(self, **keywords: Any) -> Any:
        capsule = self._producer.__dlpack__(**keywords)
        self.read_only = _capsule.is_read_only(capsule)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._producer.__dlpack_device__()


def backend_of(array: Any) -> CudaBackend:
    """Return the backend of the device that holds a CuPy array."""
    backend = accelerator(f"cuda:{array.device.id}")
    if not isinstance(backend, CudaBackend):  # pragma: no cover  # the name decides the kind
        raise TypeError(f"{backend.device} is not a CUDA device")
    return backend
