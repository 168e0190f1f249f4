"""Rules for SyncedMemory that are not in the transition table."""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from devices import LIMITED
from numpy.typing import NDArray

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
from syncblob.devices import POISON, Side, SimulatedBackend
from syncblob.memory import Access

try:
    import torch
except ImportError:
    torch = None
from syncblob.memory.accesses import expose
from syncblob.memory.loans import NUMPY

NBYTES = 64
READS = ["cpu_data", "gpu_data"]
ACCESSES = [*READS, *(f"{kind}_{name}" for kind in ("mutable", "overwrite") for name in READS)]


def at_cpu(value: int = 7) -> SyncedMemory:
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.mutable_cpu_data()[:] = value
    return memory


def at_gpu(value: int = 7) -> SyncedMemory:
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.mutable_gpu_data()[:] = value
    return memory


# --- failure changes nothing ---------------------------------------------------------------------


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("make", [at_cpu, at_gpu])
@pytest.mark.parametrize("kind", ["allocation", "host_allocation", "transfer"])
def test_a_failure_leaves_everything_as_it_was_and_the_next_call_succeeds(
    make: object, access: str, kind: str, simulated: SimulatedBackend
) -> None:
    memory = make()  # type: ignore[operator]  # parametrised functions
    head, device = memory.head, memory.device
    windows = [memory.windows(side) for side in Side]
    side = Side.HOST if head is Head.HEAD_AT_CPU else Side.ACCELERATOR
    borrow = memory.mutable_cpu_data() if side is Side.HOST else memory.mutable_gpu_data()
    fails = side is not (Side.HOST if "cpu" in access else Side.ACCELERATOR) and kind in {
        "allocation" if "gpu" in access else "host_allocation",
        "transfer" if "overwrite" not in access else "",
    }
    if not fails:
        with simulated.failing(**{kind: 1}):
            getattr(memory, access)()
        return
    with simulated.failing(**{kind: 1}), pytest.raises((MemoryError, RuntimeError), match="inject"):
        getattr(memory, access)()

    assert (memory.head, memory.device) == (head, device)
    assert [memory.windows(side) for side in Side] == windows
    assert borrow.flags.writeable
    assert borrow.tolist() == [7] * NBYTES

    array = getattr(memory, access)()
    if "overwrite" not in access:
        assert array.tolist() == [7] * NBYTES


def test_a_failed_push_changes_nothing(simulated: SimulatedBackend) -> None:
    memory = at_cpu()
    with simulated.failing(allocation=1), pytest.raises(MemoryError):
        memory.async_gpu_push()
    assert memory.head is Head.HEAD_AT_CPU
    with pytest.raises(TypeError, match="stream"):
        memory.async_gpu_push(stream="none such")
    assert memory.head is Head.HEAD_AT_CPU
    assert memory.mutable_cpu_data().flags.writeable


# --- sources -------------------------------------------------------------------------------------


def five() -> NDArray[np.uint8]:
    contents = np.full(NBYTES, 5, np.uint8)
    contents.flags.writeable = False
    return contents


@pytest.mark.parametrize("read", ["cpu_data", "peek_at_source"])
def test_a_source_of_another_size_is_refused(read: str) -> None:
    memory = SyncedMemory(NBYTES + 1, source=five)
    with pytest.raises(ValueError, match="65 bytes"):
        getattr(memory, read)()
    assert memory.head is Head.UNINITIALIZED


class FiveInPlace:
    def __call__(self) -> NDArray[np.uint8]:
        raise AssertionError("there is read_into")

    def read_into(self, buffer: NDArray[np.uint8], offset: int) -> None:
        assert 0 <= offset <= offset + buffer.nbytes <= NBYTES
        buffer[:] = 5


@pytest.mark.parametrize("source", [five, FiveInPlace()])
def test_the_contents_of_a_source_can_be_had_without_filling_the_memory(source: Any) -> None:
    memory = SyncedMemory(NBYTES, source=source)
    contents = memory.peek_at_source()
    assert contents is not None
    assert contents.tolist() == [5] * NBYTES
    assert memory.head is Head.UNINITIALIZED
    assert memory.buffer(Side.HOST) is None
    memory.mutable_cpu_data()[0] = 1
    assert memory.peek_at_source() is None


# --- borrows -------------------------------------------------------------------------------------


def elements_of(array: NDArray[Any], **settings: Any) -> Any:
    return np.nditer(array, op_flags=[["readwrite"]], **settings)


def pointer(array: NDArray[Any]) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


