"""Finding the shape and the values of a BlobProto without reading the values.

The rules are those of Caffe's ``Blob::FromProto`` and of protobuf:

- when any of num, channels, height and width is present, the shape is those four, absent ones 0,
  and the `shape` message is ignored; with neither, the Blob has no axes and one value;
- several `shape` messages merge: their dimensions join; of a repeated scalar the last one counts;
- double_data comes before data, and double_diff before diff, when it holds any value;
- values may be packed, unpacked, in several pieces or a mixture: the pieces join in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from syncblob._shape import as_shape
from syncblob.caffe._wire import WireType

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from syncblob.caffe._wire import Field, WireReader

__all__ = ["BlobIndex", "Run", "Values", "index_blob", "static_cast"]

_LEGACY_DIMS = range(1, 5)
_DATA, _DIFF, _SHAPE, _DOUBLE_DATA, _DOUBLE_DIFF = range(5, 10)
_SHAPE_DIM = 1

_FLOAT: np.dtype[np.generic] = np.dtype("<f4")
_DOUBLE: np.dtype[np.generic] = np.dtype("<f8")
_VALUES = {_DATA: _FLOAT, _DIFF: _FLOAT, _DOUBLE_DATA: _DOUBLE, _DOUBLE_DIFF: _DOUBLE}
_UNPACKED = {_FLOAT: WireType.FIXED32, _DOUBLE: WireType.FIXED64}

_MOST_AXES = 64
"""As many as a Blob can have; Caffe stops at 32."""


@dataclass(frozen=True, slots=True)
class Run:
    """Values at equal distances: a packed list, or a row of unpacked fields."""

    start: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True)
class Values:
    """Where the values of a Blob lie in a buffer.

    Parameters
    ----------
    dtype
        Little-endian float32 or float64, as on the wire.
    runs
        The pieces, in order.
    """

    dtype: np.dtype[np.generic]
    runs: tuple[Run, ...]

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(run.count for run in self.runs)

    def read(self, buffer: NDArray[np.uint8], dtype: DTypeLike) -> NDArray[np.generic]:
        """Return the values as a one-dimensional array.

        Parameters
        ----------
        buffer
            The buffer that was indexed.
        dtype
            What to convert to, as a C cast does.

        Returns
        -------
        ndarray
            C-contiguous. A view of `buffer`, read-only if that is and perhaps not aligned, when
            the values lie there packed, in one piece and in this dtype; else a copy.
        """
        return static_cast(self._joined(buffer), dtype)

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

    Where C leaves the result open (NaN or a large value to an integer), it is what NumPy makes of
    it, without a warning. Never copies when the dtype is the same.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype, copy=False)


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """What a BlobProto says, with the values left where they are.

    Parameters
    ----------
    shape
        The shape that Caffe would take, already validated.
    legacy
        Whether the shape comes from num, channels, height and width.
    data
        The values; as many as the shape holds.
    diff
        The gradient, likewise, or None where the message has none.
    """

    shape: tuple[int, ...]
    legacy: bool
    data: Values
    diff: Values | None

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype that keeps the data exact: float64 where it is written in double precision."""
        return self.data.dtype.newbyteorder("=")


def index_blob(reader: WireReader, start: int, stop: int, *, depth: int = 0) -> BlobIndex:
    """Index the BlobProto that lies in ``[start, stop)``.

    Parameters
    ----------
    reader
        The buffer.
    start, stop
        Where the message lies in it.
    depth
        How many messages lie around it.

    Raises
    ------
    ModelFileError
        If protobuf would refuse the message, or if shape and values do not fit together.
    """
    return _interpret(_find_parts(reader, start, stop, depth), reader, start)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The fields of a BlobProto, before it is decided which of them count."""

    legacy_dims: dict[int, int]
    """By field number, those that are present."""
    dims: list[int]
    runs: dict[int, list[Run]]
    """By field number: the pieces of each of the four lists of values, empty ones left out."""

    def values(self, double: int, single: int) -> Values:
        """Return the values in double precision if there are any, else the others."""
        number = double if self.runs[double] else single
        return Values(_VALUES[number], tuple(self.runs[number]))


def _find_parts(reader: WireReader, start: int, stop: int, depth: int) -> _Parts:
    parts = _Parts({}, [], {number: [] for number in _VALUES})
    for field in reader.fields(start, stop, depth=depth):
        number = field.number
        if number in parts.runs:
            parts.runs[number] += _runs_of(reader, field)
        elif number == _SHAPE and field.wire_type is WireType.LENGTH:
            _add_dims(parts.dims, reader, field, depth + 1)
        elif number in _LEGACY_DIMS and field.wire_type is WireType.VARINT:
            parts.legacy_dims[number] = _signed(field.value, 32)
    return parts


def _interpret(parts: _Parts, reader: WireReader, start: int) -> BlobIndex:
    """Choose among the parts as Caffe does, and check that shape and values fit together."""
    data = parts.values(_DOUBLE_DATA, _DATA)
    diff = parts.values(_DOUBLE_DIFF, _DIFF)
    dims = parts.dims
    if parts.legacy_dims:
        dims = [parts.legacy_dims.get(number, 0) for number in _LEGACY_DIMS]
    try:
        shape = as_shape(dims, data.dtype.itemsize)
    except ValueError as error:
        raise reader.error(f"{error}: the {reader.subject} is damaged", start) from error
    for name, values in ("data", data), ("diff", diff):
        if values.count != math.prod(shape) and (values.count or name == "data"):
            raise reader.error(_miscount(name, shape, values.count), start)
    return BlobIndex(shape, bool(parts.legacy_dims), data, diff if diff.runs else None)


def _runs_of(reader: WireReader, field: Field) -> list[Run]:
    dtype = _VALUES[field.number]
    if field.wire_type is _UNPACKED[dtype]:
        return [Run(field.start, field.records, field.stride)]
    if field.wire_type is not WireType.LENGTH:
        return []
    count, rest = divmod(field.stop - field.start, dtype.itemsize)
    if rest:
        raise reader.error(
            f"field {field.number} has {field.stop - field.start} bytes, which is no whole number "
            f"of {dtype.itemsize}-byte values: the {reader.subject} is damaged",
            field.start,
        )
    return [Run(field.start, count, dtype.itemsize)] if count else []


def _add_dims(dims: list[int], reader: WireReader, shape: Field, depth: int) -> None:
    """Append the dimensions of one BlobShape."""
    for field in reader.fields(shape.start, shape.stop, depth=depth):
        if field.number != _SHAPE_DIM:
            continue
        if field.wire_type is WireType.VARINT:
            dims.append(_signed(field.value, 64))
        elif field.wire_type is WireType.LENGTH:
            room = _MOST_AXES + 1 - len(dims)
            packed = islice(reader.varints(field.start, field.stop), room)
            dims.extend(_signed(value, 64) for value in packed)
        if len(dims) > _MOST_AXES:
            raise reader.error(
                f"a shape has at most {_MOST_AXES} axes, this one has more: "
                f"the {reader.subject} is damaged",
                shape.start,
            )


def _signed(value: int, bits: int) -> int:
    """Read the low `bits` of an unsigned number as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _miscount(name: str, shape: tuple[int, ...], count: int) -> str:
    expected = f"a blob of shape {shape} needs {math.prod(shape)} values of {name}, got {count}"
    if count:
        return f"{expected}: the shape or the values are damaged"
    return f"{expected}: perhaps a net without weights, or a fork of Caffe stores them its own way"
