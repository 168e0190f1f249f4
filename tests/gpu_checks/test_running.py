"""Steps run under limits and continue after a failure, and results are written at once."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from gpu_checks.running import Job, NotHereError, Place, Record, Step, run_job, run_steps

FILE = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2]); "


@pytest.fixture
def place(tmp_path):
    return Place(dict(os.environ), tmp_path)


def job(name, code, *arguments, seconds=20.0, **keywords):
    return Job(name, [sys.executable, "-c", code, *map(str, arguments)], seconds, **keywords)


def step(number, jobs, *, seconds=60.0, **keywords):
    return Step(number, f"step {number}", seconds, lambda: jobs, **keywords)


def run(tmp_path, place, *steps, limit=60.0):
    """Run steps. Return whether all passed, and the summary."""
    out = tmp_path / "out"
    good = run_steps(steps, Record(out, {"model": None}), place, limit=limit)
    return good, json.loads((out / "summary.json").read_text())


def statuses(summary):
    return {name: each["status"] for name, each in summary["steps"].items()}


def test_what_a_process_says_and_writes_is_kept(place, tmp_path):
    found = tmp_path / "found.json"
    code = FILE + "print('said'); sys.exit(3)"
    result, output = run_job(job("one", code, found, '{"line": "1 thing"}', found=found), place)
    assert (result["status"], result["exit"], result["found"]) == ("failed", 3, {"line": "1 thing"})
    assert output == "said\n"
    assert result["tail"] == output


@pytest.mark.long
def test_a_process_over_its_limit_is_stopped_and_what_it_has_written_counts(place, tmp_path):
    found, end = tmp_path / "found.json", tmp_path / "end"
    code = FILE + (
        "import time, subprocess, pathlib;"
        "print('begun', flush=True);"
        "subprocess.Popen([sys.executable, '-c', "
        "f'import time, pathlib; time.sleep(3); pathlib.Path({sys.argv[3]!r}).touch()']);"
        "time.sleep(60)"
    )
    start = time.monotonic()
    result, output = run_job(job("slow", code, found, "[1]", end, found=found, seconds=2), place)
    assert time.monotonic() - start < 10
    assert (result["status"], result["found"]) == ("cut off", [1])
    assert "begun" in output
    # The process that it started has ended too.
    time.sleep(max(0, start + 5 - time.monotonic()))
    assert not end.exists()


@pytest.mark.long
def test_a_process_that_ignores_the_interrupt_is_killed(place):
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    start = time.monotonic()
    result, _ = run_job(job("deaf", code, seconds=2), place)
    assert time.monotonic() - start < 8
    assert result["status"] == "cut off"


@pytest.mark.long
def test_a_process_that_is_interrupted_can_say_what_it_knows(place):
    # If these tests run in the background of a shell, the process ignores the signal.
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: time.sleep(60)\n"
        "except KeyboardInterrupt: print('as far as I came'); raise SystemExit(0)"
    )
    result, output = run_job(job("polite", code, seconds=3), place)
    assert (result["status"], output) == ("cut off", "as far as I came\n")


def test_a_failure_stops_nothing(place, tmp_path, capsys):
    def broken():
        raise ZeroDivisionError

    def missing():
        raise NotHereError("needs a second GPU")

    good, summary = run(
        tmp_path,
        place,
        step(1, [job("bad", "raise SystemExit(1)"), job("fine", "")]),
        Step(2, "broken", 5, broken),
        Step(3, "missing", 5, missing),
        step(4, [Job("no program", ["/does/not/exist"], 5)]),
        step(5, [job("bytes", "import os; os.write(1, bytes([255]))")]),
        step(6, [job("fine", "")]),
    )
    assert not good
    assert statuses(summary) == {
        "step 1": "failed",
        "broken": "failed",
        "missing": "not here",
        "step 4": "failed",
        "step 5": "passed",
        "step 6": "passed",
    }
    assert "ZeroDivisionError" in summary["steps"]["broken"]["why"]
    assert summary["steps"]["missing"]["why"] == "needs a second GPU"
    jobs = summary["steps"]["step 1"]["jobs"]
    assert {name: each["status"] for name, each in jobs.items()} == {
        "bad": "failed",
        "fine": "passed",
    }
    assert "step 6: passed" in capsys.readouterr().out


def test_all_that_passes_is_good_and_what_is_not_here_is_no_failure(place, tmp_path):
    def missing():
        raise NotHereError("not installed")

    good, _ = run(tmp_path, place, step(1, [job("fine", "")]), Step(2, "missing", 5, missing))
    assert good


def test_the_summary_is_written_after_each_job(place, tmp_path):
    # The second job reads the known results of the first job and of itself.
    code = (
        "import json, sys; known = json.load(open(sys.argv[1]))['steps']['step 1'];"
        "print(known['status'], known['jobs'])"
    )
    path = tmp_path / "out" / "summary.json"
    _, summary = run(
        tmp_path,
        place,
        step(1, [job("first", "print('hello')"), job("second", code + "; sys.exit(1)", path)]),
    )
    tail = summary["steps"]["step 1"]["jobs"]["second"]["tail"]
    assert tail.startswith("cut off {'first': {'status': 'passed'")
    assert "hello" in (tmp_path / "out" / "log.txt").read_text()


@pytest.mark.long
def test_what_has_no_time_left_is_not_run_and_that_is_said(place, tmp_path):
    slow = job("slow", "import time; time.sleep(60)")
    good, summary = run(
        tmp_path, place, step(1, [slow, job("next", "")]), step(2, [slow]), limit=3.0
    )
    assert not good
    assert statuses(summary) == {"step 1": "cut off, not run", "step 2": "not run"}
    assert summary["steps"]["step 2"]["why"] == "no time is left"


@pytest.mark.long
def test_a_step_has_a_limit_of_its_own(place, tmp_path):
    slow = job("slow", "import time; time.sleep(60)")
    _, summary = run(tmp_path, place, step(1, [slow], seconds=3), step(2, [job("fine", "")]))
    assert statuses(summary) == {"step 1": "cut off", "step 2": "passed"}


def test_jobs_run_at_once_where_a_step_says_so(place, tmp_path):
    # Each waits for the other's file.
    code = (
        "import pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)"
    )
    a, b = tmp_path / "a", tmp_path / "b"
    good, _ = run(
        tmp_path, place, step(1, [job("a", code, a, b), job("b", code, b, a)], together=2)
    )
    assert good


def test_what_follows_a_job_may_fail(place, tmp_path):
    def fails():
        raise LookupError("no results")

    good, summary = run(tmp_path, place, step(1, [job("fine", "")], after_job=fails))
    assert not good
    assert "no results" in summary["steps"]["step 1"]["jobs"]["after fine"]["why"]
