"""Plans of calls, made once for each function and pattern of arguments.

A pattern is the types of the positional arguments, and the keywords with their types. A plan
records which arguments are Blobs, which may contain Blobs, which are written, and which
implementation NumPy runs. Each call checks only what depends on a Blob's state: whether its kept
array is current.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SCALAR_CLASSES, SCALARS, SUPPORTED
from syncblob._layout import Layout
from syncblob.arrays.foreign import is_stranger
from syncblob.arrays.native import backend_of, native_array
from syncblob.blob.core import BlobCore
from syncblob.blob.eviction import compute
from syncblob.blob.operands import require_device_of
from syncblob.devices import HOST
from syncblob.dispatch.numpy import tables
from syncblob.dispatch.numpy.foreign_protocols import function_with_strangers
from syncblob.dispatch.numpy.general_call import (
    LEAVES,
    Operands,
    call,
    joined,
    shape_only,
    split,
)
from syncblob.dispatch.numpy.view_calls import call_for_views, viewed_arguments
from syncblob.dispatch.walk import instances, mapped, replaced
from syncblob.guards import require_device
from syncblob.memory import laid

if TYPE_CHECKING:
    from syncblob.devices.base import Home

# An array that is passed to a function, and the Blob that it replaces.
_Operand = tuple[Any, Any]
Args = tuple[Any, ...]
Named = dict[str, Any]

_ndarray = np.ndarray
_asarray = np.asarray

# Types of keyword arguments that do not change the plan: neither Blobs nor written.
_PLAIN = frozenset({*SCALARS, str, type, type(None)})

# NumPy's scalars of dtypes that Blobs do not support.
_FOR_HOST = (np.clongdouble, np.datetime64, np.longdouble, np.timedelta64, np.void)

# Programs have far fewer patterns. The limit keeps functions and classes that are created
# repeatedly from accumulating.
_MOST_PLANS = 4_096
_plans: dict[tuple[Any, ...], Plan] = {}


def array_function(
    like: Any,
    func: Callable[..., Any],
    types: Collection[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compute one of NumPy's functions other than ufuncs; NumPy calls this.

    `like` is the Blob whose protocol NumPy calls; results have its class. The other parameters are
    the protocol's. In the result, arrays and NumPy scalars are replaced by Blobs; those that share
    memory with an argument are views of it. `out` itself is returned if given, even if it is an
    array.
    """
    if len(types) > 1:
        others = [kind for kind in types if not issubclass(kind, BlobCore)]
        if any(is_stranger(kind, "__array_function__") for kind in others):
            return function_with_strangers(func, types, args, kwargs)
    # Inlined for few arguments, because `map` would take most of the time.
    key: tuple[Any, ...]
    match args:
        case (x1,):
            key = (func, type(x1))
        case (x1, x2):
            key = (func, type(x1), type(x2))
        case (x1, x2, x3):
            key = (func, type(x1), type(x2), type(x3))
        case _:
            key = (func, *map(type, args))
    if kwargs:
        for value in kwargs.values():
            if type(value) not in _PLAIN:
                key = (*key, *kwargs, *map(type, kwargs.values()))
                break
    try:
        plan = _plans[key]
    except KeyError:
        plan = _keep_plan(key, _make_plan(func, args, kwargs))
    return plan.run(like, args, kwargs)


def _keep_plan(key: tuple[Any, ...], plan: Plan) -> Plan:
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


def _make_plan(function: Callable[..., Any], args: Args, kwargs: Named) -> Plan:
    if function in tables.QUESTIONS:
        kind: type[Plan] = _Question
    elif function in tables.SHARING:
        kind = _Sharing
    elif function in tables.EMPTY_LIKE and all(
        key == tables.first_argument(function, args) or _is_leaf(type(x))
        for key, x in joined(args, kwargs).items()
    ):
        kind = _EmptyLike
    elif function is np.imag:
        kind = _Imag
    elif (
        function in tables.WRITES
        or function in tables.TEXTS_AND_FILES
        or tables.value_of(function, "out", args, kwargs) is not None
    ):
        kind = Plan
    else:
        return _for_operands(function, joined(args, kwargs))
    return kind(function)


