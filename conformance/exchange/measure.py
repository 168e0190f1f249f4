"""Measuring one library in a process of its own, over all cells.

``python -m conformance.exchange.measure NAME DONE SKIPPED`` writes a line for each cell, and one
before it, so that the driver knows which cell has ended the process. It leaves out the first DONE
cells, and those that are like the SKIPPED ones.
"""

import contextlib
import importlib
import inspect
import itertools
import json
import os
import platform
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

import syncblob
from benchmarks.calls import function
from conformance.exchange.cells import DTYPES, FORMS, NAME, STATES, Given, array_in, layouts_of
from syncblob import Blob
from syncblob.arrays import dlpack_capsules
from syncblob.interop.side_view import SideView

OWN = Path(syncblob.__file__).parent
SHAPES = {1: (12,), 2: (3, 4)}
IMPORTS = ("Blob.asarray(x)", "Blob.from_dlpack(x)")
OPERATORS = ("x + b", "b + x", "x == b", "b == x")


class Adapter:
    """What an adapter, a module of `adapters`, says about its library; most have defaults.

    `module`: the module. Its docstring names the library. REQUIRES lists what pip installs, and
        GROUP is the environment. TAKES lists the calls, with the Blob as `b`. ADVICE, if there is
        one, says what to do about its traps.
    `back`: returns the ndarray of what a call has returned, by the text of BACK; `numpy.asarray`
        by default.
    `write`: writes one into all elements of it, by WRITE; None if the library cannot.
    `make`: returns an array of the library with the contents of the ndarray `array`, over its
        memory if it can, by MAKE; None if it has no arrays.
    `one_axis`: ONE_AXIS, the calls that take arrays with one axis; the others get two.
    """

    def __init__(self, name: str) -> None:
        self.module: ModuleType = importlib.import_module(f"conformance.exchange.adapters.{name}")
        names = vars(self.module)
        self.takes: list[str] = names["TAKES"]
        self.back: Callable[[Any], Any] = self._function("BACK", "x") or np.asarray
        self.write = self._function("WRITE", "x")
        self.make = self._function("MAKE", "array")
        self.operators: tuple[str, ...] = OPERATORS if names.get("OPERATORS", self.make) else ()
        self.one_axis: list[str] = names.get("ONE_AXIS", [])
        # What arrays of the library have.
        self.ndim = self.ndim_of(self.takes[0])

    def _function(self, name: str, parameter: str) -> Callable[[Any], Any] | None:
        """Return the text of a name of the module, if there is one, as a function."""
        text = vars(self.module).get(name)
        return text and function(text, vars(self.module), parameter)

    def versions(self) -> dict[str, str]:
        """Return the versions of the library, of NumPy and of Python."""
        first = self.module.REQUIRES[0].partition("=")[0].partition("[")[0]
        names = dict.fromkeys([first, "numpy"])
        return {name: version(name) for name in names} | {"Python": platform.python_version()}

    def ndim_of(self, text: str) -> int:
        """Return the number of axes of what a call gets."""
        return 1 if text in self.one_axis else 2

    def call(self, text: str, **names: Any) -> Any:
        """Evaluate a call of the adapter."""
        return eval(text, vars(self.module) | names)  # noqa: S307  # the adapters are ours

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield the direction, the call and the axes of each cell."""
        for text in self.takes:
            layouts = layouts_of(self.ndim_of(text))
            yield from itertools.product(["given"], [text], DTYPES, layouts, STATES, FORMS)
        layouts = layouts_of(self.ndim)
        if self.make:
            yield from itertools.product(["taken"], IMPORTS, DTYPES, layouts)
        yield from itertools.product(["operator"], self.operators, DTYPES, STATES[:2])

    def measure(self, cell: tuple[str, ...]) -> Iterator[dict[str, str]]:
        """Measure a cell; yield what was found with a Blob, and then what an ndarray adds."""
        direction, *rest = cell
        with warnings.catch_warnings(record=True, action="always") as caught:
            for found in getattr(self, f"_{direction}")(*rest):
                kinds = [warning.category for warning in caught]
                if any(issubclass(kind, syncblob.StaleAliasWarning) for kind in kinds):
                    found["warns"] = "StaleAliasWarning"
                yield found

    # --- a Blob is given -------------------------------------------------------------------------

    def _given(  # the axes
        self, text: str, dtype: str, layout: str, state: str, form: str
    ) -> Iterator[dict[str, str]]:
        expected = array_in(SHAPES[self.ndim_of(text)], dtype, layout, writable=True)
        given = Given(SHAPES[self.ndim_of(text)], dtype, layout, state, form)
        with syncblob.record_transfers() as log:
            taken, found, protocols = self._took(text, given.blob, expected)
        found["by"] = ", ".join(dict.fromkeys(protocols)) or "nothing"
        if moved := [transfer.direction for transfer in log]:
            counts = Counter(moved).items()
            found["moves"] = ", ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in counts)
            own = [transfer.direction for transfer in log if transfer.name == NAME]
            if len(own) > len({*own}):
                found["again"] = "yes"
        if taken is not None:
            found["memory"] = self._memory(taken[0], given.sides())
        if taken is not None and self.write and expected.size:
            found["write"] = self._written(text, dtype, layout, state, form)
        del taken
        yield found
        for writable in (True, False):
            other = self._ndarray(text, dtype, layout, writable)
            found |= {f"numpy {key} {writable}": value for key, value in other.items()}
        yield found

    def _took(
        self, text: str, given: Any, expected: Any
    ) -> tuple[tuple[Any] | None, dict[str, str], list[str]]:
        """Make a call; return its result in a tuple, None if it raised, what was found, and how."""
        protocols: list[str] = []
        try:
            with recorded_protocols(protocols):
                taken = self.call(text, b=given)
            got = np.asarray(self.back(taken))
        except BaseException as error:  # noqa: BLE001  # libraries raise various errors
            return None, {"raises": described(error)}, protocols
        return (taken,), compared(got, expected), protocols

    def _memory(self, taken: Any, sides: list[np.ndarray[Any, Any]]) -> str:
        """Tell whether what was taken shares the bytes of a side, by its address or by a change."""
        if not sum(side.size for side in sides):
            return "empty"
        got = np.asarray(self.back(taken))
        address = got.ctypes.data
        if any(0 <= address - side.ctypes.data < side.nbytes for side in sides):
            return "shared"
        before = got.tobytes()
        kept = [side.copy() for side in sides]
        for side in sides:
            side[...] = 0 if side.any() else 1
        changed = np.asarray(self.back(taken)).tobytes() != before
        for side, was in zip(sides, kept, strict=True):
            side[...] = was
        return "shared" if changed else "copied"

    def _written(self, text: str, dtype: str, layout: str, state: str, form: str) -> str:
        """Write into what a call returns, and tell where the write has arrived."""
        given = Given(SHAPES[self.ndim_of(text)], dtype, layout, state, form)
        old = np.array(given.blob)
        given = Given(SHAPES[self.ndim_of(text)], dtype, layout, state, form)
        protocols: list[str] = []
        with recorded_protocols(protocols):
            taken = self.call(text, b=given.blob)
        before = [side.copy() for side in given.sides()]
        try:
            self.write(taken)  # type: ignore[misc]  # it has one
        except BaseException as error:  # noqa: BLE001  # as above
            after = given.sides()[: len(before)]
            same = all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
            return "raises" if same else f"raises {type(error).__name__} after a write"
        after = given.sides()[: len(before)]
        changed = not all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
        new = np.ones_like(old)
        wanted = new if changed else old
        seen = [np.array(given.blob)]
        if state != "host":
            seen.append(np.array(given.blob.on("simulated:0").copy()))
        reaches = all(np.array_equal(x, wanted) for x in seen)
        if not changed:
            return "stays outside" if reaches else "is lost"
        if protocols and protocols[-1].endswith("const"):
            return "ignores that it is read-only"
        return "reaches the Blob" if reaches else "is lost"

    @cache  # noqa: B019  # the process ends with the adapter
    def _ndarray(self, text: str, dtype: str, layout: str, writable: bool) -> dict[str, str]:
        """Return what a call does with an ndarray in place of a Blob."""
        array = array_in(SHAPES[self.ndim_of(text)], dtype, layout, writable=writable)
        expected = array.copy()
        given = Stand(array) if "b.cpu" in text or "b.const" in text else array
        taken, found, _ = self._took(text, given, expected)
        if taken is not None:
            found["memory"] = self._memory(taken[0], [bytes_of(array)])
        return found

    # --- a Blob is made --------------------------------------------------------------------------

    def _taken(self, text: str, dtype: str, layout: str) -> Iterator[dict[str, str]]:
        array = array_in(SHAPES[self.ndim], dtype, layout, writable=True)
        try:
            x = self.make(array)  # type: ignore[misc]  # it has one
            expected = np.array(self.back(x))
        except BaseException as error:  # noqa: BLE001  # as above
            yield {"has none": type(error).__name__}
            return
        found: dict[str, str] = {}
        other: dict[str, str] = {}
        try:
            blob = eval(text, {"Blob": Blob, "x": x})  # noqa: S307  # ours
            found = compared(np.array(blob), expected)
            seen = "shared" if self._seen(x, blob) else "copied"
            found["memory"] = seen if expected.size else "empty"
        except BaseException as error:  # noqa: BLE001  # as above
            found = {"raises": described(error)}
        yield found
        x = self.make(array_in(SHAPES[self.ndim], dtype, layout, writable=True))  # type: ignore[misc]  # it has one
        try:
            got = np.asarray(x) if "asarray" in text else np.from_dlpack(x)
            other = compared(got, expected)
            dense = got.flags.writeable and got.flags.aligned and got.flags.forc
            shared = dense and got.ctypes.data == np.asarray(self.back(x)).ctypes.data
            other["memory"] = "shared" if shared and expected.size else "copied"
        except BaseException as error:  # noqa: BLE001  # as above
            other = {"raises": described(error)}
        yield found | {f"numpy {key} True": value for key, value in other.items()}

    def _seen(self, x: Any, blob: Blob) -> bool:
        """Return whether an array sees what is written into a Blob."""
        before = np.array(self.back(x))
        blob[...] = 1
        return not np.array_equal(before, np.asarray(self.back(x))) or (
            bool(before.size)
            and np.asarray(self.back(x)).ctypes.data == np.asarray(blob).ctypes.data
        )

    # --- operators -------------------------------------------------------------------------------

    def _operator(self, text: str, dtype: str, state: str) -> Iterator[dict[str, str]]:
        array = array_in(SHAPES[self.ndim], dtype, "C", writable=True)
        try:
            x = self.make(array) if self.make else self.call(self.takes[0], b=array)
        except BaseException as error:  # noqa: BLE001  # as above
            yield {"has none": type(error).__name__}
            return
        expected = eval(text, {"x": array, "b": array})  # noqa: S307  # ours
        found: dict[str, str] = {}
        for b in (Given(SHAPES[self.ndim], dtype, "C", state, "writable").blob, array):
            one = self._computed(text, x, b, expected)
            found |= one if not found else {f"numpy {key} True": x for key, x in one.items()}
            yield found

    def _computed(self, text: str, x: Any, b: Any, expected: Any) -> dict[str, str]:
        """Compute an operator, and describe its result."""
        try:
            result = eval(text, {"x": x, "b": b})  # noqa: S307  # ours
            if isinstance(result, bool):
                return {"returns": "bool", "values": "wrong"}
            got = np.asarray(result if isinstance(result, Blob) else self.back(result))
        except BaseException as error:  # noqa: BLE001  # as above
            return {"raises": described(error)}
        kind = type(result)
        name = "Blob" if kind is Blob else f"{kind.__module__.split('.')[0]}.{kind.__name__}"
        return {"returns": name} | compared(got, expected)


class Stand:
    """An ndarray in place of a Blob whose side is named, as in ``b.cpu``."""

    def __init__(self, array: Any) -> None:
        self.cpu = self.const = array


def bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the memory of an array of `cells` as bytes."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.view(np.uint8).reshape(-1)


def compared(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> dict[str, str]:
    """Tell how an array differs from what was expected."""
    found = {"values": "right"}
    numbers = got.dtype.kind in "biufc" or got.dtype.name == "bfloat16"
    if got.shape != expected.shape:
        found["shape"] = f"{got.ndim} axes" if got.ndim != expected.ndim else "another shape"
    if got.dtype != expected.dtype:
        found["dtype"] = got.dtype.name
    try:
        same = np.array_equal(got.reshape(expected.shape).astype(complex), expected.astype(complex))
    except (TypeError, ValueError):
        same = False
    return found if same and numbers else found | {"values": "wrong"}


def described(error: BaseException) -> str:
    """Return whose error it is, its type, and its first line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = bool(frames) and OWN in Path(frames[-1].filename).parents
    first = (str(error).strip().splitlines() or [""])[0][:160]
    return f"{'ours' if ours else 'theirs'} {type(error).__name__}: {first}"


