"""Finding the shape and the values of a BlobProto without reading the values.

The rules are those of Caffe's ``Blob::FromProto`` and of protobuf:

- if any of num, channels, height and width is present, these four are the shape and the `shape`
  message is ignored; with neither, the Blob has no axes and one value. Absent ones are 0 in Caffe,
  which then refuses any values; here they are 1 if there are values, such as those of a mean
  without num;
- several `shape` messages are merged by joining their dimensions; a repeated scalar field has its
  last value;
- double_data takes precedence over data, and double_diff over diff, if it holds any value;
- values may be packed, unpacked, in several pieces or mixed: the pieces are joined in order;
- without any of these, NVCaffe's raw_data and raw_diff are used, whose type is a field of its own:
  they may be half-precision.

Unlike protobuf, it refuses Caffe's own fields with another wire type. C3D, for example, has the
dimensions num, channels, length, height and width in the fields 1 to 5, and values in field 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from syncblob.caffe.messages.fields import (
    DATA,
    DIFF,
    DOUBLE_DATA,
    DOUBLE_DIFF,
    LEGACY_DIMS,
    LEGACY_NAMES,
    RAW_DATA,
    RAW_DATA_TYPE,
    RAW_DIFF,
    RAW_DIFF_TYPE,
    SHAPE,
    SHAPE_DIM,
)
from syncblob.caffe.messages.wire import Field, WireReader, WireType, signed
from syncblob.formats import MAX_AXES, as_shape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob.caffe.messages.disk import OpenFile

_FLOAT: np.dtype[np.generic] = np.dtype("<f4")
_DOUBLE: np.dtype[np.generic] = np.dtype("<f8")
_VALUES = {DATA: _FLOAT, DIFF: _FLOAT, DOUBLE_DATA: _DOUBLE, DOUBLE_DIFF: _DOUBLE}
_RAW_TYPES = (_DOUBLE, _FLOAT, np.dtype("<f2"))
_RAW_TYPES_END = 6
"""Types above the floats are integers and booleans, which NVCaffe does not read."""
_UNPACKED = {_FLOAT: WireType.FIXED32, _DOUBLE: WireType.FIXED64}
# The names of Caffe's fields, for error messages.
_NAMES = dict(
    zip(
        (*LEGACY_DIMS, DATA, DIFF, SHAPE, DOUBLE_DATA, DOUBLE_DIFF),
        (*LEGACY_NAMES, "data; in C3D, width", "diff", "shape", "double_data", "double_diff"),
        strict=True,
    )
)

_CHUNK = 1 << 20
"""Bytes of values to convert at a time."""

_MOST_BLOBS = 1 << 15
"""Limit on blobs and layers: more than three times as many as the largest nets have. A blob of four
bytes in a file takes two thousand in memory, so a small file could use up a lot."""


@dataclass(frozen=True, slots=True)
class Run:
    """Values at a constant stride: a packed list, or a row of unpacked fields."""

    start: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True)
class Values:
    """The position of a Blob's values in a buffer.

    Parameters
    ----------
    dtype
        Little-endian float32 or float64, as on the wire; float16 in NVCaffe's raw data. HDF5 may
        have other dtypes.
    runs
        The pieces, in order.
    """

    dtype: np.dtype[np.generic]
    runs: tuple[Run, ...]
    in_pieces: ClassVar[bool] = True
    """Whether to read many values piece by piece."""

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(run.count for run in self.runs)

    def part(self, first: int, stop: int) -> Values:
        """Return the position of the values in ``[first, stop)``."""
        runs: list[Run] = []
        for run in self.runs:
            begin, end = max(first, 0), min(stop, run.count)
            if begin < end:
                runs.append(Run(run.start + begin * run.stride, end - begin, run.stride))
            first -= run.count
            stop -= run.count
        return replace(self, runs=tuple(runs))

    def read(self, buffer: NDArray[np.uint8], dtype: DTypeLike) -> NDArray[np.generic]:
        """Return the values as a one-dimensional array.

        Parameters
        ----------
        buffer
            The buffer that was indexed.
        dtype
            The dtype to convert to, as a C cast does.

        Returns
        -------
        ndarray
            C-contiguous. If the values are packed, in one piece and of this dtype, a view of
            `buffer`, read-only if the buffer is, and perhaps not aligned; else a copy.
        """
        return static_cast(self._joined(buffer), dtype)

    def read_into(self, file: OpenFile, target: NDArray[np.generic], *, first: int = 0) -> None:
        """Read values of a file into an array, converting them to its dtype.

        Parameters
        ----------
        file
            The file that was indexed.
        target
            One-dimensional and contiguous, with room for at most the values from `first` on.
            Values that are packed and of this dtype in the file are read directly into it.
        first
            The first value to read.
        """
        filled = 0
        whole = not first and len(self.runs) == 1 and self.runs[0].count == len(target)
        for run in self.runs if whole else self.part(first, first + len(target)).runs:
            part = target[filled : filled + run.count]
            if run.stride == self.dtype.itemsize and target.dtype == self.dtype:
                file.read_into(part.view(np.uint8), run.start)
            else:
                self._convert_into(file, run, part)
            filled += run.count

    def _convert_into(self, file: OpenFile, run: Run, target: NDArray[np.generic]) -> None:
        """Read the first values of a piece through a buffer of limited size."""
        step = max(1, _CHUNK // run.stride)
        scratch = np.empty(min(step, len(target)) * run.stride, np.uint8)
        for begin in range(0, len(target), step):
            count = min(step, len(target) - begin)
            # Do not read the gap after the last value: the file may end there.
            used = scratch[: (count - 1) * run.stride + self.dtype.itemsize]
            file.read_into(used, run.start + begin * run.stride)
            values = self._view(scratch, Run(0, count, run.stride))
            target[begin : begin + count] = static_cast(values, target.dtype)

    def _joined(self, buffer: NDArray[np.uint8]) -> NDArray[np.generic]:
        if len(self.runs) == 1 and self.runs[0].stride == self.dtype.itemsize:
            return self._view(buffer, self.runs[0])
        joined: NDArray[np.generic] = np.empty(self.count, self.dtype)
        filled = 0
        for run in self.runs:
            joined[filled : filled + run.count] = self._view(buffer, run)
            filled += run.count
        return joined

    def _view(self, buffer: NDArray[np.uint8], run: Run) -> NDArray[np.generic]:
        return np.ndarray((run.count,), self.dtype, buffer, run.start, (run.stride,))


def static_cast(values: NDArray[np.generic], dtype: DTypeLike) -> NDArray[np.generic]:
    """Convert as C's static_cast does: toward zero to integers, rounding to smaller floats.

    If C leaves the result undefined (NaN or a large value to an integer), it is NumPy's, without a
    warning. Never copies if the dtype is the same.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype, copy=False)


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """The contents of a BlobProto. Its values are located, not read.

    Parameters
    ----------
    shape
        The shape that Caffe would use, already validated.
    legacy
        Whether the shape comes from num, channels, height and width.
    data
        The values; as many as the shape holds.
    diff
        The gradient, likewise; None if the message has none.
    start, stop
        The position of the message in the buffer.
    """

    shape: tuple[int, ...]
    legacy: bool
    data: Values
    diff: Values | None
    start: int
    stop: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The floating-point dtype that holds data and diff, in native byte order."""
        both = [self.data] if self.diff is None else [self.data, self.diff]
        dtype = np.result_type(*(values.dtype for values in both))
        return (dtype if dtype.kind == "f" else np.result_type(dtype, np.float32)).newbyteorder("=")


def index_blob(reader: WireReader, start: int, stop: int, *, depth: int = 0) -> BlobIndex:
    """Index the BlobProto in ``[start, stop)`` of the buffer, with `depth` messages around it.

    Raises
    ------
    ModelFileError
        If protobuf would refuse the message, or if shape and values do not agree.
    """
    return interpreted(find_parts(reader, start, stop, depth=depth), reader)


def require_few(reader: WireReader, count: int) -> None:
    """Refuse a file with more layers and blobs than any real one."""
    if count > _MOST_BLOBS:
        raise reader.error(
            f"expected at most {_MOST_BLOBS} layers and blobs, got more: the {reader.subject} is "
            f"damaged",
            0,
        )


@dataclass(frozen=True, slots=True)
class BlobParts:
    """The fields of a BlobProto as found, before Caffe's rules select among them."""

    start: int
    stop: int
    legacy_dims: dict[int, int]
    """The dimensions that are present, by field number."""
    dims: list[int]
    runs: dict[int, list[Run]]
    """The pieces of each of the four lists of values, by field number; empty pieces left out."""
    raw_types: dict[int, int]
    """The types of the raw values that are known to protobuf, by field number."""
    raw: dict[int, Field]
    """The raw values that are present, by field number."""


