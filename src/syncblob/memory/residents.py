"""Who has memory on accelerators: ledgers with buffers there, and Blobs that keep arrays over them.

Both are registered when they get it, and only referred to weakly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

from syncblob._locks_lost_in_fork import Lock, LostLock

if TYPE_CHECKING:
    from syncblob.devices import Accelerator
    from syncblob.memory.ledger import Ledger


class Use:
    """The uses of a ledger on an accelerator, as searches for a buffer to evict have found them.

    Attributes
    ----------
    last
        The number of the search after the last one; 0 if it was not looked at yet.
    interval
        The mean number of searches between two.
    times
        Their number.
    epoch, spans
        What the next one replaces.
    """

    __slots__ = ("epoch", "interval", "last", "spans", "times")

    def __init__(self) -> None:
        self.last: int = 0
        self.interval: float = 0.0
        self.times: int = 0
        self.epoch: object = None
        self.spans: object = None


class Keeper(Protocol):
    """What keeps arrays over buffers: a Blob."""

    def settle(self) -> None:
        """Make the memory of a result."""

    def let_go(self, gone: Callable[[Any], bool]) -> bool:
        """Drop arrays over buffers and windows that are gone; return whether there were any."""


_residents: WeakKeyDictionary[Accelerator, dict[ref[Ledger], Use]] = WeakKeyDictionary()
# References may be dead, or twice in the list. They are counted out when it has doubled.
_keepers: list[ref[Keeper]] = []
_most, _listing = 1024, Lock()


def reside(ledger: Ledger, home: Any) -> None:
    """Register a ledger that gets a buffer on an accelerator."""
    uses = _residents.get(home)
    if uses is None:
        uses = _residents.setdefault(home, {})
    known = ref(ledger, uses.pop)
    if known not in uses:
        uses[known] = Use()


def residents(home: Any) -> list[tuple[Ledger, Use]]:
    """Return the ledgers with buffers on an accelerator, in the order in which they got the first.

    Some may have lost them.
    """
    uses = _residents.get(home, {})
    # A list of the keys takes one step. Entries vanish at any time.
    found = [(known(), uses.get(known)) for known in list(uses)]
    return [(ledger, use) for ledger, use in found if ledger is not None and use is not None]


def inhabited() -> list[Accelerator]:
    """Return the accelerators that have had residents."""
    return [*_residents]


def keep(blob: Keeper) -> None:
    """Register a Blob that keeps an array over a buffer of an accelerator."""
    _keepers.append(ref(blob))
    if len(_keepers) > _most:
        _drop_dead()


def keepers() -> list[Keeper]:
    """Return the Blobs that may keep arrays over buffers of accelerators."""
    return [blob for blob in [known() for known in list(_keepers)] if blob is not None]


def _drop_dead() -> None:
    global _most  # noqa: PLW0603  # grows with their number
    with _listing.held:
        count = len(_keepers)
        # A Blob has one reference. Others append behind these meanwhile.
        living = {id(known): known for known in _keepers[:count] if known() is not None}
        _keepers[:count] = living.values()
        _most = max(1024, 2 * len(_keepers))


def any_is_locked(home: Any) -> bool:
    """Return whether another thread is in an access of memory on an accelerator."""
    return any(not if_free(each.lock, int, 1, own=True) for each, _ in residents(home))


def if_free(lock: Any, function: Callable[..., int], *args: Any, own: bool = False) -> int:
    """Call a function under a lock. Return 0, and never wait, if the lock is taken.

    Another thread that has it may be waiting for this one; and this one is in an access.
    """
    if isinstance(lock, LostLock):
        return 0
    if lock._is_owned():  # noqa: SLF001  # has no public name
        return int(own)
    release = lock.release
    taken: list[bool] = []
    try:
        # One call in C takes the lock and notes it, and none comes before the release. So no
        # interrupt leaves the lock held.
        taken.extend(filter(None, map(lock.acquire, (False,))))
        return function(*args) if taken else 0
    finally:
        if taken:
            release()
