"""The buffers of a memory, copies between ranges of them, and its initial contents.

A side has *windows*: buffers of disjoint ranges. Nearly always it has one, which is everything.
Only accelerators have windows of parts, made by accesses of parts. The host needs none, because the
operating system gives its buffer memory page by page.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from functools import lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._formatting import extend, human_bytes
from syncblob._source_lines import user_line
from syncblob.devices import Accelerator, Side, current_accelerator, home_of
from syncblob.memory.operations import in_turn
from syncblob.memory.state_machine import Spans
from syncblob.transfers import Copying, count, open_logs, running_guards, transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.devices.base import Home, Push

    Function = Callable[[], NDArray[np.uint8]]

# Numbers that tell memories apart in the log.
next_serial: Callable[[], int] = itertools.count(1).__next__

# The sides of nearly every memory, and how bytes come to each of them from the other.
PAIR = tuple(Side)
DIRECTIONS = ("download", "upload")


class Window:
    """A buffer of a range of a memory, or of all of it."""

    __slots__ = ("array", "common", "exporter", "start", "stop")

    def __init__(self, start: int, stop: int, array: Any) -> None:
        self.start: int = start
        self.stop: int = stop
        # The buffer, in which the byte at `start` is the first.
        self.array: Any = array
        # The object that aliases are made over; see `Home.exporter`.
        self.exporter: Any = None
        # What windows of several sides have in common if they are one buffer, else None.
        self.common: object = None

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.stop - self.start

    def part(self, start: int, stop: int) -> Any:
        """Return a range of the memory. Skips the slice if the range is all of the window."""
        nbytes, start = stop - start, start - self.start
        return self.array if nbytes == self.array.nbytes else self.array[start : start + nbytes]

    def inner(self, layout: Layout) -> Layout:
        """Return where a layout of the memory is in the array."""
        return layout.shift(-self.start) if self.start else layout

    def layout(self, home: Home, array: Any) -> Layout:
        """Return the layout in the memory of an array over the window."""
        return home.layout(array, home.address(self.array) - self.start)

    def own_view(self, home: Home, layout: Layout, *, writable: bool = False) -> Any:
        """Lay an array for `Home.compute` over the window; see `Home.own_view`."""
        if self.start:
            layout = layout.shift(-self.start)
        return home.own_view(self.array, layout, writable=writable)

    def alias(self, home: Home, layout: Layout) -> tuple[Any, object]:
        """Return an array over it, and the object that dies with the last use of that."""
        if self.exporter is None:
            self.exporter = home.exporter(self.array)
        return home.alias(self.exporter, self.inner(layout))


@lru_cache(maxsize=64)
def homes_of(*homes: Home) -> tuple[Home, ...]:
    """Return a tuple of homes. Cached, because nearly all memories have the same."""
    return homes


_START = attrgetter("start")
_STOP = attrgetter("stop")
# Stands for a dict in memories that need none yet.
EMPTY: Any = MappingProxyType({})


def find_window(windows: Sequence[Window], start: int, stop: int) -> Window | None:
    """Return the one of ascending windows that contains a range; None if none does."""
    place = bisect_right(windows, start, key=_START) - 1
    return windows[place] if place >= 0 and stop <= windows[place].stop else None


class Buffers:
    """The windows of each side: of disjoint ranges, in ascending order."""

    __slots__ = {
        "_serial": "`serial`, or 0.",
        "homes": "Of all sides, without the first accelerator if none was used yet.",
        "name": "The name in the log and in `Blob.explain`; empty if there is none.",
        "parts": "By side, the windows of parts. Replaced as a whole.",
        "shared": "Whether a home shares the host's memory, so that sides may have one buffer.",
        "spans": "The map of the bytes: which sides hold each of them.",
        "whole": "By side, the window that is everything, or None.",
    }

    # `Ledger`, the only subclass, assigns them.
    _serial: int
    homes: tuple[Home, ...]
    name: str
    parts: dict[int, tuple[Window, ...]]
    shared: bool
    spans: Spans
    whole: list[Window | None]

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.spans.nbytes

    @property
    def serial(self) -> int:
        """The number that tells memories apart in the log."""
        self._serial = self._serial or next_serial()
        return self._serial

    @property
    def accelerator(self) -> Accelerator | None:
        """The backend of the first accelerator; None if it is chosen on first use."""
        homes: Any = self.homes
        return homes[1] if len(homes) > 1 else None

    @property
    def all_sides(self) -> tuple[Side, ...]:
        """The sides: at least the host and the first accelerator."""
        count = len(self.homes)
        return PAIR if count <= len(PAIR) else tuple(map(Side, range(count)))

    @property
    def on_several_sides(self) -> bool:
        """Whether several sides have windows."""
        sides = [side for side, whole in enumerate(self.whole) if whole or self.parts.get(side)]
        return len(sides) > 1

    def home(self, side: int) -> Home:
        """Return the home of one side. Allocates and moves nothing."""
        homes = self.homes
        return homes[side] if side < len(homes) else current_accelerator()

    def add_side(self, accelerator: Accelerator) -> None:
        """Make room for an accelerator, under the lock, unless there is."""
        if accelerator not in self.homes:
            # No signal handler can run in between: nothing is called.
            self.whole += [None]
            self.shared = self.shared or accelerator.shared
            self.homes = (*self.homes, accelerator)

    def nearest(self, side: Side, holders: int) -> Side:
        """Return the one of several sides that a side gets bytes from.

        That is an accelerator from which it copies directly, else the host, else any.
        """
        if not self.homes[2:]:
            return PAIR[1 - side]
        home: Any = self.home(side)
        alike = self.alike(side)

        def is_far(other: Side) -> tuple[bool, bool]:
            direct = side and other and home.reaches(self.home(other))
            return not alike >> other & 1, not direct

        others = [other for other in self.all_sides if other is not side and holders >> other & 1]
        return min(others, key=is_far)

    def windows(self, side: int) -> tuple[Window, ...]:
        """Return the windows of a side."""
        whole = self.whole[side]
        return self.parts.get(side, ()) if whole is None else (whole,)

    def within(self, side: int, start: int, stop: int) -> list[Window]:
        """Return the windows of a side that overlap a range."""
        windows = self.windows(side)
        first = bisect_right(windows, start, key=_STOP)
        return [*windows[first : bisect_left(windows, stop, key=_START)]]

    def inside(self, side: int, start: int, stop: int) -> list[Window]:
        """Return the windows of a side that lie in a range."""
        overlap = self.within(side, start, stop)
        return [each for each in overlap if start <= each.start and each.stop <= stop]

    def window_over(self, side: int, start: int, stop: int) -> Window | None:
        """Return the window of a side that contains a range; None if none does."""
        return self.whole[side] or find_window(self.parts.get(side, ()), start, stop)

    # --- one buffer for several sides -------------------------------------------------------------

    def alike(self, side: int) -> int:
        """Return as a bit mask a side, and those that have one buffer with it."""
        mine = self.whole[side]
        if mine is None or mine.common is None:
            return 1 << side
        windows = enumerate(self.whole)
        return sum(1 << other for other, each in windows if each and each.common is mine.common)

    def share(self, side: Side) -> Window | None:
        """Give a side without windows the buffer of another one in its space, if there is one."""
        home: Any = self.home(side)
        for other in () if self.windows(side) else self.all_sides:
            known, partner = self.whole[other], self.home(other)
            if known is None or not partner.shared:
                continue
            # From an accelerator to another, by the host.
            array = partner.share(known.array) if other else known.array  # type: ignore[attr-defined]  # an accelerator
            if side and array is not None:
                array = home.share(array)
            if array is None:
                continue
            window = Window(0, self.nbytes, array)
            if side:
                self.add_side(home)
                home.residents.add(self)
            if known.common is None:
                known.common = object()
                count("shared", self.nbytes)
            window.common = known.common
            self.shared = True
            # Unless a signal handler has replaced either. None can run from here on.
            if self.whole[side] is None and self.whole[other] is known:
                self.whole[side] = window
            return self.whole[side]
        return None

    def finish_others(self, side: int, start: int, stop: int) -> None:
        """Wait for the work on a range of the sides that have one buffer with a side."""
        for other in self.all_sides[1:]:
            if other != side and self.alike(side) >> other & 1:
                window: Any = self.whole[other]
                accelerator: Any = self.homes[other]
                accelerator.finish(window.part(start, stop))

    # --- allocations and copies -------------------------------------------------------------------

    def allocate(self, side: Side, nbytes: int, *, zeroed: bool = False) -> Any:
        """Allocate a buffer. An accelerator with one is the memory's from then on."""
        if not side:
            # As the accelerator wants it, by default that of the default device.
            partner = self.homes[1] if len(self.homes) > 1 else home_of()
            return partner.allocate_host(nbytes, zeroed=zeroed)
        accelerator: Any = self.home(side)
        buffer = in_turn(accelerator, accelerator.allocate, nbytes, zeroed=zeroed)
        self.add_side(accelerator)
        return buffer

    def description(self, layout: Layout | None = None) -> str:
        """Describe the Blob of this memory that has a layout, for messages."""
        name = f" {self.name!r}" if self.name else ""
        if layout is None:
            return f"Blob{name} of {self.nbytes} bytes"
        return f"Blob{name} of shape {layout.shape}, {layout.dtype.name}, {layout.nbytes} bytes"

    def explain_shortage(
        self,
        error: MemoryError,
        side: Side,
        nbytes: int | None,
        reason: str,
        layout: Layout | None = None,
    ) -> None:
        """Add to an error which access of which Blob needed memory, by default all of its bytes."""
        home, nbytes = self.home(side), self.nbytes if nbytes is None else nbytes
        delete = (
            "delete Blobs and aliases that are no longer needed, because a Blob keeps a buffer on "
            "each side that was used, or "
        )
        extend(
            error,
            f"{reason} needs {human_bytes(nbytes)} on {home.device} for "
            f"{self.description(layout)}, at {user_line().describe()}; "
            f"{delete if home.can_hold(nbytes) else ''}work on parts of it, as Blob.parts() does",
        )

    def copying(
        self, accelerator: Accelerator, reason: str, because: Callable[[], str] | None = None
    ) -> Copying:
        """Return the description of a copy of this memory for the log and the guards."""
        return Copying(accelerator, reason, self.serial, self.name, because)

    def move(  # noqa: PLR0913, PLR0917  # a copy, and what the log says of it
        self,
        origin: int,
        side: int,
        contents: Any,
        target: Any,
        offset: int,
        reason: str,
        because: Callable[[], str] | None = None,
        start_copy: Callable[[Any, Any], Push] | None = None,
    ) -> Any:
        """Copy bytes of one side into as many of another, and tell the logs and the guards.

        `offset` is their place in the memory. `because` describes the alias that made the access
        copy again. `start_copy` only starts the copy, and returns what can be waited for.
        """
        device: Any = self.homes[side or origin]
        copy = start_copy or (device.upload if side else device.download)
        if origin and side:
            copy = partial(device.copy_from, self.home(origin))
        if not (open_logs or running_guards.get()):
            return copy(contents, target)
        way = "peer" if origin and side else DIRECTIONS[side > 0]
        copying = self.copying(device, reason, because)
        return transfer(copying, way, contents.nbytes, offset, copy, contents, target)

    def fill(
        self, source: Source | None, side: Side, window: Window, start: int, stop: int, reason: str
    ) -> None:
        """Fill a range of a window from a source, or with zeros; the accelerator's by an upload."""
        # No side held these bytes, but memory may still be used by work from before it was freed.
        self.finish_others(side, start, stop)
        target = window.part(start, stop)
        home: Any = self.home(side)
        if source is None:
            home.zero(target)
            return
        if side and home.shared:
            # By the host, where it lies.
            home.finish(target)
            there = home.share(target)
            side, target = (side, target) if there is None else (Side.HOST, there)
        if side:
            self.move(Side.HOST, side, source.part(start, stop), target, start, reason)
        else:
            source.fill(target, start)


