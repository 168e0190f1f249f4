"""Evictions by hand: the buffers that a Blob, or a walk over its parts, gives up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob.automatic_eviction import close_side
from syncblob.blob.living_blobs import in_use, let_go, living_blobs
from syncblob.devices import Accelerator, Side
from syncblob.memory import Ledger, evict_windows
from syncblob.memory.windows import array_of

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore


def evict(blob: BlobCore, side: str) -> int:
    """Free the buffers of a side; see `Blob.evict`."""
    if side not in {"cpu", "gpu"}:
        raise ValueError(f'expected "cpu" or "gpu", got {side!r}')
    memory, ledger = blob.memory, blob.memory.ledger
    # A Blob that is smaller than its memory stands for all of it, unless it is a view.
    start, stop = (0, memory.nbytes) if blob._base is None else memory.ledger.range_of(blob.layout)
    gone = Side.HOST if side == "cpu" else blob._accelerator_side(memory)
    freed = give_up(blob, gone, start, stop)
    with memory.ledger.lock:
        kept = ledger.buffers.within(gone, start, stop)
        for window in kept if start < stop else ():
            reach = f"evict, which keeps a buffer of bytes {window.start} to {window.stop}"
            ledger.note(reach, start, stop)
    return freed


def give_up(blob: BlobCore, side: Side, start: int, stop: int, *, needed: bool = True) -> int:
    """Free the buffers of a side that lie in a range of a Blob's memory; return their bytes.

    If another thread is using the memory, this raises a BufferError if it is `needed`, or else
    leaves them there.
    """
    memory = blob.memory
    if not memory.windows(side) or (memory.ledger.loans[side].foreign and not needed):
        return 0
    # Its own arrays are known. Those of other Blobs have to be searched for.
    blob._use(memory)
    home = memory.home(side)

    def free(  # noqa: PLR0913, PLR0917  # as `evict_windows`
        ledger: Ledger, side: Side, start: int, stop: int, reason: str, held: list[Any]
    ) -> int:
        close_side(ledger, side)
        busy = in_use(beyond=True)
        if ledger in busy:
            if not needed:
                return 0
            raise BufferError(
                f"another thread, or an operation that this one interrupts, is using {memory!r}"
            )
        gone = ledger.buffers.all_of(side).inside(start, stop)
        freed = evict_windows(ledger, side, start, stop, reason, held)
        if any(not isinstance(home, Accelerator) or home.is_seen(w.array) for w in gone):
            arrays = [window.array for window in gone]
            let_go(
                living_blobs(), lambda kept: any(array_of(kept) is each for each in arrays), busy
            )
        return freed

    return memory.evict(side, start, stop, free)
