"""The cost of tracking writable aliases: of one, and of accesses beside many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.calls import on_both_sides
from benchmarks.rows import Measured, Row
from syncblob import Blob, SyncedMemory
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access

if TYPE_CHECKING:
    from benchmarks.timing import Timer

__all__ = ["measure"]

# Eight times as many aliases show how the time grows.
COUNTS = 500, 4000
BRIEF = 5, 40
ROW = 32
"""The bytes of a row: eight float32."""


def measure(timer: Timer) -> Measured:
    """Time exports of a memory, tracked and untracked, and accesses beside many aliases."""
    rows = [_one(timer)]
    for count in BRIEF if timer.brief else COUNTS:
        rows += [_read(timer, count), _bytes(timer, count)]
    return Measured(rows, ["copies between the two sides of the simulated device are timed"])


def _one(timer: Timer) -> Row:
    """Time making and dropping a writable alias, compared with the same array untracked."""
    blob = on_both_sides(Blob((16, 16)))
    memory, layout = blob.memory, Layout.c_order(blob.shape, blob.dtype)
    times = timer.medians(
        {
            "tracked": lambda: memory.export(Side.HOST, Access.MUTABLE, layout, "x", "DLPack"),
            "untracked": lambda: memory.array(Side.HOST, Access.MUTABLE, layout, "x"),
        },
        rounds=31,
    )
    tracked, untracked = times["tracked"], times["untracked"]
    return Row(
        "a writable array of a memory", "an alias, tracked", tracked, "not tracked", untracked
    )


def _memory(nbytes: int) -> SyncedMemory:
    """Make a memory that is newest on the simulated device."""
    memory = SyncedMemory(nbytes, device="simulated")
    memory.overwrite_cpu_data().fill(1)
    memory.mutable_gpu_data()
    return memory


def _alias(memory: SyncedMemory, start: int, nbytes: int) -> object:
    layout = Layout.raw(nbytes, start)
    return memory.export(Side.ACCELERATOR, Access.MUTABLE, layout, "x", "DLPack")


def _read(timer: Timer, count: int) -> Row:
    """Time a read of all rows, each of which has an alias, so that each read copies them."""
    memory = _memory(count * ROW)
    aliases = [_alias(memory, place, ROW) for place in range(0, memory.nbytes, ROW)]
    host, device = np.ones((2, count, ROW), np.uint8)

    def by_hand() -> None:
        for target, row in zip(host, device, strict=True):
            np.copyto(target, row)

    times = timer.medians({"ours": memory.cpu_data, "by hand": by_hand}, rounds=15)
    del aliases
    return Row(
        f"a host read of {count:,} rows with an alias each on the device",
        "`cpu_data()`",
        times["ours"],
        "a NumPy copy of each row",
        times["by hand"],
    )


def _bytes(timer: Timer, count: int) -> Row:
    """Time making aliases of every other byte, each followed by a read of the byte after it."""
    host, device = np.ones((2, 2 * count), np.uint8)

    def ours() -> None:
        memory, aliases = _memory(2 * count), []
        for place in range(0, 2 * count, 2):
            aliases.append(_alias(memory, place, 1))
            memory.array(Side.HOST, Access.CONST, Layout.raw(1, place + 1), "x")

    def by_hand() -> None:
        aliases = []
        for place in range(0, 2 * count, 2):
            aliases.append(device[place : place + 1])
            np.copyto(host[place + 1 : place + 2], device[place + 1 : place + 2])

    calls = {"ours": ours, "by hand": by_hand}
    times = timer.medians(calls, rounds=5, seconds=0)
    return Row(
        f"{count:,} aliases of every other byte on the device, with a host read after each",
        "aliases and reads",
        times["ours"],
        "slices, and a NumPy copy of each byte",
        times["by hand"],
    )
