"""Uploads that are under way, and what waits for them. Call the functions under the memory's lock.

An access of the accelerator is ordered after the uploads that overlap its range; one of the host
that may write waits for them. Host reads need not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob.devices import Side
from syncblob.memory.state import CONST, Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Accelerator, Push
    from syncblob.memory.ledger import Ledger
    from syncblob.memory.spans import Run

__all__ = ["Upload", "await_uploads", "finish_uploads", "start_uploads"]


class Upload(NamedTuple):
    """An asynchronous upload of a range."""

    start: int
    stop: int
    push: Push


def start_uploads(  # noqa: PLR0913, PLR0917  # copies, and what the journal says of them
    ledger: Ledger,
    accelerator: Accelerator,
    buffer: Any,
    pieces: Sequence[Run],
    stream: object,
    reason: str,
) -> list[Upload]:
    """Start to upload pieces of the host's buffer into one of the accelerator."""
    copying = ledger.buffers.copying(accelerator, reason)
    return [
        Upload(
            piece.start,
            piece.stop,
            ledger.buffers.start_upload(copying, buffer, piece.start, piece.stop, stream),
        )
        for piece in pieces
    ]


def await_uploads(ledger: Ledger, side: Side, access: Access, start: int, stop: int) -> None:
    """Wait for the uploads that an access of a range depends on.

    Raises
    ------
    RuntimeError
        In the middle of a transfer. Only code that interrupts it on the same thread sees this.
    """
    if ledger.moving:
        ledger.refuse_reentry()
    finish_uploads(ledger, side, access, start, stop)


def finish_uploads(ledger: Ledger, side: Side, access: Access, start: int, stop: int) -> None:
    """Wait as `await_uploads` does, in the middle of a transfer too."""
    for upload in ledger.uploads:
        if upload.start >= stop or start >= upload.stop:
            continue
        try:
            if side is Side.ACCELERATOR:
                if not upload.push.order():
                    continue
            elif access is not CONST:
                upload.push.wait()
            else:
                continue
        except Exception:
            if not upload.push.over:
                # A signal handler has ended the wait, but the upload is still running.
                raise
            # The upload has failed. The host still has the newest contents: nothing wrote since.
            # Change the map first, because readers without the lock trust it as soon as no upload
            # is under way.
            ledger.leave_to(Side.HOST, upload.start, min(upload.stop, ledger.spans.nbytes))
            _forget(ledger, upload)
            raise
        _forget(ledger, upload)


def _forget(ledger: Ledger, upload: Upload) -> None:
    ledger.uploads = tuple(other for other in ledger.uploads if other is not upload)
