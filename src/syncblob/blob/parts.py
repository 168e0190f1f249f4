"""Walks over a Blob part by part, with two parts on the device at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any

from syncblob._shape import canonical_axis
from syncblob.blob.evict_by_hand import give_up
from syncblob.devices import HOST
from syncblob.memory import at_once
from syncblob.memory.windows import laid

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore


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


@at_once
def _start_to_bring(view: Any) -> None:
    """Prefetch a part. It waits for nobody, because other threads may wait for the part before."""
    # It is brought when it is used if there is no room for two.
    with suppress(MemoryError):
        view.prefetch()


def _walk_views(blob: BlobCore, views: Sequence[Any]) -> Iterator[Any]:
    if blob.home is HOST:
        yield from views
        return
    buffers = blob.memory.ledger.buffers
    for view, following in itertools.zip_longest(views, views[1:]):
        of = view.memory.ledger.range_of(view.layout)
        try:
            if following is not None:
                view.prefetch()
                # An array over it, so that it is not evicted for the next.
                held = buffers.containing(blob._side, *of)
                # Several windows have it if it was on the device already.
                seen = (
                    view._array_in(blob.home, "parts")
                    if held is None
                    else laid(blob.home, held, view.layout, writable=False, own=True)
                )
                _start_to_bring(following)
                del held, seen
            yield view
        except BaseException:
            # The walk ends. A part that cannot leave stays until room is needed, and nobody could
            # catch an error of a walk that is given up.
            for each in (view, following):
                if each is not None:
                    with suppress(Exception):
                        _leave(each)
            raise
        _leave(view)


def _leave(view: Any) -> None:
    """Give up a part. What another thread uses is evicted when room is needed."""
    reach = view.memory.ledger.range_of(view.layout)
    give_up(view, view._side, *reach, needed=False)
