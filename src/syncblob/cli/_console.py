"""Printing: with rich on a terminal, as aligned plain text elsewhere."""

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
"""A text, or a pair of a text and a style of rich's."""

# Wider than any plain table.
_ANY_WIDTH = 100_000
# Spaces between the columns of a table.
_GAP = 2
# The delay before a progress bar appears.
_PATIENCE_SECONDS = 0.5


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: ``"1,024 blobs"``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


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


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    heading
        Its heading.
    right
        Whether it is right-aligned, as for numbers.
    folds
        Whether its texts are wrapped if the table is too wide.
    narrowest
        The minimal width for wrapping.
    spare
        The priority for omitting the column if wrapping is not enough: the greatest first, 0 never.
    """

    heading: str
    right: bool = False
    folds: bool = False
    narrowest: int = 8
    spare: int = 0


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
        self.terminal = console.is_terminal
        self.plain = bool(
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
        """Print a table.

        If the width is too small, texts in columns that fold are wrapped, then columns that can be
        spared are omitted, with a note below the table. If that is not enough, the cells of each
        row are printed below each other. Nothing is truncated.
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
        """Return the width of each column, 0 if it is omitted; None if there is no room."""
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
        # Widen columns that fold evenly, up to the width of their texts.
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
        """Print rows as facts. Omit empty cells, which stand for the cell in the row before."""
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
        """Print; if plain, without the trailing spaces that rich adds."""
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
