"""The methods that an ndarray has, where Caffe's names do not stand in the way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.blob._base import BlobBase
from syncblob.blob._flags import Flags
from syncblob.blob._indices import in_c_order
from syncblob.blob._numpy_functions import NumpyFunctions
from syncblob.dispatch.numpy.calls import call
from syncblob.dispatch.numpy.functions import by_method
from syncblob.interop.adopt import native_array

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, SupportsIndex

    from numpy.typing import DTypeLike

__all__ = ["NdarrayMethods"]


class NdarrayMethods(NumpyFunctions):
    """NumPy's methods, computed on the Blob's device.

    Parameters are those of ``numpy.ndarray``; ``resize``, ``count`` and ``offset`` are Caffe's.
    Each result is a new Blob unless something else is said.
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
        """Add the elements, along axes; see `numpy.sum`."""
        return by_method(self, np.sum, (axis, dtype), out, (keepdims,), options)

    def prod(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Multiply the elements, along axes; see `numpy.prod`."""
        return by_method(self, np.prod, (axis, dtype), out, (keepdims,), options)

    def mean(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Average the elements, along axes; see `numpy.mean`."""
        return by_method(self, np.mean, (axis, dtype), out, (keepdims,), options)

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
        return by_method(self, np.std, (axis, dtype), out, (ddof, keepdims), options)

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
        return by_method(self, np.var, (axis, dtype), out, (ddof, keepdims), options)

    def min(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the least elements, along axes; see `numpy.min`."""
        return by_method(self, np.min, (axis,), out, (keepdims,), options)

    def max(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Return the greatest elements, along axes; see `numpy.max`."""
        return by_method(self, np.max, (axis,), out, (keepdims,), options)

    def any(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Tell whether any element is true, along axes; see `numpy.any`."""
        return by_method(self, np.any, (axis,), out, (keepdims,), options)

    def all(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **options: Any,
    ) -> Self:
        """Tell whether all elements are true, along axes; see `numpy.all`."""
        return by_method(self, np.all, (axis,), out, (keepdims,), options)

    def argmin(
        self,
        axis: SupportsIndex | None = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """Return where the least elements are; see `numpy.argmin`."""
        return self._call(np.argmin, axis=axis, keepdims=keepdims, out=out)

    def argmax(
        self,
        axis: SupportsIndex | None = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Self:
        """Return where the greatest elements are; see `numpy.argmax`."""
        return self._call(np.argmax, axis=axis, keepdims=keepdims, out=out)

    def cumsum(
        self,
        axis: SupportsIndex | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
    ) -> Self:
        """Return the running sums; see `numpy.cumsum`."""
        return by_method(self, np.cumsum, (axis, dtype), out, (), {})

    def cumprod(
        self,
        axis: SupportsIndex | None = None,
        dtype: DTypeLike | None = None,
        out: Any = None,
    ) -> Self:
        """Return the running products; see `numpy.cumprod`."""
        return by_method(self, np.cumprod, (axis, dtype), out, (), {})

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

    # --- element by element, and products --------------------------------------------------------

    def round(self, decimals: SupportsIndex = 0, out: Any = None) -> Self:
        """Round to a number of decimals, halves to even."""
        return self._call(np.round, decimals, out=out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Self:
        """Limit the elements to what is from `min` to `max`."""
        return self._call(np.clip, min, max, out=out, **options)

    def conj(self) -> Self:
        """Return the complex conjugate of each element."""
        return self._call(np.conjugate)

    def conjugate(self) -> Self:
        """Return the complex conjugate of each element."""
        return self._call(np.conjugate)

    def dot(self, b: Any, out: Any = None) -> Self:
        """Multiply matrices and vectors; see `numpy.dot`."""
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
        result: Self = np.compress(condition, self, axis=axis, out=out)
        return result

    def repeat(self, repeats: Any, axis: SupportsIndex | None = None) -> Self:
        """Repeat each element."""
        return self._call(np.repeat, repeats, axis=axis)

    def nonzero(self) -> tuple[Self, ...]:
        """Return the indices of the elements that are not zero, one Blob for each axis."""
        indices: Any = self._call(np.nonzero)
        return tuple(indices)

    def __contains__(self, value: object) -> bool:
        """Tell whether any element is equal to a value."""
        return bool(np.any(self == value))

    def searchsorted(self, v: Any, side: Any = "left", sorter: Any = None) -> Self:
        """Return where elements belong in this sorted Blob."""
        return self._call(np.searchsorted, v, side=side, sorter=sorter)

    def argsort(self, axis: SupportsIndex | None = -1, kind: Any = None, **options: Any) -> Self:
        """Return the indices that sort along an axis; see `numpy.argsort`."""
        return self._call(np.argsort, axis=axis, kind=kind, **options)

    def argpartition(self, kth: Any, axis: SupportsIndex | None = -1) -> Self:
        """Return the indices that partition along an axis; see `numpy.argpartition`."""
        return self._call(np.argpartition, kth, axis=axis)

    def choose(self, choices: Any, out: Any = None, mode: Any = "raise") -> Self:
        """Return elements of the arrays whose numbers are in this Blob; see `numpy.choose`."""
        return self._call(np.choose, choices, mode=mode, out=out)

    # --- written in place ------------------------------------------------------------------------

    def sort(self, axis: SupportsIndex = -1, kind: Any = None) -> None:
        """Sort in place along an axis, on this Blob's device: a mutable access."""
        self._write_by(_sort, axis=axis, kind=kind)

    def partition(self, kth: Any, axis: SupportsIndex = -1) -> None:
        """Put the elements `kth` in place where sorting would put them, and the rest around."""
        self._write_by(_partition, kth, axis=axis)

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Set elements, counted in C order, in place; see `numpy.put`."""
        self._call(np.put, indices, values, mode=mode)

    def fill(self, value: Any) -> None:
        """Set every element to one value. Transfers nothing.

        Raises
        ------
        ValueError
            If the value has axes.
        """
        if np.shape(value):
            raise ValueError(f"fill expects one value, got some of shape {np.shape(value)}")
        self[...] = value

    # --- views and copies ------------------------------------------------------------------------

    @property
    def real(self) -> Self:
        """The real parts: a view; this Blob itself unless it is complex. Assigning writes them."""
        return self._call(np.real)

    @real.setter
    def real(self, values: Any) -> None:
        self.real[...] = values

    @property
    def imag(self) -> Self:
        """The imaginary parts: a view, and assigning writes them.

        Of a Blob that is not complex, a new one of zeros, which cannot be assigned.
        """
        return self._call(np.imag)

    @imag.setter
    def imag(self, values: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError(
                f"expected a complex Blob to set the imaginary part of, got {self.dtype}; "
                "use .astype() first"
            )
        self.imag[...] = values

    @property
    def flat(self) -> Self:
        """The elements in C order along one axis: a view, so that ``blob.flat[3] = x`` writes.

        Where the strides allow no view it is a const copy. ``blob.flat = values`` takes values in
        C order, as NumPy does: repeated where they are too few, cut off where too many.
        """
        flat = self.ravel()
        return flat if flat._memory is self._memory else flat.const

    @flat.setter
    def flat(self, values: Any) -> None:
        self._require_writable("assignment to flat")
        source = values if isinstance(values, BlobBase) else native_array(values)[0]
        if math.prod(source.shape):
            self[...] = in_c_order(source, self.shape)

    def ravel(self, order: Any = "C") -> Self:
        """Return the elements along one axis: a view where one is possible."""
        return self.reshape(-1) if order == "C" else self._call(np.ravel, order=order)

    def flatten(self, order: Any = "C") -> Self:
        """Return a copy of the elements along one axis."""
        return self.reshape(-1, copy=True) if order == "C" else self.ravel(order).copy()

    def squeeze(self, axis: Any = None) -> Self:
        """Return a view without the axes of length 1."""
        return self._derived(lambda a: a.squeeze(axis))

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Self:
        """Return a view with two axes exchanged."""
        return self._derived(lambda a: a.swapaxes(axis1, axis2))

    def diagonal(
        self, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1
    ) -> Self:
        """Return a const view of a diagonal, as NumPy does."""
        return self._call(np.diagonal, offset, axis1, axis2)

    def __bytes__(self) -> bytes:
        """Return a copy of the elements' bytes in C order; see `tobytes`."""
        return self.tobytes()

    @property
    def flags(self) -> Flags:
        """How data lies in memory. Nothing moves."""
        layout = self._layout
        backwards = self._derived(lambda a: a.transpose())._layout
        return Flags(
            layout.contiguous,
            backwards.contiguous,
            self._base is None,
            not self._readonly,
            all(step % layout.dtype.alignment == 0 for step in (layout.offset, *layout.strides)),
        )

    # --- how -------------------------------------------------------------------------------------

    def _call(
        self, function: Callable[..., Any], *args: Any, out: Any = None, **kwargs: Any
    ) -> Self:
        """Call a function of NumPy's, which asks `__array_function__`."""
        if out is not None:
            kwargs["out"] = out
        result: Self = function(self, *args, **kwargs)
        return result

    def _write_by(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        name = function.__name__.lstrip("_")
        call(function, (self, *args), kwargs, self, name=name, written={0: False})


def _sort(a: Any, **options: Any) -> None:
    a.sort(**options)


def _partition(a: Any, kth: Any, **options: Any) -> None:
    a.partition(kth, **options)