# --- initial contents -----------------------------------------------------------------------------


class Source:
    """The initial contents of a memory, read part by part.

    The result of the function is kept until every byte has been used. It is not called twice before
    that, unless it fails.
    """

    __slots__ = ("_again", "_contents", "_function", "_nbytes", "unwritten")

    def __init__(self, function: Function, nbytes: int) -> None:
        self._function: Any = function
        # Unlike the function, this does not keep a file open.
        self._again: Callable[[], Function | None] | None = getattr(function, "again", None)
        # With 1 for the bytes that can be read again: nobody has written them since.
        self.unwritten: Spans = Spans.whole(nbytes, int(self._again is not None))
        self._nbytes = nbytes
        self._contents: NDArray[np.uint8] | None = None

    def rest(self) -> Source | None:
        """Let go of what has been used completely; return what can be read again, or None."""
        if not any(self.unwritten.holders):
            return None
        self._function = self._contents = None
        return self

    def reopen(self) -> bool:
        """Prepare to be read again, whatever is closed from now on; return whether that works."""
        function = None if self._again is None else self._again()
        if function is not None:
            self._function = function
        return function is not None

    def _opened(self) -> Any:
        """Return the function, read again if a signal handler has used all of it meanwhile."""
        if self._function is None:
            self.reopen()
        return self._function

    def contents(self) -> NDArray[np.uint8]:
        """Return all bytes. Read-only for the caller."""
        contents = self._contents
        if contents is None:
            contents = self._opened()()
            expected = f"expected a source of {self._nbytes} bytes in a one-dimensional uint8 array"
            if not isinstance(contents, np.ndarray):
                raise TypeError(f"{expected}, got {type(contents).__name__}")
            if contents.shape != (self._nbytes,) or contents.dtype != np.uint8:
                raise ValueError(f"{expected}, got {contents.dtype} of shape {contents.shape}")
            self._contents = contents
        return contents

    def part(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return a range of the bytes. Read-only for the caller."""
        known = self._contents is not None or stop - start == self._nbytes
        if known or not hasattr(self._opened(), "read_into"):
            return self.contents()[start:stop]
        part = np.empty(stop - start, np.uint8)
        self.fill(part, start)
        return part

    def fill(self, buffer: NDArray[np.uint8], start: int) -> None:
        """Fill a host buffer with the bytes from `start` on."""
        read_into = getattr(self._opened(), "read_into", None)
        if read_into is None:
            buffer[:] = self.contents()[start : start + len(buffer)]
        else:
            read_into(buffer, start)

    def peek(self) -> NDArray[np.uint8]:
        """Return all bytes, and keep nothing."""
        kept, contents = self._contents, self.contents()
        self._contents = kept
        return contents
