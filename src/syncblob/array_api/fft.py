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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from syncblob._blob import Blob
from syncblob._dtypes import as_dtype
from syncblob._made_functions import defined_names
from syncblob.blob.core import fresh
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob
from syncblob.devices import home_of
from syncblob.memory import compute
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.array_api._checks import DType, OnDevice

Norm = Literal["backward", "ortho", "forward"]
Axes = Sequence[int] | None

_OF_REAL = {"rfft", "ihfft", "rfftn"}


def fft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis: complex to complex."""
    return _apply("fft", x, n=n, axis=axis, norm=norm)


def ifft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Compute the inverse of `fft` along one axis."""
    return _apply("ifft", x, n=n, axis=axis, norm=norm)


def fftn(x: Blob, /, *, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Blob:
    """Transform several axes: complex to complex."""
    return _of_axes("fftn", x, s, axes, norm)


def ifftn(x: Blob, /, *, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Blob:
    """Compute the inverse of `fftn`."""
    return _of_axes("ifftn", x, s, axes, norm)


def rfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis of real numbers, and return the first ``n // 2 + 1`` complex elements."""
    return _apply("rfft", x, n=n, axis=axis, norm=norm)


def irfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Compute the inverse of `rfft`: complex to real."""
    return _apply("irfft", x, n=n, axis=axis, norm=norm)


def rfftn(x: Blob, /, *, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Blob:
    """Transform several axes of real numbers: the last one by `rfft`, the others by `fft`."""
    return _of_axes("rfftn", x, s, axes, norm)


def irfftn(x: Blob, /, *, s: Axes = None, axes: Axes = None, norm: Norm = "backward") -> Blob:
    """Compute the inverse of `rfftn`: complex to real."""
    return _of_axes("irfftn", x, s, axes, norm)


def hfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis with Hermitian symmetry, given one half of it: complex to real."""
    return _apply("hfft", x, n=n, axis=axis, norm=norm)


def ihfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Compute the inverse of `hfft` along one axis: one half of a Hermitian-symmetric axis."""
    return _apply("ihfft", x, n=n, axis=axis, norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return the frequencies of a transform of n elements: zero first, with shape (n,).

    `d` is the sample spacing, `dtype` a real floating-point dtype, or None for float64.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return those of n real elements: ascending, n // 2 + 1 of them; see `fftfreq`."""
    return _frequencies("rfftfreq", n, d, dtype, device)


def fftshift(x: Blob, /, *, axes: int | Axes = None) -> Blob:
    """Swap the halves of some axes, or of all; this moves zero to the middle."""
    return _apply("fftshift", x, axes=axes)


def ifftshift(x: Blob, /, *, axes: int | Axes = None) -> Blob:
    """Swap the halves of axes back: the inverse of `fftshift`."""
    return _apply("ifftshift", x, axes=axes)


def _apply(name: str, x: Any, **keywords: Any) -> Any:
    """Compute, and say which axis is out of range."""
    if not isinstance(x, Blob):
        x = as_blob(f"fft.{name}", x)
    if name in _OF_REAL and x.dtype.kind == "c":
        # CuPy would drop the imaginary parts.
        raise TypeError(f"{name} expects real numbers, got {x.dtype}; use fft or fftn")
    if keywords.get("n") is not None:
        _require_size(keywords["n"])
    shape, axes = x.shape, keywords.get("axis", keywords.get("axes"))
    # NumPy speaks of the index of a tuple, and CuPy accepts some that are out of range.
    if type(axes) is int:
        normalize_axis_index(axes, len(shape))
    elif axes is not None:
        normalize_axis_tuple(axes, len(shape), allow_duplicate=True)
    result = apply(f"fft.{name}", x, **keywords)
    # NumPy's inverse of a real transform leaves the result of an empty axis uninitialized.
    return apply("zeros_like", result) if 0 in shape else result


def _of_axes(name: str, x: Any, s: Axes, axes: Axes, norm: Norm) -> Any:
    """Compute with sizes in place of -1, which stands for the whole axis.

    CuPy does not support -1. NumPy does, but its inverse of a real transform drops elements.
    """
    if s is None:
        return _apply(name, x, s=None, axes=axes, norm=norm)
    if axes is None:
        raise ValueError(f"axes must be given with s, got s={tuple(s)} and axes=None")
    if len(s) != len(axes):
        raise ValueError(f"expected a size for each axis, got s={tuple(s)} and axes={tuple(axes)}")
    x = as_blob(name, x)
    sizes = [x.shape[axis] for axis in normalize_axis_tuple(axes, x.ndim, allow_duplicate=True)]
    if name == "irfftn":
        sizes[-1] = 2 * (sizes[-1] - 1)
    for index, size in enumerate(s):
        if size != -1:
            _require_size(size)
            sizes[index] = size
    return _apply(name, x, s=tuple(sizes), axes=axes, norm=norm)


def _require_size(n: int) -> None:
    """Raise for sizes below 1, as NumPy: CuPy truncates, or raises a cuFFT error for 0."""
    if operator.index(n) < 1:
        raise ValueError(f"expected a size of 1 or more data points, got {n}")


def _frequencies(name: str, n: int, d: float, dtype: DType, device: OnDevice) -> Blob:
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


if not TYPE_CHECKING:  # mypy reads only literal lists
    __all__ = defined_names(globals())  # noqa: PLE0605  # a list
