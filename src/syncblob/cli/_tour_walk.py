"""The walk of the tour: run a script with a Blob, and compare each step with the rules.

Everything reported is measured. The code shown is the source of the lines that ran, the place of an
array follows from its address, transfers come from the journal, and contents are compared with a
private copy on which NumPy repeats each computation.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from enum import StrEnum
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob.devices import Side
from syncblob.memory import Head
from syncblob.transfer_log import record_transfers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from syncblob.blob import Blob
    from syncblob.transfers import Transfer

__all__ = ["Place", "Step", "walk"]


class Place(StrEnum):
    """The place of an array."""

    HOST = "host"
    ACCELERATOR = "accelerator"
    OWN_COPY = "own copy"


CPU, GPU, SYNCED = Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED
_SIDES = {Side.HOST: Place.HOST, Side.ACCELERATOR: Place.ACCELERATOR}


class State(NamedTuple):
    """The heads of a Blob's data and diff, and the sides with writable aliases."""

    data: Head
    diff: Head
    aliased: tuple[Place, ...]


class Taken(NamedTuple):
    """An array that a step produced."""

    name: str
    address: int
    bytes: int
    memory: Place


_UNTOUCHED = State(Head.UNINITIALIZED, Head.UNINITIALIZED, ())


@dataclass(slots=True)
class Step:
    """The rules for the lines of the script that have just run, and the measurements."""

    title: str
    """A title for the lines."""
    head: Head
    """The head after them."""
    place: Place | None = None
    """The expected place of the arrays."""
    arrays: dict[str, Any] = field(default_factory=dict)
    """The arrays, by the names of the variables. Cleared after the measurement."""
    moves: tuple[str, ...] = ()
    """The directions of the expected transfers."""
    why: str = "newest already there"
    """The reason for the transfer, or for its absence."""
    alias: Place | None = None
    """The expected place of a live writable alias."""
    compute: Callable[[Any], Any] = lambda values: values
    """The function that the lines apply to the contents."""
    refused: str | None = None
    """The reason if a library refused, which is allowed."""

    number: int = 0
    chapter: str = ""
    code: str = ""
    before: State = _UNTOUCHED
    after: State = _UNTOUCHED
    taken: tuple[Taken, ...] = ()
    """The measured arrays."""
    transfers: tuple[Transfer, ...] = ()
    problems: list[str] = field(default_factory=list)
    """The differences from the rules."""


