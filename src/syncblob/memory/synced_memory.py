"""SyncedMemory: bytes with a buffer on each side. Caffe's class, with Caffe's accessors.

The table in `state` says what each access moves. `array` is for work that ends before the caller
returns, `lend` makes borrows, and `export` makes aliases.
"""

from __future__ import annotations

import operator
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Never

import numpy as np

from syncblob._forks import LostLock, is_lost, notify
from syncblob._layout import Layout
from syncblob._source_lines import Place, user_instruction, user_line, user_place
from syncblob.arrays.native import buffer_of
from syncblob.devices import (
    CPU,
    HOST,
    Device,
    Side,
    current_accelerator,
    default_device,
    home_accelerator,
)
from syncblob.errors import DeviceMismatchError
from syncblob.memory.buffers import Buffers
from syncblob.memory.gather import gather
from syncblob.memory.leases import NO_LOANS, Exposure, Loans, restore
from syncblob.memory.shortcut import NO_SHORTCUT, NO_SHORTCUTS, Shortcut, Shortcuts
from syncblob.memory.sources import Source
from syncblob.memory.span_limit import exceeds_limit, joined, lowered, next_limit
from syncblob.memory.spans import Run, Spans
from syncblob.memory.stale_aliases import Unannounced, announcing, require_announced
from syncblob.memory.state import (
    CONST,
    MUTABLE,
    OVERWRITE,
    SMALL,
    Access,
    Head,
    Transition,
    head_over,
    plan_access,
    transition,
)
from syncblob.memory.verify import Watch, verifying
from syncblob.transfers import avoided, follow_logs, log_generation, recording

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from syncblob._source_lines import NotedPlace
    from syncblob.devices.base import Accelerator, Home, Push
    from syncblob.memory.leases import Lease
    from syncblob.memory.sources import Function
    from syncblob.memory.state import Noted

__all__ = ["SyncedMemory"]

_REMEMBERED = 8

_BOTH = int(Head.SYNCED)
_HOST = 1 << Side.HOST
_NOTHING_LENT = (NO_LOANS, NO_LOANS)
_NEITHER = (False, False)


