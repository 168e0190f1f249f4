"""New windows, and larger ones, for accesses of parts of a large memory.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.memory.changes import Change, commit
from syncblob.memory.transitions import MUTABLE, Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob._layout import Layout
    from syncblob.devices import Side
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.uploads import Upload
    from syncblob.memory.windows import Window


class BeingWrittenError(MemoryError):
    """Another thread is writing into a window that is to be replaced. It does not take long.

    A copy that is made meanwhile would lack what it writes. `SyncedMemory.make_room` waits.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(f"another thread is writing into {ledger.buffers.described()}")
        self.ledger: Ledger = ledger


def provide(  # noqa: PLR0913, PLR0917  # an access
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, layout: Layout | None = None
) -> Any:
    """Return the window of a side that contains a range; make one if the memory has windows.

    Returns
    -------
    Window or array
        The buffer of the whole memory, if it was made instead. None if the access is to make it.
    """
    found = ledger.buffers.containing(side, start, stop)
    reaches = ledger.buffers.reaches(side, start, stop) if found is None else ()
    if not reaches or ledger.moving:
        return found
    *larger, union = reaches
    try:
        grow(ledger, side, *reaches[0], reason, layout)
    except (MemoryError, BufferError):
        if not larger:
            raise
        grow(ledger, side, *union, reason, layout)
    return ledger.buffers.containing(side, start, stop)


def grow(  # noqa: PLR0913, PLR0917  # a range, and the access that needs it
    ledger: Ledger,
    side: Side,
    start: int,
    stop: int,
    reason: str,
    layout: Layout | None = None,
) -> None:
    """Make a window of a range, which replaces those that it overlaps; of everything, a buffer."""
    commit(ledger, _plan_growth, side, MUTABLE, start, stop, reason, layout=layout)


def _plan_growth(ledger: Ledger, side: Side, _access: Access, start: int, stop: int) -> Change:
    """Plan to make a window, which replaces those that it overlaps. The map stays."""
    replaced = [(w.start, w.stop) for w in ledger.buffers.within(side, start, stop)]
    # Other threads write without the lock. The shortcuts are revoked, so that none begins to.
    if replaced and type(ledger).written_by_others(ledger):
        raise BeingWrittenError(ledger)
    for part in replaced:
        holder = ledger.loans[side].writer_in(side, *part)
        if holder:
            raise BufferError(
                f"bytes {start} to {stop} of {ledger.buffers.described()} are needed in one "
                f"buffer, and bytes {part[0]} to {part[1]} have one that cannot be moved, because "
                f"of {holder}; delete it first, or make it when the accelerator has room for the "
                "whole Blob"
            )
    before = ledger.spans
    losses = ((side, replaced),)
    return Change(
        side, before, before, start, stop, losses=losses, prepare=_enlarge, needed=stop - start
    )


def _enlarge(ledger: Ledger, change: Change, _reason: str) -> tuple[Any, Sequence[Upload]]:
    accelerator = ledger.accelerator_of(change.side)
    if accelerator is None:
        raise RuntimeError("a window needs an accelerator")
    buffers = ledger.buffers
    replaced = buffers.within(change.side, change.start, change.stop)
    enlarged = buffers.enlarged(change.side, accelerator, change.start, change.stop)
    forget_exports(ledger, change.side, replaced)
    if buffers.accelerator is None:
        buffers.add(accelerator)
    return enlarged, ()


def forget_exports(ledger: Ledger, side: Side, windows: Sequence[Window]) -> None:
    """Compare the watched exports of windows that are about to go, and watch them no longer."""
    if ledger.watch is not None:
        ledger.watch.compare()
        for window in windows:
            ledger.watch.drop(side, window.start, window.stop)