def script(  # noqa: PLR0915  # a session, line by line
    blob: Blob, cupy: Any, torch: Any, *, torch_on_accelerator: bool
) -> Iterator[str | Step]:
    """Use a Blob with the libraries; None stands for a library that is not available.

    Yields the title of each chapter before it, and a Step with the rules after the lines of each
    step. Callers must not keep a Step's arrays, or aliases would stay alive.
    """
    host, accelerator, up, down = Place.HOST, Place.ACCELERATOR, ("upload",), ("download",)
    on_host, on_accelerator = (up, "newest on the host"), (down, "newest on accelerator")
    # NumPy computes a number from a 0-d array, and the device is filled with it.
    gradient = (up, "gradient on the host") if blob.shape else ((), "a number is no array")

    yield "NumPy opens the weights"
    weights = np.asarray(blob)
    yield Step("NumPy reads", CPU, host, {"weights": weights}, (), "read from the file")
    weights = np.asarray(blob)
    yield Step("NumPy again", CPU, host, {"weights": weights})
    private = np.array(blob)
    yield Step(
        "NumPy copies", CPU, Place.OWN_COPY, {"private": private}, (), "a copy was asked for"
    )

    yield "The accelerator takes over"
    gpu = blob.gpu_data()
    yield Step("accelerator reads", SYNCED, accelerator, {"gpu": gpu}, *on_host)
    gpu = blob.gpu_data()
    yield Step("accelerator again", SYNCED, accelerator, {"gpu": gpu})
    gpu = blob.mutable_gpu_data()
    gpu *= 0.5
    yield Step("accelerator writes", GPU, accelerator, {"gpu": gpu}, compute=_times(0.5))
    if cupy:
        array = cupy.asarray(blob.gpu)
        yield Step("CuPy takes it", GPU, accelerator, {"array": array}, alias=accelerator)
        del array
        yield Step("CuPy lets go", GPU, why="the alias is gone")
    weights = np.asarray(blob)
    yield Step("NumPy reads", SYNCED, host, {"weights": weights}, *on_accelerator)

    if torch_on_accelerator:
        may_write = down, "an alias may write", accelerator
        yield "An alias stays coherent"
        tensor = torch.from_dlpack(blob)
        yield Step("torch takes it", GPU, accelerator, {"tensor": tensor}, alias=accelerator)
        weights = np.asarray(blob)
        yield Step("NumPy reads", GPU, host, {"weights": weights}, *may_write)
        tensor.mul_(2)
        yield Step("torch computes", GPU, None, {}, (), "through the alias", accelerator, _times(2))
        weights = np.asarray(blob)
        yield Step("NumPy sees it", GPU, host, {"weights": weights}, *may_write)
        del tensor
        yield Step("torch lets go", GPU, why="the alias is gone")
        weights = np.asarray(blob)
        yield Step("NumPy reads", SYNCED, host, {"weights": weights}, *on_accelerator)
        weights = np.asarray(blob)
        yield Step("NumPy again", SYNCED, host, {"weights": weights})

    yield "Back on the host"
    weights = blob.mutable_cpu_data()
    weights += 1
    yield Step("NumPy writes", CPU, host, {"weights": weights}, compute=_plus_one)
    if torch:
        tensor = torch.from_dlpack(blob.cpu)
        yield Step("torch takes it", CPU, host, {"tensor": tensor}, alias=host)
        tensor.mul_(0.5)
        seen = np.asarray(blob)
        yield Step("torch computes", CPU, host, {"seen": seen}, alias=host, compute=_times(0.5))
        del tensor
        yield Step("torch lets go", CPU, why="the alias is gone")

    yield "A step of training"
    gpu = blob.gpu_data()
    yield Step("accelerator reads", SYNCED, accelerator, {"gpu": gpu}, *on_host)
    if torch:
        try:
            tensor = torch.from_dlpack(blob.cpu.const)
            yield Step("torch only reads", SYNCED, host, {"tensor": tensor})
        except BufferError as error:  # read-only capsules require DLPack 1.0
            yield Step("torch only reads", SYNCED, why="", refused=str(error))
    blob.diff[...] = 0.1 * np.asarray(blob)
    yield Step("gradient written", SYNCED, None, {}, *gradient)
    blob.update()
    yield Step("update", GPU, compute=_decayed)
    weights = np.asarray(blob)
    yield Step("NumPy reads", SYNCED, host, {"weights": weights}, *on_accelerator)


def _times(factor: float) -> Callable[[Any], Any]:
    return lambda values: values * values.dtype.type(factor)


def _plus_one(values: Any) -> Any:
    return values + values.dtype.type(1)


def _decayed(values: Any) -> Any:
    return values - values.dtype.type(0.1) * values


def _sources() -> dict[int, tuple[str, str]]:
    """Return, for each line of the script, the title and the code of its step."""
    lines, first = inspect.getsourcelines(script)
    found: dict[int, tuple[str, str]] = {}
    codes: dict[str, str] = {}
    for block in ast.walk(ast.parse("".join(lines))):
        if not isinstance(block, (ast.FunctionDef, ast.If, ast.Try, ast.ExceptHandler)):
            continue
        begun: list[ast.stmt] = []
        for statement in block.body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield)):
                begun = [] if isinstance(statement, (ast.If, ast.Try)) else [*begun, statement]
                continue
            if isinstance(call := statement.value.value, ast.Call):
                title = ast.literal_eval(call.args[0])
                # A handler uses the code of its try block, which comes before it.
                codes[title] = "; ".join(map(ast.unparse, begun)) or codes[title]
                for line in range((begun or [statement])[0].lineno, statement.lineno + 1):
                    found[first - 1 + line] = title, codes[title]
            begun = []
    return found


