"""Index arrays and masks on devices whose library is not NumPy.

Libraries differ where integers and arrays stand apart: NumPy counts the integers as arrays and puts
the axes of arrays first, and dpnp leaves them in place or refuses the index. Neither CuPy nor dpnp
checks bounds. So an index is checked here, and split into a basic one, which makes a view, and
arrays for neighbouring axes of that view, where all libraries agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob.arrays.native import native_array
from syncblob.blob.core import BlobCore
from syncblob.calls.index_checks import require_bounds
from syncblob.calls.operands import blob_to_read
from syncblob.memory import CONST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Home


class Selection(NamedTuple):
    """An index with arrays, for one shape, in one home."""

    home: Home
    view: tuple[Any, ...]
    """A basic index, with slices in place of the arrays."""
    axes: tuple[int, ...]
    """The axes of that view; those of arrays that stand apart come first."""
    start: int
    """The first axis that they index."""
    arrays: tuple[Any, ...]
    """Integers for one axis each, or one mask: Blobs, and NumPy arrays made from lists."""
    shape: tuple[int, ...] | None
    """The shape of the selected elements; None if the contents of a mask determine it."""

    def bring(self, reason: str) -> list[Any]:
        """Return the arrays, with arrays in the home in place of Blobs."""
        home = self.home
        return [
            x.array_in(home, CONST, reason) if isinstance(x, BlobCore) else x for x in self.arrays
        ]

    def getitem(self, array: Any, arrays: Sequence[Any]) -> Any:
        """Copy the elements of an array; `arrays` are those of `bring`."""
        view, index = self._target(array, arrays)
        return view[index]

    def setitem(self, array: Any, arrays: Sequence[Any], values: Any) -> None:
        """Assign to the elements of an array."""
        view, index = self._target(array, arrays)
        while values.shape[:1] == (1,):
            # NumPy drops leading axes of length 1, which others refuse.
            values = values[0]
        view[index] = values

    def _target(self, array: Any, arrays: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """Return a view of an array, and the index of it that selects the elements."""
        view, xp = array[self.view].transpose(self.axes), self.home.namespace
        found = [xp.asarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
        if len(found) > 1:
            nonzero = self.home.own("nonzero")
            found = [part for x in found for part in (nonzero(x) if x.dtype.kind == "b" else (x,))]
            _broadcast(*[tuple(x.shape) for x in found])
        return view, (*[slice(None)] * self.start, *found)


def selection(blob: BlobCore, key: tuple[Any, ...]) -> Selection:
    """Split an index with arrays: integers, slices, None, Ellipsis, Blobs, arrays and lists.

    Raises
    ------
    IndexError
        If it has too many entries, one is neither an integer nor an array of integers or bool, a
        mask does not fit, or an integer is out of bounds as far as `require_bounds` can tell.
    """
    entries = [_entry(blob, x) for x in key]
    used = sum(map(_count_axes, entries))
    if used > blob.ndim:
        raise IndexError(f"too many indices: shape {blob.shape} has {blob.ndim} axes, got {used}")
    ellipses = [position for position, x in enumerate(entries) if x is Ellipsis] or [len(entries)]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single Ellipsis ('...')")
    # For NumPy, integers are arrays if there are others.
    counted = [not (x is None or x is Ellipsis or isinstance(x, slice)) for x in entries]
    first, last = counted.index(True), len(entries) - counted[::-1].index(True)
    entries[ellipses[0] : ellipses[0] + 1] = [slice(None)] * (blob.ndim - used)
    view: list[Any] = []
    arrays: list[Any] = []
    # The axes of the view that the arrays index.
    indexed: list[int] = []
    indices: list[tuple[Any, int, int]] = []
    axis = 0
    for x in entries:
        dims = blob.shape[axis : axis + _count_axes(x)]
        parts = [x]
        if isinstance(x, int):
            require_bounds(blob.home, x, -dims[0], dims[0], axis)
        elif not (x is None or isinstance(x, slice)):
            arrays += _fit_array(x, dims, axis)
            if x.dtype.kind != "b":
                indices.append((x, dims[0], axis))
            # A mask without axes selects all or nothing of a new one.
            parts = [slice(None)] * len(dims) or [None]
            start = sum(not isinstance(each, int) for each in view)
            indexed += range(start, start + len(parts))
        view += parts
        axis += len(dims)
    selected = _arrange(blob, view, arrays, indexed, apart=not all(counted[first:last]))
    if all(x.size for x in arrays):
        # Beside an empty array, NumPy looks at no index.
        for x, length, axis in indices:
            require_bounds(blob.home, x, -length, length, axis)
    return selected


def _arrange(
    blob: BlobCore, view: list[Any], arrays: list[Any], indexed: list[int], *, apart: bool
) -> Selection:
    """Put the axes of arrays that stand apart first."""
    dims = np.broadcast_to(np.uint8(0), blob.shape)[tuple(view)].shape
    others = [axis for axis in range(len(dims)) if axis not in indexed]
    start = 0 if apart else indexed[0]
    shape = None
    # The contents of a Blob that is a mask may be on the device alone.
    if not any(isinstance(x, BlobCore) and x.dtype.kind == "b" for x in arrays):
        shapes = [(np.count_nonzero(x),) if x.dtype.kind == "b" else tuple(x.shape) for x in arrays]
        rest = [dims[axis] for axis in others]
        shape = (*rest[:start], *_broadcast(*shapes), *rest[start:])
    axes = (*indexed, *others) if apart else tuple(range(len(dims)))
    return Selection(blob.home, tuple(view), axes, start, tuple(arrays), shape)


def _fit_array(x: Any, dims: tuple[int, ...], axis: int) -> list[Any]:
    """Return the arrays for an array of an index, after a check that a mask fits the dimensions."""
    if x.dtype.kind != "b":
        return [x]
    if not x.size and all(used in {0, dim} for used, dim in zip(x.shape, dims, strict=True)):
        # For NumPy, a mask without elements fits.
        return [np.zeros(0, np.intp)] * len(dims)
    if x.shape != dims:
        raise IndexError(
            f"a mask of shape {x.shape} does not fit the dimensions {dims} from axis {axis}"
        )
    return [x if dims else np.zeros(int(bool(x)), np.intp)]


def _entry(blob: BlobCore, x: Any) -> Any:
    """Return an entry of an index; a Blob for an array with axes, and an ndarray for a list."""
    if x is None or x is Ellipsis or isinstance(x, (int, slice)):
        return x
    if isinstance(x, list):
        x = np.asarray(x)
        x = x if x.size else x.astype(np.intp)
    elif not isinstance(x, BlobCore):
        x = native_array(x)[0]
        if x.ndim and x.dtype.kind in "biu":
            # So that its transfer is recorded.
            x = blob_to_read(x, blob)
    if x.dtype.kind not in "biu":
        raise IndexError(
            "expected integers, slices, None, an Ellipsis and arrays of integers or bool as an "
            f"index, got an array of {x.dtype}"
        )
    return x


def _count_axes(x: Any) -> int:
    """Return the number of axes that an entry indexes."""
    if x is None or x is Ellipsis:
        return 0
    return 1 if isinstance(x, (int, slice)) or x.dtype.kind != "b" else len(x.shape)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise IndexError(f"the arrays of an index do not broadcast: {error}") from None
