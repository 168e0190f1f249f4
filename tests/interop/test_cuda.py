"""CUDA: errors without a device; with a device, real CuPy, PyTorch and streams."""

from __future__ import annotations

import ctypes
import gc
import math

import numpy as np
import pytest

import syncblob
from syncblob import Blob, Head
from syncblob.devices import cuda

NONE, CPU, GPU, SYNCED, SPLIT = Head
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
without_cuda = pytest.mark.skipif(cuda.device_count() > 0, reason="there is a CUDA device")
# For tests that need two devices. If there is none, only the mark `gpu` applies.
two_devices = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.device_count() == 1, reason="needs a second CUDA device"),
]


def values(dtype="float32", shape=(2, 3)):
    return np.arange(math.prod(shape)).reshape(shape).astype(Blob((), dtype).dtype)


def blob_in(head, dtype="float32", device="cuda:0"):
    """Make a Blob on a CUDA device in a given state; its contents count up."""
    blob = Blob((2, 3), dtype, device=device)
    if head:
        blob.overwrite_cpu_data()[...] = values(dtype)
    if head is GPU:
        blob.mutable_gpu_data()
    elif head is SYNCED:
        blob.gpu_data()
    return blob


@pytest.fixture
def cupy():
    """Return CuPy. Only tests with the mark `gpu` use it, and they are skipped without a device."""
    return pytest.importorskip("cupy")


