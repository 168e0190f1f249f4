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
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from syncblob.caffe._pb.caffe_pb2 import BlobProto
from syncblob.caffe.messages.fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_NAMES,
    MOST_AXES,
)
from syncblob.caffe.messages.lazy_blobs import (
    ValuesInFile,
    find_unchanged,
    had_diff,
    origin_of,
    parts_of,
)
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.values import CHUNK
from syncblob.caffe.messages.wire import WireReader, length_header
from syncblob.errors import ModelFileError
from syncblob.formats import Blob, is_bfloat16

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
        MessageIndex(WireReader(_Plan(pieces)), kind)
    except ModelFileError as error:
        raise ValueError(f"{contents} could not be opened again: {error.message}") from error


class _Plan:
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


def blob_pieces(blob: Blob, *, write_diff: bool | None, legacy: bool | None = None) -> list[Piece]:
    """Return the message of a Blob for a file: that of its own file if unchanged, else a new one.

    With `write_diff` it has the gradient, and with `legacy` num, channels, height and width in
    place of the shape; None means as in the file that the Blob was read from. Caffe is more lenient
    when it compares these with the shape in a net. Raises TypeError or ValueError if a BlobProto,
    or Caffe's Blob, cannot hold it. No values have been read then.
    """
    require_axes(blob)
    origin = origin_of(blob)
    if write_diff is None:
        write_diff = had_diff(blob)
    if legacy is None:
        legacy = origin is not None and origin.index.legacy
    # HDF5 has no message around the values, so there is no start and stop.
    if origin is not None and origin.index.stop and origin.index.legacy == legacy:
        found = find_unchanged(blob, write_diff=write_diff)
        if found is not None:
            file, index = found
            return [FileRange(file, index.start, index.stop)]
    return new_message(blob, write_diff=write_diff, legacy=legacy)


def new_message(blob: Blob, *, write_diff: bool, legacy: bool = False) -> list[Piece]:
    """Return a new message, its fields in the order of their numbers.

    Raises TypeError if the dtype is not a float, and ValueError from 2 GiB on.
    """
    dtype = wire_dtype(blob.dtype)
    double = dtype.itemsize == np.dtype(np.float64).itemsize
    data, diff = (DOUBLE_DATA, DOUBLE_DIFF) if double else (DATA, DIFF)
    header = BlobProto()
    if legacy:
        for name, dim in zip(LEGACY_NAMES, blob.shape, strict=True):
            setattr(header, name, dim)
    elif blob.shape:
        header.shape.dim.extend(blob.shape)
    shape = header.SerializeToString()
    values = _field(data, BlobValues(blob, dtype))
    if write_diff:
        values += _field(diff, BlobValues(blob, dtype, diff=True))
    pieces = [shape, *values] if double or legacy else [*values, shape]
    diff_too = "with its diff " if write_diff else ""
    contents = f"a Blob of shape {blob.shape} and dtype {blob.dtype} {diff_too}".rstrip()
    require_message_size(pieces, "a BlobProto", contents)
    return pieces


def wire_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Return the dtype in which values of a Blob are written.

    Raises TypeError if none of Caffe's dtypes can represent all its values exactly.
    """
    if dtype == np.float64:
        return np.dtype("<f8")
    if dtype in (np.float32, np.float16) or is_bfloat16(dtype):
        return np.dtype("<f4")
    raise TypeError(
        f"a BlobProto holds floats, got a Blob of dtype {dtype}; convert it first, "
        f"to float32 or, where that would round, float64"
    )


def require_axes(blob: Blob) -> None:
    """Raise ValueError if a Blob has more axes than Caffe can read."""
    if blob.ndim > MOST_AXES:
        raise ValueError(
            f"Caffe's blobs have at most {MOST_AXES} axes, got shape {blob.shape}; reshape it first"
        )


def _field(number: int, values: BlobValues) -> list[Piece]:
    return [length_header(number, values.nbytes), values] if values.nbytes else []
