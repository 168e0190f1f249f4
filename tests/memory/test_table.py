"""Every cell of the transition table: head, copies, bytes, allocations, and contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from syncblob import Head, SyncedMemory, record_transfers
from syncblob.devices import HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob.devices import SimulatedBackend

NBYTES = 40
OLD = 7
U, C, G, S = Head.UNINITIALIZED, Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED

# access: for each head before, the head after and what is done on the way.
# a = a buffer is allocated on the side of the access, u = upload, d = download.
TABLE: dict[str, dict[Head, tuple[Head, str]]] = {
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
CELLS = [(access, before) for access, row in TABLE.items() for before in row]


def memory_at(head: Head) -> SyncedMemory:
    """Make a memory with the contents OLD and only the buffers that the head implies."""
    memory = SyncedMemory(NBYTES, device="simulated")
    if head in (C, S):
        memory.mutable_cpu_data()[:] = OLD
    if head is G:
        memory.mutable_gpu_data()[:] = OLD
    if head is S:
        memory.gpu_data()
    assert memory.head is head
    return memory


def perform(memory: SyncedMemory, access: str) -> Any:
    if access.startswith("set_"):
        return getattr(memory, access)(np.full(NBYTES, 9, np.uint8))
    method: Callable[[], Any] = getattr(memory, access)
    return method()


@pytest.mark.parametrize(
    ("access", "before"), CELLS, ids=[f"{access}-{before.name}" for access, before in CELLS]
)
def test_cell(access: str, before: Head, simulated: SimulatedBackend) -> None:
    after, actions = TABLE[access][before]
    memory = memory_at(before)
    simulated.reset_counts()

    with record_transfers() as log:
        array = perform(memory, access)
        simulated.synchronize()

    assert memory.head is after
    on_host = "cpu" in access
    allocations = (simulated.host_allocations, simulated.allocations)
    assert allocations == (int("a" in actions and on_host), int("a" in actions and not on_host))
    assert (simulated.uploads, simulated.downloads) == (actions.count("u"), actions.count("d"))
    assert simulated.uploaded_bytes == NBYTES * actions.count("u")
    assert simulated.downloaded_bytes == NBYTES * actions.count("d")
    assert (log.uploads, log.downloads) == (simulated.uploads, simulated.downloads)
    assert log.nbytes == simulated.uploaded_bytes + simulated.downloaded_bytes
    assert all(transfer.reason == access for transfer in log)

    if access.startswith("set_"):
        assert array is None
        assert memory.cpu_data().tolist() == [9] * NBYTES
    elif array is not None and "overwrite" not in access:
        assert array.tolist() == [0 if before is U else OLD] * NBYTES
        assert array.flags.writeable == access.startswith("mutable")


@pytest.mark.parametrize("head", [U, G, S])
def test_async_gpu_push_is_an_error_elsewhere(head: Head, simulated: SimulatedBackend) -> None:
    memory = memory_at(head)
    simulated.reset_counts()
    with pytest.raises(RuntimeError, match=head.name):
        memory.async_gpu_push()
    assert memory.head is head
    assert simulated.uploads == simulated.allocations == 0


def test_a_read_of_uninitialized_memory_leaves_the_other_side_to_copy_the_zeros(
    simulated: SimulatedBackend,
) -> None:
    memory = SyncedMemory(NBYTES, device="simulated")
    assert memory.gpu_data().tolist() == [0] * NBYTES
    assert simulated.host_allocations == 0
    assert memory.cpu_data().tolist() == [0] * NBYTES
    assert (memory.head, simulated.downloads) == (S, 1)


def test_the_nine_calls_of_the_tutorial() -> None:
    """The example of Caffe's blob tutorial: when a copy is made, call by call."""
    memory = memory_at(C)
    steps = [
        ("gpu_data", "upload"),
        ("cpu_data", "-"),
        ("mutable_gpu_data", "-"),
        ("mutable_gpu_data", "-"),
        ("cpu_data", "download"),
        ("gpu_data", "-"),
        ("mutable_cpu_data", "-"),
        ("mutable_gpu_data", "upload"),
        ("mutable_cpu_data", "download"),
    ]
    for name, expected in steps:
        with record_transfers() as log:
            getattr(memory, name)()
        assert [transfer.direction for transfer in log] == ([] if expected == "-" else [expected])


@pytest.mark.parametrize("adopt", ["set_cpu_data", "set_gpu_data"])
def test_a_buffer_of_the_other_side_is_reused(adopt: str, simulated: SimulatedBackend) -> None:
    memory = memory_at(S)
    simulated.reset_counts()
    for _ in range(3):
        memory.mutable_cpu_data()
        memory.mutable_gpu_data()
    getattr(memory, adopt)(HOST.allocate(NBYTES))
    memory.mutable_cpu_data()
    memory.mutable_gpu_data()
    assert simulated.allocations == simulated.host_allocations == 0
