"""The ledger of a memory: its buffers, who holds which bytes, and what has been handed out.

`changes` changes it. This file has its fields, with what code without the lock may rely on, its
shortcuts, and the questions that accesses ask.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Never

from syncblob._locks_lost_in_fork import LostLock, is_lost, notify
from syncblob._source_lines import user_instruction
from syncblob.devices import Side
from syncblob.memory.borrows_and_aliases import NO_LOANS, Loans, joined
from syncblob.memory.buffers import Buffers
from syncblob.memory.history import Transition, is_use_noted
from syncblob.memory.shortcut import NO_SHORTCUT, Shortcut
from syncblob.memory.spans import Run, Spans
from syncblob.memory.state_machine import CONST, Access
from syncblob.memory.verify import Watch
from syncblob.transfers import follow_logs, open_logs

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Accelerator, Home, Push
    from syncblob.memory.sources import Source

_NOTHING_LENT: tuple[Loans, ...] = (NO_LOANS, NO_LOANS)

# Programs that use more parts of a memory than this between two changes of state ask again.
_MOST_PARTS = 64

# The number of transitions that are remembered.
REMEMBERED = 8

_UNUSABLE = (False, False)


class Upload(NamedTuple):
    """An asynchronous copy of a range from a side to another. Most are uploads."""

    start: int
    stop: int
    push: Push
    side: Side
    origin: Side


class Shortcuts:
    """The shortcuts of a memory.

    Use it under the memory's lock. Only `clear` needs none: at worst, it makes accesses slower.

    Attributes
    ----------
    sides
        The shortcut of each side's buffer, valid for any part of it; None if never asked for.
        Further accelerators are missing until then.
        It stays with the buffer, so that arrays are current again when their side is.
    epoch
        An object that is replaced whenever any shortcut is cleared.
    parts
        Those of parts while the sides hold different parts of the memory, or the side has windows,
        by side, start and stop. They end with the next change.
    """

    __slots__ = ("__weakref__", "epoch", "parts", "sides")

    def __init__(self) -> None:
        self.epoch: object = object()
        self.sides: list[Shortcut | None] = [None, None]
        self.parts: dict[tuple[int, int, int], Shortcut] = {}

    def of(self, key: tuple[Side, int, int], buffer: Any, *, part: bool) -> Shortcut:
        """Return the shortcut of a side's buffer, or of a part of it.

        Parameters
        ----------
        key
            The side, and the start and the stop of the part.
        buffer
            The side's buffer, or the window of the part.
        part
            Whether the shortcut is valid for the part alone.
        """
        side, parts = key[0], self.parts
        while side >= len(self.sides):
            self.sides.append(None)
        shortcut = parts.get(key) if part else self.sides[side]
        if shortcut is None or shortcut.buffer is not buffer:
            new = Shortcut(buffer, side)
            # A signal handler or a finaliser may have made one meanwhile. None can run from here
            # on: nothing is called. So no shortcut that may be used is ever unknown.
            shortcut = (parts[key] if key in parts else None) if part else self.sides[side]  # noqa: SIM401  # `get` is a call
            if shortcut is None or shortcut.buffer is not buffer:
                if shortcut is not None:
                    shortcut.readable = shortcut.writable = False
                shortcut = new
                if part:
                    parts[key] = new
                else:
                    self.sides[side] = new
        return shortcut

    def limit(self) -> None:
        """Forget the shortcuts of parts if there are too many."""
        if len(self.parts) >= _MOST_PARTS:
            self.revoke()

    def forget(self, side: int) -> None:
        """Let go of a side's buffer, because the side gets another one."""
        if side < len(self.sides):
            self.sides[side] = None

    def clear(self, epoch: object = None) -> None:
        """Let the next accesses ask again. Forgets no shortcut, so that `revoke` finds all.

        `epoch` is a new one, if it means something.
        """
        epoch = epoch or object()
        while self.epoch is not epoch:
            # Repeated if a thread under the lock may have granted some since: it compares epochs.
            self.epoch = epoch
            for shortcut in [*self.sides, *self.parts.values()]:
                if shortcut is not None:
                    shortcut.readable = shortcut.writable = False

    def revoke(self) -> None:
        """Clear all shortcuts, before a change of state."""
        self.epoch = object()
        for shortcut in self.sides:
            if shortcut is not None:
                shortcut.readable = shortcut.writable = False
        parts = self.parts
        if parts:
            for key in list(parts):
                # Nothing is called here, so an interrupt leaves none that is unknown and usable.
                if key in parts:
                    shortcut = parts[key]
                    shortcut.readable = shortcut.writable = False
                    del parts[key]


