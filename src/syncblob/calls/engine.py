"""The engine of calls: a plan for each function and the types of its arguments.

A plan says what the arguments are: read, written, or neither. It composes the text of a function,
`run`, that makes the call if all arrays are at hand on one device. A loop over the arguments would
take longer than many calls. Everything else is left to `make_call`, which inspects the arguments.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from keyword import iskeyword
from textwrap import indent
from typing import TYPE_CHECKING, Any

from numpy import asarray, ndarray

from syncblob._dtypes import SCALAR_CLASSES, SUPPORTED
from syncblob.blob.core import BlobCore, fresh
from syncblob.calls.in_parts import compute_in_room
from syncblob.calls.operands import is_leaf, shape_only
from syncblob.calls.results import array_beside, end_write, give, overwrite_by
from syncblob.calls.tables import INDICES, Arguments, Key, Rules, keeps_dtype, split_keys
from syncblob.devices import HOST, supervisors
from syncblob.devices.host import LARGE
from syncblob.interop.adopt import array_in
from syncblob.memory import CONST, MUTABLE
from syncblob.memory.operations import line
from syncblob.transfers import may_compute_directly

if TYPE_CHECKING:
    from syncblob.calls.results import Operand
    from syncblob.devices.base import Home

# --- the text -------------------------------------------------------------------------------------

# Steps use what this module imports. Argument n is {x}, and its array a{n}. What cannot go on
# leaves the call to `begin`; until then nothing has changed.
# On a device that queues work. Its arrays are not in use any more when the call has to begin again.
_QUEUE = """
def run({signature}):
    home = like.home
"""
_START = f"""{_QUEUE}
    if not home.plain:
        return elsewhere(like, {{given}})
"""
# In this order; see `BlobCore`.
_TARGET = """
    if {x}.readonly:
        {x}.require_writable(name)
    target, a{n} = {x}.shortcut, {x}.raw_array
"""
_HOME = """
    if {x}.home is not home:
        return begin(like, {given})
"""
_TARGET_TO_READ = """
    if a{n} is None or not target.readable:
        return begin(like, {given})
"""
# What is overwritten is computed beside it, if it is newer elsewhere.
_TARGET_LATE = """
    late = a{n} is None or not target.readable
    if late:
        a{n} = array_beside({x}, home)
        if a{n} is None:
            return begin(like, {given})
"""
_TARGET_NDARRAY = """
    a{n} = {x}
    if home is not HOST or not a{n}.flags.writeable:
        return begin(like, {given})
"""
_BLOB = """
    shortcut, a{n} = {x}.shortcut, {x}.raw_array
    if a{n} is None or not shortcut.readable:
        a{n} = bring({x}, home, {given})
        if a{n} is None:
            return begin(like, {given})
"""
_KNOW = """
    if {x}.dtype not in SUPPORTED:
        return foreign({signature})
"""
_NDARRAY = """
    a{n} = {x} if home is HOST else bring({x}, home, {given})
    if a{n} is None:
        return begin(like, {given})
"""
_ITEMS = """
    items{n} = []
    a{n} = _arrays_in({x}, home, items{n})
    if a{n} is None:
        items{n}.clear()
        a{n} = bring({x}, home, {given}, operands=items{n})
        if a{n} is None:
            return begin(like, {given})
"""
# Only shape and dtype are used.
_SHAPE = """
    a{n} = shape_only({x})
"""
_ASK = """
    if supervisors and not may_compute_directly(home, name):
        return begin(like, {given})
"""
# Which gives a large result aligned memory.
_ASK_IF_LARGE = """
    if home is HOST and ({large}):
        return begin(like, {given})
"""
_KEEP = """
    if not ({same}keeps_dtype(native, a0.dtype, {other})):
        return begin(like, {given})
"""
# The result of an elementwise function is a new array.
_NEW = """
    if type(result) is ndarray:
        return fresh(type(like), result, home)
"""
_CALL = """
    result = native({call})
"""
_CALL_QUEUED = """
    if line:
        # Others may have waited longer for memory.
        return None
    result = {compute}
    if getattr(result, "base", like) is None and result.dtype in SUPPORTED{apart}:
        return fresh(type(like), result, home)
    return give(result, rules, like, home, ({operands}))
"""
_ITEM = """
    for array, _ in items{n}:
        if result is array:
            return give(result, rules, like, home, ({operands}))
