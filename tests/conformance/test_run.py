"""The runner on a small suite: the options it passes on, its reports and its errors."""

from __future__ import annotations

import json
import os

import pytest

from conformance import plugin, run
from conformance.report import BEGIN, END
from conformance.suite import Commits
from conformance.tiers import TIERS

POW = "array_api_tests/test_special_cases.py::test_binary[pow(abs(x1_i) < 1 and x2_i is "


@pytest.fixture
def run_small(tmp_path):
    """Run the runner on a small suite, and return its exit status and its report."""

    def run_small(suite, *arguments):
        path = tmp_path / "reports" / "report.json"
        common = ("--any-commit", "-n", "0", "--report", str(path))
        status = run.main(["--suite", str(suite.folder), *common, *arguments])
        report = json.loads(path.read_text("utf-8"))
        outcomes = {found["test"]: found["outcome"] for found in report["found"]}
        return status, report, outcomes

    return run_small


@pytest.mark.parametrize("name", ["skips.txt", "xfails.txt"])
def test_nothing_is_skipped_or_expected_to_fail(name):
    assert (run.HERE / name).read_bytes() == b""


def test_tiers_are_the_documented_ones():
    assert {name: (tier.max_examples, tier.boosted) for name, tier in TIERS.items()} == {
        "quick": (20, False),
        "ci": (100, False),
        "full": (1000, False),
        "boosted": (100, True),
    }


def test_readme_has_the_table_and_names_the_tiers():
    text = run.README.read_text("utf-8")
    assert text.index(BEGIN) < text.index(END)
    assert [name for name in TIERS if f"| `{name}` |" not in text] == []


def test_quick_draws_once_for_special_cases_and_reports_what_was_skipped(
    make_small_suite, run_small
):
    suite = make_small_suite()
    status, report, outcomes = run_small(suite, "--seed", "5", "--device", "simulated")
    assert [len(suite.draws(test)) for test in ("unary", "binary")] == [1, 1]
    assert sorted(outcomes.values()) == ["skipped", "skipped"]
    # They are not the five skipped tests of the real suite.
    assert status == 1
    assert report["counts"]["passed"] == 4
    request = report["request"]
    assert (request["seed"], request["device"], request["tier"]) == (5, "simulated:0", "quick")
    assert request["commits"]["suite"] == "unknown"
    assert set(request["versions"]) >= {"syncblob", "numpy", "hypothesis", "Python"}


@pytest.mark.long
def test_a_seed_repeats_a_run(make_small_suite, run_small):
    suite = make_small_suite()
    for _ in range(2):
        run_small(suite, "--seed", "5", "-k", "exp or add")
    first, second = (suite.draws("unary"), suite.draws("binary"))
    assert first[0] == first[1]
    assert second[0] == second[1]


@pytest.mark.long
def test_boosted_draws_many_values_and_counts_defects_of_the_suite_apart(
    make_small_suite, run_small
):
    suite = make_small_suite()
    status, report, outcomes = run_small(suite, "--tier", "boosted", "-k", "not test_skipped")
    assert [set(suite.draws("unary")), set(suite.draws("binary"))] == [
        {f"unary {value}" for value in range(10)},
        {f"binary {value} {value} {value}" for value in range(10)},
    ]
    # The three are the test called flaky and two others.
    assert (report["counts"]["passed"], report["counts"]["suite_defects"]) == (3, 2)
    assert list(outcomes.values()) == ["suite defect", "suite defect"]
    assert {test.startswith(POW) for test in outcomes} == {True}
    assert status == 0
    assert "forgets the abs; x1_i=5, x2_i=5" in report["found"][0]["message"]


@pytest.mark.long
def test_a_listed_case_still_fails_where_its_condition_is_met(make_small_suite, run_small):
    suite = make_small_suite(passes_below=3)
    status, report, outcomes = run_small(suite, "--tier", "boosted", "-k", "pow")
    assert outcomes == {
        f"{POW}+infinity) -> +0]": "suite defect",
        f"{POW}-infinity) -> +infinity]": "failed",
    }
    assert report["problems"] == ["1 failed"]
    assert status == 1


