"""Manipulation functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/manipulation_functions.html

Functions that return views read no element and cause no transfer. The others compute on their
operands' device, without a transfer; if the operands are on both the CPU and an accelerator, they
compute on the accelerator. Without a Blob among the operands, they raise a TypeError. An axis out
of range raises an IndexError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from syncblob._blob import Blob
from syncblob._shape import require_repeats
from syncblob.array_api._checks import require_blobs, require_indices, require_some
from syncblob.blob.missing import refuse
from syncblob.calls.namespace import apply, view
from syncblob.calls.operands import as_blob

# --- broadcasting --------------------------------------------------------------------------------


def broadcast_arrays(*arrays: Blob) -> tuple[Blob, ...]:
    """Broadcast Blobs to their common shape; see `broadcast_to`.

    Each stays on its device. An array of another library is copied, for that of the first Blob.

    Returns
    -------
    tuple of Blob
        Views, one for each Blob; const views if elements are repeated.

    Raises
    ------
    ValueError
        If the shapes do not broadcast.
    """
    operands: tuple[Any, ...] = arrays
    blobs = list(require_blobs("broadcast_arrays", operands))
    for index, x in enumerate(operands):
        if not isinstance(x, (Blob, np.generic)):
            # A view of the array itself would miss later writes to it.
            like = next(other for other in operands if isinstance(other, Blob))
            blobs[index] = blobs[index].copy().on(like.device)
    shape = np.broadcast_shapes(*(x.shape for x in blobs))
    return tuple(broadcast_to(x, shape) for x in blobs)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast; ``()`` without arguments.

    Raises
    ------
    ValueError
        If they do not broadcast.
    """
    return np.broadcast_shapes(*shapes)


def broadcast_to(x: Blob, /, shape: tuple[int, ...]) -> Blob:
    """Return a view of another shape, which repeats elements along axes of length 1.

    Returns
    -------
    Blob
        A const view if elements are repeated, because a write to one would change the others; else
        a writable view.

    Raises
    ------
    ValueError
        If `x` does not broadcast to the shape.
    """
    x = as_blob("broadcast_to", x)
    result: Blob = view(x, "broadcast_to", lambda a: np.broadcast_to(a, shape))
    if result.size == x.size:
        return x.reshape(result.shape)
    result.readonly = True
    return result


# --- other shapes of the same elements -----------------------------------------------------------


def expand_dims(x: Blob, /, axis: int | tuple[int, ...], **other: Never) -> Blob:
    """Return a view with axes of length 1 at the given positions of the result.

    Raises
    ------
    IndexError
        If a position is out of range.
    ValueError
        If a position is given twice.
    """
    return refuse(other) if other else view(x, "expand_dims", lambda a: np.expand_dims(a, axis))


