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
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._source_lines import Place, user_instruction, warn_user
from syncblob.errors import StaleAliasWarning

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import ClassVar, Protocol

    from numpy.typing import NDArray

    from syncblob._source_lines import NotedPlace
    from syncblob.devices.base import Side

    # Aliases that become stale, by side.
    Stale = list[tuple[Side, set["Lease"]]]

    class Locked(Protocol):
        """An object with a lock."""

        @property
        def lock(self) -> threading.RLock:
            """The lock."""


__all__ = [
    "NO_LOANS",
    "NUMPY",
    "Borrows",
    "Exposure",
    "Lease",
    "Loans",
    "Unannounced",
    "announcing",
    "require_announced",
    "restore",
]

# The kind of aliases that are NumPy arrays made by this package. When they become stale, they lose
# their write permission, and a warning is emitted as well: their slices, and tensors over them,
# have a permission of their own.
NUMPY = "NumPy"

_NAMED_AT_MOST = 3

# How often an access warns, and looks for aliases that were made since, before it gives up.
_MOST_WARNINGS = 100


class _Reference(weakref.ref[Any]):
    """A weak reference that is only equal to itself: arrays compare element by element."""

    __slots__ = ()

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
    __eq__: ClassVar[Callable[[Any, object], bool]] = object.__eq__


class Borrows:
    """The writable NumPy borrows of one side of one memory.

    A borrow may be added without the memory's lock; everything else needs it.

    Attributes
    ----------
    live
        Weak references to them. Entries vanish at any time, on any thread, so never iterate over
        the set itself.
    """

    __slots__ = ("_discard", "live")

    def __init__(self) -> None:
        self.live: set[_Reference] = set()
        self._discard: Callable[[_Reference], None] = self.live.discard

    def add(self, array: NDArray[Any]) -> None:
        """Remember a writable array."""
        self.live.add(_Reference(array, self._discard))

    def revoke(
        self,
        revoked: list[NDArray[Any]],
        buffer: NDArray[np.uint8] | None = None,
        start: int = 0,
        stop: int = 0,
    ) -> None:
        """Revoke the write permission of borrows.

        Parameters
        ----------
        revoked
            Receives the arrays that had it; see `restore`.
        buffer
            The buffer that the borrows lie over, to revoke only those that overlap a range; None
            for all of them. Their ranges are computed here and not stored with each borrow,
            because borrows are made more often than revoked.
        start, stop
            The range.
        """
        if buffer is not None:
            found = self.reaching(buffer, start, stop)
        else:
            found = [array for borrow in list(self.live) if (array := borrow()) is not None]
        for array in found:
            _revoke(array, revoked)

    def reaching(self, buffer: NDArray[np.uint8], start: int, stop: int) -> list[NDArray[Any]]:
        """Return the borrows over a buffer that overlap a range."""
        return [array for array, low, high in self._placed(buffer) if low < stop and start < high]

    def ranges(self, buffer: NDArray[np.uint8] | None) -> list[tuple[int, int]]:
        """Return the ranges of the borrows over a buffer."""
        return [placed[1:] for placed in self._placed(buffer)]

    def _placed(self, buffer: NDArray[np.uint8] | None) -> Iterator[tuple[NDArray[Any], int, int]]:
        """Yield the borrows over a buffer, with the start and the end of each in it."""
        if not self.live or buffer is None:
            return
        origin = buffer.__array_interface__["data"][0]
        for borrow in list(self.live):
            array = borrow()
            if array is not None and array.size:
                low, high = np.lib.array_utils.byte_bounds(array)
                yield array, low - origin, high - origin

    def forget(self) -> None:
        """Forget the revoked borrows. Borrows made since stay."""
        for borrow in list(self.live):
            array = borrow()
            if array is None or not array.flags.writeable:
                self.live.discard(borrow)

    def __len__(self) -> int:
        """Count the borrows that are alive."""
        return len(self.live)


def _revoke(array: NDArray[Any] | None, revoked: list[NDArray[Any]]) -> None:
    if array is not None and array.flags.writeable:
        # Append first: an interrupt may come at any time, and the arrays in the list are restored.
        revoked.append(array)
        array.flags.writeable = False


