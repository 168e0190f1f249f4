"""The cost of functions of NumPy, PyTorch and the array API with Blobs and with native arrays.

The arrays are small, so that the cost is that of the call. The extra cost of a NumPy function with
Blobs is given in calls of ``np.add(a, a)``, measured in the same run.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
import warnings
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import syncblob
from benchmarks import torch_functions
from benchmarks.calls import as_blob, medians, rows_in_adds
from benchmarks.own_process import in_own_process
from benchmarks.rows import Goal, Measured, Row
from syncblob import Blob, StaleAliasWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.timing import Timer

__all__ = ["NAMESPACE", "NUMPY", "living_aliases", "many_blobs", "measure", "sizes"]

SHAPE, SMALL = (8, 8), (2, 3)
# The extra cost above the call with ndarrays, in calls of np.add(a, a).
MEDIAN, WORST = Goal(3.5, "value"), Goal(8.0, "value")

MILLION, ALIASES = 1_000_000, 100_000
BRIEF = 1_000

# Functions of an 8x8 array of numbers, of eight indices and of an 8x8 mask.
NUMPY: dict[str, Callable[[Any, Any, Any], object]] = {
    "np.all(a)": lambda a, _, __: np.all(a),
    "np.allclose(a, a)": lambda a, _, __: np.allclose(a, a),
    "np.any(a)": lambda a, _, __: np.any(a),
    "np.argmax(a, axis=1)": lambda a, _, __: np.argmax(a, axis=1),
    "np.argsort(a)": lambda a, _, __: np.argsort(a),
    "np.broadcast_to(a, (4, 8, 8))": lambda a, _, __: np.broadcast_to(a, (4, 8, 8)),
    "np.clip(a, 0, 0.5)": lambda a, _, __: np.clip(a, 0, 0.5),
    "np.concatenate((a, a))": lambda a, _, __: np.concatenate((a, a)),
    "np.count_nonzero(a)": lambda a, _, __: np.count_nonzero(a),
    "np.cumsum(a, axis=0)": lambda a, _, __: np.cumsum(a, axis=0),
    "np.diag(a)": lambda a, _, __: np.diag(a),
    "np.dot(a, a)": lambda a, _, __: np.dot(a, a),
    'np.einsum("ij,jk->ik", a, a)': lambda a, _, __: np.einsum("ij,jk->ik", a, a),
    "np.expand_dims(a, 0)": lambda a, _, __: np.expand_dims(a, 0),
    "np.fft.fft(a)": lambda a, _, __: np.fft.fft(a),
    "np.flip(a, axis=0)": lambda a, _, __: np.flip(a, axis=0),
    "np.isclose(a, a)": lambda a, _, __: np.isclose(a, a),
    "np.linalg.norm(a)": lambda a, _, __: np.linalg.norm(a),
    "np.matmul(a, a)": lambda a, _, __: np.matmul(a, a),
    "np.max(a)": lambda a, _, __: np.max(a),
    "np.mean(a, axis=0)": lambda a, _, __: np.mean(a, axis=0),
    "np.pad(a, 1)": lambda a, _, __: np.pad(a, 1),
    "np.repeat(a, 2, axis=0)": lambda a, _, __: np.repeat(a, 2, axis=0),
    "np.reshape(a, (4, 16))": lambda a, _, __: np.reshape(a, (4, 16)),
    "np.roll(a, 1)": lambda a, _, __: np.roll(a, 1),
    "np.round(a, 2)": lambda a, _, __: np.round(a, 2),
    "np.sort(a)": lambda a, _, __: np.sort(a),
    "np.split(a, 2)": lambda a, _, __: np.split(a, 2),
    "np.squeeze(a)": lambda a, _, __: np.squeeze(a),
    "np.stack([a, a])": lambda a, _, __: np.stack([a, a]),
    "np.sum(a)": lambda a, _, __: np.sum(a),
    "np.take(a, i, axis=0)": lambda a, i, _: np.take(a, i, axis=0),
    "np.tensordot(a, a, 1)": lambda a, _, __: np.tensordot(a, a, 1),
    "np.tile(a, 2)": lambda a, _, __: np.tile(a, 2),
    "np.transpose(a)": lambda a, _, __: np.transpose(a),
    "np.unique(a)": lambda a, _, __: np.unique(a),
    "np.vstack([a, a])": lambda a, _, __: np.vstack([a, a]),
    "np.where(m, a, a)": lambda a, _, m: np.where(m, a, a),
    "np.zeros_like(a)": lambda a, _, __: np.zeros_like(a),
}
# Functions of the same, and of the namespace.
NAMESPACE: dict[str, Callable[[Any, Any, Any, Any], object]] = {
    "xp.astype(a, xp.float64)": lambda xp, a, _, __: xp.astype(a, xp.float64),
    "xp.concat([a, a])": lambda xp, a, _, __: xp.concat([a, a]),
    "xp.take(a, i, axis=0)": lambda xp, a, i, _: xp.take(a, i, axis=0),
    "xp.where(m, a, a)": lambda xp, a, _, m: xp.where(m, a, a),
}


def measure(timer: Timer) -> Measured:
    """Time functions, methods, constructors and a write over many aliases; measure memory."""
    notes: list[str] = []
    rows = [*numpy_rows(timer), *namespace_rows(timer), *torch_rows(timer, notes)]
    rows += [*size_rows(), *many_rows(brief=timer.brief), alias_row(brief=timer.brief)]
    of_torch = torch_functions.measure(timer)
    return Measured([*rows, *of_torch.rows], [*notes, *of_torch.notes])


# --- calls ----------------------------------------------------------------------------------------


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return numbers, indices and a mask, the same in each run."""
    random = np.random.default_rng(0)
    numbers = random.random(SHAPE, np.float32)
    return numbers, random.permutation(SHAPE[0]), numbers > np.float32(0.5)


