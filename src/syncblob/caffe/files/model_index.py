"""Finding the layers of a NetParameter and their blobs without reading any weights.

A net has the format of its layers: V2, the current one; V1, which identifies types by numbers; or
V0, the first one, whose layers are nested in V1 layers. One V0 layer makes it a V0 net, and then
Caffe drops everything else: V2 layers, and the name, type and blobs of other V1 layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from syncblob.caffe.messages.older_formats import (
    V0_LAYER_TYPES,
    V1_LAYER_TYPES,
    Connection,
    PaddingError,
    fold_padding,
)
from syncblob.caffe.messages.wire import WireType

if TYPE_CHECKING:
    from syncblob.caffe.messages.blob_index import BlobIndex
    from syncblob.caffe.messages.wire import Field, WireReader


def _kinds(version: int, type_: WireType) -> dict[Kind, str]:
    """Return the names of the fields that are needed from the message of a layer, by kind."""
    return {
        (NAME[version], WireType.LENGTH): "name",
        (TYPE[version], type_): "type",
        (BOTTOM[version], WireType.LENGTH): "bottom",
        (TOP[version], WireType.LENGTH): "top",
        (BLOBS[version], WireType.LENGTH): "blobs",
    }


_OF_NET = {
    (NET_NAME, WireType.LENGTH): "name",
    (LAYERS[1], WireType.LENGTH): "layers",
    (LAYERS[2], WireType.LENGTH): "layer",
}
_OF_LAYER = {
    1: _kinds(1, WireType.VARINT) | {(V0_LAYER, WireType.LENGTH): "layer"},
    2: _kinds(2, WireType.LENGTH),
}
_OF_V0 = {
    (NAME[0], WireType.LENGTH): "name",
    (TYPE[0], WireType.LENGTH): "type",
    (BLOBS[0], WireType.LENGTH): "blobs",
}

_Fields = dict[str, list["Field"]]


@dataclass(frozen=True, slots=True)
class LayerIndex:
    """The contents of a layer. The values of its blobs are located, not read.

    `version` is that of the layer's format; the message lies in ``[start, stop)``.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    blobs: tuple[BlobIndex, ...]
    version: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """The contents of a net: its name, the version of its layer format, its layers in order."""

    name: str
    version: int
    layers: tuple[LayerIndex, ...]


def index_model(reader: WireReader) -> ModelIndex:
    """Index the NetParameter that fills a buffer.

    Raises
    ------
    ModelFileError
        If protobuf would refuse one of its layers, if a field has another wire type than in Caffe,
        if a blob does not match its shape, if the net has both V1 and V2 layers or padding that no
        layer can take over, or if it is not a net.
    """
    fields = _fields_of_net(reader)
    name = _last(_texts(reader, fields["name"]))
    v1_layers, v2_layers = fields["layers"], fields["layer"]
    version, layers = (1, v1_layers) if v1_layers else (2, v2_layers)
    parts = [
        reader.collect(_OF_LAYER[version], layer.start, layer.stop, depth=1) for layer in layers
    ]
    require_few(reader, sum(1 + len(found["blobs"]) for found in parts))
    if any(found.get("layer") for found in parts):
        dropped = [
            reader.collect(_OF_LAYER[2], layer.start, layer.stop, depth=1) for layer in v2_layers
        ]
        for blobs in (found["blobs"] for found in (*dropped, *parts)):
            _parse_blobs(reader, blobs, depth=2)
        return ModelIndex(name, 0, _index_v0(reader, layers, parts))
    if v1_layers and v2_layers:
        raise reader.error(
            "the net has layers of two formats, 'layers' (V1) and 'layer' (V2); Caffe refuses it "
            "too. It was probably put together from two files",
            v1_layers[0].start,
        )
    indexes = tuple(
        _index_layer(reader, layer, found, version)
        for layer, found in zip(layers, parts, strict=True)
    )
    return ModelIndex(name, version, indexes)


