"""Arrays of other libraries, taken over as memories: without a copy where the memory allows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype, is_supported
from syncblob._shape import Layout
from syncblob.devices import HOST, Device, Side, current_accelerator
from syncblob.devices.host import NumpyHome
from syncblob.interop import cuda, dlpack
from syncblob.memory import SyncedMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Home

__all__ = ["adopt", "can_adopt", "native_array", "set_side"]


def native_array(
    x: Any, *, copy: bool | None = None, dtype: np.dtype[np.generic] | None = None
) -> tuple[Any, bool]:
    """Return `x` as a NumPy or CuPy array, over its own memory wherever a protocol allows it.

    Arrays are asked for the CUDA array interface, then for DLPack; everything else is NumPy's to
    convert: ``__array__``, buffers, nested sequences and scalars.

    Parameters
    ----------
    x
        Anything that is, or converts to, an array.
    copy
        False refuses what can only be converted.
    dtype
        The dtype that numbers which have none are converted to; None for NumPy's choice.

    Returns
    -------
    array : numpy.ndarray or cupy.ndarray
    owned : bool
        Whether nobody else has it.

    Raises
    ------
    ValueError, BufferError
        If `copy` is False and `x` has no array memory to share, or does not want to.
    """
    if isinstance(x, np.ndarray):
        return np.asarray(x), False
    if isinstance(x, (np.generic, int, float, complex, list, tuple)):
        if copy is False:
            raise ValueError(
                f"copy=False was asked for, but a {type(x).__name__} has no array memory to share"
            )
        return np.asarray(x, None if isinstance(x, np.generic) else dtype), True
    array = _of_tensor(x)
    if array is not None:
        return array, False
    if hasattr(x, "__cuda_array_interface__"):
        return cuda.from_interface(x, copy=copy), False
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return dlpack.import_array(x, copy=copy), False
    return np.asarray(x, copy=False if copy is False else None), False


def _of_tensor(x: Any) -> NDArray[Any] | None:
    """Return the memory of a tensor as PyTorch itself gives it to NumPy; None where it does not.

    DLPack leads to the same memory, and takes several times as long.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(x) is not getattr(torch, "Tensor", None):
        return None
    try:
        array: NDArray[Any] = x.numpy()
    except (RuntimeError, TypeError):
        # It is on a device, requires a gradient, or has a dtype or a layout that NumPy lacks.
        return None
    return array


def adopt(  # noqa: PLR0913  # where an array is, what it becomes and whose it is
    array: Any,
    *,
    dtype: np.dtype[np.generic] | None,
    device: Device | str | None,
    copy: bool | None,
    backend: Accelerator | None = None,
    owned: bool = False,
) -> tuple[SyncedMemory, Layout]:
    """Make a memory of a NumPy or CuPy array.

    Memory is taken over if it can be written, is aligned, and every byte from its first to its
    last belongs to exactly one element: then a transfer cannot touch bytes that are not the
    array's. Any order of the axes will do. Other arrays are copied.

    Parameters
    ----------
    array
        A NumPy or CuPy array.
    dtype
        The dtype wanted, None for that of the array.
    device
        Where the contents are to be used; they move there on first use.
    copy
        True always copies, False never.
    backend
        The accelerator that holds a NumPy array, where it is not on the host: results computed
        on a simulated device.
    owned
        Whether nobody else has the array. Memory that somebody else may write into is exposed.

    Raises
    ------
    ValueError
        If `copy` is False and a copy or a transfer is needed.
    TypeError
        If a Blob cannot hold the dtype.
    """
    if backend is None and not isinstance(array, np.ndarray):
        backend = cuda.backend_of(array)
    obstacle = _obstacle(array, dtype)
    if copy is False and obstacle is None and device is not None:
        elsewhere = Device(device) != (HOST if backend is None else backend).device
        obstacle = f"the array is not on {device}" if elsewhere else None
    if copy is False and obstacle is not None:
        raise ValueError(f"copy=False was asked for, but {obstacle}")
    if obstacle is not None or copy:
        target = as_dtype(array.dtype.newbyteorder("=")) if dtype is None else dtype
        array = (backend or HOST).compute(array.astype, target, order="C", copy=True)
        owned = True
    base, layout = _dense(array)
    side = Side.HOST if backend is None else Side.ACCELERATOR
    buffer = (backend or HOST).wrap(base)
    memory = SyncedMemory.adopting(side, buffer, accelerator=backend, device=device)
    if not owned:
        memory.expose(side)
    return memory, layout


