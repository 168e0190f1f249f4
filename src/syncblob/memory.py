"""SyncedMemory: bytes with two homes, and the ways to reach them.

What each access does is written in `state_machine`; here are the accesses themselves, and the three
kinds of arrays they give: for work that is over soon (`array`), borrows (`lend`) and aliases
(`export`).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._shape import Layout
from syncblob.aliases import NUMPY
from syncblob.devices import CPU, Device, Side, default_device, home_accelerator
from syncblob.errors import DeviceMismatchError
from syncblob.state_machine import Access, Head, StateMachine
from syncblob.transfers import avoided, recording
from syncblob.verification import Watch, verifying

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob._homes import Source
    from syncblob.aliases import HandedOut
    from syncblob.devices.base import Accelerator

__all__ = ["Access", "Head", "SyncedMemory"]


class SyncedMemory(StateMachine):
    """A number of bytes with at most one buffer on the host and one on an accelerator.

    Knows nothing of shapes and dtypes. Safe to use from several threads: two that read at once
    cause one transfer. If an allocation or a transfer fails, head, buffers and bytes are as they
    were.

    Parameters
    ----------
    nbytes
        The capacity. Nothing is allocated before the first access.
    device
        The device asked for; it decides the accelerator, which is otherwise chosen on first use,
        and what `device` says before the first write. None means the default device.
    source
        A function that returns the initial contents, a one-dimensional uint8 array of `nbytes`
        bytes. It is called by the first access that is not an overwrite, in place of zero-filling;
        the first access on the accelerator uploads straight from it.

    Raises
    ------
    NoDeviceError
        If the device asked for cannot be used.
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        nbytes: int,
        *,
        device: Device | str | None = None,
        source: Source | None = None,
    ) -> None:
        nbytes = operator.index(nbytes)
        if nbytes < 0:
            raise ValueError(f"expected a non-negative number of bytes, got {nbytes}")
        device = default_device() if device is None else Device(device)
        super().__init__(nbytes, home_accelerator(device), source)

    @classmethod
    def adopting(
        cls,
        side: Side,
        buffer: Any,
        *,
        accelerator: Accelerator | None = None,
        device: Device | str | None = None,
    ) -> SyncedMemory:
        """Make a memory over an existing writable buffer on one side, without a copy.

        Parameters
        ----------
        side
            Where the buffer is. Its contents are the newest.
        buffer
            One-dimensional, uint8, C-contiguous.
        accelerator
            The backend of an accelerator buffer.
        device
            What `device` says before the first write, as for the constructor. The default is
            the accelerator for a buffer on it, else the default device.

        Raises
        ------
        DeviceMismatchError
            If `device` names another accelerator than the one that holds the buffer.
        """
        if device is None and accelerator is not None:
            device = accelerator.device
        memory = cls(buffer.nbytes, device=device)
        if accelerator is not None:
            memory.bind(accelerator)
        memory._buffers[side] = buffer
        memory._head = 1 << side
        return memory

    # --- what it is ------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """The device last written to; before the first write, the one asked for."""
        if self._written is Side.HOST or self._accelerator is None:
            return CPU
        return self._accelerator.device

    @property
    def side(self) -> Side:
        """The side of `device`."""
        return self._written

    @property
    def blank(self) -> bool:
        """Whether it reads as zeros because nobody has touched it and it has no source."""
        return not self._head and self._source is None

    def holds_newest(self, side: Side) -> bool:
        """Tell whether an access on `side` needs no transfer."""
        return not self._head or bool(self._head & (1 << side))

    def host_if_newest(self) -> NDArray[np.uint8] | None:
        """Return the host buffer if it holds the newest contents and is not under watch."""
        newest = self._head & 1 and self._watch is None
        buffer: NDArray[np.uint8] | None = self._buffers[0] if newest else None
        return buffer

    # --- Caffe's accessors -----------------------------------------------------------------------

    def cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use for reading on the host. Downloads if it must."""
        return self._lend_host(Access.CONST, "cpu_data")

    def mutable_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use for reading and writing on the host. Downloads if it must."""
        return self._lend_host(Access.MUTABLE, "mutable_cpu_data")

    def overwrite_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use on the host to be written completely. Never transfers."""
        return self._lend_host(Access.OVERWRITE, "overwrite_cpu_data")

    def gpu_data(self) -> Any:
        """Return the bytes in use for reading on the accelerator. Uploads if it must."""
        return self._lend_accelerator(Access.CONST, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return the bytes in use for reading and writing on the accelerator. May upload."""
        return self._lend_accelerator(Access.MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return the bytes in use on the accelerator to be written completely. No transfer."""
        return self._lend_accelerator(Access.OVERWRITE, "overwrite_gpu_data")

    def set_data(self, side: Side, buffer: Any, accelerator: Accelerator | None = None) -> None:
        """Adopt a buffer as one side's; its contents become the newest. Never copies.

        Newer contents of the other side are abandoned, as in Caffe: the caller replaces them.
        Later transfers write into the buffer.

        Parameters
        ----------
        side
            Where the buffer is.
        buffer
            One-dimensional, uint8, C-contiguous, writable; as many bytes as are in use.
        accelerator
            The backend of an accelerator buffer.

        Raises
        ------
        ValueError
            If the buffer has another size.
        """
        with self._lock:
            if buffer.nbytes != self._used:
                raise ValueError(
                    f"expected {self._used} bytes, the bytes in use of this memory (shared with "
                    f"every Blob and view over it), got {buffer.nbytes}"
                )
            if accelerator is not None:
                self.bind(accelerator)
            self._replace(side, buffer)

    def async_gpu_push(self, stream: object = None) -> None:
        """Start an upload and return while it runs; the head becomes SYNCED.

        Every later access on the accelerator, and every later access that may write on the host,
        waits for it.

        Parameters
        ----------
        stream
            A stream of the accelerator, or None for one of its own.

        Raises
        ------
        RuntimeError
            Unless the head is HEAD_AT_CPU.
        """
        with self._lock:
            if self._head != Head.HEAD_AT_CPU:
                raise RuntimeError(
                    f"async_gpu_push starts from HEAD_AT_CPU, but the head is {self.head.name}"
                )
            self._push(stream)

    # --- what Blobs and protocols use ------------------------------------------------------------

    def array(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Make one side fit for an access and return an array over it. Copies as the table says.

        For work that is over when the caller returns; what is kept longer is for `lend` and
        `export`.

        Parameters
        ----------
        side
            Where the caller wants to work.
        access
            What it is going to do. An overwrite that does not cover the bytes in use is treated
            as mutable.
        layout
            The array to return.
        reason
            The name of the access, for the journal.

        Returns
        -------
        array
            A NumPy array (host, simulated) or a CuPy array. Read-only for a const access, where
            the library has read-only arrays.

        Warns
        -----
        StaleAliasWarning
            If the access may write, and a writable alias of the other side is alive.
        """
        if (
            access is Access.CONST
            and self._head & (1 << side)
            and self._pending is None
            and self._watch is None
        ):
            # No state can change, so no lock is needed: the head is always set last.
            if recording() and self.on_both_sides:
                avoided(self._used)
            return self._home(side).view(self._buffers[side], layout, writable=False)
        with self._lock:
            buffer = self._acquire(side, self._narrowed(access, layout), reason)
            return self._home(side).view(buffer, layout, writable=access is not Access.CONST)

    def lend(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Return an array as `array` does, as a borrow: it can lose its write permission."""
        if access is Access.CONST:
            return self.array(side, access, layout, reason)
        with self._lock:
            array = self.array(side, access, layout, reason)
            self._handed_out[side].borrows.add(array)
            return array

    def export(  # noqa: PLR0913, PLR0917  # an access, and whom it is for
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        kind: str,
        target: object | None = None,
    ) -> Any:
        """Return an array as `array` does, as an alias: its consumer may keep it.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        kind
            What the warning calls it.
        target
            What dies with the last use of the alias, where that is not the array itself.
        """
        if access is Access.CONST:
            if verifying():
                return self._export_watched(side, layout, reason, kind, target)
            return self.array(side, access, layout, reason)
        with self._lock:
            if access is Access.OVERWRITE:
                access = self._narrowed(access, layout)
            buffer = self._acquire(side, access, reason)
            array, owner = self._home(side).alias(buffer, layout)
            self._handed_out[side].lease(owner if target is None else target, kind)
            if kind == NUMPY:
                self._handed_out[side].borrows.add(array)
            return array

    def expose(self, side: Side) -> None:
        """Note that somebody of unknown lifetime can write into one side's buffer."""
        with self._lock:
            self._handed_out[side].expose()
            if self._head == Head.SYNCED:
                self._head = 1 << side

    def assume_unaliased(self) -> None:
        """End the exposure of both sides: the caller promises that nobody writes into them."""
        with self._lock:
            for handed_out in self._handed_out:
                handed_out.exposed = None

    @property
    def aliased(self) -> bool:
        """Whether a writable alias of either side may be alive."""
        return any(handed_out.may_be_written for handed_out in self._handed_out)

    def buffer_nbytes(self, side: Side) -> int | None:
        """Return the bytes allocated on one side, None where there is no buffer."""
        buffer = self._buffers[side]
        return None if buffer is None else int(buffer.nbytes)

    def handed_out(self, side: Side) -> HandedOut:
        """Return what one side has handed out, to look at."""
        return self._handed_out[side]

    def bind(self, accelerator: Accelerator) -> None:
        """Bind this memory to an accelerator that it is going to be used on.

        Raises
        ------
        DeviceMismatchError
            If it is bound to another one, or was asked for another one.
        """
        with self._lock:
            if self._accelerator is None:
                self._accelerator = accelerator
            elif self._accelerator is not accelerator:
                raise DeviceMismatchError(
                    f"expected memory of {accelerator.device}, got memory of "
                    f"{self._accelerator.device}; accelerators do not exchange data directly: "
                    "use .to_device() on one of the two first"
                )

    def fit(self, nbytes: int) -> None:
        """Change the bytes in use, within the capacity. Bytes that come into use read as zeros."""
        with self._lock:
            if nbytes > self._used:
                self._settle(Side.ACCELERATOR, Access.MUTABLE)
                for side in (Side.ACCELERATOR, Side.HOST):
                    if self._head & (1 << side):
                        self._home(side).zero(self._buffers[side][self._used : nbytes])
            self._used = nbytes
            self._source_nbytes = min(self._source_nbytes, nbytes)

    def successor(self, nbytes: int) -> SyncedMemory:
        """Return an UNINITIALIZED memory of another capacity, for the same device."""
        memory = SyncedMemory(nbytes, device=CPU)
        memory._accelerator = self._accelerator
        memory._written = self._written
        return memory

    def warn_if_aliased(self, action: str) -> None:
        """Warn that an action takes this memory away from under its writable aliases."""
        self._warn_if_aliased(action, *Side)

    def end_borrows(self) -> None:
        """Take the write permission of all borrows: their memory has no Blob any more."""
        with self._lock:
            for handed_out in self._handed_out:
                handed_out.borrows.suspend()
                handed_out.borrows.forget()

    def __repr__(self) -> str:
        """Show size, head and device. Never moves anything."""
        return f"<SyncedMemory: {self._used} bytes, {self.head.name}, device={self.device}>"

    # --- how -------------------------------------------------------------------------------------

    def _lend_host(self, access: Access, reason: str) -> NDArray[np.uint8]:
        array: NDArray[np.uint8] = self.lend(Side.HOST, access, Layout.raw(self._used), reason)
        return array

    def _lend_accelerator(self, access: Access, reason: str) -> Any:
        return self.lend(Side.ACCELERATOR, access, Layout.raw(self._used), reason)

    def _narrowed(self, access: Access, layout: Layout) -> Access:
        """Treat an overwrite that does not cover the memory as a mutable access."""
        if access is Access.OVERWRITE and not layout.covers(self._used):
            return Access.MUTABLE
        return access

    def _export_watched(
        self, side: Side, layout: Layout, reason: str, kind: str, target: object | None
    ) -> Any:
        """Make a const export that is checked."""
        with self._lock:
            buffer = self._acquire(side, Access.CONST, reason)
            array, owner = self._home(side).alias(buffer, layout)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
            if self._watch is None:
                self._watch = Watch(self._lock, self._buffers)
            self._watch.add(side, owner if target is None else target, kind, self._used)
            return array
