"""Borrows and aliases: the arrays that a memory handed out, and what becomes of them.

A *borrow* comes from an accessor and is good until the next access on the other side. A NumPy
borrow that may write loses its write permission at that moment, so that a late write raises
instead of vanishing. A slice that was taken from it before keeps its own permission: NumPy does
not tell us of slices.

An *alias* comes from a protocol, and its consumer may keep it for as long as it likes. A writable
one is a *lease*: the memory sees when the last array, slice, tensor or capsule of it is gone, and
until then it copies again rather than trust an older copy. Where the lifetime cannot be seen, the
bytes are *exposed*.

All of them have a range: from the first byte of their elements in the memory to behind the last.
Accesses that do not overlap it do not concern them.
"""

from __future__ import annotations

import weakref
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._source_lines import Place, user_frame, warn_user
from syncblob.errors import StaleAliasWarning

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Sequence
    from types import CodeType
    from typing import ClassVar, Protocol

    from numpy.typing import NDArray

    from syncblob.devices.base import Side

    # Aliases that are left behind, by side.
    Stale = list[tuple[Side, set["Lease"]]]

    class Locked(Protocol):
        """What has a lock."""

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

# The kind of the aliases that NumPy gets as arrays of our own making. They lose their write
# permission when they are left behind, besides the warning: it also speaks for slices and for
# tensors over them, whose permission is their own.
NUMPY = "NumPy"

_NAMED_AT_MOST = 3

# How often an access looks for aliases that have come since it warned of others.
_MOST_WARNINGS = 100


class _Reference(weakref.ref[Any]):
    """A weak reference that equals itself alone: arrays compare element by element."""

    __slots__ = ()

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
    __eq__: ClassVar[Callable[[Any, object], bool]] = object.__eq__


class Borrows:
    """The writable NumPy borrows of one side of one memory.

    A borrow may be added without the memory's lock; all else is done under it.

    Attributes
    ----------
    live
        Weak references to them. Entries vanish at any time, on any thread: nothing iterates over
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
        """Take the write permission of borrows.

        Parameters
        ----------
        revoked
            Gets the arrays that had it; see `restore`.
        buffer
            What the borrows are over, where only those are meant that overlap a range; None for
            all of them. Their ranges are not noted when they are made, which happens more often.
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
        """Return the borrows, over a buffer, that overlap a range."""
        return [array for array, low, high in self._placed(buffer) if low < stop and start < high]

    def ranges(self, buffer: NDArray[np.uint8] | None) -> list[tuple[int, int]]:
        """Return the ranges of the borrows over a buffer."""
        return [placed[1:] for placed in self._placed(buffer)]

    def _placed(self, buffer: NDArray[np.uint8] | None) -> Iterator[tuple[NDArray[Any], int, int]]:
        """Yield the borrows over a buffer, and where they begin and end in it."""
        if not self.live or buffer is None:
            return
        origin = buffer.__array_interface__["data"][0]
        for borrow in list(self.live):
            array = borrow()
            if array is not None and array.size:
                low, high = np.lib.array_utils.byte_bounds(array)
                yield array, low - origin, high - origin

    def forget(self) -> None:
        """Forget the borrows whose permission was revoked; others may have come since."""
        for borrow in list(self.live):
            array = borrow()
            if array is None or not array.flags.writeable:
                self.live.discard(borrow)

    def __len__(self) -> int:
        """Count the borrows that are alive."""
        return len(self.live)


def _revoke(array: NDArray[Any] | None, revoked: list[NDArray[Any]]) -> None:
    if array is not None and array.flags.writeable:
        # Into the list first: an interrupt may come at any time, and what is in it is restored.
        revoked.append(array)
        array.flags.writeable = False


def restore(revoked: list[NDArray[Any]]) -> None:
    """Give arrays their write permission back, where the access that took it was not made."""
    for array in revoked:
        array.flags.writeable = True


class Lease(_Reference):
    """A writable alias: a weak reference to what dies with the last use of it.

    Attributes
    ----------
    kind
        The protocol it went through, as the warning names it.
    start, stop
        From its first byte to behind its last.
    noted
        What `place` is made of: code, instruction, library.
    """

    __slots__ = ("kind", "noted", "start", "stop")

    kind: str
    start: int
    stop: int
    noted: tuple[CodeType, int, str | None]

    @property
    def place(self) -> Place:
        """Where the user made it."""
        return Place(*self.noted)

    @property
    def revoked(self) -> bool:
        """Whether it has lost its write permission, which only NumPy's can."""
        array = self() if self.kind == NUMPY else None
        return array is not None and not array.flags.writeable

    def described(self, side: Side) -> str:
        """Say what this alias is, of which side, and where it was made."""
        place = self.place
        return (
            f"a {self.kind} alias{place.consumer} of the {side.name.lower()} side, made at "
            f"{place.line.described()}"
        )


class Exposure(NamedTuple):
    """A range that somebody of unknown lifetime may write into.

    Attributes
    ----------
    start, stop
        The range.
    place
        Where the user let that happen.
    shared
        Whether they may for ever, as other processes in shared memory. Nothing but a promise ends
        that; other exposures end where the other side is written.
    """

    start: int
    stop: int
    place: Place
    shared: bool = False

    @property
    def revoked(self) -> bool:
        """False: there is no permission that could be taken."""
        return False

    def without(self, start: int, stop: int) -> list[Exposure]:
        """Return what is left of it outside of a range."""
        left = self._replace(stop=min(self.stop, start))
        right = self._replace(start=max(self.start, stop))
        return [part for part in (left, right) if part.start < part.stop]


