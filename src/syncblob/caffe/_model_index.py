"""Finding the layers of a NetParameter and their blobs without reading any weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from syncblob.caffe._blob_index import index_blob
from syncblob.caffe._lookalikes import holds_blob, holds_solver_state
from syncblob.caffe._v1_layer_types import V1_LAYER_TYPES
from syncblob.caffe._wire import WireType

if TYPE_CHECKING:
    from syncblob.caffe._blob_index import BlobIndex
    from syncblob.caffe._wire import Field, WireReader

__all__ = ["LayerIndex", "ModelIndex", "index_model"]

Kind = tuple[int, WireType]

_NET_NAME: Kind = (1, WireType.LENGTH)
_V1_LAYER: Kind = (2, WireType.LENGTH)
_V2_LAYER: Kind = (100, WireType.LENGTH)


class _LayerFormat(NamedTuple):
    """The fields of interest in one of the messages that describe a layer."""

    name: Kind
    type: Kind
    bottom: Kind
    top: Kind
    blob: Kind


_V1 = _LayerFormat(
    name=(4, WireType.LENGTH),
    type=(5, WireType.VARINT),
    bottom=(2, WireType.LENGTH),
    top=(3, WireType.LENGTH),
    blob=(6, WireType.LENGTH),
)
_V2 = _LayerFormat(
    name=(1, WireType.LENGTH),
    type=(2, WireType.LENGTH),
    bottom=(3, WireType.LENGTH),
    top=(4, WireType.LENGTH),
    blob=(7, WireType.LENGTH),
)
_V0_WITHIN_V1: Kind = (1, WireType.LENGTH)


@dataclass(frozen=True, slots=True)
class LayerIndex:
    """What a layer says, with the values of its blobs left where they are."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    blobs: tuple[BlobIndex, ...]


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """What a net says: its name, the version of its layer format and the layers in order."""

    name: str
    version: int
    layers: tuple[LayerIndex, ...]


def index_model(reader: WireReader) -> ModelIndex:
    """Index the NetParameter that fills a buffer.

    Raises
    ------
    ModelFileError
        If protobuf would refuse one of its layers, if a blob does not fit its shape, or if the
        net is in the V0 format, in both formats at once, or no net at all.
    """
    name = ""
    layers: dict[Kind, list[Field]] = {_V1_LAYER: [], _V2_LAYER: []}
    kinds = set()
    for field in reader.fields(0, len(reader.buffer)):
        kind = field.number, field.wire_type
        kinds.add(kind)
        if kind in layers:
            layers[kind].append(field)
        elif kind == _NET_NAME:
            name = reader.text(field)

    v1_layers, v2_layers = layers[_V1_LAYER], layers[_V2_LAYER]
    if v1_layers and v2_layers:
        raise reader.error(
            "the net has layers of two formats, 'layers' (V1) and 'layer' (V2); Caffe refuses it "
            "too. It was probably put together from two files",
            v1_layers[0].start,
        )
    if not v2_layers and holds_solver_state(kinds):
        raise reader.error(
            "this is a .solverstate file, which this version of syncblob does not read", 0
        )
    if not v2_layers and not v1_layers and holds_blob(kinds):
        raise reader.error("this is one blob (.binaryproto), not a model; use read_blob", 0)
    version, layout = (1, _V1) if v1_layers else (2, _V2)
    indexes = tuple(_index_layer(reader, layer, layout) for layer in v1_layers or v2_layers)
    return ModelIndex(name, version, indexes)


def _index_layer(reader: WireReader, layer: Field, layout: _LayerFormat) -> LayerIndex:
    found: dict[Kind, list[Field]] = {kind: [] for kind in layout}
    for field in reader.fields(layer.start, layer.stop, depth=1):
        kind = field.number, field.wire_type
        if kind in found:
            found[kind].append(field)
        elif kind == _V0_WITHIN_V1:  # in V2 this is the name, found above
            raise reader.error(
                "the net has layers of Caffe's first format (V0, of 2013), which this version of "
                "syncblob does not read; Caffe's upgrade_net_proto_binary converts the file",
                field.start,
            )

    def texts(kind: Kind) -> tuple[str, ...]:
        return tuple(reader.text(field) for field in found[kind])

    types = _v1_types(found[layout.type]) if layout is _V1 else texts(layout.type)
    name = _last(texts(layout.name))
    reader = reader.within(name)
    blobs = tuple(index_blob(reader, blob.start, blob.stop, depth=2) for blob in found[layout.blob])
    return LayerIndex(name, _last(types), texts(layout.bottom), texts(layout.top), blobs)


def _v1_types(fields: list[Field]) -> tuple[str, ...]:
    """Translate the numbers that Caffe knows; protobuf ignores the others."""
    return tuple(V1_LAYER_TYPES[field.value] for field in fields if field.value in V1_LAYER_TYPES)


def _last(texts: tuple[str, ...]) -> str:
    """Return the value of a field that is not repeated: of several, the last one counts."""
    return texts[-1] if texts else ""
