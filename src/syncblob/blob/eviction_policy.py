"""Which buffer is evicted first: the scores of an eviction policy, and what it is told.

Uses are not recorded. How recently a buffer was used shows in its shortcut, which the last eviction
revoked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from syncblob.blob.living_blobs import ledgers_on

if TYPE_CHECKING:
    from syncblob.devices import Accelerator, Side
    from syncblob.memory import Ledger

_scoring = False

# So many last choices in which the default scores differed decide between them.
_MOST_CHOICES = 256


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
    uses
        How often its Blob was used. All uses between two evictions count as one.
    """

    nbytes: int
    newest: int
    age: int
    interval: float
    name: str
    uses: int


def _by_interval(buffer: Evictable) -> float:
    """Return how long the buffer will not be needed, by the cost of moving it.

    It is expected again after the interval, so that the one used last is the best in a loop over
    more than fits. One that is overdue is probably not needed any more. The factor of a buffer that
    must be downloaded first was tried on the patterns of `tests/blob/test_eviction_policy.py`.
    """
    age, interval = buffer.age, buffer.interval
    distance = interval - age if age < interval else age
    return (1 + distance) / _cost(buffer, 3)


def _by_uses(buffer: Evictable) -> float:
    """Return how seldom the buffer is used, by the cost of moving it.

    This is the better score where uses come at random, some buffers' more often than others'. The
    age decides between those used equally often, and the factor was tried as that above.
    """
    seldom = (1 + buffer.age / 1000) / (0.5 + buffer.uses)
    return seldom / _cost(buffer, 1)


def _by_age(buffer: Evictable) -> float:
    """Return how long ago the buffer was used, by the cost of moving it.

    This is the better score where a program turns to other buffers step by step.
    """
    return (1 + buffer.age) / _cost(buffer, 1.5)


def _cost(buffer: Evictable, factor: float) -> float:
    """Return the cost of moving a buffer, for which a download counts by a factor."""
    return 1 + factor * buffer.newest / max(buffer.nbytes, 1)


_DEFAULTS = _by_interval, _by_uses, _by_age
_policy: Callable[[Evictable], float] | None = None


class _Choices(NamedTuple):
    """What the default scores would have evicted first, where they differ.

    Attributes
    ----------
    memories
        The memory that each would have evicted from.
    mistakes
        For each, whether this was the first of them to be used again; empty until one is.
    """

    memories: tuple[ref[Ledger], ...]
    mistakes: tuple[bool, ...] = ()


_choices: WeakKeyDictionary[Accelerator, list[_Choices]] = WeakKeyDictionary()


def set_eviction_policy(policy: Callable[[Evictable], float] | None) -> None:
    """Set the function that scores buffers; that with the highest score is evicted first.

    Parameters
    ----------
    policy
        Takes an `Evictable`. None means the default: what is expected to be needed last, by the
        intervals between uses, by their number or by the last one, whichever has been wrong least
        often, weighted by the cost of moving it.
    """
    global _policy  # noqa: PLW0603  # a setting of the process
    if policy is not None and not callable(policy):
        raise TypeError(f"expected a function of an Evictable, or None, got {policy!r}")
    _policy = policy


_clock = itertools.count(1)


class _Use(NamedTuple):
    """The uses of a memory: the eviction before the last one, and what the next one replaces."""

    last: int
    interval: float
    times: int
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
        interval, times = 0.0, 1
        if use is not None:
            times += use.times
            gap = now - use.last
            interval = use.interval or gap
            # A pause between two phases of a program says little about the next.
            interval += (min(gap, 4 * interval) - interval) / 4
        use = _uses[ledger] = _Use(now, interval, times, shortcuts.epoch, spans)
    return use


def candidates(home: Accelerator) -> list[tuple[Any, ...]]:
    """Return scores, ledgers and starts, the highest score first; of equal ones the oldest."""
    global _scoring  # noqa: PLW0603  # a policy may use Blobs, and need room itself
    before, policy, now = _scoring, None if _scoring else _policy, next(_clock)
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
            age = now - use.last
            buffer = Evictable(window.nbytes, newest, age, use.interval, name, use.times)
            found.append((buffer, -len(found), ledger, window.start))
    if policy is None:
        return _by_the_best(home, found)
    try:
        _scoring = True
        return _ranked(policy, found)
    finally:
        _scoring = before


def _by_the_best(home: Accelerator, found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the order of the default score that was wrong least often, for memories that live."""
    rankings = [_ranked(score, found) for score in _DEFAULTS]
    used = {ledger for buffer, _, ledger, _ in found if not buffer.age}
    known, mistakes = [], [0] * len(_DEFAULTS)
    for choices in _choices.get(home, ())[-_MOST_CHOICES:]:
        memories = [memory() for memory in choices.memories]
        if None not in memories:
            made = choices.mistakes or tuple(memory in used for memory in memories)
            if any(made):
                mistakes = [*map(add, mistakes, made)]
                choices = choices._replace(mistakes=made)  # noqa: PLW2901  # what has shown since
            known.append(choices)
    firsts = [ranking[0][2] for ranking in rankings if ranking]
    if len(set(firsts)) > 1:
        known.append(_Choices(tuple(map(ref, firsts))))
    _choices[home] = known
    return rankings[mistakes.index(min(mistakes))]


def _ranked(
    policy: Callable[[Evictable], float], found: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    scored = [(_number(policy(buffer)), *rest) for buffer, *rest in found]
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
