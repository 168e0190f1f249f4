"""Who waits for whom on a model of CUDA: last uses of buffers, PyTorch's streams, captures."""

import gc
import sys
import types
import weakref

import cuda_model
import numpy as np
import pytest
from cuda_model import CUDARuntimeError
from cupy_model import compute, launch, side_stream
from in_threads import in_threads
from made_blobs import filled

import syncblob
from syncblob import Blob, Head
from syncblob.blob.core import GPU_DATA, fresh
from syncblob.devices import Side, accelerator
from syncblob.memory import CONST, MUTABLE

torch = pytest.importorskip("torch")
torch_model = pytest.importorskip("torch_model")
calls = pytest.importorskip("syncblob.calls.torch.make_call")

pytestmark = pytest.mark.usefixtures("machine")
lazily = pytest.mark.parametrize("machine", ["lazy"], indirect=True)
MODES = ["Global", "ThreadLocal", "Relaxed"]


@pytest.fixture
def streams(machine):
    """Make PyTorch use the model's devices."""
    del machine  # first, because PyTorch's streams are on it
    with torch_model.installed() as streams:
        yield streams


def add_one(array):
    array += 1


# --- last uses ------------------------------------------------------------------------------------


@lazily
def test_a_double_buffered_loop_waits_for_no_other_work_than_that_on_its_buffer(machine):
    pair = [Blob(64, device="cuda:0") for _ in range(2)]
    for batch in pair:
        # A buffer is used in the order of the stream on which it was allocated.
        batch.overwrite_cpu_data()
        batch.prefetch()
    machine.finish()
    ran = []
    expected = []

    def kernel(step):
        return lambda array: (ran.append(step), expected.append(float(array[0])))

    for step in range(8):
        batch = pair[step % 2]
        batch.overwrite_cpu_data()[...] = step
        before = machine.calls["deviceSynchronize"]
        batch.prefetch()
        # To fill the host's buffer again, its upload of two steps before was waited for, and that
        # waited for the kernel that had read the device's buffer before. Later ones are queued.
        assert ran == [*range(step - 3)]
        assert machine.calls["deviceSynchronize"] == before
        compute(batch, kernel(step))
    machine.finish()
    assert ran == [*range(8)]
    assert expected == [*range(8)]


@lazily
@pytest.mark.parametrize("start", ["prefetch", "gpu_data"])
def test_parts_of_a_memory_are_independent(backend, machine, start):
    parts = filled(0, (3, 64), device="cuda:0")
    parts.prefetch()
    ran = []
    compute(parts[0], lambda _: ran.append(0))
    parts[0].overwrite_cpu_data()[...] = 1
    compute(parts[1], lambda _: ran.append(1))
    parts[0].prefetch()
    backend.synchronize()
    compute(parts[1], lambda _: ran.append(2))
    compute(parts[2], lambda _: ran.append(2))
    parts[0].overwrite_cpu_data()[...] = 2
    before = machine.calls["deviceSynchronize"]
    getattr(parts[0], start)()
    assert 2 not in ran
    assert machine.calls["deviceSynchronize"] == before


@lazily
@pytest.mark.parametrize("lent", [False, True])
def test_a_column_counts_as_all_that_it_reaches(machine, lent):
    blob, stream = filled(1, (1 << 14, 2), device="cuda:0"), side_stream()
    blob.prefetch()
    machine.finish()
    if lent:
        launch(lambda a: a.fill(5), blob[:, 1].mutable_gpu_data(), stream=stream)
    else:
        with stream:
            blob[:, 1] = 5
    assert blob[-1].cpu_data().tolist() == [1, 5]


@lazily
def test_a_view_that_a_function_returns_forgets_no_use(backend, machine):
    blob, seen = filled(1, 8, device="cuda:0"), []
    array = blob.array_in(backend, CONST, "test")
    with side_stream():
        backend.compute(launch, lambda of: seen.append(of[0]), array)
    view = backend.compute(lambda x: x.view(), array)
    blob.overwrite_cpu_data()[...] = 5
    blob.prefetch()
    machine.finish()
    assert seen == [1]
    del view


