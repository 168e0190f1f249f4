"""Rules for SyncedMemory that are not in the transition table."""

import ctypes
import operator
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from made_blobs import memory_on

from syncblob import (
    Head,
    StaleAliasWarning,
    SyncedMemory,
    record_transfers,
    simulated,
    use_device,
    verified_const,
)
from syncblob._layout import Layout
from syncblob.devices import POISON, Side
from syncblob.memory import Access
from syncblob.memory.accesses import expose
from syncblob.memory.loans import NUMPY

try:
    import torch
except ImportError:
    torch = None

NBYTES = 64
READS = ["cpu_data", "gpu_data"]
ACCESSES = [*READS, *(f"{kind}_{name}" for kind in ("mutable", "overwrite") for name in READS)]


at_cpu = partial(memory_on, Side.HOST, nbytes=NBYTES)


# --- sources -------------------------------------------------------------------------------------


def five():
    contents = np.full(NBYTES, 5, np.uint8)
    contents.flags.writeable = False
    return contents


@pytest.mark.parametrize("read", ["cpu_data", "peek_at_source"])
def test_a_source_of_another_size_is_refused(read):
    memory = SyncedMemory(NBYTES + 1, source=five)
    with pytest.raises(ValueError, match="65 bytes"):
        getattr(memory, read)()
    assert memory.head is Head.UNINITIALIZED


# --- borrows -------------------------------------------------------------------------------------


def elements_of(array, **settings):
    return np.nditer(array, op_flags=[["readwrite"]], **settings)


def pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


# What was made from an array and writes into it, with the write. It checks the permission once.
PARTS = {
    "a slice": (lambda array: array[:3], lambda part: part.fill(9)),
    "a view": (lambda array: array.view(), lambda part: part.fill(9)),
    "a masked array": (np.ma.asarray, lambda part: part.data.fill(9)),
    "nditer": (elements_of, lambda part: next(part).fill(9)),
    "an element of nditer": (lambda array: next(elements_of(array)), lambda part: part.fill(9)),
    "nditer by index": (elements_of, lambda part: operator.setitem(part, 0, 9)),
    "nditer in chunks": (
        lambda array: elements_of(array, flags=["external_loop"]),
        lambda part: next(part).fill(9),
    ),
    "nested_iters": (
        lambda array: np.nested_iters(array[:, None], [[0], [1]], op_flags=[["readwrite"]])[1],
        lambda part: next(part).fill(9),
    ),
    "memoryview": (memoryview, lambda part: operator.setitem(part, 0, 9)),
    "data": (lambda array: array.data, lambda part: operator.setitem(part, 0, 9)),
    "a ctypes pointer": (pointer, lambda part: operator.setitem(part, 0, 9)),
    "a ctypes array": (np.ctypeslib.as_ctypes, lambda part: operator.setitem(part, 0, 9)),
    "np.from_dlpack": (np.from_dlpack, lambda part: part.fill(9)),
}
if torch is not None:
    for name in ("from_numpy", "from_dlpack"):
        PARTS[f"torch.{name}"] = (getattr(torch, name), lambda part: part.fill_(9))


@pytest.mark.parametrize(("make", "write"), PARTS.values(), ids=PARTS)
def test_no_write_is_missed_through_what_was_made_of_an_alias(make, write):
    """This is the documented way round it."""
    memory = at_cpu()
    part = make(memory.export(Side.HOST, Access.MUTABLE, Layout.raw(NBYTES), "test", NUMPY))
    memory.gpu_data()
    write(part)
    assert memory.gpu_data()[0] == 9
    with pytest.warns(StaleAliasWarning):
        memory.mutable_gpu_data()


@pytest.mark.parametrize("make", [lambda array: array, lambda array: array.flat, np.asarray])
def test_what_asks_a_borrow_at_each_write_raises_after_it_has_ended(make):
    memory = at_cpu()
    part = make(memory.mutable_cpu_data())
    memory.mutable_gpu_data()
    with pytest.raises(ValueError, match="read-only"):
        part[0] = 9
    with pytest.raises(ValueError, match="read-only"):
        part[:] = 9


# --- threads -------------------------------------------------------------------------------------


def test_sixteen_threads_that_read_at_once_cause_one_download(simulated):
    with ThreadPoolExecutor(16) as pool:
        for round_number in range(300):
            memory = memory_on(Side.ACCELERATOR, round_number % 251, NBYTES)
            simulated.reset_counts()
            barrier = threading.Barrier(16)

            def read(memory=memory, barrier=barrier):
                barrier.wait()
                return int(memory.cpu_data()[-1])

            values = [future.result() for future in [pool.submit(read) for _ in range(16)]]
            assert values == [round_number % 251] * 16
            assert simulated.downloads == 1


# --- asynchronous uploads ------------------------------------------------------------------------


def test_streams_run_side_by_side_and_keep_their_order(simulated, gate):
    slow, fast = simulated.stream(), simulated.stream(delay=0.0)
    first, second = at_cpu(1), at_cpu(2)
    first.async_gpu_push(slow)
    second.async_gpu_push(fast)
    fast.synchronize()
    assert second.buffer(Side.ACCELERATOR)[0] == 2
    assert first.buffer(Side.ACCELERATOR)[0] == POISON
    gate.set()
    assert first.gpu_data()[0] == 1


