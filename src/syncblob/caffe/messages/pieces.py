"""The pieces of a new file: bytes, ranges of other files, and the values of Blobs.

The length of every piece is known before any of it is read, because in protobuf the length of a
message precedes it. A piece is never in memory as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np

from syncblob.caffe._pb.caffe_pb2 import BlobProto
from syncblob.caffe.messages.fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_NAMES,
    MOST_AXES,
    DType,
)
from syncblob.caffe.messages.lazy_blobs import arrays_of, find_unchanged, had_diff, origin_of
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.string_fields import at_place
from syncblob.caffe.messages.values import Runs
from syncblob.caffe.messages.wire import length_header
from syncblob.formats import Blob, is_bfloat16

MAX_MESSAGE = 2**31 - 1
"""The most bytes that a protobuf message can have, and that Caffe reads."""


class FileRange(NamedTuple):
    """Bytes to copy from a file unchanged."""

    file: OpenFile
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        return self.stop - self.start

    def chunks(self) -> Iterator[memoryview]:
        values = Runs.in_order(np.dtype(np.uint8), self.start, self.nbytes)
        return (chunk.data for chunk in values.chunks(self.file, values.dtype))


class BlobValues(NamedTuple):
    """The values of a Blob, in row-major order, converted to a dtype."""

    blob: Blob
    dtype: DType
    diff: bool = False

    @property
    def nbytes(self) -> int:
        return self.blob.size * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        for array in arrays_of(self.blob, self.dtype, diff=self.diff):
            yield array.view(np.uint8).data


Piece = bytes | FileRange | BlobValues


def size_of(*pieces: Piece) -> int:
    return sum(len(piece) if isinstance(piece, bytes) else piece.nbytes for piece in pieces)


def buffers(pieces: Iterable[Piece]) -> Iterator[bytes | memoryview]:
    """Yield the bytes. Each buffer is valid until the next one is yielded."""
    for piece in pieces:
        yield from (piece,) if isinstance(piece, bytes) else piece.chunks()


def write_pieces(pieces: Iterable[Piece], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(buffers(pieces))


def require_size(pieces: Sequence[Piece], message: str, contents: str) -> None:
    total = size_of(*pieces)
    if total > MAX_MESSAGE:
        raise ValueError(
            f"{message} holds at most {MAX_MESSAGE} bytes, and {contents} needs {total}; HDF5 has "
            f"no such limit: save models and states of solvers with the extension .h5, and single "
            f"arrays with h5py"
        )


class Plan:
    """A message that is not yet written, to look for its fields. All values are zeros."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = [piece for piece in pieces if size_of(piece)]
        self._ends = [*accumulate(map(size_of, self._pieces))]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, start: int, stop: int) -> memoryview:
        contents = bytearray(stop - start)
        at, position = bisect_right(self._ends, start), start
        while position < stop:
            piece, end = self._pieces[at], min(stop, self._ends[at])
            begin = position - self._ends[at] + size_of(piece)
            count = end - position
            if isinstance(piece, bytes):
                contents[position - start : end - start] = piece[begin : begin + count]
            elif isinstance(piece, FileRange):
                first = piece.start + begin
                contents[position - start : end - start] = piece.file.read(first, first + count)
            at, position = at + 1, end
        return memoryview(contents)


def blob_field(
    number: int, place: str, blob: Blob, *, write_diff: bool | None, legacy: bool | None = None
) -> list[Piece]:
    """Return a field that holds a Blob, see `blob_pieces`. Errors name the place."""
    with at_place(place):
        message = blob_pieces(blob, write_diff=write_diff, legacy=legacy)
    return [length_header(number, size_of(*message)), *message]


def blob_pieces(blob: Blob, *, write_diff: bool | None, legacy: bool | None = None) -> list[Piece]:
    """Return the message of a Blob: that of its own file if unchanged, else a new one.

    With `write_diff` it has the gradient, and with `legacy` num, channels, height and width in
    place of the shape, with which Caffe is more lenient; None means as in its file.
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
    """Return a new message, its fields in the order of their numbers."""
    dtype = wire_dtype(blob.dtype)
    double = dtype.itemsize == np.dtype(np.float64).itemsize
    header = BlobProto()
    if legacy:
        for name, dim in zip(LEGACY_NAMES, blob.shape, strict=True):
            setattr(header, name, dim)
    elif blob.shape:
        header.shape.dim.extend(blob.shape)
    values: list[Piece] = []
    for number in (DOUBLE_DATA, DOUBLE_DIFF) if double else (DATA, DIFF):
        piece = BlobValues(blob, dtype, diff=number in (DIFF, DOUBLE_DIFF))
        if piece.nbytes and (write_diff or not piece.diff):
            values += [length_header(number, piece.nbytes), piece]
    shape = header.SerializeToString()
    pieces = [shape, *values] if double or legacy else [*values, shape]
    diff_too = " with its diff" if write_diff else ""
    contents = f"a Blob of shape {blob.shape} and dtype {blob.dtype}{diff_too}"
    require_size(pieces, "a BlobProto", contents)
    return pieces


def wire_dtype(dtype: DType) -> DType:
    """Return the dtype of Caffe's that holds all values of a Blob's; raise TypeError for none."""
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
