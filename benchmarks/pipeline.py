"""Programs on both sides, run in all ways: bytes moved, compared with the minimum, and time."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.dataflow import Copy, Program, Use, at_each_step, bytes_of, plan
from benchmarks.machine import cuda_device
from benchmarks.programs import parts, whole
from benchmarks.rows import Goal, Measured, Row
from benchmarks.timing import Timer
from benchmarks.transfers import copy_async, pinned_array
from syncblob import Blob, record_transfers

Results = dict[str, np.ndarray]
# For sums of float32, which libraries add up in different orders.
TOLERANCE = 1e-3
PLANS: dict[str, Callable[[Program], list[list[Copy]]]] = {
    "copies planned by hand": plan,
    "whole arrays, planned by hand": partial(plan, whole=True),
    "copies at each step": at_each_step,
}
# Those which copy no more than Blobs do.
EXACT = ("copies planned by hand",)
NOTE = (
    "there is no CUDA device: Blobs run on the simulated one, copies are NumPy's, and managed "
    "memory is not compared; bytes are the same as on a GPU, times are not"
)


def measure(timer: Timer) -> Measured:
    """Measure bytes and time of whole programs, for each way to run them."""
    return _measured(timer, whole(brief=timer.brief))


def measure_parts(timer: Timer) -> Measured:
    """Do so for programs on parts of an array."""
    return _measured(timer, parts(brief=timer.brief))


def _measured(timer: Timer, programs: list[Program]) -> Measured:
    device = cuda_device()
    rows = [row for one in programs for row in _rows(timer, one, device)]
    return Measured(rows, [] if device else [NOTE])


def _rows(timer: Timer, program: Program, device: str | None) -> Iterator[Row]:
    on = device or "simulated:0"
    expected = run_on_host(program)
    moved, results = bytes_moved(program, on)
    require_same(f"{program.name} on Blobs", results, expected)
    section = f"bytes moved by {program.name}, {len(program.steps)} steps"
    least = bytes_of(plan(program))
    yield Row(section, "Blobs", moved, "the least possible", least, "bytes", Goal(1.0))
    calls: dict[str, Callable[[], Results]] = {}
    for name, make in PLANS.items():
        planned = make(program)
        yield Row(section, "Blobs", moved, name, bytes_of(planned), "bytes", Goal(1.0))
        calls[name] = partial(run_by_plan, program, planned, device)
    if device is not None:
        calls["managed memory"] = partial(run_managed, program)
    for name, call in calls.items():
        require_same(f"{program.name}, {name}", call(), expected)
    calls["Blobs"] = partial(run_on_blobs, program, on)
    times = timer.medians(calls, rounds=15, seconds=0)
    ours = times.pop("Blobs")
    section = f"time of {program.name}, {len(program.steps)} steps"
    for rival, seconds in times.items():
        goal = Goal(1.15 if rival in EXACT else 1.0)
        yield Row(section, "Blobs", ours, rival, seconds, goal=goal)


def require_same(name: str, results: Results, expected: Results) -> None:
    """Raise if the results of a run differ from those of NumPy alone."""
    for buffer, array in expected.items():
        if not np.allclose(results[buffer], array, rtol=TOLERANCE, atol=TOLERANCE):
            raise RuntimeError(f"{name}: {buffer} differs from what NumPy alone computes")


# --- ways to run a program ------------------------------------------------------------------------


def run_on_host(program: Program) -> Results:
    """Run everything with NumPy on one set of arrays, for the expected results."""
    arrays = {name: np.zeros(*buffer) for name, buffer in program.buffers.items()}
    for step in program.steps:
        step.compute(np, *(use.of(arrays[use.name]) for use in step.uses))
    return {name: arrays[name] for name in program.results}


def bytes_moved(program: Program, device: str) -> tuple[int, Results]:
    """Run on Blobs, and return the bytes moved according to the log, and the results."""
    with record_transfers() as log:
        results = run_on_blobs(program, device)
    return log.nbytes, results


def run_on_blobs(program: Program, device: str) -> Results:
    """Run on Blobs. A step only accesses its buffers; there are no explicit copies."""
    blobs: dict[str, Blob] = {
        name: Blob(buffer.shape, buffer.dtype, device=device)
        for name, buffer in program.buffers.items()
        if not name.endswith(".diff")
    }
    for name in program.buffers.keys() - blobs.keys():
        blobs[name] = blobs[name.removesuffix(".diff")].diff
    libraries = {"host": np, "device": _cupy() if device.startswith("cuda") else np}
    for step in program.steps:
        arrays = (_access(use.of(blobs[use.name]), step.side, use) for use in step.uses)
        step.compute(libraries[step.side], *arrays)
    return {name: np.asarray(blobs[name]) for name in program.results}


def _access(blob: Blob, side: str, use: Use) -> Any:
    prefix = {"read": "", "update": "mutable_", "write": "overwrite_"}[use.intent]
    return getattr(blob, f"{prefix}{'cpu' if side == 'host' else 'gpu'}_data")()


def _cupy() -> Any:
    import cupy  # there is a CUDA device, so CuPy is there

    return cupy


def run_by_plan(program: Program, planned: Sequence[list[Copy]], device: str | None) -> Results:
    """Run with the copies of a plan, on a GPU from and to page-locked memory.

    The host waits for uploads only before it computes. Without a GPU, NumPy arrays replace those of
    the device.
    """
    xp = np if device is None else _cupy()
    hosts = {}
    for name, buffer in program.buffers.items():
        raw = np.empty(buffer.nbytes, "u1") if device is None else pinned_array(xp, buffer.nbytes)
        hosts[name] = raw.view(buffer.dtype).reshape(buffer.shape)
        hosts[name].fill(0)
    devices = {name: xp.zeros(*buffer) for name, buffer in program.buffers.items()}

    def make(needed: list[Copy]) -> None:
        for use, to, _ in needed:
            host, array = use.of(hosts[use.name]), use.of(devices[use.name])
            if device is None:
                np.copyto(*((array, host) if to == "device" else (host, array)))
            else:
                copy_async(xp, host, array, xp.cuda.get_current_stream(), up=to == "device")

    def wait() -> None:
        if device is not None:
            xp.cuda.get_current_stream().synchronize()

    for step, needed in zip(program.steps, planned, strict=False):
        make(needed)
        arrays, library = devices, xp
        if step.side == "host":
            wait()
            arrays, library = hosts, np
        step.compute(library, *(use.of(arrays[use.name]) for use in step.uses))
    make(planned[-1])
    wait()
    return {name: hosts[name] for name in program.results}


def run_managed(program: Program) -> Results:
    """Run in CUDA's managed memory: one address for both sides, whose pages the driver moves.

    The host waits for the device before it accesses the memory.
    """
    cupy = _cupy()
    devices, hosts = {}, {}
    for name, buffer in program.buffers.items():
        pointer = cupy.cuda.malloc_managed(buffer.nbytes)
        devices[name] = cupy.ndarray(buffer.shape, buffer.dtype, pointer)
        devices[name][...] = 0
        memory = (ctypes.c_uint8 * buffer.nbytes).from_address(pointer.ptr)
        hosts[name] = np.frombuffer(memory, buffer.dtype).reshape(buffer.shape)
    for step in program.steps:
        if step.side == "host":
            cupy.cuda.Device().synchronize()
        arrays, library = (hosts, np) if step.side == "host" else (devices, cupy)
        step.compute(library, *(use.of(arrays[use.name]) for use in step.uses))
    cupy.cuda.Device().synchronize()
    # Copy, because the memory is freed with the arrays of the device.
    return {name: hosts[name].copy() for name in program.results}
