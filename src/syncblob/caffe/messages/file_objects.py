"""Reading and writing open binary files in place of paths."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from syncblob.caffe.messages.open_file import Descriptor, OpenFile

# The number of bytes to write at a time.
_PIECE = 1 << 20


class Readable(Protocol):
    """An object with the method ``read`` of a binary file."""

    def read(self, size: int = ..., /) -> bytes: ...


class Writable(Protocol):
    """An object with the method ``write`` of a binary file."""

    def write(self, data: bytes, /) -> object: ...


Source = str | os.PathLike[str] | Readable
Target = str | os.PathLike[str] | Writable


def open_source(source: Source) -> OpenFile:
    """Open a file by its path, or the rest of an open file."""
    if not hasattr(source, "read"):
        return OpenFile(source)
    name = name_of(source) or f"<{type(source).__name__}>"
    opened: Any = source
    with tempfile.TemporaryFile(prefix="syncblob-") as copy:
        try:
            shutil.copyfileobj(opened, copy)
        except TypeError as error:
            raise TypeError(
                f"expected a binary file, as of open(path, 'rb'), got {name}"
            ) from error
        copy.flush()
        return OpenFile(name, Descriptor(name, os.dup(copy.fileno())))


def name_of(source: Source | Target) -> str:
    """Return the path, or the name of an open file; ``""`` if it has none."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", "")
    return name if isinstance(name, str) else ""


@contextlib.contextmanager
def open_target(target: Target) -> Iterator[Path]:
    """Yield the path of a file to write. At the end, its contents go to `target`."""
    if not hasattr(target, "write"):
        with replacing(target) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory(prefix="syncblob-") as folder:
        plain = Path(folder, "plain")
        plain.touch()
        yield plain
        with plain.open("rb") as contents:
            try:
                while chunk := contents.read(_PIECE):
                    count: Any = target.write(chunk)
                    # Only unbuffered files return None if they have written nothing.
                    is_known = count is not None or isinstance(target, io.RawIOBase)
                    if is_known and count != len(chunk):
                        raise BlockingIOError(
                            errno.EAGAIN, f"{target!r} took {count} of {len(chunk)} bytes"
                        )
            except TypeError as error:
                raise TypeError(
                    f"expected a binary file, as of open(path, 'wb'), got {target!r}"
                ) from error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` when the block ends.

    The temporary file is empty and in the same directory. At the end it is flushed to the disk and
    renamed, and the directory is flushed too. If the block raises, it is removed and `path` is as
    it was. If the process is killed, a hidden file whose name ends in ``.tmp`` may be left behind.
    The permissions of an existing file are kept. A symbolic link stays, and its target is replaced.

    Parameters
    ----------
    path
        The file to write. It need not exist, but its directory must.

    Raises
    ------
    ValueError
        If `path` exists and is not a regular file.
    OSError
        If the disk is full, with the path, whatever exception a library raised in the block.
    """
    target = Path(os.path.realpath(path))
    mode = None
    with contextlib.suppress(FileNotFoundError):
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(
                f"expected the path of a file that can be replaced, got {str(target)!r}"
            )
        mode = stat.S_IMODE(status.st_mode)
    temporary = target.with_name(f".syncblob-{secrets.token_hex(8)}.tmp")
    try:
        # The mode that open() uses, so that the umask of the process decides who may read it.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        error.filename = os.fspath(path)  # the temporary name means nothing to the caller
        raise
    try:
        yield temporary
        _flush(temporary, os.O_RDWR)
        if mode is not None:
            temporary.chmod(mode)  # after the flush, because the file may be read-only
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        number = _full_disk(error)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), os.fspath(path)) from error
    if os.name == "posix":  # Windows cannot open directories
        _flush(target.parent, os.O_RDONLY)


_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_SYSTEM_ERROR = re.compile(r"errno = (\d+)")
"""The number of a system error in messages of HDF5."""


def _full_disk(error: BaseException | None) -> int | None:
    """Return the error number if a full disk caused an exception, else None."""
    while isinstance(error, Exception):
        found = _SYSTEM_ERROR.search(str(error))
        number = int(found[1]) if found else getattr(error, "errno", None)
        if number in _FULL:
            return number
        error = error.__cause__ or error.__context__
    return None


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
