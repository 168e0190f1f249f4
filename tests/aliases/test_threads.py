"""Many threads that make and drop aliases while others read and write.

``SYNCBLOB_SOAK`` sets the duration in seconds.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import warnings

import numpy as np

from syncblob import Blob, StaleAliasWarning, simulated
from syncblob.devices import Side

try:
    from torch import from_dlpack
except ImportError:
    from_dlpack = np.from_dlpack

SECONDS = float(os.environ.get("SYNCBLOB_SOAK", "1"))
THREADS = 8


def test_threads_without_any_order_do_no_harm() -> None:
    """They may or may not see each other's writes. Nothing hangs, crashes or leaks."""
    blob = Blob(64, "int64", device="simulated")
    blob.mutable_cpu_data()[...] = 0
    stop = threading.Event()
    problems: list[BaseException] = []

    def work(number: int) -> None:
        take = (from_dlpack, np.asarray, np.from_dlpack, lambda side: np.asarray(side.const))
        while not stop.is_set():
            try:
                side = blob.cpu if number % 2 else blob.gpu
                part = take[number % 4](side)[number:]
                blob.cpu_data()
                blob.gpu_data()
                if number % 4 == 0:
                    blob.mutable_cpu_data()
                del part
            except BaseException as error:  # noqa: BLE001  # the test reports any error
                problems.append(error)
                return

    with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2 * THREADS)]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS / 3)
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []
    gc.collect()
    assert not any(blob.memory.loans(side).leases for side in Side)
    blob[...] = 7
    assert blob.cpu_data().tolist() == blob.gpu_data().tolist() == [7] * 64


def test_aliases_come_and_go_while_others_read_and_write() -> None:  # noqa: C901, PLR0915  # two workers
    blob = Blob(64, "int64", device="simulated")
    blob.mutable_cpu_data()[...] = 0
    blob.gpu_data()
    gc.collect()
    objects, allocated = len(gc.get_objects()), sys.getallocatedblocks()
    turn = threading.Lock()
    stop = threading.Event()
    problems: list[str] = []
    written = 0

    def alias(number: int) -> None:
        nonlocal written
        take = (from_dlpack, np.asarray, np.from_dlpack)[number % 3]
        side = "cpu" if number % 2 else "gpu"
        while not stop.is_set():
            with turn:
                array = take(getattr(blob, side))
                part = array[number:]
                del array
                written += 1
                part[0] = written
                other = blob.gpu_data() if side == "cpu" else blob.cpu_data()
                if other[number] != written:
                    problems.append(f"alias on the {side}: {other[number]}, wrote {written}")
            # Dropped after the turn, while other threads work.
            del part, other

    def use(number: int) -> None:
        nonlocal written
        while not stop.is_set():
            with turn:
                if number % 2:
                    data = blob.mutable_cpu_data() if number % 4 == 1 else blob.mutable_gpu_data()
                    written += 1
                    data[number] = written
                seen = (int(blob.cpu_data()[number]), int(blob.gpu_data()[number]))
                if seen[0] != seen[1] or (number % 2 and seen[0] != written):
                    problems.append(f"read {seen}, wrote {written}")

    # Late drops cause warnings. Filters are not thread-safe, so this one is set for all threads.
    with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
        threads = [
            threading.Thread(target=work, args=(number,))
            for work in (alias, use)
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []
    del threads
    gc.collect()
    for side in Side:
        assert not blob.memory.loans(side).leases
    # The rest belongs to the test, and to the ended borrows that `explain` remembers: eight for
    # each side, with the history at that time. A leak would keep something for each of thousands.
    assert written > 1000
    assert len(gc.get_objects()) - objects < 500
    assert sys.getallocatedblocks() - allocated < 5000
    backend = simulated(0)
    backend.reset_counts()
    for _ in range(3):
        blob.cpu_data()
        blob.gpu_data()
    assert backend.uploads + backend.downloads <= 1
    assert backend.allocations == backend.host_allocations == 0
