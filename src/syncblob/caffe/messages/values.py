"""The positions of values in a file, and reading them piece by piece.

A reader of a format says where the values of an array are: in order, strided, or known to a
library that unpacks them. `Values.read_into` reads any range of them, `Values.chunks` all.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from syncblob.caffe.messages.wire import Contents

CHUNK = 1 << 20
"""Bytes to read, convert or compare at a time: few calls, and they fit in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Run:
    """Values at a constant stride: a packed list, or a row of unpacked fields."""

    start: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True)
class Values:
    """The position of values in a file or a buffer: their dtype there, and the pieces in order.

    In a BlobProto, the dtype is little-endian float32 or float64, or float16 in NVCaffe's raw data.
    """

    dtype: np.dtype[np.generic]
    runs: tuple[Run, ...]
    longest_chunk: ClassVar[int] = CHUNK
    """Bytes to read at a time."""

    @classmethod
    def in_order(cls, dtype: np.dtype[np.generic], start: int, count: int) -> Self:
        """Return the position of values without gaps."""
        return cls(dtype, (Run(start, count, dtype.itemsize),) if count else ())

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(run.count for run in self.runs)

    @property
    def grain(self) -> int:
        """The number of values from one position that is good to begin at to the next."""
        return 1

    def part(self, first: int, stop: int) -> Self:
        """Return the position of the values in ``[first, stop)``."""
        runs: list[Run] = []
        for run in self.runs:
            begin, end = max(first, 0), min(stop, run.count)
            if begin < end:
                runs.append(Run(run.start + begin * run.stride, end - begin, run.stride))
            first -= run.count
            stop -= run.count
        return replace(self, runs=tuple(runs))

    def read_into(self, contents: Contents, target: NDArray[np.generic], *, first: int = 0) -> None:
        """Read values, from number `first` on, into an array, converting them to its dtype.

        The array has one dimension, is contiguous, and has room for no more than there are. Values
        that are packed and of this dtype are read directly into it.
        """
        if (
            len(self.runs) == 1
            and self.runs[0].stride == target.itemsize
            and (target.dtype == self.dtype)
        ):
            # The usual case costs one read.
            start = self.runs[0].start + first * target.itemsize
            contents.read_into(target.view(np.uint8), start)
            return
        filled = 0
        for run in self.part(first, first + len(target)).runs:
            part = target[filled : filled + run.count]
            if run.stride == self.dtype.itemsize and target.dtype == self.dtype:
                contents.read_into(part.view(np.uint8), run.start)
            else:
                self._convert_into(contents, run, part)
            filled += run.count

    def chunks(
        self, contents: Contents, dtype: np.dtype[np.generic]
    ) -> Iterator[NDArray[np.generic]]:
        """Read all values piece by piece, converted. Each array is valid until the next one."""
        count, grain = self.count, self.grain
        step = max(grain, self.longest_chunk // dtype.itemsize // grain * grain)
        buffer: NDArray[np.generic] = np.empty(min(step, count), dtype)
        first = 0
        while first < count:
            late = (self.runs[0].start // self.dtype.itemsize + first) % grain
            chunk = buffer[: min(step - late, count - first)]
            self.read_into(contents, chunk, first=first)
            yield chunk
            first += len(chunk)

    def _convert_into(self, contents: Contents, run: Run, target: NDArray[np.generic]) -> None:
        """Read the first values of a piece through a buffer of limited size."""
        step = max(1, CHUNK // run.stride)
        scratch = np.empty(min(step, len(target)) * run.stride, np.uint8)
        for begin in range(0, len(target), step):
            count = min(step, len(target) - begin)
            # Do not read the gap after the last value: the file may end there.
            used = scratch[: (count - 1) * run.stride + self.dtype.itemsize]
            contents.read_into(used, run.start + begin * run.stride)
            values = np.ndarray((count,), self.dtype, scratch, strides=(run.stride,))
            # As C's static_cast; where it leaves the result undefined (NaN or a large value to an
            # integer), as NumPy, without a warning.
            with np.errstate(over="ignore", invalid="ignore"):
                target[begin : begin + count] = values


@dataclass(frozen=True, slots=True)
class RowsOfValues(Values):
    """Values that are read as whole rows of the first axis.

    The runs are those of the bytes that a packed array would have, from 0 on.
    """

    shape: tuple[int, ...]

    def read_into(self, contents: Contents, target: NDArray[np.generic], *, first: int = 0) -> None:
        """Read values into an array, converting them to its dtype."""
        for run in self.part(first, first + len(target)).runs:
            size = math.prod(self.shape[1:])  # a scalar is one row
            begin = run.start // run.stride
            row, stop = begin // size, -(-(begin + run.count) // size)
            count = (stop - row) * size
            rows = target if count == run.count else np.empty(count, target.dtype)
            self.read_rows(contents, rows.reshape(-1, *self.shape[1:]), row)
            if rows is not target:
                begin -= row * size
                target[:] = rows[begin : begin + run.count]

    @abstractmethod
    def read_rows(self, contents: Contents, rows: NDArray[np.generic], first: int) -> None:
        """Read rows into an array, from the first on."""


@dataclass(frozen=True, slots=True)
class StridedValues(RowsOfValues):
    """Values in another order than C's: transposed, with gaps between them, or repeated.

    `span` has all values from the first to the last, with those in the gaps; `strides`, for each
    axis, the distance in it from one value to the next, which is not negative.
    """

    span: Values
    strides: tuple[int, ...]

    @classmethod
    def of(
        cls, values: Values, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> StridedValues | Values:
        """Return these positions, or a part of `values` if they are in C's order."""
        count, size = math.prod(shape), 1
        in_order = True
        for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
            in_order &= dim == 1 or stride == size
            size *= dim
        if in_order or not count:
            return values.part(0, count)
        whole = Run(0, count, values.dtype.itemsize)
        return cls(values.dtype, (whole,), shape, values, strides)

    def read_rows(self, contents: Contents, rows: NDArray[np.generic], first: int) -> None:
        """Read rows in the order of the file, as far as possible."""
        axes = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        view, itemsize = rows.transpose(axes), self.dtype.itemsize
        steps = [self.strides[axis] for axis in axes]
        length = 1 + sum(
            (dim - 1) * step for dim, step in zip(view.shape[1:], steps[1:], strict=True)
        )
        most = max(self.span.grain, CHUNK // itemsize)
        count = max(1, 1 + (most - length) // max(1, steps[0]))
        for begin in range(0, len(view), count):
            block = view[begin : begin + count]
            scratch = np.empty((len(block) - 1) * steps[0] + length, self.dtype)
            start = first * self.strides[0] + begin * steps[0]
            self.span.read_into(contents, scratch, first=start)
            block[...] = np.lib.stride_tricks.as_strided(
                scratch, block.shape, [step * itemsize for step in steps]
            )
