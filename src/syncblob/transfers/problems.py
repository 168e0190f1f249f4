"""Patterns of transfers that cost time; see `TransferLog.problems`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._formatting import noun, quantity
from syncblob.transfers.copies import EVICTION, Transfer

if TYPE_CHECKING:
    from syncblob._source_lines import SourceLine

# Fewer alternations are ordinary: one transfer there, and one back.
_ALTERNATIONS = 4

# So many transfers of at most so many bytes, for one line, are reported: each takes about as long
# as one byte does.
_MANY, _SMALL = 32, 1 << 12

# The parts of one memory among which alternations are looked for at a time.
_MOST_PARTS = 32


class Problem(NamedTuple):
    """Transfers of one or two lines of code that cost more time than they need.

    `kind` is ``"ping-pong"``, ``"thrashing"`` or ``"many small"``. `lines` are those that cause it,
    of a ping-pong first the one that uploads. `transfers` is the number of transfers, and `nbytes`
    that of their bytes.
    """

    kind: str
    lines: tuple[SourceLine, ...]
    transfers: int
    nbytes: int
    text: str

    def __str__(self) -> str:
        """Describe the problem in one line."""
        return f"{self.kind}: {self.text}"


def bytes_of(transfers: Iterable[Transfer]) -> int:
    """Return the bytes of transfers."""
    return sum(transfer.nbytes for transfer in transfers)


def groups(transfers: Iterable[Transfer], *names: str) -> dict[Any, list[Transfer]]:
    """Return the transfers by the values of some attributes."""
    found: dict[Any, list[Transfer]] = defaultdict(list)
    for transfer in transfers:
        found[attrgetter(*names)(transfer)].append(transfer)
    return found


def ping_pongs(transfers: Iterable[Transfer]) -> Iterator[Problem]:
    """Yield the pairs of lines that transfer the contents of one memory back and forth."""
    moved = [
        transfer
        for transfer in transfers
        if transfer.memory
        and transfer.direction != "peer"
        and not transfer.reason.startswith(EVICTION)
    ]
    found: dict[tuple[SourceLine, SourceLine], list[Transfer]] = defaultdict(list)
    for of in groups(moved, "memory").values():
        for run in _alternations(of):
            if len(run) >= _ALTERNATIONS:
                download, upload = sorted(run[:2], key=attrgetter("direction"))
                found[upload.line, download.line] += run
    for lines, run in found.items():
        up, down = (line.describe() for line in lines)
        nbytes = bytes_of(run)
        text = (
            f"{len(run)} transfers of {nbytes} bytes to and fro between {up} (upload) and {down} "
            "(download)"
        )
        yield Problem("ping-pong", lines, len(run), nbytes, text)


def _alternations(transfers: list[Transfer]) -> Iterator[list[Transfer]]:
    """Yield the runs in which the same two lines alternate over common bytes, backwards."""
    # A run for each part of the memory in use, the latest last.
    runs: list[list[Transfer]] = []
    for transfer in reversed(transfers):
        newest_first = reversed(range(len(runs)))
        index = next((i for i in newest_first if _overlap(runs[i][-1], transfer)), None)
        run = [] if index is None else runs.pop(index)
        turns = bool(run) and transfer.direction != run[-1].direction
        if run and transfer.because and not turns:
            # An alias has added this one before that in the same direction.
            pass
        elif turns and (len(run) == 1 or transfer.line == run[-2].line):
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


def thrashing(brought_back: Iterable[Transfer]) -> Iterator[Problem]:
    """Yield the lines that bring back Blobs which evictions have taken away at least twice."""
    memories = groups(brought_back, "memory").values()
    again = [transfer for of in memories if len(of) > 1 for transfer in of]
    for line, of in groups(again, "line").items():
        blobs, nbytes = quantity(len({x.memory for x in of}), "Blob"), bytes_of(of)
        text = (
            f"{len(of)} uploads of {nbytes} bytes bring back {blobs} that had been evicted, at "
            f"{line.describe()}"
        )
        yield Problem("thrashing", (line,), len(of), nbytes, text)


def many_small(transfers: Iterable[Transfer]) -> Iterator[Problem]:
    """Yield the lines that make at least 32 transfers of at most 4 KiB each."""
    small = [transfer for transfer in transfers if transfer.nbytes <= _SMALL]
    for key, of in groups(small, "line", "direction", "reason").items():
        line, direction, reason = key
        if len(of) >= _MANY:
            nbytes, seconds = bytes_of(of), sum(each.seconds for each in of)
            text = (
                f"{len(of)} x {noun(direction)}, {nbytes} bytes in {seconds * 1e3:.3f} ms, for "
                f"{reason} at {line.describe()}; one transfer of all of them takes about as long "
                "as one of these"
            )
            yield Problem("many small", (line,), len(of), nbytes, text)
