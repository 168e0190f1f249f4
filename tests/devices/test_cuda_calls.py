"""How many functions of the package an operation on a CUDA device calls, on the model of CUDA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cupy_model import launch

import syncblob
from benchmarks.calls import calls_made
from syncblob import Blob
from syncblob.devices import accelerator
from syncblob.memory import CONST

FOLDER = str(Path(syncblob.__file__).parent)


@pytest.fixture
def blob(machine):
    """Make a Blob that was used on both sides, beside a PyTorch whose stream is CuPy's."""
    del machine  # first
    torch_model = pytest.importorskip("torch_model")
    with torch_model.installed():
        blob = Blob((8, 8), device="cuda:0")
        blob.overwrite_cpu_data()[...] = 1
        blob.gpu_data()
        yield blob


def count(use):
    for _ in range(3):
        use()
    return len([name for file, name in calls_made(use) if file.startswith(FOLDER)])


def test_accessors_and_views(blob):
    assert count(blob.gpu_data) <= 4
    blob.mutable_gpu_data()
    assert count(blob.mutable_gpu_data) <= 4
    for view in (lambda: blob[2:4], lambda: blob.T, lambda: blob.reshape(64)):
        assert count(view) <= 10


def test_a_computation_is_noted_in_few_steps(blob):
    home, array = blob.home, blob.array_in(blob.home, CONST, "test")
    # The call, the stream, and the note; the last one forgets the result.
    assert count(lambda: home.compute(launch, lambda _: None, array)) <= 3
    assert count(lambda: home.compute(home.copy, array)) <= 6


def test_a_write_here_and_a_read_there(blob):
    def use():
        blob.mutable_cpu_data()[...] = 1
        blob.gpu_data()

    assert count(use) <= 29


def test_a_result_on_the_host(blob):
    home, array = accelerator("cuda:0"), blob.array_in(blob.home, CONST, "test")

    def use():
        np.asarray(syncblob.blob.core.fresh(Blob, home.compute(home.copy, array), home))

    assert count(use) <= 105
