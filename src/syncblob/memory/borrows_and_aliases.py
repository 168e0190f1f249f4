"""Borrows and aliases: the arrays that a memory has handed out, and how they end.

A *borrow* comes from an accessor and is valid until the next access on the other side. A writable
NumPy borrow loses its write permission at that moment, so that a late write raises instead of
vanishing. A slice taken from it earlier keeps its own permission: NumPy does not report slices.

An *alias* comes from a protocol, and its consumer may keep it as long as it likes. A writable
alias is a *lease*: the memory can tell when its last array, slice, tensor or capsule is gone, and
until then it copies again instead of trusting an older copy. If the lifetime cannot be tracked,
the bytes are *exposed*.

All of them have a range, from the first byte of their elements in the memory to the end of the
last. Accesses that do not overlap the range do not affect them.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from syncblob._locks_lost_in_fork import Lock
from syncblob._source_lines import Place, user_instruction
from syncblob.memory.living_arrays import LivingArrays, Reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob._source_lines import NotedPlace
    from syncblob.devices.base import Home, Side
    from syncblob.memory.buffers import Window
    from syncblob.memory.history import Transition
    from syncblob.memory.untracked_aliases import Exposure

# The kind of aliases that are NumPy arrays made by this package. When they become stale, they lose
# their write permission, and a warning is emitted as well: their slices, and tensors over them,
# have a permission of their own.
NUMPY = "NumPy"

# The number of ended borrows of a side that are remembered.
_REMEMBERED = 8


class Borrows(LivingArrays[Reference]):
    """The writable NumPy borrows of one side of one memory."""

    __slots__ = ()

    def add(self, array: NDArray[Any], start: int, stop: int) -> None:
        """Remember a writable array over a range."""
        borrow = Reference(array, self.discard)
        borrow.start = start
        borrow.stop = stop
        self.live.add(borrow)
        if self.index is not None:
            self.file(borrow)

    def forget(self, revoked: list[NDArray[Any]]) -> list[Reference]:
        """Forget the borrows among arrays that were revoked, and return these."""
        ended = []
        for array in revoked:
            for borrow in weakref.getweakrefs(array):
                if isinstance(borrow, Reference) and borrow in self.live:
                    self.discard(borrow)
                    ended.append(borrow)
        return ended


def restore(revoked: list[NDArray[Any]]) -> None:
    """Give arrays their write permission back, after an access that failed."""
    for array in revoked:
        array.flags.writeable = True


class Lease(Reference):
    """A writable alias: a weak reference to the object that dies with its last use.

    Attributes
    ----------
    kind
        The protocol that it was made through, as named in the warning.
    noted
        The fields of `place`.
    ended
        The entry of the memory's history that last made it stale. Absent until then, because most
        aliases never become stale.
    """

    __slots__ = ("ended", "kind", "noted")

    kind: str
    noted: NotedPlace
    ended: Transition

    @property
    def place(self) -> Place:
        """The line of the user's code that made it."""
        return Place(*self.noted)

    @property
    def revoked(self) -> bool:
        """Whether it has lost its write permission. Only NumPy arrays can."""
        array = self() if self.kind == NUMPY else None
        return array is not None and not array.flags.writeable

    def named(self, side: Side) -> str:
        """Return its kind, its consumer and its side."""
        return f"a {self.kind} alias{self.place.consumer} of the {side.name.lower()} side"

    def described(self, side: Side) -> str:
        """Describe this alias: its kind, its side, and the line that made it."""
        return f"{self.named(side)}, created at {self.place.line.described()}"


# The aliases of a side that has none yet, which takes no memory: nearly every side.
_NO_ALIASES: LivingArrays[Lease] = LivingArrays()
_NO_ALIASES.live = frozenset()  # type: ignore[assignment]  # has no `add`

_making = Lock()


