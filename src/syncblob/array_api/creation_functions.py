"""Creation functions (array API standard 2025.12).

https://data-apis.org/array-api/2025.12/API_specification/creation_functions.html

The device of the new Blob is the one named, else the default device; those that are made after
another Blob have its device. The contents are written there: nothing is transferred, but for
`asarray` and `from_dlpack` of memory that lies elsewhere, which moves on first use, and for a
`fill_value` that is a Blob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from syncblob._dtypes import as_dtype
from syncblob._shape import as_shape
from syncblob.array_api._operands import require_blobs
from syncblob.blob import Blob
from syncblob.blob.compute import apply
from syncblob.devices import home_of
from syncblob.guards import require_device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from syncblob.devices import Device

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | tuple[int, ...]


def arange(  # the standard's
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Return evenly spaced numbers of the half-open interval from `start` to `stop`.

    Parameters
    ----------
    start, stop
        The interval; with one of them only, it is `stop`, and starts at 0.
    step
        The distance between neighbours, not 0.
    dtype
        None for int64 if all are integers, else float64.
    device
        None for the default device.
    """
    if stop is None:
        start, stop = 0, start
    return _made("arange", start, stop, step, dtype=dtype, device=device)


def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Blob:
    """Make a Blob of anything that is, or converts to, an array; without a copy if possible.

    Parameters
    ----------
    obj, dtype, device, copy
        As for `syncblob.Blob.asarray`.
    """
    if type(obj) is Blob and dtype is None and device is None and not copy:
        return obj
    return Blob.asarray(obj, dtype, device=device, copy=copy)


