"""The CUDA array interface, version 3, and arrays that come from CUDA devices.

https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.devices import Side, accelerator, current_accelerator
from syncblob.devices.cuda import CudaBackend
from syncblob.errors import NoDeviceError
from syncblob.memory import Access

if TYPE_CHECKING:
    from syncblob._shape import Layout
    from syncblob.memory import SyncedMemory

__all__ = ["backend_of", "from_dlpack", "from_interface", "interface"]


def interface(
    memory: SyncedMemory, layout: Layout, *, readonly: bool
) -> tuple[Any, dict[str, Any]]:
    """Answer ``__cuda_array_interface__``: mutable on the accelerator, const for a const Blob.

    Returns
    -------
    array : cupy.ndarray
        What the interface describes. The Blob keeps it: a consumer keeps the Blob only.
    interface : dict
        Version 3, with the current stream of the device.

    Raises
    ------
    AttributeError
        If this memory cannot be on a CUDA device, so that ``hasattr`` is honest.
    """
    try:
        backend = memory.accelerator or current_accelerator()
    except NoDeviceError as error:
        raise AttributeError(f"__cuda_array_interface__: {error}") from None
    if not isinstance(backend, CudaBackend):
        raise AttributeError(  # noqa: TRY004  # what hasattr() expects of a missing protocol
            f"__cuda_array_interface__: {backend.device} is not a CUDA device"
        )
    access = Access.CONST if readonly else Access.MUTABLE
    array = memory.lend(Side.ACCELERATOR, access, layout, "__cuda_array_interface__", borrow=False)
    described = backend.interface(array)
    described["data"] = (described["data"][0], readonly)
    return array, described


def from_interface(x: Any) -> Any:
    """Return a CuPy array over the memory of an object with ``__cuda_array_interface__``."""
    import cupy  # noqa: PLC0415  # only where a CUDA array is at hand

    return cupy.asarray(x)


def from_dlpack(x: Any) -> Any:
    """Return a CuPy array over the CUDA memory of a DLPack producer."""
    import cupy  # noqa: PLC0415  # only where a CUDA array is at hand

    return cupy.from_dlpack(x)


def backend_of(array: Any) -> CudaBackend:
    """Return the backend of the device that holds a CuPy array."""
    backend = accelerator(f"cuda:{array.device.id}")
    if not isinstance(backend, CudaBackend):  # pragma: no cover  # the name decides the kind
        raise TypeError(f"{backend.device} is not a CUDA device")
    return backend
