"""Printing: in colours on a terminal, as plain text elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TextIO

from syncblob.formats import human_bytes

Cell = str | tuple[str, str]
"""A text, or a pair of a text and a style."""

# The parameters of the escape sequence that selects a style.
_STYLES = {
    "": "",
    "bold": "1",
    "bold red": "1;31",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
}
_GAP = "  "
# Columns are not made narrower than this.
_NARROWEST = 8
# The delay before a progress bar appears.
_PATIENCE_SECONDS = 0.5
_BAR = 30


def listed(counts: Iterable[tuple[str, int]]) -> str:
    """Format names with how often they occur: ``"layer.clip (3), layer.axis (1)"``."""
    return ", ".join(f"{name} ({count:,})" for name, count in counts)


def printable(text: str, stream: TextIO | None = None) -> str:
    r"""Escape characters that are not printable, or that the stream cannot encode.

    Names in files are arbitrary bytes, which may contain newlines, escape sequences of terminals or
    incomplete characters. They become ``\x1b`` and the like. Invalid UTF-8 becomes replacement
    characters.

    Parameters
    ----------
    text
        The text to print.
    stream
        The stream to print to; None for standard output.
    """
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    visible = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text.encode(errors="surrogateescape").decode(errors="replace")
    )
    return visible.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of a long operation on standard error, if that is a terminal.

    The bar appears after half a second, and disappears at the end of the block.

    Parameters
    ----------
    total
        The number of bytes to process.

    Yields
    ------
    callable
        A function to call with the number of bytes processed since the last call.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _nbytes: None
        return
    done, begin, bar = 0, time.monotonic(), ""

    def advance(nbytes: int) -> None:
        nonlocal done, bar
        done += nbytes
        if time.monotonic() - begin > _PATIENCE_SECONDS:
            hashes = "#" * (_BAR * done // (total or 1))
            bar = f"[{hashes:{_BAR}}] {human_bytes(done)} of {human_bytes(total)}  "
            print(f"\r{bar}", end="", file=sys.stderr, flush=True)  # noqa: T201  # this is its output

    try:
        yield advance
    finally:
        if bar:
            print(f"\r{' ' * len(bar)}\r", end="", file=sys.stderr, flush=True)  # noqa: T201  # as above


def print_json(value: object) -> None:
    """Print a value as JSON. Raises for NaN and infinities; pass None instead."""
    print(json.dumps(value, indent=2, allow_nan=False))  # noqa: T201  # this is the output


class Output:
    """Standard output, with colours on a terminal.

    Output is plain if standard output is not a terminal, or NO_COLOR is set: no escape sequences,
    only ASCII except for data, and no trailing spaces. FORCE_COLOR colours that of a pipe. Without
    a terminal, lines are as long as necessary, so that each row of a table is one line.

    Attributes
    ----------
    terminal
        Whether standard output is a terminal.
    """

    def __init__(self) -> None:
        self.terminal: bool = sys.stdout.isatty()
        self._width = shutil.get_terminal_size().columns if self.terminal else None
        settings = os.environ
        self._coloured = bool(
            (self.terminal or settings.get("FORCE_COLOR"))
            and not settings.get("NO_COLOR")
            and settings.get("TERM") != "dumb"
            # The console of older versions of Windows does not interpret the escape sequences.
            and (os.name != "nt" or "WT_SESSION" in settings)
        )
        line = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
        self._rule = line if self._coloured and printable(line) == line else "-"

    def line(self, *pieces: Cell) -> None:
        """Print a line of texts, or pairs of text and style."""
        print("".join(map(self._styled, pieces)).rstrip())  # noqa: T201  # this is the output

    def _styled(self, cell: Cell) -> str:
        text, style = (cell, "") if isinstance(cell, str) else cell
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text and style and self._coloured else text

    def heading(self, title: str) -> None:
        """Print an empty line and a title."""
        self.line()
        self.line((title, "bold"))

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print names and facts in two columns."""
        width = max(len(name) for name, _ in facts)
        for name, fact in facts:
            self.line((name, "dim"), " " * (width - len(name)), _GAP, fact)

    def table(
        self, rows: Sequence[Mapping[str, Cell]], *, right: str = "", folds: str = ""
    ) -> None:
        """Print a table.

        If the terminal is too narrow, texts in columns that fold are wrapped. If that is not
        enough, lines are longer than the terminal is wide. Nothing is truncated.

        Parameters
        ----------
        rows
            The cells by their headings, which are words. At least one row.
        right
            The headings of columns that are right-aligned, as for numbers.
        folds
            Those of columns whose texts are wrapped if the table is too wide.
        """
        names = list(rows[0])
        cells = [
            [(cell, "") if isinstance(cell, str) else cell for cell in row.values()] for row in rows
        ]
        cells.insert(0, [(name, "bold") for name in names])
        widths = [max(_width(text) for text, _ in column) for column in zip(*cells, strict=True)]
        foldable = [place for place, name in enumerate(names) if name in folds.split()]
        between = len(_GAP) * (len(names) - 1)
        while self._width and sum(widths) + between > self._width:
            foldable = [place for place in foldable if widths[place] > _NARROWEST]
            if not foldable:
                break
            widths[max(foldable, key=widths.__getitem__)] -= 1
        for number, row in enumerate(cells):
            folded = (_folded(text, width) for (text, _), width in zip(row, widths, strict=True))
            for texts in zip_longest(*folded, fillvalue=""):
                pieces: list[Cell] = []
                for name, text, (_, style), width in zip(names, texts, row, widths, strict=True):
                    space = " " * (width - _width(text))
                    aligned = (
                        (space, (text, style)) if name in right.split() else ((text, style), space)
                    )
                    pieces += (*aligned, _GAP)
                self.line(*pieces)
            if number == 0:
                self.line((self._rule * (sum(widths) + between), "dim"))


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes; characters of Chinese take two."""
    return len(text) + sum(unicodedata.east_asian_width(char) in "FW" for char in text)


def _folded(text: str, width: int) -> list[str]:
    if _width(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False)
