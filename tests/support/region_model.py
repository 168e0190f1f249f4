"""An independent model of coherence by region, element by element.

It has no spans, buffers or bytes. For each element it has the newest value and the set of sides
that hold it, and it has the ranges of all loans. It was written from the specification, not from
the code that it is compared with.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.intp]

# The host and the accelerators.
CPU, GPU, FAR = "cpu", "gpu", "far"
NOBODY = frozenset()
# Whether what lies beside a part comes to the host with it, as in small memories.
SMALL = False
# Whether the host and the accelerator have one memory, so that nothing is copied or becomes stale.
ONE = False


def reach(cells):
    """Return the hull of elements: the range from the first to the last in the memory."""
    return range(int(cells.min()), int(cells.max()) + 1) if cells.size else range(0)


def overlap(one, other):
    return bool(one) and bool(other) and one.start < other.stop and other.start < one.stop


def runs(elements, of=None):
    """Count the contiguous pieces, in each of which `of` has one value."""
    found = set(elements)
    return sum(
        element - 1 not in found or (of is not None and of[element - 1] != of[element])
        for element in found
    )


def head_of(holders, accelerator):
    """Return the name of the head of at least one element, for the host and an accelerator."""
    if not any(holders):
        return "UNINITIALIZED"
    everywhere = frozenset.intersection(*holders)
    if not everywhere:
        return "SPLIT"
    if {CPU, accelerator} <= everywhere:
        return "SYNCED"
    if CPU in everywhere:
        return "HEAD_AT_CPU"
    return "HEAD_AT_GPU" if accelerator in everywhere else "ELSEWHERE"


@dataclass(eq=False)
class Loan:
    """A writable borrow or alias: an array over some elements that other code holds.

    `hull`: the range that it was lent for. A slice of it has fewer `cells` and the same range.
    `revocable`: whether the array itself loses its write permission when it becomes stale.
    `writeable`: whether it has its write permission.
    `line`: the line that made it, if it is an alias.
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
    """The effects of an access.

    `before`: the holders of all elements before.
    `stale`: the elements that are copied from a side that holds them.
    `rest`: more elements that are copied, and keep their holders.
    `filled`, `zeroed`: the elements that come from the source, and the zeros that no side held
        before.
    `after`: the holders of elements afterwards, if they change.
    `left`: the aliases that become stale, with a warning.
    `revoked`: the loans that lose their write permission.
    """

    side: str
    intent: str
    hull: range
    before: list[frozenset[str]]
    stale: list[int] = field(default_factory=list)
    filled: list[int] = field(default_factory=list)
    zeroed: list[int] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    after: dict[int, frozenset[str]] = field(default_factory=dict)
    left: list[Loan] = field(default_factory=list)
    revoked: list[Loan] = field(default_factory=list)

    @property
    def copied(self):
        """The elements that are copied between the sides. The source counts as the host."""
        if ONE:
            return []
        return self.stale + self.rest + (self.filled if self.side != CPU else [])

    def moved(self, *, pushed=False):
        """Return the elements that are copied in each direction: from the nearest holder.

        An asynchronous upload takes from the host what that holds.
        """
        directions = {"upload": [], "download": [], "peer": []}
        for element in self.copied:
            holders = self.before[element]
            kind = "upload" if holders <= {CPU} or (pushed and CPU in holders) else "peer"
            directions["download" if self.side == CPU else kind].append(element)
        return directions


