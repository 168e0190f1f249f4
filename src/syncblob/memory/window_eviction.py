"""Freeing windows of a side, after what only they hold has moved elsewhere.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._layout import Layout
from syncblob.devices import Accelerator, Side
from syncblob.memory.access_plan import Change
from syncblob.memory.accesses import acquire
from syncblob.memory.changes import commit
from syncblob.memory.state_machine import CONST, MUTABLE, Access
from syncblob.memory.windows import laid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.memory.await_async_copies import Upload
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.windows import Window


def evict_windows(  # noqa: PLR0913, PLR0917  # a range, and what its contents need
    ledger: Ledger, side: Side, start: int, stop: int, reason: str, held: list[Any] | None = None
) -> int:
    """Free the windows of a side that lie in a range; what only they hold moves elsewhere.

    That is the host, or the first accelerator for what is on the host. What the source still has
    does not move. `blob.automatic_eviction` decides what is evicted, and when. `held` receives an
    array over each range that has moved, so that room for the next is not made by an eviction of
    that one.

    Returns
    -------
    int
        The number of bytes freed.

    Raises
    ------
    BufferError
        If aliases need a window.
    """
    if ledger.moving:
        ledger.refuse_reentry()
    windows = ledger.buffers.all_of(side).inside(start, stop)
    for window in windows:
        low, high = window.start, window.stop
        if holder := ledger.loans[side].holder_in(side, low, high):
            raise BufferError(
                f"bytes {low} to {high} of {ledger.buffers.described()} cannot leave "
                f"{ledger.buffers.home(side).device}, because of {holder}; delete the alias, "
                "or use a copy, as of blob.copy(), which can leave"
            )
    _rescue(ledger, side, windows, reason, held)
    # Afterwards, because a source that has been read completely is closed.
    if windows and ledger.source is not None and not ledger.source.reopen():
        ledger.forget_source(0, ledger.buffers.nbytes)
        _rescue(ledger, side, windows, reason, held)
    if windows:
        # A host access that may write waits for uploads.
        commit(ledger, _plan_eviction, Side.HOST, MUTABLE, start, stop, reason, side)
    return sum(window.nbytes for window in windows)


def _rescue(
    ledger: Ledger, side: Side, windows: Sequence[Window], reason: str, held: list[Any] | None
) -> None:
    """Copy what only a side has in windows to another one."""
    refuge = Side.HOST if side else Side.ACCELERATOR
    for window in windows:
        for run in ledger.only_on(side, window.start, window.stop):
            part = Layout.raw(run.nbytes, run.start)
            there = acquire(ledger, refuge, CONST, part, reason, locked=True)
            if held is not None:
                home, part = ledger.buffers.home(refuge), Layout.raw(run.nbytes, run.start)
                held.append(laid(home, there, part, writable=False, own=True))


def _plan_eviction(  # a range
    ledger: Ledger, _host: Side, _access: Access, start: int, stop: int, side: Side
) -> Change:
    before, mine = ledger.spans, 1 << side
    after = before
    for window in ledger.buffers.all_of(side).inside(start, stop):
        low, high = window.start, window.stop
        runs = [run._replace(holders=run.holders & ~mine) for run in before.runs(low, high)]
        if ledger.only_on(side, low, high):
            raise RuntimeError(
                "this memory was written, or lent to be written, while it was evicted; try again"
            )
        after = after.replaced(runs)
    # Borrows there lost their write permission when the bytes were copied elsewhere.
    return Change(side, before, after, start, stop, prepare=_drop, between=after)


def _drop(ledger: Ledger, change: Change, _reason: str) -> tuple[Any, Sequence[Upload]]:
    side, buffers = change.side, ledger.buffers
    gone = buffers.all_of(side).inside(change.start, change.stop)
    home = buffers.home(side)
    if isinstance(home, Accelerator):
        for window in gone:
            # Its memory may be given to someone else at once.
            home.settle(window.array)
    for window in gone:
        ledger.compare_watch(side, window.start, window.stop, writes=True)
    windows = buffers.windows[side]
    return windows.exchange(gone) if windows else windows, ()
