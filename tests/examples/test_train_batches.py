"""examples/train_batches.py, as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import train_batches as example

import syncblob

PROGRAM = Path(__file__).parents[2] / "examples" / "train_batches.py"
MOVED = re.compile(r"(batches|whole arrays) moved +([\d,]+) bytes in (\d+) transfers")


def test_it_learns_and_says_what_moved():
    run = subprocess.run(
        [sys.executable, PROGRAM, "--epochs", "2", "--samples", "2048"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    first, *epochs, parts, whole = run.stdout.splitlines()
    assert first.startswith("32 batches of 64 on ")
    shares = [re.fullmatch(r"loss [\d.]+, ([\d.]+)% of 1024 test samples", line) for line in epochs]
    assert len(shares) == 2
    assert float(shares[-1][1]) > 95
    assert [MOVED.fullmatch(line)[1] for line in (parts, whole)] == ["batches", "whole arrays"]
    moved = [int(MOVED.fullmatch(line)[2].replace(",", "")) for line in (parts, whole)]
    samples = 2048 * 64 * 4
    # Each batch once per epoch and once at the end, the targets, the test samples, and numbers.
    assert 2 * samples < moved[0] < 3 * samples + 2 * 1024 * 72 * 4
    # All samples in each of 64 steps.
    assert moved[1] > 64 * samples


@pytest.mark.parametrize("whole", [False, True])
def test_each_batch_moves_alone_and_learns_the_same(whole):
    random = np.random.default_rng(0)
    data, test = example.make_data(256, random), example.make_data(64, random)
    with syncblob.use_device("simulated"):
        share, log = example.train(data, test, 3, whole=whole)
    uploads = [t for t in log if t.name == "samples"]
    assert {t.direction for t in uploads} == {"upload"}
    batch = 64 * 64 * 4
    offsets = [0, *[1, 2, 3, 0] * 3]
    if whole:
        assert [(t.offset, t.nbytes) for t in uploads] == [(0, 4 * batch)] * 13
    else:
        assert [(t.offset, t.nbytes) for t in uploads] == [(n * batch, batch) for n in offsets]
    assert all(t.asynchronous for t in uploads)
    with syncblob.use_device("cpu"):
        same, nothing = example.train(data, test, 3, whole=whole)
    assert (same, len(nothing)) == (share, 0)