def can_adopt(array: Any) -> bool:
    """Tell whether the memory of an array can be taken over as it is."""
    if type(array) is np.ndarray and array.flags.carray and array.dtype in SUPPORTED:
        # The usual case.
        return True
    return _obstacle(array, None) is None


def set_side(memory: SyncedMemory, layout: Layout | None, side: Side, array: Any) -> None:
    """Make an array's memory one side of a memory, without a copy; its contents are the newest.

    Parameters
    ----------
    memory, side
        What is to be set.
    layout
        The dtype and the size that the array must have; None where only its bytes count.
    array
        C-contiguous, aligned, writable.

    Raises
    ------
    TypeError
        If the dtype is not that of the layout, or the array is of the other side's library.
    ValueError
        If the size differs, or the array is not C-contiguous, aligned and writable.
    DeviceMismatchError
        If the array is on another accelerator than the memory.
    """
    if not isinstance(array, np.ndarray) and not any(
        hasattr(array, protocol)
        for protocol in ("__dlpack__", "__cuda_array_interface__", "__array__")
    ):
        of_dtype = "" if layout is None else f" of dtype {layout.dtype}"
        raise TypeError(f"expected an array{of_dtype}, got {type(array).__name__}")
    array, _ = native_array(array, copy=False)
    home, backend = _home_for(memory, side, array)
    if isinstance(array, np.ndarray) != isinstance(home, NumpyHome):
        raise TypeError(f"expected an array that {home.device} can use, got {type(array).__name__}")
    if layout is not None:
        _require_elements(array, layout)
    if not array.flags.c_contiguous:
        raise ValueError("expected a C-contiguous array; use numpy.ascontiguousarray() first")
    if isinstance(array, np.ndarray) and not array.flags.aligned:
        raise ValueError("expected an aligned array; use .copy() first")
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ValueError(
            "expected a writable array, because transfers write into it, got a read-only one; "
            "use .copy() first"
        )
    memory.replace_side(side, home.wrap(array), backend)


def _require_elements(array: Any, layout: Layout) -> None:
    if array.dtype != layout.dtype:
        raise TypeError(f"expected dtype {layout.dtype}, got {array.dtype}; use .astype()")
    if array.size != layout.size:
        raise ValueError(
            f"expected {layout.size} elements, shape {layout.shape}, got shape {array.shape}"
        )


def _home_for(memory: SyncedMemory, side: Side, array: Any) -> tuple[Home, Accelerator | None]:
    if side is Side.HOST:
        return HOST, None
    backend = memory.accelerator
    if backend is None:
        on_cuda = not isinstance(array, np.ndarray)
        backend = cuda.backend_of(array) if on_cuda else current_accelerator()
    return backend, backend


def _obstacle(array: Any, dtype: np.dtype[np.generic] | None) -> str | None:
    """Say why the memory of an array cannot be taken over as it is; None where it can."""
    if dtype is not None and array.dtype != dtype:
        return f"a conversion from {array.dtype} to {dtype} is needed"
    if not is_supported(array.dtype):
        as_dtype(array.dtype.newbyteorder("="))
        return f"a conversion from {array.dtype} to native byte order is needed"
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            return "the array is read-only, and a Blob's memory is written by transfers"
        if not array.flags.aligned:
            return "the array is not aligned"
    if _dense_base(array) is None:
        return "the array has gaps or repeats elements, and transfers move whole blocks"
    return None


def _dense_base(array: Any) -> Any:
    """Return a C-contiguous view of exactly the bytes of an array, or None where there is none."""
    if array.flags.c_contiguous:
        return array
    forward = array[tuple(slice(None, None, -1 if step < 0 else 1) for step in array.strides)]
    order = sorted(range(array.ndim), key=lambda axis: -forward.strides[axis])
    base = forward.transpose(order)
    return base if base.flags.c_contiguous else None


def _dense(array: Any) -> tuple[Any, Layout]:
    """Return the dense base of an array and how the array lies in it."""
    base = _dense_base(array)
    if base is array:
        return array, Layout.c_order(tuple(array.shape), array.dtype)
    offset = sum(
        (dim - 1) * -step for dim, step in zip(array.shape, array.strides, strict=True) if step < 0
    )
    return base, Layout(tuple(array.shape), array.dtype, tuple(array.strides), offset)