def _for_operands(function: Callable[..., Any], arguments: dict[int | str, Any]) -> Plan:
    """Plan a call that only reads its arguments."""
    blobs = [key for key, x in arguments.items() if isinstance(x, BlobCore)]
    nested = [key for key, x in arguments.items() if type(x) in {list, tuple}]
    others = arguments.keys() - {*blobs, *nested}
    if not (blobs or nested) or not all(_is_leaf(type(arguments[key])) for key in others):
        return Plan(function)
    method = tables.METHODS.get(function) if blobs[:1] == [0] else None
    # The sequences among the arguments of a function of one array are axes or shapes.
    if blobs == [0] and (not nested or function in tables.VIEWS_OF_ONE):
        return _OneBlob(function, method)
    if "writeable" in arguments:
        # Its value decides whether the result is const, and is not part of the key.
        return Plan(function)
    return _SomeBlobs(function, method, blobs, nested)


def _is_leaf(kind: type) -> bool:
    """Return whether arguments of a type do not determine where to compute."""
    return kind is type(None) or (issubclass(kind, LEAVES) and not issubclass(kind, _FOR_HOST))


class Plan:
    """The plan for any call: each call inspects all arguments."""

    __slots__ = ("const", "function", "makes_views", "native")

    def __init__(
        self, function: Callable[..., Any], method: Callable[..., Any] | None = None
    ) -> None:
        self.function: Callable[..., Any] = function
        # The implementation for NumPy arrays, which skips the dispatch.
        self.native: Callable[..., Any] = (
            getattr(function, "_implementation", function) if method is None else method
        )
        self.const: bool = function in tables.OVERLAPPING
        # Whether calls of the function make only views; `run` finds out which.
        self.makes_views: bool = function in tables.VIEWS

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        """Make the call; `like` is the Blob whose protocol NumPy calls."""
        function = self.function
        const = self.const and not kwargs.get("writeable")
        viewed = viewed_arguments(function, args, kwargs)
        if viewed:
            return call_for_views(function, args, kwargs, like, viewed, const=const)
        everything = (*args, *kwargs.values())
        home = HOST if function in tables.TEXTS_AND_FILES else None
        with_arrays = any(isinstance(x, np.ndarray) for x in everything)
        return call(
            function,
            args,
            kwargs,
            like,
            name=function.__name__,
            written=tables.written_arguments(function, args, kwargs),
            plain=tables.plain_arguments(function, args, kwargs) if with_arrays else (),
            home=home,
            const=const,
            # The Blob was passed as NumPy's ``like=``, which is not among the arguments.
            by_name=home is None and next(instances(everything, BlobCore), None) is None,
        )

    def compute(self, home: Home, args: Sequence[Any], kwargs: Named) -> Any:
        """Call the function outside NumPy, or after a check of the guards."""
        if not HOST.direct:
            require_device(home.device, self.function.__name__)
        return compute(home, self.function, *args, **kwargs)

    def give(self, result: Any, like: Any, home: Home, operands: Sequence[_Operand]) -> Any:
        """Replace arrays and NumPy scalars in a result by Blobs; inputs by their Blobs.

        `operands` are the arrays that the function got, each with its Blob; `home` computed.
        """
        kind = type(result)
        if kind is _ndarray:
            return self._of_array(result, like, home, operands)
        if kind in SCALAR_CLASSES:
            return like._fresh(home.as_array(result), home)
        if isinstance(result, (list, tuple)):
            return mapped(result, lambda item: self.give(item, like, home, operands))
        # Other results, such as Python numbers and CuPy arrays.
        return self._give_any(result, like, home, operands)

    def _give_any(self, result: Any, like: Any, home: Home, operands: Sequence[_Operand]) -> Any:
        general = Operands(self.function.__name__, like, home)
        general.take(operands)
        wrapped = general.give(result, const=self.const)
        if isinstance(wrapped, _ndarray) and any(
            home.overlap(wrapped, array) for array, _ in operands
        ):
            # A view of a dtype that Blobs do not support; writes to it would not be tracked.
            wrapped.flags.writeable = False
        return wrapped

    def _of_array(self, array: Any, like: Any, home: Home, operands: Sequence[_Operand]) -> Any:
        """Wrap a NumPy array: according to its base, unless that is inconclusive."""
        base = array.base
        sharing = 0
        for operand, x in operands:
            if array is operand:
                return x
            if base is not None and (base is operand or base is operand.base):
                sharing += 1
                origin, source = operand, x
        if array.dtype in SUPPORTED:
            if base is None:
                return like._fresh(array, home)
            if sharing == 1:
                view = _view(source, origin, array, self.const)
                if view is not None:
                    return view
            # An operand over the memory that this base owns would have it as its base.
            own = type(base) is _ndarray and base.base is None
            if own and not sharing and not self.const and array.flags.carray:
                return like._fresh(array, home)
        return self._give_any(array, like, home, operands)


