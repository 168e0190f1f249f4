"""Run the array API test suite on syncblob: ``python conformance/run.py [--help]``.

With ``--suite-of``, run the tests of a library that computes with arrays of any library. The exit
status is 0 if the suite passes, 1 if it does not, and 2 if it could not run.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

# For a script, Python looks for modules in its folder, and not in the one that has the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.libraries import SUITES
from conformance.library_report import update_library_table
from conformance.library_run import run_library_tests
from conformance.process import REPORT_OPTIONS, clean_environment, run_pytest
from conformance.report import Report, Request, update_table
from conformance.suite import (
    SuiteError,
    check_suite,
    clone_suite,
    describe_commit,
    find_suite,
    suite_folder,
)
from conformance.tiers import TIERS

if TYPE_CHECKING:
    from conformance.library_report import LibraryReport

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
SKIPS, XFAILS = HERE / "skips.txt", HERE / "xfails.txt"
STANDARD = "2025.12"
_REPORTS = HERE.parent / "build" / "conformance"

_NEEDED = {
    "hypothesis": "hypothesis",
    "ndindex": "ndindex",
    "pytest": "pytest",
    "pytest_jsonreport": "pytest-json-report",
    "xdist": "pytest-xdist",
}
_VERSIONS = ("numpy", "array-api-compat", "hypothesis", "pytest")


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.update_readme and (options.k or options.any_commit):
        parser.error(
            "--update-readme needs a whole run of the pinned suite: no -k, no --any-commit"
        )
    try:
        _check_packages()
        device = _device(options.module, options.device)
        if options.suite_of is not None:
            return _run_suite_of(options, device)
        suite = find_suite(options.suite)
        if suite is None:
            suite = suite_folder(options.suite)
            print(f"cloning the suite into {suite}")
            clone_suite(suite)
        commits = check_suite(suite, any_commit=options.any_commit)
        request = Request(
            library=options.module,
            device=device,
            tier=options.tier,
            max_examples=TIERS[options.tier].max_examples,
            seed=random.randrange(2**32) if options.seed is None else options.seed,  # noqa: S311  # no secret
            selection=options.k,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            commits={**commits._asdict(), **_own_commit(options.module)},
            versions=_versions(options.module),
        )
        report = run_suite(suite, request, options.n)
    except SuiteError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    print(f"\n{report.as_text()}")
    print("written:", *write(report, options.report or default_path(request)))
    if options.update_readme:
        README.write_text(update_table(README.read_text("utf-8"), report), "utf-8")
    return 0 if report.conforming else 1


def _run_suite_of(options: argparse.Namespace, device: str) -> int:
    """Run the tests of a library, and return the exit status."""
    report = run_library_tests(options.suite_of, device, options.n, options.k)
    name = f"{options.suite_of}-{device.replace(':', '-')}.json"
    print(f"\n{report.as_text()}")
    print("written:", *write(report, options.report or _REPORTS / name))
    if options.update_readme:
        README.write_text(update_library_table(README.read_text("utf-8"), report), "utf-8")
    return 0 if report.conforming else 1


def run_suite(suite: Path, request: Request, processes: str) -> Report:
    """Run the suite in a separate process and return the report.

    Raises
    ------
    SuiteError
        If pytest ended without a report.
    """
    with tempfile.TemporaryDirectory() as temporary:
        raw = Path(temporary) / "report.json"
        found = run_pytest(
            command(suite, request, processes, raw), environment(request, Path(temporary)), raw
        )
    return Report.from_pytest(request, found)


def command(suite: Path, request: Request, processes: str, raw: Path) -> list[str]:
    """Return the command that runs the suite and writes the report `raw`."""
    options = {
        "-c": suite / "pytest.ini",
        "--rootdir": suite,
        "-n": processes,
        "--max-examples": request.max_examples,
        "--hypothesis-seed": request.seed,
        "--skips-file": SKIPS,
        "--xfails-file": XFAILS,
        "--json-report-file": raw,
    }
    return [
        *(sys.executable, "-m", "pytest", str(suite / "array_api_tests"), "-q"),
        *("-p", "no:cacheprovider", "-p", "conformance.plugin"),
        *(str(part) for option in options.items() for part in option),
        "--hypothesis-disable-deadline",
        *REPORT_OPTIONS,
        *(("--boosted",) if TIERS[request.tier].boosted else ()),
        *(("--syncblob-device", request.device) if request.library == "syncblob" else ()),
        *(("-k", request.selection) if request.selection else ()),
    ]


def environment(request: Request, storage: Path) -> dict[str, str]:
    """Return the environment of the suite."""
    # Leave out the user's settings of the suite, which are not for this run.
    return clean_environment(["ARRAY_API_TESTS_"]) | {
        "ARRAY_API_TESTS_MODULE": request.library,
        "ARRAY_API_TESTS_VERSION": STANDARD,
        "HYPOTHESIS_STORAGE_DIRECTORY": str(storage / "hypothesis"),
    }


def default_path(request: Request) -> Path:
    """Return the default path of a report."""
    name = f"{request.library}-{request.device.replace(':', '-')}-{request.tier}.json"
    return _REPORTS / name


def write(report: Report | LibraryReport, path: Path) -> tuple[Path, Path]:
    """Write a report as JSON, and as text beside it; return both paths."""
    text_path = path.with_suffix(".txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report.as_json(), indent=1) + "\n", "utf-8")
    text_path.write_text(report.as_text(), "utf-8")
    return path, text_path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    tiers = ", ".join(f"{tier.name} {tier.max_examples}" for tier in TIERS.values())
    add("--tier", choices=TIERS, default="quick", help=f"how many examples a test: {tiers}")
    add("--device", default="cpu", help="syncblob's default device (default: cpu)")
    add("--suite", type=Path, help="folder of the suite; cloned into it if it is not there")
    add("--any-commit", action="store_true", help="accept another suite than the pinned one")
    add("--seed", type=int, help="hypothesis's seed (default: a random one, which is reported)")
    add("-n", default="auto", metavar="N", help="processes (default: one for each CPU)")
    add("-k", metavar="EXPRESSION", help="only the tests that match, as in pytest")
    add("--module", default="syncblob", help="another array library, for comparison")
    add("--suite-of", choices=SUITES, help="run the tests of this library instead, as installed")
    add("--report", type=Path, help="where the JSON report goes; the text goes beside it")
    add("--update-readme", action="store_true", help="put the counts into conformance/README.md")
    return parser


def _check_packages() -> None:
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise SuiteError(
            f"expected the packages of the suite, {', '.join(missing)} not found; "
            "`pip install syncblob[conformance]` installs them"
        )


def _device(module: str, device: str) -> str:
    """Return the full name of the device, after a check that it can be used."""
    if module != "syncblob":
        if device != "cpu":
            raise SuiteError(f"expected --device for syncblob alone, got it with {module}")
        return device
    import syncblob

    try:
        with syncblob.use_device(device):
            return str(syncblob.default_device())
    except (ValueError, syncblob.NoDeviceError) as error:
        raise SuiteError(str(error)) from error


def _own_commit(module: str) -> dict[str, str]:
    """Return the commit of syncblob if it is imported from this checkout."""
    spec = find_spec(module)
    if module != "syncblob" or spec is None or spec.origin is None:
        return {}
    if not Path(spec.origin).resolve().is_relative_to(HERE.parent):
        return {}
    return {module: describe_commit(HERE.parent)}


def _versions(module: str) -> dict[str, str]:
    """Return the versions of the packages that a run depends on, except the library itself."""
    versions = {}
    for package in _VERSIONS:
        if package != module:
            try:
                versions[package] = version(package)
            except PackageNotFoundError:
                continue
    return {**versions, "Python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main())
