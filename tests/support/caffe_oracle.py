"""The other reader: Caffe's files as parsed by protobuf and interpreted by Caffe.

protobuf gets a definition of the messages with bytes for strings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from syncblob.caffe._pb import caffe_pb2
from syncblob.caffe.messages.prototxt import twin

LEGACY = {1: "num", 2: "channels", 3: "height", 4: "width"}
LISTS = {5: "data", 6: "diff", 8: "double_data", 9: "double_diff"}
WIDTHS = {5: 4, 6: 4, 8: 8, 9: 8}
VARINT = 0
"""The wire type of enums."""

WALKED = (
    *("BlobShape", "BlobProto", "SolverState"),
    *("NetParameter", "LayerParameter", "V1LayerParameter", "V0LayerParameter"),
)
READ = """name layer layers type bottom top blobs num channels height width dim shape data diff
    double_data double_diff iter learned_net history current_step""".split()
"""The fields of these messages that must have the wire types of Caffe's."""


_FILE = twin(f"{caffe_pb2.DESCRIPTOR.package}.NetParameter", forks=False).DESCRIPTOR.file
MESSAGES = {name: GetMessageClass(_FILE.message_types_by_name[name]) for name in WALKED}
BlobProto = MESSAGES["BlobProto"]


@dataclass
class Contents:
    """All contents of a BlobProto, consistent or not."""

    legacy: dict[str, int]
    dims: list[int]
    lists: dict[str, bytes]
    raw_types: dict[str, int] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)


def bits(message, name):
    """Return a list of values as bytes, without conversion to Python floats."""
    only = BlobProto()
    only.CopyFrom(message)
    only.DiscardUnknownFields()
    for entry in BlobProto.DESCRIPTOR.fields:
        if entry.name != name:
            only.ClearField(entry.name)
    width = 8 if "double" in name else 4
    count = len(getattr(message, name))
    return only.SerializeToString()[-width * count :] if count else b""


def contents_of(message):
    def present(*names):
        return {name: getattr(message, name) for name in names if message.HasField(name)}

    return Contents(
        present(*LEGACY.values()),
        list(message.shape.dim),
        {name: bits(message, name) for name in LISTS.values()},
        present("raw_data_type", "raw_diff_type"),
        present("raw_data", "raw_diff"),
    )


def chosen_values(contents, name):
    """Return bytes and width of the values that Caffe uses; None if Caffe would stop."""
    if double := contents.lists["double_" + name]:
        return double, 8
    if contents.lists[name] or "raw_" + name not in contents.raw:
        return contents.lists[name], 4
    width = {0: 8, 1: 4, 2: 2}.get(contents.raw_types.get(f"raw_{name}_type"))
    return None if width is None else (contents.raw["raw_" + name], width)


def as_caffe_chooses(contents):
    """Return shape, dtype, data and diff as FromProto reads them; None if it fails."""
    dims = contents.dims
    if contents.legacy:
        dims = [contents.legacy.get(name, 0) for name in LEGACY.values()]
    chosen = [chosen_values(contents, name) for name in ("data", "diff")]
    if None in chosen:
        return None
    (data, width), (diff, diff_width) = chosen
    if any(dim < 0 for dim in dims) or len(contents.dims) > 64:
        return None
    if math.prod(dim for dim in dims if dim) * width >= 2**63:
        return None
    count = math.prod(dims)
    if len(data) != count * width or (diff and len(diff) != count * diff_width):
        return None
    # A Blob has one dtype for data and diff.
    return tuple(dims), f"float{8 * max(width, diff_width if diff else 0)}", data, diff


def as_syncblob_chooses(contents):
    """Return what FromProto reads, or would read if absent legacy dimensions were 1."""
    chosen = as_caffe_chooses(contents)
    data = chosen_values(contents, "data")
    if chosen is None and contents.legacy and data and data[0]:
        legacy = {name: contents.legacy.get(name, 1) for name in LEGACY.values()}
        chosen = as_caffe_chooses(replace(contents, legacy=legacy))
    return chosen


class RefusedError(Exception):
    """Caffe would stop here."""


def refuse_wrong_types(message):
    """Raise RefusedError if a field of Caffe has a wire type that Caffe's has not.

    A varint for an enum is right. protobuf keeps it as unknown where Caffe does not list the value.
    """
    walked = message.DESCRIPTOR.name in WALKED
    fields = [field for field in message.DESCRIPTOR.fields if walked and field.name in READ]
    known = {field.number for field in fields}
    enums = {field.number for field in fields if field.enum_type is not None}
    for unknown in UnknownFieldSet(message):
        unlisted_value = unknown.field_number in enums and unknown.wire_type == VARINT
        if unknown.field_number in known and not unlisted_value:
            raise RefusedError
    for entry, value in message.ListFields():
        if entry.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                refuse_wrong_types(part)


def blobs_of(message):
    """Return the BlobProtos in a message, which may be one."""
    match message.DESCRIPTOR.name:
        case "BlobProto":
            return [message]
        case "SolverState":
            return list(message.history)
    layers = [*message.layer, *message.layers, *(layer.layer for layer in message.layers)]
    return [blob for layer in layers for blob in layer.blobs]


def blobs_as_caffe_reads_them(protos):
    """Return blobs as `as_syncblob_chooses` does; RefusedError if FromProto would stop."""
    blobs = [as_syncblob_chooses(contents_of(proto)) for proto in protos]
    if None in blobs:
        raise RefusedError
    return blobs
