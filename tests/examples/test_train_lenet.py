"""examples/train_lenet.py, as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import syncblob

pytest.importorskip("torch")
pytest.importorskip("sklearn")

PROGRAM = Path(__file__).parents[2] / "examples" / "train_lenet.py"


@pytest.mark.long
def test_it_learns_the_digits_and_saves_what_it_learned(tmp_path):
    path = tmp_path / "lenet.caffemodel"
    command = [sys.executable, PROGRAM, path, "--epochs", "4"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    accuracy = re.fullmatch(r"([\d.]+)% of 450 test images", run.stdout.splitlines()[-1])
    assert float(accuracy[1]) > 92
    with syncblob.open_model(path) as model:
        shapes = {name: [blob.shape for blob in layer.blobs] for name, layer in model.items()}
    assert shapes["conv1"] == [(20, 1, 5, 5), (20,)]
    assert shapes["ip2"] == [(10, 500), (10,)]
