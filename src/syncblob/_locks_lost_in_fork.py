"""Locks after a fork.

A forked child has only the thread that forked. A lock held by another thread would stay locked in
the child, and acquiring it would hang.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Never

from syncblob._weak_list import WeakList

_notified = WeakList()


# Lets an object's ``after_fork()`` be called in every forked child, as long as the object lives. No
# other thread exists there yet.
notify: Callable[[object], None] = _notified.add


def is_lost(lock: threading.RLock) -> bool:
    """Return, in a forked child, whether another thread held a lock."""
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


class Lock:
    """A reentrant lock for data that is always consistent, usable after a fork: ``with x.held``."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held: threading.RLock = threading.RLock()
        notify(self)

    def after_fork(self) -> None:
        """Replace the lock, unless the thread that forked holds it."""
        if is_lost(self.held):
            self.held = threading.RLock()


class LostLock:
    """Replaces, in a forked child, the lock of a memory that another thread held at the fork."""

    def acquire(self, *, blocking: bool = True) -> Never:
        """Raise a RuntimeError."""
        del blocking
        raise RuntimeError(
            "another thread was using this memory when the process forked, and may have left it "
            "half-changed: it cannot be used in this child. Make the Blob anew here, or fork while "
            "no other thread uses it"
        )

    __enter__ = acquire

    def __exit__(self, *_exception: object) -> None:
        """No-op; the lock is never entered."""


def if_free(lock: Any, function: Callable[..., int], *args: Any, again: bool = False) -> int | None:
    """Call a function under a lock. Never wait: return None if another thread has the lock.

    That one may be waiting for this one. If this one has it, it is in an access: return 0, unless
    `again` tells that it may take the lock again.
    """
    if isinstance(lock, LostLock) or (lock._is_owned() and not again):  # noqa: SLF001  # has no public name
        return 0
    ours: list[bool] = []
    release = lock.release
    try:
        # One call in C takes the lock and records that, and the release follows without another
        # call. So no interrupt leaves the lock locked.
        ours.extend(filter(None, map(lock.acquire, (False,))))
        return function(*args) if ours else None
    finally:
        if ours:
            release()


def _after_fork_in_child() -> None:
    for forked in _notified.living():
        forked.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
