"""Protobuf's wire format, parsed in place: fields are located, payloads are never copied.

A message is a sequence of fields, each a *tag* and a payload. The tag is a varint with the number
of the field and one of six wire types. The wire type determines where the payload ends. A reader
skips fields whose number it does not know; this is how formats can be extended. protobuf also skips
a field that it knows if it has another wire type. Here this is an error (`WireReader.wrong_type`),
because such a file belongs to a fork that uses the number for something else, and what the rest of
it means is a guess.

The rules for valid messages are those of protobuf's own parsers (C++ and upb):

- varints may be longer than necessary: values up to 10 bytes, of which 64 bits count; tags and
  lengths up to 5 bytes and 32 bits;
- groups are skipped, up to 100 levels deep;
- field number 0, wire types 6 and 7, an unmatched end of a group, a length beyond 2**31 - 1 and
  anything that overruns the end of its message are errors.

In addition, the number of fields is limited, so that a file of millions of tiny fields, which no
program writes, is refused within a second. Values, packed or not, hardly count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from syncblob.errors import ModelFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.caffe.messages.disk import OpenFile

_MAX_DEPTH = 100
_MAX_LENGTH = 2**31 - 1
_MAX_FIELDS = 1 << 17
_LONGEST_VALUE = 10
_LONGEST_TAG = 5

_FIRST_WINDOW = 16
_LAST_WINDOW = 1 << 18

_READ_AHEAD = 1 << 12
"""Bytes of a file to read at a time while looking for fields, which lie close together."""
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
    """One field, or a run of fixed-width fields that repeat the same tag.

    In an unpacked message, every float is a field of its own. Such a message is fast to read only
    if a whole run is taken at once.
    """

    number: int
    wire_type: WireType
    start: int
    """Offset of the payload; of the first payload in a run."""
    stop: int
    """Offset of the end of the field."""
    value: int = 0
    """The value of a varint field, 0 to 2**64 - 1."""
    records: int = 1
    """The number of fields in the run. Always 1 except for FIXED32 and FIXED64."""
    stride: int = 0
    """Bytes from one payload of the run to the next."""

    @property
    def int32(self) -> int:
        """The value of a varint field as an int32: its low half."""
        return signed(self.value, 32)

    @property
    def int64(self) -> int:
        """The value of a varint field as an int64."""
        return signed(self.value, 64)


def signed(value: int, bits: int) -> int:
    """Read the low `bits` of an unsigned number as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@dataclass(slots=True)
class _Window:
    """The bytes being parsed: all those of a buffer, or a few of a file, read ahead."""

    bytes: memoryview
    begin: int = 0
    """The offset of the first byte."""
    stop: int = 0
    """The offset from which on the head of a field may be incomplete."""


