"""The log of transfers, with its totals."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

from syncblob._formatting import noun, quantity
from syncblob._locks_lost_in_fork import Lock
from syncblob._source_lines import Place, SourceLine, user_line
from syncblob.devices import Device, supervisors
from syncblob.devices.timed_computations import watchers
from syncblob.transfers.copies import Transfer, close_log, open_log
from syncblob.transfers.problems import Problem, bytes_of, groups, many_small, ping_pongs, thrashing
from syncblob.transfers.timeline import draw

if TYPE_CHECKING:
    from syncblob.devices.base import Moment

# The attributes of the log in `to_dict`.
_TOTALS = (
    *("uploads", "uploaded_bytes", "downloads", "downloaded_bytes", "peer_copies", "peer_bytes"),
    *("seconds", "avoided", "avoided_bytes", "shared", "shared_bytes"),
)

_DIRECTIONS = ("upload", "download", "peer")
_COUNTED = (*_DIRECTIONS, "avoided", "shared")


class Operation(NamedTuple):
    """One operation on Blobs: a call of a function of NumPy, CuPy or PyTorch on a device.

    `start` is in seconds of `time.perf_counter`. `seconds` is the duration, on a CUDA device that
    of the work of the current stream, not of the call.
    """

    name: str
    device: Device
    line: SourceLine
    start: float
    seconds: float


def _read(entry: list[Any]) -> Transfer:
    """Return the transfer of an entry of a log. Several threads may read it at once."""
    made, arrival, _ = entry
    if type(made.line) is not SourceLine:
        because = made.because and made.because()
        made = entry[0] = made._replace(line=Place(*made.line).line, because=because)
    arrived = None if arrival is None else arrival()
    if arrived is not None:
        # A small copy arrives before the call that starts it has returned.
        made = entry[0] = made._replace(arrived=max(arrived, made.start + made.seconds))
        entry[1] = None
    read: Transfer = made
    return read


def _total(part: int, direction: str, description: str) -> Any:
    return property(lambda log: log._totals[direction][part], doc=description)  # noqa: SLF001  # of this file


class TransferLog:
    """A sequence of the transfers made while it was open, in order; a context manager.

    Transfers of every thread of the process are recorded. If the log keeps only the last ones, its
    totals are those of all.

    Attributes
    ----------
    seconds
        The time spent in transfers, in seconds.
    """

    def __init__(self, *, operations: bool = False, last: int | None = None) -> None:
        # Each with the function that tells when it arrived, until that is known, and whether it
        # brought back what an eviction had taken away.
        self._entries: deque[list[Any]] = deque(maxlen=last)
        # The number and the bytes of what is counted.
        self._totals: dict[str, tuple[int, int]] = dict.fromkeys(_COUNTED, (0, 0))
        self.seconds: float = 0.0
        # Each without its times, and what tells its beginning and its end, until they are known.
        self._operations: deque[list[Any]] = deque(maxlen=last)
        # The ranges that evictions have taken away, by memory.
        self._evicted: dict[int, list[tuple[int, int]]] = {}
        self._watches = operations
        self._open = False
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Start recording."""
        if self._open:
            raise RuntimeError("this log is recording already; create another one")
        self._open = True
        try:
            if self._watches:
                # Operations call `Home.compute` then.
                supervisors.add(self)
                watchers.append(self._add_operation)
            open_log(self)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop recording."""
        self._open = False
        close_log(self)
        if self._watches:
            supervisors.discard(self)
            with suppress(ValueError):
                watchers.remove(self._add_operation)

    def count(self, what: str, nbytes: int) -> None:
        """Count a transfer by its direction, one that was avoided, or a buffer that gets shared."""
        with self._lock.held:
            count, total = self._totals[what]
            self._totals[what] = count + 1, total + nbytes

    def add(self, made: Transfer, arrival: Moment | None = None) -> None:
        """Record a transfer, and a function that tells when an asynchronous one arrived.

        In place of its line there may be the fields of a `Place`, and a function for `because`.
        """
        with self._lock.held:
            self.count(made.direction, made.nbytes)
            self.seconds += made.seconds
            self._entries.append([made, arrival, self._brings_back(made)])

    def _add_operation(self, device: Device, name: str, start: Moment, end: Moment) -> None:
        entry = [Operation(name, device, user_line(), 0, 0), (start, end)]
        with self._lock.held:
            self._operations.append(entry)

    def add_eviction(self, memory: int, start: int, stop: int) -> None:
        """Record that a range of a memory has left an accelerator to make room."""
        with self._lock.held:
            self._evicted.setdefault(memory, []).append((start, stop))

    def _brings_back(self, made: Transfer) -> bool:
        ranges = self._evicted.get(made.memory)
        if ranges is None or made.direction == "download":
            return False
        first, last = made.offset, made.offset + made.nbytes
        rest = [(start, stop) for start, stop in ranges if stop <= first or last <= start]
        self._evicted[made.memory] = rest
        return len(rest) < len(ranges)

    def __len__(self) -> int:
        """Return the number of transfers in the log."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Transfer]:
        """Iterate over the transfers so far."""
        return iter(self[:])

    @overload
    def __getitem__(self, index: int) -> Transfer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Transfer]: ...
    def __getitem__(self, index: int | slice) -> Transfer | list[Transfer]:
        """Return one transfer, or a list of some."""
        if not isinstance(index, slice):
            return _read(self._entries[index])
        return [_read(entry) for entry in self._snapshot(self._entries)[index]]

    def _snapshot(self, entries: deque[Any]) -> list[Any]:
        """Return entries of the log as they are now: another thread may append meanwhile."""
        with self._lock.held:
            return list(entries)

    @property
    def operations(self) -> list[Operation]:
        """The operations that have run, if the log records them; see `record_transfers`."""
        entries = self._snapshot(self._operations)
        for entry in entries:
            operation, moments = entry
            if moments is not None:
                # The end first, because a CUDA device may have to look at its clock for it.
                end, start = moments[1](), moments[0]()
                if start is not None and end is not None:
                    entry[:] = operation._replace(start=start, seconds=end - start), None
        return [operation for operation, moments in entries if moments is None]

    uploads: int = _total(0, "upload", "The number of copies from host to accelerator.")
    downloads: int = _total(0, "download", "The number of copies from accelerator to host.")
    peer_copies: int = _total(0, "peer", "The number of copies between accelerators.")
    uploaded_bytes: int = _total(1, "upload", "The bytes copied from host to accelerator.")
    downloaded_bytes: int = _total(1, "download", "The bytes copied from accelerator to host.")
    peer_bytes: int = _total(1, "peer", "The bytes copied between accelerators.")
    avoided: int = _total(
        0,
        "avoided",
        "The transfers that were not needed: uses of one side after a use of the other that found "
        "the newest contents already there. A program that copies at each change of side makes "
        "them too.",
    )
    avoided_bytes: int = _total(1, "avoided", "The bytes of the transfers that were not needed.")
    shared: int = _total(0, "shared", "The buffers that the host and an accelerator share.")
    shared_bytes: int = _total(1, "shared", "The bytes of these buffers.")

    @property
    def nbytes(self) -> int:
        """The bytes copied in all directions."""
        return self._sum(1)

    def _sum(self, part: int) -> int:
        return sum([self._totals[direction][part] for direction in _DIRECTIONS])

    def problems(self) -> list[Problem]:
        """Return what costs time, by the bytes: ping-pong, thrashing and many small transfers.

        Ping-pong are uploads for one line and downloads for another that alternate at least four
        times in a row, each over some of the bytes of the one before. Transfers that an alias adds
        between them are left out, and so are copies between accelerators. Thrashing is what brings
        back Blobs that evictions have taken away at least twice. Many small transfers, such as
        those of `Blob.item` in a loop, are at least 32 of one line, of at most 4 KiB each.
        """
        entries = self._snapshot(self._entries)
        transfers = [_read(entry) for entry in entries]
        brought_back = [entry[0] for entry in entries if entry[2]]
        found = [*ping_pongs(transfers), *thrashing(brought_back), *many_small(transfers)]
        return sorted(found, key=lambda problem: -problem.nbytes)

    def summary(self) -> str:
        """Return a text with the totals, the lines that moved most, and the problems found."""
        totals = (
            f"{self._in_words()}, {self.seconds * 1e3:.3f} ms; "
            f"{quantity(self.avoided, 'transfer')} of {self.avoided_bytes} bytes avoided"
        )
        count = self._sum(0)
        parts = [totals]
        if len(self) < count:
            parts.append(f"  the last {len(self)} of {quantity(count, 'transfer')}:")
        rows = groups(self, "direction", "reason", "line", "name")
        for key, of in sorted(rows.items(), key=lambda row: -bytes_of(row[1])):
            direction, reason, line, name = key
            named = f" of {name}" if name else ""
            parts.append(
                f"  {len(of)} x {noun(direction)}, {bytes_of(of)} bytes{named} in "
                f"{sum(x.seconds for x in of) * 1e3:.3f} ms, for {reason} at {line.describe()}"
            )
            because = next((one.because for one in of if one.because), "")
            if because:
                parts.append(f"    again at each access, because of {because}")
        parts += [f"  {problem}" for problem in self.problems()]
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the log as dictionaries, lists, strings and numbers, for JSON."""
        return {
            **{name: getattr(self, name) for name in _TOTALS},
            "transfers": [_plain(transfer) for transfer in self],
            "problems": [{**x._asdict(), "lines": [*map(str, x.lines)]} for x in self.problems()],
            "operations": [_plain(operation) for operation in self.operations],
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw a timeline of the transfers, with a lane for uploads, downloads and peer copies.

        Each line of code has a row in its lane. The height of a bar is proportional to the bytes. A
        pale bar is an asynchronous upload, until it arrived. If the log records operations, they
        have a lane on top. A grey band marks the time in which an asynchronous upload and an
        operation or another transfer ran at once. Needs Matplotlib, as of the extra ``plot``.

        `axes` are those of Matplotlib, which are returned; None for a new figure.
        """
        return draw(list(self), axes, self.operations)

    def _repr_html_(self) -> str:
        """Return `summary` for a notebook."""
        import html  # slow to import, and only notebooks need it

        return f"<pre>{html.escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        """Return the totals."""
        return f"<TransferLog: {self._in_words()}>"

    def _in_words(self) -> str:
        peers = quantity(self.peer_copies, "peer copy", "peer copies")
        more = f", {peers} of {self.peer_bytes} bytes" if self.peer_copies else ""
        more += f", {self.shared} shared of {self.shared_bytes} bytes" if self.shared else ""
        return (
            f"{quantity(self.uploads, 'upload')} of {self.uploaded_bytes} bytes, "
            f"{quantity(self.downloads, 'download')} of {self.downloaded_bytes} bytes{more}"
        )


def _plain(record: Transfer | Operation) -> dict[str, Any]:
    """Return a record for JSON; its line has three entries."""
    plain = {**record._asdict(), "device": str(record.device)}
    line = plain.pop("line")
    return {**plain, "filename": line.filename, "lineno": line.lineno, "text": line.text}


def record_transfers(*, operations: bool = False, last: int | None = None) -> TransferLog:
    """Record every transfer made inside a ``with`` block. Logs can be nested.

    Parameters
    ----------
    operations
        Also record the operations on Blobs, for `TransferLog.operations` and `TransferLog.plot`.
        Each then takes some microseconds longer.
    last
        The number of transfers, and of operations, to keep, for programs that run for long: the
        log forgets older ones, but its totals include them. The default, None, keeps all.
    """
    if last is not None and operator.index(last) < 1:
        raise ValueError(f"expected a number of transfers to keep, at least 1, or None, got {last}")
    return TransferLog(operations=operations, last=last)
