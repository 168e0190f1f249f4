"""Random programs of many threads: each finds what it wrote last, and nothing older than it saw.

Each thread writes a part of its own of Blobs that all read, without a lock; a Blob under a lock of
the user's; and Blobs that only it uses. Meanwhile others evict, push, and open logs and guards.
``SYNCBLOB_SOAK`` sets the duration in seconds. They run on free-threaded Python, too.
"""

import random
import threading
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import tiers
from devices import LIMITED
from in_threads import in_threads

import syncblob
from syncblob import Blob, compute_only_on, no_transfers, record_transfers
from syncblob.memory import windows

THREADS, PART = 8, 16
NBYTES = 8 * PART * THREADS


def filled(count):
    blob = Blob(count, "int64", device=LIMITED)
    blob[...] = 0
    return blob


class Shared:
    """What the threads of a program share."""

    def __init__(self, *, windows):
        self.windows = windows
        # Each thread writes into its own row of these.
        self.blobs = [filled(THREADS * PART).reshape(THREADS, PART) for _ in range(3)]
        # Used under the lock only.
        self.locked, self.values, self.lock = (
            filled(PART),
            np.zeros(PART, np.int64),
            threading.Lock(),
        )


class Worker:
    """One thread of a program."""

    def __init__(self, shared, row, seed):
        self.random = random.Random(f"{seed} {row}")  # noqa: S311  # programs, not secrets
        self.shared, self.row = shared, row
        # What is in this thread's rows, and the newest that it saw in all rows.
        self.written = np.zeros((len(shared.blobs), PART), np.int64)
        self.seen = [np.zeros((THREADS, PART), np.int64) for _ in shared.blobs]
        self.own = [(filled(4 * PART), np.zeros(4 * PART, np.int64)) for _ in range(3)]
        self.trace = []

    def step(self):
        steps = (self.write_row, self.read_rows, self.disturb, self.use_locked, self.use_own)
        step = self.random.choice(steps)
        self.trace = [*self.trace[-20:], step.__name__]
        match self.random.randrange(8):
            case 0:
                with record_transfers(operations=self.random.random() < 0.2) as log:
                    step()
                assert log.nbytes >= 0
                assert log.avoided >= 0
            case 1:
                with compute_only_on(LIMITED):
                    step()
            case _:
                step()

    def write_row(self):
        """Write some of a row, and find it."""
        index = self.random.randrange(len(self.shared.blobs))
        row, values = self.shared.blobs[index][self.row], self.written[index]
        start = self.random.randrange(PART)
        # Beside windows, an alias lets accesses of all rows fail while it lives.
        match self.random.randrange(5 if self.shared.windows else 6):
            case 0:
                row += 1
                values += 1
            case 1:
                row[start:] += row[start:] * 0 + 2
                values[start:] += 2
            case 2:
                values[start] += 1
                row[start] = values[start]
            case 3:
                values[start:] = values.max() + 1
                row[start:] = values[start:]
            case 4:
                np.add(row, 3, out=row)
                values += 3
            case 5:
                # Dropped while others work.
                alias = np.from_dlpack(self.random.choice([row.cpu, row.gpu]))[start:]
                alias += 4
                values[start:] += 4
        self.check_row(index)

    def check_row(self, index):
        row, values = self.shared.blobs[index][self.row], self.written[index].tolist()
        match self.random.randrange(4):
            case 0:
                assert row.tolist() == values
            case 1:
                assert (row * 1).tolist() == values
            case 2:
                assert row.cpu_data().tolist() == values
            case 3:
                assert row.gpu_data().tolist() == values

    def read_rows(self):
        """Read a Blob that others are writing. No element becomes older than it was seen."""
        index = self.random.randrange(len(self.shared.blobs))
        blob = self.shared.blobs[index]
        match self.random.randrange(5):
            case 0:
                found = (blob + 0).cpu_data()
            case 1:
                found = blob.cpu_data().copy()
            case 2:
                found = blob.gpu_data().copy()
            case 3:
                found = np.array(blob.on("cpu"))
            case 4:
                found = np.stack([blob, blob])[0].cpu_data()
        seen = self.seen[index]
        assert (found >= seen).all(), (found - seen).tolist()
        self.seen[index] = found
        assert found[self.row].tolist() == self.written[index].tolist()

    def disturb(self):
        """Move what others use."""
        blob = self.random.choice(self.shared.blobs)
        blob = blob[self.random.randrange(THREADS)] if self.random.random() < 0.5 else blob
        match self.random.randrange(5):
            case 0:
                # Others are using it, or there is no room for it elsewhere.
                with suppress(BufferError, MemoryError):
                    blob.evict(self.random.choice(["cpu", "gpu"]))
            case 1:
                # It need not be on the host.
                with suppress(RuntimeError):
                    blob.async_gpu_push()
            case 2:
                blob.prefetch(self.random.choice(["cpu", LIMITED]))
            case 3:
                assert np.asarray(blob.const).size == blob.size
            case 4:
                assert blob.head in syncblob.Head
                assert str(blob.explain())

    def use_locked(self):
        """Write through borrows and aliases, which needs a lock."""
        shared = self.shared
        with shared.lock:
            blob, values, start = shared.locked, shared.values, self.random.randrange(PART)
            match self.random.randrange(6):
                case 0:
                    blob.mutable_cpu_data()[start:] += 1
                    values[start:] += 1
                case 1:
                    blob.mutable_gpu_data()[start:] += 1
                    values[start:] += 1
                case 2:
                    alias = np.asarray(blob.gpu)[start:]
                    alias += 2
                    values[start:] += 2
                case 3:
                    alias = np.from_dlpack(blob.cpu)[start:]
                    blob += 1
                    alias = np.from_dlpack(blob.gpu)[start:]
                    alias -= 2
                    values += 1
                    values[start:] -= 2
                case 4:
                    with suppress(MemoryError):
                        blob.evict(self.random.choice(["cpu", "gpu"]))
                case 5:
                    blob.cpu_data()
                    with no_transfers():
                        assert blob.cpu_data().tolist() == values.tolist()
            alias = None
            assert blob.cpu_data().tolist() == values.tolist()
            assert (blob * 1).tolist() == values.tolist()

    def use_own(self):
        """Use Blobs of this thread, which others may evict."""
        place = self.random.randrange(len(self.own))
        blob, values = self.own[place]
        match self.random.randrange(5):
            case 0:
                blob += 1
                values += 1
            case 1:
                blob.mutable_gpu_data()[...] = 5
                values[...] = 5
            case 2:
                blob.mutable_cpu_data()[3:9] = 6
                values[3:9] = 6
            case 3:
                blob.resize(PART)
                blob.resize(4 * PART)
                # Zeros, or what was there if another thread looks at the memory.
                blob[PART:] = values[PART:] = 7
            case 4:
                self.own[place] = blob * 2, values * 2
        blob, values = self.own[place]
        assert blob.tolist() == values.tolist()


@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@pytest.mark.parametrize("divides", [False, True])
@tiers.amount("seconds", 0.5, 4.0, variable="SYNCBLOB_SOAK")
def test_programs(limited, monkeypatch, seconds, divides):
    # Room for what the threads share and work on, and for a part of what they keep.
    limited.capacity = (3 + 4 * THREADS) * NBYTES
    if divides:
        monkeypatch.setattr(windows, "_WHOLE", NBYTES // 2)
    problems = []
    end = time.monotonic() + seconds

    def work(worker):
        try:
            worker.step()
            while time.monotonic() < end and not problems:
                worker.step()
        except BaseException as error:
            error.add_note(f"thread {worker.row}: {', '.join(worker.trace)}")
            problems.append(error)
            raise

    first = int(time.time())
    number = 0
    while not number or time.monotonic() < end:
        shared = Shared(windows=divides)
        workers = [Worker(shared, row, first + number) for row in range(THREADS)]
        number += 1
        in_threads(*(partial(work, each) for each in workers), seconds=seconds + 60)
    for index, blob in enumerate(shared.blobs):
        assert blob.tolist() == [worker.written[index].tolist() for worker in workers]
