"""Reading parts of a file into memory that is there already, without a mapping.

What is read so cannot kill the process when the file shrinks or its disk fails, as touching a
mapping can: it is an exception. It also does not count the same bytes twice, as page of the file
and as copy.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Descriptor"]

_PIECE = 1 << 20
"""Bytes that are read at a time. Small pieces keep threads from waiting for each other."""
_WORTH_A_THREAD = 1 << 22
_MOST_THREADS = 4


def _processors() -> int:
    """Count the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Descriptor:
    """A file that stays open for reading as long as this object lives.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    OSError
        If it cannot be opened, or is a directory or a pipe.
    """

    __slots__ = ("__weakref__", "number")

    number: int
    """The file descriptor."""

    available = hasattr(os, "preadv")
    """Whether the platform can read at an offset, which several threads can do at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # A pipe would otherwise be waited for.
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        weakref.finalize(self, os.close, self.number)
        mode = os.fstat(self.number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "expected a file, got a pipe or a device", os.fspath(path))

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill a buffer with what begins at an offset. Large ones are filled by several threads.

        Parameters
        ----------
        target
            Writable bytes.
        offset
            Where to begin in the file.

        Raises
        ------
        EOFError
            If the file ends earlier.
        OSError
            If reading fails.
        """
        begins = itertools.count(0, _PIECE)
        threads = min(_MOST_THREADS, _processors())
        if len(target) < _WORTH_A_THREAD or threads == 1:
            self._read_pieces(target, offset, begins)
            return
        with ThreadPoolExecutor(threads - 1) as pool:
            others = []
            with contextlib.suppress(RuntimeError):  # raised while the interpreter shuts down
                for _ in range(threads - 1):
                    other = pool.submit(self._read_pieces, target, offset, begins)
                    others.append(other)
            self._read_pieces(target, offset, begins)
            for other in others:
                other.result()

    def _read_pieces(self, target: memoryview, offset: int, begins: Iterator[int]) -> None:
        """Read pieces for as long as nobody else has taken them."""
        for begin in begins:
            piece = target[begin : begin + _PIECE]
            if not piece:
                return
            position = offset + begin
            while piece:
                count = os.preadv(self.number, [piece], position)
                if not count:
                    raise EOFError(f"the file ends at byte {position}")
                piece = piece[count:]
                position += count
