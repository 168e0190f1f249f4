"""Formatting for messages and drawings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Number = TypeVar("Number", int, float)

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_KIBI = 1024


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural if needed: ``"1,024 blobs"``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"


def noun(direction: str) -> str:
    """Return the word for a transfer in a direction."""
    return "peer copy" if direction == "peer" else direction


def extend(error: BaseException, text: str, *, first: bool = False) -> None:
    """Append a text to the message of an error, or put it first."""
    message = str(error)
    both = f"{text}; {message}" if first else f"{message}; {text}"
    error.args = (both if message else text,)
    if text not in str(error):
        # NumPy's MemoryError and others do not take the message from `args`.
        error.add_note(text)


def human_bytes(nbytes: int) -> str:
    """Format a number of bytes for people: ``"1.5 MiB"``."""
    size = float(nbytes)
    for unit in _UNITS[:-1]:
        # A number that rounds to 1024.0 uses the next unit.
        if round(size, 1) < _KIBI:
            return f"{nbytes} B" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= _KIBI
    return f"{size:.1f} {_UNITS[-1]}"


def union(ranges: Iterable[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    """Sort ranges, and join those that touch or overlap."""
    result: list[tuple[Number, Number]] = []
    for start, stop in sorted(ranges):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(stop, result[-1][1]))
        else:
            result.append((start, stop))
    return result
