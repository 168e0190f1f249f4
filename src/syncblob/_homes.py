"""The two homes of a memory: their buffers, how one is made and filled, and copies between them.

Which of the two holds the newest contents is not known here; see `state_machine`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.devices import HOST, Side, current_accelerator, default_device, home_accelerator
from syncblob.transfers import Copying, download, push, upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Home, Push

    Source = Callable[[], NDArray[np.uint8]]

__all__ = ["TwoHomes"]

_serials = itertools.count(1)


class TwoHomes:
    """A capacity, at most one buffer on each side, and what fills the first of them."""

    __slots__ = (
        "_accelerator",
        "_buffers",
        "_nbytes",
        "_serial",
        "_source",
        "_source_nbytes",
        "_used",
    )

    def __init__(self, nbytes: int, accelerator: Accelerator | None, source: Source | None) -> None:
        self._accelerator = accelerator
        self._buffers: list[Any] = [None, None]
        self._nbytes = nbytes
        self._used = nbytes
        self._source = source
        # Tells memories apart in the journal; given when it is first needed.
        self._serial = 0
        # How much of what the source gives is still in use.
        self._source_nbytes = 0 if source is None else nbytes

    @property
    def nbytes(self) -> int:
        """The capacity, in bytes."""
        return self._nbytes

    @property
    def used_nbytes(self) -> int:
        """The bytes in use: what a transfer moves. At most the capacity."""
        return self._used

    @property
    def accelerator(self) -> Accelerator | None:
        """The backend this memory is bound to or was asked for; None before either."""
        return self._accelerator

    @property
    def on_both_sides(self) -> bool:
        """Whether there are buffers on both sides."""
        host, accelerator = self._buffers
        return host is not None and accelerator is not None

    def home(self, side: Side) -> Home:
        """Return the home that one side is in. Nothing is bound, made or moved.

        Raises
        ------
        NoDeviceError
            If it is the accelerator's side, this memory has no accelerator yet, and there is none.
        """
        if side is Side.HOST:
            return HOST
        return self._accelerator or current_accelerator()

    def _buffer(self, side: Side, accelerator: Accelerator | None, *, zeroed: bool = False) -> Any:
        """Return one side's buffer, a new one where there is none. Changes no state."""
        buffer = self._buffers[side]
        if buffer is not None:
            return buffer
        if side is Side.ACCELERATOR and accelerator is not None:
            return accelerator.allocate(self._nbytes, zeroed=zeroed)
        partner = accelerator or home_accelerator(default_device())
        if partner is not None:
            return partner.allocate_host(self._nbytes, zeroed=zeroed)
        return HOST.allocate(self._nbytes, zeroed=zeroed)

    def _initialised_buffer(self, side: Side, accelerator: Accelerator | None, reason: str) -> Any:
        """Return a new buffer with the first contents: from the source, else zeros."""
        if self._source is None:
            buffer = self._buffer(side, accelerator, zeroed=True)
            if self._buffers[side] is not None:
                # Left by an access that was interrupted.
                home = HOST if side is Side.HOST or accelerator is None else accelerator
                home.zero(buffer)
            return buffer
        read_into = getattr(self._source, "read_into", None)
        if side is Side.HOST and read_into is not None:
            buffer = self._buffer(side, accelerator)
            read_into(buffer[: self._source_nbytes])
            HOST.zero(buffer[self._source_nbytes :])
            return buffer
        contents = self._contents_of(self._source)
        buffer = self._buffer(side, accelerator)
        known = self._source_nbytes
        if side is Side.HOST or accelerator is None:
            buffer[:known] = contents[:known]
            HOST.zero(buffer[known:])
        else:
            if known:
                upload(self._copying(accelerator, reason), contents[:known], buffer[:known])
            accelerator.zero(buffer[known:])
        return buffer

    def _contents_of(self, source: Source) -> NDArray[np.uint8]:
        """Call a source."""
        contents = source()
        expected = f"expected a source of {self._nbytes} bytes in a one-dimensional uint8 array"
        if not isinstance(contents, np.ndarray):
            raise TypeError(f"{expected}, got {type(contents).__name__}")
        if contents.shape != (self._nbytes,) or contents.dtype != np.uint8:
            raise ValueError(f"{expected}, got {contents.dtype} of shape {contents.shape}")
        return contents

    def _transfer(
        self,
        side: Side,
        buffer: Any,
        accelerator: Accelerator | None,
        reason: str,
        because: str,
    ) -> None:
        """Copy the bytes in use from the other side into a buffer of this side."""
        used = self._used
        if not used or accelerator is None:
            return
        newest = self._buffers[side.other][:used]
        copying = self._copying(accelerator, reason, because)
        if side is Side.HOST:
            download(copying, newest, buffer[:used])
        else:
            upload(copying, newest, buffer[:used])

    def _start_upload(self, buffer: Any, accelerator: Accelerator, stream: Any) -> Push | None:
        """Start to copy the bytes in use from the host; None where there are none."""
        used = self._used
        if not used:
            return None
        host = self._buffers[Side.HOST][:used]
        return push(self._copying(accelerator, "async_gpu_push"), host, buffer[:used], stream)

    def _copying(self, accelerator: Accelerator, reason: str, because: str = "") -> Copying:
        if not self._serial:
            self._serial = next(_serials)
        return Copying(accelerator, reason, self._serial, because)
