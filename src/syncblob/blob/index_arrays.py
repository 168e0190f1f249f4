"""Indices with arrays on devices whose library is not NumPy.

Libraries differ where integers and arrays stand apart: NumPy counts the integers as arrays and puts
the axes of arrays first, and dpnp leaves them in place or refuses the index. Neither CuPy nor dpnp
checks bounds. So an index is checked here, and split into a basic one, which makes a view, and
arrays for neighbouring axes of that view, where all libraries agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from syncblob._shape import is_basic_index
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import native_array
from syncblob.blob.core import BlobCore
from syncblob.blob.operands import blob_to_read
from syncblob.devices import HOST, Side
from syncblob.memory import CONST, compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Home


class Selection(NamedTuple):
    """An index with arrays, for one shape."""

    view: tuple[Any, ...]
    """A basic index, with slices in place of the arrays."""
    axes: tuple[int, ...] | None
    """The axes of that view, those of the arrays first; None if they are neighbours."""
    start: int
    """The first axis that they index."""
    arrays: tuple[Any, ...]
    """Integers for one axis each, or one mask: Blobs, and NumPy arrays made from lists."""
    shape: tuple[int, ...] | None
    """The shape of the selected elements; None if the contents of a mask determine it."""

    def arrays_in(self, home: Home, reason: str) -> tuple[Any, ...]:
        """Bring the Blobs among the arrays to a home."""
        return tuple(
            [x._array_in(home, reason) if isinstance(x, BlobCore) else x for x in self.arrays]
        )

    def target(self, home: Home, array: Any, arrays: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
        """Return a view of an array, and the index of it that selects the elements."""
        view = array[self.view]
        if self.axes is not None:
            view = view.transpose(self.axes)
        found = [home.namespace.asarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
        if len(found) > 1:
            nonzero = home.own("nonzero")
            found = [part for x in found for part in (nonzero(x) if x.dtype.kind == "b" else (x,))]
            _broadcast(*[tuple(x.shape) for x in found])
        return view, (*[slice(None)] * self.start, *found)


def selection(blob: BlobCore, key: Any) -> Selection:
    """Split an index with arrays.

    Raises
    ------
    IndexError
        If it has too many entries, one is neither an integer nor an array of integers or bool, a
        mask does not fit, or an integer is out of bounds as far as `require_bounds` can tell.
    """
    entries = [_entry(blob, x) for x in (key if isinstance(key, tuple) else (key,))]
    used = sum(map(_axes_used, entries))
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
    axis = ndim = 0
    for x in entries:
        dims = blob.shape[axis : axis + _axes_used(x)]
        if x is None or isinstance(x, slice):
            view.append(x)
            ndim += 1
        elif isinstance(x, int):
            require_bounds(blob._home, x, -dims[0], dims[0], axis)
            view.append(x)
        else:
            arrays.append(_checked(blob._home, x, dims, axis))
            # A mask without axes selects all or nothing of a new one.
            view += [slice(None) if dims else None] * (len(dims) or 1)
            indexed += range(ndim, ndim + (len(dims) or 1))
            ndim += len(dims) or 1
        axis += len(dims)
    return _arranged(blob, view, arrays, indexed, apart=not all(counted[first:last]))


def _arranged(
    blob: BlobCore, view: list[Any], arrays: list[Any], indexed: list[int], *, apart: bool
) -> Selection:
    """Put the axes of arrays that stand apart first."""
    dims = np.broadcast_to(np.uint8(0), blob.shape)[tuple(view)].shape
    others = [axis for axis in range(len(dims)) if axis not in indexed]
    start = 0 if apart else indexed[0]
    shape = _common_shape(arrays)
    if shape is not None:
        rest = [dims[axis] for axis in others]
        shape = (*rest[:start], *shape, *rest[start:])
    return Selection(
        tuple(view), (*indexed, *others) if apart else None, start, tuple(arrays), shape
    )


def _checked(home: Home, x: Any, dims: tuple[int, ...], axis: int) -> Any:
    """Return an array of an index after a check that it fits these dimensions."""
    if x.dtype.kind != "b":
        require_bounds(home, x, -dims[0], dims[0], axis)
        return x
    if x.shape != dims:
        # For NumPy, a mask without elements selects nothing of any other length.
        if any(own not in {0, dim} for own, dim in zip(x.shape, dims, strict=True)):
            raise IndexError(
                f"a mask of shape {x.shape} does not fit the dimensions {dims} from axis {axis}"
            )
        return np.zeros(dims, np.bool)
    return x if dims else np.zeros(int(bool(x)), np.intp)


def _entry(blob: BlobCore, x: Any) -> Any:
    """Return an entry of an index; a Blob for an array, and a NumPy array for another sequence."""
    if is_basic_index(x):
        return int(x) if isinstance(x, (int, np.integer)) else x
    if not isinstance(x, BlobCore):
        given = is_array(x)
        array = native_array(x)[0] if given else np.asarray(x)
        if not (given or array.size):
            array = array.astype(np.intp)
        if given and array.ndim and array.dtype.kind in "biu":
            array = blob_to_read(array, blob)
        x = array
    if x.dtype.kind not in "biu":
        raise IndexError(
            "expected integers, slices, None, an Ellipsis and arrays of integers or bool as an "
            f"index, got an array of {x.dtype}"
        )
    return x


def _axes_used(x: Any) -> int:
    """Return the number of axes that an entry indexes."""
    if x is None or x is Ellipsis:
        return 0
    return 1 if isinstance(x, (int, slice)) or x.dtype.kind != "b" else len(x.shape)


def _common_shape(arrays: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the shape of arrays together; None if that depends on the contents of a Blob."""
    shapes = []
    for x in arrays:
        if x.dtype.kind != "b":
            shapes.append(tuple(x.shape))
        elif isinstance(x, BlobCore):
            return None
        else:
            shapes.append((int(np.count_nonzero(x)),))
    return _broadcast(*shapes)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise IndexError(f"the arrays of an index do not broadcast: {error}") from None


# --- bounds --------------------------------------------------------------------------------------


def require_bounds(home: Home, indices: Any, lowest: int, length: int, axis: int = 0) -> None:
    """Raise an IndexError if an index is less than the lowest, or not less than a length.

    Indices that only a device holds are checked if the home, which computes, checks any. `indices`
    is an integer, an array of NumPy's or a Blob; `axis` is for the message.
    """
    if isinstance(indices, int):
        low = high = indices
    else:
        values = _on_host(indices) if isinstance(indices, BlobCore) else indices
        if not indices.size or (values is None and not home.checks_values):
            return
        if values is None:
            values = indices._array_in(home, "__getitem__")
            low, high = (int(compute(home, home.own(name), values)) for name in ("min", "max"))
        else:
            low, high = int(values.min()), int(values.max())
    if low < lowest or high >= length:
        wrong = low if low < lowest else high
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")


def _on_host(blob: BlobCore) -> Any:
    """Return the contents of a Blob that are up to date on the host; None if they are not."""
    array = blob._array
    if blob._held is None and array is not None:
        # It is the result of a computation, and needs no memory for this.
        return array if blob._home is HOST else None
    memory, layout = blob._memory, blob._layout
    on_host = memory.spans.common(*memory.ledger.range_of(layout)) & (1 << Side.HOST)
    return blob._array_on(Side.HOST, CONST, "__getitem__") if on_host else None
