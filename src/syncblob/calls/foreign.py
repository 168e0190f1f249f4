"""Calls with objects that do not know Blobs: sparse arrays, units, variables of solvers.

Their operators, or their protocols of NumPy if they implement these themselves ("strangers"), are
called first, with the Blob if they may compute with it. If all of them decline, NumPy computes with
a read-only host array, or in an operator with a NumPy scalar if the Blob is 0-d.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from numbers import Number
from typing import Any

import numpy as np

from syncblob.arrays.foreign import is_array, is_ndarray_like, is_stranger
from syncblob.blob.core import BlobCore
from syncblob.blob.scalars import element
from syncblob.calls.nested import instances, replace_instances
from syncblob.calls.operands import as_operand, is_number
from syncblob.calls.tables import written_arguments
from syncblob.devices import HOST
from syncblob.transfers import require_device

# --- operators --------------------------------------------------------------------------------

_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def host_value(blob: Any) -> Any:
    """Return a read-only host array of a Blob; a NumPy scalar if it is 0-d."""
    return np.asarray(blob) if blob.shape else element(blob, "item")[()]


def known_form(blob: Any, other: Any) -> Any:
    """Return what another operand gets for a Blob: the Blob itself, or NumPy's value.

    Arrays, and types that hold arrays and so implement ``__array_function__``, get the Blob. Others
    expect a number or an ndarray: many convert nothing else, and pyscipopt's expressions call the
    same operator again.
    """
    if is_array(other) or is_stranger(type(other), "__array_function__"):
        return blob
    return host_value(blob) if not blob.shape or _has_ufunc(other) else blob


def _has_ufunc(x: Any) -> bool:
    return getattr(type(x), "__array_ufunc__", None) not in {None, np.ndarray.__array_ufunc__}


def _method(name: str, *, mirrored: bool) -> str:
    """Return the method for an operator, or that which Python calls on the right."""
    return f"__{_MIRRORED.get(name, f'r{name}') if mirrored else name}__"


def _has_operator(name: str, x: Any, *, mirrored: bool) -> bool:
    # By default, ``!=`` inverts ``==``.
    method = _method("eq" if name == "ne" else name, mirrored=mirrored)
    own = getattr(type(x), method, None)
    return own is not None and own is not getattr(object, method, None)


def answer_of(name: str, kernel: Callable[..., Any], blob: Any, other: Any) -> Any:
    """Return the result of the right operand's reflected operator, or NotImplemented.

    If the operand has its own ``__array_ufunc__``, that is called instead, as ndarray's operators
    do, because its reflected operators may be untested: pint's ``__rmatmul__`` is its
    ``__matmul__``. `name` is Python's name of the operator.
    """
    if _has_ufunc(other):
        return getattr(np, kernel.__name__)(blob, other)
    mirrored = getattr(type(other), _method(name, mirrored=True), None)
    return NotImplemented if mirrored is None else mirrored(other, blob)


def operator_with(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, blob: Any) -> Any:
    """Compute an operator of a Blob and an object that declines Blobs, or does not know them.

    As ndarray's operators do: by the object's own operator, else with NumPy's value, or for a
    number as with an array. NotImplemented for what is neither array nor number.
    """
    left = blob is x1
    other = x2 if left else x1
    of_arrays = is_ndarray_like(other)
    # Python would call sequences and other numbers unequal.
    compares = kernel in {np.equal, np.not_equal} and isinstance(other, (Number, Sequence))
    compares = compares and not hasattr(type(other), "__array_ufunc__")
    number = not of_arrays and (compares or is_number(other))
    single = not (blob.shape or isinstance(other, Sequence))
    if not (of_arrays or number or (single and _has_operator(name, other, mirrored=left))):
        return NotImplemented
    form = blob if number else known_form(blob, other)
    if left and form is blob:
        # Python has tried a left operand already.
        answer = answer_of(name, kernel, blob, other)
        if answer is not NotImplemented:
            return answer
    if number:
        other = np.asarray(other)
        if other.dtype.hasobject:
            # Python compares these, on the host.
            require_device(HOST.device, kernel.__name__)
            return blob.asarray(kernel(np.asarray(blob), other), device=blob.device)
        other = as_operand(other, blob)
        if other is NotImplemented:
            return other
    elif form is blob:
        form = host_value(blob)
    compute = getattr(operator, f"__{name}__")
    return compute(form, other) if left else compute(other, form)


# --- protocols --------------------------------------------------------------------------------


def _has_strangers(protocol: str, *kinds: type) -> bool:
    return any(is_stranger(kind, protocol) for kind in kinds if not issubclass(kind, BlobCore))


# Returns whether some types, other than Blob, implement a protocol of NumPy's in their own way.
has_strangers: Callable[..., bool] = lru_cache(maxsize=1024)(_has_strangers)


def ufunc_with_strangers(ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Return the first stranger's result that is not NotImplemented, else that with ndarrays."""
    protocol, out = "__array_ufunc__", kwargs.get("out", ())
    if type(out) is not tuple:
        # The protocol has a tuple.
        kwargs["out"] = out = (out,)
    strangers = [x for x in (*inputs, *out) if has_strangers(protocol, type(x))]
    written = (*out, *inputs[:1]) if method == "at" else out
    answer = _ask(protocol, strangers, written, ufunc, method, *inputs, **kwargs)
    if answer is not NotImplemented:
        return answer
    arrays = replace_instances(inputs, BlobCore, host_value)
    return getattr(ufunc, method)(*arrays, **replace_instances(kwargs, BlobCore, np.asarray))


def function_with_strangers(
    function: Callable[..., Any], types: Collection[type], args: Any, kwargs: Any
) -> Any:
    """Do the same for ``__array_function__``; NotImplemented if a stranger is not found."""
    protocol, given = "__array_function__", {**dict(enumerate(args)), **kwargs}
    kinds = [kind for kind in types if has_strangers(protocol, kind)]
    strangers = [next(instances([*given.values()], kind), None) for kind in kinds]
    if any(x is None for x in strangers):
        return NotImplemented
    written = [given[key] for key in written_arguments(function, given)]
    answer = _ask(protocol, strangers, written, function, types, args, kwargs)
    if answer is not NotImplemented:
        return answer
    args, kwargs = replace_instances((args, kwargs), BlobCore, np.asarray)
    return function(*args, **kwargs)


def _ask(
    protocol: str, strangers: Sequence[Any], written: Any, function: Any, *args: Any, **kwargs: Any
) -> Any:
    """Call the protocols from left to right, as NumPy does; NotImplemented if all decline.

    Raises a TypeError if NumPy cannot compute with ndarrays then.
    """
    for x in strangers:
        try:
            known = replace_instances((function, *args), BlobCore, partial(known_form, other=x))
            answer = getattr(type(x), protocol)(x, *known, **kwargs)
        except TypeError:
            continue
        if answer is not NotImplemented:
            return answer
    name = function.__name__
    masked = any(isinstance(x, np.ma.MaskedArray) for x in strangers)
    if masked and protocol == "__array_function__":
        raise TypeError(
            f"{name} may lose the mask of a MaskedArray; give it the array's .filled(), or "
            "numpy.asarray() of the Blob"
        )
    if next(instances([*written], BlobCore), None) is not None:
        kinds = ", ".join(sorted({type(x).__name__ for x in strangers}))
        raise TypeError(
            f"{name} writes into a Blob, and cannot take {kinds}; convert it with numpy.asarray()"
        )
    return NotImplemented
