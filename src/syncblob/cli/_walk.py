"""The walk of the tour: each step of the script is taken, watched, and compared with the script.

What is reported is measured. The line of code is the line that is executed; where its arrays lie is
read off their addresses; what moved is what the journal recorded; and the contents are compared
with a private copy on which NumPy repeats each computation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob.cli._steps import STEPS, Library, Place
from syncblob.memory import Head
from syncblob.transfers import record_transfers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    from syncblob.blob import Blob
    from syncblob.cli._steps import Step
    from syncblob.transfers import Transfer

__all__ = ["Heads", "Outcome", "Taken", "walk"]


class Heads(NamedTuple):
    """Where the newest contents of a Blob and of its gradient are."""

    data: Head
    diff: Head


class Taken(NamedTuple):
    """An array that a step gave a name to."""

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
        The heads.
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
    before: Heads
    after: Heads
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


class _Walker:
    """What has to be remembered between two steps."""

    def __init__(self, blob: Blob, libraries: Mapping[Library, ModuleType]) -> None:
        self._blob = blob
        self._fixed: dict[str, Any] = {
            library.value: module
            for library, module in libraries.items()
            if library is not Library.TORCH_ON_ACCELERATOR
        }
        # The journal names the innermost line outside the libraries; "syncblob" would be one.
        self._fixed |= {"__name__": "tour", "np": np, "blob": blob}
        self._kept: dict[str, Any] = {}
        self._homes: dict[Place, int] = {}
        # Held to the end, so that no buffer of the Blob's comes to lie where one was.
        self._copies: list[Any] = []
        self._expected: NDArray[Any] | None = None

    def take(self, number: int, step: Step) -> tuple[Outcome, bool]:
        """Take a step. Return what it did, and whether it did not raise."""
        moves = step.moves(self._blob) if callable(step.moves) else step.moves
        outcome = Outcome(number, step, self._heads(), self._heads())
        place = f"<tour, step {number}>"
        namespace = {**self._fixed, **self._kept}
        # The weights may hold anything; infinities must not end the walk.
        with record_transfers() as log, np.errstate(all="ignore"):
            try:
                # The line that is shown and the line that runs cannot differ if they are one.
                exec(compile(step.code, place, "exec"), namespace)  # noqa: S102  # our own script
            except BufferError as error:
                if not step.refusable:
                    return _failed(outcome, error), False
                outcome.refused = str(error)
                return outcome, True
            except Exception as error:  # noqa: BLE001  # whatever it is, the tour reports it
                return _failed(outcome, error), False
        outcome.transfers = tuple(log)
        outcome.after = self._heads()
        arrays = {
            name: value
            for name, value in namespace.items()
            if name not in self._fixed and name != "__builtins__"
        }
        self._kept = arrays if step.keeps else {}
        with np.errstate(all="ignore"):
            self._check(outcome, arrays, moves, place)
        outcome.why = _why(outcome)
        return outcome, True

    def _heads(self) -> Heads:
        return Heads(self._blob.head, self._blob.diff_head)

    def _check(
        self, outcome: Outcome, arrays: dict[str, Any], moves: tuple[str, ...], place: str
    ) -> None:
        """Measure where arrays lie, and compare everything with the script."""
        step, problems = outcome.step, outcome.problems
        moved = tuple(transfer.direction for transfer in outcome.transfers)
        if moved != moves:
            problems.append(f"expected {_listed(moves)} to move, got {_listed(moved)}")
        for transfer in outcome.transfers:
            if transfer.nbytes != self._blob.nbytes:
                problems.append(f"expected {self._blob.nbytes} bytes, got {transfer.nbytes}")
            if transfer.line.filename != place:
                problems.append(f"the journal blames {transfer.line}")
        if outcome.after.data is not step.head:
            problems.append(f"expected {step.head.name}, got {outcome.after.data.name}")
        self._look_at_homes(problems)
        taken = tuple(self._located(name, array, problems) for name, array in arrays.items())
        outcome.taken = taken
        places = {found.place for found in taken}
        if places != ({step.place} if step.place else set()):
            expected = step.place.value if step.place else "no array"
            got = ", ".join(f"{found.name}: {found.place.value}" for found in taken) or "none"
            problems.append(f"expected {expected}, got {got}")
        self._look_at_contents(step, problems)

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

    def _located(self, name: str, array: Any, problems: list[str]) -> Taken:
        """Tell where an array lies from its address."""
        start, nbytes = _address(array), int(array.nbytes)
        for place, home in self._homes.items():
            if start < home + self._blob.nbytes and home < start + nbytes:
                if start != home:
                    problems.append(f"{name} does not begin where the Blob's buffer does")
                return Taken(name, start, nbytes, place)
        self._copies.append(array)
        return Taken(name, start, nbytes, Place.OWN_COPY)

    def _look_at_contents(self, step: Step, problems: list[str]) -> None:
        """Repeat a computation on the private copy; compare where the host is up to date."""
        if self._expected is not None and step.compute is not None:
            self._expected = step.compute(self._expected)
        if not self._blob.head & Head.HEAD_AT_CPU:
            return
        values = np.asarray(self._blob)
        if self._expected is None:
            self._expected = values.copy()
        elif not np.array_equal(values, self._expected, equal_nan=True):
            problems.append("the contents are not what NumPy computes")


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


def _why(outcome: Outcome) -> str:
    """Say why something moved, or why nothing had to, from the heads before and after."""
    before, after = outcome.before, outcome.after
    if outcome.transfers:
        upload = outcome.transfers[0].direction == "upload"
        origin = "the host" if upload else "accelerator"
        lacking = Head.HEAD_AT_GPU if upload else Head.HEAD_AT_CPU
        if not before.data & lacking:
            return f"newest on {origin}"
        return f"gradient on {origin}" if after.diff is not before.diff else "for no good reason"
    if outcome.copied_nbytes:
        return "a copy was asked for"
    if before.data is Head.UNINITIALIZED:
        return "read from the file"
    if after.diff is not before.diff:
        return f"written on {'the host' if after.diff is Head.HEAD_AT_CPU else 'accelerator'}"
    return "newest already there"
