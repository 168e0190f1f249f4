"""Random programs of accesses, adoptions, resizes, shares and failures, against a model.

On the simulated device, on the model of CUDA, and on CUDA if there is a GPU.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiers
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from program_devices import Simulated

from syncblob import Blob, Head

if TYPE_CHECKING:
    from program_devices import Cuda

ITEMSIZE = 4
ACCESSES = [
    f"{kind}{side}_data" for kind in ("", "mutable_", "overwrite_") for side in ("cpu", "gpu")
]
SIDES = ("cpu", "gpu")


# --- the model, from Caffe's documentation -------------------------------------------------------


@dataclass(eq=False)
class Memory:
    capacity: int
    values: list[int] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)

    def work(self, access: str) -> dict[str, int]:
        """Return the allocations and copies of an access."""
        side = access[-8:-5]
        fills = access.startswith("overwrite_")
        allocates = side not in self.buffers
        copies = bool(self.valid) and side not in self.valid and not fills and bool(self.values)
        return {
            "allocation": int(allocates and side == "gpu"),
            "host_allocation": int(allocates and side == "cpu"),
            "transfer": int(copies),
        }

    def access(self, access: str) -> None:
        side = access[-8:-5]
        read = not access.startswith(("mutable_", "overwrite_"))
        self.buffers.add(side)
        self.valid = self.valid | {side} if read and self.valid else {side}

    def fit(self, count: int) -> None:
        self.values = self.values[:count] + [0] * (count - len(self.values))


HEADS = {
    frozenset(): Head.UNINITIALIZED,
    frozenset({"cpu"}): Head.HEAD_AT_CPU,
    frozenset({"gpu"}): Head.HEAD_AT_GPU,
    frozenset(SIDES): Head.SYNCED,
}


@dataclass(eq=False)
class Model:
    """The model of a Blob: a memory and a count."""

    memory: Memory
    count: int


# --- the programs --------------------------------------------------------------------------------

which = st.integers(0, 2)
counts = st.integers(0, 5)
# The accesses that bring a Blob of the accelerator into the states of the benchmark ``states``.
starts = st.sampled_from(
    [
        (),
        ("mutable_gpu_data",),
        ("mutable_gpu_data", "cpu_data"),
        ("cpu_data", "mutable_gpu_data"),
        ("gpu_data", "mutable_cpu_data"),
    ]
)


class Programs(RuleBasedStateMachine):
    kind: type[Simulated | Cuda]

    @initialize(sizes=st.tuples(counts, counts, counts), states=st.tuples(starts, starts, starts))
    def start(self, sizes: tuple[int, int, int], states: tuple[tuple[str, ...], ...]) -> None:
        self.device = self.kind()
        self.expected = dict.fromkeys(("allocation", "host_allocation", "transfer"), 0)
        self.moved = 0
        self.blobs = [Blob((size,), "int32", device=self.device.name) for size in sizes]
        self.models = [Model(Memory(size, [0] * size), size) for size in sizes]
        self.borrows: list[tuple[Memory, str, Any]] = []
        self.next_value = 1
        for i, accesses in enumerate(states):
            for access in accesses:
                self.access(i, access, write=True)

    def fresh(self, count: int) -> list[int]:
        self.next_value += count
        return list(range(self.next_value - count, self.next_value))

    def sharers(self, memory: Memory) -> list[Model]:
        return [model for model in self.models if model.memory is memory]

    @rule(i=which, access=st.sampled_from(ACCESSES), write=st.booleans())
    def access(self, i: int, access: str, write: bool) -> None:  # drawn by hypothesis
        blob, model = self.blobs[i], self.models[i]
        memory = model.memory
        if access.startswith("overwrite_") and model.count < len(memory.values):
            access_as = access.replace("overwrite_", "mutable_")
        else:
            access_as = access
        self.account(memory.work(access_as), memory)
        array = self.device.seen(getattr(blob, access)())
        memory.access(access_as)
        if access_as.startswith("overwrite_"):
            write = True
        else:
            assert np.asarray(array).tolist() == memory.values[: model.count]
        revocable = self.device.revocable or "cpu" in access
        if access == access.removeprefix("mutable_").removeprefix("overwrite_"):
            assert array.flags.writeable != revocable
            return
        if revocable:
            self.borrows.append((memory, access[-8:-5], array))
        if write:
            values = self.fresh(model.count)
            array[...] = values
            memory.values[: model.count] = values

    def account(self, work: dict[str, int], memory: Memory) -> None:
        for kind, amount in work.items():
            self.expected[kind] += amount
        self.moved += work["transfer"] * len(memory.values) * ITEMSIZE

    @rule(
        i=which,
        access=st.sampled_from(ACCESSES),
        kind=st.sampled_from(("allocation", "host_allocation", "transfer")),
    )
    def failing_access(self, i: int, access: str, kind: str) -> None:
        blob, model = self.blobs[i], self.models[i]
        if access.startswith("overwrite_") and model.count < len(model.memory.values):
            return
        work = model.memory.work(access)
        if not work[kind]:
            return
        # The allocation comes before the transfer, and is discarded if the transfer fails.
        if kind == "transfer":
            for earlier in ("allocation", "host_allocation"):
                self.expected[earlier] += work[earlier]
        with self.device.controls.failing(**{kind: 1}), pytest.raises((MemoryError, RuntimeError)):
            getattr(blob, access)()

    @rule(i=which, side=st.sampled_from(SIDES))
    def adopt(self, i: int, side: str) -> None:
        blob, model = self.blobs[i], self.models[i]
        memory = model.memory
        values = self.fresh(model.count)
        fits = model.count == len(memory.values)
        array = np.array(values, np.int32)
        array = self.device.array(array) if side == "gpu" else array
        with nullcontext() if fits else pytest.raises(ValueError, match="bytes"):
            getattr(blob, f"set_{side}_data")(array)
        if fits:
            memory.values = values
            memory.valid = {side}
            memory.buffers.add(side)
            memory.capacity = model.count
            self.borrows = [borrow for borrow in self.borrows if borrow[0] is not memory]

    @rule(i=which, count=counts)
    def resize(self, i: int, count: int) -> None:
        model = self.models[i]
        self.blobs[i].resize(count)
        model.count = count
        if count > model.memory.capacity:
            old, model.memory = model.memory, Memory(count, [0] * count)
            if not self.sharers(old):
                self.borrows = [borrow for borrow in self.borrows if borrow[0] is not old]
        elif count > len(model.memory.values) or len(self.sharers(model.memory)) == 1:
            model.memory.fit(count)

    @rule(i=which, j=which)
    def share(self, i: int, j: int) -> None:
        fits = self.models[i].count == self.models[j].count
        with nullcontext() if fits else pytest.raises(ValueError, match="elements"):
            self.blobs[i].share_data(self.blobs[j])
        if fits:
            self.models[i].memory = self.models[j].memory

    @rule(i=which)
    def push(self, i: int) -> None:
        memory = self.models[i].memory
        fits = memory.valid == {"cpu"}
        with nullcontext() if fits else pytest.raises(RuntimeError, match="HEAD_AT_CPU"):
            self.blobs[i].async_gpu_push()
        if fits:
            self.account({**memory.work("gpu_data")}, memory)
            memory.access("gpu_data")

    @invariant()
    def heads_agree(self) -> None:
        for blob, model in zip(self.blobs, self.models, strict=True):
            assert blob.head is HEADS[frozenset(model.memory.valid)]
            assert (blob.shape, blob.memory.nbytes) == (
                (model.count,),
                model.memory.capacity * ITEMSIZE,
            )

    @invariant()
    def counts_agree(self) -> None:
        self.device.count_all()
        counts = self.device.controls
        assert counts.allocations == self.expected["allocation"]
        assert counts.host_allocations == self.expected["host_allocation"]
        assert counts.uploads + counts.downloads == self.expected["transfer"]
        assert counts.uploaded_bytes + counts.downloaded_bytes == self.moved

    @invariant()
    def borrows_may_write_where_their_side_alone_is_newest(self) -> None:
        for memory, side, array in self.borrows:
            if not array.flags.writeable:
                continue
            # Borrows of a memory that no Blob uses any more are not checked.
            if self.sharers(memory):
                assert memory.valid == {side}

    def teardown(self) -> None:
        try:
            for blob, model in zip(self.blobs, self.models, strict=True):
                assert blob.tolist() == model.memory.values[: model.count]
        finally:
            self.device.close()


@tiers.amount("examples", 100, 1000)
def test_programs(program_device: type[Simulated | Cuda], examples: int) -> None:
    class OnDevice(Programs):
        kind = program_device

    if program_device is not Simulated:
        examples //= 10  # a program takes longer there
    run_state_machine_as_test(  # type: ignore[no-untyped-call]  # hypothesis has no types for it
        OnDevice, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None)
    )
