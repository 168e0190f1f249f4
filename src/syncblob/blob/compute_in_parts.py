"""Elementwise operations on Blobs that do not fit on their accelerator together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import SCALARS
from syncblob.blob.core import BlobCore
from syncblob.blob.eviction import give_up
from syncblob.devices import HOST
from syncblob.memory import at_once, patiently
from syncblob.memory.window_growth import divisible

if TYPE_CHECKING:
    from syncblob.devices.base import Home

# The first number of parts, and the fewest elements of one.
_PARTS, _LEAST = 8, 1 << 12


def can_divide(kernel: Callable[..., Any], operands: Sequence[Any]) -> bool:
    """Return whether a kernel of Blobs and scalars can be computed part by part.

    The Blobs are large enough for windows, C-contiguous, of one shape, and on one accelerator, or
    partly on the host.
    """
    blobs = [x for x in operands if isinstance(x, BlobCore)]
    if not all(type(x) in SCALARS or isinstance(x, BlobCore) for x in operands):
        # NumPy's scalars.
        return False
    elementwise = getattr(kernel, "signature", None) is None and kernel.__name__ != "matmul"
    return (
        elementwise
        and len({x._home for x in blobs} - {HOST}) == 1
        and all(
            x.shape == blobs[0].shape
            and x._layout.contiguous
            and divisible(x._memory.ledger.buffers)
            for x in blobs
        )
    )


def compute_in_parts(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Compute a function that `can_divide` accepts in parts, in a new Blob.

    The device needs room for a part of each operand, and for two of the result. When room is
    needed, the finished parts of the result are downloaded, and those of the operands dropped.

    Raises
    ------
    MemoryError
        If not even small parts fit.
    """
    like: Any = next(x for x in operands if isinstance(x, BlobCore))
    home, flat = _divide(operands)
    dtype = function(*_of_part(flat, slice(1))).dtype
    result = type(like)(like.shape, dtype, device=home.device)
    into: Any = result.reshape(-1)

    def compute(part: slice) -> None:
        into[part] = function(*_of_part(flat, part))

    _for_each_part(compute, result.size)
    return result


def may_share_parts(x1: BlobCore, x2: Any) -> bool:
    """Return whether a part of one Blob may lie in another part of the other."""
    if not isinstance(x2, BlobCore) or x1._memory is not x2._memory:
        return False
    return x1._layout.start != x2._layout.start or x1.dtype.itemsize != x2.dtype.itemsize


def write_in_parts(function: Callable[..., Any], x1: BlobCore, x2: Any) -> None:
    """Call a function that writes into its first operand for each part of both.

    `can_divide` accepts them, and they share no other parts. The device needs room for a part of
    each. If memory runs out later than at the first part, the parts before have been written.

    Raises
    ------
    MemoryError
        If not even small parts fit.
    """
    _, flat = _divide((x1, x2))
    _for_each_part(lambda part: function(*_of_part(flat, part)), x1.size)


def _divide(operands: Sequence[Any]) -> tuple[Home, list[Any]]:
    """Free the buffers of operands; return the home that computes, and them with one axis."""
    blobs: list[Any] = [x for x in operands if isinstance(x, BlobCore)]
    (home,) = {x._home for x in blobs} - {HOST}
    for x in blobs:
        side = x._memory.side_of(home)
        if x._memory.buffer(side) is not None:
            # Whole buffers of the operands of a running operation are not evicted otherwise.
            with suppress(BufferError):
                give_up(x, side, *x._memory.range_of(x._layout))
    return home, [x if type(x) in SCALARS else x.reshape(-1) for x in operands]


def may_get_room(operands: Sequence[Any]) -> bool:
    """Return whether an operation on Blobs may get memory that other threads use."""
    bounded = (x._home.bounded for x in operands if isinstance(x, BlobCore))
    return threading.active_count() > 1 and any(bounded)


@at_once
def _for_each_part(compute: Callable[[slice], None], size: int) -> None:
    """Call a function for each part of the elements, for smaller ones if memory is short."""
    step, start = max(size // _PARTS, 1), 0
    while start < size:
        # Smaller parts come sooner than what other threads give back.
        call = compute if step >= 2 * _LEAST else partial(patiently, compute)
        try:
            call(slice(start, start + step))
        except MemoryError:
            step //= 2
            if step < _LEAST:
                raise
        else:
            start += step


def _of_part(operands: Sequence[Any], part: slice) -> list[Any]:
    return [x if type(x) in SCALARS else x[part] for x in operands]