@lazily
def test_a_result_that_a_function_returns_again_forgets_no_use(backend, machine):
    array, seen = backend.compute(backend.copy, backend.allocate(8)), []
    machine.finish()
    with side_stream():
        backend.compute(launch, lambda of: seen.append(of[0]), array)
    assert backend.compute(lambda x: x, array) is array
    backend.upload(np.full(8, 5, np.uint8), array)
    machine.finish()
    assert seen == [cuda_model.POISON]


@lazily
def test_what_a_function_returns_of_others_stays_theirs(cupy, backend):
    array, stream = cupy.zeros(3, "f4"), side_stream()
    assert backend.compute(lambda x: (x, x.view()), array)[0] is array
    blob = Blob.asarray(array)
    launch(add_one, array, stream=stream)
    assert blob.tolist() == [1] * 3


@lazily
@pytest.mark.parametrize("kind", ["operand", "keyword", "copy", "container", "write"])
def test_an_upload_waits_for_a_computation_that_reads(backend, machine, kind):
    blob, seen = filled(1, 8, device="cuda:0"), []
    array = blob.array_in(blob.home, CONST, "test")

    def see(of):
        seen.append(of.tolist())

    # The stream differs from that of the transfer, and no other computation uses the Blob.
    with side_stream() as stream:
        stream.wait_event(stream.record())
        if kind == "operand":
            backend.compute(launch, see, array)
        elif kind == "keyword":
            backend.compute(lambda *, x: launch(see, x), x=array)
        elif kind == "copy":
            copied = backend.compute(backend.copy, array)
        elif kind == "write":
            use = Side.ACCELERATOR, MUTABLE, blob.layout, "test", lambda _, x: launch(see, x)
            filled(2, 8, device="cuda:0").memory.write(*use, array)
        else:
            backend.compute(lambda arrays: launch(see, *arrays["x"]), {"x": [array]})
    blob.mutable_cpu_data()[...] = 9
    blob.prefetch()
    assert machine.calls["deviceSynchronize"] == 0
    # The stream of transfers comes first.
    machine.finish()
    assert (copied.tolist() if kind == "copy" else seen[0]) == [1] * 8
    assert blob.gpu_data().tolist() == [9] * 8


@lazily
@pytest.mark.parametrize("kind", ["one", "in a tuple", "in a dictionary"])
def test_a_download_of_a_result_waits_for_its_stream_only(backend, machine, kind):
    x, late = filled(3, 8, device="cuda:0"), []
    array = x.array_in(x.home, CONST, "test")
    if kind == "in a tuple":
        (result,) = backend.compute(lambda array: (backend.copy(array),), array)
    elif kind == "in a dictionary":
        result = backend.compute(lambda array: {"x": [backend.copy(array)]}, array)["x"][0]
    else:
        result = backend.compute(backend.copy, array)
    y = fresh(Blob, result, backend)
    launch(lambda: late.append(1), stream=side_stream())
    assert np.asarray(y).tolist() == [3] * 8
    assert not late
    assert machine.calls["deviceSynchronize"] == 0


@lazily
@pytest.mark.parametrize("head", ["cpu", "gpu"])
@pytest.mark.parametrize("key", [..., slice(2, 5), slice(0, 8, 3), 3])
@pytest.mark.parametrize("value", [9, np.int64(9), "blob"])
def test_a_download_waits_for_what_wrote_and_not_for_the_device(machine, head, key, value):
    x, expected, late = filled(3, 8, device="cuda:0"), np.full(8, 3), []
    if head == "gpu":
        compute(x, lambda _: None)
        x[0] = expected[0] = 4
    if value == "blob":
        value = filled(9, np.shape(expected[key]), device="cuda:0")
    launch(lambda: late.append(1), stream=side_stream())
    x[key] = value
    expected[key] = 9
    assert x.item(3) == expected[3]
    assert x.tolist() == expected.tolist()
    assert not late
    assert machine.calls["deviceSynchronize"] == 0


