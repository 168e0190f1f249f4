"""The cost of a call in every state of a Blob, as a multiple of the same call on one buffer.

The Blobs are 8x8, so that the cost is that of the call. A Blob with one buffer has never been used
on the other side; nearly every Blob of a program that uses two sides is in another state. The *own
side* is that of the Blob's device.

All states of a call are timed in turn, each with its rival, in short samples. The fast ones of many
samples count, because other work on the machine only adds time. A call that changes the state is
timed once in each sample, and the state is re-established before it. A call that has to move bytes,
or to make a buffer, is compared with what the device takes for that.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import numpy as np

import syncblob as xp
from benchmarks.calls import copying, function, one_thread
from benchmarks.rows import Cell, Goal, Measured, Row
from benchmarks.timing import Timer
from syncblob import (
    Blob,
    DeviceGuardError,
    StaleAliasWarning,
    compute_only_on,
    max_transfers,
    record_transfers,
)
from syncblob.devices import Side, accelerator
from syncblob.memory.accesses import expose

# A function of two 8x8 Blobs and a Blob of indices.
Call = Callable[[Any, Any, Any], object]

ROWS, COLUMNS = 8, 8
# The rows of a memory whose parts are in different states: a small one is copied as a whole.
MANY = 1024
# The rows of a memory that is large enough for windows: buffers of parts on an accelerator.
VAST = 1 << 16
SIMULATED = "simulated:0"
# The devices of the Blobs, and the names of their own and their other sides.
DEVICES = {"cpu": ("cpu", "gpu"), SIMULATED: ("gpu", "cpu")}
# The samples of a call in one state, and the duration of one, in seconds.
SAMPLES, SAMPLE = 100, 60e-6
# The result is the sample with this rank, from 0 to 1: some are too fast by chance, most too slow.
RANK = 0.1

MEDIAN, WORST = 1.3, 2.5
# The same while a log is open: it counts what the calls avoid.
LOGGED_MEDIAN, LOGGED_WORST = 2.0, 5.0
# Above the copies, for numbers and for PyTorch's functions.
ABOVE_COPIES = 12e-6
ABOVE = "above the copies and allocations, where bytes have to move or a buffer has to be made"

NOTES = (
    "a star: the call changes the state, which is re-established before each call",
    "in bold, or with an exclamation mark: a missed goal",
)

INDICES = [0, 2, 4]

# The calls, of two 8x8 Blobs `a` and `b` and of indices `i`. OWN is the own side: cpu or gpu.
CALLS = (
    "a + b",
    "a @ b",
    "a += b",
    "a[2:4]",
    "a[[0, 2, 4]]",
    "a[1, 1] = 2",
    "a[2:4] = 1",
    "float(a[1, 1])",
    "a.sum()",
    "np.sum(a)",
    "np.concatenate([a, b])",
    "np.clip(a, 0, 1, out=b)",
    "np.zeros_like(a)",
    "xp.take(a, i, axis=0)",
    "a.OWN_data()",
    "a.mutable_OWN_data()",
    "np.asarray(a)",
    "np.from_dlpack(a)",
    "torch.add(a, a)",
    "torch.reshape(a, (4, 16))",
)


def calls(own: str, torch: Any) -> dict[str, Call]:
    """Return the calls, for Blobs whose own side has the name ``"cpu"`` or ``"gpu"``."""
    names = {"np": np, "xp": xp, "torch": torch}
    texts = [text.replace("OWN", own) for text in CALLS if torch or "torch" not in text]
    return {text: function(text, names, "a, b, i") for text in texts}


# --- states ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A state, and how to bring a Blob into it.

    Attributes
    ----------
    name
        Its name.
    steps
        What brings a Blob into it, also when that is repeated: see `_do`.
    source
        Whether the Blob is bound by a source, like that of a model.
    rows
        The number of rows of the Blob. If it has more than eight, the calls use a view of these.
    view
        Whether they use a view in any case.
    new
        Whether only new Blobs can be brought into the state.
    during
        What is open during the calls, for Blobs of a device.
    median, worst
        The goals for the calls that move no bytes, as multiples.
    """

    name: str
    steps: str
    source: bool = False
    rows: int = ROWS
    view: bool = False
    new: bool = False
    during: Callable[[str], AbstractContextManager[object]] = lambda _device: nullcontext()
    median: float = MEDIAN
    worst: float = WORST


