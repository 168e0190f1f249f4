"""Reports of runs of pytest: counts, what did not pass, and what is wrong."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conformance.suite import SuiteError

ROOT = Path(__file__).resolve().parents[1]


class Tier(NamedTuple):
    """How thoroughly the suite is run.

    `max_examples`: the number of random examples per test.
    `boosted`: whether special cases get many draws instead of one, and the suite's skip marks are
        off.
    """

    max_examples: int
    boosted: bool = False


TIERS = {"quick": Tier(20), "ci": Tier(100), "full": Tier(1000), "boosted": Tier(100, boosted=True)}

# The tests that fail on a kind of device, with the reasons; on SYCL devices those that dpnp fails.
XFAILS = {"cuda": "xfails-cuda.txt", "sycl": "xfails-dpnp.txt"}

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


def run_pytest(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Run pytest in a separate process, with this checkout importable, and return its report.

    `command`: the arguments of pytest.
    `variables`: environment variables to set.
    `folder`: a temporary folder.
    `without`: prefixes of environment variables to leave out, beside those of a pytest around this
        one.
    SuiteError: if pytest ended without a report.
    """
    raw, left_out = folder / "report.json", ("PYTEST_", *without)
    mine = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    mine["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), mine.get("PYTHONPATH")]))
    mine["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
    options = ["-q", "-p", "no:cacheprovider", "--json-report", "--json-report-file", str(raw)]
    omitted = ["--json-report-omit", "collectors", "keywords", "log", "streams", "warnings"]
    # The last option takes all words up to the next one.
    whole = [*command, *omitted, *options]
    done = subprocess.run(whole, env=mine | {**variables}, check=False)  # noqa: S603  # our own interpreter
    if not raw.exists():
        raise SuiteError(
            f"expected pytest to run the suite, got exit status {done.returncode} and no report; "
            "its output above says why"
        )
    report: dict[str, Any] = json.loads(raw.read_text("utf-8"))
    return report


def report_of(request: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """Make a report of a run of the suite.

    `request`: the parameters of the run: ``"tier"``, ``"selection"`` and others, which are kept.
    `raw`: the report of pytest-json-report, with the library's version and the device of its
        arrays.
    Returns: The request, and with it ``"seconds"``, ``"counts"`` of outcomes, ``"found"``: the
        test, the outcome and the message of what did not pass, and ``"problems"``. Without
        problems, the run is conforming.
    """
    counts = Counter(test["outcome"] for test in raw["tests"])
    found = [
        (test["nodeid"], test["outcome"], message(test))
        for test in raw["tests"]
        if test["outcome"] != "passed"
    ]
    fine = {"passed", "skipped"}
    if str(request.get("device")).partition(":")[0] in XFAILS:
        # Of the listed tests, some pass with the values that happen to be drawn.
        fine |= {"xfailed", "xpassed"}
    problems = [f"{counts[name]} {name}" for name in counts if name not in fine]
    if raw["exitcode"] not in {0, 1}:
        problems.append(f"pytest ended with exit status {raw['exitcode']}")
    if not raw["tests"]:
        problems.append("no test was run")
    skipped = {test for test, outcome, _ in found if outcome == "skipped"}
    expected = frozenset() if TIERS[request["tier"]].boosted else SUITE_SKIPS
    problems += [f"skipped, and not by the suite itself: {name}" for name in skipped - expected]
    if request["selection"] is None:
        problems += [f"not skipped, as the suite does: {name}" for name in expected - skipped]
    versions = {"syncblob": raw["library"]["version"], **request["versions"]}
    known = {"device": raw["library"]["device"], "versions": versions}
    results = {"seconds": round(raw["duration"]), "counts": counts, "found": found}
    return {**request, **known, **results, "problems": problems}


def as_text(report: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [
        f"on {report['device']}: "
        + ("NOT as it should be" if report["problems"] else "conforming"),
        *(f"- {problem}" for problem in report["problems"]),
        ", ".join(f"{count} {outcome}" for outcome, count in report["counts"].items()),
        *(f"{outcome}: {test}: {said}" for test, outcome, said in report["found"]),
        f"{report['seconds']} s, seed {report.get('seed')}, started {report['started']}",
        ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
    ]
    return "\n".join(lines)


def message(test: dict[str, Any]) -> str:
    """Return the first line of what pytest-json-report says of a test that did not pass."""
    stages = [test[stage] for stage in ("setup", "call", "teardown") if stage in test]
    said = "no message"
    for stage in stages:
        if "crash" in stage:
            return str(stage["crash"]["message"]).partition("\n")[0]
        if stage["outcome"] != "passed":
            # The text has the place of the skip and, at its end, the reason.
            said = str(stage["longrepr"]).rpartition("Skipped: ")[2].rstrip("')\"")
    return said.partition("\n")[0]
