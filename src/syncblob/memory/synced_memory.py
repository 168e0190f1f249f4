"""SyncedMemory: bytes with a buffer on each side. Caffe's class, with Caffe's accessors.

What each access moves is written in `state`. `array` is for work that is over when the caller
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
from syncblob._shape import Layout
from syncblob._source_lines import Place, user_frame, user_place
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
from syncblob.interop.native import buffer_of
from syncblob.memory.buffers import Buffers
from syncblob.memory.gather import gather
from syncblob.memory.leases import (
    NO_LOANS,
    Exposure,
    Loans,
    Unannounced,
    announcing,
    require_announced,
    restore,
)
from syncblob.memory.sources import Source
from syncblob.memory.spans import Run, Spans
from syncblob.memory.state import (
    CONST,
    MAX_SPANS,
    MUTABLE,
    OVERWRITE,
    Access,
    Head,
    Transition,
    cheapest_join,
    head_over,
    plan_access,
)
from syncblob.memory.verify import Watch, verifying
from syncblob.transfers import avoided, log_generation, recording

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from types import CodeType

    from numpy.typing import NDArray

    from syncblob.devices.base import Accelerator, Home, Push
    from syncblob.memory.leases import Lease
    from syncblob.memory.sources import Function

    # What a Transition is made of.
    _Noted = tuple[str, Spans, Spans, str, CodeType, int, str | None, int, int]

__all__ = ["SyncedMemory"]

_REMEMBERED = 8

_BOTH = int(Head.SYNCED)
_HOST = 1 << Side.HOST
_ACCELERATOR = 1 << Side.ACCELERATOR
_NEITHER = (None, None)
_NOTHING_LENT = (NO_LOANS, NO_LOANS)


class SyncedMemory:
    """A number of bytes with at most one buffer on the host and one on an accelerator.

    Each byte is newest on the host, on the accelerator, or on both. Knows nothing of shapes and
    dtypes. Safe to use from several threads: two that read at once cause one transfer. If an
    allocation or a transfer fails, head, buffers and bytes are as they were.

    Parameters
    ----------
    nbytes
        The capacity. Nothing is allocated before the first access.
    device
        The device of Blobs over this memory; it decides the accelerator, which is otherwise chosen
        on first use. None means the default device.
    source
        A function that returns the initial contents, a one-dimensional uint8 array of `nbytes`
        bytes. It is called by the first access that needs one of them, in place of zero-filling,
        and by `peek_at_source`, which may be before. Only the bytes that an access needs are taken
        from it; accesses on the accelerator upload them straight from it. If it has a method
        ``read_into(buffer, offset)``, that is called in its place: it fills `buffer` with the bytes
        that begin at `offset`. All bytes at once for an accelerator come from the function itself.
    name
        What the journal and `Blob.explain` call this memory.

    Raises
    ------
    NoDeviceError
        If the device asked for cannot be used.
    """

    __slots__ = (
        "__weakref__",
        "_buffers",
        "_device_home",
        "_exclusive_buffer",
        "_fast_buffer",
        "_history",
        "_joined",
        "_last_used",
        "_loans",
        "_lock",
        "_moving",
        "_source",
        "_spans",
        "_uploads",
        "_watch",
    )

    # The lock-free paths. An access may go without the lock where it finds that it has nothing to
    # do but to return an array, that is where its side holds all of its range, no upload is under
    # way and nothing is watched. What makes this safe:
    #
    # - `_spans` is immutable and replaced as a whole. It is assigned last, when the buffers hold
    #   what it says, and where a side loses bytes, it is assigned before they change.
    # - `_uploads` and `_watch` are set before `_spans` counts what they stand for.
    # - `_exclusive_buffer` and `_fast_buffer` are the buffer of one side while no access of that
    #   side has anything to do: it alone holds everything, no upload is under way, nothing is
    #   watched, and nobody may write on the other side. `_exclusive_buffer` is None if there is
    #   another buffer, because open logs are told of accesses then. Blobs compare the buffer under
    #   an array that they keep with these: one comparison tells that the array is good.
    # - Whatever changes anything calls `_invalidate_fast_path` first. A borrow or an alias that was
    #   made without the lock is noted before `_fast_buffer` is compared once more. So either the
    #   change finds the note, or whoever made it finds that `_fast_buffer` has gone and asks again.

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
        # A map of the bytes in use, and so their number.
        self._spans = Spans.whole(nbytes, 0)
        # What each side has handed out; see `_own_loans`.
        self._loans: tuple[Loans, Loans] = _NOTHING_LENT
        # Uploads that somebody may have to wait for.
        self._uploads: tuple[_Upload, ...] = ()
        # Whether bytes are on their way, or the state is about to change: what comes in between, on
        # the same thread, is refused.
        self._moving = False
        # Whether spans of a map that was too long were ever joined.
        self._joined = False
        self._exclusive_buffer: Any = None
        self._fast_buffer: Any = None
        # Const exports that are checked; see `verify`.
        self._watch: Watch | None = None
        self._history: list[_Noted] | None = None
        # While a log is open: the log, and the side that used each byte last.
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
            As for the constructor. The default is the accelerator for a buffer on it, else the
            default device.

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
        memory._buffers.sides[side] = buffer
        memory._spans = Spans.whole(buffer.nbytes, 1 << side)
        return memory

    # --- Caffe's accessors -----------------------------------------------------------------------

    def cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use for reading on the host. Downloads what the host lacks."""
        return self._lend_host(CONST, "cpu_data")

    def mutable_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use for reading and writing on the host. Downloads as `cpu_data`."""
        return self._lend_host(MUTABLE, "mutable_cpu_data")

    def overwrite_cpu_data(self) -> NDArray[np.uint8]:
        """Return the bytes in use on the host to be written completely. Never transfers."""
        return self._lend_host(OVERWRITE, "overwrite_cpu_data")

    def gpu_data(self) -> Any:
        """Return the bytes in use for reading on the accelerator. Uploads what it lacks."""
        return self._lend_accelerator(CONST, "gpu_data")

    def mutable_gpu_data(self) -> Any:
        """Return the bytes in use for reading and writing on the accelerator. May upload."""
        return self._lend_accelerator(MUTABLE, "mutable_gpu_data")

    def overwrite_gpu_data(self) -> Any:
        """Return the bytes in use on the accelerator to be written completely. No transfer."""
        return self._lend_accelerator(OVERWRITE, "overwrite_gpu_data")

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
        self.replace_side(side, *buffer_of(array, side, self.accelerator))

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
        if buffer.nbytes != self.used_nbytes:
            raise ValueError(
                f"expected {self.used_nbytes} bytes, the bytes in use of this memory (shared with "
                f"every Blob and view over it), got {buffer.nbytes}"
            )
        announcing(self, [], "adoption", self._adopt, side, buffer, accelerator)

    def async_gpu_push(
        self, stream: object = None, start: int = 0, stop: int | None = None
    ) -> None:
        """Start an upload and return while it runs; the head becomes SYNCED.

        Later accesses of these bytes on the accelerator, and later accesses of them that may write
        on the host, wait for it.

        Parameters
        ----------
        stream
            A stream of the accelerator, or None for one of its own.
        start, stop
            The bytes; all that are in use if left out.

        Raises
        ------
        RuntimeError
            Unless the head of these bytes is HEAD_AT_CPU.
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
        """Start to bring to a side what it lacks of a range; nothing where it lacks nothing.

        Uploads run while the call returns, as those of `async_gpu_push` do; downloads, and what
        comes from a source, are there when it returns.

        Parameters
        ----------
        side, start, stop
            Which bytes, and where.
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

    @property
    def spans(self) -> Spans:
        """The map of the bytes in use: which sides hold each of them."""
        return self._spans

    @property
    def name(self) -> str:
        """What the journal and `Blob.explain` call this memory; empty without a name."""
        return self._buffers.name

    @name.setter
    def name(self, name: str) -> None:
        self._buffers.name = name

    @property
    def accelerator(self) -> Accelerator | None:
        """The backend this memory is bound to or was asked for; None before either."""
        return self._buffers.accelerator

    @property
    def device(self) -> Device:
        """The device that was asked for. It never changes."""
        return self._device_home.device

    @property
    def device_home(self) -> Home:
        """The home that `device` is."""
        return self._device_home

    @property
    def on_both_sides(self) -> bool:
        """Whether there are buffers on both sides."""
        return self._buffers.on_both_sides

    @property
    def blank(self) -> bool:
        """Whether it reads as zeros because nobody has touched it and it has no source."""
        return self._source is None and self._spans.uniform == 0

    @property
    def aliased(self) -> bool:
        """Whether a writable alias of either side may be alive."""
        return any(loans.may_be_written for loans in self._loans)

    @property
    def history(self) -> tuple[Transition, ...]:
        """The last transitions, oldest first."""
        return tuple(
            Transition(
                reason,
                head_over(before, 0, before.nbytes),
                head_over(after, 0, after.nbytes),
                copied,
                Place(code, instruction, library),
                start,
                stop,
            )
            for reason, before, after, copied, code, instruction, library, start, stop in tuple(
                self._history or ()
            )
        )

    @property
    def lock(self) -> threading.RLock:
        """What is held while the state changes."""
        return self._lock

    def home(self, side: Side) -> Home:
        """Return the home of one side. Nothing is bound, allocated or moved.

        Raises
        ------
        NoDeviceError
            If it is the accelerator's side, this memory has no accelerator yet, and there is none.
        """
        return self._buffers.home(side)

    def buffer(self, side: Side) -> Any:
        """Return the buffer of one side, whatever it holds; None where there is none."""
        return self._buffers.sides[side]

    def buffer_nbytes(self, side: Side) -> int | None:
        """Return the bytes allocated on one side, None where there is no buffer."""
        buffer = self._buffers.sides[side]
        return None if buffer is None else int(buffer.nbytes)

    def loans(self, side: Side) -> Loans:
        """Return what one side has handed out, to look at."""
        return self._loans[side]

    def range_of(self, layout: Layout) -> tuple[int, int]:
        """Return the bytes that an access through a layout is for.

        Others reach those of its elements alone: so the ranges of aliases are these.
        """
        if layout.whole:
            return 0, self._spans.nbytes
        return layout.start, layout.stop

    def holds_newest(self, side: Side, start: int, stop: int) -> bool:
        """Tell whether an access of a range on `side` needs no transfer from the other side."""
        holder = 1 << side
        return not any(run.holders for run in self._spans.lacking(start, stop, holder))

    def newest(self, side: int, layout: Layout) -> Any:
        """Return a side's buffer if a const access has only to read it, else None."""
        spans = self._spans
        held = spans.uniform
        if held is None:
            held = spans.common(*self.range_of(layout))
        if not held & (1 << side) or self._watch is not None:
            return None
        # Reading on the host does not wait for an upload.
        return self._buffers.sides[side] if not (side and self._uploads) else None

    def exclusive_buffer(self) -> Any:
        """Return the only buffer if every access of its side leaves everything as it is, else None.

        The answer stands until ``_exclusive_buffer`` is None again, which Blobs look at to save
        themselves the way through here. If there is another buffer, ``_fast_buffer`` says the same,
        but for what open logs are told.

        No transfer is waited for: where one is under way, the answer is that of now.
        """
        if self._moving or self._uploads:
            return self._exclusive_buffer
        # By a `with` statement: after another acquisition an interrupt could leave it locked.
        with self._lock:
            spans = self._spans
            found = self._found_exclusive(spans)
            # What a signal handler or a finaliser has changed since has replaced the map. None can
            # come between this look at it and the answer: nothing is called there.
            self._exclusive_buffer, self._fast_buffer = found if self._spans is spans else _NEITHER
            return self._exclusive_buffer

    def peek_at_source(self) -> NDArray[np.uint8] | None:
        """Return what the source gives, for reading once; the memory stays UNINITIALIZED.

        Returns
        -------
        ndarray or None
            One-dimensional, uint8, all `nbytes`. None where there is no source, where the first
            access has been, or where not all that the source gives has been in use ever since.
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
        template: tuple[Any, Any] | None = None,
    ) -> Any:
        """Make one side fit for an access and return an array over it. Copies as the table says.

        For work that is over when the caller returns; what is kept longer is for `lend` and
        `export`.

        Parameters
        ----------
        side
            Where the caller wants to work.
        access
            What it is going to do. An overwrite of a layout with gaps is treated as mutable.
        layout
            The array to return. The access is for the range of its elements.
        reason
            The name of the access, for the journal.
        template
            A buffer, and the array over it that this method would make: where the buffer is still
            that of the side, a view of the array is returned, which takes less time.

        Returns
        -------
        array
            A NumPy array (host, simulated) or a CuPy array. Read-only for a const access, where
            the library has read-only arrays.

        Warns
        -----
        StaleAliasWarning
            If the access may write, and a writable alias of the other side overlaps its range.
        """
        if access is CONST and not recording():
            # No state can change, so no lock is needed.
            buffer = self.newest(side, layout)
            if buffer is not None:
                return self._buffers.home(side).view(buffer, layout, writable=False)
        try:
            with self._lock:
                return self._array(side, access, layout, reason, template, ())
        except Unannounced as found:
            return announcing(
                self, found.stale, reason, self._array, side, access, layout, reason, template
            )

    def write(
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        function: Callable[..., Any],
        *args: Any,
    ) -> None:
        """Make one side fit for an access, and write into an array over it, as one step.

        What an overwrite forgets, newer contents on the other side, is kept until the function has
        returned. So the contents are the old ones or the new ones, also where it is interrupted.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        function, args
            What is called, under the lock: with a writable array over `side`, then `args`.

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
        """Note that work on an array over a range of one side, which may write, is over.

        What a thread, a signal handler or a finaliser has brought to the other side meanwhile may
        lack some of what was written. So this side alone holds those bytes again. What the other
        side alone holds was written there since, unless spans may have been joined.
        """
        if self._fast_buffer is not None:
            return
        with self._lock:
            before = self._take(side, start, stop, everything=self._joined)
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
        """Return an array as `array` does, as a borrow: it can lose its write permission."""
        if access is CONST:
            return self.array(side, access, layout, reason, template)
        try:
            with self._lock:
                return self._borrow(side, access, layout, reason, template, ())
        except Unannounced as found:
            return announcing(
                self, found.stale, reason, self._borrow, side, access, layout, reason, template
            )

    def lend_again(  # noqa: PLR0913, PLR0917  # an access, and what it gives
        self,
        side: int,
        access: Access,
        layout: Layout,
        reason: str,
        buffer: Any,
        template: Any,
    ) -> Any:
        """Return a writable borrow as `lend` does, if at most a copy of everything has to be made.

        Parameters
        ----------
        side, access, layout, reason
            As for `array`.
        buffer
            The buffer of that side, as it was when `template` was made.
        template
            A writable NumPy array over it that nobody else has: the borrow is a view of it.

        Returns
        -------
        ndarray or None
            None if there is another buffer now, or more to do: then it is left to `lend`.
        """
        if self._exclusive_buffer is buffer or (self._fast_buffer is buffer and not recording()):
            array = template.view()
            # What `_own_loans` does, without the call where there are some.
            loans = self._loans[side]
            if loans is NO_LOANS:
                loans = self._own_loans(side)
            loans.borrows.add(array)
            if self._fast_buffer is buffer:
                return array
        if layout.whole:
            with self._lock:
                if self._again(side, access, layout, reason, buffer):
                    array = template.view()
                    self._own_loans(side).borrows.add(array)
                    # A signal handler or a finaliser may have used the other side before that.
                    if self._spans.uniform == 1 << side:
                        return array
        return None

    def read_again(self, side: int, layout: Layout, reason: str, buffer: Any) -> bool:
        """Make one side fit to be read, if at most a copy of everything has to be made.

        Parameters
        ----------
        side, layout, reason
            As for `array`.
        buffer
            The buffer of that side, as the caller knows it.

        Returns
        -------
        bool
            Whether that was so: then an array over `buffer` is what `array` would return.
        """
        # What `newest` does, without the call.
        spans = self._spans
        held = spans.uniform
        if held is None:
            held = spans.common(*self.range_of(layout))
        if held & (1 << side):
            waits = self._watch is not None or (side and self._uploads) or recording()
            return not waits and self._buffers.sides[side] is buffer
        if not layout.whole:
            return False
        with self._lock:
            return self._again(side, CONST, layout, reason, buffer)

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

    def export_again(  # noqa: PLR0913, PLR0917  # an alias, and who asks
        self,
        buffer: Any,
        template: NDArray[Any] | None,
        kind: str,
        start: int,
        stop: int,
        ours: int = 0,
    ) -> NDArray[Any] | None:
        """Return a writable alias on the host, as `export` does, if nothing has to be done for it.

        Parameters
        ----------
        buffer, template
            As for `lend_again`; `template` may be None where there is no such array.
        kind
            What the warning calls it. Its consumer keeps the array itself, as those of DLPack do,
            and not what NumPy takes for the base of its views.
        start, stop
            The range of the array.
        ours
            How many frames of this package there are between the user and this method, at least.

        Returns
        -------
        ndarray or None
            As for `lend_again`.
        """
        if template is None or not (
            self._exclusive_buffer is buffer or (self._fast_buffer is buffer and not recording())
        ):
            return None
        array = template.view()
        self._own_loans(0).lease(array, kind, start, stop, ours + 3)
        return array if self._fast_buffer is buffer else None

    def elements(self, side: Side, layout: Layout, reason: str) -> Any:
        """Return an array of elements on one side, to be copied by the caller.

        For private copies: what lies in the gaps of a layout does not move. A layout without gaps
        is read as by a const access, so that a second time moves nothing.

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

        Moves the elements themselves and not what lies between them: what another side holds is
        gathered there.

        Parameters
        ----------
        side
            Where the copy is made.
        layout, reason
            As for `array`.

        Returns
        -------
        array
            Writable. Nobody else has it.
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
        """Note that somebody of unknown lifetime can write into a range of one side's buffer.

        Parameters
        ----------
        side
            Which.
        place
            Where the user let that happen; None for here and now.
        start, stop
            The range; all of the capacity if left out.
        shared
            Whether they can for ever: a write on the other side does not end it.
        """
        place = user_place() if place is None else place
        with self._lock:
            stop = self.nbytes if stop is None else stop
            self._invalidate_fast_path()
            self._take(side, start, min(stop, self.used_nbytes))
            loans = self._own_loans(side)
            loans.exposures = (
                *(other for other in loans.exposures if other[:2] != (start, stop)),
                Exposure(start, stop, place, shared),
            )

    def is_exposed(self, side: Side, start: int, stop: int) -> bool:
        """Tell whether all of a range is exposed on a side, and newest there alone."""
        exposed = any(
            exposure.start <= start and stop <= exposure.stop
            for exposure in self._loans[side].exposures
        )
        return exposed and self._spans.any(start, stop) == 1 << side

    def assume_unaliased(self, start: int = 0, stop: int | None = None) -> None:
        """End the exposure of a range of both sides: the caller promises that nobody writes."""
        with self._lock:
            stop = self.nbytes if stop is None else stop
            for loans in self._loans:
                if loans.exposures:
                    loans.exposures = loans.without_exposures(start, stop, shared=True)

    def refresh(self, start: int, stop: int, *, still_exposed: bool) -> None:
        """Count what others have written into a range of the host's buffer as newest, once.

        Parameters
        ----------
        start, stop
            The range.
        still_exposed
            Whether the range stays exposed on the host, where it was.
        """
        with self._lock:
            loans = self._loans[Side.HOST]
            exposures = loans.exposures
            if not still_exposed:
                exposures = loans.without_exposures(start, stop, shared=True)
            # That leaves to the host what both sides hold.
            self.expose(Side.HOST, start=start, stop=stop)
            self._loans[Side.HOST].exposures = exposures

    # --- what Blobs and protocols use ------------------------------------------------------------

    def bind(self, accelerator: Accelerator) -> None:
        """Bind this memory to an accelerator that it is going to be used on.

        Raises
        ------
        DeviceMismatchError
            If it is bound to another one, or was asked for another one.
        """
        with self._lock:
            bound = self._buffers.accelerator
            if bound is None:
                self._buffers.accelerator = accelerator
            elif bound is not accelerator:
                raise DeviceMismatchError(
                    f"expected memory of {accelerator.device}, got memory of {bound.device}; "
                    "accelerators do not exchange data directly: use .to_device() on one of the "
                    "two first"
                )

    def fit(self, nbytes: int) -> None:
        """Change the bytes in use, within the capacity. Bytes that come into use read as zeros."""
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
                self._invalidate_fast_path()
                after = self._spans.resized(nbytes)
                if nbytes > used:
                    after = self._zeroed(after, used, revoked)
                if self._source is not None:
                    self._source.limit = min(self._source.limit, nbytes)
                self._spans = after
            except BaseException:
                if self._spans is not after:
                    restore(revoked)
                raise
            finally:
                self._moving = False

    def fitted(self) -> tuple[Spans, int]:
        """Wait for uploads, and return what `fit` changes, for `refit`.

        An upload that has failed changes the map, which must not be undone: it is raised here.
        """
        if self._uploads:
            with self._lock:
                self._wait_for_uploads(Side.HOST, MUTABLE, 0, self.nbytes)
        return self._spans, 0 if self._source is None else self._source.limit

    def refit(self, fitted: tuple[Spans, int]) -> None:
        """Undo `fit`."""
        self._invalidate_fast_path()
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
        announcing(self, [], action, self._leave, give_up, others)

    def revoke(self, revoked: list[NDArray[Any]]) -> None:
        """Take the write permission of all that was handed out: no Blob will see it any more.

        Parameters
        ----------
        revoked
            Gets the arrays that had it.
        """
        with self._lock:
            self._invalidate_fast_path()
            for loans in self._loans:
                loans.revoke(revoked)

    def after_fork(self) -> None:
        """Look, in the child of a fork, whether another thread was inside of this memory."""
        if is_lost(self._lock):
            self.lose()

    def lose(self) -> None:
        """Refuse all accesses from now on: another thread was inside when the process forked."""
        self._invalidate_fast_path()
        # While there is a watch, every access takes the lock.
        self._watch = Watch(self._lock, self._buffers.sides)
        self._lock = LostLock()  # type: ignore[assignment]  # refuses what a lock does

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
        return f"<SyncedMemory: {self.used_nbytes} bytes, {self.head.name}, device={self.device}>"

    # --- arrays, under the lock ------------------------------------------------------------------

    def _lend_host(self, access: Access, reason: str) -> NDArray[np.uint8]:
        array: NDArray[np.uint8] = self.lend(
            Side.HOST, access, Layout.raw(self.used_nbytes), reason
        )
        return array

    def _lend_accelerator(self, access: Access, reason: str) -> Any:
        return self.lend(Side.ACCELERATOR, access, Layout.raw(self.used_nbytes), reason)

    def _array(  # noqa: PLR0913, PLR0917  # an access
        self,
        side: Side,
        access: Access,
        layout: Layout,
        reason: str,
        template: tuple[Any, Any] | None,
        announced: Collection[Lease],
    ) -> Any:
        buffer = self._acquire(side, access, layout, reason, announced)
        if template is not None and template[0] is buffer:
            return template[1].view()
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
            buffer = self._acquire(side, access, layout, reason, announced)
            if template is not None and template[0] is buffer:
                array = template[1].view()
            else:
                array = self._buffers.home(side).view(buffer, layout, writable=True)
            # Others have no write permission that could be taken.
            if isinstance(array, np.ndarray):
                self._own_loans(side).borrows.add(array)
            # A signal handler or a finaliser may have used the other side before that.
            if self._is_alone(side, layout):
                return array

    def _leased(  # noqa: PLR0913, PLR0917  # an access, and whom it is for
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
        """Return what notes all that a side hands out, made when it first does."""
        found = self._loans[side]
        if found is NO_LOANS:
            made = Loans()
            with self._lock:
                loans = self._loans
                found = loans[side]
                # No signal handler comes in between this look and the assignment.
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
            # One call in C makes both calls, so that no signal handler comes in between.
            calls = (partial(function, array, *args), partial(written.append, object()))
            home.compute(deque, map(operator.call, calls), 0)

        self._acquire(side, access, layout, reason, announced, fill)
        if self._fast_buffer is None:
            self.finish_write(side, *self.range_of(layout), reason)

    def _alias(self, side: Side, buffer: Any, layout: Layout) -> tuple[Any, object]:
        """Lay an array over one side's buffer, whose lifetime can be seen."""
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
            self._invalidate_fast_path()
            buffer = self._acquire(side, CONST, layout, reason)
            array, owner = self._alias(side, buffer, layout)
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
            loans = self._loans[side]
            reach = buffer, layout.start, layout.stop
            borrowed = isinstance(buffer, np.ndarray) and loans.borrows.reaching(*reach)
            if borrowed or loans.may_write_in(layout.start, layout.stop):
                # Others may write here by right, so a difference would accuse nobody.
                return array
            if self._watch is None:
                self._watch = Watch(self._lock, self._buffers.sides)
            owner = owner if target is None else target
            self._watch.add(side, owner, kind, layout.start, layout.stop)
            return array

    # --- changes of state, under the lock --------------------------------------------------------
    #
    # How a change of state is made, so that it is made wholly or not at all, whatever raises and
    # wherever a signal handler does (CPython runs those after calls, at the start of functions and
    # at jumps backwards, and nowhere else):
    #
    # 1. Prepare. What is done can be undone, or makes no difference: buffers are made and filled,
    #    and write permissions are taken, which an exception gives back.
    # 2. Commit. Plain assignments without a call among them, each of which leaves a true state,
    #    and last of all the map: readers without the lock look at it first.
    # 3. Clean up: what may be left undone.

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
            The aliases of the other side that were warned of.
        fill
            Is called with the buffer, to write what the access is for, and with a list that gets an
            entry when that has been done, where what an overwrite forgets is kept until then.

        Raises
        ------
        Unannounced
            If the access may write, and other aliases of the other side overlap its range.
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
        return self._cross(side, access, start, stop, reason, announced, fill)

    def _found_exclusive(self, spans: Spans) -> tuple[Any, Any]:
        """Return what `_exclusive_buffer` and `_fast_buffer` should be."""
        held = spans.uniform
        if (
            held not in {_HOST, _ACCELERATOR}
            or self._uploads
            or self._watch is not None
            or self._moving
        ):
            return _NEITHER
        side = held >> 1
        if self._loans[1 - side].may_be_written:
            return _NEITHER
        buffer = self._buffers.sides[side]
        return None if self._buffers.on_both_sides else buffer, buffer

    def _again(self, side: int, access: Access, layout: Layout, reason: str, buffer: Any) -> bool:
        """Make one side fit for an access of the whole memory, if that is quickly done.

        That is Caffe's case, and the usual one: one side or both hold everything, nobody outside
        has any of the other side, and no log is open.

        Returns
        -------
        bool
            Whether it was so. If not, nothing has changed, and there may be nothing to do at all.
        """
        mine = 1 << side
        copied = ""
        if self._moving:
            return False
        try:
            # First of all: from here on no alias is made, also not by a finaliser.
            self._moving = True
            buffers = self._buffers
            here, there = self._loans[side], self._loans[1 - side]
            before = self._spans
            held, nbytes = before.uniform, before.nbytes
            if (
                not held
                or held == mine
                or there.leases
                or there.exposures
                or there.borrows.live
                or self._uploads
                or self._watch is not None
                or buffers.sides[side] is not buffer
                or recording()
            ):
                return False
            if access is not CONST:
                if access is OVERWRITE and layout.stop != nbytes:
                    access = MUTABLE
                after = mine
            elif held & mine or here.leases or here.exposures:
                return False
            else:
                after = _BOTH
            self._exclusive_buffer = self._fast_buffer = None
            if not held & mine and access is not OVERWRITE and nbytes:
                copied = buffers.bring_all(side, buffer, nbytes, reason)
            elif side and buffers.accelerator is not None and buffers.accelerator.asynchronous:
                buffers.use(buffers.accelerator, buffer, 0, nbytes)
            self._spans = Spans.whole(nbytes, after)
        finally:
            self._moving = False
        # A Blob's accessor was called by the user, and there are two frames between that and this.
        self._note(reason, before, 0, nbytes, copied, 6)
        return True

    def _zeroed(self, spans: Spans, used: int, revoked: list[NDArray[Any]]) -> Spans:
        """Zero the bytes that come into use, as a map says; return the map with who holds them.

        Borrows and aliases of these bytes may have been there since they were last in use. Where an
        alias is, its side alone holds them; a borrow ends unless its side alone does. Where aliases
        of both sides are, NumPy's of one side end too.
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
        """Write on a side that holds the newest contents. Nothing is copied, nothing can fail."""
        before = self._spans
        others = self._loans[1 - side]
        if others.exposures:
            others.exposures = others.without_exposures(start, stop)
        if before.uniform == 1 << side:
            # Nothing changes: the next access of this side need not come here again.
            if self._fast_buffer is None:
                self.exclusive_buffer()
            return
        # Nobody can write on the other side: what brought the two in step ended that.
        before = self._take(side, start, stop)
        if self._spans is not before:
            self._note(reason, before, start, stop)

    def _take(self, side: Side, start: int, stop: int, *, everything: bool = False) -> Spans:
        """Leave what both sides hold of a range, or all of it, to one of them.

        Returns the map before.
        """
        before = self._spans
        if before.any(start, stop) == 1 << side:
            return before
        try:
            # What comes in between, on this thread, is refused: its change would be lost.
            self._moving = True
            try:
                if side and self._uploads:
                    # What is on its way must not arrive when this side alone holds the newest.
                    self._finish_uploads(side, MUTABLE, start, stop)
            finally:
                before = after = self._spans
                if everything or before.common(start, stop) == _BOTH:
                    if start < stop or not before.nbytes:
                        after = before.put(start, stop, 1 << side)
                else:
                    after = before.replaced(_taken(before.runs(start, stop), side))
                if after != before:
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
        """Bring contents that a side lacks."""
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
            self._invalidate_fast_path()
            # From here on no alias is made, also not by a finaliser.
            others = self._loans[1 - side]
            # A signal handler may have started one since the caller waited.
            self._finish_uploads(side, access, start, stop)
            before = self._spans
            if writes and others.leases:
                # Again: one may have been made since.
                require_announced(self._loans, announced, start, stop, side.other)
            # Decided before the copy: what an alias writes during the copy must be copied again.
            pieces, after, changed = self._planned(side, access, start, stop)
            ranges = [piece[:2] for piece in pieces]
            if writes or not before.nbytes:
                ranges.append(changed)
            self._revoke(side.other, ranges, revoked, writes=writes)
            initial = before.uniform == 0 and self._source is None
            zeroed = initial and (access is not OVERWRITE or stop - start < before.nbytes)
            buffer = self._buffers.get(side, accelerator, zeroed=zeroed)
            copied = ""
            if pieces:
                copied = self._bring(side, access, buffer, pieces, accelerator, reason)
            if side is Side.ACCELERATOR and accelerator is not None:
                self._buffers.accelerator = accelerator
                self._buffers.use(accelerator, buffer, *changed)
            # What the map does not count may hold anything.
            sides[side] = buffer
            if recording():
                self._note_use(side, start, stop)
            if fill is not None:
                # What both sides hold is about to be overwritten here, perhaps only in part.
                self._spans = before.replaced(_taken(before.runs(start, stop), side))
                fill(buffer, written)
            self._spans = after
            if self._source is not None and 0 not in after.holders:
                self._source = None
            if writes and others.exposures:
                others.exposures = others.without_exposures(start, stop)
            if revoked:
                others.borrows.forget()
            if copied or after != before:
                self._note(reason, before, start, stop, copied)
        except BaseException:
            if written and after is not None:
                # An interrupt came right after the write. The parts that this side held before are
                # the new ones, and so all must be.
                self._spans = after
            if self._spans is not after:
                restore(revoked)
            raise
        finally:
            self._moving = False
        if self._watch is not None:
            for low, high in ranges:
                self._watch.renew(side, low, high)
        return buffer

    def _planned(
        self, side: Side, access: Access, start: int, stop: int
    ) -> tuple[list[Run], Spans, tuple[int, int]]:
        """Return what an access brings, the map that it leaves, and the range that it changes."""
        before = self._spans
        holder = 1 << side
        nbytes = before.nbytes
        writes = access is not CONST
        if before.uniform == 0 and (self._source is None or not nbytes):
            # The first access makes a whole buffer.
            return [], Spans.whole(nbytes, holder), (0, nbytes)
        if not nbytes:
            return [], Spans.whole(0, holder if writes else _BOTH), (0, 0)
        here, there = self._loans[side], self._loans[1 - side]
        held = before.alike(start, stop)
        quiet = not (here.may_be_written or there.may_be_written)
        # A signal handler may have brought the range here since the caller looked.
        if held and not held & holder and (writes or quiet):
            # The usual case: one side holds the whole range, and so will one side or both.
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
        """Return a map that is not too long, and what has to be brought to a side for that.

        Parameters
        ----------
        spans
            The map that an access of a range would leave.
        side
            The side of the access; None where nothing may move.
        start, stop
            Its range.
        source
            Whether what nobody holds may be brought, too.
        """
        pieces: list[Run] = []
        if len(spans.holders) > MAX_SPANS:
            # Another thread may be working on a span that is about to lose holders.
            self._joined = True
            ranges = [upload[:2] for upload in self._uploads]
            for loans, buffer in zip(self._loans, self._buffers.sides, strict=True):
                ranges += loans.ranges(buffer)
            kept = Spans.covering(spans.nbytes, ranges)
            if not (side or buffer is None or isinstance(buffer, np.ndarray)):
                # Nobody notes the borrows of the accelerator, which a download would end.
                side = None
            while len(spans.holders) > MAX_SPANS:
                found = cheapest_join(spans, side, start, stop, kept)
                if found is not None and not (found[0].holders or source):
                    found = cheapest_join(spans, None, start, stop, kept)
                if found is None:
                    break
                run, holders = found
                if holders & ~run.holders:
                    pieces.append(run)
                spans = spans.put(run.start, run.stop, holders)
        return pieces, spans

    def _revoke(
        self,
        side: Side,
        ranges: Sequence[tuple[int, int]],
        revoked: list[NDArray[Any]],
        *,
        writes: bool,
    ) -> None:
        """Take the write permission of what overlaps some ranges on a side that is left behind."""
        loans = self._loans[side]
        if not len(loans.borrows) and not (writes and loans.leases):
            return
        revoke = loans.revoke if writes else loans.borrows.revoke
        buffer = self._buffers.sides[side]
        for start, stop in ranges:
            if start == 0 and stop == self._spans.nbytes:
                revoke(revoked)
            elif isinstance(buffer, np.ndarray):
                # Arrays that are not NumPy's have no permission, and were not noted.
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
        """Copy or fill pieces; return how the journal calls it."""
        buffers = self._buffers
        copied = ""
        for start, stop, holders in pieces:
            if accelerator is None:
                # There is no other side: what is missing comes from the source.
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
        """Say who may write into a range of a side at any moment; empty where nobody can."""
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
        """Put another buffer, with newer contents, in the place of one side's."""
        if accelerator is not None:
            self.bind(accelerator)
        used = self.used_nbytes
        self._wait_for_uploads(side, OVERWRITE, 0, used)
        if self._watch is not None:
            self._watch.compare()
            self._watch.drop(side, 0, used)
        before, here = self._spans, 1 << side
        after = Spans.whole(used, here)
        # As long as the buffer is exchanged, this side counts for nothing.
        between = before.replaced(
            run._replace(holders=run.holders & ~here) for run in before.runs(0, used)
        )
        synced = before.any(0, used) == Head.SYNCED
        sides = self._buffers.sides
        revoked: list[NDArray[Any]] = []
        try:
            self._moving = True
            self._invalidate_fast_path()
            require_announced(self._loans, announced, 0, used, *Side)
            for loans in self._loans:
                loans.revoke(revoked)
            buffers, capacity = self._buffers, self._buffers.nbytes
            # The other buffer may be larger than the new one; what is in use fits in both.
            buffers.nbytes = used
            if synced:
                self._spans = between
            sides[side] = buffer
            self._spans = after
            self._loans[side].detach()
            self._source = None
            for loans in self._loans:
                if loans.exposures:
                    loans.exposures = loans.without_exposures(0, capacity)
                loans.borrows.forget()
            self._note("adoption", before, 0, used)
        except BaseException:
            if sides[side] is not buffer:
                restore(revoked)
            raise
        finally:
            self._moving = False

    def _push(self, stream: object, start: int, stop: int, reason: str) -> None:
        """Start to upload what the accelerator lacks of a range that the host holds."""
        self._wait_for_uploads(Side.HOST, MUTABLE, start, stop)
        buffers = self._buffers
        accelerator = buffers.accelerator or current_accelerator()
        host = self._loans[Side.HOST]
        before = self._spans
        revoked: list[NDArray[Any]] = []
        started: list[_Upload] = []
        after = None
        try:
            self._moving = True
            self._invalidate_fast_path()
            # An alias of either side may write before the upload has arrived: nothing is trusted.
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
            # What the map does not count may hold anything.
            buffers.sides[Side.ACCELERATOR] = buffer
            if recording():
                self._note_use(Side.ACCELERATOR, start, stop)
            self._uploads = uploads
            self._spans = after
            host.borrows.forget()
            self._note(reason, before, start, stop, "upload")
        except BaseException:
            if self._spans is not after:
                # An interrupt may have come when uploads were under way already, and nothing would
                # wait for them: they must not arrive when the buffer holds something newer. None
                # starts during a capture, which a wait would break.
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
        """Wait for the asynchronous uploads that overlap a range, as far as an access needs them.

        Raises
        ------
        RuntimeError
            In the middle of a transfer, which only the same thread can come to see.
        """
        if self._moving:
            self._refuse_reentry()
        self._finish_uploads(side, access, start, stop)

    def _finish_uploads(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Do what `_wait_for_uploads` is for."""
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
                    # A signal handler has ended the wait, and not the upload.
                    raise
                # It never arrived. The host still has the newest contents: nothing wrote since. The
                # map goes first: readers without the lock believe it once no upload is under way.
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
        """Compare the const exports that are checked."""
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
            self._invalidate_fast_path()
            require_announced(self._loans, announced, 0, self.nbytes, *Side)
            if others:
                with others[0].lock:
                    others[0]._leave(give_up, others[1:], announced)  # noqa: SLF001  # of this class
            else:
                give_up()
        finally:
            self._moving = False

    def _invalidate_fast_path(self) -> None:
        """Invalidate the lock-free path before any change; see the top of this class."""
        self._exclusive_buffer = None
        self._fast_buffer = None

    def _note_use(self, side: Side, start: int, stop: int) -> None:
        """Tell the open logs what a copy at each border between the sides would have moved.

        That is what the other side has used last, and this side holds all the same.
        """
        if not self.on_both_sides or start >= stop:
            return
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

    def _note(  # noqa: PLR0913, PLR0917  # what the history says
        self, reason: str, before: Spans, start: int, stop: int, copied: str = "", depth: int = 3
    ) -> None:
        """Write a transition into the history, as what `history` makes it of: that takes less.

        Parameters
        ----------
        reason, before, start, stop, copied
            What `Transition` has of it.
        depth
            How many frames out the user may be, at least; there are our frames alone in between.
            Two frames out is whoever acquired.
        """
        frame, library = user_frame(depth)
        code, instruction = frame.f_code, frame.f_lasti
        noted = (reason, before, self._spans, copied, code, instruction, library, start, stop)
        history = self._history
        if history is None:
            self._history = [noted]
            return
        history.append(noted)
        if len(history) > _REMEMBERED:
            del history[0]


class _Upload(NamedTuple):
    """An asynchronous upload of a range."""

    start: int
    stop: int
    push: Push


def _taken(runs: Iterable[Run], side: Side) -> Iterator[Run]:
    """Yield runs, of which those that both sides hold are one side's alone now."""
    for run in runs:
        yield run._replace(holders=1 << side) if run.holders == Head.SYNCED else run
