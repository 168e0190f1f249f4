"""Borrows: the arrays that accessors hand out, and how they end.

A borrow is good until the next access on the other side. A NumPy borrow that may write loses its
write permission at that moment, so that a late write raises instead of vanishing. A slice that was
taken from it before keeps its own permission: NumPy does not tell us of slices.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

__all__ = ["Borrows"]

_FIRST_PRUNING = 8


class Borrows:
    """The writable NumPy borrows of one side of one memory.

    Not thread-safe: used under the memory's lock.
    """

    __slots__ = ("_live", "_prune_at")

    def __init__(self) -> None:
        self._live: list[weakref.ref[np.ndarray[Any, Any]]] = []
        self._prune_at = _FIRST_PRUNING

    def add(self, array: object) -> None:
        """Remember a writable array. Arrays of libraries without write permissions are ignored."""
        if not isinstance(array, np.ndarray):
            return
        live = self._live
        if len(live) >= self._prune_at:
            live[:] = [borrow for borrow in live if borrow() is not None]
            self._prune_at = 2 * len(live) + _FIRST_PRUNING
        live.append(weakref.ref(array))

    def suspend(self) -> list[np.ndarray[Any, Any]]:
        """Take the write permission of all borrows and return those that had it."""
        suspended = []
        for borrow in self._live:
            array = borrow()
            if array is not None and array.flags.writeable:
                array.flags.writeable = False
                suspended.append(array)
        return suspended

    def restore(self, suspended: list[np.ndarray[Any, Any]]) -> None:
        """Undo `suspend`."""
        for array in suspended:
            array.flags.writeable = True

    def forget(self) -> None:
        """Forget the borrows that were suspended for good."""
        self._live.clear()
        self._prune_at = _FIRST_PRUNING
