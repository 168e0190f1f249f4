"""Run a project's own tests of array libraries on syncblob, and on array-api-strict beside it."""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from conformance.libraries import DEVICE_VARIABLE, REFERENCE, SUITE_VARIABLE, SUITES
from conformance.library_report import LibraryReport
from conformance.process import REPORT_OPTIONS, clean_environment, run_pytest
from conformance.suite import SuiteError

__all__ = ["run_library_tests"]


def run_library_tests(
    name: str, device: str, processes: str, selection: str | None
) -> LibraryReport:
    """Run the tests of an installed project and return what came out.

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
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory() as temporary:
        raw, settings = Path(temporary) / "report.json", Path(temporary) / "pytest.ini"
        settings.write_text("[pytest]\n", "utf-8")  # not those of a checkout around the environment
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-n", processes),
            *REPORT_OPTIONS,
            *("--json-report-file", str(raw)),
            *("-c", str(settings), "--rootdir", str(package.parent)),
            *("-p", "no:cacheprovider", "-p", "conformance.library_plugin"),
            *(("-k", selection) if selection else ()),
            *map(str, files),
        ]
        environment = clean_environment() | {
            SUITE_VARIABLE: name,
            DEVICE_VARIABLE: device,
            "SCIPY_ARRAY_API": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(temporary) / "hypothesis"),
        }
        found = run_pytest(command, environment, raw)
    distributions = ("syncblob", suite.distribution, "array-api-strict", "numpy", "pytest")
    return LibraryReport.from_pytest(
        found,
        suite=name,
        device=device,
        selection=selection,
        started=started,
        versions={one: version(one) for one in distributions},
    )


def _folder(package: str, distribution: str) -> Path:
    """Return the folder of an installed package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SuiteError(
            f"expected {distribution} to be installed; `pip install {distribution}` does it"
        )
    return Path(spec.origin).parent
