"""The cost of tracking a writable alias, compared with the same access without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.calls import on_both_sides
from benchmarks.rows import Measured, Row
from syncblob import Blob
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access

if TYPE_CHECKING:
    from benchmarks.timing import Timer

__all__ = ["measure"]


def measure(timer: Timer) -> Measured:
    """Time making and dropping writable exports of a memory, tracked and untracked."""
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
    row = Row(
        "a writable array of a memory", "an alias, tracked", tracked, "not tracked", untracked
    )
    return Measured([row])
