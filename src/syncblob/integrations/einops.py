"""einops' functions with Blobs.

einops looks for a backend among the subclasses of its AbstractBackend, so this class must exist
before the first call with a Blob. The functions of ``einops.array_api`` need no backend.

The backend uses the functions of the array API, on the device of the Blob. Rearrangements that need
only reshapes and transpositions without a copy return views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from einops._backends import AbstractBackend

from syncblob import array_api as xp
from syncblob._blob import Blob

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BlobBackend"]


class BlobBackend(AbstractBackend):
    """The backend of einops for Blobs. einops makes its only instance."""

    framework_name = "syncblob"

    def is_appropriate_type(self, tensor: object) -> bool:
        """Return whether an object is a Blob."""
        return isinstance(tensor, Blob)

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Any:
        """Return a Blob that shares an ndarray's memory."""
        return xp.asarray(x)

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        """Return a read-only ndarray over a Blob's data; downloads if the device is newer."""
        return np.asarray(x)

    def arange(self, start: int, stop: int) -> Any:
        """Return the integers from `start` up to, but not including, `stop`."""
        return xp.arange(start, stop)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return the same elements in another shape."""
        return xp.reshape(x, tuple(shape))

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """Return a view with the axes permuted."""
        return xp.permute_dims(x, tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Sequence[int]) -> Any:
        """Return the sum, mean, max, min, prod, any or all along axes."""
        return getattr(xp, operation)(x, axis=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        """Stack Blobs of one shape along a new first axis."""
        return xp.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """Return a view with a new axis of length 1."""
        return xp.expand_dims(x, axis=new_position)

    def tile(self, x: Any, repeats: Sequence[int]) -> Any:
        """Repeat a whole Blob along each axis."""
        return xp.tile(x, tuple(repeats))

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        """Join Blobs along an axis."""
        return xp.concat(list(tensors), axis=axis)

    def is_float_type(self, x: Any) -> bool:
        """Return whether the dtype is real floating, which is what einops asks for."""
        return bool(xp.isdtype(x.dtype, "real floating"))

    def einsum(self, pattern: str, *x: Any) -> Any:
        """Evaluate the Einstein summation `pattern`."""
        return xp.einsum(pattern, *x)
