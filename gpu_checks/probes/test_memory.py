"""Memory: page-locked memory and its cache, failures, CuPy's other allocators."""

import gc
import resource

import numpy as np
import pytest

from gpu_checks.device import is_model
from syncblob import Blob
from syncblob.devices import page_locked


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # read often
        return int(file.read().split()[1]) * resource.getpagesize()


def test_host_memory_is_page_locked_and_given_back(backend, monkeypatch):
    for nbytes in (1, 4096, 1 << 16, (1 << 16) + 1, 1 << 20):
        buffer = backend.allocate_host(nbytes)
        assert backend.is_page_locked(buffer)
        assert backend.is_page_locked(buffer[nbytes // 2 :])
    assert not backend.is_page_locked(np.empty(4096, np.uint8))
    monkeypatch.setattr(page_locked, "MOST_KEPT", 50_000_000)
    del buffer
    gc.collect()
    before, size, number = resident(), 10_000_000, 20
    blobs = [Blob(size, "uint8", device="cuda:0") for _ in range(number)]
    for blob in blobs:
        blob.overwrite_cpu_data().fill(1)
    if not is_model():
        assert resident() - before < 1.25 * size * number
    del blobs, blob
    gc.collect()
    backend.allocate_host(1)
    assert backend._page_locked.nbytes <= 50_000_000
    if not is_model():
        assert resident() - before < 100_000_000


def test_abandoned_pushes_release_their_buffers(cupy, backend):
    nbytes = 1_000_000
    used = 0 if is_model() else cupy.get_default_memory_pool().used_bytes()
    for _ in range(20):
        blob = Blob(nbytes, "uint8", device="cuda:0")
        blob.overwrite_cpu_data().fill(1)
        blob.async_gpu_push()
        del blob
    gc.collect()
    backend.synchronize()
    Blob.asarray([1]).on("cuda:0").gpu_data()  # releases the buffers of what has arrived
    assert not backend.order.under_way
    if not is_model():
        assert cupy.get_default_memory_pool().used_bytes() - used < nbytes


def test_ordinary_memory_is_used_where_none_can_be_page_locked(cupy, backend, monkeypatch):
    def fails(_):
        raise cupy.cuda.runtime.CUDARuntimeError(2)

    if not is_model():
        # More than any machine has, so that CUDA itself must fail.
        assert not backend.is_page_locked(backend.allocate_host(1 << 46))
    monkeypatch.setattr(backend._page_locked, "_lock_memory", fails)
    backend._page_locked.give_back()
    for start in ("gpu_data", "async_gpu_push"):
        blob = Blob(100, device="cuda:0")
        blob.overwrite_cpu_data().fill(2)
        assert not backend.is_page_locked(blob.cpu_data().view(np.uint8))
        getattr(blob, start)()
        array = blob.mutable_gpu_data()
        array += 1
        assert set(blob.tolist()) == {3.0}


def test_what_torch_keeps_is_given_back(torch, backend):
    kept = torch.zeros(1 << 26, device="cuda:0")
    reserved = torch.cuda.memory_reserved(0)
    del kept
    assert backend.give_back()
    assert torch.cuda.memory_reserved(0) <= reserved - (1 << 28)
    assert not backend.give_back()


@pytest.mark.parametrize("name", ["malloc_managed", "a pool", "malloc_async", None])
def test_every_allocator_of_cupys_serves(cupy, name):
    managed = cupy.cuda.malloc_managed
    allocator = cupy.cuda.MemoryPool(managed).malloc if name == "a pool" else None
    allocator = getattr(cupy.cuda, name) if name and allocator is None else allocator
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(allocator)
    try:
        blob = Blob(1 << 12, device="cuda:0")
        blob.overwrite_cpu_data().fill(1)
        array = blob.mutable_gpu_data()
        array += 1
        assert blob.__dlpack_device__() == (2, 0)
        assert set(blob.tolist()) == {2.0}
        taken = cupy.from_dlpack(blob)
        assert taken.data.ptr == blob.gpu_data().data.ptr
        for take in (Blob.asarray, Blob.from_dlpack):
            array = cupy.full(5, 1, "float32")
            array += 1
            adopted = take(array)
            assert adopted.device == "cuda:0"
            assert set(adopted.tolist()) == {2.0}
        del taken
        blob.mutable_cpu_data().fill(3)
        blob.async_gpu_push()
        assert float(blob.gpu_data().get().max()) == 3.0
        if not is_model() and (torch := pytest.importorskip("torch")).cuda.is_available():
            assert float(torch.from_dlpack(blob).max()) == 3.0
            assert float(torch.add(blob, 1).max()) == 4.0
    finally:
        cupy.cuda.set_allocator(before)
