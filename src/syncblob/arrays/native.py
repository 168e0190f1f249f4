"""Conversion of other libraries' arrays to NumPy or CuPy arrays over the same memory.

Independent of `SyncedMemory`, which gets its buffers from here.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype, is_supported
from syncblob.arrays import dlpack_capsules
from syncblob.arrays.foreign import PROTOCOLS, NoValuesError
from syncblob.devices import HOST, Side, accelerator, current_accelerator, owner_of
from syncblob.devices.base import (
    DLPACK_CUDA,
    DLPACK_CUDA_MANAGED,
    DLPACK_HOST_TYPES,
    Accelerator,
    is_on_device,
)
from syncblob.devices.cuda import CudaBackend, device_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob._layout import Layout

# DLPack's numbers of the legacy default stream, and of the default stream of a thread.
_LEGACY, _PER_THREAD = 1, 2

# How PyTorch marks tensors whose memory does not contain their values.
_WITHOUT_VALUES = (
    ("is_conj", "is to be read conjugated", "resolve_conj()"),
    ("is_neg", "is to be read negated", "resolve_neg()"),
    ("_is_zerotensor", "has no memory, only zeros", "clone()"),
)


def native_array(
    x: Any, *, copy: bool | None = None, dtype: np.dtype[np.generic] | None = None
) -> tuple[Any, bool]:
    """Return `x` as a NumPy or CuPy array, over its own memory if a protocol allows it.

    The protocols of devices are tried first, then DLPack. NumPy converts everything else, and what
    a DLPack producer on the host refuses to export: ``__array__``, buffers, nested sequences and
    scalars. `dtype` is that of Python numbers.

    Also returns whether the array has no other owner.

    Raises ValueError, BufferError if `copy` is False, and `x` has no array memory or does not share
    it; BufferError if `x` is a tensor whose memory does not hold its values; TypeError if `x` is a
    masked array; OverflowError if `x` has an integer of more than 64 bits.
    """
    if isinstance(x, np.ndarray):
        _require_no_mask(x)
        return np.asarray(x), False
    if isinstance(x, (np.generic, int, float, complex, list, tuple)):
        if copy is False:
            raise ValueError(
                f"copy=False was asked for, but a {type(x).__name__} has no array memory to share"
            )
        array: Any = np.asarray(x, None if isinstance(x, np.generic) else dtype)
        if array.dtype.hasobject and array.size and all(isinstance(e, int) for e in array.flat):
            # NumPy keeps Python's integers if one has more bits.
            raise OverflowError(
                "a Blob's integers have at most 64 bits, and an integer needs more; convert it to "
                "float"
            )
        return array, True
    array = array_of_tensor(x, "write")
    if array is None:
        _require_values(x)
        array = _by_protocol(x, copy)
    if array is not None:
        return array, False
    array = np.asarray(x, copy=False if copy is False else None)
    # NumPy's own copy of another sequence, such as a range, belongs to no other object.
    return array, array.base is None and not hasattr(x, "__array__")


def _by_protocol(x: Any, copy: bool | None) -> Any:
    """Return an array over an object's memory by a device's protocol or DLPack; None without."""
    if hasattr(x, "__cuda_array_interface__"):
        return import_cuda_array(x, copy=copy)
    owner = owner_of(x)
    if owner is not None:
        return owner.import_array(x, copy=copy)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_producer(x, copy)
    return None


def _from_producer(x: Any, copy: bool | None) -> Any:
    """Return a DLPack producer's array; what one on the host refuses to export, as NumPy takes it.

    PyArrow, for example, refuses arrays of bool, and those with nulls.
    """
    try:
        array = import_array(x, copy=copy)
    except Exception as error:  # whatever the producer raises
        if copy is False or not hasattr(x, "__array__"):
            raise
        # A producer that cannot tell its device has none.
        if isinstance(error, NoValuesError) or int(x.__dlpack_device__()[0]) in DLPACK_HOST_TYPES:
            with suppress(Exception):
                return np.asarray(x)
        raise
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        # An unversioned capsule does not say whether its memory may be written. NumPy's protocols
        # do, as for Warp's and ONNX Runtime's arrays; those of JAX and TensorFlow say no.
        with suppress(Exception):
            same = np.asarray(x, copy=False)
            if same.flags.writeable and _describe(same) == _describe(array):
                return same
    return array


def _describe(array: NDArray[Any]) -> tuple[Any, ...]:
    return array.ctypes.data, array.dtype, array.shape, array.strides


def backend_of(array: Any) -> Accelerator:
    """Return the backend of the device that holds an array that is not NumPy's."""
    owner = owner_of(array)
    if owner is None:
        raise TypeError(f"expected an array on a device, got {type(array).__name__}")
    return accelerator(owner.device_of(array))


