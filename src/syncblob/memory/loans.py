"""Loans: what a memory has handed out, how it ends, and the warning before an alias becomes stale.

A *borrow* comes from an accessor and is valid until the next access on the other side. A writable
NumPy borrow loses its write permission at that moment, so that a late write raises instead of
vanishing. A slice taken from it earlier keeps its own permission: NumPy does not report slices.

An *alias* comes from a protocol, and its consumer may keep it as long as it likes. The memory can
tell when its last array, slice, tensor or capsule is gone, and until then it copies again instead
of trusting an older copy. If the lifetime cannot be tracked, the bytes are *exposed*.

All of them have a range, from the first byte of their elements in the memory to the end of the
last. Accesses that do not overlap the range do not affect them.

An array dies on any thread, at any moment. The callback of its weak reference is a method of a
set, written in C, that removes it. So a loan may vanish between any two steps here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._source_lines import Place, user_instruction, warn_user
from syncblob._weak_list import Reference
from syncblob.errors import StaleAliasWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from syncblob._source_lines import NotedPlace
    from syncblob.devices import Side
    from syncblob.memory.changes import Change
    from syncblob.memory.ledger import Ledger, Transition

BORROW = "borrow"

# The kind of aliases that are NumPy arrays made by this package. When they become stale, they lose
# their write permission, and a warning is emitted as well: their slices, and tensors over them,
# have a permission of their own.
NUMPY = "NumPy"

# What aliases of unknown lifetime may write, and what other processes may. Only `assume_unaliased`
# ends the latter; the former also ends when the other side is written.
EXPOSED, SHARED = "exposed", "shared"

# The number of ended borrows that are remembered.
_REMEMBERED = 8

# Up to this many loans are compared one by one, which takes less time than to use an index.
_FEW = 32

# How often an access warns, and looks for aliases that were made since, before it gives up.
_MOST_WARNINGS = 100


class Loan(Reference):
    """A range of a side that was handed out: a weak reference to what dies with its last use.

    That of an exposure, whose end is never known, is the memory.
    """

    __slots__ = ("ended", "kind", "noted", "side", "start", "stop")

    # `BORROW`, `EXPOSED`, `SHARED`, or the protocol of an alias, as named in the warning.
    kind: str
    # The range, which does not change.
    side: Side
    start: int
    stop: int
    # The fields of `place`; None for borrows.
    noted: NotedPlace | None
    # The entry of the history that ended a borrow, or last made an alias stale. Absent until then.
    ended: Transition

    @property
    def place(self) -> Place:
        """The line of the user's code that made it."""
        return Place(*self.noted)  # type: ignore[misc]  # not of a borrow

    @property
    def exposed(self) -> bool:
        """Whether its lifetime is unknown."""
        return self.kind is EXPOSED or self.kind is SHARED

    @property
    def revoked(self) -> bool:
        """Whether it has lost its write permission. Only NumPy arrays can."""
        array = self() if self.kind is NUMPY else None
        return array is not None and not array.flags.writeable

    def description(self) -> str:
        """Describe it, with the line that made it."""
        side, line = f"the {self.side.name.lower()} side", self.place.line.describe()
        if self.exposed:
            return f"{side}, exposed at {line}"
        return f"a {self.kind} alias{self.place.consumer} of {side}, created at {line}"