@lazily
@pytest.mark.parametrize("other", [False, True])
def test_strided_elements_are_downloaded_with_one_wait(machine, other):
    blob = filled(1, (3, 2), device="cuda:0")
    if other:
        launch(lambda a: a.fill(5), blob.mutable_gpu_data(), stream=side_stream())
    else:
        blob.overwrite_cpu_data()[...] = 4
        compute(blob, add_one)
        blob.array_in(blob.home, MUTABLE, "test")
    machine.calls.clear()
    assert np.array(blob[:, 0]).tolist() == [5] * 3
    assert machine.calls["deviceSynchronize"] == other


@lazily
def test_many_uses_of_a_memory_are_joined_and_none_is_lost(backend, machine):
    blob, other, seen = filled(1, (200, 3), device="cuda:0"), Blob(3, device="cuda:0"), []
    blob.prefetch()
    streams = [side_stream() for _ in range(4)]

    def use(row, stream):
        with stream:
            compute(blob[row], lambda a: seen.append(a[0]))

    for row in range(60):
        use(row, streams[row % 3])
    for row, stream in enumerate(streams[:3]):
        with stream:
            # A transfer makes a point of the current stream.
            other.overwrite_cpu_data()[...] = row
            other.prefetch()
        use(row, stream)
    for row in range(60, 200):
        use(row, streams[3])
    known = backend.order.known(blob.memory.buffer(1))
    assert len(known.uses) <= 64
    blob.overwrite_cpu_data()[...] = 2
    blob.prefetch()
    # No part was lent, and that is known still.
    assert machine.calls["deviceSynchronize"] == 0
    machine.finish()
    assert seen == [1] * 203
    for row in range(200):
        _ = blob[row].gpu_data()
    assert len(known.uses) <= 64
    blob.mutable_cpu_data()
    _ = blob.gpu_data()
    assert machine.calls["deviceSynchronize"] == 1


@lazily
def test_ranges_that_are_used_again_are_not_joined(backend, machine):
    blob, other = Blob((63, 3), device="cuda:0"), Blob(3, device="cuda:0")
    for each in (blob, other):
        each.overwrite_cpu_data()[...] = 1
        each.prefetch()
    known = backend.order.known(blob.memory.buffer(1))
    for row in range(63):
        compute(blob[row], lambda _: None)
    # A transfer of other bytes makes a point.
    other.overwrite_cpu_data()[...] = 2
    other.prefetch()
    compute(blob[0], lambda _: None)
    # The ranges, and everything.
    assert len(known.uses) == 64
    machine.finish()


@lazily
def test_a_stream_does_not_wait_for_itself(backend, machine):
    blob = Blob(3, device="cuda:0")
    blob.overwrite_cpu_data()[...] = 1
    blob.prefetch()
    compute(blob, lambda _: None)
    with machine.failing(streamWaitEvent=1):
        backend.settle(blob.memory.buffer(1))
        with pytest.raises(CUDARuntimeError), side_stream():
            backend.settle(blob.memory.buffer(1))


def test_memory_that_is_used_again_is_known_anew(machine):
    blob = Blob(8, device="cuda:0")
    address = blob.overwrite_gpu_data().data.ptr
    _ = blob.cpu_data()
    assert machine.calls["deviceSynchronize"] == 1
    del blob
    gc.collect()
    again = filled(1, 8, device="cuda:0")
    again.prefetch()
    assert again.memory.buffer(1).data.ptr == address
    again[...] = 2
    assert again.item(0) == 2
    assert machine.calls["deviceSynchronize"] == 1


# --- captures -------------------------------------------------------------------------------------


def at_cpu():
    return filled(1, 1000, device="cuda:0")


def at_gpu():
    blob = Blob(1000, device="cuda:0")
    blob.overwrite_gpu_data()
    return blob


