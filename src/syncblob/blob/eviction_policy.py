"""Which buffer is evicted first.

Uses are not recorded. How recently a buffer was used shows in its shortcut, which the last eviction
revoked.
"""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from syncblob.blob.living_blobs import ledgers_on

if TYPE_CHECKING:
    from syncblob.devices import Accelerator, Side
    from syncblob.memory import Ledger


def score(nbytes: int, newest: int, age: int, interval: float) -> float:
    """Return how long a buffer will not be needed, by the cost of moving it.

    It is expected again after the interval, so that the one used last is the best in a loop over
    more than fits. One that is overdue is probably not needed any more. The factor of a buffer that
    must be downloaded first was tried on the patterns of `tests/blob/test_eviction_policy.py`.

    Parameters
    ----------
    nbytes
        Its size.
    newest
        The bytes that are only there. An eviction downloads them.
    age
        How many evictions ago it was last used.
    interval
        The mean number of evictions between two uses; 0 if it was used only once so far.
    """
    distance = interval - age if age < interval else age
    return (1 + distance) / (1 + 3 * newest / max(nbytes, 1))


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
    now = next(_clock)
    found: list[tuple[Any, ...]] = []
    for ledger in ledgers_on(home):
        side = ledger.side_of(home)
        windows = ledger.buffers.all_of(side)
        if not windows:
            # It may be what needs the room, and its use shows at the next eviction.
            continue
        use = _use_of(ledger, side, now)
        for window in windows:
            stop = min(window.stop, ledger.spans.nbytes)
            newest = sum(run.nbytes for run in ledger.only_on(side, window.start, stop))
            value = score(window.nbytes, newest, now - use.last, use.interval)
            found.append((value, -len(found), ledger, window.start))
    return sorted(found, reverse=True, key=itemgetter(0, 1))


def note_eviction(ledger: Ledger) -> None:
    """Record that an eviction was no use of the windows that are left."""
    use, epoch = _uses[ledger], ledger.shortcuts.epoch
    _uses[ledger] = use._replace(epoch=epoch, spans=ledger.spans)
