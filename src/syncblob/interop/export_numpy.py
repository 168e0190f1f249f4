"""Exports to NumPy: ``__array__``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices import Side
from syncblob.memory import CONST, Access, SyncedMemory
from syncblob.memory.loans import NUMPY

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob._layout import Layout


def to_ndarray(
    memory: SyncedMemory,
    layout: Layout,
    dtype: DTypeLike | None,
    copy: bool | None,
    *,
    side: Side = Side.HOST,
    access: Access = CONST,
) -> NDArray[Any]:
    """Implement ``__array__`` of a Blob or a SideView; see `Blob.__array__`.

    NumPy must be able to access that side. Conversions and copies always take the const path.
    """
    convert = dtype is not None and np.dtype(dtype) != layout.dtype
    if convert and copy is False:
        raise ValueError(
            f"copy=False was asked for, but a conversion from {layout.dtype} to {np.dtype(dtype)} "
            "is needed; leave out copy=False"
        )
    if convert or copy:
        array = memory.elements(side, layout, "__array__")
        return array.astype(dtype) if convert else array.copy()
    return memory.export(side, access, layout, "__array__", NUMPY)


def fill_missing(array: NDArray[Any], dtype: DTypeLike | None, value: Any) -> NDArray[Any]:
    """Return an array with a value in place of NaN, in another dtype; see `Blob.to_numpy`."""
    wanted = array.dtype if dtype is None else np.dtype(dtype)
    missing = array != array  # noqa: PLR0124  # NaN alone differs from itself
    if missing.any():
        # Objects are stored as they are, and before a conversion to integers no NaN may be left.
        array = array.astype(object if wanted.hasobject else array.dtype)
        array[missing] = value
    return array.astype(wanted, copy=False)
