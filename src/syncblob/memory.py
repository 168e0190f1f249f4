"""SyncedMemory: bytes with two homes, and the state machine that keeps them in step.

The head says where the newest contents are. A = allocate a buffer if that home has none, Z = fill
with zeros (or from the memory's source):

============= ========== =========== ========= ======= ========== =========== ========= =======
head before   cpu_data   mutable_cpu overwrite set_cpu gpu_data   mutable_gpu overwrite set_gpu
                         _data       _cpu_data _data              _data       _gpu_data _data
============= ========== =========== ========= ======= ========== =========== ========= =======
UNINITIALIZED CPU, A Z   CPU, A Z    CPU, A    CPU     GPU, A Z   GPU, A Z    GPU, A    GPU
HEAD_AT_CPU   same       same        same      CPU     SYNCED, A, GPU, A,     GPU, A    GPU
                                                       upload     upload
HEAD_AT_GPU   SYNCED, A, CPU, A,     CPU, A    CPU     same       same        same      GPU
              download   download
SYNCED        same       CPU         CPU       CPU     same       GPU         GPU       GPU
============= ========== =========== ========= ======= ========== =========== ========= =======

``async_gpu_push`` starts an upload from HEAD_AT_CPU, leaves SYNCED, and is an error elsewhere.

All but the overwrite columns are Caffe's (``src/caffe/syncedmem.cpp``), transition for transition
and copy for copy. The values of the head are Caffe's too, and they are a bit mask of the sides that
hold the newest contents, which is how the code below reads them.
"""

from __future__ import annotations

import enum
import operator
import threading
from typing import TYPE_CHECKING, Any

from syncblob._homes import TwoHomes
from syncblob._shape import Layout
from syncblob.aliases import Borrows
from syncblob.devices import (
    CPU,
    Device,
    Side,
    current_accelerator,
    default_device,
    home_accelerator,
)
from syncblob.errors import DeviceMismatchError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from syncblob._homes import Source
    from syncblob.devices.base import Accelerator, Push

__all__ = ["Access", "Head", "SyncedMemory"]


class Head(enum.IntEnum):
    """Where the newest contents of a memory are. The numbers are Caffe's."""

    UNINITIALIZED = 0
    HEAD_AT_CPU = 1 << Side.HOST
    HEAD_AT_GPU = 1 << Side.ACCELERATOR
    SYNCED = HEAD_AT_CPU | HEAD_AT_GPU


class Access(enum.Enum):
    """What a caller is going to do with the bytes it is lent."""

    CONST = "read"
    MUTABLE = "read and write"
    OVERWRITE = "write everything and read nothing"


