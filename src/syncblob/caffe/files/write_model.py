"""NetParameter messages as pieces. Unchanged parts are copied from their file."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from syncblob.caffe.messages.blobproto import blob_pieces
from syncblob.caffe.messages.fields import BLOBS, INPUT_SHAPE, LAYERS, NET_NAME
from syncblob.caffe.messages.lazy import unchanged
from syncblob.caffe.messages.pieces import FileRange, joined, require_message_size, size_of
from syncblob.caffe.messages.texts import encoded, naming, put_texts
from syncblob.caffe.messages.wire import WireReader, length_field, length_header
from syncblob.caffe.nets.layer import serialised

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncblob.caffe.files.model import ModelFile
    from syncblob.caffe.messages.disk import OpenFile
    from syncblob.caffe.messages.pieces import Piece
    from syncblob.caffe.messages.wire import Field
    from syncblob.caffe.nets.layer import Layer, LayerOrigin

_CURRENT = 2


@dataclass(frozen=True, slots=True)
class NetOrigin:
    """What a net was read from.

    Parameters
    ----------
    file
        The file.
    name
        The name of the net there.
    version
        The format of the layers; None in HDF5.
    layers
        The positions of the layers that the model had at first.
    settings
        The settings of the net there, as `serialised` returns them.
    """

    file: OpenFile
    name: str
    version: int | None
    layers: tuple[int, ...]
    settings: bytes


class _Slot(NamedTuple):
    """The old position of a field: its tag begins at `begin`, its payload at `start`."""

    begin: int
    start: int
    stop: int


_NO_NAME = length_field(NET_NAME, b"")
"""An empty name: without it the file of an empty net would have no bytes."""


def model_pieces(model: ModelFile, *, write_diff: bool | None, upgrade: bool) -> list[Piece]:
    """Return the message of a net; see `plan_model`."""
    origin = model.origin
    version = _CURRENT
    if origin is not None and origin.version is not None and not upgrade:
        # V0 nests its layers, and may spread one over two, so it is only ever copied.
        fits = all(_fits(layer, origin.version) for layer in model.layers) and (
            origin.version > 0 or is_unchanged(model.layers, origin, write_diff=write_diff)
        )
        version = origin.version if fits else version
    fields = [_layer_field(layer, version, write_diff=write_diff) for layer in model.layers]
    pieces = joined(list(_net_pieces(model, fields, version)))
    require_message_size(pieces, "a .caffemodel", "this model")
    return pieces if size_of(pieces) else [_NO_NAME]


def _fits(layer: Layer, version: int) -> bool:
    """Tell whether a layer can be written in a format. V2 can hold any layer."""
    return version == _CURRENT or (
        layer.origin is not None
        and layer.origin.version == version
        and layer.origin.settings == serialised(layer.proto)
    )


def is_unchanged(layers: Sequence[Layer], origin: NetOrigin, *, write_diff: bool | None) -> bool:
    """Tell whether layers are the same as in their file."""
    return [layer.origin and layer.origin.start for layer in layers] == [*origin.layers] and all(
        layer.origin is not None
        and layer.origin.file is origin.file
        and layer.origin.settings == serialised(layer.proto)
        and [unchanged(blob, write_diff=write_diff) for blob in layer.blobs]
        == [(origin.file, blob) for blob in layer.origin.blobs]
        for layer in layers
    )


# --- layers -----------------------------------------------------------------------------------


def _layer_field(layer: Layer, version: int, *, write_diff: bool | None) -> list[Piece]:
    """Return a layer as a field of the net."""
    origin, settings = layer.origin, serialised(layer.proto)
    with naming(f"layer {layer.name!r}"):
        if origin is None or origin.version != version or origin.settings != settings:
            payload = _with_blobs(settings, _blob_fields(layer, _CURRENT, write_diff=write_diff))
        elif version:
            payload = _copied_fields(layer, origin, version, write_diff=write_diff)
        else:
            payload = [FileRange(origin.file, origin.start, origin.stop)]
    return [length_header(LAYERS[version], size_of(payload)), *payload]


def _copied_fields(
    layer: Layer, origin: LayerOrigin, version: int, *, write_diff: bool | None
) -> list[Piece]:
    """Return the fields of a layer from its file, with its blobs in place of those there."""
    blobs = _blob_fields(layer, version, write_diff=write_diff)
    pieces: list[Piece] = []
    for begin, field in _records(origin.file, origin.start, origin.stop):
        slot = _Slot(begin, field.start, field.stop)
        if field.number != BLOBS[version]:
            pieces.append(FileRange(origin.file, slot.begin, slot.stop))
        elif blobs:
            pieces += _at_home(blobs.pop(0), origin.file, slot)
    return joined([*pieces, *(piece for blob in blobs for piece in blob)])


def _at_home(pieces: list[Piece], file: OpenFile, slot: _Slot) -> list[Piece]:
    """Return a new field in place of an old one, with the old header if the length is the same.

    Other writers may encode the length in more bytes than necessary.
    """
    header, *payload = pieces
    if size_of(payload) == slot.stop - slot.start:
        header = FileRange(file, slot.begin, slot.start)
    return [header, *payload]


def _blob_fields(layer: Layer, version: int, *, write_diff: bool | None) -> list[list[Piece]]:
    fields = []
    for number, entry in enumerate(layer.blobs.entries):
        with naming(f"blob {number}"):
            message = blob_pieces(entry.blob, write_diff=write_diff, legacy=entry.legacy)
        fields.append([length_header(BLOBS[version], size_of(message)), *message])
    return fields


def _with_blobs(settings: bytes, blobs: list[list[Piece]]) -> list[Piece]:
    """Insert blobs at their place among the fields of a serialised LayerParameter."""
    reader = WireReader(np.frombuffer(settings, np.uint8))
    behind = len(settings)
    position = 0
    for field in reader.fields(0, len(settings)):
        if field.number > BLOBS[_CURRENT]:
            behind = position
            break
        position = field.stop
    return [settings[:behind], *(piece for blob in blobs for piece in blob), settings[behind:]]


# --- the net ----------------------------------------------------------------------------------


def _net_pieces(model: ModelFile, fields: list[list[Piece]], version: int) -> Iterator[Piece]:
    """Yield the fields of the net. Each layer keeps its old place if it had one."""
    origin = model.origin
    if origin is None or origin.version is None or origin.settings != serialised(model.settings):
        settings = copy.deepcopy(model.settings)
        if model.name:
            put_texts(settings, "name", [model.name])
        yield serialised(settings)
        for pieces in fields:
            yield from pieces
        return
    skeleton = _skeleton(model.name, origin, version)
    places = {part.start: (at, part) for at, part in enumerate(skeleton) if isinstance(part, _Slot)}
    first = min((at for at, _ in places.values()), default=len(skeleton))
    done = 0
    for layer, pieces in zip(model.layers, fields, strict=True):
        at, slot = -1, None
        if layer.origin is not None and layer.origin.file is origin.file:
            at, slot = places.get(layer.origin.start, (at, slot))
        until = max(at, first)
        yield from _without_slots(skeleton[done:until])
        done = max(done, until)
        if slot is not None and version == origin.version:
            yield from _at_home(pieces, origin.file, slot)
        else:
            yield from pieces
    yield from _without_slots(skeleton[done:])


def _skeleton(name: str, origin: NetOrigin, version: int) -> list[Piece | _Slot]:
    """Return the fields of the net in the file, with a slot for each layer of the model."""
    renamed = name != origin.name
    new_name: list[Piece | _Slot] = [length_field(NET_NAME, encoded(name))] if renamed else []
    skeleton: list[Piece | _Slot] = []
    for begin, field in _records(origin.file, 0, len(origin.file)):
        is_layer = field.number in LAYERS.values()
        if is_layer and field.start in origin.layers:
            skeleton.append(_Slot(begin, field.start, field.stop))
        elif version != origin.version and (
            is_layer or (origin.version == 0 and field.number == INPUT_SHAPE)
        ):
            continue  # Caffe drops these when it upgrades the net
        elif renamed and field.number == NET_NAME:
            skeleton += new_name
            new_name = []
        else:
            skeleton.append(FileRange(origin.file, begin, field.stop))
    return [*new_name, *skeleton]


def _without_slots(skeleton: list[Piece | _Slot]) -> list[Piece]:
    return [piece for piece in skeleton if not isinstance(piece, _Slot)]


def _records(file: OpenFile, start: int, stop: int) -> Iterator[tuple[int, Field]]:
    """Yield the fields of a message, each with the offset of its tag."""
    begin = start
    with WireReader.of_file(file) as reader:
        for field in reader.fields(start, stop):
            yield begin, field
            begin = field.stop
