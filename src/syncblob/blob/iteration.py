"""Iteration over the first axis: views, or elements that are read on the host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from sys import _getframe
from threading import get_ident
from types import CodeType
from typing import Any

from syncblob.blob.core import HOST_DATA, BlobCore
from syncblob.memory import NO_SHORTCUT

# Not an element.
NO_ITEM = object()

# By thread: the 1-d Blob that was last asked for its length, and the instruction that asked.
walks: dict[int, tuple[int, CodeType, int]] = {}


def measured(blob: BlobCore) -> None:
    """Record that the caller of `Blob.__len__` asks for the length of a 1-d Blob."""
    try:
        frame = _getframe(2)
    except ValueError:
        # Called by a thread, without a frame.
        return
    walks[get_ident()] = id(blob), frame.f_code, frame.f_lasti


def walked_item(blob: BlobCore, key: Any) -> Any:
    """Return an element of a 1-d Blob if a function written in C walks it, else `NO_ITEM`.

    Such functions, `torch.tensor` of a list among them, descend by lengths and integers until an
    item is no sequence, but a 0-d Blob is one for them. So they get the NumPy scalars that
    iteration gives. They ask for the length and for the items within one instruction of Python,
    which code in Python cannot.
    """
    walk = walks.get(get_ident())
    if walk is not None and type(key) is int:
        walked, code, instruction = walk
        frame = _getframe(1).f_back
        if (
            walked == id(blob)
            and frame is not None
            and code is frame.f_code
            and instruction == frame.f_lasti
        ):
            return blob._read(HOST_DATA, "__getitem__")[key]
    walks.pop(get_ident(), None)
    return NO_ITEM


def iterate(blob: BlobCore) -> Iterator[Any]:
    """Yield the elements of a 1-d Blob as NumPy scalars; see `Blob.__iter__`."""
    array: Any = None
    seen = None
    shortcut = NO_SHORTCUT
    for index in count():
        if shortcut.readable:
            # What comes next may end with the same map.
            seen = None
        else:
            # While aliases may write on the other side, no shortcut can be used. Then only a change
            # of the map, or the end of the aliases, causes a new read. No local name keeps the
            # memory over a `yield`, because `resize` counts references to it.
            state = blob._memory.spans, blob._memory.aliased
            if array is None or state != seen:
                array = blob._read(HOST_DATA, "__iter__")
                kept = blob._kept[HOST_DATA]
                shortcut = NO_SHORTCUT if kept is None else kept[0]
                seen = None if shortcut.readable else state
        try:
            element = array[index]
        except IndexError:
            return
        yield element
