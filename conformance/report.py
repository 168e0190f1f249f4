"""The report of a run of the suite: counts, failures, and its text."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from conformance.tiers import TIERS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "SUITE_SKIPS",
    "Found",
    "Report",
    "Request",
    "first_line",
    "line",
    "message",
    "replace_rows",
    "update_table",
]

# The tests that the suite itself skips as flaky.
SUITE_SKIPS = frozenset(
    f"array_api_tests/test_operators_and_elementwise_functions.py::test_remainder[{parameters}]"
    for parameters in (
        "remainder(x1, x2)",
        "__mod__(x1, x2)",
        "__mod__(x, s)",
        "__imod__(x1, x2)",
        "__imod__(x, s)",
    )
)

# pytest's outcomes, and the counts that they add to.
_COUNTS = {
    "passed": "passed",
    "failed": "failed",
    "error": "errors",
    "xfailed": "xfailed",
    "xpassed": "xpassed",
    "skipped": "skipped",
}

BEGIN = "<!-- results: run.py --update-readme writes this table -->"
END = "<!-- end of results -->"
_COLUMNS = [
    *("library", "device", "tier"),
    *("passed", "failed", "errors", "xfailed", "skipped", "suite defects"),
    *("seed", "duration", "versions", "date"),
]


@dataclasses.dataclass(frozen=True)
class Request:
    """The parameters of a run."""

    library: str
    device: str
    tier: str
    max_examples: int
    seed: int
    selection: str | None
    started: str
    commits: dict[str, str]
    versions: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Found:
    """A test that did not pass, and its message."""

    test: str
    outcome: str
    message: str


@dataclasses.dataclass(frozen=True)
class Report:
    """A run and its outcome."""

    request: Request
    seconds: float
    counts: dict[str, int]
    found: list[Found]
    problems: list[str]

    @property
    def conforming(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @classmethod
    def from_pytest(cls, request: Request, raw: dict[str, Any]) -> Report:
        """Make a report from that of pytest-json-report.

        Parameters
        ----------
        request
            The parameters of the run. The library's version and the device of its arrays come from
            `raw`.
        raw
            The report of pytest-json-report, with the additions of the plugin.
        """
        library = raw["library"]
        request = dataclasses.replace(
            request,
            device=library["device"],
            versions={request.library: library["version"], **request.versions},
        )
        counts = dict.fromkeys([*_COUNTS.values(), "suite_defects"], 0)
        found = []
        for test in raw["tests"]:
            defect = _suite_defect(test)
            counts["suite_defects" if defect else _COUNTS[test["outcome"]]] += 1
            if test["outcome"] != "passed":
                outcome = "suite defect" if defect else test["outcome"]
                found.append(Found(test["nodeid"], outcome, defect or message(test)))
        counts["total"] = len(raw["tests"])
        problems = _problems(request, raw["exitcode"], counts, found)
        return cls(request, round(raw["duration"], 1), counts, found, problems)

    def as_json(self) -> dict[str, Any]:
        """Return the report as an object for a JSON file."""
        return {"conforming": self.conforming, **dataclasses.asdict(self)}

    def as_text(self) -> str:
        """Return the report as text."""
        request = self.request
        selected = f", only -k {request.selection!r}" if request.selection else ""
        examples = f"{request.max_examples} examples{selected}"
        verdict = "conforming" if self.conforming else "NOT conforming"
        lines = [
            f"{request.library} on {request.device}, tier {request.tier} ({examples}): {verdict}",
            ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.counts.items()),
            f"seed {request.seed}, {self.seconds} s, started {request.started}",
            *(f"{name} at {commit}" for name, commit in request.commits.items()),
            ", ".join(f"{name} {version}" for name, version in request.versions.items()),
        ]
        if self.problems:
            lines += ["", "What is wrong:", *(f"- {problem}" for problem in self.problems)]
        for outcome in dict.fromkeys(found.outcome for found in self.found):
            of_outcome = [found for found in self.found if found.outcome == outcome]
            lines += ["", f"{outcome} ({len(of_outcome)}):"]
            lines += [f"- {found.test}: {first_line(found.message)}" for found in of_outcome]
        return "\n".join(lines) + "\n"


def update_table(text: str, report: Report) -> str:
    """Return a README's text with the row of a run replaced or added.

    There is one row for each library, device and tier.

    Raises
    ------
    ValueError
        If `text` lacks one of the markers.
    """
    return replace_rows(text, (BEGIN, END), _COLUMNS, _row(report), keys=3, order=_order)


def replace_rows(  # noqa: PLR0913, PLR0917  # a table and how it is kept
    text: str,
    markers: tuple[str, str],
    columns: list[str],
    row: str,
    keys: int,
    order: Callable[[tuple[str, ...]], Any],
) -> str:
    """Return a text with a row of the table between two markers replaced or added.

    Parameters
    ----------
    text
        The text with the table.
    markers
        The lines before and after the table.
    columns
        The heads of the columns.
    row
        The row.
    keys
        The number of leading cells that identify a row.
    order
        The sort key of rows.

    Raises
    ------
    ValueError
        If `text` lacks one of the markers.
    """
    before, begin, rest = text.partition(markers[0])
    table, end, after = rest.partition(markers[1])
    if not begin or not end:
        raise ValueError(f"expected the lines {markers[0]!r} and {markers[1]!r}, found not both")
    rows = {}
    for written in [*table.strip().splitlines()[2:], row]:
        cells = tuple(cell.strip() for cell in written.strip("|").split("|"))
        rows[cells[:keys]] = cells
    ordered = sorted(rows.values(), key=order)
    lines = [line(columns), line(["---"] * len(columns)), *map(line, ordered)]
    return "\n".join([before + begin, *lines, end + after])


def _suite_defect(test: dict[str, Any]) -> str | None:
    for entry in test.get("user_properties", ()):
        if "suite_defect" in entry:
            return str(entry["suite_defect"])
    return None


def message(test: dict[str, Any]) -> str:
    """Return the reason that pytest-json-report gives for a test that did not pass."""
    stages = [test[stage] for stage in ("setup", "call", "teardown") if stage in test]
    for stage in stages:
        if "crash" in stage:
            return str(stage["crash"]["message"])
    for stage in stages:
        if stage["outcome"] != "passed":
            # The text has the place of the skip and, at its end, the reason.
            return str(stage["longrepr"]).rpartition("Skipped: ")[2].rstrip("')\"")
    return "no message"


def _problems(
    request: Request, status: int, counts: dict[str, int], found: list[Found]
) -> list[str]:
    problems = []
    if status not in {0, 1}:
        problems.append(f"pytest ended with exit status {status}")
    if not counts["total"]:
        problems.append("no test was run")
    problems += [
        f"{counts[name]} {name}"
        for name in ("failed", "errors", "xfailed", "xpassed")
        if counts[name]
    ]
    skipped = {one.test for one in found if one.outcome == "skipped"}
    expected = SUITE_SKIPS if not TIERS[request.tier].boosted else frozenset()
    problems += [f"skipped, and not by the suite itself: {name}" for name in skipped - expected]
    if request.selection is None:
        problems += [f"not skipped, as the suite does: {name}" for name in expected - skipped]
    return problems


def _row(report: Report) -> str:
    request, counts = report.request, report.counts
    cells = [
        request.library,
        request.device,
        request.tier,
        *(counts[name] for name in ("passed", "failed", "errors", "xfailed", "skipped")),
        counts["suite_defects"],
        request.seed,
        f"{report.seconds:.0f} s",
        ", ".join(f"{name} {version}" for name, version in request.versions.items()),
        request.started[:10],
    ]
    return line([str(cell) for cell in cells])


def line(cells: list[str] | tuple[str, ...]) -> str:
    """Format a row of a table."""
    return f"| {' | '.join(cells)} |"


def _order(cells: tuple[str, ...]) -> tuple[bool, str, str, int]:
    """Return the sort key of a row: syncblob first, tiers by size."""
    library, device, tier = cells[:3]
    return library != "syncblob", library, device, list(TIERS).index(tier)


def first_line(message: str) -> str:
    """Return the first line of a message."""
    return message.partition("\n")[0]
