"""What tracking a writable alias costs, above the same access without it."""

from __future__ import annotations

from benchmarks.timing import medians, print_table
from syncblob import Blob
from syncblob._shape import Layout
from syncblob.devices import Side
from syncblob.memory import Access

__all__ = ["main"]


def main() -> None:
    """Time writable exports of a memory, made and dropped, tracked and not."""
    blob = Blob((16, 16))
    memory, layout = blob.memory, Layout.c_order(blob.shape, blob.dtype)
    memory.mutable_cpu_data()[...] = 1
    times = medians(
        {
            "tracked": lambda: memory.export(Side.HOST, Access.MUTABLE, layout, "x", "DLPack"),
            "untracked": lambda: memory.array(Side.HOST, Access.MUTABLE, layout, "x"),
        },
        rounds=31,
    )
    tracked, untracked = times["tracked"], times["untracked"]
    print_table(
        "a writable array of a memory", [("an alias, tracked", tracked, "not tracked", untracked)]
    )
    print(f"  tracking costs {(tracked - untracked) * 1e6:.3f} us an export")


if __name__ == "__main__":
    main()
