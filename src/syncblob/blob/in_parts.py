"""Elementwise operations on Blobs that do not fit on their accelerator together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from syncblob._dtypes import SCALARS
from syncblob.blob.core import BlobCore
from syncblob.blob.eviction import give_up
from syncblob.devices import HOST

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
            and x._memory.ledger.buffers.divisible
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
    blobs: list[Any] = [x for x in operands if isinstance(x, BlobCore)]
    (home,) = {x._home for x in blobs} - {HOST}
    for x in blobs:
        side = x._memory.side_of(home)
        if x._memory.buffer(side) is not None:
            # Whole buffers of the operands of a running operation are not evicted otherwise.
            with suppress(BufferError):
                give_up(x, side, *x._memory.range_of(x._layout))
    flat = [x if type(x) in SCALARS else x.reshape(-1) for x in operands]
    dtype = function(*_of_part(flat, slice(1))).dtype
    result = type(blobs[0])(blobs[0].shape, dtype, device=home.device)
    into, size = result.reshape(-1), result.size
    step, start = max(size // _PARTS, 1), 0
    while start < size:
        part = slice(start, start + step)
        try:
            into[part] = function(*_of_part(flat, part))
        except MemoryError:
            step //= 2
            if step < _LEAST:
                raise
        else:
            start += step
    return result


def _of_part(operands: Sequence[Any], part: slice) -> list[Any]:
    return [x if type(x) in SCALARS else x[part] for x in operands]