# What was made from an array and writes into it, with the write. It checks the permission once.
PARTS: dict[str, tuple[Callable[[NDArray[Any]], Any], Callable[[Any], object]]] = {
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
def test_no_write_is_missed_through_what_was_made_of_an_alias(make, write) -> None:
    """This is the documented way round it."""
    memory = at_cpu()
    part = make(memory.export(Side.HOST, Access.MUTABLE, Layout.raw(NBYTES), "test", NUMPY))
    memory.gpu_data()
    write(part)
    assert memory.gpu_data()[0] == 9
    with pytest.warns(StaleAliasWarning):
        memory.mutable_gpu_data()


@pytest.mark.parametrize("make", [lambda array: array, lambda array: array.flat, np.asarray])
def test_what_asks_a_borrow_at_each_write_raises_after_it_has_ended(make) -> None:
    memory = at_cpu()
    part = make(memory.mutable_cpu_data())
    memory.mutable_gpu_data()
    with pytest.raises(ValueError, match="read-only"):
        part[0] = 9
    with pytest.raises(ValueError, match="read-only"):
        part[:] = 9


def test_many_borrows_are_all_ended_and_dead_ones_forgotten() -> None:
    memory = at_cpu()
    for _ in range(1000):
        memory.mutable_cpu_data()
    assert len(memory.loans.live) < 50
    kept = [memory.mutable_cpu_data() for _ in range(100)]
    memory.gpu_data()
    assert not any(borrow.flags.writeable for borrow in kept)


# --- threads -------------------------------------------------------------------------------------


def test_sixteen_threads_that_read_at_once_cause_one_download(simulated: SimulatedBackend) -> None:
    with ThreadPoolExecutor(16) as pool:
        for round_number in range(300):
            memory = at_gpu(round_number % 251)
            simulated.reset_counts()
            barrier = threading.Barrier(16)

            def read(memory: SyncedMemory = memory, barrier: threading.Barrier = barrier) -> int:
                barrier.wait()
                return int(memory.cpu_data()[-1])

            values = [future.result() for future in [pool.submit(read) for _ in range(16)]]
            assert values == [round_number % 251] * 16
            assert simulated.downloads == 1


# --- asynchronous uploads ------------------------------------------------------------------------


def test_streams_run_side_by_side_and_keep_their_order(
    simulated: SimulatedBackend, gate: threading.Event
) -> None:
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


def test_a_memory_is_bound_when_its_accelerator_buffer_is_allocated() -> None:
    memory = SyncedMemory(NBYTES, device="cpu")
    assert memory.accelerator is None
    with use_device("simulated:1"):
        memory.gpu_data()
    with use_device("simulated:0"):
        memory.mutable_gpu_data()
    assert (memory.accelerator, memory.device) == (simulated(1), "cpu")


@pytest.mark.parametrize("nbytes", [-1, 2.5])
def test_impossible_sizes_are_refused(nbytes: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        SyncedMemory(nbytes)  # type: ignore[arg-type]  # the point of the test


def test_empty_memories_go_through_all_states_without_a_transfer() -> None:
    memory = SyncedMemory(0, device="simulated")
    with record_transfers() as log:
        for access in ACCESSES:
            assert getattr(memory, access)().shape == (0,)
        memory.mutable_cpu_data()
        memory.async_gpu_push()
        assert memory.head is Head.SYNCED
    assert len(log) == 0


@pytest.mark.parametrize("nbytes", [1, 8])
def test_of_no_elements_every_side_is_the_only_holder(nbytes: int) -> None:
    """Otherwise an access that may write would try again without an end."""
    memory = SyncedMemory(nbytes, device="simulated")
    memory.mutable_gpu_data()
    assert all(memory.is_alone(side, 0, 0) for side in Side)
    assert memory.lend(Side.HOST, Access.MUTABLE, Layout.raw(0), "use").size == 0
    assert memory.head is Head.HEAD_AT_GPU


def test_a_log_of_transfers_changes_nothing_of_an_empty_memory() -> None:
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
    heads = [entry.before for entry in memory.history]
    assert heads[:3] == [Head.UNINITIALIZED, Head.HEAD_AT_GPU, Head.HEAD_AT_CPU]
    assert len(heads) == 1 + 2 * 3


def test_an_array_that_is_tracked_makes_aliases_of_the_other_side_stale() -> None:
    memory, layout = at_cpu(), Layout.raw(NBYTES)
    there = memory.export(Side.ACCELERATOR, Access.MUTABLE, layout, "export", "test")
    there[...] = 8
    array = memory.array(Side.HOST, Access.CONST, layout, "read")
    with pytest.warns(StaleAliasWarning, match="track makes a test alias"):
        memory.track(Side.HOST, layout, "track", "tracked", array)
    (lease,) = memory.loans.of(Side.HOST)
    assert (lease(), lease.kind, lease.start, lease.stop) == (array, "tracked", 0, NBYTES)
    assert (memory.head, memory.history[-1].reason) == (Head.HEAD_AT_CPU, "track")


def test_an_array_that_is_tracked_makes_its_side_the_newest() -> None:
    memory = at_cpu()
    memory.gpu_data()
    memory.track(Side.HOST, Layout.raw(NBYTES), "track", "tracked", memory.cpu_data())
    assert (memory.head, memory.history[-1].reason) == (Head.HEAD_AT_CPU, "track")


def test_a_write_leaves_its_own_side_exposed() -> None:
    memory, layout = at_cpu(), Layout.raw(NBYTES)
    memory.gpu_data()
    expose(memory, Side.HOST)
    memory.gpu_data()
    memory.write(Side.HOST, Access.MUTABLE, layout, "write", np.copyto, 5)
    assert memory.loans.live


@pytest.mark.parametrize("name", ["_prefetch", "export_watched"])
def test_the_lock_is_held(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    memory, held = at_cpu(), []

    def called(ledger: Any, *_: Any) -> None:
        with ThreadPoolExecutor(1) as other:
            held.append(not other.submit(ledger.lock.acquire, blocking=False).result())

    monkeypatch.setattr(f"syncblob.memory.synced_memory.{name}", called)
    with verified_const():
        if name == "_prefetch":
            memory.prefetch(Side.ACCELERATOR, 0, NBYTES)
        else:
            memory.export(Side.HOST, Access.CONST, Layout.raw(NBYTES), "export", "test")
    assert held == [True]


def test_an_access_that_makes_room_says_for_what(limited: SimulatedBackend) -> None:
    limited.capacity = NBYTES
    first, second = (SyncedMemory(NBYTES, device=LIMITED) for _ in range(2))
    first.gpu_data()
    first.mutable_gpu_data()
    with record_transfers() as log:
        second.array(Side.ACCELERATOR, Access.MUTABLE, Layout.raw(NBYTES), "an access")
    assert [transfer.reason for transfer in log] == ["eviction for an access"]
