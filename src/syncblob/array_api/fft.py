"""The extension for Fourier transforms (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/extensions/fourier_transform_functions.html

Operands are Blobs; arrays of other libraries are refused. Every function returns a new Blob, on the
device of the operand, without a transfer, in its precision; `fftn` and `ifftn` return a view where
`axes` is empty. Integers are computed with as float64.

Of all transforms:

n, s
    The size of the transformed axis, or a size for each of `axes`: shorter axes are filled up with
    zeros, longer ones cut off. None, or a size of -1, takes an axis as it is. For the inverse of a
    real transform, and for `hfft`, it is the size of the result; the axis of the operand has
    ``n // 2 + 1`` elements then.
axis, axes
    What is transformed: the last axis by default, or all of them.
norm
    What the result is divided by: ``"backward"``, n for inverse transforms and 1 for the others;
    ``"forward"``, the other way round; ``"ortho"``, the square root of n for both.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from syncblob._dtypes import as_dtype
from syncblob.array_api._operands import require_blobs
from syncblob.blob import Blob
from syncblob.blob.compute import apply
from syncblob.devices import home_of
from syncblob.guards import require_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from syncblob.devices import Device

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm = Literal["backward", "ortho", "forward"]


# --- transforms of one axis ----------------------------------------------------------------------


def fft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis: complex to complex."""
    return apply("fft.fft", x, n=_size(n), axis=axis, norm=norm)


def ifft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis back: the inverse of `fft`."""
    return apply("fft.ifft", x, n=_size(n), axis=axis, norm=norm)


def rfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis of real numbers: real to complex, the ``n // 2 + 1`` first elements.

    Raises
    ------
    TypeError
        If `x` is complex.
    """
    return apply("fft.rfft", _real("rfft", x), n=_size(n), axis=axis, norm=norm)


def irfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis back to real numbers: the inverse of `rfft`.

    ``n=None`` gives ``2 * (M - 1)`` elements of M.
    """
    return apply("fft.irfft", x, n=_size(n), axis=axis, norm=norm)


def hfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis of Hermitian symmetry, of which one half is given: complex to real.

    ``n=None`` gives ``2 * (M - 1)`` elements of M.
    """
    return apply("fft.hfft", x, n=_size(n), axis=axis, norm=norm)


def ihfft(x: Blob, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Blob:
    """Transform one axis back to one half of a Hermitian symmetric one: the inverse of `hfft`.

    Raises
    ------
    TypeError
        If `x` is complex.
    """
    return apply("fft.ihfft", _real("ihfft", x), n=_size(n), axis=axis, norm=norm)


# --- transforms of several axes ------------------------------------------------------------------


def fftn(
    x: Blob,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Blob:
    """Transform several axes: complex to complex.

    Raises
    ------
    ValueError
        If `s` is given without `axes`, or with another number of them.
    """
    return apply("fft.fftn", x, s=_sizes(x, s, axes), axes=axes, norm=norm)


def ifftn(
    x: Blob,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Blob:
    """Transform several axes back: the inverse of `fftn`.

    Raises
    ------
    ValueError
        As `fftn`.
    """
    return apply("fft.ifftn", x, s=_sizes(x, s, axes), axes=axes, norm=norm)


def rfftn(
    x: Blob,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Blob:
    """Transform several axes of real numbers, the last of them as `rfft` does.

    Raises
    ------
    TypeError
        If `x` is complex.
    ValueError
        As `fftn`.
    """
    return apply("fft.rfftn", _real("rfftn", x), s=_sizes(x, s, axes), axes=axes, norm=norm)


def irfftn(
    x: Blob,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Blob:
    """Transform several axes back to real numbers, the last of them as `irfft` does.

    Raises
    ------
    ValueError
        As `fftn`.
    """
    return apply("fft.irfftn", x, s=_sizes(x, s, axes, to_real=True), axes=axes, norm=norm)


# --- frequencies ---------------------------------------------------------------------------------


def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Return the frequencies of a transform of n elements: shape (n,), zero first.

    Parameters
    ----------
    n
        The size, at least 1.
    d
        The distance between two samples.
    dtype
        A real floating-point dtype; None for float64.
    device
        None for the default device.

    Raises
    ------
    TypeError
        If `dtype` is another one.
    ValueError
        If `n` is less than 1.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Return the frequencies of a transform of n real elements: shape (n // 2 + 1,), ascending.

    Parameters
    ----------
    n, d, dtype, device
        As for `fftfreq`.

    Raises
    ------
    TypeError, ValueError
        As `fftfreq`.
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def fftshift(x: Blob, /, *, axes: int | Sequence[int] | None = None) -> Blob:
    """Exchange the halves of axes, so that frequency zero comes to their middle.

    Parameters
    ----------
    x
        Of any dtype.
    axes
        None for all.
    """
    return apply("fft.fftshift", x, axes=axes)


def ifftshift(x: Blob, /, *, axes: int | Sequence[int] | None = None) -> Blob:
    """Exchange the halves of axes back: the inverse of `fftshift`.

    Parameters
    ----------
    x, axes
        As for `fftshift`.
    """
    return apply("fft.ifftshift", x, axes=axes)


# --- how -----------------------------------------------------------------------------------------


def _real(name: str, x: Any) -> Any:
    """Refuse complex numbers, as the standard does: CuPy drops their imaginary parts."""
    require_blobs(name, x)
    if x.dtype.kind == "c":
        raise TypeError(f"{name} expects real numbers, got {x.dtype}; use fft or fftn")
    return x


def _size(n: int | None) -> int | None:
    """Check the size of one axis: CuPy cuts elements off for a negative one, where NumPy refuses.

    For 0 it raises an error of cuFFT's.
    """
    if n is not None and operator.index(n) < 1:
        raise ValueError(f"expected a size of 1 or more data points, got {n}")
    return n


def _sizes(
    x: Any, s: Sequence[int] | None, axes: Sequence[int] | None, *, to_real: bool = False
) -> tuple[int, ...] | None:
    """Check sizes, and replace those of -1, which stand for all elements of an axis.

    CuPy does not know them. NumPy does, but the inverse of a real transform drops elements then.
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
    require_blobs("an FFT", x)
    whole = [x.shape[axis] for axis in axes]
    if to_real:
        whole[-1] = 2 * (whole[-1] - 1)
    return tuple(
        all_of_it if size == -1 else size for size, all_of_it in zip(s, whole, strict=True)
    )


def _frequencies(
    name: str, n: int, d: float, dtype: DTypeLike | None, device: Device | str | None
) -> Blob:
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"{name} expects at least one element, got n={n}")
    wanted = np.dtype(np.float64) if dtype is None else as_dtype(dtype)
    if wanted.kind != "f":
        raise TypeError(f"{name} expects a real floating-point dtype, got {wanted}")
    home = home_of(device)
    require_device(home.device, name)
    array = home.compute(getattr(home.namespace.fft, name), n, d=d)
    return Blob._fresh(home.compute(array.astype, wanted, copy=False), home)
