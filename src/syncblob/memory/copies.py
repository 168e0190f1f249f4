"""Copies beside accesses: those of the caller's own, and those that run while it goes on.

*Private* copies of elements come from any side, and the bytes in gaps between them do not move.
*Asynchronous* ones bring what a side lacks: uploads by push, downloads by pull. Call the functions
under the memory's lock, except `upload`, which is of bytes that no memory tracks.
"""

from __future__ import annotations

import itertools
import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.devices import Accelerator, Side
from syncblob.memory import changes
from syncblob.memory.buffers import next_serial
from syncblob.memory.changes import Change, commit
from syncblob.memory.ledger import Upload
from syncblob.memory.operations import in_turn, is_written_elsewhere, searches
from syncblob.memory.room import in_room
from syncblob.memory.state_machine import CONST, MUTABLE, Access, Head, Run, head_over, plan_access
from syncblob.memory.windows import provide
from syncblob.transfers import Copying, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from syncblob.memory.buffers import Window
    from syncblob.memory.ledger import Ledger


def gather(ledger: Ledger, side: Side, layout: Layout, reason: str) -> Any:
    """Copy elements into a new C-contiguous array on one side, each from a side that holds it."""
    if ledger.moving:
        ledger.refuse_reentry()
    ledger.compare_watch(side, layout.start, layout.stop, writes=False)
    home = ledger.home(side)
    if ledger.accelerator is None and isinstance(home, Accelerator):
        ledger.add_side(home)
    reach = layout.start, layout.stop
    if ledger.shared:
        ledger.share(side)
        ledger.meet(side, *reach)
    there = ledger.spans.common(*reach) & ledger.alike(side)
    own = ledger.window_over(side, *reach) if there else None
    if own is not None:
        ledger.await_uploads(side, CONST, *reach)
        ledger.finish_others(side, *reach)
        return home.compute(home.copy, own.view(home, layout, writable=False, own=True))
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
    for offset, part in _parts(layout, ledger, 0):
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
            array = window.view(home, part, writable=False, own=True)
            c_order = Layout.c_order(part.shape, part.dtype)
            home.compute(operator.setitem, home.view(place, c_order, writable=True), ..., array)
        else:
            place[...] = _initial_bytes(source, part)
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


