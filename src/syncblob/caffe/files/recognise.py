"""Recognising messages by their fields: Caffe's, and those of other frameworks.

A protobuf message has no signature: nearly any bytes are one, or begin like one, and nearly every
message can be read as one of Caffe's. The nodes of a graph of TensorFlow have the number of a net's
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from google.protobuf.message import Message

from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    LayerParameter,
    NetParameter,
    SolverState,
    V1LayerParameter,
)
from syncblob.caffe.files.file_types import MESSAGES, head_of, is_text, type_of
from syncblob.caffe.messages.fields import Write
from syncblob.caffe.messages.pieces import Piece, Plan, require_size, write_pieces
from syncblob.caffe.messages.read_blobproto import MessageIndex, wire_types_of
from syncblob.caffe.messages.wire import Field, WireReader, WireType
from syncblob.errors import ModelFileError

# What to look at: enough to tell what a file is, also of a graph with millions of nodes.
_MOST_FIELDS = 1000
_MOST_PARTS = 10
_MOST_NAMES = 100
_LONGEST_NAME = 1 << 12
_CONTROL = re.compile(rb"[\0-\x08\n-\x1f\x7f]")
_LENGTH, _VARINT = WireType.LENGTH, WireType.VARINT
# The least number of the field of a model of Core ML with the network, by its type.
_CORE_ML_TYPES = 200

_NAME = NetParameter.NAME_FIELD_NUMBER
_LAYER = NetParameter.LAYER_FIELD_NUMBER
_LAYERS = {_LAYER: LayerParameter, NetParameter.LAYERS_FIELD_NUMBER: V1LayerParameter}
_OF_A_LAYER = {"name", "type", "blobs", "layer"}
# Many messages begin with a number, such as a version.
_FEW_NUMBERS = {(number, _VARINT) for number in range(1, 4)}


class Part:
    """A file, or the payload of a field of it that may be a message, and its first fields."""

    def __init__(self, reader: WireReader, start: int = 0, stop: int | None = None) -> None:
        self._reader, self._start = reader, start
        self._stop: int = len(reader.contents) if stop is None else stop
        self.fields: list[Field] = []
        """Up to one that is damaged; none of a damaged payload."""
        self.damage: ModelFileError | None = None
        # A reader counts fields up to a limit, so each part gets its own.
        fields = WireReader(reader.contents, reader.path).fields(start, self._stop)
        try:
            self.fields.extend(islice(fields, _MOST_FIELDS))
        except ModelFileError as error:
            self.damage = error.with_traceback(None)  # its frames refer to this
            if start:
                self.fields.clear()
        self.kinds: set[tuple[int, WireType]] = {
            (field.number, field.wire_type) for field in self.fields
        }

    def parts(self, number: int) -> Iterator[Part]:
        """Yield the payloads of the first fields with a number and a length."""
        found = (field for field in self.fields if field[:2] == (number, _LENGTH))
        for field in islice(found, _MOST_PARTS):
            yield Part(self._reader, field.start, field.stop)

    def has(self, number: int, *kinds: tuple[int, WireType]) -> bool:
        """Return whether one of the first payloads of a number has all these fields."""
        return any({*kinds} <= part.kinds for part in self.parts(number))

    def is_name(self) -> bool:
        """Return whether it may be a name: it has no control characters, or is no message."""
        stop = min(self._stop, self._start + _LONGEST_NAME)
        return not self.fields or not _CONTROL.search(self._reader.read(self._start, stop))

    def is_layer(self, kind: type[Message]) -> bool:
        """Return whether it has a name, a type or a blob; or at least no field that Caffe lacks."""
        known = kind.DESCRIPTOR.fields_by_number
        if any(number in known and known[number].name in _OF_A_LAYER for number, _ in self.kinds):
            return True
        return not self.damage and all(_knows(kind, *one) for one in self.kinds)


# --- writing --------------------------------------------------------------------------------------


def plan_message(pieces: Sequence[Piece], kind: str, contents: str) -> Write:
    """Return the function that writes a file; raise ValueError if it could not be read again."""
    require_size(pieces, f"a .{kind}", contents)
    reader = WireReader(Plan(pieces))
    try:
        MessageIndex(reader, MESSAGES[kind].message or BlobProto)
        require_message(reader, kind)
    except ModelFileError as error:
        raise ValueError(f"{contents} could not be opened again: {error.message}") from error
    return partial(write_pieces, pieces)


# --- refusals -------------------------------------------------------------------------------------


def require_message(reader: WireReader, wanted: str = "caffemodel") -> None:
    """Refuse a file that is not the expected message: empty, not protobuf, or another one."""
    message = refuse_other_formats(reader)
    found = possible_messages(message)
    expected = MESSAGES[wanted].words.partition(" (")[0]
    if not found:
        why = _why_no_net(message) or _why_no_name(message, 2) or "most of its fields are unknown"
        raise reader.error(f"expected {expected}, got a message of another program: {why}", 0)
    if wanted not in found:
        row = MESSAGES[found[0]]
        raise reader.error(f"this is {row.words}, not {expected}; {row.opener}", 0)


def refuse_other_formats(reader: WireReader) -> Part:
    """Return the message that fills a file."""
    contents = reader.contents
    if not len(contents):
        raise reader.error(
            "expected a file with blobs, got an empty file; copy or download it again", 0
        )
    if row := type_of(contents):
        raise reader.error(f"this is {row.words}; {row.opener}", 0)
    message = Part(reader)
    if found := _framework_of(message, reader.path or ""):
        raise reader.error(
            f"this is {found}, not a file of Caffe's; save its weights as .safetensors or .npz "
            f"with its own library",
            0,
        )
    if message.damage and is_text(head_of(contents)):  # a message may be printable, too
        reason = "expected a file of weights, got a text; Caffe's weights are in a .caffemodel"
        raise reader.error(reason, 0)
    return message


def possible_messages(message: Part) -> tuple[str, ...]:
    """Return the types of message that have most of its fields; none if most are unknown."""
    kinds, why_no_net = message.kinds, _why_no_net(message)
    layers = kinds & {(number, _LENGTH) for number in _LAYERS}
    is_state = (SolverState.ITER_FIELD_NUMBER, _VARINT) in kinds and (_LAYER, _LENGTH) not in layers
    if layers and not why_no_net and not is_state:
        return ("caffemodel",)  # other fields are those of a fork, or damaged
    if message.damage:
        raise message.damage
    counts = {
        name: sum(_knows(row.message, *kind) for kind in kinds) for name, row in MESSAGES.items()
    }
    if (_NAME, _LENGTH) not in kinds or why_no_net:
        counts["caffemodel"] = 0  # a message with inputs alone is no net
    elif 2 * counts["caffemodel"] == len(kinds):
        counts["caffemodel"] += 1  # a fork may have as many fields of its own
    if _why_no_name(message, SolverState.LEARNED_NET_FIELD_NUMBER):
        counts["solverstate"] = 0
    most = max(counts.values())
    if kinds <= _FEW_NUMBERS or 2 * most <= len(kinds):
        return ()
    return tuple(name for name in counts if counts[name] == most)


def _knows(kind: type[Message] | None, number: int, wire_type: WireType) -> bool:
    known = kind.DESCRIPTOR.fields_by_number  # type: ignore[union-attr]  # of each of MESSAGES
    return number in known and wire_type in wire_types_of(known[number])


def _why_no_net(message: Part) -> str:
    """Return what speaks against a NetParameter, in words; ``""`` for nothing."""
    why = ""
    for number, kind in _LAYERS.items():
        for part in message.parts(number):
            if part.is_layer(kind):
                return ""
            why = "none of its layers is one of Caffe's"
    if why:
        return why
    count = sum(field[:2] == (_NAME, _LENGTH) for field in message.fields)
    return f"it has {count} names" if count > _MOST_NAMES else _why_no_name(message, _NAME)


def _why_no_name(message: Part, number: int) -> str:
    """Return what speaks against the names in fields of a number; ``""`` for nothing."""
    return "" if all(part.is_name() for part in message.parts(number)) else "its name is a message"


def _framework_of(message: Part, path: str) -> str:
    """Return which file of another framework it is, in words; ``""`` if none that is known."""
    if path.lower().endswith(".mnn") and message.damage:
        return "a model of MNN's (.mnn)"  # which is no message at all
    if (_LAYER, _LENGTH) in message.kinds:
        return ""  # of these, only Caffe's nets have this field
    has, number, text = message.has, _VARINT, _LENGTH
    versioned = (1, number) in message.kinds
    fits = {
        "a model of ONNX": versioned and has(7, (2, text)),
        "a model of Core ML": versioned
        and has(2, (1, text))
        and any(field.number >= _CORE_ML_TYPES for field in message.fields),
        "a model of TensorFlow (SavedModel)": versioned and has(2, (1, text), (2, text)),
        "a model of PaddlePaddle, without weights (ProgramDesc)": has(
            1, (1, number), (2, number), (3, text)
        ),
        "a graph of TensorFlow (GraphDef)": has(1, (1, text), (2, text)),
        "a net of Caffe2 (NetDef)": has(2, (1, text), (4, text))
        or any(part.has(5, (1, text)) for part in message.parts(2)),
    }
    return next((words for words, fit in fits.items() if fit), "")
