"""The model of CUDA and CuPy behaves as their documentation says, with CuPy's names."""

import gc
import inspect
import re
import sys
from operator import attrgetter

import cupy_model
import numpy as np
import pytest
from cuda_model import ERRORS, CUDARuntimeError, Machine
from cupy_model import launch
from in_threads import in_threads

import syncblob
from syncblob.devices import cuda

CLASSES = """Device Event ExternalStream ManagedMemory Memory MemoryAsync MemoryPointer MemoryPool
    Stream UnownedMemory""".split()


@pytest.fixture
def cupy(machine):  # noqa: ARG001  # it installs the model
    import cupy

    return cupy


@pytest.fixture
def real():
    """Return the real CuPy, which can be imported without a GPU."""
    return pytest.importorskip("cupy", exc_type=ImportError)


# --- the names and arguments are CuPy's -----------------------------------------------------------


def parameters(function):
    """Return the names of a function's arguments; None if a function in C does not tell them."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return None
    names = [
        ("*" if p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) else "") + p.name
        for p in signature.parameters.values()
    ]
    return [name for name in names if name not in ("self", "cls")]


def paths():
    """Return the names in CuPy of what the model has."""
    yield from cupy_model.CUPY_NAMES
    for name in cupy_model.CUDA_NAMES:
        yield f"cuda.{name}"
    for name in sorted(set(dir(cupy_model.runtime)) - {"CUDARuntimeError"}):
        if not name.startswith("__"):
            yield f"cuda.runtime.{name}"
    for path in [*(f"cuda.{name}" for name in CLASSES), "ndarray"]:
        kind = getattr(cupy_model, path.removeprefix("cuda."))
        for name in sorted({name for base in kind.__mro__[:-1] for name in vars(base)}):
            if not name.startswith("_") or name in ("__dlpack__", "__cuda_stream__"):
                yield f"{path}.{name}"


@pytest.mark.parametrize("path", [*paths()])
def test_a_name_is_cupys_with_its_value_or_its_arguments(real, path):
    owner, _, name = path.rpartition(".")
    owner = attrgetter(owner)(real) if owner else real
    ours = attrgetter(path.removeprefix("cuda."))(cupy_model)
    if not hasattr(owner, name):
        # Only instances have these attributes.
        assert re.search(rf"(^|[ ~.]){name} \(", owner.__doc__, re.MULTILINE)
        return
    theirs = getattr(owner, name)
    if isinstance(ours, int):
        assert ours == theirs
    elif callable(ours) and not inspect.isclass(ours):
        assert parameters(theirs) in (None, parameters(ours))


@pytest.mark.parametrize("status", ERRORS)
def test_an_error_has_the_name_and_the_text_of_cudas(real, status):
    assert str(CUDARuntimeError(status)) == str(real.cuda.runtime.CUDARuntimeError(status))


def test_what_the_model_lacks_is_an_error(cupy):
    with pytest.raises(AttributeError):
        _ = cupy.einsum
    with pytest.raises(AttributeError):
        _ = cupy.cuda.runtime.streamCreate
    with pytest.raises(AttributeError):
        cupy.zeros(3).sort()
    with pytest.raises(TypeError):
        cupy.zeros(3, typ="f4")


def test_it_leaves_no_trace():
    before = {name: module for name, module in sys.modules.items() if "cupy" in name}
    count, devices = cuda.device_count(), syncblob.available_devices()
    with cupy_model.installed(Machine(3)):
        assert cuda.device_count() == 3
        syncblob.Blob(3, device="cuda:2").gpu_data()
        assert "cuda:2" in syncblob.available_devices()
    assert cuda.device_count() == count
    assert syncblob.available_devices() == devices
    assert {name: module for name, module in sys.modules.items() if "cupy" in name} == before
    if not count:
        with pytest.raises(syncblob.NoDeviceError):
            syncblob.Blob(3, device="cuda:2")


# --- streams and memory ---------------------------------------------------------------------------


def set_to(value):
    return lambda array: array.fill(value)


def test_work_runs_when_it_is_waited_for_or_at_once(cupy, machine):
    done = []
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    launch(lambda: done.append(1), stream=first)
    event = first.record()
    assert done == [1] * machine.eager
    assert event.done == first.done == machine.eager
    second.wait_event(event)
    launch(lambda: done.append(2), stream=second)
    second.synchronize()
    assert done == [1, 2]
    assert event.done


@pytest.mark.parametrize("machine", ["lazy"], indirect=True)
@pytest.mark.parametrize("non_blocking", [False, True])
def test_the_legacy_stream_is_ordered_with_blocking_streams_only(cupy, non_blocking):
    done = []
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    launch(lambda: done.append("side"), stream=stream)
    launch(lambda: done.append("legacy"))
    launch(lambda: done.append("side again"), stream=stream)
    with cupy.cuda.Device(1):
        other = cupy.cuda.Stream()
        launch(lambda: done.append("other device"), stream=other)
    cupy.cuda.Stream.null.synchronize()
    assert done == (["legacy"] if non_blocking else ["side", "legacy", "side again"])
    cupy.cuda.Device(0).synchronize()
    assert len(done) == 3


def test_memory_is_poisoned_when_it_is_allocated_and_when_it_is_freed(cupy):
    cycle = [cupy.empty(3)]
    assert np.isnan(cycle[0].tolist()).all()
    cycle[0][...] = 1
    address = cycle[0].data.ptr
    cycle.append(cycle)
    del cycle
    gc.collect()
    with cupy.cuda.Stream():
        # It is given to those on its stream.
        assert cupy.empty(3).data.ptr != address
    again = cupy.empty(3)
    assert again.data.ptr == address
    assert np.isnan(again.tolist()).all()


@pytest.mark.parametrize("machine", ["lazy"], indirect=True)
def test_only_work_on_its_own_stream_runs_before_memory_is_freed(cupy):
    seen = []
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        array = cupy.zeros(3)
        cupy.cuda.Stream.null.synchronize()
        launch(lambda a: seen.append(float(a[0])), array, stream=stream)
        del array
        stream.synchronize()
    assert (seen[0], np.isnan(seen[1])) == (0, True)


@pytest.mark.parametrize("machine", ["lazy"], indirect=True)
@pytest.mark.parametrize("pinned", [False, True])
def test_a_copy_reads_pageable_memory_at_once_and_page_locked_memory_when_it_runs(cupy, pinned):
    runtime, array = cupy.cuda.runtime, cupy.zeros(3, "u1")
    memory = cupy.cuda.alloc_pinned_memory(3) if pinned else bytearray(3)
    host = np.frombuffer(memory, np.uint8, 3)
    host[:] = 1
    runtime.memcpyAsync(array.data.ptr, host.ctypes.data, 3, runtime.memcpyHostToDevice, 0)
    host[:] = 2
    assert array.tolist() == [2 if pinned else 1] * 3
    launch(set_to(5), array)
    runtime.memcpyAsync(host.ctypes.data, array.data.ptr, 3, runtime.memcpyDeviceToHost, 0)
    assert host.tolist() == [2 if pinned else 5] * 3
    cupy.cuda.Stream.null.synchronize()
    assert host.tolist() == [5] * 3


# --- graphs ---------------------------------------------------------------------------------------


def test_captured_work_runs_when_the_graph_is_launched(cupy):
    array = cupy.zeros(3)
    cupy.cuda.Stream.null.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        assert stream.is_capturing()
        launch(lambda a: a.__iadd__(1), array)
        launch(lambda a: a.__imul__(10), array)
        graph = stream.end_capture()
    assert not stream.is_capturing()
    assert array.tolist() == [0] * 3
    graph.launch(stream)
    graph.launch(stream)
    stream.synchronize()
    assert array.tolist() == [110] * 3


FORBIDDEN = {
    "to wait for the stream": lambda _cupy, s: s.synchronize(),
    "to ask the stream": lambda _cupy, s: s.done,
    "to wait for the device": lambda cupy, _s: cupy.cuda.Device().synchronize(),
    "to wait for an event of it": lambda _cupy, s: s.record().synchronize(),
    "to ask an event of it": lambda _cupy, s: s.record().done,
    "work that was not captured": lambda cupy, s: s.wait_event(cupy.cuda.Stream.null.record()),
    "to look at an array": lambda cupy, _s: cupy.empty(3).get(),
    "to make another stream wait": lambda cupy, s: cupy.cuda.Stream.null.wait_event(s.record()),
}


@pytest.mark.parametrize("what", FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_a_capture_forbids_invalidates_it(cupy, what):
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(CUDARuntimeError):
            what(cupy, stream)
        with pytest.raises(RuntimeError, match="captur"):
            stream.is_capturing()
        with pytest.raises(CUDARuntimeError, match="Invalidated"):
            launch(int, stream=stream)
        with pytest.raises(CUDARuntimeError, match="Invalidated"):
            stream.end_capture()
        assert not stream.is_capturing()


def test_the_legacy_stream_cannot_be_used_while_a_blocking_one_is_captured(cupy):
    stream, legacy = cupy.cuda.Stream(), cupy.cuda.Stream.null
    stream.begin_capture()
    with pytest.raises(CUDARuntimeError, match="Implicit"):
        legacy.is_capturing()
    # The query has not invalidated the capture.
    assert stream.is_capturing()
    with pytest.raises(CUDARuntimeError, match="Implicit"):
        launch(int)
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        stream.end_capture()


@pytest.mark.parametrize("mode", ["Global", "ThreadLocal", "Relaxed"])
@pytest.mark.parametrize("there", [False, True])
def test_the_mode_of_a_capture_says_who_may_make_unsafe_calls(cupy, mode, there):
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    stream.begin_capture(getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}"))
    failed = []

    def wait():
        try:
            other.synchronize()
        except CUDARuntimeError as error:
            failed.append(error)

    in_threads(wait) if there else wait()
    assert len(failed) == (mode == "Global" or (mode == "ThreadLocal" and not there))
    if failed:
        with pytest.raises(CUDARuntimeError, match="Invalidated"):
            stream.end_capture()
    else:
        stream.end_capture()
