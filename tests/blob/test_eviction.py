"""Evictions: by hand, and by themselves when an accelerator is full."""

import gc
import itertools
import operator
import os
import pickle
import random
import signal
import threading
import time
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

import numpy as np
import pytest
import tiers
from devices import LIMITED
from in_threads import in_threads

import syncblob
import syncblob.array_api as xp
from syncblob import Blob, Evictable, Head, record_transfers, set_memory_limit
from syncblob._weak_list import WeakTable
from syncblob.blob.core import BlobCore, making
from syncblob.calls import in_parts
from syncblob.calls.operators import plans_of_operator
from syncblob.devices import HOST, Side
from syncblob.devices.host import NumpyHome
from syncblob.memory import NO_SHORTCUT, compute, operations, room

COUNT = 64
NBYTES = 4 * COUNT


@pytest.fixture
def two(limited):
    """Give a limited device with room for two Blobs of `NBYTES`, and for some numbers."""
    limited.capacity = 2 * NBYTES + 64
    return limited


@pytest.fixture
def set_policy():
    """Give the function that sets the policy, which the default replaces after the test."""
    yield syncblob.set_eviction_policy
    syncblob.set_eviction_policy(None)


def filled(value, count=COUNT, name=""):
    """Make a Blob of a number, which the device alone holds."""
    blob = Blob(count, "int32", device=LIMITED, name=name)
    blob[...] = value
    return blob


# --- a device with a capacity ---------------------------------------------------------------------


def test_two_threads_do_not_take_the_same_room(two, monkeypatch):
    buffers, allocate = [], NumpyHome.allocate

    def overtaken(self, nbytes, **keywords):
        monkeypatch.setattr(NumpyHome, "allocate", allocate)
        in_threads(lambda: buffers.append(two.allocate(2 * NBYTES)))
        return allocate(self, nbytes, **keywords)

    monkeypatch.setattr(NumpyHome, "allocate", overtaken)
    with pytest.raises(MemoryError, match=f"{2 * NBYTES} B of its {2 * NBYTES + 64} B are in use"):
        two.allocate(2 * NBYTES)
    assert two.used_nbytes == buffers[0].nbytes == 2 * NBYTES


def test_an_iteration_keeps_no_buffer(two):
    blob = filled(1).reshape(2, -1)
    rows = iter(blob)
    next(rows)
    assert (blob.evict("gpu"), two.used_nbytes) == (NBYTES, 0)


def test_buffers_and_results_count_until_they_die(limited):
    blob = filled(1)
    assert limited.used_nbytes == NBYTES
    limited.capacity = 10 * NBYTES
    result = blob + blob
    assert limited.used_nbytes == 2 * NBYTES
    view = result[:3]
    del result
    assert limited.used_nbytes == 2 * NBYTES
    del view
    assert limited.used_nbytes == NBYTES


@pytest.mark.usefixtures("two")
def test_an_adopted_array_stays_when_room_is_needed():
    memory = bytearray(NBYTES)
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.set_gpu_data(np.frombuffer(memory, "int32"))  # which nothing else refers to
    others = [filled(value) for value in range(4)]
    assert [int(each.sum()) for each in others] == [0, 64, 128, 192]
    blob.mutable_cpu_data()[...] = 7
    blob.gpu_data()
    assert set(memory[::4]) == {7}


def test_a_limit_ends_with_its_block(limited):
    first, second = filled(1), filled(2)
    with set_memory_limit(LIMITED, NBYTES):
        third = filled(3)
        assert (first.head, second.head, third.head) == (
            Head.HEAD_AT_CPU,
            Head.HEAD_AT_CPU,
            Head.HEAD_AT_GPU,
        )
    assert not limited.bounded
    assert first.sum().item() + second.sum().item() == 3 * COUNT
    assert limited.used_nbytes == 3 * NBYTES


REFUSED = {
    "a limit of nothing": (lambda: set_memory_limit(LIMITED, 0), ValueError, "at least 1"),
    "a limit of a fraction": (lambda: set_memory_limit(LIMITED, 1.5), TypeError, None),
    "a limit of the host": (lambda: set_memory_limit("cpu", 9), ValueError, "expected an accel"),
    "a capacity below 0": (
        lambda: setattr(syncblob.simulated(7), "capacity", -1),
        ValueError,
        "at least 0, or None, got -1",
    ),
    "a capacity as text": (
        lambda: setattr(syncblob.simulated(7), "capacity", "5"),
        TypeError,
        None,
    ),
    "a third side": (lambda: Blob(3).evict("cuda"), ValueError, 'expected "cpu" or "gpu", got .cu'),
    "a missing axis": (lambda: Blob(4).parts(1, nbytes=8), IndexError, None),
    "parts of nothing": (lambda: Blob(4).parts(nbytes=0), ValueError, "at least 1 byte"),
    "no policy": (lambda: syncblob.set_eviction_policy("oldest"), TypeError, "expected a function"),
}


