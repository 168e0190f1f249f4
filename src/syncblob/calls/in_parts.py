"""Elementwise operations on Blobs that do not fit on their accelerator together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from syncblob._dtypes import SCALARS
from syncblob.blob.core import BlobCore
from syncblob.blob.parts import free
from syncblob.devices import HOST, Side
from syncblob.memory import CONST, OVERWRITE, attempt, from_the_start, short_of
from syncblob.memory.operations import NotNowError
from syncblob.memory.windows import divisible

# The first number of parts, and the fewest elements of one.
_PARTS, _LEAST = 8, 1 << 12


def compute_in_room(
    compute: Callable[..., Any],
    kernel: Callable[..., Any],
    operands: Sequence[Any],
    *,
    writes: bool = False,
) -> Any:
    """Call a function with operands; in parts if they do not fit on a device together.

    It computes a kernel elementwise, in a new Blob or several, or `writes` into the first. When
    room is needed, finished parts are downloaded, and those of the operands dropped. What is
    written gets its new contents on the host and in one step, so that a failure changes nothing.
    """
    try:
        return attempt(compute, *operands)
    except MemoryError as error:
        if not short_of(error):
            raise
        waits = isinstance(error, NotNowError)
    # Outside of the handler: the error keeps frames alive, and these keep arrays.
    divides = _can_divide(kernel, operands, writes=writes)
    if waits or not divides:
        try:
            return from_the_start(compute, *operands)
        except MemoryError as error:
            if not (divides and short_of(error)):
                raise
    return _compute_in_parts(compute, kernel, operands, writes=writes)


def _compute_in_parts(
    compute: Callable[..., Any],
    kernel: Callable[..., Any],
    operands: Sequence[Any],
    *,
    writes: bool,
) -> Any:
    """Call the function of `compute_in_room` with parts of the operands, which are freed first."""
    blobs: list[Any] = [x for x in operands if isinstance(x, BlobCore)]
    like = blobs[0]
    (home,) = {x.home for x in blobs} - {HOST}
    for x in blobs:
        side = x.memory.side_of(home)
        if x.memory.buffer(side) is not None:
            # Whole buffers of the operands of a running operation are not evicted otherwise.
            with suppress(BufferError):
                free(x, side)
    flat = [x if type(x) in SCALARS else x.reshape(-1) for x in operands]

    def parts(part: slice) -> list[Any]:
        return [x if type(x) in SCALARS else x[part] for x in flat]

    def compute_part(part: slice) -> tuple[Any, ...]:
        done = compute(*parts(part))
        return done if type(done) is tuple else (done,)

    dtypes = [like.dtype] if writes else [x.dtype for x in from_the_start(compute_part, slice(1))]
    results = [type(like)(like.shape, dtype, device=home.device) for dtype in dtypes]
    into: list[Any] = [x.reshape(-1) for x in results]

    def write_part(part: slice) -> None:
        if writes:
            into[0][part], *others = parts(part)
            compute(into[0][part], *others)
        else:
            for target, values in zip(into, compute_part(part), strict=True):
                target[part] = values

    _for_each_part(write_part, like.size)
    if not writes:
        return tuple(results) if len(results) > 1 else results[0]
    contents = results[0].memory.array(Side.HOST, CONST, results[0].layout, kernel.__name__)
    place = Side.HOST, OVERWRITE, like.layout, kernel.__name__
    like.memory.write(*place, operator.setitem, ..., contents)
    return like


def _can_divide(kernel: Callable[..., Any], operands: Sequence[Any], *, writes: bool) -> bool:
    """Return whether a kernel of Blobs and scalars can be computed part by part.

    No part of a Blob that is written lies in another part of the other.
    """
    blobs: list[Any] = [x for x in operands if isinstance(x, BlobCore)]
    elementwise = getattr(kernel, "signature", None) is None and kernel.__name__ != "matmul"
    first, homes = blobs[0], {x.home for x in blobs} - {HOST}
    shared = [x for x in blobs if writes and x.memory is first.memory]
    return (
        elementwise
        # None is a scalar of NumPy's.
        and all(type(x) in SCALARS or isinstance(x, BlobCore) for x in operands)
        and len(homes) == 1
        and all(
            x.shape == first.shape and x.layout.contiguous and divisible(x.memory, *homes)
            for x in blobs
        )
        and all(
            (x.layout.start, x.itemsize) == (first.layout.start, first.itemsize) for x in shared
        )
    )


def _for_each_part(compute: Callable[[slice], None], size: int) -> None:
    """Call a function for each part of the elements, for smaller ones if memory is short."""
    step, start = max(size // _PARTS, 1), 0
    while start < size:
        # Smaller parts come sooner than what other threads give back.
        call = attempt if step >= 2 * _LEAST else from_the_start
        try:
            call(compute, slice(start, start + step))
        except MemoryError:
            step //= 2
            if step < _LEAST:
                raise
        else:
            start += step
