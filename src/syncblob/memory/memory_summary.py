"""What lies on accelerators, as a table of the buffers and of what keeps them there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from syncblob._formatting import counted, human_bytes
from syncblob.devices import Accelerator, Device, Side, accelerator
from syncblob.memory.eviction import settle
from syncblob.memory.operations import inhabited, pinned, residents

if TYPE_CHECKING:
    from syncblob._source_lines import SourceLine
    from syncblob.memory.buffers import Window
    from syncblob.memory.history import Transition


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

        titles = "device", "bytes", "Blob", "since", "kept by"
        table = [
            (row.device, human_bytes(row.nbytes), row.blob, row.line or "", row.holder)
            for row in self.rows
        ]
        lines = [
            f"<tr>{''.join(f'<{tag}>{html.escape(str(text))}</{tag}>' for text in row)}</tr>"
            for tag, row in (("th", titles), *(("td", row) for row in table))
        ]
        return f"<table>{''.join(lines)}</table>"


def rows(home: Accelerator, reason: str = "") -> list[MemoryRow]:
    """Return what lies on an accelerator, largest first, and what keeps it there.

    `reason` is the operation that runs, if any.
    """
    operands = pinned(others=False) if reason else ()
    found = []
    for ledger, _ in residents(home):
        side = ledger.side_of(home)
        loans = ledger.loans[side]
        for window in ledger.buffers.windows[side]:
            start, stop = window.start, window.stop
            holder = loans.holder_in(side, start, stop)
            if not holder and (borrows := loans.borrows.overlapping(start, stop)):
                holder = counted(len(borrows), "writable borrow")
            if not holder and ledger in operands:
                holder = f"an operand of {reason}"
            if not holder and reason and home.is_seen(window.array):
                # The arrays that Blobs keep have been dropped.
                holder = "an array over it, such as one of gpu_data()"
            part = "" if stop - start == ledger.buffers.nbytes else f", bytes {start} to {stop}"
            blob = f"{ledger.buffers.described()}{part}"
            history = ledger.history
            since = [each.place for each in history if _is_in(each, side, window)]
            line = since[-1].line if since else None
            found.append(MemoryRow(home.device, window.nbytes, blob, holder, line))
    return sorted(found, key=lambda row: -row.nbytes)


def _is_in(transition: Transition, side: Side, window: Window) -> bool:
    """Return whether a transition concerned a window of a side."""
    gave = transition.map_after.any(transition.start, transition.stop) & 1 << side
    return bool(gave) and transition.start < window.stop and window.start < transition.stop


def memory_summary(device: Device | str | None = None) -> MemorySummary:
    """Return a table of the buffers on accelerators, largest first, and what keeps them there.

    Transfers nothing.

    Parameters
    ----------
    device
        One accelerator; None for all that are used.
    """
    settle()
    return MemorySummary(inhabited() if device is None else [accelerator(device)])
