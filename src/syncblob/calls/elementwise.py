"""Elementwise operations and ``@``: of the operators of Blob, and of the array API's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SCALARS, SUPPORTED
from syncblob.arrays.foreign import is_ndarray_like
from syncblob.arrays.native import array_of_tensor
from syncblob.blob.core import BlobCore
from syncblob.calls.engine import Plan, Plans
from syncblob.calls.foreign_operators import answer_of, by_array, has_operator
from syncblob.calls.operands import converted, is_number, refusal, with_blobs
from syncblob.calls.tables import Rules, rules_of_kernel
from syncblob.devices import HOST
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.calls.engine import Kinds

# Comparisons accept sequences, buffers and other numbers, which Python would call unequal.
_COMPARISONS = (np.equal, np.not_equal)


# --- functions ------------------------------------------------------------------------------------


def plans_of_kernel(kernel: Callable[..., Any]) -> Plans:
    """Return the plans of a function that computes a kernel elementwise, in a new Blob.

    The operands are Blobs; one may be a scalar or an array of any library. Without a Blob, NumPy's
    scalars become Blobs.
    """

    def foreign(*operands: Any) -> Any:
        if any(x is None for x in operands):
            # `with_blobs` keeps None, and NumPy would compute an array of objects.
            raise refusal(kernel.__name__, None)
        blobs = with_blobs(kernel.__name__, operands)
        return plans[tuple(map(type, blobs))](*blobs)

    def plan(rules: Rules, kinds: Kinds) -> Callable[..., Any]:
        blobs = [n for n, kind in enumerate(kinds.values()) if issubclass(kind, BlobCore)]
        if not (blobs and all(map(is_operand, kinds.values()))):
            return foreign
        return Plan(rules, kinds, foreign, like=blobs[0]).run

    plans = Plans(rules_of_kernel(kernel)._replace(plan=plan))
    return plans


_plans_of_kernel: Callable[..., Plans] = lru_cache(plans_of_kernel)


def unary(kernel: Callable[..., Any], x: Any) -> Any:
    """Compute ``kernel(x)``, elementwise, in a new Blob; `x` is a Blob or a NumPy scalar."""
    return _plans_of_kernel(kernel)[type(x)](x)


def binary(kernel: Callable[..., Any], x1: Any, x2: Any) -> Any:
    """Compute ``kernel(x1, x2)``, elementwise, in a new Blob; see `plans_of_kernel`."""
    return _plans_of_kernel(kernel)[type(x1), type(x2)](x1, x2)


# --- operators ------------------------------------------------------------------------------------


def plans_of_operator(name: str, kernel: Callable[..., Any], *, mirrored: bool = False) -> Plans:
    """Return the plans of an operator by the type of one operand; the other is a Blob.

    `name` is Python's name of it, such as ``"add"``. The Blob is the second operand if `mirrored`.
    Operators also take arrays of other libraries.
    """

    def foreign(x1: Any, x2: Any) -> Any:
        like, other = (x2, x1) if mirrored else (x1, x2)
        if getattr(other, "requires_grad", False) is True:
            # torch's own operator, which Python tries next, computes the gradient.
            return NotImplemented
        operand = operand_of(like, other)
        if operand is NotImplemented:
            return _by_foreign(name, kernel, x1, x2, like)
        x1, x2 = (operand, like) if mirrored else (like, operand)
        return plans[type(operand)](x1, x2)

    def plan(rules: Rules, kinds: Kinds) -> Callable[..., Any]:
        (kind,) = kinds.values()
        if not is_operand(kind):
            return foreign
        both = (kind, BlobCore) if mirrored else (BlobCore, kind)
        return Plan(rules, dict(enumerate(both)), foreign, like=int(mirrored)).run

    plans = Plans(rules_of_kernel(kernel)._replace(plan=plan))
    return plans


def is_operand(kind: type) -> bool:
    """Return whether a plan takes operands of a type as they are."""
    return issubclass(kind, BlobCore) or kind in SCALARS or kind is np.ndarray


def operand_of(like: Any, x: Any) -> Any:
    """Return an ndarray or a Blob for an array beside a Blob; NotImplemented for other objects."""
    array = x if type(x) is np.ndarray else array_of_tensor(x, keep=False)
    usual = array is not None and array.dtype in SUPPORTED and not like.home.bounded
    return array if usual else converted(x, like)


def _by_foreign(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, like: Any) -> Any:
    """Compute an operator with an object that is no array, as ndarray's operators do."""
    other = x2 if like is x1 else x1
    number = is_number(other) or (kernel in _COMPARISONS and _is_comparable(other))
    mirrored = like is x1
    answer = NotImplemented
    if is_ndarray_like(other):
        answer = by_array(name, kernel, x1, x2, like)
    elif number:
        answer = answer_of(name, kernel, like, other) if mirrored else NotImplemented
        answer = _by_value(kernel, x1, x2, like) if answer is NotImplemented else answer
    elif not (like.shape or isinstance(other, Sequence)) and has_operator(
        name, other, mirrored=mirrored
    ):
        answer = by_array(name, kernel, x1, x2, like)
    return answer


def _by_value(kernel: Callable[..., Any], x1: Any, x2: Any, like: Any) -> Any:
    """Compute with the values of an object that is no array."""
    array = np.asarray(x2 if like is x1 else x1)
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
