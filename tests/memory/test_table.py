"""Every cell of the transition table: head, copies, bytes, allocations, contents, and history.

On the simulated device, on the model of CUDA, and on CUDA if there is a GPU.
"""

import numpy as np
import pytest
from made_blobs import READS, memory_on

from syncblob import Head, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import HOST, Side
from syncblob.memory import Access, accesses
from syncblob.memory.state_machine import look_up

NBYTES = 40
OLD = 7
U, C, G, S = Head.UNINITIALIZED, Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED

# For each access and head before: the head after, and the steps.
# a = a buffer is allocated on the side of the access, u = upload, d = download.
TABLE = {
    "cpu_data": {U: (C, "a"), C: (C, ""), G: (S, "ad"), S: (S, "")},
    "mutable_cpu_data": {U: (C, "a"), C: (C, ""), G: (C, "ad"), S: (C, "")},
    "overwrite_cpu_data": {U: (C, "a"), C: (C, ""), G: (C, "a"), S: (C, "")},
    "set_cpu_data": {U: (C, ""), C: (C, ""), G: (C, ""), S: (C, "")},
    "gpu_data": {U: (G, "a"), C: (S, "au"), G: (G, ""), S: (S, "")},
    "mutable_gpu_data": {U: (G, "a"), C: (G, "au"), G: (G, ""), S: (G, "")},
    "overwrite_gpu_data": {U: (G, "a"), C: (G, "a"), G: (G, ""), S: (G, "")},
    "set_gpu_data": {U: (G, ""), C: (G, ""), G: (G, ""), S: (G, "")},
    "async_gpu_push": {C: (S, "au")},
}
INTENTS = {"": Access.CONST, "mutable_": Access.MUTABLE, "overwrite_": Access.OVERWRITE}
CELLS = [(access, before) for access, row in TABLE.items() for before in row]


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("prefix", INTENTS)
@pytest.mark.parametrize("before", [U, C, G, S])
def test_the_table_of_the_program_is_this_one(before, prefix, side):
    after, steps = TABLE[f"{prefix}{'gpu' if side else 'cpu'}_data"][before]
    brings, head = look_up(before, side, INTENTS[prefix])
    copied = "ud"[1 - side] if brings and before else ""
    assert (head, copied) == (after, steps.replace("a", ""))
    assert (brings and not before) is (before is U and prefix != "overwrite_")


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("side", Side)
def test_an_access_that_has_nothing_to_do_makes_no_change(monkeypatch, side, divided):
    memory, part = memory_on(side, both_sides=True, nbytes=NBYTES), Layout.raw(8)
    if divided:
        memory.lend(Side(1 - side), Access.MUTABLE, Layout.raw(8, 8), "use")
    monkeypatch.setattr(accesses, "commit", None)
    for access in Access:
        assert accesses.acquire(memory, side, access, part, "use") is memory.whole[side]
    monkeypatch.undo()
    getattr(memory, READS[Side(1 - side)])()
    monkeypatch.setattr(accesses, "commit", None)
    for each in Side:
        assert accesses.acquire(memory, each, Access.CONST, part, "use") is memory.whole[each]


@pytest.fixture
def device(program_device):
    made = program_device()
    yield made
    made.close()


def memory_at(head, device):
    """Make a memory with the contents OLD and only the buffers that the head implies."""
    memory = SyncedMemory(NBYTES, device=device.name)
    if head in (C, S):
        memory.mutable_cpu_data()[:] = OLD
    if head is G:
        device.seen(memory.mutable_gpu_data())[:] = OLD
    if head is S:
        memory.gpu_data()
    assert memory.head is head
    return memory


def perform(memory, access, device):
    if access.startswith("set_"):
        array = np.full(NBYTES, 9, np.uint8)
        of_side = device.array if "gpu" in access else device.host_array
        return getattr(memory, access)(of_side(array))
    method = getattr(memory, access)
    return method()


