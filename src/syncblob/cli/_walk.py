"""The walk of the tour: each step of the script is taken, watched, and compared with the script.

What is reported is measured. The line of code is the line that is executed; where its arrays lie is
read off their addresses; what moved is what the journal recorded; and the contents of the arrays
are compared with a private copy on which NumPy repeats each computation.

The walk is one session: what a step binds stays alive until a later step binds the name again or
deletes it, and looking at the arrays keeps none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob.cli._steps import STEPS, Library, Place
from syncblob.devices import Side
from syncblob.memory import Head
from syncblob.transfer_log import record_transfers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from syncblob.blob import Blob
    from syncblob.cli._steps import Step
    from syncblob.transfers import Transfer

__all__ = ["Outcome", "State", "Taken", "walk"]

_SIDES = {Side.HOST: Place.HOST, Side.ACCELERATOR: Place.ACCELERATOR}


class State(NamedTuple):
    """The heads of a Blob and of its gradient, and where it has writable aliases."""

    data: Head
    diff: Head
    aliased: tuple[Place, ...]


class Taken(NamedTuple):
    """An array that a step bound a name to."""

    name: str
    address: int
    nbytes: int
    place: Place


@dataclass(slots=True)
class Outcome:
    """What a step did.

    Attributes
    ----------
    number, step
        The step, counted from 1 without those that were left out.
    before, after
        The heads, and where there were writable aliases.
    taken
        The arrays it got.
    transfers
        What moved between host and accelerator.
    why
        Why that moved, or why nothing had to.
    problems
        What was not as the script says.
    refused
        Why the library did not do it, if it may.
    """

    number: int
    step: Step
    before: State
    after: State
    taken: tuple[Taken, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    why: str = ""
    problems: list[str] = field(default_factory=list)
    refused: str | None = None

    @property
    def copied_nbytes(self) -> int:
        """Bytes of the private copies among its arrays."""
        return sum(taken.nbytes for taken in self.taken if taken.place is Place.OWN_COPY)


def walk(blob: Blob, libraries: Mapping[Library, ModuleType]) -> Iterator[Outcome]:
    """Take a Blob through the script.

    Parameters
    ----------
    blob
        A Blob of floating-point numbers that nobody has touched, made for an accelerator.
    libraries
        What can be used besides NumPy. Steps that need anything else are left out.

    Yields
    ------
    Outcome
        For each step, as soon as it has been taken. A step that raises an exception is the last.
    """
    walker = _Walker(blob, libraries)
    steps = [step for step in STEPS if step.needs is None or step.needs in libraries]
    for number, step in enumerate(steps, start=1):
        outcome, goes_on = walker.take(number, step)
        yield outcome
        if not goes_on:
            return


class _Session(dict[str, Any]):
    """The variables of the walk; `bound` are those that the current step bound."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[str, None] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.bound[name] = None


