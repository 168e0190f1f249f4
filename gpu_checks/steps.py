"""The steps of the command, the most informative first."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_checks.environment import compute_sanitizer
from gpu_checks.running import Job, NotHereError, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["PROBES", "Context", "chosen", "make_steps", "process_environment"]

ROOT = Path(__file__).resolve().parents[1]

# The groups about the device come first, because the documentation shows them.
ON_THE_DEVICE = ("transfers", "regions", "pipeline", "interop")

# Properties and random programs that take the device as a parameter.
_OF_THE_SUITE = (
    "tests/aliases/test_programs.py",
    "tests/memory/test_region_programs.py",
    "tests/memory/test_table.py",
    "tests/memory/test_machine.py",
    "tests/memory/test_parts_of_sources.py",
    "tests/blob/test_programs_of_parts.py",
    "tests/test_transfer_properties.py",
)

# Tests of the suite that can compute on the model.
_FEW = "test_zeros or test_abs or test_add"


@dataclass(frozen=True)
class Context:
    """The options that the steps depend on.

    Attributes
    ----------
    out
        The folder for results.
    work
        A folder for temporary files.
    suite
        The conformance suite; None lets `conformance/run.py` look for it.
    model
        ``"lazy"`` or ``"eager"`` for a trial on the model, without a GPU; None for CUDA.
    processes
        The number of processes for tests, and of probes at the same time.
    """

    out: Path
    work: Path
    suite: Path | None = None
    model: str | None = None
    processes: int = 4


def process_environment(site: Path | None, model: str | None) -> dict[str, str]:
    """Return the environment of processes, with the checkout and carried packages on the path."""
    folders = [ROOT / "src", ROOT, *([site] if site else [])]
    if model:
        folders = [ROOT / "gpu_checks" / "model", *folders, ROOT / "tests" / "support"]
    path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
    mine = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    mine.pop("SYNCBLOB_CUDA_MODEL", None)
    return {
        **mine,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        **({"SYNCBLOB_CUDA_MODEL": model} if model else {}),
    }


def make_steps(context: Context) -> list[Step]:
    """Return all steps, in the order in which they run."""
    makers: list[tuple[str, float, Callable[[Context], Sequence[Job]]]] = [
        ("environment", 90, _environment),
        ("probes", 270, _probes),
        ("benchmarks", 900, _benchmarks),
        ("gpu tests", 570, _gpu_tests),
        ("conformance", 420, _conformance),
        ("other tests", 570, _other_tests),
        ("compute-sanitizer", 300, _sanitizer),
        ("random programs", 240, _programs),
    ]
    together = {"probes": context.processes}
    after = {"benchmarks": lambda: _merge_benchmarks(context)}
    return [
        Step(
            number,
            name,
            seconds,
            lambda make=make: make(context),  # type: ignore[misc]  # mypy sees no default here
            together.get(name, 1),
            after.get(name),
        )
        for number, (name, seconds, make) in enumerate(makers, 1)
    ]


def chosen(text: str, steps: Sequence[Step]) -> list[Step]:
    """Return the steps selected by a text such as ``"1-3,8"``, in that order; all if it is empty.

    Raises
    ------
    ValueError
        If it names a step that does not exist.
    """
    found: list[Step] = []
    by_number = {step.number: step for step in steps}
    for part in text.split(","):
        if not part.strip():
            continue
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise ValueError(f"expected steps as in 1-3,8, got {text!r}")
        for number in range(int(first), int(last or first) + 1):
            if number not in by_number:
                raise ValueError(f"expected steps from 1 to {len(steps)}, got {number}")
            if by_number[number] not in found:
                found.append(by_number[number])
    return found or list(steps)


# --- the jobs of each -----------------------------------------------------------------------------


def _python(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def _environment(context: Context) -> list[Job]:
    found = context.work / "environment.json"
    command = _python("-m", "gpu_checks.environment", found)
    return [Job("environment", command, 80, found)]


# In the order in which they run: likely defects and unexplored behaviour first.
PROBES = (
    "torch_order",
    "host_blobs_and_libraries",
    "host_blobs_and_cupy",
    "torch_adopted",
    "readers",
    "writers",
    "captures",
    "first_zeros",
    "late_push_failure",
    "other_device",
    "page_locked",
    "pinning_fails",
    "allocators",
    "forks",
    "per_thread_default_stream",
    "shutdown",
    "host_callbacks",
)
_OF_PROBES = {
    "per_thread_default_stream": {"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"},
}
# The first import of PyTorch is slow, and the last probe starts processes.
_SECONDS = {
    "torch_order": 40.0,
    "host_blobs_and_libraries": 40.0,
    "torch_adopted": 40.0,
    "shutdown": 60.0,
}


def _probes(context: Context) -> list[Job]:
    jobs = []
    for name in PROBES:
        found = context.work / f"probe-{name}.json"
        command = _python("-m", "gpu_checks.probes", name, found)
        # A trial may share its machine with other work.
        seconds = _SECONDS.get(name, 20.0) * (3 if context.model else 1)
        jobs.append(Job(name, command, seconds, found, _OF_PROBES.get(name, {})))
    return jobs


def _benchmarks(context: Context) -> list[Job]:
    from benchmarks.groups import GROUPS

    jobs = []
    brief = ["--brief"] if context.model else []
    for name in (*ON_THE_DEVICE, *(name for name in GROUPS if name not in ON_THE_DEVICE)):
        found = context.work / f"benchmarks-{name}.json"
        command = _python("-m", "benchmarks", name, "--json", found, *brief)
        jobs.append(Job(name, command, 240, found))
    return jobs


def _merge_benchmarks(context: Context) -> None:
    """Merge the results of the benchmarks so far into the file to publish."""
    from benchmarks.results import Results, merged

    parts = [Results.read(path) for path in sorted(context.work.glob("benchmarks-*.json"))]
    if parts:
        merged(parts).write(context.out / "benchmarks.json")


def _pytest(
    context: Context,
    name: str,
    seconds: float,
    *arguments: object,
    before: Sequence[str] = (),
    processes: bool = True,
) -> Job:
    found = context.work / f"{name.replace(' ', '-')}.json"
    options: list[object] = ["-q", "-p", "no:cacheprovider", "-p", "gpu_checks.journal"]
    options += ["--continue-on-collection-errors", "--tb=short"]
    has_timeout, has_xdist = map(importlib.util.find_spec, ("pytest_timeout", "xdist"))
    if has_timeout:
        options += ["-o", "timeout=120"]
    if has_xdist:
        options += ["-n", context.processes if processes else 0, "--dist", "loadfile"]
    if not (has_timeout and has_xdist):
        # The project's addopts have options of both plugins.
        options += ["-o", "addopts=--import-mode=importlib"]
    command = [*before, *_python("-m", "pytest", *options, *arguments)]
    return Job(name, command, seconds, found, {"SYNCBLOB_JOURNAL": str(found)})


def _gpu_tests(context: Context) -> list[Job]:
    # Little computes on the model. That some tests pass shows that the step works.
    paths = ["tests/memory/test_buffers.py", "tests/blob/test_accessors.py"]
    paths = paths if context.model else []
    job = _pytest(context, "pytest -m gpu", 560, "-m", "gpu", "--require-gpu", *paths)
    # A separate step runs more of them.
    return [job._replace(environment={**job.environment, **_programs_of_the_suite(400, 200)})]


def _conformance(context: Context) -> list[Job]:
    report = context.work / "conformance.json"
    command = _python("conformance/run.py", "--tier", "quick", "--device", "cuda:0")
    command += ["--report", str(report), "-n", str(context.processes)]
    if context.suite is not None:
        command += ["--suite", str(context.suite)]
    if context.model:
        command += ["-k", _FEW]
    return [Job("quick on cuda:0", command, 410, report)]


def _other_tests(context: Context) -> list[Job]:
    paths = ["tests/memory/test_memory.py", "tests/test_shape.py"] if context.model else []
    wanted = "not gpu and not long"
    return [_pytest(context, f"pytest -m '{wanted}'", 560, "-m", wanted, *paths)]


def _sanitizer(context: Context) -> list[Job]:
    if context.model:
        raise NotHereError("needs a GPU")
    sanitizer = compute_sanitizer()
    if sanitizer is None:
        raise NotHereError("compute-sanitizer is not installed")
    jobs = []
    for tool in ("memcheck", "racecheck"):
        before = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20"]
        arguments = ("-m", "gpu", "--require-gpu", "tests/gpu/test_kernels.py")
        jobs.append(_pytest(context, tool, 140, *arguments, before=before, processes=False))
    return jobs


def _programs(context: Context) -> list[Job]:
    found = context.work / "programs.json"
    seconds = 5 if context.model else 60
    command = _python("-m", "gpu_checks.programs", seconds, found)
    jobs = [Job("programs", command, seconds + 25, found)]
    if not context.model:
        # The ordinary tests run them on the model.
        arguments = ("-m", "gpu", "--require-gpu", *_OF_THE_SUITE)
        job = _pytest(context, "programs of the suite", 150, *arguments)
        jobs.append(
            job._replace(environment={**job.environment, **_programs_of_the_suite(2000, 1000)})
        )
    return jobs


def _programs_of_the_suite(aliases: int, parts: int) -> dict[str, str]:
    return {"SYNCBLOB_PROGRAMS": str(aliases), "SYNCBLOB_REGION_PROGRAMS": str(parts)}
