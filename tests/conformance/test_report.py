"""Conversion of pytest-json-report's output to counts, problems, a text and a row of the table."""

from __future__ import annotations

import json

import pytest

from conformance.report import BEGIN, END, SUITE_SKIPS, Report, Request, update_table

DEFECT = [{"suite_defect": "the generator forgets the abs"}]
SKIPPED = {"outcome": "skipped", "longrepr": "('file.py', 7, 'Skipped: flaky')"}


def request_for(tier="quick", **changes):
    of_run = {
        "library": "syncblob",
        "device": "cpu",
        "tier": tier,
        "max_examples": 20,
        "seed": 7,
        "selection": None,
        "started": "2026-01-02T03:04:05+00:00",
        "commits": {"suite": "55fcc60", "specification": "5f847a3"},
        "versions": {"numpy": "2.4.6"},
    }
    return Request(**of_run | changes)


def entry(outcome, **more):
    crash = {"crash": {"message": "AssertionError: wrong\nin detail"}, "outcome": "failed"}
    stages = {
        "passed": {"call": {"outcome": "passed"}},
        "skipped": {"setup": SKIPPED},
        "error": {"setup": crash},
    }
    stage = stages.get(outcome, {"setup": {"outcome": "passed"}, "call": crash})
    return {"nodeid": f"test_{outcome}", "outcome": outcome, **stage, **more}


def raw_report(*tests, skips=SUITE_SKIPS, status=0):
    return {
        "exitcode": status,
        "duration": 12.34,
        "library": {"version": "0.1.0", "device": "simulated:0"},
        "tests": [*tests, *(entry("skipped", nodeid=name) for name in sorted(skips))],
    }


def report_of(*tests, request=None, **raw):
    return Report.from_pytest(request or request_for(), raw_report(*tests, **raw))


def test_a_run_conforms_where_all_pass_but_what_the_suite_skips():
    report = report_of(entry("passed"), entry("passed", nodeid="another"))
    assert report.problems == []
    assert report.conforming
    assert report.counts == {
        "passed": 2,
        "failed": 0,
        "errors": 0,
        "xfailed": 0,
        "xpassed": 0,
        "skipped": 5,
        "suite_defects": 0,
        "total": 7,
    }


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        ("failed", "1 failed"),
        ("error", "1 errors"),
        ("xfailed", "1 xfailed"),
        ("xpassed", "1 xpassed"),
        ("skipped", "skipped, and not by the suite itself: test_skipped"),
    ],
)
def test_every_other_outcome_is_a_problem(outcome, problem):
    report = report_of(entry("passed"), entry(outcome))
    assert report.problems == [problem]
    assert not report.conforming


def test_a_skip_of_the_suite_that_is_missing_is_a_problem():
    missing, *rest = sorted(SUITE_SKIPS)
    report = report_of(entry("passed"), skips=rest)
    assert report.problems == [f"not skipped, as the suite does: {missing}"]


def test_a_selection_need_not_have_all_skips():
    assert report_of(entry("passed"), request=request_for(selection="exp"), skips=()).conforming


def test_boosted_has_no_skips():
    boosted = request_for("boosted")
    assert report_of(entry("passed"), request=boosted, skips=()).conforming
    assert len(report_of(entry("passed"), request=boosted).problems) == 5


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_a_run_that_was_cut_short_does_not_conform(status):
    report = report_of(entry("passed"), status=status)
    assert report.problems == [f"pytest ended with exit status {status}"]


def test_a_run_of_nothing_does_not_conform():
    report = report_of(request=request_for("boosted"), skips=())
    assert report.problems == ["no test was run"]


def test_defects_of_the_suite_are_counted_apart():
    report = report_of(entry("failed", user_properties=DEFECT), status=1)
    assert report.conforming
    assert (report.counts["failed"], report.counts["suite_defects"]) == (0, 1)
    assert "suite defect (1):\n- test_failed: the generator forgets the abs" in report.as_text()


def test_the_library_says_its_version_and_device():
    request = report_of(entry("passed")).request
    assert request.device == "simulated:0"
    assert request.versions == {"syncblob": "0.1.0", "numpy": "2.4.6"}


def test_text_says_what_ran_and_what_was_wrong():
    text = report_of(entry("failed"), request=request_for(selection="exp"), status=1).as_text()
    for part in (
        "syncblob on simulated:0, tier quick (20 examples, only -k 'exp'): NOT conforming",
        "0 passed, 1 failed, 0 errors, 0 xfailed, 0 xpassed, 5 skipped, 0 suite defects, 6 total",
        "seed 7, 12.3 s, started 2026-01-02T03:04:05+00:00",
        "suite at 55fcc60\nspecification at 5f847a3\n",
        "syncblob 0.1.0, numpy 2.4.6",
        "What is wrong:\n- 1 failed\n",
        "failed (1):\n- test_failed: AssertionError: wrong\n",
        "skipped (5):\n- array_api_tests/",
        ": flaky\n",
    ):
        assert part in text


def test_json_has_all_of_it():
    report = report_of(entry("error"), status=1)
    read = json.loads(json.dumps(report.as_json()))
    assert read["conforming"] is False
    assert read["request"]["seed"] == 7
    assert read["counts"]["errors"] == 1
    message = "AssertionError: wrong\nin detail"
    assert read["found"][0] == {"test": "test_error", "outcome": "error", "message": message}


def rows_of(text):
    table = text.split(BEGIN)[1].split(END)[0].strip().splitlines()[2:]
    return [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table]


def run_of(library, tier, seed):
    request = request_for(tier, library=library, seed=seed)
    return report_of(entry("passed"), request=request)


def test_a_row_is_added_and_the_text_around_is_kept():
    text = update_table(f"Before.\n\n{BEGIN}\n{END}\n\nAfter.\n", run_of("syncblob", "quick", 7))
    assert text.startswith(f"Before.\n\n{BEGIN}\n| library | device | tier | passed |")
    assert text.endswith(f"|\n{END}\n\nAfter.\n")
    expected = "syncblob simulated:0 quick 1 0 0 0 5 0 7".split()
    last = ("12 s", "syncblob 0.1.0, numpy 2.4.6", "2026-01-02")
    assert rows_of(text) == [(*expected, *last)]


def test_a_later_run_replaces_its_row_and_rows_are_sorted():
    text = f"{BEGIN}\n{END}\n"
    for library, tier, seed in (
        ("numpy", "quick", 1),
        ("syncblob", "boosted", 2),
        ("syncblob", "quick", 3),
        ("syncblob", "quick", 4),
    ):
        text = update_table(text, run_of(library, tier, seed))
    assert [(row[0], row[2], row[9]) for row in rows_of(text)] == [
        ("syncblob", "quick", "4"),
        ("syncblob", "boosted", "2"),
        ("numpy", "quick", "1"),
    ]


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END} {BEGIN}"])
def test_a_text_without_both_markers_is_refused(text):
    with pytest.raises(ValueError, match="expected the lines"):
        update_table(text, run_of("syncblob", "quick", 1))