@pytest.fixture
def torch():
    """Return a torch with CUDA, which the torch of the tests on the host does not have."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("needs a build of torch with CUDA")
    return module


# --- without a device --------------------------------------------------------------------------


@without_cuda
def test_without_cuda_there_is_no_interface_and_asking_touches_nothing(simulated):
    blob = Blob(3)
    blob.mutable_cpu_data()[...] = 1
    for each in (blob, blob.const, blob[1:], Blob((0, 3)), Blob(())):
        assert not hasattr(each, "__cuda_array_interface__")
        assert not hasattr(each, "__cupy_get_ndarray__")
        assert not hasattr(each.gpu, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=r"cpu; blob\.gpu"):
        _ = blob.__cuda_array_interface__
    with pytest.raises(AttributeError, match=r"NVIDIA driver|CuPy|CUDA"):
        _ = blob.gpu.__cuda_array_interface__
    assert (blob.head, blob.memory.accelerator) == (CPU, None)
    assert simulated.allocations == 0


@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
def test_simulated_memory_has_no_interface_and_asking_touches_nothing(simulated, head):
    blob = blob_in(head, device="simulated:0")
    simulated.reset_counts()
    assert not hasattr(blob, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="simulated:0"):
        _ = blob.__cuda_array_interface__
    with pytest.raises(AttributeError, match=r"simulated:0.* CUDA"):
        _ = blob.__cupy_get_ndarray__
    with syncblob.use_device("simulated"):
        assert getattr(Blob(3), "__cuda_array_interface__", None) is None
    assert (blob.head, simulated.uploads + simulated.downloads) == (head, 0)


@without_cuda
@pytest.mark.parametrize(
    "use",
    [
        lambda: Blob(3, device="cuda:0"),
        lambda: Blob(3).gpu_data(),
        lambda: Blob(3).mutable_gpu_diff(),
        lambda: Blob(3).gpu_shape(),
        lambda: Blob(3).to_device("cuda"),
        lambda: syncblob.set_default_device("cuda:1"),
        lambda: Blob.asarray([1], device="cuda:0"),
    ],
)
def test_without_cuda_its_devices_cannot_be_used_and_the_error_says_what_to_do(use):
    with pytest.raises(syncblob.NoDeviceError, match=r"use_device\('simulated'\)"):
        use()
    assert syncblob.default_device() == "cpu"


class DevicePointer:
    """Memory that claims to be on a CUDA device, through either protocol."""

    def __init__(self, protocol):
        if protocol == "interface":
            described = {"shape": (3,), "typestr": "<f4", "data": (4096, False), "version": 3}
            self.__cuda_array_interface__ = described
        else:
            self.__dlpack_device__ = lambda: (2, 0)
            self.__dlpack__ = lambda **_: None


@without_cuda
@pytest.mark.parametrize("protocol", ["interface", "dlpack"])
@pytest.mark.parametrize("take", [Blob.asarray, Blob(3).set_gpu_data, Blob(3).copy_from])
def test_without_cuda_arrays_of_a_cuda_device_are_refused_as_such(protocol, take):
    with pytest.raises(syncblob.NoDeviceError):
        take(DevicePointer(protocol))


# --- the CUDA array interface ------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_cupy_takes_the_blobs_own_memory_to_write(cupy, dtype):
    blob = blob_in(CPU, dtype)
    with syncblob.record_transfers() as log:
        array = cupy.asarray(blob)
    assert (log.uploads, log.downloads) == (1, 0)
    assert blob.head is GPU
    assert (array.shape, array.dtype) == ((2, 3), blob.dtype)
    assert array.data.ptr == blob.gpu_data().data.ptr
    assert array.get().tobytes() == values(dtype).tobytes()
    array[...] = cupy.asarray(np.ones((2, 3), blob.dtype))
    assert blob.tolist() == [[1] * 3] * 2


@pytest.mark.gpu
@pytest.mark.parametrize("const", [False, True])
@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
def test_the_interface_is_idempotent_and_const_takes_the_const_path(const, head):
    blob = blob_in(head)
    view = blob.const if const else blob
    first, second = view.__cuda_array_interface__, view.__cuda_array_interface__
    assert first == second
    assert first["version"] == 3
    assert (first["shape"], first["typestr"], first["strides"]) == ((2, 3), "<f4", None)
    assert first["data"] == (blob.gpu_data().data.ptr, const)
    assert first["stream"] not in (0, None)
    assert blob.head is (SYNCED if const and head in (CPU, SYNCED) else GPU)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "view", [lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a[1, 2, ...]]
)
def test_views_go_out_with_their_strides(cupy, view):
    array, expected = cupy.asarray(view(blob_in(CPU))), view(values())
    assert (array.shape, array.strides) == (expected.shape, expected.strides)
    assert array.get().tolist() == expected.tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_no_axes_and_no_elements(cupy, shape):
    blob = Blob(shape, device="cuda:0")
    interface = blob.__cuda_array_interface__
    assert interface["shape"] == shape
    assert (interface["data"][0] == 0) == (blob.size == 0)
    assert cupy.asarray(blob).get().tolist() == np.zeros(shape).tolist()


@pytest.mark.gpu
def test_the_interface_names_the_current_stream(cupy):
    blob = blob_in(GPU)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert blob.__cuda_array_interface__["stream"] == stream.ptr


@pytest.mark.gpu
def test_an_exposed_buffer_outlives_a_growing_resize(cupy):
    blob = blob_in(CPU)
    pointer = blob.__cuda_array_interface__["data"][0]
    array = cupy.asarray(blob)
    blob.resize(1000)
    gc.collect()
    noise = [cupy.full((2, 3), 9, "f4") for _ in range(50)]
    assert pointer not in [other.data.ptr for other in noise]
    assert array.get().tolist() == values().tolist()


@pytest.mark.gpu
def test_torch_takes_a_blob_and_refuses_the_read_only_flag(torch):
    blob = blob_in(CPU)
    tensor = torch.as_tensor(blob, device="cuda")
    assert tensor.data_ptr() == blob.gpu_data().data.ptr
    tensor += 1
    torch.cuda.synchronize()
    assert blob.tolist() == (values() + 1).tolist()
    with pytest.raises(TypeError, match=r"read.only"):
        torch.as_tensor(blob.const, device="cuda")


# --- DLPack ------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_dlpack_lends_cupy_the_blobs_own_memory(cupy, dtype):
    blob = blob_in(GPU, dtype)
    array = cupy.from_dlpack(blob)
    assert blob.__dlpack_device__() == (2, 0)
    assert (array.data.ptr, array.dtype) == (blob.gpu_data().data.ptr, blob.dtype)
    assert array.get().tobytes() == values(dtype).tobytes()
    assert cupy.from_dlpack(blob.const).data.ptr == array.data.ptr


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_dlpack_lends_torch_the_blobs_own_memory(torch, dtype):
    blob = blob_in(GPU, dtype)
    tensor = torch.from_dlpack(blob)
    assert (tensor.device.type, tensor.device.index) == ("cuda", 0)
    assert tensor.data_ptr() == blob.gpu_data().data.ptr
    assert tensor.tolist() == values(dtype).tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("stream", [None, -1, 1, 2])
@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_the_numbers_of_streams_and_versions(stream, max_version):
    blob = blob_in(GPU)
    name = b"dltensor" if max_version is None else b"dltensor_versioned"
    capsule = blob.__dlpack__(stream=stream, max_version=max_version)
    assert ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name)


@pytest.mark.gpu
def test_a_consumers_stream_waits_for_the_current_one(cupy):
    blob = Blob(1 << 22, device="cuda:0")
    producer, consumer = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with producer:
        array = blob.mutable_gpu_data()
        array.fill(0)
        for _ in range(200):
            array += 1
        blob.__dlpack__(stream=consumer.ptr)
    with consumer:
        total = blob.gpu_data().copy()
    consumer.synchronize()
    assert total.get().min() == total.get().max() == 200


@pytest.mark.gpu
def test_a_request_for_the_host_gives_a_private_copy():
    blob = blob_in(GPU)
    array = np.from_dlpack(blob, device="cpu")
    assert (array.tolist(), blob.head, blob.device) == (values().tolist(), SYNCED, "cuda:0")
    array[...] = 9
    assert blob.tolist() == values().tolist()
    with pytest.raises(BufferError, match="copy=False"):
        np.from_dlpack(blob, device="cpu", copy=False)


@pytest.mark.gpu
def test_a_copy_is_made_on_the_device_and_is_private(cupy):
    blob = blob_in(SYNCED)
    blob.const.__dlpack__(copy=True, dl_device=(2, 0), stream=1)
    assert blob.head is SYNCED
    copied = Blob.asarray(cupy.asarray(blob.const), copy=True)
    copied[...] = 9
    assert blob.tolist() == values().tolist()


# --- Blobs over CUDA arrays --------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("take", [Blob.asarray, Blob.from_dlpack])
@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[1:]])
def test_a_cupy_array_is_adopted_in_any_order(cupy, take, view):
    array = view(cupy.asarray(values()))
    blob = take(array, copy=False)
    assert (blob.device, blob.head) == ("cuda:0", GPU)
    assert (blob.shape, blob.strides) == (array.shape, array.strides)
    assert blob.gpu_data().data.ptr == array.data.ptr
    assert blob.tolist() == array.get().tolist()
    blob.mutable_cpu_data()[...] = 7
    blob.gpu_data()
    assert array.get().tolist() == np.full(array.shape, 7).tolist()


@pytest.mark.gpu
def test_a_cupy_array_with_gaps_is_copied_on_its_device(cupy):
    array = cupy.asarray(values())[:, ::2]
    with pytest.raises(ValueError, match="copy=False"):
        Blob.asarray(array, copy=False)
    with syncblob.record_transfers() as log:
        blob = Blob.asarray(array)
    assert (blob.device, len(log)) == ("cuda:0", 0)
    assert blob.tolist() == array.get().tolist()
    assert Blob.asarray(array, device="cpu").device == "cpu"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_a_cuda_tensor_is_adopted(torch, dtype):
    tensor = torch.arange(6, device="cuda").reshape(2, 3).to(getattr(torch, dtype))
    blob = Blob.asarray(tensor)
    assert (blob.device, blob.dtype.name) == ("cuda:0", dtype)
    assert blob.gpu_data().data.ptr == tensor.data_ptr()
    assert blob.tolist() == tensor.tolist()


@pytest.mark.gpu
def test_set_gpu_data_takes_cupy_arrays_and_refuses_others(cupy):
    blob, array = blob_in(CPU), cupy.full((2, 3), 5, "f4")
    blob.set_gpu_data(array)
    assert (blob.head, blob.tolist()) == (GPU, [[5] * 3] * 2)
    assert blob.gpu_data().data.ptr == array.data.ptr
    for wrong, error in (
        (np.zeros((2, 3), "f4"), TypeError),
        (cupy.zeros((2, 3), "f8"), TypeError),
        (cupy.zeros(5, "f4"), ValueError),
        (cupy.zeros((3, 2), "f4").T, ValueError),
    ):
        with pytest.raises(error, match="expected"):
            blob.set_gpu_data(wrong)
    with pytest.raises(TypeError, match="expected"):
        blob.set_cpu_data(array)
    assert blob.gpu_data().data.ptr == array.data.ptr


# --- memory, streams, devices ------------------------------------------------------------------


@pytest.mark.gpu
def test_host_buffers_are_page_locked(cupy):
    host = blob_in(CPU).cpu_data()
    attributes = cupy.cuda.runtime.pointerGetAttributes(host.ctypes.data)
    assert attributes.type == cupy.cuda.runtime.memoryTypeHost


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(), (3,)])
def test_transfers_keep_every_bit(shape):
    blob = Blob(shape, device="cuda:0")
    blob.mutable_cpu_data().reshape(-1)[...] = -0.0
    blob.mutable_gpu_data()
    assert blob.tobytes() == np.full(shape, -0.0, "f4").tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("spelled", ["none", "stream", "pointer", "protocol"])
def test_an_asynchronous_upload_is_waited_for(cupy, spelled):
    stream = cupy.cuda.Stream(non_blocking=True)
    protocol = type("Protocol", (), {"__cuda_stream__": lambda _: (0, stream.ptr)})()
    given = {"none": None, "stream": stream, "pointer": stream.ptr, "protocol": protocol}[spelled]
    blob = Blob(1 << 22, device="cuda:0")
    blob.mutable_cpu_data()[...] = 1
    blob.async_gpu_push(given)
    assert blob.head is SYNCED
    assert float(blob.gpu_data().sum()) == 1 << 22
    blob.mutable_cpu_data()[...] = 2
    assert float(blob.gpu_data().sum()) == 2 << 22


@pytest.mark.gpu
def test_a_blob_without_a_device_goes_to_the_current_one(cupy):
    blob = Blob(3)
    assert blob.gpu_data().device.id == cupy.cuda.runtime.getDevice()


class TestTwoDevices:
    pytestmark = two_devices

    def test_memory_stays_on_its_device_whichever_is_current(self, cupy):
        blob = blob_in(CPU, device="cuda:1")
        with cupy.cuda.Device(0):
            assert blob.gpu_data().device.id == blob.mutable_gpu_diff().device.id == 1
            assert blob.asum_data() == 15
            assert cupy.cuda.runtime.getDevice() == 0

    def test_two_accelerators_do_not_mix(self, cupy):
        blob = blob_in(GPU, device="cuda:0")
        with cupy.cuda.Device(1):
            elsewhere = cupy.zeros((2, 3), "f4")
        for mix in (lambda: blob.copy_from(blob_in(GPU, device="cuda:1")), blob.set_gpu_data):
            with pytest.raises(syncblob.DeviceMismatchError):
                mix(elsewhere) if mix == blob.set_gpu_data else mix()
        assert blob.to_device("cuda:1").tolist() == blob.tolist() == values().tolist()
