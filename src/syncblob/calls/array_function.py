"""``__array_function__``: NumPy's functions other than ufuncs.

A plan is made once for each function and pattern of arguments: the types of the positional ones,
and the keywords with their types. It records which arguments are Blobs, which may contain Blobs,
which are written, and which implementation NumPy runs. Each call checks only what depends on a
Blob's state: whether its kept array is current.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from syncblob._dtypes import SCALAR_CLASSES, SCALARS, SUPPORTED, is_supported
from syncblob._layout import Layout
from syncblob.arrays.foreign import is_array, is_stranger
from syncblob.arrays.native import backend_of, native_array
from syncblob.blob.core import BlobCore, fresh
from syncblob.calls import tables
from syncblob.calls.choose_home import require_device_of
from syncblob.calls.foreign_protocols import function_with_strangers
from syncblob.calls.general_call import (
    LEAVES,
    Operands,
    adopted,
    call,
    home_of_arguments,
    joined,
    number,
    of_device,
    shape_only,
    split,
)
from syncblob.calls.index_checks import require_bounds
from syncblob.calls.nested import instances, mapped, replaced
from syncblob.calls.view_calls import makes_view, stand_in, view_of
from syncblob.devices import HOST
from syncblob.guards import may_compute_directly, require_device
from syncblob.memory import compute, from_the_start

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
    plan: Plan
    for value in kwargs.values() if kwargs else ():
        if type(value) not in _PLAIN:
            plan = _plan(func, (*kwargs,), *map(type, args), *map(type, kwargs.values()))
            return plan.run(like, args, kwargs)
    # Inlined for few arguments, because `map` would take most of the time.
    match args:
        case (x1,):
            plan = _plan(func, type(x1))
        case (x1, x2):
            plan = _plan(func, type(x1), type(x2))
        case (x1, x2, x3):
            plan = _plan(func, type(x1), type(x2), type(x3))
        case _:
            plan = _plan(func, *map(type, args))
    if like.home.direct:
        return plan.run(like, args, kwargs)
    return from_the_start(plan.run, like, args, kwargs)


def _make_plan(function: Callable[..., Any], *kinds: Any) -> Plan:
    """Make a plan for arguments of these types; the last ones may have names, which come first."""
    plan = _usual_plan(function, *kinds)
    return _Indexing(function, plan) if function in tables.INDICES else plan


def _usual_plan(function: Callable[..., Any], *kinds: Any) -> Plan:  # noqa: PLR0911  # one for each kind of function
    names = kinds[0] if kinds and type(kinds[0]) is tuple else ()
    args = kinds[1 : len(kinds) - len(names)] if names else kinds
    kwargs = dict(zip(names, kinds[-len(names) :], strict=False))
    if function in tables.QUESTIONS:
        return _Question(function)
    if function in tables.SHARING:
        return _Direct(partial(_share, function))
    if (
        function in tables.WRITES
        or function in tables.TEXTS_AND_FILES
        or tables.value_of(function, "out", args, kwargs) not in {None, NoneType}
    ):
        return Plan(function)
    arguments = joined(args, kwargs)
    first = tables.first_argument(function, args)
    views = tables.VIEWS.get(function)
    if issubclass(arguments.get(first, object), BlobCore):
        others = [kind for key, kind in arguments.items() if key != first]
        if function in tables.EMPTY_LIKE and all(map(_is_leaf, others)):
            return _EmptyLike(function)
        if function in tables.OF_ATTRIBUTES:
            # NumPy returns an attribute of its argument: of the Blob itself.
            return _Direct(function)
        if views is not None and (not views.several or len(args) == 1):
            unusual = not args or any(issubclass(kind, BlobCore) for kind in others)
            return _Viewing(function, views, _plan_to_read(function, arguments), unusual=unusual)
    if views is not None and views.several and not {list, tuple} & {*args}:
        return _ViewingEach(function)
    return _plan_to_read(function, arguments)


# Programs have far fewer patterns. The limit keeps functions and classes that are created
# repeatedly from accumulating.
_plan: Callable[..., Plan] = lru_cache(maxsize=4096)(_make_plan)


def _plan_to_read(function: Callable[..., Any], arguments: dict[int | str, type]) -> Plan:
    """Plan a call that only reads its arguments."""
    blobs = [key for key, kind in arguments.items() if issubclass(kind, BlobCore)]
    nested = [key for key, kind in arguments.items() if kind in {list, tuple}]
    plan: Plan
    if not all(_is_leaf(arguments[key]) for key in arguments.keys() - {*blobs, *nested}):
        plan = Plan(function)
    elif blobs == [0] and not nested:
        plan = _OneBlob(function)
    else:
        plan = _SomeBlobs(function, blobs, nested)
    if blobs[:1] == [0]:
        plan.native = tables.METHODS.get(function, plan.native)
    return plan


def _is_leaf(kind: type) -> bool:
    """Return whether arguments of a type do not determine where to compute."""
    return kind is type(None) or (issubclass(kind, LEAVES) and not issubclass(kind, _FOR_HOST))


class Plan:
    """The plan for any call: each call inspects all arguments."""

    __slots__ = ("const", "function", "native")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] = function
        # The implementation for NumPy arrays, which skips the dispatch.
        self.native: Callable[..., Any] = getattr(function, "_implementation", function)
        self.const: bool = function in tables.OVERLAPPING

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        """Make the call; `like` is the Blob whose protocol NumPy calls."""
        function = self.function
        everything = (*args, *kwargs.values())
        home = HOST if function in tables.TEXTS_AND_FILES else None
        with_arrays = any(isinstance(x, np.ndarray) for x in everything)
        return from_the_start(
            call,
            function,
            args,
            kwargs,
            like,
            name=function.__name__,
            written=tables.written_arguments(function, args, kwargs),
            plain=tables.plain_arguments(function, args, kwargs) if with_arrays else (),
            home=home,
            const=self.const and not kwargs.get("writeable"),
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
            base = result.base
            # An operand over the memory that this base owns would have it as its base.
            own = base is None or (
                type(base) is _ndarray
                and base.base is None
                and not self.const
                and result.flags.carray
            )
            if own and result.dtype in SUPPORTED:
                for array, x in operands:
                    if result is array:
                        return x
                    if base is not None and (base is array or base is array.base):
                        break
                else:
                    return fresh(type(like), result, home)
        elif kind in SCALAR_CLASSES:
            return fresh(
                type(like), _asarray(result) if home.native else home.as_array(result), home
            )
        elif kind is bool or kind is int:
            return number(result, like, home, self.function.__name__)
        elif isinstance(result, (list, tuple)):
            return mapped(result, lambda item: self.give(item, like, home, operands))
        # Views, other dtypes and CuPy arrays.
        general = Operands(self.function.__name__, like, home)
        general.take(operands)
        wrapped = general.give(result, const=self.const)
        if isinstance(wrapped, _ndarray) and any(
            home.overlap(wrapped, array) for array, _ in operands
        ):
            # A view of a dtype that Blobs do not support; writes to it would not be tracked.
            wrapped.flags.writeable = False
        return wrapped


class _OneBlob(Plan):
    """The first argument is the only Blob, and the others are plain values."""

    __slots__ = ()

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        x = args[0]
        home = x.home
        shortcut, array = x._shortcut, x._array
        if array is None or not shortcut.readable:
            # A guard that forbids the call has to do so before anything is copied.
            array = x._array_in(home, self.function.__name__) if home.direct else x._make_readable()
        if array is None:
            return Plan.run(self, like, args, kwargs)
        if not (home.direct or may_compute_directly(home, self.function.__name__)):
            result = self.compute(home, (array, *args[1:]), kwargs)
        elif kwargs:
            result = self.native(array, *args[1:], **kwargs)
        elif len(args) == 1:
            result = self.native(array)
        else:
            result = self.native(array, *args[1:])
        # The usual results, in as few steps as possible.
        kind = type(result)
        if kind is _ndarray:
            if result.base is None and result is not array and result.dtype in SUPPORTED:
                return fresh(type(like), result, home)
        elif kind in SCALAR_CLASSES:
            return fresh(type(like), _asarray(result), home)
        return self.give(result, like, home, ((array, x),))


class _SomeBlobs(Plan):
    """Arguments or nested sequences contain Blobs, and the others are plain values."""

    __slots__ = ("blobs", "keywords", "nested")

    def __init__(
        self, function: Callable[..., Any], blobs: list[int | str], nested: list[int | str]
    ) -> None:
        super().__init__(function)
        self.blobs = blobs
        self.nested = nested
        self.keywords = any(isinstance(name, str) for name in blobs + nested)

    def run(self, like: Any, args: Args, kwargs: Named, moving: str = "") -> Any:  # noqa: C901, PLR0912  # inlined, because calls take time
        home = like.home
        arguments: Any = joined(args, kwargs) if self.keywords else [*args]
        operands: list[_Operand] = []
        for key in self.blobs:
            x = arguments[key]
            shortcut, array = x._shortcut, x._array
            if array is None or not shortcut.readable:
                array = x._array_in(x.home, moving) if moving else x._make_readable()
            if x.home is not home or array is None:
                return self.run_otherwise(like, args, kwargs, moving)
            arguments[key] = array
            operands.append((array, x))
        for key in self.nested:
            sequence = arguments[key] = _arrays_in(arguments[key], home, operands, moving)
            if sequence is None:
                return self.run_otherwise(like, args, kwargs, moving)
        if not operands:
            return Plan.run(self, like, args, kwargs)
        named = kwargs
        if self.keywords:
            arguments, named = split(arguments)
        if not (home.direct or may_compute_directly(home, self.function.__name__)):
            result = self.compute(home, arguments, named)
        elif named:
            result = self.native(*arguments, **named)
        else:
            result = self.native(*arguments)
        # The usual result, in as few steps as possible.
        if type(result) is _ndarray and result.base is None and result.dtype in SUPPORTED:
            for array, x in operands:
                if result is array:
                    return x
            return fresh(type(like), result, home)
        return self.give(result, like, home, operands)

    def run_otherwise(self, like: Any, args: Args, kwargs: Named, moving: str) -> Any:
        """Make the call if an array is not current, or the operands are unusual."""
        home = like.home
        # Calls with operands of several homes, or with arrays, may be computed elsewhere, and a
        # guard that forbids the call has to do so before anything is copied.
        if moving or not (home.direct and _are_usual((*args, *kwargs.values()), home)):
            return Plan.run(self, like, args, kwargs)
        return self.run(like, args, kwargs, self.function.__name__)


def _are_usual(items: Any, home: Home) -> bool:
    """Return whether nested sequences contain only Blobs of a home and plain values."""
    for x in items:
        kind = type(x)
        if isinstance(x, BlobCore):
            usual = x.home is home
        elif kind is list or kind is tuple:
            usual = _are_usual(x, home)
        else:
            usual = kind in _PLAIN or _is_leaf(kind)
        if not usual:
            return False
    return True


def _arrays_in(items: Any, home: Home, operands: list[_Operand], moving: str) -> Any:
    """Replace the Blobs in nested sequences by their arrays; None if one is not current.

    If `moving` is the name of a function, they are brought up to date for it.
    """
    arrays: list[Any] = []
    for item in items:
        x: Any = item
        kind = type(item)
        if isinstance(x, BlobCore):
            shortcut, array = x._shortcut, x._array
            if array is None or not shortcut.readable:
                array = x._array_in(x.home, moving) if moving else x._make_readable()
            if x.home is not home or array is None:
                return None
            operands.append((array, x))
            x = array
        elif kind is list or kind is tuple:
            x = _arrays_in(x, home, operands, moving)
            if x is None:
                return None
        elif kind not in _PLAIN and not _is_leaf(kind):
            return None
        arrays.append(x)
    return arrays if type(items) is list else tuple(arrays)


class _Viewing(Plan):
    """The function may make views of its first argument, a Blob."""

    __slots__ = ("axes", "otherwise", "unusual", "usual_count")

    def __init__(
        self, function: Callable[..., Any], views: tables.Views, otherwise: Plan, *, unusual: bool
    ) -> None:
        super().__init__(function)
        self.native = tables.METHODS.get(function, self.native)
        self.axes = views.axes
        # For calls that read elements.
        self.otherwise = otherwise
        # Whether the argument has a name, or others are Blobs, too.
        self.unusual = unusual
        # For a function that may also copy: with so many arguments it does not, if the array is
        # C-contiguous.
        self.usual_count: int | None = tables.VIEWS_OR_COPIES.get(function)

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        first, named = args, kwargs
        if self.unusual:
            named = {**kwargs}
            x = args[0] if args else named.pop(str(tables.first_argument(self.function, ())))
            # Other Blobs stand for axes and numbers.
            named = {name: _number(y) for name, y in named.items()}
            first = (x, *map(_number, args[1:]))
        x = first[0]
        array = x._array
        if array is None or x._held is None or not x.home.native:
            array = stand_in(x)
        if array.ndim < self.axes:
            return self.otherwise.run(like, args, kwargs)
        if (
            self.usual_count is not None
            and (named or len(first) != self.usual_count or not array.flags.c_contiguous)
            and not makes_view(self.function, x, first, named)
        ):
            return self.otherwise.run(like, args, kwargs)
        if named or len(first) > 1:
            result = self.native(array, *first[1:], **named)
        else:
            result = self.native(array)
        const = self.const and not kwargs.get("writeable")
        if type(result) is _ndarray:
            return view_of(x, array, result, const)
        return type(result)([view_of(x, array, part, const) for part in result])


def _number(x: Any) -> Any:
    """Return the contents of a Blob that stands for an axis or a number; others as they are."""
    return np.asarray(x) if isinstance(x, BlobCore) else x


class _ViewingEach(Plan):
    """The function makes one view of each positional argument. There are several."""

    __slots__ = ()

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        operands = [self._operand(x, like) for x in args]
        arrays = [stand_in(x) if isinstance(x, BlobCore) else x for x in operands]
        result = self.native(*arrays, **kwargs)
        return type(result)(
            view_of(x, array, view, self.const) if isinstance(x, BlobCore) else view
            for x, array, view in zip(operands, arrays, result, strict=True)
        )

    @staticmethod
    def _operand(x: Any, like: Any) -> Any:
        """Return a Blob in place of an array; an array of a dtype that Blobs do not support."""
        if isinstance(x, BlobCore):
            return x
        array = native_array(x)[0]
        device = like.device if isinstance(array, _ndarray) else None
        return adopted(array, like, device) if is_supported(array.dtype) else array


class _Direct(Plan):
    """A function is called with the arguments as they are."""

    __slots__ = ()

    def run(self, _like: Any, args: Args, kwargs: Named) -> Any:
        return self.native(*args, **kwargs)


class _EmptyLike(Plan):
    """The first argument gives only the shape, dtype and device; the others are plain values."""

    __slots__ = ()

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        home = like.home
        if not home.native:
            return super().run(like, args, kwargs)
        if not home.direct:
            require_device_of(self.function.__name__, like)
        named = {name: shape_only(x) for name, x in kwargs.items()}
        make = self.native if home.direct else partial(compute, home, self.native)
        result = make(*map(shape_only, args), **named)
        return fresh(type(like), result, home) if is_supported(result.dtype) else result


class _Indexing(Plan):
    """An argument is an array of indices, which only NumPy checks and brings into bounds."""

    __slots__ = ("usual",)

    def __init__(self, function: Callable[..., Any], usual: Plan) -> None:
        super().__init__(function)
        self.usual = usual

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:
        home = home_of_arguments((*args, *kwargs.values()), like)
        if home.native:
            return self.usual.run(like, args, kwargs)
        function, names = self.function, tables.positions(self.function)
        if not HOST.direct:
            require_device(home.device, function.__name__)
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        mode = arguments.pop("mode", "raise")
        if mode not in {"raise", "wrap", "clip"}:
            raise ValueError(f'expected mode "raise", "wrap" or "clip", got {mode!r}')
        key, of = tables.INDICES[function]
        given = arguments[key] = of_device(arguments[key], like)
        indices: Any = given if isinstance(given, BlobCore) else np.asarray(given)
        length = self._length(arguments[of], arguments)
        if key == "condition":
            # Libraries take the indices of the true elements.
            if indices.size > length and np.any(indices.reshape(-1)[length:]):
                raise IndexError(f"{function.__name__} got a condition longer than {length}")
        elif indices.dtype.kind in "biu":
            inside = self._inside(home, indices, length, mode)
            if inside is not indices:
                arguments[key] = inside if is_array(given) else inside.tolist()
        named: Named = {name: arguments.pop(name) for name in ("axis", "out") if name in arguments}
        if function in {np.choose, np.put} and not home.checks_values:
            named["mode"] = mode
        return super().run(like, tuple(arguments.values()), named)

    def _inside(self, home: Home, indices: Any, length: int, mode: str) -> Any:
        """Return indices that are in bounds; raise if the mode says so."""
        if mode == "raise" or not length:
            choosing = self.function is np.choose
            try:
                require_bounds(home, indices, 0 if choosing else -length, length)
            except IndexError as error:
                raise ValueError(str(error)) if choosing else error from None
            return indices
        indices = indices.astype(np.intp)
        return indices % length if mode == "wrap" else indices.clip(0, length - 1)

    def _length(self, indexed: Any, arguments: Named) -> int:
        if self.function is np.choose:
            return len(indexed)
        shape = np.shape(indexed)
        axis = arguments.get("axis", -1 if self.function is np.take_along_axis else None)
        if axis is None:
            return math.prod(shape)
        return shape[normalize_axis_index(axis, len(shape))]


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


def _share(function: Callable[..., Any], a: Any, b: Any, max_work: Any = None) -> bool:
    """Compare ranges of one memory, or existing buffers. Causes no transfer."""
    if isinstance(a, BlobCore) and isinstance(b, BlobCore) and a.memory is b.memory:
        # It may have no buffer yet.
        pairs = [(a.layout.dummy(), b.layout.dummy())]
    else:
        pairs = [
            (x, y)
            for home, x in _buffers_of(a)
            for other, y in _buffers_of(b)
            if home is other or (home.native and other.native)
        ]
    return any(bool(function(x, y, max_work=max_work)) for x, y in pairs)


def _buffers_of(x: Any) -> list[tuple[Home, Any]]:
    """Return arrays over a Blob's existing buffers, with their homes."""
    if not isinstance(x, BlobCore):
        array = native_array(x)[0]
        home = HOST if isinstance(array, _ndarray) else backend_of(array)
        return [(home, _comparable(home, array))]
    memory, layout = x.memory, x.layout
    return [
        (home, _comparable(home, window.view(home, layout, writable=False, own=True)))
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
