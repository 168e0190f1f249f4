"""The state machine that keeps the two homes of a memory in step.

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

While a writable alias of the head's side may be alive, a const access of the other side copies
every time and leaves the head where it is, so that later writes through the alias are seen. A
mutable access, an overwrite or an adoption that would leave a living alias behind warns first.

All but the overwrite columns are Caffe's (``src/caffe/syncedmem.cpp``), transition for transition
and copy for copy. The values of the head are Caffe's too, and they are a bit mask of the sides that
hold the newest contents, which is how the code below reads them.
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from syncblob._homes import TwoHomes
from syncblob._source_lines import Place, user_place
from syncblob.aliases import HandedOut, warn_of_stale_aliases
from syncblob.devices import Side, current_accelerator
from syncblob.transfers import avoided, recording

if TYPE_CHECKING:
    from syncblob._homes import Source
    from syncblob.devices.base import Accelerator, Push
    from syncblob.verification import Watch

__all__ = ["Access", "Head", "StateMachine", "Transition"]

_REMEMBERED = 8


class Head(enum.IntEnum):
    """Where the newest contents of a memory are. The numbers are Caffe's."""

    UNINITIALIZED = 0
    HEAD_AT_CPU = 1 << Side.HOST
    HEAD_AT_GPU = 1 << Side.ACCELERATOR
    SYNCED = HEAD_AT_CPU | HEAD_AT_GPU

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Transition(NamedTuple):
    """A change of the head, or a copy that left it where it was.

    Attributes
    ----------
    reason
        The access.
    before, after
        The head.
    copied
        ``"upload"``, ``"download"`` or ``""``.
    place
        Where the user's code made the access.
    """

    reason: str
    before: Head
    after: Head
    copied: str
    place: Place

    def __str__(self) -> str:
        """Describe it in one line."""
        copied = f", {self.copied}" if self.copied else ""
        head = self.after.name
        change = head if self.before is self.after else f"{self.before.name} -> {head}"
        return f"{self.reason}: {change}{copied}, at {self.place.line.described()}"


class Access(enum.Enum):
    """What a caller is going to do with the bytes it is lent."""

    CONST = "read"
    MUTABLE = "read and write"
    OVERWRITE = "write everything and read nothing"