@pytest.mark.parametrize(("act", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(act, error, message):
    with pytest.raises(error, match=message):
        act()


# --- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True])
def test_a_failed_upload_is_not_of_the_operation_that_needs_room(two, alone):
    first, second, third = (Blob(COUNT, "int32", device=LIMITED) for _ in range(3))
    for blob in (first, second, third):
        blob.mutable_cpu_data()[...] = 7
    kept = np.asarray(second.gpu) if alone else second.gpu_data()
    with two.failing(transfer=1):
        first.async_gpu_push()
        two.synchronize()
    assert third.gpu_data().tolist() == kept.tolist() == [7] * COUNT
    assert first.tolist() == [7] * COUNT


@pytest.mark.usefixtures("two")
def test_what_verified_const_watches_stays():
    third = Blob(COUNT, "int32", device=LIMITED)
    third.mutable_cpu_data()[...] = 3
    first, second = filled(1), filled(2)
    with syncblob.verified_const(), record_transfers() as log:
        seen = [np.from_dlpack(blob.gpu.const) for blob in (first, second)]
        with pytest.raises(MemoryError, match="Blob of 256 bytes"):
            third.gpu_data()
    assert log.nbytes == 0
    assert [array[0] for array in seen] == [1, 2]


@pytest.mark.parametrize("side", ["cpu", "gpu"])
@pytest.mark.usefixtures("simulated")
def test_what_only_one_side_holds_moves_to_the_other(side):
    blob = filled(7)
    if side == "cpu":
        blob.mutable_cpu_data()[...] = 7
    with record_transfers() as log:
        assert blob.evict(side) == NBYTES
        assert blob.evict(side) == 0
    assert [(t.direction, t.nbytes, t.reason) for t in log] == [
        ("upload" if side == "cpu" else "download", NBYTES, "evict")
    ]
    assert blob.head is (Head.HEAD_AT_GPU if side == "cpu" else Head.HEAD_AT_CPU)
    assert blob.memory.buffer(Side.HOST if side == "cpu" else Side.ACCELERATOR) is None
    assert blob.tolist() == [7] * COUNT
    assert "evict: " in str(blob.explain())


@pytest.mark.parametrize("side", Side)
@pytest.mark.usefixtures("simulated")
def test_the_history_has_an_eviction_of_what_no_access_needs(side):
    memory = filled(7).memory
    memory.cpu_data()
    (memory.mutable_cpu_data if side else memory.mutable_gpu_data)()
    head = memory.head
    memory.evict(side)
    assert str(memory.history[-1]).startswith(f"evict: {head.name}, at ")


def test_a_blob_that_was_computed_with_lets_go_of_its_arrays(limited):
    blob = filled(7)
    view, const = blob[1:], blob.const
    assert (blob + view.sum() + const).sum().item() == COUNT * (14 + 7 * (COUNT - 1))
    blob.gpu_data(), blob.mutable_gpu_data()
    blob.evict("gpu")
    assert limited.used_nbytes == 0
    assert blob.sum().item() == view.sum().item() + 7 == 7 * COUNT


def test_a_borrow_loses_its_permission_and_keeps_its_bytes(limited):
    blob = filled(7)
    borrow, const = blob.mutable_gpu_data(), blob.gpu_data()
    blob.evict("gpu")
    assert not borrow.flags.writeable
    assert const.tolist() == [7] * COUNT
    assert limited.used_nbytes == NBYTES
    del borrow, const
    assert limited.used_nbytes == 0


@pytest.mark.usefixtures("simulated")
def test_a_shortcut_that_was_asked_for_before_an_eviction_has_no_buffer():
    blob = filled(7)
    ledger = blob.memory

    class Contended:
        """Another thread has the lock first."""

        def __enter__(self):
            ledger.lock = lock
            blob.memory.evict(Side.ACCELERATOR)
            lock.acquire()

        def __exit__(self, *_):
            lock.release()

    lock, ledger.lock = ledger.lock, Contended()
    assert ledger.shortcut(Side.ACCELERATOR, blob.layout) is NO_SHORTCUT
    blob += 1
    blob += 1
    assert blob.tolist() == [9] * COUNT


BUSY = "^another thread, or an operation that this one interrupts, is using Blob of 256 bytes$"


@pytest.mark.parametrize("write", [lambda x: operator.setitem(x, [0, 1], 5), Blob.update])
def test_what_an_operation_writes_is_not_evicted_by_hand(limited, monkeypatch, write):
    blob, found = filled(7), []
    blob.mutable_gpu_diff()[...] = 1
    # A device with a limit counts what its computations make.
    limited.capacity = 1 << 20
    compute_there = limited.compute

    def evict_first(*args, **keywords):
        with pytest.raises(BufferError, match=BUSY):
            blob.evict("gpu")
        found.append(blob.memory.windows(Side.ACCELERATOR))
        return compute_there(*args, **keywords)

    monkeypatch.setattr(limited, "compute", evict_first)
    write(blob)
    assert all(found)
    assert found
    assert blob.tolist()[:2] in ([5, 5], [6, 6])


@pytest.mark.parametrize(
    ("function", "place"),
    [(np.frexp, 0), (np.modf, 1), (lambda x, out: np.divmod(x, 3, out=out), 0)],
)
def test_a_call_that_writes_its_operand_may_evict_for_another_result(limited, function, place):
    old = np.linspace(4, 9, COUNT, dtype=np.float32)
    expected = function(old, out=(None, None))
    x, other = Blob(COUNT, device=LIMITED), filled(7, 2 * COUNT)
    x[...] = old
    limited.capacity = 3 * NBYTES
    out = [None, None]
    out[place] = x
    found = function(x, out=tuple(out))
    assert found[place] is x
    for new, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(new, right)
    np.testing.assert_array_equal(other, 7)


def test_a_call_that_writes_several_parts_ends_when_there_is_no_room_for_all(limited):
    count = 1 << 16
    old = np.full((3, count), 7)
    x, y, z = (Blob((3, count), "int64", device=LIMITED) for _ in range(3))
    for blob in (x, y, z):
        blob.mutable_cpu_data()[...] = old
    # For two results and one row.
    limited.capacity = 3 * old[0].nbytes + 100
    with pytest.raises(MemoryError, match="nothing there can be evicted"):
        np.divmod(z[0], 3, out=(x[0], y[0]))
    for blob in (x, y, z):
        assert blob.head is Head.HEAD_AT_CPU
        np.testing.assert_array_equal(blob, old)


@pytest.mark.parametrize("kept", ["exposed", "alias", "adopted"])
def test_what_needs_the_host_keeps_it_there_without_any_accelerator(kept):
    blob = syncblob.asarray(np.ones(3)) if kept == "exposed" else Blob(3, "float64", device="cpu")
    blob[...] = 1
    alias = np.asarray(blob.cpu) if kept == "alias" else None
    if kept == "adopted":
        blob.set_cpu_data(np.ones(3))
    assert blob.memory.accelerator is None
    with pytest.raises(BufferError, match="cannot leave cpu"):
        blob.evict("cpu")
    assert blob.head is Head.HEAD_AT_CPU
    assert blob.tolist() == [1] * 3
    del alias


@pytest.mark.parametrize("use", [lambda x: x + 1, Blob.gpu_data], ids=["operator", "accessor"])
@pytest.mark.parametrize("interrupt", [False, True])
def test_an_array_that_is_made_amid_an_eviction_or_an_interrupt_keeps_no_memory(
    limited, monkeypatch, use, interrupt
):
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.mutable_cpu_data()[...] = 7
    blob.gpu_data()
    real, calls = WeakTable.add, []

    def add(table, found):
        first = table is operations.keepers and calls.append(found) is None and len(calls) == 1
        if first and interrupt:
            raise KeyboardInterrupt
        real(table, found)
        if first:
            blob.memory.evict(Side.ACCELERATOR)

    monkeypatch.setattr(WeakTable, "add", add)
    with suppress(KeyboardInterrupt):
        assert use(blob) is not None
    assert calls
    gc.collect()
    blob.memory.evict(Side.ACCELERATOR)
    assert limited.used_nbytes == 0
    assert blob.tolist() == [7] * COUNT


@pytest.mark.parametrize("side", ["cpu", "gpu"])
@pytest.mark.parametrize("size", [1, COUNT])
@pytest.mark.usefixtures("simulated")
def test_what_an_operator_writes_while_its_buffer_is_evicted_is_kept(monkeypatch, side, size):
    """On the host, the first eviction of all may not know of it."""
    monkeypatch.setattr(HOST, "writers", None)
    blob = filled(7, size).on("cpu" if side == "cpu" else LIMITED)
    view = blob[size // 2 :]
    view += 1
    calls, refused = [None], []

    def add(array, value, out=None):
        result = np.add(array, value)
        if array.shape == view.shape and calls.append(array.shape) is None and len(calls) == 2:
            try:
                blob.evict(side)
            except BufferError:
                refused.append(side)
        if out is None:
            return result
        out[...] = result
        return out

    plans_of_operator("add", add, in_place=True)[Blob](view, view + 1)
    assert (blob.tolist(), len(calls) > 1) == ([7] * (size // 2) + [17] * view.size, True)
    assert refused == ["gpu"] * (side == "gpu")
    assert side == "gpu" or HOST.writers is operations.WRITERS


def test_one_warning_is_enough_if_room_has_to_be_made(limited):
    limited.capacity = NBYTES
    blob, other = Blob(COUNT, "int32", device=LIMITED), filled(1)
    alias = np.from_dlpack(blob.on("cpu"))
    with pytest.warns(syncblob.StaleAliasWarning) as caught:
        blob.mutable_gpu_data()
    assert (len(caught), other.head, len(alias)) == (1, Head.HEAD_AT_CPU, COUNT)


def test_the_device_on_which_elements_are_gathered_makes_room(limited):
    limited.capacity = 2 * NBYTES
    first, second = filled(1), filled(2)
    assert first[::2].tolist() == [1] * (COUNT // 2)
    assert (first.head, second.head) == (Head.HEAD_AT_GPU, Head.HEAD_AT_CPU)


@pytest.mark.usefixtures("simulated")
def test_an_alias_refuses():
    blob = filled(7)
    alias = np.asarray(blob.gpu)
    expected = rf"leave {LIMITED}, because of a NumPy alias .*test_eviction\.py"
    with pytest.raises(BufferError, match=expected):
        blob.evict("gpu")
    alias[...] = 8
    assert blob.tolist() == [8] * COUNT
    del alias
    assert blob.evict("gpu") == NBYTES
    assert blob.tolist() == [8] * COUNT


def test_an_array_of_someone_else_stays(limited):
    array = np.arange(COUNT)
    blob = syncblob.asarray(array, device="cpu")
    blob.memory.side_of(limited)
    with pytest.raises(BufferError, match="because of the host side, exposed at"):
        blob.evict("cpu")


def test_a_push_arrives_first(limited):
    limited.delay = 0.05
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.mutable_cpu_data()[...] = 7
    blob.async_gpu_push()
    blob.evict("cpu")
    assert blob.gpu_data().tolist() == [7] * COUNT


@pytest.mark.parametrize("side", ["cpu", "gpu"])
def test_a_blob_made_smaller_is_evicted_with_all_of_its_memory(side):
    blob = filled(7)
    blob.cpu_data()
    blob.resize(0)
    assert blob.evict(side) == NBYTES
    blob.resize(COUNT)
    assert blob.on("cpu").tolist() == (blob + 0).tolist() == [7] * COUNT


@pytest.mark.usefixtures("small", "simulated")
def test_of_a_view_the_windows_in_its_range_are_freed():
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.mutable_cpu_data()[...] = np.arange(COUNT)
    blob[:8] += 1
    blob[10:18] += 1
    assert blob[:9].evict("gpu") == 32
    assert blob[9:17].evict("gpu") == 0
    assert blob.memory.spans.head(40, 72) is Head.HEAD_AT_GPU
    assert blob.evict("gpu") == 32
    assert blob.tolist() == [*range(1, 9), 8, 9, *range(11, 19), *range(18, COUNT)]
    kept = "evict, which keeps a buffer of bytes 40 to 72: SPLIT, at "
    assert str(blob.explain()).count(kept) == 1


@pytest.mark.parametrize("side", ["cpu", "gpu"])
@pytest.mark.usefixtures("simulated")
def test_a_buffer_that_reaches_beyond_a_view_stays_and_that_is_said(side):
    blob = filled(7)
    blob.cpu_data()
    assert blob[:9].evict(side) == 0
    kept = f"evict, which keeps a buffer of bytes 0 to 256: SYNCED, at {__file__}:"
    assert kept in str(blob.explain())
    assert blob.evict(side) == NBYTES
    assert str(blob.explain()).count("which keeps") == 1


# --- by itself ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two")
def test_what_the_host_has_costs_less():
    clean, dirty = filled(1), filled(2)
    clean.cpu_data()
    filled(0).sum()
    assert (clean.head, dirty.head) == (Head.HEAD_AT_CPU, Head.HEAD_AT_GPU)


@pytest.mark.usefixtures("two")
def test_operands_stay():
    first, second = filled(1), filled(2)
    with pytest.raises(MemoryError, match="bytes: an operand of add"):
        first + second
    assert (first.sum().item(), second.sum().item()) == (COUNT, 2 * COUNT)
    first += second
    assert first.sum().item() == 3 * COUNT
    # Of operands within others, even within themselves, those some levels down.
    nested = [first]
    nested.append({"out": (nested, second)})
    used = [*operations.used_by(nested)]
    assert used.count(first.memory) == used.count(second.memory) == 2


@pytest.mark.usefixtures("two")
def test_the_error_names_who_holds_what():
    first, second = filled(1, name="one"), filled(2, count=COUNT // 2, name="two")
    alias, borrow = np.asarray(first.gpu), second.mutable_gpu_data()
    with pytest.raises(MemoryError) as caught:
        filled(3)
    text = str(caught.value).split("nothing there can be evicted:\n")[1]
    large, small = text.splitlines()
    assert "256 B  Blob 'one' of 256 bytes: a NumPy alias of the accelerator side" in large
    assert "test_eviction.py" in large
    assert "128 B  Blob 'two' of 128 bytes: 1 writable borrow" in small
    assert text in str(syncblob.memory_summary())
    del alias, borrow
    assert filled(3).sum().item() == 3 * COUNT


def test_the_summary_has_sizes_names_holders_and_lines(two):
    two.capacity = None
    gc.collect()
    first, second = filled(1, name="<one>"), filled(2, count=2 * COUNT)
    result = second + second
    alias = np.asarray(first.gpu)
    summary = syncblob.memory_summary(LIMITED)
    assert [(str(row.device), row.nbytes, row.blob, row.holder[:12]) for row in summary.rows] == [
        ("simulated:7", 2 * NBYTES, "Blob of 512 bytes", ""),
        ("simulated:7", 2 * NBYTES, "Blob of 512 bytes", ""),
        ("simulated:7", NBYTES, "Blob '<one>' of 256 bytes", "a NumPy alia"),
    ]
    lines = [row.line.text if row.line else None for row in summary.rows]
    assert lines == ["blob[...] = value", None, "blob[...] = value"]
    assert "512 B  Blob of 512 bytes; since" in str(summary.rows[0])
    assert str(summary.rows[1]).endswith("512 B  Blob of 512 bytes")
    html = summary._repr_html_()
    assert "<table><tr><th>device</th><th>bytes</th><th>Blob</th><th>since</th><th>kept by" in html
    assert "<td>simulated:7</td><td>512 B</td><td>Blob of 512 bytes</td><td>" in html
    assert html.count("<td></td>") == 3
    assert "<td>Blob &#x27;&lt;one&gt;&#x27; of 256 bytes</td>" in html
    other = Blob(1, device="simulated:8")
    other.gpu_data()
    assert str(summary) in str(syncblob.memory_summary())
    del first, second, result, alias
    gc.collect()
    assert str(syncblob.memory_summary(LIMITED)) == "simulated:7\n    nothing"


@pytest.mark.usefixtures("two")
def test_thrashing_is_pointed_out():
    blobs = [filled(value) for value in range(4)]
    with record_transfers() as log:
        for _ in range(3):
            for blob in blobs[:3]:
                blob.mutable_gpu_data()[...] += 1
    (found,) = log.problems()
    assert (found.kind, found.nbytes) == ("thrashing", found.transfers * NBYTES)
    assert found.lines[0].text == "blob.mutable_gpu_data()[...] += 1"
    text = f"{found.transfers} uploads of {found.nbytes} bytes bring back "
    assert f"thrashing: {text}" in log.summary()
    with record_transfers() as log:
        for blob in blobs:
            blob.mutable_gpu_data()[...] += 1
    assert log.problems() == []


@pytest.mark.usefixtures("two")
def test_the_log_says_for_whom():
    first, second = filled(1, name="first"), filled(2)
    with record_transfers() as log:
        third = second.copy()
    assert [(t.direction, t.reason, t.name) for t in log] == [
        ("download", "eviction for copy", "first")
    ]
    assert log[0].line.filename == __file__
    assert "eviction for copy: HEAD_AT_GPU -> SYNCED, download" in str(first.explain())
    assert third.sum().item() == 2 * COUNT
    with record_transfers() as log:
        compute(second.home, partial(np.ones, 2 * COUNT, "int32"))
    assert {each.reason for each in log} == {"eviction for a computation"}


@pytest.mark.usefixtures("two")
def test_a_guard_forbids_the_transfers_of_evictions():
    first, second = filled(1), filled(2)
    with syncblob.no_transfers(), pytest.raises(syncblob.TransferGuardError, match="eviction"):
        second.copy()
    assert (first.sum().item(), second.sum().item()) == (COUNT, 2 * COUNT)


@pytest.mark.usefixtures("two")
def test_under_a_guard_what_the_host_has_goes_first(set_policy):
    dirty, clean = filled(1), filled(2)
    clean.cpu_data()
    set_policy(lambda buffer: buffer.newest)
    with syncblob.no_transfers():
        third = filled(3)
    assert (dirty.head, clean.head, third.head) == (
        Head.HEAD_AT_GPU,
        Head.HEAD_AT_CPU,
        Head.HEAD_AT_GPU,
    )


@pytest.mark.usefixtures("two")
def test_another_policy(set_policy):
    seen = []

    def largest_name(buffer):
        seen.append(buffer)
        return ord(buffer.name or "a")

    set_policy(largest_name)
    blobs = [filled(value, name=name) for value, name in enumerate("xyz")]
    assert [blob.head for blob in blobs] == [Head.HEAD_AT_GPU, Head.HEAD_AT_CPU, Head.HEAD_AT_GPU]
    assert all(isinstance(buffer, Evictable) for buffer in seen)
    assert {(buffer.nbytes, buffer.newest, buffer.name) for buffer in seen} == {
        (NBYTES, NBYTES, "x"),
        (NBYTES, NBYTES, "y"),
    }


@pytest.mark.usefixtures("two")
def test_an_age_counts_the_evictions_since_the_last_use(set_policy):
    ages = []

    def first_named(buffer):
        ages.append((buffer.name, buffer.age))
        return -ord(buffer.name)

    z = filled(0, name="z")
    set_policy(first_named)
    # Kept, so that no number of bytes is given back.
    blobs = [filled(value, name=name) for value, name in enumerate("abcd")]
    assert ages == [("z", 0), ("a", 0), ("z", 1), ("b", 0), ("z", 2), ("c", 0)]
    for name in "ef":
        # At least the second one uses an array that is kept.
        z += 1
        z += 1
        blobs.append(filled(0, name=name))
    assert ages[6:] == [("z", 0), ("d", 0), ("z", 0), ("e", 0)]


@pytest.mark.parametrize("start", ["prefetch", "async_gpu_push"])
@pytest.mark.usefixtures("two")
def test_what_is_brought_early_makes_room_and_gives_way(start):
    blobs = [Blob(COUNT, "int32", device=LIMITED) for _ in range(6)]
    for value, blob in enumerate(blobs):
        blob.overwrite_cpu_data()[...] = value
    for blob in blobs:
        getattr(blob, start)()
    assert [blob.gpu_data()[0] for blob in blobs] == [*range(6)]


@pytest.mark.usefixtures("two")
def test_garbage_gives_way_before_an_error_does():
    gc.collect()
    gc.disable()
    try:
        for value in range(6):
            blob = filled(value)
            cycle = [blob, blob.mutable_gpu_data()]
            cycle.append(cycle)
            del blob, cycle
    finally:
        gc.enable()


def test_arrays_in_garbage_give_way_before_an_error_does(two):
    cycle = [filled(1).gpu_data().base, two.compute(np.ones, COUNT, "int32")]
    cycle.append(cycle)
    del cycle
    assert filled(2, 2 * COUNT).tolist() == [2] * (2 * COUNT)


@pytest.mark.usefixtures("two")
def test_what_another_thread_has_at_hand_since_stays(monkeypatch, set_policy):
    """It has begun after this thread looked for what others use."""
    first, second = filled(1), filled(2)
    begun, go_on, read, sums = threading.Event(), threading.Event(), BlobCore.array_in, []

    def stop_before_reading(blob, home, access, reason):
        if threading.current_thread() is other:
            begun.set()
            assert go_on.wait(20)
        return read(blob, home, access, reason)

    monkeypatch.setattr(BlobCore, "array_in", stop_before_reading)
    other = threading.Thread(target=lambda: sums.append(syncblob.sum(first).item()))

    def prefer_the_first(buffer):
        if not begun.is_set():
            other.start()
            assert begun.wait(20)
        return buffer.nbytes - 10 * (buffer.age == 0)

    set_policy(prefer_the_first)
    try:
        third = filled(3)
        heads = first.head, second.head
    finally:
        go_on.set()
        other.join(20)
    assert heads == (Head.HEAD_AT_GPU, Head.HEAD_AT_CPU)
    assert (sums, third.sum().item()) == ([COUNT], 3 * COUNT)


@pytest.mark.usefixtures("two")
def test_a_signal_handler_that_needs_room_leaves_the_interrupted_operation_its_operands():
    blob, values = filled(1), []

    def use_more(*_):
        values.append(filled(2).sum().item() + filled(3).sum().item())
        signal.setitimer(signal.ITIMER_REAL, 0.002)

    before = signal.signal(signal.SIGALRM, use_more)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        count = 0
        while len(values) < 20:
            blob += 1
            count += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert blob.tolist() == [1 + count] * COUNT
    assert set(values) == {5 * COUNT}


# --- in parts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [False, True])
def test_a_blob_streams_through_a_device_with_a_quarter_of_its_size(limited, change):
    mib = 1 << 20
    limited.capacity = 16 * mib
    blob = Blob((64, mib // 4), device=LIMITED)
    blob.overwrite_cpu_data()[...] = np.arange(64)[:, None]
    total = 0
    for part in blob.parts(nbytes=4 * mib):
        total += part[:, 0].sum().item()
        if change:
            part[...] = part * 2
    assert total == 63 * 32
    assert limited.uploaded_bytes == blob.nbytes
    assert limited.downloaded_bytes - 64 == (blob.nbytes if change else 0)
    assert limited.used_nbytes == 0
    assert (blob.head, blob[9, 3].item()) == (Head.HEAD_AT_CPU, 18 if change else 9)


@pytest.mark.usefixtures("small", "exact_parts", "no_collections")
def test_a_walk_with_room_for_one_part_brings_each_once(limited):
    limited.capacity = 64
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.overwrite_cpu_data()[...] = 3
    limited.reset_counts()
    assert sum(part.gpu_data().sum() for part in blob.parts(nbytes=64)) == 3 * COUNT
    assert limited.uploaded_bytes == NBYTES


@pytest.mark.usefixtures("small")
def test_a_walk_that_ends_early_gives_up_what_it_has_brought(limited):
    blob = Blob((8, 8), "int32", device=LIMITED)
    blob.mutable_cpu_data()[...] = 1
    for part in blob.parts(nbytes=64):
        part[...] = 2
        break
    del part
    assert blob.tolist() == [[2] * 8] * 2 + [[1] * 8] * 6
    assert limited.used_nbytes == 0


def test_a_walk_on_the_host_moves_nothing():
    blob = Blob(COUNT, "int32", device="cpu")
    for part in blob.parts(nbytes=NBYTES):
        operator.iadd(part, 1)
    assert (blob.evict("gpu"), blob.head) == (0, Head.HEAD_AT_CPU)


@pytest.mark.usefixtures("small")
def test_a_walk_takes_parts_that_are_in_several_windows_already(limited):
    blob = Blob((60, 16), "int32", device=LIMITED)
    blob.overwrite_cpu_data()[...] = 1
    blob[:5].sum(), blob[5:10].sum()
    for part in blob.parts(nbytes=10 * 64):
        part[...] = part + 1
    del part
    assert (blob.on("cpu").sum().item(), limited.used_nbytes) == (2 * 960, 0)


@pytest.mark.usefixtures("two")
def test_what_leaves_the_host_makes_room_on_the_device():
    first, second = filled(1), filled(2)
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.overwrite_cpu_data()[...] = 3
    assert blob.evict("cpu") == NBYTES
    assert (blob.head, first.head) == (Head.HEAD_AT_GPU, Head.HEAD_AT_CPU)
    assert [each.sum().item() for each in (first, second, blob)] == [COUNT, 2 * COUNT, 3 * COUNT]


def checked_export():
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.overwrite_cpu_data()[...] = 1
    with syncblob.verified_const():
        return np.from_dlpack(blob.const).copy()


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda x: x[::2].tolist(), id="strided"),
        pytest.param(lambda x: pickle.loads(pickle.dumps(x[::2])), id="pickle"),
        pytest.param(lambda x: np.from_dlpack(x, copy=True), id="DLPack"),
        pytest.param(lambda x: pytest.importorskip("torch") and x.to_torch(copy=True), id="tensor"),
        pytest.param(lambda _: checked_export(), id="verified_const"),
        pytest.param(lambda _: xp.fft.fftfreq(COUNT // 2, device=LIMITED) * 0 + 1, id="fftfreq"),
        pytest.param(lambda _: xp.linspace(1, 1, COUNT // 2, device=LIMITED), id="linspace"),
    ],
)
def test_whatever_needs_memory_makes_room(limited, use):
    limited.capacity = 4 * NBYTES
    blob = filled(1)
    # They use the rest.
    others = [filled(2) for _ in range(3)]
    assert set(np.asarray(use(blob)).tolist()) == {1}
    assert [other.tolist() for other in others] == [[2] * COUNT] * 3


def take_const(blob):
    with syncblob.verified_const():
        np.from_dlpack(blob.gpu.const)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(Blob.gpu_data, id="gpu_data"),
        pytest.param(Blob.mutable_gpu_data, id="mutable_gpu_data"),
        pytest.param(Blob.async_gpu_push, id="async_gpu_push"),
        pytest.param(Blob.prefetch, id="prefetch"),
        pytest.param(take_const, id="verified_const"),
        pytest.param(lambda blob: blob[::2].copy(), id="copy"),
        pytest.param(lambda blob: blob.evict("cpu"), id="evict"),
    ],
)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.usefixtures("two", "exact_parts")
def test_who_needs_room_lets_others_use_the_memory_meanwhile(set_policy, use, split):
    kept, found = [filled(1), filled(2)], []
    blob = Blob(COUNT, "int32", device=LIMITED)
    blob.memory.side_of(syncblob.simulated(6))
    blob.mutable_cpu_data()[...] = 3
    if split:
        blob.on("simulated:6")[:9] = 3

    def policy(buffer):
        def take():
            return blob.memory.lock.acquire(blocking=False) and (blob.memory.lock.release(), True)

        found.extend(in_threads(take))
        return buffer.age

    set_policy(policy)
    with suppress(RuntimeError) if split else nullcontext():
        use(blob)
    assert all(found)
    assert found or (split and use is Blob.async_gpu_push)
    assert [each.tolist()[0] for each in (*kept, blob)] == [1, 2, 3]


def test_buffers_whose_checked_exports_have_ended_are_evicted(limited):
    limited.capacity = 2 * NBYTES
    with syncblob.verified_const():
        blobs = []
        for value in (1, 2, 3):
            blobs.append(filled(value))
            assert np.from_dlpack(blobs[-1].const).max() == value


def test_what_is_written_into_an_adopted_array_is_written_once(limited):
    blob, others = Blob(COUNT, "int32", device=LIMITED), [filled(2), filled(3)]
    blob.set_gpu_data(np.zeros(COUNT, np.int32))
    limited.capacity = 2 * NBYTES
    np.add(blob, 1, out=blob)
    blob += 1
    assert (blob.tolist(), others[0].head) == ([2] * COUNT, Head.HEAD_AT_GPU)


def test_what_other_threads_free_meanwhile_is_used(limited, monkeypatch):
    limited.capacity = 2 * NBYTES
    blob, others = filled(1), [filled(2)]
    frees, ends = threading.Event(), threading.Event()

    def free():
        assert frees.wait(20)
        others.clear()
        ends.set()

    def give_back():
        frees.set()
        return not ends.wait(20)

    def add():
        # The buffer is freed after the failure, and before anything to evict is looked for.
        monkeypatch.setattr(limited, "give_back", give_back)
        return (blob + 1).tolist()

    assert in_threads(free, add)[1] == [2] * COUNT


def test_a_call_is_made_again_as_long_as_memory_is_given_back(limited, monkeypatch):
    limited.capacity = 2 * NBYTES
    blob, others, given_back = filled(1), [np.asarray(filled(2).gpu)], []

    def give_back():
        given_back.append(True)
        if len(given_back) == 3:
            others.clear()
        return True

    monkeypatch.setattr(limited, "give_back", give_back)
    assert (blob + 1).tolist() == [2] * COUNT
    assert len(given_back) == 3


@pytest.mark.parametrize("chained", [False, True])
def test_what_only_the_failed_call_has_is_evicted(two, chained):
    blob = filled(1)

    def use():
        if blob.head is not Head.HEAD_AT_GPU:
            return "room"
        array = blob.memory.buffer(Side.ACCELERATOR)[1:]
        raise (ValueError if chained else MemoryError)(array.size)

    def use_again():
        try:
            return use()
        except ValueError:
            raise MemoryError from None

    assert compute(two, use_again) == "room"


def test_what_cannot_leave_because_of_an_error_stays_and_another_goes(two):
    first, second = filled(1), filled(2)
    with two.failing(transfer=1):
        third = filled(3)
    assert [x.head for x in (first, second, third)] == [
        Head.HEAD_AT_GPU,
        Head.HEAD_AT_CPU,
        Head.HEAD_AT_GPU,
    ]
    with two.failing(host_allocation=1), pytest.raises(MemoryError):
        first.evict("gpu")
    two.capacity = 2 * NBYTES
    alias = np.asarray(third.gpu)
    with two.failing(transfer=1), pytest.raises(RuntimeError, match="transfer"):
        filled(4)
    assert (first.sum().item(), alias.sum()) == (COUNT, 3 * COUNT)


# --- threads that wait ----------------------------------------------------------------------------


def until(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def standing(home):
    return [thread for thread, of in operations.line.items() if of is home]


@contextmanager
def busy(blob):
    """Let another thread use a Blob in the block."""
    begun, end = threading.Event(), threading.Event()

    def use(_blob):
        begun.set()
        assert end.wait(20)

    with ThreadPoolExecutor(1) as pool:
        used = pool.submit(operations.attempt, use, blob)
        assert begun.wait(20)
        try:
            yield
        finally:
            end.set()
            used.result()


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.usefixtures("two")
def test_what_another_thread_uses_stays_until_it_has_ended(writes):
    # Without a GIL, memory that a waiting thread has made is not free before it goes on.
    ((first, second),) = in_threads(lambda: (filled(1), filled(2)))

    def check(_blob):
        if writes:
            operations.has_written()
        third = filled(3)
        assert (first.head, second.head) == (Head.HEAD_AT_GPU, Head.HEAD_AT_CPU)
        return third

    in_threads(partial(operations.attempt, check, first))
    assert filled(4, 2 * COUNT).tolist() == [4] * (2 * COUNT)
    assert first.head is Head.HEAD_AT_CPU


@pytest.mark.usefixtures("two")
def test_a_copy_within_an_operation_is_a_part_of_it():
    first, second = filled(1), filled(2)
    operations.attempt(first.copy_from, second)
    assert first.tolist() == second.tolist()


def test_writes_on_the_host_are_noted_once_threads_work_side_by_side(monkeypatch):
    monkeypatch.setattr(HOST, "writers", None)
    operations.attempt(id, filled(1))
    assert HOST.writers is None
    with busy(filled(1)):
        operations.attempt(id, filled(2))
    assert HOST.writers is operations.WRITERS


def test_a_summary_amid_an_operation_names_no_operand(limited):
    limited.capacity, first = None, filled(1)
    summary = operations.attempt(lambda _: syncblob.memory_summary(LIMITED), first)
    assert [(row.nbytes, row.holder) for row in summary.rows] == [(first.nbytes, "")]


def test_who_allocates_out_of_turn_is_told_why_not(limited, monkeypatch):
    monkeypatch.setitem(operations.line, -1, limited)
    with pytest.raises(MemoryError, match="another thread has waited longer"):
        operations.in_turn(limited, pytest.fail)


def test_threads_get_room_in_the_order_in_which_they_came(limited):
    limited.capacity = 2 * NBYTES
    blob, order = filled(1), []

    def take(number, count):
        def call():
            blob = Blob(count, "int32", device=LIMITED)
            blob.gpu_data()
            order.append(number)

        room.from_the_start(call)

    # The first needs everything, and the others would have room beside what is used.
    sizes = [2 * COUNT, COUNT // 4, COUNT, COUNT // 4]
    with ThreadPoolExecutor(4) as pool, busy(blob):
        waiting = []
        for number, count in enumerate(sizes):
            waiting.append(pool.submit(take, number, count))
            until(lambda: len(standing(limited)) == len(waiting))
        assert order == []
    for each in waiting:
        each.result()
    assert order == [0, 1, 2, 3]
    assert not operations.line


def test_who_waits_has_nothing_in_use(limited):
    limited.capacity = 3 * NBYTES
    used, first, second = filled(1), filled(2), filled(3)
    with ThreadPoolExecutor(1) as pool:
        with busy(used):
            result = pool.submit(operator.add, first, second)
            until(lambda: standing(limited))
            assert first.evict("gpu") == NBYTES
            assert not result.done()
        assert result.result().tolist() == [5] * COUNT


def test_nobody_waits_for_ever(limited, monkeypatch):
    limited.capacity = 2 * NBYTES
    monkeypatch.setattr(room, "PATIENCE", 0.1)
    first, second = filled(1), filled(2)
    with busy([first, second]), pytest.raises(MemoryError, match="nothing there can be evicted"):
        filled(3)
    assert not operations.line


@pytest.mark.parametrize(
    ("threads", "beside", "start", "tries", "standing"),
    [
        pytest.param(1, None, None, 2, [], id="alone"),
        pytest.param(2, None, None, 7, [1] * 6, id="beside an idle thread"),
        pytest.param(2, "user", None, 12, [1] * 11, id="beside a user of the device"),
        pytest.param(2, "writer", None, 12, [1] * 11, id="beside a writer"),
        pytest.param(2, None, list, 7, [1] * 6, id="from the start"),
        pytest.param(2, None, operations.has_written, 7, [0] * 6, id="after a write"),
    ],
)
def test_a_call_is_made_again_until_a_wait_is_of_no_use(  # noqa: PLR0913, PLR0917
    limited, monkeypatch, threads, beside, start, tries, standing
):
    """Here 6 tries beside idle threads and 5 seconds beside others, with half a second each."""
    calls, lines, now = [], [], itertools.count(100.0, 0.5)
    clock = types.SimpleNamespace(
        monotonic=lambda: next(now), sleep=lambda _: lines.append(len(operations.line))
    )
    monkeypatch.setattr(room, "time", clock)
    monkeypatch.setattr(room, "IDLE", 6)
    monkeypatch.setattr(room, "_COLLECTIONS", 1)
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    if beside == "writer":
        monkeypatch.setitem(operations.WRITERS, 0, NO_SHORTCUT)
    used = Blob(1, device=LIMITED)
    # What does not say how much it needs may need nothing.
    limited.capacity = 0

    def fail():
        calls.append(None)
        raise MemoryError("none")

    def operation(_used):
        start()
        compute(limited, fail)

    with busy(used) if beside == "user" else nullcontext(), pytest.raises(MemoryError) as caught:
        compute(limited, fail) if start is None else room.from_the_start(operation, used)
    assert (len(calls), lines) == (tries, standing)
    listed = "    nothing of a Blob; other arrays are not listed"
    assert str(caught.value) == f"none; nothing there can be evicted:\n{listed}"


def test_who_has_written_waits_with_what_it_has_and_does_not_write_again(limited):
    limited.capacity = 2 * NBYTES
    used, calls = filled(1, 2 * COUNT), []

    def write(blob):
        calls.append(None)
        operations.has_written()
        blob.gpu_data()

    blob = Blob(COUNT, "int32", device=LIMITED)
    with ThreadPoolExecutor(1) as pool:
        with busy(used):
            written = pool.submit(room.from_the_start, write, blob)
            until(lambda: calls)
            time.sleep(0.05)
            assert not written.done()
            assert not standing(limited)
        written.result()
    assert len(calls) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_stands_in_no_line_of_its_parent(limited):
    limited.capacity = 2 * NBYTES
    used, other = filled(1), filled(2)
    with ThreadPoolExecutor(1) as pool:
        with busy(used):
            waiting = pool.submit(filled, 3, 2 * COUNT)
            until(lambda: standing(limited))
            assert operations.first_in_line(syncblob.simulated(0)) is None
            operations.WRITERS[0] = used.memory.shortcut(Side.ACCELERATOR, used.layout)
            child = os.fork()
            if not child:
                status = 1
                with suppress(BaseException):
                    status = filled(4, 2 * COUNT).sum().item() != 8 * COUNT
                os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
            operations.WRITERS.clear()
        assert waiting.result().tolist() == [3] * (2 * COUNT)
    assert other.tolist() == [2] * COUNT


@pytest.mark.usefixtures("two")
def test_what_an_interrupt_leaves_of_an_operation_pins_nothing(monkeypatch):
    class Interrupted(dict):
        def pop(self, *_):
            raise KeyboardInterrupt

    first, second = filled(1), filled(2)
    monkeypatch.setattr(operations, "running", Interrupted())
    with suppress(KeyboardInterrupt):
        operations.attempt(list, first)
    assert operations.running
    assert (operations.current(), operations.pins()) == (None, set())
    assert first.evict("gpu") == second.evict("gpu") == NBYTES


@pytest.mark.usefixtures("two")
def test_one_who_leaves_the_line_by_an_interrupt_blocks_nobody(monkeypatch):
    class Interrupted(dict):
        def pop(self, *args):
            super().pop(*args)
            raise KeyboardInterrupt

    first, second, line = filled(1), filled(2), Interrupted()
    monkeypatch.setattr(operations, "line", line)
    with busy([first, second]), pytest.raises(KeyboardInterrupt):
        filled(3)
    monkeypatch.undo()
    assert in_threads(lambda: filled(3).tolist(), seconds=20) == [[3] * COUNT]


@pytest.mark.usefixtures("two")
def test_an_operation_waits_for_an_access_of_another_thread(monkeypatch):
    """Its memory can be evicted afterwards."""
    monkeypatch.setattr(room, "IDLE", 2)
    first, second = filled(1), filled(2)
    alias = np.asarray(first.gpu)
    locked, free = threading.Event(), threading.Event()

    def access():
        with second.memory.lock:
            locked.set()
            free.wait()

    thread = threading.Thread(target=access)
    thread.start()
    locked.wait()
    timer = threading.Timer(40 * room.PAUSE, free.set)
    timer.start()
    try:
        assert filled(3).tolist() == [3] * COUNT
    finally:
        free.set()
        thread.join()
        timer.join()
    assert second.head is Head.HEAD_AT_CPU
    del alias


@pytest.mark.parametrize("read", [np.array, Blob.tolist, Blob.tobytes])
def test_elements_of_a_full_device_are_read_on_the_host(limited, read):
    blob = filled(3)
    limited.capacity = limited.used_nbytes
    assert np.size(read(blob[::2])) > 0
    assert blob.head is Head.HEAD_AT_CPU


@pytest.mark.timeout(30)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.usefixtures("two")
def test_a_signal_handler_that_leaves_the_line_takes_no_place_from_its_thread(monkeypatch):
    monkeypatch.setattr(room, "PATIENCE", 0.2)
    refused, blobs = [], [filled(1), filled(2)]

    def use(*_):
        with pytest.raises(MemoryError):
            filled(3)
        refused.append(len(operations.line))

    before = signal.signal(signal.SIGALRM, use)
    try:
        with busy(blobs):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(MemoryError):
                filled(4)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert refused == [0]
    assert not operations.line
    assert filled(5).tolist() == [5] * COUNT


# --- what errors say and keep ---------------------------------------------------------------------


@pytest.mark.parametrize("compute", [operator.add, operator.matmul, syncblob.concat, np.stack])
def test_an_error_that_is_kept_keeps_no_memory(two, compute):
    """A notebook keeps the last one."""
    first, second = Blob((8, 8), "int32", device=LIMITED), Blob((8, 8), "int32", device=LIMITED)
    first[...] = second[...] = 1
    operands = ([first, second],) if compute in {syncblob.concat, np.stack} else (first, second)
    with pytest.raises(MemoryError) as kept:
        compute(*operands)
    assert filled(3, 2 * COUNT).sum().item() == 6 * COUNT
    assert two.used_nbytes <= 2 * NBYTES + 16
    assert "has no memory" in str(kept.value)


@pytest.mark.parametrize("capacity", [None, NBYTES // 2, NBYTES + 8])
def test_an_error_that_is_dropped_keeps_no_memory_until_a_collection(limited, capacity):
    limited.capacity = capacity
    blob, alias = Blob(COUNT, "int32", device=LIMITED), None
    if capacity == NBYTES + 8:
        alias = np.asarray(filled(1).gpu)
    gc.collect()
    gc.disable()
    try:
        with limited.failing(allocation=1 if capacity is None else 9), suppress(MemoryError):
            blob.gpu_data()
            pytest.fail("there was room")
        memory = weakref.ref(blob.memory)
        del blob
        assert memory() is None
    finally:
        gc.enable()
    del alias


@pytest.mark.usefixtures("two")
def test_an_array_that_nobody_recorded_is_named():
    blobs = [filled(value) for value in (1, 2)]
    kept = [blob.gpu_data() for blob in blobs]
    with pytest.raises(MemoryError, match=": an array over it, such as one of gpu_data"):
        filled(3)
    del kept


def test_what_is_too_large_for_its_device_is_copied_on_the_host(two):
    blob = Blob(4 * COUNT, "int32", device=LIMITED)
    blob.mutable_cpu_data()[...] = range(4 * COUNT)
    copied = blob.copy()
    assert (copied.device, copied.tolist()) == (blob.device, blob.tolist())
    assert two.uploads == 0


def test_a_device_without_a_limit_evicts_nothing(limited):
    blob = filled(1)

    def fail():
        raise MemoryError

    assert not limited.bounded
    with pytest.raises(MemoryError):
        compute(limited, fail)
    assert blob.head is Head.HEAD_AT_GPU


def test_an_error_waits_for_no_work_elsewhere(two):
    """Neither on the host, nor for a stream that has nothing to do."""
    alias = np.asarray(filled(1, 2 * COUNT).gpu)
    two.capacity += 8
    blob, pushed = Blob(COUNT, "int32", device="cpu"), Blob(1, device=LIMITED)
    blob.mutable_cpu_data()[...] = pushed.mutable_cpu_data()[...] = 1
    pushed.async_gpu_push()
    pushed.gpu_data()
    two.synchronize()
    began = time.monotonic()
    with busy(blob), pytest.raises(MemoryError):
        filled(1)
    assert time.monotonic() - began < room.PATIENCE / 2
    del alias


@pytest.mark.parametrize("limited_to", [2 * NBYTES + 64, None])
@pytest.mark.parametrize("call", [operator.call, room.from_the_start])
def test_what_the_device_can_never_hold_evicts_nothing(limited, monkeypatch, limited_to, call):
    """Nor does it wait for other threads."""
    monkeypatch.setattr(room, "_take_turn", None)
    limited.capacity = 10 * NBYTES if limited_to else 2 * NBYTES + 64
    other, used = filled(2), Blob(1, device=LIMITED)
    used.gpu_data()
    with (
        set_memory_limit(LIMITED, limited_to),
        busy(used),
        pytest.raises(
            MemoryError, match=rf"^{LIMITED} can never hold 580 B; (?!.*delete).*; work on parts"
        ),
    ):
        call(Blob(2 * COUNT + 17, "int32", device=LIMITED).gpu_data)
    assert other.head is Head.HEAD_AT_GPU


@pytest.mark.usefixtures("small", "two")
@pytest.mark.parametrize("compute", [operator.add, operator.iadd])
def test_parts_come_before_what_other_threads_use(monkeypatch, compute):
    monkeypatch.setattr(room, "_take_turn", None)
    monkeypatch.setattr(in_parts, "_LEAST", 1)
    used = filled(1, 16)
    first, second = (Blob(2 * COUNT, "int32", device=LIMITED) for _ in range(2))
    first.overwrite_cpu_data()[...] = second.overwrite_cpu_data()[...] = range(2 * COUNT)
    with busy(used):
        result = compute(first, second)
    assert result.tolist() == [*range(0, 4 * COUNT, 2)]


def test_no_more_is_evicted_than_is_needed(limited):
    limited.capacity = 3 * NBYTES + 64
    blobs = [filled(value) for value in range(3)]
    assert filled(3, 2 * COUNT).head is Head.HEAD_AT_GPU
    assert [blob.head.name for blob in blobs] == ["HEAD_AT_CPU", "HEAD_AT_CPU", "HEAD_AT_GPU"]


def test_an_operation_that_lacks_no_room_on_a_device_is_not_made_again():
    def fail():
        raise MemoryError("of something else")

    with pytest.raises(MemoryError, match=r"^of something else$"):
        room.from_the_start(fail)


def test_one_buffer_is_evicted_for_a_call_that_does_not_say_what_it_needs(two):
    blobs, errors = [Blob(1, "int8", device=LIMITED) for _ in range(2)], [MemoryError()]
    for blob in blobs:
        blob[...] = 1

    def fail_once():
        if errors:
            raise errors.pop()

    compute(two, fail_once)
    assert [blob.head.name for blob in blobs] == ["HEAD_AT_CPU", "HEAD_AT_GPU"]


@pytest.mark.usefixtures("two")
def test_a_policy_is_a_function_that_returns_a_number():
    assert [room._by_age(room.Evictable(nbytes, 1, 2, "")) for nbytes in (1, 2)] == [1.5, 2]
    kept = [filled(1), filled(2)]
    syncblob.set_eviction_policy(lambda _: None)
    try:
        with pytest.raises(TypeError, match="set_eviction_policy, got None"):
            filled(3)
    finally:
        syncblob.set_eviction_policy(None)
    assert [blob.sum().item() for blob in kept] == [COUNT, 2 * COUNT]


def test_parts_that_lie_between_each_other_are_refused():
    blob = Blob((4, 4))
    with pytest.raises(ValueError, match="along the axis of the largest stride"):
        next(blob.parts(1, nbytes=16))
    assert [part.shape for part in blob.T.parts(1, nbytes=32)] == [(4, 2), (4, 2)]


# --- random programs and threads ------------------------------------------------------------------


@tiers.amount("seconds", 0.5, 5.0, variable="SYNCBLOB_SOAK")
@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("device", ["cpu", LIMITED])
def test_no_write_is_lost_while_another_thread_evicts(seconds, device):
    blobs, counts = [filled(0).on(device) for _ in range(4)], [0] * 4
    end = time.monotonic() + seconds

    def evict():
        while time.monotonic() < end:
            for blob in blobs:
                for side in ("gpu", "cpu"):
                    # Refused while the other thread is using it.
                    with suppress(BufferError):
                        blob.evict(side)
            str(syncblob.memory_summary())

    def write():
        while time.monotonic() < end:
            for i in range(4):
                blobs[i] += 1
                counts[i] += 1
                blobs[i][...] = counts[i] = counts[i] + 1

    in_threads(evict, write, seconds=seconds + 20)
    assert [blob.tolist() for blob in blobs] == [[count] * COUNT for count in counts]


def on_the_host(shape):
    """Make a Blob that was not on the device yet."""
    blob = Blob(shape, "float32", device=LIMITED)
    blob.overwrite_cpu_data()[...] = 1
    return blob


OPERATIONS = {
    "array API": syncblob.sort,
    "NumPy's function": np.sort,
    "NumPy's function by any call": lambda x: np.sort(x, stable=np.True_),
    "ufunc by any call": lambda x: np.add(x, x, casting="same_kind"),
    "NumPy's function of several": lambda x: np.concatenate([x, x[:4]]),
    "matmul": lambda x: x @ x,
    "in place": lambda x: operator.imatmul(x, np.eye(16, dtype="float32")),
    "copy": Blob.copy,
    "copy in C order": lambda x: x.T.reshape(-1),
    "conversion": lambda x: x.astype("int32"),
    "out of a ufunc": lambda x: np.multiply(x, 1, out=x.copy()),
    "out of a function": lambda x: np.cumsum(x, 0, out=x.copy()),
    "array and Blob": lambda x: np.zeros(16, "float32") + x,
    "assignment": lambda x: operator.setitem(syncblob.zeros_like(x), ..., x),
    "copy_from": lambda x: syncblob.zeros_like(x).copy_from(x),
    "mask": lambda x: x[np.ones((16, 16), bool)],
    "mask of a Blob": lambda x: x[x < 3],
    "NumPy's function of one on the host": lambda x: np.where(x, x, on_the_host((1, 16))),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_two_operations_that_each_need_most_of_the_device(limited, operation):
    """They do not wait for each other with a part of what they need."""
    limited.capacity, limited.delay = 11 * 256, 0.0005

    def work(value):
        blob = Blob((16, 16), "float32", device=LIMITED)
        blob.overwrite_cpu_data()[...] = value
        for _ in range(60):
            operation(blob)
        assert blob.tolist() == [[value] * 16] * 16

    in_threads(partial(work, 1), partial(work, 2), seconds=20)


@pytest.mark.parametrize("use", [lambda x: x + x, lambda x: operator.iadd(x, 1), Blob.gpu_data])
def test_who_needs_much_is_not_overtaken_for_good(limited, use):
    limited.capacity, end = 64 * NBYTES, time.monotonic() + 30
    done = threading.Event()

    def work():
        blobs = [filled(i) for i in range(40)]
        while not done.is_set() and time.monotonic() < end:
            for blob in blobs:
                use(blob)

    def work_on_much():
        try:
            large, other = filled(1, 16 * COUNT), filled(2, 16 * COUNT)
            for _ in range(4):
                assert (large + other)[5].item() == 3
        finally:
            done.set()

    in_threads(work, work, work, work_on_much, seconds=50)
    assert time.monotonic() < end


@tiers.amount("seconds", 0.5, 8.0, variable="SYNCBLOB_SOAK")
def test_eight_threads_with_four_times_the_capacity(limited, seconds):
    limited.capacity = 24 * NBYTES
    end = time.monotonic() + seconds

    def work(seed):
        rng = random.Random(seed)  # noqa: S311  # programs, not secrets
        blobs, counts = [filled(seed * 100 + i) for i in range(12)], [0] * 12
        while time.monotonic() < end:
            i = rng.randrange(12)
            blobs[i] += 1
            counts[i] += 1
            j = rng.randrange(12)
            assert (blobs[j] * 2)[5].item() == 2 * (seed * 100 + j + counts[j])
        for i, blob in enumerate(blobs):
            assert blob.tolist() == [seed * 100 + i + counts[i]] * COUNT

    in_threads(*(partial(work, seed) for seed in range(8)), seconds=seconds + 60)
    assert limited.used_nbytes == 0


@pytest.mark.usefixtures("small")
@tiers.amount("seconds", 0.5, 8.0, variable="SYNCBLOB_SOAK")
def test_threads_that_walk_one_blob(limited, seconds):
    blob, limited.capacity = filled(1, 20 * COUNT), 10 * COUNT
    end = time.monotonic() + seconds

    def walk():
        while time.monotonic() < end:
            assert sum(part.sum().item() for part in blob.parts(nbytes=COUNT)) == 20 * COUNT

    in_threads(walk, walk, seconds=seconds + 60)


@pytest.mark.usefixtures("two")
def test_nobody_waits_forever_for_room_while_a_memory_is_being_made(monkeypatch):
    """A signal handler needs room in the midst of that, and another thread is making some."""
    blobs = [Blob(COUNT, "int32", device=LIMITED) for _ in range(4)]
    for blob in blobs:
        blob.overwrite_cpu_data()[...] = 1
    for blob in blobs[:2]:
        operator.iadd(blob, 1)
    begun, settle = threading.Event(), operations.settle

    def begin():
        begun.set()
        settle()

    def use():
        # It may give up, as if other threads used all of the room.
        with suppress(MemoryError):
            operator.iadd(blobs[2], 1)

    monkeypatch.setattr(operations, "settle", begin)
    other = threading.Thread(target=use, daemon=True)
    with making.held:
        other.start()
        assert begun.wait(20)
        operator.iadd(blobs[3], 1)
    other.join(20)
    assert not other.is_alive()
    assert [blobs[number].tolist() for number in (0, 1, 3)] == [[2] * COUNT] * 3
