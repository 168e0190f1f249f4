"""The shortcut: what an array over a buffer may be used for without asking the memory.

Nearly every access has nothing to do, because its side holds the newest contents already. A Blob
keeps an array with the `Shortcut` of the buffer under it, whose attributes tell whether the array
may be read, or written, as it is. The memory computes them in `Ledger.shortcut`, and clears
them in `Shortcuts.revoke`, before every change of state.
"""

from __future__ import annotations

from typing import Any

from syncblob.devices import Side

# Programs that use more parts of a memory than this between two changes of state ask again.
_MOST_PARTS = 64


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
    shared
        Whether it would be, if another side did not hold all of the newest contents, too: the first
        write has only to change the map.
    """

    __slots__ = ("buffer", "readable", "shared", "side", "writable")

    def __init__(self, buffer: Any, side: Side = Side.HOST, *, usable: bool = False) -> None:
        self.buffer: Any = buffer
        self.side: Side = side
        self.readable: bool = usable
        self.writable: bool = usable
        self.shared: bool = False


# The shortcut of an array without a memory, which nothing else uses.
FRESH = Shortcut(None, usable=True)

# The shortcut of a Blob without an array.
NO_SHORTCUT = Shortcut(None)


class Shortcuts:
    """The shortcuts of a memory.

    Use it under the memory's lock. Only `clear` needs none: at worst, it makes accesses slower.

    Attributes
    ----------
    sides
        The shortcut of each side's buffer, valid for any part of it; None if never asked for.
        Further accelerators are missing until then.
        It stays with the buffer, so that arrays are current again when their side is.
    epoch
        An object that is replaced whenever any shortcut is cleared.
    parts
        Those of parts while the sides hold different parts of the memory, or the side has windows,
        by side, start and stop. They end with the next change.
    """

    __slots__ = ("__weakref__", "epoch", "parts", "sides")

    def __init__(self) -> None:
        self.epoch: object = []
        self.sides: list[Shortcut | None] = [None, None]
        self.parts: dict[tuple[int, int, int], Shortcut] = {}

    def of(self, key: tuple[Side, int, int], buffer: Any, *, part: bool) -> Shortcut:
        """Return the shortcut of a side's buffer, or of a part of it.

        Parameters
        ----------
        key
            The side, and the start and the stop of the part.
        buffer
            The side's buffer, or the window of the part.
        part
            Whether the shortcut is valid for the part alone.
        """
        side, parts = key[0], self.parts
        while side >= len(self.sides):
            self.sides.append(None)
        shortcut = parts.get(key) if part else self.sides[side]
        if shortcut is None or shortcut.buffer is not buffer:
            new = Shortcut(buffer, side)
            # A signal handler or a finaliser may have made one meanwhile. None can run from here
            # on: nothing is called. So no shortcut that may be used is ever unknown.
            shortcut = (parts[key] if key in parts else None) if part else self.sides[side]  # noqa: SIM401  # `get` is a call
            if shortcut is None or shortcut.buffer is not buffer:
                if shortcut is not None:
                    shortcut.readable = shortcut.writable = shortcut.shared = False
                shortcut = new
                if part:
                    parts[key] = new
                else:
                    self.sides[side] = new
        return shortcut

    def limit(self) -> None:
        """Forget the shortcuts of parts if there are too many."""
        if len(self.parts) >= _MOST_PARTS:
            self.revoke()

    def forget(self, side: int) -> None:
        """Let go of a side's buffer, because the side gets another one."""
        if side < len(self.sides):
            self.sides[side] = None

    def clear(self) -> None:
        """Let the next accesses ask again. Forgets no shortcut, so that `revoke` finds all."""
        epoch: object = None
        while self.epoch is not epoch:
            # Again, if a thread under the lock may have set some since: it compares epochs, too.
            self.epoch = epoch = []
            for shortcut in [*self.sides, *self.parts.values()]:
                if shortcut is not None:
                    shortcut.readable = shortcut.writable = shortcut.shared = False

    def revoke(self) -> None:
        """Clear all shortcuts, before a change of state."""
        self.epoch = []
        for shortcut in self.sides:
            if shortcut is not None:
                shortcut.readable = shortcut.writable = shortcut.shared = False
        parts = self.parts
        if parts:
            for key in list(parts):
                # Nothing is called here, so an interrupt leaves none that is unknown and usable.
                if key in parts:
                    shortcut = parts[key]
                    shortcut.readable = shortcut.writable = False
                    del parts[key]
