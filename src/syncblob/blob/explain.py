"""The state of a Blob in words and bars, and drawn for notebooks: the result of `Blob.explain`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import quantity, union
from syncblob.blob.core import BlobCore, newest_side
from syncblob.devices import Side
from syncblob.errors import NoDeviceError
from syncblob.memory import Head, SyncedMemory
from syncblob.memory.loans import BORROW

if TYPE_CHECKING:
    from syncblob.memory.ledger import Transition
    from syncblob.memory.loans import Loan

# What other code may write, in the order in which it is listed.
_LABELS = ("stale alias", "exposed", "alias")

# The aliases of a side that are described one by one.
_FEW = 8

# The width of a bar of text, and its characters for all, some or none of the bytes.
_CELLS = 40
_BLOCKS, _PLAIN = "▓▒░", "#+."

# From Okabe and Ito's palette, as in the timeline, where a transfer has its target's colour.
_COLOURS = ("#D55E00", "#0072B2", "#009E73")


class Bar(NamedTuple):
    """Ranges of a memory, which are filled in a bar from its first byte to its last."""

    label: str
    ranges: list[tuple[int, int]]
    nbytes: int
    colour: str = "currentColor"

    def __str__(self) -> str:
        """Return a line of blocks, each for an equal share of the bytes."""
        text = ""
        for cell in range(_CELLS):
            low, high = cell * self.nbytes, (cell + 1) * self.nbytes
            parts = [(max(x * _CELLS, low), min(y * _CELLS, high)) for x, y in self.ranges]
            filled = sum(stop - start for start, stop in parts if start < stop)
            text += _BLOCKS[0 if filled == self.nbytes else 1 if filled else 2]
        return text

    def drawing(self) -> str:
        """Return HTML without scripts, styles or ids, so that a page can contain many."""
        filled = "".join(
            f"<rect x='{100 * start / self.nbytes:.6g}%' height='12' "
            f"width='{100 * (stop - start) / self.nbytes:.6g}%'>"
            f"<title>bytes {start} to {stop}</title></rect>"
            for start, stop in self.ranges
        )
        return (
            f"<div>{self.label}</div><svg role='img' aria-label='{self.label}' width='100%' "
            "height='12' style='display:block;overflow:visible;margin:3px 0'>"
            "<rect width='100%' height='12' fill='currentColor' fill-opacity='.1'/>"
            # A stroke of the same colour keeps even one byte of a gigabyte visible.
            f"<g fill='{self.colour}' stroke='{self.colour}'>{filled}</g></svg>"
        )


class Explanation:
    """The result of `Blob.explain`: rows of a label and a text, printed as a table.

    `draw` draws it for a notebook. It is a snapshot, which does not change with the Blob. `title`
    has name, shape and dtype, `rows` has labels and texts.
    """

    __slots__ = ("_bars", "rows", "title")

    def __init__(self, blob: BlobCore) -> None:
        const = ", const" if blob.readonly else ""
        memory, layout = blob.memory, blob.layout
        named = f" {memory.name!r}" if memory.name else ""
        self.title: str = (
            f"Blob{named} of shape {blob.shape}, {blob.dtype.name}, {blob.nbytes} bytes{const}"
        )
        self._bars: list[Bar] = _bars(blob, memory)
        head, *rows = _rows(blob, memory, self._bars)
        self.rows: list[tuple[str, str]] = [
            head,
            ("device", f"{blob.device}, where operations run"),
        ]
        if blob.base is not None:
            gaps = "" if layout.gapless else ", with gaps"
            part = f"bytes {layout.start} to {layout.stop} of {memory.nbytes}{gaps}"
            self.rows.append(("view", part))
        self.rows += rows
        diff = blob.existing_diff()
        if diff is None:
            self.rows.append(("diff", "not created"))
        else:
            bars = _bars(blob, diff)
            self.rows += [(f"diff {label}", text) for label, text in _rows(blob, diff, bars)]
            self._bars += [bar._replace(label=f"diff {bar.label}") for bar in bars]

    def __str__(self) -> str:
        """Return the table as text, in ASCII if standard output cannot encode block characters."""
        text = f"{self.title}\n{self._table()}"
        try:
            _BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        except UnicodeError:
            return text.translate(str.maketrans(_BLOCKS, _PLAIN))
        return text

    __repr__ = __str__

    def _table(self) -> str:
        width = max(len(label) for label, _ in self.rows)
        return "\n".join(f"  {label:<{width}}  {text}" for label, text in self.rows)

    def draw(self, values: str) -> str:
        """Return HTML with the values of the Blob, its sides, and the table."""
        from html import escape  # slow to import, and only notebooks need it

        return (
            f"<div style='max-width:52em'><strong>{escape(self.title)}</strong>"
            f"<pre>{escape(values)}</pre>{''.join(bar.drawing() for bar in self._bars)}"
            f"<details><summary>in words</summary><pre>{escape(self._table())}</pre></details>"
            "<small>filled: newest contents, aliases, or this view</small></div>"
        )


def _bars(blob: BlobCore, memory: SyncedMemory) -> list[Bar]:
    """Draw the newest contents and the aliases of each side, and the range of a view."""
    nbytes, view = memory.nbytes, (blob.layout.start, blob.layout.stop)
    if not nbytes:
        return []
    bars = []
    for side in memory.all_sides:
        name = side.name.lower()
        bars.append(Bar(f"on the {name}", _newest(memory, side), nbytes, _COLOURS[min(side, 2)]))
        lent = [(loan.start, min(loan.stop, nbytes)) for loan in _lent(memory, side)]
        if ranges := union(x for x in lent if x[0] < x[1]):
            bars.append(Bar(f"{name} aliases", ranges, nbytes))
    if view != (0, nbytes):
        bars.append(Bar("this view", [view], nbytes))
    return bars


def _newest(memory: SyncedMemory, side: Side) -> list[tuple[int, int]]:
    alike = memory.alike(side)
    runs = memory.spans.runs(0, memory.nbytes)
    return union((run.start, run.stop) for run in runs if run.holders & alike)


def _lent(memory: SyncedMemory, side: Side) -> list[Loan]:
    """Return what other code may use."""
    return [x for x in memory.loans.of(side) if x.exposed or x.kind is not BORROW]


def _rows(blob: BlobCore, memory: SyncedMemory, bars: list[Bar]) -> Iterator[tuple[str, str]]:
    """Describe a memory of a Blob. Neither transfers nor synchronizes."""
    yield "head", _meaning_of_head(blob, memory)
    sides = memory.all_sides
    for side in sides:
        yield side.name.lower(), _contents(memory, side)
    # They say nothing if all of them cover the whole memory.
    if any(bar.ranges not in ([], [(0, memory.nbytes)]) for bar in bars):
        yield from ((bar.label, str(bar)) for bar in bars)
    for side in sides:
        described = sorted(_describe_loan(memory, side, loan) for loan in _lent(memory, side))
        for rank, _, _, text in described[:_FEW]:
            yield _LABELS[rank], text
        if len(described) > _FEW:
            yield "aliases", f"{len(described) - _FEW:,} more of the {side.name.lower()} side"
    for side in sides:
        for ended in _ended_borrows(memory, side):
            yield "ended borrow", ended
    for transition in memory.history:
        yield "then", str(transition)


def _describe_loan(memory: SyncedMemory, side: Side, loan: Loan) -> tuple[int, int, int, str]:
    """Describe an exposed range, or an alias, and since when it is stale; its rank comes first."""
    start, stop = loan.start, loan.stop
    where = _bytes(memory, start, stop)
    if loan.exposed:
        whose = f"the {side.name.lower()} side, to an alias of unknown lifetime"
        text = f"{whose}, at {loan.place.line.describe()}{where}"
        return _LABELS.index("exposed"), start, stop, text
    alike = memory.alike(side)
    lacking = sum(run.nbytes for run in memory.spans.lacking(start, stop, alike))
    text = f"{loan.description()}{where}{'; read-only' if loan.revoked else ''}"
    if lacking:
        noted = getattr(loan, "ended", None)
        since = "" if noted is None else f" since {_access_of(noted)}"
        text += f"; {'partly ' if lacking < stop - start else ''}stale{since}"
    return _LABELS.index("stale alias" if lacking else "alias"), start, stop, text


def _access_of(entry: Transition) -> str:
    return f"{entry.reason} at {entry.place.line.describe()}"


def _ended_borrows(memory: SyncedMemory, side: Side) -> Iterator[str]:
    """Describe the last borrows that ended, are still alive, and cannot be written any more."""
    for loan in memory.loans.ended:
        if loan.side is side and loan() is not None:
            where = _bytes(memory, loan.start, loan.stop)
            since = _access_of(loan.ended)
            yield f"an array of the {side.name.lower()} side{where}; read-only since {since}"


def _bytes(memory: SyncedMemory, start: int, stop: int) -> str:
    """Return a range of bytes as text; empty if it is all of them."""
    return "" if (start, stop) == (0, memory.nbytes) else f", bytes {start} to {stop}"


def _meaning_of_head(blob: BlobCore, memory: SyncedMemory) -> str:
    # The same map for all of it: another thread may change what the memory has.
    layout, spans = blob.layout, memory.spans
    head = spans.head(*layout.reach, blob.accelerator_side(memory))
    if head is Head.SYNCED:
        meaning = "both sides hold the newest contents"
    elif head is Head.UNINITIALIZED:
        meaning = "zeros, not read yet" if memory.blank else "only its source has them"
    elif head is Head.SPLIT:
        lacking = any(not run.holders for run in spans.runs(*layout.reach))
        meaning = "each side holds a part of the newest contents"
        meaning = "a part is only in its source" if lacking else meaning
    else:
        newest: Any = newest_side(blob, memory, spans)
        sticky = memory.loans.writers(*layout.reach, 1 << newest)
        why = ", and an alias may write there at any moment" if sticky else ""
        meaning = f"the newest contents are on the {newest.name.lower()}{why}"
    return f"{head.name}: {meaning}"


def _contents(memory: SyncedMemory, side: Side) -> str:
    where = ""
    if side is Side.ACCELERATOR and memory.accelerator is None:
        where = "no device yet, "
    elif side:
        where = f"{memory.home(side).device}, "
    windows = memory.windows(side)
    if not windows:
        return f"{where}no memory"
    nbytes = sum(window.nbytes for window in windows)
    held = sum(stop - start for start, stop in _newest(memory, side))
    if held == memory.nbytes:
        state = "up to date"
    else:
        state = f"{held} bytes up to date" if held else "older contents"
    borrows = len([x for x in memory.loans.of(side) if x.kind is BORROW])
    writable = f", {quantity(borrows, 'writable borrow')}" if borrows else ""
    same = "the same " if side and memory.alike(side) & 1 else ""
    return f"{where}{same}{nbytes} bytes, {state}{writable}{_note_on_speed(memory, side)}"


def _note_on_speed(memory: SyncedMemory, side: Side) -> str:
    accelerator = memory.accelerator
    if side is Side.HOST and accelerator is not None:
        # A forked child cannot ask CUDA.
        with suppress(NoDeviceError):
            if not accelerator.is_page_locked(memory.buffer(side)):
                return ", not page-locked: copies are slower"
    return ""
