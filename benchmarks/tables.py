"""Tables of results as Markdown, for a terminal and for the documentation."""

from collections.abc import Iterable, Iterator
from itertools import compress, groupby

from benchmarks.rows import Row, quantity

HEADS = ("syncblob", "rival", "ratio", "difference", "goal")
NO_BREAK = "\N{NO-BREAK SPACE}"


def as_markdown(rows: Iterable[Row]) -> str:
    """Return rows as Markdown tables, one for each section, with its title."""
    lines = []
    for section, found in groupby(rows, key=lambda row: row.section):
        members = list(found)
        lines += [f"*{section}*", ""]
        lines += _matrix(members) if members[0].cell else _list(members)
        lines.append("")
    return "\n".join(lines)


def _matrix(rows: list[Row]) -> Iterator[str]:
    columns = list(dict.fromkeys(row.cell.column for row in rows if row.cell))
    found = {(row.ours, row.cell.column): row for row in rows if row.cell}
    yield _piped(["", *columns])
    yield _piped([":---", *["---:"] * len(columns)])
    for line in dict.fromkeys(row.ours for row in rows):
        yield _piped([f"`{line}`", *(_number(found.get((line, name))) for name in columns)])


def _number(row: Row | None) -> str:
    """Return the number in a cell of a matrix, in bold if it misses its goal."""
    if row is None or row.cell is None:
        return ""
    number = (row.of(row.cell.shows) or 0.0) * (1e6 if row.cell.shows == "difference" else 1)
    digits = 0 if row.unit == "calls" else 2 if abs(number) < 10 else 1  # noqa: PLR2004  # three figures that count
    text = f"{number:.{digits}f}"
    return f"**{text}**" if row.met is False else text


def _list(rows: list[Row]) -> Iterator[str]:
    """Yield a line for each row. For several rivals of one measurement, ours is shown once."""
    goals = [row.goal for row in rows if row.goal]
    shown = [True, True, True, any(goal.of == "difference" for goal in goals), bool(goals)]
    yield _piped(compress(HEADS, shown))
    yield _piped(compress((":---", ":---", "---:", "---:", ":---"), shown))
    before = None
    for row in rows:
        ours = "" if (row.ours, row.value) == before else _named(row, row.ours, row.value)
        before = row.ours, row.value
        ratio, difference = row.of("ratio"), row.of("difference")
        cells = (
            ours,
            "" if row.rival_value is None else _named(row, row.rival, row.rival_value),
            "" if ratio is None else f"{ratio:.{2 if ratio > 0.1 else 4}f}",  # noqa: PLR2004  # two figures that count
            ""
            if difference is None
            else f"{'+' * (difference >= 0)}{quantity(difference, row.unit)}",
            _goal(row),
        )
        yield _piped(compress(cells, shown))


def _named(row: Row, name: str, value: float) -> str:
    """Return a cell with a name and its value. The unit does not wrap."""
    return f"`{name}` {quantity(value, row.unit).replace(' ', NO_BREAK)}"


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    met = "met" if row.met else "missed"
    if row.goal.of == "ratio":
        return f"ratio <= {row.goal.limit:.4g}: {met}"
    sign = "+" if row.goal.of == "difference" else ""
    return f"{sign}{quantity(row.goal.limit, row.unit)} at most: {met}"


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
