"""Elements as Python scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices import HOST, Side

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore

__all__ = ["index", "item", "scalar"]

# Alternatives to a conversion to one number.
_FOR_MANY = {"bool": "any() or all()", "a rounded number": "round()"}


def item(blob: BlobCore, indices: tuple[Any, ...]) -> Any:
    """Return one element as a Python scalar; see `Blob.item`."""
    layout = blob._layout
    if blob._memory.newest(Side.HOST, layout) is not None:
        # A const access on the host causes no transfer.
        return blob._read_host("item").item(*indices)
    shape = layout.shape
    # NumPy checks the indices.
    np.broadcast_to(np.uint8(0), shape).item(*indices)
    if len(indices) == 1 and isinstance(indices[0], tuple):
        (indices,) = indices
    if len(indices) == 1 and len(shape) != 1:
        indices = np.unravel_index(int(indices[0]) % layout.size, shape)
    key: Any = (*(tuple(map(int, indices)) or (0,) * len(shape)), ...)
    return blob._values(layout.derive(lambda a: a[key]), "item").item()


def scalar(blob: BlobCore, kind: str, reason: str = "") -> Any:
    """Return the element of a 0-d Blob. Transfers only that element, and changes no state.

    `kind` is the target of the conversion, for the error; `reason` the operation, for the journal.

    Raises
    ------
    TypeError
        If the Blob has axes.
    """
    if blob.shape:
        one = "item()" if blob.size == 1 else "item(index) for one element"
        instead = _FOR_MANY.get(kind, one)
        raise TypeError(
            f"only a 0-d Blob converts to {kind}, this one has shape {blob.shape}; use .{instead}"
        )
    if blob._home is HOST and blob._make_readable():
        return blob._array.item()
    return blob._values(blob._layout, reason or f"__{kind}__").item()


def index(blob: BlobCore) -> int:
    """Return the element of a 0-d integer Blob.

    Raises
    ------
    TypeError
        If the Blob has axes or another dtype.
    """
    if blob.dtype.kind not in "iu":
        raise TypeError(f"only an integer Blob can be an index, this one has {blob.dtype}")
    return int(scalar(blob, "int"))
