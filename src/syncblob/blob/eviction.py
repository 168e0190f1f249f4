"""Memory that gives way: evictions by hand, and those that make room on an accelerator.

If an allocation on an accelerator fails, `make_room` evicts a buffer that nobody sees, and the
caller tries again. Nothing is recorded for that while there is room: the buffers, the Blobs that
keep arrays over them, and the functions that are using them are found when room is needed.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from operator import index, itemgetter
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from syncblob._formatting import counted, extend, human_bytes
from syncblob._locks import Lock, LostLock, notified
from syncblob._shape import canonical_axis
from syncblob.blob.core import NOTHING_KEPT, BlobCore
from syncblob.blob.writers import FREE_THREADED, changed_by_others, forget
from syncblob.copies import EVICTION, count_eviction
from syncblob.devices import HOST, Accelerator, Device, Side, accelerator
from syncblob.memory import MUTABLE, Ledger, SyncedMemory, evict_windows
from syncblob.memory.history import Transition, note
from syncblob.memory.uploads import await_uploads
from syncblob.memory.window_growth import BeingWrittenError
from syncblob.memory.windows import Window, array_of, part_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from syncblob._source_lines import SourceLine
    from syncblob.devices.base import Home

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120  # compared as a prefix

# How often to try again while other threads use everything, and the seconds in between.
_PATIENCE, _PAUSE = 200, 0.005
_waits = threading.local()

# The memories that threads wait for, by thread.
_awaited: dict[int, Ledger | None] = {}

# Held by one thread that makes room at a time, because its lists keep results of others alive. It
# waits for no other lock of a memory.
_making_room = Lock()
_made_room = 0
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


# --- by hand -------------------------------------------------------------------------------------


def evict(blob: BlobCore, side: str) -> int:
    """Free the buffers of a side; see `Blob.evict`."""
    if side not in {"cpu", "gpu"}:
        raise ValueError(f'expected "cpu" or "gpu", got {side!r}')
    memory, ledger = blob._memory, blob._memory.ledger
    start, stop = memory.range_of(blob._layout)
    gone = Side.HOST if side == "cpu" else blob._accelerator_side(memory)
    with memory.lock:
        freed = _give_up(blob, gone, start, stop)
        kept = ledger.buffers.within(gone, start, stop)
        for window in kept if start < stop else ():
            reach = f"evict, which keeps a buffer of bytes {window.start} to {window.stop}"
            note(ledger, reach, ledger.spans, ledger.spans, start, stop)
    return freed


def _give_up(blob: BlobCore, side: Side, start: int, stop: int) -> int:
    """Free the buffers of a side that lie in a range of a Blob's memory; return their bytes."""
    memory = blob._memory
    # Its own arrays are known. Those of other Blobs have to be searched for.
    blob._use(memory)
    ledger, home = memory.ledger, memory.home(side)
    with memory.lock:
        _close(ledger, side)
        busy = _in_use(beyond=True)
        if ledger in busy:
            raise BufferError(
                f"another thread, or an operation that this one interrupts, is using {memory!r}"
            )
        gone = ledger.buffers.inside(side, start, stop, memory.used_nbytes)
        freed = memory.evict(side, start, stop)
        if any(not isinstance(home, Accelerator) or home.is_seen(w.array) for w in gone):
            arrays = [window.array for window in gone]
            _let_go(_blobs(), lambda kept: any(array_of(kept) is each for each in arrays), busy)
    return freed


def _close(ledger: Ledger, side: Side) -> None:
    """Close the ways to a side without the lock, and for good, because evictions renew shortcuts.

    Look for users of the memory afterwards. Who begins later waits for the lock.
    """
    ledger.shortcuts.revoke()
    ledger.shortcuts.forget(side)


