"""Elementwise operations and ``@``: of the operators of Blob, and of the array API's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def plans_of_operands(rules: Rules, foreign: Callable[..., Any], blob: int | None = None) -> Plans:
    """Return plans by the types of operands; `foreign` makes calls with others than `is_operand`.

    If one operand is always a Blob, `blob` is its position, and its type is not in the keys.
    """

    def plan(rules: Rules, others: Kinds) -> Callable[..., Any]:
        kinds = [*others.values()]
        if blob is not None:
            kinds.insert(blob, BlobCore)
        blobs = [n for n, kind in enumerate(kinds) if issubclass(kind, BlobCore)]
        if not (blobs and all(map(is_operand, kinds))):
            return foreign
        like = blobs[0] if blob is None else blob
        return Plan(rules, dict(enumerate(kinds)), foreign, like=like).run

    return Plans(rules._replace(plan=plan))


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

    plans = plans_of_operands(rules_of_kernel(kernel), foreign)
    return plans


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
            answer, operand = _by_foreign(name, kernel, x1, x2, like)
            if operand is NotImplemented:
                return answer
        return plans[type(operand)](*((operand, like) if mirrored else (like, operand)))

    plans = plans_of_operands(rules_of_kernel(kernel), foreign, int(mirrored))
    return plans


def is_operand(kind: type) -> bool:
    """Return whether a plan takes operands of a type as they are."""
    return issubclass(kind, BlobCore) or kind in SCALARS or kind is np.ndarray


def operand_of(like: Any, x: Any) -> Any:
    """Return an ndarray or a Blob for an array beside a Blob; NotImplemented for other objects."""
    array = x if type(x) is np.ndarray else array_of_tensor(x, keep=False)
    home = like.home
    # Plans leave ndarrays on other devices to this function.
    usual = home.plain and array is not None and array.dtype in SUPPORTED
    return array if usual else converted(x, like)


def _by_foreign(name: str, kernel: Callable[..., Any], x1: Any, x2: Any, like: Any) -> Any:
    """Compute an operator with an object that is no array, as ndarray's operators do.

    Returns the result, or an operand that the object becomes; NotImplemented for what is not.
    """
    mirrored = like is x1
    other = x2 if mirrored else x1
    answer = operand = NotImplemented
    if is_ndarray_like(other):
        answer = by_array(name, kernel, x1, x2, like)
    elif is_number(other) or (kernel in _COMPARISONS and _is_comparable(other)):
        answer = answer_of(name, kernel, like, other) if mirrored else NotImplemented
        array = np.asarray(other)
        if answer is NotImplemented and array.dtype.hasobject:
            # Python compares these, on the host.
            require_device(HOST.device, kernel.__name__)
            answer = like.asarray(kernel(np.asarray(like), array), device=like.device)
        elif answer is NotImplemented:
            operand = converted(array, like)
    elif not (like.shape or isinstance(other, Sequence)) and has_operator(
        name, other, mirrored=mirrored
    ):
        answer = by_array(name, kernel, x1, x2, like)
    return answer, operand


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