def restore(revoked: list[NDArray[Any]]) -> None:
    """Give arrays their write permission back, after an access that failed."""
    for array in revoked:
        array.flags.writeable = True


class Lease(_Reference):
    """A writable alias: a weak reference to the object that dies with its last use.

    Attributes
    ----------
    kind
        The protocol that it was made through, as named in the warning.
    start, stop
        Its range.
    noted
        The fields of `place`.
    """

    __slots__ = ("kind", "noted", "start", "stop")

    kind: str
    start: int
    stop: int
    noted: NotedPlace

    @property
    def place(self) -> Place:
        """The line of the user's code that made it."""
        return Place(*self.noted)

    @property
    def revoked(self) -> bool:
        """Whether it has lost its write permission. Only NumPy arrays can."""
        array = self() if self.kind == NUMPY else None
        return array is not None and not array.flags.writeable

    def described(self, side: Side) -> str:
        """Describe this alias: its kind, its side, and the line that made it."""
        place = self.place
        return (
            f"a {self.kind} alias{place.consumer} of the {side.name.lower()} side, made at "
            f"{place.line.described()}"
        )


class Exposure(NamedTuple):
    """A range that an alias of unknown lifetime may write into.

    Attributes
    ----------
    start, stop
        The range.
    place
        The line of the user's code that exposed it.
    shared
        Whether other processes share the memory. Only `assume_unaliased` ends such an exposure;
        others end when the other side is written.
    """

    start: int
    stop: int
    place: Place
    shared: bool = False

    @property
    def revoked(self) -> bool:
        """Always False: there is no permission to revoke."""
        return False

    def without(self, start: int, stop: int) -> list[Exposure]:
        """Return the parts of it outside of a range."""
        left = self._replace(stop=min(self.stop, start))
        right = self._replace(start=max(self.start, stop))
        return [part for part in (left, right) if part.start < part.stop]


class Loans:
    """The borrows, leases and exposures of one side of a memory.

    Borrows and leases may be added without the memory's lock; everything else needs it. A side
    that has never handed anything out has `NO_LOANS`.

    Attributes
    ----------
    borrows
        The borrows.
    leases
        The writable aliases that are alive. Entries vanish at any time.
    exposures
        The ranges that aliases of unknown lifetime may write into.
    exporter
        A buffer, and the object that its aliases are made over; see `Home.exporter`. If the side
        has no alias yet, the buffer is None or not the side's current one.
    """

    __slots__ = ("_discard", "borrows", "exporter", "exposures", "leases")

    def __init__(self) -> None:
        self.borrows: Borrows = Borrows()
        self.leases: set[Lease] = set()
        self._discard: Callable[[Lease], None] = self.leases.discard
        self.exposures: tuple[Exposure, ...] = ()
        self.exporter: tuple[Any, Any] = (None, None)

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
        return [lease for lease in list(self.leases) if lease.start < stop and start < lease.stop]

    def exposures_in(self, start: int, stop: int) -> list[Exposure]:
        """Return the exposures that overlap a range."""
        return [part for part in self.exposures if part.start < stop and start < part.stop]

    def ranges(self, buffer: Any) -> list[tuple[int, int]]:
        """Return the ranges of all borrows, leases and exposures over the side's buffer.

        Only NumPy borrows are tracked.
        """
        ranges = [(lease.start, lease.stop) for lease in list(self.leases)]
        ranges += [exposure[:2] for exposure in self.exposures]
        return ranges + self.borrows.ranges(buffer)

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
        # The callback runs on any thread, at any moment, even inside this package. So it is a
        # single method of a set, written in C, and does nothing but record that the alias is gone.
        lease = Lease(target, self._discard)
        lease.noted = user_instruction(3) if noted is None else noted
        lease.kind = kind
        lease.start = start
        lease.stop = stop
        self.leases.add(lease)

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
        self,
        revoked: list[NDArray[Any]],
        buffer: NDArray[np.uint8] | None = None,
        start: int = 0,
        stop: int = 0,
    ) -> None:
        """Revoke the write permission of borrows and of aliases that are NumPy arrays.

        The parameters are those of `Borrows.revoke`.
        """
        self.borrows.revoke(revoked, buffer, start, stop)
        for lease in list(self.leases) if buffer is None else self.leases_in(start, stop):
            if lease.kind is NUMPY and lease.start < lease.stop:
                _revoke(lease(), revoked)

    def detach(self) -> None:
        """Forget all aliases, because the side gets another buffer."""
        self.leases.clear()
        self.exposures = ()
        self.exporter = (None, None)


