"""Random programs of computations, views, accessors and aliases, compared with a NumPy model.

A Blob keeps an array beside its memory to speed up computations. Programs must not notice: no read
returns an old value, and no write is lost without a StaleAliasWarning. A program is generated from
a number, and a failure reports that number. ``SYNCBLOB_PROGRAMS`` sets how many programs run.
"""

from __future__ import annotations

import contextlib
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tiers
from blobs_and_models import Alias, BlobsAndModels
from program_devices import run_programs

import syncblob as xp
from syncblob import record_transfers, set_default_device

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import torch
except ImportError:
    torch = None

STEPS = 25
MOST_ALIASES = 4

CONSUMERS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "numpy dlpack": np.from_dlpack,
}
if torch is not None:
    CONSUMERS["torch"] = torch.from_dlpack
    CONSUMERS["torch over numpy"] = lambda side: torch.from_numpy(np.asarray(side))

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


class Program(BlobsAndModels):
    """One random program."""

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
        # From here on, no other Blob of this memory is used. Another test checks the others.
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
        """Compute with an array or tensor of another library."""
        a = self.pick()
        values = self.fresh(a.model.shape)
        operand = values.copy() if torch is None else torch.from_numpy(values.copy())
        self.note(f"{self.name(a)} - foreign")
        expected = np.asarray(a.model - values)
        self.track(a.blob - operand, expected, own=expected.flags.c_contiguous)


@tiers.programs(300, 6000, variable="SYNCBLOB_PROGRAMS")
def test_no_program_sees_an_old_value_or_loses_a_write(numbers: range) -> None:
    set_default_device("simulated")
    run_programs(Program, numbers)
