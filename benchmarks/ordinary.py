"""The cost of ordinary calls on small Blobs, beside NumPy and PyTorch.

The calls are those of the documentation, the examples and users' programs. Those of the second list
were chosen without a look at how calls are implemented. The arrays are 8x8, so that the cost is
that of the call. All ways to make a call are timed in turn, and the fastest time of each counts,
because other work on the machine only adds time.

A call that moves bytes each time, such as one with an ndarray on a device, is compared with the
copies alone. NumPy's own time for the call is not subtracted.
"""

import re
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

import syncblob as xp
from benchmarks.calls import as_blob, copying, function, package_calls, torch_of_one_thread
from benchmarks.rows import Cell, Goal, Measured, Row, Unit
from benchmarks.timing import Timer
from syncblob import Blob, record_transfers
from syncblob.devices import CPU

DEVICES = {"host": "cpu", "simulated": "simulated:0"}

# The goals: the median of the ratios, the calls inside the package, the seconds above the copies,
# and the calls of np.add above a rival.
MEDIAN, INSIDE, ABOVE_COPIES = 3.0, 6, 10e-6
ADDS = {"NumPy": 10.0, "torch": 12.0}
# The goal of a call on large arrays, in NumPy's time.
LARGE = 1.5


def _calls(lines: str) -> dict[str, str]:
    """Return calls, each with the same call of tensors; "" if torch lacks it.

    That is behind the arrow. Without one it is the same text, with torch's functions.
    """
    found = {}
    for line in " ".join(lines.split()).split("; "):
        text, arrow, of_tensors = line.partition(" -> ")
        found[text] = of_tensors.strip("-") if arrow else re.sub(r"\b(np|xp)\.", "torch.", text)
    return found


