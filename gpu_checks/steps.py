"""The jobs of the command, the most informative first."""

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from gpu_checks.environment import compute_sanitizer
from gpu_checks.running import ROOT, Job

# In the order in which they run.
STEPS = (
    # What has changed most since the last run on a GPU comes first: the order of work, and room.
    *("environment", "probes", "programs", "full-device", "transfers", "interop", "pipeline"),
    *("streaming", "gpu-tests", "sanitizer", "conformance", "regions", "other-tests"),
    "benchmarks",
)
# The seconds for everything: a machine is lent for 15 minutes, of which its start takes some. The
# limits of all jobs before the conformance suite fit into them; what comes later gets the rest.
LIMIT = 780
_FIGURES = ("transfers", "interop", "regions", "pipeline", "streaming")
# What a test file has that runs on a GPU: the mark, or a fixture of tests/conftest.py with it.
# A conftest.py that matches makes all tests of its folder such files, except that of all tests.
_FOR_A_GPU = re.compile(r"mark\.gpu\b|\bACCELERATORS\b|\b(?:accelerator|program_device)\b[,):]")
# Tests of the conformance suite that can compute on the model.
_FEW = "test_zeros or test_abs or test_add"
_PER_THREAD = {"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}


@dataclass(frozen=True)
class Context:
    """The options that the jobs depend on.

    `out`: the folder for results.
    `suite`: the conformance suite; None lets `conformance/run.py` look for it.
    `model`: ``"lazy"`` or ``"eager"`` for a trial on the model, without a GPU; None for CUDA.
    `processes`: the number of processes for tests, and of probes at the same time.
    """

    out: Path
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


def chosen(text: str, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that a text selects, such as ``"probes,transfers"``; all if it is empty.

    Its parts are names of steps or of jobs, as in ``probes/test_forks``, or patterns with ``*``.
    The jobs are in the order of the parts. ValueError: if a part selects nothing.
    """
    found: dict[str, Job] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        of_part = [
            job for job in jobs if fnmatchcase(job.title, part) or fnmatchcase(job.step, part)
        ]
        if not of_part:
            raise ValueError(f"expected names among {', '.join(STEPS)}, got {part!r}")
        found.update((job.title, job) for job in of_part)
    return [*found.values()] or list(jobs)


def make_jobs(context: Context) -> list[Job]:
    """Return all jobs, in the order in which they run."""
    benchmarks = _benchmarks(context)
    made = [
        _environment(context),
        *_probes(context),
        _programs(context),
        _gpu_tests(context),
        _full_device(context),
        _conformance(context),
        *_sanitizer(context),
        _other_tests(context),
        *benchmarks,
    ]
    if context.model:
        # A trial may share its machine with other work.
        made = [job._replace(seconds=4 * job.seconds) for job in made]
    return sorted(made, key=lambda job: STEPS.index(job.step))


def _python(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def _environment(context: Context) -> Job:
    found = context.out / "environment.json"
    command = _python("-m", "gpu_checks.environment", found)
    return Job("environment", "environment", command, 50, found)


def probe_names() -> list[tuple[Path, str]]:
    """Return the files and the names of the probes, without importing them."""
    paths = sorted((ROOT / "gpu_checks" / "probes").glob("test_*.py"))
    pattern = re.compile(r"^def (test_\w+)", re.MULTILINE)
    return [(path, name) for path in paths for name in pattern.findall(path.read_text("utf-8"))]


def _probes(context: Context) -> list[Job]:
    jobs = []
    for path, name in probe_names():
        options = ("--confcutdir", path.parent, "-n", "0", f"{path.relative_to(ROOT)}::{name}")
        job = _pytest(context, "probes", name, 40, *options)
        per_thread = _PER_THREAD if "per_thread" in name else {}
        jobs.append(job._replace(environment={**job.environment, **per_thread}))
    return jobs


def _benchmarks(context: Context) -> list[Job]:
    from benchmarks.__main__ import GROUPS

    jobs = []
    for name in (*_FIGURES, *(name for name in GROUPS if name not in _FIGURES)):
        # Written after each row.
        found = context.out / f"benchmarks-{name}.json"
        command = _python("-m", "benchmarks", name, "--json", found)
        command += ["--brief"] if context.model else []
        known = name in _FIGURES
        step, seconds = (name, 80) if known else ("benchmarks", 240)
        jobs.append(Job(step, name, command, seconds))
    return jobs


def _pytest(
    context: Context,
    step: str,
    name: str,
    seconds: float,
    *arguments: object,
    before: Sequence[str] = (),
) -> Job:
    found = context.out / f"{step}-{name}.jsonl"
    options: list[object] = ["-q", "-p", "no:cacheprovider", "-p", "gpu_checks.journal"]
    options += ["--continue-on-collection-errors", "--tb=short"]
    # It warns beside xdist, and warnings are errors.
    options += ["-p", "no:benchmark"]
    options += ["-o", "addopts=--import-mode=importlib"]
    if importlib.util.find_spec("pytest_timeout"):
        options += ["-o", "timeout=120"]
    if importlib.util.find_spec("xdist"):
        options += ["-n", context.processes, "--dist", "loadfile"]
    else:
        arguments = tuple(x for x in arguments if x not in ("-n", "0"))
    command = [*before, *_python("-m", "pytest", *options, *arguments)]
    return Job(step, name, command, seconds, found, {"SYNCBLOB_JOURNAL": str(found)})


def gpu_files() -> list[str]:
    """Return the test files with tests for a GPU, found by their text, without importing any.

    Collecting all tests takes half a minute of a core.
    """

    def is_found(path: Path) -> bool:
        return path.is_file() and _FOR_A_GPU.search(path.read_text("utf-8")) is not None

    tests = ROOT / "tests"
    folders = {path.parent for path in tests.glob("*/**/conftest.py") if is_found(path)}
    paths = sorted(tests.rglob("test_*.py"))
    found = [path for path in paths if is_found(path) or path.parent in folders]
    # The examples of documents that import CuPy.
    found += [
        path
        for path in sorted((ROOT / "docs").glob("*.md"))
        if ">>> import cupy" in path.read_text("utf-8")
    ]
    return [str(path.relative_to(ROOT)) for path in found]


def _gpu_tests(context: Context) -> Job:
    # Little computes on the model. That some tests pass shows that the step works.
    paths = ["tests/memory/test_buffers.py", "tests/blob/test_accessors.py"]
    paths = paths if context.model else gpu_files()
    job = _pytest(context, "gpu-tests", "gpu-tests", 100, "-m", "gpu", "--require-gpu", *paths)
    # The step "programs" runs more of them.
    return job._replace(environment={**job.environment, "SYNCBLOB_PROGRAMS": "200"})


def _full_device(context: Context) -> Job:
    # In one process, because a test takes all memory.
    probes = ROOT / "gpu_checks" / "probes"
    options = ("--confcutdir", probes, "-n", "0", probes / "full_device.py")
    return _pytest(context, "full-device", "full-device", 60, *options)


def _conformance(context: Context) -> Job:
    report = context.out / "conformance.json"
    command = _python("conformance/run.py", "--tier", "quick", "--device", "cuda:0")
    command += ["--report", str(report), "-n", str(context.processes)]
    if context.suite is not None:
        command += ["--suite", str(context.suite)]
    if context.model:
        command += ["-k", _FEW]
    return Job("conformance", "conformance", command, 410, report)


def _other_tests(context: Context) -> Job:
    paths = ["tests/memory/test_memory.py", "tests/test_shape.py"] if context.model else []
    options = ("-m", "not gpu and not long", *paths)
    return _pytest(context, "other-tests", "other-tests", 560, *options)


def _sanitizer(context: Context) -> list[Job]:
    sanitizer = None if context.model else compute_sanitizer()
    if sanitizer is None:
        why = "needs a GPU" if context.model else "compute-sanitizer is not installed"
        return [Job("sanitizer", "sanitizer", (), 0, why=why)]
    jobs = []
    for tool in ("memcheck", "racecheck"):
        before = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20"]
        arguments = ("-n", "0", "-m", "gpu", "--require-gpu", "tests/gpu/test_kernels.py")
        jobs.append(_pytest(context, "sanitizer", tool, 45, *arguments, before=before))
    return jobs


def _programs(context: Context) -> Job:
    paths = ["tests/gpu_checks/test_stream_programs.py"]
    # The ordinary tests run the others on the model.
    paths += [] if context.model else ["tests/memory/test_region_programs.py"]
    wanted = () if context.model else ("-m", "gpu", "--require-gpu")
    job = _pytest(context, "programs", "programs", 80, *wanted, *paths)
    number = "100" if context.model else "400"
    return job._replace(environment={**job.environment, "SYNCBLOB_PROGRAMS": number})
