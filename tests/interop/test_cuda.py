"""CUDA: errors without a device; with a device, real CuPy, PyTorch and streams."""

import numpy as np
import pytest
from made_blobs import CPU, DTYPES, GPU, NONE, SYNCED, values

import syncblob
from syncblob import Blob
from syncblob.devices import cuda

without_cuda = pytest.mark.skipif(cuda.device_count() > 0, reason="there is a CUDA device")


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
    with pytest.raises(AttributeError, match="arrays of simulated:0 do not have"):
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
@pytest.mark.parametrize("dtype", DTYPES)
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


# --- DLPack ------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_lends_cupy_the_blobs_own_memory(cupy, dtype):
    blob = blob_in(GPU, dtype)
    array = cupy.from_dlpack(blob)
    assert blob.__dlpack_device__() == (2, 0)
    assert (array.data.ptr, array.dtype) == (blob.gpu_data().data.ptr, blob.dtype)
    assert array.get().tobytes() == values(dtype).tobytes()
    assert cupy.from_dlpack(blob.const).data.ptr == array.data.ptr


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_lends_torch_the_blobs_own_memory(torch, dtype):
    blob = blob_in(GPU, dtype)
    tensor = torch.from_dlpack(blob)
    assert (tensor.device.type, tensor.device.index) == ("cuda", 0)
    assert tensor.data_ptr() == blob.gpu_data().data.ptr
    assert tensor.tolist() == values(dtype).tolist()


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
@pytest.mark.parametrize("dtype", DTYPES)
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
@pytest.mark.parametrize("shape", [(), (3,)])
def test_transfers_keep_every_bit(shape):
    blob = Blob(shape, device="cuda:0")
    blob.mutable_cpu_data().reshape(-1)[...] = -0.0
    blob.mutable_gpu_data()
    assert blob.tobytes() == np.full(shape, -0.0, "f4").tobytes()
