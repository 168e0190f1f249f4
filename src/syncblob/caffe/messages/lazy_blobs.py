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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe.messages.fields import shapes_agree
from syncblob.caffe.messages.open_file import FileReference, OpenFile
from syncblob.caffe.messages.read_blobproto import BlobIndex
from syncblob.caffe.messages.values import Values
from syncblob.formats import (
    Blob,
    Device,
    SyncedMemory,
    accessed_ranges,
    is_untouched,
    memory_of,
    shows,
    unshaped,
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
    """Copy a Blob as `copy.deepcopy` does, but leave unread values in the file.

    Blobs that show the same elements in different shapes still do so in the copy.
    """
    whole = unshaped(blob)
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
    dtype: np.dtype[np.generic]

    def __call__(self) -> NDArray[np.uint8]:
        """Return the bytes of the values."""
        values: NDArray[np.generic] = np.empty(self.values.count, self.dtype)
        self.values.read_into(self.file, values)
        return values.view(np.uint8)

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> None:
        """Read the bytes of the values from an offset on."""
        first, skipped = divmod(offset, self.dtype.itemsize)
        if skipped or len(buffer) % self.dtype.itemsize:
            # An access of raw bytes may begin or end inside a value.
            count = -(-(skipped + len(buffer)) // self.dtype.itemsize)
            whole: NDArray[np.generic] = np.empty(count, self.dtype)
            self.values.read_into(self.file, whole, first=first)
            buffer[:] = whole.view(np.uint8)[skipped : skipped + len(buffer)]
        else:
            self.values.read_into(self.file, buffer.view(self.dtype), first=first)

    def part(self, first: int, stop: int) -> ValuesInFile:
        """Return the values in ``[first, stop)``."""
        return replace(self, values=self.values.part(first, stop))

    def chunks(self, dtype: np.dtype[np.generic]) -> Iterator[NDArray[np.generic]]:
        """Read the values piece by piece, converted. Each array is valid until the next one."""
        return self.values.chunks(self.file, dtype)

    @property
    def again(self) -> Callable[[], ValuesInFile | None]:
        """A function that returns the same, whose file is closed on its own.

        It keeps no file open, and returns None if the file was closed or has changed.
        """
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
    """Record the origin of a new Blob."""
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


def blob_values(blob: Blob) -> NDArray[np.generic]:
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


def has_values(blob: Blob, values: NDArray[np.generic]) -> bool:
    """Tell whether a Blob has these values, bit for bit. They are read as by `blob_values`."""
    own = blob_values(blob)
    same_kind = (own.shape, own.dtype) == (values.shape, values.dtype)
    return same_kind and own.tobytes() == values.tobytes()


def parts_of(blob: Blob, *, diff: bool) -> Iterator[ValuesInFile | NDArray[np.generic]]:
    """Yield data or diff in order: values that are only in a file, and host arrays of the others.

    The arrays have any shape. They are const accesses, the contents of another source that has not
    been accessed, or zeros if there is no diff.
    """
    source = _in_file(blob, diff=diff)
    if source is None:
        values = untouched_values(blob, diff=diff)
        if diff and memory_of(blob, diff=True) is None:
            values = np.broadcast_to(np.zeros((), blob.dtype), blob.shape)
        yield (blob.diff if diff else blob).cpu_data() if values is None else values
        return
    end = 0
    for first, stop in [*accessed_ranges(blob, diff=diff), (blob.size, blob.size)]:
        if end < first:
            yield source.part(end, first)
        if first < stop:
            # Blobs from a file are contiguous: the view copies nothing.
            yield (blob.diff if diff else blob).reshape(-1)[first:stop].cpu_data()
        end = stop


def find_unchanged(blob: Blob, *, write_diff: bool | None) -> tuple[OpenFile, BlobIndex] | None:
    """Return the file and the position that a Blob was read from, if it has not changed since.

    Values that have been accessed are compared with the file bit for bit, by a const access on the
    host. The others stay in the file. `write_diff` is whether the file must have a gradient; None
    accepts both.
    """
    origin = origin_of(blob)
    if origin is None:
        return None
    index = origin.index
    if write_diff is not None and write_diff != (index.diff is not None):
        return None
    file = origin.file()
    if file is None:
        return None
    for diff, values in (False, index.data), (True, index.diff):
        there = values and ValuesInFile(file, values, blob.dtype)
        if there and not _equal(blob, there, diff=diff):
            return None
    return file, index


def _in_file(blob: Blob, *, diff: bool) -> ValuesInFile | None:
    """Return the position in a file of the bytes of a memory that have not been accessed."""
    origin, memory = origin_of(blob), memory_of(blob, diff=diff)
    if origin is None or memory is None or _origins.get(memory) is not origin:
        return None
    memory.await_uploads()
    values = origin.index.diff if diff else origin.index.data
    file = None if values is None else origin.file()
    return None if file is None or values is None else ValuesInFile(file, values, blob.dtype)


def _equal(blob: Blob, there: ValuesInFile, *, diff: bool) -> bool:
    """Compare the values that have been accessed with those in a file, bit for bit."""
    position = 0
    for part in parts_of(blob, diff=diff):
        if isinstance(part, ValuesInFile):
            position += part.values.count
            continue
        flat = part.reshape(-1)
        for chunk in there.part(position, position + flat.size).chunks(flat.dtype):
            current, flat = flat[: chunk.size], flat[chunk.size :]
            if not np.array_equal(current.view(np.uint8), chunk.view(np.uint8)):
                return False
            position += chunk.size
    return True
