"""The command line, the steps that it selects, and a trial run on the model of CUDA."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_checks import __main__ as command
from gpu_checks.probes.__main__ import MODULES
from gpu_checks.probes.report import PROBES, Report
from gpu_checks.steps import PROBES as CHOSEN
from gpu_checks.steps import Context, chosen, make_steps, process_environment

ROOT = Path(__file__).resolve().parents[2]
STEPS = make_steps(Context(Path("out"), Path("work")))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("2", [2]),
        ("1-3", [1, 2, 3]),
        ("8,1-2", [8, 1, 2]),
        ("1-3, 2", [1, 2, 3]),
    ],
)
def test_steps_are_chosen_by_their_numbers(text, numbers):
    assert [step.number for step in chosen(text, STEPS)] == numbers


@pytest.mark.parametrize("text", ["9", "0", "a", "1-", "-2", "1-x", "2-9"])
def test_steps_that_are_not_there_are_refused(text):
    with pytest.raises(ValueError, match="expected steps"):
        chosen(text, STEPS)


def test_each_step_fits_a_call_of_half_an_hour():
    assert all(step.seconds < 1750 for step in STEPS)
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_every_probe_is_made():
    assert sorted(CHOSEN) == sorted(PROBES)
    assert all(module.__all__ for module in MODULES)
    assert {name for module in MODULES for name in module.__all__} == set(PROBES)


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


STOPPED = """
import sys
from pathlib import Path
from gpu_checks import __main__ as command
from gpu_checks.running import Job, Step

code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
jobs = [Job("slow", [sys.executable, "-c", code, sys.argv[1]], 60)]
command.make_steps = lambda context: [Step(1, "slow", 60, lambda: jobs)]
command.main(["--out", sys.argv[2]])
"""


def test_a_command_that_is_stopped_leaves_a_summary_and_no_process(tmp_path):
    started, out = tmp_path / "started", tmp_path / "out"
    environment = process_environment(None, None)
    running = subprocess.Popen([sys.executable, "-c", STOPPED, started, out], env=environment)
    deadline = time.monotonic() + 30
    while not (started.exists() and started.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    running.terminate()
    assert running.wait(timeout=10) == 128 + signal.SIGTERM
    assert json.loads((out / "summary.json").read_text())["steps"]["slow"]["status"] == "cut off"
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


# --- the verdict of a probe -----------------------------------------------------------------------


def test_a_verdict_names_what_is_wrong():
    report = Report()
    report.equal("one", 1, 1)
    assert (report.verdict, report.line) == ("right", "right: 1 check")
    report.doubt("the race was not there")
    assert report.line == "not provoked: the race was not there"
    report.equal("two", 3, 2)
    report.refused("three", lambda: None)
    assert report.line == "wrong: two: expected 2, got 3; three: it was not refused"


def test_an_error_of_cudas_is_no_refusal():
    class CUDARuntimeError(RuntimeError):
        """Named like CuPy's class."""

    def fails():
        raise CUDARuntimeError

    report = Report()
    report.refused("an upload", fails)
    assert report.verdict == "wrong"


# --- a trial on the model -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """Run the first steps on the model, from another folder. Return the output and the summary."""
    if not (ROOT / ".ci" / "gpu").is_file():
        pytest.skip(".ci is in the source tree only")
    folder = tmp_path_factory.mktemp("trial")
    environment = {**os.environ, "PYTHON": sys.executable}
    arguments = ["--model", "--out", "out", "--steps", "1,2", "--processes", "2"]
    done = subprocess.run(
        [str(ROOT / ".ci" / "gpu"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, json.loads((folder / "out" / "summary.json").read_text())


@pytest.mark.long
def test_a_trial_passes_and_says_loudly_what_it_is(trial):
    done, summary = trial
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("A MODEL OF CUDA, AND NO GPU") >= 2
    assert (summary["model"], summary["warning"]) == ("lazy", command.WARNING)
    assert [each["status"] for each in summary["steps"].values()] == ["passed"] * 2


@pytest.mark.long
def test_a_trial_makes_every_probe_or_says_what_it_needs(trial):
    _, summary = trial
    verdicts = {
        name: job["found"]["verdict"] for name, job in summary["steps"]["probes"]["jobs"].items()
    }
    assert sorted(verdicts) == sorted(CHOSEN)
    needing = {"torch_order", "torch_adopted"}
    assert {name for name, verdict in verdicts.items() if verdict != "right"} == needing


BROKEN = """
import sys
from pathlib import Path
from syncblob.devices.cuda import CudaBackend

for name in sys.argv[1].split(","):
    setattr(CudaBackend, name, {})
if sys.argv[2] == "programs":
    from gpu_checks import programs
    sys.exit(programs.main(20, Path(sys.argv[3]), 0))
from gpu_checks.probes.__main__ import main
sys.exit(main(sys.argv[2], Path(sys.argv[3])))
"""
NOTHING = "lambda *args, **keywords: None"
NO_WAIT = "lambda self, buffer: buffer.data.memset_async(0, buffer.nbytes)"


@pytest.mark.parametrize(
    ("methods", "replacement", "probe"),
    [
        ("wait_for_work", NOTHING, "readers"),
        pytest.param("_zero_now", NO_WAIT, "first_zeros", marks=pytest.mark.long),
        pytest.param("_refuse_capture", NOTHING, "captures", marks=pytest.mark.long),
        pytest.param("_finish,synchronize", NOTHING, "late_push_failure", marks=pytest.mark.long),
        ("current_stream_wait", NOTHING, "programs"),
    ],
)
def test_a_backend_that_waits_for_nothing_is_found_out(methods, replacement, probe, tmp_path):
    path = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, "-c", BROKEN.format(replacement), methods, probe, str(path)],
        cwd=ROOT,
        env=process_environment(None, "lazy"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(path.read_text())["line"].split(":")[0] not in ("right", "not provoked")


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
    kept = json.loads(path.read_text())
    assert kept["machine"]["model"] is True
    rivals = {row["rival"] for group in kept["groups"].values() for row in group["rows"]}
    assert {
        "managed memory, pooled",
        "copies planned by hand, page-locked",
        "the bytes needed, by hand, page-locked",
        "cudaMemcpyAsync, pinned, on a stream of its own",
    } <= rivals
    for group in kept["groups"].values():
        names = [(row["section"], row["ours"], row["rival"]) for row in group["rows"]]
        assert len(set(names)) == len(names)
