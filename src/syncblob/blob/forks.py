"""Finds Blobs that other threads are writing when the process forks: the child must not use them.

A write that changes the state of a memory holds the memory's lock, and the child finds it locked.
Most writes change no state and take no lock. They are found on the stacks of the other threads just
before a fork, so they cost nothing at other times.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from syncblob.blob.core import BlobCore
from syncblob.memory import SyncedMemory

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    Function = TypeVar("Function", bound=Callable[..., Any])

# The functions that write or reshape Blobs, and the local variable with the changed object.
_writers: dict[CodeType, str] = {}

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120  # compared as a prefix

# The Blobs and memories found before the last fork.
_half_done: list[BlobCore | SyncedMemory] = []


def writes(local: str) -> Callable[[Function], Function]:
    """Mark a function that writes or reshapes Blobs.

    `local` is the local variable with the changed object: a Blob, a memory, or an object with a
    list `written` of Blobs. If it is unset or None, nothing has been changed yet.
    """

    def mark(function: Function) -> Function:
        _writers[function.__code__] = local
        return function

    return mark


def _before_fork() -> None:
    _half_done.clear()
    innermost = sys._current_frames()
    innermost.pop(threading.get_ident(), None)
    while innermost:
        frame: FrameType | None = innermost.popitem()[1]
        # A frame keeps its function's locals alive, so frames of user code are held only for the
        # duration of this loop.
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            if frame.f_code in _writers:
                _half_done.extend(_changed(frame.f_locals.get(_writers[frame.f_code])))
            frame = frame.f_back


def _changed(changed: Any) -> list[BlobCore | SyncedMemory]:
    """Return the Blobs or the memory that a function changes; empty before the change."""
    if changed is None or isinstance(changed, (BlobCore, SyncedMemory)):
        return [] if changed is None else [changed]
    return list(changed.written)


def _after_fork_in_child() -> None:
    for changed in _half_done:
        (changed if isinstance(changed, SyncedMemory) else changed._memory).ledger.lose()
    _half_done.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_half_done.clear,
        after_in_child=_after_fork_in_child,
    )
