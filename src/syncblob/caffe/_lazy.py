"""Blobs whose values stay in a file until they are touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncblob.blob import Blob
from syncblob.caffe._origins import register

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.caffe._blob_index import BlobIndex, Values
    from syncblob.caffe._mapped_file import MappedFile

__all__ = ["ValuesInFile", "lazy_blob"]


def lazy_blob(file: MappedFile, index: BlobIndex) -> Blob:
    """Make a Blob that is filled from a file by its first access."""
    diff = index.diff
    blob = Blob.from_source(
        index.shape,
        index.dtype,
        ValuesInFile(file, index.data, index.dtype),
        diff_source=None if diff is None else ValuesInFile(file, diff, index.dtype),
    )
    register(blob, file, index)
    return blob


@dataclass(frozen=True, slots=True)
class ValuesInFile:
    """What fills a memory."""

    file: MappedFile
    values: Values
    dtype: np.dtype[np.generic]

    def __call__(self) -> NDArray[np.uint8]:
        """Return the bytes of the values: a view of the file where they lie there as needed."""
        return self.values.read(self.file.array(), self.dtype).view(np.uint8)

    def read_into(self, buffer: NDArray[np.uint8]) -> None:
        """Read the bytes of the first values, without the mapping."""
        size = len(buffer) // self.dtype.itemsize * self.dtype.itemsize
        self.values.read_into(self.file, buffer[:size].view(self.dtype))
        # A memory of which less is in use than the file has may end within a value.
        if size < len(buffer):
            buffer[size:] = self()[size : len(buffer)]
