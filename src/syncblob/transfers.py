"""Copies between the two sides: made, written into the open logs, and forbidden by guards."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._source_lines import SourceLine, user_line
from syncblob.errors import TransferGuardError

if TYPE_CHECKING:
    from typing import Protocol, Self

    import numpy as np
    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Device, Push

    class Recorder(Protocol):
        """What an open log does."""

        def add(self, transfer: Transfer) -> None:
            """Take a transfer that was made."""

        def add_avoided(self, nbytes: int) -> None:
            """Take an access that found the newest contents already there."""


__all__ = [
    "Copying",
    "Transfer",
    "TransferGuard",
    "avoided",
    "close_log",
    "counted",
    "download",
    "max_transfers",
    "no_transfers",
    "open_log",
    "push",
    "recording",
    "upload",
]


class Transfer(NamedTuple):
    """One copy between the two sides of a memory.

    Attributes
    ----------
    direction
        ``"upload"`` (host to accelerator) or ``"download"``.
    nbytes
        Bytes moved.
    seconds
        Time the call took; for an asynchronous upload, the time to start it.
    reason
        The access that needed it, for example ``"gpu_data"`` or ``"__array__"``.
    device
        The accelerator.
    line
        The line of the user's code that made the access.
    memory
        A number that tells memories apart.
    start
        When it began, in seconds of `time.perf_counter`.
    asynchronous
        Whether it was started by ``async_gpu_push``.
    because
        Who may write on the side that was copied from, so that the next access copies again: a
        writable alias, or where the side was exposed. Empty where nobody may.
    """

    direction: str
    nbytes: int
    seconds: float
    reason: str
    device: Device
    line: SourceLine
    memory: int = 0
    start: float = 0.0
    asynchronous: bool = False
    because: str = ""

    def __str__(self) -> str:
        """Describe the transfer in one line."""
        again = f"; again at each access, because of {self.because}" if self.because else ""
        return (
            f"{self.direction} of {self.nbytes} bytes for {self.reason} at "
            f"{self.line.described()}{again}"
        )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it must be."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- the logs that are open ----------------------------------------------------------------------

# Replaced as a whole, so that readers need no lock.
_open_logs: tuple[Recorder, ...] = ()
_open_logs_lock = threading.RLock()


def open_log(log: Recorder) -> None:
    """Begin to write transfers into a log."""
    global _open_logs  # noqa: PLW0603  # see above
    with _open_logs_lock:
        _open_logs = (*_open_logs, log)


def close_log(log: Recorder) -> None:
    """Stop writing transfers into a log."""
    global _open_logs  # noqa: PLW0603  # see above
    with _open_logs_lock:
        _open_logs = tuple(other for other in _open_logs if other is not log)


def recording() -> bool:
    """Tell whether any log is open."""
    return bool(_open_logs)


def avoided(nbytes: int) -> None:
    """Write into the open logs that an access found the newest contents already there."""
    for log in _open_logs:
        log.add_avoided(nbytes)


# --- guards --------------------------------------------------------------------------------------

_guards: ContextVar[tuple[TransferGuard, ...]] = ContextVar("syncblob_guards", default=())


class TransferGuard:
    """A limit on transfers inside a ``with`` block. Context-local; guards nest, and all count.

    Attributes
    ----------
    count, nbytes
        Transfers and bytes so far.
    """

    def __init__(self, max_count: int | None, max_bytes: int | None) -> None:
        self.count: int = 0
        self.nbytes: int = 0
        self._lock = threading.RLock()
        self._max_count = max_count
        self._max_bytes = max_bytes

    def __enter__(self) -> Self:
        """Begin to guard."""
        _guards.set((*_guards.get(), self))
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop guarding. Other guards of this context stay, whichever block ends first."""
        guards = list(_guards.get())
        if self in guards:
            guards.reverse()
            guards.remove(self)
            guards.reverse()
        _guards.set(tuple(guards))

    def book(self, nbytes: int) -> None:
        """Count a transfer that was made."""
        with self._lock:
            self.count += 1
            self.nbytes += nbytes

    def require_room(self, direction: str, nbytes: int, reason: str) -> None:
        """Raise if a transfer would exceed this limit."""
        if self._max_count is not None and self.count + 1 > self._max_count:
            most = f"at most {counted(self._max_count, 'transfer')}"
            limit = most if self._max_count else "no transfers"
        elif self._max_bytes is not None and self.nbytes + nbytes > self._max_bytes:
            limit = f"at most {self._max_bytes} bytes"
        else:
            return
        article = "an" if direction == "upload" else "a"
        so_far = f" after {self.count} of {self.nbytes} bytes" if self.count else ""
        raise TransferGuardError(
            f"{limit} allowed here, and {reason} needs {article} {direction} of {nbytes} bytes"
            f"{so_far}, at {user_line().described()}"
        )


