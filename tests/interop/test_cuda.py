"""CUDA: errors without a device; CuPy, of the model and real; with a device, PyTorch."""

import cupy_model
import numpy as np
import pytest
from cuda_model import Machine
from made_blobs import CPU, DTYPES, GPU, NONE, SYNCED, on_cuda, values

import syncblob
from syncblob import Blob
from syncblob.devices import cuda

without_cuda = pytest.mark.skipif(cuda.device_count() > 0, reason="there is a CUDA device")


@pytest.fixture(params=["lazy", "eager", pytest.param("cuda", marks=pytest.mark.gpu)])
def cupy(request):
    """Return CuPy, or the model of it."""
    if request.param == "cuda":
        yield pytest.importorskip("cupy")
        return
    with cupy_model.installed(Machine(2, eager=request.param == "eager")) as cupy:
        yield cupy


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
    blob = on_cuda(head, device="simulated:0")
    simulated.reset_counts()
    assert not hasattr(blob, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="simulated:0"):
        _ = blob.__cuda_array_interface__
    for refuse in (lambda: blob.__cupy_get_ndarray__, lambda: blob.gpu.__cuda_array_interface__):
        with pytest.raises(AttributeError, match="arrays of simulated:0 do not have"):
            refuse()
    with syncblob.use_device("simulated"):
        assert getattr(Blob(3), "__cuda_array_interface__", None) is None
    assert (blob.head, simulated.uploads + simulated.downloads) == (head, 0)


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


@pytest.mark.parametrize("dtype", DTYPES)
def test_cupy_takes_the_blobs_own_memory_to_write(cupy, dtype):
    blob = on_cuda(CPU, dtype)
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_lends_cupy_the_blobs_own_memory(cupy, dtype):
    blob = on_cuda(CPU, dtype)
    array = cupy.from_dlpack(blob)
    assert (blob.__dlpack_device__(), blob.head) == ((2, 0), GPU)
    assert (array.data.ptr, array.dtype) == (blob.gpu_data().data.ptr, blob.dtype)
    assert array.get().tobytes() == values(dtype).tobytes()
    assert cupy.from_dlpack(blob.const).data.ptr == array.data.ptr


@pytest.mark.parametrize("head", [NONE, CPU, GPU, SYNCED])
def test_cupy_takes_memory_of_the_device_only_by_dlpack(cupy, head):
    blob, expected = on_cuda(head), (values() * bool(head)).tolist()
    with pytest.raises(TypeError):
        cupy.from_dlpack(blob.on("cpu"))
    assert blob.head is head
    assert cupy.from_dlpack(blob).get().tolist() == expected
    assert cupy.from_dlpack(blob.on("cpu").gpu).get().tolist() == expected


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_lends_torch_the_blobs_own_memory(torch, dtype):
    blob = on_cuda(GPU, dtype)
    tensor = torch.from_dlpack(blob)
    assert (tensor.device.type, tensor.device.index) == ("cuda", 0)
    assert tensor.data_ptr() == blob.gpu_data().data.ptr
    assert tensor.tolist() == values(dtype).tolist()


# --- Blobs over CUDA arrays --------------------------------------------------------------------


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


def test_set_gpu_data_takes_cupy_arrays_and_refuses_others(cupy):
    blob, array = on_cuda(CPU), cupy.asarray(np.full((2, 3), 5, "f4"))
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
