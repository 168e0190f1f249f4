"""The cache of page-locked memory: sizes, waits before reuse, and when memory is given back."""

import gc
import types
from contextlib import nullcontext

import numpy as np
import pytest
from made_blobs import filled

from syncblob import Blob
from syncblob.blob.core import fresh
from syncblob.devices import page_locked
from syncblob.devices.page_locked import size_class
from syncblob.memory import CONST

pytestmark = pytest.mark.usefixtures("machine")
lazily = pytest.mark.parametrize("machine", ["lazy"], indirect=True)


@pytest.mark.parametrize(
    "nbytes", [1, 512, 513, 4095, 4096, 65_535, 65_536, 65_537, 73_729, 10**6, 2**30 + 1, 3**20]
)
def test_a_block_wastes_at_most_an_eighth_or_a_small_unit(nbytes):
    size = size_class(nbytes)
    assert nbytes <= size <= max(nbytes * 9 / 8, nbytes + 511)
    assert size_class(size) == size
    # Eight classes for each power of two.
    assert len({size_class(n) for n in range(1 << 16, 1 << 17, 100)}) <= 9


def test_a_loop_of_downloads_locks_no_memory_in_each_step(backend, machine):
    x = filled(1, 40_000, device="cuda:0")
    array = x.array_in(x.home, CONST, "test")
    for step in range(40):
        if step == 10:
            before = machine.calls["hostAlloc"]
        y = fresh(Blob, backend.compute(backend.copy, array), backend)
        assert np.asarray(y)[0] == 1
    assert machine.calls["hostAlloc"] == before <= 10
    assert machine.calls["freeHost"] == 0
    # Once for all blocks that were dropped since the wait before.
    assert machine.calls["deviceSynchronize"] <= 4


def fill_and_drop(backend, nbytes, count):
    """Allocate blocks of a size and drop them; return their addresses."""
    buffers = [backend.allocate_host(nbytes) for _ in range(count)]
    addresses = {buffer.ctypes.data for buffer in buffers}
    del buffers
    gc.collect()
    return addresses


@lazily
@pytest.mark.parametrize("current", [True, False])
def test_a_block_is_used_again_after_the_work_of_all_streams(backend, machine, current):
    import cupy

    dropped = fill_and_drop(backend, 100_000, 7)
    stream = cupy.cuda.Stream.null if current else cupy.cuda.Stream(non_blocking=True)
    buffer, there = backend.allocate_host(100_000), cupy.empty(100_000, np.uint8)
    assert buffer.ctypes.data not in dropped
    buffer[:] = 7
    # Another library copies from it, and keeps no reference.
    args = there.data.ptr, buffer.ctypes.data, buffer.nbytes, cupy.cuda.runtime.memcpyHostToDevice
    cupy.cuda.runtime.memcpyAsync(*args, stream.ptr)
    del buffer
    gc.collect()
    again = [backend.allocate_host(100_000) for _ in range(8)]
    assert {*dropped} < {each.ctypes.data for each in again}
    for each in again:
        each[:] = 9
    machine.finish()
    assert there.get()[0] == 7


def test_beside_a_capture_more_memory_is_locked_and_none_is_waited_for(backend, machine):
    import cupy

    dropped = fill_and_drop(backend, 100_000, 8)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        backend.lend(cupy.empty(3))
    stream.begin_capture()
    assert backend.allocate_host(100_000).ctypes.data not in dropped
    stream.end_capture()
    assert machine.calls["deviceSynchronize"] == 0
    backend.allocate_host(100_000)
    assert machine.calls["deviceSynchronize"] == 1


def test_a_block_that_is_dropped_during_the_wait_is_left_to_the_next_one():
    later = []

    def lock(nbytes):
        array = np.empty(nbytes, np.uint8)
        return types.SimpleNamespace(ptr=array.ctypes.data, size=nbytes, array=array)

    order = types.SimpleNamespace(
        calls=nullcontext, drop_finished=lambda: None, synchronize=later.clear
    )
    locked = page_locked.PageLocked(lock, order)
    blocks = [locked.allocate(1000) for _ in range(8)]
    later.append(locked.allocate(1000))
    address = later[0].ctypes.data
    del blocks
    # This one waits.
    assert address not in [locked.allocate(1000).ctypes.data for _ in range(8)]


@pytest.mark.parametrize("by", ["a transfer", "an allocation"])
def test_no_more_is_kept_than_allowed(backend, machine, monkeypatch, by):
    monkeypatch.setattr(page_locked, "MOST_KEPT", 300_000)
    buffers = [backend.allocate_host(100_000) for _ in range(5)]
    other, device = backend.allocate_host(5), backend.allocate(5)
    for number in (2, 3):
        # CUDA is not called by finalisers, but by the next transfer or allocation.
        del buffers[:number]
        gc.collect()
        assert machine.calls["freeHost"] == 0
        if by == "a transfer":
            backend.upload(other, device)
        else:
            backend.allocate_host(1)
    assert backend._page_locked.nbytes <= 1024
    # Also a block that this loop has allocated.
    assert machine.calls["freeHost"] == (5 if by == "a transfer" else 6)


def test_all_is_given_back_where_no_more_can_be_locked(backend, machine):
    small, large = backend.allocate_host(100_000), backend.allocate_host(1_000_000)
    del small, large
    gc.collect()
    with machine.failing(pinned_allocation=1):
        assert backend.is_page_locked(backend.allocate_host(3_000_000))
    assert machine.calls["freeHost"] == 2
    machine.can_pin = False
    assert not backend.is_page_locked(backend.allocate_host(5_000_000))


def test_what_was_given_back_is_not_used_again(backend):
    fill_and_drop(backend, 100_000, 8)
    # This waits, so that seven more could be used.
    fill_and_drop(backend, 100_000, 1)
    assert backend._page_locked.give_back()
    assert backend.allocate_host(100_000).nbytes == 100_000


def test_memory_is_given_back_beside_a_capture_that_nobody_can_name(machine, monkeypatch):
    import cupy

    monkeypatch.setattr(page_locked, "MOST_KEPT", 0)
    blob = Blob(1 << 20, device="cuda:0")
    blob.overwrite_cpu_data()
    other = Blob(3, device="cuda:0")
    other.overwrite_cpu_data()
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
    del blob
    gc.collect()
    other.gpu_data()
    stream.end_capture()
    assert machine.calls["freeHost"] == 1
