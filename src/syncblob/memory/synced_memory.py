"""SyncedMemory: bytes with a buffer on each side. Caffe's class, with Caffe's accessors."""

from __future__ import annotations

import operator
from contextlib import suppress
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Never, Self

from syncblob._layout import Layout
from syncblob.arrays.native import buffer_of
from syncblob.devices import Device, Side
from syncblob.devices.base import make_calls
from syncblob.memory.accesses import acquire, alias, borrow, export_watched
from syncblob.memory.buffers import Window
from syncblob.memory.changes import adopt, take
from syncblob.memory.copies import gather, pull, push, push_from_host
from syncblob.memory.ledger import Ledger, Shortcut
from syncblob.memory.loans import announcing
from syncblob.memory.operations import is_written_elsewhere
from syncblob.memory.room import compute, from_the_start, in_room
from syncblob.memory.state_machine import CONST, MUTABLE, OVERWRITE, Access, Head, Spans
from syncblob.memory.windows import divisible, free, grow
from syncblob.transfers import open_logs
from syncblob.transfers.verify import verifying

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Home


class SyncedMemory(Ledger):
    """A number of bytes with at most one buffer on the host and on each accelerator.

    The newest contents of each byte are on the host, on an accelerator, or on several. The memory
    does not know shapes and dtypes. It is thread-safe: two threads that read at the same time
    cause one transfer. If an allocation or a transfer fails, head, buffers and bytes are as they
    were.

    Parameters
    ----------
    nbytes
        The number of bytes. Nothing is allocated before the first access.
    device
        The device of Blobs over this memory. The default, None, means the default device. If it is
        an accelerator, `gpu_data` and the like use it; otherwise they use the first that is used.
    source
        A function that returns the initial contents, a one-dimensional uint8 array of `nbytes`
        bytes. It is called, in place of zero-filling, by the first access that needs one of them,
        and by `peek_at_source`. An access takes only the bytes that it needs, and uploads to the
        accelerator come directly from the returned array. If the function has a method
        ``read_into(buffer, offset)``, that method is called instead and fills `buffer` with the
        bytes from `offset` on. An upload of all bytes at once still calls the function itself. If
        it has an attribute ``again``, evictions drop the bytes that nobody wrote, and they are read
        again later. That is a function that returns the source anew, independent of the first, or
        None if it cannot be read any more.
    name
        The name of this memory in the log and in `Blob.explain`.

    Raises
    ------
    NoDeviceError
        If the requested device cannot be used.
    """

    __slots__ = ()

    @classmethod
    def adopting(
        cls,
        buffer: Any,
        *,
        accelerator: Accelerator | None = None,
        device: Device | str | Home | None = None,
    ) -> Self:
        """Make a memory over an existing writable buffer, without a copy.

        The device is by default that of the accelerator, else the default device.
        """
        nbytes = buffer.nbytes
        memory = cls(nbytes, device=accelerator if device is None else device)
        side = Side.HOST if accelerator is None else memory.side_of(accelerator)
        window = Window(0, nbytes, buffer)
        memory.whole[side] = window
        memory.spans = Spans.whole(nbytes, 1 << side)
        memory.shortcuts = {window: Shortcut(window, side, usable=True)}
        if accelerator is not None:
            accelerator.residents.add(memory)
        return memory

    # --- Caffe's accessors -----------------------------------------------------------------------

    def cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes, to read on the host. Downloads what the host lacks."""
        return self._whole(Side.HOST, CONST, "cpu_data")

    def mutable_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes, to read and write on the host. Downloads as `cpu_data` does."""
        return self._whole(Side.HOST, MUTABLE, "mutable_cpu_data")

    def overwrite_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes, to overwrite completely on the host. Never transfers."""
        return self._whole(Side.HOST, OVERWRITE, "overwrite_cpu_data")

    def gpu_data(self) -> Any:
        """Return the bytes, to read on the accelerator. Uploads what it lacks."""
        return self._whole(Side.ACCELERATOR, CONST, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return the bytes, to read and write on the accelerator. Uploads as `gpu_data`."""
        return self._whole(Side.ACCELERATOR, MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return the bytes, to overwrite completely on the accelerator. Never transfers."""
        return self._whole(Side.ACCELERATOR, OVERWRITE, "overwrite_gpu_data")

    def _whole(self, side: Side, access: Access, reason: str) -> Any:
        return self.lend(side, access, Layout.raw(self.nbytes), reason)

    def set_cpu_data(self, array: Any) -> None:
        """Adopt an array as the host buffer, without a copy. Its contents are the newest.

        Newer contents of the accelerator are discarded, as in Caffe. Later downloads write into
        the array.

        Parameters
        ----------
        array
            A NumPy array, or one of any library with DLPack. C-contiguous, aligned, writable, of
            any dtype, with as many bytes as the memory.

        Raises
        ------
        TypeError, ValueError
            If it is not such an array. Nothing has changed then.
        """
        self.replace_side(*buffer_of(array, Side.HOST))

    def set_gpu_data(self, array: Any) -> None:
        """Adopt an array as the accelerator buffer; otherwise as `set_cpu_data`.

        Parameters
        ----------
        array
            On a CUDA device: a CuPy array, or any with the CUDA array interface or DLPack. On a
            simulated device: a NumPy array, or any host array with DLPack.
        """
        self.replace_side(*buffer_of(array, Side.ACCELERATOR, self.accelerator))

    def replace_side(self, buffer: Any, accelerator: Accelerator | None = None) -> None:
        """Adopt a buffer on the host, or on an accelerator, as `set_cpu_data` does."""
        if buffer.nbytes != self.nbytes:
            raise ValueError(
                f"expected {self.nbytes} bytes, the size of this memory (shared with "
                f"every Blob and view over it), got {buffer.nbytes}"
            )
        side = Side.HOST if accelerator is None else self.side_of(accelerator)
        announcing(self, "adoption", adopt, side, buffer)

    def async_gpu_push(
        self,
        stream: object = None,
        start: int = 0,
        stop: int | None = None,
        side: Side = Side.ACCELERATOR,
    ) -> None:
        """Start an upload and return while it runs. The head becomes SYNCED.

        Later accelerator accesses of these bytes wait for it, and so do host accesses that may
        write.

        Parameters
        ----------
        stream
            A stream of the accelerator. The default, None, uses a stream of this package.
        start, stop
            The range. The default is all bytes.
        side
            The accelerator.

        Raises
        ------
        RuntimeError
            If the head of these bytes is not HEAD_AT_CPU.
        """
        self._in_room(side, "async_gpu_push", push_from_host, side, stream, start, stop)

    def prefetch(self, side: Side, start: int, stop: int) -> None:
        """Start to copy to a side the bytes of a range that it lacks.

        Copies may still run when the call returns, as that of `async_gpu_push` does. Bytes from a
        source have arrived by then, and so have downloads of bytes that aliases may write, or from
        a device whose downloads are not asynchronous.
        """
        self._in_room(side, "prefetch", _prefetch, side, start, stop)

    def evict(self, side: Side, start: int = 0, stop: int | None = None) -> int:
        """Free the buffers of a side; what only they hold moves to the other side first.

        Writable borrows of them lose their permission. Other arrays over them keep the bytes alive.

        Parameters
        ----------
        side
            The side.
        start, stop
            The range, by default everything. Of a part, the windows that lie in it are freed.

        Returns
        -------
        int
            The number of bytes freed; 0 if both sides have one buffer.

        Raises
        ------
        BufferError
            If an alias, memory that was exposed, or an operation needs a buffer. Nothing has
            changed then.
        """
        stop = self.nbytes if stop is None else stop
        # What leaves the host needs room on the accelerator, if one is known yet.
        refuge = Side.HOST if side or not self.homes[1:] else Side.ACCELERATOR
        freed: int = self._in_room(refuge, "evict", free, side, (start, stop), "evict")
        return freed

    # --- attributes ------------------------------------------------------------------------------

    @property
    def head(self) -> Head:
        """Where the newest contents are. Never moves anything."""
        return self.spans.head()

    @property
    def device(self) -> Device:
        """The device that the memory was made for. It never changes."""
        return self.device_home.device

    @property
    def blank(self) -> bool:
        """Whether it has not been accessed yet and has no source, so that it reads as zeros."""
        return self.source is None and self.spans.uniform == 0

    def _used(self) -> set[Any]:
        """Return what an operation on this memory uses: the ledger, and its homes."""
        return {self, *self.homes}

    def buffer(self, side: Side) -> Any:
        """Return the buffer of one side, up to date or not; None if it has none of everything."""
        window = self.whole[side]
        return None if window is None else window.array

    def peek_at_source(self) -> NDArray[np.uint8] | None:
        """Return the bytes of the source, and keep nothing. The memory stays UNINITIALIZED.

        None if there is no source, or if the memory has been accessed.
        """
        source = self.source
        return source.peek() if source is not None and self.spans.uniform == 0 else None

    # --- arrays ----------------------------------------------------------------------------------

    def array(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Prepare one side for an access and return an array over a layout there.

        Only for `Home.compute`, before the caller returns: for arrays that are kept longer, there
        are `lend` and `export`. It is read-only for a const access, if the library has read-only
        arrays. An overwrite of a layout with gaps is a mutable access.
        """
        writable = access is not CONST
        while True:
            buffer = self.acquire(side, access, layout, reason)
            array = buffer.own_view(self.home(side), layout, writable=writable)
            if self.holds(buffer, side, layout):
                return array

    def holds(self, window: Window, side: Side, layout: Layout) -> bool:
        """Return whether a side still has a window, now that an array over it keeps it there."""
        if not side or window is self.whole[side]:
            return True
        with self.lock:
            return self.window_over(side, *layout.reach) is window

    def acquire(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Prepare one side for an access, as `array` does, and return its window."""
        # To read what is there changes no state, so it needs no lock.
        buffer = None if open_logs or access is not CONST else self.newest(side, layout)
        return acquire(self, side, access, layout, reason) if buffer is None else buffer

    def write(
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        function: Callable[..., Any],
        *args: Any,
    ) -> None:
        """Prepare one side for an access, and write into an array over it, as one step.

        The function gets the array, then `args`, under the lock. What an overwrite discards is kept
        until it has returned. So even after an interrupt the contents are the old or the new ones.
        """

        def fill(buffer: Window, written: list[int]) -> None:
            home = self.home(side)
            array = buffer.own_view(home, layout, writable=True)
            calls = partial(function, array, *args), partial(operator.setitem, written, 0, 1)
            try:
                home.compute(make_calls, calls)
            finally:
                home.used(array, *args)

        acquire(self, side, access, layout, reason, fill)

    def finish_write(
        self, side: Side, layout: Layout, reason: str, array: Any | None = None
    ) -> bool:
        """Record that work which may have written into a range of one side has ended.

        What others have copied meanwhile may lack some of the writes. So what several sides hold is
        this side's alone again. What another holds alone was written there since, and stays its
        own, unless spans were ever joined, or a stale alias there makes a read do that, too: then
        this side gets the whole range.

        Returns False if the array of `array` that was written is given and its buffer has left the
        memory meanwhile, by an eviction or for a larger window. Then the caller has to write again.
        """
        with self.lock:
            window = self.window_over(side, *layout.reach)
            given = array is not None and array.size > 0
            if given and (window is None or not self.home(side).overlap(array, window.array)):
                return False
            others = self.loans.writers(*layout.reach, ~self.alike(side))
            everything = bool(self.span_limit) or any(hasattr(each, "ended") for each in others)
            take(self, side, *layout.reach, reason, everything=everything)
            # A signal handler may have evicted it before that.
            return array is None or window is self.window_over(side, *layout.reach)

    def lend(self, side: Side, access: Access, layout: Layout, reason: str) -> Any:
        """Return an array as `array` does, as a borrow: its write permission can be revoked."""
        if access is CONST:
            return self.array(side, access, layout, reason)
        # Asked first, because nearly every side has a buffer, and to find its home takes longer.
        if side and self.whole[side] is None and not self.home(side).native:
            # Such a borrow cannot be ended when its window is replaced.
            self.make_whole(side, layout)
        return self._hand_out(side, access, layout, reason, borrow)

    def export(
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        kind: str,
        target: object | None = None,
    ) -> Any:
        """Return an array as `array` does, as an alias: its consumer may keep it.

        `kind` is the protocol, for the warning. `target` dies with the last use of the alias, if
        that is not the array itself.
        """
        self.make_whole(side, layout)
        if access is CONST:
            if verifying():
                use = side, layout, reason, kind, target
                return self._in_room(side, reason, export_watched, *use)
            array = self.array(side, access, layout, reason)
            self.home(side).lend(array)
            return array
        return self._hand_out(side, access, layout, reason, partial(alias, kind, target))

    def track(self, side: Side, layout: Layout, reason: str, kind: str, target: object) -> None:
        """Record an array that lies over a side's buffer already as an alias; see `export`."""
        self._hand_out(side, MUTABLE, layout, reason, partial(alias, kind, target))

    def _hand_out(
        self, side: Side, access: Access, layout: Layout, reason: str, hand_out: Callable[..., Any]
    ) -> Any:
        """Prepare a side for an access that may write, and hand out an array over it."""
        while True:
            window: Any = acquire(self, side, access, layout, reason)
            start, stop = layout.reach
            with self.lock:
                # Another thread may have used the memory since, or replaced the window.
                there: Any = self.window_over(side, start, stop)
                if there is not window or not self.is_alone(side, start, stop):
                    continue
                self.compare_watch(side, start, stop, writes=True)
                loans, array = self.own_loans(), hand_out(self, side, window, layout)
                # So may a signal handler or a finaliser before it was recorded in these loans.
                there = self.window_over(side, start, stop) if self.loans is loans else None
                if there is window and self.is_alone(side, start, stop):
                    return array

    def make_whole(self, side: Side, layout: Layout) -> None:
        """Give a side one buffer, if there is room: aliases of parts keep windows from growing."""
        if layout.size and self.whole[side] is None and divisible(self, self.home(side)):
            # Another alias may keep its window. Then this range gets one, too.
            with suppress(MemoryError, BufferError):
                self.under_lock(grow, side, 0, self.nbytes, "")

    def _in_room(self, side: Side, reason: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the ledger under its lock, as long as evictions make room."""
        return in_room(self.home(side), reason, MemoryError, self.under_lock, function, *args)

    def elements(self, side: Side, layout: Layout, reason: str) -> Any:
        """Return an array of elements on one side, for the caller to copy at once.

        The bytes in the gaps of a layout do not move. A layout without gaps is read by a const
        access, so that a second copy moves nothing.
        """
        if layout.gapless or self.spans.common(layout.start, layout.stop) & (1 << side):
            return self.array(side, CONST, layout, reason)
        return self.gather(side, layout, reason)

    def copy_of(self, side: Side, layout: Layout, reason: str) -> Any:
        """Return a private, C-contiguous copy of `elements` on one side."""
        return from_the_start(self._copy, side, layout, reason)

    def _copy(self, side: Side, layout: Layout, reason: str) -> Any:
        if not layout.gapless:
            return self.gather(side, layout, reason)
        home, array = self.home(side), self.array(side, CONST, layout, reason)
        return compute(home, home.copy, array)

    def gather(self, side: Side, layout: Layout, reason: str) -> Any:
        """Return a private, C-contiguous copy of elements on one side. Changes no holders.

        Elements that only another side holds are gathered there first.
        """
        return self._in_room(side, reason, gather, side, layout, reason)

    # --- what Blobs and protocols use ------------------------------------------------------------

    def end_uploads(self) -> None:
        """Wait for uploads. A failed one changes the map, and its error is raised here."""
        self.under_lock(lambda _: self.finish_uploads(Side.HOST, MUTABLE, 0, self.nbytes))

    def successor(self, nbytes: int) -> SyncedMemory:
        """Return an UNINITIALIZED memory of another size, for the same device."""
        memory = SyncedMemory(nbytes, device=self.device_home, name=self.name)
        if self.accelerator is not None:
            memory.side_of(self.accelerator)
        return memory

    def __reduce__(self) -> Never:
        """Raise TypeError: two memories over the same buffers would not stay coherent."""
        raise TypeError("a SyncedMemory is not copied or pickled; copy or pickle the Blob")

    def __repr__(self) -> str:
        """Show size, head and device. Never moves anything."""
        return f"<SyncedMemory: {self.nbytes} bytes, {self.head.name}, device={self.device}>"


def _prefetch(ledger: Ledger, side: Side, start: int, stop: int) -> None:
    if is_written_elsewhere(ledger):
        # The copy would lack what is written next.
        return
    lacking = ledger.spans.lacking(start, stop, 1 << side)
    common = reduce(operator.and_, [run.holders for run in lacking], -1)
    if common == -1:
        return
    if side and common & 1:
        push(ledger, side, None, start, stop, "prefetch")
        return
    origin = common and ledger.nearest(side, common)
    if side or not (origin and pull(ledger, origin, start, stop, "prefetch")):
        acquire(ledger, side, CONST, Layout.raw(stop - start, start), "prefetch", locked=True)
