"""Evictions: buffers of accelerators give way, the least recently used first.

A use of a buffer through its shortcut records nothing. Each search for a buffer to evict revokes
the shortcuts of all, and leaves its number as their epoch. The next one sees which were asked for
since, or replaced. So the age of a buffer counts searches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, SupportsFloat

from syncblob._layout import Layout
from syncblob._locks_lost_in_fork import Lock
from syncblob.devices import HOST, Accelerator, Side
from syncblob.devices.base import WRITERS, BesideCaptureError
from syncblob.errors import TransferGuardError
from syncblob.memory.changes import Change, commit, plan
from syncblob.memory.operations import (
    accelerators_in_use,
    are_written,
    if_free,
    keepers,
    pins,
    residents,
)
from syncblob.memory.state_machine import CONST, MUTABLE, Access
from syncblob.memory.windows import provide
from syncblob.transfers import EVICTION, count_eviction

if TYPE_CHECKING:
    from syncblob.memory.buffers import Window, Windows
    from syncblob.memory.ledger import Ledger, Shortcut, Upload


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
    name
        The name of its Blob; empty if it has none.
    """

    nbytes: int
    newest: int
    age: int
    name: str


def _by_age(buffer: Evictable) -> float:
    """Return how long ago the buffer was used, by the copies that bring it back.

    What is only there is copied twice.
    """
    return (1 + buffer.age) / (1 + buffer.newest / max(buffer.nbytes, 1))


