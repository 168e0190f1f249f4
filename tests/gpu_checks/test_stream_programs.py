"""Random programs with kernels on several streams, on a CUDA device and on the model of one.

A program uses a few Blobs from both sides: accessors, operations, parts, pushes, aliases, and
kernels on several streams, some of which start late. The program orders conflicting kernels of one
Blob, as a user would; syncblob has to order everything else. NumPy arrays give the expected result
of each read. A program is made from a number, which a failure reports; SYNCBLOB_PROGRAMS of them
run.
"""

import os
import random

import cupy_model
import numpy as np
import pytest
from cuda_model import Machine
from program_devices import run_programs

from gpu_checks.device import delay, side_stream, warm_up
from syncblob import Blob, Head
from syncblob.memory import CONST

STEPS = 30
SIZE = 96
# About 6 ms.
SHORT = 10_000_000
NUMBER = int(os.environ.get("SYNCBLOB_PROGRAMS", "15"))


class Kept:
    """A Blob, its expected contents, and the kernels of the program that use it."""

    def __init__(self, number):
        self.name = f"blob{number}"
        self.alias = None
        # The streams whose kernels may still run, with an event after the last kernel of each.
        self.events = {}
        self.renew()

    def renew(self):
        self.blob = Blob(SIZE, "int32", device="cuda:0")
        self.truth = np.zeros(SIZE, np.int32)

    def settle(self):
        for event in self.events.values():
            event.synchronize()
        self.events.clear()


