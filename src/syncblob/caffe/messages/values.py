"""Where values are in a file, and reading them piece by piece.

A reader of a format says where the values of an array are: in runs, strided, or known to a library
that unpacks them. `Values.read_into` reads any range of them, `Values.chunks` piece by piece.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from syncblob.caffe.messages.fields import Array, DType, Shape

CHUNK = 1 << 20
"""Bytes to read, convert or compare at a time: few calls, and they fit in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Values:
    """The position of values in a file or a buffer, and their dtype there."""

    dtype: DType
    longest_chunk: ClassVar[int] = CHUNK
    """Bytes to read at a time."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of values."""

    @property
    def grain(self) -> int:
        """The number of values from one position that is good to begin at to the next."""
        return 1

    @abstractmethod
    def read_into(self, contents: Any, target: Array, *, first: int = 0) -> None:
        """Read values, from number `first` on, into an array of one dimension, in its dtype."""

    def chunks(
        self, contents: Any, dtype: DType, first: int = 0, stop: int | None = None
    ) -> Iterator[Array]:
        """Read values piece by piece, converted. Each array is valid until the next one."""
        stop, grain = self.count if stop is None else stop, self.grain
        step = max(grain, self.longest_chunk // dtype.itemsize // grain * grain)
        buffer: Array = np.empty(max(0, min(step, stop - first)), dtype)
        while first < stop:
            chunk = buffer[: min(step - first % grain, stop - first)]
            self.read_into(contents, chunk, first=first)
            yield chunk
            first += len(chunk)


@dataclass(frozen=True, slots=True)
class Run:
    """Values at a constant stride: a packed list, or a row of unpacked fields."""

    start: int
    count: int
    stride: int


@dataclass(frozen=True, slots=True)
class Runs(Values):
    """Values in pieces, one after the other."""

    runs: tuple[Run, ...]

    @classmethod
    def in_order(cls, dtype: DType, start: int, count: int) -> Self:
        """Return the position of values without gaps."""
        return cls(dtype, (Run(start, count, dtype.itemsize),) if count else ())

    @property
    def count(self) -> int:
        return sum(run.count for run in self.runs)

    def read_into(self, contents: Any, target: Array, *, first: int = 0) -> None:
        """Read those that are packed and of the dtype of the array directly into it."""
        is_exact = target.dtype == self.dtype
        for run in self.runs:
            if (count := min(run.count - first, len(target))) > 0:
                start, part = run.start + first * run.stride, target[:count]
                if is_exact and run.stride == self.dtype.itemsize:
                    contents.read_into(part.view(np.uint8), start)
                else:
                    self._convert_into(contents, start, run.stride, part)
                target = target[count:]
            first = max(0, first - run.count)

    def _convert_into(self, contents: Any, start: int, stride: int, target: Array) -> None:
        step = max(1, CHUNK // stride)
        scratch = np.empty(min(step, len(target)) * stride, np.uint8)
        for begin in range(0, len(target), step):
            count = min(step, len(target) - begin)
            # Do not read the gap after the last value: the file may end there.
            used = scratch[: (count - 1) * stride + self.dtype.itemsize]
            contents.read_into(used, start + begin * stride)
            values = np.ndarray((count,), self.dtype, scratch, strides=(stride,))
            # As C's static_cast; where it leaves the result undefined (NaN or a large value to an
            # integer), as NumPy, without a warning.
            with np.errstate(over="ignore", invalid="ignore"):
                target[begin : begin + count] = values


@dataclass(frozen=True, slots=True)
class StridedValues(Values):
    """Values in another order than C's: transposed, with gaps between them, or repeated.

    `span` has all values from the first to the last, with those in the gaps, and is read as a
    whole; `strides`, for each axis, the distance in it from one value to the next.
    """

    shape: Shape
    span: Values
    strides: Shape

    @classmethod
    def of(cls, span: Values, shape: Shape, strides: Shape) -> Values:
        """Return these positions; `span` itself if they are in C's order."""
        size = 1
        in_order = True
        for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
            in_order &= dim == 1 or stride == size
            size *= dim
        return span if in_order or not size else cls(span.dtype, shape, span, strides)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def grain(self) -> int:
        return self.count

    def read_into(self, contents: Any, target: Array, *, first: int = 0) -> None:
        values: Array = np.empty(self.span.count, self.dtype)
        self.span.read_into(contents, values)
        steps = [stride * values.itemsize for stride in self.strides]
        view = np.lib.stride_tricks.as_strided(values, self.shape, steps)
        if len(target) == self.count:
            target.reshape(self.shape)[...] = view
        else:
            target[:] = view.flat[first : first + len(target)]