NEEDS = {
    "an upload": (at_cpu, lambda blob: blob.gpu_data()),
    "a download": (at_gpu, lambda blob: blob.cpu_data()),
    "a buffer": (lambda: Blob(1000, device="cuda:0"), lambda blob: blob.overwrite_gpu_data()),
    "a prefetch": (at_cpu, lambda blob: blob.prefetch()),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("needs", NEEDS)
def test_what_allocates_is_refused_before_that_in_a_capture_of_torchs(cupy, streams, mode, needs):
    make, access = NEEDS[needs]
    blob = make()
    head = blob.head
    cupy.cuda.Device(0).synchronize()
    stream = side_stream()
    with streams.stream(stream):
        stream.begin_capture(getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}"))
        with pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
            access(blob)
        stream.end_capture()
    assert blob.head is head
    access(blob)


def used_by(library, machine, streams):
    """Return a stream on which a Blob was used, and which is nobody's current one."""
    import cupy

    if library == "torch":
        stream = torch_model.Stream(machine)
    else:
        stream = cupy.cuda.Stream(non_blocking=library != "cupy, blocking")
    blob = at_gpu()
    with streams.stream(stream) if library == "torch" else stream:
        if library == "an operation":
            compute(blob, lambda _: None)
        else:
            blob.gpu_data()
    return stream


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("library", ["cupy", "cupy, blocking", "an operation", "torch"])
@pytest.mark.parametrize("there", [False, True])
def test_a_download_of_lent_bytes_is_refused_beside_a_capture_of_others(
    machine, streams, mode, library, there
):
    blob, new, on = at_gpu(), at_gpu(), at_gpu()
    blob.mutable_cpu_data()
    blob.mutable_gpu_data()
    accelerator("cuda:0").synchronize()
    pointer = (stream := used_by(library, machine, streams)).ptr
    found = []

    def access():
        side = side_stream()
        for each in (blob, new):
            # The legacy stream can be used beside a capture of a non-blocking stream only.
            with side, pytest.raises(RuntimeError, match="CUDA graph"):
                each.cpu_data()
            found.append(each.head)

    machine.streamBeginCapture(pointer, mode)
    in_threads(access) if there else access()
    machine.streamEndCapture(pointer)
    assert found == [Head.HEAD_AT_GPU] * 2
    machine.setDevice(1)
    pointer = (other := side_stream()).ptr
    machine.setDevice(0)
    machine.streamBeginCapture(pointer, mode)
    # A wait for one device leaves the other's captures good.
    assert on.cpu_data().size == 1000
    machine.streamEndCapture(pointer)
    assert blob.cpu_data().size == new.cpu_data().size == 1000
    assert stream is not other


def test_the_wait_ends_a_capture_on_a_stream_that_no_blob_was_used_on():
    blob, stream = at_gpu(), side_stream()
    blob.mutable_gpu_data()
    accelerator("cuda:0").synchronize()
    stream.begin_capture()
    with side_stream(), pytest.raises(CUDARuntimeError, match="StreamCaptureUnsupported"):
        blob.cpu_data()
    with pytest.raises(CUDARuntimeError, match="Invalidated"):
        stream.end_capture()
    assert blob.head is Head.HEAD_AT_GPU
    assert blob.cpu_data().size == 1000


def test_streams_that_blobs_were_used_on_are_not_kept(machine):
    gc.collect()
    stream = used_by("cupy", machine, None)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert gone() is None
    assert at_gpu().cpu_data().size == 1000


@pytest.mark.usefixtures("streams")
def test_torchs_legacy_stream_counts_as_capturing_beside_a_blocking_capture(cupy):
    blob, stream = at_cpu(), cupy.cuda.Stream()
    stream.begin_capture()
    with side_stream(), pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
        blob.gpu_data()
    stream.end_capture()
    assert blob.gpu_data().get()[0] == 1


def test_what_captures_forbid_a_thread_is_as_before(backend, machine):
    backend.upload(np.zeros(3, np.uint8), backend.allocate(3))
    with backend.order.calls():
        assert machine.threadExchangeStreamCaptureMode(2) == cuda_model.RELAXED
    assert machine.threadExchangeStreamCaptureMode(0) == cuda_model.GLOBAL


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("current", [True, False])
def test_blobs_that_go_in_a_capture_leave_it_good(cupy, mode, current):
    blob, pushed = Blob(1 << 20, device="cuda:0"), at_cpu()
    blob.overwrite_cpu_data()
    pushed.prefetch()
    stream = side_stream()
    if current:
        stream.use()
    stream.begin_capture(getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}"))
    del blob, pushed
    gc.collect()
    stream.end_capture()
    cupy.cuda.Stream.null.use()


# --- PyTorch's streams ----------------------------------------------------------------------------


@lazily
@pytest.mark.parametrize("latest_first", [False, True])
@pytest.mark.parametrize(
    "border", ["compute", "gpu_data", "interface", "dlpack", "to_torch", "prefetch"]
)
def test_work_on_torchs_stream_comes_before_what_follows_and_after_what_was_before(  # fixtures
    cupy, machine, streams, border, latest_first
):
    blob, other, ran = at_cpu(), at_cpu(), []
    blob.gpu_data()
    first, last = side_stream(), side_stream()
    launch(lambda: ran.append("torch, before"), stream=first)
    with streams.stream(first), last:
        launch(lambda: ran.append("CuPy, before"))
        if border == "compute":
            compute(blob, lambda _: ran.append("CuPy"))
        elif border == "gpu_data":
            blob.gpu_data()
        elif border == "interface":
            _ = blob.__cuda_array_interface__
        elif border == "dlpack":
            cupy.from_dlpack(blob)
        elif border == "prefetch":
            other.prefetch()
        else:
            blob.to_torch()
        launch(lambda: ran.append("torch, after"), stream=first)
        launch(lambda: ran.append("CuPy, after"), stream=last)
    machine.finish(latest_first=latest_first)
    assert {*ran[:2]} == {"torch, before", "CuPy, before"}
    assert {*ran[-2:]} == {"torch, after", "CuPy, after"}
    assert ran[2:-2] == (["CuPy"] if border == "compute" else [])


@lazily
@pytest.mark.parametrize("index", [0, 1], ids=["target", "source"])
def test_a_peer_copy_orders_torchs_stream_and_cupys_on_both_devices(cupy, machine, streams, index):
    blob, ran = at_cpu(), []
    there = blob.on("cuda:1")
    # No bytes were lent: else the copy would wait for the devices.
    there.array_in(there.home, MUTABLE, "test")
    machine.finish()
    with cupy.cuda.Device(index):
        of_torch, of_cupy = side_stream(), side_stream()
        launch(lambda: ran.append("torch, before"), stream=of_torch)
    with streams.stream(of_torch), cupy.cuda.Device(index):
        of_cupy.use()
        blob.array_in(blob.home, CONST, "test")
        launch(lambda: ran.append("CuPy, after"))
        cupy.cuda.Stream.null.use()
    machine.finish(latest_first=True)
    assert ran == ["torch, before", "CuPy, after"]


@pytest.mark.parametrize("found", [None, types.ModuleType("torch")], ids=["none", "half a one"])
def test_a_torch_that_is_not_there_or_being_imported_is_not_asked(backend, monkeypatch, found):
    monkeypatch.setitem(sys.modules, "torch", found)
    assert not backend.capturing
    assert not backend.give_back()


def test_torch_that_does_not_use_cuda_is_not_asked(backend, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", None, raising=False)
    assert not backend.capturing
    assert at_cpu().gpu_data().get()[0] == 1


@pytest.mark.parametrize("machine", ["eager"], indirect=True)
def test_a_torch_function_exports_each_blob_once(streams):
    x, y = at_cpu(), at_cpu()
    for _ in range(3):
        assert torch.add(x, y)[0] == 2
    assert streams.exports == 2
    x.mutable_cpu_data()[...] = 5
    assert torch.add(x, y)[0] == 6
    assert torch.add(x[:10], y[:10])[0] == 6
    assert streams.exports == 4
    with syncblob.verified_const():
        assert torch.add(x, y)[0] == 6
    assert streams.exports == 6


@pytest.mark.parametrize("machine", ["eager"], indirect=True)
def test_a_loan_ends_with_its_blob(streams):
    x = at_cpu()
    assert torch.add(x, 1)[0] == torch.add(x, 1)[0] == 2
    assert streams.exports == 1
    gone = weakref.ref(x.accessor_arrays[GPU_DATA].tensor.tensor)
    gc.disable()
    try:
        del x
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("machine", ["eager"], indirect=True)
def test_loans_do_not_keep_a_buffer_from_being_evicted(streams):
    blobs = [Blob(128, device="cuda:0") for _ in range(5)]
    for value, blob in enumerate(blobs):
        blob.overwrite_cpu_data()[...] = value
    with syncblob.set_memory_limit("cuda:0", 1536):
        for _ in range(2):
            assert [torch.add(blob, 1)[0] for blob in blobs] == [1, 2, 3, 4, 5]
        kept = [torch.reshape(blob, (64, 2)) for blob in blobs[:3]]
        with pytest.raises(MemoryError, match=r"alias.* of the accelerator side"):
            torch.add(blobs[3], 1)
    assert streams.exports > 5
    del kept


@pytest.mark.usefixtures("streams", "small")
@pytest.mark.parametrize("machine", ["eager"], indirect=True)
def test_a_written_loan_stays_in_its_window_also_if_there_is_room_for_everything_now():
    blob, other = Blob(1024, device="cuda:0"), Blob(4096, device="cuda:0")
    other[...] = 0
    with syncblob.set_memory_limit("cuda:0", other.nbytes + 512):
        # The window makes the other Blob leave.
        part = blob[:256]
        torch.add(part, 1, out=part)
    assert other.head is Head.HEAD_AT_CPU
    assert blob.tolist() == [1] * 256 + [0] * 768


@pytest.mark.parametrize("machine", ["eager"], indirect=True)
def test_a_loan_that_a_function_returns_becomes_an_alias(streams):
    x = at_cpu()
    assert torch.add(x, x)[0] == 2
    view = torch.reshape(x, (10, 100))
    view += 1
    assert x.tolist() == [2] * 1000
    assert x.head is Head.HEAD_AT_GPU
    del view
    assert torch.add(x, x)[0] == 4
    assert streams.exports == 2


def model_array(tensor):
    """Return an array of the model over the memory of a tensor."""
    import cupy

    nbytes = tensor.numel() * tensor.element_size()
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), nbytes, tensor, 0)
    pointer = cupy.cuda.MemoryPointer(memory, 0)
    return cupy.ndarray(tuple(tensor.shape), np.float32, pointer)


