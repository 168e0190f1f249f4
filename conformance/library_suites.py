"""Run a project's own tests of array libraries on syncblob, and on array-api-strict beside it."""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conformance.libraries import (
    AGAIN_VARIABLE,
    DEVICE_VARIABLE,
    REFERENCE,
    SUITE_VARIABLE,
    SUITES,
    equivalent,
    is_about,
)
from conformance.report import message, run_pytest
from conformance.suite import SuiteError

# The kinds of failures, in the order of the table in README.md, which explains them.
OURS, CONST, ITERATION = "ours", "const np.asarray", "iteration gives NumPy scalars"
LEFT_OUT, TOO = f"{REFERENCE} is left out", f"{REFERENCE} too"
KINDS = (OURS, CONST, ITERATION, LEFT_OUT, TOO)
_FAILED = ("failed", "error")


def library_report(
    request: dict[str, Any], raw: dict[str, Any], again: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make a report of what pytest-json-report wrote.

    `request`: the parameters of the run: ``"suite"`` and others, which are kept.
    `raw`: its report of all tests.
    `again`: that of the tests that were repeated with iteration over a Blob giving Blobs.
    Returns: The same keys as `report.report_of`, with the kinds of failures as outcomes, and
        ``"reference_counts"``, those of array-api-strict.
    """
    mended = {x["nodeid"] for x in (again or {"tests": []})["tests"] if x["outcome"] == "passed"}
    ours = [test for test in raw["tests"] if is_about("syncblob", test["nodeid"])]
    theirs = [test for test in raw["tests"] if is_about(REFERENCE, test["nodeid"])]
    outcomes = {equivalent(test["nodeid"]): test["outcome"] for test in theirs}

    def kind(test: dict[str, Any]) -> str:
        name = test["nodeid"].partition("[")[0].rpartition("::")[2]
        reference = outcomes.get(equivalent(test["nodeid"]))
        # What NumPy, and code that Cython compiled, say of an array that may not be written.
        if re.search("read-?only", message(test)) or name in SUITES[request["suite"]].const:
            return CONST
        if reference in _FAILED:
            return TOO
        if test["nodeid"] in mended:
            return ITERATION
        return LEFT_OUT if reference == "skipped" else OURS

    found = [(x["nodeid"], kind(x), message(x)) for x in ours if x["outcome"] in _FAILED]
    counts = Counter(test["outcome"] for test in ours)
    problems = [f"{test} is ours: {said}" for test, what, said in found if what == OURS]
    if raw["exitcode"] not in {0, 1}:
        problems.append(f"pytest ended with exit status {raw['exitcode']}")
    if not counts["passed"]:
        problems.append("no test passed")
    reference_counts = Counter(test["outcome"] for test in theirs)
    results = {"seconds": round(raw["duration"]), "counts": counts, "found": found}
    return {**request, **results, "reference_counts": reference_counts, "problems": problems}


def run_library_tests(request: dict[str, Any], processes: str) -> dict[str, Any]:
    """Run the tests of an installed project and return the report.

    Tests whose failure nothing explains are repeated, with `AGAIN_VARIABLE`.

    `request`: ``"suite"``: a key of `SUITES`; ``"device"``: syncblob's default device meanwhile;
        ``"selection"``: pytest's ``-k``.
    `processes`: pytest's ``-n``.
    SuiteError: if the project, its tests or array-api-strict are not installed, or pytest did not
        get as far as a report.
    """
    suite = SUITES[request["suite"]]
    package = _folder(suite.package, suite.distribution)
    _folder(REFERENCE, "array-api-strict")
    files = suite.files(package)
    if not files:
        raise SuiteError(
            f"expected tests in {package}, found none; install a {suite.distribution} that has its "
            "tests, as the source distribution does"
        )
    variables = {SUITE_VARIABLE: request["suite"], DEVICE_VARIABLE: request["device"]}
    options = ["--rootdir", str(package.parent), "-n", processes]
    selected = ["-k", request["selection"]] if request["selection"] else []
    raw = _pytest([*options, *selected], files, variables)
    report = library_report(request, raw)
    unexplained = [test for test, kind, _ in report["found"] if kind in {OURS, LEFT_OUT}]
    if not unexplained:
        return report
    files = sorted({package.parent / test.partition("::")[0] for test in unexplained})
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "tests.json"
        path.write_text(json.dumps(unexplained), "utf-8")
        again = _pytest(options, files, variables | {AGAIN_VARIABLE: str(path)})
    return library_report(request, raw, again)


def _pytest(
    options: Iterable[str], files: Iterable[Path], variables: dict[str, str]
) -> dict[str, Any]:
    """Run tests with the plugin, and return pytest's report."""
    with tempfile.TemporaryDirectory() as temporary:
        settings = Path(temporary) / "pytest.ini"
        settings.write_text("[pytest]\n", "utf-8")  # not those of a checkout around the environment
        command = [sys.executable, "-m", "pytest", *map(str, files), "--tb=short", *options]
        command += ["-c", str(settings), "-p", "conformance.library_plugin"]
        return run_pytest(command, variables | {"SCIPY_ARRAY_API": "1"}, Path(temporary))


def _folder(package: str, distribution: str) -> Path:
    """Return the folder of an installed package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SuiteError(
            f"expected {distribution} to be installed; `pip install {distribution}` does it"
        )
    return Path(spec.origin).parent
