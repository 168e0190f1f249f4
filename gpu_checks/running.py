"""Runs jobs with time limits, goes on after a failure, and writes results immediately."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from gpu_checks.journal import summary

ROOT = Path(__file__).resolve().parents[1]
# The time for a process over its limit to write its results.
_GRACE = 8.0
_TAIL = 2500
_running: set[subprocess.Popen[bytes]] = set()


class Job(NamedTuple):
    """A process.

    `step`, `name`: the step that it belongs to, and its name in the step.
    `command`: the command to run; empty if it cannot run here.
    `seconds`: the time limit.
    `found`: the file that it writes, if it does: JSON, or a journal of tests (``.jsonl``).
    `environment`: additional variables.
    `why`: why it cannot run here.
    """

    step: str
    name: str
    command: Sequence[str]
    seconds: float
    found: Path | None = None
    environment: Mapping[str, str] = {}
    why: str = ""

    @property
    def title(self) -> str:
        """The step and the name, or one of them if they are the same."""
        return self.step if self.name == self.step else f"{self.step}/{self.name}"


class Record:
    """The results so far, in ``summary.json``; the output of each job has its own file beside it.

    `folder`: the folder of the files.
    `about`: the head of the summary.
    `jobs`: the jobs, which count as not run until they begin.
    """

    def __init__(self, folder: Path, about: dict[str, Any], jobs: Sequence[Job]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._about = about
        self.jobs: dict[str, dict[str, Any]] = {job.title: {"status": "not run"} for job in jobs}
        self._lock = threading.Lock()
        self._write()

    def _write(self) -> None:
        new = self.folder / "summary.new"
        text = json.dumps({**self._about, "jobs": self.jobs}, indent=1, default=str)
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(self.folder / "summary.json")

    def tell(self, job: Job, **result: Any) -> None:
        """Record the state of a job; print a line once it has ended."""
        with self._lock:
            self.jobs[job.title] = result
            self._write()
        if result["status"] != "running":
            found = result.get("found")
            line = found.get("line", "") if isinstance(found, dict) else result.get("why", "")
            print(
                f"{job.title}: {result['status']}, {result.get('seconds', 0)} s  {line}", flush=True
            )

    def log_of(self, job: Job) -> Path:
        """Return the file for the output of a job."""
        return self.folder / f"{job.title.replace('/', '-')}.log"


def run_jobs(
    jobs: Sequence[Job],
    record: Record,
    environment: Mapping[str, str],
    *,
    limit: float,
    together: Mapping[str, int],
) -> bool:
    """Run jobs; return whether none has failed.

    `jobs`: the jobs, in order.
    `record`: receives all results.
    `environment`: the environment of the processes.
    `limit`: the time limit for all of them, in seconds. Jobs without time left are not run.
    `together`: the number of jobs of a step that run at the same time; by default 1.
    """
    end = time.monotonic() + limit

    def run(job: Job) -> str:
        left = end - time.monotonic()
        if not job.command or left < _GRACE / 2:
            record.tell(job, status="not run", why=job.why or "no time is left")
            return "failed" if job.command else "passed"
        return _run_job(job, record, environment, min(job.seconds, left))

    statuses = set()
    for step, of_step in groupby(jobs, lambda job: job.step):
        with ThreadPoolExecutor(together.get(step, 1)) as pool:
            statuses |= {*pool.map(run, of_step)}
    return statuses <= {"passed"}


def _run_job(job: Job, record: Record, environment: Mapping[str, str], seconds: float) -> str:
    """Run a process with its time limit, and record its result; return its status.

    A process over its limit is interrupted, as by Ctrl-C, and killed a little later, with all
    processes that it has started.
    """
    start = time.monotonic()
    grace = min(_GRACE, seconds / 4)
    log = record.log_of(job)
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(  # noqa: S603  # commands of this package
                list(job.command),
                cwd=ROOT,
                env={**environment, **job.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            record.tell(job, status="failed", why=str(error))
            return "failed"
        _running.add(process)
        record.tell(job, status="running", process=process.pid)
        try:
            status = "failed" if process.wait(seconds - grace) else "passed"
        except subprocess.TimeoutExpired:
            status = "cut off"
            # Only the first process: the others stop when it does.
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        finally:
            _kill(process)
            _running.discard(process)
    result: dict[str, Any] = {"status": status, "seconds": round(time.monotonic() - start, 2)}
    found = _read(job.found)
    if found is not None:
        result["found"] = found
    if status != "passed":
        result |= {"exit": process.returncode, "command": " ".join(map(str, job.command))}
        result["tail"] = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    record.tell(job, **result)
    return status


def kill_all() -> None:
    """Kill all running processes before this one exits."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, if they are still running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)


def _read(path: Path | None) -> Any:
    """Return what a process has written so far."""
    if path is None or path.suffix == ".jsonl":
        return None if path is None else summary(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
