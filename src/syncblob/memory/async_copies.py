"""Asynchronous copies of the bytes that a side lacks: uploads by push, downloads by pull.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob.devices import Side
from syncblob.devices.base import WorkUnderWay
from syncblob.memory import access_plan
from syncblob.memory.access_plan import Change
from syncblob.memory.changes import commit
from syncblob.memory.ledger import Upload
from syncblob.memory.operations import is_written_elsewhere
from syncblob.memory.spans import Run
from syncblob.memory.state_machine import CONST, MUTABLE, Access, Head, head_over, plan_access
from syncblob.memory.windows import provide
from syncblob.transfers import transfer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Push
    from syncblob.memory.buffers import Windows
    from syncblob.memory.ledger import Ledger


def push_from_host(
    ledger: Ledger, side: Side, stream: object, start: int, stop: int | None
) -> None:
    """Start the upload of a range whose newest contents the host alone has, as Caffe does."""
    stop = ledger.spans.nbytes if stop is None else stop
    if start == stop and ledger.spans.nbytes:
        # An empty view, which has the head of what it lies beside.
        return
    if is_written_elsewhere(ledger):
        # The copy would lack what is written next. The next access makes another.
        return
    head = head_over(ledger.spans, start, stop, side)
    if head is not Head.HEAD_AT_CPU:
        raise RuntimeError(f"async_gpu_push starts from HEAD_AT_CPU, but the head is {head.name}")
    push(ledger, side, stream, start, stop, "async_gpu_push")


def push(  # noqa: PLR0913, PLR0917  # a copy
    ledger: Ledger, side: Side, stream: object, start: int, stop: int, reason: str
) -> None:
    """Start to upload the bytes of a range that the host holds and an accelerator lacks."""
    if ledger.buffers.windows[side].whole is None:
        provide(ledger, side, start, stop, reason)
    ledger.await_uploads(Side.HOST, MUTABLE, start, stop)
    commit(ledger, _plan_push, Side.HOST, MUTABLE, start, stop, reason, (side, stream))


def pull(ledger: Ledger, origin: Side, start: int, stop: int, reason: str) -> bool:
    """Start to download the bytes of a range that the host lacks and an accelerator holds.

    Returns
    -------
    bool
        False if the device cannot, if aliases may write into the range, so that the host would not
        hold the newest contents afterwards, or if more than the range has to come along, as in a
        small memory. Nothing has changed then.
    """
    ledger.await_uploads(Side.HOST, MUTABLE, start, stop)
    provide(ledger, Side.HOST, start, stop, reason)
    accelerator: Any = ledger.buffers.home(origin)
    copies = not ledger.buffers.are_one(Side.HOST, origin)
    aliased = any([*loans.writers(start, stop)] for loans in ledger.loans)
    nbytes = ledger.spans.nbytes
    more = nbytes <= access_plan.SMALL and stop - start < nbytes
    if (copies and not accelerator.pulls) or aliased or more or ledger.watch is not None:
        return False
    commit(ledger, _plan_push, origin, CONST, start, stop, reason, (Side.HOST, None))
    return True


def _plan_push(  # a copy
    ledger: Ledger, side: Side, _access: Access, start: int, stop: int, copy: Any
) -> Change:
    """Plan an asynchronous copy from a side to another, on a stream."""
    target, stream = copy
    started: list[Upload] = []
    before = ledger.spans
    # An alias of either side may write before the copy arrives, so neither is trusted.
    writers = [w for each in (side, target) for w in ledger.loans[each].writers(start, stop)]
    of_sides = [writers] * len(ledger.buffers.all_sides)
    lacking, runs = plan_access(before, target, CONST, start, stop, writers=of_sides)
    after = before.replaced(runs if before.nbytes else [Run(0, 0, before.holders[0] | 1 << target)])
    ranges = [piece[:2] for piece in lacking] if before.nbytes else [(0, 0)]
    way = "" if ledger.buffers.are_one(side, target) else "upload" if target else "download"
    return Change(
        *(target, before, after, start, stop, lacking, way),
        losses=((side, ranges),),
        prepare=partial(_start, side, stream, started),
        counted=True,
        undo=partial(_await_started, started),
    )


def _start(  # noqa: PLR0913, PLR0917  # a copy
    origin: Side, stream: object, uploads: list[Upload], ledger: Ledger, change: Change, reason: str
) -> tuple[Windows, Sequence[Upload]]:
    """Start to copy the pieces of a push or a pull, and list them."""
    buffers, side = ledger.buffers, change.side
    accelerator: Any = buffers.home(origin or side)
    # A caller on the host may reach beyond a part, and must not find old bytes of the heap there.
    part = change.stop - change.start < change.before.nbytes
    zeroed = side is Side.HOST and not buffers.windows[side].all and part
    target, windows = buffers.get(side, change.start, change.stop, zeroed=zeroed)
    copying = buffers.copying(accelerator, reason)
    way, on = ("upload", (stream,)) if side else ("download", ())
    start_copy = accelerator.push if side else accelerator.pull
    for piece in change.pieces:
        for window in buffers.within(origin, piece.start, piece.stop):
            start, stop = max(piece.start, window.start), min(piece.stop, window.stop)
            parts = window.part(start, stop), target.part(start, stop)
            if target.common is not None and target.common is window.common:
                if origin:
                    work: Push = WorkUnderWay(accelerator, parts[0])
                    uploads.append(Upload(start, stop, work, side, origin))
                continue
            work = transfer(copying, way, stop - start, start, start_copy, *parts, *on)
            uploads.append(Upload(start, stop, work, side, origin))
    return windows, uploads


def _await_started(started: list[Upload], _ledger: Ledger) -> None:
    """Wait for copies that a failed push or pull has started: no access would.

    They must not arrive when the buffer holds something newer.
    """
    for upload in started:
        upload.push.wait()