def _view(x: Any, operand: Any, array: Any, const: bool) -> Any:
    """Make a view of a Blob from a view of its array; None if it has no array any more."""
    if not x._has_array():
        return None
    view = x._view_of_array(operand, array)
    if view is None:
        # It had no memory yet, or another thread has replaced the buffer. The elements have the
        # same offsets in the new one.
        home = x._home
        offset = x._layout.offset + home.address(array) - home.address(operand)
        return x._view(Layout.of_array(array, offset), readonly=const)
    if const:
        array.flags.writeable = False
        view._readonly = True
    return view


class _OneBlob(Plan):
    """The first argument is the only Blob, and the others are plain values, axes or shapes."""

    __slots__ = ()

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:  # noqa: C901, PLR0911, PLR0912  # inlined, because calls take time
        x = args[0]
        home = x._home
        shortcut, array = x._shortcut, x._array
        if array is None or not shortcut.readable:
            array = x._make_readable()
        if array is None or (self.makes_views and not home.direct):
            return Plan.run(self, like, args, kwargs)
        if not home.direct:
            result = self.compute(home, (array, *args[1:]), kwargs)
            return self.give(result, like, home, ((array, x),))
        if kwargs:
            result = self.native(array, *args[1:], **kwargs)
        elif len(args) == 1:
            result = self.native(array)
        else:
            result = self.native(array, *args[1:])
        # The usual results, in as few steps as possible.
        kind = type(result)
        if kind is _ndarray:
            base = result.base
            if result is not array and result.dtype in SUPPORTED:
                if base is None:
                    return like._fresh(result, home)
                # The base of windows is another object.
                if base is array or base is array.base or self.const:
                    view = _view(x, array, result, self.const and not kwargs.get("writeable"))
                    if view is not None:
                        return view
            return self._of_array(result, like, home, ((array, x),))
        if kind in SCALAR_CLASSES:
            return like._fresh(_asarray(result), home)
        if home is HOST and (kind is bool or kind is int):
            return result
        return self.give(result, like, home, ((array, x),))


class _SomeBlobs(Plan):
    """Arguments or nested sequences contain Blobs, and the others are plain values."""

    __slots__ = ("blobs", "keywords", "nested")

    def __init__(
        self,
        function: Callable[..., Any],
        method: Callable[..., Any] | None,
        blobs: list[int | str],
        nested: list[int | str],
    ) -> None:
        super().__init__(function, method)
        self.blobs = blobs
        self.nested = nested
        self.keywords = any(isinstance(name, str) for name in blobs + nested)

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:  # noqa: C901, PLR0912  # inlined, because calls take time
        home = like._home
        arguments: Any = joined(args, kwargs) if self.keywords else [*args]
        operands: list[_Operand] = []
        for key in self.blobs:
            x = arguments[key]
            shortcut, array = x._shortcut, x._array
            if x._home is not home or array is None or not shortcut.readable:
                return Plan.run(self, like, args, kwargs)
            arguments[key] = array
            operands.append((array, x))
        for key in self.nested:
            sequence = arguments[key] = _arrays_in(arguments[key], home, operands)
            if sequence is None:
                return Plan.run(self, like, args, kwargs)
        if not operands or (self.makes_views and not home.direct):
            return Plan.run(self, like, args, kwargs)
        named = kwargs
        if self.keywords:
            arguments, named = split(arguments)
        if not home.direct:
            result = self.compute(home, arguments, named)
        elif named:
            result = self.native(*arguments, **named)
        else:
            result = self.native(*arguments)
        # The usual result, in as few steps as possible.
        if type(result) is _ndarray:
            if result.base is None and result.dtype in SUPPORTED:
                for array, _ in operands:
                    if result is array:
                        break
                else:
                    return like._fresh(result, home)
            return self._of_array(result, like, home, operands)
        return self.give(result, like, home, operands)


