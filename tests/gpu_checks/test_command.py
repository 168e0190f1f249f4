"""The command line, the steps that it selects, and a trial run on the model of CUDA."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cupy_model
import pytest
import test_stream_programs
from cuda_model import CUDARuntimeError, Machine
from program_devices import run_programs

from benchmarks.results import Results
from gpu_checks import __main__ as command
from gpu_checks.running import ROOT
from gpu_checks.steps import STEPS, Context, chosen, gpu_files, make_jobs, process_environment
from syncblob.devices.cuda import _CudaPush
from syncblob.devices.cuda_streams import Allocation, Order

JOBS = make_jobs(Context(Path("out")))
FIRST = ["environment", "probes", "programs", "full-device", "transfers"]


def steps_of(jobs):
    return [*dict.fromkeys(job.step for job in jobs)]


def test_the_jobs_are_in_the_order_of_their_worth():
    assert steps_of(JOBS) == [*STEPS]
    assert steps_of(chosen("", JOBS))[:5] == FIRST
    assert len({job.title for job in JOBS}) == len(JOBS)
    assert all(job.seconds < 570 for job in JOBS)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("probes", ["probes"]),
        ("transfers, probes", ["transfers", "probes"]),
        ("probes/test_per_thread_default_streams", ["probes"]),
        ("*capture*", ["probes"]),
        ("benchmarks/files", ["benchmarks"]),
    ],
)
def test_steps_jobs_and_patterns_are_chosen(text, steps):
    found = chosen(text, JOBS)
    assert steps_of(found) == steps
    assert ("/" not in text) or len(found) == 1


@pytest.mark.parametrize("text", ["9", "probe", "probes/", "probes,nothing"])
def test_what_is_not_there_is_refused(text):
    with pytest.raises(ValueError, match="expected names among environment"):
        chosen(text, JOBS)


@pytest.mark.long
def test_the_files_of_tests_for_a_gpu_are_found_without_importing_them():
    code = (
        "import pytest\n"
        "class Found:\n"
        "    def pytest_collection_finish(self, session):\n"
        "        print(*sorted({str(item.path) for item in session.items}), sep='\\n')\n"
        "pytest.main(['-q', '-n0', '--collect-only', '-m', 'gpu'], [Found()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    collected = {line for line in done.stdout.splitlines() if line.startswith(str(ROOT))}
    assert collected
    assert collected <= {str(ROOT / name) for name in gpu_files()}
    assert len(gpu_files()) < 0.5 * len([*(ROOT / "tests").rglob("test_*.py")])


def test_the_model_is_on_the_path_of_trials_only(monkeypatch):
    monkeypatch.setenv("SYNCBLOB_CUDA_MODEL", "lazy")
    assert "SYNCBLOB_CUDA_MODEL" not in process_environment(None, None)
    assert "model" not in process_environment(None, None)["PYTHONPATH"]
    trial = process_environment(Path("site"), "eager")
    assert trial["SYNCBLOB_CUDA_MODEL"] == "eager"
    assert trial["PYTHONPATH"].split(os.pathsep)[0].endswith("model")


@pytest.mark.parametrize(
    "arguments", [[], ["--out", "x", "--steps", "99"], ["--out", "x", "--model", "both"]]
)
def test_misuse_ends_with_2(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert "expected" in capsys.readouterr().err or "--model" in arguments


def test_a_folder_that_was_not_packed_is_refused(tmp_path, capsys):
    assert command.main(["--out", str(tmp_path / "out"), "--carried", str(tmp_path)]) == 2
    assert "--pack` made" in capsys.readouterr().err


def trial(out, steps):
    """Start a trial on the model."""
    command = [sys.executable, "-m", "gpu_checks", "--model", "--out", str(out), "--steps", steps]
    command += ["--processes", "2"]
    environment = process_environment(None, None)
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def await_in(out, good, seconds=120):
    """Wait until the jobs of a summary are in a state; return them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            jobs = json.loads((out / "summary.json").read_text())["jobs"]
        except (OSError, ValueError):
            jobs = {}
        if good(jobs):
            return jobs
        time.sleep(0.02)
    raise TimeoutError(jobs)


def process_of(jobs):
    return next(job["process"] for job in jobs.values() if job["status"] == "running")


def test_a_command_that_is_stopped_leaves_a_summary_and_no_process(tmp_path):
    running = trial(tmp_path, "environment")
    jobs = await_in(tmp_path, lambda jobs: jobs and jobs["environment"]["status"] == "running")
    running.terminate()
    assert running.wait(timeout=60) == 128 + signal.SIGTERM
    # Its end may be noted before that of the command.
    assert await_in(tmp_path, bool)["environment"]["status"] in {"running", "failed"}
    with pytest.raises(ProcessLookupError):
        os.kill(process_of(jobs), 0)


# --- a trial on the model -------------------------------------------------------------------------


@pytest.mark.long
def test_a_trial_makes_probes_or_says_what_they_need(tmp_path):
    if not (ROOT / ".ci" / "gpu").is_file():
        pytest.skip(".ci is in the source tree only")
    # Of memory, of captures, and of PyTorch. `.ci/nightly trial` makes all.
    steps = "probes/*page_locked*,probes/*torch_keeps*"
    done = subprocess.run(
        # From another folder.
        [ROOT / ".ci" / "gpu", "--model", "--out", "out", "--steps", steps, "--processes", "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("A MODEL OF CUDA, AND NO GPU") >= 2
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (told["model"], told["warning"]) == ("lazy", command.WARNING)
    needing = {name for name, job in told["jobs"].items() if job["found"]["skipped"]}
    assert needing == {"probes/test_what_torch_keeps_is_given_back"}
    assert not any(job["found"]["not provoked"] for job in told["jobs"].values())


PROBES = "gpu_checks/probes"


@pytest.mark.parametrize(
    ("model", "without"),
    [
        # Many processes, much memory, and PyTorch.
        ("lazy", "ends_well or given_back or 10000000 or libraries"),
        pytest.param("lazy", "nothing", marks=pytest.mark.long),
        pytest.param("eager", "nothing", marks=pytest.mark.long),
    ],
)
def test_the_probes_pass_on_the_model(model, without):
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", *options, "-k", f"not ({without})"]
    environment = process_environment(None, model)
    done = subprocess.run(
        [*command, f"--confcutdir={PROBES}", PROBES],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("kind", "method"),
    [(_CudaPush, "order"), (Order, "wait"), (Order, "lend"), (Allocation, "add")],
)
def test_random_programs_find_a_backend_that_waits_for_nothing(monkeypatch, kind, method):
    # `lend` returns a view.
    monkeypatch.setattr(kind, method, lambda *args: args[1].view() if method == "lend" else None)
    with cupy_model.installed(Machine(1)) as cupy:
        cupy.is_model = True
        with pytest.raises((AssertionError, CUDARuntimeError)):
            run_programs(test_stream_programs.Program, range(300))


@pytest.mark.long
def test_the_benchmarks_of_a_gpu_run_on_the_model(tmp_path):
    path = tmp_path / "results.json"
    groups = ["transfers", "regions", "pipeline", "interop"]
    subprocess.run(
        [sys.executable, "-m", "benchmarks", *groups, "--brief", "--json", str(path)],
        cwd=ROOT,
        env=process_environment(None, "eager"),
        capture_output=True,
        check=True,
    )
    results = Results.read(path)
    assert results.machine["model"] is True
    for group in results.groups.values():
        names = [(row.section, row.ours, row.rival) for row in group.rows]
        assert len(set(names)) == len(names)
    assert "cudaMemcpyAsync, pinned" in path.read_text()
