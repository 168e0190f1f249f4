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
from typing import TYPE_CHECKING, Any, NamedTuple, Never

from syncblob._forks import is_lost, notify
from syncblob._homes import TwoHomes
from syncblob._source_lines import Place, user_place
from syncblob.aliases import HandedOut, restore, warn_of_stale_aliases
from syncblob.devices import Side, current_accelerator
from syncblob.transfers import avoided, recording
from syncblob.verification import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from syncblob._homes import Source
    from syncblob.aliases import Lease
    from syncblob.devices.base import Accelerator, Push

__all__ = ["Access", "Head", "StateMachine", "Transition", "Unannounced"]

_REMEMBERED = 8

# How often an access looks for aliases that have come since it warned of others.
_MOST_WARNINGS = 100


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


class _LostLock:
    """The lock of a memory that another thread was inside of when the process forked."""

    def acquire(self, *, blocking: bool = True) -> Never:
        """Refuse.

        Raises
        ------
        RuntimeError
            Always.
        """
        del blocking
        raise RuntimeError(
            "another thread was using this memory when the process forked, and may have left it "
            "half-changed: it cannot be used in this child. Make the Blob anew here, or fork while "
            "no other thread uses it"
        )

    __enter__ = acquire

    def __exit__(self, *_exception: object) -> None:
        """Do nothing: it is never entered."""


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
        notify(self)
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
                self._head = 1 << side
                self._note(reason, Head.SYNCED)

    def _disturb(self) -> None:
        """Take back that accesses have nothing to do. Before anything changes."""
        self._sole = None
        self._steady = None

    # How a change of state is made, so that it is made wholly or not at all, whatever raises and
    # wherever a signal handler does (CPython runs those after calls, at the start of functions and
    # at jumps backwards, and nowhere else):
    #
    # 1. Prepare. What is done can be undone, or makes no difference: buffers are made and filled,
    #    and write permissions are taken, which an exception gives back.
    # 2. Commit. Plain assignments without a call among them, each of which leaves a true state,
    #    and last of all the head: readers without the lock look at it first.
    # 3. Clean up: what may be left undone.

    def _acquire(
        self,
        side: Side,
        access: Access,
        reason: str,
        announced: Sequence[Lease] = (),
        fill: Callable[[Any], None] | None = None,
    ) -> Any:
        """Bring one side up to date for an access and return its buffer.

        Parameters
        ----------
        side, access, reason
            As for `Lending.array`.
        announced
            The aliases of the other side that were warned of.
        fill
            Is called with the buffer, to write what the access is for. What an overwrite forgets is
            kept until that has been done.

        Raises
        ------
        Unannounced
            If the access may write, and other aliases of the other side are alive.
        """
        if access is not Access.CONST and self._handed_out[1 - side].leases:
            self._require_announced(announced, side.other)
        if (
            self._head == 1 << side
            and self._pending is None
            and self._watch is None
            and not self._moving
            and not recording()
        ):
            # Nothing to wait for, to copy or to write down.
            if access is not Access.CONST:
                self._handed_out[1 - side].exposed = None
                self._written = side
            if fill is not None:
                fill(self._buffers[side])
            return self._buffers[side]
        if self._moving and access is Access.CONST and self._head & (1 << side):
            return self._buffers[side]
        self._settle(side, access)
        self._look_at_watch(side, access)
        if not self._head & (1 << side):
            return self._cross(side, access, reason, announced, fill)
        self._stay(side, access, reason)
        if fill is not None:
            fill(self._buffers[side])
        return self._buffers[side]

    def _look_at_watch(self, side: Side, access: Access) -> None:
        """Compare the const exports that are checked."""
        if self._watch is None:
            return
        self._watch.compare()
        if access is not Access.CONST:
            self._watch.drop(side)
        if self._watch.idle:
            self._watch = None

    def _stay(self, side: Side, access: Access, reason: str) -> None:
        """Use a side that holds the newest contents. Nothing is copied, nothing can fail."""
        here = 1 << side
        if recording() and self.on_both_sides:
            avoided(self._used)
        if access is not Access.CONST:
            before = self._head
            self._handed_out[side.other].exposed = None
            self._written = side
            # Nobody can write on the other side: what brought the two in step ended that.
            self._head = here
            if before != here:
                self._note(reason, before)

    def _cross(
        self,
        side: Side,
        access: Access,
        reason: str,
        announced: Sequence[Lease],
        fill: Callable[[Any], None] | None,
    ) -> Any:
        """Bring the newest contents to a side that does not hold them."""
        accelerator = self._accelerator
        if accelerator is None and side is Side.ACCELERATOR:
            accelerator = current_accelerator()
        others = self._handed_out[side.other]
        before = self._head
        writes = access is not Access.CONST
        revoked: list[NDArray[Any]] = []
        try:
            self._moving = True
            self._disturb()
            if writes:
                # Again: from here on no alias is made, also not by a finaliser.
                self._require_announced(announced, side.other)
            # Decided before the copy: what an alias writes during the copy must be copied again.
            head = self._head_after_crossing(side, access)
            (others if writes else others.borrows).revoke(revoked)
            buffer, copied = self._filled_buffer(side, access, accelerator, reason)
            if side is Side.ACCELERATOR:
                self._accelerator = accelerator
            # As long as the head does not count it, a buffer may hold anything.
            self._buffers[side] = buffer
            if fill is not None:
                fill(buffer)
            if writes:
                self._written = side
            self._head = head
            self._source = None
            if writes:
                others.exposed = None
            others.borrows.forget()
            self._note(reason, before, copied)
        except BaseException:
            if self._head == before:
                restore(revoked)
            raise
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

    def _replace(self, side: Side, buffer: Any, announced: Sequence[Lease]) -> None:
        """Put another buffer, with newer contents, in the place of one side's."""
        self._settle(side, Access.OVERWRITE)
        if self._watch is not None:
            self._watch.compare()
            self._watch.drop(side)
        before, here = self._head, 1 << side
        revoked: list[NDArray[Any]] = []
        try:
            self._moving = True
            self._disturb()
            self._require_announced(announced, *Side)
            for handed_out in self._handed_out:
                handed_out.revoke(revoked)
            # The other buffer may be larger than the new one; what is in use fits in both.
            self._nbytes = self._used
            if before == Head.SYNCED:
                self._head = before & ~here
            self._buffers[side] = buffer
            self._written = side
            self._head = here
            self._handed_out[side].detach()
            self._source = None
            for handed_out in self._handed_out:
                handed_out.exposed = None
                handed_out.borrows.forget()
            self._note("adoption", before)
        except BaseException:
            if self._buffers[side] is not buffer:
                restore(revoked)
            raise
        finally:
            self._moving = False

    def _push(self, stream: object) -> None:
        """Start an upload from HEAD_AT_CPU."""
        self._settle(Side.HOST, Access.MUTABLE)
        accelerator = self._accelerator or current_accelerator()
        borrows = self._handed_out[Side.HOST].borrows
        revoked: list[NDArray[Any]] = []
        pending = None
        try:
            self._moving = True
            self._disturb()
            # An alias of either side may write before the upload has arrived: nothing is trusted.
            aliased = any(handed_out.may_be_written for handed_out in self._handed_out)
            buffer = self._buffer(Side.ACCELERATOR, accelerator)
            borrows.revoke(revoked)
            pending = self._start_upload(buffer, accelerator, stream)
            self._accelerator = accelerator
            self._buffers[Side.ACCELERATOR] = buffer
            self._pending = pending
            if not aliased:
                self._head = Head.SYNCED
            borrows.forget()
            self._note("async_gpu_push", Head.HEAD_AT_CPU, "upload")
        except BaseException:
            if pending is None or self._pending is not pending:
                # An interrupt may have come when the upload was under way already, and nothing
                # would wait for it: it must not arrive when the buffer holds something newer.
                accelerator.synchronize()
                restore(revoked)
            raise
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

    def after_fork(self) -> None:
        """Look, in the child of a fork, whether another thread was inside of this memory."""
        if is_lost(self._lock):
            self.lose()

    def lose(self) -> None:
        """Refuse all accesses from now on: another thread was inside when the process forked."""
        self._disturb()
        # While there is a watch, every access takes the lock.
        self._watch = Watch(self._lock, self._buffers)
        self._lock = _LostLock()  # type: ignore[assignment]  # refuses what a lock does

    def _note(self, reason: str, before: int, copied: str = "") -> None:
        """Write a transition into the history."""
        if self._history is None:
            self._history = deque(maxlen=_REMEMBERED)
        after = Head(self._head)
        self._history.append(Transition(reason, Head(before), after, copied, user_place()))

    def _announcing(
        self,
        stale: list[tuple[Side, Lease]],
        action: str,
        function: Callable[..., Any],
        *args: Any,
    ) -> Any:
        """Call a function under the lock, and warn of the aliases that it leaves behind before.

        The user's filters and hooks may do anything, and so the warning is emitted without the
        lock. What aliases have come by then is looked for again: by the function, when nothing can
        come in between any more.

        Parameters
        ----------
        stale
            What the function has found, if it was called already.
        action
            What the warning calls it.
        function, args
            What is called, with a list of the aliases that were warned of as its last argument. It
            changes nothing if it raises `Unannounced`. Returns its result.

        Raises
        ------
        StaleAliasWarning
            Where the user's filters turn it into an error. Nothing has changed then.
        RuntimeError
            If new aliases come as fast as they are warned of.
        """
        announced: list[Lease] = []
        for _ in range(_MOST_WARNINGS):
            warn_of_stale_aliases(action, stale)
            announced += [lease for _, lease in stale]
            try:
                with self._lock:
                    return function(*args, announced)
            except Unannounced as found:
                stale = found.stale
        raise RuntimeError(
            f"{action} was given up: each time that it warned of the aliases which it leaves "
            "behind, there were new ones; stop the thread or the warning hook that makes them first"
        )

    def _require_announced(self, announced: Sequence[Lease], *sides: Side) -> None:
        """Raise `Unannounced` if there are other writable aliases of some sides."""
        stale = [
            (side, lease)
            for side in sides
            for lease in list(self._handed_out[side].leases)
            if lease not in announced
        ]
        if stale:
            raise Unannounced(stale)


class Unannounced(Exception):  # noqa: N818  # it is caught, and turned into a warning
    """There are writable aliases that would be left behind, and were not warned of yet."""

    def __init__(self, stale: list[tuple[Side, Lease]]) -> None:
        super().__init__(stale)
        self.stale = stale
