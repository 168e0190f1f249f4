"""Asynchronous copies under way, and what waits for them. Call the functions under the lock.

Most are uploads. An access comes after the copies that overlap its range. Only reads of the side
that a copy comes from need not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob.devices import Side
from syncblob.memory.state_machine import CONST, Access

if TYPE_CHECKING:
    from syncblob.devices.base import Push
    from syncblob.memory.ledger import Ledger


class Upload(NamedTuple):
    """An asynchronous copy of a range from a side to another."""

    start: int
    stop: int
    push: Push
    side: Side
    origin: Side


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
            if side is upload.origin and access is CONST:
                continue
            if side is Side.HOST or side not in {upload.origin, upload.side}:
                upload.push.wait()
            elif not upload.push.order():
                continue
        except Exception:
            if not upload.push.over:
                # A signal handler has ended the wait, but the copy is still running.
                raise
            # The copy has failed. Its origin still has the newest contents: nothing wrote since.
            # Change the map first, because readers without the lock trust it as soon as no copy is
            # under way.
            stop = min(upload.stop, ledger.spans.nbytes)
            ledger.take_from(upload.side, upload.start, stop)
            ledger.forget_arrived(upload)
            raise
        ledger.forget_arrived(upload)
