"""Creation functions.

`device` None is the default device. The ``*_like`` functions take a `dtype` and `device` that are
None from `x`. A shape is an integer or a tuple of them. The contents are created on the device.
Two exceptions: `asarray` and `from_dlpack` of memory on another device, which is copied on first
use, and a Blob as `fill_value`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from syncblob._blob import Blob
from syncblob._dtypes import SUPPORTED, as_dtype
from syncblob._shape import as_shape
from syncblob.array_api._checks import require_blobs
from syncblob.blob.core import fresh
from syncblob.calls.namespace import apply
from syncblob.calls.operands import as_blob
from syncblob.devices import home_of, supervisors
from syncblob.interop.adopt import can_adopt
from syncblob.memory import compute, from_the_start
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.array_api._checks import DType, OnDevice

Shape = int | tuple[int, ...]

_FLOAT64 = as_dtype("float64")
# The functions whose only argument is a shape.
_OF_SHAPE = frozenset({"empty", "ones", "zeros"})


def empty(shape: Shape, *, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return a Blob with arbitrary contents, to be overwritten; `dtype` None is float64."""
    return _make("empty", shape, dtype=dtype, home=home_of(device), default=_FLOAT64)


def empty_like(x: Blob, /, *, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return a Blob of the shape of another, with arbitrary contents."""
    return _fill_like("empty", x, dtype, device)


def ones(shape: Shape, *, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return a Blob of ones; `dtype` None is float64."""
    return _make("ones", shape, dtype=dtype, home=home_of(device), default=_FLOAT64)


def ones_like(x: Blob, /, *, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return a Blob of the shape of another, of ones."""
    return _fill_like("ones", x, dtype, device)


def zeros(shape: Shape, *, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return a Blob of zeros; `dtype` None is float64."""
    return _make("zeros", shape, dtype=dtype, home=home_of(device), default=_FLOAT64)


def zeros_like(x: Blob, /, *, dtype: DType = None, device: OnDevice = None) -> Blob:
    """Return a Blob of the shape of another, of zeros."""
    return _fill_like("zeros", x, dtype, device)


def _fill_like(name: str, x: Blob, dtype: DType, device: OnDevice) -> Blob:
    x = x if isinstance(x, Blob) else as_blob(f"{name}_like", x)
    home = x.home if device is None else home_of(device)
    return _make(name, x.shape, dtype=dtype, home=home, default=x.dtype)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType = None,
    device: OnDevice = None,
) -> Blob:
    """Return evenly spaced values from `start`, included, to `stop`, excluded.

    A single argument is `stop`, and `start` is 0. `dtype` None is int64 if all arguments are
    integers, else float64.
    """
    if stop is None:
        start, stop = 0, start
    return _make("arange", start, stop, step, dtype=dtype, home=home_of(device))


def asarray(
    obj: Any, /, *, dtype: DType = None, device: OnDevice = None, copy: bool | None = None
) -> Blob:
    """Convert an array, or an object that converts to one, to a Blob; without a copy if possible.

    Raises ValueError if `copy` is False and a copy or a transfer is needed; TypeError if Blobs do
    not support the dtype, or `obj` is a masked array; OverflowError if an integer does not fit into
    the dtype, or into 64 bits.

    Parameters
    ----------
    obj
        A Blob, an array of any library with DLPack or the CUDA array interface, a buffer, a nested
        sequence, or a scalar.
    dtype
        None for that of `obj`.
    device
        Contents are transferred there on first use, but a scalar is written there. None keeps that
        of a Blob or of an array of an accelerator.
    copy
        True always copies, False never. None copies only if `obj` cannot be shared: for another
        dtype or device, and for memory that is read-only, unaligned or not dense.
    """
    if type(obj) is Blob and dtype is None and device is None and not copy:
        return obj
    return Blob.asarray(obj, dtype, device=device, copy=copy)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType = None,
    device: OnDevice = None,
) -> Blob:
    """Return a matrix with ones on the `k`-th diagonal, and zeros elsewhere; 0 is the main one."""
    return _make("eye", n_rows, n_cols, k=k, dtype=dtype, home=home_of(device), default=_FLOAT64)


def from_dlpack(x: Any, /, *, device: OnDevice = None, copy: bool | None = None) -> Blob:
    """Make a Blob over the memory of a DLPack producer, on the host or on a CUDA device.

    `device` None is that of `x`, whatever the default device is; `copy` as for `asarray`. Raises a
    BufferError if the producer cannot export, or `copy` is False and a copy or a transfer is
    needed; a TypeError if `x` is not a DLPack producer, or is a masked array.
    """
    return Blob.from_dlpack(x, device=device, copy=copy)


