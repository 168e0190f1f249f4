"""NumPy's protocols: ``__array_ufunc__`` and ``__array_function__``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from syncblob.blob.core import BlobCore
from syncblob.calls import tables
from syncblob.calls.engine import Plan, arguments, in_order, maker_of, plans_by_function
from syncblob.calls.foreign import function_with_strangers, has_strangers, ufunc_with_strangers
from syncblob.calls.operands import is_leaf, shape_only
from syncblob.devices import HOST


def array_ufunc(like: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Compute a ufunc, or one of its methods; NumPy calls this as ``__array_ufunc__``."""
    plans = _CALLS[ufunc] if method == "__call__" else _METHODS[ufunc, method]
    if not kwargs:
        # Most have one or two, and `map` takes time.
        match inputs:
            case (x,):
                return plans[type(x)](like, x)
            case (x1, x2):
                return plans[type(x1), type(x2)](like, x1, x2)
        return plans[tuple(map(type, inputs))](like, *inputs)
    out = kwargs.get("out", ())
    if type(out) is not tuple or (method == "__call__" and len(inputs) > ufunc.nin):
        # Numba's `vectorize` passes what to write as it was given, unlike NumPy.
        kwargs["out"] = inputs[ufunc.nin :] or (out,)
        return array_ufunc(like, ufunc, method, *inputs[: ufunc.nin], **kwargs)
    if len(out) == 1:
        (kwargs["out"],) = out
    elif has_strangers("__array_ufunc__", *map(type, out)):
        return ufunc_with_strangers(ufunc, method, *inputs, **kwargs)
    values = (*inputs, *kwargs.values())
    return plans[(*kwargs,), *map(type, values)](like, *values)


