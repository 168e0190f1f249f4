"""Calls that read no element: of functions that use shapes, dtypes and buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_supported
from syncblob._layout import Layout
from syncblob.arrays.native import backend_of, native_array
from syncblob.blob.core import BlobCore, fresh
from syncblob.calls.engine import Plan
from syncblob.calls.nested import replaced
from syncblob.calls.operands import is_leaf, shape_only
from syncblob.devices import HOST
from syncblob.guards import require_device
from syncblob.memory import compute

if TYPE_CHECKING:
    from syncblob.calls.tables import Rules
    from syncblob.devices.base import Home


class QuestionPlan(Plan):
    """The function gets arrays of the shapes and dtypes of Blobs."""

    __slots__ = ("asked",)

    def __init__(self, rules: Rules, count: int, kinds: Mapping[int | str, type]) -> None:
        super().__init__(rules, count, kinds)
        plain = rules.plain(range(count), kinds)
        # The keys of Blobs, and of what may contain Blobs.
        self.asked: Any = [
            key for key, kind in kinds.items() if key not in plain and not is_leaf(kind)
        ]

    def run(self, like: Any, args: Any, kwargs: Any) -> Any:
        """Make the call."""
        del like
        arguments: Any = [*args]
        for key in self.asked:
            values = arguments if type(key) is int else (kwargs := {**kwargs})
            x = values[key]
            if isinstance(x, BlobCore):
                # It may be out of date, and has the shape nevertheless.
                array = x.raw_array
                values[key] = array if type(array) is np.ndarray else x.layout.dummy()
            else:
                values[key] = replaced(x, BlobCore, shape_only)
        return self.native(*arguments, **kwargs)


class EmptyLikePlan(Plan):
    """The first argument gives only the shape, dtype and device; the others are plain values."""

    __slots__ = ()

    def run(self, like: Any, args: Any, kwargs: Any) -> Any:
        """Make the call."""
        home = like.home
        if not home.native:
            return self.run_in_room(like, args, kwargs)
        if not home.direct:
            require_device(home.device, self.rules.name)
        named = {name: shape_only(x) for name, x in kwargs.items()}
        make = self.native if home.direct else partial(compute, home, self.native)
        result = make(*map(shape_only, args), **named)
        return fresh(type(like), result, home) if is_supported(result.dtype) else result


class DirectPlan(Plan):
    """The function is called with the Blobs themselves."""

    __slots__ = ()

    def run(self, like: Any, args: Any, kwargs: Any) -> Any:
        """Make the call."""
        del like
        return self.native(*args, **kwargs)


class SharingPlan(Plan):
    """The function compares the addresses of two arrays."""

    __slots__ = ()

    def run(self, like: Any, args: Any, kwargs: Any) -> Any:
        """Make the call."""
        del like
        return _share(self.native, *args, **kwargs)


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
