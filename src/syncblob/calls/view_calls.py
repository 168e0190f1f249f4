"""Calls that only make views. Nothing is transferred: arrays stand for Blobs that are not read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.devices import HOST

if TYPE_CHECKING:
    from syncblob.blob.core import BlobCore


def stand_in(x: BlobCore) -> Any:
    """Return an array with the layout of a Blob, of which views can be made, but not read."""
    array = x._array if x.home.native and x._has_array() else None
    return x.layout.dummy() if array is None else array


def view_of(x: Any, array: Any, view: Any, const: bool) -> Any:
    """Make a view of a Blob from a view of an array that stands for it."""
    if view is array:
        return x
    if const:
        view.flags.writeable = False
    blob = x._view_of_array(array, view)
    if blob is None:
        # The array is a dummy, or another thread has replaced the buffer. The elements have the
        # same offsets in the new one.
        layout = x.layout
        distance = HOST.address(view) - HOST.address(array) if view.size else 0
        return x._view(Layout.of_array(view, layout.offset + distance), readonly=const)
    if const:
        blob._readonly = True
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
