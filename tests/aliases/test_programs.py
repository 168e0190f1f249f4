"""Random programs with aliases: no read returns an old value, no write is lost unannounced.

Each program makes Blobs, aliases of several consumers, slices of them, and accesses in any order,
beside a model that knows the true contents. A program is made from a number, which a failure names.
``SYNCBLOB_PROGRAMS`` sets how many run; without it, 24,000 where ``CI`` is set, else 4,000.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from syncblob import Blob, Head, StaleAliasWarning, simulated

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import torch
except ImportError:
    torch = None

PROGRAMS = int(os.environ.get("SYNCBLOB_PROGRAMS", "24000" if "CI" in os.environ else "4000"))
STEPS = 18
CPU, GPU = "cpu", "gpu"
OTHER = {CPU: GPU, GPU: CPU}
HEADS = {
    frozenset(): Head.UNINITIALIZED,
    frozenset({CPU}): Head.HEAD_AT_CPU,
    frozenset({GPU}): Head.HEAD_AT_GPU,
    frozenset({CPU, GPU}): Head.SYNCED,
}


BACKEND = simulated(0)


class Capsule:
    """A producer with one capsule, for a consumer that takes it later or never."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


CONSUMERS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "numpy dlpack": np.from_dlpack,
    "capsule": lambda side: Capsule(side.__dlpack__(max_version=(1, 0))),
    "old capsule": lambda side: Capsule(side.__dlpack__()),
    "memoryview": lambda side: memoryview(np.asarray(side)),
}
if torch is not None:
    CONSUMERS["torch"] = torch.from_dlpack
    CONSUMERS["torch over numpy"] = lambda side: torch.from_numpy(np.asarray(side))


@dataclass(eq=False)
class Truth:
    """What a memory holds, and Caffe's head for programs without aliases."""

    values: list[int]
    valid: frozenset[str] = frozenset()

    def access(self, side: str, *, reads: bool) -> None:
        self.valid = self.valid | {side} if reads and self.valid else frozenset({side})


@dataclass(eq=False)
class Alias:
    """What a consumer keeps: an array of some library, and where it starts in the memory."""

    array: Any
    truth: Truth
    side: str
    first: int
    stale: bool = False
    was_stale: bool = False


