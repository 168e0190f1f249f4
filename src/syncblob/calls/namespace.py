"""Functions of the array API's namespace, computed by the array library of the device."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from syncblob._dtypes import SCALARS
from syncblob.blob.core import BlobCore
from syncblob.calls.engine import plans_by_function
from syncblob.calls.operands import as_blob, is_plain_array, with_blobs
from syncblob.calls.tables import Arguments, Key, Rules, split_keys


def _keywords(given: Arguments) -> Collection[Key]:
    return split_keys(given)[1]


def _rules(function: str | Callable[..., Any]) -> Rules:
    if isinstance(function, str):
        of_numpy = attrgetter(function)(np)
        native = getattr(of_numpy, "_implementation", of_numpy)
        return Rules(function, of_numpy, native, plain=_keywords, by_name=True)
    name = function.__name__.lstrip("_")
    return Rules(name, function, partial(function, np), plain=_keywords, with_library=True)


_FUNCTIONS = plans_by_function(_rules)


def apply(function: str | Callable[..., Any], *operands: Any, **keywords: Any) -> Any:
    """Compute with Blobs, arrays beside them, scalars and None; return one Blob or several.

    `function` is the name of a function of the device's array library, such as ``"linalg.inv"``, or
    a function that takes that library first. Keywords are passed on. A result that overlaps an
    operand is a view of it.
    """
    like: Any = None
    for x in operands:
        if isinstance(x, BlobCore):
            if like is None:
                like = x
        elif not (x is None or type(x) in SCALARS or is_plain_array(x)):
            like = None
            break
    if like is None:
        name = function if isinstance(function, str) else function.__name__.lstrip("_")
        operands = tuple(with_blobs(name, operands))
        like = next(x for x in operands if isinstance(x, BlobCore))
    values = (*operands, *keywords.values())
    result = _FUNCTIONS[function][tuple(keywords), tuple(map(type, values))](like, *values)
    return tuple(result) if type(result) is list else result


def view(x: Any, name: str, function: Callable[[Any], Any]) -> Any:
    """Return the view that a function makes of a Blob's array, without reading it."""
    if not isinstance(x, BlobCore):
        x = as_blob(name, x)
    return x.derive(function) if x.home.views else x.view_at(x.layout.derive(function))