# The names are those of `operands`.
CALLS = _calls(
    """
    x[...] = 1; x[:] = 1; x[...] = y; x[...] = n; x[...] = t; x[2:4] = 1; x[2] = v; x[2] = nv;
    x[:, 0] = 1; x[1, 1] = 2; x[m] = 0; x[nm] = 0; x[i] = y; x[ni] = 1; x.fill(0) -> x.fill_(0);
    x[2]; x[1, 1]; x[2:4]; x[:, 1]; x[::2, ::2]; x[..., None]; x[m]; x[nm]; x[i]; x[ni];
    x[[0, 2]]; x[i, i];
    x + y; x + 1; 1 - x; x + n; n + x; x + t; x * v; x / 2; x @ y; x ** 2; -x; abs(x); x == y;
    x > 0; x += o; x *= o; x += 1; x += n;
    x.copy() -> x.clone(); x.astype('float64') -> x.to(torch.float64); x.T; x.reshape(4, 16);
    x.flatten(); x.sum(); x.sum(axis=0); x.mean(); x.max(); x.argmax(); x.dot(y) -> x.matmul(y);
    x.tolist(); list(x); float(x[1, 1]); x[1, 1].item();
    np.add(x, y); np.add(x, y, out=z); np.add(x, n); np.add(x, y, out=z, where=m) -> -;
    np.add(x, y, dtype='float64') -> -; np.sqrt(x); np.maximum(x, 0) -> -; np.matmul(x, y, out=z);
    np.sum(x); np.sum(x, axis=1, keepdims=True) -> torch.sum(x, dim=1, keepdim=True);
    np.mean(x, axis=0) -> torch.mean(x, dim=0); np.std(x);
    np.argmax(x, axis=1) -> torch.argmax(x, dim=1); np.concatenate([x, y]);
    np.concatenate([x, n]); np.stack([x, y]); np.where(m, x, y); np.clip(x, 0, 1);
    np.clip(x, 0, 1, out=z); np.copy(x) -> torch.clone(x); np.copyto(z, x) -> z.copy_(x);
    np.sort(x); np.take(x, i, axis=0) -> torch.index_select(x, 0, i);
    np.dot(x, y) -> torch.matmul(x, y); np.linalg.norm(x); np.linalg.inv(d); np.fft.fft(x);
    np.allclose(x, y); np.zeros_like(x);
    xp.asarray(x); xp.asarray(n); xp.asarray(t); xp.zeros((8, 8)); xp.arange(8); xp.add(x, y);
    xp.sum(x); xp.take(x, i, axis=0) -> torch.index_select(x, 0, i);
    xp.take(x, ni, axis=0) -> torch.index_select(x, 0, ni); xp.concat([x, y]);
    xp.reshape(x, (4, 16)); xp.permute_dims(x, (1, 0)) -> torch.permute(x, (1, 0)); xp.sort(x);
    xp.clip(x, 0, 1); xp.where(m, x, y); xp.matmul(x, y); xp.linalg.solve(d, d); xp.fft.fft(x);
    np.asarray(x) -> np.asarray(x); np.from_dlpack(x) -> np.from_dlpack(x); xp.from_dlpack(n);
    xp.from_dlpack(t)
    """
)
TORCH_CALLS = _calls(
    """
    torch.add(x, y); torch.add(x, y, out=z); torch.add(x, t); torch.mul(x, 2.0); torch.relu(x);
    torch.sigmoid(x); torch.softmax(x, 1); torch.matmul(x, y); torch.sum(x); torch.mean(x, 0);
    torch.argmax(x, 1); torch.cat([x, y]); torch.stack([x, y]); torch.where(m, x, y);
    torch.reshape(x, (4, 16)); torch.flatten(x); torch.clone(x); F.linear(x, y, v);
    F.cross_entropy(x, i); torch.from_dlpack(x); torch.as_tensor(x)
    """
)
OTHER_CALLS = _calls(
    """
    x[0] = x[1]; x[1:-1, 1:-1]; x[1:-1, 1:-1] = 0; x[x > 0.5]; x[x > 0.5] = 0; x[2:4, i];
    x[:, None] * v; x[2] @ v; x % 2; x != y; m & m; np.float32(2) * x -> -; x.any(); x.ravel();
    x.clip(0, 1); x.cumsum(0); x.std(); x.round(); x.swapaxes(0, 1);
    x.view('int32') -> x.view(torch.int32); x.nbytes; np.minimum(x, y); np.exp(x, out=z);
    np.tanh(x); np.var(x, axis=1) -> torch.var(x, 1); np.median(x); np.isnan(x);
    np.isfinite(x).all(); np.diff(x); np.vstack([x, y]);
    np.repeat(x, 2, axis=0) -> torch.repeat_interleave(x, 2, 0);
    np.tile(x, 2) -> torch.tile(x, (1, 2)); np.flip(x) -> torch.flip(x, (0, 1));
    np.expand_dims(x, 0) -> torch.unsqueeze(x, 0); np.diag(x); np.triu(x); np.outer(v, v);
    np.bincount(i); np.argsort(v); np.add.reduce(x) -> -; np.linalg.svd(d); np.linalg.det(d);
    np.fft.rfft(x); np.array(x) -> -; np.ascontiguousarray(x) -> -; np.multiply(x, nv);
    xp.moveaxis(x, 0, 1); xp.tril(x); xp.max(x, axis=1) -> torch.amax(x, 1); np.unique(i);
    xp.linspace(0, 1, 8); xp.full((8, 8), 2.0); xp.ones_like(x); xp.broadcast_to(v, (8, 8))
    """
)
# On arrays of a million elements, and slices of them.
LARGE_CALLS = _calls(
    """
    x + y; x += o; x.sum(); np.sqrt(x); x[100:900] + 1; x[::2] * y[::2]; x[:, 100:900].sum();
    x[100:900] = y[100:900]; x[:, 100:900] = 0; x[10:20] + y[10:20]
    """
)
# Calls, and behind the arrow the Blobs that the other side writes before each, so that it copies.
AFTER_THE_OTHER_SIDE = _calls(
    """
    x + y -> y; x += o -> o; x[...] = y -> y; x[2:4] = 1 -> x; x.copy() -> x; x.sum() -> x;
    x[i] -> i; float(x[1, 1]) -> x; np.asarray(x) -> x; np.add(x, y, out=z) -> y;
    np.clip(x, 0, 1, out=z) -> xz; np.concatenate([x, y]) -> y; xp.take(x, i, axis=0) -> x;
    torch.add(x, y) -> y
    """
)
NOTES = (
    "numbers are the time in that of NumPy, or for PyTorch's functions in that of tensors",
    "*above* is the time above NumPy's or a tensor's, in calls of `np.add`",
    "*inside* is the number of calls of functions of the package",
    "nothing: the call copies each time, and is in the last table, or it has no Blob",
    "in bold: a missed goal",
)
_TORCH = re.compile(r"torch|\bF\.|\bt\b")