# --- which protocols a library calls --------------------------------------------------------------

_METHODS = """
    __array__ __dlpack__ __arrow_array__ __array_ufunc__ __array_function__ __torch_function__
    __getitem__ __iter__ __float__ __int__ __index__ __complex__ to_numpy tolist
    """.split()  # noqa: SIM905  # reads best as words
_PROPERTIES = """
    __arrow_c_array__ __jax_array__ __cuda_array_interface__ __cupy_get_ndarray__
    """.split()  # noqa: SIM905  # as above
# The methods that are shown with their keywords, and the names of their positional arguments.
_KEYWORDS = {"__array__": ("dtype", "copy"), "__dlpack__": ()}


@contextlib.contextmanager
def recorded_protocols(calls: list[str]) -> Iterator[None]:
    """Record which protocols of Blobs are called from outside, and with which keywords."""
    depth = [0]

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            depth[0] += 1
            result = None
            try:
                result = function(self, *args, **kwargs)
            finally:
                depth[0] -= 1
                if not depth[0] and (result is not None or name in _METHODS):
                    calls.append(_text(name, args, kwargs, result))
            return result

        return method

    with contextlib.ExitStack() as stack:
        for owner, name in itertools.product((Blob, SideView), (*_METHODS, *_PROPERTIES)):
            match inspect.getattr_static(owner, name, None):
                case property(fget=function):
                    new: Any = property(noting(name, function))
                case classmethod(__func__=function):
                    new = classmethod(noting(name, function))
                case None:
                    continue
                case function:
                    new = noting(name, function)
            stack.enter_context(mock.patch.object(owner, name, new))
        yield


