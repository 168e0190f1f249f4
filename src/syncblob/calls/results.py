"""Results of calls: arrays become Blobs, and overwritten Blobs get their new contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.blob.core import BlobCore, fresh
from syncblob.interop.adopt import can_adopt
from syncblob.memory import MUTABLE, OVERWRITE, compute, from_the_start, has_written
from syncblob.memory.changes import finish_write

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Home, Side
    from syncblob.memory import SyncedMemory


def forgets_newest(x: BlobCore, side: Side) -> bool:
    """Return whether an overwrite on a side drops newest contents of others or a source.

    If so, callers compute the new contents separately, and store them when nothing can fail.
    """
    memory, layout = x.memory, x.layout
    newest_here = memory.spans.common(*layout.reach) & (1 << side)
    return not newest_here and not memory.blank and layout.gapless


def as_blobs(like: Any, result: Any, home: Home) -> Any:
    """Return a Blob of the new result of a kernel, an array or a scalar; a tuple of several."""
    several = result if type(result) is tuple else (result,)
    blobs = []
    for each in several:
        array = each if type(each) is np.ndarray else home.as_array(each)
        blobs.append(fresh(type(like), array, home))
    return tuple(blobs) if several is result else blobs[0]


def wrap(array: Any, home: Home, *operands: BlobCore) -> Any:
    """Wrap the result of a computation in a Blob, without a copy.

    A result that overlaps an operand becomes a view of it.
    """
    if type(array) is not np.ndarray:
        array = home.as_array(array)
    if home.owns(array):
        for x in operands:
            # Some functions return the operand itself if there is nothing to do.
            if array is x.raw_array:
                break
        else:
            return fresh(type(operands[0]), array, home)
    # A result over memory that a Blob tracks must share that memory, or writes would be missed.
    sharing = [
        (x, window)
        for x in operands
        for window in x.memory.windows(x.memory.side_of(home))
        if home.overlap(array, window.array)
    ]
    if sharing:
        # Of several Blobs over one memory, a const one, because the result may be its view.
        x, window = next((pair for pair in sharing if pair[0].readonly), sharing[0])
        return x.view_at(window.layout(home, array))
    if not can_adopt(array, home):
        array = compute(home, home.copy, array)
    return fresh(type(operands[0]), array, home)


# A Blob's memory, a layout of it, and a function that writes into an array of that.
Overwrite = tuple["SyncedMemory", "Layout", Callable[[Any], Any]]


def overwrite(overwrites: Sequence[Overwrite], home: Home, reason: str) -> None:
    """Overwrite parts of memories in a home. If one fails, the other memories are as before."""
    if not overwrites:
        return
    # Always in the same order, because each is made under the locks of those before.
    (memory, layout, function), *rest = sorted(overwrites, key=lambda each: id(each[0]))
    apart = [each for each in rest if each[0] is not memory]

    def write(array: Any) -> None:
        # What can fail comes before the first is written.
        overwrite(apart, home, reason)
        function(array)

    memory.write(memory.side_of(home), OVERWRITE, layout, reason, write if apart else function)
    overwrite([each for each in rest if each[0] is memory], home, reason)


def write_by(
    memory: SyncedMemory,
    layout: Layout,
    side: Side,
    reason: str,
    call: Callable[[Any], Sequence[Any]],
) -> None:
    """Call a function that writes an array on one side, in its home, and finish the write.

    `call` returns the function and its arguments, given the array of this memory and layout.
    """
    from_the_start(_write_by, memory, layout, side, reason, call)


def _write_by(
    memory: SyncedMemory,
    layout: Layout,
    side: Side,
    reason: str,
    call: Callable[[Any], Sequence[Any]],
) -> None:
    function, *arguments = call(memory.array(side, MUTABLE, layout, reason))
    has_written()
    try:
        memory.home(side).compute(function, *arguments)
    finally:
        finish_write(memory.ledger, side, *layout.reach, reason)
