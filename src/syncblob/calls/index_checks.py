"""Indices, which only NumPy checks and brings into bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from syncblob.arrays.foreign import is_array
from syncblob.blob.core import BlobCore
from syncblob.calls.tables import INDICES, Arguments, Key, keys_by_name, names_of
from syncblob.devices import HOST, Side
from syncblob.memory import CONST, compute

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def require_bounds(home: Home, indices: Any, lowest: int, length: int, axis: int = 0) -> None:
    """Raise an IndexError if an index is less than the lowest, or not less than a length.

    `axis` is for the message. Indices that only a device holds are checked if it checks any.
    """
    low = high = indices
    if not isinstance(indices, int):
        if not isinstance(indices, BlobCore) or _is_on_host(indices):
            home = HOST
        if not (indices.size and home.checks_values):
            return
        if isinstance(indices, BlobCore):
            indices = indices.array_in(home, CONST, "__getitem__")
        low, high = (int(compute(home, home.own(name), indices)) for name in ("min", "max"))
    if low < lowest or high >= length:
        wrong = low if low < lowest else high
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")


def _is_on_host(blob: BlobCore) -> bool:
    """Return whether the host holds the newest contents of a Blob."""
    if blob.known_memory is None and blob.raw_array is not None:
        # The result of a computation. The map would have to be made first.
        return blob.home is HOST
    memory = blob.memory
    return memory.spans.common(*blob.layout.reach) & 1 << Side.HOST != 0


def check_indices(function: Callable[..., Any], home: Home, given: Arguments) -> dict[Key, Any]:
    """Check the indices of a function as NumPy does for ndarrays, and return all arguments."""
    arguments = {name: given[key] for name, key in keys_by_name(function, given).items()}
    mode = arguments.pop("mode", "raise")
    if mode not in {"raise", "wrap", "clip"}:
        raise ValueError(f'expected mode "raise", "wrap" or "clip", got {mode!r}')
    place, names = INDICES[function], names_of(function)
    key, of = names[place], names[1 - place]
    x = arguments[key]
    indices: Any = x if isinstance(x, BlobCore) else np.asarray(x)
    if function is np.choose:
        length = len(arguments[of])
    else:
        shape = np.shape(arguments[of])
        axis = arguments.get("axis", -1 if function is np.take_along_axis else None)
        length = math.prod(shape) if axis is None else shape[normalize_axis_index(axis, len(shape))]
    if key == "condition":
        # Libraries take the indices of the true elements.
        if indices.size > length and np.any(indices.reshape(-1)[length:]):
            raise IndexError(f"{function.__name__} got a condition longer than {length}")
    elif indices.dtype.kind in "biu":
        if mode == "raise" or not length:
            try:
                require_bounds(home, indices, 0 if function is np.choose else -length, length)
            except IndexError as error:
                raise (ValueError(str(error)) if function is np.choose else error) from None
        else:
            inside = indices.astype(np.intp)
            inside = inside % length if mode == "wrap" else inside.clip(0, length - 1)
            arguments[key] = inside if is_array(x) else inside.tolist()
    named: dict[Key, Any]
    named = {name: arguments.pop(name) for name in ("axis", "out") if name in arguments}
    if function in {np.choose, np.put} and not home.checks_values:
        named["mode"] = mode
    return {**dict(enumerate(arguments.values())), **named}
