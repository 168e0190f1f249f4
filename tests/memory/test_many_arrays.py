"""Many living arrays over a memory: what a read takes, and an access of each part."""

import pytest
import tiers
from fault_states import newest

from benchmarks.calls import calls_made
from syncblob import SyncedMemory
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.loans import NUMPY

HOST, ACCELERATOR = Side
CONST, MUTABLE, _ = Access
# Eight times as many arrays take about eight times as many steps, or a little more to sort them;
# 64 times as many if each of them is compared with all.
FEW, MANY, MOST = 100, 800, 12


def calls(function):
    """Count the calls in a call, of functions in Python and in C."""
    return len(calls_made(function, {"call", "c_call"}))


def export(memory, side, kind="DLPack"):
    return lambda place: memory.export(side, MUTABLE, Layout.raw(1, place), "use", kind)


def lend(memory, side, access=MUTABLE):
    return lambda place: memory.lend(side, access, Layout.raw(1, place), "use")


def arrays(count, *ways):
    """Return a memory with arrays over all its bytes, taken in turn in several ways."""
    memory = SyncedMemory(len(ways) * count, device="simulated")
    memory.overwrite_cpu_data()[:] = 1
    made = [(way(memory), first) for first, way in enumerate(ways)]
    kept = [
        take(place + first) for place in range(0, memory.nbytes, len(ways)) for take, first in made
    ]
    return memory, kept


WAYS = {
    "aliases of one side": [lambda memory: export(memory, HOST)],
    "aliases of both sides": [
        lambda memory: export(memory, HOST),
        lambda memory: export(memory, ACCELERATOR),
    ],
    "NumPy aliases": [
        lambda memory: export(memory, HOST, NUMPY),
        lambda memory: lend(memory, ACCELERATOR, CONST),
    ],
    "borrows of both sides": [
        lambda memory: lend(memory, HOST),
        lambda memory: lend(memory, ACCELERATOR),
    ],
    "aliases, and reads between them": [
        lambda memory: export(memory, ACCELERATOR),
        lambda memory: lend(memory, HOST, CONST),
    ],
    "writes between the bytes of the other side": [
        lambda memory: lambda place: lend(memory, HOST)(place).fill(2),
        lambda memory: lambda place: lend(memory, ACCELERATOR)(place).fill(3),
    ],
}


SHORT = {
    "aliases of both sides": "what may write at any moment",
    "borrows of both sides": "what ends with a write of the other side",
    "writes between the bytes of the other side": "a map of many spans",
}
in_ways = pytest.mark.parametrize("ways", tiers.representatives(WAYS, SHORT))


@in_ways
def test_to_take_many_takes_as_long_for_each_as_to_take_few(ways):
    few, many = (calls(lambda count=count: arrays(count, *WAYS[ways])) for count in (FEW, MANY))
    assert many < MOST * few


@pytest.mark.parametrize("side", Side)
@in_ways
def test_a_read_below_many_takes_as_long_for_each_as_below_few(ways, side):
    counts = []
    for count in (FEW, MANY):
        memory, _kept = arrays(count, *WAYS[ways])
        expected = newest(memory)
        read = [None]
        access = Layout.raw(memory.nbytes)
        counts.append(
            calls(lambda: read.append(memory.array(side, CONST, access, "read")))  # noqa: B023  # called at once
        )
        assert bytes(read[-1]) == expected
    few, many = counts
    assert many < MOST * few


def test_borrows_between_the_bytes_of_the_other_side_end_one_by_one():
    memory, kept = arrays(MANY, *WAYS["borrows of both sides"])
    for place in range(0, memory.nbytes, 64):
        memory.array(ACCELERATOR, CONST, Layout.raw(1, place), "read")
    writeable = [array.flags.writeable for array in kept]
    assert writeable == [place % 64 != 0 for place in range(memory.nbytes)]
    assert len(memory.loans.of(HOST)) == MANY - memory.nbytes // 64
