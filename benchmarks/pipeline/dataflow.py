"""Pipelines of steps on two sides, and the minimum of bytes that a program must move for one.

A step declares its side and its use of buffers. The minimum is computed from that alone, without
Blobs. An element must move if a step reads it on a side that its newest value has not reached, once
for each such value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Buffer", "Copy", "Pipeline", "Step", "Use", "least_bytes", "plan"]

Side = Literal["host", "device"]
Intent = Literal["read", "update", "write"]

_OTHER: dict[Side, Side] = {"host": "device", "device": "host"}


class Buffer(NamedTuple):
    """A buffer of a pipeline: an array of this shape and dtype, initially zeros."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Use(NamedTuple):
    """The use of a buffer, or of some of its rows, by a step.

    Attributes
    ----------
    name
        The buffer. ``"weights.diff"`` is the gradient of the buffer ``"weights"``.
    intent
        Read, read and write, or overwrite everything without reading.
    rows
        The rows; None for all.
    """

    name: str
    intent: Intent
    rows: slice | None = None

    def of(self, array: Any) -> Any:
        """Return the rows of an array, as a view."""
        return array if self.rows is None else array[self.rows]


class Step(NamedTuple):
    """A computation on one side.

    Attributes
    ----------
    name
        A short description.
    side
        The side that it runs on.
    uses
        The buffers whose arrays it gets, in this order.
    compute
        A function of the array library of the side and of the arrays.
    """

    name: str
    side: Side
    uses: tuple[Use, ...]
    compute: Callable[..., None]


@dataclass
class Pipeline:
    """Steps in the order in which they run.

    Attributes
    ----------
    name
        A short description.
    buffers
        The buffers of the steps, by name.
    results
        The buffers that are read on the host at the end.
    steps
        The steps.
    """

    name: str
    buffers: dict[str, Buffer]
    results: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)

    def add(self, name: str, side: Side, uses: Iterable[Use], compute: Callable[..., None]) -> None:
        """Append a step."""
        self.steps.append(Step(name, side, tuple(uses), compute))


class Copy(NamedTuple):
    """Some rows of a buffer that must be copied to a side before a step."""

    use: Use
    to: Side
    nbytes: int


def plan(pipeline: Pipeline) -> list[list[Copy]]:
    """Return the copies needed before each step, and before reading the results.

    The initial zeros are not copied: each side can make them itself.
    """
    newest: dict[str, dict[Side, np.ndarray]] = {
        name: {side: np.ones(buffer.shape, bool) for side in _OTHER}
        for name, buffer in pipeline.buffers.items()
    }

    def before(side: Side, uses: Iterable[Use]) -> list[Copy]:
        copies = []
        for use in uses:
            here, there = (use.of(newest[use.name][place]) for place in (side, _OTHER[side]))
            missing = 0 if use.intent == "write" else int(np.count_nonzero(~here))
            if missing:
                itemsize = np.dtype(pipeline.buffers[use.name].dtype).itemsize
                copies.append(Copy(use, side, missing * itemsize))
            here[...] = True
            if use.intent != "read":
                there[...] = False
        return copies

    copies = [before(step.side, step.uses) for step in pipeline.steps]
    copies.append(before("host", [Use(name, "read") for name in pipeline.results]))
    return copies


def least_bytes(pipeline: Pipeline) -> int:
    """Return the minimum of bytes to move."""
    return sum(copy.nbytes for copies in plan(pipeline) for copy in copies)