def no_transfers() -> TransferGuard:
    """Forbid transfers inside a ``with`` block.

    Raises
    ------
    TransferGuardError
        In the block, before a transfer is made; it names the line. Nothing has changed then.

    Examples
    --------
    >>> import syncblob
    >>> blob = syncblob.Blob(3, device="simulated")
    >>> blob.mutable_cpu_data()[...] = 1
    >>> with syncblob.no_transfers():
    ...     blob.gpu_data()
    Traceback (most recent call last):
    ...
    syncblob.errors.TransferGuardError: no transfers allowed here, and gpu_data needs ...
    """
    return TransferGuard(0, None)


def max_transfers(count: int | None = None, bytes: int | None = None) -> TransferGuard:  # noqa: A002  # what is limited
    """Limit the transfers inside a ``with`` block.

    Parameters
    ----------
    count
        How many there may be.
    bytes
        How many bytes they may move together.

    Raises
    ------
    TransferGuardError
        In the block, before the transfer that would exceed a limit.
    """
    limits = [limit for limit in (count, bytes) if limit is not None]
    if not limits or any(not isinstance(limit, int) or limit < 0 for limit in limits):
        raise TypeError(
            "max_transfers needs a count or a number of bytes, which are non-negative integers, "
            f"got count={count!r}, bytes={bytes!r}"
        )
    return TransferGuard(count, bytes)


# --- the copies ----------------------------------------------------------------------------------


class Copying(NamedTuple):
    """What a copy is for: what the logs and the guards say about it."""

    accelerator: Accelerator
    reason: str
    memory: int
    because: str = ""


def upload(copying: Copying, host: NDArray[np.uint8], buffer: Any) -> None:
    """Copy host to accelerator, if the guards permit, and write it into the open logs."""
    guards = _permitted("upload", host.nbytes, copying.reason)
    start = time.perf_counter()
    copying.accelerator.upload(host, buffer)
    _book(guards, "upload", host.nbytes, copying, start)


def download(copying: Copying, buffer: Any, host: NDArray[np.uint8]) -> None:
    """Copy accelerator to host, if the guards permit, and write it into the open logs."""
    guards = _permitted("download", host.nbytes, copying.reason)
    start = time.perf_counter()
    copying.accelerator.download(buffer, host)
    _book(guards, "download", host.nbytes, copying, start)


def push(copying: Copying, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
    """Start a copy host to accelerator, if the guards permit, and write it into the open logs."""
    guards = _permitted("upload", host.nbytes, copying.reason)
    start = time.perf_counter()
    started = copying.accelerator.push(host, buffer, stream)
    _book(guards, "upload", host.nbytes, copying, start, asynchronous=True)
    return started


def _permitted(direction: str, nbytes: int, reason: str) -> set[TransferGuard]:
    guards = set(_guards.get())
    for guard in guards:
        guard.require_room(direction, nbytes, reason)
    return guards


def _book(  # noqa: PLR0913  # the fields of a Transfer
    guards: set[TransferGuard],
    direction: str,
    nbytes: int,
    copying: Copying,
    start: float,
    *,
    asynchronous: bool = False,
) -> None:
    """Count a copy that was made, and write it into the open logs."""
    seconds = time.perf_counter() - start
    for guard in guards:
        guard.book(nbytes)
    if not _open_logs:
        return
    accelerator, reason, memory, because = copying
    transfer = Transfer(
        direction,
        nbytes,
        seconds,
        reason,
        accelerator.device,
        user_line(),
        memory,
        start,
        asynchronous,
        because,
    )
    for log in _open_logs:
        log.add(transfer)
