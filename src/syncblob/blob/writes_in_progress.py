"""Finds the Blobs that other threads are writing, whose memory must not be replaced meanwhile.

A write that changes the state of a memory holds the memory's lock. Most writes change no state and
take no lock. They are found on the stacks of the other threads, and cost nothing at other times.

Free-threaded Python forbids a look at the stack of a thread that runs. There, each call of a
function that writes is noted while it runs.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from syncblob.blob.core import BlobCore
from syncblob.memory import SyncedMemory

if TYPE_CHECKING:
    Function = TypeVar("Function", bound=Callable[..., Any])

# The functions that write or reshape Blobs, and the local variable with the changed object.
_writers: dict[CodeType, str] = {}

# Whether Python can run without a GIL. Then frames of other threads must not be looked at: what
# their variables refer to may be freed meanwhile.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

# Then, by thread, what the functions that write and are running change; None if not known yet.
_changing: dict[int, list[Any]] = {}


def writes(local: str) -> Callable[[Function], Function]:
    """Mark a function that writes or reshapes Blobs.

    `local` is the local variable with the changed object: a Blob, a memory, or an object with a
    list `written` of Blobs. If it is unset or None, nothing has been changed yet.
    """

    def mark(function: Function) -> Function:
        if FREE_THREADED:
            return _noted(function, local)
        _writers[function.__code__] = local
        return function

    return mark


def _noted(function: Function, local: str) -> Function:
    """Note each call of a function that writes, while it runs."""
    parameters = list(inspect.signature(function).parameters)
    place = parameters.index(local) if local in parameters else None
    call: Any = function

    @functools.wraps(call)
    def noted(*args: Any, **keywords: Any) -> Any:
        changing = _changing.setdefault(threading.get_ident(), [])
        depth = len(changing)
        try:
            changing.append(None if place is None else args[place])
            return call(*args, **keywords)
        finally:
            del changing[depth:]

    decorated: Any = noted
    return decorated


def note(running: Any) -> None:
    """Note that the function of this thread that writes changes the Blobs in a list `written`."""
    changing = _changing.get(threading.get_ident())
    if changing:
        changing[-1] = running


def changed_by_others(without: Collection[int] = ()) -> list[BlobCore | SyncedMemory]:
    """Return what functions of other threads are changing, except those of some threads."""
    left_out = {threading.get_ident(), *without}
    if FREE_THREADED:
        others = [
            list(calls) for thread, calls in list(_changing.items()) if thread not in left_out
        ]
        return [changed for calls in others for each in calls for changed in _changed(each)]
    found: list[BlobCore | SyncedMemory] = []
    innermost = sys._current_frames()
    while innermost:
        # A frame keeps its function's variables alive. So none is kept, not even for a moment after
        # this returns: that of this call, or of one like it on another thread, would keep itself.
        frame: FrameType | None
        thread, frame = innermost.popitem()
        if thread in left_out:
            frame = None
        while frame is not None:
            local = _writers.get(frame.f_code)
            if local is not None:
                variables = frame.f_locals
                found += _changed(variables.get(local))
                forget(frame, variables)
            frame = frame.f_back
    return found


def forget(frame: FrameType, variables: Any) -> None:
    """Clear the copy of its variables that a frame keeps, and with it all that they refer to."""
    if type(variables) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        variables.clear()


def _changed(changed: Any) -> list[BlobCore | SyncedMemory]:
    """Return the Blobs or the memory that a function changes; empty before the change."""
    if changed is None or isinstance(changed, (BlobCore, SyncedMemory)):
        return [] if changed is None else [changed]
    return list(changed.written)


if FREE_THREADED and hasattr(os, "register_at_fork"):
    # A child has none of the other threads.
    os.register_at_fork(after_in_child=_changing.clear)
