"""Run the array API test suite on syncblob: ``python conformance/run.py [--help]``.

With ``--suite-of``, run the tests of a library that computes with arrays of any library. The exit
status is 0 if the suite passes, 1 if it does not, and 2 if it could not run.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# For a script, Python looks for modules in its folder, and not in the one that has the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import versions
from conformance.libraries import SUITES
from conformance.library_suites import KINDS, run_library_tests
from conformance.report import ROOT, TIERS, XFAILS, as_text, report_of, run_pytest
from conformance.suite import SuiteError, check_suite, provide_suite

STANDARD = "2025.12"
_REPORTS = ROOT / "build" / "conformance"
_MODULES = ("hypothesis", "ndindex", "pytest", "pytest_jsonreport", "xdist")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parser().parse_args(argv)
    try:
        report = _report(options)
    except SuiteError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    name = f"{options.suite_of or options.tier}-{report['device'].replace(':', '-')}.json"
    path = options.report or _REPORTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"\n{as_text(report)}\nin the table of README.md:\n{as_row(report)}\nwritten: {path}")
    return 1 if report["problems"] else 0


def _report(options: argparse.Namespace) -> dict[str, Any]:
    """Run what is asked for, and return the report."""
    if missing := [name for name in _MODULES if find_spec(name) is None]:
        raise SuiteError(
            f"expected the packages of the suite, {', '.join(missing)} not found; "
            "`pip install syncblob[conformance]` installs them"
        )
    request: dict[str, Any] = {
        "device": _device(options.device),
        "selection": options.k,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if options.suite_of is not None:
        names = ("syncblob", SUITES[options.suite_of].distribution, "array-api-strict", "numpy")
        request |= {"suite": options.suite_of, "versions": versions(names)}
        return run_library_tests(request, options.n)
    suite = provide_suite(options.suite)
    commits = check_suite(suite, any_commit=options.any_commit)
    request |= {
        "tier": options.tier,
        "seed": random.randrange(2**32) if options.seed is None else options.seed,  # noqa: S311  # no secret
        "commits": commits._asdict(),
        "versions": versions(("numpy", "array-api-compat", "hypothesis", "pytest")),
    }
    return run_suite(suite, request, options.n)


def run_suite(suite: Path, request: dict[str, Any], processes: str) -> dict[str, Any]:
    """Run the suite in a separate process and return the report.

    SuiteError: if pytest ended without a report.
    """
    tier = TIERS[request["tier"]]
    xfails = XFAILS.get(request["device"].partition(":")[0])
    options = {
        "-c": suite / "pytest.ini",
        "--rootdir": suite,
        "-n": processes,
        "-p": "conformance.plugin",
        "--max-examples": tier.max_examples,
        "--hypothesis-seed": request["seed"],
        "--skips-file": os.devnull,
        "--xfails-file": ROOT / "conformance" / xfails if xfails else os.devnull,
        "--syncblob-device": request["device"],
    }
    if request["selection"]:
        options["-k"] = request["selection"]
    command = [
        *(sys.executable, "-m", "pytest", str(suite / "array_api_tests")),
        *(str(part) for option in options.items() for part in option),
        "--hypothesis-disable-deadline",
        *(["--boosted"] if tier.boosted else []),
    ]
    variables = {"ARRAY_API_TESTS_MODULE": "syncblob", "ARRAY_API_TESTS_VERSION": STANDARD}
    with tempfile.TemporaryDirectory() as folder:
        # Without the user's settings of the suite, which are not for this run.
        return report_of(
            request, run_pytest(command, variables, Path(folder), ["ARRAY_API_TESTS_"])
        )


def as_row(report: dict[str, Any]) -> str:
    """Return the row of a run in the tables of README.md."""
    counts = Counter(report["counts"])
    packages = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    if "suite" in report:
        kinds, strict = Counter(x[1] for x in report["found"]), Counter(report["reference_counts"])
        cells = [report["suite"], report["device"], counts["passed"], len(report["found"])]
        cells += [*(kinds[kind] for kind in KINDS), counts["skipped"], counts["xfailed"]]
        cells += [strict["passed"], strict["failed"] + strict["error"], strict["skipped"]]
    else:
        names = ("passed", "failed", "error", "xfailed", "skipped")
        cells = [report["device"], report["tier"], *(counts[name] for name in names)]
        cells.append(report["seed"])
    cells += [f"{report['seconds']} s", packages, report["started"][:10]]
    return f"| {' | '.join(map(str, cells))} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    tiers = ", ".join(f"{name} {tier.max_examples}" for name, tier in TIERS.items())
    add("--tier", choices=TIERS, default="quick", help=f"how many examples a test: {tiers}")
    add("--device", default="cpu", help="syncblob's default device (default: cpu)")
    add("--suite", type=Path, help="folder of the suite; cloned into it if it is not there")
    add("--any-commit", action="store_true", help="accept another suite than the pinned one")
    add("--seed", type=int, help="hypothesis's seed (default: a random one, which is reported)")
    add("-n", default="auto", metavar="N", help="processes (default: one for each CPU)")
    add("-k", metavar="EXPRESSION", help="only the tests that match, as in pytest")
    add("--suite-of", choices=SUITES, help="run the tests of this library instead, as installed")
    add("--report", type=Path, help="where the report goes, as JSON")
    return parser


def _device(device: str) -> str:
    """Return the full name of the device, after a check that it can be used."""
    import syncblob

    try:
        with syncblob.use_device(device):
            return str(syncblob.default_device())
    except (ValueError, syncblob.NoDeviceError) as error:
        raise SuiteError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
