"""Random programs of computations, views, accessors and aliases, beside a model made of NumPy arrays.

What speeds computing up, the array that a Blob keeps beside its memory, must never be seen: no read
returns an old value, and no write is lost without a StaleAliasWarning. A program is made from a
number, which a failure names. ``SYNCBLOB_PROGRAMS`` sets how many run; without it, 12,000 where
``CI`` is set, else 2,000.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import operator
import os
import pickle
import random
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, Head, StaleAliasWarning, record_transfers, set_default_device, simulated

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import torch
except ImportError:
    torch = None

PROGRAMS = int(os.environ.get("SYNCBLOB_PROGRAMS", "12000" if "CI" in os.environ else "2000"))
STEPS = 25
MOST_BLOBS = 7
MOST_ALIASES = 4

BACKEND = simulated(0)

CONSUMERS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "numpy dlpack": np.from_dlpack,
}
if torch is not None:
    CONSUMERS["torch"] = torch.from_dlpack
    CONSUMERS["torch over numpy"] = lambda side: torch.from_numpy(np.asarray(side))

BINARY = ("add", "sub", "mul", "xor", "and_", "or_")
INPLACE = {
    "add": operator.iadd,
    "sub": operator.isub,
    "mul": operator.imul,
    "xor": operator.ixor,
    "and_": operator.iand,
    "or_": operator.ior,
    "floordiv": operator.ifloordiv,
    "lshift": operator.ilshift,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "positive": operator.pos,
    "invert": operator.invert,
    "absolute": operator.abs,
}
# What looks at the same elements, of a Blob and of NumPy's array alike.
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
}


def _namespace(x: Any) -> Any:
    return xp if isinstance(x, Blob) else np


def _diagonal(x: np.ndarray) -> np.ndarray:
    """Return a diagonal that can be written, as those of Blobs can."""
    result = np.linalg.diagonal(x)
    result.flags.writeable = True
    return result


@dataclass(eq=False)
class Tracked:
    """A Blob, and the array of NumPy that it must equal: a view wherever the Blob is a view."""

    blob: Blob
    model: np.ndarray
    const: bool = False
    own: bool = True
    diff: np.ndarray | None = None


@dataclass(eq=False)
class Alias:
    """What a consumer keeps, and the array of NumPy that it must equal."""

    array: Any
    model: np.ndarray
    warned: bool = field(default=False)


class Program:
    """One random program."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.trace: list[str] = []
        self.blobs: list[Tracked] = []
        self.aliases: list[Alias] = []
        self.counter = 0

    def run(self) -> None:
        computing = [self.binary, self.scalar, self.unary, self.inplace, self.inplace, self.view]
        moving = [self.read, self.read, self.write, self.push, self.adopt, self.to_device]
        sharing = [self.make_alias, self.write_alias, self.write_alias, self.read_alias]
        others = [self.assign, self.assign_selected, self.share, self.resize, self.copy_from]
        others += [self.duplicate, self.gradient, self.update, self.fail, self.foreign, self.drop]
        moves = computing * 2 + moving + sharing + others
        with contextlib.ExitStack() as stack:
            if self.random.random() < 0.2:
                stack.enter_context(record_transfers())
            self.make()
            self.make()
            for _ in range(STEPS):
                move = self.random.choice(moves)
                if self.random.random() < 0.03:
                    self.in_a_thread(move)
                else:
                    self.announced(move)
            for tracked in self.blobs:
                for side in self.random.sample(("cpu", "gpu"), 2):
                    self.check(tracked, side)

    # --- helpers ---------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.trace.append(text)

    def fresh(self, shape: tuple[int, ...]) -> np.ndarray:
        """Make values that were never there before."""
        count = int(np.prod(shape))
        self.counter += count
        values = np.arange(self.counter - count, self.counter, dtype=np.int32) % 9973
        return values.reshape(shape)

    def pick(self, *, writable: bool = False, own: bool = False) -> Tracked:
        """Choose a Blob; make one where none will do."""
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
        """Make a move. A warning ends what is asked of the aliases."""
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
            "copy": lambda: np.asarray(blob.copy()),
        }[side]()
        expected = model.reshape(-1) if side == "item" else model
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
            "copy": lambda: a.blob.copy(),
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
            ("cpu", "gpu", "gpu", "computed", "selected", "asarray", "item", "copy")
        )
        self.note(f"read {self.name(a)}: {side}")
        self.check(a, side)

    def push(self) -> None:
        a = self.pick()
        if a.blob.head is Head.HEAD_AT_CPU:
            BACKEND.delay = self.random.choice((0, 0, 0.001))
            self.note(f"push {self.name(a)}")
            a.blob.async_gpu_push()

    def to_device(self) -> None:
        a = self.pick()
        device = self.random.choice(("cpu", "simulated"))
        self.note(f"{self.name(a)} to {device}")
        made = a.blob.to_device(device)
        if made is not a.blob:
            self.track(made, a.model.copy())

    def fail(self) -> None:
        """Let the next transfer fail: contents and head are what they were."""
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

    # --- writing ---------------------------------------------------------------------------------

    def inplace(self) -> None:
        a = self.pick(writable=True)
        kind = self.random.choice(list(INPLACE))
        b = self.pick()
        if kind in {"floordiv", "lshift"} or self.random.random() < 0.4:
            self.note(f"{self.name(a)} {kind}= 2")
            assert INPLACE[kind](a.blob, 2) is a.blob
            a.model[...] = getattr(operator, kind)(a.model, 2)
            return
        try:
            expected = getattr(operator, kind)(a.model, b.model)
        except ValueError:
            expected = None
        self.note(f"{self.name(a)} {kind}= {self.name(b)}")
        if expected is None or expected.shape != a.model.shape:
            with pytest.raises(ValueError, match=r"broadcast|shape"):
                INPLACE[kind](a.blob, b.blob)
            return
        assert INPLACE[kind](a.blob, b.blob) is a.blob
        a.model[...] = expected

    def write(self) -> None:
        a = self.pick(writable=True)
        side = self.random.choice(("cpu", "gpu"))
        kind = self.random.choice(("mutable", "overwrite"))
        self.note(f"{kind} {self.name(a)} on the {side}")
        values = self.fresh(a.model.shape)
        getattr(a.blob, f"{kind}_{side}_data")()[...] = values
        a.model[...] = values

    def assign(self) -> None:
        a, b = self.pick(writable=True), self.pick()
        if b.model.shape == a.model.shape:
            self.note(f"{self.name(a)}[...] = {self.name(b)}")
            values = b.model.copy()
            a.blob[...] = b.blob
            a.model[...] = values
        else:
            self.note(f"{self.name(a)}[...] = new")
            a.model[...] = self.fresh(a.model.shape)
            a.blob[...] = a.model.copy()

    def assign_selected(self) -> None:
        a = self.pick(writable=True)
        mask = self.fresh(a.model.shape) % 2 == 0
        self.note(f"{self.name(a)}[mask] = -1")
        a.blob[xp.asarray(mask) if self.random.random() < 0.5 else mask] = -1
        a.model[mask] = -1

    def copy_from(self) -> None:
        a, b = self.pick(writable=True), self.pick()
        if a.model.shape == b.model.shape:
            self.note(f"{self.name(a)} copy_from {self.name(b)}")
            values = b.model.copy()
            a.blob.copy_from(b.blob)
            a.model[...] = values

    def adopt(self) -> None:
        """Replace the buffer of one side by another array."""
        a = self.pick(own=True)
        if a.blob.nbytes != a.blob.memory.used_nbytes:
            return
        side = self.random.choice(("cpu", "gpu"))
        self.note(f"set_{side}_data of {self.name(a)}")
        values = self.fresh(a.model.shape)
        getattr(a.blob, f"set_{side}_data")(values.copy())
        a.model[...] = values

    def share(self) -> None:
        a, b = self.pick(own=True), self.pick(own=True)
        if a is b or a.model.size != b.model.size:
            return
        self.note(f"{self.name(a)} shares data of {self.name(b)}")
        a.blob.share_data(b.blob)
        a.model = b.model.reshape(a.model.shape)
        assert a.model.base is not None or a.model is b.model

    def resize(self) -> None:
        a = self.pick(own=True)
        count = self.random.choice((0, 1, 2, 5, a.model.size + 1))
        kept = a.model.reshape(-1)[:count].copy()
        grows = count * 4 > a.blob.memory.nbytes
        self.note(f"resize {self.name(a)} to {count}")
        a.blob.resize(count)
        # Nobody else has it from here on: who else sees the old elements is another test's.
        a.diff = None
        self.blobs = [
            other for other in self.blobs if other is a or other.blob.memory is not a.blob.memory
        ]
        self.aliases.clear()
        seen = np.array(a.blob.cpu_data())
        assert (seen == 0).all() if grows else (seen[: len(kept)] == kept).all()
        a.model = seen

    # --- the gradient ----------------------------------------------------------------------------

    def gradient(self) -> None:
        a = self.pick(own=True)
        if a.diff is None:
            a.diff = np.array(a.blob.cpu_diff())
            assert a.blob.diff.shape == a.blob.shape
        values = self.fresh(a.model.shape)
        self.note(f"diff of {self.name(a)}")
        kind = self.random.choice(("assign", "inplace", "read", "borrow"))
        if kind == "assign":
            a.blob.diff[...] = xp.asarray(values)
            a.diff[...] = values
        elif kind == "inplace":
            gradient = a.blob.diff
            gradient += 5
            a.diff += 5
        elif kind == "borrow":
            a.blob.mutable_gpu_diff()[...] = values
            a.diff[...] = values
        side = self.random.choice(("cpu", "gpu"))
        seen = getattr(a.blob, f"{side}_diff")()
        assert np.array_equal(seen, a.diff)
        assert np.array_equal(np.asarray(a.blob.diff + 0), a.diff)

    def update(self) -> None:
        a = self.pick(own=True)
        if a.diff is not None:
            self.note(f"update {self.name(a)}")
            a.blob.update()
            a.model[...] -= a.diff

    # --- aliases, and operands of other libraries ------------------------------------------------

    def make_alias(self) -> None:
        a = self.pick(writable=True)
        consumer = self.random.choice(list(CONSUMERS))
        where = self.random.choice(("blob", "cpu", "gpu"))
        if min(a.model.strides, default=0) < 0 or (where == "blob" and consumer.endswith("numpy")):
            return
        self.note(f"{consumer} of {self.name(a)}, {where}")
        lender = a.blob if where == "blob" else getattr(a.blob, where)
        self.aliases.append(Alias(CONSUMERS[consumer](lender), a.model))
        del self.aliases[:-MOST_ALIASES]

    def write_alias(self) -> None:
        if self.aliases:
            alias = self.random.choice(self.aliases)
            self.note("write through an alias")
            values = self.fresh(alias.model.shape)
            if isinstance(alias.array, np.ndarray):
                alias.array[...] = values
            else:
                alias.array.copy_(torch.from_numpy(values))
            alias.model[...] = values

    def read_alias(self) -> None:
        if self.aliases:
            alias = self.random.choice(self.aliases)
            self.note("read an alias")
            assert np.array_equal(alias.array, alias.model)

    def foreign(self) -> None:
        """Compute with what another library made of the same memory, or of another."""
        a = self.pick()
        values = self.fresh(a.model.shape)
        operand = values.copy() if torch is None else torch.from_numpy(values.copy())
        self.note(f"{self.name(a)} - foreign")
        expected = np.asarray(a.model - values)
        self.track(a.blob - operand, expected, own=expected.flags.c_contiguous)


def test_no_program_sees_an_old_value_or_loses_a_write() -> None:
    set_default_device("simulated")
    for number in range(PROGRAMS):
        program = Program(number)
        try:
            program.run()
        except BaseException:
            print(f"program {number}:", *program.trace, sep="\n  ")  # noqa: T201  # for the report
            raise
