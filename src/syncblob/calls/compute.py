"""Computing with Blobs: call a function on their arrays, and wrap results without a copy.

The functions of the array API use this module, and so do elementwise operations outside the usual
case. They call NumPy's functions: CuPy arrays override ufuncs through NumPy's protocol; other
functions are looked up by name in the namespace of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SCALARS
from syncblob.blob.core import BlobCore, fresh
from syncblob.calls.operands import as_blob, gather
from syncblob.guards import may_compute_directly
from syncblob.interop.adopt import can_adopt
from syncblob.memory import MUTABLE, OVERWRITE, compute, from_the_start, has_written
from syncblob.memory.changes import finish_write

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Home, Side
    from syncblob.memory import SyncedMemory


def apply(function: str | Callable[..., Any], *operands: Any, **keywords: Any) -> Any:
    """Compute with Blobs on their device, and return the result as one Blob or several.

    Parameters
    ----------
    function
        The name of a function of the device's array library, such as ``"linalg.inv"``, or a
        function that takes that library and the arrays.
    *operands, **keywords
        Blobs, scalars and None; and keywords, which are passed on unchanged. Arrays of other
        libraries raise a TypeError.

    Returns
    -------
    Blob or tuple of Blob
        A result that overlaps an operand is a view of it.
    """
    arrays, like = _kept_arrays(operands)
    if like is not None and (
        like.home.direct or may_compute_directly(like.home, _name_of(function))
    ):
        home = like.home
        if isinstance(function, str):
            result = _of_numpy(function)(*arrays, **keywords)
        else:
            result = function(np, *arrays, **keywords)
        if type(result) is np.ndarray and result.base is None:
            # It owns its memory, which no Blob tracks unless the result is an operand itself.
            for array in arrays:
                if result is array:
                    break
            else:
                return fresh(type(like), result, home)
    else:
        # Drop our references, so that the buffers can be evicted if memory is short.
        arrays.clear()
        result, home, operands = from_the_start(_bring_and_compute, function, operands, keywords)
    blobs = [x for x in operands if isinstance(x, BlobCore)]
    if isinstance(result, (tuple, list)):
        return tuple([wrap(array, home, *blobs) for array in result])
    return wrap(result, home, *blobs)


def _bring_and_compute(
    function: str | Callable[..., Any], operands: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Any, Home, Sequence[Any]]:
    """Return the result of `apply` as an array, the home, and the operands as Blobs."""
    arrays, home, operands = gather(_name_of(function), *operands)
    call = (home.own(function),) if isinstance(function, str) else (function, home.namespace)
    return compute(home, *call, *arrays, **keywords), home, operands


def _name_of(function: str | Callable[..., Any]) -> str:
    return function if isinstance(function, str) else function.__name__.lstrip("_")


def _kept_arrays(operands: Sequence[Any]) -> tuple[list[Any], BlobCore | None]:
    """Replace Blobs by the arrays that they keep for computations, and return the first Blob.

    None for the Blob if the arrays must not be used: one is not current, the Blobs are in several
    homes, or an operand is neither a Blob, a scalar nor None.
    """
    arrays: list[Any] = []
    like: BlobCore | None = None
    for x in operands:
        if isinstance(x, BlobCore):
            if like is None:
                like = x
            shortcut, array = x._shortcut, x._array
            if x.home is not like.home or array is None or not shortcut.readable:
                return arrays, None
            arrays.append(array)
        elif x is None or type(x) in SCALARS:
            arrays.append(x)
        else:
            return arrays, None
    return arrays, like


@cache
def _of_numpy(name: str) -> Callable[..., Any]:
    """Return the implementation of a NumPy function, which skips ``__array_function__``."""
    function: Callable[..., Any] = attrgetter(name)(np)
    return getattr(function, "_implementation", function)


def view(x: Any, name: str, function: Callable[[Any], Any]) -> Any:
    """Return the view that a function makes of a Blob's array. Neither reads nor transfers.

    The array may lie at an invalid address, so the function must not read it. `name` is the
    operation, for messages.
    """
    if not isinstance(x, BlobCore):
        x = as_blob(name, x)
    return x._derived(function) if x.home.views else x._view(x.layout.derive(function))


def forgets_newest(x: BlobCore, side: Side) -> bool:
    """Return whether an overwrite on a side drops newest contents of others or a source.

    If so, callers compute the new contents separately, and store them when nothing can fail.
    """
    memory, layout = x.memory, x.layout
    newest_here = memory.spans.common(*layout.reach) & (1 << side)
    return not newest_here and not memory.blank and layout.gapless


def wrap(array: Any, home: Home, *operands: BlobCore) -> Any:
    """Wrap the result of a computation in a Blob, without a copy.

    A result that overlaps an operand becomes a view of it.
    """
    if type(array) is not np.ndarray:
        array = home.as_array(array)
    if home.owns(array):
        for x in operands:
            # Some functions return the operand itself if there is nothing to do.
            if array is x._array:
                break
        else:
            return fresh(type(operands[0]), array, home)
    # A result over memory that a Blob tracks must share that memory, or writes would be missed.
    sharing = [
        (x, window)
        for x in operands
        for window in x.memory.windows(x.memory.side_of(home))
        if home.overlap(array, window.array)
    ]
    if sharing:
        # Of several Blobs over one memory, a const one, because the result may be its view.
        x, window = next((pair for pair in sharing if pair[0]._readonly), sharing[0])
        return x._view(window.layout(home, array))
    if not can_adopt(array, home):
        array = compute(home, array.copy)
    return fresh(type(operands[0]), array, home)


# A Blob's memory, a layout of it, and a function that writes into an array of that.
Overwrite = tuple["SyncedMemory", "Layout", Callable[[Any], Any]]


def overwrite(overwrites: Sequence[Overwrite], home: Home, reason: str) -> None:
    """Overwrite parts of memories in a home. If one fails, the other memories are as before."""
    if not overwrites:
        return
    # Always in the same order, because each is made under the locks of those before.
    (memory, layout, function), *rest = sorted(overwrites, key=lambda each: id(each[0]))
    apart = [each for each in rest if each[0] is not memory]

    def write(array: Any) -> None:
        # What can fail comes before the first is written.
        overwrite(apart, home, reason)
        function(array)

    memory.write(memory.side_of(home), OVERWRITE, layout, reason, write if apart else function)
    overwrite([each for each in rest if each[0] is memory], home, reason)


def write_by(
    memory: SyncedMemory,
    layout: Layout,
    side: Side,
    reason: str,
    call: Callable[[Any], Sequence[Any]],
) -> None:
    """Call a function that writes an array on one side, in its home, and finish the write.

    `call` returns the function and its arguments, given the array of this memory and layout.
    """
    from_the_start(_write_by, memory, layout, side, reason, call)


def _write_by(
    memory: SyncedMemory,
    layout: Layout,
    side: Side,
    reason: str,
    call: Callable[[Any], Sequence[Any]],
) -> None:
    function, *arguments = call(memory.array(side, MUTABLE, layout, reason))
    has_written()
    try:
        memory.home(side).compute(function, *arguments)
    finally:
        finish_write(memory.ledger, side, *layout.reach, reason)