@lazily
@pytest.mark.parametrize(
    "write",
    [
        lambda x, _: torch.add(x, 1, out=x),
        lambda x, y: torch.addcmul(x, x, y, out=x),
        lambda x, _: torch.relu_(x),
    ],
    ids=["add", "addcmul", "relu_"],
)
@pytest.mark.parametrize("side", [False, True], ids=["default stream", "other stream"])
def test_a_download_waits_for_what_a_torch_function_wrote(
    machine, streams, monkeypatch, write, side
):
    x, y = at_cpu(), at_cpu()
    x.prefetch()
    machine.finish()
    stream = side_stream() if side else None

    def compute(call):
        # PyTorch would queue its kernel on its current stream. The written one is the last.
        written = [each for each in call._operands if isinstance(each, torch.Tensor)][-1]
        launch(add_one, model_array(written), stream=stream)
        return written

    monkeypatch.setattr(calls.Call, "_compute", compute)
    with streams.stream(stream):
        write(x, y)
    assert np.asarray(x).tolist() == [2] * 1000


@lazily
@pytest.mark.parametrize(
    "export",
    [
        lambda cupy, x: cupy.from_dlpack(x.const),
        lambda cupy, x: cupy.from_dlpack(x.gpu.const),
        lambda cupy, x: cupy.asarray(x.const),
        lambda cupy, x: cupy.asarray(x.gpu.const),
    ],
    ids=["const", "gpu.const", "interface of const", "interface of gpu.const"],
)
def test_an_upload_waits_for_a_reader_of_a_const_export(machine, cupy, export):
    x, seen = at_cpu(), []
    x.prefetch()
    machine.finish()
    launch(lambda array: seen.append(float(array[0])), export(cupy, x), stream=side_stream())
    x.overwrite_cpu_data()[...] = 5
    x.gpu_data()
    machine.finish()
    assert seen == [1]


