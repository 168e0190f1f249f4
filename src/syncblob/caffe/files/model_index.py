"""Reading a NetParameter without its weights: the settings of layers, and where their blobs are.

A net has the format of its layers: V2, the current one; V1, which identifies types by numbers; or
V0, the first one, whose layers are nested in V1 layers. One V0 layer makes it a V0 net, and then
Caffe drops everything else: V2 layers, and the name, type and blobs of other V1 layers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.files.other_formats import refuse_other_messages
from syncblob.caffe.messages.blob_index import BlobIndex, find_parts, interpreted, require_few
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
from syncblob.caffe.messages.wire import Field, WireReader, WireType, length_field
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from syncblob.caffe._pb.caffe_pb2 import LayerParameter

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
    """A layer in the file, and the blobs of the layer itself and of V0 layers in it.

    In place of a blob whose shape and values do not agree there is the error.
    """

    place: Field
    blobs: list[BlobIndex | ModelFileError]
    of_v0: list[BlobIndex | ModelFileError]


def index_model(reader: WireReader) -> ModelIndex:
    """Index the NetParameter that fills a file.

    Raises
    ------
    ModelFileError
        If protobuf would refuse it, if a field has another wire type than in Caffe, if a blob does
        not match its shape, if Caffe refuses to upgrade it, or if it is not a net.
    """
    walk = _Walk(reader)
    try:
        net = walk.net()
    except ModelFileError:
        kinds = {_V2}
        with contextlib.suppress(ModelFileError):
            kinds = reader.kinds()
        _refuse_other_messages(reader, kinds)
        raise
    parts = walk.parts
    of_v1 = bool(net.layers)
    version = 0 if any(map(is_v0, net.layers)) else 1 if of_v1 else 2
    taken = parts["layers" if of_v1 else "layer"]
    if not version:
        taken = [
            part for part, layer in zip(taken, net.layers, strict=True) if not is_padding(layer)
        ]
    try:
        layers = upgrade_layers(NetParameter(layers=net.layers, layer=net.layer)).layer
    except ValueError as error:
        raise reader.error(str(error), parts["layers"][0].place.start) from error
    name = decoded(net.name)
    for each in ("layers", "layer", *["name"] * bool(name), *["input_shape"] * (not version)):
        net.ClearField(each)  # an empty name stays
    indexed = [
        LayerInFile(
            proto,
            tuple(_blobs_of(part, version)),
            part.place.start,
            part.place.stop,
        )
        for proto, part in zip(layers, taken, strict=True)
    ]
    return ModelIndex(name, version, indexed, net)


@dataclass
class _Walk:
    """One pass over the file."""

    reader: WireReader
    parts: dict[str, list[_Part]] = field(default_factory=lambda: {name: [] for name in _OF_LAYER})
    count: int = 0

    def net(self) -> NetParameter:
        """Parse the net without the blobs of its layers, whose parts are found on the way."""
        reader, settings, kinds = self.reader, bytearray(), set()
        position = 0
        for found in reader.fields(0, reader.size):
            kind = found.number, found.wire_type
            kinds.add(kind)
            name = _OF_NET.get(kind)
            if name in _OF_LAYER:
                part = _Part(found, [], [])
                self.parts[name].append(part)
                rest = self.rest(reader, found, _OF_LAYER[name], part, depth=1)
                settings += length_field(found.number, rest)
            elif name is None and (wrong := reader.unexpected(found, _OF_NET)):
                raise wrong
            else:
                settings += reader.read(position, found.stop)
            position = found.stop
        _refuse_other_messages(reader, kinds)
        try:
            return NetParameter.FromString(bytes(settings))
        except DecodeError as error:
            places = [part.place.start for of_kind in self.parts.values() for part in of_kind]
            raise reader.error(
                f"the settings of the net or of its layers are damaged ({error}); copy or download "
                f"the file again",
                min(places, default=0),
            ) from error

    def rest(
        self,
        reader: WireReader,
        message: Field,
        names: dict[Kind, str],
        part: _Part,
        *,
        depth: int,
    ) -> bytes:
        """Return the message of a layer without its blobs, which are added to `part`."""
        self.count += 1
        require_few(reader, self.count)
        rest = bytearray()
        position = message.start
        for found in reader.fields(message.start, message.stop, depth=depth):
            name = names.get((found.number, found.wire_type))
            if name == "blobs":
                self.count += 1
                require_few(reader, self.count)
                parts = find_parts(reader, found.start, found.stop, depth=depth + 1)
                try:
                    blob: BlobIndex | ModelFileError = interpreted(parts, reader)
                except ModelFileError as error:  # Caffe drops blobs of some layers
                    blob = error.with_traceback(None)
                (part.of_v0 if names is _OF_V0 else part.blobs).append(blob)
            elif name == "layer":
                inner = self.rest(reader, found, _OF_V0, part, depth=depth + 1)
                rest += length_field(V0_LAYER, inner)
            elif name is None and (wrong := reader.unexpected(found, names)):
                raise wrong
            else:
                rest += reader.read(position, found.stop)
            if name == "name":
                reader = reader.within(reader.text(found))
            position = found.stop
        return bytes(rest)


def _refuse_other_messages(reader: WireReader, kinds: set[Kind]) -> None:
    if _V2 not in kinds:
        refuse_other_messages(reader, kinds)  # its error says more than that of a field


def _blobs_of(part: _Part, version: int) -> Iterator[BlobIndex]:
    for blob in part.blobs if version else part.of_v0:
        if isinstance(blob, ModelFileError):
            raise blob
        yield blob
