"""Fixtures for all tests: devices, and the rule for tests that need a GPU."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import types
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import cupy_model
import pytest
from cuda_model import Machine
from devices import ACCELERATORS
from hypothesis import HealthCheck, settings
from program_devices import Cuda, Shared, SharedCuda, Simulated, Sycl

import syncblob
from syncblob.devices import SimulatedBackend, cuda, simulation
from syncblob.devices import accelerator as accelerator_named
from syncblob.errors import NoDeviceError
from syncblob.memory import changes, room, windows

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("default")

# As if the package had been installed: its backend, of drawer:N, is found by its entry point.
sys.path.append(str(Path(__file__).parent / "devices" / "drawers_package"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-gpu", action="store_true", help="fail, not skip, where there is no CUDA device"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude imported and collected objects, which are most of all, from garbage collection."""
    thresholds = gc.get_threshold()
    # Not `gc.disable()`: Dask, imported then, would disable it again after each index it takes.
    gc.set_threshold(0)
    try:
        return (yield)
    finally:
        gc.set_threshold(*thresholds)
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("sycl") is not None:
        try:
            accelerator_named("sycl:0")
        except NoDeviceError as error:
            pytest.skip(str(error))
        if "bfloat16" in item.name.partition("[")[2]:
            pytest.skip("dpnp has no bfloat16")
    if item.get_closest_marker("gpu") is None or cuda.device_count():
        return
    if item.config.getoption("--require-gpu"):
        pytest.fail("--require-gpu was given and there is no CUDA device", pytrace=False)
    pytest.skip("needs a CUDA device")


@pytest.fixture(params=ACCELERATORS)
def accelerator(request: pytest.FixtureRequest) -> str:
    """Return the name of an accelerator: the simulated one, or the real one if there is one."""
    name: str = request.param
    return name


@pytest.fixture
def simulated() -> Iterator[SimulatedBackend]:
    """Give the backend of simulated:0, with counters at zero, no delay and no capacity."""
    backend = syncblob.simulated(0)
    # Uploads that an earlier test started must not be counted here.
    backend.synchronize()
    backend.reset_counts()
    backend.delay = 0.0
    yield backend
    backend.delay = 0.0
    backend.capacity = None
    backend.synchronize()


@pytest.fixture
def gate(simulated: SimulatedBackend, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Give the event that the copies of streams with a delay wait for."""
    opened = threading.Event()

    def sleep(seconds: float) -> None:
        if seconds:
            opened.wait()

    clock = types.SimpleNamespace(sleep=sleep, perf_counter=time.perf_counter)
    monkeypatch.setattr(simulation, "time", clock)
    simulated.delay = 1.0
    yield opened
    opened.set()
    simulated.synchronize()


@pytest.fixture
def held(
    simulated: SimulatedBackend, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> SimulatedBackend:
    """Hold back asynchronous copies until something waits for one."""
    wait = simulation._Work.wait

    def release(work: simulation._Work) -> None:
        gate.set()
        wait(work)

    monkeypatch.setattr(simulation._Work, "wait", release)
    return simulated


@pytest.fixture
def limited() -> Iterator[SimulatedBackend]:
    """Give a simulated device whose capacity and delay a test may set."""
    backend = syncblob.simulated(7)
    backend.synchronize()
    if backend.used_nbytes:
        # Cycles, as those of tracebacks, may keep Blobs of earlier tests there.
        gc.collect()
    backend.reset_counts()
    yield backend
    backend.capacity = None
    backend.delay = 0.0


@pytest.fixture
def no_collections(limited: SimulatedBackend, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001  # comes first
    """Fail if an eviction collects garbage: that takes a second in a large program."""
    monkeypatch.setattr(room.gc, "collect", lambda: pytest.fail("garbage was collected"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small memories have windows, too."""
    monkeypatch.setattr(windows, "_WHOLE", 0)


@pytest.fixture(scope="module")
def exact_parts() -> Iterator[None]:
    """Copy exactly the parts asked for, also of small memories, so that tests can count them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "SMALL", 0)
        yield


@pytest.fixture(params=["lazy", "eager"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Give a model of a computer with two CUDA devices, which replaces CuPy in syncblob.

    In the test, ``import cupy`` imports the model. Tests run with lazy and with eager streams.
    """
    machine = Machine(2, eager=request.param == "eager")
    with cupy_model.installed(machine):
        yield machine


@pytest.fixture(
    params=[
        "simulated",
        "lazy",
        "eager",
        pytest.param("cuda", marks=pytest.mark.gpu),
        pytest.param("sycl", marks=[pytest.mark.sycl, pytest.mark.long]),
    ]
)
def program_device(request: pytest.FixtureRequest) -> Iterator[type[Simulated | Cuda]]:
    """Give the device that random programs run on, including both modes of the CUDA model."""
    real = {"simulated": Simulated, "cuda": Cuda, "sycl": Sycl}
    if request.param == "sycl":
        with separate_memory(Sycl.name):
            yield Sycl
        return
    if request.param in real:
        yield real[request.param]
        return
    with cupy_model.installed(Machine(1, eager=request.param == "eager")):
        yield Cuda


@pytest.fixture(
    params=["simulated", pytest.param("sycl", marks=[pytest.mark.sycl, pytest.mark.long])]
)
def shared_device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> type[Shared | Sycl]:
    """Return a device that random programs run on and that shares the memory of the host.

    The work of the simulated one runs when something waits for it.
    """
    opened, wait = threading.Event(), simulation._Work.wait

    def release(work: simulation._Work) -> None:
        opened.set()
        wait(work)
        opened.clear()

    def sleep(seconds: float) -> None:
        if seconds:
            opened.wait()

    clock = types.SimpleNamespace(sleep=sleep, perf_counter=time.perf_counter)
    monkeypatch.setattr(simulation, "time", clock)
    monkeypatch.setattr(simulation._Work, "wait", release)
    return Shared if request.param == "simulated" else Sycl


@pytest.fixture(params=["lazy", "eager"])
def shared_cuda(request: pytest.FixtureRequest) -> Iterator[type[SharedCuda]]:
    """Give a device of the model of CUDA that shares the memory of the host, as Grace Hopper's."""
    machine = Machine(1, eager=request.param == "eager")
    machine.attributes |= {100, 101}
    with cupy_model.installed(machine):
        yield SharedCuda


@contextmanager
def separate_memory(device: str) -> Iterator[None]:
    """Give a device that shares the memory of the host memory of its own, inside a block."""
    syncblob.set_memory_kind(device, "separate")
    try:
        yield
    finally:
        syncblob.set_memory_kind(device, "shared")


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Exclude from garbage collection what earlier modules have left, which grows."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _default_device() -> Iterator[None]:
    """Reset the default device of the process after each test."""
    yield
    syncblob.set_default_device("cpu")


@pytest.fixture(scope="session")
def real_files() -> Path:
    """Files written by real Caffe, which are outside the project."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    directory = Path(os.environ.get("SYNCBLOB_REAL_FILES", default))
    if not directory.is_dir():
        pytest.skip(f"no real files in {directory}; SYNCBLOB_REAL_FILES names their directory")
    return directory