def _text(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> str:
    """Describe a call of a protocol; `const` is at its end if the consumer must not write."""
    if name not in _KEYWORDS:
        return f"`{name}`"
    named = dict(zip(_KEYWORDS[name], args, strict=False)) | kwargs
    words = ", ".join(f"{key}={value}" for key, value in named.items() if value is not None)
    const = isinstance(result, np.ndarray) and not result.flags.writeable
    if name == "__dlpack__" and result is not None:
        with contextlib.suppress(BufferError):
            const = dlpack_capsules.is_read_only(result) and "max_version" in named
    return f"`{name}({words})`{' const' if const else ''}"


def main(name: str, done: int, skipped: list[list[Any]]) -> None:
    """Measure the cells of a library, and print a line before each, and for what was found.

    Each item of `skipped` has a call, one of its layouts or states, and the number of findings of
    such a cell that are still measured: 0, or 1 for that of a Blob, without that of an ndarray.
    """
    # What a library prints, also from C, is no line of these.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    adapter = Adapter(name)
    limits = {(call, axis): limit for call, axis, limit in skipped}
    cells = list(adapter.cells())
    say(cells=len(cells), versions=adapter.versions())
    for index, cell in enumerate(cells[done:], done):
        say(begins=index, cell=cell)
        limit = limits.get((cell[1], cell[3]))
        for found in itertools.islice(adapter.measure(cell), limit):
            say(found=found)
    say(ends=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
