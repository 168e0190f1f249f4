"""The state of a Blob in words: the result of `Blob.explain`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from syncblob._formatting import quantity, union
from syncblob.blob.notebook_drawing import FEW, LentRange, MemoryState, SideState, document
from syncblob.devices import Side
from syncblob.errors import NoDeviceError
from syncblob.memory import Head, SyncedMemory
from syncblob.memory.loans import BORROW

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.blob.core import BlobCore
    from syncblob.memory.ledger import Transition
    from syncblob.memory.loans import Loan

# What other code may write, in the order in which it is listed.
_LABELS = ("stale alias", "exposed", "alias")

# The width of a picture of a memory, in characters.
_CELLS = 40

# The blocks of a picture for all, some or none of the bytes, and their ASCII replacements.
_BLOCKS = "▓▒░"
_PLAIN = str.maketrans(_BLOCKS, "#+.")


class Explanation:
    """The result of `Blob.explain`: rows of a label and a text, printed as a table.

    A notebook draws the two sides instead. It is a snapshot, which does not change with the Blob.
    `title` has name, shape and dtype, `rows` has labels and texts.
    """

    __slots__ = ("_memories", "rows", "title")

    def __init__(self, blob: BlobCore) -> None:
        const = ", const" if blob.readonly else ""
        name = blob.memory.name
        named = f" {name!r}" if name else ""
        self.title: str = (
            f"Blob{named} of shape {blob.shape}, {blob.dtype.name}, {blob.nbytes} bytes{const}"
        )
        data = _state_of(blob, blob.memory)
        self._memories = [("head", data)]
        device = f"{blob.device}, where operations run"
        self.rows: list[tuple[str, str]] = [("head", data.head), ("device", device)]
        if blob.base is not None:
            self.rows.append(("view", data.part))
        self.rows += _rows(data)
        diff = blob.existing_diff()
        if diff is None:
            self.rows.append(("diff", "not created"))
        else:
            state = _state_of(blob, diff)
            self._memories.append(("diff head", state))
            self.rows += [
                (f"diff {label}", text) for label, text in (("head", state.head), *_rows(state))
            ]

    def __str__(self) -> str:
        """Return the table as text, in ASCII if standard output cannot encode block characters."""
        text = f"{self.title}\n{self._table()}"
        try:
            _BLOCKS.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        except UnicodeError:
            return text.translate(_PLAIN)
        return text

    __repr__ = __str__

    def _table(self) -> str:
        width = max(len(label) for label, _ in self.rows)
        return "\n".join(f"  {label:<{width}}  {text}" for label, text in self.rows)

    def _repr_html_(self) -> str:
        """Return a drawing of the two sides for a notebook."""
        return self.draw(None)

    def draw(self, values: str | None) -> str:
        """Return the drawing, with the values of the Blob as text."""
        return document(self.title, values, self._memories, self._table())


def _state_of(blob: BlobCore, memory: SyncedMemory) -> MemoryState:
    """Describe a memory of a Blob. Neither transfers nor synchronizes."""
    nbytes, layout = memory.nbytes, blob.layout
    side = blob.accelerator_side(memory)
    head = f"{memory.head_over(*layout.reach, side).name}: {_meaning_of_head(memory, layout, side)}"
    runs = list(memory.spans.runs(0, nbytes))
    homes = []
    for side in memory.all_sides:
        mine = memory.alike(side)
        loans = [x for x in memory.loans.of(side) if x.exposed or x.kind is not BORROW]
        lent = [_describe_loan(memory, side, loan) for loan in loans]
        lent.sort(key=lambda x: (_LABELS.index(x.label), x.start, x.stop))
        newest = union((run.start, run.stop) for run in runs if run.holders & mine)
        ended, allocated = [*_ended_borrows(memory, side)], memory.buffer(side) is not None
        contents = _contents(memory, side)
        homes.append(SideState(side, contents, allocated, newest, lent, ended))
    history = [str(transition) for transition in memory.history]
    view = layout.start, layout.stop
    gaps = "" if layout.gapless else ", with gaps"
    part = f"bytes {layout.start} to {layout.stop} of {nbytes}{gaps}"
    return MemoryState(head, nbytes, view, part, homes, history)


def _describe_loan(memory: SyncedMemory, side: Side, loan: Loan) -> LentRange:
    """Describe an exposed range, or an alias, and since when it is stale."""
    start, stop = loan.start, loan.stop
    where = _bytes(memory, start, stop)
    if loan.exposed:
        whose = f"the {side.name.lower()} side, to an alias of unknown lifetime"
        text = f"{whose}, at {loan.place.line.describe()}{where}"
        return LentRange("exposed", text, start, stop)
    alike = memory.alike(side)
    lacking = sum(run.nbytes for run in memory.spans.lacking(start, stop, alike))
    text = f"{loan.described()}{where}{'; read-only' if loan.revoked else ''}"
    if lacking:
        noted = getattr(loan, "ended", None)
        since = "" if noted is None else f" since {_access_of(noted)}"
        text += f"; {'partly ' if lacking < stop - start else ''}stale{since}"
    return LentRange("stale alias" if lacking else "alias", text, start, stop)


def _access_of(entry: Transition) -> str:
    return f"{entry.reason} at {entry.place.line.describe()}"


def _ended_borrows(memory: SyncedMemory, side: Side) -> Iterator[str]:
    """Describe the last borrows that ended, are still alive, and cannot be written any more."""
    for loan in memory.loans.ended:
        if loan.side is side and loan() is not None:
            where = _bytes(memory, loan.start, loan.stop)
            since = _access_of(loan.ended)
            yield f"an array of the {side.name.lower()} side{where}; read-only since {since}"


def _rows(memory: MemoryState) -> list[tuple[str, str]]:
    rows = [(home.side.name.lower(), home.contents) for home in memory.homes]
    rows += _picture(memory)
    rows += [(loan.label, loan.text) for home in memory.homes for loan in home.loans[:FEW]]
    rows += [
        ("aliases", f"{len(home.loans) - FEW:,} more of the {home.side.name.lower()} side")
        for home in memory.homes
        if len(home.loans) > FEW
    ]
    rows += [("ended borrow", ended) for home in memory.homes for ended in home.ended]
    rows += [("then", transition) for transition in memory.history]
    return rows


def _picture(memory: MemoryState) -> list[tuple[str, str]]:
    """Draw the map and the ranges of aliases; nothing if all of them cover the whole memory."""
    nbytes = memory.nbytes
    loans = {
        home.side.name.lower(): [(loan.start, loan.stop) for loan in home.loans]
        for home in memory.homes
    }
    parts = [memory.view, *(part for home in memory.homes for part in home.newest)]
    parts += [part for ranges in loans.values() for part in ranges]
    if all(part in {(0, nbytes), (0, 0)} for part in parts):
        return []
    rows = [
        (f"on the {home.side.name.lower()}", _bar(home.newest, nbytes)) for home in memory.homes
    ]
    rows += [(f"{side} aliases", _bar(ranges, nbytes)) for side, ranges in loans.items() if ranges]
    if memory.view != (0, nbytes):
        rows.append(("this view", _bar([memory.view], nbytes)))
    return rows


def _bar(ranges: Iterable[tuple[int, int]], nbytes: int) -> str:
    """Draw ranges of a memory as a line of blocks, each for an equal share of the bytes."""
    shares = [0.0] * _CELLS
    for start, stop in union(ranges):
        for cell in range(start * _CELLS // nbytes, -(-stop * _CELLS // nbytes)):
            low, high = cell * nbytes / _CELLS, (cell + 1) * nbytes / _CELLS
            shares[cell] += max(0.0, min(stop, high) - max(start, low)) / (high - low)
    nearly_all = 1 - 1e-9
    return "".join(
        _BLOCKS[0] if part >= nearly_all else _BLOCKS[1] if part else _BLOCKS[2] for part in shares
    )


def _bytes(memory: SyncedMemory, start: int, stop: int) -> str:
    """Return a range of bytes as text; empty if it is all of them."""
    return "" if (start, stop) == (0, memory.nbytes) else f", bytes {start} to {stop}"


def _meaning_of_head(memory: SyncedMemory, layout: Layout, side: Side) -> str:
    head = memory.head_over(*layout.reach, side)
    if head is Head.SYNCED:
        return "both sides hold the newest contents"
    if head is Head.UNINITIALIZED:
        return "zeros, not read yet" if memory.blank else "only its source has them"
    if head is Head.SPLIT:
        if any(not run.holders for run in memory.spans.runs(layout.start, layout.stop)):
            return "a part is only in its source"
        return "each side holds a part of the newest contents"
    newest = Side.HOST if head is Head.HEAD_AT_CPU else side
    if head is Head.ELSEWHERE:
        holders = memory.spans.common(*layout.reach)
        newest = next(other for other in memory.all_sides if holders >> other & 1)
    sticky = memory.loans.writers(layout.start, layout.stop, 1 << newest)
    why = ", and an alias may write there at any moment" if sticky else ""
    return f"the newest contents are on the {newest.name.lower()}{why}"


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
    runs = memory.spans.runs(0, memory.nbytes)
    alike = memory.alike(side)
    held = sum(run.nbytes for run in runs if run.holders & alike)
    if held == memory.nbytes and memory.head is not Head.UNINITIALIZED:
        state = "up to date"
    else:
        state = f"{held} bytes up to date" if held else "older contents"
    borrows = len([x for x in memory.loans.of(side) if x.kind is BORROW])
    writable = f", {quantity(borrows, 'writable borrow')}" if borrows else ""
    same = "the same " if side and alike & 1 else ""
    return f"{where}{same}{nbytes} bytes, {state}{writable}{_note_on_speed(memory, side)}"


def _note_on_speed(memory: SyncedMemory, side: Side) -> str:
    accelerator = memory.accelerator
    if side is Side.HOST and accelerator is not None:
        # A forked child cannot ask CUDA.
        with suppress(NoDeviceError):
            if not accelerator.is_page_locked(memory.buffer(side)):
                return ", not page-locked: copies are slower"
    return ""