class StateMachine(TwoHomes):
    """The head, and every transition of it.

    The methods are called under the lock. If an allocation or a transfer fails, head, buffers and
    bytes are as they were.
    """

    __slots__ = (
        "_handed_out",
        "_head",
        "_history",
        "_lock",
        "_moving",
        "_pending",
        "_sole",
        "_steady",
        "_watch",
        "_written",
    )

    def __init__(self, nbytes: int, accelerator: Accelerator | None, source: Source | None) -> None:
        super().__init__(nbytes, accelerator, source)
        self._lock = threading.RLock()
        self._head = 0
        # The side last written to; before that, the one asked for.
        self._written = Side.HOST if accelerator is None else Side.ACCELERATOR
        self._handed_out = (HandedOut(), HandedOut())
        # An asynchronous upload that somebody may have to wait for.
        self._pending: Push | None = None
        # Whether bytes are on their way, or the state is about to change: what comes in between, on
        # the same thread, is refused.
        self._moving = False
        # The newest buffer, once it was found that an access of it has nothing to do but to tell
        # open logs; under the first name if there is no other buffer, and so nothing to tell.
        # Borrows and aliases of it are made without the lock, and are good if it is still here
        # afterwards: so it is taken back before anything looks for them.
        self._sole: Any = None
        self._steady: Any = None
        # Const exports that are checked; see `verification`.
        self._watch: Watch | None = None
        self._history: deque[Transition] | None = None

    @property
    def head(self) -> Head:
        """Where the newest contents are. Never moves anything."""
        return Head(self._head)

    @property
    def history(self) -> tuple[Transition, ...]:
        """The last transitions, oldest first."""
        return tuple(self._history or ())

    def sole_buffer(self) -> Any:
        """Return the only buffer if every access of its side leaves everything as it is, else None.

        The answer stands until ``_sole`` is None again, which Blobs look at to save themselves
        the way through here. If there is another buffer, ``_steady`` says the same, but for what
        open logs are told.
        """
        with self._lock:
            side = self._written
            others = self._handed_out[side.other]
            if (
                self._head == 1 << side
                and self._pending is None
                and self._watch is None
                and not self._moving
                and not others.may_be_written
            ):
                self._steady = self._buffers[side]
                self._sole = self._steady if self._buffers[side.other] is None else None
            return self._sole

    def wrote(self, side: Side, reason: str) -> None:
        """Say that work on an array of one side, which may write, is over.

        What a thread, a signal handler or a finaliser has brought to the other side meanwhile may
        lack some of what was written. So this side is the newest again.
        """
        if self._steady is not None:
            return
        with self._lock:
            if self._head == Head.SYNCED:
                self._written = side
                self._move_head(1 << side, reason)

    def _disturb(self) -> None:
        """Take back that accesses have nothing to do. Before anything changes."""
        self._sole = None
        self._steady = None

    def _acquire(self, side: Side, access: Access, reason: str) -> Any:
        """Bring one side up to date for an access and return its buffer."""
        if (
            self._head == 1 << side
            and self._pending is None
            and self._watch is None
            and not self._moving
            and not recording()
        ):
            # Nothing to wait for, to copy or to write down.
            if access is not Access.CONST:
                self._handed_out[side.other].exposed = None
                self._written = side
            return self._buffers[side]
        if self._moving and access is Access.CONST and self._head & (1 << side):
            return self._buffers[side]
        self._settle(side, access)
        if self._watch is not None:
            self._watch.compare()
            if access is not Access.CONST:
                self._watch.drop(side)
            if self._watch.idle:
                self._watch = None
        if self._head & (1 << side):
            return self._stay(side, access, reason)
        return self._cross(side, access, reason)

    def _stay(self, side: Side, access: Access, reason: str) -> Any:
        """Use a side that holds the newest contents. Nothing is copied, nothing can fail."""
        here = 1 << side
        if recording() and self.on_both_sides:
            avoided(self._used)
        if access is not Access.CONST:
            self._handed_out[side.other].exposed = None
            self._written = side
            # Nobody can write on the other side: what brought the two in step ended that.
            if self._head != here:
                self._move_head(here, reason)
        return self._buffers[side]

    def _cross(self, side: Side, access: Access, reason: str) -> Any:
        """Bring the newest contents to a side that does not hold them."""
        accelerator = self._accelerator
        if accelerator is None and side is Side.ACCELERATOR:
            accelerator = current_accelerator()
        others = self._handed_out[side.other]
        self._moving = True
        try:
            self._disturb()
            # Decided before the copy: what an alias writes during the copy must be copied again.
            head = self._head_after_crossing(side, access)
            suspended = others.borrows.suspend()
            try:
                buffer, copied = self._filled_buffer(side, access, accelerator, reason)
            except BaseException:
                others.borrows.restore(suspended)
                raise
            others.borrows.forget()
            if side is Side.ACCELERATOR:
                self._accelerator = accelerator
            self._buffers[side] = buffer
            self._source = None
            if access is not Access.CONST:
                others.exposed = None
                others.leave_behind()
                self._written = side
            # Last of all: readers without the lock look at the head first.
            self._move_head(head, reason, copied)
        finally:
            self._moving = False
        if self._watch is not None:
            self._watch.renew(side)
        return buffer

    def _head_after_crossing(self, side: Side, access: Access) -> int:
        here = 1 << side
        if access is not Access.CONST or self._head == Head.UNINITIALIZED:
            return here
        if self._handed_out[side.other].may_be_written:
            return self._head
        return here if self._handed_out[side].may_be_written else Head.SYNCED

    def _filled_buffer(
        self, side: Side, access: Access, accelerator: Accelerator | None, reason: str
    ) -> tuple[Any, str]:
        """Return a buffer with what an access needs to find, and what was copied for it."""
        if access is Access.OVERWRITE:
            return self._buffer(side, accelerator), ""
        if self._head == Head.UNINITIALIZED:
            return self._initialised_buffer(side, accelerator, reason), ""
        buffer = self._buffer(side, accelerator)
        because = self._writer(side.other) if access is Access.CONST and recording() else ""
        self._transfer(side, buffer, accelerator, reason, because)
        return buffer, "download" if side is Side.HOST else "upload"

    def _writer(self, side: Side) -> str:
        """Say who may write on a side at any moment; empty where nobody can."""
        handed_out = self._handed_out[side]
        for lease in list(handed_out.leases):
            return lease.described(side)
        place = handed_out.unwatched
        if place is None:
            return ""
        return f"the {side.name.lower()} side, exposed at {place.line.described()}"

    def _replace(self, side: Side, buffer: Any) -> None:
        """Put another buffer, with newer contents, in the place of one side's."""
        self._settle(side, Access.OVERWRITE)
        if self._watch is not None:
            self._watch.compare()
            self._watch.drop(side)
        self._moving = True
        try:
            self._disturb()
            for handed_out in self._handed_out:
                handed_out.borrows.end()
                handed_out.exposed = None
                handed_out.leave_behind()
            self._handed_out[side].detach()
            self._buffers[side] = buffer
            self._nbytes = self._used
            self._source = None
            self._written = side
            self._move_head(1 << side, "adoption")
        finally:
            self._moving = False

    def _push(self, stream: object) -> None:
        """Start an upload from HEAD_AT_CPU."""
        self._settle(Side.HOST, Access.MUTABLE)
        accelerator = self._accelerator or current_accelerator()
        borrows = self._handed_out[Side.HOST].borrows
        self._moving = True
        try:
            self._disturb()
            # An alias of either side may write before the upload has arrived: nothing is trusted.
            aliased = any(handed_out.may_be_written for handed_out in self._handed_out)
            buffer = self._buffer(Side.ACCELERATOR, accelerator)
            suspended = borrows.suspend()
            try:
                pending = self._start_upload(buffer, accelerator, stream)
            except BaseException:
                borrows.restore(suspended)
                raise
            borrows.forget()
            self._accelerator = accelerator
            self._buffers[Side.ACCELERATOR] = buffer
            self._pending = pending
            head = Head.HEAD_AT_CPU if aliased else Head.SYNCED
            self._move_head(head, "async_gpu_push", "upload")
        finally:
            self._moving = False
        if self._watch is not None:
            self._watch.drop(Side.ACCELERATOR)

    def _settle(self, side: Side, access: Access) -> None:
        """Wait for an asynchronous upload as far as an access needs it.

        Raises
        ------
        RuntimeError
            In the middle of a transfer, which only the same thread can come to see.
        """
        if self._moving:
            raise RuntimeError(
                "this memory is in the middle of a transfer, and was used from a finaliser or a "
                "signal handler meanwhile; use the Blob outside of them"
            )
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
            if not self._pending.over:
                # A signal handler has ended the wait, and not the upload.
                raise
            # It never arrived. The host still has the newest contents: nothing wrote since. The
            # head goes first: readers without the lock believe it as soon as nothing is pending.
            if self._head == Head.SYNCED:
                self._head = Head.HEAD_AT_CPU
            self._pending = None
            raise
        self._pending = None

    def _move_head(self, head: int, reason: str, copied: str = "") -> None:
        before, self._head = self._head, head
        if self._history is None:
            self._history = deque(maxlen=_REMEMBERED)
        self._history.append(Transition(reason, Head(before), Head(head), copied, user_place()))

    def _warn_if_aliased(self, action: str, *sides: Side) -> None:
        """Warn that an action leaves the writable aliases of some sides behind.

        Called without the lock: the user's filters and hooks may do anything.
        """
        warn_of_stale_aliases(
            action,
            [(side, lease) for side in sides for lease in list(self._handed_out[side].leases)],
        )
