"""The ledger of a memory: its buffers, who holds which bytes, and what has been handed out.

`changes` changes it. Nearly every access has nothing to do, because its side holds the newest
contents already. So a Blob keeps an array with the `Shortcut` of the buffer under it, which tells
whether the array may be read, or written, as it is.
"""

from __future__ import annotations

import operator
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Never

from syncblob._locks_lost_in_fork import LostLock, is_lost, notify
from syncblob._source_lines import Place
from syncblob.devices import HOST, Side, home_of
from syncblob.devices.base import Home
from syncblob.memory.buffers import EMPTY, PAIR, Buffers, Source, Window, homes_of
from syncblob.memory.loans import BORROW, NO_LOANS, Loans
from syncblob.memory.operations import searches
from syncblob.memory.state_machine import CONST, Access, Run, Spans
from syncblob.transfers import count, followers, log_generation, open_logs
from syncblob.transfers.verify import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from syncblob._layout import Layout
    from syncblob._source_lines import NotedPlace
    from syncblob.devices import Device
    from syncblob.devices.base import Push
    from syncblob.memory.buffers import Function

# Programs that use more parts of a memory than this ask again.
_MOST_SHORTCUTS = 64

_UNUSABLE = (False, False)
_BEFORE_ALL_LOGS = (-1, Side.HOST)


class Upload(NamedTuple):
    """An asynchronous copy of a range from a side to another, with its push once it has begun."""

    start: int
    stop: int
    begun: list[Push]
    side: Side
    origin: Side


class Transition(NamedTuple):
    """A change of the head of a memory, or a copy that left the head as it was."""

    # The access, and which sides held which bytes.
    reason: str
    map_before: Spans
    map_after: Spans
    # "upload", "download", "peer" or "".
    copied: str
    # The range of the access.
    start: int
    stop: int
    # The fields of `place`, which takes longer to make.
    code: CodeType
    instruction: int
    library: str | None

    @property
    def place(self) -> Place:
        """The line of the user's code that made the access."""
        return Place(self.code, self.instruction, self.library)

    def __str__(self) -> str:
        """Describe it in one line."""
        copied = f", {self.copied}" if self.copied else ""
        before, after = self.map_before.head(), self.map_after.head()
        change = after.name if before is after else f"{before.name} -> {after.name}"
        return f"{self.reason}: {change}{copied}, at {self.place.line.describe()}"


# Where the fields of those transitions begin that stay when one is added: eight are remembered.
OLDEST = -7 * len(Transition._fields)


class Shortcut:
    """A buffer of one side, and whether arrays over it, or over a part, may be used at once."""

    __slots__ = ("buffer", "readable", "side", "writable")

    def __init__(self, buffer: Any, side: Side = Side.HOST, *, usable: bool = False) -> None:
        # The window.
        self.buffer: Any = buffer
        self.side: Side = side
        # Whether a const access has nothing to do: the side holds the newest contents, nothing is
        # under way to it, and no open log has to be told.
        self.readable: bool = usable
        # Whether this is true of every access: no other side holds them, no alias of another side
        # may write, and no upload reads them.
        self.writable: bool = usable


# The shortcut of an array without a memory, which nothing else uses.
FRESH = Shortcut(None, usable=True)

# The shortcut of a Blob without an array.
NO_SHORTCUT = Shortcut(None)


