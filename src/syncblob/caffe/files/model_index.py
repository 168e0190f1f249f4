"""Reading a NetParameter without its weights: the settings of layers, and where their blobs are.

A net has the format of its layers: V2, the current one; V1, which identifies types by numbers; or
V0, the first one, whose layers are nested in V1 layers. One V0 layer makes it a V0 net, and then
Caffe drops everything else: V2 layers, and the name, type and blobs of other V1 layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.files.other_formats import refuse_other_messages
from syncblob.caffe.messages.blob_index import index_blob, parse_blob, require_few
from syncblob.caffe.messages.fields import (
    BLOBS,
    BOTTOM,
    LAYERS,
    NAME,
    NET_NAME,
    TOP,
    TYPE,
    V0_LAYER,
    Kind,
)
from syncblob.caffe.messages.older_formats import is_padding, is_v0, upgrade_layers
from syncblob.caffe.messages.texts import decoded
from syncblob.caffe.messages.wire import WireType, length_field

if TYPE_CHECKING:
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter
    from syncblob.caffe.messages.blob_index import BlobIndex
    from syncblob.caffe.messages.wire import Field, WireReader

_LENGTH = WireType.LENGTH
_V2 = (LAYERS[2], _LENGTH)
_OF_NET: dict[Kind, str] = {
    (NET_NAME, _LENGTH): "name",
    (LAYERS[1], _LENGTH): "layers",
    _V2: "layer",
}
_OF_V0: dict[Kind, str] = {
    (NAME[0], _LENGTH): "name",
    (TYPE[0], _LENGTH): "type",
    (BLOBS[0], _LENGTH): "blobs",
}
_OF_LAYER: dict[str, dict[Kind, str]] = {
    name: {
        (NAME[version], _LENGTH): "name",
        (TYPE[version], type_): "type",
        (BOTTOM[version], _LENGTH): "bottom",
        (TOP[version], _LENGTH): "top",
        (BLOBS[version], _LENGTH): "blobs",
    }
    for name, version, type_ in (("layers", 1, WireType.VARINT), ("layer", 2, _LENGTH))
}
_OF_LAYER["layers"][V0_LAYER, _LENGTH] = "layer"


class LayerInFile(NamedTuple):
    """A layer, upgraded to the current format, and the position of its message in the file.

    The values of its blobs are located, not read.
    """

    proto: LayerParameter
    blobs: tuple[BlobIndex, ...]
    start: int
    stop: int


class ModelIndex(NamedTuple):
    """A net: its name, the version of its layer format, its layers in order, its other settings."""

    name: str
    version: int
    layers: list[LayerInFile]
    settings: NetParameter


class _Part(NamedTuple):
    """A layer in the file, and the blobs of the layer itself and of V0 layers in it."""

    place: Field
    blobs: list[Field]
    of_v0: list[Field]


def index_model(reader: WireReader) -> ModelIndex:
    """Index the NetParameter that fills a file.

    Raises
    ------
    ModelFileError
        If protobuf would refuse it, if a field has another wire type than in Caffe, if a blob does
        not match its shape, if Caffe refuses to upgrade it, or if it is not a net.
    """
    net, parts = _without_blobs(reader)
    of_v1 = bool(net.layers)
    version = 0 if any(map(is_v0, net.layers)) else 1 if of_v1 else 2
    taken = parts["layers" if of_v1 else "layer"]
    if not version:
        _check_dropped(reader, net, parts)
        taken = [
            part for part, layer in zip(taken, net.layers, strict=True) if not is_padding(layer)
        ]
    try:
        layers = upgrade_layers(NetParameter(layers=net.layers, layer=net.layer)).layer
    except ValueError as error:
        raise reader.error(str(error), parts["layers"][0].place.start) from error
    name = decoded(net.name)
    for field in ("layers", "layer", *["name"] * bool(name), *["input_shape"] * (not version)):
        net.ClearField(field)  # an empty name stays
    indexed = [
        LayerInFile(
            proto,
            _index_blobs(reader.within(decoded(proto.name)), part, version),
            part.place.start,
            part.place.stop,
        )
        for proto, part in zip(layers, taken, strict=True)
    ]
    return ModelIndex(name, version, indexed, net)


def _without_blobs(reader: WireReader) -> tuple[NetParameter, dict[str, list[_Part]]]:
    """Parse a net without the blobs of its layers; refuse other messages."""
    fields = list(reader.fields(0, reader.size))
    kinds = {(field.number, field.wire_type) for field in fields}
    if _V2 not in kinds:
        refuse_other_messages(reader, kinds)  # its error says more than that of a field
    settings = bytearray()
    parts: dict[str, list[_Part]] = {name: [] for name in _OF_LAYER}
    position = 0
    for field in fields:
        name = _OF_NET.get((field.number, field.wire_type))
        if name in _OF_LAYER:
            part = _Part(field, [], [])
            rest = _rest(reader, field, _OF_LAYER[name], part, depth=1)
            settings += length_field(field.number, rest)
            parts[name].append(part)
        elif name is None and (wrong := reader.unexpected(field, _OF_NET)):
            raise wrong
        else:
            settings += reader.read(position, field.stop)
        position = field.stop
    every = [part for of_kind in parts.values() for part in of_kind]
    require_few(reader, sum(1 + len(part.blobs) + len(part.of_v0) for part in every))
    try:
        return NetParameter.FromString(bytes(settings)), parts
    except DecodeError as error:
        raise reader.error(
            f"the settings of the net or of its layers are damaged ({error}); copy or download the "
            f"file again",
            every[0].place.start if every else 0,
        ) from error


def _rest(
    reader: WireReader, message: Field, names: dict[Kind, str], part: _Part, *, depth: int
) -> bytes:
    """Return the message of a layer without its blobs, whose fields are added to `part`."""
    rest = bytearray()
    position = message.start
    for field in reader.fields(message.start, message.stop, depth=depth):
        name = names.get((field.number, field.wire_type))
        if name == "blobs":
            (part.of_v0 if names is _OF_V0 else part.blobs).append(field)
        elif name == "layer":
            rest += length_field(V0_LAYER, _rest(reader, field, _OF_V0, part, depth=depth + 1))
        elif name is None and (wrong := reader.unexpected(field, names)):
            raise wrong
        else:
            rest += reader.read(position, field.stop)
        position = field.stop
    return bytes(rest)


def _index_blobs(reader: WireReader, part: _Part, version: int) -> tuple[BlobIndex, ...]:
    blobs, depth = (part.blobs, 2) if version else (part.of_v0, 3)
    return tuple(index_blob(reader, blob.start, blob.stop, depth=depth) for blob in blobs)


def _check_dropped(reader: WireReader, net: NetParameter, parts: dict[str, list[_Part]]) -> None:
    """Check blobs that Caffe drops, because protobuf refuses the whole net if one is damaged."""
    for part in (*parts["layer"], *parts["layers"]):
        for blob in part.blobs:
            parse_blob(reader, blob.start, blob.stop, depth=2)
    for part, layer in zip(parts["layers"], net.layers, strict=True):
        for blob in part.of_v0 if is_padding(layer) else ():
            parse_blob(reader, blob.start, blob.stop, depth=3)
