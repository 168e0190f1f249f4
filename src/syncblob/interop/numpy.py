"""NumPy: ``__array__``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices import Side
from syncblob.memory import CONST, Access
from syncblob.memory.leases import NUMPY

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob._layout import Layout
    from syncblob.memory import SyncedMemory

__all__ = ["to_ndarray"]


def to_ndarray(  # noqa: PLR0913  # the export, and the protocol's keywords
    memory: SyncedMemory,
    layout: Layout,
    dtype: DTypeLike | None,
    copy: bool | None,
    *,
    side: Side = Side.HOST,
    access: Access = CONST,
) -> NDArray[Any]:
    """Implement ``__array__`` of a Blob or a SideView; see `Blob.__array__`.

    Parameters
    ----------
    memory, layout, side
        The memory, layout and side to export; NumPy must be able to access that side.
    dtype, copy
        The keywords of the protocol.
    access
        The consumer's access. Conversions and copies always take the const path.
    """
    convert = dtype is not None and np.dtype(dtype) != layout.dtype
    if copy is False:
        _refuse_copy(memory, layout, side, dtype if convert else None)
    if convert or copy:
        array = memory.elements(side, layout, "__array__")
        return array.astype(dtype) if convert else array.copy()
    return memory.export(side, access, layout, "__array__", NUMPY)


def _refuse_copy(memory: SyncedMemory, layout: Layout, side: Side, dtype: DTypeLike | None) -> None:
    """Raise ValueError if a transfer, or a conversion to `dtype`, is needed."""
    if dtype is not None:
        needed = f"a conversion from {layout.dtype} to {np.dtype(dtype)}"
    elif not memory.holds_newest(side, *memory.range_of(layout)):
        needed = "a download" if side is Side.HOST else "an upload"
    else:
        return
    raise ValueError(f"copy=False was asked for, but {needed} is needed; leave out copy=False")
