"""A long run of everything at once: threads with their own programs, a shared Blob, and files.

``SYNCBLOB_SOAK`` sets the duration in seconds; the default is 3. Each thread compares contents with
those that it expects. Meanwhile, the memory of the process must not grow.
"""

import gc
import os
import pickle
import random
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from leak_counts import resident_nbytes

import syncblob as xp
from syncblob import Blob, Layer, ModelFile, StaleAliasWarning, open_model, save_model, simulated
from syncblob.caffe.convert import convert, open_weights

try:
    from torch import from_dlpack
except ImportError:
    from_dlpack = np.from_dlpack

SECONDS = float(os.environ.get("SYNCBLOB_SOAK", "3"))
PROGRAMS = 4
# The growth of allocators and caches over time. A leak exceeds it within seconds.
MOST_GROWTH = 64_000_000
MOST_BLOCKS = 20_000


class Program:
    """Random steps on one Blob, which has its own device, and an array that it must equal."""

    def __init__(self, number):
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.device = f"simulated:{number}"
        self.backend = simulated(number)
        self.count = 0
        self.start()

    def start(self):
        self.aliases = []
        self.array = np.zeros(self.random.randrange(1, 300), np.float32)
        self.blob = Blob(self.array.shape, device=self.device)

    def step(self):
        self.count += 1
        moves = [self.read, self.write, self.alias, self.write_alias, self.compute]
        moves += [self.fail, self.push, self.pickle, self.view, self.part, self.resize]
        move = self.random.choice(moves)
        move()
        if self.random.random() < 0.02:
            self.start()

    def read(self):
        for access in self.random.sample(("cpu_data", "gpu_data"), 2):
            seen = getattr(self.blob, access)()
            assert np.array_equal(seen, self.array), access

    def write(self):
        # Writes on the other side make aliases stale.
        self.aliases.clear()
        access = self.random.choice(
            ("mutable_cpu", "mutable_gpu", "overwrite_cpu", "overwrite_gpu")
        )
        getattr(self.blob, f"{access}_data")()[...] = self.count % 1000
        self.array[...] = self.count % 1000

    def alias(self):
        self.aliases.clear()
        side = self.random.choice((self.blob.cpu, self.blob.gpu))
        self.aliases.append(self.random.choice((np.asarray, np.from_dlpack, from_dlpack))(side))

    def write_alias(self):
        for alias in self.aliases:
            alias[0] = self.array[0] = self.count % 1000

    def compute(self):
        result = self.blob * 2 + 1
        assert np.array_equal(result.cpu_data(), self.array * 2 + 1)
        assert float(xp.sum(self.blob)) == pytest.approx(float(self.array.sum()), rel=1e-4)

    def fail(self):
        head = self.blob.head
        with self.backend.failing(transfer=1, allocation=1, host_allocation=1):
            for access in ("cpu_data", "gpu_data"):
                try:
                    getattr(self.blob, access)()
                except (MemoryError, RuntimeError):
                    assert self.blob.head is head
        self.read()

    def push(self):
        if self.blob.head is xp.Head.HEAD_AT_CPU:
            self.backend.delay = self.random.choice((0, 0, 0.001))
            self.blob.async_gpu_push()
        self.read()

    def pickle(self):
        other = pickle.loads(pickle.dumps(self.blob, self.random.choice((4, 5))))
        assert np.array_equal(other.cpu_data(), self.array)

    def view(self):
        self.aliases.clear()
        self.blob[::2] = self.count % 7
        self.array[::2] = self.count % 7

    def part(self):
        here, there = self.random.sample(("cpu", "gpu"), 2)
        first, stop = sorted(self.random.sample(range(len(self.array) + 1), 2))
        seen = getattr(self.blob[first:stop], f"{here}_data")()
        assert np.array_equal(seen, self.array[first:stop]), here
        self.aliases.clear()
        first, stop = sorted(self.random.sample(range(len(self.array) + 1), 2))
        access = self.random.choice(("mutable", "overwrite"))
        getattr(self.blob[first:stop], f"{access}_{there}_data")()[...] = self.count % 999
        self.array[first:stop] = self.count % 999

    def resize(self):
        self.aliases.clear()
        size = self.random.randrange(1, 300)
        grows = size * 4 > self.blob.memory.nbytes
        self.blob.resize(size)
        kept = 0 if grows else min(size, len(self.array))
        self.array = np.concatenate([self.array[:kept], np.zeros(size - kept, np.float32)])


class Files:
    """A model that is edited, saved over itself, converted and read back."""

    def __init__(self, number, folder):
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.path = folder / f"{number}.caffemodel"
        self.value = 0
        self.count = 0
        values = np.zeros((50, 20), np.float32)
        save_model(
            ModelFile("net", [Layer("a", blobs=[values]), Layer("b", blobs=[values])]), self.path
        )

    def step(self):
        self.count += 1
        with open_model(self.path) as model:
            blob = model["a"].blobs[0]
            assert (blob.cpu_data() == self.value).all()
            self.value = self.count
            blob.mutable_cpu_data()[...] = self.value
            save_model(model, self.path)
        if self.count % 10 == 0:
            target = self.path.with_suffix(self.random.choice((".npz", ".h5", ".caffemodel.h5")))
            convert(self.path, target)
            with open_weights(target) as weights:
                assert any((one.cpu_data() == self.value).all() for one in weights.tensors.values())


class Shared:
    """A Blob that several threads read and write in turn. They drop aliases outside their turn."""

    blob = Blob(64, "int64", device="simulated")
    turn = threading.Lock()
    written = 0

    def __init__(self, number):
        self.side = "cpu" if number % 2 else "gpu"
        self.count = 0

    def step(self):
        self.count += 1
        with Shared.turn:
            alias = np.from_dlpack(getattr(Shared.blob, self.side))
            Shared.written += 1
            alias[...] = Shared.written
            other = Shared.blob.gpu_data() if self.side == "cpu" else Shared.blob.cpu_data()
            assert (other == Shared.written).all()
        del alias


@pytest.mark.long
def test_nothing_goes_wrong_and_memory_does_not_grow():
    stop = threading.Event()
    problems = []

    def run(worker):
        try:
            while not stop.is_set():
                worker.step()
        except BaseException as error:  # noqa: BLE001  # the test reports any error
            problems.append(error)
            stop.set()

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Warning filters are not thread-safe, so this one is set once, for all threads.
        warnings.simplefilter("ignore", StaleAliasWarning)
        workers = [Program(number) for number in range(1, PROGRAMS + 1)]
        workers += [Files(number, Path(folder)) for number in range(2)]
        workers += [Shared(number) for number in range(3)]
        threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        stop.wait(SECONDS / 4)
        sizes = []
        while time.monotonic() < end and not stop.wait(min(1.0, SECONDS / 20)):
            sizes.append((resident_nbytes(), sys.getallocatedblocks()))
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        if problems:
            raise problems[0]
    assert all(worker.count > 10 for worker in workers)
    gc.collect()
    part = max(1, len(sizes) // 4)
    for place, most in ((0, MOST_GROWTH), (1, MOST_BLOCKS)):
        # Minimums, because at any moment threads are in the middle of something.
        first = min(size[place] for size in sizes[:part])
        last = min(size[place] for size in sizes[-part:])
        assert last - first < most
