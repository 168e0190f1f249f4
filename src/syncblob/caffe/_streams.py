"""What is read and written besides files by their paths: open binary files, and gzip archives."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from syncblob.caffe._disk import OpenFile, replacing
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Readable", "Source", "Target", "Writable", "name_of", "open_source", "writing"]

_GZIP = b"\x1f\x8b"
_EXTENSION = ".gz"


class Readable(Protocol):
    """An object with the method ``read`` of a binary file."""

    def read(self, size: int = ..., /) -> bytes:
        """Return as many bytes, or those that are left."""


class Writable(Protocol):
    """An object with the method ``write`` of a binary file."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""


Source = str | os.PathLike[str] | Readable
Target = str | os.PathLike[str] | Writable


def open_source(source: Source) -> OpenFile:
    """Open a file by its path, or what an open file has from its position on.

    What is in a gzip archive, and what an open file has, is copied to a temporary file without a
    name, which the system removes with the last reference to it, and when the process is killed.

    Raises
    ------
    TypeError
        If it is neither, or a file in text mode.
    ModelFileError
        If the archive is damaged.
    OSError
        If it cannot be read.
    """
    if hasattr(source, "read"):
        return _copied(source, name_of(source) or f"<{type(source).__name__}>")
    file = OpenFile(source)
    if file.read(0, min(len(_GZIP), len(file))) != _GZIP:
        return file
    with file.absolute_path.open("rb") as archive:
        return _copied(archive, file.path)


def name_of(source: Source | Target) -> str:
    """Return the path, or the name of an open file; ``""`` if that has none."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", "")
    return name if isinstance(name, str) else ""


def _copied(source: Any, name: str) -> OpenFile:
    """Copy a stream to a file without a name, unpacked if it is an archive."""
    with _temporary() as copy:
        try:
            shutil.copyfileobj(source, copy)
        except TypeError as error:
            raise TypeError(
                f"expected a binary file, as of open(path, 'rb'), got {name}"
            ) from error
        copy.seek(0)
        if copy.read(len(_GZIP)) != _GZIP:
            return _opened(copy, name)
        copy.seek(0)
        with _temporary() as unpacked, gzip.open(copy) as archive:
            try:
                shutil.copyfileobj(archive, unpacked)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ModelFileError(
                    f"the gzip archive is damaged ({error}); copy or download it again", path=name
                ) from error
            return _opened(unpacked, name)


def _temporary() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="syncblob-")


def _opened(copy: IO[bytes], name: str) -> OpenFile:
    copy.flush()
    return OpenFile(name, number=os.dup(copy.fileno()))


@contextlib.contextmanager
def writing(target: Target) -> Iterator[Path]:
    """Give the path of a file to be written, whose contents go where `target` says at the end.

    A file is replaced as a whole, as `replacing` does; with the extension ``.gz`` by an archive of
    the contents. What is written to an open file begins at its position; if that fails, a part may
    have been written.

    Raises
    ------
    TypeError
        If it is neither the path of a file, nor an open one in binary mode.
    ValueError, OSError
        What `replacing` raises, or the open file.
    """
    packed = name_of(target).lower().endswith(_EXTENSION)
    path = None if hasattr(target, "write") else target
    if path is not None and not packed:
        with replacing(path) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory(prefix="syncblob-") as folder:
        plain = Path(folder, "plain")
        plain.touch()
        yield plain
        with plain.open("rb") as contents, contextlib.ExitStack() as stack:
            stream: Any = target
            if path is not None:
                stream = stack.enter_context(stack.enter_context(replacing(path)).open("wb"))
            if packed:
                # Without a name and a time the same contents give the same archive.
                stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
            try:
                shutil.copyfileobj(contents, stream)
            except TypeError as error:
                raise TypeError(
                    f"expected a binary file, as of open(path, 'wb'), got {target!r}"
                ) from error
