"""Arrays that are alive, and which of them overlap a range.

An array dies on any thread, at any moment, even inside this package. The callback of its weak
reference is a single method of a set, written in C, and does nothing but remove the reference. So
a reference may vanish between any two steps here.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ClassVar

# Up to this many references are compared one by one, which takes less time than to use an index.
_FEW = 32

# More of them are compared one by one this many times, which takes less time than to make an index.
_COMPARISONS = 8


class Reference(weakref.ref[Any]):
    """A weak reference that is only equal to itself: arrays compare element by element.

    Attributes
    ----------
    start, stop
        The range of the array. It does not change.
    """

    __slots__ = ("start", "stop")

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__
    __eq__: ClassVar[Callable[[Any, object], bool]] = object.__eq__

    start: int
    stop: int


R = TypeVar("R", bound=Reference)


class LivingArrays(Generic[R]):
    """References to arrays that are alive.

    References may be added without the memory's lock; everything else needs it. A reference is
    first added to `live`; then, if there is an index, `file` adds it there. An index is assigned
    before it is filled from `live`. So it lacks no reference that was added before a search: either
    `live` had it by then, or whoever added it found the index.

    Attributes
    ----------
    live
        The references. Never iterate over the set itself: they vanish at any time.
    discard
        The callback of the references.
    index
        References by range; None until many of them have been searched several times.
    """

    __slots__ = ("_comparisons", "discard", "index", "live")

    def __init__(self) -> None:
        self.live: set[R] = set()
        self.discard: Callable[[R], None] = self.live.discard
        self.index: _Index[R] | None = None
        self._comparisons: int = 0

    def __len__(self) -> int:
        """Count those that are alive."""
        return len(self.live)

    def file(self, reference: R) -> None:
        """Add a reference to the index, after it has been added to `live`."""
        index = self.index
        if index is not None:
            if index.outgrown(len(self.live)):
                # Most of it is dead. The next search makes another one.
                self.index = None
            else:
                index.fresh.append(reference)

    def overlapping(self, start: int, stop: int) -> list[R]:
        """Return the references whose ranges overlap a range.

        The time depends on how many of them are near the range, and not on how many there are.
        """
        live, index = self.live, self.index
        few = len(live) <= _FEW
        if few or (index is None and self._comparisons < _COMPARISONS):
            self._comparisons += not few
            return [each for each in list(live) if each.start < stop and start < each.stop]
        if index is None or not index.filled or index.outgrown(len(live)):
            index = self.index = _Index()
            index.fresh.extend(list(live))
            index.filled = True
        near = index.near(start, stop)
        return [each for each in near if each.start < stop and start < each.stop and each in live]


class _Index(Generic[R]):
    """References by range, also those whose arrays have died.

    Each step of a search may be repeated, because a signal handler may search in the middle of it.

    Attributes
    ----------
    filled
        Whether it may be searched.
    fresh
        References that have been added since the last search.
    count
        The number of the others.
    levels
        The others. The first key is the number of bits of the length of their ranges, so that two
        to the power of it is more than the length. The second is the start of the range in units of
        that. So a range of this level that overlaps another starts in the units of the other or in
        the one before them.
    """

    __slots__ = ("count", "filled", "fresh", "levels")

    def __init__(self) -> None:
        self.filled: bool = False
        # Not a set: one that was large is slow to iterate over when it is empty, too.
        self.fresh: deque[R] = deque()
        self.count: int = 0
        self.levels: dict[int, dict[int, set[R]]] = {}

    def outgrown(self, living: int) -> bool:
        """Return whether most of its references are dead, given the number of those alive."""
        return self.count + len(self.fresh) > 2 * living + _FEW

    def near(self, start: int, stop: int) -> list[R]:
        """Return the references whose ranges overlap a range, and some that nearly do."""
        fresh = self.fresh
        while fresh:
            reference = fresh[0]
            level = (reference.stop - reference.start).bit_length()
            blocks = self.levels.setdefault(level, {})
            blocks.setdefault(reference.start >> level, set()).add(reference)
            self.count += 1
            # A signal handler may have taken it. None can run between this comparison and the call.
            if fresh and fresh[0] is reference:
                fresh.popleft()
        near: list[R] = []
        for level, blocks in list(self.levels.items()):
            first, last = (start >> level) - 1, (stop - 1) >> level
            places: Iterable[int] = range(first, last + 1)
            if last - first >= len(blocks):
                # The range is long, and has few of them.
                places = [place for place in list(blocks) if first <= place <= last]
            for place in places:
                near += blocks.get(place, ())
        return near
