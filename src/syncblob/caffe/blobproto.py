"""BlobProto messages into Blobs and back: what Caffe's FromProto, ToProto and ShapeEquals do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from syncblob._shape import Layout
from syncblob.blob import Blob
from syncblob.blob.resize import assign
from syncblob.caffe._blob_index import index_blob
from syncblob.caffe._fields import LEGACY_AXES, LEGACY_NAMES
from syncblob.caffe._pieces import buffers
from syncblob.caffe._wire import WireReader
from syncblob.caffe._write_blob import blob_message
from syncblob.devices import Side

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob.caffe._blob_index import BlobIndex
    from syncblob.caffe._pb.caffe_pb2 import BlobProto
    from syncblob.devices import Device

__all__ = ["from_proto", "load_proto", "shape_equals", "to_proto"]


@runtime_checkable
class _Message(Protocol):
    """What protobuf's messages have in common, whichever generated module they come from."""

    DESCRIPTOR: Any

    def SerializeToString(self) -> bytes:  # noqa: N802  # protobuf's name
        """Return the message in wire format."""


def from_proto(
    proto: BlobProto | bytes | bytearray | memoryview,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Make a Blob of a BlobProto. Copies the values.

    Parameters
    ----------
    proto
        The message, of any module generated from Caffe's definitions, or its bytes.
    dtype
        The dtype of the Blob, to which values are converted as C's static_cast does. By default
        float64 where the message has double_data, else float32.
    device
        The device of the Blob, as in the constructor.

    Raises
    ------
    ModelFileError
        If the bytes are no BlobProto, or if shape and number of values differ.
    TypeError
        If `proto` is neither a BlobProto nor bytes.
    """
    buffer, index = _index(proto)
    blob = Blob(index.shape, index.dtype if dtype is None else dtype, device=device)
    _write(blob, *_read(index, buffer, blob.dtype))
    return blob


def load_proto(
    blob: Blob, proto: BlobProto | bytes | bytearray | memoryview, *, resize: bool = True
) -> None:
    """Read a BlobProto into a Blob. Copies the values, converting them to the Blob's dtype.

    Afterwards the head of the data is HEAD_AT_CPU. A message without a gradient leaves the diff
    as it was. Everything about the message is validated before anything changes.

    Parameters
    ----------
    blob
        The Blob.
    proto
        The message, of any module generated from Caffe's definitions, or its bytes.
    resize
        Whether the Blob takes the shape of the message. If not, the shapes must be equal already;
        with num, channels, height and width they are compared as Caffe does, the Blob's axes
        aligned to the right: a Blob of shape (3, 2) equals (1, 1, 3, 2).

    Raises
    ------
    ModelFileError
        If the bytes are no BlobProto, or if shape and number of values differ.
    TypeError
        If `proto` is neither a BlobProto nor bytes.
    ValueError
        If the shapes differ and `resize` is False.
    """
    buffer, index = _index(proto)
    if not resize and not _same_shape(blob.shape, index.shape, legacy=index.legacy):
        raise ValueError(
            f"expected a proto of shape {blob.shape}, got {index.shape}; "
            f"resize=True gives the Blob the shape of the proto"
        )
    data, diff = _read(index, buffer, blob.dtype)
    layout = Layout.c_order(index.shape if resize else blob.shape, blob.dtype)
    contents = data.reshape(layout.shape)
    gradient = None if diff is None else diff.reshape(layout.shape)
    assign(blob, contents, layout, Side.HOST, "load_proto", gradient=gradient)


def shape_equals(shape: tuple[int, ...], proto: BlobProto) -> bool:
    """Compare a shape with that of a BlobProto, as Caffe's ShapeEquals does. Looks at no values.

    Parameters
    ----------
    shape
        The shape of a Blob.
    proto
        The message. When it has any of num, channels, height and width, those four are compared,
        with the axes of `shape` aligned to the right and absent ones taken as 1.
    """
    if any(proto.HasField(name) for name in LEGACY_NAMES):
        dims = tuple(getattr(proto, name) for name in LEGACY_NAMES)
        return _same_shape(shape, dims, legacy=True)
    return _same_shape(shape, tuple(proto.shape.dim), legacy=False)


def to_proto(blob: Blob, *, write_diff: bool = False) -> BlobProto:
    """Make a new BlobProto of a Blob. Copies the values.

    float64 values go to double_data and double_diff. float32, float16 and bfloat16 values go to
    data and diff; the latter two are widened, which is exact. A Blob without axes gets no shape.

    Parameters
    ----------
    blob
        The Blob. Reading it is a const access on the host.
    write_diff
        Whether to write the gradient too: zeros where there was none.

    Raises
    ------
    TypeError
        If the dtype is none of the four.
    ValueError
        If the message would have 2 GiB or more, which protobuf cannot represent. Nothing has been
        read then.
    """
    from syncblob.caffe._pb.caffe_pb2 import BlobProto  # protobuf only when needed

    return BlobProto.FromString(_encode(blob, write_diff=write_diff))


def _index(
    proto: BlobProto | bytes | bytearray | memoryview,
) -> tuple[NDArray[np.uint8], BlobIndex]:
    """Return the bytes of a message and where its values lie in them."""
    if isinstance(proto, _Message) and proto.DESCRIPTOR.name == "BlobProto":
        proto = proto.SerializeToString()
    if not isinstance(proto, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"expected a BlobProto message or its bytes, got {type(proto).__name__}; "
            f"for a file use read_blob or open_model"
        )
    buffer = np.frombuffer(proto, np.uint8)
    return buffer, index_blob(WireReader(buffer), 0, len(buffer))


def _read(
    index: BlobIndex, buffer: NDArray[np.uint8], dtype: np.dtype[np.generic]
) -> tuple[NDArray[np.generic], NDArray[np.generic] | None]:
    """Return data and diff of an indexed message, the diff None if it has none."""
    diff = None if index.diff is None else index.diff.read(buffer, dtype)
    return index.data.read(buffer, dtype), diff


def _write(blob: Blob, data: NDArray[np.generic], diff: NDArray[np.generic] | None) -> None:
    """Overwrite data and, where there is one, diff of a Blob of as many elements."""
    blob.overwrite_cpu_data()[...] = data.reshape(blob.shape)
    if diff is not None:
        blob.overwrite_cpu_diff()[...] = diff.reshape(blob.shape)


def _same_shape(shape: tuple[int, ...], proto_shape: tuple[int, ...], *, legacy: bool) -> bool:
    """Compare the shape of a Blob with that of a message; legacy dimensions align to the right."""
    if legacy:
        shape = (1,) * (LEGACY_AXES - len(shape)) + shape
    return shape == proto_shape


def _encode(blob: Blob, *, write_diff: bool) -> bytes:
    """Return the message in wire format, its fields in the order of their numbers."""
    pieces = blob_message(blob, write_diff=write_diff)
    # An access, unlike writing a file: values that are read from one stay.
    blob.cpu_data()
    encoded = bytearray()
    for buffer in buffers(pieces):
        encoded += buffer
    return bytes(encoded)