"""
# The usual results, in as few steps as possible.
_GIVE = """
    kind = type(result)
    if kind is ndarray:
        if result.base is None and result.dtype in SUPPORTED{apart}:
            return fresh(type(like), result, home)
    elif kind in SCALAR_CLASSES:
        return fresh(type(like), asarray(result), home)
    return give(result, rules, like, home, ({operands}))
"""
_WRITE = """
    if not target.writable:
        {check}
        a{n} = {x}.array_in(home, MUTABLE, name)
        target = {x}.shortcut
    writers, note = home.writers, None
    try:
        if writers is not None:
            note = object()
            writers[note] = target
            # The shortcut may have been revoked while the array was written.
            if not (target.writable and {x}.raw_array is a{n}):
                del writers[note]
                return begin(like, {given})
        try:
            result = {compute}
        except (TypeError, ValueError):
            {check}
            raise
        finally:
            if not {x}.shortcut.writable:
                end_write({x}, home, a{n}, name)
    finally:
        # Without a call before, so that no interrupt leaves the note.
        if note is not None:
            writers.pop(note, None)
"""
_RETURN = """
    if result is None:
        return None
    return {x} if result is a{n} else give(result, rules, like, home, ({operands}))
"""
_WRITE_LATE = f"""
    if late:
        result = native({{call}})
        # For an `out` without axes, `np.dot` returns a number.
        if result is None or result is a{{n}} or type(result) in SCALAR_CLASSES:
            overwrite_by({{x}}, a{{n}}, name, {{x}}.layout)
{indent(_RETURN, "    ")}
"""
_STEPS = {
    "target": _TARGET + _HOME + _TARGET_TO_READ,
    "overwritten": _TARGET + _HOME + _TARGET_LATE,
    "target ndarray": _TARGET_NDARRAY,
    "Blob": _BLOB,
    "ndarray": _NDARRAY,
    "items": _ITEMS,
    "shape": _SHAPE,
}
_TARGETS = ("target", "overwritten", "target ndarray")
_WRITES = {"target": _WRITE, "overwritten": _WRITE_LATE + _WRITE, "target ndarray": _CALL}
_ARRAYS = (*_TARGETS, "Blob", "ndarray", "shape")


@lru_cache(maxsize=1024)
def maker_of(
    text: str, names: tuple[str, ...], module: str = __name__
) -> Callable[..., Callable[..., Any]]:
    """Compile a text, which defines `run`; return what makes that, given the values of names.

    It uses what a module has. Tracebacks show the steps, and the file of that.
    """
    text = f"def make({', '.join(names)}):{indent(text, '    ')}    return run"
    known = vars(sys.modules[module])
    where = f"{known['__file__']}: text {maker_of.cache_info().misses % 1024}"
    linecache.cache[where] = len(text), None, text.splitlines(keepends=True), where
    variables: dict[str, Any] = {}
    exec(compile(text, where, "exec"), known, variables)  # noqa: S102  # texts of this module
    made: Callable[..., Callable[..., Any]] = variables["make"]
    return made


def arguments(values: Sequence[str], names: Sequence[str]) -> str:
    """Return the text of the arguments of a call, of which the last have names."""
    count = len(values) - len(names)
    texts = [
        f"{name}={x}" if name.isidentifier() and not iskeyword(name) else f"**{{{name!r}: {x}}}"
        for name, x in zip(names, values[count:], strict=True)
    ]
    return ", ".join([*values[:count], *texts])


def in_order(function: Callable[..., Any], given: Arguments) -> Callable[..., Any]:
    """Return a function that takes all arguments by position, in the order of their keys."""
    names = split_keys(given)[1]
    if not names:
        return function
    values = [f"x{n}" for n in range(len(given))]
    text = f"\ndef run({', '.join(values)}):\n    return function({arguments(values, names)})\n"
    return maker_of(text, ("function",))(function)


# --- plans ----------------------------------------------------------------------------------------


def _decline(*_call: Any) -> None:
    """Stand for what cannot be done at once."""


class Plan:
    """What calls of a function do with arguments of certain types.

    Arguments are numbered: those by position first, then those by keyword. `run` makes a call. It
    gets the arguments in this order, and before them the Blob whose class results have, unless that
    is argument `like`. `foreign` makes calls with ndarrays that `run` does not take.
    """

    def __init__(
        self, rules: Rules, kinds: Arguments, foreign: Any = None, like: int | None = None
    ) -> None:
        self._like: int | None = like
        self._rules: Rules = rules
        self._keys: list[Key] = [*kinds]
        self._names: tuple[str, ...] = split_keys(kinds)[1]
        self._roles: dict[int, str] = _roles(rules, kinds)
        self._foreign: Any = foreign or self.begin
        self._queue: Any = None
        self._target: int | None = next((n for n, x in self._roles.items() if x == "target"), None)
        self._items: list[int] = [n for n, role in self._roles.items() if role == "items"]
        self.run: Callable[..., Any] = self.begin
        if self._roles:
            self.run = self._make_run(_START, self.begin, self._bring)

    def _make_run(self, start: str, begin: Any, bring: Any) -> Callable[..., Any]:
        given = {"begin": begin, "bring": bring, "elsewhere": self._elsewhere}
        given |= {"foreign": self._foreign, "rules": self._rules, **self._rules._asdict()}
        return maker_of(self._text(start), (*given,))(*given.values())

    def _text(self, start: str) -> str:
        roles, in_place = self._roles, self._rules.check is not None
        arrays = [n for n, role in roles.items() if role in _ARRAYS]
        names = [f"x{n}" for n in range(len(self._keys))]
        if self._like is not None:
            names[self._like] = "like"
        own = [f"a{n}" if n in {*arrays, *self._items} else name for n, name in enumerate(names)]
        call = arguments(own, self._names)
        owners = [f"(a{n}, {'None' if roles[n] == 'ndarray' else names[n]}), " for n in arrays]
        given = ", ".join(names)
        words = {
            "given": given,
            "signature": f"like, {given}" if self._like is None else given,
            "call": f"{call}, a0" if in_place else call,
            "operands": "".join([*owners, *(f"*items{n}, " for n in self._items)]),
            "apart": "".join(f" and result is not a{n}" for n in arrays),
            "check": f"check(native, a0, {own[-1]})" if in_place else "pass",
            "large": " or ".join(f"a{n}.nbytes >= LARGE" for n in arrays),
            # Most kernels keep the common dtype.
            "same": "a0.dtype is a1.dtype or " * (own[-1] == "a1"),
            "other": "a1.dtype" if own[-1] == "a1" else f"type({own[-1]})",
        }
        words["compute"] = f"native({words['call']})"
        if start is _QUEUE:
            own_ones = self._rules.by_name or self._rules.with_library
            function = "rules.function_in(home, by_name=rules.by_name)" if own_ones else "function"
            words["compute"] = f"home.compute({function}, {words['call']})"
        target = next((n for n in arrays if roles[n] in _TARGETS), None)
        # What is written is looked at first, and changed last.
        target_first = sorted(roles, key=lambda n: n != target)
        steps = [(start, 0)]
        steps += [(_KNOW, n) for n in arrays if roles[n] == "ndarray"]
        steps += [(_HOME, n) for n in arrays if roles[n] == "Blob" and n != self._like]
        steps += [(_STEPS[roles[n]], n) for n in target_first]
        if start is _QUEUE:
            write = _KEEP + _WRITE + _RETURN
            steps += [(_CALL_QUEUED, 0) if target is None else (write, target)]
        elif target is not None:
            write = _KEEP * in_place + _WRITES[roles[target]]
            steps += [(_ASK, 0), (write, target), (_RETURN, target)]
        else:
            elementwise = self._rules.elementwise and not self._names
            steps += [(_ASK_IF_LARGE, 0)] * elementwise + [(_ASK, 0), (_CALL, 0)]
            steps += [(_NEW, 0)] * elementwise + [(_ITEM, n) for n in self._items] + [(_GIVE, 0)]
        return "".join(step.format(n=n, x=names[n], **words) for step, n in steps)

    # --- what the text calls ---------------------------------------------------------------------

    def begin(self, like: Any, *values: Any) -> Any:
        """Make a call by inspecting its arguments; again if others use the room that it lacks."""
        return compute_in_room(self._rules, like, dict(zip(self._keys, values, strict=True)))

    def _elsewhere(self, like: Any, *values: Any) -> Any:
        """Make a call on a device for which room may have to be made, or that queues work."""
        call = values if self._like is not None else (like, *values)
        if like.home.queues and not supervisors:
            if self._queue is None:
                known = {"Blob", *(["target"] if self._rules.check else [])}
                indexes = self._rules.function in INDICES
                simple = not indexes and known >= {*self._roles.values()}
                self._queue = self._make_run(_QUEUE, _decline, _decline) if simple else _decline
            with suppress(MemoryError):
                result = self._queue(*call)
                if result is not None:
                    return result
        if "ndarray" in self._roles.values():
            return self._foreign(*call)
        return self.begin(like, *values)

    def _bring(self, x: Any, home: Home, *values: Any, operands: Any = None) -> Any:
        """Bring a Blob, an ndarray, or the items of a list; None if the call has to begin."""
        ready = self._target is None or values[self._target].shortcut.readable
        # A call that is certain may copy, once. Lists are looked at first: `id` copies nothing.
        certain = ready and home.plain and not supervisors
        for n in self._items if certain else ():
            certain = certain and _arrays_in(values[n], home, [], id) is not None
        if certain and self._rules.check is not None:
            self._rules.check(self._rules.native, *values)
        if isinstance(x, BlobCore):
            return x.array_in(home, CONST, self._rules.name) if certain else x.current_array()
        if not certain or operands is None:
            return array_in(home, x, self._rules.name) if certain else None
        return _arrays_in(x, home, operands, partial(_bring_item, home, self._rules.name))


def _bring_item(home: Home, name: str, x: Any) -> Any:
    """Bring a Blob's array up to date, or upload an ndarray."""
    return x.array_in(home, CONST, name) if isinstance(x, BlobCore) else array_in(home, x, name)


