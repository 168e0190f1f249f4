"""Operators with array-likes that do not know Blobs, such as SciPy's sparse arrays and units.

Their operators are called first. If these decline, the Blob is replaced by a read-only host array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def answer_of(name: str, kernel: Callable[..., Any], blob: Any, other: Any) -> Any:
    """Return the result of the right operand's reflected operator, or NotImplemented.

    If the operand has its own ``__array_ufunc__``, that is called instead, as ndarray's operators
    do, because its reflected operators may be untested: pint's ``__rmatmul__`` is its
    ``__matmul__``. `name` is Python's name of the operator.
    """
    usual = np.ndarray.__array_ufunc__
    if getattr(type(other), "__array_ufunc__", None) not in {None, usual}:
        return getattr(np, kernel.__name__)(blob, other)
    mirrored = getattr(type(other), f"__{_MIRRORED.get(name, f'r{name}')}__", None)
    return NotImplemented if mirrored is None else mirrored(other, blob)


def by_array(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, blob: Any) -> Any:
    """Compute an operator with an operand that declines Blobs.

    By the reflected operator of that operand, else by the operator with an ndarray.
    """
    compute = getattr(operator, f"__{name}__")
    if blob is not x1:
        # Python has tried the left operand already.
        return compute(x1, np.asarray(blob))
    answer = answer_of(name, kernel, blob, x2)
    return compute(np.asarray(blob), x2) if answer is NotImplemented else answer
