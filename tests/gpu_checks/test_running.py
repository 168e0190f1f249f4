"""Jobs run under limits and continue after a failure, and results are written at once."""

import fcntl
import json
import os
import subprocess
import sys
import time

import pytest

from gpu_checks import running
from gpu_checks.journal import summary
from gpu_checks.running import Job, Record, run_jobs

FILE = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2]); "


def job(name, code, *arguments, step="step", seconds=20.0, **keywords):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return Job(step, name, command, seconds, **keywords)


@pytest.fixture
def run(tmp_path):
    """Return a function that runs jobs; it returns whether all passed, and their results."""

    def run(*jobs, limit=60.0, together=None):
        record = Record(tmp_path / "out", {"model": None}, jobs)
        good = run_jobs(jobs, record, dict(os.environ), limit=limit, together=together or {})
        return good, json.loads((tmp_path / "out" / "summary.json").read_text())["jobs"]

    return run


def statuses(results):
    return {name: each["status"] for name, each in results.items()}


def test_what_a_process_says_and_writes_is_kept(run, tmp_path):
    found = tmp_path / "found.json"
    code = FILE + "print('said'); sys.exit(3)"
    good, results = run(job("one", code, found, '{"line": "1 thing"}', found=found))
    result = results["step/one"]
    assert not good
    assert (result["status"], result["exit"], result["found"]) == ("failed", 3, {"line": "1 thing"})
    assert result["tail"] == (tmp_path / "out" / "step-one.log").read_text() == "said\n"


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Give a file: when the first process has made it, its time is over."""
    path, limits = tmp_path / "begun", []

    class Process(subprocess.Popen):
        def wait(self, timeout=None):
            while not path.exists():
                time.sleep(0.01)
            limits.append(timeout)
            if len(limits) == 1:
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait(60)

    monkeypatch.setattr(running.subprocess, "Popen", Process)
    yield path
    assert limits[:2] == [1.5, 0.5]


def test_a_process_over_its_limit_is_stopped_and_costs_the_others_nothing(run, tmp_path, begun):
    found, lock = tmp_path / "found.json", tmp_path / "lock"
    child = (
        "import fcntl, pathlib, sys, time\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "pathlib.Path(sys.argv[2]).touch()\n"
        "time.sleep(600)"
    )
    code = FILE + (
        "import signal, subprocess, time; print('begun', flush=True);"
        # A shell that starts the tests in the background lets them ignore it.
        "signal.signal(signal.SIGINT, signal.SIG_DFL);"
        "subprocess.Popen([sys.executable, '-c', *sys.argv[3:]]); time.sleep(600)"
    )
    hangs = job("hangs", code, found, "[1]", child, lock, begun, seconds=2.0, found=found)
    _, results = run(hangs, job("next", ""))
    assert statuses(results) == {"step/hangs": "cut off", "step/next": "passed"}
    assert results["step/hangs"]["found"] == [1]
    assert "begun" in results["step/hangs"]["tail"]
    # What it had started was killed, too, and so it holds no lock.
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def test_a_process_is_interrupted_first(run, begun):
    code = (
        "import pathlib, signal, sys, time\n"
        # As above.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: pathlib.Path(sys.argv[1]).touch(); time.sleep(600)\n"
        "except KeyboardInterrupt: print('as far as I came'); raise SystemExit(0)"
    )
    _, results = run(job("polite", code, begun, seconds=2.0))
    assert results["step/polite"]["status"] == "cut off"
    assert "as far as I came" in results["step/polite"]["tail"]


def test_a_failure_stops_nothing(run):
    good, results = run(
        job("bad", "raise SystemExit(1)"),
        Job("step", "no program", ["/does/not/exist"], 5),
        Job("other", "other", (), 0, why="needs a second GPU"),
        job("bytes", "import os; os.write(1, bytes([255]))", step="last"),
    )
    assert not good
    assert statuses(results) == {
        "step/bad": "failed",
        "step/no program": "failed",
        "other": "not run",
        "last/bytes": "passed",
    }
    assert results["other"]["why"] == "needs a second GPU"


def test_what_cannot_run_here_is_no_failure(run):
    good, _ = run(job("fine", ""), Job("other", "other", (), 0, why="not installed"))
    assert good


def test_the_summary_is_written_at_each_change(run, tmp_path):
    # The second job reads what is known of the first one, of itself and of the third.
    code = """import json, sys
while "'running', 'process'" not in (jobs := str(json.load(open(sys.argv[1]))["jobs"])): pass
print(jobs); sys.exit(1)"""
    path = tmp_path / "out" / "summary.json"
    _, results = run(job("first", ""), job("second", code, path), job("third", ""))
    tail = results["step/second"]["tail"]
    assert "'step/first': {'status': 'passed'" in tail
    assert "'step/second': {'status': 'running', 'process': " in tail
    assert "'step/third': {'status': 'not run'}" in tail


def test_what_has_no_time_left_is_not_run_and_that_is_said(run):
    good, results = run(job("late", ""), limit=1.0)
    assert not good
    assert results["step/late"] == {"status": "not run", "why": "no time is left"}


def test_jobs_of_a_step_run_at_once_where_that_is_said(run, tmp_path):
    # Each waits for the other's file.
    code = (
        "import pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)"
    )
    a, b = tmp_path / "a", tmp_path / "b"
    good, _ = run(job("a", code, a, b), job("b", code, b, a), together={"step": 2})
    assert good


def test_a_journal_is_read_up_to_where_it_was_cut_off(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert summary(path) is None
    lines = [("a", "passed", ""), ("b", "failed", "why"), ("c", "skipped", "a second GPU")]
    lines.append(("d", "not provoked", "no race"))
    text = "".join(
        json.dumps({"test": test, "outcome": outcome, "text": text}) + "\n"
        for test, outcome, text in lines
    )
    path.write_text(text + '{"test": "e", "outc')
    found = summary(path)
    assert found["line"] == "1 passed, 1 failed, 1 skipped, 1 not provoked"
    assert found["failed"] == [{"test": "b", "outcome": "failed", "text": "why"}]
    assert (found["skipped"], found["not provoked"]) == (["a second GPU"], ["no race"])
