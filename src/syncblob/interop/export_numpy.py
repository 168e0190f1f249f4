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
