"""SyncedMemory: bytes with two homes. Caffe's class, with Caffe's accessors.

What each access does is written in `state_machine`, what kinds of arrays it gives in `lending`.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from syncblob._shape import Layout
from syncblob.devices import CPU, Device, Side, default_device, home_accelerator
from syncblob.errors import DeviceMismatchError
from syncblob.lending import Lending
from syncblob.state_machine import Access, Head

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from syncblob._homes import Source
    from syncblob.aliases import Lease
    from syncblob.devices.base import Accelerator

__all__ = ["Access", "Head", "SyncedMemory"]


class SyncedMemory(Lending):
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
        bytes. It is called by the first access that is not an overwrite, in place of zero-filling,
        and by `peek_at_source`, which may be before; the first access on the accelerator uploads
        straight from it. If it has a method
        ``read_into(buffer)``, the first access on the host calls that in its place, with the array
        to be filled; it may be shorter than `nbytes`, when less has come into use.

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
        if device is None:
            device = default_device()
        elif not isinstance(device, Device):
            device = Device(device)
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

    def set_cpu_data(self, array: Any) -> None:
        """Adopt an array as the host side, without a copy; its contents are the newest.

        Newer contents of the accelerator are abandoned, as in Caffe: the caller replaces them.
        Later downloads write into the array.

        Parameters
        ----------
        array
            C-contiguous, aligned, writable, with as many bytes as are in use, of any dtype:
            NumPy's, or of any library with DLPack.

        Raises
        ------
        TypeError, ValueError
            If it is not. Nothing has changed then.
        """
        self._set(Side.HOST, array)

    def set_gpu_data(self, array: Any) -> None:
        """Adopt an array as the accelerator side; otherwise as `set_cpu_data`.

        Parameters
        ----------
        array
            On a CUDA device: CuPy's, or any with the CUDA array interface or DLPack. On a
            simulated device: a NumPy array, or any on the host with DLPack.
        """
        self._set(Side.ACCELERATOR, array)

    def _set(self, side: Side, array: Any) -> None:
        from syncblob.interop.adopt import set_side  # the protocols are above

        set_side(self, None, side, array)

    def replace_side(self, side: Side, buffer: Any, accelerator: Accelerator | None = None) -> None:
        """Adopt a buffer as one side's, as `set_cpu_data` and `set_gpu_data` do.

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
        if buffer.nbytes != self._used:
            raise ValueError(
                f"expected {self._used} bytes, the bytes in use of this memory (shared with every "
                f"Blob and view over it), got {buffer.nbytes}"
            )
        self._announcing([], "adoption", self._adopt, side, buffer, accelerator)

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

    @property
    def lock(self) -> threading.RLock:
        """What is held while the state changes."""
        return self._lock

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
                if self._watch is not None:
                    self._watch.drop(Side.HOST)
                    self._watch.drop(Side.ACCELERATOR)
                for side in (Side.ACCELERATOR, Side.HOST):
                    if self._head & (1 << side):
                        self.home(side).zero(self._buffers[side][self._used : nbytes])
            known = min(self._source_nbytes, nbytes)
            self._used = nbytes
            self._source_nbytes = known

    def fitted(self) -> tuple[int, int]:
        """Return what `fit` changes, for `refit`."""
        return self._used, self._source_nbytes

    def refit(self, fitted: tuple[int, int]) -> None:
        """Undo `fit`."""
        self._used, self._source_nbytes = fitted

    def successor(self, nbytes: int) -> SyncedMemory:
        """Return an UNINITIALIZED memory of another capacity, for the same device."""
        memory = SyncedMemory(nbytes, device=CPU)
        memory._accelerator = self._accelerator
        memory._written = self._written
        return memory

    def peek_at_source(self) -> NDArray[np.uint8] | None:
        """Return what the source gives, for reading once; the memory stays UNINITIALIZED.

        Returns
        -------
        ndarray or None
            One-dimensional, uint8, all `nbytes`. None where there is no source, where the first
            access has been, or where not all that the source gives has been in use ever since.
        """
        source = self._source
        if source is None or self._head or self._source_nbytes != self._nbytes:
            return None
        if hasattr(source, "read_into"):
            contents = np.empty(self._nbytes, np.uint8)
            source.read_into(contents)
            return contents
        return self._contents_of(source)

    def leave(self, action: str, give_up: Callable[[], Any], *others: SyncedMemory) -> None:
        """Give memories up, as far as one Blob is concerned, after a warning of all their aliases.

        Parameters
        ----------
        action
            What the warning calls it.
        give_up
            Is called under the locks, when there is nothing to warn of any more.
        *others
            More memories.

        Warns
        -----
        StaleAliasWarning
            If a writable alias is alive.
        """
        self._announcing([], action, self._leave, give_up, others)

    def revoke(self, revoked: list[NDArray[Any]]) -> None:
        """Take the write permission of all that was handed out: no Blob will see it any more.

        Parameters
        ----------
        revoked
            Gets the arrays that had it.
        """
        with self._lock:
            self._disturb()
            for handed_out in self._handed_out:
                handed_out.revoke(revoked)

    def __reduce__(self) -> Never:
        """Refuse copies and pickles: two memories over the same buffers would not be in step.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError("a SyncedMemory is not copied or pickled; copy or pickle the Blob")

    def __repr__(self) -> str:
        """Show size, head and device. Never moves anything."""
        return f"<SyncedMemory: {self._used} bytes, {self.head.name}, device={self.device}>"

    # --- how -------------------------------------------------------------------------------------

    def _adopt(
        self,
        side: Side,
        buffer: Any,
        accelerator: Accelerator | None,
        announced: Sequence[Lease],
    ) -> None:
        if accelerator is not None:
            self.bind(accelerator)
        self._replace(side, buffer, announced)

    def _leave(
        self,
        give_up: Callable[[], Any],
        others: tuple[SyncedMemory, ...],
        announced: Sequence[Lease],
    ) -> None:
        try:
            self._moving = True
            self._disturb()
            self._require_announced(announced, *Side)
            if others:
                with others[0].lock:
                    others[0]._leave(give_up, others[1:], announced)  # noqa: SLF001  # of this class
            else:
                give_up()
        finally:
            self._moving = False

    def _lend_host(self, access: Access, reason: str) -> NDArray[np.uint8]:
        array: NDArray[np.uint8] = self.lend(Side.HOST, access, Layout.raw(self._used), reason)
        return array

    def _lend_accelerator(self, access: Access, reason: str) -> Any:
        return self.lend(Side.ACCELERATOR, access, Layout.raw(self._used), reason)