class Program:
    """One random program."""

    def __init__(self, number: int, *, aliases: bool) -> None:
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.with_aliases = aliases
        self.trace: list[str] = []
        self.written = 0
        size = self.random.randint(1, 6)
        self.blobs = [Blob(size, "int32", device="simulated") for _ in range(2)]
        self.truths = [Truth([0] * size) for _ in range(2)]
        self.aliases: list[Alias] = []

    def run(self) -> None:
        moves = [self.read, self.read, self.write, self.write, self.share, self.resize]
        moves += [self.push, self.adopt, self.fail]
        if self.with_aliases:
            moves += [self.make_alias, self.make_alias, self.write_alias, self.write_alias]
            moves += [self.read_alias, self.slice_alias, self.drop_alias, self.drop_elsewhere]
        for _ in range(STEPS):
            self.random.choice(moves)()
            if not self.with_aliases:
                for blob, truth in zip(self.blobs, self.truths, strict=True):
                    assert blob.head is HEADS[truth.valid]
        for index in range(2):
            self.check_read(index, CPU)
            self.check_read(index, GPU)

    # --- Blobs -----------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.append(text)

    def fresh(self, count: int) -> list[int]:
        self.written += count
        return list(range(self.written - count + 1, self.written + 1))

    def check_read(self, index: int, side: str) -> None:
        self.note(f"read {index} on the {side}")
        blob, truth = self.blobs[index], self.truths[index]
        seen = (blob.cpu_data() if side == CPU else blob.gpu_data()).tolist()
        assert seen == truth.values[: blob.size], f"{side}: {seen}, newest is {truth.values}"
        truth.access(side, reads=True)
        if not any(alias.side != side for alias in self.of(truth)):
            self.revive(truth, side)

    def revive(self, truth: Truth, side: str) -> None:
        """Trust again what was left behind on a side that has caught up: it is the same buffer."""
        for alias in self.of(truth):
            alias.stale = alias.stale and alias.side != side

    def read(self) -> None:
        self.check_read(self.random.randrange(2), self.random.choice((CPU, GPU)))

    def write(self) -> None:
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        kind = self.random.choice(("mutable", "overwrite"))
        blob, truth = self.blobs[index], self.truths[index]

        def access() -> None:
            values = self.fresh(blob.size)
            getattr(blob, f"{kind}_{side}_data")()[...] = values
            truth.values[: blob.size] = values

        self.note(f"{kind} {index} on the {side}")
        if self.announced(access, [alias for alias in self.of(truth) if alias.side != side]):
            truth.access(side, reads=False)
            self.revive(truth, side)

    def push(self) -> None:
        """Start an upload that arrives later, or fails on its way."""
        index = self.random.randrange(2)
        blob, truth = self.blobs[index], self.truths[index]
        if blob.head is not Head.HEAD_AT_CPU:
            return
        delay = self.random.choice((0, 0, 0.001))
        self.note(f"push {index}, delayed by {delay}")
        BACKEND.delay = delay
        if self.random.random() < 0.2:
            # An upload of another memory that is still to come must not take the failure.
            BACKEND.synchronize()
            with BACKEND.failing(transfer=1):
                blob.async_gpu_push()
                with pytest.raises(RuntimeError, match="injected"):
                    blob.gpu_data()
            assert blob.head is Head.HEAD_AT_CPU
            return
        blob.async_gpu_push()
        truth.access(GPU, reads=True)

    def adopt(self) -> None:
        """Replace the contents by an array."""
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        blob, truth = self.blobs[index], self.truths[index]
        if blob.size != len(truth.values):
            return
        self.note(f"adopt an array as {index} on the {side}")
        values = self.fresh(blob.size)
        array = np.array(values, np.int32)
        if self.announced(lambda: getattr(blob, f"set_{side}_data")(array), self.of(truth)):
            truth.values = values
            truth.valid = frozenset({side})
            # Those of the side itself are over a buffer that is no longer the Blob's.
            self.aliases = [
                alias for alias in self.aliases if alias.truth is not truth or alias.side != side
            ]

    def fail(self) -> None:
        """Let an access fail: nothing has changed, and the next one succeeds."""
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        blob, truth = self.blobs[index], self.truths[index]
        head = blob.head
        # Without aliases on the other side nothing else can happen than the failure.
        if head not in (Head.HEAD_AT_CPU, Head.HEAD_AT_GPU) or self.of(truth):
            return
        if (head is Head.HEAD_AT_CPU) == (side == CPU):
            return
        self.note(f"a transfer of {index} to the {side} fails")
        access = self.random.choice(("", "mutable_"))
        BACKEND.synchronize()
        with BACKEND.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
            getattr(blob, f"{access}{side}_data")()
        assert blob.head is head

    def share(self) -> None:
        first, second = self.blobs
        if first.size != second.size or self.truths[0] is self.truths[1]:
            return
        self.note("share")
        left = self.truths[0]
        if self.announced(lambda: first.share_data(second), self.of(left)):
            self.truths[0] = self.truths[1]

    def resize(self) -> None:
        index = self.random.randrange(2)
        blob, truth = self.blobs[index], self.truths[index]
        if self.random.random() < 0.5:
            count = self.random.randint(1, len(truth.values))
            if blob.memory.nbytes // 4 == len(truth.values):
                self.note(f"shrink {index} to {count}")
                blob.resize(count)
                alone = self.truths[0] is not self.truths[1] and not self.of(truth)
                truth.values = truth.values[:count] if alone else truth.values
            return
        count = blob.memory.nbytes // 4 + 1
        self.note(f"grow {index} to {count}")
        if self.announced(lambda: blob.resize(count), self.of(truth)):
            self.truths[index] = Truth([0] * count)

    def of(self, truth: Truth) -> list[Alias]:
        return [alias for alias in self.aliases if alias.truth is truth]

    def announced(self, action: Callable[[], None], left_behind: list[Alias]) -> bool:
        """Do what leaves aliases behind: it warns if there are any, or raises and changes nothing.

        Returns whether it was done.
        """
        if left_behind and self.random.random() < 0.3:
            heads = [blob.head for blob in self.blobs]
            shapes = [blob.shape for blob in self.blobs]
            with warnings.catch_warnings():
                warnings.simplefilter("error", StaleAliasWarning)
                with pytest.raises(StaleAliasWarning):
                    action()
            assert [blob.head for blob in self.blobs] == heads
            assert [blob.shape for blob in self.blobs] == shapes
            return False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            action()
        assert [warning.category for warning in caught] == [StaleAliasWarning] * bool(left_behind)
        for alias in left_behind:
            alias.stale = alias.was_stale = True
        return True

    # --- aliases ---------------------------------------------------------------------------------

    def make_alias(self) -> None:
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        consumer = self.random.choice(list(CONSUMERS))
        blob, truth = self.blobs[index], self.truths[index]
        overwrite = self.random.random() < 0.2
        first = self.random.randrange(blob.size) if self.random.random() < 0.3 else 0
        view = blob[first:] if first else blob
        lender = getattr(view, side)
        self.note(f"{consumer} of {index}[{first}:] on the {side}{', overwrite' * overwrite}")

        def access() -> None:
            array = CONSUMERS[consumer](lender.overwrite if overwrite else lender)
            self.aliases.append(Alias(array, truth, side, first))

        if self.announced(access, [alias for alias in self.of(truth) if alias.side != side]):
            truth.access(side, reads=False)
            self.revive(truth, side)
            if overwrite and not first and blob.size == len(truth.values):
                self.store(self.aliases[-1])

    def consumed(self, alias: Alias) -> Any:
        if isinstance(alias.array, Capsule):
            alias.array = np.asarray(np.from_dlpack(alias.array))
            if not alias.array.flags.writeable:
                # NumPy takes capsules before 1.0 for read-only: write as other consumers do.
                alias.array = self.made_writable(alias.array)
        return alias.array

    def made_writable(self, array: Any) -> Any:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        holder = type("Holder", (), {})()
        holder.__array_interface__ = interface
        holder.keep = array
        return np.asarray(holder)

    def store(self, alias: Alias) -> None:
        array = self.consumed(alias)
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            assert alias.was_stale, "it raises only if it was left behind once"
            return
        count = len(array)
        values = self.fresh(count)
        for place, value in enumerate(values):
            array[place] = value
        alias.truth.values[alias.first : alias.first + count] = values

    def fresh_alias(self) -> Alias | None:
        usable = [alias for alias in self.aliases if not alias.stale]
        return self.random.choice(usable) if usable else None

    def write_alias(self) -> None:
        alias = self.fresh_alias()
        if alias is not None:
            self.note(f"write through alias {self.aliases.index(alias)}")
            self.store(alias)

    def read_alias(self) -> None:
        alias = self.fresh_alias()
        if alias is not None:
            self.note(f"read alias {self.aliases.index(alias)}")
            array = self.consumed(alias)
            seen = [int(value) for value in array]
            assert seen == alias.truth.values[alias.first : alias.first + len(array)]

    def slice_alias(self) -> None:
        """Keep a part, and drop the whole."""
        alias = self.fresh_alias()
        if alias is not None and not isinstance(alias.array, memoryview):
            self.note(f"slice alias {self.aliases.index(alias)}")
            array = self.consumed(alias)
            if len(array) > 1:
                alias.array = array[1:]
                alias.first += 1

    def drop_alias(self) -> None:
        if self.aliases:
            place = self.random.randrange(len(self.aliases))
            self.note(f"drop alias {place}")
            alias = self.aliases.pop(place)
            if self.random.random() < 0.02:
                loop: list[Any] = [alias.array]
                loop.append(loop)
                del loop, alias
                gc.collect()

    def drop_elsewhere(self) -> None:
        """Drop an alias in another thread."""
        if self.aliases and self.random.random() < 0.1:
            place = self.random.randrange(len(self.aliases))
            self.note(f"drop alias {place} in a thread")
            cell = [self.aliases.pop(place)]
            thread = threading.Thread(target=cell.clear)
            thread.start()
            thread.join()


def run(numbers: range, *, aliases: bool) -> None:
    for number in numbers:
        program = Program(number, aliases=aliases)
        try:
            program.run()
        except BaseException:
            print(f"program {number}:", *program.trace, sep="\n  ")  # noqa: T201  # for the report
            raise


@pytest.mark.parametrize("part", range(4))
def test_no_program_reads_old_values_or_loses_a_write_unannounced(part: int) -> None:
    run(range(part, PROGRAMS, 4), aliases=True)


def test_programs_with_borrows_only_go_through_caffes_transitions() -> None:
    run(range(PROGRAMS // 4), aliases=False)