SYNCED, OWN, OTHER = "write own, read other", "read other, write own", "read own, write other"
RIVAL = State("one buffer", "write own")
STATES = (
    replace(RIVAL, new=True),
    State("SYNCED", SYNCED),
    State("own side newest", OWN),
    State("other side newest", OTHER),
    State("view of one buffer", "write own", view=True, new=True),
    State("view of SYNCED", SYNCED, view=True),
    State("view of own side newest", OWN, view=True),
    State("view of other side newest", OTHER, view=True),
    State("split, rows on own side", f"{OWN}, write other rest", rows=MANY),
    State("alias", f"{OWN}, alias own"),
    State("alias of other rows", f"{OWN}, alias own rest", rows=MANY),
    State("other side: alias of other rows", f"{OWN}, alias other rest", rows=MANY),
    State("borrow kept", "read other, borrow own"),
    State("exposed", f"{OWN}, expose own"),
    State(
        "log open",
        OWN,
        during=lambda _device: record_transfers(),
        median=LOGGED_MEDIAN,
        worst=LOGGED_WORST,
    ),
    State("max_transfers", OWN, during=lambda _device: max_transfers(bytes=1 << 60)),
    State("compute_only_on", OWN, during=compute_only_on),
    State("after a push", "write cpu, push cpu"),
    State("after an eviction", f"{SYNCED}, evict gpu"),
    State("window", "read other first, write own first", rows=VAST),
    State("of a source", OWN, source=True),
    State("of a source, in part", "read other first, write own first", source=True, rows=MANY),
)


def _do(step: str, blob: Any, sides: dict[str, str]) -> object:
    """Do a step to a Blob, or to its first or its other rows; return what must be kept alive."""
    verb, side, *part = step.split()
    if part:
        blob = blob[:ROWS] if part == ["first"] else blob[ROWS:]
    side = sides.get(side, side)
    if verb == "read":
        getattr(blob, f"{side}_data")()
    elif verb in {"write", "borrow"}:
        array = getattr(blob, f"mutable_{side}_data")()
        return array if verb == "borrow" else None
    elif verb == "alias":
        return np.from_dlpack(getattr(blob, side))
    elif verb == "evict":
        blob.evict(side)
    elif verb == "expose":
        expose(blob.memory.ledger, Side.HOST if side == "cpu" else Side.ACCELERATOR)
    else:
        blob.async_gpu_push()
        blob.memory.accelerator.synchronize()
    return None


class _Weights:
    """A source that can be read in part, as that of a model's Blob."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def __call__(self) -> np.ndarray:
        return np.zeros(self.nbytes, np.uint8)

    def read_into(self, buffer: np.ndarray, _offset: int) -> None:
        buffer[:] = 0


class Operands:
    """Two Blobs in a state, and a Blob of indices."""

    def __init__(self, state: State, device: str) -> None:
        self._state, self._device = state, device
        self.during = partial(state.during, device)
        self._make()
        self.establish()

    def _make(self) -> None:
        shape = self._state.rows, COLUMNS
        if self._state.source:
            source = _Weights(4 * self._state.rows * COLUMNS)
            make = partial(Blob.from_source, shape, "float32", source)
        else:
            make = partial(Blob, shape)
        self._blobs = [make(device=self._device) for _ in range(2)]
        for blob in self._blobs:
            blob.memory.side_of(accelerator(SIMULATED))
        view = self._state.view or self._state.rows > ROWS
        a, b = (blob[:ROWS] if view else blob for blob in self._blobs)
        indices = Blob(len(INDICES), "int64", device=self._device)
        indices[...] = INDICES
        self.arguments = a, b, indices
        self._kept: list[object] = []

    def establish(self) -> None:
        """Bring the Blobs into the state."""
        if self._state.new:
            self._make()
        # The aliases of the last time must not become stale.
        self._kept.clear()
        sides = dict(zip(("own", "other"), DEVICES[self._device], strict=True))
        for blob in self._blobs:
            self._kept += [_do(step, blob, sides) for step in self._state.steps.split(", ")]

    def buffers(self) -> list[int]:
        """Return the bytes allocated on each side of each Blob."""
        sides = [blob.memory.windows(side) for blob in self._blobs for side in Side]
        return [sum(window.nbytes for window in windows) for windows in sides]

    def allocations(self, before: list[int]) -> Iterator[tuple[str, int]]:
        """Yield the backend's function and the bytes of each buffer that was made since."""
        functions = ("allocate_host", "allocate") * len(self._blobs)
        for name, old, new in zip(functions, before, self.buffers(), strict=True):
            if new > old:
                yield name, new - old

    def describe(self) -> object:
        """Return what a call may change about the state."""
        return self.buffers(), [
            (
                [*memory.spans.runs(0, memory.nbytes)],
                # An upload that has arrived is there until the next access.
                memory.ledger.uploads,
                memory.aliased,
            )
            for memory in (blob.memory for blob in self._blobs)
        ]


# --- times ----------------------------------------------------------------------------------------


