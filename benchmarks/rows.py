"""The rows of results: a value of ours, that of a rival, and a goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Unit = Literal["s", "B/s", "B", "bytes", "adds", "calls", "times", "power"]
Kind = Literal["ratio", "difference", "value"]

_THOUSAND = 1000
# The note of a group whose measurement was killed.
CUT_OFF = "the measurement was cut off here"


@dataclass(frozen=True)
class Goal:
    """A goal of the project for a row.

    `limit`: the maximum, in the unit of the row unless it is a ratio.
    `of`: the limited quantity: the ratio to the rival, the difference from the rival, or the value.
    """

    limit: float
    of: Kind = "ratio"


@dataclass(frozen=True)
class Cell:
    """The place of a row in a matrix. The line is that of `Row.ours`.

    `column`: the name of the column.
    `shows`: what the matrix shows: the ratio to the rival, the difference from the rival in
        microseconds, or the value.
    """

    column: str
    shows: Kind = "ratio"


@dataclass(frozen=True)
class Row:
    """One comparison.

    `section`: the title of the section, under which rows are grouped.
    `ours`, `value`: the name and the value of syncblob's measurement.
    `rival`, `rival_value`: those of the rival in the same run. The value is None if there is no
        rival.
    `unit`: ``"s"``, ``"B/s"``, ``"B"``, ``"bytes"`` for exact numbers of bytes, ``"adds"``: calls
        of ``np.add`` of two small arrays, measured in the same run, ``"calls"`` for exact numbers
        of calls, ``"times"`` for multiples, or ``"power"`` for exponents.
    `goal`: None if the project has no goal for it.
    `cell`: the place in the matrix of the section; None if the section is a list.
    """

    section: str
    ours: str
    value: float
    rival: str = ""
    rival_value: float | None = None
    unit: Unit = "s"
    goal: Goal | None = None
    cell: Cell | None = None

    def __post_init__(self) -> None:
        """Tell those who write results while a group is being measured."""
        for note in _noting:
            note(self)

    def of(self, kind: Kind) -> float | None:
        """Return the ratio to the rival, the difference from it, or the value; None if unknown."""
        if kind == "value":
            return self.value
        if self.rival_value is None or (kind == "ratio" and not self.rival_value):
            return None
        return self.value / self.rival_value if kind == "ratio" else self.value - self.rival_value

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        found = self.of(self.goal.of)
        # The ratio to nothing is met by nothing.
        return found <= self.goal.limit if found is not None else self.value <= 0

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> Row:
        """Return the row from what `dataclasses.asdict` made of it; defaults may be missing."""
        goal, cell = kept.get("goal"), kept.get("cell")
        kept = {**kept, "goal": goal and Goal(**goal), "cell": cell and Cell(**cell)}
        return cls(**kept)


_noting: list[Callable[[Row], None]] = []


@contextmanager
def noting(note: Callable[[Row], None]) -> Iterator[None]:
    """Call a function with each row that is made inside a ``with`` block."""
    _noting.append(note)
    try:
        yield
    finally:
        _noting.remove(note)


@dataclass
class Measured:
    """The results of a group: comparisons, and remarks, for example what this machine lacks."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def quantity(value: float, unit: Unit) -> str:
    """Format a value with its unit, scaled for reading.

    Examples
    --------
    >>> quantity(2.5e-7, "s"), quantity(0.0125, "s"), quantity(3.2e10, "B/s"), quantity(4e6, "B")
    ('0.250 us', '12.500 ms', '32.00 GB/s', '4.0 MB')
    """
    texts = {
        "bytes": f"{value:,.0f} B",
        "power": f"n^{value:.2f}",
        "B": f"{value / 1e6:.1f} MB",
        "B/s": f"{value / 1e9:.2f} GB/s",
    }
    if unit != "s":
        return texts.get(unit, f"{value:.2f} {unit}")
    for scale, name in ((1e6, "us"), (1e3, "ms")):
        if abs(value) * scale < _THOUSAND:
            return f"{value * scale:.3f} {name}"
    return f"{value:.3f} s"
