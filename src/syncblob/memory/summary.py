"""What lies on accelerators, and what keeps it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob._formatting import human_bytes, quantity
from syncblob.devices import Device, accelerator, accelerators_in_use
from syncblob.memory import operations
from syncblob.memory.windows import holder_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncblob._source_lines import SourceLine
    from syncblob.devices import Accelerator


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
        line = "" if self.line is None else f"; since {self.line.describe()}"
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
            listed = [str(row) for row in self.rows if row.device == device]
            lines += [str(device), *(listed or ["    nothing"])]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        from html import escape  # slow to import, and only notebooks need it

        table = "<tr><th>device</th><th>bytes</th><th>Blob</th><th>since</th><th>kept by</th></tr>"
        for row in self.rows:
            cells = row.device, human_bytes(row.nbytes), row.blob, row.line or "", row.holder
            table += f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
        return f"<table>{table}</table>"


def rows(home: Accelerator, reason: str = "") -> list[MemoryRow]:
    """Return what lies on an accelerator, largest first, and what keeps it there.

    `reason` is the operation that runs, if any.
    """
    operation = operations.current() if reason else None
    operands = () if operation is None else {*operations.used_by(operation.operands)}
    found = []
    for ledger in home.residents.living():
        side, mine = ledger.side_of(home), 1 << ledger.side_of(home)
        for window in ledger.windows(side):
            start, stop = window.start, window.stop
            holder = holder_of(ledger, side, window)
            borrows = [each for each in ledger.loans.over(start, stop) if each.side is side]
            if not holder and borrows:
                holder = quantity(len(borrows), "writable borrow")
            if not holder and ledger in operands:
                holder = f"an operand of {reason}"
            if not holder and reason and home.is_seen(window.array):
                # The arrays that Blobs keep have been dropped.
                holder = "an array over it, such as one of gpu_data()"
            part = "" if window.nbytes == ledger.nbytes else f", bytes {start} to {stop}"
            line = None
            for each in ledger.history:
                over = each.start < stop and start < each.stop
                if over and each.map_after.any(each.start, each.stop) & mine:
                    line = each.place.line
            blob = f"{ledger.description()}{part}"
            found.append(MemoryRow(home.device, window.nbytes, blob, holder, line))
    return sorted(found, key=lambda row: -row.nbytes)


def memory_summary(device: Device | str | None = None) -> MemorySummary:
    """Return a table of the buffers on accelerators, largest first, and what keeps them there.

    Transfers nothing.

    Parameters
    ----------
    device
        One accelerator; None for all that are used.
    """
    operations.settle()
    return MemorySummary(accelerators_in_use() if device is None else [accelerator(device)])
