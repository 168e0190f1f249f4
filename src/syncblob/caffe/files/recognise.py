"""Recognising messages by their fields: Caffe's, and those of other frameworks.

A protobuf message has no signature: nearly any bytes are one, or begin like one, and nearly every
message can be read as one of Caffe's. The nodes of a graph of TensorFlow have the number of a net's
name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import islice

from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    LayerParameter,
    NetParameter,
    SolverState,
    V1LayerParameter,
)
from syncblob.caffe.files.file_types import MESSAGES, head_of, is_text, type_of
from syncblob.caffe.messages.fields import LEGACY_NAMES, Write
from syncblob.caffe.messages.pieces import Piece, Plan, require_size, write_pieces
from syncblob.caffe.messages.read_blobproto import MessageIndex, wire_types_of
from syncblob.caffe.messages.wire import Contents, Field, WireReader, WireType
from syncblob.errors import ModelFileError

# The fields to look at: enough to tell what a file is, also of a graph with millions.
_MOST_FIELDS = 1000
_MOST_NAMES = 100
_LONGEST_NAME = 1 << 12
_CONTROL = re.compile(rb"[\0-\x08\n-\x1f\x7f]")
_LENGTH, _VARINT = WireType.LENGTH, WireType.VARINT
# The least number of the field of a model of Core ML with the network, by its type.
_CORE_ML_TYPES = 200

_NAME = NetParameter.NAME_FIELD_NUMBER
_LAYERS = {
    NetParameter.LAYER_FIELD_NUMBER: LayerParameter,
    NetParameter.LAYERS_FIELD_NUMBER: V1LayerParameter,
}
_OF_A_LAYER = {"name", "type", "blobs", "layer"}
_DIMS = {BlobProto.DESCRIPTOR.fields_by_name[name].number for name in LEGACY_NAMES}


class Part:
    """A file, or the payload of a field of it that may be a message."""

    def __init__(self, reader: WireReader, start: int = 0, stop: int | None = None) -> None:
        self.reader = reader
        self.contents: Contents = reader.contents
        self.start = start
        self.stop: int = len(self.contents) if stop is None else stop
        self.damage: ModelFileError | None = None
        """The error of the first damaged field; known after a use of `fields`."""

    @cached_property
    def fields(self) -> list[Field]:
        """The first fields, up to one that is damaged; none of a damaged payload."""
        found: list[Field] = []
        # A reader counts fields up to a limit, so each part gets its own.
        fields = WireReader(self.contents, self.reader.path).fields(self.start, self.stop)
        try:
            found.extend(islice(fields, _MOST_FIELDS))
        except ModelFileError as error:
            self.damage = error.with_traceback(None)  # its frames refer to this
        return [] if self.damage and self.start else found

    @cached_property
    def kinds(self) -> set[tuple[int, WireType]]:
        return {(field.number, field.wire_type) for field in self.fields}

    def parts(self, number: int) -> list[Part]:
        """Return the payloads of the first fields with a number and a length."""
        return [
            Part(self.reader, field.start, field.stop)
            for field in self.fields
            if field[:2] == (number, _LENGTH)
        ]

    def is_text(self) -> bool:
        """Return whether it may be a text: it has no control characters."""
        stop = min(self.stop, self.start + _LONGEST_NAME)
        return _CONTROL.search(bytes(self.contents.read(self.start, stop))) is None


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
    kinds: set[tuple[int, WireType]] = set()
    for field in message.fields:
        kinds.add((field.number, field.wire_type))
        if field.number == NetParameter.LAYER_FIELD_NUMBER:
            break  # only a net has this field, and its other layers may be many
    else:
        if message.damage:
            raise message.damage
    counts = {
        name: sum(_knows(row.message, *kind) for kind in kinds) for name, row in MESSAGES.items()
    }
    numbers = {number for number, _ in kinds}
    layers = kinds & {(number, _LENGTH) for number in _LAYERS}
    is_named = (_NAME, _LENGTH) in kinds
    if not numbers & {_NAME, *_LAYERS} or _why_no_net(message):
        counts["caffemodel"] = 0  # a message with inputs alone is no net
    elif layers:
        # With a layer of Caffe's, other fields are those of a fork.
        wrong = {kind for kind in kinds if kind[0] in {_NAME, *_LAYERS}} - layers
        counts["caffemodel"] = len(kinds) - len(wrong - {(_NAME, _LENGTH)})
    elif is_named and 2 * counts["caffemodel"] == len(kinds):
        counts["caffemodel"] += 1  # a fork may have as many fields of its own
    # Many messages begin with a number, such as a version.
    if numbers == {SolverState.ITER_FIELD_NUMBER} or _why_no_name(message, 2):
        counts["solverstate"] = 0
    if numbers < _DIMS:
        counts["binaryproto"] = 0
    if not _has_blob(message):
        counts["blobs"] = 0
    most = max(counts.values())
    found = tuple(name for name in counts if counts[name] == most and 2 * most > len(kinds))
    # A name and a row of blobs have the same number.
    return ("blobs",) if found == ("caffemodel", "blobs") else found


def _knows(kind: object, number: int, wire_type: WireType) -> bool:
    known = kind.DESCRIPTOR.fields_by_number  # type: ignore[attr-defined]  # a class of messages
    return number in known and wire_type in wire_types_of(known[number])


def _has_blob(message: Part) -> bool:
    """Return whether the first field is a blob, whose shape and values agree, and not a name."""
    field = message.fields[0]
    try:
        parsed = MessageIndex(message.reader, BlobProto, field.start, field.stop)
        parsed.blob(parsed.message)
    except ModelFileError:
        return False
    return True


# --- what speaks against a message of Caffe's -----------------------------------------------------


def _why_no_net(message: Part) -> str:
    """Return what speaks against a NetParameter, in words; ``""`` for nothing."""
    layers = [(kind, part) for number, kind in _LAYERS.items() for part in message.parts(number)]
    if any(_is_layer(kind, part) for kind, part in layers):
        return ""
    if layers:
        return "none of its layers is one of Caffe's"
    count = len(message.parts(_NAME))
    return f"it has {count} names" if count > _MOST_NAMES else _why_no_name(message, _NAME)


def _why_no_name(message: Part, number: int) -> str:
    """Return what speaks against the names in fields of a number; ``""`` for nothing."""
    are_names = all(part.is_text() or not part.fields for part in message.parts(number))
    return "" if are_names else "its name is a message"


def _is_layer(kind: type[LayerParameter | V1LayerParameter], part: Part) -> bool:
    """Return whether it has a name, a type or a blob; or at least no field that Caffe lacks."""
    known = kind.DESCRIPTOR.fields_by_number
    if any(number in known and known[number].name in _OF_A_LAYER for number, _ in part.kinds):
        return True
    is_empty = not part.kinds and part.start < part.stop
    return not is_empty and all(_knows(kind, *one) for one in part.kinds)


# --- messages of other frameworks -----------------------------------------------------------------


def _framework_of(message: Part, path: str) -> str:
    """Return which file of another framework it is, in words; ``""`` if none that is known."""
    fields = message.fields
    begins = len(fields) == _MOST_FIELDS or (bool(fields) and fields[-1].stop == message.stop)
    if path.lower().endswith(".mnn") and not begins:
        return "a model of MNN's (.mnn)"  # which is no message at all
    kinds = message.kinds
    numbers = {number for number, _ in kinds}
    first = {number: message.parts(number)[0] for number, kind in kinds if kind is _LENGTH}
    inner = {number: part.kinds for number, part in first.items()}
    versioned = (1, _VARINT) in kinds
    paddle = {(1, _VARINT), (2, _VARINT)} <= inner.get(1, set()) and numbers <= {1, 4, 5}
    fits = {
        # Field 7 of a blob is its shape, which only has field 1.
        "a model of ONNX": versioned and any(number > 1 for number, _ in inner.get(7, ())),
        "a model of Core ML": versioned and inner.get(2) and max(first) >= _CORE_ML_TYPES,
        "a model of TensorFlow (SavedModel)": versioned
        and {(1, _LENGTH), (2, _LENGTH)} <= inner.get(2, set())
        and numbers <= {1, 2},
        # Fields 3 and 4 of a blob are height and width, and numbers.
        "a model of PaddlePaddle, without weights (ProgramDesc)": paddle
        and {(3, _LENGTH), (4, _LENGTH)} & inner[1],
        # A node has a name, an operation, inputs and attributes.
        "a graph of TensorFlow (GraphDef)": numbers <= {1, 2, 3, 4}
        and any(
            {(1, _LENGTH), (2, _LENGTH)} <= part.kinds <= {(at, _LENGTH) for at in range(1, 9)}
            for part in message.parts(1)
        ),
        "a net of Caffe2 (NetDef)": not versioned and any(map(_is_operator, message.parts(2))),
    }
    return next((words for words, fit in fits.items() if fit), "")


def _is_operator(part: Part) -> bool:
    """Return whether it is an operator of Caffe2, and no layer: a type with arguments or inputs."""
    if (4, _LENGTH) not in part.kinds or (5, _VARINT) in part.kinds:
        return False
    names = part.parts(1)
    is_input = bool(names) and names[0].stop > names[0].start and names[0].is_text()
    return is_input or any((1, _LENGTH) in argument.kinds for argument in part.parts(5))