class Loans:
    """The loans of a memory.

    They may be added without the memory's lock; everything else needs it. A loan is first added to
    `live`; then, if there is an index, to that. An index is assigned before it is filled from
    `live`. So it lacks no loan that was added before a search: either `live` had it by then, or
    whoever added it found the index.

    A memory that has handed nothing out has `NO_LOANS`. It may get them again, after its shortcuts
    were revoked. So who adds a loan without the lock asks the shortcut afterwards, and then whether
    the memory still has these loans.
    """

    __slots__ = ("ended", "foreign", "index", "live")

    def __init__(self) -> None:
        # Never iterate over the set itself: they vanish at any time.
        self.live: set[Loan] = set()
        # By range; None until many of them have been searched.
        self.index: _Index | None = None
        # The sides, as a bit mask, whose buffers other code has made, and expects later writes in:
        # an array that was adopted, or shared memory. They stay, even when no longer exposed.
        self.foreign: int = 0
        # The last borrows that ended.
        self.ended: tuple[Loan, ...] = ()

    def lend(
        self,
        target: object,
        kind: str,
        side: Side,
        start: int,
        stop: int,
        noted: NotedPlace | None = None,
    ) -> Loan:
        """Record a loan of a range, which lives as long as `target`, and where it was made."""
        loan = Loan(target, self.live.discard)
        loan.kind = kind
        loan.side = side
        loan.start = start
        loan.stop = stop
        loan.noted = user_instruction() if noted is None and kind is not BORROW else noted
        self.live.add(loan)
        index = self.index
        if index is not None:
            index.add(loan)
            if index.is_outgrown(len(self.live)):
                # Most of it is dead. The next search makes another one.
                self.index = None
        return loan

    def over(self, start: int, stop: int) -> list[Loan]:
        """Return the loans that overlap a range, in a time that those elsewhere do not add to."""
        live, index = self.live, self.index
        if len(live) <= _FEW:
            return [each for each in list(live) if each.start < stop and start < each.stop]
        if index is None or not index.filled or index.is_outgrown(len(live)):
            index = self.index = _Index()
            for loan in list(live):
                index.add(loan)
            index.filled = True
        near = index.near(start, stop)
        return [each for each in near if each.start < stop and start < each.stop and each in live]

    def writers(self, start: int, stop: int, sides: int = -1) -> list[Loan]:
        """Return what may write into a range of some sides, a bit mask, at any moment."""
        over = self.over(start, stop)
        return [each for each in over if each.kind is not BORROW and sides >> each.side & 1]

    def of(self, side: int) -> list[Loan]:
        """Return all of a side."""
        return [each for each in list(self.live) if each.side == side]

    def revoke(
        self, revoked: list[Loan], sides: int, reach: tuple[int, int] | None, *, aliases: int
    ) -> None:
        """Revoke the write permission of borrows of `sides`, and of NumPy `aliases` of these.

        Both are bit masks; `reach` becomes stale, None is everything. What had the permission is
        appended to the list, so that it can be given back.
        """
        for loan in list(self.live) if reach is None else self.over(*reach):
            if sides >> loan.side & 1 and (
                loan.kind is BORROW
                or (aliases >> loan.side & 1 and loan.kind is NUMPY and loan.start < loan.stop)
            ):
                array = loan()
                if array is not None and array.flags.writeable:
                    # Append first: an interrupt may come at any time, and what is in the list is
                    # restored.
                    revoked.append(loan)
                    array.flags.writeable = False

    def note_end(
        self, ledger: Ledger, revoked: list[Loan], last: Transition | None, change: Change
    ) -> None:
        """Forget borrows that were revoked, and note the last entry of the history, if any, as why.

        After a write, exposures of other sides end, and aliases that become stale are noted.
        """
        ended = [loan for loan in revoked if loan.kind is BORROW]
        self.live.difference_update(ended)
        if last is None:
            return
        for loan in ended:
            loan.ended = last
        self.ended = (*self.ended, *ended)[-_REMEMBERED:]
        if change.stale:
            before, after, start, stop = last.map_before, last.map_after, last.start, last.stop
            for loan in self.writers(start, stop, change.losers):
                part = max(start, loan.start), min(stop, loan.stop)
                lost = before.any(*part) & ~after.common(*part) & change.stale
                if loan.kind is EXPOSED:
                    self.cut(loan, start, stop)
                elif lost & ledger.alike(loan.side):
                    loan.ended = last

    def cut(self, loan: Loan, start: int, stop: int) -> None:
        """End an exposure in a range."""
        parts = (loan.start, min(loan.stop, start)), (max(loan.start, stop), loan.stop)
        for part in parts:
            if part[0] < part[1]:
                # First, because it does no harm to expose a range twice.
                self.lend(loan(), loan.kind, loan.side, *part, loan.noted)
        self.live.discard(loan)


