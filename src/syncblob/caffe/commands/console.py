"""Printing: with rich on a terminal, as aligned plain text elsewhere."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from syncblob.formats import import_optional

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Cell = str | tuple[str, str]
"""A text, or a pair of a text and a style of rich's."""

# Wider than any plain table.
_ANY_WIDTH = 100_000
# Spaces between the columns of a table.
_GAP = 2
# Texts are wrapped to no less than this.
_NARROWEST = 8
# The delay before a progress bar appears.
_PATIENCE_SECONDS = 0.5


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: ``"1,024 blobs"``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


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
    import_optional("rich", "cli")
    from rich import progress  # installed, as checked above
    from rich.console import Console

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
    """Print a value as JSON. Raises for NaN and infinities; pass None instead."""
    print(json.dumps(value, indent=2, allow_nan=False))  # noqa: T201  # this is the output


class Output:
    """Standard output, with colours on a terminal.

    Output is plain if standard output is not a terminal, or NO_COLOR is set: no escape sequences,
    only ASCII except for data, and no trailing spaces. Without a terminal, lines are as long as
    necessary, so that each row of a table is one line.

    Attributes
    ----------
    terminal
        Whether standard output is a terminal.
    plain
        Whether to omit colours and lines.

    Raises
    ------
    ModuleNotFoundError
        If rich is not installed.
    """

    def __init__(self) -> None:
        import_optional("rich", "cli")
        from rich.console import Console  # installed, as checked above

        class PatientConsole(Console):
            """A console that lets callers handle a closed pipe."""

            def on_broken_pipe(self) -> None:
                raise  # noqa: PLE0704  # rich calls this in its exception handler

        options: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
        # FORCE_COLOR makes a pipe look like a terminal, but does not limit its width.
        width = None if sys.stdout.isatty() else _ANY_WIDTH
        console = PatientConsole(file=sys.stdout, width=width, **options)
        self.terminal: bool = console.is_terminal
        self.plain: bool = bool(
            os.environ.get("NO_COLOR") or not self.terminal or console.is_dumb_terminal
        )
        if self.plain:
            options |= {"color_system": None, "force_terminal": False, "width": console.width}
            console = PatientConsole(file=sys.stdout, **options)
        self._console = console

    def line(self, *pieces: Cell) -> None:
        """Print a line of texts, or pairs of text and style."""
        self._console.print(_text(*pieces))

    def heading(self, title: str) -> None:
        """Print an empty line and a title."""
        self.line()
        self.line((title, "bold"))

    def facts(self, facts: Iterable[tuple[str, Cell]]) -> None:
        """Print names and facts in two columns."""
        from rich.table import Table  # an optional dependency

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, fact in facts:
            grid.add_row(_text(name), _text(fact))
        self._print(grid)

    def table(
        self, headings: str, rows: Iterable[Sequence[Cell]], *, right: str = "", folds: str = ""
    ) -> None:
        """Print a table.

        If the terminal is too narrow, texts in columns that fold are wrapped. If that is not
        enough, lines are longer than the terminal is wide. Nothing is truncated.

        Parameters
        ----------
        headings
            The headings, which are words.
        rows
            The cells.
        right
            The headings of columns that are right-aligned, as for numbers.
        folds
            Those of columns whose texts are wrapped if the table is too wide.
        """
        from rich.box import SIMPLE_HEAD, Box  # an optional dependency
        from rich.table import Table  # an optional dependency

        texts = [[_text(cell) for cell in row] for row in rows]
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
        least = -_GAP
        for place, heading in enumerate(headings.split()):
            wraps = heading in folds.split()
            widest = max(len(heading), *(row[place].cell_len for row in texts), 1)
            narrowest = min(widest, _NARROWEST) if wraps else widest
            least += narrowest + _GAP
            table.add_column(
                heading,
                justify="right" if heading in right.split() else "left",
                no_wrap=not wraps,
                overflow="fold",
                min_width=narrowest,
            )
        for row in texts:
            table.add_row(*row)
        if least > self._console.width:
            table.width = least
        self._print(table)

    def _print(self, renderable: RenderableType) -> None:
        """Print; if plain, without the trailing spaces that rich adds."""
        if not self.plain:
            self._console.print(renderable, crop=False)
            return
        with self._console.capture() as capture:
            self._console.print(renderable, crop=False)
        for line in capture.get().splitlines():
            self._console.print(line.rstrip(), soft_wrap=True)


def _text(*pieces: Cell) -> Text:
    from rich.text import Text  # an optional dependency

    return Text.assemble(*pieces)
