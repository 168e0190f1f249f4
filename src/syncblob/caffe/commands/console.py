"""Printing: plain text with one row of a table per line, on a terminal as in a pipe."""

from __future__ import annotations

import contextlib
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from syncblob.caffe.messages.pieces import on_progress
from syncblob.caffe.messages.string_fields import escape

_GAP = "  "
# Seconds after which work shows itself.
_MOMENT = 0.5


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


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[None]:
    """Show on a terminal how many of `total` bytes of values have been read or written."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    begin, done = time.monotonic(), 0
    show: Callable[[int], object] | None = None
    with contextlib.ExitStack() as shown:

        def report(nbytes: int) -> None:
            nonlocal done, show
            done += nbytes
            if show is None and time.monotonic() - begin > _MOMENT:
                show = shown.enter_context(_bar(title, total))
            if show is not None:
                show(done)

        token = on_progress.set(report)
        try:
            yield
        finally:
            on_progress.reset(token)


@contextlib.contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[int], object]]:
    """Yield a function that shows how much is done; clear the line at the end."""
    try:
        from rich.console import Console  # optional, and only for a terminal
        from rich.progress import Progress  # optional, and only for a terminal
    except ImportError:
        stream = sys.stderr

        def show(done: int) -> None:
            stream.write(f"\r{title} {min(100, 100 * done // max(1, total))} %")
            stream.flush()

        try:
            yield show
        finally:
            stream.write("\r\x1b[K")
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes; characters of Chinese take two."""
    return len(text) + sum(unicodedata.east_asian_width(char) in "FW" for char in text)
