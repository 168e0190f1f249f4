"""Bounds of indices, which no other library checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob.core import BlobCore
from syncblob.devices import HOST, Side
from syncblob.memory import compute

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def require_bounds(home: Home, indices: Any, lowest: int, length: int, axis: int = 0) -> None:
    """Raise an IndexError if an index is less than the lowest, or not less than a length.

    Indices that only a device holds are checked if the home, which computes, checks any. `indices`
    is an integer, an array of NumPy's or a Blob; `axis` is for the message.
    """
    low = high = indices
    if not isinstance(indices, int):
        if not isinstance(indices, BlobCore) or _is_on_host(indices):
            home = HOST
        if not (indices.size and home.checks_values):
            return
        if isinstance(indices, BlobCore):
            indices = indices._array_in(home, "__getitem__")
        low, high = (int(compute(home, home.own(name), indices)) for name in ("min", "max"))
    if low < lowest or high >= length:
        wrong = low if low < lowest else high
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")


def _is_on_host(blob: BlobCore) -> bool:
    """Return whether the host holds the newest contents of a Blob."""
    if blob._held is None and blob._array is not None:
        # The result of a computation. The map would have to be made first.
        return blob.home is HOST
    memory = blob.memory
    return memory.spans.common(*blob.layout.reach) & 1 << Side.HOST != 0
