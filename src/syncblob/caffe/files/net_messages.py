"""Nets as messages: read without the weights, which are located, and written as pieces.

A net has the format of its layers: V2, the current one, or V1, which identifies types by numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter
from syncblob.caffe.files.recognise import may_be_name
from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.lazy_blobs import find_unchanged
from syncblob.caffe.messages.open_file import FileReference, OpenFile
from syncblob.caffe.messages.pieces import FileRange, Piece, blob_pieces, size_of
from syncblob.caffe.messages.read_blobproto import BlobIndex, MessageIndex
from syncblob.caffe.messages.string_fields import at_place, decode_text, encode_text
from syncblob.caffe.messages.upgrade_old_nets import upgrade_layers
from syncblob.caffe.messages.wire import WireReader, length_field, length_header
from syncblob.caffe.nets.layer import Layer, serialise

if TYPE_CHECKING:
    from syncblob.caffe.files.model import ModelFile


class LayerInFile(NamedTuple):
    """A layer, upgraded to the current format, whose values are located, not read."""

    proto: LayerParameter
    blobs: tuple[BlobIndex, ...]


class Origin(NamedTuple):
    """What a net was read from."""

    file: FileReference
    """The file, which stays open only for values that have not been read."""
    lone: OpenFile | None
    """The same, if it has no name, and so is lost when it is closed; else None."""
    version: int | None
    """The format of its layers; None in HDF5."""
    settings: bytes
    """The settings of the net there, as `serialise` returns them."""
    layers: tuple[tuple[bytes, tuple[BlobIndex, ...]], ...]
    """The settings of each layer there, and its blobs."""


class ModelIndex(NamedTuple):
    """The format of the layers of a net (None in HDF5), these layers, and the net itself."""

    version: int | None
    layers: list[LayerInFile]
    net: NetParameter


def index_model(reader: WireReader) -> ModelIndex:
    """Index the NetParameter that fills a file.

    Raises ModelFileError if protobuf would refuse it, if a field has another wire type than in
    Caffe, if a blob does not match its shape, if Caffe refuses to upgrade it, or if it is not a
    net.
    """
    parsed = MessageIndex(reader, NetParameter)
    version = 1 if parsed.message.layers else 2
    try:
        net = upgrade_layers(parsed.message)
    except ValueError as error:
        raise reader.error(str(error), 0) from error
    indexed = []
    for proto in net.layer:
        blobs = tuple(parsed.blob(blob, decode_text(proto.name)) for blob in proto.blobs)
        proto.ClearField("blobs")
        indexed.append(LayerInFile(proto, blobs))
    return ModelIndex(version, indexed, net)


# --- writing --------------------------------------------------------------------------------------

_NO_NAME = length_field(NetParameter.NAME_FIELD_NUMBER, b"")
"""An empty name: without it the file of an empty net would have no bytes, or none of a net."""


def file_pieces(
    model: ModelFile, *, hdf5: bool, write_diff: bool | None, upgrade: bool
) -> list[Piece]:
    """Return the file that a model was read from, if it would be written as it is, else nothing."""
    origin = model.origin
    file = None if origin is None else origin.file()
    if (
        origin is None
        or file is None
        or hdf5 != (origin.version is None)
        or (upgrade and origin.version == 1)
        or (not hdf5 and serialise(model.message()) != origin.settings)
        or len(model.layers) != len(origin.layers)
    ):
        return []
    is_unchanged = all(
        settings == serialise(layer.proto)
        and [find_unchanged(blob, write_diff=write_diff) for blob in layer.blobs]
        == [(file, blob) for blob in blobs]
        for layer, (settings, blobs) in zip(model.layers, origin.layers, strict=True)
    )
    # In HDF5, the copy keeps attributes and times that a new file would not have.
    return [FileRange(file, 0, len(file))] if is_unchanged else []


def model_pieces(model: ModelFile, *, write_diff: bool | None) -> list[Piece]:
    """Return the message of a net, as a new one; see `plan_model`."""
    if not model.layers and not may_be_name(encode_text(model.name)):
        raise ValueError(
            f"expected a net with layers, or another name: {model.name!r} reads as a message, and "
            f"the file would not be recognised"
        )
    pieces: list[Piece] = [serialise(model.message())]
    for layer in model.layers:
        with at_place(f"layer {layer.name!r}"):
            payload = _layer(layer, write_diff=write_diff)
        pieces += [length_header(NetParameter.LAYER_FIELD_NUMBER, size_of(payload)), *payload]
    return pieces if model.name or model.layers else [*pieces, _NO_NAME]


def _layer(layer: Layer, *, write_diff: bool | None) -> list[Piece]:
    """Return the message of a layer: its settings, then its blobs."""
    pieces: list[Piece] = [serialise(layer.proto)]
    for number, entry in enumerate(layer.blobs.entries):
        with at_place(f"blob {number}"):
            legacy = entry.legacy and entry.blob.ndim == LEGACY_AXES
            message = blob_pieces(entry.blob, write_diff=write_diff, legacy=legacy)
        pieces += [length_header(layer.proto.BLOBS_FIELD_NUMBER, size_of(message)), *message]
    return pieces
