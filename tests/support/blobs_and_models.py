"""Blobs and the NumPy arrays that they must equal, for random programs."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import random
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, Head, StaleAliasWarning, simulated

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BLOBS = 7

BACKEND = simulated(0)

BINARY = ("add", "sub", "mul", "xor", "and_", "or_")
UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "positive": operator.pos,
    "invert": operator.invert,
    "absolute": operator.abs,
}
# Functions that make the same view of a Blob and of a NumPy array.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "[1:]": lambda x: x[1:],
    "[::-1]": lambda x: x[::-1],
    "[::2]": lambda x: x[::2],
    "[None]": lambda x: x[None],
    "[...]": lambda x: x[...],
    "[0]": lambda x: x[0, ...],
    "unstack": lambda x: _namespace(x).unstack(x)[-1] if x.ndim > 1 else x[...],
    "[-1:, ...]": lambda x: x[-1:, ...],
    "T": lambda x: x.T,
    "flip": lambda x: _namespace(x).flip(x) if x.ndim else x[...],
    "moveaxis": lambda x: _namespace(x).moveaxis(x, 0, -1),
    "expand_dims": lambda x: _namespace(x).expand_dims(x, -1),
    "matrix_transpose": lambda x: _namespace(x).matrix_transpose(x),
    "diagonal": lambda x: xp.linalg.diagonal(x) if isinstance(x, Blob) else _diagonal(x),
    "reshape": lambda x: x.reshape(-1) if x.ndim == 1 else x,
    "real": lambda x: xp.real(x) if isinstance(x, Blob) else x,
    "data": lambda x: x.data if isinstance(x, Blob) else x,
    "const": lambda x: x.const if isinstance(x, Blob) else x,
    "on the host": lambda x: x.on("cpu") if isinstance(x, Blob) else x,
    "on the device": lambda x: x.on("simulated") if isinstance(x, Blob) else x,
}


def _namespace(x: Any) -> Any:
    return xp if isinstance(x, Blob) else np


def _diagonal(x: np.ndarray) -> np.ndarray:
    """Return a writable diagonal, like those of Blobs."""
    result = np.linalg.diagonal(x)
    result.flags.writeable = True
    return result


@dataclass(eq=False)
class Tracked:
    """A Blob, and the NumPy array that it must equal, which is a view if the Blob is a view."""

    blob: Blob
    model: np.ndarray
    const: bool = False
    own: bool = True
    diff: np.ndarray | None = None


@dataclass(eq=False)
class Alias:
    """An alias that a consumer keeps, and the NumPy array that it must equal."""

    array: Any
    model: np.ndarray


class BlobsAndModels:
    """Some Blobs, their models, and the moves that write nothing."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.trace: list[str] = []
        self.blobs: list[Tracked] = []
        self.aliases: list[Alias] = []
        self.counter = 0

    # --- helpers ---------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.append(text)

    def fresh(self, shape: tuple[int, ...]) -> np.ndarray:
        """Make new values that no array had before."""
        count = int(np.prod(shape))
        self.counter += count
        values = np.arange(self.counter - count, self.counter, dtype=np.int32) % 9973
        return values.reshape(shape)

    def pick(self, *, writable: bool = False, own: bool = False) -> Tracked:
        """Choose a Blob; make one if none is suitable."""
        found = [
            tracked
            for tracked in self.blobs
            if not (writable and tracked.const) and (tracked.own or not own)
        ]
        return self.random.choice(found) if found else self.make("adopted")

    def track(self, blob: Blob, model: np.ndarray, **facts: Any) -> Tracked:
        assert type(blob) is Blob
        assert (blob.shape, blob.dtype) == (model.shape, model.dtype)
        tracked = Tracked(blob, model, **facts)
        self.blobs.append(tracked)
        if len(self.blobs) > MOST_BLOBS:
            self.drop()
        return tracked

    def name(self, tracked: Tracked) -> str:
        return f"blob {id(tracked.model) % 9973}{tracked.blob.shape}"

    def announced(self, move: Callable[[], None]) -> None:
        """Make a move. After a warning, the stale aliases are no longer checked."""
        aliased = bool(self.aliases)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            move()
        if caught:
            assert {warning.category for warning in caught} == {StaleAliasWarning}
            assert aliased
            self.note("  warned")
            self.aliases.clear()

    def in_a_thread(self, move: Callable[[], None]) -> None:
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                move()
            except BaseException as error:  # noqa: BLE001  # raised again below
                failures.append(error)

        def run() -> None:
            thread = threading.Thread(target=guarded)
            thread.start()
            thread.join()
            if failures:
                raise failures[0]

        self.note("in a thread:")
        self.announced(run)

    def check(self, tracked: Tracked, side: str) -> None:
        blob, model = tracked.blob, tracked.model
        seen = {
            "cpu": blob.cpu_data,
            "gpu": blob.gpu_data,
            "computed": lambda: np.asarray(blob + 0),
            "selected": lambda: np.asarray(blob[np.ones(blob.shape, bool)]).reshape(blob.shape),
            "asarray": lambda: np.asarray(blob),
            "item": lambda: [x.item() for x in blob.reshape(-1)],
            "text": lambda: str(blob),
            "list": lambda: np.array(blob.tolist(), np.int32).reshape(blob.shape),
            "copy": lambda: np.asarray(blob.copy()),
        }[side]()
        expected = {"item": model.reshape(-1), "text": str(model)}.get(side, model)
        assert np.array_equal(seen, expected), f"{side}: {seen}, expected {model.tolist()}"

    # --- making ----------------------------------------------------------------------------------

    def make(self, kind: str | None = None) -> Tracked:
        shape = self.random.choice([(3,), (4,), (2, 3), (1, 2), (6,), ()])
        device = self.random.choice(("cpu", "simulated"))
        kind = kind or self.random.choice(("adopted", "zeros", "blank", "computed", "transposed"))
        self.note(f"make {shape}, {kind}, on {device}")
        model = self.fresh(shape)
        if kind == "adopted":
            return self.track(xp.asarray(model.copy(), device=device), model)
        if kind == "computed":
            return self.track(xp.asarray(model.copy()).to_device(device) + 0, model)
        if kind == "transposed":
            made = xp.asarray(model.copy(), device=device).T + 0
            return self.track(made, model.T, own=model.ndim < 2)
        zeros = np.zeros(shape, np.int32)
        make = xp.zeros if kind == "zeros" else Blob
        return self.track(make(shape, dtype="int32", device=device), zeros)

    def binary(self) -> None:
        a, b = self.pick(), self.pick()
        kind = self.random.choice(BINARY)
        try:
            expected = getattr(operator, kind)(a.model, b.model)
        except ValueError:
            return
        if expected.size > 60:
            return
        self.note(f"{self.name(a)} {kind} {self.name(b)}")
        expected = np.asarray(expected)
        own = expected.flags.c_contiguous
        self.track(getattr(operator, kind)(a.blob, b.blob), expected, own=own)

    def scalar(self) -> None:
        a = self.pick()
        kind = self.random.choice((*BINARY, "floordiv"))
        self.note(f"{self.name(a)} {kind} 3")
        expected = np.asarray(getattr(operator, kind)(a.model, 3))
        own = expected.flags.c_contiguous
        self.track(getattr(operator, kind)(a.blob, 3), expected, own=own)

    def unary(self) -> None:
        a = self.pick()
        kind = self.random.choice(list(UNARY))
        self.note(f"{kind} {self.name(a)}")
        expected = np.asarray(UNARY[kind](a.model))
        self.track(UNARY[kind](a.blob), expected, own=expected.flags.c_contiguous)

    def view(self) -> None:
        a = self.pick()
        kind = self.random.choice(list(VIEWS))
        try:
            expected = VIEWS[kind](a.model)
        except (IndexError, ValueError):
            return
        self.note(f"{self.name(a)} {kind}")
        blob = VIEWS[kind](a.blob)
        assert blob.memory is a.blob.memory or not expected.size
        if blob is a.blob:
            return
        self.track(blob, expected, const=a.const or kind == "const", own=False)

    def duplicate(self) -> None:
        a = self.pick()
        kind = self.random.choice(("copy", "pickle", "deepcopy", "astype", "asarray"))
        self.note(f"{kind} {self.name(a)}")
        made = {
            "copy": a.blob.copy,
            "pickle": lambda: pickle.loads(pickle.dumps(a.blob)),
            "deepcopy": lambda: copy.deepcopy(a.blob),
            "astype": lambda: a.blob.astype("int32"),
            "asarray": lambda: xp.asarray(a.blob, copy=True),
        }[kind]()
        self.track(made, a.model.copy())

    def drop(self) -> None:
        if len(self.blobs) > 2:
            self.note("drop")
            self.blobs.pop(self.random.randrange(len(self.blobs)))
            if self.random.random() < 0.01:
                gc.collect()

    # --- reading and moving ----------------------------------------------------------------------

    def read(self) -> None:
        a = self.pick()
        side = self.random.choice(
            ("cpu", "gpu", "gpu", "computed", "selected", "asarray", "item", "text", "list", "copy")
        )
        self.note(f"read {self.name(a)}: {side}")
        self.check(a, side)

    def push(self) -> None:
        a = self.pick()
        BACKEND.delay = self.random.choice((0, 0, 0.001))
        if a.blob.head is Head.HEAD_AT_CPU and self.random.random() < 0.5:
            self.note(f"push {self.name(a)}")
            a.blob.async_gpu_push()
        else:
            self.note(f"prefetch {self.name(a)}")
            device = a.blob.device
            a.blob.prefetch()
            assert a.blob.device == device

    def to_device(self) -> None:
        a = self.pick()
        device = self.random.choice(("cpu", "simulated"))
        self.note(f"{self.name(a)} to {device}")
        made = a.blob.to_device(device)
        if made is not a.blob:
            self.track(made, a.model.copy())

    def fail(self) -> None:
        """Make the next transfer fail: contents and head must not change."""
        a = self.pick()
        if a.blob.head not in (Head.HEAD_AT_CPU, Head.HEAD_AT_GPU) or self.aliases:
            return
        side = "gpu" if a.blob.head is Head.HEAD_AT_CPU else "cpu"
        access = self.random.choice(("", "mutable_"))
        if not a.model.size or (a.const and access):
            return
        self.note(f"a transfer of {self.name(a)} to the {side} fails")
        head = a.blob.head
        BACKEND.synchronize()
        with BACKEND.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
            getattr(a.blob, f"{access}{side}_data")()
        assert a.blob.head is head