class Ledger(Buffers):
    """The state of a memory."""

    # Without the lock, an access may return an array of a side that holds all of its range, if
    # nothing is under way to it or watched: see "The fast path takes no lock" in architecture.md.
    # `spans` gives bytes to a side when the buffers hold them, and takes them from one before they
    # change. `uploads` and `watch` are set before `spans` counts the bytes that they concern.

    __slots__ = {
        "__weakref__": "By what devices and logs refer to it.",
        "device_home": "The home of the device of Blobs over this memory.",
        "epoch": "Replaced whenever any shortcut is revoked.",
        "last_search": "The number of searches for room when an accelerator was last used.",
        "last_used": "In which generation of open logs a side was used last, and that; or None.",
        "loans": "What has been handed out; see `own_loans`.",
        "lock": "Held while any of this changes.",
        "moving": "Whether bytes are moving. An access that interrupts this is refused.",
        "noted": "The fields of the transitions of `history`, in one tuple to save memory.",
        "shortcuts": "By window, valid for any part of everything, or by window, start and stop.",
        "source": "The initial contents; None for zeros, and once every byte has been used.",
        "span_limit": "The number of spans above which some are joined; 0 if never reached.",
        "uploads": "The asynchronous copies that later accesses may have to wait for.",
        "watch": "The const exports that `verified_const` checks, or None.",
    }

    def __init__(
        self,
        nbytes: int,
        *,
        device: Device | str | Home | None = None,
        source: Function | None = None,
        name: str = "",
    ) -> None:
        nbytes = operator.index(nbytes)
        if nbytes < 0:
            raise ValueError(f"expected a non-negative number of bytes, got {nbytes}")
        home: Any = device if isinstance(device, Home) else home_of(device)
        self.device_home: Home = home
        self.homes: tuple[Home, ...] = homes_of(HOST) if home is HOST else homes_of(HOST, home)
        self.shared: bool = home is not HOST and home.shared
        self.whole: list[Window | None] = [None, None]
        self.parts: dict[int, tuple[Window, ...]] = EMPTY
        self.spans: Spans = Spans.whole(nbytes, 0)
        self.name: str = name
        self._serial: int = 0
        self.span_limit: int = 0
        self.loans: Loans = NO_LOANS
        self.uploads: tuple[Upload, ...] = ()
        self.moving: bool = False
        self.shortcuts: dict[Any, Shortcut] = EMPTY
        self.epoch: object = None
        self.last_search: int = searches[0]
        self.watch: Watch | None = None
        self.source: Source | None = None if source is None else Source(source, nbytes)
        self.noted: tuple[Any, ...] = ()
        self.last_used: tuple[int, Side] | None = None
        self.lock: threading.RLock = threading.RLock()
        notify(self)

    # --- questions -------------------------------------------------------------------------------

    def side_of(self, home: Home) -> Side:
        """Return the side of a home. A further accelerator gets one when it is first used."""
        if home not in self.homes:
            self.under_lock(Ledger.add_side, home)
        side = self.homes.index(home)
        # To look a side up in its class takes time.
        return PAIR[side] if side < len(PAIR) else Side(side)

    @property
    def history(self) -> tuple[Transition, ...]:
        """The last transitions, oldest first."""
        noted, size = self.noted, len(Transition._fields)
        return tuple([Transition(*noted[n : n + size]) for n in range(0, len(noted), size)])

    @property
    def aliased(self) -> bool:
        """Whether a writable alias of any side may be alive."""
        return bool(self.loans.live) and any(x.kind is not BORROW for x in list(self.loans.live))

    def is_alone(self, side: int, start: int, stop: int) -> bool:
        """Tell whether a side is the only holder of a range. Of no elements, every side is."""
        return self.spans.any(start, stop) == 1 << side or (start >= stop and self.spans.nbytes > 0)

    def usable(self, side: Side, start: int, stop: int) -> tuple[bool, bool]:
        """Compute the attributes of a shortcut, under the lock: readable and writable."""
        spans, mine = self.spans, 1 << side
        if (
            not spans.common(start, stop) & mine
            or self.watch is not None
            or (self.uploads and self.awaits(side))
            or (open_logs and not self.is_use_noted(side))
        ):
            return _UNUSABLE
        written = self.loans.live and self.loans.writers(start, stop, ~mine)
        # Beside arrays of others over the same buffer, each access waits: see `meet`.
        return not (written and self.shared), not (
            spans.any(start, stop) != mine
            or self.uploads
            or written
            or (self.source is not None and self.source.unwritten.any(start, stop))
        )

    def awaits(self, side: int) -> bool:
        """Whether a copy to a side is under way. Reads on the other side do not wait for it."""
        return side in [upload.side for upload in self.uploads]

    # --- shortcuts -------------------------------------------------------------------------------

    def shortcut(self, side: Side, layout: Layout) -> Shortcut:
        """Return the shortcut for arrays over a layout on one side, up to date.

        Does not wait for transfers: while one is under way, it is `NO_SHORTCUT`, as if no window
        contains the range. It is the same object as long as the side has the same buffer, unless
        the sides hold different parts of the memory.
        """
        if self.moving:
            return NO_SHORTCUT
        # Use `with`: after a plain `acquire()` an interrupt could leave the lock held.
        with self.lock:
            if self.last_used is None and self.on_several_sides:
                self.follow_logs()
            if self.uploads:
                self.forget_arrived()
            # Before all that it concerns is read: the shortcut may be revoked, and forgotten, then.
            epoch = self.epoch
            if side:
                self.last_search = searches[0]
            start, stop = layout.reach
            window = self.window_over(side, start, stop)
            if window is None:
                return NO_SHORTCUT
            key: Any = window, start, stop
            if self.spans.uniform is not None and window is self.whole[side]:
                key, start, stop = window, 0, self.spans.nbytes
            shortcut = self.shortcuts.get(key) or self._new_shortcut(key, window, side)
            usable = self.usable(side, start, stop)
            # A signal handler or a finaliser that changed anything since has revoked the shortcuts.
            # None can run between this comparison and the assignments: nothing is called there.
            shortcut.readable, shortcut.writable = usable if self.epoch is epoch else _UNUSABLE
            if self.epoch is not epoch:
                # Another thread has opened a log, which needs no lock.
                self.revoke_shortcuts()
            return shortcut

    def newest(self, side: Side, layout: Layout) -> Window | None:
        """Return a side's window if a const access may read it as it is, else None."""
        spans, reach = self.spans, layout.reach
        window = self.window_over(side, *reach) if self.usable(side, *reach)[0] else None
        if side:
            self.last_search = searches[0]
        # Another thread may have evicted the side since, and made another buffer.
        return window if self.spans is spans else None

    def _new_shortcut(self, key: Any, window: Window, side: Side) -> Shortcut:
        """Add the shortcut of a range of a window."""
        if self.shortcuts is EMPTY:
            self.shortcuts = {}
        if len(self.shortcuts) >= _MOST_SHORTCUTS:
            self.forget_shortcuts()
        # A signal handler may have added it meanwhile.
        return self.shortcuts.setdefault(key, Shortcut(window, side))

    def forget_shortcuts(self, side: int | None = None) -> None:
        """Let go of the windows of a side, because it gets others, or of all. Needs the lock."""
        # A copy: CPython 3.11 may run a finaliser at each pair, which adds or forgets some.
        for key, shortcut in self.shortcuts.copy().items():
            if side is None or shortcut.side == side:
                # No signal handler can run in between, so none is usable that is not known.
                shortcut.readable = shortcut.writable = False
                self.shortcuts.pop(key, None)

    def revoke_shortcuts(self) -> None:
        """Let the next accesses ask again. Needs no lock: at worst, it makes accesses slower."""
        epoch = object()
        while self.epoch is not epoch:
            # Repeated if a thread under the lock may have granted some since: it compares epochs.
            self.epoch = epoch
            for shortcut in list(self.shortcuts.values()):
                shortcut.readable = shortcut.writable = False

    # --- what has been handed out ----------------------------------------------------------------

    def own_loans(self) -> Loans:
        """Return the loans; make them when something is first handed out."""
        loans = self.loans
        if loans is NO_LOANS:
            new = Loans()
            with self.lock:
                # No signal handler can run between this comparison and the assignment.
                if self.loans is NO_LOANS:
                    self.loans = new
                loans = self.loans
        return loans

    # --- under the lock --------------------------------------------------------------------------

    def under_lock(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of this under the lock, unless this is in the middle of a transfer."""
        with self.lock:
            if self.moving:
                self.refuse_reentry()
            return function(self, *args)

    def note(self, reason: str, start: int, stop: int, place: NotedPlace, before: Spans) -> None:
        """Append to the history what led to this map from an earlier one."""
        self.noted = (*self.noted[OLDEST:], reason, before, self.spans, "", start, stop, *place)

    def is_use_noted(self, side: Side) -> bool:
        """Tell whether the open logs know that no other side was used since a side was."""
        return self.last_used == (log_generation(), side) or not self.on_several_sides

    def follow_logs(self) -> None:
        """Let opened logs revoke the shortcuts: memories with several sides tell them what is used.

        Others tell them nothing.
        """
        followers.add(self)
        self.last_used = _BEFORE_ALL_LOGS

    def note_use(self, side: Side, start: int, stop: int) -> int:
        """Tell the open logs of bytes that a side and the one that was used last hold already.

        Returns the side whose use they know now, as a bit mask.
        """
        if not self.is_use_noted(side):
            # The next use of another side is to be recorded, too.
            self.revoke_shortcuts()
            if self.last_used is None:
                self.follow_logs()
            generation, last = self.last_used or _BEFORE_ALL_LOGS
            if generation == log_generation():
                both, runs = 1 << side | 1 << last, self.spans.runs(start, stop)
                held = sum(run.nbytes for run in runs if run.holders & both == both)
                if held:
                    count("avoided", held)
            self.last_used = log_generation(), side
        return 1 << side

    def meet(self, side: Side, start: int, stop: int) -> None:
        """Wait for what others may do to a range, through arrays over the same buffer."""
        for loan in self.loans.writers(start, stop, self.alike(side) & ~(1 << side)):
            if loan.side:
                self.finish_others(side, start, stop)
            if side:
                accelerator: Any = self.homes[side]
                # It is written at any time, so the next operation ends before its call does.
                accelerator.end_next()

    def finish_uploads(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Wait for the asynchronous copies of a range; reads where they come from need not."""
        for upload in self.uploads:
            if upload.start >= stop or start >= upload.stop:
                continue
            try:
                if side is upload.origin and access is CONST:
                    continue
                if side is Side.HOST or side not in {upload.origin, upload.side}:
                    for push in upload.begun:
                        push.wait()
                elif not all(push.order() for push in upload.begun):
                    continue
            except Exception:
                if not upload.begun[0].over:
                    # A signal handler has ended the wait, but the copy is still running.
                    raise
                # The copy has failed. Change the map first, because readers without the lock trust
                # it as soon as no copy is under way.
                self.take_back(upload)
                self.forget_arrived(upload)
                raise
            self.forget_arrived(upload)

    def take_back(self, upload: Upload) -> None:
        """Leave the bytes of a failed copy to its origin, unless its side has them alone."""
        others = ~(1 << upload.side)
        self.revoke_shortcuts()
        while (known := self.spans) is not (
            spans := known.changed(*upload[:2], lambda held: held & others or held)
        ):
            # Unless a signal handler has changed it meanwhile.
            if self.spans is known:
                self.spans = spans

    def forget_arrived(self, waited: Upload | None = None) -> None:
        """Forget the copies that have arrived, without a wait, and one that was waited for."""
        known = self.uploads
        still = tuple([x for x in known if x is not waited and x.begun and not x.begun[0].arrived])
        # Unless a signal handler has started another: then all stay for the next access.
        if self.uploads is known:
            self.uploads = still

    def forget_source(self, start: int, stop: int) -> None:
        """Record that a range may be written from now on, so that its source is out of date."""
        source, stop = self.source, min(stop, self.nbytes)
        if source is not None and start < stop:
            while (known := source.unwritten) is not (left := known.put(start, stop, 0)):
                # Unless a signal handler or a finaliser has written another range meanwhile.
                if source.unwritten is known:
                    source.unwritten = left
            if 0 not in self.spans.holders:
                self.source = source.rest()

    def only_on(self, side: Side, start: int, stop: int) -> list[Run]:
        """Return the runs of a range that a side alone holds, and that the source lacks."""
        runs = [run for run in self.spans.runs(start, stop) if run.holders == 1 << side]
        if self.source is None:
            return runs
        unwritten = self.source.unwritten
        return [part for run in runs for part in unwritten.lacking(*run[:2], 1)]

    def refuse_reentry(self) -> Never:
        """Raise: this is in the middle of a transfer, interrupted on the same thread."""
        raise RuntimeError(
            "this memory is in the middle of a transfer, and was used from a finaliser or a "
            "signal handler meanwhile; use the Blob outside of them"
        )

    def compare_watch(self, side: Side, start: int, stop: int, *, writes: bool) -> None:
        """Compare the checksums of watched const exports; drop those that the access may change."""
        watch = self.watch
        if watch is None:
            return
        watch.compare()
        for other in self.all_sides if writes else ():
            if self.alike(side) >> other & 1:
                watch.drop(other, start, stop)
        if watch.idle:
            self.watch = None

    def after_fork(self) -> None:
        """Refuse all accesses in a forked child if another thread held the lock during the fork."""
        if is_lost(self.lock):
            self.revoke_shortcuts()
            # With a watch, every access takes the lock.
            self.watch = Watch(self.lock, self.window_over)
            self.lock = LostLock()  # type: ignore[assignment]  # stands in for the lock
