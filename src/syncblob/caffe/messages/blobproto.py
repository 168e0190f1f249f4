"""Conversion between BlobProto messages and Blobs: Caffe's FromProto, ToProto and ShapeEquals.

A message for a file is made as pieces, so that its length is known before any value is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from syncblob.caffe._pb.caffe_pb2 import BlobProto
from syncblob.caffe.messages.blob_index import BlobIndex, MessageIndex, Values
from syncblob.caffe.messages.fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_AXES,
    LEGACY_NAMES,
    MOST_AXES,
)
from syncblob.caffe.messages.lazy_blobs import (
    had_diff,
    is_legacy,
    origin_of,
    unchanged,
)
from syncblob.caffe.messages.pieces import (
    BlobValues,
    FileRange,
    Piece,
    buffers,
    require_message_size,
)
from syncblob.caffe.messages.wire import Buffer, WireReader, length_header
from syncblob.formats import Blob, Device, is_bfloat16, write_contents

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


T = TypeVar("T")


def from_proto(
    proto: BlobProto | bytes | bytearray | memoryview,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Make a Blob from a BlobProto of any generated module, or bytes; see `Blob.from_proto`."""
    buffer, index = _index(proto)
    blob = Blob(index.shape, index.dtype if dtype is None else dtype, device=device)
    index.data.read_into(buffer, blob.overwrite_cpu_data().reshape(-1))
    if index.diff is not None:
        index.diff.read_into(buffer, blob.overwrite_cpu_diff().reshape(-1))
    return blob


def load_proto(
    blob: Blob, proto: BlobProto | bytes | bytearray | memoryview, *, resize: bool = True
) -> None:
    """Read a BlobProto into a Blob; see `Blob.load_proto`.

    The message is validated completely before anything changes. Without `resize`, the shapes must
    agree in the sense of `shapes_agree`.
    """
    buffer, index = _index(proto)
    if not resize and not shapes_agree(blob.shape, index.shape, their_legacy=index.legacy):
        raise ValueError(
            f"expected a proto of shape {blob.shape}, got {index.shape}; "
            f"resize=True gives the Blob the shape of the proto"
        )
    shape = index.shape if resize else blob.shape

    def read(values: Values) -> NDArray[np.generic]:
        contents: NDArray[np.generic] = np.empty(shape, blob.dtype)
        values.read_into(buffer, contents.reshape(-1))
        return contents

    gradient = None if index.diff is None else read(index.diff)
    write_contents(blob, read(index.data), "load_proto", gradient=gradient)


def shape_equals(shape: tuple[int, ...], proto: BlobProto) -> bool:
    """Compare a shape with that of a BlobProto, as Caffe's ShapeEquals does. Reads no values.

    If the message has any of num, channels, height and width, those four are compared, with the
    axes of the shape aligned on the right and absent ones taken as 1.
    """
    if any(proto.HasField(name) for name in LEGACY_NAMES):
        dims = tuple(getattr(proto, name) for name in LEGACY_NAMES)
        return shapes_agree(shape, dims, their_legacy=True)
    return shape == tuple(proto.shape.dim)


def equal_shapes(ours: Blob, theirs: Blob) -> bool:
    """Compare the shapes of two Blobs as Caffe does when it copies weights.

    Parameters
    ----------
    ours, theirs
        The Blobs. For one that was read with num, channels, height and width, as in the older
        formats, leading axes of 1 do not matter.
    """
    return shapes_agree(
        ours.shape, theirs.shape, our_legacy=is_legacy(ours), their_legacy=is_legacy(theirs)
    )


def shapes_agree(
    ours: tuple[int, ...],
    theirs: tuple[int, ...],
    *,
    our_legacy: bool = False,
    their_legacy: bool = False,
) -> bool:
    """Compare two shapes. Each may have the four axes of the older formats."""
    return (padded(ours) if their_legacy else ours) == (padded(theirs) if our_legacy else theirs)


def padded(shape: tuple[T, ...]) -> tuple[int | T, ...]:
    """Pad a shape to four axes with leading ones."""
    return (1,) * (LEGACY_AXES - len(shape)) + shape


def to_proto(blob: Blob, *, write_diff: bool = False) -> BlobProto:
    """Make a new BlobProto from a Blob; see `Blob.to_proto`.

    float16 and bfloat16 are widened, which is exact. A 0-d Blob gets no shape. A gradient
    that does not exist is written as zeros.
    """
    pieces = _new_message(blob, write_diff=write_diff)
    # Unlike writing a file, this is an access: the Blob keeps the values that it reads.
    blob.cpu_data()
    return BlobProto.FromString(b"".join(map(bytes, buffers(pieces))))


def _index(proto: Any) -> tuple[Buffer, BlobIndex]:
    """Return the bytes of a message and the positions of its values in them."""
    descriptor = getattr(proto, "DESCRIPTOR", None)  # that of any generated module
    if getattr(descriptor, "name", None) == "BlobProto":
        proto = proto.SerializeToString()
    if not isinstance(proto, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"expected a BlobProto message or its bytes, got {type(proto).__name__}; "
            f"for a file use read_blob or open_model"
        )
    buffer = Buffer(proto)
    parsed = MessageIndex(WireReader(buffer), BlobProto)
    return buffer, parsed.blob(parsed.message)


# --- for files ------------------------------------------------------------------------------------


def blob_pieces(blob: Blob, *, write_diff: bool | None, legacy: bool | None = None) -> list[Piece]:
    """Return the message of a Blob for a file: that of its own file if unchanged, else a new one.

    A Blob that was read with num, channels, height and width is written with these, because Caffe
    is more lenient when it compares them with the shape in a net.

    Parameters
    ----------
    blob
        The Blob.
    write_diff
        Whether to write the gradient; None writes it if the file had one.
    legacy
        Whether to write num, channels, height and width in place of the shape; None writes them if
        the file had them.

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
    # HDF5 has no message around the values, so there is no start and stop.
    if origin is not None and origin.index.stop and origin.index.legacy == legacy:
        found = unchanged(blob, write_diff=write_diff)
        if found is not None:
            file, index = found
            return [FileRange(file, index.start, index.stop)]
    return _new_message(blob, write_diff=write_diff, legacy=legacy)


def _new_message(blob: Blob, *, write_diff: bool, legacy: bool = False) -> list[Piece]:
    """Return a new message, its fields in the order of their numbers.

    Raises
    ------
    TypeError, ValueError
        If the dtype is not a float, or the message would have 2 GiB or more.
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

    Raises
    ------
    TypeError
        If none of Caffe's dtypes can represent all its values exactly.
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
