"""Protobuf's wire format: fields are located in a file or a buffer, and their payloads not copied.

A field is a *tag*, a varint with its number and wire type, and a payload, whose end follows from
the wire type. The rules are those of protobuf's own parsers (C++ and upb): varints may be longer
than necessary, values up to 10 bytes, tags and lengths up to 5 bytes and 32 bits; field number 0,
wire types 6 and 7, a length beyond 2**31 - 1 and anything that overruns the end of its message are
errors. So are groups, which Caffe and its forks do not have, and too many fields, values aside, so
that a file of millions of tiny fields is refused within a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe.messages.fields import MOST_FIELDS
from syncblob.caffe.messages.open_file import OpenFile
from syncblob.errors import ModelFileError

_MAX_LENGTH = 2**31 - 1
_LONGEST_VALUE = 10
_LONGEST_TAG = 5

_LAST_WINDOW = 1 << 18

_READ_AHEAD = 1 << 12
"""Bytes to read at a time while looking for fields, which lie close together."""
_LONGEST_HEAD = 32
"""More bytes than a tag, its length or number, and the next tag can have."""


class WireType(IntEnum):
    """The layout of the payload of a field."""

    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    GROUP_START = 3
    GROUP_END = 4
    FIXED32 = 5


_WIRE_TYPES = tuple(WireType)
_WIDTHS = {WireType.FIXED32: 4, WireType.FIXED64: 8}


class Field(NamedTuple):
    """One field, or a run of fixed-width fields that repeat the same tag."""

    number: int
    wire_type: WireType
    start: int
    """Offset of the (first) payload."""
    stop: int
    records: int = 1
    """The number of fields in the run. Always 1 except for FIXED32 and FIXED64."""
    stride: int = 0
    """Bytes from one payload of the run to the next."""


class Buffer:
    """Bytes in memory, of any object with the buffer protocol, which are not copied."""

    __slots__ = ("_bytes",)

    def __init__(self, contents: bytes | bytearray | memoryview) -> None:
        self._bytes = memoryview(contents).cast("B")

    def __len__(self) -> int:
        return len(self._bytes)

    def read(self, start: int, stop: int) -> memoryview:
        return self._bytes[start:stop]

    def read_into(self, target: NDArray[np.uint8], offset: int) -> None:
        target.data[:] = self._bytes[offset : offset + len(target)]


class Contents(Protocol):
    """The bytes of a file or a buffer."""

    def __len__(self) -> int: ...
    def read(self, start: int, stop: int, /) -> memoryview: ...


class WireReader:
    """Bytes to find fields in; for errors, the path of the file and the name of the layer."""

    __slots__ = ("_begin", "_fields", "_stop", "_window", "contents", "layer", "path")

    def __init__(self, contents: Contents, path: str | None = None) -> None:
        self.contents: Contents = contents
        self.path: str | None = path
        self.layer: str | None = None
        self._fields = 0
        # Bytes read ahead, the offset of the first one, and the offset from which on the head of a
        # field may be incomplete.
        self._window, self._begin, self._stop = memoryview(b""), 0, 0

    @classmethod
    @contextlib.contextmanager
    def of_file(cls, file: OpenFile) -> Iterator[Self]:
        """Return a context manager that yields a reader of a whole file."""
        try:
            yield cls(file, file.path)
        except ModelFileError:
            file.require_unchanged()
            raise
        file.require_unchanged()

    def error(self, message: str, offset: int) -> ModelFileError:
        return ModelFileError(message, path=self.path, offset=offset, layer=self.layer)

    @property
    def subject(self) -> str:
        """The name of the contents, for error messages."""
        return "message" if self.path is None else "file"

    def read(self, start: int, stop: int) -> memoryview:
        begin = self._begin
        if begin <= start and stop <= begin + len(self._window):
            return self._window[start - begin : stop - begin]
        return self.contents.read(start, stop)

    def fields(self, start: int, stop: int) -> Iterator[Field]:
        """Find the fields of the message in ``[start, stop)``, in order."""
        position = start
        while position < stop:
            field = self._field(position, stop)
            position = field.stop
            yield field

    def _no_message(self, problem: str, offset: int) -> ModelFileError:
        why = f"the {self.subject} is damaged, or no protobuf message at all"
        return self.error(f"{problem}: {why}", offset)

    def _field(self, position: int, stop: int) -> Field:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise self.error(f"expected at most {MOST_FIELDS} fields, got more", position)
        tag, start = self._varint(position, stop, _LONGEST_TAG)
        number = tag >> 3
        if number == 0 or tag >= 1 << 32:
            raise self._no_message(
                f"expected a field number from 1 to {2**29 - 1}, got {number}", position
            )
        if tag & 7 >= len(_WIRE_TYPES):
            raise self._no_message(
                f"field {number} has wire type {tag & 7}, which does not exist", position
            )
        wire_type = _WIRE_TYPES[tag & 7]
        if wire_type is WireType.LENGTH:
            length, start = self._varint(start, stop, _LONGEST_TAG)
            self._require_room(number, length, start, stop)
            return Field(number, wire_type, start, start + length)
        if wire_type is WireType.VARINT:
            return Field(number, wire_type, start, self._varint(start, stop)[1])
        if wire_type not in _WIDTHS:
            raise self._no_message(f"field {number} is a group", position)
        width = _WIDTHS[wire_type]
        self._require_room(number, width, start, stop)
        stride = start - position + width
        records = self._count_records(position, stop, stride) if start == position + 1 else 1
        return Field(number, wire_type, start, position + records * stride, records, stride)

    def _count_records(self, position: int, stop: int, stride: int) -> int:
        """Count the consecutive records of `stride` bytes with the same first byte."""
        tag = self.read(position, position + 1)[0]
        longest = (stop - position) // stride
        count = 1
        while count < longest:
            window = min(count, _LAST_WINDOW, longest - count)
            begin = position + count * stride
            tags = np.frombuffer(self.read(begin, begin + window * stride), np.uint8)[::stride]
            differs = tags != tag
            if differs.any():
                return count + int(differs.argmax())
            count += window
        return count

    def _varint(self, position: int, stop: int, longest: int = _LONGEST_VALUE) -> tuple[int, int]:
        """Decode one varint, all bits of it. Return its value and the offset after it."""
        if not self._begin <= position < self._stop:
            # Move the window to the head of the field that begins here.
            size = len(self.contents)
            end = min(position + _READ_AHEAD, size)
            self._window, self._begin = self.contents.read(position, end), position
            self._stop = size + 1 if end == size else end - _LONGEST_HEAD
        data, begin = self._window, self._begin
        if position < stop and (byte := data[position - begin]) < 1 << 7:
            return byte, position + 1
        value = shift = 0
        for place in range(position, min(stop, position + longest)):
            byte = data[place - begin]
            value |= (byte & 0x7F) << shift
            if byte < 1 << 7:
                return value, place + 1
            shift += 7
        if stop - position < longest:
            raise self.error(
                f"the number that starts here does not end: {self._cause_of_overrun(stop)}",
                position,
            )
        raise self._no_message(f"the number that starts here has over {longest} bytes", position)

    def _require_room(self, number: int, length: int, start: int, stop: int) -> None:
        """Raise ModelFileError if a payload overruns the end of its message or protobuf's limit."""
        if length > _MAX_LENGTH:
            raise self._no_message(
                f"field {number} claims {length} bytes, protobuf allows {_MAX_LENGTH}", start
            )
        if length > stop - start:
            raise self.error(
                f"field {number} claims {length} bytes from byte {start} on, but only "
                f"{stop - start} are there: {self._cause_of_overrun(stop)}",
                start,
            )

    def _cause_of_overrun(self, stop: int) -> str:
        """Explain why a field overruns the end of its message."""
        if stop == len(self.contents):
            return f"the {self.subject} is truncated"
        return f"the message around it ends at byte {stop}, so the {self.subject} is damaged"


# --- writing --------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Encode a non-negative integer."""
    encoded = bytearray()
    while value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def length_header(number: int, length: int) -> bytes:
    """Encode the tag and the length that precede a payload of `length` bytes."""
    return varint(number << 3 | WireType.LENGTH) + varint(length)


def length_field(number: int, payload: bytes) -> bytes:
    return length_header(number, len(payload)) + payload
