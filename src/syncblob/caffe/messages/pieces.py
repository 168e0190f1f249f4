"""The pieces of a new file: bytes, ranges of other files, and the values of Blobs.

The length of every piece is known before any of it is read, because in protobuf the length of a
message precedes it. A piece is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.caffe.messages.lazy_blobs import ValuesInFile, parts_of
from syncblob.caffe.messages.values import CHUNK

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from syncblob.caffe.messages.open_file import OpenFile
    from syncblob.formats import Blob

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
    """Raise ValueError if a message would have 2 GiB or more.

    Parameters
    ----------
    pieces
        The message.
    message, contents
        The name of the message and of its contents, for the error.
    """
    total = size_of(pieces)
    if total > MAX_MESSAGE:
        raise ValueError(
            f"{message} holds at most {MAX_MESSAGE} bytes, and {contents} needs {total}; HDF5 has "
            f"no such limit: save models and states of solvers with the extension .h5, and single "
            f"arrays with h5py"
        )


def write_pieces(pieces: Iterable[Piece], path: Path) -> None:
    """Overwrite a file with the bytes."""
    with path.open("wb") as file:
        file.writelines(buffers(pieces))
