"""A file whose bytes are seen through a mapping, so that only what is looked at is read.

Touching a page of a mapping that the file does not have any more, because somebody has cut it off,
kills the process on most platforms. So values are read without the mapping where the platform can,
and where a view is asked for, the size of the file is compared first.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from syncblob.caffe._file_reading import Descriptor
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

__all__ = ["MappedFile"]


class MappedFile:
    """A read-only mapping of a whole file.

    The mapping lives as long as this object, or an array over it, does.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    TypeError
        If `path` is no path.
    OSError
        If the file cannot be opened or mapped.
    """

    __slots__ = ("__weakref__", "_descriptor", "_mapping", "absolute_path", "identity", "path")

    path: str
    absolute_path: Path
    identity: tuple[int, int, int, int]
    """Device, inode, size and time of the last change: another file, or changed, if they differ."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"expected the path of a file, a str or os.PathLike, got {type(path).__name__}; "
                f"write contents to a file first, and decode a path in bytes by os.fsdecode"
            )
        self.path = os.fspath(path)
        self.absolute_path = Path(path).absolute()
        self._descriptor: Descriptor | None = Descriptor(path)
        number = self._descriptor.number
        status = os.fstat(number)
        size = status.st_size
        self.identity = (status.st_dev, status.st_ino, size, status.st_mtime_ns)
        # An empty file cannot be mapped.
        self._mapping: mmap.mmap | bytes | None = (
            mmap.mmap(number, 0, access=mmap.ACCESS_READ) if size else b""
        )

    def __deepcopy__(self, memo: object) -> Self:
        """Return another one of the same mapping; each of them is closed on its own."""
        del memo
        made = object.__new__(type(self))
        for name in ("_descriptor", "_mapping", "absolute_path", "identity", "path"):
            setattr(made, name, getattr(self, name))
        return made

    def array(self) -> NDArray[np.uint8]:
        """Return the bytes of the file as a read-only array. Never copies.

        Raises
        ------
        ValueError
            After `close`.
        ModelFileError
            If the file has been written to since it was opened.
        """
        mapping, descriptor = self._mapping, self._descriptor
        if mapping is None or descriptor is None:
            raise self._closed_error()
        self._require_unchanged(descriptor)
        return np.frombuffer(mapping, np.uint8)

    def read_into(self, target: NDArray[np.uint8], offset: int) -> None:
        """Fill an array with the bytes that begin at an offset, not through the mapping.

        Parameters
        ----------
        target
            One-dimensional and contiguous.
        offset
            Where the bytes begin.

        Raises
        ------
        ValueError
            After `close`.
        ModelFileError
            If the file has been written to since it was opened.
        OSError
            If it cannot be read.
        """
        descriptor = self._descriptor
        if descriptor is None:
            raise self._closed_error()
        if not descriptor.available:
            target[:] = self.array()[offset : offset + len(target)]
            return
        try:
            descriptor.read_into(target.data, offset)
        except EOFError as error:
            size = os.fstat(descriptor.number).st_size
            raise self._changed_error(size) from error
        # Afterwards, so that what was written meanwhile is seen too.
        self._require_unchanged(descriptor)

    def _closed_error(self) -> ValueError:
        return ValueError(
            f"{self.path} was closed before this part of it was read; keep the model open "
            f"for longer; blobs that have been touched (blob.cpu_data()) keep their values"
        )

    def _require_unchanged(self, descriptor: Descriptor) -> None:
        """Refuse a file that was written to: nothing needs to be where it was found."""
        status = os.fstat(descriptor.number)
        if not self._describes(status):
            raise self._changed_error(status.st_size)

    def _describes(self, status: os.stat_result) -> bool:
        return (status.st_size, status.st_mtime_ns) == self.identity[2:]

    def _changed_error(self, size: int) -> ModelFileError:
        before = self.identity[2]
        sizes = f"had {before} bytes when it was opened and has {size} now"
        change = "has changed since it was opened" if size == before else sizes
        return ModelFileError(
            f"the file {change}; somebody has written to it, open it again",
            path=self.path,
            offset=size if size < before else None,
        )

    @property
    def readable(self) -> bool:
        """Whether it is neither closed nor written to since it was opened."""
        descriptor = self._descriptor
        return descriptor is not None and self._describes(os.fstat(descriptor.number))

    def close(self) -> None:
        """Let go of the file. What has been read stays; what has not cannot be read any more."""
        # Closed with the last reference: an array or a read in another thread may be using it.
        self._mapping = None
        self._descriptor = None
