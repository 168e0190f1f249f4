"""The computing methods of ndarray, except those whose names Caffe uses.

Methods that return views are in `blob`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.blob.core import BlobCore
from syncblob.blob.indexing import set_item
from syncblob.dispatch.numpy.array_function import array_function
from syncblob.dispatch.numpy.general_call import call

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, SupportsIndex

    from numpy.typing import DTypeLike

    from syncblob.blob.core import AnyBlob


class NdarrayMethods(BlobCore):
    """NumPy's methods, computed on the Blob's device.

    Parameters are those of ``numpy.ndarray``; ``resize``, ``count`` and ``offset`` are Caffe's.
    Each result is a new Blob, unless documented otherwise.
    """

    __slots__ = ()

    # --- reductions ------------------------------------------------------------------------------

    def sum(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the sum of the elements along axes; see `numpy.sum`."""
        return _by_method(self, np.sum, (axis, dtype), out, (keepdims,), options)

    def prod(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the product of the elements along axes; see `numpy.prod`."""
        return _by_method(self, np.prod, (axis, dtype), out, (keepdims,), options)

    def mean(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the mean of the elements along axes; see `numpy.mean`."""
        return _by_method(self, np.mean, (axis, dtype), out, (keepdims,), options)

    def std(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the standard deviation along axes; see `numpy.std`."""
        return _by_method(self, np.std, (axis, dtype), out, (ddof, keepdims), options)

    def var(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the variance along axes; see `numpy.var`."""
        return _by_method(self, np.var, (axis, dtype), out, (ddof, keepdims), options)

    def min(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the minima along axes; see `numpy.min`."""
        return _by_method(self, np.min, (axis,), out, (keepdims,), options)

    def max(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the maxima along axes; see `numpy.max`."""
        return _by_method(self, np.max, (axis,), out, (keepdims,), options)

    def any(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return whether any element along axes is true; see `numpy.any`."""
        return _by_method(self, np.any, (axis,), out, (keepdims,), options)

    def all(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return whether all elements along axes are true; see `numpy.all`."""
        return _by_method(self, np.all, (axis,), out, (keepdims,), options)

    def argmin(
        self,
        axis: SupportsIndex | None = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """Return the indices of the minima; see `numpy.argmin`."""
        return self._call(np.argmin, axis=axis, keepdims=keepdims, out=out)

    def argmax(
        self,
        axis: SupportsIndex | None = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """Return the indices of the maxima; see `numpy.argmax`."""
        return self._call(np.argmax, axis=axis, keepdims=keepdims, out=out)

    def cumsum(
        self,
        axis: SupportsIndex | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
    ) -> Self:
        """Return the cumulative sums; see `numpy.cumsum`."""
        return _by_method(self, np.cumsum, (axis, dtype), out, (), {})

    def cumprod(
        self,
        axis: SupportsIndex | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
    ) -> Self:
        """Return the cumulative products; see `numpy.cumprod`."""
        return _by_method(self, np.cumprod, (axis, dtype), out, (), {})

    def trace(
        self,
        offset: SupportsIndex = 0,
        axis1: SupportsIndex = 0,
        axis2: SupportsIndex = 1,
        dtype: DTypeLike | None = None,
        out: Any = None,
    ) -> Self:
        """Return the sum of a diagonal."""
        return self._call(np.trace, offset, axis1, axis2, dtype, out=out)

    # --- elementwise, and products ---------------------------------------------------------------

    def round(self, decimals: SupportsIndex = 0, out: Any = None) -> Self:
        """Round to a number of decimals; halves to even."""
        return self._call(np.round, decimals, out=out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Self:
        """Clip the elements to the range from `min` to `max`."""
        return self._call(np.clip, min, max, out=out, **options)

    def conj(self) -> Self:
        """Return the complex conjugate of each element."""
        return self.conjugate()

    def conjugate(self) -> Self:
        """Return the complex conjugate of each element."""
        # The ufunc would convert bool to int8.
        return self._call(np.copy if self.dtype == np.bool else np.conjugate)

    def dot(self, b: Any, out: Any = None) -> Self:
        """Return the product of matrices or vectors; see `numpy.dot`."""
        return self._call(np.dot, b, out=out)

    # --- elements chosen -------------------------------------------------------------------------

    def take(
        self,
        indices: Any,
        axis: SupportsIndex | None = None,
        out: Any = None,
        mode: Any = "raise",
    ) -> Self:
        """Return the elements with given indices along an axis; see `numpy.take`."""
        return self._call(np.take, indices, axis=axis, mode=mode, out=out)

    def compress(self, condition: Any, axis: SupportsIndex | None = None, out: Any = None) -> Self:
        """Return the slices along an axis for which a condition holds."""
        blob: Any = self  # BlobCore is no array for NumPy's type hints
        return np.compress(condition, blob, axis=axis, out=out)

    def repeat(self, repeats: Any, axis: SupportsIndex | None = None) -> Self:
        """Repeat each element."""
        return self._call(np.repeat, repeats, axis=axis)

    def nonzero(self) -> tuple[Self, ...]:
        """Return the indices of the nonzero elements, one Blob for each axis."""
        indices: Any = self._call(np.nonzero)
        return tuple(indices)

    def __contains__(self, value: object) -> bool:
        """Return whether any element is equal to a value."""
        return bool(np.any(self == value))

    def searchsorted(self, v: Any, side: Any = "left", sorter: Any = None) -> Self:
        """Return the indices at which to insert elements into this sorted Blob."""
        return self._call(np.searchsorted, v, side=side, sorter=sorter)

    def argsort(self, axis: SupportsIndex | None = -1, kind: Any = None, **options: Any) -> Self:
        """Return the indices that sort along an axis; see `numpy.argsort`."""
        return self._call(np.argsort, axis=axis, kind=kind, **options)

    def argpartition(self, kth: Any, axis: SupportsIndex | None = -1) -> Self:
        """Return the indices that partition along an axis; see `numpy.argpartition`."""
        return self._call(np.argpartition, kth, axis=axis)

    def choose(self, choices: Any, out: Any = None, mode: Any = "raise") -> Self:
        """Return elements of the arrays that this Blob's elements select; see `numpy.choose`."""
        return self._call(np.choose, choices, mode=mode, out=out)

    # --- written in place ------------------------------------------------------------------------

    def sort(self, axis: SupportsIndex = -1, kind: Any = None) -> None:
        """Sort in place along an axis, on this Blob's device: a mutable access."""
        self._write_by("sort", axis=axis, kind=kind)

    def partition(self, kth: Any, axis: SupportsIndex = -1) -> None:
        """Partition in place along an axis; see `numpy.partition`."""
        self._write_by("partition", kth, axis=axis)

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Set elements in place, by indices in C order; see `numpy.put`."""
        self._call(np.put, indices, values, mode=mode)

    def fill(self, value: Any) -> None:
        """Set every element to one value. Causes no transfer.

        Raises
        ------
        ValueError
            If the value has axes.
        """
        if np.shape(value):
            raise ValueError(f"fill expects one value, got some of shape {np.shape(value)}")
        set_item(self, ..., value)

    # --- how -------------------------------------------------------------------------------------

    def _call(
        self, function: Callable[..., Any], *args: Any, out: Any = None, **kwargs: Any
    ) -> Self:
        """Call a NumPy function, which calls `__array_function__`."""
        if out is not None:
            kwargs["out"] = out
        return function(self, *args, **kwargs)

    def _write_by(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Call a method of arrays that writes its array."""

        def method(array: Any, *args: Any, **kwargs: Any) -> None:
            getattr(array, name)(*args, **kwargs)

        method.__name__ = name  # which logs of operations show
        call(method, (self, *args), kwargs, self, name=name, written={0: False})


def _by_method(  # noqa: PLR0913, PLR0917  # positional, because keyword arguments are slower
    blob: AnyBlob,
    function: Callable[..., Any],
    before: tuple[Any, ...],
    out: Any,
    after: tuple[Any, ...],
    options: dict[str, Any],
) -> AnyBlob:
    """Implement a method of Blob by the NumPy function, whose first argument is the Blob.

    The function's other arguments, in order, are one or two before `out`, None by default, and
    those after it, False or 0 by default. `options` are keywords.
    """
    result: AnyBlob
    if out is not None or options:
        result = function(blob, *before, out, *after, **options)
    else:
        args: tuple[Any, ...] = (blob, *before, None, *after)
        if before[0] is None and before[-1] is None and not any(after):
            # Omit defaults, which is faster.
            args = (blob,)
        result = array_function(blob, function, (), args, options)
    return result
