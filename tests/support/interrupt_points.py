"""Interrupts at each place where CPython can deliver one.

CPython runs signal handlers at the start of a function, after each call, and at backward jumps. A
trace function sees each instruction before it is executed, and raises in more places than that:
also before operators and attributes, which might run Python code. It leaves out instructions that
only move values, and calls that leave a ``with`` block, release a lock, or pop an item of a
built-in container, because no handler can run before these. A profile function raises when a C
function returns, after the function has done its work.
"""

import dis
import itertools
import sys
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from inspect import signature
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import syncblob

_PACKAGE = str(Path(syncblob.__file__).parent)

# Instructions that call nothing and before which no signal handler can run.
_SILENT = frozenset(
    """
    CACHE CACHE_RESERVED COPY COPY_FREE_VARS END_FOR END_SEND EXTENDED_ARG IS_OP JUMP_FORWARD
    KW_NAMES LOAD_ASSERTION_ERROR LOAD_CLOSURE LOAD_CONST LOAD_DEREF LOAD_FAST LOAD_FAST_AND_CLEAR
    LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_GLOBAL LOAD_SPECIAL MAKE_CELL NOP NOT_TAKEN POP_EXCEPT
    POP_ITER POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE
    POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE
    POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP PRECALL PUSH_EXC_INFO PUSH_NULL RERAISE
    RETURN_CONST RETURN_GENERATOR RETURN_VALUE STORE_ATTR STORE_DEREF STORE_FAST
    STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST SWAP TO_BOOL WITH_EXCEPT_START
    """.split()
)


class Interrupt(KeyboardInterrupt):
    """The exception that is raised."""


class Point(NamedTuple):
    """A place that a run passes, and the number of the pass."""

    kind: str
    code: CodeType
    offset: int
    time: int

    def __str__(self):
        """Name the line."""
        lines = [line for start, end, line in self.code.co_lines() if start <= self.offset < end]
        return f"{self.kind} of {self.code.co_qualname}, {self.code.co_filename}:{lines}"


@cache
def _audible(code):
    """Return the offsets of the instructions before which a handler may run, or nearly so."""
    instructions = [i for i in dis.get_instructions(code) if i.opname != "PRECALL"]
    found = set()
    stored = False
    for place, instruction in enumerate(instructions):
        before = [(i.opname, i.argval) for i in instructions[max(0, place - 3) : place]]
        leaves = before == [("LOAD_CONST", None)] * 3 or ("LOAD_FAST", "release") in before[1:]
        leaves = leaves or "pop" in [argument for _, argument in before]
        silent = (instruction.opname == "CALL" and leaves) or instruction.argval == "pop"
        # Nothing is called from one item that is stored to the next.
        store = instruction.opname == "STORE_SUBSCR"
        silent = silent or (store and stored)
        stored = store or (stored and instruction.opname in _SILENT)
        if instruction.opname not in _SILENT and not silent:
            found.add(instruction.offset)
    return frozenset(found)


@cache
def _after_checks(code):
    """Return the offsets of the instructions before which another thread may run."""
    found, follows = set(), False
    for instruction in dis.get_instructions(code):
        if instruction.opname == "PRECALL":
            continue
        if follows:
            found.add(instruction.offset)
        follows = instruction.opname == "RESUME" or instruction.opname.startswith("CALL")
        if instruction.opname == "JUMP_BACKWARD":
            found.add(instruction.argval)
    return frozenset(found)


class _Tracer:
    """Counts passes of places, and raises at one of them."""

    def __init__(self, target):
        self.target = target
        self.times = {}
        self.raised = False

    def trace(self, frame, _event, _arg):
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE) or (self.target and code != self.target.code):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        offsets = _audible(code)

        def step(frame, event, _arg):
            if event == "opcode" and frame.f_lasti in offsets:
                self._pass("instruction", code, frame.f_lasti)
            return step

        return step

    def profile(self, frame, event, _arg):
        code = frame.f_code
        if event == "c_return" and code.co_filename.startswith(_PACKAGE):
            self._pass("return", code, frame.f_lasti)

    def _pass(self, kind, code, offset):
        if self.raised:
            return
        place = (kind, code, offset)
        time = self.times[place] = self.times.get(place, 0) + 1
        if self.target == (*place, time):
            self.raised = True
            raise Interrupt


@contextmanager
def _running(tracer):
    outside = sys.gettrace(), sys.getprofile()
    kinds = [tracer.target.kind] if tracer.target else ["return", "instruction"]
    if "return" in kinds:
        sys.setprofile(tracer.profile)
    if "instruction" in kinds:
        sys.settrace(tracer.trace)
    try:
        yield
    finally:
        sys.settrace(outside[0])
        sys.setprofile(outside[1])


def done_meanwhile(work, before, action):
    """Do work, and an action at one of the places where CPython may run another thread.

    It may also run a signal handler there: after a call, at the start of a function, and at a
    backward jump. A RuntimeError of the action is ignored, because in the middle of a transfer it
    is refused. Returns whether there are so many places.

    Python 3.13 does not report all opcodes. There, the places are those that a profile function
    sees: after calls of C functions, and at the start of functions.
    """
    places = itertools.count()
    came = False

    def come():
        nonlocal came
        came = True
        stop()
        with suppress(RuntimeError):
            action()

    def profile(frame, event, _argument):
        here = event in {"call", "c_return"} and frame.f_code.co_filename.startswith(_PACKAGE)
        if here and next(places) == before:
            come()

    def trace(frame, _event, _argument):
        if came or not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        offsets = _after_checks(frame.f_code)

        def step(frame, event, _argument):
            if event == "opcode" and frame.f_lasti in offsets and next(places) == before:
                come()
            return None if came else step

        return step

    if sys.version_info >= (3, 13):
        stop = partial(sys.setprofile, sys.getprofile())
        sys.setprofile(profile)
    else:
        stop = partial(sys.settrace, sys.gettrace())
        sys.settrace(trace)
    try:
        work()
    finally:
        stop()
    return came


def at_each_place(test):
    """Repeat a test with `done_meanwhile` at each of its places: in the argument `meanwhile`.

    The test does some work by ``meanwhile(work, action)``, once.
    """

    def at(place, arguments):
        came = []

        def meanwhile(work, action):
            came.append(done_meanwhile(work, place, action))

        try:
            test(meanwhile, **arguments)
        except BaseException as error:
            error.add_note(f"at place {place}")
            raise
        return came == [True]

    @wraps(test)
    def repeated(**arguments):
        assert at(0, arguments), "there is no place"
        assert any(not at(place, arguments) for place in itertools.count(1))

    parameters = signature(test).parameters.values()
    repeated.__signature__ = signature(test).replace(parameters=list(parameters)[1:])
    return repeated


@contextmanager
def points_of():
    """Collect the places passed inside a ``with`` block. Complete after the block."""
    tracer = _Tracer(None)
    found = []
    with _running(tracer):
        yield found
    # The first pass and the last one: those in between repeat them.
    for place, times in tracer.times.items():
        found += [Point(*place, time) for time in sorted({1, times})]


@contextmanager
def interrupted_at(point):
    """Raise an Interrupt at a place, once, inside a ``with`` block."""
    with _running(_Tracer(point)):
        yield
