"""The two buffers of a memory, and copies between ranges of them. Does not know the head."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._formatting import extend, human_bytes
from syncblob._source_lines import user_line
from syncblob.devices import HOST, Side, current_accelerator, default_device, home_accelerator
from syncblob.transfers import Copying, download, pull, push, upload

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Accelerator, Home, Push
    from syncblob.memory.sources import Source

__all__ = ["Buffers"]

_serials = itertools.count(1)


class Buffers:
    """At most one buffer on each side.

    Parameters
    ----------
    nbytes
        The capacity of each buffer.
    accelerator
        The backend of the accelerator's side; None if it is chosen on first use.

    Attributes
    ----------
    sides
        The buffers, by side; None for a side without a buffer.
    accelerator, nbytes
        As above.
    name
        The name of this memory in the journal; empty if it has none.
    """

    __slots__ = ("_copying", "accelerator", "name", "nbytes", "sides")

    def __init__(self, nbytes: int, accelerator: Accelerator | None) -> None:
        self.sides: list[Any] = [None, None]
        self.accelerator: Accelerator | None = accelerator
        self.nbytes: int = nbytes
        self.name: str = ""
        # The last result of `copying`, because programs repeat the same accesses. Its serial
        # number tells memories apart in the journal.
        self._copying: Copying | None = None

    @property
    def on_both_sides(self) -> bool:
        """Whether there are buffers on both sides."""
        host, accelerator = self.sides
        return host is not None and accelerator is not None

    def tracks_borrows(self, side: Side) -> bool:
        """Whether borrows of a side are tracked: they have a write permission to revoke."""
        buffer = self.sides[side]
        return buffer is None or isinstance(buffer, np.ndarray)

    def home(self, side: Side) -> Home:
        """Return the home of one side. Binds, allocates and moves nothing.

        Raises
        ------
        NoDeviceError
            If `side` is the accelerator's, the memory is not bound to one, and none is available.
        """
        if side is Side.HOST:
            return HOST
        return self.accelerator or current_accelerator()

    def get(self, side: Side, accelerator: Accelerator | None, *, zeroed: bool = False) -> Any:
        """Return one side's buffer; allocate one if it has none. Changes no state.

        Parameters
        ----------
        side
            The side.
        accelerator
            The backend that the memory is bound to or is about to be bound to.
        zeroed
            Fill the buffer with zeros.
        """
        buffer = self.sides[side]
        if buffer is not None:
            if zeroed:
                # An interrupted access left this buffer.
                home = HOST if side is Side.HOST or accelerator is None else accelerator
                home.zero(buffer)
            return buffer
        if side is Side.ACCELERATOR and accelerator is not None:
            return accelerator.allocate(self.nbytes, zeroed=zeroed)
        partner = accelerator or home_accelerator(default_device())
        if partner is not None:
            return partner.allocate_host(self.nbytes, zeroed=zeroed)
        return HOST.allocate(self.nbytes, zeroed=zeroed)

    def described(self, layout: Layout | None = None) -> str:
        """Describe the Blob of this memory that has a layout, for messages."""
        name = f" {self.name!r}" if self.name else ""
        if layout is None:
            return f"Blob{name} of {self.nbytes} bytes"
        return f"Blob{name} of shape {layout.shape}, {layout.dtype.name}, {layout.nbytes} bytes"

    def explain_shortage(
        self, error: MemoryError, side: Side, nbytes: int, reason: str, layout: Layout | None = None
    ) -> None:
        """Add to an error which access of which Blob needed memory, and what helps.

        Parameters
        ----------
        error
            Its message is extended.
        side, nbytes
            The memory that was needed.
        reason, layout
            The access.
        """
        extend(
            error,
            f"{reason} needs {human_bytes(nbytes)} on {self.home(side).device} for "
            f"{self.described(layout)}, at {user_line().described()}; delete Blobs and aliases "
            "that are no longer needed, because a Blob keeps a buffer on each side that was used, "
            "or work on smaller parts",
        )

    def copying(self, accelerator: Accelerator, reason: str, because: str = "") -> Copying:
        """Return the description of a copy of this memory for the journal and the guards."""
        copying = self._copying
        if (
            copying is not None
            and copying.reason is reason
            and not because
            and not copying.because
            and copying.accelerator is accelerator
            and copying.name is self.name
        ):
            return copying
        serial = next(_serials) if copying is None else copying.memory
        copying = self._copying = Copying(accelerator, reason, serial, self.name, because)
        return copying

    @staticmethod
    def move(copying: Copying, side: Side, contents: Any, target: Any, offset: int) -> None:
        """Copy bytes of the other side into the same number of bytes of one side.

        Parameters
        ----------
        copying
            For the journal.
        side
            The side of `target`.
        contents, target
            The bytes to read and to write.
        offset
            Their offset in the memory, for the journal.
        """
        if side is Side.HOST:
            download(copying, contents, target, offset)
        else:
            upload(copying, contents, target, offset)

    def bring(self, copying: Copying, side: int, buffer: Any, start: int, stop: int) -> None:
        """Copy a range from the other side into a buffer of one side."""
        contents = _part(self.sides[1 - side], start, stop)
        if side:
            upload(copying, contents, _part(buffer, start, stop), start)
        else:
            download(copying, contents, _part(buffer, start, stop), start)

    def start_copy(  # noqa: PLR0913, PLR0917  # a copy
        self, copying: Copying, side: Side, buffer: Any, start: int, stop: int, stream: Any
    ) -> Push:
        """Start to copy a range from the other side into a buffer of one side."""
        contents = self.sides[1 - side][start:stop]
        if side is Side.HOST:
            return pull(copying, contents, buffer[start:stop], start)
        return push(copying, contents, buffer[start:stop], stream, start)

    def fill(
        self, source: Source, buffer: Any, start: int, stop: int, copying: Copying | None
    ) -> None:
        """Fill a range of a buffer from a source; the accelerator's by an upload.

        Parameters
        ----------
        source
            The source.
        buffer, start, stop
            The range.
        copying
            For the journal; None for a host buffer, which needs no transfer.
        """
        if copying is None:
            source.fill(buffer[start:stop], start)
            return
        # No side held these bytes, so no work reads them yet.
        known = max(start, min(source.limit, stop))
        if known > start:
            upload(copying, source.part(start, known), buffer[start:known], start)
        if known < stop:
            copying.accelerator.zero(buffer[known:stop])


def _part(buffer: Any, start: int, stop: int) -> Any:
    """Return a range of a buffer. Skips the slice if the range is the whole buffer.

    After an adoption the two buffers of a memory may have different sizes.
    """
    return buffer if stop - start == buffer.nbytes else buffer[start:stop]
