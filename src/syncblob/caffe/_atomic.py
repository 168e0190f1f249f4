"""Replacing a file as a whole: whoever opens it sees the old contents or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a temporary file that takes the place of `path` when the block ends.

    The temporary file is empty and lies in the same directory. At the end it is flushed to the
    disk, renamed, and the directory is flushed too. If the block raises, it is removed and `path`
    is as it was; if the process is killed, a hidden file whose name ends in ``.tmp`` may be left
    behind. The permissions of an existing file are kept. A symbolic link stays: what it points to
    is replaced.

    Parameters
    ----------
    path
        The file to be written; it need not exist, its directory must.

    Raises
    ------
    ValueError
        If `path` exists and is no ordinary file.
    OSError
        If the directory cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    temporary = target.with_name(f".syncblob-{secrets.token_hex(8)}.tmp")
    try:
        # As open() creates files: what others may do with it is up to the process's umask.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        error.filename = os.fspath(path)  # the caller does not know the other
        raise
    try:
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        _flush(temporary, os.O_RDWR)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # Windows opens no directories
        _flush(target.parent, os.O_RDONLY)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of a file, None if there is none."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"expected the path of a file that can be replaced, got {str(target)!r}")
    return stat.S_IMODE(status.st_mode)


def _flush(path: Path, flags: int) -> None:
    """Wait until what was written to a file or a directory is on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
