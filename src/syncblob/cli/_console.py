"""What the commands print with: rich on a terminal, aligned plain text everywhere else."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

__all__ = [
    "Column",
    "MissingRichError",
    "Output",
    "human_bytes",
    "print_json",
    "printable",
    "progress_bar",
]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_KIBI = 1024
# As wide as a plain table ever needs to be.
_ANY_WIDTH = 100_000
_NARROWEST = 8
# What is done sooner needs no progress bar.
_PATIENCE_SECONDS = 0.5


class MissingRichError(Exception):
    """The extra ``cli`` is not installed."""

    def __init__(self) -> None:
        super().__init__("this command needs rich, which is missing: pip install 'syncblob[cli]'")


def human_bytes(nbytes: int) -> str:
    """Write a number of bytes as people read it, ``"1.5 MiB"``."""
    size = float(nbytes)
    for unit in _UNITS[:-1]:
        # What would be rounded to 1024.0 belongs to the next unit.
        if round(size, 1) < _KIBI:
            return f"{nbytes} B" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= _KIBI
    return f"{size:.1f} {_UNITS[-1]}"


def printable(text: str, stream: TextIO | None = None) -> str:
    r"""Escape what would not print: control characters, and what the stream cannot encode.

    Names in files are arbitrary bytes: one may hold a newline, a terminal's escape sequence or
    half a character. Those become ``\x1b`` and the like.

    Parameters
    ----------
    text
        What to print.
    stream
        Where; None for standard output.
    """
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    visible = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return visible.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show on standard error how much has been done of a long work; if that is a terminal.

    The bar appears after half a second, and goes when the block ends.

    Parameters
    ----------
    total
        The bytes to do.

    Yields
    ------
    callable
        To be called with numbers of bytes that have been done.
    """
    try:
        from rich import progress  # an optional dependency
        from rich.console import Console
    except ImportError as error:
        raise MissingRichError from error
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda _nbytes: None
        return
    columns = (progress.BarColumn(), progress.DownloadColumn(), progress.TimeRemainingColumn())
    bar = progress.Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=total)
    begin = time.monotonic()

    def advance(nbytes: int) -> None:
        bar.update(task, advance=nbytes)
        if not bar.live.is_started and time.monotonic() - begin > _PATIENCE_SECONDS:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


def print_json(value: object) -> None:
    """Print a value as JSON. Numbers that JSON does not know are an error: pass None for them."""
    print(json.dumps(value, indent=2, allow_nan=False))  # noqa: T201  # this is its output


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    heading
        What stands above it.
    right
        Whether its texts are set to the right, as numbers are.
    folds
        Whether its texts may be broken where the width is not enough.
    """

    heading: str
    right: bool = False
    folds: bool = False


class Output:
    """Standard output, in colour on a terminal.

    Plain where it is no terminal, or NO_COLOR is set: no escape sequences, ASCII only as far as
    the commands themselves go, no trailing spaces. Plain tables are as wide as their rows, so that
    each row stays one line, unless the output is a terminal or COLUMNS says how wide it is.

    Attributes
    ----------
    terminal
        Whether somebody is looking.
    plain
        Whether to do without colours and lines.

    Raises
    ------
    MissingRichError
        If rich is not installed.
    """

    def __init__(self) -> None:
        try:
            from rich.console import Console  # an optional dependency
        except ImportError as error:
            raise MissingRichError from error
        options: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
        console = Console(file=sys.stdout, **options)
        self.terminal = console.is_terminal
        self.plain = bool(
            os.environ.get("NO_COLOR") or not self.terminal or console.is_dumb_terminal
        )
        if self.plain:
            width = console.width if self.terminal or "COLUMNS" in os.environ else _ANY_WIDTH
            console = Console(
                file=sys.stdout, color_system=None, force_terminal=False, width=width, **options
            )
        self._console = console

    def line(self, *pieces: str | tuple[str, str]) -> None:
        """Print a line put together from texts, or pairs of text and style (rich's)."""
        self._console.print(_text(*pieces))

    def heading(self, title: str) -> None:
        """Print an empty line and a title."""
        self.line()
        self.line((title, "bold"))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print names and what is to be said of each, side by side."""
        from rich.table import Table  # an optional dependency

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, fact in facts:
            grid.add_row(_text(name), _text(fact))
        self._print(grid)

    def table(
        self, columns: Sequence[Column], rows: Iterable[Sequence[str | tuple[str, str]]]
    ) -> None:
        """Print a table.

        Parameters
        ----------
        columns
            Their headings and how they are set.
        rows
            A text, or a pair of text and style, for each column.
        """
        from rich.box import SIMPLE_HEAD, Box  # an optional dependency
        from rich.table import Table  # an optional dependency

        # Only the line under the headings is drawn, with dashes.
        dashes = Box("\n".join(("    ", "    ", " -- ", *["    "] * 5)), ascii=True)
        table = Table(
            box=dashes if self.plain else SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            header_style="bold",
            border_style="dim",
        )
        texts = [[_text(cell) for cell in row] for row in rows]
        for place, column in enumerate(columns):
            widest = max((row[place].cell_len for row in texts), default=0)
            table.add_column(
                column.heading,
                justify="right" if column.right else "left",
                no_wrap=not column.folds,
                overflow="fold",
                min_width=min(widest, _NARROWEST) if column.folds else None,
            )
        for row in texts:
            table.add_row(*row)
        self._print(table)

    def _print(self, renderable: RenderableType) -> None:
        """Print; plain output without the spaces that rich fills its lines with."""
        if not self.plain:
            self._console.print(renderable)
            return
        with self._console.capture() as capture:
            self._console.print(renderable)
        for line in capture.get().splitlines():
            self._console.print(line.rstrip(), soft_wrap=True)


def _text(*pieces: str | tuple[str, str]) -> Text:
    from rich.text import Text  # an optional dependency

    return Text.assemble(*pieces)
