"""NumPy: ``__array__`` and the buffer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_bfloat16
from syncblob.aliases import NUMPY
from syncblob.devices import Side
from syncblob.memory import Access

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob._shape import Layout
    from syncblob.memory import SyncedMemory

__all__ = ["refuse_copy", "to_buffer", "to_ndarray"]

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
    refuse_copy(memory, layout, Side.HOST, dtype if convert else None, copy)
    array: NDArray[Any] = memory.export(Side.HOST, Access.CONST, layout, "__array__", NUMPY)
    if convert:
        return array.astype(dtype)
    return array.copy() if copy else array


def refuse_copy(
    memory: SyncedMemory, layout: Layout, side: Side, dtype: DTypeLike | None, copy: bool | None
) -> None:
    """Raise ValueError if `copy` is False and a conversion or a transfer is needed.

    Parameters
    ----------
    memory, layout, side
        What is to be exported.
    dtype
        What it is to be converted to; None for no conversion.
    copy
        What the consumer allows.
    """
    if copy is not False:
        return
    if dtype is not None:
        needed = f"a conversion from {layout.dtype} to {np.dtype(dtype)}"
    elif not memory.holds_newest(side):
        needed = "a download" if side is Side.HOST else "an upload"
    else:
        return
    raise ValueError(f"copy=False was asked for, but {needed} is needed; leave out copy=False")


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
    if is_bfloat16(layout.dtype):
        raise BufferError(f"{layout.dtype} has no format in the buffer protocol")
    access = Access.MUTABLE if writable else Access.CONST
    return memoryview(memory.export(Side.HOST, access, layout, "__buffer__", "buffer"))