_BLOBS = frozenset("xyzodvmi")


def arrays() -> dict[str, np.ndarray]:
    """Return the operands as ndarrays, the same in each run.

    `x`, `y` and `z` are matrices, `o` one of ones, `d` one of float64, `v` a row, `m` a mask, `i`
    indices.
    """
    random = np.random.default_rng(0)
    x, y, z = random.random((3, 8, 8), np.float32)
    return {
        "x": x,
        "y": y,
        "z": z,
        "o": np.ones((8, 8), np.float32),
        "d": random.random((8, 8)) + np.eye(8),
        "v": random.random(8, np.float32),
        "m": random.random((8, 8)) > 0.5,  # noqa: PLR2004  # half of them
        "i": random.permutation(8),
    }


def operands(
    convert: Callable[[np.ndarray], Any],
    torch: Any,
    *,
    foreign: Callable[[np.ndarray], Any] = np.asarray,
    namespace: Any = np,
) -> dict[str, Any]:
    """Return the names that calls use, with arrays that a function makes.

    `n`, `nv`, `nm` and `ni` are ndarrays, or what `foreign` makes of them; for Blobs, `t` is a
    tensor.
    """
    found = arrays()
    names: dict[str, Any] = {"np": np, "xp": namespace}
    names |= {name: convert(array) for name, array in found.items()}
    others = {"n": "y", "nv": "v", "nm": "m", "ni": "i", "t": "y"}
    names |= {name: foreign(found[of].copy()) for name, of in others.items()}
    if torch:
        names |= {"torch": torch, "F": torch.nn.functional}
    if namespace is xp and torch:
        names["t"] = torch.tensor(found["y"])
    return names


def measure(timer: Timer) -> Measured:
    """Time all calls, on the host and on the simulated device."""
    notes = list(NOTES)
    with torch_of_one_thread() as torch, warnings.catch_warnings(action="ignore"):
        if not torch:
            notes.append("torch is not installed: its calls are not timed")
        tables = Tables(timer, torch)
        rows = tables.beside("NumPy", "ordinary calls", CALLS)
        rows += tables.beside("torch", "PyTorch's functions", TORCH_CALLS)
        rows += tables.beside("NumPy", "calls chosen without a look at the code", OTHER_CALLS)
        rows += tables.large()
        tables.after_the_other_side()
    return Measured([*rows, *tables.copies], notes)


