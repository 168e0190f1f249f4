"""The pieces of a new file: bytes, ranges of other files, and the values of Blobs.

The length of every piece is known before any of it is read, because in protobuf the length of a
message precedes it. A piece is never in memory as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe.messages.lazy_blobs import ValuesInFile, parts_of
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.values import CHUNK
from syncblob.caffe.messages.wire import WireReader
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from syncblob.caffe.messages.open_file import OpenFile
    from syncblob.formats import Blob

on_progress: ContextVar[Callable[[int], object]] = ContextVar(
    "on_progress", default=lambda _nbytes: None
)
"""A function that is called with the size of values, in bytes, after these have been used."""

MAX_MESSAGE = 2**31 - 1
"""The most bytes that a protobuf message can have, and that Caffe reads."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes to copy from a file unchanged."""

    file: OpenFile
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes. Each buffer is valid until the next one is yielded."""
        buffer = np.empty(min(CHUNK, self.nbytes), np.uint8)
        for begin in range(self.start, self.stop, CHUNK):
            part = buffer[: self.stop - begin]
            self.file.read_into(part, begin)
            yield part.data


@dataclass(frozen=True, slots=True)
class BlobValues:
    """The values of a Blob, in row-major order, converted to a dtype."""

    blob: Blob
    dtype: np.dtype[np.generic]
    diff: bool = False

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.blob.size * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes. Each buffer is valid until the next one is yielded."""
        for array in self.arrays():
            yield array.view(np.uint8).data

    def arrays(self) -> Iterator[NDArray[np.generic]]:
        """Yield the values: unread ones from their source, others from the host."""
        report = on_progress.get()
        for array in self._arrays():
            yield array
            report(array.nbytes)

    def _arrays(self) -> Iterator[NDArray[np.generic]]:
        for part in parts_of(self.blob, diff=self.diff):
            if isinstance(part, ValuesInFile):
                yield from part.chunks(self.dtype)
            else:
                # Copies only if dtype or layout differ.
                arrays: Any = np.nditer(  # type: ignore[call-overload]  # the stubs misspell "contig"
                    # NumPy 2.2 gives no values of a 0-d array in a buffer.
                    np.atleast_1d(part),
                    flags=["external_loop", "buffered", "zerosize_ok"],
                    op_flags=["readonly", "contig"],
                    op_dtypes=self.dtype,
                    order="C",
                    casting="unsafe",
                    buffersize=CHUNK // self.dtype.itemsize,
                )
                yield from arrays


Piece = bytes | FileRange | BlobValues


def size_of(pieces: Iterable[Piece]) -> int:
    """Return the total number of bytes."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.nbytes for piece in pieces)


def buffers(pieces: Iterable[Piece]) -> Iterator[bytes | memoryview]:
    """Yield the bytes. Each buffer is valid until the next one is yielded."""
    for piece in pieces:
        yield from (piece,) if isinstance(piece, bytes) else piece.chunks()


def require_message_size(pieces: Sequence[Piece], message: str, contents: str) -> None:
    """Raise ValueError if a message would have 2 GiB or more. The texts are for the error."""
    total = size_of(pieces)
    if total > MAX_MESSAGE:
        raise ValueError(
            f"{message} holds at most {MAX_MESSAGE} bytes, and {contents} needs {total}; HDF5 has "
            f"no such limit: save models and states of solvers with the extension .h5, and single "
            f"arrays with h5py"
        )


def require_readable(pieces: Sequence[Piece], kind: type[Message], contents: str) -> None:
    """Raise ValueError, which names the contents, if a message could not be read again."""
    try:
        MessageIndex(WireReader(_Planned(pieces)), kind)
    except ModelFileError as error:
        raise ValueError(f"{contents} could not be opened again: {error.message}") from error


class _Planned:
    """A message that is not yet written, to look for its fields. All values are zeros."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = [piece for piece in pieces if size_of([piece])]
        self._ends = [*accumulate(size_of([piece]) for piece in self._pieces)]

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self._ends[-1] if self._ends else 0

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes in ``[start, stop)``."""
        contents = bytearray(stop - start)
        at, position = bisect_right(self._ends, start), start
        while position < stop:
            piece, end = self._pieces[at], min(stop, self._ends[at])
            begin = position - self._ends[at] + size_of([piece])
            count = end - position
            if isinstance(piece, bytes):
                contents[position - start : end - start] = piece[begin : begin + count]
            elif isinstance(piece, FileRange):
                first = piece.start + begin
                contents[position - start : end - start] = piece.file.read(first, first + count)
            at, position = at + 1, end
        return memoryview(contents)

    def read_into(self, target: NDArray[np.uint8], offset: int) -> None:
        """Fill an array with the bytes at an offset."""
        target.data[:] = self.read(offset, offset + len(target))


def write_pieces(pieces: Iterable[Piece], path: Path) -> None:
    """Overwrite a file with the bytes."""
    with path.open("wb") as file:
        file.writelines(buffers(pieces))
