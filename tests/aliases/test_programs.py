"""Random programs with aliases: no read is stale, and no write is lost without a warning.

Each program makes Blobs, aliases of several consumers, slices of them, and accesses in any order.
Accesses and aliases may cover a part only. A model has the true contents and the holders of each
element. A program is made from a number, which a failure shows. ``SYNCBLOB_PROGRAMS`` sets how many
programs run.
"""

from __future__ import annotations

import gc
import random
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiers
from program_devices import Cuda, Simulated, run_programs

from syncblob import Blob, Head, StaleAliasWarning

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import torch
except ImportError:
    torch = None

STEPS = 18
CPU, GPU = "cpu", "gpu"
OTHER = {CPU: GPU, GPU: CPU}
HEADS = {
    frozenset(): Head.UNINITIALIZED,
    frozenset({CPU}): Head.HEAD_AT_CPU,
    frozenset({GPU}): Head.HEAD_AT_GPU,
    frozenset({CPU, GPU}): Head.SYNCED,
}


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


class Truth:
    """The true contents of a memory, and the sides that hold each element."""

    def __init__(self, size: int) -> None:
        self.values = [0] * size
        self.valid: list[frozenset[str]] = [frozenset()] * size

    def access(
        self, side: str, places: range, aliases: list[Alias], *, reads: bool, later: bool = False
    ) -> None:
        """Apply an access of some places; with `later`, one that takes effect later."""
        if not any(self.valid):
            # The first access makes a buffer and fills all of it.
            self.valid = [frozenset({side})] * len(self.values)
        for place in places:
            if not reads:
                self.valid[place] = frozenset({side})
            elif side not in self.valid[place]:
                writers = {alias.side for alias in aliases if place in alias.given}
                if OTHER[side] in writers or (later and writers):
                    # It must be copied again, because an alias may write it at any moment.
                    continue
                self.valid[place] = frozenset({side} if side in writers else {CPU, GPU})

    @property
    def all(self) -> range:
        return range(len(self.values))

    def head(self, places: range) -> Head:
        holders = [self.valid[place] for place in places]
        common = frozenset.intersection(*holders)
        return HEADS[common] if common or not any(holders) else Head.SPLIT

    def lacking(self, side: str, places: range) -> list[range]:
        """Return the parts that a side lacks."""
        parts: list[range] = []
        for place in places:
            if side not in self.valid[place]:
                grows = parts and parts[-1].stop == place
                start = parts.pop().start if grows else place
                parts.append(range(start, place + 1))
        return parts


@dataclass(eq=False)
class Alias:
    """An alias that a consumer keeps: an array of some library, and its offset in the memory.

    The memory knows the range that it exported, but not which part of it the consumer keeps.
    """

    array: Any
    truth: Truth
    side: str
    first: int
    given: range
    stale: set[int] = field(default_factory=set)
    was_stale: bool = False

    def is_fresh(self) -> bool:
        """Tell whether the part that is kept shows the newest contents."""
        return self.stale.isdisjoint(range(self.first, self.given.stop))


