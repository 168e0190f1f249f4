"""Pipelines on both sides move only the necessary bytes, and compute the same as NumPy alone."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import syncblob
from benchmarks.pipeline.comparison import brief_pipelines, pipelines, require_same
from benchmarks.pipeline.dataflow import Buffer, Pipeline, Use, least_bytes, plan
from benchmarks.pipeline.runners import (
    CupyCopies,
    NumpyCopies,
    bytes_moved,
    run_by_plan,
    run_managed,
    run_naively,
    run_on_blobs,
    run_on_host,
)

# The brief pipelines have small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

SMALL = brief_pipelines()
by_name = pytest.mark.parametrize("pipeline", SMALL, ids=lambda pipeline: pipeline.name)


def copies_for(device: str) -> NumpyCopies | CupyCopies:
    return CupyCopies() if device.startswith("cuda") else NumpyCopies()


# --- Blobs ----------------------------------------------------------------------------------------


@by_name
def test_blobs_move_exactly_the_least_possible(pipeline, accelerator):
    moved, results = bytes_moved(pipeline, accelerator)
    assert moved == least_bytes(pipeline)
    require_same("on Blobs", results, run_on_host(pipeline))


@pytest.mark.parametrize("pipeline", pipelines(), ids=lambda pipeline: pipeline.name)
@pytest.mark.gpu
def test_blobs_on_a_gpu_move_the_least_possible_at_full_size(pipeline):
    moved, results = bytes_moved(pipeline, "cuda:0")
    assert moved == least_bytes(pipeline)
    require_same("on Blobs", results, run_on_host(pipeline))


@by_name
def test_the_device_counts_as_many_bytes_as_the_journal(pipeline, simulated):
    moved, _ = bytes_moved(pipeline, "simulated:0")
    assert moved == simulated.uploaded_bytes + simulated.downloaded_bytes


@by_name
def test_one_byte_less_is_not_enough(pipeline):
    least = least_bytes(pipeline)
    with syncblob.max_transfers(bytes=least):
        run_on_blobs(pipeline, "simulated:0")
    with (
        syncblob.max_transfers(bytes=least - 1),
        pytest.raises(syncblob.TransferGuardError),
    ):
        run_on_blobs(pipeline, "simulated:0")


@by_name
def test_a_step_that_writes_too_much_moves_more(pipeline):
    """A const read that is requested as a mutable one moves more bytes than necessary."""
    steps = [
        step._replace(
            uses=tuple(
                use._replace(intent="update") if use.intent == "read" else use for use in step.uses
            )
        )
        for step in pipeline.steps
    ]
    careless = dataclasses.replace(pipeline, steps=steps)
    moved, _ = bytes_moved(careless, "simulated:0")
    assert moved > least_bytes(pipeline)


# --- other implementations ------------------------------------------------------------------------


@by_name
def test_copies_by_plan_are_the_least_possible(pipeline, accelerator):
    copies = copies_for(accelerator)
    results = run_by_plan(pipeline, copies, plan(pipeline))
    assert copies.nbytes == least_bytes(pipeline)
    require_same("by plan", results, run_on_host(pipeline))


@by_name
def test_copies_at_each_step_are_more(pipeline, accelerator):
    copies = copies_for(accelerator)
    results = run_naively(pipeline, copies)
    assert copies.nbytes > least_bytes(pipeline)
    require_same("naively", results, run_on_host(pipeline))


@by_name
@pytest.mark.gpu
def test_managed_memory_gives_the_same_results(pipeline):
    require_same("managed", run_managed(pipeline), run_on_host(pipeline))


def test_other_results_are_an_error():
    with pytest.raises(RuntimeError, match="naive: sums differs from what NumPy alone computes"):
        require_same("naive", {"sums": np.zeros(3)}, {"sums": np.ones(3)})


# --- the least possible transfers -----------------------------------------------------------------


def nothing(_xp: object, *_arrays: object) -> None:
    """Compute nothing. These tests only need the transfers."""


# Uses of a buffer of 10 rows of 4 bytes, and the bytes that must move for them.
TRACES = [
    ("host write, device read", 40),
    ("device write, host read", 40),
    ("host write, device write", 0),
    ("host write, device write, host read", 40),
    ("host write, device read, device read, host read", 40),
    ("host write, device update, host read", 80),
    ("host write, device read, host update, device read", 80),
    ("host read, device read", 0),
    ("device update, host read", 40),
    ("host write, device read 0:3, device read 3:10", 40),
    ("host write, device read 0:3, device read 0:3", 12),
    ("host write, device read 0:6, device read 4:10", 40),
    ("host write, device write 0:3, host read", 12),
    ("host write, device update 0:3, host read 5:10", 12),
    ("host write, device write 0:5, device write 5:10, host read", 40),
]


@pytest.mark.parametrize(("trace", "least"), TRACES)
def test_the_least_possible(trace, least):
    pipeline = Pipeline("trace", {"x": Buffer((10,))}, ())
    for step in trace.split(", "):
        side, intent, *rows = step.split()
        part = slice(*map(int, rows[0].split(":"))) if rows else None
        pipeline.add(step, side, [Use("x", intent, part)], nothing)
    assert least_bytes(pipeline) == least


def test_results_are_looked_at_on_the_host():
    pipeline = Pipeline("trace", {"x": Buffer((10,), "int64")}, ("x",))
    pipeline.add("write", "device", [Use("x", "write")], nothing)
    assert [len(copies) for copies in plan(pipeline)] == [0, 1]
    assert least_bytes(pipeline) == 80
