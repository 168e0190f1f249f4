"""Weak references: one with fields of its own, and lists and tables of many objects."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

_pruning = threading.RLock()


class Reference(ref[Any]):
    """A weak reference that is only equal to itself: arrays compare element by element."""

    __slots__ = ()

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
    __eq__: ClassVar[Callable[[Any, object], bool]] = object.__eq__


class WeakList:
    """Weak references to objects that are added a few times. It takes little memory.

    Dead and repeated references stay until the number of references has doubled. An object has one
    reference for all lists and tables, because it has no callback.
    """

    __slots__ = ("_limit", "_prunings", "_references")

    def __init__(self) -> None:
        self._references: list[ref[Any]] = []
        self._limit: int = 1024
        self._prunings: int = 0

    def __len__(self) -> int:
        """Return the number of references, also dead ones."""
        return len(self._references)

    def add(self, x: object) -> None:
        """Add an object, which may be there already."""
        self._references.append(ref(x))
        if len(self._references) > self._limit:
            self.living()

    def living(self) -> list[Any]:
        """Return the objects that are alive, in the order in which they came, each once."""
        with _pruning:
            before, known = self._prunings, self._references[:]
            unique = {id(reference): reference for reference in known if reference() is not None}
            count, found, most = len(known), [*unique.values()], max(1024, 2 * len(unique))
            # A signal handler may have pruned. None can run from here on: nothing is called.
            if self._prunings == before:
                self._prunings = before + 1
                self._references[:count] = found
                self._limit = most
        return [x for x in [reference() for reference in found] if x is not None]


class WeakTable(dict[int, Any]):
    """Weak references to objects, by their ids: for those that are added again and again.

    A dead reference stays until another object has the id, or until one is added when the number of
    references has doubled. A new object may be put in directly, which prunes nothing.
    """

    __slots__ = ("_limit",)

    def __init__(self) -> None:
        self._limit: int = 1024

    def add(self, x: object) -> None:
        """Add an object, which may be there already."""
        if self.get(id(x), bool)() is not x:
            # Behind the others.
            self.pop(id(x), None)
            self[id(x)] = ref(x)
        if len(self) > self._limit:
            self.living()

    def living(self) -> list[Any]:
        """Return the objects that are alive, in the order in which they came."""
        with _pruning:
            # Of copies: a finalizer or another thread may add an object meanwhile.
            for key, reference in self.copy().items():
                if reference() is None:
                    removed = self.pop(key, reference)
                    if removed() is not None:
                        # A new object has the id of one that another thread has dropped meanwhile.
                        self[key] = removed
            self._limit = max(1024, 2 * len(self))
            found = [reference() for reference in self.copy().values()]
        return [x for x in found if x is not None]


def _after_fork_in_child() -> None:
    global _pruning  # noqa: PLW0603  # another thread may have held it
    _pruning = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
