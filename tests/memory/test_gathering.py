"""Private copies of elements: each comes from a side that holds it, and no state changes."""

from functools import partial

import numpy as np
import pytest
from interrupt_points import at_each_place
from made_blobs import memory_on

from syncblob import Blob, SyncedMemory, record_transfers, use_device
from syncblob import simulated as simulated_device
from syncblob._dtypes import UINT8
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.accesses import expose

NBYTES = 64
VALUES = list(range(100, 100 + NBYTES))
HOST, ACCELERATOR = Side
# Every other byte of the first half and of the second half.
GAPPED = Layout((2, 16), UINT8, (32, 2))
EXPECTED = np.array(VALUES).reshape(2, 32)[:, ::2].tolist()


on_host = partial(memory_on, Side.HOST, VALUES, NBYTES)


# --- where the elements come from ----------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
def test_what_a_side_holds_is_copied_there_without_a_buffer_in_between(side, simulated):
    memory = memory_on(side, VALUES, NBYTES)
    simulated.reset_counts()
    copy = memory.gather(side, GAPPED, "test")
    assert copy.tolist() == EXPECTED
    assert not np.shares_memory(copy, memory.buffer(side))
    assert (simulated.allocations, simulated.host_allocations) == (0, 0)


def test_bytes_without_gaps_go_to_the_other_side_without_a_buffer_in_between(limited):
    memory = SyncedMemory(NBYTES, device=limited.device)
    kept = memory.overwrite_gpu_data()
    kept[:] = VALUES
    # What is kept is not evicted to make room.
    limited.capacity = NBYTES
    assert memory.gather(HOST, Layout.raw(16, 8), "test").tolist() == VALUES[8:24]


def test_elements_with_gaps_are_gathered_after_other_work_on_them(simulated, monkeypatch):
    memory, settled = memory_on(ACCELERATOR, VALUES, NBYTES), []
    monkeypatch.setattr(simulated, "settle", settled.append)
    assert memory.gather(HOST, GAPPED, "test").tolist() == EXPECTED
    (array,) = settled
    assert np.shares_memory(array, memory.buffer(ACCELERATOR))


@pytest.mark.parametrize("side", Side)
def test_elements_that_a_side_holds_are_not_copied_before_the_caller_copies_them(side):
    memory = memory_on(side, VALUES, NBYTES)
    elements = memory.elements(side, GAPPED, "test")
    assert elements.tolist() == EXPECTED
    assert np.shares_memory(elements, memory.buffer(side))


def test_a_copy_on_an_accelerator_binds_the_memory_to_it():
    memory = SyncedMemory(NBYTES, device="cpu")
    memory.overwrite_cpu_data()[:] = VALUES
    with use_device("simulated:1"):
        assert memory.gather(ACCELERATOR, GAPPED, "test").tolist() == EXPECTED
    assert memory.accelerator is simulated_device(1)


@pytest.mark.parametrize("copied", ["upload", "peer"])
def test_the_log_has_the_place_and_the_reason_of_what_is_copied(copied):
    memory = SyncedMemory(
        NBYTES, device="simulated", source=lambda: np.array(VALUES, dtype=np.uint8)
    )
    side = ACCELERATOR
    if copied == "peer":
        memory.mutable_gpu_data()
        side = memory.side_of(simulated_device(1))
    with record_transfers() as log:
        memory.gather(side, Layout.raw(8, 16), "test")
    assert [(one.direction, one.offset, one.reason) for one in log] == [(copied, 16, "test")]


@pytest.mark.parametrize("side", Side)
def test_a_copy_that_finds_no_room_says_for_what_and_where(side, limited):
    memory = SyncedMemory(NBYTES, device=limited.device)
    kept = (memory.overwrite_cpu_data if side else memory.overwrite_gpu_data)()
    limited.capacity = 31 if side else NBYTES + 31
    expected = r"^simulated:7 .*has no memory for 32 B more.*" + "test needs 32 B" * side
    with pytest.raises(MemoryError, match=expected):
        memory.gather(side, GAPPED, "test")
    del kept


# --- uploads under way ---------------------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("pushed", [NBYTES, NBYTES // 2])
@pytest.mark.usefixtures("held")
def test_a_copy_waits_for_an_upload_into_what_it_reads(side, pushed):
    memory = on_host()
    memory.async_gpu_push(None, 0, pushed)
    if side is HOST:
        # From now on only the accelerator is newest there.
        expose(memory, ACCELERATOR, start=0, stop=pushed)
    assert memory.gather(side, GAPPED, "test").tolist() == EXPECTED


@pytest.mark.parametrize("split", [False, True])
def test_a_copy_on_the_host_waits_for_no_upload_of_what_the_host_holds(split, held):
    memory = on_host()
    if split:
        memory.lend(ACCELERATOR, Access.MUTABLE, Layout.raw(NBYTES // 2, NBYTES // 2), "use")
    before = held.uploads
    memory.async_gpu_push(None, 0, NBYTES // 2)
    assert memory.gather(HOST, GAPPED, "test").tolist() == EXPECTED
    assert held.uploads == before


def test_a_copy_on_the_accelerator_of_what_the_host_holds_waits_for_no_upload(held):
    memory = on_host()
    # The uploaded bytes do not become newest, because the host is exposed.
    expose(memory, HOST)
    memory.async_gpu_push()
    assert memory.gather(ACCELERATOR, GAPPED, "test").tolist() == EXPECTED
    # The upload of the copy itself.
    assert held.uploads == 1


# --- calls during a transfer ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [lambda memory: memory.gather(HOST, GAPPED, "test"), lambda memory: memory.evict(HOST)],
    ids=["gather", "evict"],
)
def test_a_use_of_what_is_just_being_taken_from_a_source_is_refused(use):
    refused = []

    def source():
        if not refused:
            refused.append(True)
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                use(memory)
        return np.array(VALUES, np.uint8)

    memory = SyncedMemory(NBYTES, device="simulated", source=source)
    assert memory.cpu_data().tolist() == VALUES
    assert refused


def divided():
    """Make a Blob of which the host holds the first rows, and the device the others."""
    blob = Blob.asarray(np.arange(16.0).reshape(8, 2), copy=True).on("simulated")
    blob[:5].mutable_cpu_data()
    blob[5:].mutable_gpu_data()
    return blob


@pytest.mark.parametrize(
    "use",
    [
        lambda blob: blob.on("cpu").__setitem__(..., 7),
        lambda blob: blob.on("simulated").__setitem__(..., 7),
        lambda blob: blob.evict("gpu"),
        lambda blob: blob.evict("cpu"),
    ],
)
@pytest.mark.parametrize("read", [lambda blob: np.array(blob[:, 1]), str])
@at_each_place
def test_a_copy_in_whose_midst_a_handler_uses_the_blob_is_from_before_or_after(
    meanwhile, read, use
):
    blob, other, found = divided(), divided(), []
    before = str(read(other))
    use(other)
    meanwhile(lambda: found.append(str(read(blob))), lambda: use(blob))
    assert found[0] in {before, str(read(other))}


def test_a_write_into_a_kept_array_is_refused_in_the_midst_of_a_copy(simulated, monkeypatch):
    blob, download, refused = divided(), simulated.download, []
    first = blob[:5].on("cpu")
    for _ in range(3):
        first[...] = 1
    assert first.shortcut.writable

    def interrupted(*arrays):
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            first[...] = 2
        refused.append(download(*arrays))

    monkeypatch.setattr(simulated, "download", interrupted)
    assert np.array(blob[:, 1]).tolist() == [1] * 5 + [11, 13, 15]
    assert refused