def test_six_cases_of_the_suite_are_listed_as_wrong():
    assert len(plugin.SUITE_DEFECTS) == 6
    assert all("abs(x1_i) < 1" in reason for reason in plugin.SUITE_DEFECTS.values())


def test_a_run_updates_the_table(make_small_suite, monkeypatch, tmp_path):
    suite = make_small_suite()
    readme = tmp_path / "README.md"
    readme.write_text(f"Results\n\n{BEGIN}\n{END}\n", "utf-8")
    monkeypatch.setattr(run, "README", readme)
    monkeypatch.setattr(run, "check_suite", lambda *_, **__: Commits("55fcc60", "5f847a3"))
    raw = {"library": {"device": "cpu", "version": "1"}, "exitcode": 0, "duration": 1.0}
    tests = [{"nodeid": "test_exp", "outcome": "passed"}]
    monkeypatch.setattr(run, "run_pytest", lambda *_: {**raw, "tests": tests})
    arguments = ["--suite", str(suite.folder), "--update-readme"]
    run.main([*arguments, "--report", str(tmp_path / "report.json")])
    assert "| syncblob | cpu | quick | 1 | 0 | 0 | 0 | 0 | 0 |" in readme.read_text("utf-8")


@pytest.mark.parametrize("arguments", [["-k", "exp"], ["--any-commit"]])
def test_the_table_is_for_whole_runs_of_the_pinned_suite(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        run.main([*arguments, "--update-readme"])
    assert raised.value.code == 2
    assert "--update-readme needs a whole run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "nowhere"], "nowhere"),
        (["--device", "simulated", "--module", "numpy"], "--device for syncblob alone"),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_status_2(arguments, message, capsys):
    assert run.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_suite_at_another_commit_is_refused_with_status_2(make_small_suite, capsys):
    assert run.main(["--suite", str(make_small_suite().folder)]) == 2
    assert "got unknown with unknown; --any-commit accepts it" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(run, "find_spec", lambda name: None if name == "xdist" else name)
    assert run.main([]) == 2
    assert "pytest-xdist not found; `pip install syncblob[conformance]`" in capsys.readouterr().err


def test_a_suite_that_is_not_there_is_cloned(monkeypatch, tmp_path, capsys):
    cloned = []
    monkeypatch.setattr(run, "clone_suite", cloned.append)
    # The replacement clones nothing, so the folder is still missing.
    assert run.main(["--suite", str(tmp_path / "missing")]) == 2
    assert cloned == [tmp_path / "missing"]
    assert "got a folder without array_api_tests" in capsys.readouterr().err


@pytest.mark.long
def test_a_library_that_cannot_be_imported_is_no_result(make_small_suite, tmp_path, capsys):
    suite = ["--suite", str(make_small_suite().folder), "--any-commit", "-n", "0"]
    report = tmp_path / "report.json"
    assert run.main([*suite, "--module", "no_such_library", "--report", str(report)]) == 2
    assert "got exit status 4 and no report" in capsys.readouterr().err
    assert not report.exists()


def test_what_is_said_to_another_pytest_is_not_passed_on(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-n 7")
    monkeypatch.setenv("ARRAY_API_TESTS_XFAIL_MARK", "skip")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    request = run.Request(*["syncblob", "cpu", "quick", 20, 1, None, "", {}, {}])
    environment = run.environment(request, tmp_path)
    assert "PYTEST_ADDOPTS" not in environment
    assert "ARRAY_API_TESTS_XFAIL_MARK" not in environment
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(run.HERE.parent), "elsewhere"]


def test_reports_go_to_the_build_folder_by_default():
    request = run.Request(*["syncblob", "cuda:0", "full", 1000, 1, None, "", {}, {}])
    expected = run.HERE.parent / "build" / "conformance" / "syncblob-cuda-0-full.json"
    assert run.default_path(request) == expected
