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
from syncblob.memory.summary import rows
from syncblob.memory.windows import free
from syncblob.transfers import EVICTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncblob.devices import Accelerator, Side
    from syncblob.devices.base import Home
    from syncblob.memory.ledger import Ledger

# The seconds for which the first in line waits, those between two tries, and the tries before which
# no other thread was at work that it needs to give up. A thread may be between two operations.
PATIENCE, PAUSE, IDLE = 5.0, 0.005, 6

# Without a GIL, what another thread has made may be freed only when that thread runs again, or by a
# collection: what refers to it by one, and itself by the next. An array has a view and its root.
_COLLECTIONS = 1 if getattr(sys, "_is_gil_enabled", lambda: True)() else 4

# The attribute of an error for lack of room that a call did not wait for: whether to wait can help.
_WAITS_FOR_ROOM = "waits_for_room"


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


def make_room(home: Accelerator, reason: str, needed: int) -> bool:
    """Make room on an accelerator; return whether there may be more than before.

    Freed memory that libraries keep is given back; else buffers are evicted that nobody sees.
    """
    with _making_room.held:
        return home.give_back() or _evict(home, reason, needed)


def _evict(home: Accelerator, reason: str, needed: int) -> bool:
    """Evict the windows with the highest scores that can be, until the bytes needed may fit."""
    operations.settle()
    lacking, freed = max(needed - home.room()[0], 1), 0
    refusal: Exception | None = None
    # Of equal ones, that comes first which was allocated first.
    for _, ledger, side, reach in sorted(_scored(home), key=lambda each: -each[0]):
        evict = partial(free, ledger, side, reach, EVICTION + reason, unseen=True)
        try:
            freed += if_free(ledger.lock, evict)
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
    return freed > 0


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

    See `Shortage`.
    """
    try:
        return function(*args, **keywords)
    except short as error:
        shortage = Shortage(home, reason, short)
        if not shortage.take(error):
            raise
    # Outside of the handler: the error keeps frames alive, and these keep arrays.
    return shortage.repeat(function, *args, **keywords)


# Calls a function; again, from its start, if other threads use the room that it lacks. The function
# takes its arrays itself, and tells before it writes. So nothing is in use between two tries, and
# others can evict its operands. Within another such call, that begins again.
from_the_start: Callable[..., Any] = partial(in_room, None, "", MemoryError, attempt)


def short_of(error: Exception) -> bool:
    """Return whether a call failed for lack of room that it did not wait for."""
    return _WAITS_FOR_ROOM in vars(error)


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    reason = getattr(function, "__name__", "a computation")
    call = operations.in_turn, home, home.compute, function, *args
    return in_room(home, reason, MemoryError, *call, **keywords)


class Shortage:
    """A call for which memory is short, as `short` errors tell, from one try to the next.

    Without a home, it is an operation, which begins again with nothing in use. Evictions help any
    other call, within an operation or beside any.
    """

    _error: Any = None
    # When it gives up, and the tries in a row before which no other thread was at work.
    _end: float = 0.0
    _idle: int = 0

    def __init__(self, home: Any, reason: str, short: type[Exception] = MemoryError) -> None:
        self._home: Any = home
        self._reason: str = reason
        self._short: type[Exception] = short
        self._thread: int = threading.get_ident()

    def take(self, error: Exception) -> bool:
        """Return whether another try may help after an error, and keep that if so."""
        known = vars(error)
        if self._home is None:
            # Within another operation, that begins again.
            helps = known.get(_WAITS_FOR_ROOM, False) and current() is None
        else:
            # Elements may be gathered on another side than that of the call.
            home, needed = known.setdefault("home", self._home), known.get(NEEDED, 0)
            helps = home.can_hold(needed) and (home.bounded or isinstance(error, NotNowError))
            if home.bounded and not helps:
                extend(error, f"{home.device} can never hold {human_bytes(needed)}", first=True)
                known[_WAITS_FOR_ROOM] = False
        # Its frames refer to the caller's variables, and so to this object.
        self._error = error if helps else None
        return helps

    def repeat(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call the function again, as long as there is a reason to."""
        within, last = current(), False
        # What has something in use waits beside the line, or leaves it to its operation to wait.
        stands, waits = within is None, within is None or within.written
        try:
            while True:
                # Its frames refer to buffers. A program that keeps it would keep them, too.
                self._error = self._error.with_traceback(None)
                self._error.__context__ = None
                known = vars(self._error)
                home, reason, needed = known["home"], self._reason, known.get(NEEDED, 0)
                evicts = self._home is not None and not isinstance(self._error, NotNowError)
                if not (evicts and make_room(home, reason, needed)):
                    if last or not waits:
                        break
                    last = not self._wait(home, stands=stands)
                try:
                    return function(*args, **keywords)
                except self._short as error:
                    if not self.take(error):
                        raise
            if not waits:
                known[_WAITS_FOR_ROOM] = True
            if evicts:
                listed = "\n".join(map(str, rows(home, reason))) or (
                    "    nothing that a Blob has; other arrays, and those that other code keeps of "
                    "evicted buffers, are not listed"
                )
                extend(self._error, f"nothing there can be evicted:\n{listed}")
            raise self._error
        finally:
            # First, and without a call before it, so that no interrupt leaves it there.
            if stands:
                operations.line.pop(self._thread, None)
            self._error = None

    def _wait(self, home: Home, *, stands: bool) -> bool:
        """Wait for the turn, or else a little. Return False if no other thread may free any."""
        if threading.active_count() > 1:
            first = False
            while not first:
                if stands:
                    # It keeps its place there, unless a signal handler has left in its name.
                    operations.line[self._thread] = home
                time.sleep(PAUSE)
                first = not stands or operations.first_in_line(home) == self._thread
            now = time.monotonic()
            self._end = self._end or now + PATIENCE
            at_work = WRITERS or home in operations.pins(own=False)
            self._idle = 0 if at_work else self._idle + 1
            if self._idle < IDLE and now < self._end:
                return True
        # Cycles may keep memories and arrays.
        for _ in range(_COLLECTIONS):
            gc.collect()
        return False
