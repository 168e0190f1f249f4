"""Which buffer is evicted first: the scores of an eviction policy, and what it is told.

Uses are not recorded. How recently a buffer was used shows in its shortcut, which the last eviction
revoked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from syncblob.blob.living_blobs import ledgers_on

if TYPE_CHECKING:
    from syncblob.devices import Accelerator, Side
    from syncblob.memory import Ledger

_scoring = False


class Evictable(NamedTuple):
    """A buffer that may be evicted, for an eviction policy.

    Attributes
    ----------
    nbytes
        Its size.
    newest
        The bytes that are only there. An eviction downloads them.
    age
        How many evictions ago its Blob was last used.
    interval
        The mean number of evictions between two uses; 0 if it was used only once so far.
    name
        The name of its Blob; empty if it has none.
    """

    nbytes: int
    newest: int
    age: int
    interval: float
    name: str


def used_last(buffer: Evictable) -> float:
    """Return the default score: how long the buffer will not be needed, by the cost of moving it.

    It is expected again after the interval, so that the one used last is the best in a loop over
    more than fits. One that is overdue is probably not needed any more. The factor of a buffer that
    must be downloaded first was tried on the patterns of `tests/blob/test_eviction_policy.py`.
    """
    age, interval = buffer.age, buffer.interval
    distance = interval - age if age < interval else age
    return (1 + distance) / (1 + 3 * buffer.newest / max(buffer.nbytes, 1))


_policy: Callable[[Evictable], float] = used_last


def set_eviction_policy(policy: Callable[[Evictable], float] | None) -> None:
    """Set the function that scores buffers; that with the highest score is evicted first.

    Parameters
    ----------
    policy
        Takes an `Evictable`. None means the default: what is expected to be needed last, weighted
        by the cost of moving it.
    """
    global _policy  # noqa: PLW0603  # a setting of the process
    if policy is not None and not callable(policy):
        raise TypeError(f"expected a function of an Evictable, or None, got {policy!r}")
    _policy = used_last if policy is None else policy


_clock = itertools.count(1)


class _Use(NamedTuple):
    """The last use of a memory: the eviction before it, and what the next one replaces."""

    last: int
    interval: float
    epoch: object
    spans: object


_uses: WeakKeyDictionary[Ledger, _Use] = WeakKeyDictionary()


def _use_of(ledger: Ledger, side: Side, now: int) -> _Use:
    """Return the last use of a side of a ledger. The next shows, because shortcuts are revoked.

    A use makes them readable again; a change of state replaces the map and the epoch.
    """
    shortcuts, spans, use = ledger.shortcuts, ledger.spans, _uses.get(ledger)
    own = [*shortcuts.sides[side : side + 1]]
    own += [part for key, part in list(shortcuts.parts.items()) if key[0] == side]
    readable = any(shortcut is not None and shortcut.readable for shortcut in own)
    if use is None or readable or use.epoch is not shortcuts.epoch or use.spans is not spans:
        shortcuts.clear()
        interval = 0.0
        if use is not None:
            gap = now - use.last
            interval = use.interval or gap
            # A pause between two phases of a program says little about the next.
            interval += (min(gap, 4 * interval) - interval) / 4
        use = _uses[ledger] = _Use(now, interval, shortcuts.epoch, spans)
    return use


def candidates(home: Accelerator) -> list[tuple[Any, ...]]:
    """Return scores, ledgers and starts, the highest score first; of equal ones the oldest."""
    global _scoring  # noqa: PLW0603  # a policy may use Blobs, and need room itself
    before, policy, now = _scoring, used_last if _scoring else _policy, next(_clock)
    found: list[tuple[Any, ...]] = []
    for ledger in ledgers_on(home):
        side = ledger.side_of(home)
        windows = ledger.buffers.all_of(side)
        if not windows:
            # It may be what needs the room, and its use shows at the next eviction.
            continue
        use, name = _use_of(ledger, side, now), ledger.buffers.name
        for window in windows:
            stop = min(window.stop, ledger.spans.nbytes)
            newest = sum(run.nbytes for run in ledger.only_on(side, window.start, stop))
            buffer = Evictable(window.nbytes, newest, now - use.last, use.interval, name)
            found.append((buffer, -len(found), ledger, window.start))
    try:
        _scoring = True
        scored = [(_number(policy(buffer)), *rest) for buffer, *rest in found]
    finally:
        _scoring = before
    return sorted(scored, reverse=True, key=itemgetter(0, 1))


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"expected a number from the function set by set_eviction_policy, got {score!r}"
        ) from error


def note_eviction(ledger: Ledger) -> None:
    """Record that an eviction was no use of the windows that are left."""
    use, epoch = _uses[ledger], ledger.shortcuts.epoch
    _uses[ledger] = use._replace(epoch=epoch, spans=ledger.spans)
