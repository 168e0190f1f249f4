"""A Blob as text: `repr`, and `str` as NumPy formats it, reading only the elements shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.blob.scalars import element
from syncblob.devices import Side
from syncblob.errors import TransferGuardError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.blob.core import BlobCore


def describe(blob: BlobCore) -> str:
    """Return shape, dtype, device and head for `repr`. Causes no transfer."""
    const = ", const" if blob.readonly else ""
    head = blob.memory.spans.head(*blob.layout.reach)
    return (
        f"shape={blob.shape}, dtype={blob.dtype.name}, device={blob.device}, "
        f"head={head.name}{const}"
    )


def values_of(blob: BlobCore) -> str:
    """Return the values as text, or the reason why they are not shown; see `Blob.__str__`."""
    homes: Any = blob.memory.homes[1:]
    capturing = [home.device for home in homes if home.capturing]
    lacking = blob.memory.spans.lacking(*blob.layout.reach, 1 << Side.HOST)
    try:
        if not capturing or not any(run.holders for run in lacking):
            return _text_of(blob)
        reason = f"{capturing[0]} is capturing a graph"
    except TransferGuardError as error:
        reason = error.allowed
    return f"Blob({describe(blob)}; values not shown: {reason})"


def values_on_host(blob: BlobCore) -> str:
    """Return `values_of` a Blob if that transfers nothing and reads no source; else say so."""
    memory = blob.memory
    if not blob.size or memory.blank or memory.spans.common(*blob.layout.reach) & 1 << Side.HOST:
        return values_of(blob)
    return "values not on the host; print() brings those that it shows"


def _text_of(blob: BlobCore) -> str:
    """Return the ``str`` of an ndarray with these elements, under NumPy's print options."""
    shape = blob.shape
    if 0 in shape:
        return str(np.empty(shape, blob.dtype))
    options = np.get_printoptions()
    edge = options["edgeitems"]
    summarised = shape and math.prod(shape) > options["threshold"]
    # If `edgeitems` is less than 1, NumPy's format depends on elements that it does not show.
    if not summarised or edge < 1:
        return str(_read(blob, tuple(slice(0, dim) for dim in shape)))
    # NumPy's format depends on the numbers that it shows. The threshold of 0 makes it summarize
    # this smaller array too.
    return np.array2string(_corners(blob, edge), threshold=0)


def _read(blob: BlobCore, key: tuple[slice, ...]) -> NDArray[Any]:
    """Return the elements of one block on the host; `key` has a slice for each axis."""
    if not key:
        return element(blob, "str")
    return blob.memory.gather(Side.HOST, blob.layout.derive(lambda a: a[key]), "str")


def _corners(blob: BlobCore, edge: int, key: tuple[slice, ...] = ()) -> NDArray[Any]:
    """Return the array with each summarized axis cut to both edges and one item between."""
    axis = len(key)
    if axis == blob.ndim:
        return _read(blob, key)
    dim = blob.shape[axis]
    if dim <= 2 * edge:
        return _corners(blob, edge, (*key, slice(0, dim)))
    # The item between is a copy of one at the edge, so that it cannot change the format.
    first = _corners(blob, edge, (*key, slice(0, edge)))
    last = _corners(blob, edge, (*key, slice(dim - edge, dim)))
    return np.concatenate((first, last.take([0], axis), last), axis)
