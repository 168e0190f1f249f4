"""Copies beside accesses: those of the caller's own, and those that run while it goes on.

*Private* copies of elements come from any side, and the bytes in gaps between them do not move.
*Asynchronous* ones bring what a side lacks: uploads by push, downloads by pull. Call the functions
under the memory's lock.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import changes
from syncblob.memory.changes import Change, commit
from syncblob.memory.operations import in_turn, is_written_elsewhere, searches
from syncblob.memory.state_machine import CONST, MUTABLE, Access, Head, Run
from syncblob.memory.windows import provide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncblob.memory.ledger import Ledger


def gather(ledger: Ledger, side: Side, layout: Layout, reason: str) -> Any:
    """Copy elements into a new C-contiguous array on one side, each from a side that holds it."""
    ledger.compare_watch(side, layout.start, layout.stop, writes=False)
    home: Any = ledger.home(side)
    if side:
        ledger.add_side(home)
    reach = layout.start, layout.stop
    if ledger.shared:
        if home.shared:
            ledger.share(side)
        ledger.meet(side, *reach)
    there = ledger.spans.common(*reach) & ledger.alike(side)
    own = ledger.window_over(side, *reach) if there else None
    if own is not None:
        ledger.finish_uploads(side, CONST, *reach)
        ledger.finish_others(side, *reach)
        return home.compute(home.copy, own.own_view(home, layout))
    try:
        # Accesses that interrupt this on the same thread are refused from now on.
        ledger.moving = True
        ledger.revoke_shortcuts()
        return _gather(ledger, side, home, layout, reason)
    finally:
        ledger.moving = False


def _gather(ledger: Ledger, side: Side, home: Any, layout: Layout, reason: str) -> Any:
    """Copy the elements part by part, while nothing changes the state."""
    spans, source, mine = ledger.spans, ledger.source, ledger.alike(side)
    dense = Layout.c_order(layout.shape, layout.dtype)
    try:
        target = in_turn(home, home.allocate, dense.nbytes)
    except MemoryError as error:
        ledger.explain_shortage(error, side, dense.nbytes, reason, dense)
        raise
    offset = 0
    for part in _parts(layout, ledger):
        place = target[offset : offset + part.nbytes]
        reach = part.start, part.stop
        held = spans.common(*reach)
        origin = side if held & mine else ledger.nearest(side, held) if held else Side.HOST
        if held and (origin is side or ledger.awaits(origin)):
            ledger.finish_uploads(side, CONST, *reach)
        if not (held or source):
            home.zero(place)
        elif origin is not side:
            contents = _dense_bytes(ledger, origin, part) if held else _initial_bytes(source, part)
            ledger.move(origin, side, contents, place, part.start, reason)
        elif held:
            ledger.finish_others(side, *reach)
            window: Any = ledger.window_over(side, *reach)
            array = window.own_view(home, part)
            c_order = Layout.c_order(part.shape, part.dtype)
            home.compute(operator.setitem, home.view(place, c_order, writable=True), ..., array)
        else:
            place[...] = _initial_bytes(source, part)
        offset += part.nbytes
    return home.view(target, dense, writable=True)


def _runs(ledger: Ledger, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of a range, divided where windows that hold them begin and end."""
    for run in ledger.spans.runs(start, stop):
        ends = {run.start, run.stop}
        for side, whole in enumerate(ledger.whole):
            if whole is None and run.holders >> side & 1:
                for window in ledger.within(side, run.start, run.stop):
                    ends |= {max(run.start, window.start), min(run.stop, window.stop)}
        yield from itertools.pairwise(sorted(ends))


def _parts(layout: Layout, ledger: Ledger) -> Iterator[Layout]:
    """Divide a layout into parts with the same holders, and yield each in the order of a copy.

    The first axis longer than 1 is halved until that is so. Parts of a C-contiguous layout are
    plain bytes, because a span may end within an element.
    """
    runs = [*_runs(ledger, layout.start, layout.stop)]
    if layout.contiguous:
        yield from [Layout.raw(stop - start, start) for start, stop in runs]
        return
    if len(runs) == 1:
        yield layout
        return
    # A layout of one element is contiguous, so some axis is longer than 1.
    axis = next(axis for axis, dim in enumerate(layout.shape) if dim > 1)
    middle = layout.shape[axis] // 2
    before = (slice(None),) * axis
    for half in (slice(middle), slice(middle, None)):
        yield from _parts(layout.derive(operator.itemgetter((*before, half))), ledger)


