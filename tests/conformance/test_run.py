"""The runner on a small suite: the options it passes on, its reports and its errors."""

import json

import pytest

from conformance import run
from conformance.report import SUITE_SKIPS, report_of
from conformance.suite import suite_folder

DEVICES = ["cpu", "simulated", pytest.param("cuda:0", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_the_real_suite_passes(device, tmp_path):
    suite = suite_folder()
    if not suite.is_dir():
        pytest.skip("no suite found: set ARRAY_API_TESTS_DIR")
    path = tmp_path / "report.json"
    options = {"--suite": suite, "--device": device, "--seed": 0, "-n": 2, "--report": path}
    assert run.main([str(part) for option in options.items() for part in option]) == 0
    assert json.loads(path.read_text("utf-8"))["counts"] == {"passed": 1379, "skipped": 5}


@pytest.fixture
def run_small(make_small_suite, tmp_path):
    """Run the runner on a small suite, and return its exit status and its report."""
    suite = make_small_suite()

    def run_small(*arguments):
        path = tmp_path / "reports" / "report.json"
        common = ("--any-commit", "-n", "0", "--report", str(path))
        status = run.main(["--suite", str(suite.folder), *common, *arguments])
        return status, json.loads(path.read_text("utf-8"))

    return suite, run_small


@pytest.mark.long
def test_quick_draws_once_for_special_cases_and_a_seed_repeats_a_run(run_small, monkeypatch):
    # What is meant for another pytest, and the user's settings of the suite, are not passed on.
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("ARRAY_API_TESTS_VERSION", "1.0")
    suite, run_it = run_small
    for _ in range(2):
        status, report = run_it("--seed", "5", "--device", "simulated")
    draws = [suite.draws(test) for test in ("unary", "binary", "listed")]
    assert [len(drawn) for drawn in draws] == [2, 2, 2]
    assert all(first == second for first, second in draws)
    # Two tests are skipped, and they are not the five of the real suite.
    assert status == 1
    assert report["counts"] == {"passed": 3, "skipped": 2}
    assert (report["seed"], report["device"], report["tier"]) == (5, "simulated:0", "quick")
    assert report["commits"]["suite"] == "unknown"
    assert report["versions"].keys() >= {"syncblob", "numpy", "hypothesis", "python"}


@pytest.mark.long
def test_boosted_draws_many_values_but_where_the_suite_is_wrong(run_small):
    suite, run_it = run_small
    status, report = run_it("--tier", "boosted", "-k", "not test_skipped")
    assert set(suite.draws("unary")) == {f"unary {value}" for value in range(10)}
    assert set(suite.draws("binary")) == {f"binary {value} {value} {value}" for value in range(10)}
    assert len(suite.draws("listed")) == 1
    # With the test called flaky.
    assert (status, report["counts"]) == (0, {"passed": 4})


# --- reports --------------------------------------------------------------------------------------


def entry(outcome, name=None):
    stage = {"outcome": outcome, "longrepr": "('file.py', 7, 'Skipped: flaky')"}
    if outcome in {"failed", "error"}:
        stage["crash"] = {"message": "AssertionError: wrong\nin detail"}
    return {"nodeid": name or f"test_{outcome}", "outcome": outcome, "call": stage}


def report_for(*tests, skips=SUITE_SKIPS, status=0, tier="quick", selection=None):
    request = {"tier": tier, "selection": selection, "versions": {"numpy": "2.4.6"}}
    library = {"version": "0.1.0", "device": "simulated:0"}
    tests = [*tests, *(entry("skipped", name) for name in sorted(skips))]
    raw = {"exitcode": status, "duration": 12.34, "library": library, "tests": tests}
    return report_of(request, raw)


@pytest.mark.parametrize(
    ("report", "problems"),
    [
        (report_for(entry("passed")), []),
        (report_for(entry("failed")), ["1 failed"]),
        (report_for(entry("error")), ["1 error"]),
        (report_for(entry("xpassed")), ["1 xpassed"]),
        (report_for(entry("skipped")), ["skipped, and not by the suite itself: test_skipped"]),
        (
            report_for(skips=[*SUITE_SKIPS][1:]),
            [f"not skipped, as the suite does: {next(iter(SUITE_SKIPS))}"],
        ),
        (report_for(entry("passed"), selection="exp", skips=()), []),
        (report_for(entry("passed"), tier="boosted", skips=()), []),
        (report_for(entry("passed"), status=3), ["pytest ended with exit status 3"]),
        (report_for(tier="boosted", skips=()), ["no test was run"]),
    ],
)
def test_what_is_wrong_with_a_run(report, problems):
    assert report["problems"] == problems


# --- what cannot be -------------------------------------------------------------------------------


def test_a_device_that_is_not_there_is_refused_with_status_2(capsys):
    assert run.main(["--device", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_suite_at_another_commit_is_refused_with_status_2(make_small_suite, capsys):
    assert run.main(["--suite", str(make_small_suite().folder)]) == 2
    assert "--any-commit" in capsys.readouterr().err
