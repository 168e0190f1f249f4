"""A device without room: what Blobs, CuPy's pool and PyTorch's allocator give up.

On a GPU, an array takes all but a few GiB of its memory, so CUDA itself refuses allocations. These
tests must run alone. On the model, a limit takes the place of the array.
"""

import gc
import threading

import pytest

from gpu_checks.device import cupy_of_this_machine, is_model
from syncblob import Blob, Head, memory_summary, record_transfers, set_memory_limit
from syncblob.devices import accelerator

# The room, in Blobs.
ROOM = 3


def _nbytes():
    return 1 << (20 if is_model() else 30)


def _blob():
    return Blob(_nbytes(), "uint8", device="cuda:0")


@pytest.fixture(autouse=True)
def full():
    """Leave room for three Blobs."""
    cupy = cupy_of_this_machine()
    gc.collect()
    accelerator("cuda:0").give_back()
    if is_model():
        with set_memory_limit("cuda:0", ROOM * _nbytes()):
            yield
        return
    free, _ = cupy.cuda.runtime.memGetInfo()
    # The 200 MiB are for kernels, and for what cudaMalloc rounds up.
    taken = cupy.empty(free - ROOM * _nbytes() - (200 << 20), "uint8")
    yield
    del taken
    gc.collect()
    accelerator("cuda:0").give_back()


def test_blobs_make_room_for_each_other():
    blobs = [_blob() for _ in range(ROOM + 2)]
    with record_transfers() as log:
        for value, blob in enumerate(blobs):
            blob.overwrite_gpu_data().fill(value)
    assert log.downloaded_bytes == 2 * _nbytes()
    assert [blob.head for blob in blobs] == [Head.HEAD_AT_CPU] * 2 + [Head.HEAD_AT_GPU] * ROOM
    for value, blob in enumerate(blobs):
        assert [int(blob.gpu_data()[at]) for at in (0, _nbytes() // 2, -1)] == [value] * 3
    assert "cuda:0" in str(memory_summary())


def test_what_the_host_has_is_dropped_without_a_transfer():
    blobs = [_blob() for _ in range(ROOM)]
    for blob in blobs:
        blob.overwrite_cpu_data().fill(1)
        blob.gpu_data()
    with record_transfers() as log:
        _blob().overwrite_gpu_data().fill(2)
    assert log.nbytes == 0
    assert sum(blob.head is Head.HEAD_AT_CPU for blob in blobs) == 1


def test_an_allocation_fails_if_everything_is_in_use():
    blobs = [_blob() for _ in range(ROOM)]
    for blob in blobs:
        blob.overwrite_gpu_data().fill(3)
    arrays = [cupy_of_this_machine().from_dlpack(blob) for blob in blobs]
    another = _blob()
    with pytest.raises(MemoryError, match=r"full_device\.py"):
        another.overwrite_gpu_data()
    assert another.head is Head.UNINITIALIZED
    assert all(int(array[-1]) == 3 for array in arrays)
    del arrays
    another.overwrite_gpu_data().fill(4)
    assert int(another.gpu_data()[0]) == 4


def test_what_pytorch_keeps_makes_room():
    torch = pytest.importorskip("torch")
    if is_model() or not torch.cuda.is_available():
        pytest.skip("needs a GPU, and PyTorch built for CUDA")
    kept = torch.zeros(2 * _nbytes(), dtype=torch.uint8, device="cuda:0")
    del kept
    assert torch.cuda.memory_reserved(0) >= 2 * _nbytes()
    blobs = [_blob() for _ in range(ROOM)]
    for blob in blobs:
        blob.overwrite_gpu_data().fill(5)
    assert all(blob.head is Head.HEAD_AT_GPU for blob in blobs)


def test_blobs_make_room_for_pytorch():
    torch = pytest.importorskip("torch")
    if is_model() or not torch.cuda.is_available():
        pytest.skip("needs a GPU, and PyTorch built for CUDA")
    blobs = [_blob() for _ in range(ROOM)]
    for blob in blobs:
        blob.overwrite_gpu_data().fill(6)
    result = torch.bitwise_not(blobs[-1])
    assert int(result[-1]) == 255 - 6
    assert [blob.head for blob in blobs[1:]] == [Head.HEAD_AT_GPU] * 2
    assert int(blobs[0].cpu_data()[-1]) == 6


def test_fresh_results_make_room():
    if is_model():
        pytest.skip("the model does not compute")
    left, right = _blob(), _blob()
    left.overwrite_gpu_data().fill(1)
    right.overwrite_gpu_data().fill(2)
    # Three Blobs fit; this takes seven, one after another.
    total = left
    for _ in range(5):
        total = total + right
    assert int(total.gpu_data()[-1]) == 11
    assert (left.head, int(left.gpu_data()[0])) == (Head.HEAD_AT_CPU, 1)


def test_threads_that_evict_each_others_blobs():
    rounds, failed = 3, []

    def work(value):
        try:
            blobs = [_blob() for _ in range(2)]
            for number in range(rounds):
                for blob in blobs:
                    blob.overwrite_gpu_data().fill(value + number)
                for blob in blobs:
                    assert int(blob.gpu_data()[-1]) == value + number
        except BaseException as error:  # noqa: BLE001  # reported by the test
            failed.append(error)

    threads = [threading.Thread(target=work, args=(10 * n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