class _NoLoans(Loans):
    """The immutable `Loans` shared by all sides that have handed nothing out."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.borrows.live = frozenset()  # type: ignore[assignment]  # has no `add`
        self.leases: set[Lease] = frozenset()  # type: ignore[assignment]  # has no `add` either

    def detach(self) -> None:
        """No-op: there is nothing to forget."""


NO_LOANS = _NoLoans()


def warn_of_stale_aliases(action: str, stale: Stale) -> None:
    """Emit a StaleAliasWarning at the user's line, before anything changes.

    Parameters
    ----------
    action
        The access that makes the aliases stale.
    stale
        The aliases, by side. Nothing happens if there are none.

    Raises
    ------
    StaleAliasWarning
        If the user's filter turns it into an error.
    """
    if not stale:
        return
    each = (lease.described(side) for side, leases in stale for lease in leases)
    described = [*islice(each, _NAMED_AT_MOST)]
    named = "; ".join(described)
    unnamed = sum(len(leases) for _, leases in stale) - len(described)
    more = f"; and {unnamed} more" if unnamed else ""
    warn_user(
        f"{action} leaves behind {named}{more}. Later writes through it are lost, and it does not "
        "see this change. Delete it first, or make a new one afterwards",
        StaleAliasWarning,
    )


class Unannounced(Exception):  # noqa: N818  # it is caught, and turned into a warning
    """Writable aliases would become stale, and no warning has named them yet."""

    def __init__(self, stale: Stale) -> None:
        super().__init__(stale)
        self.stale = stale


def require_announced(
    loans: Sequence[Loans], announced: Collection[Lease], start: int, stop: int, *sides: Side
) -> None:
    """Raise `Unannounced` if writable aliases that no warning has named overlap a range.

    Parameters
    ----------
    loans
        The loans of each side.
    announced
        The aliases that a warning has named.
    start, stop
        The range.
    *sides
        The sides of the aliases to look for.
    """
    stale: Stale = []
    for side in sides:
        # There may be very many. Only the comparison of ranges runs in Python for each of them.
        leases = set(loans[side].leases_in(start, stop)).difference(announced)
        if leases:
            stale.append((side, leases))
    if stale:
        raise Unannounced(stale)


def announcing(
    memory: Locked,
    stale: Stale,
    action: str,
    function: Callable[..., Any],
    *args: Any,
) -> Any:
    """Warn about the aliases that a function makes stale, then call it under the lock.

    The warning is emitted without the lock, because the user's filters and hooks may do anything.
    New aliases may be made meanwhile. So the function looks for them once more, at a point after
    which none can be made, and raises `Unannounced` if it finds some.

    Parameters
    ----------
    memory
        The memory whose lock is taken.
    stale
        The aliases found by an earlier call of the function, if there was one.
    action
        The name of the access in the warning.
    function, args
        The function, called with `args` and then the aliases that a warning has named. It changes
        nothing if it raises `Unannounced`. Its result is returned.

    Raises
    ------
    StaleAliasWarning
        If the user's filters turn it into an error. Nothing has changed then.
    RuntimeError
        If new aliases appear after each of many warnings.
    """
    announced: set[Lease] = set()
    for _ in range(_MOST_WARNINGS):
        warn_of_stale_aliases(action, stale)
        announced.update(*(leases for _, leases in stale))
        try:
            with memory.lock:
                return function(*args, announced)
        except Unannounced as found:
            stale = found.stale
    raise RuntimeError(
        f"{action} gave up after {_MOST_WARNINGS} warnings, because new aliases appeared after "
        "each; first stop the thread or the warning hook that makes them"
    )
