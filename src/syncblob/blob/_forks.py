"""Blobs that other threads are writing when the process forks: they are half-written in the child.

A write that changes the state of a memory holds the memory's lock, and the child finds it locked.
Most writes change no state and take no lock. They are found on the stacks of the other threads,
just before the fork, and so cost nothing at any other time.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from syncblob.blob import _arrays, _elementwise
from syncblob.blob._base import BlobBase
from syncblob.blob._shape_methods import ShapeMethods
from syncblob.blob._views import Views
from syncblob.dispatch.numpy.calls import call
from syncblob.memory import SyncedMemory

if TYPE_CHECKING:
    from types import CodeType, FrameType

__all__: list[str] = []

# The functions that write or reshape Blobs, and the local name of what they change.
_WRITERS: dict[CodeType, str] = {
    _arrays.write_by.__code__: "memory",
    _elementwise.inplace.__code__: "x1",
    call.__code__: "running",
    ShapeMethods.resize.__code__: "self",
    ShapeMethods._assign.__code__: "self",
    ShapeMethods._let_go.__code__: "self",
    Views.__setitem__.__code__: "self",
}

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120  # a prefix of names

# What was found before the last fork.
_half_done: list[BlobBase | SyncedMemory] = []


def note_torch_calls(call: CodeType) -> None:
    """Look for calls of torch's functions too."""
    _WRITERS[call] = "running"


def _before_fork() -> None:
    _half_done.clear()
    innermost = sys._current_frames()
    innermost.pop(threading.get_ident(), None)
    while innermost:
        frame: FrameType | None = innermost.popitem()[1]
        # A frame that is looked at keeps what its function has, so no frame of the user's is, but
        # for the moment that this takes.
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            if frame.f_code in _WRITERS:
                _half_done.extend(_blobs_of(frame.f_locals.get(_WRITERS[frame.f_code])))
            frame = frame.f_back


def _blobs_of(found: Any) -> list[BlobBase | SyncedMemory]:
    """Return the Blobs or the memory that a function changes; none before it has begun to."""
    if found is None or isinstance(found, (BlobBase, SyncedMemory)):
        return [] if found is None else [found]
    return list(found.written)


def _after_fork_in_child() -> None:
    for found in _half_done:
        (found if isinstance(found, SyncedMemory) else found._memory).lose()
    _half_done.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_half_done.clear,
        after_in_child=_after_fork_in_child,
    )
