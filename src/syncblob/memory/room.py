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
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

from syncblob._formatting import extend, human_bytes
from syncblob._locks_lost_in_fork import Lock, if_free
from syncblob.devices import Side
from syncblob.devices.base import NEEDED, WRITERS, BesideCaptureError
from syncblob.errors import TransferGuardError
from syncblob.memory import operations
from syncblob.memory.memory_summary import rows
from syncblob.memory.operations import (
    NotNowError,
    Operation,
    current,
    first_in_line,
    leave_room,
    pins,
    residents,
    run,
    searches,
    settle,
)
from syncblob.memory.state_machine import MUTABLE
from syncblob.memory.windows import free
from syncblob.transfers import EVICTION, count_eviction

if TYPE_CHECKING:
    from syncblob.devices import Accelerator
    from syncblob.devices.base import Home
    from syncblob.memory.ledger import Ledger

# The seconds for which the first in line waits, those between two tries, and the tries before which
# no other thread was at work that it needs to give up. A thread may be between two operations.
PATIENCE, PAUSE, IDLE = 5.0, 0.005, 6

# Without a GIL, what another thread has made may be freed only when that thread runs again, or by a
# collection: what refers to it by one, and itself by the next. An array has a view and its root.
_COLLECTIONS = 1 if getattr(sys, "_is_gil_enabled", lambda: True)() else 4

# The attribute of an error after which an operation begins again: the home that is short of room.
_SHORT_OF = "short_of_memory"


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
_scoring = False

# Held by one thread that makes room at a time. It waits for no other lock of a memory.
_making_room = Lock()


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


def _candidates(home: Accelerator) -> list[tuple[Ledger, Side, tuple[int, int]]]:
    """Return the ranges of the windows of a home, that with the highest score first.

    Of equal ones, that comes first which was allocated first.
    """
    global _scoring  # noqa: PLW0603  # a policy may use Blobs, and need room itself
    before, policy, past = _scoring, _by_age if _scoring else _policy, searches[0]
    searches[0] += 1
    # Not the windows, which would keep their buffers.
    found: list[tuple[float, tuple[Ledger, Side, tuple[int, int]]]] = []
    try:
        _scoring = True
        # What a home shares is the memory of the host, too.
        for ledger in () if home.shared else residents(home):
            side, name = ledger.side_of(home), ledger.buffers.name
            windows = [each for each in ledger.buffers.windows[side].all if each.common is None]
            age = max(past - ledger.last_search, 0)
            if windows and not age:
                # The next use shows: it asks for a shortcut.
                ledger.revoke_shortcuts()
            for window in windows:
                reach = window.start, min(window.stop, ledger.spans.nbytes)
                newest = sum(run.nbytes for run in ledger.only_on(side, *reach))
                score = policy(Evictable(window.nbytes, newest, age, name))
                if not isinstance(score, SupportsFloat):
                    raise TypeError(
                        "expected a number from the function set by set_eviction_policy, got "
                        f"{score!r}"
                    )
                found.append((float(score), (ledger, side, reach)))
    finally:
        _scoring = before
    return [place for _, place in sorted(found, key=lambda each: -each[0])]


# --- making room ----------------------------------------------------------------------------------


def make_room(home: Accelerator, reason: str, needed: int) -> bool:
    """Make room on an accelerator; return whether there may be more than before.

    Freed memory that libraries keep is given back; else buffers are evicted that nobody sees.
    """
    with _making_room.held:
        return home.give_back() or _evict(home, reason, needed)


def _evict(home: Accelerator, reason: str, needed: int) -> bool:
    """Evict the windows with the highest scores that can be, until the bytes needed may fit."""
    settle()
    lacking, freed = needed - home.room()[0], 0
    refusal: Exception | None = None
    for ledger, *place in _candidates(home):
        try:
            nbytes = if_free(ledger.lock, _evict_unseen, ledger, *place, EVICTION + reason)
        except (BesideCaptureError, BufferError):
            # Others need not be waited for, or have no alias.
            continue
        except TransferGuardError as error:
            # Another one may have to move nothing. Its frames would keep arrays alive.
            refusal = error.with_traceback(None)
            continue
        freed += nbytes
        if nbytes and freed >= lacking:
            break
    if refusal and not freed:
        raise refusal
    return freed > 0


def _evict_unseen(ledger: Ledger, side: Side, reach: tuple[int, int], reason: str) -> int:
    """Evict a window if nobody sees it, under the lock. Return the bytes freed."""
    if ledger.watch is not None and ledger.watch.lives:
        return 0
    try:
        ledger.await_uploads(Side.HOST, MUTABLE, *reach)
    except Exception:  # noqa: BLE001  # not of the operation that needs room
        return 0
    freed = free(ledger, side, reach, reason, unseen=True)
    if freed:
        count_eviction(ledger.buffers.serial, *reach)
    return freed


# --- calls that are made again --------------------------------------------------------------------


