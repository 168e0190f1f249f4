"""Repeated accesses: the shortcuts, and when they are not taken."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from syncblob import (
    Blob,
    Head,
    SyncedMemory,
    TransferGuardError,
    no_transfers,
    record_transfers,
    verified_const,
)
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access

NBYTES = 8
WHOLE = Layout.dense(np.empty(NBYTES, np.uint8))
READS = {Side.HOST: "cpu_data", Side.ACCELERATOR: "gpu_data"}
CONST, MUTABLE, OVERWRITE = Access
COPIES = {Side.HOST: "download", Side.ACCELERATOR: "upload"}


def used(side, *, both_sides=True):
    """Make a memory written on one side; return it, that side's buffer, and a view of it."""
    memory = SyncedMemory(NBYTES, device="simulated")
    if both_sides:
        getattr(memory, READS[side.other])()
    getattr(memory, f"mutable_{READS[side]}")()[:] = 1
    memory.exclusive_buffer()
    buffer = memory.buffer(side)
    return memory, buffer, buffer.view()


@pytest.mark.parametrize("logging", [False, True])
@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize("side", Side)
def test_where_nothing_has_to_be_done_an_array_is_given_at_once(side, both_sides, logging):
    memory, buffer, template = used(side, both_sides=both_sides)
    known = memory.history
    with record_transfers() if logging else nullcontext():
        borrow = memory.lend_again(side, MUTABLE, WHOLE, "use", buffer, template)
    # Only the slower path tells a log that no transfer was needed.
    assert (borrow is None) == (both_sides and logging)
    if borrow is not None:
        assert borrow is not template
        assert np.shares_memory(borrow, buffer)
        getattr(memory, READS[side.other])()
        assert not borrow.flags.writeable
        assert memory.history[: len(known)] == known


@pytest.mark.parametrize("logging", [False, True])
@pytest.mark.parametrize("both_sides", [False, True])
def test_and_so_is_an_alias(both_sides, logging):
    memory, buffer, template = used(Side.HOST, both_sides=both_sides)
    assert memory.export_again(buffer, None, "DLPack", 0, NBYTES) is None
    with record_transfers() if logging else nullcontext():
        alias = memory.export_again(buffer, template, "DLPack", 2, 5)
    assert (alias is None) == (both_sides and logging)
    assert memory.export_again(template, template, "DLPack", 0, NBYTES) is None
    if alias is not None:
        assert alias is not template
        assert np.shares_memory(alias, buffer)
        leases = memory.loans(Side.HOST).leases
        assert [(lease.kind, lease.start, lease.stop) for lease in leases] == [("DLPack", 2, 5)]
        (lease,) = leases
        assert "export_again" in lease.place.line.text


@pytest.mark.parametrize("access", [MUTABLE, OVERWRITE])
@pytest.mark.parametrize("before", [Head.SYNCED, "the other side"])
@pytest.mark.parametrize("side", Side)
def test_where_a_copy_of_everything_has_to_be_made_it_is_made(side, before, access, simulated):
    memory, buffer, template = used(side)
    other = getattr(memory, READS[side.other])
    other()
    if before is not Head.SYNCED:
        getattr(memory, f"mutable_{READS[side.other]}")()[:] = 3
    simulated.reset_counts()
    borrow = memory.lend_again(side, access, WHOLE, "use", buffer, template)
    assert np.shares_memory(borrow, buffer)
    copies = before is not Head.SYNCED and access is MUTABLE
    assert simulated.uploads + simulated.downloads == copies
    last = memory.history[-1]
    assert (last.reason, last.copied) == ("use", COPIES[side] if copies else "")
    assert memory.head is last.after is Head(1 << side)
    if access is MUTABLE:
        assert borrow.tolist() == [1 if before is Head.SYNCED else 3] * NBYTES
    borrow[:] = 4
    assert other().tolist() == [4] * NBYTES
    assert not borrow.flags.writeable


def written_elsewhere(memory, side):
    getattr(memory, f"mutable_{READS[side.other]}")()[:] = 3


def exchanged(memory, side):
    memory.replace_side(side, np.zeros(NBYTES, np.uint8))
    written_elsewhere(memory, side)


def watched(memory, side):
    written_elsewhere(memory, side)
    with verified_const():
        return memory.export(side.other, CONST, WHOLE, "use", "NumPy")


