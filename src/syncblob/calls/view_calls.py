"""Calls that only make views. Nothing is transferred: arrays stand for Blobs that are not read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_supported
from syncblob._layout import Layout
from syncblob.arrays.native import native_array
from syncblob.blob.core import BlobCore
from syncblob.calls import tables
from syncblob.calls.engine import Plan
from syncblob.calls.operands import adopted
from syncblob.devices import HOST

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds


def plan_of_view(rules: tables.Rules, kinds: Kinds) -> Callable[..., Any]:
    """Plan calls that make views of their first argument, a Blob; or that may copy, and read it."""
    function, (count, names) = rules.function, tables.split_keys(kinds)
    native, axes = tables.METHODS.get(function, rules.native), tables.VIEWS[function].axes
    read = Plan(rules._replace(native=native), kinds).run
    # For a function that may also copy: with so many arguments it does not, if the array is
    # C-contiguous.
    usual_count = tables.VIEWS_OR_COPIES.get(function)
    # Other Blobs stand for axes and numbers. The first argument may have a name.
    blobs = sum(issubclass(kind, BlobCore) for kind in kinds.values())
    unusual = blobs > 1 or not issubclass(kinds.get(0, object), BlobCore)

    def run(like: Any, *values: Any) -> Any:
        given, named = values, {}
        if names:
            given, named = values[:count], dict(zip(names, values[count:], strict=True))
        if unusual:
            x = given[0] if given else named.pop(str(tables.first_argument(function, ())))
            given = (x, *map(_number, given[1:]))
            named = {name: _number(y) for name, y in named.items()}
        x = given[0]
        array = x.raw_array
        if array is None or x.known_memory is None or not x.home.native:
            array = stand_in(x)
        if array.ndim < axes or (
            usual_count is not None
            and (named or len(given) != usual_count or not array.flags.c_contiguous)
            and not makes_view(function, x, given, named)
        ):
            return read(like, *values)
        result = native(array, *given[1:], **named)
        const = rules.const and not named.get("writeable")
        if type(result) is np.ndarray:
            return view_of(x, array, result, const)
        return type(result)([view_of(x, array, part, const) for part in result])

    return run


def plan_of_views(rules: tables.Rules, kinds: Kinds) -> Callable[..., Any]:
    """Plan calls that make one view of each positional argument."""
    count, names = tables.split_keys(kinds)

    def run(like: Any, *values: Any) -> Any:
        operands = [_operand(x, like) for x in values[:count]]
        arrays = [stand_in(x) if isinstance(x, BlobCore) else x for x in operands]
        result = rules.native(*arrays, **dict(zip(names, values[count:], strict=True)))
        return type(result)(
            view_of(x, array, view, rules.const) if isinstance(x, BlobCore) else view
            for x, array, view in zip(operands, arrays, result, strict=True)
        )

    return run


def _operand(x: Any, like: Any) -> Any:
    """Return a Blob in place of an array; an array of a dtype that Blobs do not support."""
    if isinstance(x, BlobCore):
        return x
    array = native_array(x)[0]
    device = like.device if isinstance(array, np.ndarray) else None
    return adopted(array, like, device) if is_supported(array.dtype) else array


def _number(x: Any) -> Any:
    """Return the contents of a Blob that stands for an axis or a number; others as they are."""
    return np.asarray(x) if isinstance(x, BlobCore) else x


def stand_in(x: BlobCore) -> Any:
    """Return an array with the layout of a Blob, of which views can be made, but not read."""
    array = x.viewable_array() if x.home.native else None
    return x.layout.dummy() if array is None else array


def view_of(x: Any, array: Any, view: Any, const: bool) -> Any:
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


def makes_view(
    function: Callable[..., Any], x: BlobCore, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Return whether `reshape` or `ravel` makes a view of a Blob."""
    layout = x.layout
    if function is np.reshape:
        try:
            np.reshape(layout.dummy(), *args[1:], **{**kwargs, "copy": False})
        except (TypeError, ValueError):
            return False
        return not kwargs.get("copy")
    flags = layout.dummy().flags
    order = args[1] if len(args) > 1 else kwargs.get("order", "C")
    return {
        "C": flags.c_contiguous,
        "F": flags.f_contiguous,
        "A": flags.forc,
        "K": layout.gapless and not layout.backwards,
    }.get(order, False)
