"""Accesses that are made again and again: like the first, with as little as there is to do."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from syncblob import Blob, Head, SyncedMemory, TransferGuardError, no_transfers, record_transfers
from syncblob._shape import Layout
from syncblob.devices import Side
from syncblob.memory import Access

NBYTES = 8
WHOLE = Layout.dense(np.empty(NBYTES, np.uint8))
READS = {Side.HOST: "cpu_data", Side.ACCELERATOR: "gpu_data"}
CONST, MUTABLE, OVERWRITE = Access
COPIES = {Side.HOST: "download", Side.ACCELERATOR: "upload"}


def used(side, *, both_sides=True):
    """Make a memory that one side has written, its buffer there, and an array over that."""
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
    # A log is told of what needed no transfer, by the way that takes longer.
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


def blob_on(side):
    """Make a Blob that has been used on both sides, and was written on one of them."""
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
def test_a_size_that_changed_in_between_is_the_size_that_is_in_use(side):
    blob = blob_on(side)
    for nbytes in (3, NBYTES, 5):
        blob.resize(nbytes)
        for number in range(2):
            array = getattr(blob, f"mutable_{READS[side]}")()
            assert (array.shape, blob.head) == ((nbytes,), Head(1 << side))
            array[:] = number
            array = getattr(blob, READS[side.other])()
            assert (array.tolist(), blob.head) == ([number] * nbytes, Head.SYNCED)
            assert blob.memory.used_nbytes == nbytes
