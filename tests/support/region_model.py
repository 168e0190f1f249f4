"""An independent model of coherence by region: what holds for each element of a memory.

It knows nothing of spans, buffers or bytes. For each element it has the newest value and the set of
sides that hold it; beside that, what was lent over which range. It was written from the
specification, and not from the code that it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Cells = NDArray[np.intp]

__all__ = ["BOTH", "CPU", "GPU", "NOBODY", "OTHER", "Loan", "Memory", "Plan", "head_of", "reach"]

CPU, GPU = "cpu", "gpu"
OTHER = {CPU: GPU, GPU: CPU}
NOBODY: frozenset[str] = frozenset()
BOTH = frozenset({CPU, GPU})
HEADS = {
    NOBODY: "SPLIT",
    frozenset({CPU}): "HEAD_AT_CPU",
    frozenset({GPU}): "HEAD_AT_GPU",
    BOTH: "SYNCED",
}


def reach(cells: Cells) -> range:
    """Return the hull of some elements: from the first in the memory to behind the last."""
    return range(int(cells.min()), int(cells.max()) + 1) if cells.size else range(0)


def overlap(one: range, other: range) -> bool:
    return bool(one) and bool(other) and one.start < other.stop and other.start < one.stop


def runs(elements: Iterable[int]) -> int:
    """Count the contiguous pieces."""
    found = set(elements)
    return sum(element - 1 not in found for element in found)


def head_of(holders: Sequence[frozenset[str]]) -> str:
    """Return the name of the head of elements; there is at least one."""
    if not any(holders):
        return "UNINITIALIZED"
    return HEADS[frozenset.intersection(*holders)]


@dataclass(eq=False)
class Loan:
    """A borrow or an alias that may write: an array of somebody's over some elements.

    Attributes
    ----------
    hull
        The range that it was lent for. A slice of it has fewer `cells`, and the same range.
    revocable
        Whether the array itself loses its permission where it is left behind.
    writeable
        Whether it has its permission.
    line
        Of an alias: where it was made.
    """

    side: str
    hull: range
    cells: Cells
    array: Any
    revocable: bool = True
    writeable: bool = True
    line: int = 0


@dataclass(eq=False)
class Plan:
    """What an access is going to do.

    Attributes
    ----------
    stale
        The elements that are copied from the other side.
    filled, zeroed
        The elements that come from the source, and those that are zero and were never anywhere.
    after
        Who holds which element afterwards, where that changes.
    left
        The aliases that it leaves behind, with a warning.
    revoked
        The loans that lose their permission to write.
    """

    side: str
    intent: str
    hull: range
    stale: list[int] = field(default_factory=list)
    filled: list[int] = field(default_factory=list)
    zeroed: list[int] = field(default_factory=list)
    after: dict[int, frozenset[str]] = field(default_factory=dict)
    left: list[Loan] = field(default_factory=list)
    revoked: list[Loan] = field(default_factory=list)

    @property
    def copied(self) -> list[int]:
        """The elements that go from one side to the other; what the source gives starts here."""
        return self.stale + (self.filled if self.side == GPU else [])


class Memory:
    """What a memory holds, element by element.

    Attributes
    ----------
    values
        The newest contents.
    holders
        The sides that have them; nobody in the beginning.
    source
        How many elements the source gives that have been in use ever since; None without a source.
    exposed
        For each side, the elements that somebody may write who cannot be watched.
    owned
        Whether an array of somebody else was adopted, who can see the memory.
    """

    def __init__(self, values: list[int], *, source: bool = False) -> None:
        self.values = values
        self.capacity = len(values)
        self.holders = [NOBODY] * len(values)
        self.source = len(values) if source else None
        self.exposed: dict[str, set[int]] = {CPU: set(), GPU: set()}
        self.owned = False
        self.borrows: list[Loan] = []
        self.aliases: list[Loan] = []

    @property
    def used(self) -> int:
        """How many elements are in use."""
        return len(self.values)

    @property
    def untouched(self) -> bool:
        """Whether the first access makes all of it one side's."""
        return self.source is None and not any(self.holders)

    @property
    def lent(self) -> list[Loan]:
        """The aliases that a replacement of all leaves behind: those of anything at all."""
        return [alias for alias in self.aliases if alias.hull]

    def head(self, cells: Cells) -> str:
        """Return the name of the head over the hull of some elements."""
        return head_of([self.holders[element] for element in reach(cells)])

    def sticky(self, side: str, element: int) -> bool:
        """Tell whether somebody may write an element on a side at any time."""
        return element in self.exposed[side] or any(
            alias.side == side and element in alias.hull for alias in self.aliases
        )

    def joined(self, element: int, side: str) -> frozenset[str]:
        """Return who holds an element when it has been copied to a side to be read there."""
        if self.sticky(OTHER[side], element):
            return self.holders[element]
        return frozenset({side}) if self.sticky(side, element) else BOTH

    def plan(self, side: str, intent: str, cells: Cells, *, all_in_use: bool = False) -> Plan:
        """Say what an access does; nothing changes.

        Parameters
        ----------
        side, intent, cells
            Where, what for, and the elements of the Blob or view.
        all_in_use
            Whether it is a Blob of its own, as Caffe has it: its accesses are for all elements in
            use, also where another Blob or a view keeps more of them in use than it has itself.
        """
        plan = Plan(side, intent, range(self.used) if all_in_use else reach(cells))
        hull, here = plan.hull, frozenset({side})
        unheld = [element for element in hull if not self.holders[element]]
        if unheld and self.untouched:
            plan.zeroed = list(range(self.used))
        elif intent != "overwrite" or cells.size < len(hull):
            known = self.source or 0
            plan.filled = [element for element in unheld if element < known]
            plan.zeroed = [element for element in unheld if element >= known]
        plan.after = dict.fromkeys([*plan.zeroed, *plan.filled], here)
        if intent != "overwrite" or cells.size < len(hull):
            plan.stale = [e for e in hull if self.holders[e] and side not in self.holders[e]]
        if intent == "const":
            plan.after |= {element: self.joined(element, side) for element in plan.stale}
            plan.revoked = [
                borrow
                for borrow in self.borrows
                if borrow.side != side and any(element in borrow.hull for element in plan.stale)
            ]
            return plan
        plan.after |= dict.fromkeys(hull, here)
        others = [loan for loan in self.aliases if loan.side != side and overlap(loan.hull, hull)]
        plan.left = others
        plan.revoked = [loan for loan in others if loan.revocable] + [
            loan for loan in self.borrows if loan.side != side and overlap(loan.hull, hull)
        ]
        return plan

    def commit(self, plan: Plan) -> None:
        """Do what was planned."""
        for element, holders in plan.after.items():
            self.holders[element] = holders
        if plan.intent != "const":
            self.exposed[OTHER[plan.side]] -= set(plan.hull)
        self.take_back(plan.revoked)

    def take_back(self, loans: Iterable[Loan]) -> None:
        """Take the permission to write of some loans, for good."""
        for loan in loans:
            loan.writeable = False
        self.borrows = [borrow for borrow in self.borrows if borrow.writeable]

    def adopt(self, side: str) -> None:
        """Replace one side by another array; the values are set by the caller."""
        self.take_back([*self.borrows, *(alias for alias in self.aliases if alias.revocable)])
        self.holders = [frozenset({side})] * self.used
        self.capacity = self.used
        self.source = None
        self.exposed = {CPU: set(), GPU: set()}
        # Those of the side itself are over a buffer that nobody has any more.
        self.aliases = [alias for alias in self.aliases if alias.side != side]

    def fit(self, count: int) -> range:
        """Change how many elements are in use; return those that come into use, which are zero."""
        new = range(self.used, count)
        self.values = self.values[:count] + [0] * len(new)
        self.holders = self.holders[:count] + [NOBODY] * len(new)
        self.source = None if self.source is None else min(self.source, count)
        self.borrows = [borrow for borrow in self.borrows if borrow.hull.stop <= count]
        for exposed in self.exposed.values():
            exposed.intersection_update(range(count))
        return new

    def writable(self, loan: Loan, element: int) -> bool:
        """Tell whether what is written through a loan is the newest contents."""
        return self.holders[element] == {loan.side}
