"""Manipulation functions. Those that return views read no element.

An axis given twice raises a ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from syncblob._blob import Blob
from syncblob._shape import require_repeats
from syncblob.array_api._checks import require_blobs, require_indices
from syncblob.calls.namespace import apply, view
from syncblob.calls.operands import as_blob

if TYPE_CHECKING:
    from syncblob.array_api._checks import Axes


def broadcast_arrays(*arrays: Blob) -> tuple[Blob, ...]:
    """Broadcast Blobs to their common shape, as views; see `broadcast_to`.

    Each stays on its device. An array of another library is copied, for that of the first Blob.
    """
    operands: tuple[Any, ...] = arrays
    blobs = [as_blob("broadcast_arrays", x, *operands) for x in operands]
    for index, x in enumerate(operands):
        if not isinstance(x, (Blob, np.generic)):
            # A view of the array itself would miss later writes to it.
            like = next(other for other in operands if isinstance(other, Blob))
            blobs[index] = blobs[index].copy().on(like.device)
    shape = np.broadcast_shapes(*(x.shape for x in blobs))
    return tuple(broadcast_to(x, shape) for x in blobs)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast; ``()`` without arguments."""
    return np.broadcast_shapes(*shapes)


def broadcast_to(x: Blob, /, shape: tuple[int, ...]) -> Blob:
    """Return a view of another shape, which repeats elements along axes of length 1.

    It is const if elements are repeated, because a write to one would change the others.
    """
    x = as_blob("broadcast_to", x)
    result: Blob = view(x, "broadcast_to", lambda a: np.broadcast_to(a, shape))
    if result.size == x.size:
        return x.reshape(result.shape)
    result.readonly = True
    return result


def expand_dims(x: Blob, /, axis: int | tuple[int, ...]) -> Blob:
    """Return a view with axes of length 1 at the given positions of the result."""
    return view(x, "expand_dims", lambda a: np.expand_dims(a, axis))


def reshape(x: Blob, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Blob:
    """Return the elements in C order in another shape, one dimension of which may be -1.

    This is a view, or a new Blob if the strides allow no view or `copy` is True. Raises a
    ValueError if the number of elements differs, or if `copy` is False and a view is impossible.
    """
    return as_blob("reshape", x).reshape(shape, copy=copy)


def squeeze(x: Blob, /, axis: int | tuple[int, ...]) -> Blob:
    """Return a view without the given axes, which have length 1."""
    return view(x, "squeeze", lambda a: a.squeeze(normalize_axis_tuple(axis, a.ndim)))


def flip(x: Blob, /, *, axis: Axes = None) -> Blob:
    """Return a view with the elements reversed along axes; along all axes if `axis` is None."""
    return view(x, "flip", lambda a: _flip(a, axis))


def _flip(a: Any, axis: Axes) -> Any:
    axes = range(a.ndim) if axis is None else normalize_axis_tuple(axis, a.ndim)
    # With the Ellipsis, the result without axes is an array, not a scalar as of `numpy.flip`.
    return a[(*(slice(None, None, -1 if i in axes else 1) for i in range(a.ndim)), ...)]


def moveaxis(x: Blob, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Blob:
    """Return a view with axes moved to new positions; the others keep their order."""
    return view(x, "moveaxis", lambda a: np.moveaxis(a, source, destination))


def permute_dims(x: Blob, /, axes: tuple[int, ...]) -> Blob:
    """Return a view with the axes permuted."""
    return view(x, "permute_dims", lambda a: a.transpose(normalize_axis_tuple(axes, a.ndim)))


def roll(x: Blob, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Blob:
    """Shift elements along axes; elements shifted beyond one end re-enter at the other.

    `shift` is the number of places, towards higher indices if positive: for all axes, or a tuple
    with one for each of the tuple `axis`, else a ValueError. `axis` None shifts the elements in C
    order, and restores the shape.
    """
    # NumPy would broadcast the two; the standard requires equal lengths.
    if isinstance(shift, tuple) and not (isinstance(axis, tuple) and len(axis) == len(shift)):
        raise ValueError(f"expected a tuple of {len(shift)} axes, one for each shift, got {axis!r}")
    return apply("roll", x, shift=shift, axis=axis)


def unstack(x: Blob, /, *, axis: int = 0) -> tuple[Blob, ...]:
    """Split a Blob along an axis, which is removed, into one view for each of its indices."""
    x = as_blob("unstack", x)
    axis = normalize_axis_index(axis, x.ndim)
    before = (slice(None),) * axis
    return tuple(x[(*before, index)] for index in range(x.shape[axis]))


def concat(arrays: Sequence[Blob], /, *, axis: int | None = 0) -> Blob:
    """Join Blobs along an axis; None flattens them first. Dtypes are promoted as in NumPy."""
    return apply(_concat, *require_blobs("concat", arrays), axis=axis)


def _concat(xp: Any, *arrays: Any, axis: int | None) -> Any:
    # Separate operands are brought to one device.
    return xp.concat(arrays, axis=axis)


def stack(arrays: Sequence[Blob | np.generic], /, *, axis: int = 0) -> Blob:
    """Join Blobs of one shape along a new axis of the result, promoting dtypes as NumPy does.

    NumPy scalars, which iterating over a Blob yields, are brought to the device of the first Blob.
    """
    return apply(_stack, *require_blobs("stack", arrays), axis=axis)


def _stack(xp: Any, *arrays: Any, axis: int) -> Any:
    return xp.stack(arrays, axis=axis)


def repeat(x: Blob, repeats: int | Blob, /, *, axis: int | None = None) -> Blob:
    """Repeat each element along an axis; None flattens `x` first.

    `repeats` is an integer, or a Blob of integers with one entry for all elements or one for each.
    On an accelerator such a Blob synchronizes, because its contents determine the shape of the
    result. Raises a TypeError for other `repeats`; a ValueError if a count is negative, they do not
    broadcast to the length of the axis, or the result cannot be addressed.
    """
    x = as_blob("repeat", x, repeats)
    counts = repeats if isinstance(repeats, int) else require_indices("repeat", repeats, x)
    if isinstance(repeats, int) or str(x.device) == "cpu":  # do not transfer counts for that
        require_repeats(x.shape, x.itemsize, repeats, axis)
    return apply("repeat", x, counts, axis=axis)


def tile(x: Blob, repetitions: tuple[int, ...], /) -> Blob:
    """Repeat a whole Blob along its axes. Fewer numbers than axes apply to the last ones."""
    return apply("tile", x, reps=repetitions)