def find_parts(reader: WireReader, start: int, stop: int, *, depth: int) -> BlobParts:
    """Find the fields of a BlobProto. Raises ModelFileError if protobuf would refuse it."""
    parts = BlobParts(start, stop, {}, [], {number: [] for number in _VALUES}, {}, {})
    for field in reader.fields(start, stop, depth=depth):
        number = field.number
        if number in parts.runs:
            parts.runs[number] += _runs_of(reader, field)
        elif number == SHAPE and field.wire_type is WireType.LENGTH:
            _add_dims(parts.dims, reader, field, depth + 1)
        elif number in LEGACY_DIMS and field.wire_type is WireType.VARINT:
            parts.legacy_dims[number] = field.int32
        elif number in _NAMES:
            raise reader.wrong_type(field, _NAMES[number])
        # Only NVCaffe has the rest, so another fork may use these numbers in its own way.
        elif number in (RAW_DATA, RAW_DIFF) and field.wire_type is WireType.LENGTH:
            parts.raw[number] = field
        elif number in (RAW_DATA_TYPE, RAW_DIFF_TYPE) and field.wire_type is WireType.VARINT:
            value = field.int32
            if 0 <= value < _RAW_TYPES_END:
                parts.raw_types[number] = value
    return parts


def interpreted(parts: BlobParts, reader: WireReader) -> BlobIndex:
    """Select among the parts as Caffe does.

    Raises ModelFileError if shape and values do not agree.
    """
    start, stop = parts.start, parts.stop
    data = _choose(parts, reader, (DOUBLE_DATA, DATA, RAW_DATA, RAW_DATA_TYPE))
    diff = _choose(parts, reader, (DOUBLE_DIFF, DIFF, RAW_DIFF, RAW_DIFF_TYPE))
    dims = parts.dims
    if parts.legacy_dims:
        absent = 1 if data.count else 0
        dims = [parts.legacy_dims.get(number, absent) for number in LEGACY_DIMS]
    try:
        shape = as_shape(dims, data.dtype.itemsize)
    except ValueError as error:
        raise reader.error(f"{error}: the {reader.subject} is damaged", start) from error
    for name, values in ("data", data), ("diff", diff):
        if values.count != math.prod(shape) and (values.count or name == "data"):
            raise reader.error(_miscount(name, shape, values.count), start)
    legacy = bool(parts.legacy_dims)
    return BlobIndex(shape, legacy, data, diff if diff.runs else None, start, stop)


