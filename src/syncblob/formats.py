"""For programs that read and write files: what they need of Blobs besides `Blob`'s own methods.

`Blob.from_source` makes a Blob whose values stay in a file until they are accessed. The functions
here tell which of them have been, read the others without an access, and write new contents.
`syncblob.caffe` is built on them; the modules of other formats can be, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from syncblob._blob import Blob
from syncblob._dtypes import NAMES, as_dtype, is_bfloat16
from syncblob._formatting import human_bytes, quantity
from syncblob._layout import Layout
from syncblob._optional import import_optional
from syncblob._shape import as_shape
from syncblob.blob.replace_memory import assign
from syncblob.devices import HOST, Device
from syncblob.memory import Head, SyncedMemory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "NAMES",
    "Blob",
    "Device",
    "SyncedMemory",
    "accessed_ranges",
    "as_dtype",
    "as_shape",
    "before_reshape",
    "human_bytes",
    "import_optional",
    "is_bfloat16",
    "is_untouched",
    "memory_of",
    "quantity",
    "shows",
    "untouched_values",
    "write_contents",
]


def memory_of(blob: Blob, *, diff: bool = False) -> SyncedMemory | None:
    """Return the memory of data or diff; None if there is no diff. Does not create one."""
    return blob.existing_diff() if diff else blob.memory


def shows(blob: Blob, shape: tuple[int, ...], dtype: DTypeLike) -> bool:
    """Tell whether a Blob shows its memory from the first byte on, in C order, as this shape."""
    return bool(blob.layout == Layout.c_order(shape, as_dtype(dtype)))


def before_reshape(blob: Blob) -> Blob:
    """Return the Blob that another is a view of, if only their shapes differ; else the other."""
    base = blob.base
    if (
        base is None
        or (base.memory, base.size) != (blob.memory, blob.size)
        or (base.device, base.readonly) != (blob.device, blob.readonly)
        or not all(shows(each, each.shape, base.dtype) for each in (base, blob))
    ):
        return blob
    return base


def is_untouched(blob: Blob, *, diff: bool = False) -> bool:
    """Tell whether no value of data or diff has been accessed. A missing diff is none."""
    memory = memory_of(blob, diff=diff)
    return memory is not None and memory.head is Head.UNINITIALIZED


def untouched_values(blob: Blob, *, diff: bool = False) -> NDArray[np.generic] | None:
    """Return data or diff from the source if it has not been accessed. Not an access itself.

    The array must not be written. None if no source has all the values of the Blob.
    """
    memory = memory_of(blob, diff=diff)
    if memory is None or memory.nbytes != blob.nbytes or not shows(blob, blob.shape, blob.dtype):
        return None
    contents = memory.peek_at_source()
    return None if contents is None else contents.view(blob.dtype).reshape(blob.shape)


def accessed_ranges(blob: Blob, *, diff: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the ranges of values that have been accessed, in the order of the memory.

    A value counts as accessed if any of its bytes has been. The others are still in the source, or
    zeros if there is none. A missing diff has no ranges.
    """
    memory = memory_of(blob, diff=diff)
    end = 0
    for run in () if memory is None else memory.spans.runs(0, blob.nbytes):
        first, stop = max(end, run.start // blob.itemsize), -(-run.stop // blob.itemsize)
        if run.holders and first < stop:
            yield first, stop
            end = stop


def write_contents(
    blob: Blob,
    contents: NDArray[np.generic],
    reason: str,
    *,
    gradient: NDArray[np.generic] | None = None,
) -> None:
    """Give a Blob new values on the host, and the shape of these. Nothing is transferred.

    A failure leaves all of it as it was.

    Parameters
    ----------
    blob
        The Blob.
    contents
        The values, of the dtype of the Blob.
    reason
        The operation, for the log.
    gradient
        The values of diff, of the same shape; None leaves diff as it is.
    """
    layout = Layout.c_order(contents.shape, blob.dtype)
    own: Any = blob
    assign(own, contents, layout, HOST, reason, gradient=gradient)