class Tables:
    """The tables of one run. `copies` collects the rows of calls that move bytes."""

    def __init__(self, timer: Timer, torch: Any) -> None:
        self._timer, self._torch = timer, torch
        self.copies: list[Row] = []

    def beside(self, rival: str, section: str, texts: dict[str, str]) -> list[Row]:
        """Time calls beside NumPy's or torch's, and return the rows of those that move no bytes."""
        if not self._torch:
            texts = {text: "" for text in texts if not _TORCH.search(text)}
        rows = [row for text in texts for row in self._timed(rival, section, text, texts[text])]
        return [*_summary(rows), *rows]

    def _timed(self, rival: str, section: str, text: str, in_torch: str) -> Iterator[Row]:
        """Time a call, in the columns of a table."""
        ours = {name: function(text, self._names(device)) for name, device in DEVICES.items()}
        if not _BLOBS.intersection(ours["host"].__code__.co_names):
            # It makes a Blob, on the default device.
            del ours["simulated"]
        moved = {name: copies for name, call in ours.items() if (copies := transfers(call))}
        calls = {**ours, "add": function("np.add(x, y)", operands(np.copy, None))}
        calls |= {f"{name}: copies": copying(copies) for name, copies in moved.items()}
        if rival == "NumPy":
            calls["NumPy"] = function(text, operands(np.copy, self._torch))
        if in_torch:
            tensors = operands(self._torch.tensor, self._torch, foreign=self._torch.tensor)
            calls["torch"] = function(in_torch, tensors)
        times = self._timer.medians(calls, rounds=30, seconds=0.001, of=min)
        for name in moved:
            self._copied(text, name, times[name], times[f"{name}: copies"])
        line, steady = partial(Row, section, text), [name for name in ours if name not in moved]
        for name in [*steady, "torch"]:
            if name in times and name != rival:
                yield line(times[name], rival, times[rival], cell=Cell(name))
        for name in steady:
            above = (times[name] - times[rival]) / times["add"]
            goal, cell = Goal(ADDS[rival], "value"), Cell(f"{name}: above", "value")
            yield line(above, unit="adds", goal=goal, cell=cell)
        for name in steady:
            goal, cell = Goal(INSIDE, "value"), Cell(f"{name}: inside", "value")
            yield line(package_calls(ours[name]), unit="calls", goal=goal, cell=cell)

    def large(self) -> list[Row]:
        """Time calls on large arrays and slices of them, beside NumPy."""
        arrays = {name: np.ones((1000, 1000), np.float32) for name in "xyo"}
        rows = []
        for text in LARGE_CALLS:
            calls = {"NumPy": function(text, {"np": np, **arrays})}
            for name, device in DEVICES.items():
                blobs = {one: as_blob(array, device) for one, array in arrays.items()}
                calls[name] = function(text, {"np": np, **blobs})
            times = self._timer.medians(calls, rounds=30, seconds=0.001, of=min)
            line = partial(Row, "calls on large arrays", text, rival="NumPy", goal=Goal(LARGE))
            rival = times["NumPy"]
            rows += [line(times[name], rival_value=rival, cell=Cell(name)) for name in DEVICES]
        return rows

    def _names(self, device: str) -> dict[str, Any]:
        return operands(lambda array: as_blob(array, device), self._torch, namespace=xp)

    def after_the_other_side(self) -> None:
        """Time calls with an operand that has to be copied, because the other side wrote it."""
        for text, written in AFTER_THE_OTHER_SIDE.items():
            if _TORCH.search(text) and not self._torch:
                continue
            for name, device in DEVICES.items():
                names = self._names(device)
                call = function(text, names)
                blobs = [names[one] for one in written]
                copies = copying(transfers(call, blobs))
                times, least = [], []
                for _ in range(1 if self._timer.brief else 300):
                    _write_on_the_other_side(blobs)
                    times.append(_time(call))
                    least.append(_time(copies))
                self._copied(f"{text} after a write of {written}", name, min(times), min(least))

    def _copied(self, text: str, name: str, ours: float, least: float) -> None:
        line = partial(
            Row, "calls that copy an operand, in microseconds above the copies", text, ours
        )
        goal, cell = Goal(ABOVE_COPIES, "difference"), Cell(name, "difference")
        self.copies += [line("the copies", least, goal=goal, cell=cell)]


def transfers(call: Callable[[], object], written: Iterable[Blob] = ()) -> list[tuple[str, int]]:
    """Return the direction and the bytes of each copy that a call makes each time.

    Before the call, Blobs are written on their other side.
    """
    for _ in range(3):
        call()
    _write_on_the_other_side(written)
    with record_transfers() as log:
        call()
    return [(transfer.direction, transfer.nbytes) for transfer in log]


def _write_on_the_other_side(blobs: Iterable[Blob]) -> None:
    for blob in blobs:
        if blob.device == CPU:
            blob.mutable_gpu_data()
        else:
            blob.mutable_cpu_data()


def _time(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _summary(rows: list[Row]) -> Iterator[Row]:
    """Yield the median and the worst of each column, and how many rows miss its goal."""
    columns: dict[str, list[Row]] = {}
    for row in rows:
        if row.cell:
            columns.setdefault(row.cell.column, []).append(row)
    for column, found in columns.items():
        first = found[0]
        values = [row.of("ratio") or row.value for row in found]
        unit: Unit = "times" if first.unit == "s" else first.unit
        line = partial(Row, first.section, cell=Cell(column, "value"))
        limit = Goal(MEDIAN, "value") if column in DEVICES else None
        yield line("the median", statistics.median(values), unit=unit, goal=limit)
        yield line("the worst", max(values), unit=unit, goal=first.goal)
        if first.goal:
            yield line("above the goal", sum(not row.met for row in found), unit="calls")
