"""Elements as scalars: one, or all of a Blob with one axis."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._shape import offset
from syncblob.blob.core import HOST_DATA
from syncblob.devices import HOST, Side
from syncblob.transfers import Copying, open_logs, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from syncblob.blob.core import BlobCore


@lru_cache(maxsize=1024)
def indexable(shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of a shape, which is only indexed. It has a single byte."""
    return np.ndarray(shape, np.uint8, bytes(1), 0, (0,) * len(shape))


def item(blob: BlobCore, indices: tuple[Any, ...]) -> Any:
    """Return one element as a Python scalar; see `Blob.item`."""
    shortcut, array = blob.shortcut, blob.raw_array
    at_hand = array is not None and blob.home is HOST
    if at_hand and (shortcut.readable or blob.current_array() is array):
        return array.item(*indices)
    shape = blob.shape
    # NumPy checks the indices.
    indexable(shape).item(*indices)
    if len(indices) == 1 and isinstance(indices[0], tuple):
        (indices,) = indices
    if len(indices) == 1 and len(shape) != 1:
        indices = np.unravel_index(int(indices[0]) % blob.size, shape)
    return element(blob, "item", tuple(map(int, indices)) or (0,) * len(shape)).item()


def scalar(blob: BlobCore, kind: str, reason: str = "") -> Any:
    """Return the element of a 0-d Blob. Transfers only that element, and changes no state.

    `kind` is the target of the conversion, for the error; `reason` the operation, for the log.
    """
    if blob.shape:
        one = "item()" if blob.size == 1 else "item(index) for one element"
        instead = "any() or all()" if kind == "bool" else one
        raise TypeError(
            f"only a 0-d Blob converts to {kind}, this one has shape {blob.shape}; use .{instead}"
        )
    shortcut, array = blob.shortcut, blob.raw_array
    if array is not None and shortcut.readable and blob.home is HOST:
        return array.item()
    return element(blob, reason or f"__{kind}__").item()


def element(blob: BlobCore, reason: str, index: tuple[int, ...] = ()) -> NDArray[Any]:
    """Return one element on the host, as a 0-d array. Transfers only that, and changes no state.

    `index` has a valid index for each axis.
    """
    key: Any = (*index, ...)
    home: Any = blob.home
    held: Any
    holders = None if blob.shortcut.readable else blob.memory.spans.uniform
    # To look a side up in its class takes time.
    other = 1 if home is HOST else 0
    elsewhere = holders == 1 << other
    if elsewhere:
        # The other side alone holds it.
        held, layout = blob.memory, blob.layout
        home, window = held.home(other), held.newest(other, layout)
        whole = window and home.own_view(window.array, window.inner(layout), writable=False)
    else:
        whole = blob.current_array()
    if whole is not None:
        array, held = whole[key], blob.known_memory
        if home is HOST or (home.native and held is not None and (held.spans.uniform or 0) & 1):
            # The host has the same number, and NumPy reads it where it is.
            return array
        logged = bool(open_logs)
        alone = elsewhere or blob.shortcut.writable
        if alone and not home.shared and (held is not None or not logged):
            # The host lacks it.
            copying = held and held.copying(home, reason)
            copying = copying or Copying(home, reason, 0)
            place = blob.layout.derive(lambda a: a[key]).offset if logged else 0
            copied = np.empty(array.nbytes, np.uint8)
            copies = home.download, home.wrap(array), copied
            transfer(copying, "download", copied.nbytes, place, *copies)
            return copied.view(array.dtype).reshape(())
    layout = blob.layout.derive(lambda a: a[key]) if index else blob.layout
    return blob.memory.gather(Side.HOST, layout, reason)


def element_at(blob: BlobCore, indices: tuple[Any, ...], action: str, *, diff: bool) -> Any:
    """Return one element of data or diff as a Python scalar; see `Blob.data_at`."""
    if not blob.size:
        raise IndexError(f"a Blob of shape {blob.shape} has no elements")
    axes = np.unravel_index(offset(blob.shape, indices), blob.shape)
    index: Any = (*map(int, axes), ...)
    layout = blob.layout.derive(lambda a: a[index])
    return blob.memory_of(diff=diff).gather(Side.HOST, layout, action).item()


def iterate(blob: BlobCore) -> Iterator[Any]:
    """Yield the elements of a 1-d Blob as NumPy scalars; see `Blob.__iter__`."""
    array: Any = None
    seen = None
    for index in count():
        kept = blob.accessor_arrays[HOST_DATA]
        if kept is not None and kept.shortcut.readable:
            array = kept.const
        else:
            # While an alias may write on the other side, each read would copy all elements again.
            # Then only a change of the map or of the shape, or the end of the alias, causes one.
            state = blob.known_layout, blob.memory.spans
            if array is None or not blob.memory.aliased or state != seen:
                array = blob.const_view(HOST_DATA, "__iter__")
                seen = blob.known_layout, blob.memory.spans
        if index >= len(array):
            return
        yield array[index]
