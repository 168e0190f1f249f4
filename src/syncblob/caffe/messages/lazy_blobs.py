"""Blobs whose values stay in a file until they are accessed, and the origins of such Blobs.

The origin of a Blob is recorded, so that it can be written to a file unchanged. The contents of a
memory that has not been accessed are only in the file; after an access, they may still be equal to
those of the file. In both cases the message in the file is as good as a new one, and better if it
has fields that syncblob does not know.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe.messages.fields import Array, DType, shapes_agree
from syncblob.caffe.messages.open_file import FileReference, OpenFile
from syncblob.caffe.messages.read_blobproto import BlobIndex
from syncblob.caffe.messages.values import CHUNK, Values
from syncblob.formats import (
    Blob,
    Device,
    SyncedMemory,
    accessed_ranges,
    before_reshape,
    is_untouched,
    memory_of,
    shows,
    untouched_values,
)


def lazy_blob(file: OpenFile, index: BlobIndex, device: Device | None = None) -> Blob:
    """Make a Blob whose first access fills it from a file."""
    diff, dtype = index.diff, index.dtype
    blob = Blob.from_source(
        index.shape,
        dtype,
        ValuesInFile(file, index.data, dtype),
        diff_source=None if diff is None else ValuesInFile(file, diff, dtype),
        device=device,
    )
    register(blob, file, index)
    return blob


def independent_copy(blob: Blob, memo: dict[int, Any]) -> Blob:
    """Copy a Blob as `copy.deepcopy` does, but leave unread values in the file."""
    whole = before_reshape(blob)
    if whole is not blob and id(blob) not in memo:
        made = memo[id(blob)] = independent_copy(whole, memo).reshape(blob.shape)
        return made
    origin = origin_of(blob)
    file = None if origin is None else copy.deepcopy(origin.file, memo)()
    if id(blob) in memo or origin is None or file is None:
        return copy.deepcopy(blob, memo)
    index = origin.index
    sides = (False,) if index.diff is None and memory_of(blob, diff=True) is None else (False, True)
    if all(is_untouched(blob, diff=diff) and _in_file(blob, diff=diff) for diff in sides):
        made = lazy_blob(file, index, device=blob.device)
        memo[id(blob)] = made
    else:
        made = copy.deepcopy(blob, memo)
        register(made, file, index)
    return made


@dataclass(frozen=True, slots=True)
class ValuesInFile:
    """Values in a file, as the source of a memory."""

    file: OpenFile
    values: Values
    dtype: DType

    def __call__(self) -> NDArray[np.uint8]:
        values: Array = np.empty(self.values.count, self.dtype)
        self.values.read_into(self.file, values)
        return values.view(np.uint8)

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> None:
        first, skipped = divmod(offset, self.dtype.itemsize)
        if skipped or len(buffer) % self.dtype.itemsize:
            # An access of raw bytes may begin or end inside a value.
            count = -(-(skipped + len(buffer)) // self.dtype.itemsize)
            whole: Array = np.empty(count, self.dtype)
            self.values.read_into(self.file, whole, first=first)
            buffer[:] = whole.view(np.uint8)[skipped : skipped + len(buffer)]
        else:
            self.values.read_into(self.file, buffer.view(self.dtype), first=first)

    @property
    def again(self) -> Callable[[], ValuesInFile | None]:
        """A function that returns the same, whose file is closed on its own, if it can be."""
        reference, values, dtype = self.file.reference, self.values, self.dtype

        def read_again() -> ValuesInFile | None:
            file = copy.deepcopy(reference)()
            return None if file is None else ValuesInFile(file, values, dtype)

        return read_again


# --- where they came from ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """The file and the position that a Blob was read from. Does not keep the file open."""

    index: BlobIndex
    file: FileReference


_origins: weakref.WeakKeyDictionary[SyncedMemory, Origin] = weakref.WeakKeyDictionary()


def register(blob: Blob, file: OpenFile, index: BlobIndex) -> None:
    origin = Origin(index, file.reference)
    _origins[blob.memory] = origin
    diff = memory_of(blob, diff=True)
    if diff is not None:
        _origins[diff] = origin


def origin_of(blob: Blob) -> Origin | None:
    """Return the origin of a Blob if its layout is still the same as in the file."""
    origin = _origins.get(blob.memory)
    if origin is None:
        return None
    return origin if shows(blob, origin.index.shape, origin.index.dtype) else None


def is_legacy(blob: Blob) -> bool:
    """Tell whether a Blob was read with num, channels, height and width in place of a shape."""
    origin = origin_of(blob)
    return origin is not None and origin.index.legacy


def had_diff(blob: Blob) -> bool:
    """Tell whether a Blob, or one that it is a view of, came from a file that has its gradient."""
    origin = _origins.get(blob.memory)
    return origin is not None and origin.index.diff is not None


def equal_shapes(ours: Blob, theirs: Blob) -> bool:
    """Compare the shapes of two Blobs as Caffe does when it copies weights.

    Parameters
    ----------
    ours, theirs
        The Blobs. For one that was read with num, channels, height and width, as in the older
        formats, leading axes of 1 do not matter.
    """
    return shapes_agree(
        ours.shape, theirs.shape, our_legacy=is_legacy(ours), their_legacy=is_legacy(theirs)
    )


# --- values, touched or not ----------------------------------------------------------------------


def blob_values(blob: Blob) -> Array:
    """Return the values of a Blob for one read, without keeping those still in a file.

    If the Blob has not been accessed, its source is read, and that counts as no access. Otherwise
    this is a const access on the host.

    Returns
    -------
    ndarray
        An array with the shape and the dtype of the Blob. It must not be written.
    """
    values = untouched_values(blob)
    return np.asarray(blob) if values is None else values


def has_values(blob: Blob, values: Array) -> bool:
    """Tell whether a Blob has these values, bit for bit. They are read as by `blob_values`."""
    own = blob_values(blob)
    same_kind = (own.shape, own.dtype) == (values.shape, values.dtype)
    return same_kind and own.tobytes() == values.tobytes()


def arrays_of(blob: Blob, dtype: DType, *, diff: bool = False) -> Iterator[Array]:
    """Yield data or diff in row-major order, converted. Each array is valid until the next one.

    Values that have not been accessed come from their source, which counts as no access.
    """
    source, end = _in_file(blob, diff=diff), 0
    for first, part in [*_host_arrays(blob, source, diff=diff), (blob.size, np.empty(0, dtype))]:
        if source is not None:
            yield from source.values.chunks(source.file, dtype, end, first)
        # Copies only if dtype or layout differ.
        arrays: Any = np.nditer(  # type: ignore[call-overload]  # the stubs misspell "contig"
            # NumPy 2.2 gives no values of a 0-d array in a buffer.
            np.atleast_1d(part),
            flags=["external_loop", "buffered", "zerosize_ok"],
            op_flags=["readonly", "contig"],
            op_dtypes=dtype,
            order="C",
            casting="unsafe",
            buffersize=CHUNK // dtype.itemsize,
        )
        yield from arrays
        end = first + part.size


def _host_arrays(
    blob: Blob, source: ValuesInFile | None, *, diff: bool
) -> Iterator[tuple[int, Array]]:
    """Yield host arrays of what is not only in the file, each after its first number."""
    values = None if source else untouched_values(blob, diff=diff)
    if diff and memory_of(blob, diff=True) is None:
        values = np.broadcast_to(np.zeros((), blob.dtype), blob.shape)
    if values is not None:
        yield 0, values
    elif source is None:
        yield 0, (blob.diff if diff else blob).cpu_data()
    else:
        # Blobs from a file are contiguous: the view copies nothing.
        for first, stop in accessed_ranges(blob, diff=diff):
            yield first, (blob.diff if diff else blob).reshape(-1)[first:stop].cpu_data()


def find_unchanged(blob: Blob, *, write_diff: bool | None) -> tuple[OpenFile, BlobIndex] | None:
    """Return where a Blob was read from, if data, and diff if that matters, have not changed since.

    Values that have been accessed are compared bit for bit, the others stay in the file.
    `write_diff` is whether the file must have a gradient; None accepts both.
    """
    origin = origin_of(blob)
    if origin is None or write_diff not in (None, origin.index.diff is not None):
        return None
    index, file = origin.index, origin.file()
    if file is None:
        return None
    for diff, values in (False, index.data), (True, index.diff):
        if values and not _equal(blob, ValuesInFile(file, values, blob.dtype), diff=diff):
            return None
    return file, index


def _in_file(blob: Blob, *, diff: bool) -> ValuesInFile | None:
    """Return where the bytes of a memory are that have not been accessed."""
    origin, memory = origin_of(blob), memory_of(blob, diff=diff)
    if origin is None or memory is None or _origins.get(memory) is not origin:
        return None
    memory.end_uploads()
    values = origin.index.diff if diff else origin.index.data
    file = None if values is None else origin.file()
    return None if file is None or values is None else ValuesInFile(file, values, blob.dtype)


def _equal(blob: Blob, there: ValuesInFile, *, diff: bool) -> bool:
    for first, part in _host_arrays(blob, _in_file(blob, diff=diff), diff=diff):
        flat = part.reshape(-1)
        for chunk in there.values.chunks(there.file, flat.dtype, first, first + flat.size):
            current, flat = flat[: chunk.size], flat[chunk.size :]
            if not np.array_equal(current.view(np.uint8), chunk.view(np.uint8)):
                return False
    return True
