"""Reading and editing DLPack capsules: the fields that NumPy and CuPy do not show or set.

The structures are those of ``dlpack.h``, version 1.0; the type codes are those of version 1.1.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from typing import Any

from syncblob._dtypes import NAMES

# DLDataTypeCode
UINT = 1
BFLOAT = 4
# The names of types, by code; the bits follow if the name does not contain them.
_TYPES = (
    *("int{}", "uint{}", "float{}", "handle{}", "bfloat{}", "complex{}", "bool{}", "float8_e3m4"),
    *("float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)
_SUPPORTED = frozenset({*NAMES, "bfloat16", "bool8"})
# Libraries' names of dtypes. Others, such as those of vectors, may be exported as one of these.
_KNOWN = re.compile(r"(q?u?int|b?float|complex)\d\w*|string|resource|variant")
# DLPACK_FLAG_BITMASK_*
READ_ONLY = 1
IS_COPIED = 2

_LEGACY = b"dltensor"
_VERSIONED = b"dltensor_versioned"


class _DLDevice(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("version_major", ctypes.c_uint32),
        ("version_minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_get_pointer.restype = ctypes.c_void_p
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)


class Producer:
    """A DLPack producer that keeps its capsule, until a library has consumed it."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.capsule: Any = None

    def __dlpack__(self, **keywords: Any) -> Any:
        """Return the producer's capsule, the same one each time."""
        if self.capsule is None:
            self.capsule = self._producer.__dlpack__(**keywords)
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the producer's device."""
        return self._producer.__dlpack_device__()


def _contents(capsule: Any) -> tuple[_DLTensor, _DLManagedTensorVersioned | None]:
    """Return the tensor of an unused capsule, and the structure around it if it is versioned."""
    if _is_valid(capsule, _VERSIONED):
        managed = _DLManagedTensorVersioned.from_address(_get_pointer(capsule, _VERSIONED))
        return managed.dl_tensor, managed
    try:
        # DLManagedTensor begins with it.
        return _DLTensor.from_address(_get_pointer(capsule, _LEGACY)), None
    except ValueError:
        raise BufferError(f"expected an unused DLPack capsule, got {capsule!r}") from None


def is_read_only(capsule: Any) -> bool:
    """Return whether the memory of an unused capsule must not be written.

    An unversioned one has no flag for it, and JAX and PyArrow put immutable memory into it.
    """
    _, versioned = _contents(capsule)
    return versioned is None or bool(versioned.flags & READ_ONLY)


def supported_type(capsule: Any, producer: Any) -> str:
    """Return the name of an unused capsule's type; raise TypeError if Blobs do not support it."""
    dtype = _contents(capsule)[0].dtype
    known = dtype.code < len(_TYPES)
    name = _TYPES[dtype.code].format(dtype.bits) if known else f"code{dtype.code}_{dtype.bits}"
    if dtype.lanes != 1:
        name = f"{name}x{dtype.lanes}"
    require_name(name, producer)
    return name


def require_type(producer: Any) -> None:
    """Raise TypeError for a producer whose dtype has a known name, and is none that Blobs support.

    Call this before ``__dlpack__``, which aborts the process for some dtypes in TensorFlow 2.21.
    """
    name = ""
    with suppress(Exception):  # tvm-ffi raises if it has no name for one
        dtype = producer.dtype
        name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]
    if _KNOWN.fullmatch(name):
        require_name(name, producer)


def require_name(name: str, producer: Any) -> None:
    """Raise TypeError unless the type of this name, which a producer has, is one of Blobs."""
    if name not in _SUPPORTED:
        raise TypeError(
            f"a Blob cannot hold {name}, the type of this {type(producer).__name__}; convert it "
            "to another one first"
        )


def edit(
    capsule: Any, *, device: tuple[int, int] | None = None, code: int | None = None, flags: int = 0
) -> Any:
    """Change fields of an unused capsule in place and return it.

    The device is its type and id. Flags are set only in a versioned capsule. Raises BufferError if
    `capsule` is something else, or has been consumed.
    """
    tensor, versioned = _contents(capsule)
    if device is not None:
        tensor.device = _DLDevice(*device)
    if code is not None:
        tensor.dtype.code = code
    if flags and versioned is not None:
        versioned.flags |= flags
    return capsule