def _arrays_in(items: Any, home: Home, operands: list[Operand], bring: Any = _decline) -> Any:
    """Return a list or tuple with arrays in place of Blobs; `bring` has others, or returns None."""
    arrays: list[Any] = []
    for item in items:
        kind = type(item)
        array: Any = item
        if isinstance(item, BlobCore):
            if item.home is not home:
                return None
            shortcut, array = item.shortcut, item.raw_array
            if array is None or not shortcut.readable:
                array = bring(item)
            operands.append((array, item))
        elif kind is ndarray and (home is HOST or item.dtype in SUPPORTED):
            array = item if home is HOST else bring(item)
            operands.append((array, None))
        elif kind is list or kind is tuple:
            array = _arrays_in(item, home, operands, bring)
        elif not is_leaf(kind):
            return None
        if array is None and item is not None:
            return None
        arrays.append(array)
    return arrays if type(items) is list else tuple(arrays)


def _roles(rules: Rules, kinds: Arguments) -> dict[int, str]:
    """Return what arguments are; nothing if each call has to inspect them."""
    written = {key: x for key, x in rules.written(kinds).items() if kinds[key] is not type(None)}
    plain = rules.plain(kinds)
    roles: dict[int, str] = {}
    usual = rules.home is None and len(written) <= 1
    for number, (key, kind) in enumerate(kinds.items()):
        blob = issubclass(kind, BlobCore)
        if key in written:
            usual = usual and (blob or kind is ndarray)
            target = "overwritten" if written[key] else "target"
            roles[number] = target if blob else "target ndarray"
        elif blob:
            roles[number] = "shape" if rules.empty else "Blob"
        elif kind in {list, tuple}:
            if key not in plain:
                roles[number] = "items"
        elif kind is ndarray and key not in plain:
            roles[number] = "ndarray"
        else:
            usual = usual and is_leaf(kind)
    # Without a Blob among the arguments, one was passed as NumPy's ``like=``.
    alone = {"ndarray", "target ndarray"}.issuperset(roles.values())
    return roles if usual and not alone else {}


