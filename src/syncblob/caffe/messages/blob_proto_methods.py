"""The methods of Blob for BlobProto messages: Caffe's FromProto, ToProto and ShapeEquals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from syncblob.caffe._pb.caffe_pb2 import BlobProto
from syncblob.caffe.messages.fields import LEGACY_NAMES, Array, Shape, shapes_agree
from syncblob.caffe.messages.pieces import buffers, new_message
from syncblob.caffe.messages.read_blobproto import BlobIndex, MessageIndex
from syncblob.caffe.messages.values import Values
from syncblob.caffe.messages.wire import Buffer, WireReader
from syncblob.formats import Blob, Device, write_contents


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
    buffer, index = _index(proto)
    if not resize and not shapes_agree(blob.shape, index.shape, their_legacy=index.legacy):
        raise ValueError(
            f"expected a proto of shape {blob.shape}, got {index.shape}; "
            f"resize=True gives the Blob the shape of the proto"
        )
    shape = index.shape if resize else blob.shape

    def read(values: Values) -> Array:
        contents: Array = np.empty(shape, blob.dtype)
        values.read_into(buffer, contents.reshape(-1))
        return contents

    gradient = None if index.diff is None else read(index.diff)
    write_contents(blob, read(index.data), "load_proto", gradient=gradient)


def shape_equals(shape: Shape, proto: BlobProto) -> bool:
    """Compare a shape with that of a BlobProto, as Caffe's ShapeEquals does. Reads no values."""
    if any(proto.HasField(name) for name in LEGACY_NAMES):
        dims = tuple(getattr(proto, name) for name in LEGACY_NAMES)
        return shapes_agree(shape, dims, their_legacy=True)
    return shape == tuple(proto.shape.dim)


def to_proto(blob: Blob, *, write_diff: bool = False) -> BlobProto:
    """Make a new BlobProto from a Blob; see `Blob.to_proto`."""
    pieces = new_message(blob, write_diff=write_diff)
    # Unlike writing a file, this is an access: the Blob keeps the values that it reads.
    blob.cpu_data()
    return BlobProto.FromString(b"".join(map(bytes, buffers(pieces))))


def _index(proto: Any) -> tuple[Buffer, BlobIndex]:
    """Return the bytes of a message and the positions of its values in them."""
    # The message may be that of any generated module.
    if getattr(getattr(proto, "DESCRIPTOR", None), "name", None) == "BlobProto":
        proto = proto.SerializeToString()
    if not isinstance(proto, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"expected a BlobProto message or its bytes, got {type(proto).__name__}; "
            f"for a file use read_blob or open_model"
        )
    buffer = Buffer(proto)
    parsed = MessageIndex(WireReader(buffer), BlobProto)
    return buffer, parsed.blob(parsed.message)
