"""The runner of other libraries' tests: its patches, its runs, and the failures that are ours."""

import importlib.util
import json
from pathlib import Path

import pytest

from conformance import libraries, run
from conformance.libraries import LIBRARIES, SUITES, Patch
from conformance.library_suites import CONST, LEFT_OUT, OURS, TOO, library_report


@pytest.mark.long
def test_xarrays_tests_run_with_syncblob_and_its_files_stay(tmp_path):
    xarray = pytest.importorskip("xarray", reason="pip install 'syncblob[consumers]'")
    pytest.importorskip("array_api_strict")
    tests = Path(xarray.__file__).parent / "tests"
    before = {path: path.read_bytes() for path in SUITES["xarray"].files(tests.parent)}
    assert sorted(path.name for path in before) == [
        "test_array_api.py",
        "test_duck_array_wrapping.py",
    ]
    report = tmp_path / "report.json"
    names = "test_arithmetic or (TestDataArrayMethods and (test_std or test_cumsum))"
    arguments = ["--suite-of", "xarray", "--device", "simulated", "-n", "0", "-k", names]
    assert run.main([*arguments, "--report", str(report)]) == 0
    found = json.loads(report.read_text("utf-8"))
    # array-api-strict has neither ddof nor cumsum.
    assert (found["counts"], found["reference_counts"]) == (
        {"passed": 5},
        {"passed": 1, "failed": 4},
    )
    assert (found["device"], found["problems"]) == ("simulated:0", [])
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("name", SUITES)
def test_every_patch_fits_what_is_installed(name):
    suite = SUITES[name]
    if importlib.util.find_spec(suite.package) is None:
        pytest.skip(f"{suite.distribution} is not installed")
    sources = {}
    for patch in suite.patches:
        package, *rest = patch.module.split(".")
        folder = Path(importlib.util.find_spec(package).origin).parent
        path = folder.joinpath(*rest).with_suffix(".py")
        source = sources.setdefault(patch.module, path.read_text("utf-8"))
        sources[patch.module] = patch.apply(source)
    for module, source in sources.items():
        compile(source, module, "exec")


def test_a_patch_for_another_version_is_refused():
    with pytest.raises(ValueError, match=r"some\.module.* 2 times"):
        Patch("some.module", "old", "new").apply("old old")


def test_a_project_that_is_not_installed_is_named(monkeypatch, capsys):
    missing = SUITES["xarray"]._replace(package="no_such_package")
    monkeypatch.setitem(libraries.SUITES, "xarray", missing)
    assert run.main(["--suite-of", "xarray"]) == 2
    assert "pip install xarray" in capsys.readouterr().err


def outcome(test, library, result, message="AssertionError"):
    stage = {"outcome": result, "crash": {"message": message}, "longrepr": message}
    return {"nodeid": f"test_f.py::{test}[{library}-float64]", "outcome": result, "call": stage}


def report_of(*tests, status=1):
    raw = {"tests": list(tests), "exitcode": status, "duration": 1.5}
    request = {"suite": "scipy", "device": "cpu", "versions": {"scipy": "1"}}
    return library_report(request | {"started": "2026-01-01"}, raw)


def test_failures_are_told_apart():
    ours, strict = LIBRARIES
    tests = {"ours": "passed", "too": "failed", "skipped": "skipped", "writes": "passed"}
    tests["test_zoom_1_gh20999_output"] = "passed"
    said = {"writes": "ValueError: buffer source array is read-only"}
    report = report_of(
        outcome("good", ours, "passed"),
        *(outcome(test, ours, "failed", said.get(test, "no")) for test in tests),
        *(outcome(test, strict, result) for test, result in tests.items()),
    )
    assert [kind for _, kind, _ in report["found"]] == [OURS, TOO, LEFT_OUT, CONST, CONST]
    (problem,) = report["problems"]
    assert "test_f.py::ours[syncblob-float64]" in problem
    assert run.as_row(report).startswith(
        "| scipy | cpu | 1 | 5 | 1 | 2 | 0 | 1 | 1 | 0 | 0 | 3 | 1 | 1 |"
    )


def test_a_run_in_which_nothing_passed_is_no_success():
    assert report_of(status=5)["problems"] == ["pytest ended with exit status 5", "no test passed"]