def _choose(parts: BlobParts, reader: WireReader, numbers: tuple[int, int, int, int]) -> Values:
    """Return the double-precision values if any, else the single-precision ones, else the raw."""
    double, single, raw, raw_type = numbers
    number = double if parts.runs[double] else single
    field = parts.raw.get(raw)
    if parts.runs[number] or field is None:
        return Values(_VALUES[number], tuple(parts.runs[number]))
    kind = parts.raw_types.get(raw_type, len(_RAW_TYPES))
    if kind >= len(_RAW_TYPES):
        found = f"type {kind}" if raw_type in parts.raw_types else "none that is known"
        raise reader.error(
            f"raw values (field {raw}, as NVCaffe writes) need a type, 0, 1 or 2 for double, "
            f"single or half precision, in field {raw_type}; got {found}",
            field.start,
        )
    dtype = _RAW_TYPES[kind]
    return Values(dtype, tuple(_packed_run(reader, field, dtype)))


def _runs_of(reader: WireReader, field: Field) -> list[Run]:
    dtype = _VALUES[field.number]
    if field.wire_type is _UNPACKED[dtype]:
        return [Run(field.start, field.records, field.stride)]
    if field.wire_type is not WireType.LENGTH:
        raise reader.wrong_type(field, _NAMES[field.number])
    return _packed_run(reader, field, dtype)


def _packed_run(reader: WireReader, field: Field, dtype: np.dtype[np.generic]) -> list[Run]:
    """Return the values that fill the payload of a field."""
    count, rest = divmod(field.stop - field.start, dtype.itemsize)
    if rest:
        raise reader.error(
            f"field {field.number} has {field.stop - field.start} bytes, which is not a whole "
            f"number of {dtype.itemsize}-byte values: the {reader.subject} is damaged",
            field.start,
        )
    return [Run(field.start, count, dtype.itemsize)] if count else []


def _add_dims(dims: list[int], reader: WireReader, shape: Field, depth: int) -> None:
    """Append the dimensions of one BlobShape."""
    for field in reader.fields(shape.start, shape.stop, depth=depth):
        if field.number != SHAPE_DIM:
            continue
        if field.wire_type is WireType.VARINT:
            dims.append(field.int64)
        elif field.wire_type is WireType.LENGTH:
            room = MAX_AXES + 1 - len(dims)
            packed = islice(reader.varints(field.start, field.stop), room)
            dims.extend(signed(value, 64) for value in packed)
        else:
            raise reader.wrong_type(field, "dim")
        if len(dims) > MAX_AXES:  # Caffe stops at 32
            raise reader.error(
                f"a shape has at most {MAX_AXES} axes, this one has more: "
                f"the {reader.subject} is damaged",
                shape.start,
            )


def _miscount(name: str, shape: tuple[int, ...], count: int) -> str:
    expected = f"a blob of shape {shape} needs {math.prod(shape)} values of {name}, got {count}"
    if count:
        return f"{expected}: the shape or the values are damaged"
    return f"{expected}: perhaps a net without weights, or a fork of Caffe stores them its own way"
