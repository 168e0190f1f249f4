"""Borrows and aliases: the arrays that a memory handed out, and what becomes of them.

A *borrow* comes from an accessor and is good until the next access on the other side. A NumPy
borrow that may write loses its write permission at that moment, so that a late write raises
instead of vanishing. A slice that was taken from it before keeps its own permission: NumPy does
not tell us of slices.

An *alias* comes from a protocol, and its consumer may keep it for as long as it likes. A writable
one is a *lease*: the memory sees when the last array, slice, tensor or capsule of it is gone, and
until then it copies again rather than trust an older copy. Where the lifetime cannot be seen, the
side is *exposed*.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from syncblob._source_lines import Place, user_frame, warn_user
from syncblob.errors import StaleAliasWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import ClassVar

    from numpy.typing import NDArray

    from syncblob.devices.base import Side

__all__ = ["NUMPY", "Borrows", "HandedOut", "Lease", "restore", "warn_of_stale_aliases"]

# The kind of the aliases that NumPy gets as arrays of our own making. They lose their write
# permission when they are left behind, besides the warning: it also speaks for slices and for
# tensors over them, whose permission is their own.
NUMPY = "NumPy"

_NAMED_AT_MOST = 3


class _Reference(weakref.ref[Any]):
    """A weak reference that equals itself alone: arrays compare element by element."""

    __slots__ = ()

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
    __eq__: ClassVar[Callable[[Any, object], bool]] = object.__eq__


class Borrows:
    """The writable NumPy borrows of one side of one memory.

    A borrow may be added without the memory's lock; all else is done under it.
    """

    __slots__ = ("_discard", "_live")

    def __init__(self) -> None:
        # Entries vanish at any time, on any thread: nothing iterates over the set itself.
        self._live: set[_Reference] = set()
        self._discard: Callable[[_Reference], None] = self._live.discard

    def add(self, array: NDArray[Any]) -> None:
        """Remember a writable array."""
        self._live.add(_Reference(array, self._discard))

    def revoke(self, revoked: list[NDArray[Any]]) -> None:
        """Take the write permission of all borrows; those that had it are added to a list."""
        for borrow in list(self._live):
            _revoke(borrow(), revoked)

    def forget(self) -> None:
        """Forget the borrows whose permission was revoked; others may have come since."""
        for borrow in list(self._live):
            array = borrow()
            if array is None or not array.flags.writeable:
                self._live.discard(borrow)

    def __len__(self) -> int:
        """Count the borrows that are alive."""
        return len(self._live)


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
    noted
        What `kind` and `place` are made of.
    """

    __slots__ = ("noted",)

    noted: tuple[str, CodeType, int, str | None]

    @property
    def kind(self) -> str:
        """The protocol it went through, as the warning names it."""
        return self.noted[0]

    @property
    def place(self) -> Place:
        """Where the user made it."""
        return Place(*self.noted[1:])

    def described(self, side: Side) -> str:
        """Say what this alias is, of which side, and where it was made."""
        place = self.place
        return (
            f"a {self.kind} alias{place.consumer} of the {side.name.lower()} side, made at "
            f"{place.line.described()}"
        )


class HandedOut:
    """What one side of a memory has handed out.

    Borrows and leases may be added without the memory's lock; all else is done under it.

    Attributes
    ----------
    borrows
        The borrows.
    leases
        The writable aliases that are alive. Entries vanish at any time.
    exposed
        Where an alias of unknown lifetime was made; None where there is none. A mutable access of
        the other side ends it.
    shared
        Where the memory was given to others who may write at any time, such as other processes;
        None where it was not. Nothing but a promise ends it.
    exporter
        A buffer and what its aliases are laid over; see `Home.exporter`. The buffer is another one
        than the side's, or None, if there was no alias yet.
    """

    __slots__ = ("borrows", "exporter", "exposed", "leases", "shared")

    def __init__(self) -> None:
        self.borrows: Borrows = Borrows()
        self.leases: set[Lease] = set()
        self.exposed: Place | None = None
        self.shared: Place | None = None
        self.exporter: tuple[Any, Any] = (None, None)

    @property
    def may_be_written(self) -> bool:
        """Whether somebody outside may write through an alias at any moment."""
        return bool(self.leases) or self.unwatched is not None

    @property
    def unwatched(self) -> Place | None:
        """Where somebody whose writes nothing can tell of was let in; None where nobody was."""
        return self.exposed or self.shared

    def lease(self, target: object, kind: str) -> None:
        """Note a writable alias that lives as long as `target`."""
        leases = self.leases
        # The callback runs on any thread, at any moment, also inside this package: it may only
        # note the fact, and no function of Python's own is called for that.
        lease = Lease(target, leases.discard)
        # Three frames out is whoever asked the memory for an export.
        frame, library = user_frame(3)
        lease.noted = (kind, frame.f_code, frame.f_lasti, library)
        leases.add(lease)

    def revoke(self, revoked: list[NDArray[Any]]) -> None:
        """Take the write permission of the borrows and of the NumPy arrays among the aliases.

        Parameters
        ----------
        revoked
            Gets the arrays that had it; see `restore`.
        """
        self.borrows.revoke(revoked)
        for lease in list(self.leases):
            if lease.kind == NUMPY:
                _revoke(lease(), revoked)

    def detach(self) -> None:
        """Forget all aliases: the buffer is another one from now on."""
        self.leases = set()
        self.exposed = None
        self.shared = None
        self.exporter = (None, None)


def warn_of_stale_aliases(action: str, stale: list[tuple[Side, Lease]]) -> None:
    """Emit a StaleAliasWarning at the user's line, before anything changes.

    Parameters
    ----------
    action
        The access that is going to leave the aliases behind.
    stale
        The aliases, and the side of each. Nothing happens if there are none.

    Raises
    ------
    StaleAliasWarning
        Where the user's filter turns it into an error.
    """
    if not stale:
        return
    named = "; ".join(lease.described(side) for side, lease in stale[:_NAMED_AT_MOST])
    more = f"; and {len(stale) - _NAMED_AT_MOST} more" if len(stale) > _NAMED_AT_MOST else ""
    warn_user(
        f"{action} leaves behind {named}{more}. What is written through it from now on will not be "
        "seen, nor will it see what is written here. Drop it first, or make a new one afterwards",
        StaleAliasWarning,
    )
