"""What came of a project's own tests: which failures are ours, and how it reads."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

from conformance.libraries import REFERENCE, SUITES, equivalent, is_about
from conformance.report import first_line, line, message, replace_rows

__all__ = [
    "CONST",
    "ITERATION",
    "LEFT_OUT",
    "OURS",
    "TOO",
    "Failure",
    "LibraryReport",
    "update_library_table",
]

# Kinds of failures.
TOO = f"{REFERENCE} too"
LEFT_OUT = f"{REFERENCE} is left out"
CONST = "const np.asarray"
ITERATION = "iteration gives NumPy scalars"
OURS = "ours"

_KINDS = (OURS, CONST, ITERATION, LEFT_OUT, TOO)

# What NumPy, and code that Cython compiled, say of an array that may not be written.
_READ_ONLY = re.compile(r"read-?only")

_BEGIN = "<!-- libraries: run.py --suite-of NAME --update-readme writes this table -->"
_END = "<!-- end of libraries -->"
_COLUMNS = [
    *("tests of", "device", "passed", "failed", "of these ours", "const `np.asarray`"),
    *(ITERATION, "array-api-strict is left out", "array-api-strict too", "skipped", "xfailed"),
    *("array-api-strict: passed", "failed", "skipped"),
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
        `CONST` where something wanted to write through ``numpy.asarray``; `TOO` where
        array-api-strict fails as well; `ITERATION` where the test passes once iterating over a Blob
        of one axis gives Blobs; `LEFT_OUT` where the project skips it, because the test asks for
        more than the standard has or names its libraries; else `OURS`.
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

    @property
    def unexplained(self) -> list[str]:
        """The tests that failed, where neither the message nor array-api-strict says why."""
        return [one.test for one in self.failures if one.kind in {OURS, LEFT_OUT}]

    @classmethod
    def from_pytest(
        cls, raw: dict[str, Any], again: dict[str, Any] | None = None, **request: Any
    ) -> LibraryReport:
        """Make a report of what pytest-json-report wrote, and of what was asked for.

        Parameters
        ----------
        raw
            What it wrote of all tests.
        again
            And of those that were run again, where iterating over a Blob gives Blobs.
        **request
            Other attributes.
        """
        tests = [] if again is None else again["tests"]
        mended = {test["nodeid"] for test in tests if test["outcome"] == "passed"}
        ours = [test for test in raw["tests"] if is_about("syncblob", test["nodeid"])]
        theirs = [test for test in raw["tests"] if is_about(REFERENCE, test["nodeid"])]
        outcomes = {equivalent(test["nodeid"]): test["outcome"] for test in theirs}
        const = SUITES[request["suite"]].const
        failures = [
            _failure(test, outcomes.get(equivalent(test["nodeid"])), const, mended)
            for test in ours
            if test["outcome"] in _FAILED
        ]
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
        for kind in _KINDS:
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
        *(ours["passed"], len(report.failures), *(kinds[kind] for kind in _KINDS)),
        *(ours["skipped"], ours["xfailed"]),
        *(theirs["passed"], theirs["failed"] + theirs["error"], theirs["skipped"]),
        f"{report.seconds:.0f} s",
        ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        report.started[:10],
    ]
    row = line([str(cell) for cell in cells])
    return replace_rows(text, (_BEGIN, _END), _COLUMNS, row, keys=2, order=lambda cells: cells[:2])


def _failure(
    test: dict[str, Any], of_reference: str | None, const: frozenset[str], mended: set[str]
) -> Failure:
    said, name = message(test), test["nodeid"].partition("[")[0].rpartition("::")[2]
    if _READ_ONLY.search(said) or name in const:
        kind = CONST
    elif of_reference in _FAILED:
        kind = TOO
    elif test["nodeid"] in mended:
        kind = ITERATION
    else:
        kind = LEFT_OUT if of_reference == "skipped" else OURS
    return Failure(test["nodeid"], kind, said)


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
