"""The runner on the suite, its reports and its errors."""

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


def test_another_suite_is_refused_with_status_2(tmp_path, capsys):
    assert run.main(["--suite", str(tmp_path)]) == 2
    assert "without array_api_tests" in capsys.readouterr().err
