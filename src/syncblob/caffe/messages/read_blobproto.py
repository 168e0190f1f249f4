"""Messages with BlobProtos, read without the values: these are located, and stay where they are.

protobuf parses all that is left of the message when the values are cut out. Unlike protobuf,
`MessageIndex` refuses Caffe's fields with another wire type: a fork uses the number for something
else, such as C3D, whose blobs have five dimensions in the fields 1 to 5 and values in field 6.

The rules for a blob are those of Caffe's ``Blob::FromProto`` and of protobuf. If any of num,
channels, height and width is present, these four are the shape, and absent ones are 1 if there are
values (0 in Caffe, which then refuses a mean without num); with no shape either, there is one
value. double_data takes precedence over data if it holds any value, and these over NVCaffe's
raw_data, whose type is a field of its own; so for diff. Pieces of values are joined in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from syncblob.caffe._pb.caffe_pb2 import BlobProto, LayerParameter
from syncblob.caffe.messages.fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_NAMES,
    MOST_OBJECTS,
    RAW_DATA,
    RAW_DATA_TYPE,
    RAW_DIFF,
    RAW_DIFF_TYPE,
    DType,
    Shape,
)
from syncblob.caffe.messages.string_fields import decode_text, parse
from syncblob.caffe.messages.values import Run, Runs, Values
from syncblob.caffe.messages.wire import Field, WireReader, WireType, length_field
from syncblob.formats import as_shape

M = TypeVar("M", bound=Message)

_FLOAT: DType = np.dtype("<f4")
_DOUBLE: DType = np.dtype("<f8")
_VALUES = {DATA: _FLOAT, DIFF: _FLOAT, DOUBLE_DATA: _DOUBLE, DOUBLE_DIFF: _DOUBLE}
_FIELDS = {
    "data": (DOUBLE_DATA, DATA, RAW_DATA, RAW_DATA_TYPE),
    "diff": (DOUBLE_DIFF, DIFF, RAW_DIFF, RAW_DIFF_TYPE),
}
"""In the order in which Caffe looks for values."""
_RAW_TYPES = {
    BlobProto.DOUBLE: _DOUBLE,
    BlobProto.FLOAT: _FLOAT,
    BlobProto.FLOAT16: np.dtype("<f2"),
}


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """The contents of a BlobProto. Its values are located, not read."""

    shape: Shape
    legacy: bool
    """Whether the shape comes from num, channels, height and width."""
    data: Values
    diff: Values | None
    start: int = 0
    """The position of the message in the file; 0 to 0 in formats without messages."""
    stop: int = 0
    of_caffe: bool = True
    """Whether it is a blob of Caffe's, which has floats."""

    @property
    def dtype(self) -> DType:
        """The dtype of the Blob, in native byte order."""
        dtype = self.data.dtype
        if self.of_caffe:
            dtype = _float_for(dtype, dtype if self.diff is None else self.diff.dtype)
        return dtype.newbyteorder("=")


LayersInFile = list[tuple[LayerParameter, tuple[BlobIndex, ...]]]
"""Layers in the current format, without their blobs, and where these are."""


@cache
def _float_for(*dtypes: DType) -> DType:
    """Return the floating-point dtype that holds all of several."""
    dtype = np.result_type(*dtypes)
    return dtype if dtype.kind == "f" else np.result_type(dtype, np.float32)


# --- messages -------------------------------------------------------------------------------------


# Settings may have any type, and NVCaffe's raw data too: forks use the numbers in their own way.
_READ = {
    *("name", "layer", "layers", "type", "bottom", "top", "blobs", *LEGACY_NAMES, "dim", "shape"),
    *("data", "diff", "double_data", "double_diff"),
    *("iter", "learned_net", "history", "current_step"),
}
_UNKNOWN: tuple[Any, Any] = None, WireType
_LAYERS = {"LayerParameter", "V1LayerParameter"}
_WALKED = {*_LAYERS, "V0LayerParameter", "BlobProto", "BlobShape"}
_WIRE_TYPES = {
    FieldDescriptor.TYPE_FLOAT: WireType.FIXED32,
    FieldDescriptor.TYPE_DOUBLE: WireType.FIXED64,
    **dict.fromkeys(
        (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE),
        WireType.LENGTH,
    ),
}
"""The wire types of the types of fields; those of all others in Caffe's messages are VARINT."""


@cache
def _fields_to_read(kind: Any) -> dict[int, tuple[Any, set[WireType]]]:
    """Return the fields of a message that are read, by number, and their wire types."""
    return {
        field.number: (field, wire_types_of(field)) for field in kind.fields if field.name in _READ
    }


def wire_types_of(field: Any) -> set[WireType]:
    """Return the wire types that a field of one of Caffe's messages may have."""
    types = {_WIRE_TYPES.get(field.type, WireType.VARINT)}
    if isinstance(field.default_value, list):  # a repeated field may be packed
        types.add(WireType.LENGTH)
    return types


class _Blob(NamedTuple):
    """A BlobProto in the file, and where its values are."""

    start: int
    stop: int
    values: dict[int, list[Field]]
    """The fields with its values, by number."""


