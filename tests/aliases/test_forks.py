"""Forks while other threads compute: a child does not hang, nor use half-written contents."""

import os
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from in_threads import in_the_middle_of
from other_processes import forked

import syncblob
from syncblob import Blob, record_transfers, verified_const
from syncblob.blob import core
from syncblob.devices import choose_device
from syncblob.transfers import copies, guards

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

INSIDE = "another thread was using this memory when the process forked"


def made(count=3):
    blob = Blob(count, "int32", device="simulated")
    blob.mutable_cpu_data()[...] = range(1, count + 1)
    return blob


def refuses(blob):
    """Check that every use of a Blob raises an error with the reason, and that it can be shown."""
    uses = (
        blob.tolist,
        blob.cpu_data,
        blob.mutable_cpu_data,
        blob.gpu_data,
        blob.copy,
        blob.memory.cpu_data,
        lambda: np.asarray(blob),
        lambda: np.from_dlpack(blob),
        lambda: blob + 1,
        lambda: blob[1:] + 1,
        lambda: blob.__iadd__(1),
        lambda: blob.__setitem__(..., 0),
        lambda: blob.resize(2),
        blob.async_gpu_push,
    )
    for use in uses:
        with pytest.raises(RuntimeError, match=INSIDE):
            use()
    assert "int32" in repr(blob)


def test_a_memory_that_a_thread_was_inside_of_says_so_and_others_work(simulated, monkeypatch):
    blob, other = made(), made()
    upload = simulated.upload

    def use(wait):
        def slow(*args):
            wait()
            upload(*args)

        monkeypatch.setattr(simulated, "upload", slow)
        blob.gpu_data()

    def check():
        monkeypatch.undo()
        with verified_const():
            refuses(blob)
        assert other.gpu_data().tolist() == other.tolist() == [1, 2, 3]
        assert (other + 1).tolist() == [2, 3, 4]
        assert made().resize(5) is None

    with in_the_middle_of(use):
        forked(check)
    monkeypatch.undo()
    assert blob.gpu_data().tolist() == [1, 2, 3]


@pytest.mark.parametrize("fresh", [False, True])
def test_of_a_write_that_changes_no_state_a_child_finds_a_part(fresh):
    """NumPy lets other threads run, and fork, while it computes."""
    count = 2_000_000
    blob = syncblob.ones(count) + 0 if fresh else Blob(count, device="simulated")
    blob[...] = 0
    stop = threading.Event()

    def work():
        while not stop.is_set():
            np.add(blob, 1, out=blob)

    def check():
        before = blob.min().item()
        assert blob.max().item() - before in {0, 1}
        blob[...] = 5
        assert blob.sum().item() == 5 * count

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            time.sleep(0.01)
            forked(check)
    finally:
        stop.set()
        thread.join()


def test_a_blob_whose_memory_is_being_made_is_made_anew(monkeypatch):
    array = np.arange(3, dtype="int32")
    fresh, lent = Blob.asarray([1, 2, 3]) + 0, Blob.asarray(array)
    adopting = syncblob.SyncedMemory.adopting

    for blob, expected in ((fresh, [1, 2, 3]), (lent, [0, 1, 2])):

        def use(wait, blob=blob):
            def slow(*args, **keywords):
                memory = adopting(*args, **keywords)
                wait()
                return memory

            monkeypatch.setattr(syncblob.SyncedMemory, "adopting", slow)
            blob.cpu_data()

        def check(blob=blob, expected=expected):
            monkeypatch.undo()
            assert blob.tolist() == expected
            assert (Blob.asarray([1]) + 1).cpu_data().tolist() == [2]

        with in_the_middle_of(use):
            forked(check)
        monkeypatch.undo()

    def look():
        # The user's array is still exposed: it may change at any time.
        lent.memory.side_of(syncblob.simulated(0))
        lent.gpu_data()
        array[0] = 9
        assert lent.gpu_data().tolist() == [9, 1, 2]

    forked(look)


def test_locks_of_the_process_are_free_in_a_child(simulated):
    log = record_transfers()
    locks = [
        copies._open_logs_lock,
        guards._counting,
        choose_device._backends_lock,
        core.making,
        simulated._lock,
        log._lock,
    ]

    def use(wait):
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock.held)
            wait()

    def check():
        for lock in locks:
            assert lock.held.acquire(timeout=5)
            lock.held.release()
        with log:
            assert made().gpu_data().tolist() == [1, 2, 3]
        assert len(log) == 1

    with in_the_middle_of(use):
        forked(check)


def test_the_thread_that_forks_may_be_inside_itself():
    def contents():
        forked(lambda: None)
        return np.ones(3, "uint8")

    blob = Blob.from_source(3, "uint8", contents)
    assert blob.tolist() == [1, 1, 1]
    assert blob.mutable_cpu_data().tolist() == [1, 1, 1]


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.usefixtures("simulated")
def test_children_of_a_process_with_busy_threads_do_not_hang():
    # NumPy keeps the GIL for so few elements, so that no fork comes amid a write of its own.
    count = 400
    shared = [made(count) for _ in range(4)]
    stop = threading.Event()

    def compute(number):
        own = shared[number]
        while not stop.is_set():
            own.gpu_data()
            own += 1
            own[...] = own - 1
            (own[2:] + 1).cpu_data()
            own.mutable_cpu_data()

    threads = [threading.Thread(target=compute, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()

    def check():
        for blob in shared:
            try:
                values = blob.tolist()
            except RuntimeError as error:
                assert INSIDE in str(error)  # noqa: PT017  # it need not be raised
                assert blob is not shared[3]
            else:
                first = values[0]
                assert first in (1, 2)
                assert values == list(range(first, first + count))
        assert (made() + made()).cpu_data().tolist() == [2, 4, 6]

    try:
        for _ in range(25):
            forked(check)
            time.sleep(0.002)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
