"""The state of a Blob, told in words: what `Blob.explain` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncblob._wording import counted
from syncblob.devices import Side
from syncblob.memory import Head, SyncedMemory

if TYPE_CHECKING:
    from syncblob.blob._base import BlobBase

__all__ = ["Explanation"]


class Explanation:
    """What `Blob.explain` returns: rows of a label and a text, printed as a table.

    It is made at once and does not change with the Blob.

    Attributes
    ----------
    title
        Shape and dtype.
    rows
        Labels and texts.
    """

    __slots__ = ("rows", "title")

    def __init__(self, blob: BlobBase) -> None:
        const = ", const" if blob._readonly else ""
        self.title: str = (
            f"Blob of shape {blob.shape}, {blob.dtype.name}, {blob.nbytes} bytes{const}"
        )
        self.rows: list[tuple[str, str]] = _rows(blob._memory)
        diff = blob._existing_diff()
        if diff is None:
            self.rows.append(("diff", "not created: nobody has used it"))
        else:
            self.rows += [(f"diff {label}", text) for label, text in _rows(diff)]

    def __str__(self) -> str:
        """Return the table as text."""
        width = max(len(label) for label, _ in self.rows)
        return "\n".join(
            [self.title, *(f"  {label:<{width}}  {text}" for label, text in self.rows)]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        import html  # only notebooks need it

        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self.rows
        )
        return f"<table><caption>{html.escape(self.title)}</caption>{rows}</table>"


def _rows(memory: SyncedMemory) -> list[tuple[str, str]]:
    rows = [
        ("head", f"{memory.head.name}: {_meaning(memory)}"),
        ("device", f"{memory.device}, where it was last written or is to be used first"),
        *((side.name.lower(), _contents(memory, side)) for side in Side),
    ]
    for side in Side:
        handed_out = memory.handed_out(side)
        rows += [("alias", lease.described(side)) for lease in list(handed_out.leases)]
        exposed = handed_out.unwatched
        if exposed is not None:
            whose = f"the {side.name.lower()} side, to somebody of unknown lifetime"
            rows.append(("exposed", f"{whose}, at {exposed.line.described()}"))
    rows += [("then", str(transition)) for transition in memory.history]
    return rows


def _meaning(memory: SyncedMemory) -> str:
    if memory.head is Head.SYNCED:
        return "both sides hold the newest contents"
    if memory.head is Head.UNINITIALIZED:
        return "zeros that nobody has read" if memory.blank else "its source has not been read"
    newest = Side.HOST if memory.head is Head.HEAD_AT_CPU else Side.ACCELERATOR
    sticky = memory.handed_out(newest).may_be_written
    why = ", and an alias may write there at any moment" if sticky else ""
    return f"the newest contents are on the {newest.name.lower()}{why}"


def _contents(memory: SyncedMemory, side: Side) -> str:
    where = ""
    if side is Side.ACCELERATOR:
        accelerator = memory.accelerator
        where = "no device yet, " if accelerator is None else f"{accelerator.device}, "
    nbytes = memory.buffer_nbytes(side)
    if nbytes is None:
        return f"{where}no memory"
    state = "up to date" if memory.head and memory.holds_newest(side) else "older contents"
    borrows = len(memory.handed_out(side).borrows)
    lent = f", {counted(borrows, 'writable borrow')}" if borrows else ""
    return f"{where}{nbytes} bytes, {state}{lent}"