class Loans:
    """What one side of a memory has handed out.

    Borrows and leases may be added without the memory's lock; all else is done under it. A side
    that has never handed anything out has `NO_LOANS`.

    Attributes
    ----------
    borrows
        The borrows.
    leases
        The writable aliases that are alive. Entries vanish at any time.
    exposures
        Where somebody whose writes nothing can tell of was let in.
    exporter
        A buffer and what its aliases are laid over; see `Home.exporter`. The buffer is another one
        than the side's, or None, if there was no alias yet.
    """

    __slots__ = ("borrows", "exporter", "exposures", "leases")

    def __init__(self) -> None:
        self.borrows: Borrows = Borrows()
        self.leases: set[Lease] = set()
        self.exposures: tuple[Exposure, ...] = ()
        self.exporter: tuple[Any, Any] = (None, None)

    @property
    def may_be_written(self) -> bool:
        """Whether somebody outside may write anywhere through an alias at any moment."""
        return bool(self.leases) or bool(self.exposures)

    def may_write_in(self, start: int, stop: int) -> bool:
        """Tell whether somebody outside may write into a range at any moment."""
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
        """Return the ranges of all that was handed out, over the buffer of the side.

        Borrows that are not NumPy's are not noted.
        """
        ranges = [(lease.start, lease.stop) for lease in list(self.leases)]
        ranges += [exposure[:2] for exposure in self.exposures]
        return ranges + self.borrows.ranges(buffer)

    def lease(self, target: object, kind: str, start: int, stop: int, ours: int = 3) -> None:
        """Note a writable alias of a range that lives as long as `target`.

        Parameters
        ----------
        target, kind, start, stop
            The alias.
        ours
            How many frames of this package there are between the user and `user_frame`, at least.
        """
        leases = self.leases
        # The callback runs on any thread, at any moment, also inside this package: it may only
        # note the fact, and no function of Python's own is called for that.
        lease = Lease(target, leases.discard)
        frame, library = user_frame(ours)
        lease.noted = frame.f_code, frame.f_lasti, library
        lease.kind = kind
        lease.start = start
        lease.stop = stop
        leases.add(lease)

    def without_exposures(
        self, start: int, stop: int, *, shared: bool = False
    ) -> tuple[Exposure, ...]:
        """Return the exposures outside of a range; those of shared memory everywhere, if not told.

        Parameters
        ----------
        start, stop
            The range.
        shared
            Whether shared memory counts as exposed in the range no longer, too.
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
        """Take the write permission of the borrows and of the NumPy arrays among the aliases.

        Parameters are those of `Borrows.revoke`.
        """
        self.borrows.revoke(revoked, buffer, start, stop)
        for lease in list(self.leases) if buffer is None else self.leases_in(start, stop):
            if lease.kind is NUMPY and lease.start < lease.stop:
                _revoke(lease(), revoked)

    def detach(self) -> None:
        """Forget all aliases: the buffer is another one from now on."""
        self.leases = set()
        self.exposures = ()
        self.exporter = (None, None)


class _NoLoans(Loans):
    """What is shared by all sides that have handed nothing out. It cannot be changed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.borrows.live = frozenset()  # type: ignore[assignment]  # has no `add`
        self.leases: set[Lease] = frozenset()  # type: ignore[assignment]  # has no `add` either

    def detach(self) -> None:
        """Do nothing: there is nothing to forget."""


NO_LOANS = _NoLoans()


def warn_of_stale_aliases(action: str, stale: Stale) -> None:
    """Emit a StaleAliasWarning at the user's line, before anything changes.

    Parameters
    ----------
    action
        The access that is going to leave the aliases behind.
    stale
        The aliases, by side. Nothing happens if there are none.

    Raises
    ------
    StaleAliasWarning
        Where the user's filter turns it into an error.
    """
    if not stale:
        return
    each = (lease.described(side) for side, leases in stale for lease in leases)
    described = [*islice(each, _NAMED_AT_MOST)]
    named = "; ".join(described)
    unnamed = sum(len(leases) for _, leases in stale) - len(described)
    more = f"; and {unnamed} more" if unnamed else ""
    warn_user(
        f"{action} leaves behind {named}{more}. What is written through it from now on will not be "
        "seen, nor will it see what is written here. Drop it first, or make a new one afterwards",
        StaleAliasWarning,
    )


class Unannounced(Exception):  # noqa: N818  # it is caught, and turned into a warning
    """There are writable aliases that would be left behind, and were not warned of yet."""

    def __init__(self, stale: Stale) -> None:
        super().__init__(stale)
        self.stale = stale


def require_announced(
    loans: Sequence[Loans], announced: Collection[Lease], start: int, stop: int, *sides: Side
) -> None:
    """Raise `Unannounced` if other writable aliases of some sides overlap a range.

    Parameters
    ----------
    loans
        What each side has handed out.
    announced
        The aliases that were warned of.
    start, stop, sides
        The range.
    """
    stale: Stale = []
    for side in sides:
        # There may be very many: Python asks each of them for its range and for nothing else.
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
    """Call a function under the lock, and warn of the aliases that it leaves behind before.

    The user's filters and hooks may do anything, and so the warning is emitted without the
    lock. What aliases have come by then is looked for again: by the function, when nothing can
    come in between any more.

    Parameters
    ----------
    memory
        Whose lock is meant.
    stale
        What the function has found, if it was called already.
    action
        What the warning calls it.
    function, args
        What is called, with the aliases that were warned of as its last argument. It changes
        nothing if it raises `Unannounced`. Returns its result.

    Raises
    ------
    StaleAliasWarning
        Where the user's filters turn it into an error. Nothing has changed then.
    RuntimeError
        If new aliases come as fast as they are warned of.
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
        f"{action} was given up: each time that it warned of the aliases which it leaves "
        "behind, there were new ones; stop the thread or the warning hook that makes them first"
    )