def numpy_rows(timer: Timer) -> Iterator[Row]:
    """Time NumPy's functions with Blobs and with ndarrays."""
    arrays = operands()
    blobs = [as_blob(array) for array in arrays]
    pairs = ((name, partial(call, *blobs), partial(call, *arrays)) for name, call in NUMPY.items())
    return rows_in_adds(timer, "NumPy", "ndarrays", pairs, [MEDIAN, WORST])


def namespace_rows(timer: Timer) -> Iterator[Row]:
    """Time functions of the array API, and a method, against NumPy's."""
    arrays = operands()
    blobs = [as_blob(array) for array in arrays]
    for name, call in NAMESPACE.items():
        times = medians(
            timer,
            {
                "ours": lambda call=call: call(syncblob, *blobs),
                "rival": lambda call=call: call(np, *arrays),
            },
        )
        section = "the array API, beside NumPy's"
        yield Row(section, name, times["ours"], "numpy", times["rival"], goal=Goal(4.0))
    times = medians(timer, {"ours": blobs[0].sum, "rival": arrays[0].sum})
    yield Row(
        "methods", "blob.sum()", times["ours"], "ndarray.sum()", times["rival"], goal=Goal(3.0)
    )


def torch_rows(timer: Timer, notes: list[str]) -> Iterator[Row]:
    """Time the making of Blobs against that of torch's and NumPy's arrays."""
    try:
        import torch  # a rival that may be missing
    except ImportError:
        notes.append("torch is not installed: making Blobs is not compared")
        return
    tensor = torch.ones(SHAPE)
    pairs: dict[tuple[str, str], tuple[Callable[[], object], Callable[[], object], float]] = {
        ("xp.asarray(tensor)", "np.asarray(tensor)"): (
            lambda: syncblob.asarray(tensor),
            lambda: np.asarray(tensor),
            4.0,
        ),
        ("Blob(shape)", "torch.zeros(shape)"): (
            lambda: Blob(SHAPE),
            lambda: torch.zeros(SHAPE),
            2.5,
        ),
    }
    for (ours, rival), (call, rival_call, limit) in pairs.items():
        times = medians(timer, {"ours": call, "rival": rival_call})
        yield Row("made", ours, times["ours"], rival, times["rival"], goal=Goal(limit))


# --- many Blobs -----------------------------------------------------------------------------------


def size_rows() -> Iterator[Row]:
    """Measure the memory of small Blobs."""
    untouched, written = sizes()
    section = f"memory of a Blob of {'x'.join(map(str, SMALL))} float32"
    yield Row(section, "untouched", untouched, unit="bytes", goal=Goal(700, "value"))
    yield Row(section, "written", written, unit="bytes", goal=Goal(1_300, "value"))


def sizes(count: int = BRIEF) -> tuple[float, float]:
    """Return the bytes that Python and NumPy allocate for one Blob, before and after a write."""
    # The first Blob makes objects that all share.
    _written(1)
    return _traced(lambda: [Blob(SMALL) for _ in range(count)]) / count, _traced(
        lambda: _written(count)
    ) / count


def _written(count: int) -> list[Blob]:
    blobs = [Blob(SMALL) for _ in range(count)]
    for blob in blobs:
        blob[...] = 1
    return blobs


def _traced(make: Callable[[], object]) -> int:
    """Return the bytes allocated for the result of a function."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del kept
    return allocated


def many_rows(*, brief: bool) -> Iterator[Row]:
    """Time a million Blobs, in a separate process."""
    count = BRIEF if brief else MILLION
    made, freed = in_own_process(many_blobs, count)
    section = f"{count:,} Blobs"
    yield Row(section, "made", made, goal=Goal(8.0, "value"))
    yield Row(section, "freed", freed, goal=Goal(1.0, "value"))


def many_blobs(count: int) -> tuple[float, float]:
    """Return the seconds for making Blobs and for freeing them."""
    start = time.perf_counter()
    blobs = [Blob(SMALL) for _ in range(count)]
    made = time.perf_counter()
    del blobs
    return made - start, time.perf_counter() - made


def alias_row(*, brief: bool) -> Row:
    """Time a write that warns of many aliases, in a separate process."""
    count = BRIEF if brief else ALIASES
    seconds = in_own_process(living_aliases, count)
    return Row(
        f"a write on the device, {count:,} living aliases on the host",
        "until it has warned",
        seconds,
        goal=Goal(0.05, "value"),
    )


def living_aliases(count: int) -> float:
    """Return the seconds until a write has warned of aliases on the other side."""
    blob = Blob(SHAPE, device="simulated")
    blob.mutable_cpu_data()[...] = 1
    aliases = [np.asarray(blob.cpu) for _ in range(count)]
    with warnings.catch_warnings():
        # As an error, so that the write ends with the warning.
        warnings.simplefilter("error", StaleAliasWarning)
        start = time.perf_counter()
        with suppress(StaleAliasWarning):
            blob.mutable_gpu_data()
        seconds = time.perf_counter() - start
    del aliases
    return seconds
