"""The model of CUDA and CuPy behaves as their documentation says, with CuPy's names."""

import gc
import inspect
import re
import sys
import threading
from operator import attrgetter

import cuda_model
import cupy_model
import numpy as np
import pytest
from cuda_model import CUDARuntimeError, Machine
from cupy_model import launch

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
    """Return the names of a function's arguments; a star marks keyword-only ones."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Functions written in C have only a docstring.
        return documented(function.__doc__ or "")
    names = [
        ("*" if p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) else "") + p.name
        for p in signature.parameters.values()
    ]
    return [name for name in names if name not in ("self", "cls")]


def documented(docstring):
    """Return the same from a line such as ``copy(self, size_t size, *, order='C') -> ndarray``."""
    listed = re.match(r"[\w.]+\((.*?)\)(?: ->.*)?$", docstring.split("\n")[0])
    if listed is None:
        return None
    found, star = [], ""
    for text in listed[1].split(","):
        name = text.split("=")[0].split()[-1:] or [""]
        if name[0].strip("*") not in ("self", "cls", ""):
            found.append(name[0] if name[0].startswith("*") else star + name[0])
        if name[0].startswith("*"):
            star = "*"
    return found


def of_constructor(kind):
    """Return the arguments of a class; None if nothing says what they are."""
    found = parameters(kind)
    if found is None or found[0] == "*args":
        # Its docstring begins with them, or lists them.
        text = kind.__doc__ or ""
        listed = re.search(r"Args:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
        if listed is not None:
            return re.findall(r"^ {8}(\w+)[ :(]", listed[1], re.MULTILINE)
        found = documented(next((line for line in text.split("\n") if "(" in line), "").strip())
    return found


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
    elif inspect.isclass(ours):
        expected = of_constructor(theirs) if name in (*CLASSES, "ndarray") else None
        assert expected in (None, parameters(ours))
    elif callable(ours):
        assert parameters(theirs) in (None, parameters(ours))


@pytest.mark.parametrize("status", cuda_model.ERRORS)
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


# --- streams and events ---------------------------------------------------------------------------


def set_to(value):
    return lambda array: array.fill(value)


def seen(array, into):
    return lambda: launch(lambda a: into.append(a.tolist()), array)


def test_work_runs_when_it_is_waited_for_or_at_once(cupy, machine):
    done = []
    stream = cupy.cuda.Stream(non_blocking=True)
    launch(lambda: done.append(1), stream=stream)
    assert done == [1] * machine.eager
    assert stream.done == machine.eager
    stream.synchronize()
    assert done == [1]
    assert stream.done


def test_an_event_orders_two_streams(cupy, machine):
    done = []
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    launch(lambda: done.append(1), stream=first)
    event = first.record()
    assert event.done == machine.eager
    second.wait_event(event)
    launch(lambda: done.append(2), stream=second)
    second.synchronize()
    assert done == [1, 2]
    assert event.done


def test_streams_without_an_order_run_in_any():
    with cupy_model.installed(machine := Machine(1)) as cupy:
        done = []
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
        for number, stream in enumerate(streams):
            launch(lambda number=number: done.append(number), stream=stream)
        machine.finish(latest_first=True)
        assert done == [1, 0]
        assert machine.idle


@pytest.mark.parametrize("non_blocking", [False, True])
def test_the_legacy_stream_is_ordered_with_blocking_streams_only(non_blocking):
    with cupy_model.installed(Machine(1)) as cupy:
        done = []
        stream = cupy.cuda.Stream(non_blocking=non_blocking)
        launch(lambda: done.append("side"), stream=stream)
        launch(lambda: done.append("legacy"))
        launch(lambda: done.append("side again"), stream=stream)
        cupy.cuda.Stream.null.synchronize()
        assert done == (["legacy"] if non_blocking else ["side", "legacy", "side again"])
        stream.synchronize()
        cupy.cuda.Device(0).synchronize()
        assert len(done) == 3


def test_a_device_waits_for_its_own_streams():
    with cupy_model.installed(Machine(2)) as cupy:
        done = []
        for device in (0, 1):
            with cupy.cuda.Device(device):
                stream = cupy.cuda.Stream(non_blocking=True)
                launch(lambda device=device: done.append(device), stream=stream)
        del stream
        cupy.cuda.Device(1).synchronize()
        assert done == [1]
        assert cupy.cuda.runtime.getDevice() == 0


def test_the_current_stream_and_device_are_those_of_the_thread(cupy):
    seen = []

    def look():
        seen.append((cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr))

    with cupy.cuda.Device(1), cupy.cuda.Stream() as stream:
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        with cupy.cuda.Device(0):
            look()
            with pytest.raises(RuntimeError, match="does not match"):
                stream.use()
    look()
    assert seen == [(1, stream.ptr), (0, 0), (0, 0), (0, 0)]


# --- graphs ---------------------------------------------------------------------------------------


@pytest.fixture
def capturing(cupy):
    """Give a stream that is being captured and is current."""
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        yield stream
        if stream.ptr and any(c.origin is cuda_model._streams[stream.ptr] for c in captures()):
            with pytest.raises(CUDARuntimeError):
                stream.end_capture()


def captures():
    return cupy_model._machine._captures


def test_captured_work_runs_when_the_graph_is_launched(cupy):
    array, side = cupy.zeros(3), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Stream.null.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        assert stream.is_capturing()
        launch(lambda a: a.__iadd__(1), array)
        # Another stream joins the capture, and is joined back.
        side.wait_event(stream.record())
        launch(lambda a: a.__imul__(10), array, stream=side)
        stream.wait_event(side.record())
        launch(lambda a: a.__iadd__(5), array)
        graph = stream.end_capture()
    assert not stream.is_capturing()
    assert not side.is_capturing()
    assert array.tolist() == [0] * 3
    graph.launch(side)
    graph.launch(side)
    side.synchronize()
    assert array.tolist() == [165] * 3


FORBIDDEN = {
    "to wait for the stream": lambda _cupy, s: s.synchronize(),
    "to ask the stream": lambda _cupy, s: s.done,
    "to wait for the device": lambda cupy, _s: cupy.cuda.Device().synchronize(),
    "to wait for an event of it": lambda _cupy, s: s.record().synchronize(),
    "to ask an event of it": lambda _cupy, s: s.record().done,
    "work that was not captured": lambda cupy, s: s.wait_event(cupy.cuda.Stream.null.record()),
    "to look at an array": lambda cupy, _s: cupy.empty(3).get(),
    "to make the legacy stream wait": (
        lambda cupy, s: cupy.cuda.Stream.null.wait_event(s.record())
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_a_capture_forbids_invalidates_it(cupy, capturing, what):
    with pytest.raises(CUDARuntimeError):
        what(cupy, capturing)
    with pytest.raises(RuntimeError, match="captur"):
        capturing.is_capturing()
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        launch(int, stream=capturing)
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        capturing.end_capture()
    assert not capturing.is_capturing()


def test_the_legacy_stream_cannot_be_used_while_a_blocking_one_is_captured(cupy):
    array = cupy.zeros(3)
    stream, legacy = cupy.cuda.Stream(), cupy.cuda.Stream.null
    stream.begin_capture()
    with pytest.raises(CUDARuntimeError, match="Implicit"):
        legacy.is_capturing()
    # The query has not invalidated the capture.
    assert stream.is_capturing()
    with pytest.raises(CUDARuntimeError, match="Implicit"):
        launch(set_to(1), array)
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        stream.end_capture()
    with pytest.raises(RuntimeError, match="legacy"):
        legacy.begin_capture()


@pytest.mark.parametrize("mode", ["Global", "ThreadLocal", "Relaxed"])
def test_the_mode_of_a_capture_says_who_may_make_unsafe_calls(cupy, mode):
    runtime, other = cupy.cuda.runtime, cupy.cuda.Stream(non_blocking=True)

    def elsewhere(failed):
        try:
            other.synchronize()
        except CUDARuntimeError as error:
            failed.append(error)

    for unsafe in (lambda: cupy.empty(5_000), other.synchronize):
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.begin_capture(getattr(runtime, f"streamCaptureMode{mode}"))
        if mode == "Relaxed":
            unsafe()
            stream.end_capture()
            continue
        with pytest.raises(CUDARuntimeError, match="Unsupported"):
            unsafe()
        with pytest.raises(CUDARuntimeError, match="Invalidated"):
            stream.end_capture()
    failed = []
    stream.begin_capture(getattr(runtime, f"streamCaptureMode{mode}"))
    thread = threading.Thread(target=elsewhere, args=(failed,))
    thread.start()
    thread.join()
    assert len(failed) == (mode == "Global")
    if failed:
        with pytest.raises(CUDARuntimeError):
            stream.end_capture()
    else:
        stream.end_capture()


def test_a_stream_that_joined_must_come_back(cupy):
    stream, side = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    stream.begin_capture()
    side.wait_event(stream.record())
    launch(int, stream=side)
    with pytest.raises(CUDARuntimeError, match="Unmatched"):
        side.end_capture()
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        stream.end_capture()
    stream.begin_capture()
    event = stream.record()
    side.wait_event(event)
    launch(int, stream=side)
    with pytest.raises(CUDARuntimeError, match="Unjoined"):
        stream.end_capture()
    with pytest.raises(CUDARuntimeError, match="CapturedEvent"):
        side.wait_event(event)


# --- memory and arrays ----------------------------------------------------------------------------


def test_memory_is_poisoned_when_it_is_allocated_and_when_it_is_freed(cupy):
    array = cupy.empty(3)
    assert np.isnan(array.tolist()).all()
    array[...] = 1
    address = array.data.ptr
    del array
    again = cupy.empty(3)
    assert again.data.ptr == address
    assert np.isnan(again.tolist()).all()


def test_memory_that_was_freed_with_a_cycle_is_known_when_it_is_allocated_again(cupy):
    cycle = [cupy.empty(3)]
    address = cycle[0].data.ptr
    cycle.append(cycle)
    del cycle
    gc.collect()
    again = cupy.zeros(3)
    assert again.data.ptr == address
    assert again.tolist() == [0] * 3


def test_freed_memory_is_given_to_those_on_its_stream(cupy):
    array = cupy.empty(3)
    address = array.data.ptr
    del array
    with cupy.cuda.Stream():
        assert cupy.empty(3).data.ptr != address
    assert cupy.empty(3).data.ptr == address


def test_work_on_another_stream_sees_that_its_memory_was_freed():
    with cupy_model.installed(Machine(1)) as cupy:
        array, found = cupy.zeros(3), []
        cupy.cuda.Stream.null.synchronize()
        stream = cupy.cuda.Stream(non_blocking=True)
        launch(lambda a: found.extend(a.tolist()), array, stream=stream)
        del array
        stream.synchronize()
        assert np.isnan(found).all()


def test_work_on_its_own_stream_runs_before_memory_is_freed(cupy):
    array, found = cupy.zeros(3), []
    launch(lambda a: found.extend(a.tolist()), array)
    del array
    cupy.cuda.Stream.null.synchronize()
    assert found == [0] * 3


def test_page_locked_memory_is_poisoned_when_it_is_given_back(cupy, machine):
    pinned = cupy.cuda.alloc_pinned_memory(8)
    array = np.frombuffer(pinned, np.uint8, 8)
    address = array.ctypes.data
    attributes = cupy.cuda.runtime.pointerGetAttributes(address)
    assert attributes.type == cupy.cuda.runtime.memoryTypeHost
    array[:] = 1
    del pinned, array
    gc.collect()
    again = np.frombuffer(cupy.cuda.alloc_pinned_memory(8), np.uint8, 8)
    assert again.ctypes.data == address
    assert (again == cuda_model.POISON).all()
    machine.can_pin = False
    with pytest.raises(CUDARuntimeError, match="MemoryAllocation"):
        cupy.cuda.alloc_pinned_memory(8)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_copy_reads_pageable_memory_at_once_and_page_locked_memory_when_it_runs(pinned):
    with cupy_model.installed(Machine(1)) as cupy:
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


def test_copies_from_or_to_memory_that_is_not_the_devices_are_refused(cupy):
    runtime, host = cupy.cuda.runtime, np.zeros(3)
    array = cupy.zeros(3)
    for dst, src, size in ((host, array, 24), (array, array, 24), (array, host, 1000)):
        to, of = (getattr(x, "data").ptr if x is array else x.ctypes.data for x in (dst, src))  # noqa: B009
        with pytest.raises(CUDARuntimeError, match="InvalidValue"):
            runtime.memcpyAsync(to, of, size, runtime.memcpyHostToDevice, 0)


def test_an_array_of_another_device_is_copied_and_not_computed_with(cupy):
    with cupy.cuda.Device(1):
        array = cupy.asarray(np.arange(3))
        cupy.cuda.Stream.null.synchronize()
    assert (array.device.id, array.copy().device.id) == (1, 0)
    assert array.copy().tolist() == array.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="same as the current device"):
        array.astype("f4")


def test_dlpack_refuses_what_cupys_refuses(cupy):
    array = cupy.zeros(3)
    with pytest.raises(ValueError, match="valid stream"):
        array.__dlpack__(stream=-2)
    with pytest.warns(UserWarning, match="Stream 0"):
        array.__dlpack__(stream=0)
    with pytest.raises(BufferError):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        array.__dlpack__(dl_device=(2, 1))
    with pytest.raises(TypeError):
        cupy.from_dlpack(np.zeros(3))