class Program:
    """One random program."""

    def __init__(self, number: int, device: Simulated | Cuda, *, aliases: bool) -> None:
        self.device = device
        self.controls = device.controls
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.with_aliases = aliases
        self.trace: list[str] = []
        self.written = 0
        size = self.random.randint(1, 6)
        self.blobs = [Blob(size, "int32", device=device.name) for _ in range(2)]
        self.truths = [Truth(size) for _ in range(2)]
        self.aliases: list[Alias] = []

    def run(self) -> None:
        try:
            self.run_steps()
        finally:
            self.device.close()

    def run_steps(self) -> None:
        moves = [self.read, self.read, self.write, self.write, self.share, self.resize]
        moves += [self.push, self.adopt, self.fail]
        if self.with_aliases:
            moves += [self.make_alias, self.make_alias, self.write_alias, self.write_alias]
            moves += [self.read_alias, self.slice_alias, self.drop_alias, self.drop_elsewhere]
        for _ in range(STEPS):
            self.random.choice(moves)()
            for blob, truth in zip(self.blobs, self.truths, strict=True):
                assert blob.head is truth.head(truth.all)
        for index in range(2):
            self.check_read(index, CPU)
            self.check_read(index, GPU)

    # --- Blobs -----------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.append(text)

    def fresh(self, count: int) -> list[int]:
        self.written += count
        return list(range(self.written - count + 1, self.written + 1))

    def part(self, index: int) -> tuple[Blob, range, range, str]:
        """Return a Blob or a view of it, its places, those that its accesses cover, and a name."""
        blob, truth = self.blobs[index], self.truths[index]
        if self.random.random() < 0.6:
            # Accesses of a Blob that is not a view cover all of its memory, as in Caffe.
            return blob, range(blob.size), truth.all, str(index)
        first = self.random.randrange(blob.size)
        places = range(first, self.random.randint(first + 1, blob.size))
        return blob[first : places.stop], places, places, f"{index}[{first}:{places.stop}]"

    def check_read(self, index: int, side: str) -> None:
        truth = self.truths[index]
        blob, places, accessed, name = self.part(index)
        self.note(f"read {name} on the {side}")
        seen = [*map(int, np.asarray(self.lent(blob, f"{side}_data")))]
        newest = truth.values[places.start : places.stop]
        assert seen == newest, f"{side}: {seen}, newest is {newest}"
        truth.access(side, accessed, self.of(truth), reads=True)
        watched = {place for alias in self.of(truth) if alias.side != side for place in alias.given}
        self.revive(truth, side, set(accessed) - watched)

    def lent(self, blob: Blob, accessor: str) -> Any:
        """Return a borrow in a form that can be read."""
        return self.device.seen(getattr(blob, accessor)())

    def revive(self, truth: Truth, side: str, places: set[int]) -> None:
        """Mark aliases of an updated side as fresh again: they are over the same buffer."""
        for alias in self.of(truth):
            if alias.side == side:
                alias.stale -= places

    def read(self) -> None:
        self.check_read(self.random.randrange(2), self.random.choice((CPU, GPU)))

    def write(self) -> None:
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        kind = self.random.choice(("mutable", "overwrite"))
        truth = self.truths[index]
        blob, places, accessed, name = self.part(index)

        def access() -> None:
            values = self.fresh(blob.size)
            self.lent(blob, f"{kind}_{side}_data")[...] = values
            truth.values[places.start : places.stop] = values

        self.note(f"{kind} {name} on the {side}")
        if self.announced(access, self.opposite(truth, side, accessed), accessed):
            truth.access(side, accessed, self.of(truth), reads=False)
            self.revive(truth, side, set(accessed))

    def push(self) -> None:
        """Start an upload that arrives later or fails."""
        index = self.random.randrange(2)
        truth = self.truths[index]
        blob, _, accessed, name = self.part(index)
        if truth.head(accessed) is not Head.HEAD_AT_CPU:
            with pytest.raises(RuntimeError, match="starts from HEAD_AT_CPU"):
                blob.async_gpu_push()
            return
        delay = self.random.choice((0, 0, 0.001))
        self.note(f"push {name}, delayed by {delay}")
        self.controls.delay = delay
        if self.random.random() < 0.2:
            # The failure must not hit a pending upload of another memory.
            self.controls.synchronize()
            with self.controls.failing(transfer=1):
                if self.device.fails_at_once:
                    with pytest.raises(RuntimeError, match="injected"):
                        blob.async_gpu_push()
                    return
                blob.async_gpu_push()
                with pytest.raises(RuntimeError, match="injected"):
                    blob.gpu_data()
            # Only the first piece has not arrived.
            for part in truth.lacking(GPU, accessed)[1:]:
                truth.access(GPU, part, self.of(truth), reads=True, later=True)
            return
        blob.async_gpu_push()
        truth.access(GPU, accessed, self.of(truth), reads=True, later=True)

    def adopt(self) -> None:
        """Adopt an array as new contents."""
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        blob, truth = self.blobs[index], self.truths[index]
        if blob.size != len(truth.values):
            return
        self.note(f"adopt an array as {index} on the {side}")
        values = self.fresh(blob.size)
        array = np.array(values, np.int32)
        if side == GPU:
            array = self.device.array(array)
        if self.announced(lambda: getattr(blob, f"set_{side}_data")(array), self.of(truth)):
            truth.values = values
            truth.valid = [frozenset({side})] * len(values)
            # Aliases of that side are over a buffer that the Blob no longer has.
            self.aliases = [
                alias for alias in self.aliases if alias.truth is not truth or alias.side != side
            ]

    def fail(self) -> None:
        """Make an access fail: nothing changes, and the next one succeeds."""
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        truth = self.truths[index]
        blob, _, accessed, name = self.part(index)
        # Without aliases, the failure is the only effect.
        if self.of(truth) or not any(truth.valid):
            return
        count = len(truth.lacking(side, accessed))
        if not count:
            return
        # Any of several pieces can fail.
        which = self.random.randint(1, count)
        self.note(f"transfer {which} of {name} to the {side} fails")
        access = self.random.choice(("", "mutable_"))
        self.controls.synchronize()
        with self.controls.failing(transfer=which), pytest.raises(RuntimeError, match="injected"):
            getattr(blob, f"{access}{side}_data")()
        assert blob.head is truth.head(accessed)

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
                if self.truths[0] is not self.truths[1] and not self.of(truth):
                    truth.values, truth.valid = truth.values[:count], truth.valid[:count]
            return
        count = blob.memory.nbytes // 4 + 1
        self.note(f"grow {index} to {count}")
        if self.announced(lambda: blob.resize(count), self.of(truth)):
            self.truths[index] = Truth(count)

    def of(self, truth: Truth) -> list[Alias]:
        return [alias for alias in self.aliases if alias.truth is truth]

    def opposite(self, truth: Truth, side: str, places: range) -> list[Alias]:
        """Return the aliases of the other side that overlap some places."""
        return [
            alias
            for alias in self.of(truth)
            if alias.side != side and not set(alias.given).isdisjoint(places)
        ]

    def announced(
        self, action: Callable[[], None], left_behind: list[Alias], places: range | None = None
    ) -> bool:
        """Do an action. If it makes aliases stale, it warns, or raises and changes nothing.

        The elements of the aliases at some places become stale, or all elements. Returns whether it
        was done.
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
            alias.stale.update(alias.given if places is None else places)
            alias.was_stale = True
        return True

    # --- aliases ---------------------------------------------------------------------------------

    def make_alias(self) -> None:
        index = self.random.randrange(2)
        side = self.random.choice((CPU, GPU))
        consumer = self.random.choice(list(CONSUMERS))
        truth = self.truths[index]
        blob, places, accessed, name = self.part(index)
        overwrite = self.random.random() < 0.2
        lender = getattr(blob, side)
        take = CONSUMERS[consumer]
        if side == GPU and not self.device.revocable:
            consumer, take = "DLPack", self.device.from_dlpack
        self.note(f"{consumer} of {name} on the {side}{', overwrite' * overwrite}")

        def access() -> None:
            array = take(lender.overwrite if overwrite else lender)
            self.aliases.append(Alias(array, truth, side, places.start, places))

        if self.announced(access, self.opposite(truth, side, accessed), accessed):
            truth.access(side, accessed, self.of(truth), reads=False)
            self.revive(truth, side, set(accessed))
            if overwrite:
                self.store(self.aliases[-1])

    def consumed(self, alias: Alias) -> Any:
        if isinstance(alias.array, Capsule):
            alias.array = np.asarray(np.from_dlpack(alias.array))
            if not alias.array.flags.writeable:
                # NumPy makes arrays of capsules before 1.0 read-only; write as other consumers do.
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
        usable = [alias for alias in self.aliases if alias.is_fresh()]
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
        """Keep a part and drop the whole."""
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


def some(numbers: range, device: type[Simulated | Cuda]) -> range:
    """Return all numbers, or fewer on CUDA devices, where programs take longer."""
    return numbers if device is Simulated else numbers[::8]


@tiers.programs(400, 8000, variable="SYNCBLOB_PROGRAMS")
def test_no_program_reads_old_values_or_loses_a_write_unannounced(
    numbers: range, program_device: type[Simulated | Cuda]
) -> None:
    run_programs(
        lambda number: Program(number, program_device(), aliases=True),
        some(numbers, program_device),
    )


@tiers.programs(400, 8000, variable="SYNCBLOB_PROGRAMS")
def test_programs_with_borrows_only_go_through_caffes_transitions(
    numbers: range, program_device: type[Simulated | Cuda]
) -> None:
    run_programs(
        lambda number: Program(number, program_device(), aliases=False),
        some(numbers[::4], program_device),
    )