@pytest.mark.parametrize("machine", ["eager"], indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_a_ready_blob_is_used_in_a_graph_of_torchs_and_its_new_contents_are_seen(
    cupy, streams, mode
):
    blob, out = at_cpu(), at_cpu()
    torch.add(blob, 1)
    out.mutable_gpu_data()
    number = getattr(cupy.cuda.runtime, f"streamCaptureMode{mode}")
    with streams.graph(side_stream(), number) as made:
        # PyTorch's kernel would be captured; on the model it is this one.
        torch.add(blob, 0, out=out)
        launch(
            lambda of, to: to.__setitem__(..., of),
            blob.gpu_data(),
            out.gpu_data(),
            stream=streams.current[0],
        )
    for value in (7, 8):
        blob.overwrite_cpu_data()[...] = value
        blob.gpu_data()
        made[0].launch()
        # The graph has written `out`, and nobody said so.
        assert out.cpu_data()[0] == value
        assert out.head is Head.HEAD_AT_GPU


def test_an_operation_of_cupys_is_refused_in_a_graph_of_torchs(cupy, backend, streams):
    blob = at_cpu()
    blob.gpu_data()
    ran = []
    refused = pytest.raises(RuntimeError, match="captured on torch's current stream")
    # On a legacy stream beside a capture of a blocking one, and on one that is not captured.
    null, side = cupy.cuda.Stream.null, side_stream()
    for theirs, ours in (side_stream(), null), (cupy.cuda.Stream(), null), (side_stream(), side):
        with streams.graph(theirs, cupy.cuda.runtime.streamCaptureModeGlobal), ours, refused:
            compute(blob, lambda _: ran.append(1))
    assert ran == []
    same = side_stream()
    with same, streams.graph(same, 0) as made:
        compute(blob, lambda _: ran.append(1))
    made[0].launch()
    backend.synchronize()
    assert ran == [1]


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize("non_blocking", [False, True])
def test_an_operation_is_captured_beside_torchs_legacy_stream(cupy, non_blocking):
    blob, ran, stream = at_cpu(), [], cupy.cuda.Stream(non_blocking=non_blocking)
    blob.gpu_data()
    with stream:
        stream.begin_capture()
        compute(blob, lambda _: ran.append(1))
        graph = stream.end_capture()
    assert ran == []
    graph.launch(stream)
    stream.synchronize()
    assert ran == [1]


# --- other libraries' arrays ----------------------------------------------------------------------


@pytest.mark.parametrize("bit", ["is_conj", "is_neg"])
@pytest.mark.parametrize("take", [Blob.asarray, Blob.from_dlpack])
def test_a_tensor_whose_memory_does_not_hold_its_values_is_refused(cupy, bit, take):
    array = cupy.full(2, 2.0, "f4")

    class Tensor:
        """Like ``torch.tensor([1 + 2j], device="cuda").conj().imag``."""

        __cuda_array_interface__ = array.__cuda_array_interface__
        __dlpack_device__ = array.__dlpack_device__
        __dlpack__ = array.__dlpack__

    setattr(Tensor, bit, lambda _: True)
    with pytest.raises(BufferError, match=bit.replace("is_", "resolve_")):
        take(Tensor())


@pytest.mark.parametrize("take", [Blob.asarray, Blob.from_dlpack])
def test_a_producer_is_asked_for_the_legacy_stream_on_that_of_a_thread(cupy, take):
    array, asked = cupy.full(2, 2.0, "f4"), []

    class Tensor:
        __dlpack_device__ = array.__dlpack_device__

        def __dlpack__(self, *, stream, **keywords):
            asked.append(stream)
            if stream == 2:
                raise BufferError("per-thread default stream is not supported")
            return array.__dlpack__(stream=stream, **keywords)

    with cupy.cuda.Stream.ptds:
        assert take(Tensor()).tolist() == [2] * 2
    assert asked == [1]


@lazily
def test_what_another_thread_used_on_its_default_stream_is_waited_for(cupy):
    blob, seen = at_cpu(), []
    blob.prefetch()

    def use():
        with cupy.cuda.Stream.ptds:
            compute(blob, lambda a: seen.append(float(a[0])))

    in_threads(use)
    with cupy.cuda.Stream.ptds:
        # The stream of this thread has the same pointer.
        compute(blob, lambda _: None)
    blob.mutable_cpu_data()[...] = 5
    blob.gpu_data()
    assert seen == [1]
