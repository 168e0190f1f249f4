"""Printing: rich on a terminal, aligned plain text everywhere else."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from syncblob._optional import import_optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

__all__ = [
    "Cell",
    "Column",
    "Output",
    "counted",
    "print_json",
    "printable",
    "progress_bar",
]

Cell = str | tuple[str, str]
"""A text, or a pair of text and style (rich's)."""

# Wider than any plain table.
_ANY_WIDTH = 100_000
# Spaces between the columns of a table.
_GAP = 2
# A progress bar appears after this time.
_PATIENCE_SECONDS = 0.5


def counted(number: int, noun: str) -> str:
    """Write a number, with its noun, as people read it: ``"1,024 blobs"``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def printable(text: str, stream: TextIO | None = None) -> str:
    r"""Escape characters that cannot be printed, or that the stream cannot encode.

    Names in files are arbitrary bytes: one may hold a newline, a terminal's escape sequence or
    half a character. Those become ``\x1b`` and the like. What is no UTF-8 becomes a replacement
    character.

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
        for char in text.encode(errors="surrogateescape").decode(errors="replace")
    )
    return visible.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of a long operation on standard error, if that is a terminal.

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
    import_optional("rich", "cli")
    from rich import progress  # it is there
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
    """Print a value as JSON. NaN and infinities are an error: pass None for them."""
    print(json.dumps(value, indent=2, allow_nan=False))  # noqa: T201  # this is its output


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    heading
        Its heading.
    right
        Whether it is aligned to the right, as for numbers.
    folds
        Whether its texts may be wrapped if the table is too wide.
    narrowest
        The width to which they may be wrapped.
    spare
        How early it is left out where that does not help: the greatest first, 0 never.
    """

    heading: str
    right: bool = False
    folds: bool = False
    narrowest: int = 8
    spare: int = 0


class Output:
    """Standard output, in colour on a terminal.

    Plain where it is no terminal, or NO_COLOR is set: no escape sequences, ASCII only as far as
    the commands themselves go, no trailing spaces. What goes to no terminal is as wide as it needs
    to be, so that each row of a table stays one line.

    Attributes
    ----------
    terminal
        Whether it is a terminal.
    plain
        Whether to do without colours and lines.

    Raises
    ------
    ModuleNotFoundError
        If rich is not installed.
    """

    def __init__(self) -> None:
        import_optional("rich", "cli")
        from rich.console import Console  # it is there

        class PatientConsole(Console):
            """A console that leaves it to its callers what to do when nobody reads any more."""

            def on_broken_pipe(self) -> None:
                raise  # noqa: PLE0704  # rich calls it where it has caught the error

        options: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
        # FORCE_COLOR makes a pipe look like a terminal, but no narrower.
        width = None if sys.stdout.isatty() else _ANY_WIDTH
        console = PatientConsole(file=sys.stdout, width=width, **options)
        self.terminal = console.is_terminal
        self.plain = bool(
            os.environ.get("NO_COLOR") or not self.terminal or console.is_dumb_terminal
        )
        if self.plain:
            options |= {"color_system": None, "force_terminal": False, "width": console.width}
            console = PatientConsole(file=sys.stdout, **options)
        self._console = console

    def line(self, *pieces: Cell) -> None:
        """Print a line put together from texts, or pairs of text and style."""
        self._console.print(_text(*pieces))

    def heading(self, title: str) -> None:
        """Print an empty line and a title."""
        self.line()
        self.line((title, "bold"))

    def facts(self, facts: Iterable[tuple[str, Cell]]) -> None:
        """Print names with a fact about each, side by side."""
        self._grid((name, _text(fact)) for name, fact in facts)

    def _grid(self, facts: Iterable[tuple[str, Text]]) -> None:
        from rich.table import Table  # an optional dependency

        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, fact in facts:
            grid.add_row(_text(name), fact)
        self._print(grid)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """Print a table of rows with a cell for each column.

        Where the width is not enough, texts of columns that fold are broken, then columns that can
        be spared are left out, which a line below says. Where that does not help either, the cells
        of a row are printed one below the other. Nothing is cut.
        """
        texts = [[_text(cell) for cell in row] for row in rows]
        widths = self._widths(columns, texts)
        if widths is None:
            self._stack(columns, texts)
            return
        kept = [place for place, width in enumerate(widths) if width]
        self._table(
            [columns[place] for place in kept],
            [widths[place] for place in kept],
            [[row[place] for place in kept] for row in texts],
        )
        if len(kept) < len(columns):
            missing = [one.heading for place, one in enumerate(columns) if place not in kept]
            self.line((f"not shown for want of width: {', '.join(missing)}", "dim"))

    def _widths(
        self, columns: Sequence[Column], texts: Sequence[Sequence[Text]]
    ) -> list[int] | None:
        """Return how wide each column is, 0 if it is left out; None if there is no room."""
        widest = [
            max(len(column.heading), *(row[place].cell_len for row in texts), 1)
            for place, column in enumerate(columns)
        ]
        widths = [
            max(len(column.heading), min(most, column.narrowest)) if column.folds else most
            for column, most in zip(columns, widest, strict=True)
        ]

        def room() -> int:
            return self._console.width + _GAP - sum(width + _GAP for width in widths if width)

        while room() < 0:
            kept = [place for place, width in enumerate(widths) if width]
            spared = max(kept, key=lambda place: columns[place].spare)
            if not columns[spared].spare:
                return None
            widths[spared] = 0
        # Columns that fold are widened evenly, up to what they need.
        growing = [place for place, width in enumerate(widths) if 0 < width < widest[place]]
        for _ in range(room()):
            if not growing:
                break
            least = min(growing, key=widths.__getitem__)
            widths[least] += 1
            if widths[least] == widest[least]:
                growing.remove(least)
        return widths

    def _stack(self, columns: Sequence[Column], texts: Sequence[Sequence[Text]]) -> None:
        """Print rows as facts. An empty cell repeats the one of the row before and is left out."""
        for number, row in enumerate(texts):
            if number:
                self.line()
            self._grid((one.heading, text) for one, text in zip(columns, row, strict=True) if text)

    def _table(
        self,
        columns: Sequence[Column],
        widths: Sequence[int],
        texts: Sequence[Sequence[Text]],
    ) -> None:
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
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                column.heading,
                justify="right" if column.right else "left",
                no_wrap=not column.folds,
                overflow="fold",
                width=width,
            )
        for row in texts:
            table.add_row(*row)
        self._print(table)

    def _print(self, renderable: RenderableType) -> None:
        """Print; in plain output without the trailing spaces that rich adds."""
        if not self.plain:
            self._console.print(renderable)
            return
        with self._console.capture() as capture:
            self._console.print(renderable)
        for line in capture.get().splitlines():
            self._console.print(line.rstrip(), soft_wrap=True)


def _text(*pieces: Cell) -> Text:
    from rich.text import Text  # an optional dependency

    return Text.assemble(*pieces)