class Program:
    """One random program, made from a number."""

    def __init__(self, number):
        import cupy

        self.random = random.Random(number)  # noqa: S311  # no secret
        self.cupy = cupy
        self.streams = [cupy.cuda.Stream.null, cupy.cuda.Stream(), side_stream(), side_stream()]
        self.kept = [Kept(each) for each in range(2)]
        self.trace = []
        # The results of kernels that read, and the expected results.
        self.reads = []

    def run(self):
        doing = [self.host_write, self.host_write, self.host_read, self.push, self.item]
        doing += [self.kernel_write, self.kernel_write, self.kernel_read, self.kernel_read]
        doing += [self.alias_write, self.drop_alias, self.replace, self.operation, self.operation]
        doing += [self.assign, self.evict]
        for _ in range(STEPS):
            self.random.choice(doing)(self.random.choice(self.kept))
        self.cupy.cuda.Device(0).synchronize()
        for seen, expected in self.reads:
            assert np.array_equal(seen.get(), expected)
        for kept in self.kept:
            assert np.array_equal(kept.blob.cpu_data(), kept.truth)

    def chance(self, probability):
        return self.random.random() < probability

    def part(self):
        """Choose a part, usually the whole."""
        if self.chance(0.5):
            return slice(None)
        first = self.random.randrange(SIZE - 1)
        return slice(first, self.random.randrange(first + 1, SIZE + 1))

    def stream(self, kept, text):
        """Choose a stream, ordered after the kernels that the program has launched on a Blob."""
        place = self.random.randrange(len(self.streams))
        self.trace.append(f"stream {place}: {kept.name} {text}")
        for event in kept.events.values():
            self.streams[place].wait_event(event)
        return place, self.streams[place]

    # --- the host ---

    def host_write(self, kept):
        part, value = self.part(), self.random.randrange(1000)
        how = self.random.choice(["mutable_cpu_data", "overwrite_cpu_data"])
        self.trace.append(f"{kept.name}[{part}].{how}()[...] = {value}")
        if self.chance(0.2):
            # In some programs only, so that the others test syncblob's own waits.
            kept.settle()
        kept.alias = None
        getattr(kept.blob[part], how)()[...] = value
        kept.truth[part] = value

    def host_read(self, kept):
        part = self.part()
        self.trace.append(f"read {kept.name}[{part}] on the host")
        assert np.array_equal(kept.blob[part].cpu_data(), kept.truth[part])

    def item(self, kept):
        place = self.random.randrange(SIZE)
        self.trace.append(f"{kept.name}[{place}].item()")
        assert kept.blob[place].item() == kept.truth[place]

    # --- the device ---

    def push(self, kept):
        stream, named = self.random.choice(self.streams), self.chance(0.5)
        to = self.random.choice(["cpu", "cuda:0"])
        self.trace.append(f"{kept.name}.prefetch({to!r}) or push, named: {named}")
        if named and kept.blob.head is Head.HEAD_AT_CPU:
            kept.blob.async_gpu_push(stream)
        else:
            kept.blob.prefetch(to)

    def assign(self, kept):
        """Assign to a part by an operation of syncblob's, on some stream."""
        part, value = self.part(), self.random.randrange(100)
        place, stream = self.stream(kept, f"[{part}] = {value}")
        kept.alias = None
        with stream:
            kept.blob[part] = value
        kept.truth[part] = value
        kept.events[place] = stream.record()

    def evict(self, kept):
        self.trace.append(f"evict {kept.name}")
        kept.alias = None
        kept.blob.evict()

    def operation(self, kept):
        """Read a part by an operation of syncblob's, on some stream, perhaps late."""
        part = self.part()
        place, stream = self.stream(kept, f"operation on {part}")
        with stream:
            home = kept.blob[part].home
            array = kept.blob[part].array_in(home, CONST, "test")
            if self.chance(0.5):
                delay(stream, SHORT)
            # The model's copies are queued, as CuPy's are.
            copied = home.compute(home.copy, array)
        self.reads.append((copied, kept.truth[part].copy()))
        kept.events[place] = stream.record()

    def kernel_write(self, kept):
        part, value, late = self.part(), self.random.randrange(1, 100), self.chance(0.3)
        place, stream = self.stream(kept, f"[{part}] += {value}, late: {late}")
        kept.alias = None
        with stream:
            self.change(kept.blob[part].mutable_gpu_data(), value, stream, late=late)
        kept.truth[part] += value
        kept.events[place] = stream.record()

    def change(self, array, value, stream, *, late):
        """Launch a kernel that adds, without waiting for anything."""
        if late:
            delay(stream, SHORT)
        if isinstance(array, cupy_model.ndarray):
            cupy_model.launch(lambda a: a.__iadd__(value), array, stream=stream)
        else:
            array += value

    def kernel_read(self, kept):
        """Read a part on some stream, perhaps late. Later writes must not be seen."""
        part, late = self.part(), self.chance(0.5)
        place, stream = self.stream(kept, f"read [{part}], late: {late}")
        with stream:
            array = kept.blob[part].gpu_data()
            seen = self.cupy.empty(array.shape, array.dtype)
            if late:
                delay(stream, SHORT)
            seen[...] = array
        self.reads.append((seen, kept.truth[part].copy()))
        kept.events[place] = stream.record()

    def alias_write(self, kept):
        """Write through an alias of the device's side, and keep the alias."""
        value = self.random.randrange(1, 100)
        place, stream = self.stream(kept, f"alias += {value}")
        with stream:
            if kept.alias is None:
                kept.alias = self.cupy.asarray(kept.blob.gpu)
            self.change(kept.alias, value, stream, late=False)
        kept.truth += value
        kept.events[place] = stream.record()

    def drop_alias(self, kept):
        self.trace.append(f"drop the alias of {kept.name}")
        kept.alias = None

    def replace(self, kept):
        """Drop a Blob, even if kernels still use it, and make another."""
        if self.chance(0.3):
            self.trace.append(f"{kept.name} is a new one")
            # CuPy's pool reuses memory in the order of the stream it was allocated on. The program
            # has to wait for kernels on other streams.
            kept.settle()
            kept.alias = None
            kept.renew()


@pytest.mark.parametrize("device", ["lazy", "eager", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_random_programs_on_several_streams(device):
    if device == "cuda":
        warm_up("int32", "uint8")
        run_programs(Program, range(NUMBER))
        return
    with cupy_model.installed(Machine(1, eager=device == "eager")) as cupy:
        cupy.is_model = True
        run_programs(Program, range(NUMBER))
