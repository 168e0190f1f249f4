"""Functions of the array API's namespace, computed by the array library of the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from syncblob._dtypes import PYTHON_SCALARS
from syncblob.blob.core import BlobCore
from syncblob.calls.engine import Cache, Plan, plans_of
from syncblob.calls.operands import as_blob, is_operand, refusal
from syncblob.calls.tables import Arguments, Rules, split_keys


def _rules(function: str | Callable[..., Any]) -> Rules:
    if isinstance(function, str):
        of_numpy = attrgetter(function)(np)
        native = getattr(of_numpy, "_implementation", of_numpy)
        return Rules(function, of_numpy, native, by_name=True)
    name = function.__name__.lstrip("_")
    return Rules(name, function, partial(function, np), with_library=True)


def _plans(rules: Rules) -> Cache:
    """Return the plans of a function of Blobs, arrays beside them and scalars, and of keywords."""
    # With None, NumPy would compute an array of objects.
    passed_on = PYTHON_SCALARS if rules.elementwise else PYTHON_SCALARS | {type(None)}

    def plan(rules: Rules, kinds: Arguments) -> Callable[..., Any]:
        count, names = split_keys(kinds)
        among = [*kinds.values()][:count]
        blobs = [n for n, kind in enumerate(among) if issubclass(kind, BlobCore)]

        def foreign(*values: Any) -> Any:
            operands, options = values[:count], values[count:]
            given = [
                x if type(x) in passed_on else as_blob(rules.name, x, *operands) for x in operands
            ]
            if not any(isinstance(x, BlobCore) for x in given):
                raise refusal(rules.name, operands[0])
            return plans[names, *map(type, (*given, *options))](*given, *options)

        if not blobs or not all(is_operand(kind) or kind in passed_on for kind in among):
            return foreign
        # The class that NumPy chooses: the first of which no other is a subclass.
        own = {among[n] for n in blobs}
        like = next(n for n in blobs if not any(issubclass(x, among[n]) for x in own - {among[n]}))
        return Plan(rules, kinds, foreign, like=like).run

    plans = plans_of(rules._replace(plan=plan, plain=lambda given: split_keys(given)[1]))
    return plans


def plans_of_kernel(kernel: Callable[..., Any]) -> Cache:
    """Return the plans of a function that computes a kernel elementwise, in a new Blob.

    The operands are Blobs; one may be a scalar or an array of any library. Without a Blob, NumPy's
    scalars become Blobs.
    """
    return _plans(Rules(kernel.__name__, kernel, kernel, elementwise=True))


_FUNCTIONS = Cache(lambda function: _plans(_rules(function)))


def apply(function: str | Callable[..., Any], *operands: Any, **keywords: Any) -> Any:
    """Compute with Blobs, arrays beside them, scalars and None; return one Blob or several.

    `function` is the name of a function of the device's array library, such as ``"linalg.inv"``, or
    a function that takes that library first. Keywords are passed on. A result that overlaps an
    operand is a view of it.
    """
    values = (*operands, *keywords.values())
    result = _FUNCTIONS[function][(*keywords,), *map(type, values)](*values)
    return tuple(result) if type(result) is list else result


def view(x: Any, name: str, function: Callable[[Any], Any]) -> Any:
    """Return the view that a function makes of a Blob's array, without reading it."""
    if not isinstance(x, BlobCore):
        x = as_blob(name, x)
    return x.derive(function) if x.home.views else x.view_at(x.layout.derive(function))
