"""Operators with objects that do not know Blobs: sparse arrays, units, variables of solvers.

Their operators are called first, with the Blob if they may compute with it. Otherwise, or if these
decline, NumPy computes with a read-only host array, or with a NumPy scalar if the Blob is 0-d.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from syncblob.arrays.foreign import is_array, is_stranger
from syncblob.blob.scalars import element

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


def has_operator(name: str, x: Any, *, mirrored: bool) -> bool:
    """Return whether a type defines an operator, or the one that Python calls on the right."""
    if name == "ne":
        # By default, it inverts ``==``.
        name = "eq"
    method = f"__{_MIRRORED.get(name, f'r{name}') if mirrored else name}__"
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
    mirrored = getattr(type(other), f"__{_MIRRORED.get(name, f'r{name}')}__", None)
    return NotImplemented if mirrored is None else mirrored(other, blob)


def by_array(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, blob: Any) -> Any:
    """Compute an operator with an operand that declines Blobs: its own, else with NumPy's value."""
    left = blob is x1
    form = known_form(blob, x2 if left else x1)
    if form is blob:
        # Python has tried the left operand already.
        answer = answer_of(name, kernel, blob, x2) if left else NotImplemented
        if answer is not NotImplemented:
            return answer
        form = host_value(blob)
    compute = getattr(operator, f"__{name}__")
    return compute(form, x2) if left else compute(x1, form)
