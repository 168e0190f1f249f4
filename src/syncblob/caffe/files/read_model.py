"""Reading a NetParameter without its weights: the settings of layers, and where their blobs are.

A net has the format of its layers: V2, the current one, or V1, which identifies types by numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.messages.read_blobproto import BlobIndex, MessageIndex
from syncblob.caffe.messages.string_fields import decoded
from syncblob.caffe.messages.upgrade_old_nets import upgrade_layers

if TYPE_CHECKING:
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter
    from syncblob.caffe.messages.open_file import FileReference, OpenFile
    from syncblob.caffe.messages.wire import WireReader


class LayerInFile(NamedTuple):
    """A layer, upgraded to the current format, whose values are located, not read."""

    proto: LayerParameter
    blobs: tuple[BlobIndex, ...]


class Origin(NamedTuple):
    """What a net was read from.

    Attributes
    ----------
    file
        The file, which stays open only for values that have not been read.
    lone
        The same, if it has no name, and so is lost when it is closed; else None.
    version
        The format of its layers; None in HDF5.
    settings
        The settings of the net there, as `serialised` returns them.
    layers
        The settings of each layer there, and its blobs.
    """

    file: FileReference
    lone: OpenFile | None
    version: int | None
    settings: bytes
    layers: tuple[tuple[bytes, tuple[BlobIndex, ...]], ...]


class ModelIndex(NamedTuple):
    """The format of the layers of a net (None in HDF5), these layers, and the net itself."""

    version: int | None
    layers: list[LayerInFile]
    net: NetParameter


def index_model(reader: WireReader) -> ModelIndex:
    """Index the NetParameter that fills a file.

    Raises
    ------
    ModelFileError
        If protobuf would refuse it, if a field has another wire type than in Caffe, if a blob does
        not match its shape, if Caffe refuses to upgrade it, or if it is not a net.
    """
    parsed = MessageIndex(reader, NetParameter)
    version = 1 if parsed.message.layers else 2
    try:
        net = upgrade_layers(parsed.message)
    except ValueError as error:
        raise reader.error(str(error), 0) from error
    indexed = []
    for proto in net.layer:
        blobs = tuple(parsed.blob(blob, decoded(proto.name)) for blob in proto.blobs)
        proto.ClearField("blobs")
        indexed.append(LayerInFile(proto, blobs))
    return ModelIndex(version, indexed, net)
