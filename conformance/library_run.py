"""Run a project's own tests of array libraries on syncblob, and on array-api-strict beside it."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.libraries import (
    AGAIN_VARIABLE,
    DEVICE_VARIABLE,
    REFERENCE,
    SUITE_VARIABLE,
    SUITES,
)
from conformance.library_report import LibraryReport
from conformance.process import REPORT_OPTIONS, clean_environment, run_pytest
from conformance.suite import SuiteError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["run_library_tests"]


def run_library_tests(
    name: str, device: str, processes: str, selection: str | None
) -> LibraryReport:
    """Run the tests of an installed project and return what came out.

    Tests whose failure nothing explains are run once more, with `AGAIN_VARIABLE`.

    Parameters
    ----------
    name
        A key of `SUITES`.
    device
        syncblob's default device meanwhile.
    processes, selection
        pytest's ``-n`` and ``-k``.

    Raises
    ------
    SuiteError
        If the project, its tests or array-api-strict are not installed, or pytest did not get as
        far as a report.
    """
    suite = SUITES[name]
    package = _folder(suite.package, suite.distribution)
    _folder(REFERENCE, "array-api-strict")
    files = suite.files(package)
    if not files:
        raise SuiteError(
            f"expected tests in {package}, found none; install a {suite.distribution} that has its "
            "tests, as the source distribution does"
        )
    distributions = ("syncblob", suite.distribution, "array-api-strict", "numpy", "pytest")
    request: dict[str, Any] = {
        "suite": name,
        "device": device,
        "selection": selection,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {one: version(one) for one in distributions},
    }
    variables = {SUITE_VARIABLE: name, DEVICE_VARIABLE: device}
    selected = ("-k", selection) if selection else ()
    options = ("--rootdir", str(package.parent), "-n", processes)
    found = _pytest((*options, *selected), files, variables)
    report = LibraryReport.from_pytest(found, **request)
    if not report.unexplained:
        return report
    files = sorted({package.parent / test.partition("::")[0] for test in report.unexplained})
    with tempfile.TemporaryDirectory() as temporary:
        again = Path(temporary) / "tests.json"
        again.write_text(json.dumps(report.unexplained), "utf-8")
        second = _pytest(options, files, variables | {AGAIN_VARIABLE: str(again)})
    return LibraryReport.from_pytest(found, second, **request)


def _pytest(
    options: Iterable[str], files: Iterable[Path], variables: dict[str, str]
) -> dict[str, Any]:
    """Run tests with the plugin, and return pytest's report."""
    with tempfile.TemporaryDirectory() as temporary:
        raw, settings = Path(temporary) / "report.json", Path(temporary) / "pytest.ini"
        settings.write_text("[pytest]\n", "utf-8")  # not those of a checkout around the environment
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", *options),
            *REPORT_OPTIONS,
            *("--json-report-file", str(raw)),
            *("-c", str(settings)),
            *("-p", "no:cacheprovider", "-p", "conformance.library_plugin"),
            *map(str, files),
        ]
        environment = clean_environment() | {
            **variables,
            "SCIPY_ARRAY_API": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(temporary) / "hypothesis"),
        }
        return run_pytest(command, environment, raw)


def _folder(package: str, distribution: str) -> Path:
    """Return the folder of an installed package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SuiteError(
            f"expected {distribution} to be installed; `pip install {distribution}` does it"
        )
    return Path(spec.origin).parent
