"""Indexing functions.

Negative indices count from the end. Indices out of range raise an IndexError. On CUDA devices,
indices that only the device holds are not checked, and select another element.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from syncblob._blob import Blob
from syncblob.array_api._checks import require_indices
from syncblob.calls.index_checks import require_bounds
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob, home_of
from syncblob.transfers import require_device


def take(x: Blob, indices: Blob, /, *, axis: int | None = None) -> Blob:
    """Select elements along an axis by their indices, with one axis.

    `axis` is required if `x` has several axes.
    """
    x = x if isinstance(x, Blob) else as_blob("take", x, indices)
    if not (isinstance(indices, Blob) and indices.dtype == np.intp):
        indices = require_indices("take", indices, x)
    if len(indices.shape) != 1:
        raise ValueError(f"take expects indices with one axis, got shape {indices.shape}")
    if axis is None and x.ndim > 1:
        raise ValueError(f"take expects an axis for a Blob of {x.ndim} axes, got None")
    axis, home = 0 if axis is None else axis, x.home
    # An ndarray has no home.
    if not home.native or getattr(indices, "home", home) is not home:
        axis = _checked_axis("take", x, indices, axis)
    return apply("take", x, indices, axis=axis)


def take_along_axis(x: Blob, indices: Blob, /, *, axis: int = -1) -> Blob:
    """Select elements along an axis, with separate indices for each position on the other axes.

    `indices` has as many axes as `x`; the others broadcast.
    """
    x = as_blob("take_along_axis", x, indices)
    indices = require_indices("take_along_axis", indices, x)
    axis = _checked_axis("take_along_axis", x, indices, axis)
    return apply("take_along_axis", x, indices, axis=axis)


def _checked_axis(name: str, x: Blob, indices: Blob, axis: int) -> int:
    """Return a valid axis, counted from the first; check the indices if the library does not."""
    axis = normalize_axis_index(axis, len(x.shape))
    same = getattr(indices, "home", x.home) is x.home
    home = x.home if same else home_of((x, indices), x)
    if not home.native:
        require_device(home.device, name)
        require_bounds(home, indices, -x.shape[axis], x.shape[axis], axis)
    return axis