def _require_values(x: Any) -> None:
    """Raise BufferError for a tensor whose memory does not hold its values.

    PyTorch exports such tensors without applying the negation, or with a null pointer.
    """
    for name, got, advice in _WITHOUT_VALUES:
        if getattr(x, name, bool)():
            raise BufferError(
                f"expected a tensor that holds its values, got one that {got}; use tensor.{advice}"
            )


def _require_no_mask(array: NDArray[Any]) -> None:
    """Raise TypeError for a masked array."""
    # Looking for the type first, because `np.ma` is imported when it is first used.
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "a MaskedArray would lose its mask in a Blob; use its .filled(), or its .data to take "
            "the masked elements too"
        )


class _Reader(tuple[Any]):
    """A tensor that PyTorch exports for reading, in fewer steps than by its own method."""

    __slots__ = ()

    def __dlpack__(self, **_: Any) -> Any:
        return sys.modules["torch"].utils.dlpack.to_dlpack(self[0])


def array_of_tensor(x: Any, use: Literal["read", "write", "keep"] = "read") -> NDArray[Any] | None:
    """Return a tensor's memory as an ndarray, in fewer steps than `native_array`; else None.

    None for other objects, and if PyTorch or NumPy refuses. To keep it is faster than to write it,
    but PyTorch refuses to resize the tensor from then on.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(x) is not getattr(torch, "Tensor", None) or not x.is_cpu:
        return None
    try:
        if use == "keep":
            array: NDArray[Any] = x.numpy()
        else:
            for name, _, _ in _WITHOUT_VALUES:
                if getattr(x, name)():
                    return None
            direct = use == "read" and not x.requires_grad
            array = np.from_dlpack(_Reader((x,)) if direct else x)
            if not (array.dtype in SUPPORTED or is_supported(array.dtype)):
                return None
    except (RuntimeError, TypeError, BufferError):
        # It requires a gradient, NumPy lacks its dtype or layout, or its memory lacks the values.
        return None
    return array if use == "read" or array.flags.writeable else None


def buffer_of(
    array: Any, side: Side, accelerator: Accelerator | None = None, layout: Layout | None = None
) -> tuple[Any, Accelerator | None]:
    """Return an array's memory as a buffer for one side of a memory, without a copy.

    `accelerator` is that of the memory, if it has one; that of the buffer is also returned.

    Raises TypeError if the dtype is not that of the layout, or the array is not on that side;
    ValueError if the size differs, or the array is not C-contiguous, aligned and writable.
    """
    if not (any(hasattr(array, protocol) for protocol in PROTOCOLS) or is_on_device(array)):
        of_dtype = "" if layout is None else f" of dtype {layout.dtype}"
        raise TypeError(f"expected an array{of_dtype}, got {type(array).__name__}")
    array, _ = native_array(array, copy=False)
    on_device = not isinstance(array, np.ndarray)
    if side is Side.HOST:
        accelerator = None
    elif accelerator is None:
        accelerator = backend_of(array) if on_device else current_accelerator()
    home = accelerator or HOST
    if on_device == home.native:
        raise TypeError(f"expected an array that {home.device} can use, got {type(array).__name__}")
    if layout is not None and array.dtype != layout.dtype:
        raise TypeError(f"expected dtype {layout.dtype}, got {array.dtype}; use .astype()")
    if layout is not None and array.size != layout.size:
        raise ValueError(
            f"expected {layout.size} elements, shape {layout.shape}, got shape {array.shape}"
        )
    if not array.flags.c_contiguous:
        raise ValueError("expected a C-contiguous array; use numpy.ascontiguousarray() first")
    if not (on_device or array.flags.aligned):
        raise ValueError("expected an aligned array; use .copy() first")
    if not (on_device or array.flags.writeable):
        raise ValueError(
            "expected a writable array, because transfers write into it, got a read-only one; "
            "use numpy.array() first"
        )
    return home.wrap(array), accelerator


def import_array(x: Any, *, copy: bool | None = None) -> Any:
    """Return an array of NumPy or of a device over the memory of a DLPack producer.

    Raises BufferError if the memory is on a device of another kind, or the producer refuses.
    """
    if isinstance(x, np.ndarray):
        _require_no_mask(x)
    else:
        _require_values(x)
        dlpack_capsules.require_type(x)
    try:
        kind = int(x.__dlpack_device__()[0])
    except Exception as error:  # whatever the producer raises
        raise NoValuesError(f"{type(x).__name__}.__dlpack_device__ raised: {error}") from error
    if kind in DLPACK_HOST_TYPES:
        return _import_host(x, copy)
    if kind in (DLPACK_CUDA, DLPACK_CUDA_MANAGED):
        return import_cuda_array(x, copy=copy)
    owner = owner_of(x, kind)
    if owner is not None:
        return owner.import_array(x, copy=copy)
    raise BufferError(
        f"expected memory of the host or of a device with a backend, got DLPack device type {kind}"
    )


def _import_host(x: Any, copy: bool | None) -> NDArray[Any]:
    producer = dlpack_capsules.Producer(x)
    try:
        # NumPy asks producers with an older ``__dlpack__`` again, without keywords.
        array = np.from_dlpack(producer, copy=False if copy is False else None)
    except TypeError:
        if copy is not False:
            raise
        raise BufferError(
            f"copy=False was asked for, and {type(x).__name__}.__dlpack__ cannot promise it"
        ) from None
    except (RuntimeError, BufferError):  # BufferError since NumPy 2.5
        # NumPy does not support bfloat16, and has not consumed the capsule.
        capsule = producer.capsule
        if capsule is None or dlpack_capsules.supported_type(capsule, x) != "bfloat16":
            raise
        dlpack_capsules.edit(capsule, code=dlpack_capsules.UINT)
        return np.from_dlpack(producer).view(as_dtype("bfloat16"))
    # ml_dtypes 0.7 registers float8 and complex32 with NumPy 2.5, which takes them then.
    dlpack_capsules.require_name(array.dtype.name, x)
    return array


def import_cuda_array(x: Any, *, copy: bool | None = None) -> Any:
    """Return a CuPy array over the memory of a CUDA array of any library.

    DLPack is used if the object has it: PyTorch's tensors have version 2 of the CUDA array
    interface, which has no stream, and the interface cannot describe bfloat16.

    If it is read-only, the array is a copy, because CuPy arrays are always writable, unless `copy`
    is True, which leaves that to the caller. Raises ValueError if `copy` is False then.
    """
    if not device_count():
        accelerator("cuda:0")
    import cupy  # only called with CUDA arrays

    if isinstance(x, cupy.ndarray):
        return x
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        producer = _CudaProducer(x)
        array = cupy.from_dlpack(producer)
        read_only = producer.read_only
    else:
        address, read_only = x.__cuda_array_interface__["data"]
        runtime = cupy.cuda.runtime
        # CuPy copies memory that is not on the current device.
        index = runtime.pointerGetAttributes(address).device if address else runtime.getDevice()
        with cupy.cuda.Device(index):
            array = cupy.asarray(x)
    if read_only and copy is False:
        raise ValueError(
            "copy=False was asked for, but the array is read-only, and a Blob's memory is written "
            "by transfers"
        )
    if not read_only or copy:
        return array
    backend = accelerator(CudaBackend.device_of(array))
    return backend.compute(backend.copy, array)


class _CudaProducer(dlpack_capsules.Producer):
    """A producer that records whether its capsule is read-only, which CuPy ignores."""

    read_only: bool = False

    def __dlpack__(self, **keywords: Any) -> Any:
        if keywords.get("stream") == _PER_THREAD:
            # PyTorch refuses it. The legacy stream is ordered with it.
            keywords["stream"] = _LEGACY
        capsule = super().__dlpack__(**keywords)
        dlpack_capsules.supported_type(capsule, self._producer)
        self.read_only = dlpack_capsules.is_read_only(capsule)
        return capsule
