"""Elementwise operations and ``@``, in as few steps as possible.

The operators of Blob, the functions of the array API and NumPy's ufuncs on Blobs use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from syncblob._dtypes import SCALARS, SUPPORTED
from syncblob.arrays.foreign import is_ndarray_like
from syncblob.arrays.native import array_of_tensor
from syncblob.blob.core import BlobCore, fresh
from syncblob.calls.aligned_results import out_for
from syncblob.calls.engine import plan_of
from syncblob.calls.foreign_operators import answer_of, by_array, has_operator
from syncblob.calls.operands import as_blob, converted, is_number, refusal, with_blobs
from syncblob.calls.results import as_blobs
from syncblob.calls.tables import rules_of_kernel
from syncblob.devices import HOST
from syncblob.devices.host import LARGE
from syncblob.memory.operations import leave_room, lines
from syncblob.transfers import may_compute_directly, require_device

# These also accept sequences, buffers and other numbers, which Python would otherwise call unequal.
_COMPARISONS = (np.equal, np.not_equal)


def unary(kernel: Callable[..., Any], x: Any) -> Any:
    """Compute ``kernel(x)``, elementwise, in a new Blob on the Blob's device.

    Raises
    ------
    TypeError
        If `x` is neither a Blob nor a NumPy scalar, or the kernel does not take its dtype.
    """
    try:
        shortcut, array = x.shortcut, x.raw_array
    except AttributeError:
        x = as_blob(kernel.__name__, x)
        array = None
    home = x.home
    if array is None or not (
        home.direct and (shortcut.readable or x.current_array(kernel.__name__) is array)
    ):
        if array is not None and home.queues and HOST.direct and shortcut.readable:
            result = _queued(x, kernel, array)
            if result is not None:
                return result
        # Drop our references, so that the buffers can be evicted if memory is short.
        array = shortcut = None
        return plan_of(rules_of_kernel, kernel, (), type(x)).run(x, (x,), {})
    result = (
        kernel(array) if array.nbytes < LARGE else kernel(array, **out_for(home, kernel, array))
    )
    if type(result) is not np.ndarray:
        return as_blobs(x, result, home)
    return fresh(type(x), result, home)


def binary(  # noqa: C901, PLR0911, PLR0912  # cases are inlined to save time
    kernel: Callable[..., Any], x1: Any, x2: Any, operator: str = ""
) -> Any:
    """Compute ``kernel(x1, x2)``, elementwise, in a new Blob.

    Parameters
    ----------
    kernel
        A ufunc, or a function of two arrays composed of ufuncs.
    x1, x2
        Blobs or NumPy scalars; one may be a Python scalar.
    operator
        Python's name of the operator that calls this, such as ``"add"``. An operator accepts an
        array of another library as one operand, and returns NotImplemented for other objects;
        ``==`` and ``!=`` also accept sequences, buffers and other numbers.

    Raises
    ------
    TypeError
        If an operand is something else, both are Python scalars, or the kernel does not take their
        dtypes.
    """
    # Operands without these attributes are scalars, or arrays that `_binary` refuses.
    if type(x1) is type(x2):
        try:
            # In this order; see `BlobCore`.
            shortcut1, shortcut2 = x1.shortcut, x2.shortcut
            array1, array2 = x1.raw_array, x2.raw_array
        except AttributeError:
            pass
        else:
            home = x1.home
            if (
                home.queues
                and home is x2.home
                and HOST.direct
                and shortcut1.readable
                and shortcut2.readable
                and array1 is not None
                and array2 is not None
            ):
                result = _queued(x1, kernel, array1, array2)
                if result is not None:
                    return result
            elif (
                array1 is not None
                and array2 is not None
                and home is x2.home
                and (home.direct or may_compute_directly(home, kernel.__name__))
                and (shortcut1.readable or x1.current_array(kernel.__name__) is array1)
                and (shortcut2.readable or x2.current_array(kernel.__name__) is array2)
            ):
                if array1.nbytes < LARGE and array2.nbytes < LARGE:
                    result = kernel(array1, array2)
                else:
                    result = kernel(array1, array2, **out_for(home, kernel, array1, array2))
                if type(result) is not np.ndarray:
                    return as_blobs(x1, result, home)
                return fresh(type(x1), result, home)
    elif type(x2) in SCALARS:
        try:
            shortcut, array = x1.shortcut, x1.raw_array
        except AttributeError:
            pass
        else:
            home = x1.home
            if home.queues and HOST.direct and shortcut.readable and array is not None:
                result = _queued(x1, kernel, array, x2)
                if result is not None:
                    return result
            elif (
                array is not None
                and (home.direct or may_compute_directly(home, kernel.__name__))
                and (shortcut.readable or x1.current_array(kernel.__name__) is array)
            ):
                if array.nbytes < LARGE:
                    result = kernel(array, x2)
                else:
                    result = kernel(array, x2, **out_for(home, kernel, array, x2))
                if type(result) is not np.ndarray:
                    return as_blobs(x1, result, home)
                return fresh(type(x1), result, home)
    # Drop our references, so that the buffers can be evicted if memory is short.
    array = array1 = array2 = shortcut = shortcut1 = shortcut2 = None
    return _binary(kernel, x1, x2, operator)


def _queued(like: Any, kernel: Callable[..., Any], *operands: Any) -> Any:
    """Compute with arrays at hand on a device that queues work; None if memory is short there."""
    home = like.home
    try:
        if lines:
            leave_room(home)
        result = home.compute(kernel, *operands)
    except MemoryError:
        # The caller lets go of the arrays, and begins again.
        return None
    if type(result) is tuple:
        return as_blobs(like, result, home)
    return fresh(type(like), result, home)


def _binary(kernel: Callable[..., Any], x1: Any, x2: Any, operator: str) -> Any:
    """Compute `binary` outside the usual cases."""
    like = x1 if isinstance(x1, BlobCore) else x2
    if operator:
        other = x2 if like is x1 else x1
        if not (isinstance(other, BlobCore) or type(other) in SCALARS):
            array = other if type(other) is np.ndarray else array_of_tensor(other, keep=False)
            if array is None or array.dtype not in SUPPORTED or like.home.bounded:
                if getattr(other, "requires_grad", False) is True:
                    # torch's own operator, which Python tries next, computes the gradient.
                    return NotImplemented
                array = converted(other, like)
            if array is NotImplemented:
                by = by_array if is_ndarray_like(other) else _by_value
                return by(operator, kernel, x1, x2, like)
            x1, x2 = (x1, array) if like is x1 else (array, x2)
    elif x1 is None or x2 is None:
        # `with_blobs` keeps None, and NumPy would compute an array of objects.
        raise refusal(kernel.__name__, None)
    elif not (isinstance(like, BlobCore) and {type(x1), type(x2)} <= {type(like), *SCALARS}):
        x1, x2 = with_blobs(kernel.__name__, (x1, x2))
        like = x1 if isinstance(x1, BlobCore) else x2
    return plan_of(rules_of_kernel, kernel, (), type(x1), type(x2)).run(like, (x1, x2), {})


def _by_value(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, like: Any) -> Any:
    """Compute `binary` for an operator with an object that is no array, as ndarray's operators do.

    The reflected operator of the object comes first. A 0-d Blob is a NumPy scalar to an object with
    an operator of its own.
    """
    other = x2 if like is x1 else x1
    if not (is_number(other) or (kernel in _COMPARISONS and _is_comparable(other))):
        if like.shape or isinstance(other, Sequence):
            return NotImplemented
        has = has_operator(name, other, mirrored=like is x1)
        return by_array(name, kernel, x1, x2, like) if has else NotImplemented
    answer = answer_of(name, kernel, like, other) if like is x1 else NotImplemented
    if answer is not NotImplemented:
        return answer
    array = np.asarray(other)
    if array.dtype.hasobject:
        # Python compares these, on the host.
        require_device(HOST.device, kernel.__name__)
        return like.asarray(kernel(np.asarray(like), array), device=like.device)
    operand = converted(array, like)
    if operand is NotImplemented:
        return NotImplemented
    return binary(kernel, like, operand) if like is x1 else binary(kernel, operand, like)


def _is_comparable(x: Any) -> bool:
    """Return whether an object that is no array has values to compare with elements."""
    if hasattr(type(x), "__array_ufunc__"):
        return False
    if isinstance(x, (Number, Sequence)):
        return True
    try:
        memoryview(x)
    except TypeError:
        return hasattr(x, "__array_interface__") and not isinstance(x, type)
    return True