class Memory:
    """A memory, element by element.

    `values`: the newest contents.
    `holders`: the sides that hold each element; initially none.
    `source`: whether a source has what no side holds.
    `exposed`: for each side, the elements that untracked code may write.
    `owned`: whether a foreign array was adopted, whose owner can see the memory.
    `foreign`: the sides that are adopted arrays, and therefore never leave.
    """

    def __init__(self, values, *, source=False):
        self.values = values
        self.holders = [NOBODY] * len(values)
        self.source = source
        self.exposed = {CPU: set(), GPU: set(), FAR: set()}
        self.owned = False
        self.foreign = set()
        self.borrows = []
        self.aliases = []

    @property
    def size(self):
        """The number of elements."""
        return len(self.values)

    @property
    def untouched(self):
        """Whether the first access makes one side the holder of all elements."""
        return not self.source and not any(self.holders)

    @property
    def lent(self):
        """The aliases that become stale when everything is replaced: those of any element."""
        return [alias for alias in self.aliases if alias.hull]

    def head(self, cells, accelerator=GPU):
        """Return the name of the head of the hull of elements."""
        return head_of([self.holders[element] for element in reach(cells)], accelerator)

    def sticky(self, side, element):
        """Tell whether an alias or untracked code may write an element on a side at any time."""
        return element in self.exposed[side] or any(
            alias.side == side and element in alias.hull for alias in self.aliases
        )

    def joined(self, element, side):
        """Return the holders of an element after a copy to a side for reading."""
        holders = self.holders[element]
        if any(self.sticky(each, element) for each in (self.exposed if ONE else holders)):
            return holders
        return frozenset({side}) if self.sticky(side, element) else holders | {side}

    def plan(self, side, intent, cells):
        """Return the effects of an access to the elements of a Blob or view. Changes nothing."""
        hull = reach(cells)
        plan = Plan(side, intent, hull, list(self.holders))
        here = frozenset({side})
        unheld = [element for element in hull if not self.holders[element]]
        if unheld and self.untouched:
            plan.zeroed = list(range(self.size))
        elif intent != "overwrite" or cells.size < len(hull):
            (plan.filled if self.source else plan.zeroed).extend(unheld)
        plan.after = dict.fromkeys([*plan.zeroed, *plan.filled], here)
        if intent != "overwrite" or cells.size < len(hull):
            plan.stale = [e for e in hull if self.holders[e] and side not in self.holders[e]]
        if SMALL and side == CPU and (plan.stale or plan.filled):
            self.bring_rest(plan)
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
        others = [] if ONE else others
        plan.left = others
        plan.revoked = [loan for loan in others if loan.revocable] + [
            loan for loan in self.borrows if loan.side != side and overlap(loan.hull, hull)
        ]
        return plan

    def bring_rest(self, plan):
        """Let an access bring the elements beside its hull that are where those at its ends are."""
        for end, beside in (
            (plan.hull.start, range(plan.hull.start - 1, -1, -1)),
            (plan.hull.stop - 1, range(plan.hull.stop, self.size)),
        ):
            if plan.side in self.holders[end]:
                continue
            for element in beside:
                if self.holders[element] != self.holders[end]:
                    break
                if self.holders[element]:
                    plan.rest.append(element)
                else:
                    (plan.filled if self.source else plan.zeroed).append(element)
                    plan.after[element] = frozenset({plan.side})

    def commit(self, plan):
        """Apply a plan."""
        for element, holders in plan.after.items():
            self.holders[element] = holders
        if plan.intent != "const":
            for side, exposed in self.exposed.items():
                if side != plan.side:
                    exposed -= set(plan.hull)
        self.take_back(plan.revoked)

    def take_back(self, loans):
        """Revoke the write permission of loans permanently."""
        for loan in loans:
            loan.writeable = False
        self.borrows = [borrow for borrow in self.borrows if borrow.writeable]

    def adopt(self, side):
        """Replace one side by another array. The caller sets the values."""
        self.take_back([*self.borrows, *(alias for alias in self.aliases if alias.revocable)])
        self.holders = [frozenset({side})] * self.size
        self.source = False
        self.exposed = {CPU: set(), GPU: set(), FAR: set()}
        self.foreign.add(side)
        # Aliases of that side are over the old buffer, which is no longer part of the memory.
        self.aliases = [alias for alias in self.aliases if alias.side != side and not ONE]

    def evict(self, side, hull):
        """Let a side hold nothing of a range; return what is copied to the host before."""
        alone = frozenset({side})
        copied = [element for element in hull if self.holders[element] == alone]
        for element in hull:
            held = self.holders[element]
            self.holders[element] = frozenset({CPU}) if held == alone else held - alone
        return copied

    def writable(self, loan, element):
        """Tell whether a write through a loan changes the newest contents."""
        return ONE or self.holders[element] == {loan.side}

    def shows(self, loan, element):
        """Tell whether a loan shows the newest contents."""
        return ONE or loan.side in self.holders[element]
