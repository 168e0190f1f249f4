"""A table of what lies on accelerators, to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob._formatting import human_bytes
from syncblob.devices import accelerator, accelerators_in_use
from syncblob.memory.operations import settle
from syncblob.memory.rows import MemoryRow, rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncblob.devices import Accelerator, Device


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
