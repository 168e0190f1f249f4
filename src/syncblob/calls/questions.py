"""Calls that read no element: of functions that use shapes, dtypes and buffers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob.arrays.native import backend_of, native_array
from syncblob.blob.core import BlobCore
from syncblob.calls.nested import replaced
from syncblob.calls.operands import is_leaf, shape_only
from syncblob.calls.tables import split_keys
from syncblob.devices import HOST

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds
    from syncblob.calls.tables import Rules
    from syncblob.devices.base import Home


def plan_by_shapes(rules: Rules, kinds: Kinds) -> Callable[..., Any]:
    """Plan calls of a function that uses no more than shapes and dtypes."""
    count, names = split_keys(kinds)
    plain = rules.plain(range(count), kinds)
    # The numbers of Blobs, and of what may contain Blobs.
    asked = [n for n, key in enumerate(kinds) if key not in plain and not is_leaf(kinds[key])]

    def run(_like: Any, *values: Any) -> Any:
        given = [*values]
        for n in asked:
            x = given[n]
            if isinstance(x, BlobCore):
                given[n] = shape_only(x)
            else:
                given[n] = replaced(x, BlobCore, shape_only)
        return rules.native(*given[:count], **dict(zip(names, given[count:], strict=True)))

    return run


def plan_of_sharing(rules: Rules, kinds: Kinds) -> Callable[..., Any]:
    """Plan calls that compare the addresses of two arrays."""
    count, names = split_keys(kinds)
    share = partial(_share, rules.native)
    return lambda _like, *values: share(
        *values[:count], **dict(zip(names, values[count:], strict=True))
    )


def _share(function: Callable[..., Any], a: Any, b: Any, max_work: Any = None) -> bool:
    """Compare ranges of one memory, or existing buffers. Causes no transfer."""
    if isinstance(a, BlobCore) and isinstance(b, BlobCore) and a.memory is b.memory:
        # The Blob may have no buffer yet.
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
        home = HOST if isinstance(array, np.ndarray) else backend_of(array)
        return [(home, _comparable(home, array))]
    memory, layout = x.memory, x.layout
    return [
        (home, _comparable(home, window.view(home, layout, writable=False, own=True)))
        for side in memory.all_sides
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