# --- devices -------------------------------------------------------------------------------------


def test_a_memory_is_bound_when_its_accelerator_buffer_is_allocated():
    memory = SyncedMemory(NBYTES, device="cpu")
    assert memory.accelerator is None
    with use_device("simulated:1"):
        memory.gpu_data()
    with use_device("simulated:0"):
        memory.mutable_gpu_data()
    assert (memory.accelerator, memory.device) == (simulated(1), "cpu")


@pytest.mark.parametrize("nbytes", [-1, 2.5])
def test_impossible_sizes_are_refused(nbytes):
    with pytest.raises((ValueError, TypeError), match=r"got -1|as an integer"):
        SyncedMemory(nbytes)


def test_empty_memories_go_through_all_states_without_a_transfer():
    memory = SyncedMemory(0, device="simulated")
    with record_transfers() as log:
        for access in ACCESSES:
            assert getattr(memory, access)().shape == (0,)
        memory.mutable_cpu_data()
        memory.async_gpu_push()
        assert memory.head is Head.SYNCED
        expose(memory, Side.ACCELERATOR)
        assert memory.head is Head.HEAD_AT_GPU
    assert len(log) == 0


@pytest.mark.parametrize("nbytes", [1, 8])
def test_of_no_elements_every_side_is_the_only_holder(nbytes):
    """Otherwise an access that may write would try again without an end."""
    memory = SyncedMemory(nbytes, device="simulated")
    memory.mutable_gpu_data()
    assert all(memory.is_alone(side, 0, 0) for side in Side)
    assert memory.lend(Side.HOST, Access.MUTABLE, Layout.raw(0), "use").size == 0
    assert memory.head is Head.HEAD_AT_GPU


def test_a_log_of_transfers_changes_nothing_of_an_empty_memory():
    memory = SyncedMemory(0, device="simulated")
    with record_transfers():
        memory.gpu_data()
        for write, head in [
            (memory.mutable_cpu_data, Head.HEAD_AT_CPU),
            (memory.overwrite_gpu_data, Head.HEAD_AT_GPU),
            (memory.mutable_cpu_data, Head.HEAD_AT_CPU),
        ]:
            borrow = write()
            assert memory.head is head
            (memory.gpu_data if head is Head.HEAD_AT_CPU else memory.cpu_data)()
            assert memory.head is Head.SYNCED
            assert not isinstance(borrow, np.ndarray) or not borrow.flags.writeable
    heads = [entry.map_before.head() for entry in memory.history]
    assert heads[:3] == [Head.UNINITIALIZED, Head.HEAD_AT_GPU, Head.HEAD_AT_CPU]
    assert len(heads) == 1 + 2 * 3


def test_an_array_that_is_tracked_makes_aliases_of_the_other_side_stale():
    memory, layout = at_cpu(), Layout.raw(NBYTES)
    there = memory.export(Side.ACCELERATOR, Access.MUTABLE, layout, "export", "test")
    there[...] = 8
    array = memory.array(Side.HOST, Access.CONST, layout, "read")
    with pytest.warns(StaleAliasWarning, match="track makes aliases stale: a test alias"):
        memory.track(Side.HOST, layout, "track", "tracked", array)
    (lease,) = memory.loans.of(Side.HOST)
    assert (lease(), lease.kind, lease.start, lease.stop) == (array, "tracked", 0, NBYTES)
    assert (memory.head, memory.history[-1].reason) == (Head.HEAD_AT_CPU, "track")


def test_a_log_that_another_thread_opens_during_a_copy_is_no_alias(monkeypatch):
    class Logs(list):
        def __bool__(self):
            self.append(None)
            return len(self) > 1

    memory = at_cpu()
    monkeypatch.setattr("syncblob.memory.changes.open_logs", Logs())
    assert memory.gpu_data().tolist() == memory.cpu_data().tolist()


def test_a_write_leaves_its_own_side_exposed():
    memory, layout = at_cpu(), Layout.raw(NBYTES)
    memory.gpu_data()
    expose(memory, Side.HOST)
    memory.gpu_data()
    for value in (5, 6):
        memory.write(Side.HOST, Access.MUTABLE, layout, "write", np.copyto, value)
        assert memory.loans.live
        assert memory.cpu_data().tolist() == [value] * NBYTES


@pytest.mark.parametrize("name", ["_prefetch", "export_watched"])
def test_the_lock_is_held(monkeypatch, name):
    memory, held = at_cpu(), []

    def called(ledger, *_):
        with ThreadPoolExecutor(1) as other:
            held.append(not other.submit(ledger.lock.acquire, blocking=False).result())

    monkeypatch.setattr(f"syncblob.memory.synced_memory.{name}", called)
    with verified_const():
        if name == "_prefetch":
            memory.prefetch(Side.ACCELERATOR, 0, NBYTES)
        else:
            memory.export(Side.HOST, Access.CONST, Layout.raw(NBYTES), "export", "test")
    assert held == [True]
