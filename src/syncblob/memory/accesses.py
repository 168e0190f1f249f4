"""Accesses: what a side needs before a range of it is read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.memory.access_plan import PAIR, plan
from syncblob.memory.changes import commit, finish_write, take
from syncblob.memory.history import note_use
from syncblob.memory.room import shortage_of
from syncblob.memory.stale_alias_warning import Unannounced, announce, require_announced
from syncblob.memory.state_machine import CONST, MUTABLE, OVERWRITE, Access
from syncblob.memory.windows import provide
from syncblob.transfers import open_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob._layout import Layout
    from syncblob.devices import Side
    from syncblob.memory.borrows_and_aliases import Lease
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.spans import Spans
    from syncblob.memory.stale_alias_warning import Stale


def acquire(  # noqa: C901, PLR0912, PLR0913, PLR0917  # an access; inlined, because calls take time
    ledger: Ledger,
    side: Side,
    access: Access,
    layout: Layout,
    reason: str,
    fill: Callable[..., None] | None = None,
    *,
    locked: bool = False,
    announced: list[set[Lease]] | None = None,
) -> Any:
    """Bring the range of a layout up to date on one side, and return the side's buffer.

    Takes the lock. Makes room, and warns of aliases that become stale, without the lock.

    Parameters
    ----------
    ledger
        The ledger.
    side, access, layout, reason
        The access. An overwrite of a layout with gaps is a mutable access.
    fill
        Writes into the buffer, its first argument, as part of the access. What an overwrite
        discards is kept until then: if there is a second argument, a list, it appends to it when it
        has written.
    locked
        Whether the access makes no room, because the caller does, or holds the lock.
    announced
        The aliases that warnings have named.

    Returns
    -------
    window
        The window of the side that contains the range.

    Raises
    ------
    MemoryError
        If there is no memory for a buffer, and no room can be made. Nothing has changed.
    RuntimeError
        If the memory is in the middle of a transfer, and this interrupts it on the same thread.
    StaleAliasWarning
        If the user's filters turn it into an error. Nothing has changed.
    """
    announced = [] if announced is None else announced
    mine, writes = 1 << side, access is not CONST
    while True:
        stale: Stale | None = None
        shortage = None
        try:
            with ledger.lock:
                buffers, spans, loans = ledger.buffers, ledger.spans, ledger.loans
                start, stop = layout.start, layout.stop
                if stop > spans.nbytes:
                    # Another thread has resized the Blob.
                    start, stop = min(start, spans.nbytes), spans.nbytes
                if access is OVERWRITE and not (
                    (layout.contiguous or layout.gapless)
                    and layout.stop - layout.start == stop - start
                ):
                    # Such an overwrite leaves bytes of the range.
                    access = MUTABLE
                buffer = buffers.windows[side].whole
                if buffer is None and side:
                    buffer = provide(ledger, side, start, stop, reason, layout)
                if ledger.moving:
                    if writes or buffer is None or not ledger.spans.common(start, stop) & mine:
                        ledger.refuse_reentry()
                    return buffer
                if writes:
                    if len(loans) != PAIR or loans[1 - side].leases:
                        require_announced(loans, announced, start, stop, side)
                    if ledger.source is not None:
                        ledger.forget_source(start, stop)
                if ledger.uploads:
                    ledger.await_uploads(side, access, start, stop)
                if ledger.watch is not None:
                    ledger.compare_watch(side, start, stop, writes=writes)
                spans = ledger.spans
                uniform = spans.uniform
                held = spans.common(start, stop) if uniform is None else uniform
                if buffer is None or not held & mine:
                    return commit(
                        ledger, plan, side, access, start, stop, reason, announced, layout, fill
                    )
                if (
                    writes
                    and uniform != mine
                    and (start < stop or not stop)
                    and (uniform is not None or spans.any(start, stop) != mine)
                ):
                    # Other sides hold the range, too, and lose it.
                    commit(ledger, plan, side, access, start, stop, reason, announced)
                elif open_logs:
                    note_use(ledger, side, start, stop)
                if fill is None or _fill(
                    ledger, side, start, stop, reason, buffer, fill, ledger.spans
                ):
                    return buffer
        except Unannounced as unannounced:
            stale = unannounced.stale
        except MemoryError as error:
            if not locked:
                shortage = shortage_of(error, ledger.buffers.home(side), reason)
            if shortage is None:
                raise
        if shortage is not None:
            # Outside of the handler: the error keeps frames alive, and these keep arrays.
            args = ledger, side, access, layout, reason, fill
            return shortage.repeat(acquire, args, {"locked": True, "announced": announced})
        if stale is not None:
            announce(reason, stale, announced)


def _fill(  # noqa: PLR0913, PLR0917  # an access
    ledger: Ledger,
    side: Side,
    start: int,
    stop: int,
    reason: str,
    buffer: Any,
    fill: Callable[..., None],
    spans: Spans,
) -> bool:
    """Write into a buffer that is up to date; return False if others have written there since.

    `spans` is the map as the access left it: a signal handler may run when this function begins.
    """
    try:
        fill(buffer)
    except BaseException:
        # `fill` may have written in part, after a read on another side.
        take(ledger, side, start, stop, reason)
        raise
    if ledger.spans is spans:
        return True
    if start >= stop or ledger.spans.common(start, stop) & 1 << side:
        # A signal handler or a finaliser may have read on another side meanwhile.
        finish_write(ledger, side, start, stop, reason)
        return True
    return False
