"""Blobs whose values stay in a file until they are touched."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._shape import Layout
from syncblob.blob import Blob
from syncblob.caffe._origins import origin_of, register, untouched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.caffe._blob_index import BlobIndex, Values
    from syncblob.caffe._mapped_file import MappedFile
    from syncblob.devices import Device

__all__ = ["ValuesInFile", "independent_copy", "lazy_blob", "untouched_values"]


def lazy_blob(file: MappedFile, index: BlobIndex, device: Device | None = None) -> Blob:
    """Make a Blob that is filled from a file by its first access."""
    diff = index.diff
    blob = Blob.from_source(
        index.shape,
        index.dtype,
        ValuesInFile(file, index.data, index.dtype),
        diff_source=None if diff is None else ValuesInFile(file, diff, index.dtype),
        device=device,
    )
    register(blob, file, index)
    return blob


def independent_copy(blob: Blob, memo: dict[int, Any]) -> Blob:
    """Copy a Blob as `copy.deepcopy` does; values that are still in a file stay there.

    Parameters
    ----------
    blob
        The Blob.
    memo
        That of ``__deepcopy__``.
    """
    origin = origin_of(blob)
    file = None if origin is None else origin.file()
    if id(blob) in memo or origin is None or file is None:
        return copy.deepcopy(blob, memo)
    file = copy.deepcopy(file, memo)
    index = origin.index
    sides = (False,) if index.diff is None and blob._existing_diff() is None else (False, True)
    if all(untouched(blob, diff=diff) for diff in sides):
        made = lazy_blob(file, index, device=blob.device)
        memo[id(blob)] = made
    else:
        made = copy.deepcopy(blob, memo)
        register(made, file, index)
    return made


def untouched_values(blob: Blob, *, diff: bool = False) -> NDArray[np.generic] | None:
    """Return what a Blob that nobody has touched would be filled with; it stays as it is.

    Parameters
    ----------
    blob
        The Blob.
    diff
        Whether the gradient is asked for.

    Returns
    -------
    ndarray or None
        An array to be read; None if there is no source of all that the Blob shows.
    """
    memory = blob._existing_diff() if diff else blob.memory  # must not be created
    shows_all = blob._layout == Layout.c_order(blob.shape, blob.dtype)
    if memory is None or not shows_all or memory.nbytes != blob.nbytes:
        return None
    contents = memory.peek_at_source()
    return None if contents is None else contents.view(blob.dtype).reshape(blob.shape)


@dataclass(frozen=True, slots=True)
class ValuesInFile:
    """What fills a memory."""

    file: MappedFile
    values: Values
    dtype: np.dtype[np.generic]

    def __call__(self) -> NDArray[np.uint8]:
        """Return the bytes of the values: a view of the file where they lie there as needed."""
        return self.values.read(self.file.array(), self.dtype).view(np.uint8)

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> None:
        """Read the bytes of the values from an offset on, without the mapping."""
        itemsize = self.dtype.itemsize
        if offset % itemsize:
            # Only accesses of plain bytes begin within a value.
            buffer[:] = self()[offset : offset + len(buffer)]
            return
        size = len(buffer) // itemsize * itemsize
        target = buffer[:size].view(self.dtype)
        self.values.read_into(self.file, target, first=offset // itemsize)
        # A memory of which less is in use than the file has may end within a value.
        if size < len(buffer):
            buffer[size:] = self()[offset + size : offset + len(buffer)]