def array_function(
    like: Any,
    func: Callable[..., Any],
    types: Collection[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compute one of NumPy's functions other than ufuncs; NumPy calls this.

    `like` is the Blob whose protocol NumPy calls; results have its class. Those that share memory
    with an argument are views of it. `out` itself is returned if given, even if it is an array.
    """
    if len(types) > 1 and has_strangers("__array_function__", *types):
        return function_with_strangers(func, types, args, kwargs)
    plans = FUNCTIONS[func]
    if kwargs:
        values = (*args, *kwargs.values())
        return plans[(*kwargs,), *map(type, values)](like, *values)
    match args:
        case (x,):
            return plans[type(x)](like, x)
        case (x1, x2):
            return plans[type(x1), type(x2)](like, x1, x2)
        case (x1, x2, x3):
            return plans[type(x1), type(x2), type(x3)](like, x1, x2, x3)
    return plans[tuple(map(type, args))](like, *args)


# --- plans ----------------------------------------------------------------------------------------


def _rules_of_ufunc(ufunc_and_method: tuple[np.ufunc, str]) -> tables.Rules:
    ufunc, method = ufunc_and_method

    def written(given: tables.Arguments) -> dict[int | str, bool]:
        # A reduction writes every element, even with a mask.
        masked = method != "reduce" and given.get("where", True) is not True
        whole = not masked and method not in {"accumulate", "reduceat"}
        return {0: False} if method == "at" else {key: whole for key in given if key == "out"}

    def plan(rules: tables.Rules, kinds: tables.Arguments) -> Callable[..., Any]:
        operands = [kinds[key] for key in kinds if type(key) is int or key == "out"]
        if not has_strangers("__array_ufunc__", *operands):
            return Plan(rules, kinds).run
        ask = in_order(partial(ufunc_with_strangers, ufunc, method), kinds)
        return lambda _, *values: ask(*values)

    called = method == "__call__"
    function = ufunc if called else getattr(ufunc, method)
    name = ufunc.__name__ if called else f"{ufunc.__name__}.{method}"
    return tables.Rules(
        name,
        function,
        function,
        written,
        lambda given: {"axes", "axis"} & given.keys(),
        by_name=not called,
        elementwise=called and getattr(np, name, None) is ufunc,
        plan=plan,
    )


def _rules_of_function(function: Callable[..., Any]) -> tables.Rules:
    return tables.Rules(
        name=function.__name__,
        function=function,
        native=getattr(function, "_implementation", function),
        written=partial(tables.written_arguments, function),
        plain=partial(tables.plain_arguments, function),
        home=HOST if function in tables.ON_THE_HOST else None,
        const=function in tables.CONST_VIEWS,
        plan=_plan_of_function,
    )


def _plan_of_function(rules: tables.Rules, kinds: tables.Arguments) -> Callable[..., Any]:
    function = rules.function
    first = tables.first_argument(function, kinds)
    rest = [kind for key, kind in kinds.items() if key != first]
    if function in tables.QUESTIONS:
        return _plan_by_shapes(rules, kinds)
    if function is np.broadcast_arrays and not tables.split_keys(kinds)[1]:
        return _broadcast
    if tables.has_option(function, kinds):
        return Plan(rules, kinds).begin
    if issubclass(kinds.get(first, object), BlobCore):
        if function in tables.EMPTY_LIKE and all(map(is_leaf, rest)):
            rules = rules._replace(empty=True)
        elif function in {np.imag, np.real}:
            # They return an attribute of their argument: of the Blob itself.
            return lambda _like, *values: rules.native(*values)
        elif function in (tables.VIEWS if rest else tables.VIEWS_OF_ONE) and "out" not in kinds:
            return _plan_of_view(rules, kinds)
        elif first == 0:
            rules = rules._replace(native=tables.METHODS.get(function, rules.native))
    return Plan(rules, kinds).run


def _broadcast(like: BlobCore, *values: Any) -> tuple[Any, ...]:
    """Make the views of `numpy.broadcast_arrays`; those of arrays of others are const."""
    cls: Any = type(like)
    blobs: list[Any] = [
        x if isinstance(x, BlobCore) else cls.asarray(x, device=like.device).const for x in values
    ]
    shape = np.broadcast_shapes(*[x.shape for x in blobs])
    return tuple([x[...] if x.shape == shape else np.broadcast_to(x, shape) for x in blobs])


def _plan_by_shapes(rules: tables.Rules, kinds: tables.Arguments) -> Callable[..., Any]:
    """Plan calls of a function that uses no more than shapes and dtypes."""
    native, plain = in_order(rules.native, kinds), rules.plain(kinds)
    asked = [n for n, key in enumerate(kinds) if key not in plain]

    def run(_like: Any, *values: Any) -> Any:
        given = [*values]
        for n in asked:
            given[n] = shape_only(values[n])
        return native(*given)

    return run


# --- views: nothing is transferred, because arrays stand for Blobs that are not read --------------


_VIEW = """
def run(like, {given}):
    array = {x}.raw_array
    if array is None or {x}.known_memory is None or not {x}.home.native:
        array = {x}.viewable_array() if {x}.home.native else {x}.layout.dummy()
    view = native({call}) if array.ndim >= axes else None
    return read(like, {given}) if view is None else _view_of({x}, array, view, {const})
"""


def _plan_of_view(rules: tables.Rules, kinds: tables.Arguments) -> Callable[..., Any]:
    """Plan calls that make views of their first argument, a Blob; or that may copy, and read it."""
    function, (_, names) = rules.function, tables.split_keys(kinds)
    given = [f"x{n}" for n in range(len(kinds))]
    first = [*kinds].index(tables.first_argument(function, kinds))
    blobs = [issubclass(kind, BlobCore) for kind in kinds.values()]
    # Other Blobs stand for axes and numbers.
    values = [f"np.asarray({x})" if blob else x for x, blob in zip(given, blobs, strict=True)]
    values[first] = "array"
    call, taken = arguments(values, names), ", ".join(given)
    text = _VIEW.format(given=taken, x=given[first], call=call, const=rules.const)
    method = None if names else tables.METHODS.get(function)
    native = _WITHOUT_COPIES.get(function) or method or rules.native
    axes, read = tables.VIEWS_OF_ONE[function], Plan(rules, kinds).run
    return maker_of(text, ("native", "axes", "read"), __name__)(native, axes, read)


def _reshape(a: Any, shape: Any = None, order: Any = "C", **options: Any) -> Any:
    """Return a view in another shape; None if it needs a copy, or there is an error."""
    try:
        return None if any(options.values()) else a.reshape(shape, order=order, copy=False)
    except (TypeError, ValueError):
        return None


def _ravel(a: Any, order: Any = "C") -> Any:
    """Return a contiguous view along one axis; None if it needs a copy."""
    view = None if order == "K" else _reshape(a, -1, order)
    return view if view is not None and view.flags.c_contiguous else None


_WITHOUT_COPIES: dict[Any, Callable[..., Any]] = {np.ravel: _ravel, np.reshape: _reshape}


def _view_of(x: Any, array: Any, view: Any, const: bool) -> Any:
    """Make a view of a Blob from a view of an array that stands for it; several of several."""
    if type(view) is not np.ndarray:
        return type(view)([_view_of(x, array, part, const) for part in view])
    if view is array:
        return x
    blob = x.view_of_array(array, view)
    if const and not view.flags.writeable:
        blob.readonly = True
    return blob


_CALLS = plans_by_function(lambda ufunc: _rules_of_ufunc((ufunc, "__call__")))
_METHODS = plans_by_function(_rules_of_ufunc)
FUNCTIONS = plans_by_function(_rules_of_function)