def full(
    shape: Shape, fill_value: complex | Blob, *, dtype: DType = None, device: OnDevice = None
) -> Blob:
    """Return a Blob filled with one value: a scalar, or a 0-d Blob, which is read on the host.

    `dtype` None is the default dtype of the kind of `fill_value`; for a Blob, its dtype.
    """
    if isinstance(fill_value, Blob):
        dtype = fill_value.dtype if dtype is None else dtype
        fill_value = fill_value.item()
    elif type(fill_value) is not float:
        # Check that a Blob can hold the value.
        asarray(fill_value, dtype=dtype, device="cpu")
    return _make("full", as_shape(shape), fill_value, dtype=dtype, home=home_of(device))


def full_like(
    x: Blob, /, fill_value: complex | Blob, *, dtype: DType = None, device: OnDevice = None
) -> Blob:
    """Return a Blob with the shape of another, filled with one value; see `full`."""
    x = as_blob("full_like", x)
    dtype = x.dtype if dtype is None else dtype
    return full(x.shape, fill_value, dtype=dtype, device=x.device if device is None else device)


def linspace(
    start: complex | Blob,
    stop: complex | Blob,
    /,
    num: int,
    *,
    dtype: DType = None,
    device: OnDevice = None,
    endpoint: bool = True,
) -> Blob:
    """Return `num` evenly spaced values in an interval, with `stop` unless `endpoint` is False.

    Ends that are Blobs with several elements give a result with their axes after the first one;
    `dtype` None is then the floating-point dtype of type promotion, `device` None that of the
    Blobs. Else `dtype` None is float64, or complex128 if an end is complex.
    """
    if isinstance(start, Blob) or isinstance(stop, Blob):
        wanted = None if dtype is None else as_dtype(dtype)
        result: Blob = apply("linspace", start, stop, num, endpoint=endpoint, dtype=wanted)
        return result if device is None else result.to_device(device)
    home = home_of(device)
    return _make("linspace", start, stop, num, endpoint=endpoint, dtype=dtype, home=home)


def meshgrid(*arrays: Blob, indexing: Literal["xy", "ij"] = "xy") -> tuple[Blob, ...]:
    """Return coordinate matrices from coordinate vectors of one dtype, one new Blob for each.

    `indexing` ``"xy"`` swaps the first two axes of the results; ``"ij"`` does not.
    """
    if not arrays:
        return ()
    return apply("meshgrid", *require_blobs("meshgrid", arrays), indexing=indexing)


def tril(x: Blob, /, *, k: int = 0) -> Blob:
    """Return a copy of matrices with zeros above the `k`-th diagonal; 0 is the main one."""
    return _triangle("tril", x, k)


def triu(x: Blob, /, *, k: int = 0) -> Blob:
    """Return a copy of matrices with zeros below the `k`-th diagonal; 0 is the main one."""
    return _triangle("triu", x, k)


def _make(
    name: str, *args: Any, dtype: DType, home: Any, default: Any = None, **keywords: Any
) -> Blob:
    """Call a function of a home; `default` is the dtype in place of None."""
    wanted = default if dtype is None else as_dtype(dtype)
    if name in _OF_SHAPE:
        args = (as_shape(args[0], wanted.itemsize),)
    make = getattr(home, name, None) or getattr(home.namespace, name)
    if home.plain and not supervisors:
        array = make(*args, dtype=wanted, **keywords)
    else:
        require_device(home.device, name)
        array = from_the_start(compute, home, make, *args, dtype=wanted, **keywords)
    if array.dtype not in SUPPORTED:
        # Long doubles, dates and large integers give dtypes that Blobs do not support.
        as_dtype(array.dtype)
    own = array.base is None if home.native else home.owns(array)
    if not (own or can_adopt(array, home)):
        array = compute(home, home.copy, array)
    return fresh(Blob, array, home)


def _triangle(name: str, x: Blob, k: int) -> Blob:
    x = x if isinstance(x, Blob) else as_blob(name, x)
    if len(x.shape) < 2:  # noqa: PLR2004  # a matrix has two axes
        raise ValueError(f"{name} expects at least two axes, got shape {x.shape}")
    return apply(name, x, k=k)
