"""What lies on accelerators, and what keeps it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob._formatting import human_bytes, quantity
from syncblob.memory import operations
from syncblob.memory.windows import holder_of

if TYPE_CHECKING:
    from syncblob._source_lines import SourceLine
    from syncblob.devices import Accelerator, Device


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


def rows(home: Accelerator, reason: str = "") -> list[MemoryRow]:
    """Return what lies on an accelerator, largest first, and what keeps it there.

    `reason` is the operation that runs, if any.
    """
    operation = operations.current() if reason else None
    operands = () if operation is None else {*operations.used_by(operation.operands)}
    found = []
    for ledger in home.residents.living():
        side = ledger.side_of(home)
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
                if over and each.map_after.any(each.start, each.stop) >> side & 1:
                    line = each.place.line
            blob = f"{ledger.description()}{part}"
            found.append(MemoryRow(home.device, window.nbytes, blob, holder, line))
    return sorted(found, key=lambda row: -row.nbytes)
