"""A long run of everything at once: in several threads, cycles of `leak_cycles` and files.

``SYNCBLOB_SOAK`` sets the duration in seconds; the default is 3. Meanwhile, the memory of the
process must not grow. What the threads find in Blobs is compared in tests/aliases/.
"""

import gc
import os
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
from leak_cycles import QUICK

from syncblob import Layer, ModelFile, StaleAliasWarning, open_model, save_model
from syncblob.caffe.convert import convert, open_weights

SECONDS = float(os.environ.get("SYNCBLOB_SOAK", "3"))
# The growth of allocators and caches over time. A leak exceeds it within seconds.
MOST_GROWTH = 64_000_000
MOST_BLOCKS = 20_000


# These disturb other threads, or count what they do.
ALONE = {
    "an_exception_in_the_middle",
    "a_push_that_fails",
    "an_alias_that_was_left_behind",
    "records",
}


class Cycles:
    """The other cycles, in a random order."""

    def __init__(self, number):
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.count = 0

    def step(self):
        self.count += 1
        self.random.choice([each for each in QUICK if each.__name__ not in ALONE])()


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
        workers = [Cycles(number) for number in range(4)]
        workers += [Files(number, Path(folder)) for number in range(2)]
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
