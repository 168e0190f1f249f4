"""prefetch transfers the missing bytes to the device while the program continues."""

import numpy as np
import pytest
from made_blobs import CPU, GPU, NONE, PAIR, SPLIT, SYNCED, blob_in, values
from program_devices import Shared

import syncblob
from syncblob import Blob


def moved(simulated):
    """Wait for transfers under way, and return the bytes that moved in each direction."""
    simulated.synchronize()
    return simulated.uploaded_bytes, simulated.downloaded_bytes


def on_host(shape=(2, 3)):
    """Make a Blob of the simulated device with its contents on the host."""
    blob = Blob(shape, device="simulated")
    blob.overwrite_cpu_data()[...] = values("float32", shape)
    return blob


# For each head: the head after a prefetch and the bytes moved, to the accelerator and to the host.
TO_DEVICE = {NONE: (GPU, 0), CPU: (SYNCED, 24), GPU: (GPU, 0), SYNCED: (SYNCED, 0), SPLIT: (GPU, 4)}
TO_HOST = {NONE: (CPU, 0), CPU: (CPU, 0), GPU: (SYNCED, 24), SYNCED: (SYNCED, 0), SPLIT: (CPU, 20)}


@pytest.mark.parametrize("const", [False, True])
@pytest.mark.parametrize("head", PAIR)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_it_brings_what_the_device_lacks_and_nothing_is_left_to_move(
    simulated, device, head, const
):
    blob = blob_in(head).on(device)
    simulated.reset_counts()
    after, nbytes = (TO_HOST if device == "cpu" else TO_DEVICE)[head]
    for _ in range(3):
        assert (blob.const if const else blob).prefetch() is None
        assert blob.head == after
        assert moved(simulated) == ((0, nbytes) if device == "cpu" else (nbytes, 0))
    with syncblob.no_transfers():
        result = blob + 1
    assert result.tolist() == (values() * bool(head) + 1).tolist()


def test_of_a_host_blob_without_an_accelerator_it_does_nothing():
    blob = Blob(3, device="cpu")
    blob[...] = 2
    blob.prefetch()
    assert (blob.head, blob.memory.accelerator, blob.tolist()) == (CPU, None, [2, 2, 2])


VIEWS = {
    "row": (lambda b: b[1], 4, 8),
    "rows": (lambda b: b[1:3], 4, 12),
    "column": (lambda b: b[:, 1], 1, 14),
    "block": (lambda b: b[1:3, 2:], 6, 12),
    "element": (lambda b: b[2, 1], 9, 10),
    "transposed": (lambda b: b.T, 0, 16),
    "backwards": (lambda b: b[::-1], 0, 16),
    "nothing": (lambda b: b[:, :0], 0, 0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_of_a_view_its_part_moves_with_what_lies_in_its_gaps(simulated, name):
    view, start, stop = VIEWS[name]
    blob = on_host((4, 4))
    with syncblob.record_transfers() as log:
        view(blob).prefetch()
        view(blob).prefetch()
    found = [(t.direction, t.offset, t.nbytes, t.reason, t.asynchronous) for t in log]
    nbytes = 4 * (stop - start)
    assert found == ([("upload", 4 * start, nbytes, "prefetch", True)] if nbytes else [])
    expected = np.full(16, CPU)
    expected[start:stop] = SYNCED
    assert [element.head for element in blob.reshape(16, 1)] == expected.tolist()
    simulated.synchronize()
    simulated.reset_counts()
    assert (view(blob) + 1).tolist() == (view(values("float32", (4, 4))) + 1).tolist()
    assert moved(simulated) == (0, view(blob).size * 4)  # tolist


def test_it_returns_while_the_upload_runs_and_who_needs_it_waits(held):
    blob = on_host()
    blob.prefetch()
    assert blob.head is SYNCED
    assert blob.cpu_data().tolist() == values().tolist()
    assert held.uploads == 0
    assert (blob + 1).on("cpu").tolist() == (values() + 1).tolist()
    assert held.uploads == 1


def test_async_gpu_push_of_a_view_looks_at_its_part():
    blob = blob_in(SPLIT)
    with syncblob.record_transfers() as log:
        blob[0, :1].async_gpu_push()
    assert [(t.offset, t.nbytes, t.asynchronous) for t in log] == [(0, 4, True)]
    assert (blob.head, blob[0, :1].head) == (GPU, SYNCED)
    with pytest.raises(RuntimeError, match="SPLIT"):
        blob_in(SPLIT)[0].async_gpu_push()
    assert blob.gpu_data().tolist() == values().tolist()


def test_to_a_host_that_shares_its_memory_it_copies_what_no_device_there_holds():
    """The host has the buffer of the device, and the rows that this one holds."""
    syncblob.set_memory_kind(Shared.name, "shared")
    blob = Blob((8, 4), device="simulated:0")
    shared = blob.on(Shared.name)
    shared += 1
    blob += 1
    blob[2:6].on(Shared.name).gpu_data()
    with syncblob.record_transfers() as log:
        blob.on("cpu").prefetch()
        syncblob.simulated(0).synchronize()
    assert log.downloaded_bytes == 4 * 16
    with syncblob.record_transfers() as log:
        shared += 1
        assert blob.tolist() == [[3] * 4] * 8
    assert (log.downloads, log.peer_copies) == (0, 0)