def from_the_start(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function; again, from its start, if other threads use the room that it lacks.

    The function takes its arrays itself, and tells before it writes. So nothing is in use between
    two tries, and others can evict its operands. Within another such call, that begins again.
    """
    operation = Operation((args, keywords))
    try:
        return run(operation, function, args, keywords)
    except MemoryError as error:
        shortage = Shortage(vars(error).get(_SHORT_OF), operation=operation)
        if current() is not None or not shortage.take(error):
            raise
    # Outside of the handler: the error keeps frames alive, and these keep arrays.
    return shortage.repeat(run, operation, function, args, keywords)


def short_of(error: Exception) -> bool:
    """Return whether a call failed for lack of room that it did not wait for."""
    return _SHORT_OF in vars(error)


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    reason = getattr(function, "__name__", "a computation")
    return in_room(home, reason, MemoryError, _compute, home, function, *args, **keywords)


def _compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    if operations.line:
        leave_room(home)
    return home.compute(function, *args, **keywords)


def in_room(
    home: Home,
    reason: str,
    short: type[Exception],
    function: Callable[..., Any],
    *args: Any,
    **keywords: Any,
) -> Any:
    """Call a function, and again as long as evictions make room; `short` tells that it needs it."""
    try:
        return function(*args, **keywords)
    except short as error:
        shortage = Shortage(home, reason, short)
        if not shortage.take(error):
            raise
    return shortage.repeat(function, *args, **keywords)


class Shortage:
    """A call for which memory is short, from one try to the next.

    Parameters
    ----------
    home, reason
        The home that lacks room, and the name of the call.
    short
        The errors that tell that.
    operation
        The operation that begins again, with nothing in use. None for a call within one, or beside
        any: evictions help these.
    """

    def __init__(
        self,
        home: Any,
        reason: str = "",
        short: type[Exception] = MemoryError,
        operation: Operation | None = None,
    ) -> None:
        self.home: Any = home
        self.thread: int = threading.get_ident()
        self._reason: str = reason
        self._short: type[Exception] = short
        self._operation: Operation | None = operation
        self._error: Any = None
        # When it gives up, and the tries in a row before which no other thread was at work.
        self._end: float = 0.0
        self._idle: int = 0

    def take(self, error: Exception) -> bool:
        """Return whether another try may help after an error, and keep that if so."""
        operation, known = self._operation, vars(error)
        if operation is not None:
            helps = not operation.written and known.get(_SHORT_OF) is not None
        else:
            home = self.home = getattr(error, "home", self.home)
            needed = known.get(NEEDED, 0)
            helps = isinstance(error, NotNowError) or (home.bounded and home.can_hold(needed))
            if home.bounded and not helps:
                extend(error, f"{home.device} can never hold {human_bytes(needed)}", first=True)
                known[_SHORT_OF] = None
        # Its frames refer to the caller's variables, and so to this object.
        self._error = error if helps else None
        return helps

    def repeat(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call the function again, as long as there is a reason to."""
        within = current()
        waits = within is None or within.written
        made = last = False
        try:
            while True:
                # Its frames refer to buffers. A program that keeps it would keep them, too.
                self._error = self._error.with_traceback(None)
                self._error.__context__ = None
                if self._make_room():
                    made = True
                else:
                    if last or not (waits or made):
                        break
                    # What has something in use waits beside the line.
                    last = not (waits and self._wait(stands=within is None))
                    if last:
                        # Cycles may keep memories and arrays.
                        for _ in range(_COLLECTIONS):
                            gc.collect()
                try:
                    return function(*args, **keywords)
                except self._short as error:
                    if not self.take(error):
                        raise
            if self._operation is None:
                self._explain(waits=waits)
            raise self._error
        finally:
            self.home = self._error = None
            if self in operations.line:
                with operations.turn:
                    operations.line[:] = [each for each in operations.line if each.home is not None]
                    operations.turn.notify_all()

    def _make_room(self) -> bool:
        if self._operation is not None or isinstance(self._error, NotNowError):
            return False
        return make_room(self.home, self._reason, vars(self._error).get(NEEDED, 0))

    def _wait(self, *, stands: bool) -> bool:
        """Wait for the turn, or else a little. Return False if no other thread may free any."""
        if threading.active_count() == 1:
            return False
        with operations.turn:
            if stands and self not in operations.line:
                operations.line.append(self)
            operations.turn.wait(PAUSE)
            while stands and first_in_line(self.home) is not self:
                operations.turn.wait(PAUSE)
        now = time.monotonic()
        self._end = self._end or now + PATIENCE
        at_work = self.home in pins(own=False) or bool(WRITERS)
        self._idle = 0 if at_work else self._idle + 1
        return self._idle < IDLE and now < self._end

    def _explain(self, *, waits: bool) -> None:
        """Tell what keeps the room, and an operation that it may begin again."""
        if not waits:
            vars(self._error)[_SHORT_OF] = self.home
        if not isinstance(self._error, NotNowError):
            listed = "\n".join(map(str, rows(self.home, self._reason))) or (
                "    nothing that a Blob has; other arrays, and those that other code keeps of "
                "evicted buffers, are not listed"
            )
            extend(self._error, f"nothing there can be evicted:\n{listed}")
