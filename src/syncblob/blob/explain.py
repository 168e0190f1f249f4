"""The state of a Blob, told in words: what `Blob.explain` returns."""

from __future__ import annotations

import itertools
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from syncblob._wording import counted
from syncblob.devices import Side
from syncblob.errors import NoDeviceError
from syncblob.memory import Head, SyncedMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from syncblob._shape import Layout
    from syncblob.blob.blob import Blob

__all__ = ["Explanation"]

# The width of a picture of a memory, in characters.
_CELLS = 40

# Blocks of a picture: all, some, or none of the bytes; and what stands for them where the terminal
# cannot show them.
_BLOCKS = "▓▒░"
_PLAIN = str.maketrans(_BLOCKS, "#+.")

_COLOURS = {"▓": "#2e7d32", "▒": "#a5d6a7", "░": "#e0e0e0"}


class Bar(str):
    """A picture of ranges: a line of blocks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the blocks as a coloured bar."""
        cells = "".join(
            f"<span style='display:inline-block;width:{len(list(run)) / 2}em;height:1em;"
            f"background:{_COLOURS[block]}'></span>"
            for block, run in itertools.groupby(self)
        )
        return f"<span style='white-space:nowrap'>{cells}</span>"


class Explanation:
    """What `Blob.explain` returns: rows of a label and a text, printed as a table.

    It is made at once and does not change with the Blob.

    Attributes
    ----------
    title
        Name, shape and dtype.
    rows
        Labels and texts.
    """

    __slots__ = ("rows", "title")

    def __init__(self, blob: Blob) -> None:
        const = ", const" if blob._readonly else ""
        named = f" {blob.name!r}" if blob.name else ""
        self.title: str = (
            f"Blob{named} of shape {blob.shape}, {blob.dtype.name}, {blob.nbytes} bytes{const}"
        )
        layout = blob._layout
        self.rows: list[tuple[str, str]] = [
            ("head", f"{blob.head.name}: {_meaning(blob._memory, layout)}"),
            ("device", f"{blob.device}, where operations run"),
        ]
        if blob._base is not None:
            self.rows.append(("view", _part(blob._memory, layout)))
        self.rows += _rows(blob._memory, layout)
        diff = blob._existing_diff()
        if diff is None:
            self.rows.append(("diff", "not created: nobody has used it"))
        else:
            head = f"{blob.diff_head.name}: {_meaning(diff, layout)}"
            rows = [("head", head), *_rows(diff, layout)]
            self.rows += [(f"diff {label}", text) for label, text in rows]

    def __str__(self) -> str:
        """Return the table as text; in plain letters where standard output has no blocks."""
        width = max(len(label) for label, _ in self.rows)
        text = "\n".join(
            [self.title, *(f"  {label:<{width}}  {text}" for label, text in self.rows)]
        )
        try:
            _BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        except UnicodeError:
            return text.translate(_PLAIN)
        return text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with coloured bars for the pictures."""
        import html  # only notebooks need it

        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>"
            f"{text._repr_html_() if isinstance(text, Bar) else html.escape(text)}</td></tr>"
            for label, text in self.rows
        )
        return f"<table><caption>{html.escape(self.title)}</caption>{rows}</table>"


def _rows(memory: SyncedMemory, layout: Layout) -> list[tuple[str, str]]:
    rows = [(side.name.lower(), _contents(memory, side)) for side in Side]
    rows += _picture(memory, layout)
    for side in Side:
        loans = memory.loans(side)
        rows += [
            ("alias", f"{lease.described(side)}{_bytes(memory, lease.start, lease.stop)}")
            for lease in list(loans.leases)
        ]
        for exposure in loans.exposures:
            whose = f"the {side.name.lower()} side, to somebody of unknown lifetime"
            where = _bytes(memory, exposure.start, exposure.stop)
            rows.append(("exposed", f"{whose}, at {exposure.place.line.described()}{where}"))
    rows += [("then", str(transition)) for transition in memory.history]
    return rows


def _picture(memory: SyncedMemory, layout: Layout) -> list[tuple[str, str]]:
    """Draw the map, and below it the ranges of aliases; nothing where there are no parts."""
    nbytes = memory.used_nbytes
    ranges = {
        side: [
            (writer.start, min(writer.stop, nbytes))
            for writer in memory.loans(side).writers(0, nbytes)
        ]
        for side in Side
    }
    view = (layout.start, layout.stop)
    parts = [view, *ranges[Side.HOST], *ranges[Side.ACCELERATOR]]
    if len(memory.spans.holders) == 1 and all(part in {(0, nbytes), (0, 0)} for part in parts):
        return []
    rows: list[tuple[str, str]] = []
    for side in Side:
        held = (
            (run.start, run.stop)
            for run in memory.spans.runs(0, nbytes)
            if run.holders & (1 << side)
        )
        rows.append((f"on the {side.name.lower()}", _bar(held, nbytes)))
    rows += [
        (f"{side.name.lower()} aliases", _bar(ranges[side], nbytes))
        for side in Side
        if ranges[side]
    ]
    if view != (0, nbytes):
        rows.append(("this view", _bar([view], nbytes)))
    return rows


def _bar(ranges: Iterable[tuple[int, int]], nbytes: int) -> Bar:
    """Draw ranges of a memory."""
    covered = [0.0] * _CELLS
    for start, stop in _merged(ranges):
        for cell in range(start * _CELLS // nbytes, -(-stop * _CELLS // nbytes)):
            low, high = cell * nbytes / _CELLS, (cell + 1) * nbytes / _CELLS
            covered[cell] += max(0.0, min(stop, high) - max(start, low)) / (high - low)
    nearly_all = 1 - 1e-9
    return Bar(
        "".join(
            _BLOCKS[0] if part >= nearly_all else _BLOCKS[1] if part else _BLOCKS[2]
            for part in covered
        )
    )


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges with those that overlap joined."""
    end = 0
    for start, stop in sorted(ranges):
        if stop > end:
            yield max(start, end), stop
            end = stop