@dataclass(frozen=True)
class WireReader:
    """Bytes to find fields in, and their origin for error messages.

    Parameters
    ----------
    contents
        One-dimensional array of bytes, which is never copied; or a file, of which only the parts
        needed to find the fields are read.
    path
        The file that the bytes are all of, for error messages.
    layer
        Name of the layer being read, for error messages.
    """

    contents: NDArray[np.uint8] | OpenFile
    path: str | None = None
    layer: str | None = None
    _allowance: Iterator[int] = field(
        default_factory=lambda: iter(range(_MAX_FIELDS)), repr=False, compare=False
    )
    _window: _Window = field(
        default_factory=lambda: _Window(memoryview(b"")), repr=False, compare=False
    )

    @classmethod
    @contextlib.contextmanager
    def of_file(cls, file: OpenFile) -> Iterator[Self]:
        """Return a context manager that yields a reader of a whole file.

        Raises
        ------
        ModelFileError
            At the end of the block, if the file has been written to since it was opened, because
            offsets found in it may be wrong. Replaces a ModelFileError raised in the block.
        """
        try:
            yield cls(file, path=file.path)
        except ModelFileError:
            file.require_unchanged()
            raise
        file.require_unchanged()

    def within(self, layer: str) -> Self:
        """Return a reader of the same buffer whose errors name a layer."""
        return replace(self, layer=layer)

    def error(self, message: str, offset: int) -> ModelFileError:
        """Return the exception for a problem at `offset`."""
        return ModelFileError(message, path=self.path, offset=offset, layer=self.layer)

    def wrong_type(self, field: Field, name: str) -> ModelFileError:
        """Return the exception for a field of Caffe that has another wire type than in Caffe."""
        return self.error(
            f"field {field.number} ({name}) has wire type {field.wire_type.name}, unlike Caffe's: "
            f"the {self.subject} is damaged, or was written by a fork of Caffe that uses the "
            f"number for something else",
            field.start,
        )

    @property
    def subject(self) -> str:
        """The name of the contents, for error messages."""
        return "message" if self.path is None else "file"

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.contents)

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes in ``[start, stop)``."""
        window = self._window
        begin = window.begin
        if begin <= start and stop <= begin + len(window.bytes):
            return window.bytes[start - begin : stop - begin]
        if isinstance(self.contents, np.ndarray):
            return self.contents.data[start:stop]
        return self.contents.read(start, stop)

    def text(self, field: Field) -> str:
        """Decode a string. Bytes that are not UTF-8 become lone surrogates, as in file names."""
        return bytes(self.read(field.start, field.stop)).decode(errors="surrogateescape")

    def fields(self, start: int, stop: int, *, depth: int = 0) -> Iterator[Field]:
        """Find the fields of the message in ``[start, stop)`` of the buffer, in order.

        A group is yielded as one field of type GROUP_START. `depth` is the number of enclosing
        messages, which count towards the limit on nesting.

        Raises
        ------
        ModelFileError
            When the iteration reaches bytes that protobuf would refuse.
        """
        position = start
        while position < stop:
            field = self._field(position, stop, depth)
            if field.wire_type is WireType.GROUP_END:
                raise self.error(
                    f"a group of field number {field.number} ends here but never began: "
                    f"{self._not_a_message}",
                    position,
                )
            yield field
            position = field.stop

    def collect(
        self, names: Mapping[tuple[int, WireType], str], start: int, stop: int, *, depth: int = 0
    ) -> dict[str, list[Field]]:
        """Return the fields of some kinds, by name, of the message in ``[start, stop)``.

        Raises the errors of `fields`, and that of `unexpected`.
        """
        found: dict[str, list[Field]] = {name: [] for name in names.values()}
        for part in self.fields(start, stop, depth=depth):
            if name := names.get((part.number, part.wire_type)):
                found[name].append(part)
            elif wrong := self.unexpected(part, names):
                raise wrong
        return found

    def unexpected(
        self, field: Field, names: Mapping[tuple[int, WireType], str]
    ) -> ModelFileError | None:
        """Return the exception for a field that has the number of one of these, of another type."""
        for (number, _), name in names.items():
            if number == field.number:
                return self.wrong_type(field, name)
        return None

    def kinds(self) -> set[tuple[int, WireType]]:
        """Return the numbers and wire types of the fields of the message that fills the file."""
        return {(field.number, field.wire_type) for field in self.fields(0, self.size)}

    def varints(self, start: int, stop: int) -> Iterator[int]:
        """Decode the packed varints that fill ``[start, stop)``."""
        position = start
        while position < stop:
            value, position = self._varint(position, stop)
            yield value

    def _moved_window(self, position: int) -> _Window:
        """Move the window to the head of the field at `position`."""
        window, size = self._window, self.size
        if isinstance(self.contents, np.ndarray):
            # Reading single items is fastest from a memoryview.
            window.bytes, window.stop = self.contents.data, size + 1
            return window
        end = min(position + _READ_AHEAD, size)
        window.bytes = self.contents.read(position, end)
        window.begin = position
        window.stop = size + 1 if end == size else end - _LONGEST_HEAD
        return window

    @property
    def _not_a_message(self) -> str:
        return f"the {self.subject} is damaged, or no protobuf message at all"

    def _field(self, position: int, stop: int, depth: int) -> Field:
        if next(self._allowance, None) is None:
            raise self.error(
                f"expected at most {_MAX_FIELDS} fields, got more: {self._not_a_message}", position
            )
        tag, start = self._varint(position, stop, _LONGEST_TAG)
        number = tag >> 3
        if number == 0 or tag >= 1 << 32:
            raise self.error(
                f"expected a field number from 1 to {2**29 - 1}, got {number}: "
                f"{self._not_a_message}",
                position,
            )
        if tag & 7 >= len(_WIRE_TYPES):
            raise self.error(
                f"field {number} has wire type {tag & 7}, which does not exist: "
                f"{self._not_a_message}",
                position,
            )
        wire_type = _WIRE_TYPES[tag & 7]
        if wire_type is WireType.LENGTH:
            return self._length_delimited(number, start, stop)
        if wire_type is WireType.VARINT:
            value, end = self._varint(start, stop)
            return Field(number, wire_type, start, end, value)
        if wire_type is WireType.GROUP_START:
            end = self._end_of_group(number, start, stop, depth + 1)
            return Field(number, wire_type, start, end)
        if wire_type is WireType.GROUP_END:
            return Field(number, wire_type, start, start)
        return self._fixed_width(number, wire_type, position, start, stop)

    def _length_delimited(self, number: int, position: int, stop: int) -> Field:
        length, start = self._varint(position, stop, _LONGEST_TAG)
        if length > stop - start:
            raise self._overrun(number, length, start, stop)
        if length > _MAX_LENGTH:
            raise self.error(
                f"field {number} claims {length} bytes, protobuf allows {_MAX_LENGTH}: "
                f"{self._not_a_message}",
                position,
            )
        return Field(number, WireType.LENGTH, start, start + length)

    def _fixed_width(
        self, number: int, wire_type: WireType, position: int, start: int, stop: int
    ) -> Field:
        width = _WIDTHS[wire_type]
        if width > stop - start:
            raise self._overrun(number, width, start, stop)
        stride = start - position + width
        records = 1
        if start - position == 1:
            records = self._count_records(position, stop, stride)
        end = position + records * stride
        return Field(number, wire_type, start, end, records=records, stride=stride)

    def _count_records(self, position: int, stop: int, stride: int) -> int:
        """Count the consecutive records of `stride` bytes with the same first byte."""
        seen = self._window  # the tag has been read, so the window has the next one too
        at = position - seen.begin
        tag = seen.bytes[at]
        longest = (stop - position) // stride
        if longest == 1 or seen.bytes[at + stride] != tag:
            return 1
        count, window = 1, _FIRST_WINDOW
        while count < longest:
            begin = position + count * stride
            end = position + min(count + window, longest) * stride
            differs = np.frombuffer(self.read(begin, end), np.uint8)[::stride] != tag
            same = int(differs.argmax()) if differs.any() else len(differs)
            count += same
            if same < len(differs):
                break
            window = min(2 * window, _LAST_WINDOW)
        return count

    def _end_of_group(self, number: int, position: int, stop: int, depth: int) -> int:
        """Skip the fields of a group and return the offset after its end tag."""
        if depth > _MAX_DEPTH:
            raise self.error(
                f"groups and messages are nested more than {_MAX_DEPTH} deep: "
                f"{self._not_a_message}",
                position,
            )
        while position < stop:
            field = self._field(position, stop, depth)
            if field.wire_type is WireType.GROUP_END:
                if field.number == number:
                    return field.stop
                raise self.error(
                    f"expected the end of group {number}, got the end of group {field.number}: "
                    f"{self._not_a_message}",
                    position,
                )
            position = field.stop
        raise self.error(f"group {number} does not end: {self._cause_of_overrun(stop)}", position)

    def _varint(self, position: int, stop: int, longest: int = _LONGEST_VALUE) -> tuple[int, int]:
        """Decode one varint. Return its value, truncated to 64 bits, and the offset after it."""
        window = self._window
        if not window.begin <= position < window.stop:
            window = self._moved_window(position)
        data, begin = window.bytes, window.begin
        if position < stop and (byte := data[position - begin]) < 1 << 7:
            return byte, position + 1
        value = shift = 0
        for place in range(position, min(stop, position + longest)):
            byte = data[place - begin]
            value |= (byte & 0x7F) << shift
            if byte < 1 << 7:
                return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
            shift += 7
        if stop - position < longest:
            raise self.error(
                f"the number that starts here does not end: {self._cause_of_overrun(stop)}",
                position,
            )
        raise self.error(
            f"the number that starts here has over {longest} bytes: {self._not_a_message}", position
        )

    def _overrun(self, number: int, length: int, start: int, stop: int) -> ModelFileError:
        return self.error(
            f"field {number} claims {length} bytes from byte {start} on, but only "
            f"{stop - start} are there: {self._cause_of_overrun(stop)}",
            start,
        )

    def _cause_of_overrun(self, stop: int) -> str:
        """Explain why a field overruns the end of its message."""
        if stop == self.size:
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
    """Encode a field that holds bytes, a string or a message."""
    return length_header(number, len(payload)) + payload