def _parts(layout: Layout, ledger: Ledger, offset: int) -> Iterator[tuple[int, Layout]]:
    """Divide a layout into parts with the same holders, and yield each with its offset in a copy.

    The first axis longer than 1 is halved until that is so. Parts of a C-contiguous layout are
    plain bytes, because a span may end within an element.
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
    for half in (slice(None, middle), slice(middle, None)):
        part = layout.derive(operator.itemgetter((*before, half)))
        yield from _parts(part, ledger, offset)
        offset += part.nbytes


def _dense_bytes(ledger: Ledger, side: Side, part: Layout) -> Any:
    """Return the elements of a part of one side as gapless bytes; a copy if it has gaps."""
    home = ledger.home(side)
    window: Any = ledger.window_over(side, part.start, part.stop)
    array = window.view(home, part, writable=False, own=True)
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
    array: np.ndarray[Any, Any] = np.ndarray(
        part.shape, part.dtype, read, part.offset - part.start, part.strides
    )
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
    head = head_over(ledger.spans, start, stop, side)
    if head is not Head.HEAD_AT_CPU:
        raise RuntimeError(f"async_gpu_push starts from HEAD_AT_CPU, but the head is {head.name}")
    push(ledger, side, stream, start, stop, "async_gpu_push")


def push(ledger: Ledger, side: Side, stream: object, start: int, stop: int, reason: str) -> None:
    """Start to upload the bytes of a range that the host holds and an accelerator lacks."""
    ledger.last_search = searches[0]
    provide(ledger, side, (start, stop), reason)
    ledger.await_uploads(Side.HOST, MUTABLE, start, stop)
    if ledger.alike(side) & 1:
        # There is nothing to copy.
        commit(ledger, changes.plan, side, CONST, start, stop, reason)
        return
    commit(ledger, _plan_push, Side.HOST, MUTABLE, start, stop, reason, (side, stream))


def pull(ledger: Ledger, origin: Side, start: int, stop: int, reason: str) -> bool:
    """Start to download the bytes of a range that the host lacks and an accelerator holds.

    Returns False if the memory is shared, if aliases may write, or if more has to come along.
    """
    ledger.await_uploads(Side.HOST, MUTABLE, start, stop)
    more = ledger.nbytes <= changes.SMALL and stop - start < ledger.nbytes
    aliased = ledger.loans.writers(start, stop)
    if ledger.home(origin).shared or aliased or more or ledger.watch is not None:
        return False
    commit(ledger, _plan_push, origin, CONST, start, stop, reason, (Side.HOST, None))
    return True


def _plan_push(  # a copy
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, copy: Any
) -> Change:
    """Plan an asynchronous copy from a side to another, on a stream."""
    target, stream = copy
    origin = 1 << side
    started: list[Upload] = []
    before = ledger.spans
    # An alias of either side may write before the copy arrives, so neither is trusted.
    writers = ledger.loans.writers(start, stop, origin | 1 << target)
    reach = [Run(each.start, each.stop, origin) for each in writers]
    lacking, runs = plan_access(before, target, CONST, start, stop, writers=reach)
    if any(piece.holders and not piece.holders & origin for piece in lacking):
        # A signal handler has written on a third side since the caller looked.
        ledger.refuse_reentry()
    after, ranges = before.replaced(runs), [piece[:2] for piece in lacking]
    if not before.nbytes:
        after, ranges = before.whole(0, before.holders[0] | 1 << target), [(0, 0)]
    change = target, before, after, start, stop, lacking
    return Change(
        *change,
        losers=origin,
        lost=ranges,
        prepare=partial(_start, side, stream, started),
        counted=True,
        # Lest they overwrite newer bytes.
        undo=lambda: [upload.push.wait() for upload in started],
    )


def _start(
    origin: Side, stream: object, uploads: list[Upload], ledger: Ledger, change: Change, reason: str
) -> tuple[Window, ...]:
    """Start to copy the pieces of a push or a pull, and list them."""
    side = change.side
    accelerator: Any = ledger.home(origin or side)
    # A caller on the host may reach beyond a part, and must not find old bytes of the heap there.
    part = change.stop - change.start < change.before.nbytes
    windows = ledger.windows(side)
    zeroed = side is Side.HOST and not windows and part
    target, after = ledger.window_for(side, windows, change.start, change.stop, zeroed=zeroed)
    copying = ledger.copying(accelerator, reason)
    way, on = ("upload", (stream,)) if side else ("download", ())
    start_copy = accelerator.push if side else accelerator.pull
    for piece in change.pieces:
        for window in ledger.within(origin, piece.start, piece.stop):
            start, stop = max(piece.start, window.start), min(piece.stop, window.stop)
            parts = window.part(start, stop), target.part(start, stop)
            work = transfer(copying, way, stop - start, start, start_copy, *parts, *on)
            uploads.append(Upload(start, stop, work, side, origin))
    # Before the map counts their bytes: who finds these there has to wait.
    ledger.uploads = (*ledger.uploads, *uploads)
    return after


# --- of bytes that no memory tracks --------------------------------------------------------------


def upload(accelerator: Accelerator, contents: NDArray[np.uint8], reason: str) -> Any:
    """Return a new buffer of an accelerator with a copy of bytes of the host.

    Logs and guards see a transfer of a memory of its own, with this reason.
    """
    nbytes = contents.nbytes
    call = in_turn, accelerator, accelerator.allocate, nbytes
    buffer = in_room(accelerator, reason, MemoryError, *call)
    if nbytes:
        copying = Copying(accelerator, reason, next_serial())
        transfer(copying, "upload", nbytes, 0, accelerator.upload, contents, buffer)
    return buffer
