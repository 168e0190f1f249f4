"""Processes that write disjoint parts of one Blob in shared memory, each on its own device."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import other_processes
import pytest

import syncblob
from syncblob import Blob, Head

SHAPE = (8, 3)
ONES = np.ones(SHAPE, np.float32)


def divided(blob):
    return blob[:3], blob[3:]


def test_nothing_is_lost():
    blob = Blob.in_shared_memory(SHAPE)
    blob[...] = 1
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(2, mp_context=context) as pool:
        meet = manager.Barrier(2)
        tasks = [
            pool.submit(other_processes.double, part, f"simulated:{number}", meet)
            for number, part in enumerate(divided(blob))
        ]
        heads = [task.result() for task in tasks]
    assert heads == ["HEAD_AT_GPU", "HEAD_AT_GPU"]
    assert blob.tolist() == (2 * ONES).tolist()


@pytest.mark.parametrize("whole", [False, True])
def test_this_process_takes_part(whole):
    """A download of its part, or of the whole Blob, copies only what this process has written."""
    blob = Blob.in_shared_memory(SHAPE, device="simulated:0")
    blob.mutable_cpu_data()[...] = 1
    mine, yours = divided(blob)
    mine *= 3
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        head = pool.submit(other_processes.double, yours, "simulated:0").result()
    assert head == "HEAD_AT_GPU"
    assert mine.head is Head.HEAD_AT_GPU
    with syncblob.record_transfers() as log:
        (blob if whole else mine).cpu_data()
    assert [(t.direction, t.offset, t.nbytes) for t in log] == [("download", 0, 36)]
    expected = ONES * 2
    expected[:3] = 3
    assert blob.on("cpu").tolist() == expected.tolist()
    # The device gets what the other process wrote, because the host side is always exposed.
    assert np.asarray(blob + 0).tolist() == expected.tolist()
    # The other process does not write any more, so one refresh is enough.
    blob.refresh()
    with syncblob.record_transfers() as log:
        for _ in range(2):
            _ = blob + 0
    assert [(t.direction, t.nbytes) for t in log] == [("upload", 96)]
