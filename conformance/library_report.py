"""What came of a project's own tests: which failures are ours, and how it reads."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

from conformance.libraries import REFERENCE, equivalent, is_about
from conformance.report import first_line, line, message, replace_rows

__all__ = ["CONST", "OURS", "TOO", "Failure", "LibraryReport", "update_library_table"]

# Kinds of failures.
TOO = f"{REFERENCE} too"
CONST = "const"
OURS = "ours"

# What NumPy, and code that Cython compiled, say of an array that may not be written.
_READ_ONLY = re.compile(r"read-?only")

_BEGIN = "<!-- libraries: run.py --suite-of NAME --update-readme writes this table -->"
_END = "<!-- end of libraries -->"
_COLUMNS = [
    *("tests of", "device", "passed", "failed", "of these: array-api-strict too"),
    *("const `np.asarray`", "ours", "skipped", "xfailed", "array-api-strict: passed", "failed"),
    *("duration", "versions", "date"),
]
_FAILED = ("failed", "error")


@dataclasses.dataclass(frozen=True)
class Failure:
    """A test that failed with syncblob.

    Attributes
    ----------
    test
        Its id.
    kind
        `TOO` where array-api-strict fails in it as well, `CONST` where something wanted to write
        through ``numpy.asarray``, else `OURS`.
    message
        What it said.
    """

    test: str
    kind: str
    message: str


@dataclasses.dataclass(frozen=True)
class LibraryReport:
    """A run and its outcome."""

    suite: str
    device: str
    selection: str | None
    started: str
    seconds: float
    versions: dict[str, str]
    counts: dict[str, int]
    reference_counts: dict[str, int]
    failures: list[Failure]
    problems: list[str]

    @property
    def conforming(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @classmethod
    def from_pytest(cls, raw: dict[str, Any], **request: Any) -> LibraryReport:
        """Make a report of what pytest-json-report wrote, and of what was asked for."""
        ours = [test for test in raw["tests"] if is_about("syncblob", test["nodeid"])]
        theirs = [test for test in raw["tests"] if is_about(REFERENCE, test["nodeid"])]
        failed_too = {equivalent(test["nodeid"]) for test in theirs if test["outcome"] in _FAILED}
        failures = [_failure(test, failed_too) for test in ours if test["outcome"] in _FAILED]
        counts = Counter(test["outcome"] for test in ours)
        problems = []
        if raw["exitcode"] not in {0, 1}:
            problems.append(f"pytest ended with exit status {raw['exitcode']}")
        if not counts["passed"]:
            problems.append("no test passed")
        number = sum(failure.kind == OURS for failure in failures)
        if number:
            problems.append(f"{number} failures are ours")
        return cls(
            **request,
            seconds=round(raw["duration"], 1),
            counts=dict(counts),
            reference_counts=dict(Counter(test["outcome"] for test in theirs)),
            failures=failures,
            problems=problems,
        )

    def as_json(self) -> dict[str, Any]:
        """Return what a JSON file of the report has."""
        return {"conforming": self.conforming, **dataclasses.asdict(self)}

    def as_text(self) -> str:
        """Return the report as text to read."""
        selected = f", only -k {self.selection!r}" if self.selection else ""
        verdict = "no failure is ours" if self.conforming else "NOT as it should be"
        lines = [
            f"tests of {self.suite} on {self.device}{selected}: {verdict}",
            f"syncblob: {_told(self.counts)}",
            f"{REFERENCE}: {_told(self.reference_counts)}",
            f"{self.seconds} s, started {self.started}",
            ", ".join(f"{name} {version}" for name, version in self.versions.items()),
        ]
        if self.problems:
            lines += ["", "What is wrong:", *(f"- {problem}" for problem in self.problems)]
        for kind in (OURS, CONST, TOO):
            of_kind = [failure for failure in self.failures if failure.kind == kind]
            if of_kind:
                lines += ["", f"failed, {kind} ({len(of_kind)}):"]
                lines += [f"- {one.test}: {first_line(one.message)}" for one in of_kind]
        return "\n".join(lines) + "\n"


def update_library_table(text: str, report: LibraryReport) -> str:
    """Return a README's text with the row of a run replaced or added.

    A project and a device have one row.

    Raises
    ------
    ValueError
        If `text` has not both markers.
    """
    kinds = Counter(failure.kind for failure in report.failures)
    ours, theirs = Counter(report.counts), Counter(report.reference_counts)
    cells = [
        report.suite,
        report.device,
        *(ours["passed"], len(report.failures), *(kinds[kind] for kind in (TOO, CONST, OURS))),
        *(ours["skipped"], ours["xfailed"]),
        *(theirs["passed"], theirs["failed"] + theirs["error"]),
        f"{report.seconds:.0f} s",
        ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        report.started[:10],
    ]
    row = line([str(cell) for cell in cells])
    return replace_rows(text, (_BEGIN, _END), _COLUMNS, row, keys=2, order=lambda cells: cells[:2])


def _failure(test: dict[str, Any], failed_too: set[str]) -> Failure:
    said = message(test)
    if equivalent(test["nodeid"]) in failed_too:
        kind = TOO
    else:
        kind = CONST if _READ_ONLY.search(said) else OURS
    return Failure(test["nodeid"], kind, said)


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
