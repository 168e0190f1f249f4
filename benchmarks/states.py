"""The cost of a call in every state of a Blob, as a multiple of the same call on one buffer.

The Blobs are 8x8, so that the cost is that of the call. A Blob with one buffer has never been used
on the other side; nearly every Blob of a program that uses two sides is in another state. The *own
side* is that of the Blob's device. A call is timed in the states that it keeps: where it moves
bytes, makes a buffer or changes the state, the calls after it are in another one, and `ordinary`
times such calls.

All states are timed in turn, in short samples. The fast ones of many samples count, because other
work on the machine only adds time.
"""

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
from benchmarks.calls import function, torch_of_one_thread
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

NOTES = (
    "empty: the call moves bytes, makes a buffer or changes the state, or a guard forbids it",
    "in bold: a missed goal",
)

INDICES = [0, 2, 4]

# The calls, of two 8x8 Blobs `a` and `b` and of indices `i`. OWN is the own side: cpu or gpu.
CALLS = """
    a + b; a @ b; a += b; a[2:4]; a[[0, 2, 4]]; a[1, 1] = 2; a[2:4] = 1; float(a[1, 1]); a.sum();
    np.sum(a); np.concatenate([a, b]); np.clip(a, 0, 1, out=b); np.zeros_like(a);
    xp.take(a, i, axis=0); a.OWN_data(); a.mutable_OWN_data(); np.asarray(a); np.from_dlpack(a);
    torch.add(a, a); torch.reshape(a, (4, 16))
    """


def calls(own: str, torch: Any) -> dict[str, Call]:
    """Return the calls, for Blobs whose own side has the name ``"cpu"`` or ``"gpu"``."""
    names = {"np": np, "xp": xp, "torch": torch}
    found = " ".join(CALLS.split()).replace("OWN", own).split("; ")
    texts = [text for text in found if torch or "torch" not in text]
    return {text: function(text, names, "a, b, i") for text in texts}


# --- states ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A state, and how to bring a Blob into it.

    `steps`: what brings a Blob into it, also when that is repeated: see `_do`.
    `source`: whether the Blob is bound by a source, like that of a model.
    `rows`: the number of rows of the Blob. If it has more than eight, the calls use a view of
        these.
    `view`: whether they use a view in any case.
    `new`: whether only new Blobs can be brought into the state.
    `during`: what is open during the calls, for Blobs of a device.
    `median`, `worst`: the goals for the calls that move no bytes, as multiples.
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
        expose(blob.memory, Side.HOST if side == "cpu" else Side.ACCELERATOR)
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

    def describe(self) -> object:
        """Return what a call may change about the state: buffers, holders, uploads, aliases."""
        memories = [blob.memory for blob in self._blobs]
        return [
            (
                [window.nbytes for side in Side for window in memory.windows(side)],
                [*memory.spans.runs(0, memory.nbytes)],
                # An upload that has arrived is there until the next access.
                memory.uploads,
                memory.aliased,
            )
            for memory in memories
        ]

    def kept_by(self, call: Call) -> bool:
        """Return whether a call leaves the state, and moves and allocates nothing."""
        call(*self.arguments)  # the first call makes plans and imports
        self.establish()
        before = self.describe()
        with self.during(), record_transfers() as log:
            call(*self.arguments)
        return not log and self.describe() == before

    def time(self, call: Call, repeats: int) -> float:
        """Return the seconds that a call takes, of several."""
        with self.during():
            # The log that was open for another state has taken shortcuts from all Blobs.
            for count in (2, repeats):
                start = perf_counter_ns()
                for _ in repeat(None, count):
                    call(*self.arguments)
                time = (perf_counter_ns() - start) / count * 1e-9
        return time


# --- rows -----------------------------------------------------------------------------------------


def measure(timer: Timer) -> Measured:
    """Time all calls in all states, on the host and on the simulated device."""
    notes = list(NOTES)
    errors = warnings.catch_warnings(action="error", category=StaleAliasWarning)
    with torch_of_one_thread() as torch, errors:
        if not torch:
            notes.append("torch is not installed: its functions are not timed")
        rows = [row for device in DEVICES for row in device_rows(timer, device, torch)]
    return Measured(rows, notes)


def device_rows(timer: Timer, device: str, torch: Any) -> list[Row]:
    """Time all calls in all states of Blobs of one device."""
    rows = []
    section = f"{device}: multiples of the same call on one buffer"
    for name, call in calls(DEVICES[device][0], torch).items():
        times = compared(timer, device, call)
        rival = times.pop("")
        rows += [
            Row(section, name, time, "one buffer", rival, cell=Cell(state))
            for state, time in times.items()
        ]
    return [*_summary(section, rows), *rows]


def compared(timer: Timer, device: str, call: Call) -> dict[str, float]:
    """Time a call in the states of Blobs of one device that it keeps, and the rival, as ``""``."""
    rival = Operands(RIVAL, device)
    if not rival.kept_by(call):
        # The host computes, as of every device without functions of its own.
        rival = Operands(RIVAL, "cpu")
    found = {"": rival}
    for state in STATES:
        # A guard forbids the device that computes, or an alias would become stale.
        with suppress(DeviceGuardError, StaleAliasWarning):
            operands = Operands(state, device)
            if operands.kept_by(call):
                found[state.name] = operands
    repeats = max(1, int(SAMPLE / rival.time(call, 10)))
    samples = [
        [operands.time(call, repeats) for operands in found.values()]
        for _ in range(1 if timer.brief else SAMPLES)
    ]
    fast = (sorted(times)[int(RANK * len(times))] for times in zip(*samples, strict=True))
    return dict(zip(found, fast, strict=True))


def _summary(section: str, rows: list[Row]) -> Iterator[Row]:
    """Yield the median and the worst multiple of each state."""
    for state in STATES:
        ratios = [row.of("ratio") for row in rows if row.cell.column == state.name]
        limits = (("median", statistics.median, state.median), ("worst", max, state.worst))
        for name, of, limit in limits if ratios else ():
            goal, cell = Goal(limit, "value"), Cell(state.name, "value")
            yield Row(section, name, of(ratios), unit="times", goal=goal, cell=cell)
