"""NumPy: ``__array__`` and the buffer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices import Side
from syncblob.memory import Access

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob._shape import Layout
    from syncblob.memory import SyncedMemory

__all__ = ["to_buffer", "to_ndarray"]

# PyBUF_WRITABLE of CPython's object.h.
_WRITABLE = 1


def to_ndarray(
    memory: SyncedMemory, layout: Layout, dtype: DTypeLike | None, copy: bool | None
) -> NDArray[Any]:
    """Answer ``__array__``: the const path, on the host.

    Returns
    -------
    ndarray
        Read-only and over the memory itself, unless `dtype` asks for a conversion or `copy` is
        True: then private and writable.

    Raises
    ------
    ValueError
        If `copy` is False and a download or a conversion is needed.
    """
    convert = dtype is not None and np.dtype(dtype) != layout.dtype
    if copy is False and (convert or not memory.holds_newest(Side.HOST)):
        needed = (
            f"a conversion from {layout.dtype} to {np.dtype(dtype)}"
            if convert
            else f"a download from {memory.device}"
        )
        raise ValueError(f"copy=False was asked for, but {needed} is needed; leave out copy=False")
    array: NDArray[Any] = memory.lend(Side.HOST, Access.CONST, layout, "__array__")
    if convert:
        return array.astype(dtype)
    return array.copy() if copy else array


def to_buffer(memory: SyncedMemory, layout: Layout, flags: int, *, readonly: bool) -> memoryview:
    """Answer ``__buffer__``: const on the host, mutable if the consumer wants to write.

    Raises
    ------
    BufferError
        If the consumer wants to write into a const Blob, or the dtype has no buffer format.
    """
    writable = bool(flags & _WRITABLE)
    if writable and readonly:
        raise BufferError("a writable buffer was asked for, and this Blob is a const view")
    access = Access.MUTABLE if writable else Access.CONST
    try:
        return memoryview(memory.lend(Side.HOST, access, layout, "__buffer__", borrow=False))
    except ValueError as error:
        raise BufferError(f"{layout.dtype} has no format in the buffer protocol") from error
