"""BlobProto messages as pieces: what Caffe's ToProto writes, without reading any values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncblob._dtypes import is_bfloat16
from syncblob.caffe._encode import length_header, varint
from syncblob.caffe._fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_DIMS,
    SHAPE,
    SHAPE_DIM,
)
from syncblob.caffe._origins import origin_of, unchanged, untouched
from syncblob.caffe._pieces import BlobValues, FileRange, size_of
from syncblob.caffe._wire import WireType

if TYPE_CHECKING:
    from syncblob.blob import Blob
    from syncblob.caffe._origins import Origin
    from syncblob.caffe._pieces import Piece

__all__ = ["MAX_MESSAGE", "blob_message", "blob_pieces", "had_diff", "require_axes", "wire_dtype"]

MAX_MESSAGE = 2**31 - 1
"""Bytes that a protobuf message can have, which is also what Caffe reads."""

_MAX_AXES = 32
"""Axes that Caffe's Blob can have."""


def blob_pieces(blob: Blob, *, write_diff: bool | None, legacy: bool | None = None) -> list[Piece]:
    """Return the message of a Blob for a file: the one that it was read from, if it still holds.

    Otherwise it is a new one. A Blob that was read with num, channels, height and width is written
    with these, because Caffe is more lenient when it compares them with the shape in a net.

    Parameters
    ----------
    blob
        The Blob.
    write_diff
        Whether to write the gradient; None if it is to be written where the file had one.
    legacy
        Whether to write num, channels, height and width in place of the shape; None if they are to
        be written where the file had them.

    Raises
    ------
    TypeError, ValueError
        If a BlobProto, or Caffe's Blob, cannot hold it. No values have been read then.
    """
    require_axes(blob)
    origin = origin_of(blob)
    if write_diff is None:
        write_diff = had_diff(blob)
    if legacy is None:
        legacy = origin is not None and origin.index.legacy
    if origin is None or not origin.is_message or origin.index.legacy != legacy:
        return blob_message(blob, write_diff=write_diff, legacy=legacy)
    if untouched(blob, diff=False) is None:
        pieces = blob_message(blob, write_diff=write_diff, legacy=legacy)
        if _is_laid_out_as(origin, pieces):
            # Where the values are as they were, this gives the same bytes.
            return pieces
    found = unchanged(blob, write_diff=write_diff)
    if found is None:
        return blob_message(blob, write_diff=write_diff, legacy=legacy)
    file, index = found
    return [FileRange(file, index.start, index.stop)]


def _is_laid_out_as(origin: Origin, pieces: list[Piece]) -> bool:
    """Tell whether a message has all bytes in common with one in a file, but for the values."""
    index, file = origin.index, origin.file()
    if file is None or size_of(pieces) != index.stop - index.start:
        return False
    position = index.start
    for piece in pieces:
        if isinstance(piece, bytes):
            there = np.empty(len(piece), np.uint8)
            file.read_into(there, position)
            if there.tobytes() != piece:
                return False
        position += size_of([piece])
    return True


def had_diff(blob: Blob) -> bool:
    """Tell whether a Blob came from a file that has its gradient."""
    origin = origin_of(blob)
    return origin is not None and origin.index.diff is not None


def blob_message(blob: Blob, *, write_diff: bool, legacy: bool = False) -> list[Piece]:
    """Return a new message, its fields in the order of their numbers.

    Parameters
    ----------
    blob
        The Blob.
    write_diff
        Whether to write the gradient too.
    legacy
        Whether to write num, channels, height and width in place of the shape.

    Raises
    ------
    TypeError
        If the dtype is no float.
    ValueError
        If the message would have 2 GiB or more.
    """
    dtype = wire_dtype(blob.dtype)
    double = dtype.itemsize == np.dtype(np.float64).itemsize
    data, diff = (DOUBLE_DATA, DOUBLE_DIFF) if double else (DATA, DIFF)
    shape = b""
    if legacy:
        shape = b"".join(
            varint(number << 3 | WireType.VARINT) + varint(dim)
            for number, dim in zip(LEGACY_DIMS, blob.shape, strict=True)
        )
    elif blob.shape:
        dims = b"".join(map(varint, blob.shape))
        dim_field = length_header(SHAPE_DIM, len(dims)) + dims
        shape = length_header(SHAPE, len(dim_field)) + dim_field
    values = _field(data, BlobValues(blob, dtype))
    if write_diff:
        values += _field(diff, BlobValues(blob, dtype, diff=True))
    pieces = [shape, *values] if double or legacy else [*values, shape]
    total = size_of(pieces)
    if total > MAX_MESSAGE:
        raise ValueError(
            f"a BlobProto holds at most {MAX_MESSAGE} bytes, and a Blob of shape {blob.shape} "
            f"and dtype {blob.dtype} {'with its diff ' if write_diff else ''}needs {total}; "
            f"split it, or write it with h5py or numpy.save"
        )
    return pieces


def wire_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Return the dtype in which values of a Blob are written.

    Raises
    ------
    TypeError
        If it is none that Caffe computes with, or that one of those holds exactly.
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
    """Refuse a Blob that Caffe could not read, with a ValueError."""
    if blob.ndim > _MAX_AXES:
        raise ValueError(
            f"Caffe's blobs have at most {_MAX_AXES} axes, got shape {blob.shape}; reshape it first"
        )


def _field(number: int, values: BlobValues) -> list[Piece]:
    return [length_header(number, values.nbytes), values] if values.nbytes else []
