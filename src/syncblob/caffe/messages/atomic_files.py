"""Atomic replacement of files: a file is written as a whole, or stays as it was."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)|errno = (\d+)")
"""The number of a system error in messages of safetensors, which is in Rust, and of HDF5."""


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
        If the directory cannot be written. If the disk is full, with the path, whatever exception
        a library raised in the block.
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


def _full_disk(error: BaseException) -> int | None:
    """Return the error number if a full disk caused an exception, else None."""
    cause: BaseException | None = error if isinstance(error, Exception) else None
    while cause is not None:
        number = cause.errno if isinstance(cause, OSError) else None
        if found := _SYSTEM_ERROR.search(str(cause)):
            number = int(found[1] or found[2])
        if number in _FULL:
            return number
        cause = cause.__cause__ or cause.__context__
    return None


def _flush(path: Path, flags: int) -> None:
    """Flush a file or a directory to the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