class Ledger:
    """The state of a memory.

    Parameters
    ----------
    nbytes
        The number of bytes.
    accelerator
        The backend of the first accelerator; None if it is chosen on first use.
    source
        The initial contents; None for zeros.

    Attributes
    ----------
    buffers
        The buffers.
    spans
        The map of the bytes.
    loans
        The loans of each side; see `own_loans`.
    uploads
        The asynchronous uploads that later accesses may have to wait for.
    moving
        True while bytes are moving or the state is about to change. An access that interrupts this,
        on the same thread, is refused.
    shortcuts
        The shortcuts.
    follows_logs
        Whether opened logs revoke the shortcuts.
    watch
        The const exports that `verified_const` checks.
    source
        As above; None once every byte has been used, and none can be read again.
    span_limit
        The number of spans above which some are joined; 0 if that has never happened.
    history
        The last transitions, oldest first.
    last_used
        While a log is open: its generation, and the side that last used each byte.
    lock
        Held while any of this changes.
    """

    # The paths without the lock. An access may skip the lock if all it has to do is return an
    # array: its side holds all of its range, no upload is under way, and nothing is watched. This
    # is safe for the following reasons:
    #
    # - `spans` is immutable and replaced as a whole. A map that gives bytes to a side is assigned
    #   last, when the buffers hold them. A map that takes bytes from a side is assigned before they
    #   change.
    # - `uploads` and `watch` are set before `spans` counts the bytes that they concern.
    # - Every change revokes the shortcuts first. A borrow or an alias made without the lock is
    #   recorded before `Shortcut.writable` is read a second time. So either the change finds the
    #   record, or the thread that made the array finds the shortcut revoked and tries again.
    #
    # All of this holds without a GIL, too. CPython then assigns slots and items of lists under a
    # lock of the object and reads them by atomic loads (`PyMember_SetOne`, `list_ass_item`), and
    # changes sets and dicts, and copies them into lists, under their locks. So every thread sees
    # the assignments of another in their order, and a record before what is read after it.

    __slots__ = (
        "__weakref__",
        "buffers",
        "follows_logs",
        "history",
        "last_used",
        "loans",
        "lock",
        "moving",
        "shortcuts",
        "source",
        "span_limit",
        "spans",
        "uploads",
        "watch",
    )

    def __init__(self, nbytes: int, accelerator: Accelerator | None, source: Source | None) -> None:
        self.buffers: Buffers = Buffers(nbytes, accelerator)
        self.spans: Spans = Spans.whole(nbytes, 0)
        self.loans: tuple[Loans, ...] = _NOTHING_LENT
        self.uploads: tuple[Upload, ...] = ()
        self.moving: bool = False
        self.shortcuts: Shortcuts = Shortcuts()
        self.follows_logs: bool = False
        self.watch: Watch | None = None
        self.source: Source | None = source
        self.span_limit: int = 0
        self.history: tuple[Transition, ...] = ()
        self.last_used: tuple[int, Spans] | None = None
        self.lock: threading.RLock = threading.RLock()
        notify(self)

    # --- questions -------------------------------------------------------------------------------

    def others(self, side: int) -> Loans:
        """Return the loans of the other sides. Those of more than one are a copy."""
        loans = self.loans
        if len(loans) == len(_NOTHING_LENT):
            return loans[1 - side]
        return joined(loans[:side] + loans[side + 1 :])

    def side_of(self, home: Home) -> Side:
        """Return the side of a home. A further accelerator gets one when it is first used."""
        buffers = self.buffers
        # A signal handler may add one, too, in the middle of this.
        while home not in buffers.homes or len(self.loans) < len(buffers.homes):
            with self.lock:
                if self.moving:
                    self.refuse_reentry()
                if len(self.loans) <= len(buffers.homes):
                    self.loans = (*self.loans, NO_LOANS)
                buffers.add(home)  # type: ignore[arg-type]  # every memory has the host
        return Side(buffers.homes.index(home))

    @property
    def aliased(self) -> bool:
        """Whether a writable alias of any side may be alive."""
        return any(loans.may_be_written for loans in self.loans)

    def is_alone(self, side: int, start: int, stop: int) -> bool:
        """Tell whether a side is the only holder of a range. Of no elements, every side is."""
        return self.spans.any(start, stop) == 1 << side or (start >= stop and self.spans.nbytes > 0)

    def shortcut(self, side: Side, layout: Layout) -> Shortcut | None:
        """Return the shortcut for arrays over a layout on one side, up to date.

        Does not wait for transfers: while one is under way, nothing can be used at once.

        Returns
        -------
        Shortcut or None
            None if no buffer or window of the side contains the range. The same object is returned
            as long as the side has the same buffer, unless the sides hold different parts of the
            memory.
        """
        buffers = self.buffers
        if not buffers.windows[side].all:
            return None
        if self.moving:
            return NO_SHORTCUT
        # Use `with`: after a plain `acquire()` an interrupt could leave the lock held.
        with self.lock:
            shortcuts = self.shortcuts
            if not self.follows_logs and buffers.on_several_sides:
                # Only memories with buffers on several sides tell logs anything.
                follow_logs(shortcuts)
                self.follows_logs = True
            if shortcuts.parts:
                shortcuts.limit()
            if self.uploads:
                self.forget_arrived()
            # Before all that it concerns is read: the shortcut may be revoked, and forgotten, then.
            epoch = shortcuts.epoch
            buffer = buffers.windows[side].whole
            part = buffer is None or self.spans.uniform is None
            start, stop = (layout.start, layout.stop) if part else (0, self.spans.nbytes)
            if buffer is None:
                buffer = buffers.containing(side, start, stop)
                if buffer is None:
                    # No window contains the range, or another thread has evicted the buffer.
                    return None
            shortcut = shortcuts.of((side, start, stop), buffer, part=part)
            usable = self.usable(side, start, stop)
            # A signal handler or a finaliser that changed anything since has revoked the shortcuts.
            # None can run between this comparison and the assignments: nothing is called there.
            # Without a GIL, another thread may open a log there: see below.
            shortcut.readable, shortcut.writable = usable if shortcuts.epoch is epoch else _UNUSABLE
            if shortcuts.epoch is not epoch:
                # Another thread has opened a log, which needs no lock.
                shortcuts.revoke()
            return shortcut

    def usable(self, side: Side, start: int, stop: int) -> tuple[bool, bool]:
        """Compute the attributes of a shortcut, under the lock: readable and writable."""
        spans, mine = self.spans, 1 << side
        uniform = spans.uniform
        if (
            not (spans.common(start, stop) if uniform is None else uniform) & mine
            or self.watch is not None
            or self.moving
            or (self.uploads and self.awaits(side))
            or (open_logs and not is_use_noted(self, side, start, stop))
        ):
            return _UNUSABLE
        # As `others`, without the call in the usual case.
        there = self.loans[1 - side] if len(self.loans) == len(_NOTHING_LENT) else self.others(side)
        return True, not (
            (spans.any(start, stop) if uniform is None else uniform) != mine
            or self.uploads
            or ((there.leases or there.exposures) and there.may_write_in(start, stop))
            or (self.source is not None and self.source.unwritten.any(start, stop))
        )

    def awaits(self, side: int) -> bool:
        """Whether a copy to a side is under way. Reads on the other side do not wait for it."""
        # Nearly always there is one, or two.
        return side in [upload.side for upload in self.uploads]

    # --- what has been handed out ----------------------------------------------------------------

    def own_loans(self, side: int) -> Loans:
        """Return the loans of a side; make them when it first hands something out."""
        loans = self.loans[side]
        if loans is NO_LOANS:
            new = Loans()
            with self.lock:
                known = self.loans
                loans = known[side]
                # No signal handler can run between this comparison and the assignment.
                if loans is NO_LOANS:
                    self.loans = (*known[:side], new, *known[side + 1 :])
                    loans = new
        return loans

    # --- under the lock --------------------------------------------------------------------------

    def note(self, reason: str, start: int, stop: int) -> None:
        """Append to the history what has happened to a range without a change of the map."""
        fields = reason, self.spans, self.spans, "", user_instruction(3), start, stop
        self.history = (*self.history[1 - REMEMBERED :], Transition(*fields))

    def await_uploads(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Wait for the asynchronous copies that an access of a range depends on.

        These are all that overlap it. Only reads of the side that a copy comes from need not wait.

        Raises
        ------
        RuntimeError
            In the middle of a transfer. Only code that interrupts it on the same thread sees this.
        """
        if self.moving:
            self.refuse_reentry()
        self.finish_uploads(side, access, start, stop)

    def finish_uploads(self, side: Side, access: Access, start: int, stop: int) -> None:
        """Wait as `await_uploads` does, in the middle of a transfer too."""
        for upload in self.uploads:
            if upload.start >= stop or start >= upload.stop:
                continue
            try:
                if side is upload.origin and access is CONST:
                    continue
                if side is Side.HOST or side not in {upload.origin, upload.side}:
                    upload.push.wait()
                elif not upload.push.order():
                    continue
            except Exception:
                if not upload.push.over:
                    # A signal handler has ended the wait, but the copy is still running.
                    raise
                # The copy has failed. Its origin still has the newest contents: nothing wrote
                # since. Change the map first, because readers without the lock trust it as soon as
                # no copy is under way.
                self.take_from(upload.side, upload.start, min(upload.stop, self.spans.nbytes))
                self.forget_arrived(upload)
                raise
            self.forget_arrived(upload)

    def forget_arrived(self, waited: Upload | None = None) -> None:
        """Forget the copies that have arrived, without a wait, and one that was waited for."""
        known = self.uploads
        running = tuple([each for each in known if not (each is waited or each.push.arrived)])
        # Unless a signal handler has started another: then all stay for the next access.
        if self.uploads is known:
            self.uploads = running

    def forget_source(self, start: int, stop: int) -> None:
        """Record that a range may be written from now on, so that its source is out of date."""
        source, stop = self.source, min(stop, self.buffers.nbytes)
        if source is not None and start < stop:
            source.unwritten = source.unwritten.put(start, stop, 0)
            if 0 not in self.spans.holders:
                self.source = source.rest()

    def only_on(self, side: Side, start: int, stop: int) -> list[Run]:
        """Return the runs of a range that a side alone holds, and that the source lacks."""
        runs = [run for run in self.spans.runs(start, stop) if run.holders == 1 << side]
        if self.source is None:
            return runs
        unwritten = self.source.unwritten
        return [part for run in runs for part in unwritten.lacking(*run[:2], 1)]

    def take_from(self, side: Side, start: int, stop: int) -> None:
        """Let a side no longer hold the bytes of a range that others hold, too."""
        self.shortcuts.revoke()
        spans = self.spans
        self.spans = spans.replaced(
            run._replace(holders=run.holders & ~(1 << side) or run.holders)
            for run in spans.runs(start, stop)
        )

    def refuse_reentry(self) -> Never:
        """Refuse an access in the middle of a transfer.

        Raises
        ------
        RuntimeError
            Always.
        """
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
        if writes:
            watch.drop(side, start, stop)
        if watch.idle:
            self.watch = None

    def after_fork(self) -> None:
        """Refuse accesses in a forked child if another thread held the lock during the fork."""
        if is_lost(self.lock):
            self.lose()

    def lose(self) -> None:
        """Refuse all accesses from now on: another thread held the lock during a fork."""
        self.shortcuts.revoke()
        # With a watch, every access takes the lock.
        self.watch = Watch(self.lock, self.buffers)
        self.lock = LostLock()  # type: ignore[assignment]  # stands in for the lock