def walk(
    blob: Blob, cupy: Any = None, torch: Any = None, *, torch_on_accelerator: bool = False
) -> Iterator[Step]:
    """Run the script with a Blob, and compare each step with the rules.

    Parameters
    ----------
    blob
        An unread Blob of floating-point numbers on an accelerator.
    cupy, torch, torch_on_accelerator
        As for `script`. Steps that need a missing library are omitted.

    Yields
    ------
    Step
        Each step after it has run. A step that raises an exception is the last one.
    """
    sources, rules, chapter, number = _sources(), _Rules(blob), "", 1
    steps: Any = script(blob, cupy, torch, torch_on_accelerator=torch_on_accelerator)
    # Weights may contain any values; infinities must not end the walk.
    with np.errstate(all="ignore"):
        while True:
            before = rules.state()
            with record_transfers() as log:
                try:
                    step = next(steps, None)
                    lines = [steps.gi_frame.f_lineno] if step else []
                except Exception as error:  # noqa: BLE001  # the tour reports any exception
                    step = Step("", before.data, problems=[f"{type(error).__name__}: {error}"])
                    frames = walk_tb(error.__traceback__)
                    lines = [line for frame, line in frames if frame.f_code is script.__code__]
            if isinstance(step, str):
                chapter = step
                continue
            if step is None:
                return
            step.number, step.chapter, (step.title, step.code) = number, chapter, sources[lines[0]]
            step.before, step.after, step.transfers = before, rules.state(), tuple(log)
            if not step.problems and step.refused is None:
                rules.check(step)
            yield step
            if steps.gi_frame is None:
                return
            number += 1


class _Rules:
    """The comparison of each step with the rules."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._homes: dict[Place, int] = {}
        self._expected: NDArray[Any] | None = None

    def state(self) -> State:
        """Return the heads, and the sides with writable aliases."""
        loans = self._blob.memory.loans
        aliased = (place for side, place in _SIDES.items() if loans(side).may_be_written)
        return State(self._blob.head, self._blob.diff_head, tuple(aliased))

    def check(self, step: Step) -> None:
        """Locate the arrays, and record every difference from the rules."""
        # Record the addresses of the Blob's buffers if that causes no transfer.
        if step.after.data & CPU:
            self._homes.setdefault(Place.HOST, _address(self._blob.cpu_data()))
        if step.after.data & GPU:
            self._homes.setdefault(Place.ACCELERATOR, _address(self._blob.gpu_data()))
        places = {address: place for place, address in self._homes.items()}
        step.taken = tuple(
            Taken(name, address, int(array.nbytes), places.get(address, Place.OWN_COPY))
            for name, array in step.arrays.items()
            for address in (_address(array),)
        )
        nbytes = self._blob.nbytes
        for what, wanted, got in (
            ("transfers", step.moves, tuple(one.direction for one in step.transfers)),
            ("bytes", [nbytes] * len(step.transfers), [one.nbytes for one in step.transfers]),
            ("the head", step.head.name, step.after.data.name),
            ("buffers", str(len(self._homes)), str(len(places))),
            ("aliases on", (step.alias,) if step.alias else (), step.after.aliased),
            ("arrays on", {step.place} - {None}, {one.memory for one in step.taken}),
        ):
            if wanted != got:
                step.problems.append(f"{what}: expected {_listed(wanted)}, got {_listed(got)}")
        if self._expected is None:
            self._expected = self._blob.cpu_data().copy()
        self._expected = step.compute(self._expected)
        for name, array in step.arrays.items():
            if not np.array_equal(_values(array), self._expected, equal_nan=True):
                step.problems.append(f"{name} does not hold what NumPy computes")
        step.arrays = {}


def _listed(found: Any) -> str:
    return found if isinstance(found, str) else ", ".join(map(str, found)) or "none"


def _address(array: Any) -> int:
    """Return the address of the first byte of an array of NumPy, torch or CuPy."""
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    return int(array.data_ptr() if hasattr(array, "data_ptr") else array.data.ptr)


def _values(array: Any) -> NDArray[Any]:
    """Return the contents of an array of NumPy, torch or CuPy on the host."""
    if isinstance(array, np.ndarray):
        return array
    values: NDArray[Any] = array.cpu().numpy() if hasattr(array, "cpu") else array.get()
    return values
