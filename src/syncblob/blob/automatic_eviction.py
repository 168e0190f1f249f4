"""Memory that gives way: evictions that make room on an accelerator.

If an allocation on an accelerator fails, `make_room` evicts a buffer that nobody sees, and the
caller tries again. Nothing is recorded for that while there is room: the buffers, the Blobs that
keep arrays over them, and the functions that are using them are found when room is needed.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from syncblob._formatting import extend, human_bytes
from syncblob._locks_lost_in_fork import Lock, LostLock
from syncblob.blob.eviction_policy import candidates, note_eviction
from syncblob.blob.living_blobs import (
    collect,
    in_use,
    ledgers_on,
    let_go,
    let_go_of_replaced,
    living_blobs,
    others_at_work,
    settle_results,
)
from syncblob.blob.memory_summary import rows
from syncblob.blob.writes_in_progress import FREE_THREADED, changed_by_others
from syncblob.devices import Accelerator, Side
from syncblob.devices.base import NEEDED
from syncblob.errors import TransferGuardError
from syncblob.memory import MUTABLE, Ledger, Shortage, evict_windows
from syncblob.memory.await_async_copies import await_uploads
from syncblob.memory.wait_for_room import (
    BESIDE_OTHERS,
    PATIENCE,
    NotFirstError,
    Patience,
    ahead,
    patience,
)
from syncblob.memory.window_allocation import BeingWrittenError
from syncblob.memory.windows import array_of
from syncblob.transfers import EVICTION, count_eviction

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore
    from syncblob.devices.base import Home

# The seconds that an operation tries again while other threads use everything, those between two
# tries, and those between two collections of garbage meanwhile. Under load, a thread that needs
# little may be overtaken many times.
_PATIENCE, _PAUSE, _COLLECTED = PATIENCE, 0.005, 0.1

# The memories that threads wait for, by thread.
_awaited: dict[int, Ledger | None] = {}

# Held by one thread that makes room at a time, because its lists keep results of others alive. It
# waits for no other lock of a memory.
_making_room = Lock()
_made_room = 0


def close_side(ledger: Ledger, side: Side) -> None:
    """Close the ways to a side without the lock, and for good, because evictions renew shortcuts.

    Look for users of the memory afterwards. Who begins later waits for the lock.
    """
    ledger.shortcuts.revoke()
    ledger.shortcuts.forget(side)


def make_room(shortage: Shortage, home: Home, error: Exception, reason: str) -> bool:
    """Make room on an accelerator; tell the caller whether to try again.

    Freed memory that other libraries keep is given back; else a buffer that nobody sees is evicted.
    For a window that another thread is writing into, this waits a little instead, and so it does if
    other threads are using what could be evicted, or keep what was.

    If the caller should not try again, this adds to the error a list of what is there. The caller
    raises it: a frame with a name for it would keep all objects of the traceback alive.
    """
    again = False
    try:
        again = _make_room(shortage, home, error, reason)
    finally:
        if not again:
            shortage.leave_line()
    return again


def _make_room(  # noqa: C901, PLR0911  # each reason to try again, and not to
    shortage: Shortage, home: Home, error: Exception, reason: str
) -> bool:
    if shortage.began is None:
        shortage.began = time.monotonic()
    if isinstance(error, BeingWrittenError):
        return _wait(shortage.began, error.ledger)
    if isinstance(error, NotFirstError):
        return False
    if not home.bounded or not isinstance(home, Accelerator):
        return False
    needed = vars(error).get(NEEDED, 0)
    if not home.can_hold(needed):
        extend(error, f"{home.device} can never hold {human_bytes(needed)}", first=True)
        vars(error)[BESIDE_OTHERS] = None
        return False
    shortage.stand_in_line(home, shortage.began)
    if ahead(home) is not None and patience() is Patience.AT_ONCE:
        vars(error)[BESIDE_OTHERS] = home
        return False
    # Its frames refer to buffers, and to look at the variables of the callers keeps it alive.
    traceback, error.__traceback__, error.__context__ = error.__traceback__, None, None
    clear_frames(traceback)
    began = _made_room
    with _making_room.held:
        # Another thread may have made some in the meantime.
        if _made_room != began or home.give_back():
            return True
        if _evict(home, reason, home.lacking(needed)):
            shortage.last = False
            return True
    waits = patience()
    if waits is not Patience.PATIENT:
        vars(error)[BESIDE_OTHERS] = home if others_at_work(home) else None
    if waits is Patience.AT_ONCE:
        # The caller knows what else to do, which takes less time than a search of all objects.
        error.__traceback__ = traceback
        return False
    # What other threads use is free soon. If it is not, the next try calls this again.
    waited = waits is Patience.PATIENT and others_at_work(home) and _wait(shortage.began)
    if waited or _collect_garbage(home, needed):
        shortage.last = False
        return True
    if not shortage.last and threading.active_count() > 1:
        # Another thread may have freed some since the failure.
        shortage.last = True
        return True
    listed = "\n".join(map(str, rows(home, reason))) or (
        "    nothing that a Blob has; other arrays, and those that other code keeps of evicted "
        "buffers, are not listed"
    )
    extend(error, f"nothing there can be evicted:\n{listed}")
    error.__traceback__ = traceback
    return False


def _collect_garbage(home: Accelerator, needed: int) -> bool:
    """Collect the garbage of the process. Return whether that may have freed some memory."""
    # Cycles may keep memories and arrays, and Blobs that were frozen are not found.
    count, lacking, frozen = len(ledgers_on(home)), home.lacking(needed), gc.get_freeze_count()
    gc.unfreeze()
    gc.collect()
    return frozen > 0 or len(ledgers_on(home)) < count or home.lacking(needed) < lacking


def _wait(began: float, ledger: Ledger | None = None) -> bool:
    """Wait for other threads a little. Return False if the operation has waited too long.

    `ledger` is the memory that this thread cannot use yet.
    """
    thread, waited = threading.get_ident(), time.monotonic() - began
    if waited > _PATIENCE:
        return False
    if (FREE_THREADED or waited > _COLLECTED) and waited % _COLLECTED < _PAUSE:
        # Cycles may keep buffers, and the arrays of a thread that waits may end only here.
        gc.collect()
    try:
        _awaited[thread] = ledger
        time.sleep(_PAUSE)
    finally:
        _awaited.pop(thread, None)
    return True


def written_by_others(ledger: Ledger) -> bool:
    """Return whether functions of other threads that write have a memory at hand.

    Those that wait until they can use it do not write yet.
    """
    if threading.active_count() == 1:
        return False
    waiting = {thread for thread, awaited in list(_awaited.items()) if awaited is ledger}
    changed: set[object] = set()
    collect(changed_by_others(waiting), changed)
    return ledger in changed


Shortage.make_room = make_room
Ledger.written_by_others = staticmethod(written_by_others)


def _evict(home: Accelerator, reason: str, lacking: int) -> bool:
    """Evict the buffers with the highest scores that can be. Return whether there is one.

    Evicts one, or as many as have `lacking` bytes, because each search takes time.
    """
    global _made_room  # noqa: PLW0603  # counts evictions of the process
    blobs = living_blobs()
    settle_results(home, blobs)
    # Afterwards, because the memories of results count, too.
    busy = in_use()
    if let_go_of_replaced(blobs, busy):
        _made_room += 1
        return True
    refused: list[Exception] = []
    freed = 0
    for *_, ledger, start in candidates(home):
        args = home, ledger, start, blobs, busy, EVICTION + reason
        try:
            nbytes = _if_free(ledger.lock, _evict_unseen, *args)
        except TransferGuardError as error:
            # Another one may have to move nothing. Its frames would keep all Blobs alive.
            refused.append(error.with_traceback(None))
            continue
        if nbytes:
            _made_room += 1
            note_eviction(ledger)
            freed += nbytes
            if freed >= lacking:
                return True
    if refused and not freed:
        raise refused.pop()
    return freed > 0


def _if_free(lock: Any, function: Callable[..., int], *args: Any) -> int:
    """Call a function under a lock. Return 0, and never wait, if another thread has it.

    That thread may be waiting for this one.
    """
    if isinstance(lock, LostLock):
        return 0
    if lock._is_owned():
        with lock:
            return function(*args)
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


def _evict_unseen(  # noqa: PLR0911, PLR0913, PLR0917  # a buffer, and who may see it
    home: Accelerator,
    ledger: Ledger,
    start: int,
    blobs: Iterable[BlobCore],
    busy: set[object],
    reason: str,
) -> int:
    """Evict the window at a byte if nobody sees it, under the lock. Return the bytes freed."""
    side = ledger.side_of(home)
    window = ledger.buffers.all_of(side).containing(start, start)
    if window is None or window.start != start:
        return 0
    stop = window.stop
    loans = ledger.loans[side]
    if ledger.moving:
        return 0
    if ledger.uploads:
        try:
            await_uploads(ledger, Side.HOST, MUTABLE, start, stop)
        except Exception:  # noqa: BLE001  # not of the operation that needs room
            return 0
    if (
        (ledger.watch is not None and ledger.watch.lives)
        or loans.holder_in(side, start, stop)
        or loans.borrows.overlapping(start, stop)
    ):
        return 0
    close_side(ledger, side)
    if threading.active_count() > 1:
        # From here on, they wait for the lock.
        busy = busy | in_use(own=False)
    if ledger.buffers.sides[side] is not None and ledger in busy:
        # Only arrays over windows are known to be used by who holds them.
        return 0
    let_go(blobs, lambda kept: array_of(kept) is window.array, busy)
    if home.is_seen(window.array):
        return 0
    nbytes = evict_windows(ledger, side, start, min(stop, ledger.spans.nbytes), reason)
    if nbytes:
        count_eviction(ledger.buffers.copying(home, reason).memory, start, stop)
    return nbytes