class _Walker:
    """What has to be remembered between two steps."""

    def __init__(self, blob: Blob, libraries: Mapping[Library, ModuleType]) -> None:
        self._blob = blob
        self._globals: dict[str, Any] = {
            library.value: module
            for library, module in libraries.items()
            if library is not Library.TORCH_ON_ACCELERATOR
        }
        # The journal names the innermost line outside the libraries; "syncblob" would be one.
        self._globals |= {"__name__": "tour", "np": np, "blob": blob}
        self._session = _Session()
        self._homes: dict[Place, int] = {}
        self._expected: NDArray[Any] | None = None

    def take(self, number: int, step: Step) -> tuple[Outcome, bool]:
        """Take a step. Return what it did, and whether it did not raise."""
        outcome = Outcome(number, step, self._state(), self._state())
        place = f"<tour, step {number}>"
        self._session.bound.clear()
        # The weights may hold anything; infinities must not end the walk.
        with record_transfers() as log, np.errstate(all="ignore"):
            try:
                # The line that is shown and the line that runs cannot differ if they are one.
                code = compile(step.code, place, "exec")
                exec(code, self._globals, self._session)  # noqa: S102  # our own script
            except BufferError as error:
                if not step.refusable:
                    return _failed(outcome, error), False
                outcome.refused = str(error)
                return outcome, True
            except Exception as error:  # noqa: BLE001  # whatever it is, the tour reports it
                return _failed(outcome, error), False
        outcome.transfers = tuple(log)
        outcome.after = self._state()
        with np.errstate(all="ignore"):
            self._check(outcome, place)
        outcome.why = _why(outcome)
        return outcome, True

    def _state(self) -> State:
        loans = self._blob.memory.loans
        aliased = (place for side, place in _SIDES.items() if loans(side).may_be_written)
        return State(self._blob.head, self._blob.diff_head, tuple(aliased))

    def _check(self, outcome: Outcome, place: str) -> None:
        """Measure where arrays lie, and compare everything with the script."""
        step, problems = outcome.step, outcome.problems
        moved = tuple(transfer.direction for transfer in outcome.transfers)
        if moved != step.moves:
            problems.append(f"expected {_listed(step.moves)} to move, got {_listed(moved)}")
        for transfer in outcome.transfers:
            if transfer.nbytes != self._blob.nbytes:
                problems.append(f"expected {self._blob.nbytes} bytes, got {transfer.nbytes}")
            if transfer.line.filename != place:
                problems.append(f"the journal blames {transfer.line}")
        if outcome.after.data is not step.head:
            problems.append(f"expected {step.head.name}, got {outcome.after.data.name}")
        if outcome.after.aliased != ((step.alias,) if step.alias else ()):
            expected = step.alias.value if step.alias else "neither side"
            got = ", ".join(place.value for place in outcome.after.aliased) or "neither side"
            problems.append(f"expected aliases on {expected}, got {got}")
        self._look_at_homes(problems)
        found = {name: self._located(name, array) for name, array in self._session.items()}
        taken = tuple(found[name] for name in self._session.bound)
        outcome.taken = taken
        for one in taken:
            if self._homes.get(one.place, one.address) != one.address:
                problems.append(f"{one.name} does not begin where the Blob's buffer does")
        places = {one.place for one in taken}
        if places != ({step.place} if step.place else set()):
            expected = step.place.value if step.place else "no array"
            got = ", ".join(f"{one.name}: {one.place.value}" for one in taken) or "none"
            problems.append(f"expected {expected}, got {got}")
        self._look_at_contents(outcome, found)

    def _look_at_homes(self, problems: list[str]) -> None:
        """Note where the Blob's own buffers are, as far as asking moves nothing."""
        head = self._blob.head
        found = {}
        if head & Head.HEAD_AT_CPU:
            found[Place.HOST] = _address(self._blob.cpu_data())
        if head & Head.HEAD_AT_GPU:
            found[Place.ACCELERATOR] = _address(self._blob.gpu_data())
        for place, address in found.items():
            if self._homes.setdefault(place, address) != address:
                problems.append(f"the buffer on the {place.value} is another one than before")
        if len(set(self._homes.values())) != len(self._homes):
            problems.append("host and accelerator have one buffer")

    def _located(self, name: str, array: Any) -> Taken:
        """Tell where an array lies from its address."""
        start, nbytes = _address(array), int(array.nbytes)
        for place, home in self._homes.items():
            if start < home + self._blob.nbytes and home < start + nbytes:
                return Taken(name, start, nbytes, place)
        return Taken(name, start, nbytes, Place.OWN_COPY)

    def _look_at_contents(self, outcome: Outcome, found: Mapping[str, Taken]) -> None:
        """Repeat a computation on the private copy; compare all arrays that should show it.

        These are what the step bound, and whatever else lies on a side with the newest contents.
        """
        step, session = outcome.step, self._session
        if self._expected is None:
            self._expected = self._blob.cpu_data().copy()
        if step.compute is not None:
            self._expected = step.compute(self._expected)
        head = outcome.after.data
        newest = {place for side, place in _SIDES.items() if head & (1 << side)}
        for name, one in found.items():
            if name in session.bound or one.place in newest:
                values = _values(session[name])
                if not np.array_equal(values, self._expected, equal_nan=True):
                    outcome.problems.append(f"{name} does not hold what NumPy computes")


def _failed(outcome: Outcome, error: Exception) -> Outcome:
    outcome.problems.append(f"{type(error).__name__}: {error}")
    return outcome


def _listed(moves: tuple[str, ...]) -> str:
    return ", ".join(moves) or "nothing"


def _address(array: Any) -> int:
    """Return the address of the first byte of an array of NumPy, torch or CuPy."""
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    return int(array.data_ptr() if hasattr(array, "data_ptr") else array.data.ptr)


def _values(array: Any) -> NDArray[Any]:
    """Return the contents of an array of NumPy, torch or CuPy, wherever it is."""
    if isinstance(array, np.ndarray):
        return array
    values: NDArray[Any] = array.cpu().numpy() if hasattr(array, "cpu") else array.get()
    return values


def _why(outcome: Outcome) -> str:
    """Say why something moved, or why nothing had to, from what was before and after."""
    before, after = outcome.before, outcome.after
    if outcome.transfers:
        return _why_moved(outcome)
    if outcome.copied_nbytes:
        return "a copy was asked for"
    if before.data is Head.UNINITIALIZED:
        return "read from the file"
    if after.diff is not before.diff:
        return f"written on {'the host' if after.diff is Head.HEAD_AT_CPU else 'accelerator'}"
    if before.aliased and not outcome.taken:
        return "through the alias" if after.aliased else "the alias is gone"
    return "newest already there"


def _why_moved(outcome: Outcome) -> str:
    """Say it for a step that moved something. An alias keeps the head from becoming SYNCED."""
    before, after = outcome.before, outcome.after
    upload = outcome.transfers[0].direction == "upload"
    origin = "the host" if upload else "accelerator"
    lacking = Head.HEAD_AT_GPU if upload else Head.HEAD_AT_CPU
    if not before.data & lacking:
        return f"newest on {origin}" if after.data & lacking else "an alias may write"
    return f"gradient on {origin}" if after.diff is not before.diff else "for no good reason"