def _dense_bytes(ledger: Ledger, side: Side, part: Layout) -> Any:
    """Return the elements of a part of one side as gapless bytes; a copy if it has gaps."""
    home = ledger.home(side)
    window: Any = ledger.window_over(side, part.start, part.stop)
    array = window.own_view(home, part)
    if not part.contiguous:
        # The gathering copy comes before the download, so it must wait for other work itself.
        home.settle(array)
    try:
        return home.wrap(array if part.contiguous else home.compute(home.copy, array))
    except MemoryError as error:
        vars(error)["home"] = home
        raise


def _initial_bytes(source: Any, part: Layout) -> Any:
    """Return the elements of a part as gapless bytes, read from the source."""
    read = np.empty(part.stop - part.start, np.uint8)
    source.fill(read, part.start)
    array: Any = np.ndarray(part.shape, part.dtype, read, part.offset - part.start, part.strides)
    return np.ascontiguousarray(array).ravel().view(np.uint8)


# --- asynchronous ---------------------------------------------------------------------------------


def push_from_host(
    ledger: Ledger, side: Side, stream: object, start: int, stop: int | None
) -> None:
    """Start the upload of a range whose newest contents the host alone has, as Caffe does."""
    stop = ledger.nbytes if stop is None else stop
    if start == stop and ledger.nbytes:
        # An empty view, which has the head of what it lies beside.
        return
    if is_written_elsewhere(ledger):
        # The copy would lack what is written next. The next access makes another.
        return
    head = ledger.spans.head(start, stop, side)
    if head is not Head.HEAD_AT_CPU:
        raise RuntimeError(f"async_gpu_push starts from HEAD_AT_CPU, but the head is {head.name}")
    push(ledger, side, stream, start, stop, "async_gpu_push")


def push(ledger: Ledger, side: Side, stream: object, start: int, stop: int, reason: str) -> None:
    """Start to upload the bytes of a range that the host holds and an accelerator lacks."""
    ledger.last_search = searches[0]
    ledger.compare_watch(side, start, stop, writes=False)
    provide(ledger, side, (start, stop), reason)
    if ledger.alike(side) & 1:
        # There is nothing to copy.
        commit(ledger, changes.plan, side, CONST, start, stop, reason)
        return
    commit(ledger, _plan_push, Side.HOST, MUTABLE, start, stop, reason, (side, stream))


def pull(ledger: Ledger, origin: Side, start: int, stop: int, reason: str) -> bool:
    """Start to download the bytes of a range that the host lacks and an accelerator holds.

    Returns False if the memory is shared, if aliases may write, or if more has to come along.
    """
    more = ledger.nbytes <= changes.SMALL and stop - start < ledger.nbytes
    aliased = ledger.loans.writers(start, stop)
    if ledger.home(origin).shared or aliased or more or ledger.watch is not None:
        return False
    provide(ledger, Side.HOST, (start, stop), reason)
    commit(ledger, _plan_push, origin, CONST, start, stop, reason, (Side.HOST, None))
    return True


def _plan_push(
    ledger: Ledger, origin: Side, _access: Access, start: int, stop: int, copy: Any
) -> Change:
    """Plan an asynchronous copy from a side to another, on a stream."""
    side, stream = copy
    device: Any = ledger.home(origin or side)
    change = changes.plan(ledger, side, CONST, start, stop, joins=False)
    after, mine, alike = change.after, 1 << origin, ledger.alike(side)
    for alias in ledger.loans.writers(start, stop, alike):
        # It may write before the copy arrives, so neither is trusted.
        there = change.before.runs(max(start, alias.start), min(stop, alias.stop))
        after = after.replaced(there)
    # Other sides may hold the bytes, too, and one with the same buffer need not be copied from.
    pieces = [Run(a, b, held & alike or held & mine or held) for a, b, held in change.pieces]
    start_copy = (lambda *arrays: device.push(*arrays, stream)) if side else device.pull
    return change._replace(after=after, pieces=pieces, starts={origin: start_copy})
