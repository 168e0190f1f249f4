"""The runner of other libraries' tests: its patches, its runs, and the failures that are ours."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from conformance import libraries, library_run, run
from conformance.libraries import LIBRARIES, SUITES, Patch
from conformance.library_report import CONST, ITERATION, LEFT_OUT, OURS, TOO, LibraryReport
from conformance.library_report import update_library_table as update

TABLE = (
    "<!-- libraries: run.py --suite-of NAME --update-readme writes this table -->\n"
    "<!-- end of libraries -->\n"
)


@pytest.mark.long
def test_xarrays_tests_run_with_syncblob_and_its_files_stay(tmp_path, monkeypatch, capfd):
    xarray = pytest.importorskip("xarray", reason="pip install 'syncblob[consumers]'")
    pytest.importorskip("array_api_strict")
    tests = Path(xarray.__file__).parent / "tests"
    before = {path: path.read_bytes() for path in SUITES["xarray"].files(tests.parent)}
    assert sorted(path.name for path in before) == [
        "test_array_api.py",
        "test_duck_array_wrapping.py",
    ]
    readme, report = tmp_path / "README.md", tmp_path / "report.json"
    readme.write_text(TABLE, "utf-8")
    monkeypatch.setattr(run, "README", readme)
    names = "test_arithmetic or (TestDataArrayMethods and (test_std or test_cumsum))"
    arguments = ["--suite-of", "xarray", "--device", "simulated", "-n", "0", "-k", names]
    assert run.main([*arguments, "--report", str(report)]) == 0
    found = json.loads(report.read_text("utf-8"))
    # array-api-strict has neither ddof nor cumsum.
    assert (found["counts"], found["reference_counts"]) == (
        {"passed": 5},
        {"passed": 1, "failed": 4},
    )
    assert (found["device"], found["conforming"]) == ("simulated:0", True)
    assert "no failure is ours" in capfd.readouterr().out
    assert {path: path.read_bytes() for path in before} == before


PROJECT = """
import pytest
import syncblob

either = pytest.mark.parametrize("library", ["syncblob", "array_api_strict"])

@either
def test_good(library):
    pass

@either
def test_unpacks(library):
    first, _ = syncblob.ones(2)
    assert library != "syncblob" or isinstance(first, syncblob.Blob)

@either
def test_unpacks_and_is_wrong(library):
    first, _ = syncblob.ones(2)
    assert library != "syncblob" or float(first) == 2

@either
def test_unpacks_more_than_the_standard_has(library):
    if library == "array_api_strict":
        pytest.skip()
    test_unpacks(library)
"""


def test_failures_of_iteration_are_proved_by_a_second_run(tmp_path, monkeypatch):
    pytest.importorskip("array_api_strict")
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "test_project.py").write_text(PROJECT, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    project = SUITES["xarray"]._replace(distribution="pytest", package="project", mentions="either")
    monkeypatch.setitem(libraries.SUITES, "xarray", project)
    runs = []

    def recorded(*arguments):
        runs.append(library_run_pytest(*arguments))
        return runs[-1]

    library_run_pytest = library_run.run_pytest
    monkeypatch.setattr(library_run, "run_pytest", recorded)
    report = library_run.run_library_tests("xarray", "cpu", "0", None)
    names = [one.test.partition("::")[2].partition("[")[0] for one in report.failures]
    assert {*zip(names, [one.kind for one in report.failures], strict=True)} == {
        ("test_unpacks", ITERATION),
        ("test_unpacks_and_is_wrong", OURS),
        ("test_unpacks_more_than_the_standard_has", ITERATION),
    }
    assert [len(run["tests"]) for run in runs] == [8, 3]
    text = update(TABLE, report)
    assert text.count("| xarray | cpu | 1 | 3 | 1 | 0 | 2 | 0 | 0 | 0 | 0 | 3 | 0 | 1 |") == 1


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
    with pytest.raises(ValueError, match=r"'old' once in some\.module, found it 2 times"):
        Patch("some.module", "old", "new").apply("old old")


def test_a_project_that_is_not_installed_is_named(monkeypatch, capsys):
    missing = SUITES["xarray"]._replace(package="no_such_package")
    monkeypatch.setitem(libraries.SUITES, "xarray", missing)
    assert run.main(["--suite-of", "xarray"]) == 2
    assert "`pip install xarray` does it" in capsys.readouterr().err


def outcome(test, library, result, message="AssertionError"):
    stage = {"outcome": result, "crash": {"message": message}, "longrepr": message}
    return {"nodeid": f"test_f.py::{test}[{library}-float64]", "outcome": result, "call": stage}


def report_of(*tests, status=1):
    raw = {"tests": list(tests), "exitcode": status, "duration": 1.5}
    options = {"suite": "scipy", "device": "cpu", "selection": None, "versions": {"scipy": "1"}}
    return LibraryReport.from_pytest(raw, started="2026-01-01", **options)


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
    assert [failure.kind for failure in report.failures] == [OURS, TOO, LEFT_OUT, CONST, CONST]
    assert (report.conforming, report.problems) == (False, ["1 failures are ours"])
    assert "- test_f.py::ours[syncblob-float64]: no" in report.as_text()
    text = update(update(TABLE, report), report)
    assert text.count("| scipy | cpu | 1 | 5 | 1 | 2 | 0 | 1 | 1 | 0 | 0 | 3 | 1 | 1 |") == 1


def test_a_run_in_which_nothing_passed_is_no_success():
    assert report_of(status=5).problems == ["pytest ended with exit status 5", "no test passed"]


@pytest.mark.parametrize(
    ("test", "about"),
    [
        ("test_array_api_strict[numpy]", ()),
        ("test_f[syncblob-1]", ("syncblob",)),
        ("test_f[array_api_strict]", ("array_api_strict",)),
        ("test_f[array_api_strictest]", ()),
        ("test_f[check(array_namespace=syncblob,device_name=None)]", ("syncblob",)),
    ],
)
def test_a_test_is_about_the_libraries_among_its_parameters(test, about):
    assert tuple(name for name in LIBRARIES if libraries.is_about(name, test)) == about


def test_devices_of_array_api_strict_are_none_of_a_test():
    ours, theirs = "f[syncblob-None-float32]", "f[array_api_strict-device1-float32]"
    assert libraries.equivalent(ours) == libraries.equivalent(theirs)
