"""NetParameter messages as pieces. Unchanged parts are copied from their file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syncblob.caffe._pb.caffe_pb2 import NetParameter
from syncblob.caffe.messages.fields import LEGACY_AXES
from syncblob.caffe.messages.lazy_blobs import unchanged
from syncblob.caffe.messages.pieces import FileRange, Piece, require_message_size, size_of
from syncblob.caffe.messages.texts import naming
from syncblob.caffe.messages.wire import length_field, length_header
from syncblob.caffe.messages.write_blobproto import blob_pieces
from syncblob.caffe.nets.layer import Layer, serialised

if TYPE_CHECKING:
    from syncblob.caffe.files.model import ModelFile
    from syncblob.caffe.files.read_model import Origin

_NO_NAME = length_field(NetParameter.NAME_FIELD_NUMBER, b"")
"""An empty name: without it the file of an empty net would have no bytes."""


def model_pieces(model: ModelFile, *, write_diff: bool | None, upgrade: bool) -> list[Piece]:
    """Return the message of a net; see `plan_model`."""
    origin, settings = model.origin, serialised(model.message())
    if (
        origin is not None
        and origin.version is not None
        and (origin.version == 2 or not upgrade)  # noqa: PLR2004  # the current one
        and settings == origin.settings
        and is_unchanged(model.layers, origin, write_diff=write_diff)
    ):
        pieces: list[Piece] = [FileRange(origin.file, 0, len(origin.file))]
    else:
        pieces = [settings]
        for layer in model.layers:
            with naming(f"layer {layer.name!r}"):
                payload = _layer(layer, write_diff=write_diff)
            pieces += [length_header(NetParameter.LAYER_FIELD_NUMBER, size_of(payload)), *payload]
    require_message_size(pieces, "a .caffemodel", "this model")
    return pieces if size_of(pieces) else [_NO_NAME]


def is_unchanged(layers: Sequence[Layer], origin: Origin, *, write_diff: bool | None) -> bool:
    """Tell whether layers are the same as in their file."""
    return len(layers) == len(origin.layers) and all(
        settings == serialised(layer.proto)
        and [unchanged(blob, write_diff=write_diff) for blob in layer.blobs]
        == [(origin.file, blob) for blob in blobs]
        for layer, (settings, blobs) in zip(layers, origin.layers, strict=True)
    )


def _layer(layer: Layer, *, write_diff: bool | None) -> list[Piece]:
    """Return the message of a layer: its settings, then its blobs."""
    pieces: list[Piece] = [serialised(layer.proto)]
    for number, entry in enumerate(layer.blobs.entries):
        with naming(f"blob {number}"):
            legacy = entry.legacy and entry.blob.ndim == LEGACY_AXES
            message = blob_pieces(entry.blob, write_diff=write_diff, legacy=legacy)
        pieces += [length_header(layer.proto.BLOBS_FIELD_NUMBER, size_of(message)), *message]
    return pieces