def reshape(x: Blob, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Blob:
    """Return the elements in C order in another shape.

    Parameters
    ----------
    x
        The Blob.
    shape
        The new dimensions; one may be -1.
    copy
        None copies only if the strides allow no view, True always, False never.

    Returns
    -------
    Blob
        A view, or a new Blob if the elements are copied.

    Raises
    ------
    ValueError
        If the number of elements differs, or if `copy` is False and a view is impossible.
    """
    if type(x) is not Blob:
        x = as_blob("reshape", x)
    return x.reshape(shape, copy=copy)


def squeeze(x: Blob, /, axis: int | tuple[int, ...], **other: Never) -> Blob:
    """Return a view without the given axes, which have length 1.

    Raises
    ------
    ValueError
        If one of them has another length.
    """
    if other:
        refuse(other)
    return view(x, "squeeze", lambda a: a.squeeze(normalize_axis_tuple(axis, a.ndim)))


# --- the order of axes and elements --------------------------------------------------------------


def flip(x: Blob, /, *, axis: int | tuple[int, ...] | None = None, **other: Never) -> Blob:
    """Return a view with the elements reversed along axes; along all axes if `axis` is None."""
    return refuse(other) if other else view(x, "flip", lambda a: _flipped(a, axis))


def _flipped(a: Any, axis: int | tuple[int, ...] | None) -> Any:
    axes = range(a.ndim) if axis is None else normalize_axis_tuple(axis, a.ndim)
    # With the Ellipsis, the result without axes is an array, not a scalar as of `numpy.flip`.
    return a[(*(slice(None, None, -1 if i in axes else 1) for i in range(a.ndim)), ...)]


def moveaxis(x: Blob, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Blob:
    """Return a view with axes moved to new positions; the others keep their order.

    Raises
    ------
    IndexError
        If an axis or a position is out of range.
    ValueError
        If one is repeated, or the numbers of sources and destinations differ.
    """
    return view(x, "moveaxis", lambda a: np.moveaxis(a, source, destination))


def permute_dims(x: Blob, /, axes: tuple[int, ...]) -> Blob:
    """Return a view with the axes permuted.

    Raises
    ------
    ValueError
        If `axes` is not a permutation of the axes.
    """
    return view(x, "permute_dims", lambda a: a.transpose(normalize_axis_tuple(axes, a.ndim)))


def roll(
    x: Blob,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
    **other: Never,
) -> Blob:
    """Shift elements along axes; elements shifted beyond one end re-enter at the other.

    Parameters
    ----------
    x
        The Blob.
    shift
        The number of places, towards higher indices if positive. A tuple has one entry for each
        entry of `axis`; an integer applies to all of them.
    axis
        The axes; None shifts the elements in C order, and restores the shape.

    Returns
    -------
    Blob
        A new Blob.

    Raises
    ------
    ValueError
        If `shift` is a tuple and `axis` is not a tuple of the same length.
    """
    # NumPy would broadcast the two; the standard requires equal lengths.
    if isinstance(shift, tuple) and not (isinstance(axis, tuple) and len(axis) == len(shift)):
        raise ValueError(f"expected a tuple of {len(shift)} axes, one for each shift, got {axis!r}")
    return refuse(other) if other else apply("roll", x, shift=shift, axis=axis)


def unstack(x: Blob, /, *, axis: int = 0, **other: Never) -> tuple[Blob, ...]:
    """Split a Blob along an axis, which is removed.

    Returns
    -------
    tuple of Blob
        One view for each index of the axis.
    """
    x = refuse(other) if other else as_blob("unstack", x)
    axis = normalize_axis_index(axis, x.ndim)
    before = (slice(None),) * axis
    return tuple(x[(*before, index)] for index in range(x.shape[axis]))


# --- joining and repeating -----------------------------------------------------------------------


def concat(arrays: Sequence[Blob], /, *, axis: int | None = 0, **other: Never) -> Blob:
    """Join Blobs along an existing axis.

    Parameters
    ----------
    arrays
        Blobs whose shapes are equal except along that axis. Dtypes are promoted as in NumPy.
    axis
        The axis; None flattens the Blobs first.

    Returns
    -------
    Blob
        A new Blob.

    Raises
    ------
    ValueError
        If there are no Blobs, or their shapes do not match.
    """
    return refuse(other) if other else apply(_concat, *require_some("concat", arrays), axis=axis)


def _concat(xp: Any, *arrays: Any, axis: int | None) -> Any:
    # As separate operands they are brought to one device.
    return xp.concat(arrays, axis=axis)


def stack(arrays: Sequence[Blob | np.generic], /, *, axis: int = 0, **other: Never) -> Blob:
    """Join Blobs of the same shape along a new axis.

    Parameters
    ----------
    arrays
        Blobs, or NumPy scalars, which iterating over a Blob yields; they are brought to the device
        of the first Blob. Dtypes are promoted as in NumPy.
    axis
        The position of the new axis in the result.

    Returns
    -------
    Blob
        A new Blob.

    Raises
    ------
    ValueError
        If there are no Blobs, or their shapes differ.
    """
    return refuse(other) if other else apply(_stack, *require_some("stack", arrays), axis=axis)


def _stack(xp: Any, *arrays: Any, axis: int) -> Any:
    return xp.stack(arrays, axis=axis)


def repeat(x: Blob, repeats: int | Blob, /, *, axis: int | None = None, **other: Never) -> Blob:
    """Repeat each element.

    Parameters
    ----------
    x
        The Blob.
    repeats
        The number of repetitions: an integer, or a Blob of integers with one entry for all elements
        or one for each. A Blob on an accelerator synchronizes, because its contents determine the
        shape of the result.
    axis
        The axis along which to repeat; None flattens `x` first.

    Returns
    -------
    Blob
        A new Blob; 1-d if `axis` is None.

    Raises
    ------
    TypeError
        If `repeats` is neither an integer nor an array of integers.
    ValueError
        If a count is negative, `repeats` does not broadcast to the length of the axis, or the
        result cannot be addressed.
    """
    x = refuse(other) if other else as_blob("repeat", x, repeats)
    counts = repeats if isinstance(repeats, int) else require_indices("repeat", repeats, x)
    if isinstance(repeats, int) or str(x.device) == "cpu":  # do not transfer counts for that
        require_repeats(x.shape, x.itemsize, repeats, axis)
    return apply("repeat", x, counts, axis=axis)


def tile(x: Blob, repetitions: tuple[int, ...], /) -> Blob:
    """Repeat a whole Blob along its axes.

    Parameters
    ----------
    x
        The Blob.
    repetitions
        The number of copies along each axis. Fewer numbers than axes apply to the last axes; for
        more, `x` gets leading axes of length 1.

    Returns
    -------
    Blob
        A new Blob.

    Raises
    ------
    ValueError
        If a number is negative.
    """
    return apply("tile", x, reps=repetitions)