def _arrays_in(items: Any, home: Home, operands: list[_Operand]) -> Any:
    """Replace the Blobs in nested sequences by their kept arrays; None if one is not current."""
    arrays: list[Any] = []
    for item in items:
        x: Any = item
        kind = type(item)
        if isinstance(x, BlobCore):
            shortcut, array = x._shortcut, x._array
            if x._home is not home or array is None or not shortcut.readable:
                return None
            operands.append((array, x))
            x = array
        elif kind is list or kind is tuple:
            x = _arrays_in(x, home, operands)
            if x is None:
                return None
        elif kind not in _PLAIN and not _is_leaf(kind):
            return None
        arrays.append(x)
    return arrays if type(items) is list else tuple(arrays)


class _Imag(_OneBlob):
    """The imaginary parts of real numbers are const zeros. NumPy's are read-only."""

    __slots__ = ()

    def run(self, like: Any, _args: Args, _kwargs: Named) -> Any:
        if like.dtype.kind == "c":
            return super().run(like, (like,), {})
        zeros = np.zeros_like(like)
        zeros._make_const()
        return zeros


class _EmptyLike(Plan):
    """The first argument gives only the shape, dtype and device; the others are plain values."""

    __slots__ = ()

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        home = like._home
        if not home.native:
            return super().run(like, args, kwargs)
        if not home.direct:
            require_device_of(self.function.__name__, like)
        named = {name: shape_only(x) for name, x in kwargs.items()}
        return self._of_array(self.native(*map(shape_only, args), **named), like, home, ())


class _Question(Plan):
    """The function reads no element."""

    __slots__ = ()

    def run(self, _like: Any, args: Args, kwargs: Named) -> Any:
        function = self.function
        numbers = tables.plain_arguments(function, args, kwargs)
        asked = {
            key: x if key in numbers else replaced(x, BlobCore, shape_only)
            for key, x in joined(args, kwargs).items()
        }
        given, named = split(asked)
        return function(*given, **named)


class _Sharing(Plan):
    """The function compares ranges of one memory, or existing buffers. Causes no transfer."""

    __slots__ = ()

    def run(self, _like: Any, args: Args, kwargs: Named) -> Any:
        return self._compare(*args, **kwargs)

    def _compare(self, a: Any, b: Any, max_work: Any = None) -> bool:
        if isinstance(a, BlobCore) and isinstance(b, BlobCore) and a._memory is b._memory:
            # It may have no buffer yet.
            pairs = [(a._layout.dummy(), b._layout.dummy())]
        else:
            pairs = [
                (x, y)
                for home, x in _buffers_of(a)
                for other, y in _buffers_of(b)
                if home is other or (home.native and other.native)
            ]
        return any(bool(self.function(x, y, max_work=max_work)) for x, y in pairs)


def _buffers_of(x: Any) -> list[tuple[Home, Any]]:
    """Return arrays over a Blob's existing buffers, with their homes."""
    if not isinstance(x, BlobCore):
        array = native_array(x)[0]
        home = HOST if isinstance(array, _ndarray) else backend_of(array)
        return [(home, _comparable(home, array))]
    memory, layout = x._memory, x._layout
    return [
        (home, _comparable(home, laid(home, window, layout, writable=False, own=True)))
        for side in memory.sides
        for window in memory.windows(side)
        for home in [memory.home(side)]
        if window.start <= layout.start and layout.stop <= window.stop
    ]


def _comparable(home: Home, array: Any) -> Any:
    """Return an array that NumPy or CuPy can compare with another of its home."""
    if home.views:
        return array
    strides, address = home.strides(array), home.address(array)
    return Layout(tuple(array.shape), array.dtype, strides, address).dummy()
