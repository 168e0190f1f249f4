"""The two buffers of a memory, and copies between ranges of them. Knows no head."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from syncblob.devices import HOST, Side, current_accelerator, default_device, home_accelerator
from syncblob.memory.spans import Spans
from syncblob.transfers import Copying, download, observed, push, upload

if TYPE_CHECKING:
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
        The backend of the accelerator's side; None where it is chosen on first use.

    Attributes
    ----------
    sides
        The buffers, by side; None where there is none yet.
    accelerator, nbytes
        As above.
    name
        What the journal calls this memory; empty if it has no name.
    """

    __slots__ = ("_copying", "_used", "accelerator", "name", "nbytes", "sides")

    def __init__(self, nbytes: int, accelerator: Accelerator | None) -> None:
        self.sides: list[Any] = [None, None]
        self.accelerator: Accelerator | None = accelerator
        self.nbytes: int = nbytes
        self.name: str = ""
        # For an accelerator that works asynchronously: its buffer, and which bytes of it something
        # may still read, as a map with 1 for those.
        self._used: tuple[Any, Spans] | None = None
        # The last answer of `copying`: programs ask for the same again and again. The number in it
        # tells memories apart in the journal.
        self._copying: Copying | None = None

    @property
    def on_both_sides(self) -> bool:
        """Whether there are buffers on both sides."""
        host, accelerator = self.sides
        return host is not None and accelerator is not None

    def home(self, side: Side) -> Home:
        """Return the home of one side. Nothing is bound, allocated or moved.

        Raises
        ------
        NoDeviceError
            If it is the accelerator's side, this memory has no accelerator yet, and there is none.
        """
        if side is Side.HOST:
            return HOST
        return self.accelerator or current_accelerator()

    def get(self, side: Side, accelerator: Accelerator | None, *, zeroed: bool = False) -> Any:
        """Return one side's buffer, a new one where there is none. Changes no state.

        Parameters
        ----------
        side
            Which.
        accelerator
            The backend that the memory has or is going to have.
        zeroed
            Fill the buffer with zeros.
        """
        buffer = self.sides[side]
        if buffer is not None:
            if zeroed:
                # Left by an access that was interrupted.
                home = HOST if side is Side.HOST or accelerator is None else accelerator
                home.zero(buffer)
            return buffer
        if side is Side.ACCELERATOR and accelerator is not None:
            return accelerator.allocate(self.nbytes, zeroed=zeroed)
        partner = accelerator or home_accelerator(default_device())
        if partner is not None:
            return partner.allocate_host(self.nbytes, zeroed=zeroed)
        return HOST.allocate(self.nbytes, zeroed=zeroed)

    def copying(self, accelerator: Accelerator, reason: str, because: str = "") -> Copying:
        """Return what the journal and the guards are told of copies of this memory."""
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
        """Copy bytes of the other side into as many bytes of one side.

        Parameters
        ----------
        copying
            For the journal.
        side
            Where `target` is.
        contents, target
            The bytes.
        offset
            Where they begin in the memory, for the journal.
        """
        if side is Side.HOST:
            download(copying, contents, target, offset)
        else:
            upload(copying, contents, target, offset)

    def use(self, accelerator: Accelerator, buffer: Any, start: int, stop: int) -> None:
        """Note that work on an accelerator may read a range of its buffer from now on.

        Parameters
        ----------
        accelerator
            The backend. Nothing is noted where work is over when a call returns.
        buffer
            The buffer, which need not be this memory's yet.
        start, stop
            The range.
        """
        if accelerator.asynchronous and start < stop:
            self._used = (buffer, self._read_in(buffer).put(start, stop, 1))

    def _read_in(self, buffer: Any) -> Spans:
        """Return which bytes of the accelerator's buffer something may read, as a map with 1."""
        if self._used is not None and self._used[0] is buffer:
            return self._used[1]
        # It was adopted, and others have it, or it is a new one.
        return Spans.whole(buffer.nbytes, int(buffer is self.sides[Side.ACCELERATOR]))

    def _replace(self, accelerator: Accelerator, buffer: Any, start: int, stop: int) -> None:
        """Wait until nothing reads a range of the accelerator's buffer any more, and note its use.

        Nothing reads what has never been there. So contents that come in for the first time, batch
        after batch, do not wait for the work on those before them.
        """
        if accelerator.asynchronous and start < stop:
            if self._read_in(buffer).any(start, stop):
                accelerator.wait_for_work()
            self.use(accelerator, buffer, start, stop)

    def bring(self, copying: Copying, side: Side, buffer: Any, start: int, stop: int) -> None:
        """Copy a range from the other side into a buffer of one side."""
        if side is Side.ACCELERATOR:
            self._replace(copying.accelerator, buffer, start, stop)
        contents = _part(self.sides[1 - side], start, stop)
        self.move(copying, side, contents, _part(buffer, start, stop), start)

    def bring_all(self, side: int, buffer: Any, nbytes: int, reason: str) -> str:
        """Copy the first bytes from the other side into a buffer; return the direction."""
        accelerator: Accelerator = self.accelerator  # type: ignore[assignment]  # it has bytes
        if side and accelerator.asynchronous:
            self._replace(accelerator, buffer, 0, nbytes)
        contents = self.sides[1 - side]
        # After an adoption the two may have different sizes.
        if contents.nbytes != nbytes:
            contents = contents[:nbytes]
        if buffer.nbytes != nbytes:
            buffer = buffer[:nbytes]
        if observed():
            copying = self.copying(accelerator, reason)
            self.move(copying, Side(side), contents, buffer, 0)
        elif side:
            accelerator.upload(contents, buffer)
        else:
            accelerator.download(contents, buffer)
        return "upload" if side else "download"

    def start_upload(
        self, copying: Copying, buffer: Any, start: int, stop: int, stream: Any
    ) -> Push:
        """Start to copy a range of the host's buffer into one of the accelerator."""
        self._replace(copying.accelerator, buffer, start, stop)
        host = self.sides[Side.HOST][start:stop]
        return push(copying, host, buffer[start:stop], stream, start)

    def fill(
        self, source: Source, buffer: Any, start: int, stop: int, copying: Copying | None
    ) -> None:
        """Fill a range of a buffer from a source; the accelerator's by an upload.

        Parameters
        ----------
        source
            What fills it.
        buffer, start, stop
            The range.
        copying
            For the journal; None for a buffer on the host, where nothing is transferred.
        """
        if copying is None:
            source.fill(buffer[start:stop], start)
            return
        # Nobody held these bytes, so nothing reads them yet.
        known = max(start, min(source.limit, stop))
        if known > start:
            upload(copying, source.part(start, known), buffer[start:known], start)
        if known < stop:
            copying.accelerator.zero(buffer[known:stop])


def _part(buffer: Any, start: int, stop: int) -> Any:
    """Return a range of a buffer: itself where that is all of it, which takes less time.

    After an adoption the two buffers of a memory may have different sizes.
    """
    return buffer if stop - start == buffer.nbytes else buffer[start:stop]
