"""Tables of results, as text for a terminal and as Markdown for the documentation."""

from __future__ import annotations

from itertools import compress, groupby, pairwise
from typing import TYPE_CHECKING

from benchmarks.rows import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.rows import Measured, Row

__all__ = ["as_markdown", "as_text"]

HEADS = ("syncblob", "", "rival", "", "ratio", "difference", "goal", "")
NO_BREAK = "\N{NO-BREAK SPACE}"
# Names are aligned on the left, numbers on the right.
_LEFT = (True, False, True, False, False, False, True, True)


def as_text(name: str, measured: Measured) -> str:
    """Return the results of a group as lines for a terminal."""
    rows = measured.rows
    cells = [HEADS, *(_cells(row) for row in rows if row.cell is None)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    lines = []
    for section, members in _by_section(rows):
        lines += ["", f"{name}: {section}"]
        if members[0].cell is not None:
            lines += _matrix_as_text(members)
            continue
        lines.append(_aligned(HEADS, widths))
        lines += [_aligned(line, widths) for line in _without_repetition(members)]
    if measured.notes:
        lines += ["", *(f"{name}: {note}" for note in measured.notes)]
    return "\n".join(lines)


def as_markdown(rows: Iterable[Row]) -> str:
    """Return rows as Markdown tables, one for each section, with its title.

    They are narrower than those for a terminal: names and values share a cell, and empty columns
    are left out.
    """
    lines = []
    for section, members in _by_section(rows):
        lines += [f"*{section}*", ""]
        if members[0].cell is not None:
            lines += [*_matrix_as_markdown(members), ""]
            continue
        goals = [row.goal for row in members if row.goal]
        shown = [True, True, True, any(goal.of == "difference" for goal in goals), bool(goals)]
        heads = ("syncblob", "rival", "ratio", "difference", "goal")
        lines.append(_piped(compress(heads, shown)))
        lines.append(_piped(compress((":---", ":---", "---:", "---:", ":---"), shown)))
        for ours, value, rival, other, ratio, difference, goal, met in _without_repetition(members):
            verdict = f"{goal}: {met}" if goal else ""
            cells = (_named(ours, value), _named(rival, other), ratio, difference, verdict)
            lines.append(_piped(compress(cells, shown)))
        lines.append("")
    return "\n".join(lines)


# --- matrices -------------------------------------------------------------------------------------


def _matrix(rows: list[Row]) -> tuple[list[str], dict[str, list[Row | None]]]:
    """Return the names of the columns, and for each line its rows; None where there is none."""
    columns = list(dict.fromkeys(row.cell.column for row in rows if row.cell))
    found = {(row.ours, row.cell.column): row for row in rows if row.cell}
    lines = dict.fromkeys(row.ours for row in rows)
    return columns, {line: [found.get((line, column)) for column in columns] for line in lines}


def _matrix_as_text(rows: list[Row]) -> Iterator[str]:
    """Yield lines with numbers for the columns, and below them the names of these."""
    columns, lines = _matrix(rows)
    width = max(map(len, lines))
    texts = {line: [_shown(row, "{}!") for row in cells] for line, cells in lines.items()}
    yield " " * (width + 2) + "".join(f"{number:>8}" for number in range(1, len(columns) + 1))
    for line, cells in texts.items():
        yield f"  {line:<{width}}" + "".join(f"{text:>8}" for text in cells)
    for number, column in enumerate(columns, 1):
        yield f"  {number:>2} {column}"


def _matrix_as_markdown(rows: list[Row]) -> Iterator[str]:
    columns, lines = _matrix(rows)
    yield _piped(["", *columns])
    yield _piped([":---", *["---:"] * len(columns)])
    for line, cells in lines.items():
        yield _piped([f"`{line}`", *(_shown(row, "**{}**") for row in cells)])


def _shown(row: Row | None, missed: str) -> str:
    """Return the number in a cell of a matrix, in the format `missed` if it misses its goal."""
    if row is None or row.cell is None:
        return ""
    number = {
        "ratio": row.ratio,
        "difference": (row.difference or 0.0) * 1e6,
        "value": row.value,
    }[row.cell.shows]
    text = f"{number:.{2 if abs(number or 0.0) < 10 else 1}f}"  # noqa: PLR2004  # three figures that count
    if row.met is False:
        text = missed.format(text)
    return text + row.cell.mark


def _named(name: str, value: str) -> str:
    """Return a cell with a name and its value. The unit does not wrap."""
    return f"`{name}` {value.replace(' ', NO_BREAK)}" if name else ""


def _by_section(rows: Iterable[Row]) -> Iterable[tuple[str, list[Row]]]:
    for section, members in groupby(rows, key=lambda row: row.section):
        yield section, list(members)


def _cells(row: Row) -> tuple[str, ...]:
    rival = "" if row.rival_value is None else quantity(row.rival_value, row.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.{2 if row.ratio > 0.1 else 4}f}"  # noqa: PLR2004  # two figures that count
    difference = "" if row.difference is None else _signed(quantity(row.difference, row.unit))
    return (
        row.ours,
        quantity(row.value, row.unit),
        row.rival,
        rival,
        ratio,
        difference,
        _goal(row),
        {None: "", True: "met", False: "missed"}[row.met],
    )


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    if row.goal.of == "ratio":
        return f"ratio <= {row.goal.limit:.4g}"
    limit = quantity(row.goal.limit, row.unit)
    return f"+{limit} at most" if row.goal.of == "difference" else f"{limit} at most"


def _without_repetition(rows: list[Row]) -> Iterable[tuple[str, ...]]:
    """Yield the cells of rows. For several rivals of one measurement, ours is shown once."""
    if not rows:
        return
    yield _cells(rows[0])
    for before, row in pairwise(rows):
        cells = _cells(row)
        same = (before.ours, before.value) == (row.ours, row.value)
        yield ("", "", *cells[2:]) if same else cells


def _aligned(cells: Iterable[str], widths: list[int]) -> str:
    padded = (
        f"{cell:<{width}}" if left else f"{cell:>{width}}"
        for cell, width, left in zip(cells, widths, _LEFT, strict=True)
    )
    return f"  {'  '.join(padded)}".rstrip()


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
