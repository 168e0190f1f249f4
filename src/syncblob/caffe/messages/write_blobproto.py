"""BlobProto messages made of Blobs: which fields they get, and in which dtype.

A message for a file is made as pieces, so that its length is known before any value is read.
"""

from __future__ import annotations

import numpy as np

from syncblob.caffe._pb.caffe_pb2 import BlobProto
from syncblob.caffe.messages.fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_NAMES,
    MOST_AXES,
)
from syncblob.caffe.messages.lazy_blobs import had_diff, origin_of, unchanged
from syncblob.caffe.messages.pieces import BlobValues, FileRange, Piece, require_message_size
from syncblob.caffe.messages.wire import length_header
from syncblob.formats import Blob, is_bfloat16


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
        found = unchanged(blob, write_diff=write_diff)
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
