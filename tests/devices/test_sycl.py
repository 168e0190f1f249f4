"""SYCL devices: what is dpnp's and dpctl's own. The tests of all accelerators run there, too."""

import os
from contextlib import nullcontext

import numpy as np
import pytest

import syncblob
from syncblob import Blob, StaleAliasWarning
from syncblob.devices import accelerator

pytestmark = [pytest.mark.sycl, pytest.mark.long]

DEVICE = "sycl:0"


@pytest.fixture(autouse=True, params=["shared", "separate"])
def kind(request):
    syncblob.set_memory_kind(DEVICE, request.param)
    yield request.param
    syncblob.set_memory_kind(DEVICE, "shared")


@pytest.fixture
def dpnp():
    return pytest.importorskip("dpnp")


def made(values):
    blob = syncblob.asarray(np.asarray(values), device="cpu").to_device(DEVICE)
    blob.mutable_gpu_data()
    return blob


def test_arrays_of_dpnps_default_queue_are_operands(dpnp):
    x = made([1.0, 2.0])
    ones = dpnp.ones(2, device=x.gpu_data().sycl_queue)
    assert ((x + ones).tolist(), (ones - x.gpu_data()).tolist()) == ([2, 3], [0, -1])
    assert (syncblob.asarray(ones) + x).tolist() == [2, 3]
    assert np.stack([x, ones]).tolist() == [[1, 2], [1, 1]]
    with pytest.raises(TypeError, match="supported type"):
        ones + x


def test_what_an_alias_is_still_writing_is_read(dpnp):
    for _ in range(5):
        blob = made(np.zeros(4_000_000, np.float32))
        alias = dpnp.from_dlpack(blob.gpu)
        work = alias
        for _ in range(10):
            work = dpnp.sin(work)
        alias[...] = work * 0 + 1
        assert np.asarray((blob + 1).on("cpu")).min() == 2


def test_an_array_of_another_queue_is_adopted_where_it_is(dpnp):
    dpctl = pytest.importorskip("dpctl")
    queue = dpctl.SyclQueue(accelerator(DEVICE)._queue.sycl_device, property="in_order")
    array = dpnp.arange(3, sycl_queue=queue)
    blob = syncblob.asarray(array, copy=False)
    array[1] = 7
    queue.wait()
    assert (blob.device, blob.tolist()) == (DEVICE, [0, 7, 2])
    assert (blob + made([1, 1, 1])).tolist() == [1, 8, 3]


@pytest.mark.parametrize("way", ["from_dlpack", "tensor.asarray"])
def test_aliases_are_tracked(dpnp, way, kind):
    blob = made([1.0, 2.0, 3.0])
    take = dpnp.tensor.asarray if way == "tensor.asarray" else dpnp.from_dlpack
    alias = take(blob.gpu)
    alias[0] = 5
    assert blob.tolist() == [5, 2, 3]
    with nullcontext() if kind == "shared" else pytest.warns(StaleAliasWarning):
        blob.mutable_cpu_data()
    alias[1] = 6
    assert blob.tolist() == ([5, 6, 3] if kind == "shared" else [5, 2, 3])
    del alias
    blob.gpu_data()
    blob.mutable_cpu_data()


def test_what_dpnp_lacks_says_what_to_do(dpnp):
    del dpnp
    x = made([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(NotImplementedError, match=r"sycl:0 cannot compute lexsort.*blob\.on"):
        np.lexsort(x)
    assert np.lexsort(x.on("cpu")).tolist() == [0, 1]
    flat = made(np.arange(12, dtype=np.float32))
    uneven = flat.reshape(4, 3)[:, :2].view("complex64")
    with pytest.raises(ValueError, match="multiples of 8 bytes"):
        uneven.gpu_data()
    assert uneven.on("cpu").cpu_data().tolist() == [[1j], [3 + 4j], [6 + 7j], [9 + 10j]]


def test_dpnp_takes_the_host_side_of_a_simulated_device(dpnp):
    blob = Blob(3, device="simulated")
    blob[...] = 2
    with pytest.raises(BufferError, match="unsupported device"):
        dpnp.from_dlpack(blob)
    assert dpnp.from_dlpack(blob.cpu).tolist() == [2, 2, 2]


def test_bfloat16_stays_on_the_host(dpnp):
    del dpnp
    pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match=r"dpnp has no bfloat16.*astype"):
        Blob(3, "bfloat16", device=DEVICE).gpu_data()


def test_arrays_of_dpnp_are_indices(dpnp):
    x = made([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    index = dpnp.asarray([2, 0], device=x.gpu_data().sycl_queue)
    assert x[index].tolist() == np.take(x, index, axis=0).tolist() == [[4, 5], [0, 1]]
    assert np.take(x[:2], index, axis=0, mode="wrap").tolist() == [[0, 1], [0, 1]]
    for call in (lambda: x[:2][index], lambda: np.take(x[:2], index, 0)):
        with pytest.raises(IndexError, match="index 2 is out of bounds"):
            call()


def test_a_selection_without_elements_has_memory():
    selected = made(np.zeros((3, 0, 2)))[0, ..., np.array(1)]
    assert (selected.shape, selected.tolist(), np.asarray(selected).shape) == ((0,), [], (0,))


def test_float16_is_computed_as_precisely_as_by_numpy(dpnp):
    del dpnp
    ones = np.ones(3000, np.float16)
    for function in (np.sum, np.mean, np.std, np.var, np.nanmean, np.average):
        result = function(made(ones))
        assert (float(result), result.dtype) == (float(function(ones)), np.float16), function
    matrix = np.arange(6, dtype=np.float16).reshape(2, 3)
    x, row = made(matrix), made(matrix[0])
    for result, expected in [
        (x @ x.T, matrix @ matrix.T),
        (x @ row, matrix @ matrix[0]),
        (row @ row, matrix[0] @ matrix[0]),
        (x @ row.astype("float32"), matrix @ matrix[0].astype(np.float32)),
        (np.vdot(x, x), np.vdot(matrix, matrix)),
        (syncblob.tensordot(x, x.T, axes=1), matrix @ matrix.T),
        (np.linalg.norm(x), np.linalg.norm(matrix)),
        (syncblob.sum(made(ones)), ones.sum()),
        (syncblob.mean(made(ones)), ones.mean()),
        (syncblob.sum(x, dtype="float32"), matrix.sum(dtype=np.float32)),
    ]:
        assert (result.tolist(), result.dtype) == (expected.tolist(), expected.dtype)


def test_pushes_take_queues(dpnp, kind):
    del dpnp
    blob = made(np.zeros(1 << 16))
    blob.mutable_cpu_data()[...] = 4
    if kind == "shared":
        # There is nothing to push.
        blob.async_gpu_push()
        assert blob.sum().item() == 4 << 16
        return
    with pytest.raises(TypeError, match="SyclQueue or None"):
        blob.async_gpu_push(stream=1)
    blob.async_gpu_push(stream=accelerator(DEVICE)._queue)
    assert blob.sum().item() == 4 << 16


def test_a_forked_child_refuses(dpnp, kind):
    del dpnp
    blob = made([1.0])
    blob += 1
    child = os.fork()
    if not child:
        if kind == "shared" and blob.cpu_data().tolist() != [2]:
            os._exit(4)
        try:
            blob + 1
            blob.cpu_data()
        except syncblob.NoDeviceError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(syncblob.NoDeviceError, match=r"dpctl\.get_devices"):
        Blob(3, device="sycl:99")
