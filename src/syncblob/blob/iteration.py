"""Iteration over the first axis: views, or elements that are read on the host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from syncblob.blob.core import HOST_DATA, NOT_YET, AnyBlob, BlobCore
from syncblob.blob.indexing import get_item
from syncblob.memory import NO_SHORTCUT


def iterate(blob: BlobCore) -> Iterator[Any]:
    """Yield the elements of a 1-d Blob as NumPy scalars; see `Blob.__iter__`."""
    array: Any = None
    seen = layout = None
    shortcut = NO_SHORTCUT
    for index in count():
        if layout is not blob.known_layout:
            # The Blob has another shape.
            array, shortcut = None, NO_SHORTCUT
        if shortcut.readable:
            # Once the shortcut is revoked, read again, even if the map is the same then.
            seen = None
        else:
            # While aliases may write on the other side, no shortcut can be used. Then only a change
            # of the map, or the end of the aliases, causes a new read.
            state = blob.memory.spans, blob.memory.aliased
            if array is None or state != seen:
                array = blob.const_view(HOST_DATA, "__iter__")
                if blob.accessor_arrays[HOST_DATA] is NOT_YET:
                    blob.keep_arrays(HOST_DATA, blob.memory)
                kept, layout = blob.accessor_arrays[HOST_DATA], blob.known_layout
                shortcut = NO_SHORTCUT if kept is None else kept.shortcut
                seen = None if shortcut.readable else state
        try:
            element = array[index]
        except IndexError:
            return
        yield element


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
