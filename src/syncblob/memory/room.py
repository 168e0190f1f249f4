"""Room on a device: calls that fail for lack of it evict buffers, or wait, and are made again.

The least recently used goes first. A use of a buffer through its shortcut records nothing, and any
other the number of searches so far for a buffer to evict. Each search revokes the shortcuts of what
was used since the last one. So the age of a buffer counts searches.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

from syncblob._formatting import extend, human_bytes
from syncblob._locks_lost_in_fork import Lock, if_free
from syncblob.devices.base import NEEDED, WRITERS, BesideCaptureError
from syncblob.memory import operations
from syncblob.memory.operations import NotNowError, attempt, current
from syncblob.memory.rows import rows
from syncblob.memory.windows import free
from syncblob.transfers import EVICTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncblob.devices import Accelerator, Side
    from syncblob.devices.base import Home
    from syncblob.memory.ledger import Ledger

# The seconds for which the first in line waits, those between two tries, and the tries before which
# no other thread was at work that it needs to give up. A thread may be between two operations.
PATIENCE, PAUSE, IDLE = 5.0, 0.005, 20

# Without a GIL, what another thread has made may be freed only when that thread runs again, or by a
# collection: what refers to it by one, and itself by the next. An array has a view and its root.
_COLLECTIONS = 1 if getattr(sys, "_is_gil_enabled", lambda: True)() else 4

# Attributes of errors: whether to wait can help, that a call within gave up, what a search found.
_WAITS_FOR_ROOM, _GAVE_UP, _MADE = "waits_for_room", "gave_up", "made"


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


_policy: Callable[[Evictable], float] = _by_age

# Held by one thread that makes room at a time. It waits for no other lock of a memory.
_making_room = Lock()


def set_eviction_policy(policy: Callable[[Evictable], float] | None) -> None:
    """Set the function that scores buffers; that with the highest score is evicted first.

    Parameters
    ----------
    policy
        Takes an `Evictable`, and needs no room on the device itself. None means the default: what
        was used longest ago, weighted by the copies that bring it back. Of equal scores, the buffer
        that was allocated first goes first.
    """
    global _policy  # noqa: PLW0603  # a setting of the process
    if policy is not None and not callable(policy):
        raise TypeError(f"expected a function of an Evictable, or None, got {policy!r}")
    _policy = policy or _by_age


# --- making room ----------------------------------------------------------------------------------


def make_room(home: Accelerator, reason: str, needed: int) -> int:
    """Make room on an accelerator; return 1 if there may be more than before.

    Freed memory that libraries keep is given back; else buffers are evicted that nobody sees, those
    with the highest scores first, until the bytes needed may fit. Returns -1 if there is no more,
    but another thread is at work there, or in an access; 0 if none is.
    """
    with _making_room.held:
        if home.give_back():
            return 1
        operations.settle()
        lacking, freed, busy = max(needed - home.room()[0], 1), 0, _is_used(home)
        refusal: Exception | None = None
        for _, ledger, side, reach in sorted(_scored(home), key=lambda each: -each[0]):
            evict = partial(free, ledger, side, reach, EVICTION + reason, unseen=True)
            try:
                got = if_free(ledger.lock, evict)
                busy, freed = busy or got is None, freed + (got or 0)
            except (BesideCaptureError, BufferError):
                # Others need not be waited for, or have no alias.
                continue
            except Exception as error:  # noqa: BLE001  # such as a guard's: others may have to move nothing
                # Its frames would keep arrays alive.
                refusal = error.with_traceback(None)
            if freed >= lacking:
                break
    if refusal and not freed:
        raise refusal
    return 1 if freed else -busy


def _is_used(home: Home) -> bool:
    """Return whether another thread is at work on a device."""
    return bool(WRITERS) or home in operations.pins(own=False)


def _scored(home: Accelerator) -> Iterator[tuple[float, Ledger, Side, tuple[int, int]]]:
    """Yield the score and the place of each window of a home."""
    past = operations.searches[0]
    operations.searches[0] += 1
    # What a home shares is the memory of the host, too.
    for ledger in () if home.shared else home.residents.living():
        side, age = ledger.side_of(home), max(past - ledger.last_search, 0)
        if not age:
            # The next use shows: it asks for a shortcut.
            ledger.revoke_shortcuts()
        for window in ledger.windows(side):
            reach = window.start, window.stop
            newest = sum(run.nbytes for run in ledger.only_on(side, *reach))
            score = _policy(Evictable(window.nbytes, newest, age, ledger.name))
            if not isinstance(score, SupportsFloat):
                raise TypeError(
                    f"expected a number from the function set by set_eviction_policy, got {score!r}"
                )
            if window.common is None:
                yield float(score), ledger, side, reach


# --- calls that are made again --------------------------------------------------------------------


def in_room(
    home: Home | None,
    reason: str,
    short: type[Exception],
    function: Callable[..., Any],
    *args: Any,
    **keywords: Any,
) -> Any:
    """Call a function, and again while room can be made for it; `short` errors tell that it lacks.

    Without a home, it is an operation, which begins again with nothing in use. Evictions help any
    other call, within an operation or beside any.
    """
    # The thread, while it stands in line; when it gives up; how many tries in a row no other thread
    # was at work before; and how many are left then.
    thread, end, idle, left = 0, 0.0, 0, _COLLECTIONS
    try:
        while True:
            try:
                return function(*args, **keywords)
            except short as failure:
                if not _may_help(failure, home):
                    raise
                error: Any = failure
            # It is kept without its frames, and outside of the handler, because these keep arrays.
            error.with_traceback(None).__context__ = None
            known, within = vars(error), current()
            place = known["home"]
            evicts = home is not None and not isinstance(error, NotNowError)
            made = make_room(place, reason, known.get(NEEDED, 0)) if evicts else known.get(_MADE)
            known[_MADE] = made = -_is_used(place) if made is None else made
            if made > 0:
                continue
            # What has something in use waits beside the line, or leaves that to its operation.
            thread = threading.get_ident() if within is None else 0
            if not (left and (within is None or within.written)):
                if evicts:
                    listed = "\n".join(map(str, rows(place, reason)))
                    listed = listed or "    nothing of a Blob; other arrays are not listed"
                    extend(error, f"nothing there can be evicted:\n{listed}")
                break
            others = threading.active_count() > 1
            if others:
                _take_turn(place, thread)
            now = time.monotonic()
            end = end or now + PATIENCE
            idle = 0 if made else idle + 1
            if not others or idle >= IDLE or now >= end:
                # Cycles may keep memories and arrays.
                gc.collect()
                left -= 1
        known[_GAVE_UP] = True
        raise error
    finally:
        # First, and without a call before it, so that no interrupt leaves it there.
        if thread:
            operations.line.pop(thread, None)
        # Its frames refer to this one.
        error = None


def _may_help(error: Exception, home: Home | None) -> bool:
    """Return whether another try may help after a call with a home, or an operation, was short."""
    known, within = vars(error), current()
    if home is None:
        # Within another operation, that begins again.
        return within is None and known.get(_WAITS_FOR_ROOM) is True
    if known.get(_GAVE_UP):
        return False
    # Elements may be gathered on another side than that of the call.
    place, needed = known.setdefault("home", home), known.get(NEEDED, 0)
    helps: bool = place.can_hold(needed) and (place.bounded or isinstance(error, NotNowError))
    if helps and within is not None and not within.written:
        known[_WAITS_FOR_ROOM] = True
    elif place.bounded and not helps:
        extend(error, f"{place.device} can never hold {human_bytes(needed)}", first=True)
        known[_WAITS_FOR_ROOM] = False
    return helps


def _take_turn(home: Home, thread: int) -> None:
    """Wait until a thread is the first in line, or else, if it does not stand there, a little."""
    while True:
        if thread:
            # It keeps its place there, unless a signal handler has left in its name.
            operations.line[thread] = home
        time.sleep(PAUSE)
        if not thread or operations.first_in_line(home) == thread:
            return


# Calls a function as an operation, and again, from its start, if other threads use the room that it
# lacks. The function takes its arrays itself, and tells before it writes.
from_the_start: Callable[..., Any] = partial(in_room, None, "", MemoryError, attempt)


def short_of(error: Exception) -> bool:
    """Return whether a call failed for lack of room that it did not wait for."""
    return _WAITS_FOR_ROOM in vars(error)


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    reason = getattr(function, "__name__", "a computation")
    call = operations.in_turn, home, home.compute, function, *args
    return in_room(home, reason, MemoryError, *call, **keywords)
