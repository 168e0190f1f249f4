"""The history of a memory: its last transitions, and the uses of its sides that a log counts.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob._source_lines import Place, user_instruction
from syncblob.devices import Side
from syncblob.memory.spans import Spans
from syncblob.memory.state_machine import Head, head_over
from syncblob.transfers import count_avoided, log_generation

if TYPE_CHECKING:
    from syncblob._source_lines import NotedPlace
    from syncblob.memory.ledger import Ledger


class Transition(NamedTuple):
    """A change of the head of a memory, or a copy that left the head as it was.

    Attributes
    ----------
    reason
        The access.
    map_before, map_after
        Which sides held which bytes.
    copied
        ``"upload"``, ``"download"`` or ``""``.
    noted
        The fields of `place`, which takes longer to make.
    start, stop
        The range of the access.
    """

    reason: str
    map_before: Spans
    map_after: Spans
    copied: str
    noted: NotedPlace
    start: int
    stop: int

    @property
    def before(self) -> Head:
        """The head of the whole memory before."""
        return head_over(self.map_before, 0, self.map_before.nbytes)

    @property
    def after(self) -> Head:
        """The head of the whole memory afterwards."""
        return head_over(self.map_after, 0, self.map_after.nbytes)

    @property
    def place(self) -> Place:
        """The line of the user's code that made the access."""
        return Place(*self.noted)

    def gives(self, start: int, stop: int, holder: int) -> bool:
        """Tell whether it has made one side the only holder of a range."""
        if stop > min(self.map_before.nbytes, self.map_after.nbytes):
            return False
        return self.map_after.any(start, stop) == holder != self.map_before.any(start, stop)

    def __str__(self) -> str:
        """Describe it in one line."""
        copied = f", {self.copied}" if self.copied else ""
        head = self.after.name
        change = head if self.before is self.after else f"{self.before.name} -> {head}"
        return f"{self.reason}: {change}{copied}, at {self.place.line.described()}"


def first_write(reason: str, nbytes: int) -> Transition:
    """Return the entry of the first write of a memory, on the host and of everything."""
    before, after = Spans.whole(nbytes, 0), Spans.whole(nbytes, 1 << Side.HOST)
    # Three more frames are ours: this function, its caller, and the method of the Blob.
    return Transition(reason, before, after, "", user_instruction(4), 0, nbytes)


def note_use(ledger: Ledger, side: Side, start: int, stop: int) -> None:
    """Record in the open logs the bytes that a copy at each change of side would have moved.

    These are the bytes that another side used last and that this side holds already.
    """
    if is_use_noted(ledger, side, start, stop):
        return
    # The next use of another side is to be recorded, too.
    ledger.shortcuts.revoke()
    last = _last_used(ledger)
    if last is not None:
        nbytes = _held_by(1 << side, ledger.spans, last, start, stop)
        if nbytes:
            count_avoided(nbytes)
    note_arrival(ledger, side, start, stop)


def note_arrival(ledger: Ledger, side: Side, start: int, stop: int) -> None:
    """Record for the open logs that a side has got a non-empty range, and so used it last."""
    nbytes, mine = ledger.spans.nbytes, 1 << side
    if stop - start == nbytes:
        last = Spans.whole(nbytes, mine)
    else:
        last = (_last_used(ledger) or Spans.whole(nbytes, 0)).put(start, stop, mine)
    ledger.last_used = log_generation(), last


def is_use_noted(ledger: Ledger, side: Side, start: int, stop: int) -> bool:
    """Tell whether the open logs know that no other side has used a range since a side did.

    What a side alone holds is copied before another one uses it, so that it may be used unnoted.
    """
    if not ledger.buffers.on_several_sides or start >= stop:
        return True
    mine, last = 1 << side, _last_used(ledger)
    if ledger.spans.any(start, stop) == mine:
        return last is None or not last.any(start, stop) & ~mine
    return last is not None and last.alike(start, stop) == mine


def _held_by(mine: int, spans: Spans, last: Spans, start: int, stop: int) -> int:
    """Return the number of bytes of a range that a side holds and another one used last."""
    user, holders = last.alike(start, stop), spans.alike(start, stop)
    if user is not None and holders is not None:
        # The usual case, in fewer steps.
        return stop - start if user and user != mine and holders & mine else 0
    return sum(
        held.nbytes
        for run in last.runs(start, stop)
        if run.holders and run.holders != mine
        for held in spans.runs(run.start, run.stop)
        if held.holders & mine
    )


def noted_user(ledger: Ledger) -> int:
    """Return as a bit the side that, as the open logs know, used everything last; 0 if none did."""
    last = _last_used(ledger)
    return 0 if last is None else last.uniform or 0


def _last_used(ledger: Ledger) -> Spans | None:
    """Return the side that last used each byte; None if no use was noted since a log is open."""
    if ledger.last_used is None:
        return None
    generation, last = ledger.last_used
    known = generation == log_generation() and last.nbytes == ledger.spans.nbytes
    return last if known else None
