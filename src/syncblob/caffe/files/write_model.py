"""NetParameter messages as pieces. Unchanged parts are copied from their file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from syncblob.caffe.messages.blobproto import blob_pieces
from syncblob.caffe.messages.fields import (
    BLOBS,
    BOTTOM,
    INPUT_SHAPE,
    LAYERS,
    NAME,
    NET_NAME,
    TOP,
    TYPE,
)
from syncblob.caffe.messages.lazy import unchanged
from syncblob.caffe.messages.older_formats import V1_TYPE_NUMBERS
from syncblob.caffe.messages.pieces import FileRange, joined, require_message_size, size_of
from syncblob.caffe.messages.texts import encoded, naming
from syncblob.caffe.messages.wire import WireReader, WireType, length_field, length_header, varint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncblob.caffe.files.model_index import LayerIndex
    from syncblob.caffe.messages.disk import OpenFile
    from syncblob.caffe.messages.pieces import Piece
    from syncblob.caffe.messages.wire import Field
    from syncblob.caffe.nets.definition import LayerRecord, NetRecord
    from syncblob.caffe.nets.layer import Layer

_CURRENT = 2
_NUMBERED = 1
"""The format that identifies types of layers by numbers."""


class _Slot(NamedTuple):
    """The old position of a field: its tag begins at `begin`, its payload at `start`."""

    begin: int
    start: int
    stop: int


_NO_NAME = length_field(NET_NAME, b"")
"""An empty name: without it the file of an empty net would have no bytes."""


def model_pieces(
    name: str,
    layers: Sequence[Layer],
    record: NetRecord,
    *,
    write_diff: bool | None,
    upgrade: bool,
) -> list[Piece]:
    """Return the message of a net read from `record`, with these layers; see `plan_model`."""
    version = record.version
    if upgrade or not all(_fits(layer, record) for layer in layers):
        version = _CURRENT
    fields = [_layer_field(layer, version, write_diff=write_diff) for layer in layers]
    if version == 0 and not (all(fields) and len(fields) == len(record.claimed)):
        # V0 nests its layers, and may spread one over two, so it is only ever copied.
        version = _CURRENT
        fields = [_layer_field(layer, version, write_diff=write_diff) for layer in layers]
    pieces = joined(list(_net_pieces(name, layers, fields, record, version)))
    require_message_size(pieces, "a .caffemodel", "this model")
    return pieces if size_of(pieces) else [_NO_NAME]


def _fits(layer: Layer, net: NetRecord) -> bool:
    """Tell whether a layer can be written in the format of a net. V2 can hold any layer."""
    record, version = layer._record, net.version
    if version == _CURRENT:
        return True
    if record is None or record.index.version != version or layer._definition.has_new_settings:
        return False
    # In V0, a layer takes its padding from another layer of its file.
    if version == 0 and record.file is not net.source:
        return False
    return layer.type in V1_TYPE_NUMBERS or layer.type == record.index.type


# --- layers -----------------------------------------------------------------------------------


def _layer_field(layer: Layer, version: int, *, write_diff: bool | None) -> list[Piece]:
    """Return a layer as a field of the net; empty if V0 cannot hold the changed layer."""
    record = layer._record
    with naming(f"layer {layer.name!r}"):
        definition = layer._definition
        if record is None or record.index.version != version or definition.has_new_settings:
            blobs = _blob_fields(layer, _CURRENT, write_diff=write_diff)
            payload = _with_blobs(definition.message().SerializeToString(), blobs)
        elif version:
            payload = _copied_fields(layer, record, write_diff=write_diff)
        elif _is_unchanged(layer, record, write_diff=write_diff):
            payload = [FileRange(record.file, record.index.start, record.index.stop)]
        else:
            return []
    return [length_header(LAYERS[version], size_of(payload)), *payload]


def _copied_fields(layer: Layer, record: LayerRecord, *, write_diff: bool | None) -> list[Piece]:
    """Return the fields of a layer from its file, with the changed ones replaced."""
    index = record.index
    version = index.version
    blobs = _blob_fields(layer, version, write_diff=write_diff)
    changed = _changed_fields(layer, index)
    pieces: list[Piece] = []
    for begin, field in _records(record.file, index.start, index.stop):
        kind = field.number, field.wire_type
        slot = _Slot(begin, field.start, field.stop)
        if kind in changed:
            pieces += changed[kind]
            changed[kind] = []
        elif kind == (BLOBS[version], WireType.LENGTH):
            pieces += _at_home(blobs.pop(0), record.file, slot) if blobs else []
        else:
            pieces.append(FileRange(record.file, slot.begin, slot.stop))
    without_place = [field for fields in changed.values() for field in fields]
    return joined([*without_place, *pieces, *(piece for blob in blobs for piece in blob)])


def _changed_fields(layer: Layer, index: LayerIndex) -> dict[tuple[int, WireType], list[bytes]]:
    """Return the changed name, type, bottoms and tops, by the kind of field they replace."""
    version = index.version
    changed: dict[tuple[int, WireType], list[bytes]] = {}
    if layer.name != index.name:
        changed[NAME[version], WireType.LENGTH] = [_text_field(NAME[version], layer.name)]
    if layer.type != index.type:
        number = TYPE[version]
        if version == _NUMBERED:
            tag = varint(number << 3 | WireType.VARINT)
            changed[number, WireType.VARINT] = [tag + varint(V1_TYPE_NUMBERS[layer.type])]
        else:
            changed[number, WireType.LENGTH] = [_text_field(number, layer.type)] * bool(layer.type)
    for fields, names, before in (
        (BOTTOM, layer.bottoms, index.bottoms),
        (TOP, layer.tops, index.tops),
    ):
        if names != before:
            number = fields[version]
            changed[number, WireType.LENGTH] = [_text_field(number, name) for name in names]
    return changed


def _at_home(pieces: list[Piece], file: OpenFile, slot: _Slot) -> list[Piece]:
    """Return a new field in place of an old one, with the old header if the length is the same.

    Other writers may encode the length in more bytes than necessary.
    """
    header, *payload = pieces
    if size_of(payload) == slot.stop - slot.start:
        header = FileRange(file, slot.begin, slot.start)
    return [header, *payload]


def _is_unchanged(layer: Layer, record: LayerRecord, *, write_diff: bool | None) -> bool:
    index = record.index
    found = [unchanged(blob, write_diff=write_diff) for blob in layer.blobs]
    return (layer.name, layer.type, layer.bottoms, layer.tops) == (
        index.name,
        index.type,
        index.bottoms,
        index.tops,
    ) and found == [(record.file, blob) for blob in index.blobs]


def _blob_fields(layer: Layer, version: int, *, write_diff: bool | None) -> list[list[Piece]]:
    fields = []
    for number, entry in enumerate(layer.blobs._entries):
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


def _net_pieces(
    name: str,
    layers: Sequence[Layer],
    fields: list[list[Piece]],
    net: NetRecord,
    version: int,
) -> Iterator[Piece]:
    """Yield the fields of the net. Each layer keeps its old place if it had one."""
    source = net.message
    if source is None:
        empty = net.rest.startswith(_NO_NAME)
        if name:
            yield _text_field(NET_NAME, name)
        yield net.rest[len(_NO_NAME) :] if name and empty else net.rest
        for pieces in fields:
            yield from pieces
        return
    skeleton = _skeleton(name, net, source, version)
    places = {part.start: (at, part) for at, part in enumerate(skeleton) if isinstance(part, _Slot)}
    first = min((at for at, _ in places.values()), default=len(skeleton))
    done = 0
    for layer, pieces in zip(layers, fields, strict=True):
        record = layer._record
        at, slot = -1, None
        if record is not None and record.file is source:
            at, slot = places.get(record.index.start, (at, slot))
        until = max(at, first)
        yield from _without_slots(skeleton[done:until])
        done = max(done, until)
        if slot is not None and version == net.version:
            yield from _at_home(pieces, source, slot)
        else:
            yield from pieces
    yield from _without_slots(skeleton[done:])


def net_settings(record: NetRecord) -> bytes:
    """Return the fields of a net other than its layers and its name, unless that is empty."""
    source = record.message
    settings = bytearray(record.rest)
    if source is not None:
        for begin, field in _records(source, 0, len(source)):
            is_name = field.number == NET_NAME
            kept = (
                field.start == field.stop and not record.name
                if is_name
                else not _is_lost(record, field)
            )
            if kept and field.number not in LAYERS.values():
                settings += source.read(begin, field.stop)
    return bytes(settings)


def _skeleton(name: str, net: NetRecord, file: OpenFile, version: int) -> list[Piece | _Slot]:
    """Return the fields of the net in the file, with a slot for each layer of the model."""
    renamed = name != net.name
    new_name: list[Piece | _Slot] = [_text_field(NET_NAME, name)] if renamed else []
    skeleton: list[Piece | _Slot] = []
    for begin, field in _records(file, 0, len(file)):
        is_layer = field.number in LAYERS.values() and field.wire_type is WireType.LENGTH
        if is_layer and field.start in net.claimed:
            skeleton.append(_Slot(begin, field.start, field.stop))
        elif version != net.version and (is_layer or _is_lost(net, field)):
            continue  # Caffe drops these when it upgrades the net
        elif renamed and (field.number, field.wire_type) == (NET_NAME, WireType.LENGTH):
            skeleton += new_name
            new_name = []
        else:
            skeleton.append(FileRange(file, begin, field.stop))
    return [*new_name, *skeleton]


def _without_slots(skeleton: list[Piece | _Slot]) -> list[Piece]:
    return [piece for piece in skeleton if not isinstance(piece, _Slot)]


def _is_lost(net: NetRecord, field: Field) -> bool:
    return net.version == 0 and field.number == INPUT_SHAPE


def _records(file: OpenFile, start: int, stop: int) -> Iterator[tuple[int, Field]]:
    """Yield the fields of a message, each with the offset of its tag."""
    begin = start
    with WireReader.of_file(file) as reader:
        for field in reader.fields(start, stop):
            yield begin, field
            begin = field.stop


def _text_field(number: int, text: str) -> bytes:
    return length_field(number, encoded(text))