def parts(blob: Any, axis: int, nbytes: int) -> Iterator[Any]:
    """Walk a Blob in views; see `Blob.parts`."""
    axis = canonical_axis(axis, blob.shape)
    if index(nbytes) < 1:
        raise ValueError(f"expected parts of at least 1 byte, got {nbytes}")
    length = blob.shape[axis]
    before = (slice(None),) * axis
    step = max(1, nbytes * length // max(blob.nbytes, 1))
    views = [blob[(*before, slice(at, at + step))] for at in range(0, length, step)]
    ranges = sorted((view._layout.start, view._layout.stop) for view in views)
    if any(stop > start for (_, stop), (start, _) in itertools.pairwise(ranges)):
        raise ValueError(
            f"the parts along axis {axis} of a Blob of shape {blob.shape} lie between each other "
            "in memory, so that none can be moved alone; walk along the axis of the largest stride"
        )
    return _walk(blob, views)


def _walk(blob: BlobCore, views: Sequence[Any]) -> Iterator[Any]:
    buffers = blob._memory.ledger.buffers
    for view, following in itertools.zip_longest(views, views[1:]):
        of = view._memory.range_of(view._layout)
        left = [view, following]
        try:
            if following is not None and blob._home is not HOST:
                view.prefetch()
                # An array over it, so that it is not evicted for the next.
                held = buffers.containing(blob._side, *of)
                # Several windows have it if it was on the device already.
                seen = view._on_device("parts")[0] if held is None else part_of(held, *of)[...]
                # That is brought when it is used if there is no room for two.
                with suppress(MemoryError):
                    following.prefetch()
                del held, seen
            yield view
            left = [view]
        finally:
            for each in left:
                if each is not None:
                    _give_up(each, each._side, *each._memory.range_of(each._layout))


# --- finding what is there -----------------------------------------------------------------------

# The Blobs that were found last, and how many collections of older objects there had been.
_found: tuple[int, list[ref[BlobCore]]] = -1, []


def _blobs() -> list[BlobCore]:
    """Return all Blobs.

    All objects are searched, which takes 10 to 100 ms. As long as the garbage collector has moved
    no more objects to the older ones, this is only done for the young ones.
    """
    global _found  # noqa: PLW0603  # saves time
    if FREE_THREADED:
        # Only what refers to a home: no thread can finish a tuple that others refer to.
        homes = {home for ledger in _ledgers() for home in ledger.buffers.homes}
        return [x for x in gc.get_referrers(HOST, *homes) if issubclass(type(x), BlobCore)]
    before, known = _found
    collections = _collections()
    blobs = {id(blob): blob for blob in (each() for each in known) if blob is not None}
    for generation in (0, 1) if collections == before else (None,):
        # The test runs no code of other classes.
        objects = gc.get_objects(generation)
        blobs.update((id(each), each) for each in objects if issubclass(type(each), BlobCore))
        del objects
    _found = collections, [ref(blob) for blob in blobs.values()]
    # Looking for the young ones may itself have made some older.
    return [*blobs.values()] if collections != before or collections == _collections() else _blobs()


def _collections() -> int:
    """Return how often the garbage collector has moved objects to the oldest ones."""
    return sum(generation["collections"] for generation in gc.get_stats()[1:])


def _ledgers(home: Accelerator | None = None) -> list[Ledger]:
    """Return all ledgers, or those of an accelerator, in the order in which they were made."""
    return [each for each in notified(Ledger) if home is None or home in each.buffers.homes]


def _in_use(*, own: bool = True, others: bool = True, beyond: bool = False) -> set[Ledger | int]:
    """Return what functions of this package have at hand.

    These are the ids of Blobs, and the ledgers of Blobs and memories.

    Parameters
    ----------
    own, others
        Whether to look at the functions of this thread, and at those of others.
    beyond
        Leave out the functions of this thread that run now. Those that they have interrupted, by
        way of a signal handler or a callback, count.

    Free-threaded Python forbids a look at the frames of others: there, only functions that write
    count. Others keep the bytes that they read, because they refer to arrays over them.
    """
    found: set[Ledger | int] = set()
    if FREE_THREADED:
        _collect(changed_by_others() if others else (), found)
    frames: dict[int, FrameType | None] = {}
    if others and not FREE_THREADED:
        frames |= sys._current_frames()
    # Not the frame of this call, which would refer to itself and keep its callers' variables alive.
    here = threading.get_ident()
    frames[here] = sys._getframe(1) if own else None
    while frames:
        thread, frame = frames.popitem()
        leaving_out = beyond and thread == here
        while frame is not None:
            path = frame.f_code.co_filename
            leaving_out = leaving_out and path.startswith(_PACKAGE)
            if path.startswith(_PACKAGE) and path != __file__ and not leaving_out:
                variables = frame.f_locals
                _collect(variables.values(), found)
                forget(frame, variables)
            frame = frame.f_back
    return found


def _collect(values: Iterable[Any], found: set[Ledger | int], depth: int = 3) -> None:
    """Add what `_in_use` returns of some values, also of those in tuples, lists and dicts."""
    for value in list(values):
        # Another thread may be making one.
        if isinstance(value, BlobCore):
            found.add(id(value))
            _collect((getattr(value, "_held", None), getattr(value, "_diff", None)), found, 0)
        elif type(value) is SyncedMemory:
            _collect((getattr(value, "ledger", None),), found, 0)
        elif type(value) is Ledger:
            found.add(value)
        elif depth and type(value) in (tuple, list, dict):
            _collect(value.values() if type(value) is dict else value, found, depth - 1)


def _let_go(
    blobs: Iterable[BlobCore], gone: Callable[[Any], bool], busy: set[Ledger | int]
) -> bool:
    """Drop the arrays over buffers and windows that are gone, of Blobs that are not in use.

    Return whether there were any.
    """
    found = False
    for blob in blobs:
        # Another thread may be making it.
        with suppress(AttributeError):
            held = blob._held
            if not isinstance(held, SyncedMemory) or id(blob) in busy:
                continue
            if gone(blob._shortcut.buffer):
                blob._use(held)
                found = True
            if any(kept is not None and gone(kept[0].buffer) for kept in blob._kept):
                blob._kept = NOTHING_KEPT
                found = True
    return found


def _let_go_of_replaced(blobs: Iterable[BlobCore], busy: set[Ledger | int]) -> bool:
    """Drop the arrays over windows that larger ones have replaced. Blobs keep them until used."""
    ledgers = _ledgers()
    current = [window for each in ledgers for windows in each.buffers.windows for window in windows]
    known = set(map(id, current))
    return _let_go(blobs, lambda kept: type(kept) is Window and id(kept) not in known, busy)


# --- making room ---------------------------------------------------------------------------------

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


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    while True:
        try:
            return home.compute(function, *args, **keywords)
        except MemoryError as error:
            if not make_room(home, error, getattr(function, "__name__", "a computation")):
                raise


def make_room(home: Home, error: MemoryError, reason: str) -> bool:
    """Make room on an accelerator, and return whether the caller should try again.

    Freed memory that other libraries keep is given back; else a buffer that nobody sees is evicted.
    For a window that another thread is writing into, this waits a little instead.

    If not, add to the error a list of what is there. The caller raises it: a frame with a name for
    it would keep all objects of the traceback alive.
    """
    if isinstance(error, BeingWrittenError):
        return _wait(error.ledger)
    if not home.bounded or not isinstance(home, Accelerator):
        return False
    # Its frames refer to buffers, and to look at the variables of the callers keeps it alive.
    traceback, error.__traceback__, error.__context__ = error.__traceback__, None, None
    began = _made_room
    with _making_room.held:
        # Another thread may have made some in the meantime.
        if _made_room != began or home.give_back():
            return True
        evicted, waiting = _evict_one(home, reason)
    if not (evicted or waiting):
        # Cycles may keep memories.
        count = len(_ledgers(home))
        gc.collect()
        evicted = len(_ledgers(home)) < count
    if evicted:
        return True
    # What the others use is free soon. If it is not, the next allocation calls this again.
    if waiting and _wait():
        return True
    rows = "\n".join(map(str, _rows(home, reason))) or (
        "    nothing that a Blob has; other arrays, and those that other code keeps of evicted "
        "buffers, are not listed"
    )
    extend(error, f"nothing there can be evicted:\n{rows}")
    error.__traceback__ = traceback
    return False


def _wait(ledger: Ledger | None = None) -> bool:
    """Wait for other threads a little; return False if this thread has waited too often.

    `ledger` is the memory that this thread cannot use yet.
    """
    thread, now = threading.get_ident(), time.monotonic()
    count, last = getattr(_waits, "waits", (0, 0.0))
    count = count + 1 if now - last < 100 * _PAUSE else 0
    _waits.waits = count, now
    if count >= _PATIENCE:
        return False
    if FREE_THREADED and count % 20 == 1:
        # An array of a thread that waits ends only when that goes on, or here.
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
    changed: set[Ledger | int] = set()
    _collect(changed_by_others(waiting), changed)
    return ledger in changed


SyncedMemory.make_room = staticmethod(make_room)
Ledger.written_by_others = staticmethod(written_by_others)


def _evict_one(home: Accelerator, reason: str) -> tuple[bool, bool]:
    """Evict the buffer with the highest score that can be.

    Returns
    -------
    evicted : bool
    waiting : bool
        Whether other threads are using Blobs or memories.
    """
    global _made_room  # noqa: PLW0603  # counts evictions of the process
    others = _in_use(own=False)
    busy = others | _in_use(others=False)
    blobs = _blobs()
    _settle_results(home, blobs)
    if _let_go_of_replaced(blobs, busy):
        _made_room += 1
        return True, False
    waiting = bool(others) or (FREE_THREADED and threading.active_count() > 1)
    for *_, ledger, start in _candidates(home):
        evicted = _if_free(
            ledger.lock, _evict_unseen, home, ledger, start, blobs, busy, EVICTION + reason
        )
        if evicted:
            _made_room += 1
            # This was no use of the windows that are left.
            use, epoch = _uses[ledger], ledger.shortcuts.epoch
            _uses[ledger] = use._replace(epoch=epoch, spans=ledger.spans)
            return True, waiting
        waiting = waiting or evicted is None
    return False, waiting


def _candidates(home: Accelerator) -> list[tuple[Any, ...]]:
    """Return scores, ledgers and starts, the highest score first; of equal ones the oldest."""
    global _scoring  # noqa: PLW0603  # a policy may use Blobs, and need room itself
    before, policy, now = _scoring, used_last if _scoring else _policy, next(_clock)
    found: list[tuple[Any, ...]] = []
    for ledger in _ledgers(home):
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
        scored = [(float(policy(buffer)), *rest) for buffer, *rest in found]
    finally:
        _scoring = before
    return sorted(scored, reverse=True, key=itemgetter(0, 1))


def _settle_results(home: Accelerator, blobs: Iterable[BlobCore]) -> None:
    """Make the memories of results, so that they are found by them."""
    for blob in blobs:
        # Another thread may be making it.
        with suppress(AttributeError):
            if blob._held is None and blob._home is home:
                blob._memory  # noqa: B018  # made on demand


def _if_free(lock: Any, function: Callable[..., bool], *args: Any) -> bool | None:
    """Call a function under a lock. Return None, and never wait, if another thread has it.

    That thread may be waiting for this one.
    """
    if isinstance(lock, LostLock):
        return False
    if lock._is_owned():
        with lock:
            return function(*args)
    release = lock.release
    taken: list[bool] = []
    try:
        # One call in C takes the lock and notes it, and none comes before the release. So no
        # interrupt leaves the lock held.
        taken.extend(filter(None, map(lock.acquire, (False,))))
        return function(*args) if taken else None
    finally:
        if taken:
            release()


def _evict_unseen(  # noqa: PLR0911, PLR0913, PLR0917  # a buffer, and who may see it
    home: Accelerator,
    ledger: Ledger,
    start: int,
    blobs: Iterable[BlobCore],
    busy: set[Ledger | int],
    reason: str,
) -> bool:
    """Evict the window at a byte if nobody sees it, under the lock. Return whether it was."""
    side = ledger.side_of(home)
    windows = [each for each in ledger.buffers.all_of(side) if each.start == start]
    if not windows:
        return False
    (window,) = windows
    stop = window.stop
    loans = ledger.loans[side]
    if ledger.moving:
        return False
    if ledger.uploads:
        try:
            await_uploads(ledger, Side.HOST, MUTABLE, start, stop)
        except Exception:  # noqa: BLE001  # not of the operation that needs room
            return False
    if (
        ledger.watch is not None
        or loans.may_write_in(start, stop)
        or loans.borrows.reaching((window,), start, stop)
    ):
        return False
    _close(ledger, side)
    if threading.active_count() > 1:
        # From here on, they wait for the lock.
        busy = busy | _in_use(own=False)
    if ledger.buffers.sides[side] is not None and ledger in busy:
        # Only arrays over windows are known to be used by who holds them.
        return False
    _let_go(blobs, lambda kept: array_of(kept) is window.array, busy)
    if home.is_seen(window.array):
        return False
    if not evict_windows(ledger, side, start, min(stop, ledger.spans.nbytes), reason):
        return False
    count_eviction(ledger.buffers.copying(home, reason).memory, start, stop)
    return True


# --- seeing it -----------------------------------------------------------------------------------


class MemoryRow(NamedTuple):
    """A buffer on an accelerator.

    Attributes
    ----------
    device
        The accelerator.
    nbytes
        Its size.
    blob
        The Blob, with its name if it has one, and the part of it.
    holder
        What keeps the buffer from being evicted: an alias, an exposure, borrows, or the operation
        that runs. Empty otherwise.
    line
        The line that last moved contents there or wrote them; None if it is not known any more.
    """

    device: Device
    nbytes: int
    blob: str
    holder: str
    line: SourceLine | None

    def __str__(self) -> str:
        """Describe it in one line."""
        held = f": {self.holder}" if self.holder else ""
        line = "" if self.line is None else f"; since {self.line.described()}"
        return f"{human_bytes(self.nbytes):>12}  {self.blob}{held}{line}"


class MemorySummary:
    """The result of `memory_summary`, printed as a text. A notebook shows a table.

    Attributes
    ----------
    rows
        The buffers, by device, and the largest first.
    """

    def __init__(self, homes: Iterable[Accelerator]) -> None:
        self._devices = [home.device for home in homes]
        self.rows: list[MemoryRow] = [row for home in homes for row in _rows(home)]

    def __str__(self) -> str:
        """Return the text."""
        lines = []
        for device in self._devices:
            rows = [str(row) for row in self.rows if row.device == device]
            lines += [str(device), *(rows or ["    nothing"])]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        import html  # slow to import, and only notebooks need it

        titles = "device", "bytes", "Blob", "since", "kept by"
        table = [
            (row.device, human_bytes(row.nbytes), row.blob, row.line or "", row.holder)
            for row in self.rows
        ]
        lines = [
            f"<tr>{''.join(f'<{tag}>{html.escape(str(text))}</{tag}>' for text in row)}</tr>"
            for tag, row in (("th", titles), *(("td", row) for row in table))
        ]
        return f"<table>{''.join(lines)}</table>"


def _rows(home: Accelerator, reason: str = "") -> list[MemoryRow]:
    """Return what lies on an accelerator, largest first, and what keeps it there.

    `reason` is the operation that runs, if any.
    """
    operands = _in_use(others=False) if reason else ()
    _settle_results(home, _blobs())
    rows = []
    for ledger in _ledgers(home):
        side = ledger.side_of(home)
        loans = ledger.loans[side]
        for window in ledger.buffers.all_of(side):
            start, stop = window.start, window.stop
            holder = loans.writer_in(side, start, stop)
            if not holder and (borrows := loans.borrows.reaching((window,), start, stop)):
                holder = counted(len(borrows), "writable borrow")
            if not holder and ledger in operands:
                holder = f"an operand of {reason}"
            part = "" if stop - start == ledger.buffers.nbytes else f", bytes {start} to {stop}"
            blob = f"{ledger.buffers.described()}{part}"
            history = list(ledger.history or ())
            since = [each.place for each in history if _is_in(each, side, window)]
            line = since[-1].line if since else None
            rows.append(MemoryRow(home.device, window.nbytes, blob, holder, line))
    return sorted(rows, key=lambda row: -row.nbytes)


def _is_in(transition: Transition, side: Side, window: Window) -> bool:
    """Return whether a transition concerned a window of a side."""
    gave = transition.map_after.any(transition.start, transition.stop) & 1 << side
    return bool(gave) and transition.start < window.stop and window.start < transition.stop


def memory_summary(device: Device | str | None = None) -> MemorySummary:
    """Return a table of the buffers on accelerators, largest first, and what keeps them there.

    Transfers nothing.

    Parameters
    ----------
    device
        One accelerator; None for all that are used.
    """
    homes: dict[Any, None] = {home: None for each in _ledgers() for home in each.buffers.homes}
    homes |= dict.fromkeys(each._home for each in _blobs())
    if device is not None:
        homes = {accelerator(device): None}
    return MemorySummary([home for home in homes if home is not HOST])


def set_memory_limit(device: Device | str, nbytes: int | None) -> AbstractContextManager[object]:
    """Limit the bytes on an accelerator. Beyond it, buffers are evicted, or allocations fail.

    Parameters
    ----------
    device
        The accelerator.
    nbytes
        The limit; None for none.

    Returns
    -------
    context manager
        In a ``with`` statement, it restores the limit before at the end of the block.
    """
    if nbytes is not None and index(nbytes) < 1:
        raise ValueError(f"expected a number of bytes, at least 1, or None, got {nbytes}")
    home = accelerator(device)
    end = ExitStack()
    end.callback(home.limit_memory, home.limit_memory(None if nbytes is None else index(nbytes)))
    return end
