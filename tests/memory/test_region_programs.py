"""Random programs over overlapping views: no write is lost, and only necessary bytes are copied.

Each program makes two Blobs, views of them and arrays that stay alive, and uses them in any order.
`region_model` has the value and the holders of each element. After each step, contents, heads,
copied bytes, warnings and write permissions are compared with it. A program is made from a number,
which a failure shows. ``SYNCBLOB_PROGRAMS`` sets how many programs run.
"""

from __future__ import annotations

import gc
import random
import re
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import region_model
import tiers
from in_threads import in_threads
from program_devices import Late, Lent, Simulated, run_programs
from region_model import CPU, FAR, GPU, NOBODY, Cells, Loan, Memory, overlap, reach, runs

import syncblob
from benchmarks.states import STATES
from syncblob import Blob, Head, StaleAliasWarning, max_transfers, record_transfers
from syncblob.devices import accelerator
from syncblob.memory import SyncedMemory, attempt, changes, loans, windows
from syncblob.memory.changes import SMALL

try:
    import torch
except ImportError:
    torch = None

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

STEPS = 24
ITEMSIZE = 4
ASYNCHRONOUS = ("async_gpu_push", "prefetch")
MOST_PARTS, MOST_BORROWS, MOST_ALIASES = 9, 6, 6
FAR_DEVICE = "simulated:1"
DIRECTIONS = ("upload", "download", "peer")
OTHER = {CPU: GPU, GPU: CPU}

# --- consumers and sources ------------------------------------------------------------------------

# How an alias is made, and whether the array itself can lose its write permission.
CONSUMERS = {"np.asarray({})": True, "np.from_dlpack({})": False}
if torch is not None:
    CONSUMERS["torch.from_dlpack({})"] = False
    CONSUMERS["torch.from_numpy(np.asarray({}))"] = False


@cache
def consumer(expression, line):
    """Return a function that makes an alias at a line of its own, which a warning then names."""
    source = "\n" * (line - 1) + f"def take(side):  return {expression.format('side')}"
    names = {"np": np, "torch": torch, "__name__": "region_aliases"}
    library = expression.partition(".")[0]
    if library in {"cupy", "dpnp"}:
        names[library] = import_module(library)
    exec(compile(source, "/programs/region_aliases.py", "exec"), names)  # noqa: S102  # our own text
    return names["take"]


class Source:
    """A source that returns all contents."""

    def __init__(self, values):
        self.contents = np.array(values, np.int32).view(np.uint8)
        self.asked = []
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.contents.copy()


