"""Accesses: what a side needs before a range of it is read or written, and what is handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices import Side
from syncblob.memory.changes import commit, plan, take
from syncblob.memory.loans import BORROW, EXPOSED, SHARED, Unannounced, announce, require_announced
from syncblob.memory.operations import searches
from syncblob.memory.room import in_room
from syncblob.memory.state_machine import CONST, MUTABLE, OVERWRITE, Access
from syncblob.memory.windows import provide
from syncblob.transfers import open_logs
from syncblob.transfers.verify import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob._layout import Layout
    from syncblob._source_lines import NotedPlace
    from syncblob.memory.buffers import Window
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.loans import Loan


def acquire(  # noqa: C901, PLR0912, PLR0913  # an access; inlined, because calls take time
    ledger: Ledger,
    side: Side,
    access: Access,
    layout: Layout,
    reason: str,
    fill: Callable[..., None] | None = None,
    *,
    locked: bool = False,
    announced: list[set[Loan]] | None = None,
) -> Any:
    """Bring the range of a layout up to date on one side, and return the side's window of it.

    Takes the lock. Without it, warns of aliases that become stale and are not `announced`, and
    makes room, unless the caller does, or holds the lock: it is `locked` then. If it raises,
    nothing has changed. An overwrite of a layout with gaps is a mutable access. `fill` writes into
    the window as part of the access; see `commit`. What an overwrite discards is kept until then.
    """
    announced = [] if announced is None else announced
    mine, writes = 1 << side, access is not CONST
    while True:
        stale = None
        try:
            with ledger.lock:
                if side:
                    ledger.last_search = searches[0]
                spans = ledger.spans
                start, stop = layout.start, layout.stop
                if stop > spans.nbytes:
                    # Another thread has resized the Blob.
                    start, stop = min(start, spans.nbytes), spans.nbytes
                whole = layout.start == start and layout.stop == stop
                if access is OVERWRITE and not (whole and layout.gapless):
                    # Such an overwrite leaves bytes of the range.
                    access = MUTABLE
                buffer = ledger.whole[side]
                if buffer is None and (side or ledger.shared):
                    buffer = provide(ledger, side, (start, stop), reason, layout)
                if ledger.moving:
                    if writes or buffer is None or not ledger.spans.common(start, stop) & mine:
                        ledger.refuse_reentry()
                    return buffer
                if ledger.loans.live or ledger.source or ledger.uploads or ledger.watch:
                    _settle_concerns(ledger, side, access, start, stop, announced)
                spans, uniform = ledger.spans, ledger.spans.uniform
                held = spans.common(start, stop) if uniform is None else uniform
                alone = ledger.is_alone(side, start, stop) if uniform is None else uniform == mine
                lacks = buffer is None or fill is not None or not held & mine
                # Or other sides hold the range, too, and lose it.
                if lacks or (writes and not alone):
                    return commit(
                        ledger, plan, side, access, start, stop, reason, announced, layout, fill
                    )
                if open_logs:
                    ledger.note_use(side, start, stop)
                return buffer
        except Unannounced as unannounced:
            (stale,) = unannounced.args
        except MemoryError as error:
            if locked:
                raise
            failed = [error]
        if stale is None:
            # Outside of the handler: the error keeps frames alive, and these keep arrays.
            call = ledger.home(side), reason, MemoryError, _acquire_again, failed
            args = ledger, side, access, layout, reason, fill
            return in_room(*call, *args, locked=True, announced=announced)
        announce(reason, stale, announced)


def _acquire_again(failed: list[MemoryError], *args: Any, **keywords: Any) -> Any:
    """Raise the error of the first try, which has made no room; then call `acquire`."""
    if failed:
        raise failed.pop()
    return acquire(*args, **keywords)


def _settle_concerns(
    ledger: Ledger, side: Side, access: Access, start: int, stop: int, announced: list[set[Loan]]
) -> None:
    """Do what an access has to do first because of what few memories have."""
    writes = access is not CONST
    if ledger.shared:
        ledger.meet(side, start, stop)
    if writes:
        require_announced(ledger.loans, announced, start, stop, ~ledger.alike(side))
        ledger.forget_source(start, stop)
    if ledger.uploads:
        ledger.finish_uploads(side, access, start, stop)
    ledger.compare_watch(side, start, stop, writes=writes)


def borrow(ledger: Ledger, side: Side, window: Window, layout: Layout) -> Any:
    """Return a borrow; see `SyncedMemory.lend`."""
    array = ledger.home(side).view(window.array, window.inner(layout), writable=True)
    # Only NumPy arrays have a write permission to revoke.
    if isinstance(array, np.ndarray):
        ledger.own_loans().lend(array, BORROW, side, layout.start, layout.stop)
    elif window is not ledger.whole[side]:
        # A larger window would leave it behind, and nothing could stop its writes.
        return alias("borrowed", None, ledger, side, window, layout)
    return array


def alias(
    kind: str, target: object | None, ledger: Ledger, side: Side, window: Window, layout: Layout
) -> Any:
    """Return a writable alias; see `SyncedMemory.export`."""
    array, owner = window.alias(ledger.home(side), layout)
    reach, lives = (layout.start, layout.stop), owner if target is None else target
    ledger.own_loans().lend(lives, kind, side, *reach)
    return array


def export_watched(
    ledger: Ledger, side: Side, layout: Layout, reason: str, kind: str, target: object | None
) -> Any:
    """Return a const export that is checked. Call it under the lock."""
    window = acquire(ledger, side, CONST, layout, reason, locked=True)
    array, owner = window.alias(ledger.home(side), layout)
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    over = ledger.loans.over(layout.start, layout.stop)
    if not layout.size or any(ledger.alike(side) >> loan.side & 1 for loan in over):
        # Borrows or aliases may write here legitimately, so a difference proves nothing. No bytes
        # overlap an eviction, which could not end their watch.
        return array
    watch = ledger.watch or Watch(ledger.lock, ledger.window_over)
    check = watch.add(owner if target is None else target, kind, side, layout.start, layout.stop)
    # Not before: a write of a signal handler ends a watch of nothing.
    ledger.watch = watch
    # The access may have renewed them.
    ledger.revoke_shortcuts()
    watch.update(check)
    return array


# --- what cannot be tracked -----------------------------------------------------------------------


def expose(
    ledger: Ledger,
    side: Side,
    noted: NotedPlace | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    shared: bool = False,
) -> None:
    """Record that an alias of unknown lifetime can write into a range of one side's buffer.

    The side becomes the only holder of what it shares there. The default range is everything, of a
    buffer that other code has made. A write on another side does not end it if other processes
    have `shared` the buffer. The place of the user's code is that which is `noted`, or this one.
    """
    with ledger.lock:
        end, loans = ledger.nbytes if stop is None else stop, None
        while loans is not ledger.loans:
            # Again, if a signal handler has let go of them meanwhile.
            loans = ledger.own_loans()
            there = [each for each in loans.of(side) if (each.start, each.stop) == (start, end)]
            # First, so that no copy that is made from now on is trusted.
            exposure = loans.lend(ledger, SHARED if shared else EXPOSED, side, start, end, noted)
        try:
            take(ledger, side, start, end)
        except BaseException:
            loans.live.discard(exposure)
            raise
        if stop is None:
            loans.foreign |= 1 << side
        loans.live.difference_update([each for each in there if each.exposed])


def assume_unaliased(ledger: Ledger, start: int, stop: int, side: Side | None = None) -> None:
    """End the exposure of a range, on one side or all: the caller promises that no alias writes."""
    with ledger.lock:
        for loan in ledger.loans.writers(start, stop):
            if loan.exposed and side in {None, loan.side}:
                ledger.loans.cut(loan, start, stop)


def refresh(ledger: Ledger, start: int, stop: int, *, still_exposed: bool) -> None:
    """Make a range of the host's buffer newest, with what others have written into it, once.

    `still_exposed` tells whether the parts of it that are exposed on the host stay exposed.
    """
    with ledger.lock:
        take(ledger, Side.HOST, start, stop)
        if not still_exposed:
            assume_unaliased(ledger, start, stop, Side.HOST)
