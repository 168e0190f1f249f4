"""Calls that read no element: of functions that use shapes, dtypes and buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._dtypes import SUPPORTED, is_supported
from syncblob._layout import Layout
from syncblob.arrays.native import backend_of, native_array
from syncblob.blob.core import BlobCore, fresh
from syncblob.calls.nested import replaced
from syncblob.calls.operands import is_leaf, shape_only
from syncblob.devices import HOST
from syncblob.memory import compute
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.calls.engine import Plan
    from syncblob.calls.tables import Rules
    from syncblob.devices.base import Home


class Answer(NamedTuple):
    """The plan of a call that needs no arrays."""

    run: Callable[[Any, Any, Any], Any]
    """Makes the call; gets the Blob whose class results have, the arguments and the keywords."""


def by_shapes(rules: Rules, count: int, kinds: Mapping[int | str, type]) -> Answer:
    """Plan calls of a function that uses no more than shapes and dtypes."""
    plain = rules.plain(range(count), kinds)
    # The keys of Blobs, and of what may contain Blobs.
    asked = [key for key, kind in kinds.items() if key not in plain and not is_leaf(kind)]

    def run(_like: Any, args: Any, kwargs: Any) -> Any:
        arguments, named = [*args], {**kwargs}
        for key in asked:
            values: Any = arguments if type(key) is int else named
            x = values[key]
            values[key] = (
                shape_only(x) if isinstance(x, BlobCore) else replaced(x, BlobCore, shape_only)
            )
        return rules.native(*arguments, **named)

    return Answer(run)


def empty_like(rules: Rules, otherwise: Plan) -> Answer:
    """Plan calls that use the shape and dtype of a Blob to make an array; others are plain."""

    def run(like: Any, args: Any, kwargs: Any) -> Any:
        home = like.home
        if not home.native:
            return otherwise.run_in_room(like, args, kwargs)
        if not home.direct:
            require_device(home.device, rules.name)
        given = [shape_only(x) if isinstance(x, BlobCore) else x for x in args]
        named = {name: shape_only(x) for name, x in kwargs.items()} if kwargs else kwargs
        make = rules.native if home.direct else partial(compute, home, rules.native)
        result = make(*given, **named)
        known = result.dtype in SUPPORTED or is_supported(result.dtype)
        return fresh(type(like), result, home) if known else result

    return Answer(run)


def directly(rules: Rules) -> Answer:
    """Plan calls that get the Blobs themselves."""
    return Answer(lambda _like, args, kwargs: rules.native(*args, **kwargs))


def sharing(rules: Rules) -> Answer:
    """Plan calls that compare the addresses of two arrays."""
    return Answer(lambda _like, args, kwargs: _share(rules.native, *args, **kwargs))


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
        home = HOST if isinstance(array, np.ndarray) else backend_of(array)
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