@pytest.mark.parametrize(
    ("access", "before"), CELLS, ids=[f"{access}-{before.name}" for access, before in CELLS]
)
def test_cell(access, before, device):
    after, actions = TABLE[access][before]
    memory, counts = memory_at(before, device), device.controls
    counts.reset_counts()
    known = len(memory.history)

    with record_transfers() as log:
        array = perform(memory, access, device)
        device.count_all()

    assert memory.head is after
    on_host = "cpu" in access
    allocations = (counts.host_allocations, counts.allocations)
    assert allocations == (int("a" in actions and on_host), int("a" in actions and not on_host))
    assert (counts.uploads, counts.downloads) == (actions.count("u"), actions.count("d"))
    assert counts.uploaded_bytes == NBYTES * actions.count("u")
    assert counts.downloaded_bytes == NBYTES * actions.count("d")
    assert (log.uploads, log.downloads) == (counts.uploads, counts.downloads)
    assert log.nbytes == counts.uploaded_bytes + counts.downloaded_bytes
    assert all(transfer.reason == access for transfer in log)
    # What moves the head or copies is noted, and so is an adoption.
    adopts, copied = (
        access.startswith("set_"),
        {"u": "upload", "d": "download"}.get(actions[-1:], ""),
    )
    noted = [
        (e.reason, e.map_before.head(), e.map_after.head(), e.copied, e.start, e.stop)
        for e in memory.history[known:]
    ]
    reason = "adoption" if adopts else access
    expected = [(reason, before, after, copied, 0, NBYTES)]
    assert noted == expected * bool(adopts or copied or after is not before)

    if adopts:
        assert array is None
        assert memory.cpu_data().tolist() == [9] * NBYTES
    elif array is not None and "overwrite" not in access:
        assert array.tolist() == [0 if before is U else OLD] * NBYTES
        writable = access.startswith("mutable") or not (on_host or device.revocable)
        assert device.seen(array).flags.writeable == writable
    elif access == "async_gpu_push":
        assert memory.gpu_data().tolist() == memory.cpu_data().tolist() == [OLD] * NBYTES


@pytest.mark.parametrize(
    ("access", "before"), CELLS, ids=[f"{access}-{before.name}" for access, before in CELLS]
)
def test_cell_in_shared_memory(access, before, shared_device):
    device = shared_device()
    after, actions = TABLE[access][before]
    memory, counts = memory_at(before, device), device.controls
    if before is C and access != "async_gpu_push":
        # Where the accelerator has worked on the buffer, the host has to wait.
        device.seen(memory.mutable_gpu_data())[:] = OLD
        memory.mutable_cpu_data()
    counts.reset_counts()
    with record_transfers() as log:
        array = perform(memory, access, device)
    assert memory.head is after
    allocated = counts.host_allocations, counts.allocations
    first = "a" in actions and before is U
    assert allocated == (int(first and "cpu" in access), int(first and "gpu" in access))
    assert not log
    assert all(not entry.copied for entry in memory.history)
    if access.startswith("set_"):
        assert memory.cpu_data().tolist() == [9] * NBYTES
    elif array is not None and "overwrite" not in access:
        assert np.asarray(device.seen(array) if "gpu" in access else array).tolist() == (
            [0 if before is U else OLD] * NBYTES
        )
    newest = memory.cpu_data().tolist()
    assert np.asarray(device.seen(memory.gpu_data())).tolist() == newest
    assert counts.uploads == counts.downloads == 0
    device.close()


@pytest.mark.parametrize("head", [U, G, S])
def test_async_gpu_push_is_an_error_elsewhere(head, device):
    memory = memory_at(head, device)
    device.controls.reset_counts()
    with pytest.raises(RuntimeError, match=head.name):
        memory.async_gpu_push()
    assert memory.head is head
    assert device.controls.uploads == device.controls.allocations == 0


@pytest.mark.parametrize("adopt", ["set_cpu_data", "set_gpu_data"])
def test_a_buffer_of_the_other_side_is_reused(adopt, device):
    memory, counts = memory_at(S, device), device.controls
    counts.reset_counts()
    for _ in range(3):
        memory.mutable_cpu_data()
        memory.mutable_gpu_data()
    array = HOST.allocate(NBYTES)
    getattr(memory, adopt)(device.array(array) if "gpu" in adopt else array)
    memory.mutable_cpu_data()
    memory.mutable_gpu_data()
    assert counts.allocations == counts.host_allocations == 0