class Reader(Source):
    """A source that can also return a part."""

    def read_into(self, buffer, offset):
        stop = offset + len(buffer)
        assert 0 <= offset <= stop <= len(self.contents)
        assert offset % ITEMSIZE == stop % ITEMSIZE == 0
        self.asked += range(offset // ITEMSIZE, stop // ITEMSIZE)
        buffer[:] = self.contents[offset:stop]


@dataclass(eq=False)
class Part:
    """A Blob or a view: its memory, its elements, and its name in the trace."""

    name: str
    blob: Any
    memory: Memory
    cells: Cells
    device: str
    base: bool = False

    @property
    def accelerator(self):
        """The accelerator that the head is about."""
        return FAR if self.device == FAR else GPU

    def reached(self, side):
        """Return the Blob through whose accessors a side is used."""
        if side == CPU or (side == FAR) == (self.device == FAR):
            return self.blob
        return self.blob.on(FAR_DEVICE if side == FAR else "simulated:0")

    def plan(self, side, intent):
        return self.memory.plan(side, intent, self.cells)

    @property
    def gaps(self):
        return self.cells.size < len(reach(self.cells))


def arranged(shape):
    return np.arange(int(np.prod(shape))).reshape(shape)


def shown(index):
    """Return an index as source code."""

    def one(entry):
        if not isinstance(entry, slice):
            return str(entry)
        start, stop, step = (
            "" if n is None else str(n) for n in (entry.start, entry.stop, entry.step)
        )
        return f"{start}:{stop}" + (f":{step}" if step else "")

    return ", ".join(map(one, index))


def array_of(loan):
    """Return the NumPy array over a loan, or an object that can be used like it."""
    return loan.array if isinstance(loan.array, (np.ndarray, Lent)) else loan.array.numpy()


def may_write(array):
    """Tell whether a borrowed array is writable; None if its library has no read-only arrays."""
    writeable = array.flags.writeable
    return None if isinstance(array, Lent) and not isinstance(array, Late) else writeable


# Operations that change a Blob: their intents, and the new elements from those before.
OPERATIONS = {
    "{} += 3": ("mutable", lambda v: v.__iadd__(3), lambda x: x + 3),
    "np.multiply({0}, 2, out={0})": (
        "mutable",
        lambda v: np.multiply(v, 2, out=v),
        lambda x: x * 2,
    ),
    "np.add(5, 2, out={})": ("overwrite", lambda v: np.add(5, 2, out=v), lambda x: x * 0 + 7),
    "{}.fill(2)": ("overwrite", lambda v: v.fill(2), lambda x: x * 0 + 2),
}

# How a Blob is brought into the states of the benchmark ``states``: what `Program.bring` can do of
# them. Untouched, it is in a state, too.
STARTS = sorted(
    {state.steps for state in STATES if not {"expose", "evict"} & set(state.steps.split())} | {""}
)
# What is open during a program.
DURING = (nullcontext, record_transfers, lambda: max_transfers(bytes=1 << 60))


# --- one program ----------------------------------------------------------------------------------


class Program:
    """One random program.

    Attributes
    ----------
    device, controls
        The device of the other side, and the object that counts its copies and makes them fail.
    parts
        The Blobs and views that are alive; the first two are Blobs that are not views.
    sides
        The sides that are used.
    moved
        The bytes that must have been copied in each direction so far.
    pushing
        Whether an upload may still be under way.
    evicted
        The number of buffers that were evicted, in all programs.
    """

    evicted = 0
    # A copy from windows takes as many copies.
    most_windows = 0

    moves: Sequence[str] = """
        access access access access access access view view drop_view private private tolist
        assign operate operate result
        make_alias make_alias write_alias write_alias read_alias slice_alias drop_alias drop_alias
        write_borrow write_borrow push prefetch adopt share resize write_outside promise
    """.split()

    def __init__(self, number, device, sides):
        self.random = random.Random(number)  # noqa: S311  # programs, not secrets
        self.device = device
        self.controls = device.controls
        self.sides = sides
        self.places = {CPU: "cpu", GPU: device.name, FAR: FAR_DEVICE}
        self.all_controls = [device.controls]
        if FAR in sides:
            self.all_controls.append(syncblob.simulated(1))
            syncblob.simulated(1).synchronize()
            syncblob.simulated(1).reset_counts()
        # How often an access is logged. A log ends all shortcuts, so some programs have none.
        self.logged = self.random.choice((0.0, 0.5))
        self.trace = []
        self.written = 1000
        self.lines = self.views = 0
        self.sources = {}
        self.outside = {}
        self.ended = []
        self.pushing = False
        self.moved = dict.fromkeys(DIRECTIONS, 0)
        if isinstance(device, Simulated) and device.accelerator.used_nbytes:
            # What other tests have left alive would leave instead, and be counted.
            device.accelerator.capacity = device.accelerator.used_nbytes + ITEMSIZE
            fill(device.name, device.accelerator.capacity)
            device.accelerator.capacity = None
            device.controls.reset_counts()
        self.parts = [self.made("a"), self.made("b")]

    def run(self, steps=STEPS):
        try:
            for _ in range(self.random.randint(0, 4) if "view" in self.moves else 0):
                self.view()
            for part in self.parts[:2]:
                self.bring(part, self.random.choice(STARTS))
            # Whether every second access meets a full accelerator.
            full = self.chance(0.3)
            if full:
                # What errors of earlier programs still hold would make room, too.
                gc.collect()
            with self.random.choice(DURING)():
                for _ in range(steps):
                    getattr(self, self.random.choice(self.moves))()
                    self.check()
                    if full and self.chance(0.5):
                        self.press()
                        self.check()
            for part in self.parts:
                for side in self.sides:
                    self.read(part, side)
                    self.check()
        finally:
            self.all_controls[-1].delay = 0.0
            self.device.close()

    def bring(self, part, steps):
        """Bring a Blob into a state of the benchmark by its steps, unless one of them fails."""
        for step in steps.split(", ") if steps else ():
            verb, side, *piece = step.split()
            side = {"own": part.device, "other": OTHER[part.device]}.get(side, side)
            used = part
            if piece and part.cells.ndim:
                middle = len(part.cells) // 2
                index = slice(middle) if piece == ["first"] else slice(middle, None)
                name = f"{part.name}[{shown((index,))}]"
                blob, cells = part.blob[index], np.asarray(part.cells[index])
                used = Part(name, blob, part.memory, cells, part.device)
            if verb == "alias":
                self.make_alias(used, side)
            elif verb == "push":
                self.push(used)
            else:
                self.access_of(used, side, "const" if verb == "read" else "mutable")
            if verb == "write":
                part.memory.borrows.clear()
            self.check()

    # --- making Blobs and choosing parts ---------------------------------------------------------

    def note(self, text):
        self.trace.append(text)

    def chance(self, probability):
        return self.random.random() < probability

    def fresh(self, cells):
        """Return new values, all different from earlier ones, in the shape of some elements."""
        self.written += cells.size
        return np.arange(self.written - cells.size, self.written, dtype=np.int32).reshape(
            cells.shape
        )

    def shape(self, most=12):
        """Return a shape of 1 to `most` elements."""
        if self.chance(0.5) or most < 4:
            return (self.random.randint(1, most),)
        rows = self.random.randint(2, most // 2)
        return (rows, self.random.randint(1, most // rows))

    def made(self, name):
        """Make a Blob that is not a view."""
        cells = arranged(self.shape())
        kind = self.random.choice(("new", "new", "new", "source", "reader", "outside"))
        device = GPU
        zeros = [0] * cells.size
        if kind == "new":
            self.note(f'{name} = Blob({cells.shape}, "int32", device={self.device.name!r})')
            blob = Blob(cells.shape, "int32", device=self.device.name)
            memory = Memory(zeros)
        elif kind == "outside":
            device = CPU
            self.note(f"{name} = asarray(an array of {cells.shape}), bound to {self.device.name}")
            array = self.device.host_array(self.fresh(cells))
            blob = syncblob.asarray(array)
            blob.memory.side_of(self.device.accelerator)
            memory = Memory(array.ravel().tolist())
            memory.holders = [frozenset({CPU})] * cells.size
            memory.exposed[CPU] = set(range(cells.size))
            memory.owned = True
            memory.foreign.add(CPU)
            self.outside[memory] = array
        else:
            self.note(f"{name} = Blob.from_source({cells.shape}, …, a {kind})")
            values = self.fresh(cells).ravel().tolist()
            memory = Memory(values, source=True)
            self.sources[memory] = Source(values) if kind == "source" else Reader(values)
            blob = Blob.from_source(
                cells.shape, "int32", self.sources[memory], device=self.device.name
            )
        return Part(name, blob, memory, cells, device, base=True)

    def part(self, *, empty=True):
        """Choose a Blob or, more often, a view."""
        views = self.parts[2:] if self.chance(0.6) else []
        found = [part for part in views or self.parts if empty or part.cells.size]
        return self.random.choice(found or self.parts[:2])

    def base(self):
        return self.random.choice(self.parts[:2])

    def side(self):
        return self.random.choice(self.sides)

    def parts_of(self, memory):
        return [part for part in self.parts if part.memory is memory]

    def memories(self):
        return list({id(part.memory): part.memory for part in self.parts}.values())

    # --- comparisons -----------------------------------------------------------------------------

    def check(self):
        """Compare everything that can be seen without a transfer."""
        for part in self.parts:
            assert str(part.blob.device) == self.places[part.device], f"the device of {part.name}"
            if part.cells.size:
                found, expected = (
                    part.blob.head.name,
                    part.memory.head(part.cells, part.accelerator),
                )
                assert found == expected, f"{part.name} is {found}, must be {expected}"
        for base in self.parts[:2]:
            assert base.blob.memory.nbytes == base.memory.size * ITEMSIZE
        for memory in self.memories():
            for loan in memory.borrows + [loan for loan in memory.lent if loan.revocable]:
                assert may_write(loan.array) in (loan.writeable, None), (
                    f"the one of {loan.side} {loan.hull} has writeable={not loan.writeable}"
                )
        lent = {id(loan.array) for memory in self.memories() for loan in memory.borrows}
        for loan in self.ended:
            assert id(loan.array) in lent or not may_write(loan.array), (
                f"a borrow of {loan.side} {loan.hull} that ended may write"
            )
        if self.chance(0.3):
            memory = self.base().memory
            for element, holders in self.seen(memory).items():
                expected = memory.holders[element]
                assert holders == expected, f"[{element}]: {set(holders)}, must be {set(expected)}"
        if not self.pushing or self.chance(0.5):
            self.check_moved()

    def check_moved(self):
        """Compare the number of bytes copied so far."""
        if self.pushing:
            self.synchronize()
            self.pushing = False
        moved = self.quantity()
        assert moved == self.moved, f"moved {moved}, must be {self.moved}"

    def synchronize(self):
        for controls in self.all_controls:
            controls.synchronize()

    def quantity(self):
        """Return the bytes copied in each direction."""
        names = ("uploaded_bytes", "downloaded_bytes", "peer_bytes")
        totals = [sum(getattr(each, name, 0) for each in self.all_controls) for name in names]
        return dict(zip(DIRECTIONS, totals, strict=True))

    def seen(self, memory):
        """Return the holders of each element that Blobs and views reach."""
        found = {}
        for part in self.parts_of(memory):
            for index in np.ndindex(part.cells.shape):
                element = int(part.cells[index])
                if element not in found:
                    one = part.blob[index] if index else part.blob
                    found[element] = self.holders_of(one)
        return found

    def holders_of(self, one):
        """Return the sides that hold an element, as the heads for each accelerator tell."""
        holders = NOBODY
        for side in self.sides[1:]:
            seen = one.on(self.places[side]) if len(self.sides) > 2 else one
            holders |= {
                Head.HEAD_AT_CPU: {CPU},
                Head.HEAD_AT_GPU: {side},
                Head.SYNCED: {CPU, side},
            }.get(seen.head, NOBODY)
        return holders

    def reachable(self, memory, elements):
        """Tell whether `seen` would return all these elements."""
        cells = {int(cell) for part in self.parts_of(memory) for cell in part.cells.ravel()}
        return cells.issuperset(elements)

    def accept(self, memory, allowed):
        """Take over the holders that the specification leaves open; return the changed elements."""
        changed = []
        for element, holders in self.seen(memory).items():
            if holders != memory.holders[element]:
                assert holders in allowed(element), f"[{element}] went to {set(holders)}"
                memory.holders[element] = holders
                changed.append(element)
        return changed

    def check_warnings(self, caught, left):
        """Compare the aliases that a warning names with those that become stale."""
        found = [warning.category for warning in caught]
        assert found == [StaleAliasWarning] * bool(left), [str(w.message) for w in caught]
        if not left:
            return
        text = str(caught[0].message)
        lines = {int(line) for line in re.findall(r"region_aliases\.py:(\d+)", text)}
        more = re.search(r"and (\d+) more", text)
        count = len(lines) + (int(more[1]) if more else 0)
        expected = {loan.line for loan in left}
        assert lines <= expected, f"{text} names others than {expected}"
        assert count == len(expected), f"{text} names {count} of {expected}"

    def check_journal(self, log, plan):
        """Compare the journal with the copies that were needed: these, once and in order."""
        moved = {direction: [] for direction in DIRECTIONS}
        for entry in log:
            assert entry.offset % ITEMSIZE == entry.nbytes % ITEMSIZE == 0
            last = entry.offset + entry.nbytes
            moved[entry.direction] += range(entry.offset // ITEMSIZE, last // ITEMSIZE)
        expected = plan.moved()
        for direction, elements in moved.items():
            assert sorted(elements) == sorted(expected[direction]), f"{direction} of {elements}"
        if not plan.filled:
            count = runs(plan.copied, plan.before)
            more = len(log) - count
            assert 0 <= more <= self.most_windows, f"{len(log)} copies of {plan.copied}"

    def check_asked(self, memory, side, filled, before):
        """Compare what was requested from a source with what had to come from it."""
        source = self.sources.get(memory)
        if source is None:
            return
        asked, calls = source.asked[before[0] :], source.calls - before[1]
        if isinstance(source, Reader) and (asked or side == CPU):
            assert sorted(asked) == sorted(filled), f"read {asked}, must be {filled}"
            assert not calls
        else:
            # The result of a call may be kept, so that it is not requested again.
            assert filled or not calls, f"{calls} calls for nothing"

    def asked(self, memory):
        source = self.sources.get(memory)
        return (0, 0) if source is None else (len(source.asked), source.calls)

    # --- accesses --------------------------------------------------------------------------------

    def announced(self, action, left):
        """Do an action. If it makes aliases stale, it warns, or raises and changes nothing.

        Returns whether it was done, and its result.
        """
        if left and self.chance(0.25):
            self.note("    stopped by the warning as an error")
            with pytest.raises(StaleAliasWarning):
                action()
            return False, None
        with warnings.catch_warnings(record=True, action="always") as caught:
            result = action()
        self.check_warnings(caught, left)
        return True, result

    def use(self, part, name, plan, action):
        """Make a planned access, and compare its effects with the plan.

        Returns whether it was done, and its result.
        """
        memory = part.memory
        untouched = memory.untouched
        asked = self.asked(memory)
        with record_transfers() if self.chance(self.logged) else nullcontext() as log:
            done, result = self.announced(action, plan.left)
        if not done:
            self.check_asked(memory, plan.side, [], asked)
            return False, None
        self.check_asked(memory, plan.side, plan.filled, asked)
        # An asynchronous upload may be recorded when it arrives.
        if log is not None and name not in ASYNCHRONOUS:
            self.check_journal(log, plan)
        self.done(part, name, plan)
        if not plan.hull and untouched:
            # Whether an access of nothing counts as the first access is not specified.
            self.accept(memory, lambda _: (frozenset({plan.side}),))
            if any(memory.holders):
                memory.holders = [frozenset({plan.side})] * memory.size
        return True, result if plan.side == CPU else self.device.seen(result)

    def done(self, part, name, plan):
        """Record an access in the model."""
        self.end(plan.revoked)
        part.memory.commit(plan)
        lacking = [plan.before[element] for element in plan.stale]
        pushed = name in ASYNCHRONOUS and all(CPU in holders for holders in lacking)
        for direction, elements in plan.moved(pushed=pushed).items():
            self.moved[direction] += len(elements) * ITEMSIZE

    def end(self, loans):
        """Keep a few borrows that have lost their permission; aliases must be able to die."""
        self.ended += [loan for loan in loans if not loan.line]
        del self.ended[:-MOST_BORROWS]

    def read(self, part, side):
        access = accessor(side, "const")
        plan = part.plan(side, "const")
        self.note(f"{part.name}.{access}() of {side}")
        done, array = self.use(part, access, plan, getattr(part.reached(side), access))
        if done:
            self.compare(part, array)
            assert not may_write(array)

    def compare(self, part, array, cells=None):
        cells = part.cells if cells is None else cells
        expected = np.array(part.memory.values, int)[cells]
        assert np.asarray(array).shape == cells.shape
        assert np.array_equal(array, expected), (
            f"saw {np.asarray(array).tolist()}, the newest is {expected.tolist()}"
        )

    def store(self, memory, array, cells):
        array[...] = values = self.fresh(cells)
        for element, value in zip(cells.ravel().tolist(), values.ravel().tolist(), strict=True):
            memory.values[element] = value

    def access(self):
        """Get a borrow or a const array."""
        intent = self.random.choice(("const", "mutable", "overwrite"))
        self.access_of(self.part(), self.side(), intent)

    def access_of(self, part, side, intent):
        name = accessor(side, intent)
        plan = part.plan(side, intent)
        action = getattr(part.reached(side), name)
        self.note(f"{part.name}.{name}() of {side}")
        if plan.copied and self.chance(0.1):
            self.fail(part, plan, action)
            return
        if intent != "overwrite" and plan.hull and self.chance(0.05):
            self.starve(part, name, plan, action)
            return
        done, array = self.use(part, name, plan, action)
        if not done:
            return
        if intent == "const":
            self.compare(part, array)
            assert not may_write(array)
            return
        memory = part.memory
        whole = intent == "overwrite" and not part.gaps
        if not whole:
            self.compare(part, array)
        if plan.hull:
            memory.borrows.append(Loan(side, reach(part.cells), part.cells, array))
            del memory.borrows[:-MOST_BORROWS]
        if whole or self.chance(0.7):
            self.note("    and write")
            self.store(memory, array, part.cells)

    def write_borrow(self):
        """Write through a borrow that is still writable."""
        memory = self.part().memory
        if memory.borrows:
            loan = self.random.choice(memory.borrows)
            self.note(f"write through a borrow of {loan.side} {loan.hull}")
            assert np.array_equal(loan.array, np.array(memory.values, int)[loan.cells])
            self.store(memory, loan.array, loan.cells)

    def assign(self):
        """Assign a number to all of a Blob or view: an overwrite on its device.

        It covers the indexed elements, even of a Blob that is not a view.
        """
        part = self.part(empty=False)
        plan = part.memory.plan(part.device, "overwrite", part.cells)
        value = int(self.fresh(np.zeros(1))[0])
        self.note(f"{part.name}[...] = {value}")
        done, _ = self.use(part, "assignment", plan, lambda: part.blob.__setitem__(..., value))
        if done:
            for element in part.cells.ravel().tolist():
                part.memory.values[element] = value

    def computing(self):
        """Choose a part of which each access is of its elements, on a device that computes."""
        part = self.part(empty=False)
        if not (self.device.computes or part.device == CPU):
            return None
        # An operation reads before it writes, and brings twice what others may write meanwhile.
        sticky = (
            part.memory.sticky(side, element)
            for side in self.sides
            if side != part.device
            for element in reach(part.cells)
        )
        return None if any(sticky) else part

    def operate(self):
        """Change a Blob or view on its device by an operator or a function."""
        part = self.computing()
        if part is None:
            return
        kind = self.random.choice(list(OPERATIONS))
        intent, change, expect = OPERATIONS[kind]
        values = np.array(part.memory.values, np.int32)
        self.note(kind.format(part.name))
        plan = part.memory.plan(part.device, intent, part.cells)
        done, _ = self.use(part, "an operation", plan, lambda: change(part.blob))
        if done:
            values[part.cells] = expect(values[part.cells])
            part.memory.values[:] = values.tolist()

    def result(self):
        """Compute a new Blob, which reads on its device."""
        part = self.computing()
        if part is not None:
            plan = part.memory.plan(part.device, "const", part.cells)
            self.note(f"{part.name} + 0")
            done, result = self.use(part, "a result", plan, lambda: part.blob + 0)
            access = accessor(CPU if part.device == CPU else GPU, "const")
            if done:
                self.compare(part, getattr(result, access)())

    # --- failures --------------------------------------------------------------------------------

    def fail(self, part, plan, action, *, push=False):
        """Make a copy of an access fail: copies that succeeded may count, the rest is unchanged."""
        memory = part.memory
        if not self.reachable(memory, plan.hull) or self.controls_of(plan) is None:
            self.trace.pop()
            return
        controls = self.controls_of(plan)
        pieces = runs(plan.stale, plan.before)
        pieces += runs(plan.filled) if plan.side != CPU else 0
        which = self.random.randint(1, pieces)
        self.note(f"    with copy {which} of {pieces} failing")
        # The failure must not hit a pending upload of another memory.
        self.check_moved()
        asked = self.asked(memory)
        with (
            warnings.catch_warnings(action="ignore", category=StaleAliasWarning),
            controls.failing(transfer=which),
        ):
            if push and not self.device.fails_at_once:
                action()
                action = part.blob.gpu_data
            with pytest.raises(RuntimeError, match="injected"):
                action()
        self.synchronize()
        now, before_it = self.quantity(), self.moved
        for direction, elements in plan.moved(pushed=push).items():
            assert elements or now[direction] == before_it[direction]
        self.moved = now
        moved = sum(now.values()) - sum(before_it.values())
        assert moved < len(plan.copied) * ITEMSIZE, "all arrived"
        source = self.sources.get(memory)
        if source is not None:
            assert set(source.asked[asked[0] :]) <= set(plan.filled)
        before = list(memory.holders)
        if push:
            # They were revoked during the upload. It is not specified whether they become writable
            # again.
            for loan in plan.revoked:
                loan.writeable = loan.array.flags.writeable

        def allowed(element):
            if element in plan.stale:
                return (memory.joined(element, plan.side),)
            return (frozenset({plan.side}),) if element in plan.filled else ()

        changed = self.accept(memory, allowed)
        arrived = [element for element in changed if element in plan.copied]
        assert len(arrived) * ITEMSIZE <= moved, f"{arrived} count, and {moved} bytes arrived"
        lost = [element for element in changed if before[element]]
        ended = [
            borrow
            for borrow in memory.borrows
            if borrow.side != plan.side and any(element in borrow.hull for element in lost)
        ]
        self.end(ended)
        memory.take_back(ended)

    def controls_of(self, plan):
        """Return what makes the copies of an access fail: that of one device; None if of two.

        That is the device that the bytes go to; of a download, the one that they come from.
        """
        devices = {plan.side}
        if plan.side == CPU:
            devices = {GPU if GPU in plan.before[element] else FAR for element in plan.copied}
        return self.all_controls[FAR in devices] if len(devices) == 1 else None

    def starve(self, part, name, plan, action):
        """Make the allocations of an access fail, if it makes any."""
        self.note("    with no memory for buffers")
        self.check_moved()
        with ExitStack() as failing:
            ignoring = warnings.catch_warnings(action="ignore", category=StaleAliasWarning)
            failing.enter_context(ignoring)
            for controls in self.all_controls:
                failing.enter_context(controls.failing(allocation=1, host_allocation=1))
            try:
                action()
            except MemoryError:
                return
        self.done(part, name, plan)

    # --- private reads ---------------------------------------------------------------------------

    def private(self):
        """Read numbers or text: this copies only the elements shown, and no side holds more."""
        part = self.part(empty=False)
        blob, cells, memory = part.blob, part.cells, part.memory
        kinds = {"str({})": lambda: str(blob)}
        if cells.size == 1:
            kinds["{}.item()"] = blob.item
        if not cells.ndim:
            kinds |= {
                "int({})": lambda: int(blob),
                "float({})": lambda: float(blob),
                'format({}, "d")': lambda: format(blob, "d"),
            }
        else:
            index = tuple(self.random.randrange(length) for length in cells.shape)
            kinds[f"{{}}.item{index}"] = lambda: blob.item(*index)
        if part.gaps:
            kinds |= {"{}.tolist()": blob.tolist, "np.array({})": lambda: np.array(blob)}
        kind = self.random.choice(list(kinds))
        if ".item(" in kind and not kind.endswith("item()"):
            cells = cells[index]
        self.note(kind.format(part.name))
        elements = set(np.ravel(cells).tolist())
        if kind == "str({})" and str(Blob(())) == repr(Blob(())):
            # This text has no elements.
            elements = set()
        missing = [e for e in elements if memory.holders[e] and CPU not in memory.holders[e]]
        missing = [] if region_model.ONE else missing
        asked = self.asked(memory)
        if missing and self.chance(0.1):
            self.note("    with the copy failing")
            self.check_moved()
            with ExitStack() as failing:
                for controls in self.all_controls:
                    failing.enter_context(controls.failing(transfer=1))
                with pytest.raises(RuntimeError, match="injected"):
                    kinds[kind]()
            self.moved = self.quantity()
            return
        with record_transfers() if self.chance(self.logged) else nullcontext() as log:
            result = kinds[kind]()
        self.moved["download"] += len(missing) * ITEMSIZE
        if log is not None:
            assert (log.downloaded_bytes, log.uploads) == (len(missing) * ITEMSIZE, 0)
        expected = np.array(memory.values, int)[cells]
        if kind.startswith(("str", "format")):
            assert not elements or all(
                str(value) in result for value in np.ravel(expected).tolist()
            )
        else:
            result, expected = np.ravel(result), np.ravel(expected)
            assert np.array_equal(result, expected), f"saw {result}, the newest is {expected}"
        self.look_after_private(memory, elements, asked)

    def look_after_private(self, memory, elements, asked):
        """Accept that the host may now hold elements that no side held: this is not specified."""
        unheld = {element for element in elements if not memory.holders[element]}
        first = memory.untouched
        if first and unheld:
            self.accept(memory, lambda _: (frozenset({CPU}),))
            if any(memory.holders):
                memory.holders = [frozenset({CPU})] * memory.size
        elif unheld:
            self.accept(memory, lambda element: (frozenset({CPU}),) if element in unheld else ())
        source = self.sources.get(memory)
        if source is not None:
            # Elements in gaps may be read from the source, and are discarded.
            cells = np.array(sorted(unheld))
            assert set(source.asked[asked[0] :]) <= set(reach(cells))

    def tolist(self):
        """Read all of a dense part, or apply `np.asarray` to any: a const access on the host."""
        part = self.part(empty=False)
        kinds = {"np.asarray({})": np.asarray}
        if not part.gaps:
            kinds |= {"{}.tolist()": lambda blob: blob.tolist(), "np.array({})": np.array}
        kind = self.random.choice(list(kinds))
        self.note(kind.format(part.name))
        plan = part.plan(CPU, "const")
        _, result = self.use(part, "cpu_data", plan, lambda: kinds[kind](part.blob))
        self.compare(part, result)

    # --- views -----------------------------------------------------------------------------------

    def index(self, shape):
        entries = []
        for length in shape:
            kind = self.random.choice(("all", "range", "range", "range", "step", "one"))
            start = self.random.randint(0, length)
            stop = self.random.randint(start, length)
            if start == stop and self.chance(0.8):
                start, stop = 0, length
            if kind == "one" and length:
                entries.append(self.random.randrange(length))
            elif kind == "range":
                entries.append(slice(start, stop))
            elif kind == "step":
                entries.append(slice(None, None, self.random.choice((-1, -1, 2, 3, -2))))
            else:
                entries.append(slice(None))
        return tuple(entries)

    def view(self):
        """Make a view, of a Blob or of a view."""
        part = self.random.choice([*self.parts, *self.parts[:2]])
        if not part.cells.ndim:
            return
        self.views += 1
        name = f"v{self.views}"
        device = part.device
        if part.cells.ndim == 2 and self.chance(0.1):
            self.note(f"{name} = {part.name}.T")
            blob, cells = part.blob.T, part.cells.T
        elif self.chance(0.1):
            # A view of everything.
            device = self.side()
            self.note(f"{name} = {part.name}.on({self.places[device]!r})")
            blob, cells = part.blob.on(self.places[device]), part.cells
        else:
            index = self.index(part.cells.shape)
            self.note(f"{name} = {part.name}[{shown(index)}]")
            blob, cells = part.blob[index], np.asarray(part.cells[index])
        self.parts.append(Part(name, blob, part.memory, cells, device))
        if len(self.parts) > MOST_PARTS:
            self.forget(2)

    def drop_view(self):
        if len(self.parts) > 2:
            self.forget(self.random.randrange(2, len(self.parts)))

    def forget(self, place):
        part = self.parts.pop(place)
        self.note(f"del {part.name}")
        self.leave(part.memory)

    def replaced(self, memory):
        """End the loans of a memory that a Blob has left."""
        self.end(memory.borrows)
        memory.borrows.clear()
        for alias in memory.lent:
            alias.writeable = alias.writeable and not alias.revocable
        self.leave(memory)

    def leave(self, memory):
        """Forget the loans of a memory that no Blob uses any more."""
        if not self.parts_of(memory):
            memory.borrows.clear()
            memory.aliases.clear()

    # --- aliases ---------------------------------------------------------------------------------

    def make_alias(self, part=None, side=""):
        part, side = part or self.part(), side or self.side()
        memory = part.memory
        how = self.random.choice(list(CONSUMERS))
        overwrite = self.chance(0.2)
        lender = part.reached(side).cpu if side == CPU else part.reached(side).gpu
        text = f"{part.name}.{side}"
        if "dlpack" in how and not overwrite and self.chance(0.3):
            # The side of the device, which need not be named.
            side, lender, text = part.device, part.blob, part.name
        if overwrite:
            lender, text = lender.overwrite, f"{text}.overwrite"
        how = self.device.consumer(how) if side != CPU else how
        self.note(how.format(text))
        plan = part.plan(side, "overwrite" if overwrite else "mutable")
        strides = zip(part.cells.shape, part.blob.strides, strict=True)
        backwards = [length for length, stride in strides if stride < 0]
        if backwards and how != "np.asarray({})":
            # For an axis of one element, a negative stride is an error in some libraries only.
            if "dlpack" in how and min(backwards) > 1 and part.cells.size:
                with pytest.raises(BufferError):
                    consumer(how, 1)(lender)
            else:
                self.trace.pop()
            return
        self.lines += 1
        line = self.lines

        def take():
            return consumer(how, line)(lender)

        if plan.copied and self.chance(0.1):
            self.fail(part, plan, take)
            return
        done, array = self.use(part, "an alias", plan, take)
        if not done:
            return
        revocable = CONSUMERS.get(how, False)
        alias = Loan(side, reach(part.cells), part.cells, array, revocable, line=line)
        memory.aliases.append(alias)
        if overwrite and not part.gaps:
            self.note("    and write")
            self.store(memory, array_of(alias), part.cells)
        else:
            self.compare(part, array_of(alias))
        del alias, array
        if len(memory.aliases) > MOST_ALIASES:
            memory.aliases.pop(0)
            self.note("    and drop the oldest")

    def an_alias(self):
        memory = self.part().memory
        if not memory.aliases:
            return None, None
        alias = self.random.choice(memory.aliases)
        if alias.side != CPU:
            # Code that reads device memory without the Blob must synchronise itself.
            self.synchronize()
        return memory, alias

    def write_alias(self):
        """Write through an alias where its side is newest; other elements are not seen."""
        memory, alias = self.an_alias()
        if memory is None or alias is None:
            return
        array = array_of(alias)
        if not array.flags.writeable:
            return
        lost = self.chance(0.2)
        self.note(
            f"write through the alias of line {alias.line}{', also where it is stale' * lost}"
        )
        values = self.fresh(alias.cells)
        for index in np.ndindex(alias.cells.shape):
            element = int(alias.cells[index])
            if memory.writable(alias, element):
                array[index] = values[index]
                memory.values[element] = int(values[index])
            elif lost:
                array[index] = -1

    def read_alias(self):
        memory, alias = self.an_alias()
        if memory is None or alias is None:
            return
        self.note(f"read the alias of line {alias.line}")
        array = array_of(alias)
        for index in np.ndindex(alias.cells.shape):
            element = int(alias.cells[index])
            if memory.shows(alias, element):
                assert int(array[index]) == memory.values[element], f"[{element}] through the alias"

    def slice_alias(self):
        """Keep a part of an alias and drop the whole."""
        memory, alias = self.an_alias()
        if memory is None or alias is None or not alias.cells.ndim or alias.cells.shape[0] < 2:
            return
        self.note(f"keep [1:] of the alias of line {alias.line}")
        alias.array, alias.cells = alias.array[1:], alias.cells[1:]
        # The slice has its own write permission, which is never revoked.
        alias.revocable = False

    def drop_alias(self):
        memory, alias = self.an_alias()
        if memory is None or alias is None:
            return
        self.note(f"drop the alias of line {alias.line}")
        memory.aliases.remove(alias)
        if self.chance(0.1):
            cell = [alias]
            del alias
            in_threads(cell.clear)

    def write_outside(self):
        """Write into an array adopted by `asarray`, where the host is exposed and alone newest."""
        memory = self.base().memory
        array = self.outside.get(memory)
        if array is None:
            return
        cells = arranged(array.shape)
        places = [
            index
            for index in np.ndindex(cells.shape)
            if int(cells[index]) in memory.exposed[CPU]
            and memory.holders[int(cells[index])] == {CPU}
        ]
        if places:
            self.note(f"write into the array outside, at {places}")
            for index in places:
                value = int(self.fresh(np.zeros(1))[0])
                array[index] = memory.values[int(cells[index])] = value

    def promise(self):
        part = self.part(empty=False)
        if any(part.memory.exposed.values()):
            self.note(f"{part.name}.assume_unaliased()")
            part.blob.assume_unaliased()
            for exposed in part.memory.exposed.values():
                exposed -= set(reach(part.cells))

    # --- asynchronous uploads --------------------------------------------------------------------

    def push(self, part=None):
        part = part or self.part(empty=False)
        memory = part.memory
        self.note(f"{part.name}.async_gpu_push()")
        if memory.head(part.cells, part.accelerator) != "HEAD_AT_CPU":
            with pytest.raises(RuntimeError, match="HEAD_AT_CPU"):
                part.blob.async_gpu_push()
            return
        plan = part.plan(part.accelerator, "const")
        if plan.filled or plan.zeroed:
            self.trace.pop()
            return
        if self.chance(0.25):
            self.fail(part, plan, part.blob.async_gpu_push, push=True)
        else:
            self.start(part, "async_gpu_push", plan)

    def start(self, part, name, plan):
        memory = part.memory
        # A host alias may write before the upload arrives. Whether it then counts is not specified.
        mine = {element for element in plan.stale if plan.after[element] == {plan.side}}
        if not self.reachable(memory, mine):
            self.trace.pop()
            return
        for controls in self.all_controls:
            controls.delay = self.random.choice((0.0, 0.0, 0.001))
        before = list(memory.holders)
        self.pushing = True
        self.use(part, name, plan, getattr(part.blob, name))
        self.accept(memory, lambda element: (before[element],) if element in mine else ())

    def prefetch(self):
        part = self.part(empty=False)
        plan = part.plan(part.device, "const")
        if plan.filled or plan.zeroed:
            # No side holds some of these, so they cannot be copied. What happens then is not
            # specified.
            return
        self.note(f"{part.name}.prefetch()")
        self.start(part, "prefetch", plan)

    # --- evictions -------------------------------------------------------------------------------

    def press(self):
        """Let another Blob need all of the accelerator, which gives up what nobody sees."""
        device = self.device.accelerator
        if not isinstance(self.device, Simulated):
            # Failures that are injected there evict nothing.
            return
        self.note("another Blob needs all of the accelerator")
        self.check_moved()
        if self.chance(0.7):
            self.note("    and no borrow of it is kept")
            self.ended = [loan for loan in self.ended if loan.side != GPU]
            for memory in self.memories():
                memory.borrows = [loan for loan in memory.borrows if loan.side != GPU]
        used = {part.memory: part.blob.memory for part in self.parts}
        before = {
            (memory, real): real.windows(real.side_of(device))
            for memory, real in used.items()
            if device in real.homes
        }
        device.capacity = device.used_nbytes + ITEMSIZE
        fill(self.device.name, device.capacity)
        device.capacity = None
        for (memory, real), known in before.items():
            left = [window.array for window in real.windows(real.side_of(device))]
            for window in known:
                if not any(array is window.array for array in left):
                    hull = range(window.start // ITEMSIZE, window.stop // ITEMSIZE)
                    lent = [loan for loan in memory.borrows + memory.aliases if loan.side == GPU]
                    assert not any(overlap(loan.hull, hull) for loan in lent), "it was lent"
                    assert memory.exposed[GPU].isdisjoint(hull), "it was exposed"
                    assert GPU not in memory.foreign, "it was adopted"
                    self.moved["download"] += len(memory.evict(GPU, hull)) * ITEMSIZE
                    Program.evicted += 1

    # --- whole Blobs -----------------------------------------------------------------------------

    def adopt(self):
        base, side = self.base(), self.side()
        memory = base.memory
        values = self.fresh(base.cells)
        array = (self.device.host_array if side == CPU else self.device.array)(values)
        self.note(f"{base.name}.set_{side}_data(…)")
        setter = getattr(base.reached(side), f"set_{'cpu' if side == CPU else 'gpu'}_data")
        smaller = base.cells.size != memory.size
        if smaller and base.reached(side) is not base.blob:
            with pytest.raises(ValueError, match="bytes"):
                setter(array)
            return
        done, _ = self.announced(lambda: setter(array), memory.lent)
        if done and smaller:
            base.memory = Memory(values.ravel().tolist())
            base.memory.adopt(side)
            self.replaced(memory)
        elif done:
            self.end(memory.borrows)
            self.adopted(memory, side)
            memory.values = values.ravel().tolist()
            self.outside.pop(memory, None)

    def adopted(self, memory, side):
        """Record that a side was replaced."""
        memory.adopt(side)

    def share(self):
        one, other = self.parts[:2]
        if self.chance(0.5):
            one, other = other, one
        if one.cells.size != other.cells.size or one.memory is other.memory:
            return
        self.note(f"{one.name}.share_data({other.name})")
        done, _ = self.announced(lambda: one.blob.share_data(other.blob), one.memory.lent)
        if done:
            old, one.memory = one.memory, other.memory
            self.replaced(old)

    def resize(self):
        base = self.base()
        memory = base.memory
        if self.chance(0.3):
            shape = (memory.size + self.random.randint(1, 3),)
            self.note(f"{base.name}.resize{shape}")
            done, _ = self.announced(lambda: base.blob.resize(shape), memory.lent)
            if done:
                base.memory, base.cells = Memory([0] * shape[0]), arranged(shape)
                self.replaced(memory)
            return
        shape = self.shape(memory.size)
        self.note(f"{base.name}.resize{shape}")
        done, _ = self.announced(lambda: base.blob.resize(shape), [])
        assert done
        base.cells = arranged(shape)


# --- shared memory --------------------------------------------------------------------------------


class SharedProgram(Program):
    """A program on a device that shares the memory of the host, and runs its work late.

    Whoever lacks a wait sees what was there before, or poison. The program waits for work of its
    own, through arrays of the device, before it uses arrays of the host that it has kept.
    """

    moves = (*Program.moves, *["operate", "result", "look"] * 3)

    def __init__(self, number, device, sides):
        self.late = []
        super().__init__(number, device, sides)

    def settle(self):
        if Lent.wrote:
            self.synchronize()
        Lent.wrote = False

    def an_alias(self):
        self.settle()
        return super().an_alias()

    def write_borrow(self):
        self.settle()
        super().write_borrow()

    def write_outside(self):
        self.settle()
        super().write_outside()

    def start(self, part, name, plan):
        delay = self.controls.delay
        super().start(part, name, plan)
        self.controls.delay = delay

    def fail(self, part, plan, *_, **_push):
        """No copy can fail: there is none."""
        self.start(part, "async_gpu_push", plan)

    def press(self):
        """Nothing leaves a memory that is shared."""

    def computing(self):
        part = self.part(empty=False)
        return part if self.device.computes or part.device == CPU else None

    def result(self):
        """Compute a new Blob, and look at it later: its operand may be written meanwhile."""
        part = self.computing()
        if part is not None:
            self.note(f"{part.name} + 0")
            plan = part.memory.plan(part.device, "const", part.cells)
            done, result = self.use(part, "a result", plan, lambda: part.blob + 0)
            if done:
                self.late.append((result, np.array(part.memory.values, int)[part.cells]))

    def look(self):
        self.note("look at the results")
        for result, expected in self.late:
            found = result.cpu_data()
            assert np.array_equal(found, expected), f"computed {found}, must be {expected}"
        self.late.clear()

    def run(self, steps=STEPS):
        super().run(steps)
        self.look()
        assert not any(self.quantity().values())


# --- windows --------------------------------------------------------------------------------------


class WindowProgram(Program):
    """A program in which all accesses of parts on an accelerator get windows.

    The host is used first, because an access of a window holds nothing beside it. In half of the
    programs, aliases get windows, too, as on a device without room for the whole memory.
    """

    most_windows = 24

    moves = (*Program.moves, *["walk"] * 6, "evict")

    def __init__(self, number, device, sides):
        super().__init__(number, device, sides)
        # The window under each borrow.
        self.windows = {}
        # The parts that `walk` has made of each Blob.
        self.rows = {}
        self.count = self.random.randint(1, 4)

    def run(self, steps=STEPS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "_WHOLE", 0)
            patch.setattr(windows, "_MOST", 2.0)
            if self.chance(0.5):
                patch.setattr(SyncedMemory, "make_whole", lambda *_: None)
            self.touch()
            super().run(steps)

    def touch(self):
        for base in self.parts[:2]:
            if base.memory.untouched:
                self.read(base, CPU)

    def resize(self):
        self.rows.clear()
        super().resize()
        self.touch()

    def replaced(self, memory):
        self.rows.clear()
        super().replaced(memory)

    def check(self):
        for memory, real in {part.memory: part.blob.memory for part in self.parts}.items():
            for loan in memory.borrows:
                if loan.side == CPU:
                    continue
                side = real.side_of(accelerator(self.places[loan.side]))
                first, last = loan.hull.start * ITEMSIZE, loan.hull.stop * ITEMSIZE
                window = real.window_over(side, first, last)
                if self.windows.setdefault(loan, window) is not window:
                    loan.writeable = False
            self.end(loan for loan in memory.borrows if not loan.writeable)
            memory.take_back(())
        super().check()

    def unless_lent(self, action):
        """Do an action, unless a window would have to move from under an alias."""
        try:
            return action()
        except BufferError as error:
            if "cannot be moved" not in str(error):
                raise
            self.note("    stopped by an alias of a window")
            return False, None

    def announced(self, action, left):
        return self.unless_lent(partial(super().announced, action, left))

    def fail(self, *args, **keywords):
        self.unless_lent(partial(super().fail, *args, **keywords))

    def starve(self, *args):
        self.unless_lent(partial(super().starve, *args))

    def walk(self):
        """Read the parts of a Blob on its accelerator, in windows, and use all on the host."""
        base, count = self.base(), self.count
        if not base.cells.ndim:
            return
        # The same views as the last time: each knows the window that it has used.
        key = base.name, base.memory, base.cells.shape
        if key not in self.rows:
            indices = [slice(i, i + count) for i in range(0, len(base.cells), count)]
            self.rows[key] = [
                Part(
                    f"{base.name}[{shown((index,))}]",
                    base.blob[index],
                    base.memory,
                    base.cells[index],
                    base.device,
                )
                for index in indices
            ]
        for intent in self.random.choices(("", "const", "mutable", "overwrite"), k=3):
            for part in self.rows[key]:
                self.read(part, part.accelerator)
                self.check()
            if intent:
                self.access_of(base, CPU, intent)
                self.check()

    def evict(self):
        """Free the accelerator's buffers of a Blob."""
        base = self.base()
        memory, side = base.memory, base.accelerator
        self.note(f"{base.name}.evict('gpu')")
        self.check_moved()
        lent = any(alias.side == side and alias.hull for alias in memory.aliases)
        if lent or side in memory.foreign:
            with suppress(BufferError):
                base.blob.evict("gpu")
                pytest.fail("a lent or adopted buffer was freed")
            return
        base.blob.evict("gpu")
        self.moved["download"] += len(memory.evict(side, range(memory.size))) * ITEMSIZE
        ended = [loan for loan in memory.borrows if loan.side == side]
        self.end(ended)
        memory.take_back(ended)


# --- many programs --------------------------------------------------------------------------------


def some(numbers, device):
    """Return all numbers, or fewer on CUDA devices, where programs take longer."""
    return numbers if device is Simulated else numbers[::4]


def fill(device, nbytes):
    """Allocate a Blob on a device, if there is room without a wait."""
    with suppress(MemoryError):
        attempt(Blob(nbytes, "uint8", device=device).gpu_data)


def accessor(side, intent):
    """Return the name of the method for an access."""
    return f"{'' if intent == 'const' else intent + '_'}{'cpu' if side == CPU else 'gpu'}_data"


@pytest.fixture(autouse=True)
def _other_devices():
    """Let consumers import the library of the device of the test."""
    consumer.cache_clear()


@tiers.programs(100, 1500, variable="SYNCBLOB_PROGRAMS")
def test_programs_over_three_homes(numbers):
    run_programs(lambda number: Program(number, Simulated(), (CPU, GPU, FAR)), numbers)


@tiers.programs(200, 600, variable="SYNCBLOB_PROGRAMS")
@pytest.mark.parametrize("sides", [(CPU, GPU), (CPU, GPU, FAR)], ids=["two homes", "three"])
def test_programs_with_windows(numbers, sides):
    run_programs(lambda number: WindowProgram(number, Simulated(), sides), numbers)


@pytest.mark.parametrize("small", [False, True], ids=["exact", "small"])
@tiers.programs(200, 1000, variable="SYNCBLOB_PROGRAMS")
def test_no_program_sees_old_values_moves_too_much_or_loses_a_write_unannounced(
    numbers, program_device, monkeypatch, *, small
):
    monkeypatch.setattr(changes, "SMALL", SMALL if small else 0)
    monkeypatch.setattr(region_model, "SMALL", small)
    # A program keeps few arrays. Search them as if there were many.
    monkeypatch.setattr(loans, "_FEW", 1)
    numbers, before = some(numbers, program_device), Program.evicted
    run_programs(lambda number: Program(number, program_device(), (CPU, GPU)), numbers)
    if program_device is Simulated:
        assert Program.evicted - before > len(numbers)


@tiers.programs(60, 1200, variable="SYNCBLOB_PROGRAMS")
def test_no_program_in_shared_memory_lacks_a_wait_or_copies(numbers, shared_device, monkeypatch):
    monkeypatch.setattr(region_model, "ONE", True)
    run_programs(lambda number: SharedProgram(number, shared_device(), (CPU, GPU)), numbers)


@tiers.programs(40, 400, variable="SYNCBLOB_PROGRAMS")
def test_no_program_in_memory_shared_with_cuda_lacks_a_wait_or_copies(
    numbers, shared_cuda, monkeypatch
):
    monkeypatch.setattr(region_model, "ONE", True)
    run_programs(lambda number: SharedProgram(number, shared_cuda(), (CPU, GPU)), numbers)
