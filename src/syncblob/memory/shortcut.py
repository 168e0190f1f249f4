"""The shortcut: what an array over a buffer may be used for without asking the memory.

Nearly every access has nothing to do, because its side holds the newest contents already. A Blob
keeps an array with the `Shortcut` of the buffer under it, whose attributes tell whether the array
may be read, or written, as it is. The memory computes them in `Ledger.shortcut`, and clears
them in `Shortcuts.revoke`, before every change of state.
"""

from __future__ import annotations

from typing import Any

from syncblob.devices import Side


class Shortcut:
    """A buffer of one side, and whether arrays over it, or over a part, may be used at once.

    Attributes
    ----------
    buffer
        The buffer, or the window that the part lies in.
    side
        The side.
    readable
        Whether a const access has nothing to do: the side holds the newest contents, nothing is
        under way to it, and no open log has to be told.
    writable
        Whether this is true of every access: no other side holds them, no alias of another side may
        write, and no upload reads them.
    """

    __slots__ = ("buffer", "readable", "side", "writable")

    def __init__(self, buffer: Any, side: Side = Side.HOST, *, usable: bool = False) -> None:
        self.buffer: Any = buffer
        self.side: Side = side
        self.readable: bool = usable
        self.writable: bool = usable


# The shortcut of an array without a memory, which nothing else uses.
FRESH = Shortcut(None, usable=True)

# The shortcut of a Blob without an array.
NO_SHORTCUT = Shortcut(None)
