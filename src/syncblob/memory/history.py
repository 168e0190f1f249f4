"""The history of a memory: its last transitions, and the uses of its sides that a log counts.

Call the functions under the memory's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from syncblob._source_lines import Place, user_instruction
from syncblob.memory.spans import Spans
from syncblob.memory.state import Head, head_over
from syncblob.transfers import avoided, log_generation

if TYPE_CHECKING:
    from types import CodeType

    from syncblob.devices.base import Side
    from syncblob.memory.ledger import Ledger

__all__ = ["Noted", "Transition", "is_use_noted", "note", "note_use"]

# The number of transitions that are remembered.
_REMEMBERED = 8


class Transition(NamedTuple):
    """A change of the head of a memory, or a copy that left the head as it was.

    Attributes
    ----------
    reason
        The access.
    before, after
        The head of the whole memory.
    copied
        ``"upload"``, ``"download"`` or ``""``.
    place
        The line of the user's code that made the access.
    start, stop
        The range of the access.
    """

    reason: str
    before: Head
    after: Head
    copied: str
    place: Place
    start: int = 0
    stop: int = 0

    def __str__(self) -> str:
        """Describe it in one line."""
        copied = f", {self.copied}" if self.copied else ""
        head = self.after.name
        change = head if self.before is self.after else f"{self.before.name} -> {head}"
        return f"{self.reason}: {change}{copied}, at {self.place.line.described()}"


class Noted(NamedTuple):
    """A transition as it is noted: with maps for heads, and the fields of the place."""

    reason: str
    before: Spans
    after: Spans
    copied: str
    code: CodeType
    instruction: int
    library: str | None
    start: int
    stop: int

    @property
    def transition(self) -> Transition:
        """The transition, which takes longer to make."""
        return Transition(
            self.reason,
            head_over(self.before, 0, self.before.nbytes),
            head_over(self.after, 0, self.after.nbytes),
            self.copied,
            Place(self.code, self.instruction, self.library),
            self.start,
            self.stop,
        )

    def gives(self, start: int, stop: int, holder: int) -> bool:
        """Tell whether it has made one side the only holder of a range."""
        if stop > min(self.before.nbytes, self.after.nbytes):
            return False
        return self.after.any(start, stop) == holder != self.before.any(start, stop)


_new = tuple.__new__


def note(
    ledger: Ledger, reason: str, before: Spans, start: int, stop: int, copied: str = ""
) -> list[Noted]:
    """Append the transition to the current map to the history, which is returned.

    The parameters are the fields of `Noted`.
    """
    noted = _new(Noted, (reason, before, ledger.spans, copied, *user_instruction(), start, stop))
    history = ledger.history
    if history is None:
        history = ledger.history = []
    history.append(noted)
    if len(history) > _REMEMBERED:
        del history[0]
    return history


def note_use(ledger: Ledger, side: Side, start: int, stop: int) -> None:
    """Record in the open logs the bytes that a copy at each change of side would have moved.

    These are the bytes that another side used last and that this side holds already.
    """
    if is_use_noted(ledger, side, start, stop):
        return
    # The next use of another side is to be recorded, too.
    ledger.shortcuts.revoke()
    spans, mine = ledger.spans, 1 << side
    last = _last_used(ledger)
    if last is None:
        last = Spans.whole(spans.nbytes, 0)
    nbytes = sum(
        held.nbytes
        for run in last.runs(start, stop)
        if run.holders and run.holders != mine
        for held in spans.runs(run.start, run.stop)
        if held.holders & mine
    )
    if nbytes:
        avoided(nbytes)
    ledger.last_used = log_generation(), last.put(start, stop, mine)


def is_use_noted(ledger: Ledger, side: Side, start: int, stop: int) -> bool:
    """Tell whether the open logs know that a side was the last to use all of a range."""
    if not ledger.buffers.on_both_sides or start >= stop:
        return True
    last = _last_used(ledger)
    return last is not None and last.alike(start, stop) == 1 << side


def _last_used(ledger: Ledger) -> Spans | None:
    """Return the side that last used each byte; None if no use was noted since a log is open."""
    if ledger.last_used is None:
        return None
    generation, last = ledger.last_used
    known = generation == log_generation() and last.nbytes == ledger.spans.nbytes
    return last if known else None
