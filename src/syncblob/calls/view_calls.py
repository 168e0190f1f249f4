"""Calls that only make views. Nothing is transferred: arrays stand for Blobs that are not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.blob.core import BlobCore
from syncblob.calls import tables
from syncblob.calls.engine import Plan
from syncblob.devices import HOST

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds


def plan_of_view(rules: tables.Rules, kinds: Kinds) -> Callable[..., Any]:
    """Plan calls that make views of their first argument, a Blob; or that may copy, and read it."""
    function, (count, names) = rules.function, tables.split_keys(kinds)
    axes = tables.VIEWS_OF_ONE[function]
    first = [*kinds].index(tables.first_argument(function, range(count)))
    # Other Blobs stand for axes and numbers.
    numbers = [
        n for n, kind in enumerate(kinds.values()) if n != first and issubclass(kind, BlobCore)
    ]
    native = _WITHOUT_COPIES.get(function, rules.native)
    read = Plan(rules, kinds).run
    # Of `sliding_window_view`.
    writeable = names.index("writeable") - len(names) if "writeable" in names else None

    def run(like: Any, *values: Any) -> Any:
        x = values[first]
        array = x.raw_array
        if array is None or x.known_memory is None or not x.home.native:
            array = x.viewable_array() if x.home.native else None
            array = x.layout.dummy() if array is None else array
        given = [*values]
        given[first] = array
        for n in numbers:
            given[n] = np.asarray(values[n])
        named = dict(zip(names, given[count:], strict=True)) if names else {}
        view = native(*given[:count], **named) if array.ndim >= axes else None
        if view is None:
            return read(like, *values)
        const = rules.const and not (writeable and values[writeable])
        if type(view) is np.ndarray:
            return _view_of(x, array, view, const)
        return type(view)([_view_of(x, array, part, const) for part in view])

    return run


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
    """Make a view of a Blob from a view of an array that stands for it."""
    if view is array:
        return x
    if const:
        view.flags.writeable = False
    blob = x.view_of_array(array, view)
    if blob is None:
        # The array is a dummy, or another thread has replaced the buffer. The elements have the
        # same offsets in the new one.
        layout = x.layout
        distance = HOST.address(view) - HOST.address(array) if view.size else 0
        return x.view_at(Layout.of_array(view, layout.offset + distance), readonly=const)
    if const:
        blob.readonly = True
    return blob
