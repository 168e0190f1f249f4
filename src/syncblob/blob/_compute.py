"""Computing with Blobs: operands brought to one device, results made Blobs without a copy.

The operators of Blob and the functions of the array API go through here. What they call are NumPy's
functions. CuPy arrays take the ufuncs among them over by NumPy's own protocol; the others are
looked up by name in the namespace of the device.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _kernels
from syncblob._dtypes import SCALAR_CLASSES, is_supported
from syncblob.blob._base import BlobBase
from syncblob.blob._views import Views
from syncblob.devices import HOST, Side
from syncblob.devices.base import Accelerator
from syncblob.interop.adopt import can_adopt, native_array
from syncblob.interop.numpy_functions import is_stranger
from syncblob.memory import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncblob.devices.base import Home

__all__ = [
    "OPERATOR",
    "SCALARS",
    "apply",
    "binary",
    "gather",
    "inplace",
    "operand",
    "unary",
    "view",
    "wrap",
]

# Python's scalars, which adapt to the dtype beside them, and NumPy's, which have one.
SCALARS = frozenset({bool, int, float, complex, *SCALAR_CLASSES})

# For `binary`: an operator asks.
OPERATOR = True

_PROTOCOLS = ("__cuda_array_interface__", "__dlpack__", "__array__")


# --- elementwise: as few steps as possible -------------------------------------------------------


def unary(kernel: Callable[..., Any], x: Any) -> Any:
    """Compute ``kernel(x)``, element by element, in a new Blob on the Blob's device.

    Raises
    ------
    TypeError
        If `x` is no Blob, or the kernel does not take its dtype.
    """
    try:
        held = x._held
    except AttributeError:
        raise _refusal(kernel.__name__, x) from None
    if held is None or held._sole is x._buffer:
        array = x._array
        home = x._home
    else:
        array, home = x._on_device(kernel.__name__)
    result = kernel(array) if home.native else home.compute(kernel, array)
    if type(result) is not np.ndarray:
        result = home.as_array(result)
    return x._fresh(result, home)


def binary(  # a keyword would take time with each operation
    kernel: Callable[..., Any],
    x1: Any,
    x2: Any,
    operator: bool = False,  # noqa: FBT002  # see above
) -> Any:
    """Compute ``kernel(x1, x2)``, element by element, in a new Blob.

    Parameters
    ----------
    kernel
        A ufunc, or a function of two arrays made of ufuncs.
    x1, x2
        Blobs, one of which may be a scalar.
    operator
        Accept arrays of other libraries for one of the two, and return NotImplemented for the rest,
        as operators do.

    Raises
    ------
    TypeError
        If an operand is none of these, or the kernel does not take their dtypes.
    DeviceMismatchError
        If the two are on different accelerators.
    """
    if type(x1) is type(x2):
        try:
            held1 = x1._held
            held2 = x2._held
        except AttributeError:
            raise _refusal(kernel.__name__, x1) from None
        home = x1._home
        if (
            (held1 is None or held1._sole is x1._buffer)
            and (held2 is None or held2._sole is x2._buffer)
            and home is x2._home
            and home.native
        ):
            result = kernel(x1._array, x2._array)
            if type(result) is not np.ndarray:
                result = home.as_array(result)
            return x1._fresh(result, home)
        return _binary(kernel, x1, x2, operator)
    if type(x2) in SCALARS:
        try:
            held1 = x1._held
        except AttributeError:
            raise _refusal(kernel.__name__, x1) from None
        home = x1._home
        if (held1 is None or held1._sole is x1._buffer) and home.native:
            result = kernel(x1._array, x2)
            if type(result) is not np.ndarray:
                result = home.as_array(result)
            return x1._fresh(result, home)
    return _binary(kernel, x1, x2, operator)


def _binary(kernel: Callable[..., Any], x1: Any, x2: Any, operator: bool) -> Any:
    """Do what `binary` does for all operands."""
    like = x1 if isinstance(x1, BlobBase) else x2
    if operator:
        other = x2 if like is x1 else x1
        if type(other) is np.ndarray and is_supported(other.dtype):
            array, home = like._on_device(kernel.__name__)
            if home is HOST:
                result = kernel(array, other) if like is x1 else kernel(other, array)
                return like._fresh(home.as_array(result), home)
        if not isinstance(other, BlobBase) and type(other) not in SCALARS:
            # A tensor that requires a gradient is for torch's own operator, which is asked next.
            graph = getattr(other, "requires_grad", False) is True
            other = NotImplemented if graph else _converted(other, like)
            if other is NotImplemented:
                return NotImplemented
            x1, x2 = (x1, other) if like is x1 else (other, x2)
    (array1, array2), home = gather(kernel.__name__, x1, x2)
    result = kernel(array1, array2) if home.native else home.compute(kernel, array1, array2)
    return like._fresh(home.as_array(result), home)


def inplace(kernel: Callable[..., Any], x1: Any, x2: Any) -> Any:
    """Compute ``kernel(x1, x2)`` into x1, without a temporary array, and return x1.

    Runs on the accelerator if one of the two is there. Nothing has changed where it raises.

    Raises
    ------
    TypeError
        If the result has another dtype than `x1`.
    ValueError
        If it has another shape, or `x1` is a const view.
    DeviceMismatchError
        If the two are on different accelerators.
    """
    if x1._readonly:
        x1._require_writable(f"in-place {kernel.__name__}")
    held1 = x1._held
    home = x1._home
    if held1 is None or held1._sole is x1._buffer:
        if type(x2) is type(x1):
            held2 = x2._held
            if (held2 is None or held2._sole is x2._buffer) and home is x2._home:
                array1 = x1._array
                array2 = x2._array
                if home.native and array1.dtype is array2.dtype:
                    # The usual case. The dtype stays, unless a kernel never keeps it.
                    kernel(array1, array2, array1)
                    return x1
                return _write(kernel, x1, array1, array2, home)
        elif type(x2) in SCALARS:
            return _write(kernel, x1, x1._array, x2, home)
    if type(x2) not in SCALARS and not isinstance(x2, BlobBase):
        x2 = _converted(x2, x1)
        if x2 is NotImplemented:
            return NotImplemented
    (array1, array2), home = gather(kernel.__name__, x1, x2)
    if array1 is not x1._array:
        # Not the shortcut: now that nothing speaks against it, get the right to write.
        _require_same_dtype(kernel, array1.dtype, array2)
        _require_same_shape(kernel, array1.shape, getattr(array2, "shape", ()))
        side = Side.HOST if home is HOST else Side.ACCELERATOR
        array1 = x1._array_on(side, Access.MUTABLE, f"in-place {kernel.__name__}")
    return _write(kernel, x1, array1, array2, home)


def _write(kernel: Callable[..., Any], x1: Any, array1: Any, array2: Any, home: Home) -> Any:
    """Compute into an array that may be written, if the dtype stays."""
    if type(array2) in SCALARS or array1.dtype is not array2.dtype:
        _require_same_dtype(kernel, array1.dtype, array2)
    if home.native:
        kernel(array1, array2, array1)
    else:
        home.compute(kernel, array1, array2, array1)
    return x1


def _require_same_dtype(kernel: Callable[..., Any], dtype: Any, other: Any) -> None:
    result = np.result_type(dtype, other if type(other) in SCALARS else other.dtype)
    if result != dtype:
        raise TypeError(
            f"in-place {kernel.__name__} keeps the dtype, {dtype}, and the result would be "
            f"{result}; write x = x op y, or convert the operand with .astype()"
        )


def _require_same_shape(
    kernel: Callable[..., Any], shape: tuple[int, ...], other: tuple[int, ...]
) -> None:
    if kernel is _kernels.matmul:
        return
    result = np.broadcast_shapes(shape, other)
    if result != shape:
        raise ValueError(
            f"in-place {kernel.__name__} keeps the shape, {shape}, and with an operand of shape "
            f"{other} the result would have {result}"
        )


# --- everything else -----------------------------------------------------------------------------


def apply(function: str | Callable[..., Any], *operands: Any, **keywords: Any) -> Any:
    """Compute with Blobs on their device and make the result a Blob, or several.

    Parameters
    ----------
    function
        The name of a function of the device's array library, as ``"linalg.inv"``, or a function
        that is given that library and the arrays.
    *operands
        Blobs, and scalars or None.
    **keywords
        Passed on as they are.

    Returns
    -------
    Blob or tuple of Blob
        Views of the operands where the result overlaps one of them.

    Raises
    ------
    TypeError
        If an operand is an array of another library.
    DeviceMismatchError
        If two operands are on different accelerators.
    """
    name = function if isinstance(function, str) else function.__name__.lstrip("_")
    arrays: Sequence[Any]
    if len(operands) == 1:
        array, home = operand(operands[0], name)
        arrays = (array,)
    else:
        arrays, home = gather(name, *operands)
    if not isinstance(function, str):
        result = home.compute(function, home.namespace, *arrays, **keywords)
    else:
        find = attrgetter(function) if "." in function else None
        found = find(home.namespace) if find else getattr(home.namespace, function)
        result = home.compute(found, *arrays, **keywords)
    if len(operands) == 1:
        if type(result) is np.ndarray and result.base is None and result is not array:
            return operands[0]._fresh(result, home)
        if isinstance(result, np.generic):
            return operands[0]._fresh(np.asarray(result), home)
    blobs = [x for x in operands if isinstance(x, BlobBase)]
    if isinstance(result, (tuple, list)):
        return tuple(wrap(array, home, *blobs) for array in result)
    return wrap(result, home, *blobs)


def view(x: Any, name: str, function: Callable[[Any], Any]) -> Any:
    """Return the view that a function makes of a Blob's array. Nothing is read or moved.

    Parameters
    ----------
    x
        The Blob.
    name
        The operation, for messages.
    function
        Given an array of NumPy or CuPy, which may lie at an address that holds nothing, it returns
        a view.

    Raises
    ------
    TypeError
        If `x` is no Blob.
    """
    if not isinstance(x, Views):
        raise _refusal(name, x)
    return x._derived(function)


def operand(x: Any, name: str) -> tuple[Any, Home]:
    """Return a Blob's data as an array on its device, to read, and the home it lies in.

    Raises
    ------
    TypeError
        If `x` is no Blob.
    """
    if not isinstance(x, BlobBase):
        raise _refusal(name, x)
    return x._on_device(name)


def gather(name: str, *operands: Any) -> tuple[list[Any], Home]:
    """Bring the data of Blobs to one device: the accelerator, if one of them is there.

    Parameters
    ----------
    name
        The operation, for messages and for the journal.
    *operands
        Blobs; scalars and None stay as they are.

    Raises
    ------
    TypeError
        If there is no Blob among them, or something else.
    DeviceMismatchError
        If two are on different accelerators.
    """
    arrays: list[Any] = []
    home: Home | None = None
    mixed = False
    for x in operands:
        if x is None or type(x) in SCALARS:
            arrays.append(x)
            continue
        array, where = operand(x, name)
        arrays.append(array)
        if home is not None and where is not home:
            mixed = True
        if home is None or home is HOST:
            home = where
    if home is None:
        raise TypeError(f"{name} expects at least one Blob, got {operands}")
    if mixed and isinstance(home, Accelerator):
        for place, x in enumerate(operands):
            if isinstance(x, BlobBase):
                x._memory.bind(home)
                arrays[place] = x._array_on(Side.ACCELERATOR, Access.CONST, name)
    return arrays, home


def wrap(array: Any, home: Home, *operands: BlobBase) -> Any:
    """Make a Blob of the result of a computation, without a copy.

    Parameters
    ----------
    array
        An array or a scalar of the home's library.
    home
        Where it was computed.
    *operands
        What it was computed from. A result that overlaps one of them is a view of it.
    """
    array = home.as_array(array)
    # Some functions return the operand itself where there is nothing to do.
    if array.base is None and not any(array is x._array for x in operands):
        return operands[0]._fresh(array, home)
    side = Side.HOST if home is HOST else Side.ACCELERATOR
    for x in operands:
        buffer = x._memory.buffer(side)
        if buffer is not None and home.overlap(array, buffer):
            return x._view(home.layout(array, buffer))
    if not can_adopt(array):
        array = array.copy()
    return operands[0]._fresh(array, home)


def _converted(x: Any, like: Any) -> Any:
    """Make a Blob of an array or a scalar of another library; NotImplemented of something else."""
    if is_stranger((type(x),), "__array_ufunc__"):
        return NotImplemented
    if isinstance(x, np.generic) or any(hasattr(x, protocol) for protocol in _PROTOCOLS):
        return like._from_array(native_array(x)[0])
    return NotImplemented


def _refusal(name: str, x: object) -> TypeError:
    return TypeError(f"{name} expects a Blob, got {type(x).__name__}; use syncblob.asarray() first")
