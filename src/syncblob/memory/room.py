"""Room on a device: calls that fail for lack of it evict buffers, or wait, and are made again.

`memory_summary` tells what lies there, and what keeps it.
"""

from __future__ import annotations

import gc
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import counted, extend, human_bytes
from syncblob.devices import HOST, Accelerator, Device, accelerator
from syncblob.devices.base import NEEDED, WRITERS
from syncblob.memory.eviction import make_room, settle
from syncblob.memory.operations import (
    SHORT_OF,
    NotNowError,
    Operation,
    Place,
    accelerators_in_use,
    innermost,
    innermost_of,
    leave_room,
    pins,
    residents,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from syncblob._source_lines import SourceLine
    from syncblob.devices.base import Home


def from_the_start(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function; again, from its start, if other threads use the room that it lacks.

    The function takes its arrays itself, and tells before it writes. So nothing is in use between
    two tries, and others can evict its operands. Within another such call, the function is called
    once, and its error is raised.
    """
    # As `run`, without the calls.
    thread = get_ident()
    outer = innermost_of.get(thread)
    operation = Operation((args, keywords), outer)
    if outer is not None and outer.last:
        operation.last = True
    try:
        innermost_of[thread] = operation
        if len(innermost_of) > 1:
            HOST.writers = WRITERS
        try:
            return function(*args, **keywords)
        except MemoryError as error:
            home = vars(error).get(SHORT_OF)
            if home is None or operation.written or not (outer is None or outer.written):
                raise
            shortage = Shortage(error, home, "", MemoryError)
        # Outside of the handler: the error keeps frames alive, and these keep arrays.
        return shortage.begin_again(operation, function, args, keywords)
    finally:
        if outer is None:
            innermost_of.pop(thread, None)
        else:
            innermost_of[thread] = outer


def short_of(error: Exception) -> bool:
    """Return whether a call failed for lack of room that it did not wait for."""
    return SHORT_OF in vars(error)


def compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function with arrays of a home; make room and call it again if memory is short."""
    try:
        leave_room(home)
        return home.compute(function, *args, **keywords)
    except MemoryError as error:
        shortage = shortage_of(error, home, getattr(function, "__name__", "a computation"))
        if shortage is None:
            raise
    return shortage.repeat(_compute, (home, function, *args), keywords)


def _compute(home: Home, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    leave_room(home)
    return home.compute(function, *args, **keywords)


def in_room(
    home: Home, reason: str, short: type[Exception], function: Callable[..., Any], *args: Any
) -> Any:
    """Call a function, and again as long as evictions make room; `short` tells that it needs it."""
    try:
        return function(*args)
    except short as error:
        shortage = shortage_of(error, home, reason, short)
        if shortage is None:
            raise
    return shortage.repeat(function, args, {})


def shortage_of(
    error: Exception, home: Home, reason: str, short: type[Exception] = MemoryError
) -> Shortage | None:
    """Return what to do about an error; None if nothing helps."""
    home = getattr(error, "home", home)
    if not isinstance(error, NotNowError):
        if not home.bounded or not isinstance(home, Accelerator):
            return None
        needed = vars(error).get(NEEDED, 0)
        if not home.can_hold(needed):
            extend(error, f"{home.device} can never hold {human_bytes(needed)}", first=True)
            vars(error)[SHORT_OF] = None
            return None
    return Shortage(error, home, reason, short)


class Shortage:
    """A call for which memory is short, from one try to the next."""

    __slots__ = ("_error", "_home", "_reason", "_short")

    def __init__(self, error: Any, home: Any, reason: str, short: type[Exception]) -> None:
        self._home: Any = home
        self._reason: str = reason
        self._short: type[Exception] = short
        self._take(error)

    def _take(self, error: Any) -> None:
        # Its frames refer to buffers. A program that keeps it would keep them, too.
        self._error: Any = error.with_traceback(None)
        error.__context__ = None

    def repeat(self, function: Callable[..., Any], args: Any, keywords: Any) -> Any:
        """Call the function again, as long as there is a reason to."""
        operation = innermost()
        waits = operation is None or operation.written
        place, last = Place(self._home, stands=operation is None), False
        try:
            while not last:
                if not self._make_room():
                    if not (waits or operation.last):  # type: ignore[union-attr]  # there is one
                        # The operation begins again.
                        vars(self._error)[SHORT_OF] = self._home
                        break
                    last = not (waits and place.wait())
                    if last:
                        # Cycles may keep memories and arrays. What others used may go by now.
                        gc.collect()
                        self._make_room()
                try:
                    return function(*args, **keywords)
                except self._short as error:
                    self._take(error)
                if shortage_of(self._error, self._home, self._reason) is None:
                    break
            if last and not isinstance(self._error, NotNowError):
                self._explain()
            raise self._error
        finally:
            self._leave(place)

    def begin_again(
        self, operation: Operation, function: Callable[..., Any], args: Any, keywords: Any
    ) -> Any:
        """Call the function of an operation again, when it is its turn."""
        place = Place(self._home, stands=True)
        try:
            while short_of(self._error) and not (operation.last or operation.written):
                try:
                    operation.waiting = True
                    operation.last = not place.wait()
                finally:
                    operation.waiting = False
                try:
                    return function(*args, **keywords)
                except MemoryError as error:
                    self._take(error)
            raise self._error
        finally:
            self._leave(place)

    def _leave(self, place: Place) -> None:
        place.leave()
        # It refers to the frames that refer to this object.
        self._error = None

    def _make_room(self) -> bool:
        needed = vars(self._error).get(NEEDED, 0)
        later = isinstance(self._error, NotNowError)
        return not later and make_room(self._home, self._reason, needed)

    def _explain(self) -> None:
        listed = "\n".join(map(str, rows(self._home, self._reason))) or (
            "    nothing that a Blob has; other arrays, and those that other code keeps of evicted "
            "buffers, are not listed"
        )
        extend(self._error, f"nothing there can be evicted:\n{listed}")


# --- what lies there ------------------------------------------------------------------------------


class MemoryRow(NamedTuple):
    """A buffer on an accelerator.

    Attributes
    ----------
    device
        The accelerator.
    nbytes
        Its size.
    blob
        The Blob, with its name if it has one, and the part of it.
    holder
        What keeps the buffer from being evicted: an alias, an exposure, borrows, or the operation
        that runs. Empty otherwise.
    line
        The line that last moved contents there or wrote them; None if it is not known any more.
    """

    device: Device
    nbytes: int
    blob: str
    holder: str
    line: SourceLine | None

    def __str__(self) -> str:
        """Describe it in one line."""
        held = f": {self.holder}" if self.holder else ""
        line = "" if self.line is None else f"; since {self.line.described()}"
        return f"{human_bytes(self.nbytes):>12}  {self.blob}{held}{line}"


class MemorySummary:
    """The result of `memory_summary`, printed as a text. A notebook shows a table.

    Attributes
    ----------
    rows
        The buffers, by device, and the largest first.
    """

    def __init__(self, homes: Iterable[Accelerator]) -> None:
        self._devices = [home.device for home in homes]
        self.rows: list[MemoryRow] = [row for home in homes for row in rows(home)]

    def __str__(self) -> str:
        """Return the text."""
        lines = []
        for device in self._devices:
            rows = [str(row) for row in self.rows if row.device == device]
            lines += [str(device), *(rows or ["    nothing"])]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        import html  # slow to import, and only notebooks need it

        lines = [
            "<tr><th>device</th><th>bytes</th><th>Blob</th><th>since</th><th>kept by</th></tr>"
        ]
        for row in self.rows:
            cells = row.device, human_bytes(row.nbytes), row.blob, row.line or "", row.holder
            texts = [f"<td>{html.escape(str(cell))}</td>" for cell in cells]
            lines.append(f"<tr>{''.join(texts)}</tr>")
        return f"<table>{''.join(lines)}</table>"


def rows(home: Accelerator, reason: str = "") -> list[MemoryRow]:
    """Return what lies on an accelerator, largest first, and what keeps it there.

    `reason` is the operation that runs, if any.
    """
    operands = pins(others=False) if reason else ()
    found = []
    for ledger in residents(home):
        side = ledger.side_of(home)
        for window in ledger.buffers.windows[side].all:
            start, stop = window.start, window.stop
            holder = ledger.loans.holder_in(side, start, stop)
            if not holder and (
                lent := [x for x in ledger.loans.over(start, stop) if x.side is side]
            ):
                holder = counted(len(lent), "writable borrow")
            if not holder and ledger in operands:
                holder = f"an operand of {reason}"
            if not holder and reason and home.is_seen(window.array):
                # The arrays that Blobs keep have been dropped.
                holder = "an array over it, such as one of gpu_data()"
            part = "" if stop - start == ledger.buffers.nbytes else f", bytes {start} to {stop}"
            blob = f"{ledger.buffers.described()}{part}"
            lines = [
                each.place.line
                for each in ledger.history
                if each.map_after.any(each.start, each.stop) & 1 << side
                and each.start < stop
                and start < each.stop
            ]
            row = home.device, window.nbytes, blob, holder, lines[-1] if lines else None
            found.append(MemoryRow(*row))
    return sorted(found, key=lambda row: -row.nbytes)


def memory_summary(device: Device | str | None = None) -> MemorySummary:
    """Return a table of the buffers on accelerators, largest first, and what keeps them there.

    Transfers nothing.

    Parameters
    ----------
    device
        One accelerator; None for all that are used.
    """
    settle()
    return MemorySummary(accelerators_in_use() if device is None else [accelerator(device)])
