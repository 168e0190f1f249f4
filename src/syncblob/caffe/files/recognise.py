"""Recognising Caffe's messages by their fields.

A protobuf message has no signature: nearly any bytes are one, or begin like one, and nearly every
message can be read as one of Caffe's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from itertools import islice

from google.protobuf.message import Message

from syncblob.caffe._pb.caffe_pb2 import NetParameter, SolverState
from syncblob.caffe.files.file_types import (
    ELSEWHERE,
    MESSAGES,
    FileType,
    head_of,
    is_text,
    type_of,
    type_of_name,
)
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.caffe.messages.read_blobproto import wire_types_of
from syncblob.caffe.messages.wire import WireReader, WireType
from syncblob.errors import ModelFileError

# The fields to look at: enough to tell what a file is, also of a graph with millions.
_MOST_FIELDS = 1000
_LONGEST_NAME = 1 << 12
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f\x7f]")

_LAYERS = {
    (NetParameter.LAYER_FIELD_NUMBER, WireType.LENGTH),
    (NetParameter.LAYERS_FIELD_NUMBER, WireType.LENGTH),
}
_NAMES = {
    "caffemodel": (NetParameter.NAME_FIELD_NUMBER, WireType.LENGTH),
    "solverstate": (SolverState.LEARNED_NET_FIELD_NUMBER, WireType.LENGTH),
}
# Many messages begin with a number, such as a version.
_FEW_NUMBERS = {(number, WireType.VARINT) for number in range(1, 4)}


@contextlib.contextmanager
def message_reader(file: OpenFile) -> Iterator[WireReader]:
    """Return a context manager that yields a reader of a file, whose errors say what it may be."""
    try:
        yield WireReader(file, file.path)
    except ModelFileError as error:
        file.require_unchanged()
        row = _named_framework(file.path)
        if row is None:
            raise
        message = f"{error.message}; by its name, it is {row.words}; {row.opener}"
        raise ModelFileError(message, path=error.path, offset=error.offset) from error
    file.require_unchanged()


def _named_framework(path: str | None) -> FileType | None:
    """Return the format of another framework that the name of a file says, or None."""
    row = type_of_name(path or "")[0]
    return row if row is not None and row.opener == ELSEWHERE else None


def require_message(reader: WireReader, wanted: str = "caffemodel") -> None:
    """Refuse a file that is not the expected message: empty, not protobuf, or another one."""
    refuse_other_formats(reader)
    found = possible_messages(reader)
    expected = MESSAGES[wanted].words.partition(" (")[0]
    if not found:
        raise reader.error(
            f"expected {expected}, got a message of another program: most of its fields are "
            f"unknown, or its name is not a text",
            0,
        )
    if wanted not in found:
        row = MESSAGES[found[0]]
        raise reader.error(f"this is {row.words}, not {expected}; {row.opener}", 0)


def refuse_other_formats(reader: WireReader) -> None:
    """Refuse a file that its first bytes show not to be a message."""
    if not len(reader.contents):
        raise reader.error(
            "expected a file with blobs, got an empty file; copy or download it again", 0
        )
    if row := type_of(reader.contents):
        raise reader.error(f"this is {row.words}; {row.opener}", 0)
    if is_text(head_of(reader.contents)):
        raise reader.error(
            "expected a file of weights, got a text; Caffe's weights are in a .caffemodel", 0
        )


def possible_messages(reader: WireReader) -> tuple[str, ...]:
    """Return the types of message that have most fields of a file; none if most are unknown."""
    contents = reader.contents
    kinds: set[tuple[int, WireType]] = set()
    binary: set[tuple[int, WireType]] = set()
    # A reader counts fields up to a limit.
    fields = WireReader(contents, reader.path).fields(0, len(contents))
    for field in islice(fields, _MOST_FIELDS):
        kind = field.number, field.wire_type
        kinds.add(kind)
        if field.number == NetParameter.LAYER_FIELD_NUMBER:
            return ("caffemodel",)  # only a net has this field; others may be of a fork
        stop = min(field.stop, field.start + _LONGEST_NAME)
        if kind in _NAMES.values() and _CONTROL.search(contents.read(field.start, stop)):
            binary.add(kind)
    counts = {
        name: sum(_knows(row.message, *kind) for kind in kinds)
        for name, row in MESSAGES.items()
        if _NAMES.get(name) not in binary
    }
    if not kinds & {_NAMES["caffemodel"], *_LAYERS}:
        counts.pop("caffemodel", None)  # a message with inputs alone is no net
    elif _NAMES["caffemodel"] in kinds and 2 * counts.get("caffemodel", 0) == len(kinds):
        counts["caffemodel"] += 1  # a fork may have as many fields of its own
    most = max(counts.values(), default=0)
    if kinds <= _FEW_NUMBERS or 2 * most <= len(kinds):
        return ()
    found = tuple(name for name in counts if counts[name] == most)
    # A short message of another framework may have no other fields than a blob or a state.
    return () if _named_framework(reader.path) and found != ("caffemodel",) else found


def _knows(message: type[Message] | None, number: int, wire_type: WireType) -> bool:
    known = message.DESCRIPTOR.fields_by_number  # type: ignore[union-attr]  # of each of MESSAGES
    return number in known and wire_type in wire_types_of(known[number])
