"""Compares the scanner with protobuf: both accept or both refuse, and find the same bits.

protobuf gets a definition of the messages with bytes for strings, and what it finds is interpreted
as Caffe does.

Known and intended differences: the scanner refuses shapes of more than 64 axes, groups, and Caffe's
fields with another wire type than Caffe's. It takes absent dimensions of the older formats as 1 if
there are values, which Caffe refuses. protobuf 7 accepts field number 0 within a group, unlike
other releases and Caffe.
"""

import math

import numpy as np
import pytest
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from syncblob.caffe._pb import caffe_pb2
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.prototxt import twin
from syncblob.caffe.messages.read_blobproto import MessageIndex
from syncblob.caffe.messages.wire import Buffer, WireReader
from syncblob.caffe.nets.layer import serialise
from syncblob.errors import ModelFileError

needs_upb = pytest.mark.skipif(
    api_implementation.Type() != "upb",
    reason="protobuf's pure Python parser ignores fields whose tag is longer than it need be, and "
    "refuses texts that are not UTF-8",
)

DIFFERENCES = (
    "got 0:",
    "is a group",
    "at most 64 axes",
    # For a tag or a length. Older releases of protobuf accept longer ones.
    "has over 5 bytes",
)


LEGACY = ("num", "channels", "height", "width")
VALUES = ("data", "diff", "double_data", "double_diff", "raw_data", "raw_diff")
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


def chosen_values(blob, name):
    """Return bytes and width of the values that Caffe uses; None if Caffe would stop."""
    if double := bits(blob, "double_" + name):
        return double, 8
    if getattr(blob, name) or not blob.HasField("raw_" + name):
        return bits(blob, name), 4
    kind = f"raw_{name}_type"
    width = {0: 8, 1: 4, 2: 2}.get(getattr(blob, kind)) if blob.HasField(kind) else None
    return None if width is None else (getattr(blob, "raw_" + name), width)


def as_caffe_chooses(blob, absent=0):
    """Return shape, dtype, data and diff as FromProto reads them; None if it fails.

    `absent`: the value of absent dimensions of the older formats.
    """
    dims = list(blob.shape.dim)
    if any(blob.HasField(name) for name in LEGACY):
        dims = [getattr(blob, name) if blob.HasField(name) else absent for name in LEGACY]
    chosen = [chosen_values(blob, name) for name in ("data", "diff")]
    if None in chosen:
        return None
    (data, width), (diff, diff_width) = chosen
    if any(dim < 0 for dim in dims) or len(blob.shape.dim) > 64:
        return None
    if math.prod(dim for dim in dims if dim) * width >= 2**63:
        return None
    count = math.prod(dims)
    if len(data) != count * width or (diff and len(diff) != count * diff_width):
        return None
    # A Blob has one dtype for data and diff.
    return tuple(dims), f"float{8 * max(width, diff_width if diff else 0)}", data, diff


def as_syncblob_chooses(blob):
    """Return what FromProto reads, or would read if absent legacy dimensions were 1."""
    chosen = as_caffe_chooses(blob)
    data = chosen_values(blob, "data")
    return as_caffe_chooses(blob, absent=1) if chosen is None and data and data[0] else chosen


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
    blobs = [as_syncblob_chooses(proto) for proto in protos]
    if None in blobs:
        raise RefusedError
    return blobs


def check(name, data, path=None):
    """Compare the two, and Caffe's rules, on a message of a name, in memory or in a file."""
    contents = Buffer(data) if path is None else OpenFile(path)
    try:
        message = MESSAGES[name].FromString(data)
        refuse_wrong_types(message)
        expected = blobs_as_caffe_reads_them(blobs_of(message))
    except (DecodeError, RefusedError):
        expected = None
    try:
        parsed = MessageIndex(WireReader(contents), getattr(caffe_pb2, name))
        found = [values_of(parsed.blob(blob), contents) for blob in blobs_of(parsed.message)]
    except ModelFileError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017  # success is right, too
        if expected is not None and not any(words in str(error) for words in DIFFERENCES):
            raise
        return
    assert found == expected
    assert without_values(parsed.message) == without_values(message)


def values_of(index, contents):
    """Return shape, dtype, data and diff of an index."""

    def read(values):
        array = np.empty(values.count, values.dtype)
        values.read_into(contents, array)
        return array.tobytes()

    diff = b"" if index.diff is None else read(index.diff)
    return index.shape, index.dtype.name, read(index.data), diff


def without_values(message):
    """Return the other fields of a message that Caffe has, as bytes."""
    for blob in blobs_of(message):
        for field in VALUES:
            blob.ClearField(field)
    message.DiscardUnknownFields()
    return serialise(message)
