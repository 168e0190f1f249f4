"""Type checkers on code that uses the package: the programs in `samples`.

Both checkers run in their strictest mode. Each also runs without this project's settings, as for a
user. Then errors in the package itself are not shown, and unexported names are not found.
"""

import json
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from syncblob.caffe.commands.tour import write_lenet

SAMPLES = Path(__file__).parent / "samples"
PROGRAMS = sorted(path.stem for path in SAMPLES.glob("*.py") if path.stem != "mistakes")

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="one of the programs needs PyTorch"
)


def run_checker(name, *arguments, folder):
    """Run a type checker on this interpreter's packages, and return the completed process."""
    pytest.importorskip(name, reason=f"{name} is not installed")
    # pyright --verifytypes looks for the packages of the first "python" in PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path},
    )


@pytest.mark.long
def test_mypy_agrees_with_the_samples(tmp_path):
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}"]
    result = run_checker("mypy", *options, ".", folder=SAMPLES)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.long
def test_pyright_agrees_with_the_samples():
    result = run_checker("pyright", "--pythonpath", sys.executable, folder=SAMPLES)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.long
def test_every_public_type_is_known(tmp_path):
    options = ["--verifytypes", "syncblob", "--ignoreexternal", "--outputjson"]
    result = run_checker("pyright", *options, folder=tmp_path)
    report = json.loads(result.stdout)["typeCompleteness"]
    roots = [
        f"{symbol['name']}: {diagnostic['message']}"
        for symbol in report["symbols"]
        for diagnostic in symbol["diagnostics"]
        if diagnostic["severity"] == "error"
        and "partially unknown" not in diagnostic["message"]  # caused by one of the others
    ]
    assert roots == []
    assert report["completenessScore"] == 1
    assert report["exportedSymbolCounts"]["withKnownType"] > 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_samples_run(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lenet(tmp_path / "lenet.caffemodel")
    runpy.run_path(str(SAMPLES / f"{program}.py"))
