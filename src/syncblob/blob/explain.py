"""The state of a Blob in words: the result of `Blob.explain`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

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

# The aliases of a side, and the ranges of bytes, that are described one by one.
_FEW = 8


class Explanation:
    """The result of `Blob.explain`: rows of a label and a text, printed as a table.

    It is a snapshot, which does not change with the Blob. `title` has name, shape and dtype, `rows`
    has labels and texts.
    """

    __slots__ = ("rows", "title")

    def __init__(self, blob: BlobCore) -> None:
        const = ", const" if blob.readonly else ""
        memory, layout = blob.memory, blob.layout
        named = f" {memory.name!r}" if memory.name else ""
        self.title: str = (
            f"Blob{named} of shape {blob.shape}, {blob.dtype.name}, {blob.nbytes} bytes{const}"
        )
        head, *rows = _rows(blob, memory)
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
            self.rows += [(f"diff {label}", text) for label, text in _rows(blob, diff)]

    def __str__(self) -> str:
        """Return the table as text."""
        width = max(len(label) for label, _ in self.rows)
        return "\n".join([self.title, *(f"  {x:<{width}}  {text}" for x, text in self.rows)])

    __repr__ = __str__


def _rows(blob: BlobCore, memory: SyncedMemory) -> Iterator[tuple[str, str]]:
    """Describe a memory of a Blob. Neither transfers nor synchronizes."""
    yield "head", _meaning_of_head(blob, memory)
    sides = memory.all_sides
    for side in sides:
        yield side.name.lower(), _contents(memory, side)
    for side in sides:
        loans = [x for x in memory.loans.of(side) if x.exposed or x.kind is not BORROW]
        described = sorted(_describe_loan(memory, side, loan) for loan in loans)
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
    text = f"{loan.described()}{where}{'; read-only' if loan.revoked else ''}"
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
    layout = blob.layout
    head = memory.head_over(*layout.reach, blob.accelerator_side(memory))
    if head is Head.SYNCED:
        meaning = "both sides hold the newest contents"
    elif head is Head.UNINITIALIZED:
        meaning = "zeros, not read yet" if memory.blank else "only its source has them"
    elif head is Head.SPLIT:
        lacking = any(not run.holders for run in memory.spans.runs(*layout.reach))
        meaning = "each side holds a part of the newest contents"
        meaning = "a part is only in its source" if lacking else meaning
    else:
        newest = newest_side(blob, memory)
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
    alike = memory.alike(side)
    runs = memory.spans.runs(0, memory.nbytes)
    newest = union((run.start, run.stop) for run in runs if run.holders & alike)
    if newest == [(0, memory.nbytes)] or not memory.nbytes:
        state = "up to date"
    elif newest:
        ranges = ", ".join(f"{start} to {stop}" for start, stop in newest[:_FEW])
        more = f" and {len(newest) - _FEW:,} more" if len(newest) > _FEW else ""
        held = sum(stop - start for start, stop in newest)
        state = f"{held} bytes up to date ({ranges}{more})"
    else:
        state = "older contents"
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
