"""Iteration over the first axis: views, or elements that are read on the host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from syncblob.blob.core import HOST_DATA, AnyBlob, BlobCore
from syncblob.blob.indexing import get_item


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


def iterate_views(blob: AnyBlob, count: int) -> Iterator[AnyBlob]:
    """Yield views of a Blob with several axes, at the indices of the first one."""
    for index in range(count):
        array: Any = blob.raw_array
        if array is None or blob.known_memory is None:
            array = blob.viewable_array()
        view = None if array is None else blob.view_of_array(array, array[index])
        # Drop our reference while the caller works, so that the buffer can be evicted.
        array = None
        # Another thread may have replaced the buffer.
        yield get_item(blob, index) if view is None else view
