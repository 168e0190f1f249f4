"""Printing: plain text with one row of a table per line, on a terminal as in a pipe."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TextIO

from syncblob.caffe.messages.string_fields import escape

_GAP = "  "


def printable(text: str, stream: TextIO | None = None) -> str:
    """Escape characters that are not printable, or that the stream, or stdout, cannot encode."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return escape(text).encode(encoding, "backslashreplace").decode(encoding)


def print_line(text: str = "") -> None:
    print(text)  # noqa: T201  # this is the output


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        print_line(f"{name:{width}}{_GAP}{fact}")


def print_table(
    rows: Sequence[Mapping[str, str]], *, title: str = "", right: Sequence[str] = ()
) -> None:
    """Print a table, perhaps with a title after an empty line."""
    if title:
        print_line(f"\n{title}")
    columns = {name: [name, *(row[name] for row in rows)] for name in rows[0]}
    for name, cells in columns.items():
        width = max(map(_width, cells))
        spaces = [" " * (width - _width(cell)) for cell in cells]
        pairs = (spaces, cells) if name in right else (cells, spaces)
        columns[name] = list(map("".join, zip(*pairs, strict=True)))
    heading, *lines = map(_GAP.join, zip(*columns.values(), strict=True))
    for line in (heading, "-" * _width(heading), *lines):
        print_line(line.rstrip())


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes; characters of Chinese take two."""
    return len(text) + sum(unicodedata.east_asian_width(char) in "FW" for char in text)
