"""The real suite passes in the quick tier on each device, if a suite is found."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conformance.run import HERE
from conformance.suite import find_suite

DEVICES = ["cpu", "simulated", pytest.param("cuda:0", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_the_suite_passes(device, tmp_path):
    suite = find_suite()
    if suite is None:
        pytest.skip("no suite found: set ARRAY_API_TESTS_DIR")
    path = tmp_path / "report.json"
    options = {"--suite": suite, "--device": device, "--seed": 0, "-n": 2, "--report": path}
    arguments = [str(part) for option in options.items() for part in option]
    done = subprocess.run(
        [sys.executable, HERE / "run.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(path.read_text("utf-8"))["counts"]
    assert (counts["passed"], counts["skipped"], counts["total"]) == (1379, 5, 1384)