def _fields_of_net(reader: WireReader) -> _Fields:
    """Collect the fields of the net itself; refuse other messages."""
    found: _Fields = {name: [] for name in _OF_NET.values()}
    kinds = set()
    wrong = None
    for field in reader.fields(0, reader.size):
        kind = field.number, field.wire_type
        kinds.add(kind)
        if kind in _OF_NET:
            found[_OF_NET[kind]].append(field)
        elif wrong is None:
            wrong = reader.unexpected(field, _OF_NET)
    if not found["layer"]:
        refuse_other_messages(reader, kinds)  # its error says more than that of a field
    if wrong is not None:
        raise wrong
    return found


def _index_layer(reader: WireReader, layer: Field, found: _Fields, version: int) -> LayerIndex:
    """Index a V1 or V2 layer."""
    types = _v1_types(found["type"]) if version == 1 else _texts(reader, found["type"])
    name = _last(_texts(reader, found["name"]))
    return LayerIndex(
        name,
        _last(types),
        _texts(reader, found["bottom"]),
        _texts(reader, found["top"]),
        _index_blobs(reader.within(name), found["blobs"], depth=2),
        version,
        layer.start,
        layer.stop,
    )


def _index_v0(
    reader: WireReader, layers: list[Field], parts: list[_Fields]
) -> tuple[LayerIndex, ...]:
    """Index the layers of a V0 net, with padding folded away."""
    inner = [_v0_parts(reader, found["layer"]) for found in parts]
    require_few(reader, sum(1 + len(found["blobs"]) for found in inner))
    names = [_last(_texts(reader, found["name"])) for found in inner]
    types = [_last(_texts(reader, found["type"])) for found in inner]
    connections = [
        Connection(kind, _texts(reader, found["bottom"]), _texts(reader, found["top"]))
        for kind, found in zip(types, parts, strict=True)
    ]
    try:
        folded = fold_padding(connections)
    except PaddingError as error:
        place = reader.within(names[error.position])
        raise place.error(str(error), layers[error.position].start) from error
    for position in set(range(len(layers))).difference(layer.position for layer in folded):
        _parse_blobs(reader, inner[position]["blobs"], depth=3)
    return tuple(
        LayerIndex(
            names[position],
            V0_LAYER_TYPES.get(types[position], ""),
            bottoms,
            connections[position].tops,
            _index_blobs(reader.within(names[position]), inner[position]["blobs"], depth=3),
            0,
            layers[position].start,
            layers[position].stop,
        )
        for position, bottoms, _ in folded
    )


def _v0_parts(reader: WireReader, nested: list[Field]) -> _Fields:
    """Collect the fields of the messages in a layer. Several messages are merged in order."""
    joined: _Fields = {name: [] for name in _OF_V0.values()}
    for field in nested:
        for name, fields in reader.collect(_OF_V0, field.start, field.stop, depth=2).items():
            joined[name] += fields
    return joined


def _index_blobs(reader: WireReader, blobs: list[Field], depth: int) -> tuple[BlobIndex, ...]:
    return tuple(index_blob(reader, blob.start, blob.stop, depth=depth) for blob in blobs)


def _parse_blobs(reader: WireReader, blobs: list[Field], depth: int) -> None:
    """Check blobs that Caffe drops, because protobuf refuses the whole net if one is damaged."""
    for blob in blobs:
        parse_blob(reader, blob.start, blob.stop, depth=depth)


def _texts(reader: WireReader, fields: list[Field]) -> tuple[str, ...]:
    return tuple(reader.text(field) for field in fields)


def _v1_types(fields: list[Field]) -> tuple[str, ...]:
    """Translate the numbers that Caffe knows; protobuf ignores the others."""
    # An enumeration is an int32: only the low half of a longer number is used.
    numbers = (field.value & 0xFFFF_FFFF for field in fields)
    return tuple(V1_LAYER_TYPES[number] for number in numbers if number in V1_LAYER_TYPES)


def _last(texts: tuple[str, ...]) -> str:
    """Return the value of a singular field: the last one wins."""
    return texts[-1] if texts else ""
