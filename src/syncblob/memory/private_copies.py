"""Private copies of elements from any side. The bytes in gaps between them do not move."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.devices import Accelerator, Side
from syncblob.memory.operations import leave_room
from syncblob.memory.state_machine import CONST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncblob.devices.base import Home
    from syncblob.memory.buffers import Buffers
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.sources import Source


class ElsewhereError(MemoryError):
    """Another side than that of the copy has no room for the elements that are gathered there."""

    def __init__(self, home: Home, error: MemoryError) -> None:
        super().__init__(*error.args)
        self.home: Home = home


def gather(  # noqa: C901, PLR0912, PLR0915  # each place that elements may come from
    ledger: Ledger, side: Side, layout: Layout, reason: str
) -> Any:
    """Copy elements into a new C-contiguous array on one side, each from a side that holds it.

    Call it under the memory's lock. See `SyncedMemory.gather`.
    """
    spans, buffers, source = ledger.spans, ledger.buffers, ledger.source
    if ledger.moving:
        ledger.refuse_reentry()
    ledger.compare_watch(side, layout.start, layout.stop, writes=False)
    home = buffers.home(side)
    if buffers.accelerator is None and isinstance(home, Accelerator):
        buffers.add(home)
    reach = layout.start, layout.stop
    if buffers.may_share:
        buffers.share(side, reason)
    if buffers.shared:
        ledger.meet(side, *reach)
    mine, own = buffers.alike(side), None
    if spans.common(*reach) & mine or (buffers.shared and not spans.lacking(*reach, mine)):
        own = buffers.containing(side, *reach)
    if own is not None:
        ledger.await_uploads(side, CONST, *reach)
        buffers.finish_others(side, own, *reach)
        array = own.view(home, layout, writable=False, own=True)
        return home.compute(home.copy, array)
    dense = Layout.c_order(layout.shape, layout.dtype)
    try:
        leave_room(home)
        target = home.allocate(dense.nbytes)
    except MemoryError as error:
        buffers.explain_shortage(error, side, dense.nbytes, reason, dense)
        raise
    held = spans.alike(*reach)
    if layout.contiguous and held and not held >> side & 1:
        origin = _origin(ledger, side, held, *reach)
        other = buffers.containing(origin, *reach)
        if other is not None:
            # The usual case, such as one number: a single copy.
            buffers.move(origin, side, other.part(*reach), target, layout.start, reason)
            return home.view(target, dense, writable=True)
    for offset, part in _parts(layout, ledger, 0):
        place = target[offset : offset + part.nbytes]
        held = spans.common(part.start, part.stop)
        if held & mine:
            ledger.await_uploads(side, CONST, part.start, part.stop)
            window: Any = buffers.containing(side, part.start, part.stop)
            buffers.finish_others(side, window, part.start, part.stop)
            array = window.view(home, part, writable=False, own=True)
            c_order = Layout.c_order(part.shape, part.dtype)
            home.compute(operator.setitem, home.view(place, c_order, writable=True), ..., array)
        elif held:
            origin = _origin(ledger, side, held, part.start, part.stop)
            contents = _dense_bytes(buffers, origin, part)
            buffers.move(origin, side, contents, place, part.start, reason)
        elif source is None:
            home.zero(place)
        elif side is Side.HOST:
            place[...] = _initial_bytes(source, part)
        else:
            contents = _initial_bytes(source, part)
            buffers.move(Side.HOST, side, contents, place, part.start, reason)
    return home.view(target, dense, writable=True)


def _origin(ledger: Ledger, side: Side, held: int, start: int, stop: int) -> Side:
    """Return the side that a range comes from, when it has arrived there."""
    origin = ledger.buffers.nearest(side, held)
    if ledger.uploads and ledger.awaits(origin):
        ledger.await_uploads(side, CONST, start, stop)
    return origin


def _runs(ledger: Ledger, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of a range, divided where windows that hold them begin and end."""
    buffers = ledger.buffers
    for run in ledger.spans.runs(start, stop):
        ends = {run.start, run.stop}
        for side, windows in enumerate(buffers.windows):
            if len(windows.all) > 1 and run.holders >> side & 1:
                for window in buffers.within(side, run.start, run.stop):
                    ends |= {max(run.start, window.start), min(run.stop, window.stop)}
        yield from itertools.pairwise(sorted(ends))


def _parts(layout: Layout, ledger: Ledger, offset: int) -> Iterator[tuple[int, Layout]]:
    """Divide a layout into parts whose bytes have the same holders, in one window.

    The first axis longer than 1 is halved until they do, so that each part is one contiguous
    piece of a C-contiguous copy.

    Yields
    ------
    int
        The offset of the part in that copy, in bytes.
    Layout
        The part. The parts of a C-contiguous layout are plain bytes, because a span may end
        within an element.
    """
    if layout.contiguous:
        for start, stop in _runs(ledger, layout.start, layout.stop):
            yield offset + start - layout.start, Layout.raw(stop - start, start)
        return
    runs = _runs(ledger, layout.start, layout.stop)
    next(runs)
    if next(runs, None) is None:
        yield offset, layout
        return
    # A layout of one element is contiguous, so some axis is longer than 1.
    axis = next(axis for axis, dim in enumerate(layout.shape) if dim > 1)
    middle = layout.shape[axis] // 2
    before = (slice(None),) * axis
    first = layout.derive(lambda a: a[(*before, slice(None, middle))])
    yield from _parts(first, ledger, offset)
    second = layout.derive(lambda a: a[(*before, slice(middle, None))])
    yield from _parts(second, ledger, offset + first.nbytes)


def _dense_bytes(buffers: Buffers, side: Side, part: Layout) -> Any:
    """Return the elements of a part of one side as gapless bytes; a copy if it has gaps."""
    home = buffers.home(side)
    window: Any = buffers.containing(side, part.start, part.stop)
    array = window.view(home, part, writable=False, own=True)
    if isinstance(home, Accelerator) and not part.contiguous:
        # The gathering copy comes before the download, so it must wait for other work itself.
        home.settle(array)
    try:
        return home.wrap(array if part.contiguous else home.compute(home.copy, array))
    except MemoryError as error:
        raise ElsewhereError(home, error) from None


def _initial_bytes(source: Source, part: Layout) -> Any:
    """Return the elements of a part as gapless bytes, read from the source."""
    read = np.empty(part.stop - part.start, np.uint8)
    source.fill(read, part.start)
    array: np.ndarray[Any, Any] = np.ndarray(
        part.shape, part.dtype, read, part.offset - part.start, part.strides
    )
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
