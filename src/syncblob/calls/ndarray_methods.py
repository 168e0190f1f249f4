"""The computing methods of ndarray, except those whose names Caffe uses.

Methods that return views are in `blob`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, SupportsIndex

import numpy as np

from syncblob._made_functions import name_made_functions
from syncblob.blob.core import AnyBlob, BlobCore
from syncblob.calls.engine import plans_by_function
from syncblob.calls.numpy_protocols import FUNCTIONS
from syncblob.calls.tables import Rules, names_of

if TYPE_CHECKING:

    class Method(Protocol):
        """The type of a method that computes with the Blob first."""

        def __get__(self, blob: AnyBlob, owner: Any, /) -> Callable[..., AnyBlob]:
            """Bind it to a Blob."""


def _rules_of_writer(name: str) -> Rules:
    def method(array: Any, *args: Any, **kwargs: Any) -> None:
        getattr(array, name)(*args, **kwargs)

    method.__name__ = name  # which logs of operations show
    return Rules(name, method, getattr(np.ndarray, name), lambda _: {0: False})


_WRITERS = plans_by_function(_rules_of_writer)


# The usual arguments: axes, which no other library needs to be asked about, as a Blob.
_AXES = frozenset({int, tuple, type(None)})


def _method(function: Callable[..., Any], result: str) -> Any:
    plans = FUNCTIONS[function]
    # NumPy's function finds out what is wrong with any other keyword.
    known = {"axis"} if names_of(function).get(1) == "axis" else set()

    def method(self: Any, *args: Any, **options: Any) -> Any:
        match (*args, *options.values()):
            case ():
                return plans[type(self)](self, self)
            case (x,) if type(x) in _AXES or type(x) is type(self):
                kinds = type(self), type(x)
                if not options:
                    return plans[kinds](self, self, x)
                if options.keys() == known:
                    return plans[(*options,), *kinds](self, self, x)
        return function(self, *args, **options)

    method.__doc__ = f"Return {result}; see `numpy.{function.__name__}`."
    # For `help` and others that ask for the parameters.
    method.__wrapped__ = function  # type: ignore[attr-defined]  # of `inspect`
    return method


class NdarrayMethods(BlobCore):
    """NumPy's methods, computed on the Blob's device.

    Parameters are those of ``numpy.ndarray``; ``resize``, ``count`` and ``offset`` are Caffe's.
    Each result is a new Blob, unless documented otherwise.
    """

    __slots__ = ()

    # --- by the function of this name, with the same parameters in the same order ----------------

    sum: Method = _method(np.sum, "the sum of the elements along axes")
    prod: Method = _method(np.prod, "the product of the elements along axes")
    mean: Method = _method(np.mean, "the mean of the elements along axes")
    std: Method = _method(np.std, "the standard deviation along axes")
    var: Method = _method(np.var, "the variance along axes")
    min: Method = _method(np.min, "the minima along axes")
    max: Method = _method(np.max, "the maxima along axes")
    any: Method = _method(np.any, "whether any element along axes is true")
    all: Method = _method(np.all, "whether all elements along axes are true")
    argmin: Method = _method(np.argmin, "the indices of the minima")
    argmax: Method = _method(np.argmax, "the indices of the maxima")
    cumsum: Method = _method(np.cumsum, "the cumulative sums")
    cumprod: Method = _method(np.cumprod, "the cumulative products")
    trace: Method = _method(np.trace, "the sum of a diagonal")
    diagonal: Method = _method(np.diagonal, "a const view of a diagonal")
    round: Method = _method(np.round, "the elements rounded to decimals, halves to even")
    dot: Method = _method(np.dot, "the product of matrices or vectors")
    take: Method = _method(np.take, "the elements with given indices along an axis")
    repeat: Method = _method(np.repeat, "each element repeated")
    searchsorted: Method = _method(
        np.searchsorted, "the indices at which to insert elements into this sorted Blob"
    )
    argsort: Method = _method(np.argsort, "the indices that sort along an axis")
    argpartition: Method = _method(np.argpartition, "the indices that partition along an axis")
    choose: Method = _method(np.choose, "elements of the arrays that this Blob's elements select")

    # --- with other parameters -------------------------------------------------------------------

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Self:
        """Clip the elements to the range from `min` to `max`."""
        return self._call(np.clip, min, max, out=out, **options)

    def conjugate(self) -> Self:
        """Return the complex conjugate of each element."""
        # The ufunc would convert bool to int8.
        return self._call(np.copy if self.dtype == np.bool else np.conjugate)

    conj = conjugate

    def compress(self, condition: Any, axis: SupportsIndex | None = None, out: Any = None) -> Self:
        """Return the slices along an axis for which a condition holds."""
        compress: Any = np.compress  # BlobCore is no array for its type hints
        return compress(condition, self, axis=axis, out=out)

    def nonzero(self) -> tuple[Self, ...]:
        """Return the indices of the nonzero elements, one Blob for each axis."""
        indices: Any = self._call(np.nonzero)
        return tuple(indices)

    def __contains__(self, value: object) -> bool:
        """Return whether any element is equal to a value."""
        return bool(np.any(self == value))

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
        blob: Any = self
        blob[...] = value

    # --- how -------------------------------------------------------------------------------------

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call a NumPy function, which calls `__array_function__`."""
        return function(self, *args, **kwargs)

    def _write_by(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Call a method of arrays that writes its array."""
        values = (self, *args, *kwargs.values())
        _WRITERS[name][(*kwargs,), *map(type, values)](self, *values)


name_made_functions(vars(NdarrayMethods), "Blob")
