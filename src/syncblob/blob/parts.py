"""Evictions by hand, and walks over a Blob part by part, with two on the device at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any

from syncblob._shape import canonical_axis
from syncblob._source_lines import user_instruction
from syncblob.devices import HOST, Side
from syncblob.memory import CONST, attempt

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore


def evict(blob: BlobCore, side: str) -> int:
    """Free the buffers of a side; see `Blob.evict`."""
    if side not in {"cpu", "gpu"}:
        raise ValueError(f'expected "cpu" or "gpu", got {side!r}')
    memory = blob.memory
    # A Blob that is no view evicts all of its memory, also what is beyond its shape.
    start, stop = (0, memory.nbytes) if blob.base is None else blob.layout.reach
    gone = Side.HOST if side == "cpu" else blob.accelerator_side(memory)
    freed = free(blob, gone, (start, stop))
    with memory.lock:
        kept = memory.within(gone, start, stop)
        for window in kept if start < stop else ():
            reach = f"evict, which keeps a buffer of bytes {window.start} to {window.stop}"
            memory.note(reach, start, stop, user_instruction(), memory.spans)
    return freed


def free(blob: BlobCore, side: Side, reach: tuple[int, int] | None = None) -> int:
    """Free the buffers of a side in a range, by default that of the Blob; see `SyncedMemory`."""
    memory = blob.memory
    if not memory.windows(side):
        return 0
    # Drop the arrays that the Blob keeps, which would count as in use.
    blob.use_memory(memory)
    return memory.evict(side, *(reach or blob.layout.reach))


# The size of a part, if the device has room for four of them.
_NBYTES = 1 << 26


def walk(blob: Any, axis: int, nbytes: int | None) -> Iterator[Any]:
    """Walk a Blob in views; see `Blob.parts`."""
    axis = canonical_axis(axis, blob.shape)
    if nbytes is None:
        nbytes = _NBYTES
        while nbytes > 1 and not blob.home.can_hold(4 * nbytes):
            nbytes //= 2
    if index(nbytes) < 1:
        raise ValueError(f"expected parts of at least 1 byte, got {nbytes}")
    length = blob.shape[axis]
    before = (slice(None),) * axis
    step = max(1, nbytes * length // max(blob.nbytes, 1))
    views = [blob[(*before, slice(at, at + step))] for at in range(0, length, step)]
    ranges = sorted((view.layout.start, view.layout.stop) for view in views)
    if any(stop > start for (_, stop), (start, _) in itertools.pairwise(ranges)):
        raise ValueError(
            f"the parts along axis {axis} of a Blob of shape {blob.shape} lie between each other "
            "in memory, so that none can be moved alone; walk along the axis of the largest stride"
        )
    return _walk_views(blob, views)


def _walk_views(blob: BlobCore, views: Sequence[Any]) -> Iterator[Any]:
    if blob.home is HOST:
        yield from views
        return
    memory = blob.memory
    for view, following in itertools.zip_longest(views, views[1:]):
        of = view.layout.reach
        try:
            if following is not None:
                view.prefetch()
                # Keep an array over this part, so that it is not evicted for the next one.
                held = memory.window_over(blob.side, *of)
                # No single window contains a part that came to the device in pieces.
                seen = (
                    view.array_in(blob.home, CONST, "parts")
                    if held is None
                    else held.own_view(blob.home, view.layout)
                )
                # Without room for two parts, the following one is transferred when it is used. Do
                # not wait for room: other threads may wait for this part.
                with suppress(MemoryError):
                    attempt(following.prefetch)
                del held, seen
            yield view
        except BaseException:
            # The walk was given up. A part that cannot be evicted now stays until room is needed.
            # Nobody could catch an error here.
            for each in (view, following):
                if each is not None:
                    with suppress(Exception):
                        free(each, each.side)
            raise
        # A part that is in use stays until room is needed.
        with suppress(BufferError):
            free(view, view.side)
