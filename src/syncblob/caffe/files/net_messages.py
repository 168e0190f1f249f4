"""Nets as messages: read without the weights, which are located, and written as pieces.

A net has the format of its layers: V2, the current one, or V1, which identifies types by numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter
from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.lazy_blobs import find_unchanged
from syncblob.caffe.messages.open_file import FileReference, OpenFile
from syncblob.caffe.messages.pieces import FileRange, Piece, blob_field, size_of
from syncblob.caffe.messages.read_blobproto import BlobIndex, MessageIndex
from syncblob.caffe.messages.string_fields import at_place, decode_text
from syncblob.caffe.messages.upgrade_old_nets import upgrade_layers
from syncblob.caffe.messages.wire import WireReader, length_field, length_header
from syncblob.caffe.nets.layer import Layer, serialise

if TYPE_CHECKING:
    from syncblob.caffe.files.model import ModelFile


LayersInFile = list[tuple[LayerParameter, tuple[BlobIndex, ...]]]
"""Layers in the current format, without their blobs, and where these are."""


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


def index_model(reader: WireReader) -> tuple[int, NetParameter, LayersInFile]:
    """Return the format of the layers in a file, the net, and these."""
    parsed = MessageIndex(reader, NetParameter)
    version = 1 if parsed.message.layers else 2
    try:
        net = upgrade_layers(parsed.message)
    except ValueError as error:
        raise reader.error(str(error), 0) from error
    indexed: LayersInFile = []
    for proto in net.layer:
        blobs = tuple(parsed.blob(blob, decode_text(proto.name)) for blob in proto.blobs)
        proto.ClearField("blobs")
        indexed.append((proto, blobs))
    return version, net, indexed


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
    pieces: list[Piece] = [serialise(model.message())]
    for layer in model.layers:
        with at_place(f"layer {layer.name!r}"):
            payload = _layer(layer, write_diff=write_diff)
        pieces += [length_header(NetParameter.LAYER_FIELD_NUMBER, size_of(*payload)), *payload]
    return pieces if model.name or model.layers else [*pieces, _NO_NAME]


def _layer(layer: Layer, *, write_diff: bool | None) -> list[Piece]:
    """Return the message of a layer: its settings, then its blobs."""
    pieces: list[Piece] = [serialise(layer.proto)]
    at = layer.proto.BLOBS_FIELD_NUMBER
    for number, (blob, legacy) in enumerate(layer.blobs.entries):
        old = legacy and blob.ndim == LEGACY_AXES
        pieces += blob_field(at, f"blob {number}", blob, write_diff=write_diff, legacy=old)
    return pieces