class Search:
    """The epoch of shortcuts that were not used since a search, the last to have found a use."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number: int = number


_policy: Callable[[Evictable], float] = _by_age
_scoring = False
_clock = itertools.count()

# Plans a copy that counts, whatever other threads have begun: they wait for the lock.
_plan_copy = partial(plan)

# Held by one thread that makes room at a time. It waits for no other lock of a memory.
_making_room = Lock()
_made_room = 0


def set_eviction_policy(policy: Callable[[Evictable], float] | None) -> None:
    """Set the function that scores buffers; that with the highest score is evicted first.

    Parameters
    ----------
    policy
        Takes an `Evictable`. None means the default: what was used longest ago, weighted by the
        copies that bring it back. Of equal scores, the buffer that was allocated first goes first.
    """
    global _policy  # noqa: PLW0603  # a setting of the process
    if policy is not None and not callable(policy):
        raise TypeError(f"expected a function of an Evictable, or None, got {policy!r}")
    _policy = policy or _by_age


def _candidates(home: Accelerator) -> list[tuple[Ledger, int]]:
    """Return where windows of a home start, that with the highest score first.

    Of equal ones, that comes first which was allocated first.
    """
    global _scoring  # noqa: PLW0603  # a policy may use Blobs, and need room itself
    before, policy, now = _scoring, _by_age if _scoring else _policy, next(_clock)
    found: list[tuple[Evictable, Ledger, int]] = []
    for ledger in residents(home):
        side, buffers = ledger.side_of(home), ledger.buffers
        age = now - _last_use(ledger, side, now) if buffers.windows[side].all else 0
        for window in buffers.windows[side].all:
            newest = sum(run.nbytes for run in ledger.only_on(side, window.start, window.stop))
            buffer = Evictable(window.nbytes, newest, age, buffers.name)
            # Not the window, which would keep its buffer.
            found.append((buffer, ledger, window.start))
    try:
        _scoring = True
        scores = [policy(buffer) for buffer, *_ in found]
    finally:
        _scoring = before
    wrong = [score for score in scores if not isinstance(score, SupportsFloat)]
    if wrong:
        raise TypeError(
            f"expected a number from the function set by set_eviction_policy, got {wrong[0]!r}"
        )
    order = sorted(range(len(found)), key=lambda place: -float(scores[place]))
    return [found[place][1:] for place in order]


def _last_use(ledger: Ledger, side: Side, now: int) -> int:
    """Return the number of the last search that has found a use of a side since the one before.

    The next use shows: it asks for a shortcut. A change of state replaces the epoch.
    """
    shortcuts = ledger.shortcuts
    known = list(shortcuts.known.values())
    used = any(each.readable for each in known if each.side is side)
    epoch = shortcuts.epoch
    if used or type(epoch) is not Search:
        epoch = Search(now)
        shortcuts.revoke(epoch)
    return epoch.number


# --- for room -------------------------------------------------------------------------------------


def make_room(home: Accelerator, reason: str, needed: int) -> bool:
    """Make room on an accelerator; return whether there may be more than before.

    Freed memory that libraries keep is given back; else buffers are evicted that nobody sees.
    """
    began = _made_room
    with _making_room.held:
        # Another thread may have made some in the meantime.
        return _made_room != began or home.give_back() or _evict(home, reason, needed)


def _evict(home: Accelerator, reason: str, needed: int) -> bool:
    """Evict the windows with the highest scores that can be, until the bytes needed may fit."""
    global _made_room  # noqa: PLW0603  # counts evictions of the process
    lacking, freed = home.lacking(needed), 0
    settle()
    ledgers = [ledger for each in accelerators_in_use() for ledger in residents(each)]
    windows = {
        id(window) for ledger in ledgers for side in ledger.buffers.windows for window in side.all
    }
    if _let_go(lambda kept: kept.side > 0 and id(kept.buffer) not in windows):
        # Larger ones have replaced them.
        _made_room += 1
        return True
    refusal: Exception | None = None
    for ledger, start in _candidates(home):
        known = ledger.shortcuts.epoch
        try:
            nbytes = if_free(ledger.lock, _evict_unseen, home, ledger, start, EVICTION + reason)
        except BesideCaptureError:
            # Others need not be waited for.
            continue
        except TransferGuardError as error:
            # Another one may have to move nothing. Its frames would keep arrays alive.
            refusal = error.with_traceback(None)
            continue
        if nbytes:
            _made_room += 1
            if type(known) is Search:
                # This was no use of the windows that are left. Not the same epoch, which a thread
                # may compare that knows the buffer that is gone.
                ledger.shortcuts.revoke(Search(known.number))
            freed += nbytes
            if freed >= lacking:
                return True
    if refusal and not freed:
        raise refusal
    return freed > 0


def settle() -> None:
    """Make the memories of results, so that they can be found."""
    for blob in keepers():
        blob._settle()


def _let_go(gone: Callable[[Shortcut], bool]) -> bool:
    """Let Blobs drop arrays over windows that are gone; return whether there were any."""
    return True in [blob._let_go(gone) for blob in keepers()]


def _evict_unseen(home: Accelerator, ledger: Ledger, start: int, reason: str) -> int:
    """Evict the window at a byte if nobody sees it, under the lock. Return the bytes freed."""
    side = ledger.side_of(home)
    window = ledger.buffers.containing(side, start, start)
    watched = ledger.watch is not None and ledger.watch.lives
    if window is None or window.start != start or watched or ledger.moving:
        return 0
    try:
        ledger.await_uploads(Side.HOST, MUTABLE, start, window.stop)
    except Exception:  # noqa: BLE001  # not of the operation that needs room
        return 0
    _close(ledger, side)
    # From here on, who begins to use it waits for the lock. Which windows of an operand are used
    # is known by the arrays over them.
    if are_written([window]) or (ledger.buffers.windows[side].whole and ledger in pins()):
        return 0
    _let_go(lambda kept: kept.buffer is window)
    if home.is_seen(window.array):
        return 0
    nbytes = 0
    with suppress(BufferError):
        nbytes = evict_windows(ledger, side, start, min(window.stop, ledger.spans.nbytes), reason)
    if nbytes:
        count_eviction(ledger.buffers.serial, start, window.stop)
    return nbytes


def _close(ledger: Ledger, side: Side) -> None:
    """Revoke and forget the shortcuts of a side. Look for users of the memory afterwards."""
    ledger.shortcuts.revoke()
    ledger.shortcuts.forget(side)


# --- by hand, and the change of state -------------------------------------------------------------


def evict(ledger: Ledger, side: Side, start: int, stop: int, *, needed: bool) -> int:
    """Free windows as `evict_windows` does, and let Blobs drop their arrays. Takes the lock.

    If an operation is using the memory, this raises a BufferError if it is `needed`, or else
    leaves them there.
    """
    if ledger not in pins():
        with ledger.lock:
            if side is Side.HOST:
                # From now on. An operator that has begun before writes again.
                HOST.writers = WRITERS
            _close(ledger, side)
            windows = ledger.buffers.windows[side].inside(start, stop)
            if not (are_written(windows) or ledger in pins()):
                freed = evict_windows(ledger, side, start, stop, "evict")
                _let_go(lambda kept: kept.buffer in windows)
                return freed
    if not needed:
        return 0
    raise BufferError(
        "another thread, or an operation that this one interrupts, is using "
        f"{ledger.buffers.described()}"
    )


def evict_windows(ledger: Ledger, side: Side, start: int, stop: int, reason: str) -> int:
    """Free the windows of a side that lie in a range; what only they hold moves elsewhere.

    That is the host, or the first accelerator for what is on the host. What the source still has
    does not move. Returns the number of bytes freed.

    Raises
    ------
    BufferError
        If aliases need a window.
    """
    if ledger.moving:
        ledger.refuse_reentry()
    windows = ledger.buffers.windows[side].inside(start, stop)
    for window in windows:
        low, high = window.start, window.stop
        home = ledger.buffers.home(side)
        holder = ledger.loans.holder_in(side, low, high)
        if not holder and isinstance(home, Accelerator):
            holder = home.holder(window.array)
        if holder:
            raise BufferError(
                f"bytes {low} to {high} of {ledger.buffers.described()} cannot leave "
                f"{home.device}, because of {holder}; delete the alias, "
                "or use a copy, as of blob.copy(), which can leave"
            )
    _rescue(ledger, side, windows, reason)
    # Afterwards, because a source that has been read completely is closed.
    if windows and ledger.source is not None and not ledger.source.reopen():
        ledger.forget_source(0, ledger.buffers.nbytes)
        _rescue(ledger, side, windows, reason)
    if windows:
        # A host access that may write waits for uploads.
        commit(ledger, _plan_eviction, Side.HOST, MUTABLE, start, stop, reason, side)
    return sum(window.nbytes for window in windows)


def _rescue(ledger: Ledger, side: Side, windows: Sequence[Window], reason: str) -> None:
    """Copy what only a side has in windows to another one."""
    refuge = Side.HOST if side else Side.ACCELERATOR
    for window in windows:
        runs = ledger.only_on(side, window.start, window.stop)
        if runs:
            # One window, because room for a second might be made by an eviction of the first.
            start, stop = runs[0].start, runs[-1].stop
            provide(ledger, refuge, start, stop, reason, Layout.raw(stop - start, start))
        for run in runs:
            part = Layout.raw(run.nbytes, run.start)
            ledger.await_uploads(refuge, CONST, run.start, run.stop)
            ledger.compare_watch(refuge, run.start, run.stop, writes=False)
            commit(ledger, _plan_copy, refuge, CONST, run.start, run.stop, reason, (), part)


def _plan_eviction(  # a range
    ledger: Ledger, _host: Side, _access: Access, start: int, stop: int, side: Side
) -> Change:
    before, mine = ledger.spans, 1 << side
    after = before
    for window in ledger.buffers.windows[side].inside(start, stop):
        low, high = window.start, window.stop
        runs = [run._replace(holders=run.holders & ~mine) for run in before.runs(low, high)]
        if ledger.only_on(side, low, high):
            raise RuntimeError(
                "this memory was written, or lent to be written, while it was evicted; try again"
            )
        after = after.replaced(runs)
    # Borrows there lost their write permission when the bytes were copied elsewhere.
    return Change(side, before, after, start, stop, prepare=_drop, between=after)


def _drop(ledger: Ledger, change: Change, _reason: str) -> tuple[Windows, Sequence[Upload]]:
    side, buffers = change.side, ledger.buffers
    gone = buffers.windows[side].inside(change.start, change.stop)
    home = buffers.home(side)
    for window in gone:
        if isinstance(home, Accelerator):
            # The memory of the window may be given to someone else at once.
            home.settle(window.array)
        ledger.compare_watch(side, window.start, window.stop, writes=True)
    return buffers.windows[side].exchange(buffers.nbytes, gone), ()
