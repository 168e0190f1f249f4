"""The journal: a log of transfers, with its totals and the problems it finds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._forks import Lock
from syncblob._formatting import counted
from syncblob._timeline import draw
from syncblob.transfers import Transfer, close_log, open_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from syncblob._source_lines import SourceLine

__all__ = ["PingPong", "TransferLog", "record_transfers"]

# Fewer alternations are ordinary: one transfer there, and one back.
_ALTERNATIONS = 4

# The parts of one memory among which alternations are looked for at a time.
_MOST_PARTS = 32


class PingPong(NamedTuple):
    """Two lines of code that transfer the contents of one memory back and forth.

    Attributes
    ----------
    upload_line, download_line
        The lines of code.
    transfers, nbytes
        The number of transfers, and their bytes.
    """

    upload_line: SourceLine
    download_line: SourceLine
    transfers: int
    nbytes: int

    def __str__(self) -> str:
        """Describe the ping-pong in one line."""
        return (
            f"{self.transfers} transfers of {self.nbytes} bytes to and fro between "
            f"{self.upload_line.described()} (upload) and "
            f"{self.download_line.described()} (download)"
        )


class TransferLog:
    """A sequence of the transfers made while it was open, in order; a context manager.

    Transfers of every thread of the process are recorded.

    Attributes
    ----------
    avoided, avoided_bytes
        The transfers that code with a copy at every change of side would have made in addition:
        accesses on one side, after one on the other, that found the newest contents already there.
    """

    def __init__(self) -> None:
        self._transfers: list[Transfer] = []
        self.avoided: int = 0
        self.avoided_bytes: int = 0
        self._open = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Start recording."""
        if self._open:
            raise RuntimeError("this log is recording already; create another one")
        self._open = True
        open_log(self)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop recording."""
        self._open = False
        close_log(self)

    def add(self, transfer: Transfer) -> None:
        """Record a transfer."""
        self._transfers.append(transfer)

    def add_avoided(self, nbytes: int) -> None:
        """Record an access that needed no transfer, after one on the other side."""
        with self._lock.held:
            self.avoided += 1
            self.avoided_bytes += nbytes

    def __len__(self) -> int:
        """Return the number of transfers."""
        return len(self._transfers)

    def __iter__(self) -> Iterator[Transfer]:
        """Iterate over the transfers so far."""
        return iter(tuple(self._transfers))

    def __getitem__(self, index: int) -> Transfer:
        """Return one transfer."""
        return self._transfers[index]

    @property
    def uploads(self) -> int:
        """The number of copies from host to accelerator."""
        return sum(transfer.direction == "upload" for transfer in self)

    @property
    def downloads(self) -> int:
        """The number of copies from accelerator to host."""
        return sum(transfer.direction == "download" for transfer in self)

    @property
    def uploaded_bytes(self) -> int:
        """The bytes copied from host to accelerator."""
        return sum(transfer.nbytes for transfer in self if transfer.direction == "upload")

    @property
    def downloaded_bytes(self) -> int:
        """The bytes copied from accelerator to host."""
        return sum(transfer.nbytes for transfer in self if transfer.direction == "download")

    @property
    def nbytes(self) -> int:
        """The bytes copied in both directions."""
        return self.uploaded_bytes + self.downloaded_bytes

    @property
    def seconds(self) -> float:
        """The time spent in transfers, in seconds."""
        return sum(transfer.seconds for transfer in self)

    def ping_pongs(self) -> list[PingPong]:
        """Return the pairs of lines that transfer the contents of one memory back and forth.

        A pair is reported if uploads for one line and downloads for the other have alternated at
        least four times in a row, each over some of the bytes of the one before. Transfers that
        an alias adds between them are left out.
        """
        by_memory: dict[int, list[Transfer]] = {}
        for transfer in self:
            by_memory.setdefault(transfer.memory, []).append(transfer)
        counts: Counter[tuple[SourceLine, SourceLine]] = Counter()
        nbytes: Counter[tuple[SourceLine, SourceLine]] = Counter()
        for transfers in by_memory.values():
            for run in _alternations(_without_repeated(transfers)):
                if len(run) < _ALTERNATIONS:
                    continue
                lines = _lines(run[0], run[1])
                counts[lines] += len(run)
                nbytes[lines] += sum(transfer.nbytes for transfer in run)
        return [PingPong(*lines, count, nbytes[lines]) for lines, count in counts.most_common()]

    def summary(self) -> str:
        """Return a text with the totals, the lines that moved most, and the ping-pongs."""
        totals = (
            f"{counted(self.uploads, 'upload')} of {self.uploaded_bytes} bytes, "
            f"{counted(self.downloads, 'download')} of {self.downloaded_bytes} bytes, "
            f"{self.seconds * 1e3:.3f} ms; "
            f"{counted(self.avoided, 'transfer')} of {self.avoided_bytes} bytes avoided"
        )
        parts = [totals]
        counts: Counter[tuple[str, str, SourceLine, str]] = Counter()
        moved: Counter[tuple[str, str, SourceLine, str]] = Counter()
        because: dict[tuple[str, str, SourceLine, str], str] = {}
        for transfer in self:
            key = (transfer.direction, transfer.reason, transfer.line, transfer.name)
            counts[key] += 1
            moved[key] += transfer.nbytes
            because[key] = because.get(key) or transfer.because
        for key, total in moved.most_common():
            direction, reason, line, name = key
            named = f" of {name}" if name else ""
            parts.append(
                f"  {counts[key]} x {direction}, {total} bytes{named}, for {reason} at "
                f"{line.described()}"
            )
            if because[key]:
                parts.append(f"    again at each access, because of {because[key]}")
        parts += [f"  ping-pong: {found}" for found in self.ping_pongs()]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the log as dictionaries, lists, strings and numbers, for JSON."""
        return {
            "uploads": self.uploads,
            "uploaded_bytes": self.uploaded_bytes,
            "downloads": self.downloads,
            "downloaded_bytes": self.downloaded_bytes,
            "seconds": self.seconds,
            "avoided": self.avoided,
            "avoided_bytes": self.avoided_bytes,
            "transfers": [
                {
                    "direction": transfer.direction,
                    "nbytes": transfer.nbytes,
                    "seconds": transfer.seconds,
                    "start": transfer.start,
                    "reason": transfer.reason,
                    "device": str(transfer.device),
                    "memory": transfer.memory,
                    "filename": transfer.line.filename,
                    "lineno": transfer.line.lineno,
                    "text": transfer.line.text,
                    "asynchronous": transfer.asynchronous,
                    "because": transfer.because,
                    "offset": transfer.offset,
                    "name": transfer.name,
                }
                for transfer in self
            ],
            "ping_pongs": [
                {
                    "upload_line": str(found.upload_line),
                    "download_line": str(found.download_line),
                    "transfers": found.transfers,
                    "nbytes": found.nbytes,
                }
                for found in self.ping_pongs()
            ],
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw a timeline of the transfers, with a lane for uploads above one for downloads.

        Each line of code has a row in its lane, labelled also with the name of the Blob. The length
        of a bar is the duration of the transfer, with a visible minimum; its height is proportional
        to the bytes. In a lane with many lines, those that moved least share one row.

        Needs matplotlib: ``pip install 'syncblob[plot]'``.

        Parameters
        ----------
        axes
            The Matplotlib axes; None for a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return draw(list(self), axes)

    def __repr__(self) -> str:
        """Return the totals."""
        return (
            f"<TransferLog: {counted(self.uploads, 'upload')} of {self.uploaded_bytes} bytes, "
            f"{counted(self.downloads, 'download')} of {self.downloaded_bytes} bytes>"
        )


def record_transfers() -> TransferLog:
    """Record every transfer made inside a ``with`` block.

    Returns
    -------
    TransferLog
        A context manager that returns itself. Logs can be nested; each records all transfers.

    Examples
    --------
    >>> import syncblob
    >>> blob = syncblob.Blob((2, 3), device="simulated")
    >>> blob.mutable_cpu_data()[...] = 1
    >>> with syncblob.record_transfers() as log:
    ...     _ = blob.gpu_data()
    ...     _ = blob.cpu_data()
    >>> log
    <TransferLog: 1 upload of 24 bytes, 0 downloads of 0 bytes>
    >>> log[0].reason
    'gpu_data'
    >>> log.avoided
    1
    """
    return TransferLog()


def _lines(first: Transfer, second: Transfer) -> tuple[SourceLine, SourceLine]:
    """Return the line of the upload and the line of the download."""
    if first.direction == "upload":
        return first.line, second.line
    return second.line, first.line


def _without_repeated(transfers: list[Transfer]) -> list[Transfer]:
    """Leave out the transfers that an alias adds before another one in the same direction.

    While an alias may write, each read on the other side copies again.
    """
    kept = []
    for index, transfer in enumerate(transfers):
        if transfer.because:
            later = transfers[index + 1 : index + 1 + _MOST_PARTS]
            following = next((other for other in later if _overlap(transfer, other)), None)
            if following is not None and following.direction == transfer.direction:
                continue
        kept.append(transfer)
    return kept


def _alternations(transfers: list[Transfer]) -> Iterator[list[Transfer]]:
    """Yield the runs in which the same two lines alternate over common bytes."""
    # One for each part of the memory in use, the latest last.
    runs: list[list[Transfer]] = []
    for transfer in transfers:
        places = (i for i in reversed(range(len(runs))) if _overlap(runs[i][-1], transfer))
        place = next(places, None)
        run = [] if place is None else runs.pop(place)
        turns = bool(run) and transfer.direction != run[-1].direction
        if turns and (len(run) == 1 or transfer.line == run[-2].line):
            run.append(transfer)
        else:
            yield run
            run = [run[-1], transfer] if turns else [transfer]
        runs.append(run)
        if len(runs) > _MOST_PARTS:
            yield runs.pop(0)
    yield from runs


def _overlap(first: Transfer, second: Transfer) -> bool:
    """Return whether two transfers of one memory have bytes in common."""
    return (
        first.offset < second.offset + second.nbytes and second.offset < first.offset + first.nbytes
    )
