"""examples/larger_than_the_device.py, as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "examples" / "larger_than_the_device.py"


def test_the_gradients_are_the_same_and_each_byte_moves_once():
    run = subprocess.run(
        [sys.executable, PROGRAM, "--rows", "512", "--megabytes", "16"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    free, limited = map(int, re.findall(r"(\d+) bytes moved", run.stdout.replace(",", "")))
    assert limited > free
    assert "the gradients are the same\n" in run.stdout
    assert run.stdout.endswith(
        "16,777,216 bytes through 4,194,304: 16,777,216 up, 16,777,216 down, right\n"
    )
