"""Locks after a fork.

A child has the thread that forked and no other. A lock that another thread held would stay locked
in it for ever, and whoever wanted it would hang.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Never, Protocol

    class Forked(Protocol):
        """What has something to do in the child of a fork."""

        def after_fork(self) -> None:
            """Do it. No other thread is there yet."""


__all__ = ["Lock", "LostLock", "is_lost", "notify"]

# Entries vanish at any time, on any thread: nothing iterates over the set itself.
_notified: set[weakref.ref[Forked]] = set()


def notify(forked: Forked) -> None:
    """Have ``after_fork()`` of an object called in every child, for as long as the object lives."""
    _notified.add(weakref.ref(forked, _notified.discard))


def is_lost(lock: threading.RLock) -> bool:
    """Tell, in the child of a fork, whether a lock was held by another thread."""
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


class Lock:
    """A reentrant lock for data that any moment finds complete: a fork sets it free.

    Attributes
    ----------
    held
        The lock, for a ``with`` statement.
    """

    __slots__ = ("__weakref__", "held")

    held: threading.RLock

    def __init__(self) -> None:
        self.held = threading.RLock()
        notify(self)

    def after_fork(self) -> None:
        """Make another one, unless the thread that forked holds it."""
        if is_lost(self.held):
            self.held = threading.RLock()


class LostLock:
    """In the child of a fork, the lock of a memory that another thread was inside of then."""

    def acquire(self, *, blocking: bool = True) -> Never:
        """Refuse.

        Raises
        ------
        RuntimeError
            Always.
        """
        del blocking
        raise RuntimeError(
            "another thread was using this memory when the process forked, and may have left it "
            "half-changed: it cannot be used in this child. Make the Blob anew here, or fork while "
            "no other thread uses it"
        )

    __enter__ = acquire

    def __exit__(self, *_exception: object) -> None:
        """Do nothing: it is never entered."""


def _after_fork_in_child() -> None:
    for reference in list(_notified):
        forked = reference()
        if forked is not None:
            forked.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
