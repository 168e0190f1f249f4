"""Elementwise operations on Blobs that do not fit on their accelerator together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import SCALARS
from syncblob._layout import Layout
from syncblob.blob.core import BlobCore
from syncblob.blob.parts import free
from syncblob.calls.make_call import make_call
from syncblob.calls.tables import split_keys
from syncblob.devices import HOST, Side
from syncblob.memory import CONST, OVERWRITE, SyncedMemory, attempt, from_the_start, short_of
from syncblob.memory.operations import NotNowError
from syncblob.memory.windows import divisible

if TYPE_CHECKING:
    from syncblob.calls.tables import Key, Rules

# The first number of parts, and the fewest elements of one.
_PARTS, _LEAST = 8, 1 << 12


def compute_in_room(rules: Rules, like: Any, given: Mapping[Key, Any]) -> Any:
    """Make a call by inspecting its arguments.

    That of an elementwise function is made in parts if the operands do not fit on a device
    together. When room is needed, finished parts are downloaded, and those of the operands dropped.
    What is written gets its new contents on the host and in one step, so that a failure changes
    nothing.
    """
    if not rules.elementwise or split_keys(given)[1]:
        return from_the_start(make_call, rules, like, given)
    try:
        return attempt(make_call, rules, like, given)
    except MemoryError as error:
        if not short_of(error):
            raise
        waits = isinstance(error, NotNowError)
    # Outside of the handler: the error keeps frames alive, and these keep arrays.
    operands = [*given.values()]
    divides = _can_divide(rules, operands)
    if waits or not divides:
        try:
            return from_the_start(make_call, rules, like, given)
        except MemoryError as error:
            if not (divides and short_of(error)):
                raise
    return _compute_in_parts(rules, like, operands)


def _compute_in_parts(rules: Rules, like: Any, operands: Sequence[Any]) -> Any:
    """Make the call of `compute_in_room` with parts of the operands, which are freed first."""
    blobs: list[Any] = [x for x in operands if isinstance(x, BlobCore)]
    (home,) = {x.home for x in blobs} - {HOST}

    def leave() -> None:
        for x in blobs:
            side = x.memory.side_of(home)
            window = x.memory.window_over(side, *x.layout.reach)
            if window is not None:
                # It is not evicted otherwise, because each part lies in it.
                with suppress(BufferError):
                    free(x, side, (window.start, window.stop))

    leave()
    flat = [x if type(x) in SCALARS else x.reshape(-1) for x in operands]
    writes = rules.check is not None

    def compute(part: slice) -> tuple[Any, ...]:
        parts = [x if type(x) in SCALARS else x[part] for x in flat]
        if writes:
            # Beside the Blob, and there in place: a result would need room, too.
            into[0][part] = parts[0]
            parts[0] = into[0][part]
        done = make_call(rules, like, dict(enumerate(parts)))
        return done if type(done) is tuple else (done,)

    dtypes = [like.dtype] if writes else [x.dtype for x in from_the_start(compute, slice(1))]
    layouts = [Layout.c_order(like.shape, dtype) for dtype in dtypes]
    results = [like.from_memory(SyncedMemory(x.nbytes, device=home), x) for x in layouts]
    into: list[Any] = [x.reshape(-1) for x in results]

    def write(part: slice) -> None:
        for target, values in zip(into, compute(part), strict=True):
            target[part] = values

    _for_each_part(compute if writes else write, like.size, leave)
    if not writes:
        return tuple(results) if len(results) > 1 else results[0]
    name = rules.function.__name__
    contents = results[0].memory.array(Side.HOST, CONST, results[0].layout, name)
    like.memory.write(Side.HOST, OVERWRITE, like.layout, name, operator.setitem, ..., contents)
    return like


def _can_divide(rules: Rules, operands: Sequence[Any]) -> bool:
    """Return whether a kernel of Blobs and scalars can be computed part by part.

    No part of a Blob that is written lies in another part of the other.
    """
    kernel = rules.function
    blobs: list[Any] = [x for x in operands if isinstance(x, BlobCore)]
    first, homes = blobs[0], {x.home for x in blobs} - {HOST}
    shared = [x for x in blobs if rules.check and x.memory is first.memory]
    return (
        getattr(kernel, "signature", None) is None
        and kernel.__name__ != "matmul"
        # None is a scalar of NumPy's.
        and all(type(x) in SCALARS or isinstance(x, BlobCore) for x in operands)
        and len(homes) == 1
        and all(
            x.shape == first.shape and x.layout.contiguous and divisible(x.memory, *homes)
            for x in blobs
        )
        and all(
            (x.layout.start, x.itemsize) == (first.layout.start, first.itemsize)
            or x.layout.start >= first.layout.stop
            or x.layout.stop <= first.layout.start
            for x in shared
        )
    )


def _for_each_part(
    compute: Callable[[slice], object], size: int, leave: Callable[[], None]
) -> None:
    """Call a function for each part of the elements, for smaller ones if memory is short.

    `leave` frees the operands again, which another thread may have been using.
    """
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
            leave()
        else:
            start += step
