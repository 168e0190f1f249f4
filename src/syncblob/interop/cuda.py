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

    from syncblob._shape import Layout
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
    """Raise NoDeviceError where CuPy has no CUDA device."""
    if not device_count():
        accelerator("cuda:0")


def _backend(memory: SyncedMemory, name: str = "__cuda_array_interface__") -> CudaBackend:
    """Return the CUDA device that a memory is or can be on.

    Raises
    ------
    AttributeError
        If there is none, so that ``hasattr(blob, name)`` is honest.
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
    """Raise AttributeError where a Blob does not compute on a CUDA device: it has no interface.

    Libraries ask each array for the interface, and take what has one for an array of a CUDA device.
    """
    # What NumPy computes in is none, which is seen more quickly.
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
        What is lent.
    access
        What the consumer is going to do.
    target
        What the consumer keeps and nobody else; None to make no lease.

    Raises
    ------
    AttributeError
        If this memory cannot be on a CUDA device, or the interface has no name for the dtype.
    """
    _backend(memory)
    name = "__cuda_array_interface__"
    if is_bfloat16(layout.dtype):
        raise AttributeError(f"{name}: it does not support bfloat16; use DLPack")
    if target is not None:
        return memory.export(Side.ACCELERATOR, access, layout, name, "CUDA array interface", target)
    return memory.array(Side.ACCELERATOR, access, layout, name)


def describe(memory: SyncedMemory, array: Any, *, readonly: bool) -> dict[str, Any]:
    """Return the interface, version 3, of an `array_over_memory`, with the current stream."""
    described = _backend(memory).interface(array)
    described["data"] = (described["data"][0], readonly)
    return described


def for_cupy(memory: SyncedMemory, lender: Any) -> Callable[[], Any]:
    """Return what CuPy calls where an object has no ``__cuda_array_interface__``.

    It makes a CuPy array over the accelerator side, by the DLPack of `lender`. Nothing moves before
    it is called.

    Raises
    ------
    AttributeError
        If this memory cannot be on a CUDA device.
    """
    _backend(memory, "__cupy_get_ndarray__")
    import cupy  # there is a CUDA device

    return lambda: cupy.from_dlpack(lender)


def from_interface(x: Any, *, copy: bool | None = None) -> Any:
    """Return a CuPy array over the memory of an object with ``__cuda_array_interface__``.

    DLPack is asked where the object has it too: PyTorch's tensors have version 2 of the interface,
    which says nothing of streams, and of bfloat16 the interface gives the size alone.

    Parameters
    ----------
    x
        The object. Of one that says "read-only" the array is a copy: CuPy's can be written.
    copy
        False refuses that copy; True leaves it to the caller.

    Raises
    ------
    NoDeviceError
        If CuPy cannot use a CUDA device here.
    ValueError
        If `copy` is False and `x` is read-only.
    """
    require_cuda()
    import cupy  # only where a CUDA array is at hand

    if isinstance(x, cupy.ndarray):
        return x
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return from_dlpack(x, copy=copy)
    described = x.__cuda_array_interface__
    address, readonly = described["data"]
    runtime = cupy.cuda.runtime
    # CuPy copies what is on another device than the current one.
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
        As `from_interface`.
    """
    require_cuda()
    import cupy  # only where a CUDA array is at hand

    producer = _Producer(x)
    array = cupy.from_dlpack(producer)
    return _writable(array, copy) if producer.read_only else array


def _writable(array: Any, copy: bool | None) -> Any:
    """Return a copy of an array that must not be written, where one may and has to be made."""
    if copy is False:
        raise ValueError(
            "copy=False was asked for, but the array is read-only, and a Blob's memory is written "
            "by transfers"
        )
    return array if copy else backend_of(array).compute(array.copy)


class _Producer:
    """A DLPack producer, and whether its capsule says "read-only", which CuPy does not look at."""

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