# Things that require more than one copy of everything. The test keeps the returned object.
HINDRANCES = {
    "a part is elsewhere": lambda m, side: m.lend(side.other, MUTABLE, Layout.raw(2), "use").fill(
        3
    ),
    "another buffer": exchanged,
    "a watch": watched,
    "an alias": lambda m, side: m.export(side.other, MUTABLE, WHOLE, "use", "DLPack"),
    "a borrow": lambda m, side: m.lend(side.other, MUTABLE, WHOLE, "use"),
    "an exposure": lambda m, side: (written_elsewhere(m, side), m.expose(side.other)),
}


@pytest.mark.parametrize("hinders", HINDRANCES.values(), ids=HINDRANCES)
@pytest.mark.parametrize("side", Side)
def test_where_there_is_more_to_do_it_is_left_to_who_can_and_nothing_has_changed(side, hinders):
    memory, buffer, template = used(side)
    kept = hinders(memory, side)
    before = memory.spans, memory.history
    assert memory.lend_again(side, MUTABLE, WHOLE, "use", buffer, template) is None
    assert not memory.read_again(side, WHOLE, "use", buffer)
    assert (memory.spans, memory.history) == before
    del kept


def test_so_is_what_has_to_wait_for_an_upload(simulated):
    memory, buffer, template = used(Side.HOST)
    simulated.delay = 0.1
    memory.async_gpu_push()
    assert memory.lend_again(Side.HOST, MUTABLE, WHOLE, "use", buffer, template) is None
    assert memory.head is Head.SYNCED
    assert simulated.uploads == 0


@pytest.mark.parametrize("side", Side)
def test_to_be_read_a_side_is_brought_everything_once(side, simulated):
    memory, buffer, _ = used(side)
    written_elsewhere(memory, side)
    simulated.reset_counts()
    for _ in range(2):
        assert memory.read_again(side, WHOLE, "use", buffer)
    assert buffer.tolist() == [3] * NBYTES
    assert memory.head is Head.SYNCED
    last = memory.history[-1]
    assert (last.reason, last.copied, last.start, last.stop) == ("use", COPIES[side], 0, NBYTES)
    assert simulated.uploads + simulated.downloads == 1
    # A write that ends only now still makes its side newest.
    memory.finish_write(side.other, 0, NBYTES, "a write")
    assert memory.head is Head(1 << side.other)


@pytest.mark.parametrize("side", Side)
def test_what_a_side_holds_is_read_again_where_nothing_has_to_be_done_for_it(side, simulated):
    memory, buffer, _ = used(side)
    known = memory.history
    assert memory.read_again(side, WHOLE, "use", buffer)
    assert memory.newest(side, WHOLE) is buffer
    # No shortcut: another buffer, an open log, a part that is newest elsewhere.
    assert not memory.read_again(side, WHOLE, "use", buffer.copy())
    with record_transfers():
        assert not memory.read_again(side, WHOLE, "use", buffer)
    assert not memory.read_again(side.other, Layout.raw(2), "use", memory.buffer(side.other))
    assert memory.newest(side.other, Layout.raw(2)) is None
    assert memory.history == known
    with verified_const():
        export = memory.export(side, CONST, WHOLE, "use", "NumPy")
        assert not memory.read_again(side, WHOLE, "use", buffer)
        assert memory.newest(side, WHOLE) is None
        del export
    memory.overwrite_cpu_data()[:] = 4
    simulated.delay = 0.1
    simulated.reset_counts()
    memory.async_gpu_push()
    # Only reads on the accelerator must wait.
    assert memory.read_again(side, WHOLE, "use", buffer) == (side is Side.HOST)
    assert memory.newest(side, WHOLE) is (buffer if side is Side.HOST else None)
    assert simulated.uploads == 0


@pytest.mark.parametrize("side", Side)
def test_of_a_map_of_several_parts_a_part_is_read_again_where_its_side_holds_it(side):
    memory, buffer, _ = used(side)
    memory.lend(side.other, MUTABLE, Layout.raw(2), "use")
    for start, held in ((0, False), (1, False), (2, True)):
        part = Layout.raw(2, start)
        assert memory.read_again(side, part, "use", buffer) == held
        assert memory.newest(side, part) is (buffer if held else None)


@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("side", Side)
def test_what_an_alias_of_the_side_writes_after_it_was_read_is_not_lost(side, exposed):
    memory, buffer, _ = used(side)
    if exposed:
        memory.expose(side, shared=True)
        alias = buffer
    else:
        alias = memory.export(side, MUTABLE, WHOLE, "use", "DLPack")
    written_elsewhere(memory, side)
    assert not memory.read_again(side, WHOLE, "use", buffer)
    array = memory.array(side, CONST, WHOLE, "use")
    assert array.tolist() == [3] * NBYTES
    alias[0] = 5
    assert getattr(memory, READS[side.other])().tolist() == [5] + [3] * (NBYTES - 1)