class SyncedMemory:
    """A number of bytes with at most one buffer on the host and one on an accelerator.

    The newest contents of each byte are on the host, on the accelerator, or on both. The memory
    does not know shapes and dtypes. It is thread-safe: two threads that read at the same time
    cause one transfer. If an allocation or a transfer fails, head, buffers and bytes are as they
    were.

    Parameters
    ----------
    nbytes
        The capacity. Nothing is allocated before the first access.
    device
        The device of Blobs over this memory. The default, None, means the default device. If it is
        an accelerator, the memory is bound to it; otherwise the accelerator is chosen on first use.
    source
        A function that returns the initial contents, a one-dimensional uint8 array of `nbytes`
        bytes. It is called, in place of zero-filling, by the first access that needs one of them,
        and by `peek_at_source`. An access takes only the bytes that it needs, and uploads to the
        accelerator come directly from the returned array. If the function has a method
        ``read_into(buffer, offset)``, that method is called instead and fills `buffer` with the
        bytes from `offset` on. An upload of all bytes at once still calls the function itself.
    name
        The name of this memory in the journal and in `Blob.explain`.

    Raises
    ------
    NoDeviceError
        If the requested device cannot be used.
    """

    __slots__ = (
        "__weakref__",
        "_buffers",
        "_device_home",
        "_follows_logs",
        "_history",
        "_last_used",
        "_loans",
        "_lock",
        "_moving",
        "_shortcuts",
        "_source",
        "_span_limit",
        "_spans",
        "_uploads",
        "_watch",
    )

    # The lock-free paths. An access may skip the lock if all it has to do is return an array: its
    # side holds all of its range, no upload is under way, and nothing is watched. This is safe for
    # the following reasons:
    #
    # - `_spans` is immutable and replaced as a whole. A map that gives bytes to a side is assigned
    #   last, when the buffers hold them. A map that takes bytes from a side is assigned before they
    #   change.
    # - `_uploads` and `_watch` are set before `_spans` counts the bytes that they concern.
    # - Every change revokes the shortcuts first. A borrow or an alias made without the lock is
    #   recorded before `Shortcut.writable` is read a second time. So either the change finds the
    #   record, or the thread that made the array finds the shortcut revoked and tries again.

    def __init__(
        self,
        nbytes: int,
        *,
        device: Device | str | None = None,
        source: Function | None = None,
        name: str = "",
    ) -> None:
        nbytes = operator.index(nbytes)
        if nbytes < 0:
            raise ValueError(f"expected a non-negative number of bytes, got {nbytes}")
        if device is None:
            device = default_device()
        elif not isinstance(device, Device):
            device = Device(device)
        accelerator = home_accelerator(device)
        self._buffers = Buffers(nbytes, accelerator)
        self._buffers.name = name
        self._device_home: Home = HOST if accelerator is None else accelerator
        self._source = None if source is None else Source(source, nbytes)
        # The map of the bytes in use. Its length is their number.
        self._spans = Spans.whole(nbytes, 0)
        # The loans of each side; see `_own_loans`.
        self._loans: tuple[Loans, Loans] = _NOTHING_LENT
        # Asynchronous uploads that later accesses may have to wait for.
        self._uploads: tuple[_Upload, ...] = ()
        # True while bytes are moving or the state is about to change. An access that interrupts
        # this, on the same thread, is refused.
        self._moving = False
        # The number of spans above which some are joined; 0 if that has never happened.
        self._span_limit = 0
        self._shortcuts: Shortcuts = NO_SHORTCUTS
        # Whether opened logs revoke the shortcuts.
        self._follows_logs = False
        # The const exports that `verified_const` checks.
        self._watch: Watch | None = None
        self._history: list[Noted] | None = None
        # While a log is open: its generation, and the side that last used each byte.
        self._last_used: tuple[int, Spans] | None = None
        self._lock = threading.RLock()
        notify(self)

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
            As for the constructor. The default is the accelerator of an accelerator buffer, else
            the default device.

        Raises
        ------
        DeviceMismatchError
            If `device` is another accelerator than that of the buffer.
        """
        if device is None and accelerator is not None:
            device = accelerator.device
        memory = cls(buffer.nbytes, device=device)
        if accelerator is not None:
            memory.bind(accelerator)
        memory._buffers.sides[side] = buffer
        memory._spans = Spans.whole(buffer.nbytes, 1 << side)
        return memory

    # --- Caffe's accessors -----------------------------------------------------------------------

    def cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use, to read on the host. Downloads what the host lacks."""
        return self._lend_host(CONST, "cpu_data")

    def mutable_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use, to read and write on the host. Downloads as `cpu_data` does."""
        return self._lend_host(MUTABLE, "mutable_cpu_data")

    def overwrite_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use, to overwrite completely on the host. Never transfers."""
        return self._lend_host(OVERWRITE, "overwrite_cpu_data")

    def gpu_data(self) -> Any:
        """Return the bytes in use, to read on the accelerator. Uploads what it lacks."""
        return self._lend_accelerator(CONST, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return the bytes in use, to read and write on the accelerator. Uploads as `gpu_data`."""
        return self._lend_accelerator(MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return the bytes in use, to overwrite completely on the accelerator. Never transfers."""
        return self._lend_accelerator(OVERWRITE, "overwrite_gpu_data")

    def set_cpu_data(self, array: Any) -> None:
        """Adopt an array as the host buffer, without a copy. Its contents are the newest.

        Newer contents of the accelerator are discarded, as in Caffe. Later downloads write into
        the array.

        Parameters
        ----------
        array
            A NumPy array, or one of any library with DLPack. C-contiguous, aligned, writable, of
            any dtype, with as many bytes as are in use.

        Raises
        ------
        TypeError, ValueError
            If it is not such an array. Nothing has changed then.
        """
        self._set(Side.HOST, array)

    def set_gpu_data(self, array: Any) -> None:
        """Adopt an array as the accelerator buffer; otherwise as `set_cpu_data`.

        Parameters
        ----------
        array
            On a CUDA device: a CuPy array, or any with the CUDA array interface or DLPack. On a
            simulated device: a NumPy array, or any host array with DLPack.
        """
        self._set(Side.ACCELERATOR, array)

    def _set(self, side: Side, array: Any) -> None:
        self.replace_side(side, *buffer_of(array, side, self.accelerator))

    def replace_side(self, side: Side, buffer: Any, accelerator: Accelerator | None = None) -> None:
        """Adopt a buffer on one side, as `set_cpu_data` and `set_gpu_data` do.

        Parameters
        ----------
        side
            Where the buffer is.
        buffer
            One-dimensional, uint8, C-contiguous, writable, with as many bytes as are in use.
        accelerator
            The backend of an accelerator buffer.

        Raises
        ------
        ValueError
            If the buffer has another size.
        """
        if buffer.nbytes != self.used_nbytes:
            raise ValueError(
                f"expected {self.used_nbytes} bytes, the bytes in use of this memory (shared with "
                f"every Blob and view over it), got {buffer.nbytes}"
            )
        announcing(self, [], "adoption", self._adopt, side, buffer, accelerator)

    def async_gpu_push(
        self, stream: object = None, start: int = 0, stop: int | None = None
    ) -> None:
        """Start an upload and return while it runs. The head becomes SYNCED.

        Later accelerator accesses of these bytes wait for it, and so do host accesses that may
        write.

        Parameters
        ----------
        stream
            A stream of the accelerator. The default, None, uses a stream of this package.
        start, stop
            The range. The default is all bytes in use.

        Raises
        ------
        RuntimeError
            If the head of these bytes is not HEAD_AT_CPU.
        """
        with self._lock:
            stop = self.used_nbytes if stop is None else stop
            head = head_over(self._spans, start, stop)
            if head is not Head.HEAD_AT_CPU:
                raise RuntimeError(
                    f"async_gpu_push starts from HEAD_AT_CPU, but the head is {head.name}"
                )
            self._push(stream, start, stop, "async_gpu_push")

    def prefetch(self, side: Side, start: int, stop: int) -> None:
        """Start to copy to a side the bytes of a range that it lacks.

        Uploads may still run when the call returns, like those of `async_gpu_push`. Downloads, and
        bytes from a source, have arrived by then.

        Parameters
        ----------
        side
            The side to copy to.
        start, stop
            The range.
        """
        with self._lock:
            lacking = self._spans.lacking(start, stop, 1 << side)
            if not lacking:
                return
            if side is Side.ACCELERATOR and all(run.holders for run in lacking):
                self._push(None, start, stop, "prefetch")
            else:
                self._acquire(side, CONST, Layout.raw(stop - start, start), "prefetch")

    # --- attributes ------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """The capacity, in bytes."""
        return self._buffers.nbytes

    @property
    def used_nbytes(self) -> int:
        """The bytes in use. At most the capacity."""
        return self._spans.nbytes

    @property
    def head(self) -> Head:
        """Where the newest contents are. Never moves anything."""
        spans = self._spans
        return head_over(spans, 0, spans.nbytes)

    def head_over(self, start: int, stop: int) -> Head:
        """Return the head of a range. Never moves anything."""
        return head_over(self._spans, start, stop)

    def head_of(self, layout: Layout) -> Head:
        """Return the head of the range of an access through a layout. Never moves anything."""
        return self.head_over(*self.range_of(layout))

    @property
    def spans(self) -> Spans:
        """The map of the bytes in use: which sides hold each of them."""
        return self._spans

    @property
    def name(self) -> str:
        """The name of this memory in the journal and in `Blob.explain`; empty if it has none."""
        return self._buffers.name

    @name.setter
    def name(self, name: str) -> None:
        self._buffers.name = name

    @property
    def accelerator(self) -> Accelerator | None:
        """The backend that this memory is bound to; None if it is not bound yet."""
        return self._buffers.accelerator

    @property
    def device(self) -> Device:
        """The device that the memory was made for. It never changes."""
        return self._device_home.device

    @property
    def device_home(self) -> Home:
        """The home of `device`."""
        return self._device_home

    @property
    def on_both_sides(self) -> bool:
        """Whether there are buffers on both sides."""
        return self._buffers.on_both_sides

    @property
    def blank(self) -> bool:
        """Whether it has not been accessed yet and has no source, so that it reads as zeros."""
        return self._source is None and self._spans.uniform == 0

    @property
    def aliased(self) -> bool:
        """Whether a writable alias of either side may be alive."""
        return any(loans.may_be_written for loans in self._loans)

    @property
    def history(self) -> tuple[Transition, ...]:
        """The last transitions, oldest first."""
        return tuple(map(transition, tuple(self._history or ())))

    @property
    def lock(self) -> threading.RLock:
        """The lock that is held while the state changes."""
        return self._lock

    def home(self, side: Side) -> Home:
        """Return the home of one side. Binds, allocates and moves nothing.

        Raises
        ------
        NoDeviceError
            If `side` is the accelerator's, the memory is not bound to one, and none is available.
        """
        return self._buffers.home(side)

    def buffer(self, side: Side) -> Any:
        """Return the buffer of one side, up to date or not; None if there is none."""
        return self._buffers.sides[side]

    def buffer_nbytes(self, side: Side) -> int | None:
        """Return the number of bytes allocated on one side; None if there is no buffer."""
        buffer = self._buffers.sides[side]
        return None if buffer is None else int(buffer.nbytes)

    def loans(self, side: Side) -> Loans:
        """Return the loans of one side. Read-only for the caller."""
        return self._loans[side]

    def range_of(self, layout: Layout) -> tuple[int, int]:
        """Return the range of an access through a layout.

        If ``layout.whole``, this is all bytes in use. Aliases record the range of the layout's
        elements instead, because they reach nothing else.
        """
        if layout.whole:
            return 0, self._spans.nbytes
        return layout.start, layout.stop

    def holds_newest(self, side: Side, start: int, stop: int) -> bool:
        """Tell whether an access of a range on a side needs no transfer from the other side."""
        holder = 1 << side
        return not any(run.holders for run in self._spans.lacking(start, stop, holder))

    def newest(self, side: int, layout: Layout) -> Any:
        """Return a side's buffer if a const access may read it as it is, else None."""
        spans = self._spans
        held = spans.uniform
        if held is None:
            held = spans.common(*self.range_of(layout))
        if not held & (1 << side) or self._watch is not None:
            return None
        # Host reads do not wait for uploads.
        return self._buffers.sides[side] if not (side and self._uploads) else None

    def shortcut(self, side: Side, layout: Layout) -> Shortcut | None:
        """Return the shortcut for arrays over a layout on one side, up to date.

        Does not wait for transfers: while one is under way, nothing can be used at once.

        Returns
        -------
        Shortcut or None
            None if the side has no buffer. The same object is returned as long as it has the same
            one, unless the sides hold different parts of the memory.
        """
        buffer = self._buffers.sides[side]
        if buffer is None:
            return None
        if self._moving:
            return NO_SHORTCUT
        # Use `with`: after a plain `acquire()` an interrupt could leave the lock held.
        with self._lock:
            if self._shortcuts is NO_SHORTCUTS:
                made = Shortcuts()
                # A signal handler or a finaliser may have made them meanwhile.
                if self._shortcuts is NO_SHORTCUTS:
                    self._shortcuts = made
            shortcuts = self._shortcuts
            if not self._follows_logs and self._buffers.on_both_sides:
                # Only memories with two buffers tell logs anything.
                follow_logs(shortcuts)
                self._follows_logs = True
            shortcuts.limit()
            # Before all that it concerns is read: the shortcut may be revoked, and forgotten, then.
            epoch = shortcuts.epoch
            buffer = self._buffers.sides[side]
            start, stop = 0, self._spans.nbytes
            if self._spans.uniform is None:
                start, stop = self.range_of(layout)
                shortcut = shortcuts.of_part(side, buffer, start, stop)
            else:
                shortcut = shortcuts.of_side(side, buffer)
            usable = self._usable(side, start, stop)
            # A signal handler or a finaliser that changed anything since has revoked the shortcuts.
            # None can run between this comparison and the assignments: nothing is called there.
            shortcut.readable, shortcut.writable = usable if shortcuts.epoch is epoch else _NEITHER
            if shortcuts.epoch is not epoch:
                # Another thread has opened a log, which needs no lock.
                shortcuts.revoke()
            return shortcut

    def _usable(self, side: Side, start: int, stop: int) -> tuple[bool, bool]:
        """Compute the attributes of a shortcut, under the lock: readable and writable."""
        spans, mine = self._spans, 1 << side
        holds = spans.common(start, stop) & mine
        # Host reads do not wait for uploads.
        if not holds or self._watch is not None or (side and self._uploads) or self._moving:
            return _NEITHER
        if recording() and not self._is_noted(side, start, stop):
            return _NEITHER
        alone = spans.any(start, stop) == mine
        others = self._loans[1 - side]
        return True, alone and not self._uploads and not others.may_write_in(start, stop)

    def claim(self, buffer: Any, side: Side, start: int, stop: int, reason: str) -> bool:
        """Make a side that holds all of a range its only holder, if nothing else has to be done.

        This is the first write after both sides were read. Nothing is copied or waited for, and
        there is nothing to warn of.

        Parameters
        ----------
        buffer
            The buffer that the caller will write into.
        side, start, stop, reason
            The write.

        Returns
        -------
        bool
            Whether the range may be written at once. If not, nothing has changed.
        """
        mine = 1 << side
        with self._lock:
            if self._moving or self._watch is not None:
                return False
            try:
                # From here on, not even a finaliser can change anything.
                self._moving = True
                before = self._spans
                nbytes = before.nbytes
                others = self._loans[1 - side]
                if (
                    others.leases
                    or others.exposures
                    or self._uploads
                    or start == stop
                    or self._buffers.sides[side] is not buffer
                ):
                    return False
                uniform = before.uniform
                if uniform is None:
                    holds, alone = (
                        before.common(start, stop) & mine,
                        before.any(start, stop) == mine,
                    )
                else:
                    holds, alone = uniform & mine, uniform == mine
                if not holds or (uniform is None and exceeds_limit(before, self._span_limit)):
                    return False
                if recording():
                    self._note_use(side, start, stop)
                if alone:
                    return True
                whole = not start and stop == nbytes
                after = Spans.whole(nbytes, mine) if whole else before.put(start, stop, mine)
                self._shortcuts.revoke()
                epoch = self._shortcuts.epoch
                self._spans = after
                if whole and self._follows_logs and not recording():
                    # As `_usable` would find in this case.
                    self._shortcuts.renew(epoch, mine)
            finally:
                self._moving = False
            self._note(reason, before, start, stop)
        return True

    def peek_at_source(self) -> NDArray[np.uint8] | None:
        """Return the bytes of the source, and keep nothing. The memory stays UNINITIALIZED.

        Returns
        -------
        ndarray or None
            One-dimensional, uint8, all `nbytes`. None if there is no source, if the memory has
            been accessed, or if some of the source's bytes have gone out of use.
        """
        source = self._source
        if source is None or self._spans.uniform != 0 or not source.complete:
            return None
        return source.peek()

    # --- arrays ----------------------------------------------------------------------------------

    def array(
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
    ) -> Any:
        """Prepare one side for an access and return an array over it. Copies as the table says.

        Only for work that ends before the caller returns. For arrays that are kept longer, use
        `lend` and `export`.

        Parameters
        ----------
        side
            The side to work on.
        access
            What the caller may do. An overwrite of a layout with gaps is treated as mutable.
        layout
            The array to return. The range of its elements is the range of the access.
        reason
            The name of the access, for the journal.

        Returns
        -------
        array
            A NumPy array (host, simulated) or a CuPy array. Read-only for a const access, if the
            library has read-only arrays.

        Warns
        -----
        StaleAliasWarning
            If the access may write, and a writable alias of the other side overlaps its range.
        """
        if access is CONST:
            buffer = self.read(side, layout, reason)
            return self._buffers.home(side).view(buffer, layout, writable=False)
        try:
            with self._lock:
                return self._array(side, access, layout, reason, ())
        except Unannounced as found:
            return announcing(self, found.stale, reason, self._array, side, access, layout, reason)

    def read(self, side: Side, layout: Layout, reason: str) -> Any:
        """Prepare one side for a const access, as `array` does, and return the side's buffer."""
        # As `newest`, without the call. This changes no state, so it needs no lock.
        spans = self._spans
        held = spans.uniform
        if held is None:
            held = spans.common(*self.range_of(layout))
        if held & (1 << side):
            waits = self._watch is not None or (side and self._uploads) or recording()
            buffer = None if waits else self._buffers.sides[side]
            if buffer is not None:
                return buffer
        with self._lock:
            buffer = self._buffers.sides[side]
            if layout.whole and self._again(side, CONST, layout, reason, buffer):
                return buffer
            return self._acquire(side, CONST, layout, reason)

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

        An overwrite discards newer contents of the other side. They are kept until the function
        has returned. So even after an interrupt the contents are either the old or the new ones.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        function, args
            The function, called under the lock with a writable array over `side`, then `args`.

        Warns
        -----
        StaleAliasWarning
            As for `array`.
        """
        try:
            with self._lock:
                self._write(side, access, layout, reason, function, args, ())
        except Unannounced as found:
            announcing(
                self, found.stale, reason, self._write, side, access, layout, reason, function, args
            )

    def finish_write(self, side: Side, start: int, stop: int, reason: str) -> None:
        """Record that work which may write into a range of one side has ended.

        Meanwhile, a thread, a signal handler or a finaliser may have copied bytes to the other
        side, and the copy may lack some of the writes. So bytes that both sides hold are this
        side's alone again. Bytes that the other side alone holds were written there since, and
        stay its own, unless spans were ever joined: then this side gets the whole range.
        """
        with self._lock:
            before = self._take(side, start, stop, everything=self._span_limit > 0)
            if self._spans is not before:
                self._note(reason, before, start, stop)

    def lend(
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        template: tuple[Any, Any] | None = None,
    ) -> Any:
        """Return an array as `array` does, as a borrow: its write permission can be revoked.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        template
            A buffer, and the writable array over it that this method would make. If the side still
            has that buffer, a view of the array is returned, which is faster.
        """
        if access is CONST:
            return self.array(side, access, layout, reason)
        try:
            with self._lock:
                return self._borrow(side, access, layout, reason, template, ())
        except Unannounced as found:
            return announcing(
                self, found.stale, reason, self._borrow, side, access, layout, reason, template
            )

    def record_borrow(self, side: int, array: NDArray[Any]) -> None:
        """Record a writable borrow made by a shortcut. Check `writable` once more afterwards.

        Parameters
        ----------
        side
            The side.
        array
            The borrow.
        """
        # As `_own_loans`, without the call if the side has some already.
        loans = self._loans[side]
        if loans is NO_LOANS:
            loans = self._own_loans(side)
        loans.borrows.add(array)

    def export(  # noqa: PLR0913, PLR0917  # an access, and its consumer
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
            The name of the protocol in the warning.
        target
            The object that dies with the last use of the alias, if that is not the array itself.
        """
        if access is CONST:
            if verifying():
                return self._export_watched(side, layout, reason, kind, target)
            return self.array(side, access, layout, reason)
        try:
            with self._lock:
                return self._leased(side, access, layout, reason, kind, target, ())
        except Unannounced as found:
            return announcing(
                self, found.stale, reason, self._leased, side, access, layout, reason, kind, target
            )

    def record_lease(  # noqa: PLR0913, PLR0917  # an alias, and its caller
        self,
        side: int,
        array: NDArray[Any],
        kind: str,
        start: int,
        stop: int,
        noted: NotedPlace | None = None,
    ) -> None:
        """Record a writable alias that was made by a shortcut; see `record_borrow`.

        Parameters
        ----------
        side
            The side.
        array
            The alias.
        kind
            The name of the protocol in the warning. Its consumers must keep the array itself, as
            those of DLPack do, and not only the base of its views.
        start, stop
            The range of the array.
        noted
            The place of the user's code, if the caller knows it.
        """
        loans = self._loans[side]
        if loans is NO_LOANS:
            loans = self._own_loans(side)
        loans.lease(array, kind, start, stop, noted)

    def elements(self, side: Side, layout: Layout, reason: str) -> Any:
        """Return an array of elements on one side, for the caller to copy.

        For private copies: the bytes in the gaps of a layout do not move. A layout without gaps is
        read by a const access, so that a second copy moves nothing.

        Parameters
        ----------
        side, layout, reason
            As for `array`.
        """
        if layout.gapless or self._spans.common(layout.start, layout.stop) & (1 << side):
            return self.array(side, CONST, layout, reason)
        return self.gather(side, layout, reason)

    def gather(self, side: Side, layout: Layout, reason: str) -> Any:
        """Return a private, C-contiguous copy of elements on one side. Changes no holders.

        Moves only the elements, not the bytes between them: elements that only the other side
        holds are gathered there first.

        Parameters
        ----------
        side
            The side of the copy.
        layout, reason
            As for `array`.

        Returns
        -------
        array
            Writable and private.
        """
        with self._lock:
            if self._moving:
                self._refuse_reentry()
            self._compare_watch(side, CONST, layout.start, layout.stop)
            if side is Side.ACCELERATOR and self._buffers.accelerator is None:
                self._buffers.accelerator = current_accelerator()
            return gather(
                self._spans,
                self._buffers,
                self._source,
                side,
                layout,
                reason,
                self._wait_for_uploads,
            )

    def expose(
        self,
        side: Side,
        place: Place | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        shared: bool = False,
    ) -> None:
        """Record that an alias of unknown lifetime can write into a range of one side's buffer.

        Parameters
        ----------
        side
            The side.
        place
            The line of the user's code that exposed it. None means the line now running.
        start, stop
            The range. The default is all of the capacity.
        shared
            Whether other processes share the buffer: then a write on the other side does not end
            the exposure.
        """
        place = user_place() if place is None else place
        with self._lock:
            stop = self.nbytes if stop is None else stop
            self._shortcuts.revoke()
            self._take(side, start, min(stop, self.used_nbytes))
            loans = self._own_loans(side)
            loans.exposures = (
                *(other for other in loans.exposures if other[:2] != (start, stop)),
                Exposure(start, stop, place, shared),
            )

    def is_exposed(self, side: Side, start: int, stop: int) -> bool:
        """Tell whether all of a range is exposed on a side, and only that side holds it."""
        exposed = any(
            exposure.start <= start and stop <= exposure.stop
            for exposure in self._loans[side].exposures
        )
        return exposed and self._spans.any(start, stop) == 1 << side

    def assume_unaliased(self, start: int = 0, stop: int | None = None) -> None:
        """End the exposure of a range on both sides: the caller promises that no alias writes."""
        with self._lock:
            stop = self.nbytes if stop is None else stop
            for loans in self._loans:
                if loans.exposures:
                    loans.exposures = loans.without_exposures(start, stop, shared=True)

    def refresh(self, start: int, stop: int, *, still_exposed: bool) -> None:
        """Make a range of the host's buffer newest, with what others have written into it, once.

        Parameters
        ----------
        start, stop
            The range.
        still_exposed
            Whether the parts of the range that are exposed on the host stay exposed.
        """
        with self._lock:
            loans = self._loans[Side.HOST]
            exposures = loans.exposures
            if not still_exposed:
                exposures = loans.without_exposures(start, stop, shared=True)
            # `expose` leaves to the host alone what both sides hold.
            self.expose(Side.HOST, start=start, stop=stop)
            self._loans[Side.HOST].exposures = exposures

    # --- what Blobs and protocols use ------------------------------------------------------------

    def bind(self, accelerator: Accelerator, layout: Layout | None = None) -> None:
        """Bind this memory to an accelerator.

        Parameters
        ----------
        accelerator
            The accelerator.
        layout
            That of the Blob that is to be used there, for the error.

        Raises
        ------
        DeviceMismatchError
            If it is bound to another accelerator, or was made for another one.
        """
        with self._lock:
            bound = self._buffers.accelerator
            if bound is None:
                self._buffers.accelerator = accelerator
            elif bound is not accelerator:
                raise DeviceMismatchError(
                    f"expected memory of {accelerator.device}, got "
                    f"{self._buffers.described(layout)}, on {bound.device}, at "
                    f"{user_line().described()}; "
                    "accelerators do not exchange data directly: use .to_device() on one of the "
                    "two first"
                )

    def fit(self, nbytes: int) -> None:
        """Change the number of bytes in use, up to the capacity. Bytes added read as zeros."""
        with self._lock:
            if self._moving:
                self._refuse_reentry()
            used = self.used_nbytes
            if nbytes > used:
                self._wait_for_uploads(Side.ACCELERATOR, MUTABLE, used, nbytes)
            revoked: list[NDArray[Any]] = []
            after = None
            try:
                self._moving = True
                self._shortcuts.revoke()
                after = self._spans.resized(nbytes)
                if nbytes > used:
                    after = self._zeroed(after, used, revoked)
                if self._source is not None:
                    self._source.limit = min(self._source.limit, nbytes)
                self._spans = after
                for loans in self._loans:
                    loans.borrows.forget(revoked)
            except BaseException:
                if self._spans is not after:
                    restore(revoked)
                raise
            finally:
                self._moving = False

    def fitted(self) -> tuple[Spans, int]:
        """Wait for uploads, and return the state that `fit` changes, for `refit`.

        A failed upload changes the map, and `refit` must not undo that. So its error is raised
        here, before the state is saved.
        """
        if self._uploads:
            with self._lock:
                self._wait_for_uploads(Side.HOST, MUTABLE, 0, self.nbytes)
        return self._spans, 0 if self._source is None else self._source.limit

    def refit(self, fitted: tuple[Spans, int]) -> None:
        """Undo `fit`. The caller has held the lock since `fitted`."""
        self._shortcuts.revoke()
        self._spans = fitted[0]
        if self._source is not None:
            self._source.limit = fitted[1]

    def successor(self, nbytes: int) -> SyncedMemory:
        """Return an UNINITIALIZED memory of another capacity, for the same device."""
        memory = SyncedMemory(nbytes, device=CPU, name=self.name)
        memory._buffers.accelerator = self._buffers.accelerator
        memory._device_home = self._device_home
        return memory

    def leave(self, action: str, give_up: Callable[[], Any], *others: SyncedMemory) -> None:
        """Warn about all aliases of this memory and others, then detach one Blob from them.

        Parameters
        ----------
        action
            The name of the action in the warning.
        give_up
            Detaches the Blob. Called under the locks, after the warnings.
        *others
            More memories.

        Warns
        -----
        StaleAliasWarning
            If a writable alias is alive.
        """
        announcing(self, [], action, self._leave, give_up, others)

    def revoke(self, revoked: list[NDArray[Any]]) -> None:
        """Revoke the write permission of all borrows and aliases: no Blob will see their writes.

        Parameters
        ----------
        revoked
            Receives the arrays that had it.
        """
        with self._lock:
            self._shortcuts.revoke()
            for loans in self._loans:
                loans.revoke(revoked)

    def after_fork(self) -> None:
        """Refuse accesses in a forked child if another thread held the lock during the fork."""
        if is_lost(self._lock):
            self.lose()

    def lose(self) -> None:
        """Refuse all accesses from now on: another thread held the lock during a fork."""
        self._shortcuts.revoke()
        # With a watch, every access takes the lock.
        self._watch = Watch(self._lock, self._buffers.sides)
        self._lock = LostLock()  # type: ignore[assignment]  # stands in for the lock

    def __reduce__(self) -> Never:
        """Refuse to copy or pickle: two memories over the same buffers would not stay coherent.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError("a SyncedMemory is not copied or pickled; copy or pickle the Blob")

    def __repr__(self) -> str:
        """Show size, head and device. Never moves anything."""
        return f"<SyncedMemory: {self.used_nbytes} bytes, {self.head.name}, device={self.device}>"

    # --- arrays, under the lock ------------------------------------------------------------------

    def _lend_host(self, access: Access, reason: str) -> NDArray[np.uint8]:
        array: NDArray[np.uint8] = self.lend(
            Side.HOST, access, Layout.raw(self.used_nbytes), reason
        )
        return array

    def _lend_accelerator(self, access: Access, reason: str) -> Any:
        return self.lend(Side.ACCELERATOR, access, Layout.raw(self.used_nbytes), reason)

    def _array(
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        announced: Collection[Lease],
    ) -> Any:
        buffer = self._acquire(side, access, layout, reason, announced)
        return self._buffers.home(side).view(buffer, layout, writable=access is not CONST)

    def _borrow(  # noqa: PLR0913, PLR0917  # an access
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        template: tuple[Any, Any] | None,
        announced: Collection[Lease],
    ) -> Any:
        while True:
            buffer = None if template is None else template[0]
            if not (layout.whole and self._again(side, access, layout, reason, buffer)):
                buffer = self._acquire(side, access, layout, reason, announced)
            if template is not None and template[0] is buffer:
                array = template[1].view()
            else:
                array = self._buffers.home(side).view(buffer, layout, writable=True)
            # Only NumPy arrays have a write permission to revoke.
            if isinstance(array, np.ndarray):
                self._own_loans(side).borrows.add(array)
            # A signal handler or a finaliser may have used the other side before that.
            if self._is_alone(side, layout):
                return array

    def _leased(  # noqa: PLR0913, PLR0917  # an access, and its consumer
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        kind: str,
        target: object | None,
        announced: Collection[Lease],
    ) -> Any:
        while True:
            buffer = self._acquire(side, access, layout, reason, announced)
            array, owner = self._alias(side, buffer, layout)
            owner = owner if target is None else target
            self._own_loans(side).lease(owner, kind, layout.start, layout.stop)
            # A signal handler or a finaliser may have used the other side before that.
            if self._is_alone(side, layout):
                return array

    def _own_loans(self, side: int) -> Loans:
        """Return the loans of a side; make them when it first hands something out."""
        found = self._loans[side]
        if found is NO_LOANS:
            made = Loans()
            with self._lock:
                loans = self._loans
                found = loans[side]
                # No signal handler can run between this comparison and the assignment.
                if found is NO_LOANS:
                    self._loans = (loans[0], made) if side else (made, loans[1])
                    found = made
        return found

    def _is_alone(self, side: Side, layout: Layout) -> bool:
        """Tell whether one side holds every element, and the other side holds none."""
        spans = self._spans
        if spans.uniform == 1 << side:
            return True
        start, stop = self.range_of(layout)
        if start == stop and spans.nbytes:
            return True
        return spans.any(start, stop) == 1 << side

    def _write(  # noqa: PLR0913, PLR0917  # an access, and what is done in it
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        announced: Collection[Lease],
    ) -> None:
        def fill(buffer: Any, written: list[object] | None = None) -> None:
            home = self._buffers.home(side)
            array = home.view(buffer, layout, writable=True)
            if written is None:
                home.compute(function, array, *args)
                return
            # One call in C makes both calls, so that no signal handler can run between them.
            calls = (partial(function, array, *args), partial(written.append, object()))
            home.compute(deque, map(operator.call, calls), 0)

        self._acquire(side, access, layout, reason, announced, fill)
        start, stop = self.range_of(layout)
        if self._spans.uniform != 1 << side:
            self.finish_write(side, start, stop, reason)

    def _alias(self, side: Side, buffer: Any, layout: Layout) -> tuple[Any, object]:
        """Return an array over one side's buffer, and the object that dies with its last use."""
        loans = self._own_loans(side)
        home = self._buffers.home(side)
        over, exporter = loans.exporter
        if over is not buffer:
            exporter = home.exporter(buffer)
            loans.exporter = (buffer, exporter)
        return home.alias(exporter, layout)

    def _export_watched(
        self, side: Side, layout: Layout, reason: str, kind: str, target: object | None
    ) -> Any:
        """Make a const export that is checked."""
        with self._lock:
            buffer = self._acquire(side, CONST, layout, reason)
            array, owner = self._alias(side, buffer, layout)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
            loans = self._loans[side]
            reach = buffer, layout.start, layout.stop
            borrowed = isinstance(buffer, np.ndarray) and loans.borrows.reaching(*reach)
            if borrowed or loans.may_write_in(layout.start, layout.stop):
                # Borrows or aliases may write here legitimately, so a difference proves nothing.
                return array
            if self._watch is None:
                self._watch = Watch(self._lock, self._buffers.sides)
                # The access may have renewed them.
                self._shortcuts.revoke()
            owner = owner if target is None else target
            self._watch.add(side, owner, kind, layout.start, layout.stop)
            return array

    # --- changes of state, under the lock --------------------------------------------------------
    #
    # A change of state is made completely or not at all, whatever raises, even a signal handler.
    # CPython runs signal handlers only after calls, at the start of functions and at backward
    # jumps. Each change has three steps:
    #
    # 1. Prepare: only what can be undone or makes no difference. Buffers are allocated and filled;
    #    write permissions are revoked, and restored after an exception.
    # 2. Commit: plain assignments without a call between them. Each leaves a true state. The map
    #    is assigned last, because readers without the lock look at it first.
    # 3. Clean up: only what may be left undone.

    def _acquire(  # noqa: C901, PLR0912, PLR0913, PLR0917  # an access, and its quick ways out
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        announced: Collection[Lease] = (),
        fill: Callable[..., None] | None = None,
    ) -> Any:
        """Bring the range of a layout up to date on one side, and return the side's buffer.

        Parameters
        ----------
        side, access, layout, reason
            The access.
        announced
            The aliases of the other side that a warning has named.
        fill
            Writes into the buffer, its argument. If the contents that an overwrite discards have
            to be kept until then, it also gets a list, and appends to it when it has written.

        Raises
        ------
        Unannounced
            If the access may write, and aliases of the other side that no warning has named overlap
            its range.
        """
        spans = self._spans
        start, stop = self.range_of(layout)
        writes = access is not CONST
        if writes:
            if self._loans[1 - side].leases:
                require_announced(self._loans, announced, start, stop, side.other)
            if access is OVERWRITE and not (
                layout.gapless and layout.stop - layout.start == stop - start
            ):
                access = MUTABLE
        buffer = self._buffers.sides[side]
        uniform = spans.uniform
        held = (spans.common(start, stop) if uniform is None else uniform) & (1 << side)
        if self._moving:
            if held and not writes:
                return buffer
            self._refuse_reentry()
        if self._uploads:
            self._wait_for_uploads(side, access, start, stop)
        if self._watch is not None:
            self._compare_watch(side, access, start, stop)
        if held and buffer is not None:
            if recording():
                self._note_use(side, start, stop)
            if writes:
                self._stay(side, start, stop, reason)
            if fill is not None:
                fill(buffer)
                if start < stop and not self._spans.common(start, stop) & (1 << side):
                    # A signal handler or a finaliser has written on the other side meanwhile.
                    return self._acquire(side, access, layout, reason, announced, fill)
            return buffer
        if (
            buffer is not None
            and fill is None
            and stop - start == spans.nbytes
            and self._again(side, access, layout, reason, buffer)
        ):
            return buffer
        try:
            return self._cross(side, access, start, stop, reason, announced, fill)
        except MemoryError as error:
            self._buffers.explain_shortage(error, side, self.nbytes, reason, layout)
            raise

    def _again(self, side: int, access: Access, layout: Layout, reason: str, buffer: Any) -> bool:
        """Prepare one side for an access of the whole memory, in the simple case.

        This is Caffe's case, and the usual one: one side or both hold everything, the other side
        has no borrows, aliases or exposures, and no log is open.

        Returns
        -------
        bool
            False if it is another case. Nothing has changed then. The side may be ready as it is.
        """
        mine = 1 << side
        copied = ""
        if self._moving:
            return False
        try:
            # This comes first: from here on, not even a finaliser can ask for a shortcut.
            self._moving = True
            buffers = self._buffers
            before = self._spans
            held, nbytes = before.uniform, before.nbytes
            if (
                not held
                or held == mine
                or (access is CONST and held & mine)
                or self._uploads
                or self._watch is not None
                or buffer is None
                or buffers.sides[side] is not buffer
            ):
                return False
            self._shortcuts.revoke()
            epoch = self._shortcuts.epoch
            # Now that the shortcuts are revoked: until then, one may lend without the lock.
            here, there = self._loans[side], self._loans[1 - side]
            if there.leases or there.exposures or there.borrows.live or recording():
                return False
            if access is not CONST:
                if access is OVERWRITE and layout.stop != nbytes:
                    access = MUTABLE
                after = mine
            elif here.leases or here.exposures:
                return False
            else:
                after = _BOTH
            if not held & mine and access is not OVERWRITE and nbytes:
                copied = buffers.bring_all(side, buffer, nbytes, reason)
            elif side and buffers.accelerator is not None and buffers.accelerator.asynchronous:
                buffers.use(buffers.accelerator, buffer, 0, nbytes)
            self._spans = Spans.whole(nbytes, after)
            if self._follows_logs:
                # As `_usable` would find in this case. The next access need not ask then.
                self._shortcuts.renew(epoch, after)
        finally:
            self._moving = False
        # The user called an accessor of a Blob, and two more frames lie between that and this one.
        self._note(reason, before, 0, nbytes, copied, 6)
        return True

    def _zeroed(self, spans: Spans, used: int, revoked: list[NDArray[Any]]) -> Spans:
        """Zero the bytes that come into use, on the sides that hold them; return the new map.

        Borrows and aliases of these bytes may remain from when they were last in use. The bytes of
        an alias become its side's alone. If aliases of both sides overlap, the accelerator gets the
        bytes, and NumPy aliases of the host are revoked. A borrow is revoked unless its side alone
        holds its bytes.
        """
        nbytes = spans.nbytes
        buffers = self._buffers.sides
        for side in Side:
            for writer in self._loans[side].writers(used, nbytes):
                if buffers[side] is not None and not writer.revoked:
                    start, stop = max(writer.start, used), min(writer.stop, nbytes)
                    spans = spans.put(start, stop, 1 << side)
        for side in Side:
            buffer = buffers[side]
            if self._watch is not None:
                self._watch.drop(side, used, nbytes)
            ranges = [run[:2] for run in spans.runs(used, nbytes) if run.holders != 1 << side]
            self._revoke(side, ranges, revoked, writes=True)
            for run in spans.runs(used, nbytes):
                if run.holders & (1 << side):
                    self.home(side).zero(buffer[run.start : run.stop])
                    if side and self._buffers.accelerator is not None:
                        self._buffers.use(self._buffers.accelerator, buffer, run.start, run.stop)
        return spans

    def _stay(self, side: Side, start: int, stop: int, reason: str) -> None:
        """Make a side that holds the newest contents the only holder. Copies nothing."""
        before = self._spans
        others = self._loans[1 - side]
        if others.exposures:
            others.exposures = others.without_exposures(start, stop)
        if before.uniform == 1 << side:
            return
        # No borrow or alias can write on the other side: the access that synced both ended that.
        before = self._take(side, start, stop)
        if self._spans is not before:
            self._note(reason, before, start, stop)

    def _take(self, side: Side, start: int, stop: int, *, everything: bool = False) -> Spans:
        """Make one side the only holder of what both sides hold in a range, or of everything in it.

        Returns the map before.
        """
        before = self._spans
        if before.any(start, stop) == 1 << side:
            return before
        try:
            # Refuse accesses that interrupt this on the same thread: their change would be lost.
            self._moving = True
            try:
                if side and self._uploads:
                    # No upload may arrive once this side alone holds the newest contents.
                    self._finish_uploads(side, MUTABLE, start, stop)
            finally:
                before = after = self._spans
                if everything or before.common(start, stop) == _BOTH:
                    if start < stop or not before.nbytes:
                        after = before.put(start, stop, 1 << side)
                else:
                    after = before.replaced(_taken(before.runs(start, stop), side))
                if after != before:
                    self._shortcuts.revoke()
                    self._spans = self._shortened(after, None, start, stop)[1]
        finally:
            self._moving = False
        return before

    def _cross(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  # a change, in the order of its steps
        self,
        side: Side,
        access: Access,
        start: int,
        stop: int,
        reason: str,
        announced: Collection[Lease],
        fill: Callable[..., None] | None,
    ) -> Any:
        """Copy or fill what a side lacks, and change the state."""
        accelerator = self._buffers.accelerator
        if accelerator is None and side is Side.ACCELERATOR:
            accelerator = current_accelerator()
        writes = access is not CONST
        sides = self._buffers.sides
        revoked: list[NDArray[Any]] = []
        written: list[object] = []
        after = None
        try:
            self._moving = True
            self._shortcuts.revoke()
            # From here on, not even a finaliser can make an alias.
            others = self._loans[1 - side]
            # A signal handler may have started an upload since the caller waited.
            self._finish_uploads(side, access, start, stop)
            before = self._spans
            if writes and others.leases:
                # Check again: an alias may have been made since.
                require_announced(self._loans, announced, start, stop, side.other)
            # Plan before the copy: bytes that an alias writes during it must be copied again.
            pieces, after, changed = self._planned(side, access, start, stop)
            ranges = [piece[:2] for piece in pieces]
            if writes or not before.nbytes:
                ranges.append(changed)
            self._revoke(side.other, ranges, revoked, writes=writes)
            initial = before.uniform == 0 and self._source is None
            part = stop - start < before.nbytes
            # The caller of an access of a part on the host may reach further, and must not find old
            # bytes of the heap there.
            new = side is Side.HOST and sides[side] is None
            zeroed = (initial and access is not OVERWRITE) or (part and (initial or new))
            buffer = self._buffers.get(side, accelerator, zeroed=zeroed)
            copied = ""
            if pieces:
                if side is Side.HOST and before.nbytes <= SMALL and part:
                    pieces, after = self._with_rest(pieces, after, start, stop)
                copied = self._bring(side, access, buffer, pieces, accelerator, reason)
            if side is Side.ACCELERATOR and accelerator is not None:
                self._buffers.accelerator = accelerator
                self._buffers.use(accelerator, buffer, *changed)
            # Harmless before the commit: bytes that the map does not count may hold anything.
            sides[side] = buffer
            if recording():
                self._note_use(side, start, stop)
            if fill is not None:
                # Bytes that both sides hold are about to be overwritten here, perhaps only in part.
                self._spans = before.replaced(_taken(before.runs(start, stop), side))
                fill(buffer, written)
            self._spans = after
            if self._source is not None and 0 not in after.holders:
                self._source = None
            if writes and others.exposures:
                others.exposures = others.without_exposures(start, stop)
            if copied or after != before:
                history = self._note(reason, before, start, stop, copied)
                if revoked or (writes and others.leases):
                    others.note_end(history, side.other, revoked)
        except BaseException:
            if written and after is not None:
                # An interrupt came right after the write. The parts that this side held before
                # have the new contents already, so the whole range must have them.
                self._spans = after
            if self._spans is not after:
                restore(revoked)
            raise
        finally:
            self._moving = False
        if self._watch is not None:
            for low, high in (*ranges, *(piece[:2] for piece in pieces)):
                self._watch.renew(side, low, high)
        return buffer

    def _with_rest(
        self, pieces: list[Run], after: Spans, start: int, stop: int
    ) -> tuple[list[Run], Spans]:
        """Let bytes come to the host along with pieces of a range, in the same copies.

        These are the bytes before and behind the range that are where those at its ends are.

        Returns
        -------
        list
            The pieces to bring.
        Spans
            The new map. What comes from the other side keeps its holders, because other code may
            be writing it there. What comes from the source is held by the host.
        """
        before = self._spans
        first, last = pieces[0], pieces[-1]
        low = before.span_of(first.start).start if first.start == start else first.start
        high = before.span_of(last.stop - 1).stop if last.stop == stop else last.stop
        pieces = [*pieces]
        pieces[0] = first._replace(start=low)
        pieces[-1] = pieces[-1]._replace(stop=high)
        for piece, outside in ((first, (low, start)), (last, (stop, high))):
            if not piece.holders and outside[0] < outside[1]:
                after = after.put(*outside, _HOST)
        return pieces, after

    def _planned(
        self, side: Side, access: Access, start: int, stop: int
    ) -> tuple[list[Run], Spans, tuple[int, int]]:
        """Return the pieces that an access copies, its new map, and the range that it changes."""
        before = self._spans
        holder = 1 << side
        nbytes = before.nbytes
        writes = access is not CONST
        if before.uniform == 0 and (self._source is None or not nbytes):
            # The first access allocates and fills a whole buffer.
            return [], Spans.whole(nbytes, holder), (0, nbytes)
        if not nbytes:
            return [], Spans.whole(0, holder if writes else _BOTH), (0, 0)
        here, there = self._loans[side], self._loans[1 - side]
        held = before.alike(start, stop)
        quiet = not (here.may_be_written or there.may_be_written)
        # A signal handler may have copied the range to this side since the caller looked.
        if held and not held & holder and (writes or quiet):
            # The usual case: the other side holds the whole range.
            pieces = [] if access is OVERWRITE else [Run(start, stop, held)]
            after = before.put(start, stop, holder if writes else _BOTH)
        else:
            plan = plan_access(
                before,
                side,
                access,
                start,
                stop,
                here=here.writers(start, stop) if here.may_be_written else (),
                there=there.writers(start, stop) if there.may_be_written else (),
            )
            after = before.replaced(plan.runs if start < stop else [])
            pieces = plan.pieces
        more, after = self._shortened(after, side, start, stop)
        return sorted([*pieces, *more]) if more else pieces, after, (start, stop)

    def _shortened(
        self, spans: Spans, side: Side | None, start: int, stop: int, *, source: bool = True
    ) -> tuple[list[Run], Spans]:
        """Shorten the map that an access would leave, if it is too long; see `joined`."""
        if not exceeds_limit(spans, self._span_limit):
            if self._span_limit:
                self._span_limit = lowered(self._span_limit, spans)
            return [], spans
        ranges = [upload[:2] for upload in self._uploads]
        for loans, buffer in zip(self._loans, self._buffers.sides, strict=True):
            ranges += loans.ranges(buffer)
        if not (side or buffer is None or isinstance(buffer, np.ndarray)):
            # A download would end borrows of the accelerator, and those are not tracked.
            side = None
        kept = Spans.covering(spans.nbytes, ranges)
        pieces, spans = joined(spans, side, start, stop, kept, source=source)
        # Before the map changes: another thread may be working on a span that loses holders.
        self._span_limit = next_limit(spans, len(ranges))
        return pieces, spans

    def _revoke(
        self,
        side: Side,
        ranges: Sequence[tuple[int, int]],
        revoked: list[NDArray[Any]],
        *,
        writes: bool,
    ) -> None:
        """Revoke the write permission of loans that overlap ranges of a side that becomes stale."""
        loans = self._loans[side]
        if not len(loans.borrows) and not (writes and loans.leases):
            return
        revoke = loans.revoke if writes else loans.borrows.revoke
        buffer = self._buffers.sides[side]
        for start, stop in ranges:
            if start == 0 and stop == self._spans.nbytes:
                revoke(revoked)
            elif isinstance(buffer, np.ndarray):
                # Other arrays have no write permission and are not tracked.
                revoke(revoked, buffer, start, stop)

    def _bring(  # noqa: PLR0913, PLR0917  # an access
        self,
        side: Side,
        access: Access,
        buffer: Any,
        pieces: list[Run],
        accelerator: Accelerator | None,
        reason: str,
    ) -> str:
        """Copy or fill pieces; return ``"upload"``, ``"download"`` or ``""``."""
        buffers = self._buffers
        copied = ""
        for start, stop, holders in pieces:
            if accelerator is None:
                # There is no other side, so the bytes come from the source.
                if self._source is not None:
                    self._source.fill(buffer[start:stop], start)
                continue
            because = ""
            if access is CONST and recording():
                because = self._writer(side.other, start, stop)
            copying = buffers.copying(accelerator, reason, because)
            if holders:
                buffers.bring(copying, side, buffer, start, stop)
                copied = "download" if side is Side.HOST else "upload"
            elif self._source is not None:
                upload = copying if side is Side.ACCELERATOR else None
                buffers.fill(self._source, buffer, start, stop, upload)
        return copied

    def _writer(self, side: Side, start: int, stop: int) -> str:
        """Describe one lease or exposure that may write into a range of a side; empty if none."""
        loans = self._loans[side]
        for lease in loans.leases_in(start, stop):
            return lease.described(side)
        for exposure in loans.exposures_in(start, stop):
            return f"the {side.name.lower()} side, exposed at {exposure.place.line.described()}"
        return ""

    def _adopt(
        self,
        side: Side,
        buffer: Any,
        accelerator: Accelerator | None,
        announced: Collection[Lease],
    ) -> None:
        """Replace the buffer of one side by another, whose contents are newer."""
        if accelerator is not None:
            self.bind(accelerator)
        used = self.used_nbytes
        self._wait_for_uploads(side, OVERWRITE, 0, used)
        if self._watch is not None:
            self._watch.compare()
            self._watch.drop(side, 0, used)
        before, here = self._spans, 1 << side
        after = Spans.whole(used, here)
        # While the buffer is exchanged, this side must not count as a holder.
        between = before.replaced(
            run._replace(holders=run.holders & ~here) for run in before.runs(0, used)
        )
        synced = before.any(0, used) == Head.SYNCED
        sides = self._buffers.sides
        revoked: list[NDArray[Any]] = []
        try:
            self._moving = True
            self._shortcuts.revoke()
            require_announced(self._loans, announced, 0, used, *Side)
            for loans in self._loans:
                loans.revoke(revoked)
            # Before the exchange: afterwards, an interrupt could leave it to be renewed.
            self._shortcuts.forget(side)
            buffers, capacity = self._buffers, self._buffers.nbytes
            # The other side's buffer may be larger than the new one. The bytes in use fit in both.
            buffers.nbytes = used
            if synced:
                self._spans = between
            sides[side] = buffer
            self._spans = after
            self._loans[side].detach()
            self._source = None
            history = self._note("adoption", before, 0, used)
            for adopted, loans in zip(Side, self._loans, strict=True):
                if loans.exposures:
                    loans.exposures = loans.without_exposures(0, capacity)
                if loans is not NO_LOANS:
                    loans.note_end(history, adopted, revoked)
        except BaseException:
            if sides[side] is not buffer:
                restore(revoked)
            raise
        finally:
            self._moving = False

    def _push(self, stream: object, start: int, stop: int, reason: str) -> None:
        """Start to upload the bytes of a range that the host holds and the accelerator lacks."""
        self._wait_for_uploads(Side.HOST, MUTABLE, start, stop)
        buffers = self._buffers
        accelerator = buffers.accelerator or current_accelerator()
        before = self._spans
        revoked: list[NDArray[Any]] = []
        started: list[_Upload] = []
        after = None
        try:
            self._moving = True
            self._shortcuts.revoke()
            # An alias of either side may write before the upload arrives, so neither is trusted.
            writers = [writer for loans in self._loans for writer in loans.writers(start, stop)]
            plan = plan_access(before, Side.ACCELERATOR, CONST, start, stop, there=writers)
            after = before.replaced(plan.runs if before.nbytes else [Run(0, 0, Head.SYNCED)])
            more, after = self._shortened(after, Side.ACCELERATOR, start, stop, source=False)
            pieces = sorted([*plan.pieces, *more])
            buffer = buffers.get(Side.ACCELERATOR, accelerator)
            ranges = [piece[:2] for piece in pieces] if before.nbytes else [(0, 0)]
            self._revoke(Side.HOST, ranges, revoked, writes=False)
            copying = buffers.copying(accelerator, reason)
            for piece in pieces:
                push = buffers.start_upload(copying, buffer, piece.start, piece.stop, stream)
                started.append(_Upload(piece.start, piece.stop, push))
            uploads = (*self._uploads, *started)
            buffers.accelerator = accelerator
            # Harmless before the commit: bytes that the map does not count may hold anything.
            buffers.sides[Side.ACCELERATOR] = buffer
            if recording():
                self._note_use(Side.ACCELERATOR, start, stop)
            self._uploads = uploads
            self._spans = after
            history = self._note(reason, before, start, stop, "upload")
            if revoked:
                self._loans[Side.HOST].note_end(history, Side.HOST, revoked)
        except BaseException as error:
            if isinstance(error, MemoryError):
                buffers.explain_shortage(error, Side.ACCELERATOR, self.nbytes, reason)
            if self._spans is not after:
                # Some uploads may be under way already, and no access would wait for them. They
                # must not arrive when the buffer holds something newer, so wait for them here.
                # During a capture none starts, and a wait would break the capture.
                if not accelerator.capturing:
                    accelerator.synchronize()
                restore(revoked)
            raise
        finally:
            self._moving = False
        if self._watch is not None:
            for low, high in ranges:
                self._watch.drop(Side.ACCELERATOR, low, high)

    def _wait_for_uploads(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Wait for the asynchronous uploads of a range that an access depends on.

        Raises
        ------
        RuntimeError
            In the middle of a transfer. Only code that interrupts it on the same thread sees this.
        """
        if self._moving:
            self._refuse_reentry()
        self._finish_uploads(side, access, start, stop)

    def _finish_uploads(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Wait as `_wait_for_uploads` does, in the middle of a transfer too."""
        for upload in self._uploads:
            if upload.start >= stop or start >= upload.stop:
                continue
            try:
                if side is Side.ACCELERATOR:
                    if not upload.push.order():
                        continue
                elif access is not CONST:
                    upload.push.wait()
                else:
                    continue
            except Exception:
                if not upload.push.over:
                    # A signal handler has ended the wait, but the upload is still running.
                    raise
                # The upload has failed. The host still has the newest contents: nothing wrote
                # since. Change the map first, because readers without the lock trust it as soon as
                # no upload is under way.
                self._take(Side.HOST, upload.start, min(upload.stop, self.used_nbytes))
                self._forget_upload(upload)
                raise
            self._forget_upload(upload)

    def _forget_upload(self, upload: _Upload) -> None:
        self._uploads = tuple(other for other in self._uploads if other is not upload)

    def _refuse_reentry(self) -> Never:
        raise RuntimeError(
            "this memory is in the middle of a transfer, and was used from a finaliser or a "
            "signal handler meanwhile; use the Blob outside of them"
        )

    def _compare_watch(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Compare the checksums of watched const exports; drop those that the access may change."""
        if self._watch is None:
            return
        self._watch.compare()
        if access is not CONST:
            self._watch.drop(side, start, stop)
        if self._watch.idle:
            self._watch = None

    def _leave(
        self,
        give_up: Callable[[], Any],
        others: tuple[SyncedMemory, ...],
        announced: Collection[Lease],
    ) -> None:
        try:
            self._moving = True
            self._shortcuts.revoke()
            require_announced(self._loans, announced, 0, self.nbytes, *Side)
            if others:
                with others[0].lock:
                    others[0]._leave(give_up, others[1:], announced)  # noqa: SLF001  # of this class
            else:
                give_up()
        finally:
            self._moving = False

    def _note_use(self, side: Side, start: int, stop: int) -> None:
        """Record in the open logs the bytes that a copy at each change of side would have moved.

        These are the bytes that the other side used last and that this side holds already.
        """
        if self._is_noted(side, start, stop):
            return
        # The next use on the other side is to be recorded, too.
        self._shortcuts.revoke()
        generation = log_generation()
        spans = self._spans
        last_used = self._last_used
        if last_used is None or last_used[0] != generation or last_used[1].nbytes != spans.nbytes:
            last = Spans.whole(spans.nbytes, 0)
        else:
            last = last_used[1]
        other = 1 << side.other
        nbytes = sum(
            held.nbytes
            for run in last.runs(start, stop)
            if run.holders == other
            for held in spans.runs(run.start, run.stop)
            if held.holders & (1 << side)
        )
        if nbytes:
            avoided(nbytes)
        self._last_used = generation, last.put(start, stop, 1 << side)

    def _is_noted(self, side: Side, start: int, stop: int) -> bool:
        """Tell whether the open logs know that a side was the last to use all of a range."""
        if not self.on_both_sides or start >= stop:
            return True
        last_used = self._last_used
        return (
            last_used is not None
            and last_used[0] == log_generation()
            and last_used[1].nbytes == self._spans.nbytes
            and last_used[1].alike(start, stop) == 1 << side
        )

    def _note(  # noqa: PLR0913, PLR0917  # what the history says
        self, reason: str, before: Spans, start: int, stop: int, copied: str = "", depth: int = 3
    ) -> list[Noted]:
        """Append a transition to the history, in raw form: `history` makes the `Transition`.

        Returns the raw history.

        Parameters
        ----------
        reason, before, start, stop, copied
            As in `Transition`.
        depth
            How many innermost frames, from that of `user_instruction` on, are this package's.
        """
        noted = (reason, before, self._spans, copied, *user_instruction(depth), start, stop)
        history = self._history
        if history is None:
            history = self._history = []
        history.append(noted)
        if len(history) > _REMEMBERED:
            del history[0]
        return history


class _Upload(NamedTuple):
    """An asynchronous upload of a range."""

    start: int
    stop: int
    push: Push


def _taken(runs: Iterable[Run], side: Side) -> Iterator[Run]:
    """Yield runs; those that both sides hold become one side's alone."""
    for run in runs:
        yield run._replace(holders=1 << side) if run.holders == Head.SYNCED else run