def _part(memory: SyncedMemory, layout: Layout) -> str:
    part = f"bytes {layout.start} to {layout.stop} of {memory.used_nbytes}"
    return part if layout.gapless else f"{part}, with gaps"


def _bytes(memory: SyncedMemory, start: int, stop: int) -> str:
    """Say which bytes are meant, where it is not all of them."""
    return "" if start == 0 and stop >= memory.used_nbytes else f", bytes {start} to {stop}"


def _meaning(memory: SyncedMemory, layout: Layout) -> str:
    head = memory.head_over(*memory.range_of(layout))
    if head is Head.SYNCED:
        return "both sides hold the newest contents"
    if head is Head.UNINITIALIZED:
        return "zeros that nobody has read" if memory.blank else "its source has not been read"
    if head is Head.SPLIT:
        if any(not run.holders for run in memory.spans.runs(layout.start, layout.stop)):
            return "a part of its source has not been read"
        return "each side holds a part of the newest contents"
    newest = Side.HOST if head is Head.HEAD_AT_CPU else Side.ACCELERATOR
    sticky = memory.loans(newest).may_write_in(layout.start, layout.stop)
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
    used = memory.used_nbytes
    held = sum(run.nbytes for run in memory.spans.runs(0, used) if run.holders & (1 << side))
    if held == used and memory.head is not Head.UNINITIALIZED:
        state = "up to date"
    else:
        state = f"{held} bytes up to date" if held else "older contents"
    borrows = len(memory.loans(side).borrows)
    lent = f", {counted(borrows, 'writable borrow')}" if borrows else ""
    return f"{where}{nbytes} bytes, {state}{lent}{_speed(memory, side)}"


def _speed(memory: SyncedMemory, side: Side) -> str:
    """Say of a host buffer that the accelerator copies it slowly; empty where it does not."""
    accelerator = memory.accelerator
    if side is Side.HOST and accelerator is not None:
        # In the child of a fork nobody can tell.
        with suppress(NoDeviceError):
            if not accelerator.is_page_locked(memory.buffer(side)):
                return ", not page-locked: copies are slower"
    return ""
