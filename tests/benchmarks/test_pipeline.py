"""Programs on both sides move only the necessary bytes, and compute the same as NumPy alone."""

import numpy as np
import pytest

import syncblob
from benchmarks.dataflow import Buffer, Program, at_each_step, bytes_of, plan
from benchmarks.pipeline import (
    PLANS,
    bytes_moved,
    require_same,
    run_by_plan,
    run_managed,
    run_on_blobs,
    run_on_host,
)
from benchmarks.programs import parts, whole

# The brief programs have small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

SMALL = [*whole(brief=True), *parts(brief=True)]
by_name = pytest.mark.parametrize("program", SMALL, ids=lambda program: program.name)


@by_name
def test_blobs_move_exactly_the_least_possible(program, accelerator):
    if accelerator.startswith(("drawer", "sycl")):
        pytest.skip("NumPy's functions do not take its arrays")
    moved, results = bytes_moved(program, accelerator)
    shared = syncblob.memory_kind(accelerator) == "shared"
    assert moved == (0 if shared else bytes_of(plan(program)))
    require_same("on Blobs", results, run_on_host(program))


@pytest.mark.parametrize("program", [*whole(), *parts()], ids=lambda program: program.name)
@pytest.mark.gpu
def test_blobs_on_a_gpu_move_the_least_possible_at_full_size(program):
    moved, results = bytes_moved(program, "cuda:0")
    assert moved == bytes_of(plan(program))
    require_same("on Blobs", results, run_on_host(program))


@by_name
def test_one_byte_less_is_not_enough(program):
    least = bytes_of(plan(program))
    with syncblob.max_transfers(bytes=least):
        run_on_blobs(program, "simulated:0")
    with syncblob.max_transfers(bytes=least - 1), pytest.raises(syncblob.TransferGuardError):
        run_on_blobs(program, "simulated:0")


@pytest.mark.parametrize("name", PLANS)
@by_name
def test_copies_by_plan_compute_the_same(program, name, accelerator):
    device = accelerator if accelerator.startswith("cuda") else None
    require_same(name, run_by_plan(program, PLANS[name](program), device), run_on_host(program))


@by_name
@pytest.mark.gpu
def test_managed_memory_gives_the_same_results(program):
    require_same("managed", run_managed(program), run_on_host(program))


def test_other_results_are_an_error():
    with pytest.raises(RuntimeError, match="naive: sums"):
        require_same("naive", {"sums": np.zeros(3)}, {"sums": np.ones(3)})


# --- the least possible transfers -----------------------------------------------------------------


def nothing(_xp, *_arrays):
    """Compute nothing. These tests only need the transfers."""


# Uses of a buffer of 10 rows of 4 bytes: "+" updates, "=" overwrites it. The bytes that must move
# for them, those if the array is tracked as a whole, and those of copies at each step.
TRACES = [
    ("host x=, device x", 40, 40, 40),
    ("device x=, host x", 40, 40, 40),
    ("host x=, device x=", 0, 0, 40),
    ("host x=, device x=, host x", 40, 40, 40),
    ("host x=, device x, device x, host x", 40, 40, 80),
    ("host x=, device x+, host x", 80, 80, 80),
    ("host x=, device x, host x+, device x", 80, 80, 80),
    ("host x, device x", 0, 0, 40),
    ("device x+, host x", 40, 40, 80),
    ("host x=, device x 0:3, device x 3:10", 40, 40, 40),
    ("host x=, device x 0:3, device x 0:3", 12, 40, 24),
    ("host x=, device x 0:6, device x 4:10", 40, 40, 48),
    ("host x=, device x= 0:3, host x", 12, 80, 12),
    ("host x=, device x+ 0:3, host x 5:10", 12, 80, 24),
    ("host x=, device x= 0:5, device x= 5:10, host x", 40, 80, 40),
]


@pytest.mark.parametrize(("trace", "least", "whole", "each"), TRACES)
def test_the_bytes_of_plans(trace, least, whole, each):
    program = Program("trace", {"x": Buffer((10,))}, ())
    for step in trace.split(", "):
        side, use, *rows = step.split()
        part = {"x": slice(*map(int, rows[0].split(":")))} if rows else {}
        program.add(side, use, nothing, **part)
    assert bytes_of(plan(program)) == least
    assert bytes_of(plan(program, whole=True)) == whole
    assert bytes_of(at_each_step(program)) == each


def test_results_are_looked_at_on_the_host():
    program = Program("trace", {"x": Buffer((10,), "int64")}, ("x",))
    program.add("device", "x=", nothing)
    assert [len(copies) for copies in plan(program)] == [0, 1]
    assert bytes_of(plan(program)) == 80
