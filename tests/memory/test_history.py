"""The history of a memory: every change of the head and every copy, and nothing else."""

import _thread
import time

import numpy as np
import pytest

from syncblob import Blob, Head, StaleAliasWarning, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.accesses import expose

NBYTES = 16
U, C, G, S = Head.UNINITIALIZED, Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED


def memory_at(head):
    memory = SyncedMemory(NBYTES, device="simulated")
    if head in (C, S):
        memory.mutable_cpu_data()
    elif head is G:
        memory.mutable_gpu_data()
    if head is S:
        memory.gpu_data()
    return memory


def test_an_entry_is_one_line_that_names_the_line_of_the_access():
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.mutable_cpu_data()
    memory.gpu_data()
    first, second = (str(entry) for entry in memory.history)
    assert first.startswith(f"mutable_cpu_data: UNINITIALIZED -> HEAD_AT_CPU, at {__file__}:")
    assert second.startswith(f"gpu_data: HEAD_AT_CPU -> SYNCED, upload, at {__file__}:")
    assert second.endswith(": memory.gpu_data()")
    blob = Blob(3)
    blob[...] = 1
    assert "__setitem__: UNINITIALIZED -> HEAD_AT_CPU, at" in str(blob.memory.history[0])
    memory.array(Side.HOST, Access.MUTABLE, Layout.raw(NBYTES // 2), "test")
    memory.gpu_data()
    assert str(memory.history[-1]).startswith("gpu_data: HEAD_AT_CPU -> SYNCED, upload, at ")


def test_a_copy_that_leaves_the_head_is_noted_too():
    memory = memory_at(C)
    expose(memory, Side.HOST)
    memory.gpu_data()
    assert str(memory.history[-1]).startswith(f"gpu_data: HEAD_AT_CPU, upload, at {__file__}:")


def test_an_exposure_is_not_noted():
    memory = memory_at(S)
    known = memory.history
    expose(memory, Side.HOST)
    assert (memory.head, memory.history) == (C, known)


@pytest.mark.parametrize("access", ["gpu_data", "mutable_gpu_data"])
def test_an_upload_from_the_source_names_its_access(access):
    memory = SyncedMemory(NBYTES, device="simulated", source=lambda: np.ones(NBYTES, np.uint8))
    with record_transfers() as log:
        getattr(memory, access)()
    assert [(transfer.reason, transfer.because) for transfer in log] == [(access, "")]


@pytest.mark.parametrize("access", ["cpu_data", "mutable_cpu_data", "overwrite_gpu_data"])
def test_a_memory_on_both_sides_counts_what_it_avoids_once_at_each_border(access, simulated):
    memory = memory_at(S)
    simulated.reset_counts()
    with record_transfers() as log:
        # The side of the last use is unknown, because no log was open.
        getattr(memory, "gpu_data" if "cpu" in access else "cpu_data")()
        assert log.avoided == 0
        for _ in range(3):
            getattr(memory, access)()
            assert (log.avoided, log.avoided_bytes) == (1, NBYTES)
    assert simulated.uploads == simulated.downloads == 0


def test_what_was_avoided_is_counted_by_the_bytes_that_both_sides_hold():
    memory = memory_at(S)
    half = Layout.raw(NBYTES // 2)
    with record_transfers() as log:
        memory.gpu_data()
        memory.array(Side.HOST, Access.CONST, half, "test")
        assert (log.avoided, log.avoided_bytes) == (1, NBYTES // 2)
        memory.array(Side.ACCELERATOR, Access.MUTABLE, half, "test")
        assert (log.avoided, log.avoided_bytes) == (2, NBYTES)
        # A necessary copy is not counted as avoided.
        memory.array(Side.HOST, Access.CONST, half, "test")
        assert (log.avoided, len(log)) == (2, 1)


def test_a_log_knows_nothing_of_the_uses_that_an_earlier_one_recorded():
    memory = memory_at(S)
    with record_transfers():
        memory.gpu_data()
    memory.cpu_data()
    with record_transfers() as log:
        memory.cpu_data()
        assert log.avoided == 0
        memory.gpu_data()
        assert log.avoided == 1


def test_a_log_is_told_of_uses_that_needed_no_access_after_an_earlier_one():
    memory = memory_at(S)
    with record_transfers():
        memory.gpu_data()
    shortcuts = [memory.shortcut(side, Layout.raw(NBYTES)) for side in Side]
    assert all(shortcut.readable for shortcut in shortcuts)
    with record_transfers():
        assert not any(shortcut.readable for shortcut in shortcuts)


def test_what_is_overwritten_elsewhere_was_not_avoided():
    memory = memory_at(S)
    with record_transfers() as log:
        memory.mutable_gpu_data()
        memory.overwrite_cpu_data()
        memory.array(Side.ACCELERATOR, Access.CONST, Layout.raw(0), "test")
        memory.cpu_data()
        assert (len(log), log.avoided) == (0, 0)


def test_a_push_avoids_what_is_there_already():
    memory = memory_at(S)
    with record_transfers() as log:
        memory.array(Side.HOST, Access.MUTABLE, Layout.raw(NBYTES // 2), "test")
        memory.cpu_data()
        memory.async_gpu_push()
        assert (len(log), log.avoided_bytes) == (1, NBYTES // 2)


def test_copies_that_are_not_made_again_name_nobody(simulated):
    blob = Blob(3, device="simulated")
    alias = np.from_dlpack(blob.cpu)
    with record_transfers() as log:
        blob.async_gpu_push()
        simulated.synchronize()
        with pytest.warns(StaleAliasWarning):
            blob.mutable_gpu_data()
        blob.cpu_data()
    assert len(alias) == len(log) == 3
    assert [transfer.because for transfer in log] == ["", "", ""]


@pytest.mark.parametrize("side", Side)
def test_a_write_that_is_over_changes_nothing_else(side):
    here, there = ("cpu", "gpu") if side is Side.HOST else ("gpu", "cpu")
    memory = SyncedMemory(8, device="simulated")
    memory.finish_write(side, Layout.raw(8), "a write")
    assert (memory.head, memory.history) == (Head.UNINITIALIZED, ())
    getattr(memory, f"mutable_{there}_data")()
    memory.finish_write(side, Layout.raw(8), "a write")
    assert memory.head is Head(1 << Side(1 - side))
    getattr(memory, f"{here}_data")()
    getattr(memory, f"mutable_{here}_data")()
    shortcut = memory.shortcut(side, Layout.raw(8))
    assert shortcut.writable
    memory.finish_write(side, Layout.raw(8), "a write")
    assert shortcut.writable
    getattr(memory, f"{there}_data")()
    assert memory.shortcut(side, Layout.raw(8)) is shortcut
    assert not shortcut.writable
    other = memory.shortcut(Side(1 - side), Layout.raw(8))
    assert other.readable
    assert memory.finish_write(side, Layout.raw(8), "a write", memory.buffer(side))
    entry = memory.history[-1]
    assert (entry.reason, entry.start, entry.stop) == ("a write", 0, 8)
    assert not other.readable
    assert shortcut.writable


def test_each_copy_is_written_down_with_who_may_write_and_with_the_name_at_that_time():
    memory = memory_at(C)
    memory.name = "before"
    with record_transfers() as log:
        memory.gpu_data()
        alias = memory.export(Side.HOST, Access.MUTABLE, Layout.raw(NBYTES), "use", "DLPack")
        memory.gpu_data()
        del alias
        memory.name = "after"
        memory.mutable_cpu_data()
        memory.gpu_data()
    assert [transfer.because.partition(",")[0] for transfer in log] == [
        "",
        "a DLPack alias of the host side",
        "",
    ]
    assert [transfer.name for transfer in log] == ["before", "before", "after"]
    memory.name = "at the end"
    with record_transfers() as log:
        memory.mutable_cpu_data()
        memory.gpu_data()
    assert [transfer.name for transfer in log] == ["at the end"]


def test_an_accessor_that_nothing_but_a_thread_has_called_is_noted(monkeypatch):
    blob = Blob(4, device="simulated")
    blob.cpu_data()
    blob.mutable_gpu_data()
    raised = []
    monkeypatch.setattr("sys.unraisablehook", raised.append)
    before = _thread._count()
    _thread.start_new_thread(blob.cpu_data, ())
    while blob.head is not S or _thread._count() > before:
        time.sleep(0.01)
    assert not raised
    assert blob.memory.history[-1].map_after.head() is S


@pytest.mark.parametrize("access", Access)
def test_an_export_is_noted_with_its_reason(access):
    memory = memory_at(G)
    memory.export(Side.HOST, access, Layout.raw(NBYTES), "a reason", "DLPack")
    assert memory.history[-1].reason == "a reason"


def test_repeated_accesses_are_noted_where_they_are_made():
    blob = Blob(NBYTES, device="simulated")

    def access():
        blob.mutable_cpu_data()
        blob.gpu_data()
        blob.mutable_gpu_data()
        blob.cpu_data()

    for _ in range(3):
        access()
    lines = [str(transition).rpartition(": ")[2] for transition in blob.memory.history[-4:]]
    assert lines == [
        "blob.mutable_cpu_data()",
        "blob.gpu_data()",
        "blob.mutable_gpu_data()",
        "blob.cpu_data()",
    ]


def test_what_is_filled_from_a_source_on_both_ends_of_a_write_is_no_transfer():
    memory = SyncedMemory(NBYTES, device="cpu", source=lambda: np.arange(NBYTES, dtype=np.uint8))
    memory.array(Side.HOST, Access.OVERWRITE, Layout.raw(4, 4), "part")[...] = 99
    assert memory.cpu_data().tolist() == [0, 1, 2, 3, *[99] * 4, *range(8, NBYTES)]
    assert memory.history[-1].copied == ""


def test_the_oldest_entries_are_forgotten():
    memory = SyncedMemory(NBYTES, device="simulated")
    accesses = ["mutable_cpu_data", "mutable_gpu_data"] * 100
    for access in accesses:
        getattr(memory, access)()
    entries = memory.history
    assert len(entries) < len(accesses)
    assert [entry.reason for entry in entries] == accesses[-len(entries) :]
    assert Head.UNINITIALIZED not in {entry.map_before.head() for entry in entries}
