"""NumPy's protocols: ``__array_ufunc__`` and ``__array_function__``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from syncblob._dtypes import SCALARS
from syncblob.arrays.foreign import is_stranger
from syncblob.blob.core import BlobCore
from syncblob.calls import tables
from syncblob.calls.elementwise import binary, unary
from syncblob.calls.engine import Plan, plan_of
from syncblob.calls.foreign_protocols import function_with_strangers, ufunc_with_strangers
from syncblob.calls.operands import is_leaf
from syncblob.calls.questions import Answer, by_shapes, directly, empty_like, sharing
from syncblob.calls.view_calls import ViewPlan, ViewsPlan

# Types of keyword arguments that do not change the plan: neither Blobs nor written.
_PLAIN = frozenset({*SCALARS, str, type, type(None)})


def array_ufunc(like: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Compute a ufunc, or one of its methods; NumPy calls this as ``__array_ufunc__``.

    Returns
    -------
    Blob or tuple of Blob
        `out` itself if given, even if it is an array. A result of an unsupported dtype, such as
        longdouble, is an array.
    """
    if not kwargs and method == "__call__" and ufunc in tables.ELEMENTWISE:
        if len(inputs) == 1:
            return unary(ufunc, like)
        x1, x2 = inputs
        if type(x1) is type(x2) or type(x2) in SCALARS:
            return binary(ufunc, x1, x2)
    kinds = [*map(type, inputs)]
    if list in kinds or tuple in kinds:
        # The second operand of these is an index, which may be a tuple.
        index = 1 if method in {"at", "reduceat"} else None
        inputs = tuple(
            np.asarray(x) if isinstance(x, (list, tuple)) and position != index else x
            for position, x in enumerate(inputs)
        )
        kinds = [*map(type, inputs)]
    if kwargs:
        out = kwargs.get("out", ())
        if type(out) is not tuple or (method == "__call__" and len(inputs) > ufunc.nin):
            # Numba's `vectorize` passes what to write as it was given, unlike NumPy.
            given = inputs[ufunc.nin :] or (out,)
            return array_ufunc(
                like, ufunc, method, *inputs[: ufunc.nin], **{**kwargs, "out": given}
            )
        if len(out) == 1:
            (kwargs["out"],) = out
        elif any(map(_is_stranger, map(type, out))):
            return ufunc_with_strangers(ufunc, method, inputs, kwargs)
        kinds += map(type, kwargs.values())
    plan: Plan = plan_of(_rules_of_ufunc, (ufunc, method), (*kwargs,), *kinds)
    return plan.run(like, inputs, kwargs)


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
    if len(types) > 1 and _are_strange(*types):
        return function_with_strangers(func, types, args, kwargs)
    plan: Plan
    if kwargs:
        named = func in tables.WRITES
        for value in kwargs.values():
            if named or type(value) not in _PLAIN:
                kinds = map(type, kwargs.values())
                plan = plan_of(_rules_of_function, func, (*kwargs,), *map(type, args), *kinds)
                return plan.run(like, args, kwargs)
    # Inlined for few arguments, because `map` would take most of the time.
    match args:
        case (x1,):
            plan = plan_of(_rules_of_function, func, (), type(x1))
        case (x1, x2):
            plan = plan_of(_rules_of_function, func, (), type(x1), type(x2))
        case _:
            plan = plan_of(_rules_of_function, func, (), *map(type, args))
    return plan.run(like, args, kwargs)


# --- plans ----------------------------------------------------------------------------------------


def _has_strangers(*kinds: type) -> bool:
    return any(
        is_stranger(kind, "__array_function__") for kind in kinds if not issubclass(kind, BlobCore)
    )


# Returns whether a type implements ``__array_function__`` in its own way.
_are_strange: Callable[..., bool] = lru_cache(maxsize=256)(_has_strangers)


def _is_stranger(kind: type) -> bool:
    return not issubclass(kind, BlobCore) and is_stranger(kind, "__array_ufunc__")


def _rules_of_ufunc(ufunc_and_method: tuple[np.ufunc, str]) -> tables.Rules:
    def plan(rules: tables.Rules, count: int, kinds: Mapping[int | str, type]) -> Any:
        operands = [kind for key, kind in kinds.items() if type(key) is int or key == "out"]
        if any(map(_is_stranger, operands)):
            return Answer(lambda _, *call: ufunc_with_strangers(*ufunc_and_method, *call))
        return Plan(rules, count, kinds)

    return tables.rules_of_ufunc(ufunc_and_method)._replace(plan=plan)


def _rules_of_function(function: Callable[..., Any]) -> tables.Rules:
    return tables.rules_of_function(function)._replace(plan=_plan_of_function)


def _plan_of_function(  # noqa: PLR0911  # one for each kind of function
    rules: tables.Rules, count: int, kinds: Mapping[int | str, type]
) -> Plan | Answer:
    function = rules.function
    if function in tables.QUESTIONS:
        return by_shapes(rules, count, kinds)
    if function in tables.SHARING:
        return sharing(rules)
    plan = Plan(rules, count, kinds)
    if function in tables.WRITES or rules.home is not None or plan.target is not None:
        return plan
    args = range(count)
    first = tables.first_argument(function, args)
    views = tables.VIEWS.get(function)
    if issubclass(kinds.get(first, object), BlobCore):
        others = [kind for key, kind in kinds.items() if key != first]
        if function in tables.EMPTY_LIKE and all(map(is_leaf, others)):
            return empty_like(rules, plan)
        if function in tables.OF_ATTRIBUTES:
            # NumPy returns an attribute of its argument: of the Blob itself.
            return directly(rules)
        if views is not None and (not views.several or count == 1):
            return ViewPlan(rules, count, kinds, views)
        if first == 0:
            plan.native = tables.METHODS.get(function, plan.native)
    if views is not None and views.several and not {list, tuple} & {kinds[key] for key in args}:
        return ViewsPlan(rules, count, kinds)
    return plan
