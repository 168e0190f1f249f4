"""The Fourier transform extension.

Transforms compute in their operand's precision; integers are converted to float64. `fftn` and
`ifftn` return a view if `axes` is empty.

Parameters of all transforms:

n, s
    The size of the transformed axis, or a size for each of `axes`: shorter axes are padded with
    zeros, longer ones truncated. None, or a size of -1, keeps the size of the axis. For the inverse
    of a real transform, and for `hfft`, it is the size of the result; the axis of the operand has
    ``n // 2 + 1`` elements, and None is ``2 * (M - 1)`` for one of M.
axis, axes
    The axis or axes to transform: the last axis by default, or all of them.
norm
    The divisor of the result. ``"backward"``: n for inverse transforms, 1 for forward ones;
    ``"forward"``: the reverse; ``"ortho"``: the square root of n for both.

`rfft`, `ihfft` and `rfftn` raise a TypeError if the operand is complex. Transforms of several axes
raise a ValueError if `s` is given without `axes`, or their lengths differ.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Protocol

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from syncblob._blob import Blob
from syncblob._dtypes import as_dtype
from syncblob._made_functions import defined_names, name_made_functions
from syncblob.blob.core import fresh
from syncblob.blob.missing import refuse
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob
from syncblob.devices import Device, home_of
from syncblob.memory import compute
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    class _OfOneAxis(Protocol):
        def __call__(
            self, x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward"
        ) -> Blob: ...

    class _OfAxes(Protocol):
        def __call__(
            self, x: Blob, /, *, s: Axes = None, axes: Axes = None, norm: Norm = "backward"
        ) -> Blob: ...

    class _Frequencies(Protocol):
        def __call__(
            self,
            n: int,
            /,
            *,
            d: float = 1.0,
            dtype: DTypeLike | None = None,
            device: Device | str | None = None,
        ) -> Blob: ...

    class _Shift(Protocol):
        def __call__(self, x: Blob, /, *, axes: int | Sequence[int] | None = None) -> Blob: ...


Norm = Literal["backward", "ortho", "forward"]
Axes = Sequence[int] | None

_OF_REAL = {"rfft", "ihfft", "rfftn"}


# --- transforms ----------------------------------------------------------------------------------


def _of_one_axis(name: str, description: str) -> Any:
    def function(
        x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward", **other: Never
    ) -> Blob:
        return refuse(other) if other else _apply(name, x, n=_size(n), axis=axis, norm=norm)

    function.__doc__ = description
    return function


def _of_axes(name: str, description: str) -> Any:
    def function(x: Blob, /, *, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Blob:
        return _apply(name, x, s=_sizes(name, x, s, axes), axes=axes, norm=norm)

    function.__doc__ = description
    return function


fft: _OfOneAxis = _of_one_axis("fft", "Transform one axis: complex to complex.")
ifft: _OfOneAxis = _of_one_axis("ifft", "Compute the inverse of `fft` along one axis.")
rfft: _OfOneAxis = _of_one_axis(
    "rfft",
    "Transform one axis of real numbers, and return the first ``n // 2 + 1`` complex elements.",
)
irfft: _OfOneAxis = _of_one_axis("irfft", "Compute the inverse of `rfft`: complex to real.")
hfft: _OfOneAxis = _of_one_axis(
    "hfft", "Transform one axis with Hermitian symmetry, given one half of it: complex to real."
)
ihfft: _OfOneAxis = _of_one_axis(
    "ihfft", "Compute the inverse of `hfft` along one axis: one half of a Hermitian-symmetric axis."
)
fftn: _OfAxes = _of_axes("fftn", "Transform several axes: complex to complex.")
ifftn: _OfAxes = _of_axes("ifftn", "Compute the inverse of `fftn`.")
rfftn: _OfAxes = _of_axes(
    "rfftn", "Transform several axes of real numbers: the last one by `rfft`, the others by `fft`."
)
irfftn: _OfAxes = _of_axes("irfftn", "Compute the inverse of `rfftn`: complex to real.")


# --- frequencies ---------------------------------------------------------------------------------


def _of_frequencies(name: str, contents: str) -> Any:
    def function(
        n: int,
        /,
        *,
        d: float = 1.0,
        dtype: DTypeLike | None = None,
        device: Device | str | None = None,
    ) -> Blob:
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"{name} expects at least one element, got n={n}")
        wanted = np.dtype(np.float64) if dtype is None else as_dtype(dtype)
        if wanted.kind != "f":
            raise TypeError(f"{name} expects a real floating-point dtype, got {wanted}")
        home = home_of(device)
        require_device(home.device, name)
        array = compute(home, getattr(home.namespace.fft, name), n, d=d)
        return fresh(Blob, compute(home, home.astype, array, wanted), home)

    function.__doc__ = f"""Return the frequencies of a transform of {contents}.

    `d` is the sample spacing, `dtype` a real floating-point dtype, or None for float64.
    """
    return function


fftfreq: _Frequencies = _of_frequencies("fftfreq", "n elements: zero first, with shape (n,)")
rfftfreq: _Frequencies = _of_frequencies(
    "rfftfreq", "n real elements: ascending, n // 2 + 1 of them"
)


def _shift(name: str, description: str) -> Any:
    def function(x: Blob, /, *, axes: int | Sequence[int] | None = None) -> Blob:
        return _apply(name, x, axes=axes)

    function.__doc__ = description
    return function


fftshift: _Shift = _shift(
    "fftshift", "Swap the halves of some axes, or of all; this moves zero to the middle."
)
ifftshift: _Shift = _shift("ifftshift", "Swap the halves of axes back: the inverse of `fftshift`.")

name_made_functions(globals())


# --- how -----------------------------------------------------------------------------------------


def _apply(name: str, x: Any, **keywords: Any) -> Any:
    """Compute, and say which axis is out of range."""
    if name in _OF_REAL:
        x = as_blob(name, x)
        if x.dtype.kind == "c":
            # CuPy would drop the imaginary parts.
            raise TypeError(f"{name} expects real numbers, got {x.dtype}; use fft or fftn")
    axes = keywords.get("axis", keywords.get("axes"))
    if axes is not None:
        x = as_blob(f"fft.{name}", x)
        # NumPy speaks of the index of a tuple, and CuPy accepts some that are out of range.
        if type(axes) is int:
            normalize_axis_index(axes, len(x.shape))
        else:
            normalize_axis_tuple(axes, len(x.shape), allow_duplicate=True)
    result = apply(f"fft.{name}", x, **keywords)
    # NumPy's inverse of a real transform leaves the result of an empty axis uninitialized.
    return apply("zeros_like", result) if 0 in x.shape else result


def _size(n: int | None) -> int | None:
    """Check the size of one axis. NumPy raises for sizes below 1.

    CuPy truncates for a negative size, and raises a cuFFT error for 0.
    """
    if n is not None and operator.index(n) < 1:
        raise ValueError(f"expected a size of 1 or more data points, got {n}")
    return n


def _sizes(name: str, x: Any, s: Axes, axes: Axes) -> tuple[int, ...] | None:
    """Check sizes, and replace -1, which stands for the whole axis.

    CuPy does not support -1. NumPy does, but its inverse of a real transform drops elements.
    """
    if s is None:
        return None
    if axes is None:
        raise ValueError(f"axes must be given with s, got s={tuple(s)} and axes=None")
    if len(s) != len(axes):
        raise ValueError(f"expected a size for each axis, got s={tuple(s)} and axes={tuple(axes)}")
    for size in s:
        if size != -1:
            _size(size)
    if -1 not in s:
        return tuple(s)
    x = as_blob(name, x)
    whole = [x.shape[axis] for axis in normalize_axis_tuple(axes, x.ndim, allow_duplicate=True)]
    if name == "irfftn":
        whole[-1] = 2 * (whole[-1] - 1)
    return tuple(
        all_of_it if size == -1 else size for size, all_of_it in zip(s, whole, strict=True)
    )


if not TYPE_CHECKING:  # mypy reads only literal lists
    __all__ = defined_names(globals())  # noqa: PLE0605  # a list