# --- plans by function and types ------------------------------------------------------------------

# Programs have far fewer functions, and patterns of arguments of one. The limit keeps functions and
# classes that are created repeatedly from accumulating.
_MOST = 1024


class Cache(dict[Any, Any]):
    """Values that a function makes of their keys."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self._make: Callable[[Any], Any] = make

    def __missing__(self, key: Any) -> Any:
        """Make a value."""
        if len(self) >= _MOST:
            self.clear()
        made = self[key] = self._make(key)
        return made


def plans_of(rules: Any) -> Cache:
    """Return what makes the calls of one function, by the types of the arguments.

    A key is the type of the only argument, or a tuple of types. A tuple of the names of the last
    ones may come first.
    """

    def plan(key: Any) -> Callable[..., Any]:
        kinds = key if type(key) is tuple else (key,)
        names, kinds = (kinds[0], kinds[1:]) if type(kinds[0]) is tuple else ((), kinds)
        keys = (*range(len(kinds) - len(names)), *names)
        by_key = dict(zip(keys, kinds, strict=True))
        made: Callable[..., Any]
        made = rules.plan(rules, by_key) if rules.plan else Plan(rules, by_key).run
        return made

    return Cache(plan)


def plans_by_function(rules_of: Callable[..., Any]) -> Cache:
    """Return the plans of functions of one sort, of which another function returns the rules."""
    return Cache(lambda function: plans_of(rules_of(function)))