def empty(
    shape: Shape, *, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Blob:
    """Return a Blob with arbitrary contents, to be overwritten.

    Parameters
    ----------
    shape
        An integer or a tuple of them.
    dtype
        None for float64.
    device
        None for the default device.
    """
    return _filled("empty", shape, dtype, device)


def empty_like(
    x: Blob, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Blob:
    """Return a Blob of the shape of another, with arbitrary contents.

    Parameters
    ----------
    x
        Gives the shape, and dtype and device where they are None.
    dtype, device
        As for `empty`.
    """
    return _like("empty", x, dtype, device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Return a matrix of ones on one diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols
        The shape; as many columns as rows if None.
    k
        Which diagonal: the main one for 0, above it for positive numbers.
    dtype, device
        As for `zeros`.
    """
    return _made("eye", n_rows, n_cols, k=k, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Device | str | None = None, copy: bool | None = None) -> Blob:
    """Make a Blob over the memory of a DLPack producer; see `syncblob.Blob.from_dlpack`."""
    return Blob.from_dlpack(x, device=device, copy=copy)


def full(
    shape: Shape,
    fill_value: complex | Blob,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Return a Blob with the same value everywhere.

    Parameters
    ----------
    shape
        An integer or a tuple of them.
    fill_value
        A scalar, or a Blob without axes, which is read on the host.
    dtype
        None for the default dtype of the kind of `fill_value`, or the dtype of the Blob.
    device
        None for the default device.
    """
    if isinstance(fill_value, Blob):
        dtype = fill_value.dtype if dtype is None else dtype
        fill_value = fill_value.item()
    elif type(fill_value) is not float:
        # Refuses what no Blob can hold.
        asarray(fill_value, dtype=dtype, device="cpu")
    return _made("full", as_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Blob,
    /,
    fill_value: complex | Blob,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Blob:
    """Return a Blob of the shape of another, with the same value everywhere.

    Parameters
    ----------
    x
        Gives the shape, and dtype and device where they are None.
    fill_value
        A scalar, or a Blob without axes, which is read on the host.
    dtype, device
        As for `full`.
    """
    require_blobs("full_like", x)
    return full(
        x.shape,
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
    )


def linspace(  # noqa: PLR0913  # the standard's
    start: complex | Blob,
    stop: complex | Blob,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Blob:
    """Return a number of evenly spaced numbers of an interval.

    Parameters
    ----------
    start, stop
        The ends. Blobs of several give as many columns, along the last axes of the result.
    num
        How many numbers.
    dtype
        None for float64, or complex128 where an end is complex. With a Blob as an end, the
        floating-point dtype that type promotion gives.
    device
        None for the default device, or for that of an end that is a Blob.
    endpoint
        Whether `stop` is the last of them.
    """
    if isinstance(start, Blob) or isinstance(stop, Blob):
        wanted = None if dtype is None else as_dtype(dtype)
        made: Blob = apply("linspace", start, stop, num, endpoint=endpoint, dtype=wanted)
        return made if device is None else made.to_device(device)
    return _made("linspace", start, stop, num, endpoint=endpoint, dtype=dtype, device=device)


def meshgrid(*arrays: Blob, indexing: Literal["xy", "ij"] = "xy") -> tuple[Blob, ...]:
    """Return coordinate matrices of coordinate vectors: one for each, as new Blobs.

    Parameters
    ----------
    *arrays
        Blobs of one axis and the same dtype.
    indexing
        ``"xy"`` exchanges the first two axes of the results, ``"ij"`` does not.
    """
    if not arrays:
        return ()
    result: tuple[Blob, ...] = apply("meshgrid", *arrays, indexing=indexing)
    return result


def ones(
    shape: Shape, *, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Blob:
    """Return a Blob of ones.

    Parameters
    ----------
    shape
        An integer or a tuple of them.
    dtype
        None for float64.
    device
        None for the default device.
    """
    return _filled("ones", shape, dtype, device)


def ones_like(
    x: Blob, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Blob:
    """Return a Blob of the shape of another, of ones.

    Parameters
    ----------
    x
        Gives the shape, and dtype and device where they are None.
    dtype, device
        As for `ones`.
    """
    return _like("ones", x, dtype, device)


def tril(x: Blob, /, *, k: int = 0) -> Blob:
    """Return the lower triangles of a stack of matrices, zeros above them, as a new Blob.

    Parameters
    ----------
    x
        A Blob of at least two axes.
    k
        The last diagonal that stays: the main one for 0, above it for positive numbers.
    """
    return _triangle("tril", x, k)


def triu(x: Blob, /, *, k: int = 0) -> Blob:
    """Return the upper triangles of a stack of matrices, zeros below them, as a new Blob.

    Parameters
    ----------
    x
        A Blob of at least two axes.
    k
        The first diagonal that stays: the main one for 0, above it for positive numbers.
    """
    return _triangle("triu", x, k)


def zeros(
    shape: Shape, *, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Blob:
    """Return a Blob of zeros.

    Parameters
    ----------
    shape
        An integer or a tuple of them.
    dtype
        None for float64.
    device
        None for the default device.
    """
    return _filled("zeros", shape, dtype, device)


def zeros_like(
    x: Blob, /, *, dtype: DTypeLike | None = None, device: Device | str | None = None
) -> Blob:
    """Return a Blob of the shape of another, of zeros.

    Parameters
    ----------
    x
        Gives the shape, and dtype and device where they are None.
    dtype, device
        As for `zeros`.
    """
    return _like("zeros", x, dtype, device)


# --- how -----------------------------------------------------------------------------------------


def _filled(name: str, shape: Shape, dtype: DTypeLike | None, device: Device | str | None) -> Blob:
    home = home_of(device)
    if type(shape) is not int or shape < 0:
        shape = as_shape(shape)
    make = getattr(home.namespace, name)
    wanted = float if dtype is None else as_dtype(dtype)
    if home.direct:
        array = make(shape, wanted)
    else:
        require_device(home.device, name)
        array = home.compute(make, shape, dtype=wanted)
    return Blob._fresh(array, home)


def _like(name: str, x: Blob, dtype: DTypeLike | None, device: Device | str | None) -> Blob:
    require_blobs(f"{name}_like", x)
    return _filled(
        name,
        x.shape,
        x.dtype if dtype is None else dtype,
        x.device if device is None else device,
    )


def _made(
    name: str,
    *args: Any,
    dtype: DTypeLike | None,
    device: Device | str | None,
    **keywords: Any,
) -> Blob:
    home = home_of(device)
    require_device(home.device, name)
    wanted = None if dtype is None else as_dtype(dtype)
    if wanted is None and name == "eye":
        wanted = as_dtype(float)
    array = home.compute(getattr(home.namespace, name), *args, dtype=wanted, **keywords)
    return Blob._fresh(array if array.base is None else home.compute(array.copy), home)


def _triangle(name: str, x: Blob, k: int) -> Blob:
    require_blobs(name, x)
    if x.ndim < 2:  # noqa: PLR2004  # a matrix has two axes
        raise ValueError(f"{name} expects at least two axes, got shape {x.shape}")
    result: Blob = apply(name, x, k=k)
    return result
