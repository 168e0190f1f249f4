"""Files that stay open and are read in parts, and must not change meanwhile.

A file is read, never memory-mapped. If another process truncates a mapped file, touching a page
that is gone kills the process, and no check before the access can prevent that. A read raises an
exception instead. After each read, the file's identity, size and time are compared with those when
it was opened.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from syncblob.errors import ModelFileError

_PIECE = 1 << 20
"""Bytes that a thread reads at a time. Small pieces balance the load."""
_WORTH_A_THREAD = 1 << 22
_THREADS = 4


class Descriptor:
    """A file that stays open for reading as long as this object lives. Copies are the same."""

    __slots__ = ("__weakref__", "_lock", "number")

    number: int
    """The file descriptor."""

    can_read_at: bool = hasattr(os, "preadv")
    """Whether the platform can read at an offset, as several threads may do at once."""

    def __init__(self, path: str | os.PathLike[str], number: int | None = None) -> None:
        if number is None:
            # Otherwise opening a pipe blocks, and Windows translates line ends.
            flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            number = os.open(path, os.O_RDONLY | flags)
        self.number = number
        self._lock = threading.Lock()
        weakref.finalize(self, os.close, self.number)
        mode = os.fstat(self.number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "expected a file, got a pipe or a device", os.fspath(path))

    def __deepcopy__(self, _memo: object) -> Descriptor:
        return self

    def read(self, target: memoryview, offset: int) -> None:
        while target:
            if self.can_read_at:
                count = os.preadv(self.number, [target], offset)
            else:
                with self._lock:
                    os.lseek(self.number, offset, os.SEEK_SET)
                    content = os.read(self.number, len(target))
                count = len(content)
                target[:count] = content
            if not count:
                raise EOFError(f"the file ends at byte {offset}")
            target = target[count:]
            offset += count


class OpenFile:
    """A file that is open for reading, with its identity when it was opened."""

    __slots__ = ("__weakref__", "_descriptor", "reference")

    reference: FileReference
    """What finds the file again after this object is gone."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        descriptor: Descriptor | None = None,
        reference: FileReference | None = None,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"expected the path of a file, a str or os.PathLike, or an open binary file, got "
                f"{type(path).__name__}; put contents into io.BytesIO(contents), and decode a path "
                f"in bytes by os.fsdecode"
            )
        opened = descriptor or Descriptor(path)
        self._descriptor: Descriptor | None = opened
        stays_open = descriptor is not None
        self.reference = reference or FileReference(path, opened, stays_open=stays_open)
        self.reference.file = weakref.ref(self)

    @property
    def path(self) -> str:
        return self.reference.path

    def __len__(self) -> int:
        """Return the size when the file was opened."""
        return self.reference.identity[2]

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes in ``[start, stop)``."""
        content = memoryview(bytearray(stop - start))
        self._fill(content, start)
        return content

    def read_into(self, target: NDArray[np.uint8], offset: int) -> None:
        """Fill a contiguous array of one dimension with the bytes at an offset."""
        # Check after the read, to detect a write during it; and on the descriptor that was read,
        # because another thread may have closed this file.
        self.require_unchanged(self._fill(target.data, offset))

    def _fill(self, target: memoryview, offset: int) -> Descriptor:
        """Read bytes, a large number of them by several threads. Return what was read from."""
        descriptor = self._descriptor or self._require_open()

        def read_piece(begin: int) -> None:
            descriptor.read(target[begin : begin + _PIECE], offset + begin)

        try:
            if len(target) >= _WORTH_A_THREAD:
                # While the interpreter shuts down, no thread can be started: RuntimeError.
                with contextlib.suppress(RuntimeError), ThreadPoolExecutor(_THREADS) as pool:
                    list(pool.map(read_piece, range(0, len(target), _PIECE)))
                    return descriptor
            descriptor.read(target, offset)
        except EOFError as error:
            raise self._change_error(os.fstat(descriptor.number).st_size) from error
        return descriptor

    def require_unchanged(self, descriptor: Descriptor | None = None) -> None:
        """Refuse a file that was written to: offsets found in it may be wrong now."""
        descriptor = descriptor or self._descriptor or self._require_open()
        identity = _identity(descriptor)
        if identity != self.reference.identity:
            raise self._change_error(identity[2])

    def is_unchanged(self) -> bool:
        """Tell whether the file is open and as it was."""
        try:
            self.require_unchanged()
        except (ValueError, ModelFileError):
            return False
        return True

    def _require_open(self) -> Descriptor:
        if self._descriptor is None:
            raise ValueError(
                f"{self.path} was closed before this part of it was read; keep the model open for "
                f"longer; blobs that have been touched (blob.cpu_data()) keep their values"
            )
        return self._descriptor

    def _change_error(self, size: int) -> ModelFileError:
        before = len(self)
        sizes = f"had {before} bytes when it was opened and has {size} now"
        change = "has changed since it was opened" if size == before else sizes
        return ModelFileError(
            f"the file {change}; another program has written to it, open it again",
            path=self.path,
            offset=size if size < before else None,
        )

    def close(self) -> None:
        """Close the file. Values that have been read stay; others can no longer be read."""
        # The last reference closes the descriptor: another thread may still be reading.
        self._descriptor = None


class FileReference:
    """A way back to a file, which does not keep it open, unless it has no name to open it by."""

    __slots__ = ("_closed", "_descriptor", "_place", "file", "identity", "path")

    file: Callable[[], OpenFile | None]
    """Returns the open file, as long as it exists."""
    identity: tuple[int, int, int, int]
    """Device, inode, size and time of the last change. If they differ, the file has changed."""

    def __init__(
        self, path: str | os.PathLike[str], descriptor: Descriptor, *, stays_open: bool
    ) -> None:
        self.path: str = os.fspath(path)
        self.identity = _identity(descriptor)
        self._place = Path(path).absolute()
        self._closed = False
        self._descriptor: Callable[[], Descriptor | None] = weakref.ref(descriptor)
        if stays_open:
            self._descriptor = lambda: descriptor
        self.file = lambda: None

    def __call__(self) -> OpenFile | None:
        """Return the file, opened again if need be; None if it was closed or has changed."""
        file = self.file()
        if file is None and not self._closed:
            descriptor = self._descriptor()
            if descriptor is None:
                try:
                    descriptor = Descriptor(self._place)
                except OSError:
                    return None
                self._descriptor = weakref.ref(descriptor)
            file = OpenFile(self._place, descriptor, self)
        return file if file is not None and file.is_unchanged() else None

    def __deepcopy__(self, _memo: object) -> FileReference:
        """Return a way back to the same file, which is closed on its own."""
        made = copy.copy(self)
        made.file = lambda: None
        return made

    def close(self) -> None:
        """Close the file, if it is open, for good."""
        self._closed = True
        self._descriptor = lambda: None
        if (file := self.file()) is not None:
            file.close()


def _identity(descriptor: Descriptor) -> tuple[int, int, int, int]:
    status = os.fstat(descriptor.number)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class Stream(io.RawIOBase):
    """An open file for a library that reads streams, whatever file its path names by now."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._position = 0
        self.failure: OSError | None = None

    def close(self) -> None:
        """Do nothing: the file is closed by others."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._file)}
        self._position = start[whence] + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer up to the end of the file. Raises the errors of `OpenFile.read_into`."""
        count = max(0, min(len(buffer), len(self._file) - self._position))
        try:
            self._file.read_into(np.frombuffer(buffer, np.uint8)[:count], self._position)
        except OSError as error:
            self.failure = error
            raise
        self._position += count
        return count


@contextlib.contextmanager
def stream_of(
    file: OpenFile, explain: Callable[[Exception], ModelFileError]
) -> Iterator[io.RawIOBase]:
    """Yield a stream of a file for a library, whose errors become those that `explain` returns."""
    stream = Stream(file)
    try:
        yield stream
    except (ModelFileError, ModuleNotFoundError):
        raise
    except Exception as error:
        file.require_unchanged()
        if stream.failure is None:
            raise explain(error) from error
        try:
            raise stream.failure from None
        finally:
            stream.failure = None  # its traceback refers to the stream