NO_LOANS = Loans()
NO_LOANS.live = frozenset()  # type: ignore[assignment]  # has no `add`


class _Index:
    """Loans by range, also dead ones. A signal handler may search in the middle of a search."""

    __slots__ = ("count", "filled", "levels")

    def __init__(self) -> None:
        # Whether it may be searched.
        self.filled: bool = False
        # The number of loans, about, and the loans. The first key is the number of bits of the
        # length of their ranges, so that two to the power of it is more than the length. The second
        # is the start of the range in units of that. So a range of this level that overlaps another
        # starts in the units of the other or in the one before them.
        self.count: int = 0
        self.levels: dict[int, dict[int, set[Loan]]] = {}

    def is_outgrown(self, living: int) -> bool:
        """Return whether most of its loans are dead, given the number of those alive."""
        return self.count > 2 * living + _FEW

    def add(self, loan: Loan) -> None:
        """Add a loan. Needs no lock."""
        level = (loan.stop - loan.start).bit_length()
        blocks = self.levels.setdefault(level, {})
        blocks.setdefault(loan.start >> level, set()).add(loan)
        self.count += 1

    def near(self, start: int, stop: int) -> list[Loan]:
        """Return the loans whose ranges overlap a range, and some that nearly do."""
        near: list[Loan] = []
        for level, blocks in self.levels.copy().items():
            first, last = (start >> level) - 1, stop >> level
            places: Iterable[int] = range(first, last + 1)
            if last - first >= len(blocks):
                # The range is long, and has few of them.
                places = [place for place in list(blocks) if first <= place <= last]
            for place in places:
                near += blocks.get(place, ())
        return near


# --- the warning ----------------------------------------------------------------------------------


class Unannounced(Exception):  # noqa: N818  # it is caught, and turned into a warning
    """Aliases would become stale, and no warning has named them yet.

    It is raised under the lock, and the warning is emitted without it: the user's hooks run then.
    """


def require_announced(
    loans: Loans, announced: Collection[set[Loan]], start: int, stop: int, stale: int = -1
) -> None:
    """Raise `Unannounced` if aliases of stale sides that no warning has named overlap a range."""
    aliases = {each for each in loans.writers(start, stop, stale) if not each.exposed}
    unannounced = aliases.difference(*announced)
    if unannounced:
        raise Unannounced(unannounced)


def announcing(ledger: Ledger, action: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function under the lock, after a warning about the aliases that it makes stale.

    It gets the ledger, `args` and the aliases that warnings have named. Where no more can be made,
    it looks for others, and raises `Unannounced` if there are some, before it changes anything.
    """
    announced: list[set[Loan]] = []
    while True:
        try:
            return ledger.under_lock(function, *args, announced)
        except Unannounced as unannounced:
            (stale,) = unannounced.args
        announce(action, stale, announced)


def announce(action: str, stale: set[Loan], announced: list[set[Loan]]) -> None:
    """Warn of aliases that an access makes stale, and add them to those announced."""
    if len(announced) == _MOST_WARNINGS:
        raise RuntimeError(
            f"{action} gave up after {_MOST_WARNINGS} warnings, because new aliases appeared after "
            "each; first stop the thread or the warning hook that makes them"
        )
    named = sorted(stale, key=lambda alias: (alias.side, alias.start))[:3]
    described = "; ".join(alias.description() for alias in named)
    more = f"; and {len(stale) - len(named)} more" if len(stale) > len(named) else ""
    warn_user(
        f"{action} makes aliases stale: {described}{more}. Later writes through them are lost, and "
        "they will not show this change. Delete them before the write, or create new ones "
        "afterwards",
        StaleAliasWarning,
    )
    announced.append(stale)