class SyncedMemory(TwoHomes):
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

    __slots__ = ("__weakref__", "_borrows", "_head", "_lock", "_pending", "_written")

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
        self._written = Side.HOST if self._accelerator is None else Side.ACCELERATOR
        self._borrows = (Borrows(), Borrows())
        self._head = 0
        self._lock = threading.RLock()
        self._pending: Push | None = None

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
    def head(self) -> Head:
        """Where the newest contents are. Never moves anything."""
        return Head(self._head)

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
        """Return the host buffer if it holds the newest contents. Changes nothing."""
        buffer: NDArray[np.uint8] | None = self._buffers[0] if self._head & 1 else None
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
            self._settle(side, Access.OVERWRITE)
            for borrows in self._borrows:
                borrows.suspend()
                borrows.forget()
            self._buffers[side] = buffer
            self._nbytes = self._used
            self._source = None
            self._head = 1 << side
            self._written = side

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
            self._settle(Side.HOST, Access.MUTABLE)
            accelerator = self._accelerator or current_accelerator()
            buffer = self._buffer(Side.ACCELERATOR, accelerator)
            suspended = self._borrows[Side.HOST].suspend()
            try:
                pending = self._start_upload(buffer, accelerator, stream)
            except BaseException:
                self._borrows[Side.HOST].restore(suspended)
                raise
            self._borrows[Side.HOST].forget()
            self._accelerator = accelerator
            self._buffers[Side.ACCELERATOR] = buffer
            self._pending = pending
            self._head = Head.SYNCED

    # --- what Blobs and protocols use ------------------------------------------------------------

    def lend(
        self, side: Side, access: Access, layout: Layout, reason: str, *, borrow: bool = True
    ) -> Any:
        """Make one side fit for an access and return an array over it. Copies as the table says.

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
        borrow
            Whether a writable array may lose its write permission when the other side takes over.

        Returns
        -------
        array
            A NumPy array (host, simulated) or a CuPy array. Read-only for a const access, where
            the library has read-only arrays.
        """
        if access is Access.CONST and self._head & (1 << side) and self._pending is None:
            # No state can change, so no lock is needed: the head is always set last.
            return self._home(side).view(self._buffers[side], layout, writable=False)
        if access is Access.OVERWRITE and not layout.covers(self._used):
            access = Access.MUTABLE
        with self._lock:
            buffer = self._acquire(side, access, reason)
            writable = access is not Access.CONST
            array = self._home(side).view(buffer, layout, writable=writable)
            if writable and borrow:
                self._borrows[side].add(array)
            return array

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

    def end_borrows(self) -> None:
        """Take the write permission of all borrows: their memory has no Blob any more."""
        with self._lock:
            for borrows in self._borrows:
                borrows.suspend()
                borrows.forget()

    def __repr__(self) -> str:
        """Show size, head and device. Never moves anything."""
        return f"<SyncedMemory: {self._used} bytes, {self.head.name}, device={self.device}>"

    # --- the machine -----------------------------------------------------------------------------

    def _lend_host(self, access: Access, reason: str) -> NDArray[np.uint8]:
        array: NDArray[np.uint8] = self.lend(Side.HOST, access, Layout.raw(self._used), reason)
        return array

    def _lend_accelerator(self, access: Access, reason: str) -> Any:
        return self.lend(Side.ACCELERATOR, access, Layout.raw(self._used), reason)

    def _acquire(self, side: Side, access: Access, reason: str) -> Any:
        """Bring one side up to date for an access; the table of this module."""
        here = 1 << side
        self._settle(side, access)
        if self._head & here:
            buffer = self._buffers[side]
            if access is not Access.CONST:
                if self._head != here:
                    self._borrows[side.other].suspend()
                    self._borrows[side.other].forget()
                self._head = here
                self._written = side
            return buffer

        accelerator = self._accelerator
        if accelerator is None and side is Side.ACCELERATOR:
            accelerator = current_accelerator()
        if access is Access.OVERWRITE:
            buffer = self._buffer(side, accelerator)
            self._borrows[side.other].suspend()
            head = here
        elif self._head == Head.UNINITIALIZED:
            buffer = self._initialised_buffer(side, accelerator, reason)
            head = here
        else:
            buffer = self._buffer(side, accelerator)
            suspended = self._borrows[side.other].suspend()
            try:
                self._transfer(side, buffer, accelerator, reason)
            except BaseException:
                self._borrows[side.other].restore(suspended)
                raise
            head = Head.SYNCED if access is Access.CONST else here

        # Nothing below can fail. The head comes last: readers without the lock look at it first.
        self._borrows[side.other].forget()
        if side is Side.ACCELERATOR:
            self._accelerator = accelerator
        self._buffers[side] = buffer
        self._source = None
        if access is not Access.CONST:
            self._written = side
        self._head = head
        return buffer

    def _settle(self, side: Side, access: Access) -> None:
        """Wait for an asynchronous upload as far as an access needs it."""
        if self._pending is None:
            return
        try:
            if side is Side.ACCELERATOR:
                if not self._pending.order():
                    return
            elif access is not Access.CONST:
                self._pending.wait()
            else:
                return
        except Exception:
            # It never arrived. The host still has the newest contents: nothing wrote since.
            self._pending = None
            if self._head == Head.SYNCED:
                self._head = Head.HEAD_AT_CPU
            raise
        self._pending = None
