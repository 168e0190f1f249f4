"""Each pipeline, run in all ways: bytes moved and time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.machine import cuda_device
from benchmarks.pipeline.dataflow import least_bytes, plan
from benchmarks.pipeline.runners import (
    CupyCopies,
    NumpyCopies,
    PageLockedCopies,
    bytes_moved,
    run_by_plan,
    run_managed,
    run_naively,
    run_on_blobs,
    run_on_host,
)
from benchmarks.pipeline.scenarios import inference, simulation, training
from benchmarks.rows import Goal, Measured, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.pipeline.dataflow import Pipeline
    from benchmarks.pipeline.runners import Copies, Results
    from benchmarks.timing import Timer

__all__ = ["brief_pipelines", "measure", "pipelines", "require_same"]

# For sums of float32, which libraries add up in different orders.
TOLERANCE = 1e-3


def pipelines() -> list[Pipeline]:
    """Return all pipelines, in full size."""
    return [inference(), training(), simulation()]


def brief_pipelines() -> list[Pipeline]:
    """Return all pipelines, small."""
    return [inference(3, 4, 8), training(2, 5, 4, 6), simulation(4, 2, 8)]


def measure(timer: Timer) -> Measured:
    """Measure bytes and time for each pipeline and each way to run it."""
    device = cuda_device()
    measured = Measured()
    if device is None:
        measured.notes.append(
            "there is no CUDA device: Blobs run on the simulated one, copies are NumPy's, and "
            "managed memory is not compared; bytes are the same as on a GPU, times are not"
        )
    for pipeline in brief_pipelines() if timer.brief else pipelines():
        measured.rows += _bytes(pipeline, device)
        measured.rows += _times(timer, pipeline, device)
    return measured


def require_same(name: str, results: Results, expected: Results) -> None:
    """Raise if the results of a run differ from those of NumPy alone."""
    for buffer, array in expected.items():
        if not np.allclose(results[buffer], array, rtol=TOLERANCE, atol=TOLERANCE):
            raise RuntimeError(f"{name}: {buffer} differs from what NumPy alone computes")


def _copies(device: str | None) -> Copies:
    return NumpyCopies() if device is None else CupyCopies()


def _bytes(pipeline: Pipeline, device: str | None) -> list[Row]:
    expected = run_on_host(pipeline)
    moved, results = bytes_moved(pipeline, device or "simulated:0")
    require_same(f"{pipeline.name} on Blobs", results, expected)
    naive, by_plan = _copies(device), _copies(device)
    require_same(f"{pipeline.name}, naive", run_naively(pipeline, naive), expected)
    require_same(
        f"{pipeline.name}, planned", run_by_plan(pipeline, by_plan, plan(pipeline)), expected
    )
    if device is not None:
        require_same(f"{pipeline.name}, managed", run_managed(pipeline), expected)
        pooled = run_managed(pipeline, pooled=True)
        require_same(f"{pipeline.name}, managed, pooled", pooled, expected)
        naive_too, planned_too = PageLockedCopies(), PageLockedCopies()
        locked = run_naively(pipeline, naive_too)
        require_same(f"{pipeline.name}, naive, page-locked", locked, expected)
        locked = run_by_plan(pipeline, planned_too, plan(pipeline))
        require_same(f"{pipeline.name}, planned, page-locked", locked, expected)
    section = f"bytes moved by {pipeline.name}, {len(pipeline.steps)} steps"
    return [
        Row(section, "Blobs", moved, rival, value, "bytes", goal)
        for rival, value, goal in (
            ("the least possible", least_bytes(pipeline), Goal(1.0)),
            ("copies planned by hand", by_plan.nbytes, None),
            ("copies at each step", naive.nbytes, None),
        )
    ]


def _times(timer: Timer, pipeline: Pipeline, device: str | None) -> list[Row]:
    planned = plan(pipeline)
    rivals: dict[str, Callable[[], object]] = {
        "copies planned by hand": lambda: run_by_plan(pipeline, _copies(device), planned),
        "copies at each step": lambda: run_naively(pipeline, _copies(device)),
    }
    if device is not None:
        rivals["copies planned by hand, page-locked"] = lambda: run_by_plan(
            pipeline, PageLockedCopies(), planned
        )
        rivals["copies at each step, page-locked"] = lambda: run_naively(
            pipeline, PageLockedCopies()
        )
        rivals["managed memory"] = partial(run_managed, pipeline)
        rivals["managed memory, pooled"] = partial(run_managed, pipeline, pooled=True)
    ours = partial(run_on_blobs, pipeline, device or "simulated:0")
    times = timer.medians({"ours": ours, **rivals})
    section = f"time of {pipeline.name}, {len(pipeline.steps)} steps"
    return [Row(section, "Blobs", times["ours"], rival, times[rival]) for rival in rivals]
