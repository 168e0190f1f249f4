"""The settings of a layer, parsed from its file without its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob.caffe._encode import length_header
from syncblob.caffe._fields import BLOBS, LAYERS, V0_LAYER
from syncblob.caffe._wire import WireReader, WireType

if TYPE_CHECKING:
    from syncblob.caffe._mapped_file import MappedFile
    from syncblob.caffe._model_index import LayerIndex
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter

__all__ = ["layer_message", "without_field"]

_CURRENT = max(LAYERS)


def layer_message(file: MappedFile, layer: LayerIndex, followers: int) -> LayerParameter:
    """Parse a layer, and upgrade it as Caffe does where it is of an older format.

    Parameters
    ----------
    file
        The file.
    layer
        Where the layer is.
    followers
        How many layers follow it in the file. What a layer of the first format means depends on
        those before it.
    """
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter  # only when needed

    reader = WireReader(file.array(), path=file.path)
    if layer.version:
        settings = without_field(reader, layer.start, layer.stop, BLOBS[layer.version])
        if layer.version == _CURRENT:
            return LayerParameter.FromString(settings)
        header = length_header(LAYERS[layer.version], len(settings))
        net = NetParameter.FromString(header + settings)
    else:
        net = NetParameter.FromString(_v0_net(reader))
    from syncblob.caffe._upgrade import upgrade_net  # needs protobuf

    return upgrade_net(net).layer[-1 - followers if layer.version == 0 else -1]


def without_field(reader: WireReader, start: int, stop: int, number: int) -> bytes:
    """Copy the message in ``[start, stop)`` without one of its length-delimited fields."""
    buffer = reader.buffer.data
    kept = bytearray()
    position = start
    for field in reader.fields(start, stop):
        if (field.number, field.wire_type) != (number, WireType.LENGTH):
            kept += buffer[position : field.stop]
        position = field.stop
    return bytes(kept)


def _v0_net(reader: WireReader) -> bytes:
    """Copy a net of the first format without its blobs."""
    buffer = reader.buffer.data
    copied = bytearray()
    position = 0
    for field in reader.fields(0, len(buffer)):
        if (field.number, field.wire_type) == (LAYERS[0], WireType.LENGTH):
            layer = _v0_layer(reader, field.start, field.stop)
            copied += length_header(LAYERS[0], len(layer)) + layer
        elif field.number not in LAYERS.values():
            copied += buffer[position : field.stop]
        position = field.stop
    return bytes(copied)


def _v0_layer(reader: WireReader, start: int, stop: int) -> bytes:
    buffer = reader.buffer.data
    copied = bytearray()
    position = start
    for field in reader.fields(start, stop, depth=1):
        kind = field.number, field.wire_type
        if kind == (V0_LAYER, WireType.LENGTH):
            inner = without_field(reader, field.start, field.stop, BLOBS[0])
            copied += length_header(V0_LAYER, len(inner)) + inner
        elif kind != (BLOBS[1], WireType.LENGTH):
            copied += buffer[position : field.stop]
        position = field.stop
    return bytes(copied)
