"""The Blobs and memories that are alive, and those that functions have at hand.

Nothing registers them, because that would slow every operation. They are found among the objects of
the garbage collector and on the stacks of threads, when somebody asks.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any
from weakref import ref

from syncblob._locks_lost_in_fork import notified
from syncblob.blob.core import NOTHING_KEPT, BlobCore
from syncblob.blob.writes_in_progress import FREE_THREADED, changed_by_others, forget
from syncblob.devices import HOST, Accelerator
from syncblob.memory import Ledger, SyncedMemory
from syncblob.memory.wait_for_room import begin_again
from syncblob.memory.windows import Window

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120  # compared as a prefix
_PACKAGE = os.path.dirname(_FOLDER) + os.sep  # noqa: PTH120  # likewise

# The functions of these files have the Blobs at hand that they look for, and do not use them.
_LOOKING = frozenset(
    f"{_FOLDER}{os.sep}{name}.py"
    for name in [
        "evict_by_hand",
        "eviction_policy",
        "living_blobs",
        "automatic_eviction",
        "memory_summary",
        "parts",
    ]
)

# The Blobs that were found last, and how many collections of older objects there had been.
_found: tuple[int, list[ref[BlobCore]]] = -1, []


def living_blobs() -> list[BlobCore]:
    """Return all Blobs.

    All objects are searched, which takes 10 to 100 ms. As long as the garbage collector has moved
    no more objects to the older ones, this is only done for the young ones.
    """
    global _found  # noqa: PLW0603  # saves time
    if FREE_THREADED or threading.active_count() > 1:
        # Only what refers to a home: no thread can finish a tuple that others refer to.
        homes = {home for ledger in ledgers_on() for home in ledger.buffers.homes}
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
    return (
        [*blobs.values()]
        if collections != before or collections == _collections()
        else living_blobs()
    )


def _collections() -> int:
    """Return how often the garbage collector has moved objects to the oldest ones."""
    return sum(generation["collections"] for generation in gc.get_stats()[1:])


def ledgers_on(home: Accelerator | None = None) -> list[Ledger]:
    """Return all ledgers, or those of an accelerator, in the order in which they were made."""
    return [each for each in notified(Ledger) if home is None or home in each.buffers.homes]


def in_use(
    *, own: bool = True, others: bool = True, beyond: bool = False, looking: bool = False
) -> set[object]:
    """Return what functions of this package have at hand.

    These are the ids and the homes of Blobs, the ledgers of Blobs and memories, and homes.

    Parameters
    ----------
    own, others
        Whether to look at the functions of this thread, and at those of others.
    beyond
        Leave out the functions of this thread that run now. Those that they have interrupted, by
        way of a signal handler or a callback, count.
    looking
        Whether to look at the functions that look for Blobs and do not use them, too.

    Free-threaded Python forbids a look at the frames of others: there, only functions that write
    count. Others keep the bytes that they read, because they refer to arrays over them.
    """
    found: set[object] = set()
    if FREE_THREADED:
        collect(changed_by_others() if others else (), found)
    frames: dict[int, FrameType | None] = {}
    if others and not FREE_THREADED:
        frames |= sys._current_frames()
    # Not the frame of this call, which would refer to itself and keep its callers' variables alive.
    here = threading.get_ident()
    frames[here] = sys._getframe(1) if own else None
    while frames:
        thread, frame = frames.popitem()
        if frame is not None and frame.f_code is begin_again.__code__ and not looking:
            # The thread rests, and will begin its operation again.
            frame = None
        leaving_out = beyond and thread == here
        while frame is not None:
            path = frame.f_code.co_filename
            leaving_out = leaving_out and path.startswith(_PACKAGE)
            seen = path.startswith(_PACKAGE) and (looking or path not in _LOOKING)
            if seen and not leaving_out:
                variables = frame.f_locals
                collect(variables.values(), found)
                forget(frame, variables)
            frame = frame.f_back
    return found


def others_at_work(home: Accelerator) -> bool:
    """Return whether other threads are in functions of this package that use an accelerator.

    Free-threaded Python forbids a look at their frames: there, all threads count.
    """
    if FREE_THREADED:
        return threading.active_count() > 1
    used = in_use(own=False, looking=True)
    return home in used or any(type(x) is Ledger and home in x.buffers.homes for x in used)


def collect(values: Iterable[Any], found: set[object], depth: int = 3) -> None:
    """Add what `in_use` returns of some values, also of those in tuples, lists and dicts."""
    for value in list(values):
        # Another thread may be making one.
        if isinstance(value, BlobCore):
            found |= {id(value), getattr(value, "home", None)}
            collect((getattr(value, "_held", None), getattr(value, "_diff", None)), found, 0)
        elif type(value) is SyncedMemory:
            collect((getattr(value, "ledger", None),), found, 0)
        elif type(value) is Ledger or issubclass(type(value), Accelerator):
            found.add(value)
        elif depth and type(value) in (tuple, list, dict):
            collect(value.values() if type(value) is dict else value, found, depth - 1)


def let_go(blobs: Iterable[BlobCore], gone: Callable[[Any], bool], busy: set[object]) -> bool:
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


def let_go_of_replaced(blobs: Iterable[BlobCore], busy: set[object]) -> bool:
    """Drop the arrays over windows that larger ones have replaced. Blobs keep them until used."""
    ledgers = ledgers_on()
    current = [window for each in ledgers for windows in each.buffers.windows for window in windows]
    known = set(map(id, current))
    return let_go(blobs, lambda kept: type(kept) is Window and id(kept) not in known, busy)


def settle_results(home: Accelerator, blobs: Iterable[BlobCore]) -> None:
    """Make the memories of results, so that they are found by them."""
    for blob in blobs:
        # Another thread may be making it.
        with suppress(AttributeError):
            if blob._held is None and blob.home is home:
                blob.memory  # noqa: B018  # made on demand