class Comparison:
    """A call in a state, and its rival: the same call on one buffer, or what it moves and makes.

    Attributes
    ----------
    needs
        The name and the number of bytes of each copy and allocation that the call has to make.
    changes
        Whether the call changes the state.
    times, rival_times
        The samples, in seconds.
    """

    def __init__(self, call: Call, operands: Operands, rival: Operands | None = None) -> None:
        self._call, self._operands, self._rival = call, operands, rival
        call(*operands.arguments)  # the first call makes plans and imports
        operands.establish()
        before, buffers = operands.describe(), operands.buffers()
        with operands.during(), record_transfers() as log:
            call(*operands.arguments)
        self.needs = [*operands.allocations(buffers)]
        self.needs += [(transfer.direction, transfer.nbytes) for transfer in log]
        self.changes = operands.describe() != before
        self.times: list[float] = []
        self.rival_times: list[float] = []
        self._repeats = 1
        if not self.changes:
            self._repeats = 10
            self._repeats = max(1, int(SAMPLE / self._ours()))
        self._copying = copying(self.needs)

    def sample(self) -> None:
        """Time the call, and its rival."""
        self.times.append(self._ours())
        self.rival_times.append(self._rivals())

    def _ours(self) -> float:
        with self._operands.during():
            if self.changes:
                self._operands.establish()
            else:
                # The log that was open for another state has taken shortcuts from all Blobs.
                _time(self._call, self._operands.arguments, 2)
            return _time(self._call, self._operands.arguments, self._repeats)

    def _rivals(self) -> float:
        if self.needs or self._rival is None:
            return _time(self._copying, (), 20)
        if self.changes:
            # The same work before both calls: it takes their code out of the processor's caches.
            self._operands.establish()
            self._rival.establish()
        else:
            _time(self._call, self._rival.arguments, 2)
        return _time(self._call, self._rival.arguments, self._repeats)


def _time(call: Callable[..., object], arguments: tuple[object, ...], repeats: int) -> float:
    start = perf_counter_ns()
    for _ in repeat(None, repeats):
        call(*arguments)
    return (perf_counter_ns() - start) / repeats * 1e-9


def _fast(times: list[float]) -> float:
    return sorted(times)[int(RANK * len(times))]


# --- rows -----------------------------------------------------------------------------------------


def measure(timer: Timer) -> Measured:
    """Time all calls in all states, on the host and on the simulated device."""
    notes = list(NOTES)
    try:
        import torch  # a library that may be missing
    except ImportError:
        torch = None
        notes.append("torch is not installed: its functions are not timed")
    with one_thread(torch), warnings.catch_warnings(action="error", category=StaleAliasWarning):
        rows = [row for device in DEVICES for row in device_rows(timer, device, torch)]
    return Measured(rows, notes)


def device_rows(timer: Timer, device: str, torch: Any) -> list[Row]:
    """Time all calls in all states of Blobs of one device."""
    multiples: list[Row] = []
    above: list[Row] = []
    for name, call in calls(DEVICES[device][0], torch).items():
        limit = Goal(ABOVE_COPIES, "difference") if name.startswith(("float", "torch")) else None
        for state, found in compared(timer, device, call).items():
            times, mark = (_fast(found.times), _fast(found.rival_times)), "*" * found.changes
            if found.needs:
                section = f"{device}: {ABOVE}, in microseconds"
                cell = Cell(state, "difference", mark)
                above.append(Row(section, name, times[0], "the copies", times[1], "s", limit, cell))
            else:
                section = f"{device}: multiples of the same call on one buffer"
                cell = Cell(state, "ratio", mark)
                multiples.append(Row(section, name, times[0], "one buffer", times[1], cell=cell))
    return [*_summary(multiples), *multiples, *above]


def compared(timer: Timer, device: str, call: Call) -> dict[str, Comparison]:
    """Time a call in all states of Blobs of one device that permit it."""
    rival = Operands(RIVAL, device)
    if Comparison(call, rival).needs:
        # The host computes, as of every device without functions of its own.
        rival = Operands(RIVAL, "cpu")
    found = {}
    for state in STATES:
        # A guard forbids the device that computes, or an alias would become stale.
        with suppress(DeviceGuardError, StaleAliasWarning):
            found[state.name] = Comparison(call, Operands(state, device), rival)
    for _ in range(1 if timer.brief else SAMPLES):
        for comparison in found.values():
            comparison.sample()
    return found


def _summary(rows: list[Row]) -> Iterator[Row]:
    """Yield the median and the worst multiple of each state, also of the calls that keep it."""
    section = rows[0].section
    for state in STATES:
        found = [row for row in rows if row.cell.column == state.name]
        ratios = [row.of("ratio") for row in found]
        for name, value, limit in (
            ("median", statistics.median(ratios), state.median),
            ("worst", max(ratios), state.worst),
            (
                "worst without a star",
                max(row.of("ratio") for row in found if not row.cell.mark),
                state.worst,
            ),
        ):
            cell = Cell(state.name, "value")
            yield Row(section, name, value, unit="times", goal=Goal(limit, "value"), cell=cell)
