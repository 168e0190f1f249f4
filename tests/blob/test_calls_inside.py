"""How many functions of the package one use calls, after the first uses: each takes time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls_made import calls_made

import syncblob
from syncblob import Blob
from syncblob.devices import accelerator

FOLDER = str(Path(syncblob.__file__).parent)
DEVICES = ["cpu", "simulated:0"]


def calls(use: Callable[[], Any]) -> list[str]:
    """Return the names of the functions of the package that a use calls."""
    return [name for file, name in calls_made(use) if file.startswith(FOLDER)]


def used(device: str) -> Blob:
    """Make a Blob that was used on both sides, and then written on its own."""
    blob = Blob((8, 8), device=device)
    blob.memory.side_of(accelerator("simulated:0"))
    for _ in range(3):
        blob.mutable_cpu_data()
        blob.mutable_gpu_data()
        np.asarray(blob)
        blob[...] = 1
        blob + blob
    return blob


@pytest.mark.parametrize("device", DEVICES)
def test_an_assignment_and_a_copy(device: str) -> None:
    blob = used(device)
    assert len(calls(lambda: blob.__setitem__(..., 1))) <= 2
    assert len(calls(blob.copy)) <= 7
    fresh = blob + blob
    assert len(calls(lambda: fresh.__setitem__(..., 1))) <= 2


@pytest.mark.parametrize("device", DEVICES)
def test_indices_and_values_of_all_kinds(device: str) -> None:
    blob, values, row = used(device), used(device), used(device)[0]
    indices, mask = (Blob.asarray(x, device=device) for x in (np.arange(8), np.ones((8, 8), bool)))
    for index, value in (
        (..., values),
        (2, row),
        (slice(2, 4), 1),
        (mask, 0),
        (indices, values),
        ((slice(2, 4), indices), 1),
    ):
        blob[index] = value
        assert len(calls(lambda i=index, v=value: blob.__setitem__(i, v))) <= 6
    for index in (1, slice(2, 4), [0, 2], indices, mask):
        blob[index]
        assert len(calls(lambda i=index: blob[i])) <= 6


def test_a_new_blob_and_its_first_write() -> None:
    def write() -> None:
        Blob((8, 8))[...] = 1

    write()
    assert len(calls(write)) <= 30


def test_a_read_after_a_write_on_the_device() -> None:
    blob = used("simulated:0")
    blob.mutable_gpu_data()
    assert len(calls(lambda: np.asarray(blob))) <= 8


@pytest.mark.parametrize("use", [Blob.mutable_cpu_data, Blob.mutable_gpu_data])
def test_the_first_write_after_both_sides_were_read(use: Callable[[Blob], Any]) -> None:
    blob = used("simulated:0")
    blob.cpu_data(), blob.gpu_data()
    assert len(calls(lambda: use(blob))) <= 6
