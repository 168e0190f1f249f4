"""The CUDA array interface, version 3, of a memory, and what CuPy calls in its place.

https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html; imports are in `cuda_arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import is_bfloat16
from syncblob.devices.cuda import CudaBackend
from syncblob.errors import NoDeviceError

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Home, Side
    from syncblob.memory import Access, SyncedMemory


def _backend(
    memory: SyncedMemory, side: Side, name: str = "__cuda_array_interface__"
) -> CudaBackend:
    """Return the CUDA device of an accelerator's side.

    Raises AttributeError if there is none, so that ``hasattr(blob, name)`` is False.
    """
    try:
        backend = memory.home(side)
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
    memory: SyncedMemory,
    side: Side,
    layout: Layout,
    access: Access,
    *,
    target: object | None = None,
) -> Any:
    """Return a CuPy array over an accelerator's side, for the CUDA array interface.

    `target` is an object that only the consumer keeps; None makes no lease. Raises AttributeError
    if this memory cannot be on a CUDA device, or the interface does not support the dtype.
    """
    _backend(memory, side)
    name = "__cuda_array_interface__"
    if is_bfloat16(layout.dtype):
        raise AttributeError(f"{name}: it does not support bfloat16; use DLPack")
    memory.make_whole(side, layout, name)
    if target is not None:
        return memory.export(side, access, layout, name, "CUDA array interface", target)
    return memory.array(side, access, layout, name)


def describe(memory: SyncedMemory, side: Side, array: Any, *, readonly: bool) -> dict[str, Any]:
    """Return the interface, version 3, of an array, with the current stream."""
    described = _backend(memory, side).interface(array)
    described["data"] = (described["data"][0], readonly)
    return described


def for_cupy(memory: SyncedMemory, side: Side, lender: Any) -> Callable[[], Any]:
    """Return the function that CuPy calls if an object has no ``__cuda_array_interface__``.

    It returns a CuPy array over the accelerator's side, through the DLPack of `lender`. Only its
    call causes a transfer. Raises AttributeError if this memory cannot be on a CUDA device.
    """
    _backend(memory, side, "__cupy_get_ndarray__")
    import cupy  # installed: there is a CUDA device

    return lambda: cupy.from_dlpack(lender)
