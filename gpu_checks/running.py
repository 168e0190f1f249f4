"""Runs steps with time limits, goes on after a failure, and writes results immediately."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["Job", "NotHereError", "Place", "Record", "Step", "kill_all", "run_job", "run_steps"]

# With less time left than this, nothing is started.
_TOO_SHORT = 2.0
# The time for a process over its limit to write its results.
_GRACE = 8.0
_TAIL = 2500
# The processes running now.
_running: set[subprocess.Popen[bytes]] = set()


class NotHereError(Exception):
    """A step cannot run on this machine. The message says why."""


class Job(NamedTuple):
    """A process of a step.

    Attributes
    ----------
    name
        A short description, unique in its step.
    command
        The command to run.
    seconds
        The time limit.
    found
        The JSON file that it writes, which becomes part of the summary, even if the process is
        stopped. None if it writes none.
    environment
        Additional variables.
    """

    name: str
    command: Sequence[str]
    seconds: float
    found: Path | None = None
    environment: Mapping[str, str] = {}


@dataclass(frozen=True)
class Step:
    """One step of the command.

    Attributes
    ----------
    number, name
        The number that selects it, and its name.
    seconds
        The time limit for all its jobs together.
    jobs
        A function that makes the jobs. It raises `NotHereError` if the step cannot run.
    together
        The number of jobs that run at the same time.
    after_job
        Called after each job.
    """

    number: int
    name: str
    seconds: float
    jobs: Callable[[], Sequence[Job]]
    together: int = 1
    after_job: Callable[[], None] | None = None


@dataclass
class Record:
    """The results so far, in ``summary.json``, and the output, in ``log.txt``.

    Parameters
    ----------
    folder
        The folder of the two files.
    about
        The head of the summary.
    """

    folder: Path
    about: dict[str, Any]
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write a summary without results."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._log = self.folder / "log.txt"
        self._log.write_text("", encoding="utf-8")
        self.write()

    def write(self) -> None:
        """Replace the summary atomically."""
        path = self.folder / "summary.json"
        new = path.with_suffix(".new")
        text = json.dumps({**self.about, "steps": self.steps}, indent=1, default=str)
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(path)

    def begin(self, step: Step) -> None:
        """Record that a step has begun."""
        self.steps[step.name] = {"number": step.number, "status": "cut off", "jobs": {}}
        self.write()

    def job(self, step: Step, name: str, result: dict[str, Any], output: str = "") -> None:
        """Record the result of a job, and print a line."""
        with self._lock:
            self.steps[step.name]["jobs"][name] = result
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"\n=== {step.number} {step.name}: {name}: {result['status']}\n{output}")
            self.write()
            line = f"{step.name}: {name}: {result['status']}"
            print(f"  {line}, {result.get('seconds', 0):.1f} s{_verdict(result)}", flush=True)

    def end(self, step: Step, status: str, why: str = "") -> None:
        """Record the result of a step, and print a line."""
        self.steps.setdefault(step.name, {"number": step.number, "jobs": {}})["status"] = status
        if why:
            self.steps[step.name]["why"] = why
        self.write()
        print(f"step {step.number}, {step.name}: {status}{f': {why}' if why else ''}", flush=True)


def _verdict(result: Mapping[str, Any]) -> str:
    found = result.get("found")
    if not isinstance(found, dict):
        return ""
    text = found.get("line") or found.get("counts")
    return f": {text}" if text else ""


class Place(NamedTuple):
    """The environment variables and the working folder of processes."""

    environment: Mapping[str, str]
    folder: Path


def run_steps(steps: Sequence[Step], record: Record, place: Place, *, limit: float) -> bool:
    """Run steps one after the other; return whether all of them passed.

    Parameters
    ----------
    steps
        The steps, in order.
    record
        Receives all results.
    place
        The environment of the processes.
    limit
        The time limit for all steps, in seconds. Steps without time left are recorded as not run.
    """
    end = time.monotonic() + limit
    good = True
    for step in steps:
        if end - time.monotonic() < _TOO_SHORT:
            record.end(step, "not run", "no time is left")
            good = False
            continue
        print(f"\nstep {step.number}, {step.name}", flush=True)
        record.begin(step)
        try:
            jobs = step.jobs()
        except NotHereError as error:
            record.end(step, "not here", str(error))
            continue
        except Exception:  # noqa: BLE001  # the next steps may work
            record.end(step, "failed", traceback.format_exc(limit=4))
            good = False
            continue
        deadline = min(end, time.monotonic() + step.seconds)
        statuses = _run_jobs(step, jobs, record, place, deadline)
        passed = statuses <= {"passed"}
        good &= passed
        record.end(step, "passed" if passed else ", ".join(sorted(statuses - {"passed"})))
    return good


def _run_jobs(
    step: Step, jobs: Sequence[Job], record: Record, place: Place, deadline: float
) -> set[str]:
    def run(job: Job) -> str:
        left = deadline - time.monotonic()
        if left < _TOO_SHORT:
            record.job(step, job.name, {"status": "not run", "why": "no time is left"})
            return "not run"
        allowed = job._replace(seconds=min(job.seconds, left))
        try:
            result, output = run_job(allowed, place)
        except OSError as error:
            result, output = {"status": "failed", "why": str(error)}, ""
        record.job(step, job.name, result, output)
        if step.after_job is not None:
            try:
                step.after_job()
            except Exception:  # noqa: BLE001  # the next jobs may work
                record.job(step, f"after {job.name}", _failure(traceback.format_exc(limit=4)))
                return "failed"
        return str(result["status"])

    with ThreadPoolExecutor(max(1, step.together)) as pool:
        return set(pool.map(run, jobs))


def _failure(why: str) -> dict[str, Any]:
    return {"status": "failed", "why": why}


def run_job(job: Job, place: Place) -> tuple[dict[str, Any], str]:
    """Run a process with its time limit; return its result and its output.

    A process over its limit is interrupted, as by Ctrl-C, and killed a little later, with all
    processes that it has started.
    """
    start = time.monotonic()
    grace = min(_GRACE, job.seconds / 4)
    process = subprocess.Popen(  # noqa: S603  # commands of this package
        list(job.command),
        cwd=place.folder,
        env={**place.environment, **job.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    cut = False
    _running.add(process)
    try:
        try:
            printed, _ = process.communicate(timeout=job.seconds - grace)
        except subprocess.TimeoutExpired:
            cut = True
            # Only the first process: the others stop when it does.
            process.send_signal(signal.SIGINT)
            try:
                printed, _ = process.communicate(timeout=grace)
            except subprocess.TimeoutExpired:
                _kill(process)
                printed = _what_is_left(process)
    finally:
        _kill(process)
        _running.discard(process)
    output = (printed or b"").decode("utf-8", "replace")
    result: dict[str, Any] = {
        "status": "cut off" if cut else "failed" if process.returncode else "passed",
        "seconds": round(time.monotonic() - start, 2),
        "exit": process.returncode,
    }
    found = _read(job.found)
    if found is not None:
        result["found"] = found
    if result["status"] != "passed":
        result["tail"] = output[-_TAIL:]
        result["command"] = " ".join(map(str, job.command))
    return result, output


def kill_all() -> None:
    """Kill all running processes before this one exits."""
    for process in list(_running):
        _kill(process)


def _what_is_left(process: subprocess.Popen[bytes]) -> bytes:
    """Return the output of a killed process. A child of it may hold the pipe open."""
    try:
        return process.communicate(timeout=2)[0]
    except subprocess.TimeoutExpired as error:
        return error.output or b""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, if they are still running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)


def _read(path: Path | None) -> Any:
    """Return the JSON that a process has written so far."""
    if path is None:
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