@pytest.mark.parametrize("side", Side)
def test_what_is_written_and_written_again_is_noted_once(side):
    blob = blob_on(side)
    before = blob.memory.history
    blob.memory.revoke([])
    getattr(blob, f"mutable_{READS[side]}")()[...] = 2
    assert blob.memory.history == before


@pytest.mark.parametrize("side", Side)
def test_an_overwrite_of_fewer_bytes_than_are_in_use_brings_the_others(side):
    memory, buffer, _ = used(side)
    written_elsewhere(memory, side)
    fewer = Layout.dense(np.empty(5, np.uint8))
    memory.lend_again(side, OVERWRITE, fewer, "use", buffer, buffer[:5])[:] = 4
    assert memory.head is Head(1 << side)
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == [4] * 5 + [3] * 3


@pytest.mark.parametrize("side", Side)
def test_the_side_that_a_copy_of_everything_fills_is_not_given_meanwhile(
    side, simulated, monkeypatch
):
    blob = blob_on(side)
    copy = getattr(simulated, COPIES[side.other])
    refused = []

    def meddle(*args):
        for access in (READS[side.other], f"mutable_{READS[side.other]}", f"mutable_{READS[side]}"):
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                getattr(blob, access)()
        refused.append(True)
        copy(*args)

    monkeypatch.setattr(simulated, COPIES[side.other], meddle)
    assert getattr(blob, READS[side.other])().tolist() == [1] * NBYTES
    assert refused == [True]
    getattr(blob, f"mutable_{READS[side]}")()


def blob_on(side):
    """Make a Blob that was used on both sides and then written on one of them."""
    blob = Blob(NBYTES, "uint8", device="simulated")
    for _ in range(2):
        getattr(blob, READS[side.other])()
        getattr(blob, f"mutable_{READS[side]}")()[...] = 1
    return blob


@pytest.mark.parametrize("access", ["", "mutable_"])
@pytest.mark.parametrize("side", Side)
def test_a_guard_names_the_access_that_would_copy_everything_again(side, access):
    blob = blob_on(side)
    access += READS[side.other]
    with no_transfers(), pytest.raises(TransferGuardError, match=rf"\b{access}\b"):
        getattr(blob, access)()
    assert blob.head is Head(1 << side)
    assert getattr(blob, access)().tolist() == [1] * NBYTES


@pytest.mark.parametrize("side", Side)
def test_a_size_that_changed_in_between_is_the_size_that_is_in_use(side, simulated):
    blob = blob_on(side)
    for nbytes in (3, NBYTES, 5):
        blob.resize(nbytes)
        for number in range(2):
            simulated.reset_counts()
            getattr(blob, f"mutable_{READS[side]}")()[...] = number
            assert blob.head is Head(1 << side)
            array = getattr(blob, READS[side.other])()
            assert (array.tolist(), blob.head) == ([number] * nbytes, Head.SYNCED)
            assert simulated.uploaded_bytes + simulated.downloaded_bytes == nbytes
            assert blob.memory.used_nbytes == nbytes


def test_heads_go_round_as_often_as_the_sides_are_written():
    blob = blob_on(Side.HOST)
    for number in range(6):
        side = Side(number % 2)
        getattr(blob, f"mutable_{READS[side]}")()[...] = number
        assert blob.head is Head(1 << side)
        assert getattr(blob, READS[side.other])().tolist() == [number] * NBYTES
        assert blob.head is Head.SYNCED


@pytest.mark.parametrize("side", Side)
def test_what_both_sides_hold_is_not_lent_to_be_written_without_more_ado(side):
    memory, buffer, template = used(side)
    getattr(memory, READS[side.other])()
    assert memory.exclusive_buffer() is None
    assert memory.lend_again(side, MUTABLE, Layout.raw(NBYTES), "use", buffer, template) is None
    assert memory.head is Head.SYNCED
    memory.mutable_cpu_data()[:] = 6
    assert memory.gpu_data().tolist() == [6] * NBYTES


@pytest.mark.parametrize("side", Side)
def test_a_guard_is_told_the_direction(side):
    memory, *_ = used(side.other)
    direction = "an upload" if side else "a download"
    with no_transfers(), pytest.raises(TransferGuardError, match=direction):
        getattr(memory, READS[side])()


def test_an_access_again_is_noted_with_its_reason():
    memory = SyncedMemory(NBYTES, device="simulated")
    for access in ("mutable_cpu_data", "mutable_gpu_data") * 2:
        getattr(memory, access)()
        assert memory.history[-1].reason == access
