"""The journal: which bytes moved, in which direction, why, and at which line of the user's code."""

from __future__ import annotations

import linecache
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Device, Push

__all__ = [
    "SourceLine",
    "Transfer",
    "TransferLog",
    "download",
    "push",
    "record_transfers",
    "upload",
    "user_line",
]

# Frames of these packages are not the user's: ours, and the libraries that call our protocols.
_LIBRARIES = frozenset({"syncblob", "numpy", "torch", "cupy", "array_api_compat", "copy", "pickle"})

_open_logs: tuple[TransferLog, ...] = ()
_open_logs_lock = threading.Lock()


class SourceLine(NamedTuple):
    """A line of the user's code."""

    filename: str
    lineno: int

    @property
    def text(self) -> str:
        """The line itself, stripped; empty where the source cannot be found."""
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self) -> str:
        """Return ``file:line``."""
        return f"{self.filename}:{self.lineno}"


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
    asynchronous
        Whether it was started by ``async_gpu_push``.
    """

    direction: str
    nbytes: int
    seconds: float
    reason: str
    device: Device
    line: SourceLine
    asynchronous: bool = False

    def __str__(self) -> str:
        """Describe the transfer in one line."""
        return (
            f"{self.direction} of {self.nbytes} bytes for {self.reason} at {self.line}"
            f"{f': {self.line.text}' if self.line.text else ''}"
        )


class TransferLog:
    """The transfers made while it was open, in order: a context manager and a sequence.

    Transfers of every thread of the process are recorded.
    """

    def __init__(self) -> None:
        self._transfers: list[Transfer] = []

    def __enter__(self) -> Self:
        """Begin to record."""
        global _open_logs  # noqa: PLW0603  # replaced as a whole, so that readers need no lock
        with _open_logs_lock:
            _open_logs = (*_open_logs, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop recording."""
        global _open_logs  # noqa: PLW0603  # replaced as a whole, so that readers need no lock
        with _open_logs_lock:
            _open_logs = tuple(log for log in _open_logs if log is not self)

    def __len__(self) -> int:
        """Count the transfers."""
        return len(self._transfers)

    def __iter__(self) -> Iterator[Transfer]:
        """Iterate over the transfers so far."""
        return iter(tuple(self._transfers))

    def __getitem__(self, index: int) -> Transfer:
        """Return one transfer."""
        return self._transfers[index]

    @property
    def uploads(self) -> int:
        """Number of copies host to accelerator."""
        return sum(transfer.direction == "upload" for transfer in self)

    @property
    def downloads(self) -> int:
        """Number of copies accelerator to host."""
        return sum(transfer.direction == "download" for transfer in self)

    @property
    def uploaded_bytes(self) -> int:
        """Bytes moved host to accelerator."""
        return sum(transfer.nbytes for transfer in self if transfer.direction == "upload")

    @property
    def downloaded_bytes(self) -> int:
        """Bytes moved accelerator to host."""
        return sum(transfer.nbytes for transfer in self if transfer.direction == "download")

    @property
    def nbytes(self) -> int:
        """Bytes moved in both directions."""
        return self.uploaded_bytes + self.downloaded_bytes

    def __repr__(self) -> str:
        """Show the totals."""
        return (
            f"<TransferLog: {self.uploads} uploads of {self.uploaded_bytes} bytes, "
            f"{self.downloads} downloads of {self.downloaded_bytes} bytes>"
        )

    def _add(self, transfer: Transfer) -> None:
        self._transfers.append(transfer)


def record_transfers() -> TransferLog:
    """Record every transfer made inside a ``with`` block.

    Returns
    -------
    TransferLog
        A context manager whose ``with`` target is itself. Logs can be nested; each sees all.

    Examples
    --------
    >>> import syncblob
    >>> blob = syncblob.Blob((2, 3), device="simulated")
    >>> blob.mutable_cpu_data()[...] = 1
    >>> with syncblob.record_transfers() as log:
    ...     _ = blob.gpu_data()
    ...     _ = blob.gpu_data()
    >>> log
    <TransferLog: 1 uploads of 24 bytes, 0 downloads of 0 bytes>
    >>> log[0].reason
    'gpu_data'
    """
    return TransferLog()


def user_line() -> SourceLine:
    """Return the innermost line on the stack that belongs to none of the libraries involved."""
    frame = sys._getframe(1)  # noqa: SLF001  # the documented way to the caller's frame
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES
    ):
        frame = frame.f_back
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


def upload(accelerator: Accelerator, host: NDArray[np.uint8], buffer: Any, reason: str) -> None:
    """Copy host to accelerator, and write it into the open logs."""
    start = time.perf_counter()
    accelerator.upload(host, buffer)
    _record("upload", host.nbytes, time.perf_counter() - start, reason, accelerator.device)


def download(accelerator: Accelerator, buffer: Any, host: NDArray[np.uint8], reason: str) -> None:
    """Copy accelerator to host, and write it into the open logs."""
    start = time.perf_counter()
    accelerator.download(buffer, host)
    _record("download", host.nbytes, time.perf_counter() - start, reason, accelerator.device)


def push(
    accelerator: Accelerator, host: NDArray[np.uint8], buffer: Any, stream: Any, reason: str
) -> Push:
    """Start a copy host to accelerator, and write it into the open logs."""
    start = time.perf_counter()
    started = accelerator.push(host, buffer, stream)
    seconds = time.perf_counter() - start
    _record("upload", host.nbytes, seconds, reason, accelerator.device, asynchronous=True)
    return started


def _record(  # noqa: PLR0913  # the fields of a Transfer
    direction: str,
    nbytes: int,
    seconds: float,
    reason: str,
    device: Device,
    *,
    asynchronous: bool = False,
) -> None:
    if not _open_logs:
        return
    transfer = Transfer(direction, nbytes, seconds, reason, device, user_line(), asynchronous)
    for log in _open_logs:
        log._add(transfer)  # noqa: SLF001  # the log's own module
