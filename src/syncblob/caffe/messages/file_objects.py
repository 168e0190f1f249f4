"""Reading and writing open binary files in place of paths."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from syncblob.caffe.messages.atomic_files import replacing
from syncblob.caffe.messages.open_file import OpenFile

# The number of bytes to write at a time.
_PIECE = 1 << 20


class Readable(Protocol):
    """An object with the method ``read`` of a binary file."""

    def read(self, size: int = ..., /) -> bytes:
        """Return up to `size` bytes."""


class Writable(Protocol):
    """An object with the method ``write`` of a binary file."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""


Source = str | os.PathLike[str] | Readable
Target = str | os.PathLike[str] | Writable


def open_source(source: Source) -> OpenFile:
    """Open a file by its path, or the rest of an open file.

    The contents of an open file are copied to an unnamed temporary file. The system removes it with
    the last reference to it, even if the process is killed. Raises TypeError for anything else,
    such as a file in text mode.
    """
    if not hasattr(source, "read"):
        return OpenFile(source)
    name = name_of(source) or f"<{type(source).__name__}>"
    opened: Any = source
    with in_temporary_space(), tempfile.TemporaryFile(prefix="syncblob-") as copy:
        try:
            shutil.copyfileobj(opened, copy)
        except TypeError as error:
            raise TypeError(
                f"expected a binary file, as of open(path, 'rb'), got {name}"
            ) from error
        copy.flush()
        return OpenFile(name, number=os.dup(copy.fileno()))


def name_of(source: Source | Target) -> str:
    """Return the path, or the name of an open file; ``""`` if it has none."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", "")
    return name if isinstance(name, str) else ""


@contextlib.contextmanager
def in_temporary_space() -> Iterator[None]:
    """Name the folder for temporary files in errors that name no file, as of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = tempfile.gettempdir()
        raise


@contextlib.contextmanager
def writing(target: Target) -> Iterator[Path]:
    """Yield the path of a file to write. At the end, its contents go to `target`.

    A path is replaced as a whole, as `replacing` does. An open file is written from its current
    position; if that fails, part of the contents may have been written. Raises TypeError if it is
    not opened in binary mode, and the errors of `replacing` or of the file.
    """
    if not hasattr(target, "write"):
        with replacing(target) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory(prefix="syncblob-") as folder:
        plain = Path(folder, "plain")
        plain.touch()
        with in_temporary_space():
            yield plain
        with plain.open("rb") as contents:
            try:
                while chunk := contents.read(_PIECE):
                    _write_all(chunk, target)
            except TypeError as error:
                raise TypeError(
                    f"expected a binary file, as of open(path, 'wb'), got {target!r}"
                ) from error


def _write_all(data: bytes, stream: Any) -> None:
    """Write bytes to a file, which may take fewer at a time if it is unbuffered."""
    while data:
        count = stream.write(data)
        if count == 0 or (count is None and isinstance(stream, io.RawIOBase)):
            raise BlockingIOError(errno.EAGAIN, f"{stream!r} takes no more bytes at present")
        data = data[count:] if isinstance(count, int) else b""
