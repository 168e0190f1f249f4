"""Programs of steps on two sides, and the minimum of bytes that must be moved for one.

A step declares its side and its use of buffers. The minimum is computed from that alone, without
Blobs. An element must move if a step reads it on a side that its newest value has not reached, once
for each such value.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

Side = Literal["host", "device"]
Intent = Literal["read", "update", "write"]

_OTHER: dict[Side, Side] = {"host": "device", "device": "host"}


class Buffer(NamedTuple):
    """A buffer of a program: an array of this shape and dtype, initially zeros."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Use(NamedTuple):
    """The use of a buffer, or of a part of it, by a step.

    `name`: the buffer. ``"weights.diff"`` is the gradient of the buffer ``"weights"``.
    `intent`: read, read and write, or overwrite everything without reading.
    `part`: the index of the part; None for all.
    """

    name: str
    intent: Intent
    part: Any = None

    def of(self, array: Any) -> Any:
        """Return the part of an array, as a view."""
        return array if self.part is None else array[self.part]


class Step(NamedTuple):
    """A computation on one side: a function of its array library and of the arrays of its uses."""

    side: Side
    uses: tuple[Use, ...]
    compute: Callable[..., None]


@dataclass
class Program:
    """Steps in the order in which they run.

    `name`: a short description.
    `buffers`: the buffers of the steps, by name.
    `results`: the buffers that are read on the host at the end.
    """

    name: str
    buffers: dict[str, Buffer]
    results: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)

    def add(self, side: Side, uses: str, compute: Callable[..., None], **parts: Any) -> None:
        """Append a step.

        `side`: the side that it runs on.
        `uses`: the names of its buffers, each with ``+`` behind it to update and ``=`` to overwrite
            it.
        `compute`: its function.
        `parts`: the indices of the buffers that it uses only a part of.
        """
        intents: dict[str, Intent] = {"+": "update", "=": "write"}
        found = [(word.rstrip("+="), intents.get(word[-1], "read")) for word in uses.split()]
        used = tuple(Use(name, intent, parts.get(name)) for name, intent in found)
        self.steps.append(Step(side, used, compute))


class Copy(NamedTuple):
    """A part of a buffer that must be copied to a side before a step."""

    use: Use
    to: Side
    nbytes: int


def plan(program: Program, *, whole: bool = False) -> list[list[Copy]]:
    """Return the copies needed before each step, and before reading the results.

    The initial zeros are not copied: each side can make them itself.

    `whole`: track whole arrays, as if nothing was known about parts: a step that overwrites a part
        needs the rest.
    """
    newest: dict[str, dict[Side, np.ndarray]] = {
        name: {side: np.ones(buffer.shape, bool) for side in _OTHER}
        for name, buffer in program.buffers.items()
    }

    def before(side: Side, uses: Iterable[Use]) -> list[Copy]:
        copies = []
        for given in uses:
            use = given
            if whole and use.part is not None:
                use = Use(use.name, "update" if use.intent == "write" else use.intent)
            here, there = (use.of(newest[use.name][place]) for place in (side, _OTHER[side]))
            if use.intent != "write":
                copies += _missing(use, ~here, side, program.buffers[use.name])
            here[...] = True
            if use.intent != "read":
                there[...] = False
        return copies

    copies = [before(step.side, step.uses) for step in program.steps]
    copies.append(before("host", [Use(name, "read") for name in program.results]))
    return copies


def at_each_step(program: Program) -> list[list[Copy]]:
    """Return the copies of the inputs of each step on the device there, and of its outputs back."""
    found: list[list[Copy]] = []
    outputs: list[Copy] = []
    for step in program.steps:
        nbytes = [use.of(np.empty(*program.buffers[use.name])).nbytes for use in step.uses]
        inputs = [Copy(use, "device", size) for use, size in zip(step.uses, nbytes, strict=True)]
        on_device = step.side == "device"
        found.append([*outputs, *(x for x in inputs if on_device and x.use.intent != "write")])
        outputs = [x._replace(to="host") for x in inputs if on_device and x.use.intent != "read"]
    return [*found, outputs]


def bytes_of(planned: list[list[Copy]]) -> int:
    """Return the bytes of the copies of a plan."""
    return sum(copy.nbytes for copies in planned for copy in copies)


def _missing(use: Use, lacking: np.ndarray, side: Side, buffer: Buffer) -> Iterator[Copy]:
    """Yield copies of what a use lacks: of all of it, or of each run of rows."""
    itemsize = np.dtype(buffer.dtype).itemsize
    if lacking.all():
        yield Copy(use, side, lacking.size * itemsize)
        return
    rows = lacking.any(axis=tuple(range(1, lacking.ndim)))
    first = use.part.start or 0 if use.part is not None else 0
    edges = np.flatnonzero(np.diff(rows, prepend=False, append=False)).tolist()
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        part = Use(use.name, "read", slice(first + start, first + stop))
        yield Copy(part, side, int(lacking[start:stop].sum()) * itemsize)
