"""Recognising files of other frameworks: by their first bytes, or by the fields of a message.

Many of them are protobuf messages, and nearly every message can be read as one of Caffe's: the
nodes of a graph of TensorFlow have the number of a net's name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from syncblob.caffe._pb.caffe_pb2 import LayerParameter, NetParameter, V1LayerParameter
from syncblob.caffe.messages.read_blobproto import wire_types_of
from syncblob.caffe.messages.wire import Buffer, Field, WireReader, WireType
from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from syncblob.caffe.messages.wire import Contents

_SIGNATURES = {
    rb".{2}\0\0TFL3": "a model of TensorFlow Lite (.tflite)",
    rb"\x12\x01\0{6}": "a file of MXNet's (.params)",
    rb"MATLAB 5\.0 MAT-file": "an older file of MATLAB's (.mat)",
    rb"\xdd\x85\x76\0": "a definition of ncnn's (.param.bin), without weights",
    rb"\0{4}[\1\2]\0{3}[\0-\xff]\0{3}": "a file of Darknet's (.weights)",
}
_TEXTS = {
    rb'\s*\{\s*"nodes"\s*:': "a definition of MXNet's (.json), without weights",
    rb"7767517\s": "a definition of ncnn's (.param), without weights",
    rb"\s*\[(net|network|convolutional)\]": "a definition of Darknet's (.cfg), without weights",
    rb"\s*node\s*\{": "a graph of TensorFlow's as text (.pbtxt)",
}

# Enough to tell; a large graph has more.
_MOST_FIELDS = 1000
_MOST_NAMES = 100
_LONGEST_NAME = 1 << 12
_CONTROL = re.compile(rb"[\0-\x08\n-\x1f\x7f]")
_LENGTH, _VARINT = WireType.LENGTH, WireType.VARINT
_CORE_ML_TYPES = 200
"""The least number of the field with the network, by its type."""


class Part:
    """A file, or the payload of a field of it that may be a message."""

    def __init__(self, contents: Contents, start: int = 0, stop: int | None = None) -> None:
        self.contents = contents
        self.start = start
        self.stop: int = len(contents) if stop is None else stop

    @cached_property
    def fields(self) -> list[Field]:
        """The first fields, up to one that is damaged; none of a damaged payload."""
        found: list[Field] = []
        with contextlib.suppress(ModelFileError):
            # A new reader, because each has a limit of fields.
            for field in WireReader(self.contents).fields(self.start, self.stop):
                found.append(field)
                if len(found) == _MOST_FIELDS:
                    return found
            return found
        return [] if self.start else found

    def kinds(self) -> set[tuple[int, WireType]]:
        """Return the numbers and wire types of the fields."""
        return {(field.number, field.wire_type) for field in self.fields}

    def parts(self, number: int) -> list[Part]:
        """Return the payloads of the first fields with a number and a length."""
        return [
            Part(self.contents, field.start, field.stop)
            for field in self.fields
            if field[:2] == (number, _LENGTH)
        ]

    def is_text(self) -> bool:
        """Return whether it may be a text: it has no control characters."""
        stop = min(self.stop, self.start + _LONGEST_NAME)
        return _CONTROL.search(bytes(self.contents.read(self.start, stop))) is None

    def is_name(self) -> bool:
        """Return whether it may be a name: a text, or at least no message."""
        return self.is_text() or not self.fields


def framework_of(message: Part, path: str | None, head: bytes, *, is_text: bool) -> str:
    """Return which file of another framework it is, in words; ``""`` if none that is known."""
    for signature, description in (_TEXTS if is_text else _SIGNATURES).items():
        if re.match(signature, head, re.DOTALL):
            return description
    if (path or "").lower().endswith(".mnn") and not _is_sound(message):
        return "a model of MNN's (.mnn)"
    return _of_message(message)


def _of_message(message: Part) -> str:
    kinds = message.kinds()
    numbers = {number for number, _ in kinds}
    first = {number: message.parts(number)[0] for number, kind in kinds if kind is _LENGTH}
    inner = {number: part.kinds() for number, part in first.items()}
    versioned = (1, _VARINT) in kinds
    paddle = {(1, _VARINT), (2, _VARINT)} <= inner.get(1, set()) and numbers <= {1, 4, 5}
    fits = {
        # A blob has its shape in 7, and this one field.
        "a model of ONNX": versioned and any(number > 1 for number, _ in inner.get(7, ())),
        "a model of Core ML": versioned and inner.get(2) and max(first) >= _CORE_ML_TYPES,
        "a model of TensorFlow (SavedModel)": versioned
        and {(1, _LENGTH), (2, _LENGTH)} <= inner.get(2, set())
        and numbers <= {1, 2},
        # A blob has its height and width in 3 and 4, which are numbers.
        "a model of PaddlePaddle, without weights (ProgramDesc)": paddle
        and {(3, _LENGTH), (4, _LENGTH)} & inner[1],
        "a graph of TensorFlow (GraphDef)": numbers <= {1, 2, 3, 4}
        and any(map(_is_node, message.parts(1))),
        "a net of Caffe2 (NetDef)": not versioned and any(map(_is_operator, message.parts(2))),
    }
    return next((description for description, fit in fits.items() if fit), "")


def _is_sound(message: Part) -> bool:
    """Return whether it begins like a message at all."""
    fields = message.fields
    return len(fields) == _MOST_FIELDS or (bool(fields) and fields[-1].stop == message.stop)


def _is_node(part: Part) -> bool:
    """Return whether it is a node of TensorFlow: a name, an operation, inputs and attributes."""
    kinds = part.kinds()
    return {(1, _LENGTH), (2, _LENGTH)} <= kinds <= {(number, _LENGTH) for number in range(1, 9)}


def _is_operator(part: Part) -> bool:
    """Return whether it is an operator of Caffe2, and no layer: a type with arguments or inputs."""
    kinds = part.kinds()
    if (4, _LENGTH) not in kinds or (5, _VARINT) in kinds:
        return False
    names = part.parts(1)
    arguments = part.parts(5)
    is_input = bool(names) and names[0].stop > names[0].start and names[0].is_text()
    return is_input or any((1, _LENGTH) in argument.kinds() for argument in arguments)


# --- what speaks against a message of Caffe's -----------------------------------------------------

_LAYERS = {
    NetParameter.LAYER_FIELD_NUMBER: LayerParameter,
    NetParameter.LAYERS_FIELD_NUMBER: V1LayerParameter,
}
_TELLING = {"name", "type", "blobs", "layer"}


def may_be_name(text: bytes) -> bool:
    """Return whether a net without layers may have a name, so that it is recognised."""
    return Part(Buffer(b"." + text), 1, 1 + len(text)).is_name()


def why_no_net(message: Part) -> str:
    """Return what speaks against a NetParameter, in words; ``""`` for nothing."""
    layers = [(number, part) for number in _LAYERS for part in message.parts(number)]
    if any(_is_layer(_LAYERS[number], part) for number, part in layers):
        return ""
    if layers:
        return "none of its layers is one of Caffe's"
    names = message.parts(NetParameter.NAME_FIELD_NUMBER)
    if len(names) > _MOST_NAMES:
        return f"it has {len(names)} names"
    return why_no_name(names)


def why_no_state(message: Part) -> str:
    """Return what speaks against a SolverState, in words; ``""`` for nothing."""
    return why_no_name(message.parts(2))


def why_no_name(names: Iterable[Part]) -> str:
    """Return what speaks against names, in words; ``""`` for nothing."""
    return "" if all(map(Part.is_name, names)) else "its name is a message"


def _is_layer(kind: type[LayerParameter | V1LayerParameter], part: Part) -> bool:
    """Return whether it has a name, a type or a blob; or at least no field that Caffe lacks."""
    kinds, known = part.kinds(), kind.DESCRIPTOR.fields_by_number
    names = {known[number].name for number, _ in kinds if number in known}
    return bool(names & _TELLING) or (
        all(number in known and type_ in wire_types_of(known[number]) for number, type_ in kinds)
        and (bool(kinds) or part.start == part.stop)
    )
