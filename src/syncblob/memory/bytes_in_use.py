"""The number of bytes in use, which a resize changes: those that come into use become zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.devices import Side
from syncblob.memory.access_plan import Change
from syncblob.memory.await_async_copies import await_uploads
from syncblob.memory.changes import commit
from syncblob.memory.state_machine import MUTABLE, Access
from syncblob.memory.windows import part_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.memory.await_async_copies import Upload
    from syncblob.memory.ledger import Ledger


def fit(ledger: Ledger, nbytes: int) -> None:
    """Change the number of bytes in use; see `SyncedMemory.fit`."""
    used = ledger.spans.nbytes
    if ledger.moving:
        ledger.refuse_reentry()
    if nbytes > used:
        await_uploads(ledger, Side.ACCELERATOR, MUTABLE, used, nbytes)
    commit(ledger, _plan_fit, Side.ACCELERATOR, MUTABLE, used, nbytes, "")


def _plan_fit(ledger: Ledger, side: Side, _access: Access, used: int, nbytes: int) -> Change:
    """Plan to change the number of bytes in use. Those that come into use become zeros.

    Borrows and aliases of these bytes may remain from when they were last in use. The bytes of an
    alias become its side's alone. If aliases of several sides overlap, the last of these sides gets
    the bytes, and NumPy aliases of the host are revoked. A borrow is revoked unless its side alone
    holds its bytes.
    """
    before, buffers = ledger.spans, ledger.buffers
    after = before.resized(nbytes)
    losses = []
    if nbytes > used:
        # Windows end before, so that they cannot hold the new bytes. Nor can a side that was
        # evicted while no bytes were in use.
        whole = sum(1 << owner for owner, buffer in enumerate(buffers.sides) if buffer is not None)
        after = after.put(used, nbytes, after.common(used, nbytes) & whole)
        for owner, loans in enumerate(ledger.loans):
            for writer in loans.writers(used, nbytes):
                start, stop = max(writer.start, used), min(writer.stop, nbytes)
                # Not of a buffer that was evicted, nor one that may not write any more.
                if buffers.containing(owner, start, stop) is not None and not writer.revoked:
                    after = after.put(start, stop, 1 << owner)
        for loser in buffers.all_sides:
            runs = after.runs(used, nbytes)
            losses.append((loser, [run[:2] for run in runs if run.holders != 1 << loser]))
    limit = None if ledger.source is None else min(ledger.source.limit, nbytes)
    return Change(
        side, before, after, used, nbytes, losses=losses, writes=True, prepare=_zero, limit=limit
    )


def _zero(ledger: Ledger, change: Change, _reason: str) -> tuple[Any, Sequence[Upload]]:
    """Zero the bytes that come into use, on the sides that hold them."""
    buffers = ledger.buffers
    for side in buffers.all_sides:
        if ledger.watch is not None:
            # So no bytes out of use are watched.
            ledger.watch.drop(side, *sorted((change.start, change.stop)))
        for run in change.after.runs(change.start, change.stop):
            # Several, if aliases of windows reach there.
            for window in buffers.within(side, run.start, run.stop):
                if run.holders & (1 << side):
                    start, stop = max(run.start, window.start), min(run.stop, window.stop)
                    buffers.home(side).zero(part_of(window, start, stop))
    buffer = buffers.sides[change.side]
    return buffers.windows[change.side] if buffer is None else buffer, ()
