"""Calls that only make views. Nothing is transferred: arrays stand for Blobs that are not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_supported
from syncblob._layout import Layout
from syncblob.arrays.native import native_array
from syncblob.blob.core import BlobCore
from syncblob.calls import tables
from syncblob.calls.engine import Plan
from syncblob.calls.operands import adopted
from syncblob.calls.texts import arguments, compiler
from syncblob.devices import HOST

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds


# Argument n is x{n}; the Blob is x{first}, and its array need not be up to date.
_VIEW = """
def run(like, {given}):
    array = x{first}.raw_array
    if array is None or x{first}.known_memory is None or not x{first}.home.native:
        array = stand_in(x{first})
    if {copies}:
        return read(like, {given})
    result = native({call})
    if type(result) is ndarray:
        return view_of(x{first}, array, result, {const})
    return type(result)([view_of(x{first}, array, part, {const}) for part in result])
"""


def plan_of_view(rules: tables.Rules, kinds: Kinds) -> Callable[..., Any]:
    """Plan calls that make views of their first argument, a Blob; or that may copy, and read it."""
    function, (count, names) = rules.function, tables.split_keys(kinds)
    native, axes = tables.METHODS.get(function, rules.native), tables.VIEWS[function].axes
    key = tables.first_argument(function, range(count))
    first = [*kinds].index(key)
    # Other Blobs stand for axes and numbers.
    passed = [
        f"number(x{n})" if issubclass(kind, BlobCore) else f"x{n}"
        for n, kind in enumerate(kinds.values())
    ]
    del passed[first]
    rest = [name for name in names if name != key]
    call = arguments(["array", *passed], rest)
    copies = f"array.ndim < {axes}" if axes else "False"
    usual_count = tables.VIEWS_OR_COPIES.get(function)
    if usual_count is not None:
        # With so many arguments it makes a view, if the array is C-contiguous.
        usual = not rest and len(kinds) == usual_count
        copies = f"not makes_view(function, {call.replace('array', f'x{first}', 1)})"
        copies = f"not array.flags.c_contiguous and {copies}" if usual else copies
    writeable = f" and not x{[*kinds].index('writeable')}" if "writeable" in rest else ""
    words = {
        "given": ", ".join(f"x{n}" for n in range(len(kinds))),
        "first": first,
        "copies": copies,
        "call": call,
        "const": f"{rules.const}{writeable}",
    }
    read = Plan(rules._replace(native=native), kinds).run
    values = {"native": native, "function": function, "read": read}
    return _run_of(_VIEW.format(**words), values)


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


def _makes_view(function: Callable[..., Any], x: BlobCore, *args: Any, **kwargs: Any) -> bool:
    """Return whether `reshape` or `ravel` makes a view of a Blob."""
    layout = x.layout
    if function is np.reshape:
        try:
            np.reshape(layout.dummy(), *args, **{**kwargs, "copy": False})
        except (TypeError, ValueError):
            return False
        return not kwargs.get("copy")
    flags = layout.dummy().flags
    order = args[0] if args else kwargs.get("order", "C")
    return {
        "C": flags.c_contiguous,
        "F": flags.f_contiguous,
        "A": flags.forc,
        "K": layout.gapless and not layout.backwards,
    }.get(order, False)


_NAMES: dict[str, Any] = {
    "__name__": __name__,
    "makes_view": _makes_view,
    "ndarray": np.ndarray,
    "number": _number,
    "stand_in": stand_in,
    "view_of": view_of,
}
_run_of = compiler(__file__, _NAMES)