class MessageIndex(Generic[M]):
    """A message, parsed without the values of its blobs, and where these are."""

    def __init__(
        self, reader: WireReader, kind: type[M], start: int = 0, stop: int | None = None
    ) -> None:
        # A new reader, because each counts the fields that it finds up to a limit.
        self._reader = WireReader(reader.contents, reader.path)
        self._blobs: list[_Blob] = []
        self._layers = 0
        stop = len(reader.contents) if stop is None else stop
        rest = self._without_values(kind.DESCRIPTOR, start, stop)
        try:
            self.message: M = parse(kind, bytes(rest))
        except DecodeError as error:
            raise reader.error(
                f"the settings of the net or of its layers, or the shapes of blobs, are damaged "
                f"({error}); copy or download the file again",
                start,
            ) from error

    def blob(self, proto: BlobProto, layer: str | None = None) -> BlobIndex:
        """Find shape and values of a blob of `message`, or of a copy of one, by Caffe's rules."""
        reader, found = self._reader, self._blobs[int(proto.raw_data)]
        reader.layer = layer
        data, diff = (self._values(proto, found, name) for name in ("data", "diff"))
        legacy = any(map(proto.HasField, LEGACY_NAMES))
        dims: Iterable[int] = proto.shape.dim
        if legacy:
            absent = 1 if data.count else 0
            dims = (
                getattr(proto, name) if proto.HasField(name) else absent for name in LEGACY_NAMES
            )
        try:
            shape = as_shape(dims, data.dtype.itemsize)
        except ValueError as error:
            raise reader.error(f"{error}: the {reader.subject} is damaged", found.start) from error
        for name, values in ("data", data), ("diff", diff):
            if values.count != math.prod(shape) and (values.count or name == "data"):
                why = (
                    "the shape or the values are damaged"
                    if values.count
                    else "perhaps a net without weights, or a fork of Caffe stores them its own way"
                )
                raise reader.error(
                    f"a blob of shape {shape} needs {math.prod(shape)} values of {name}, got "
                    f"{values.count}: {why}",
                    found.start,
                )
        return BlobIndex(shape, legacy, data, diff if diff.count else None, found.start, found.stop)

    def _values(self, proto: BlobProto, found: _Blob, name: str) -> Values:
        """Choose the values of double precision if any, else those of single, else the raw ones."""
        *lists, raw_number, type_number = _FIELDS[name]
        for number in lists:
            if (values := self._runs(found.values.get(number, []), _VALUES[number])).count:
                return values
        if raw_number not in found.values:
            return Runs(_FLOAT, ())
        raw = found.values[raw_number][-1]
        kind = f"raw_{name}_type"
        type_ = getattr(proto, kind) if proto.HasField(kind) else None
        if type_ not in _RAW_TYPES:
            got = "none that is known" if type_ is None else f"type {type_}"
            raise self._reader.error(
                f"raw values (field {raw.number}, as NVCaffe writes) need a type, 0, 1 or 2 for "
                f"double, single or half precision, in field {type_number}; got {got}",
                raw.start,
            )
        return self._runs([raw], _RAW_TYPES[type_])

    def _runs(self, fields: list[Field], dtype: DType) -> Runs:
        """Return the values in the payloads of fields."""
        runs = []
        for field in fields:
            count, stride = field.records, field.stride
            if field.wire_type is WireType.LENGTH:
                nbytes, stride = field.stop - field.start, dtype.itemsize
                count, rest = divmod(nbytes, stride)
                if rest:
                    raise self._reader.error(
                        f"field {field.number} has {nbytes} bytes, which is not a whole number of "
                        f"{stride}-byte values: the {self._reader.subject} is damaged",
                        field.start,
                    )
            if count:
                runs.append(Run(field.start, count, stride))
        return Runs(dtype, tuple(runs))

    def _without_values(self, kind: Any, start: int, stop: int) -> bytearray:
        """Copy the message in ``[start, stop)``, but leave out the values of its blobs."""
        reader, known = self._reader, _fields_to_read(kind)
        rest = bytearray()
        if kind is BlobProto.DESCRIPTOR:
            rest += length_field(RAW_DATA, b"%d" % len(self._blobs))
            self._blobs.append(_Blob(start, stop, {}))
        self._layers += kind.name in _LAYERS
        if self._layers + len(self._blobs) > MOST_OBJECTS:
            raise reader.error(f"expected at most {MOST_OBJECTS} layers and blobs, got more", start)
        copied = begin = start
        for found in reader.fields(start, stop):
            caffes, types = known.get(found.number, _UNKNOWN)
            if found.wire_type not in types:
                raise reader.error(
                    f"field {found.number} ({caffes.name}) has wire type {found.wire_type.name}, "
                    f"unlike Caffe's: the {reader.subject} is damaged, or was written by a fork of "
                    f"Caffe, such as C3D, that uses the number for something else",
                    found.start,
                )
            new: bytes | None = None
            inner = None if caffes is None else caffes.message_type
            if inner is not None and inner.name in _WALKED:
                inside = self._without_values(inner, found.start, found.stop)
                new = length_field(found.number, bytes(inside))
            elif kind is BlobProto.DESCRIPTOR and (
                found.number in _VALUES
                or (found.number in (RAW_DATA, RAW_DIFF) and found.wire_type is WireType.LENGTH)
            ):
                self._blobs[-1].values.setdefault(found.number, []).append(found)
                new = b""
            elif caffes is not None and caffes.name == "name" and kind.name != "NetParameter":
                reader.layer = decode_text(bytes(reader.read(found.start, found.stop)))
            if new is not None:
                rest += reader.read(copied, begin)
                rest += new
                copied = found.stop
            begin = found.stop
        rest += reader.read(copied, stop)
        if kind.name in _LAYERS:
            reader.layer = None
        return rest