class Loans:
    """The borrows, leases and exposures of one side of a memory.

    Borrows and leases may be added without the memory's lock; everything else needs it. A side
    that has never handed anything out has `NO_LOANS`.

    Attributes
    ----------
    borrows
        The borrows.
    aliases
        The writable aliases that are alive.
    leases
        The set of them. Entries vanish at any time.
    exposures
        The ranges that aliases of unknown lifetime may write into.
    foreign
        Whether other code has made the buffer, and expects later writes there: an array that was
        adopted, or shared memory. The buffer stays for good, also when its exposure has ended.
    exporter
        A window, and the object that its aliases are made over; see `Home.exporter`. If the side
        has no alias yet, the window is None or not the side's current one.
    ended
        Weak references to the last borrows that ended, each with the memory's history at that time;
        see `ended_borrows`.
    """

    __slots__ = ("aliases", "borrows", "ended", "exporter", "exposures", "foreign", "leases")

    def __init__(self) -> None:
        self.borrows: Borrows = Borrows()
        self.aliases: LivingArrays[Lease] = _NO_ALIASES
        self.leases: set[Lease] = _NO_ALIASES.live
        self.exposures: tuple[Exposure, ...] = ()
        self.foreign: bool = False
        self.exporter: tuple[Any, Any] = (None, None)
        self.ended: tuple[tuple[Reference, tuple[Transition, ...]], ...] = ()

    @property
    def may_be_written(self) -> bool:
        """Whether any lease or exposure exists: it may write at any moment."""
        return bool(self.leases) or bool(self.exposures)

    def may_write_in(self, start: int, stop: int) -> bool:
        """Tell whether a lease or an exposure may write into a range at any moment."""
        return self.may_be_written and bool(self.writers(start, stop))

    def writers(self, start: int, stop: int) -> list[Lease | Exposure]:
        """Return the leases and the exposures that overlap a range."""
        return [*self.leases_in(start, stop), *self.exposures_in(start, stop)]

    def leases_in(self, start: int, stop: int) -> list[Lease]:
        """Return the leases that overlap a range."""
        return self.aliases.overlapping(start, stop) if self.leases else []

    def exposures_in(self, start: int, stop: int) -> list[Exposure]:
        """Return the exposures that overlap a range."""
        return [part for part in self.exposures if part.start < stop and start < part.stop]

    def holder_in(self, side: Side, start: int, stop: int) -> str:
        """Describe what keeps a range of a side where it is; empty if it can leave."""
        for writer in self.writers(start, stop):
            return writer.described(side)
        where = f"the {side.name.lower()} side, which is an adopted array or shared memory"
        return where if self.foreign else ""

    def alias(self, home: Home, window: Window, layout: Layout) -> tuple[Any, object]:
        """Return an array over a window of the side, and the object that dies with its last use."""
        over, exporter = self.exporter
        if over is not window:
            exporter = home.exporter(window.array)
            self.exporter = (window, exporter)
        return home.alias(exporter, window.inner(layout))

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of all leases, borrows and exposures. Only NumPy borrows are known."""
        lent: list[Any] = [*list(self.leases), *list(self.borrows.live), *self.exposures]
        return [(each.start, each.stop) for each in lent]

    def lease(
        self, target: object, kind: str, start: int, stop: int, noted: NotedPlace | None = None
    ) -> None:
        """Record a writable alias of a range that lives as long as `target`.

        Parameters
        ----------
        target, kind, start, stop
            The alias.
        noted
            The place of the user's code, if the caller knows it.
        """
        aliases = self.aliases
        if aliases is _NO_ALIASES:
            made: LivingArrays[Lease] = LivingArrays()
            with _making.held:
                # No signal handler can run from here on: nothing is called.
                if self.aliases is _NO_ALIASES:
                    # In this order: who finds the aliases adds to the leases.
                    self.leases = made.live
                    self.aliases = made
            aliases = self.aliases
        lease = Lease(target, aliases.discard)
        lease.noted = user_instruction() if noted is None else noted
        lease.kind = kind
        lease.start = start
        lease.stop = stop
        aliases.live.add(lease)
        if aliases.index is not None:
            aliases.file(lease)

    def without_exposures(
        self, start: int, stop: int, *, shared: bool = False
    ) -> tuple[Exposure, ...]:
        """Return the exposures without a range. Those of shared memory stay whole by default.

        Parameters
        ----------
        start, stop
            The range.
        shared
            Whether to remove the range from the exposures of shared memory, too.
        """
        parts: list[Exposure] = []
        for exposure in self.exposures:
            parts += [exposure] if exposure.shared and not shared else exposure.without(start, stop)
        return tuple(parts)

    def revoke(
        self, revoked: list[NDArray[Any]], reach: tuple[int, int] | None, *, aliases: bool
    ) -> None:
        """Revoke the write permission of borrows, and of aliases that are NumPy arrays.

        Parameters
        ----------
        revoked
            Receives the arrays that had it; see `restore`.
        reach
            The range that becomes stale; None for everything.
        aliases
            Whether to revoke that of aliases, too.
        """
        found: list[Reference]
        found = list(self.borrows.live) if reach is None else self.borrows.overlapping(*reach)
        if aliases:
            leases = list(self.leases) if reach is None else self.leases_in(*reach)
            found += [one for one in leases if one.kind is NUMPY and one.start < one.stop]
        for reference in found:
            array = reference()
            if array is not None and array.flags.writeable:
                # Append first: an interrupt may come at any time, and the arrays in the list are
                # restored.
                revoked.append(array)
                array.flags.writeable = False

    def note_end(
        self,
        history: tuple[Transition, ...],
        side: Side,
        revoked: list[NDArray[Any]],
        *,
        aliases: bool,
    ) -> None:
        """Forget the revoked borrows, and note for `explain` what ended them, and stale aliases.

        Parameters
        ----------
        history
            The memory's history. Its last entry is an access of the other side.
        side
            This side.
        revoked
            The arrays of any side that the access has revoked.
        aliases
            Whether aliases have become stale.
        """
        borrows = self.borrows.forget(revoked)
        if borrows:
            # No search in it, because only `explain` needs more.
            ended = [(borrow, history) for borrow in borrows[-_REMEMBERED:]]
            self.ended = (*self.ended, *ended)[-_REMEMBERED:]
        if self.leases and aliases:
            last = history[-1]
            before, after, start, stop = last.map_before, last.map_after, last.start, last.stop
            leases = self.leases_in(start, stop)
            if before.uniform is not None and after.uniform is not None:
                # The usual case. There may be very many, so none is looked at.
                if before.uniform & ~after.uniform & (1 << side):
                    for lease in leases:
                        lease.ended = last
                return
            for lease in leases:
                part = max(start, lease.start), min(stop, lease.stop)
                if before.any(*part) & ~after.common(*part) & (1 << side):
                    lease.ended = last

    def ended_borrows(
        self, side: Side
    ) -> Iterator[tuple[NDArray[Any], Transition, Transition | None]]:
        """Yield the last borrows of this side that ended and are alive.

        Yields
        ------
        ndarray
            The borrow.
        Transition
            The access that ended it.
        Transition or None
            The access that gave its side the contents, which the borrow is not older than.
        """
        for reference, history in self.ended:
            array = reference()
            if array is not None:
                *earlier, ended = history
                reach = reference.start, reference.stop, 1 << side
                giving = (noted for noted in reversed(earlier) if noted.gives(*reach))
                yield array, ended, next(giving, None)

    def detach(self) -> None:
        """Forget all aliases, because the side gets a buffer that other code has made."""
        self.foreign = True
        with _making.held:
            self.aliases = _NO_ALIASES
            self.leases = _NO_ALIASES.live
        self.ended = ()
        self.exposures = ()
        self.exporter = (None, None)


class _NoLoans(Loans):
    """The immutable `Loans` shared by all sides that have handed nothing out."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.borrows.live = frozenset()  # type: ignore[assignment]  # has no `add`


NO_LOANS = _NoLoans()


def joined(several: Sequence[Loans]) -> Loans:
    """Return the loans of several sides as one, to be read under the memory's lock."""
    made = [loans for loans in several if loans is not NO_LOANS]
    if len(made) <= 1:
        return made[0] if made else NO_LOANS
    result = Loans()
    result.aliases = LivingArrays()
    result.leases = result.aliases.live
    for loans in made:
        result.borrows.live.update(list(loans.borrows.live))
        result.leases.update(list(loans.leases))
        result.exposures += loans.exposures
    return result
