"""What a call returns: new Blobs, or views of operands; and writes that come after the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, is_supported
from syncblob.arrays.foreign import is_array
from syncblob.blob.core import BlobCore, fresh
from syncblob.blob.scalars import element
from syncblob.calls.nested import rebuilt
from syncblob.calls.operands import blob_over
from syncblob.devices import HOST, Side, supervisors
from syncblob.devices.base import make_calls
from syncblob.interop.adopt import can_adopt
from syncblob.memory import MUTABLE, OVERWRITE, acquire, compute, has_written

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.calls.tables import Rules
    from syncblob.devices.base import Home
    from syncblob.memory import SyncedMemory
    from syncblob.memory.buffers import Window

# An array that a function gets, and what it stands for: a Blob, or an argument that is written.
# None for an array of the user's that is only read.
Operand = tuple[Any, Any]


def forgets_newest(x: BlobCore, side: Side) -> bool:
    """Return whether an overwrite on a side drops newest contents of others or a source."""
    memory, layout = x.memory, x.layout
    held = memory.spans.common(layout.start, layout.stop)
    return not held >> side & 1 and layout.gapless and (held > 0 or not memory.blank)


# --- what a function writes -----------------------------------------------------------------------


def array_beside(x: Any, home: Home) -> Any:
    """Return an array for new contents that are stored later; None if another way is needed."""
    if supervisors or not (home.plain and forgets_newest(x, x.side)):
        return None
    return home.empty(x.layout.shape, x.layout.dtype)


def overwrite_by(
    x: Any, new: Any, name: str, layout: Layout, target: Any = None, over: Any = None
) -> None:
    """Overwrite elements of a Blob in one step. `target` is an array of them over a window."""
    home, memory, side = x.home, x.memory, x.side
    if supervisors or not home.plain:
        memory.write(side, OVERWRITE, layout, name, setitem, ..., new)
        return

    def fill(buffer: Any, written: list[int]) -> None:
        into = target
        if into is None or buffer is not over:
            into = buffer.own_view(home, layout, writable=True)
        # No call comes between the write and the note, so that no signal handler can.
        into[...] = new
        written[0] = 1

    acquire(memory, side, OVERWRITE, layout, name, fill)


def end_write(x: Any, home: Home, array: Any, name: str) -> None:
    """End a write if the other side was read, or the buffer has left the memory, meanwhile."""
    if not x.finish_write(home, name, array) and x.layout.shape == array.shape:
        memory = x.memory
        memory.write(memory.side_of(home), OVERWRITE, x.layout, name, setitem, ..., array)


def overwrite(
    overwrites: Sequence[tuple[Any, ...]], home: Home, reason: str, calls: Sequence[Any] = ()
) -> None:
    """Overwrite parts of memories in a home. If one fails, the other memories are as before.

    Each has a memory, a layout, a function of an array and of new contents that returns a call,
    in C, which writes these into it, and the contents.
    """
    if not overwrites:
        if calls:
            home.compute(make_calls, calls)
        return
    # Always in the same order, because each is made under the locks of those before.
    (memory, layout, prepare, contents), *rest = sorted(overwrites, key=lambda each: id(each[0]))
    apart = [each for each in rest if each[0] is not memory]

    def fill(buffer: Window, written: list[int]) -> None:
        array = buffer.own_view(home, layout, writable=True)
        write = prepare(array, contents)
        # What can fail comes before the first is written.
        try:
            overwrite(apart, home, reason, [*calls, write, partial(setitem, written, 0, 1)])
        finally:
            home.used(array, contents)

    acquire(memory, memory.side_of(home), OVERWRITE, layout, reason, fill)
    overwrite([each for each in rest if each[0] is memory], home, reason)


def assignment(array: Any, contents: Any) -> Callable[[], None]:
    """Return a call in C that assigns contents to an array."""
    return partial(setitem, array, ..., contents)


def write_by(
    memory: SyncedMemory,
    layout: Layout,
    side: Side,
    reason: str,
    function: Callable[..., Any],
    *arguments: Any,
) -> None:
    """Call a function that writes an array on one side, its first argument.

    To be called by `from_the_start`.
    """
    array = memory.array(side, MUTABLE, layout, reason)
    has_written()
    try:
        memory.home(side).compute(function, array, *arguments)
    finally:
        if not memory.finish_write(side, layout, reason, array):
            memory.write(side, OVERWRITE, layout, reason, setitem, ..., array)


# --- what a function returns ----------------------------------------------------------------------


def give(result: Any, rules: Rules, like: Any, home: Home, operands: Sequence[Operand]) -> Any:
    """Replace arrays and NumPy scalars in a result by Blobs; operands by what they stand for.

    An array that shares memory with a Blob becomes a view of it, const if the rules say so. A
    Python number of a device is recorded as a download.
    """
    kind = type(result)
    if kind is bool or kind is int:
        if home is HOST or not home.native:
            # CuPy has copied it already.
            return result
        return element(fresh(type(like), home.as_array(result), home), rules.name).item()
    several = isinstance(result, (list, tuple))
    items = []
    for x in result if several else (result,):
        own = type(x) is np.ndarray and x.base is None and x.dtype in SUPPORTED
        for operand, _ in operands if own else ():
            own = own and x is not operand
        if own:
            items.append(fresh(type(like), x, home))
        elif type(x) is np.ndarray or is_array(x):
            items.append(_give_array(x, rules, like, home, operands))
        elif several and isinstance(x, (list, tuple, bool, int)):
            items.append(give(x, rules, like, home, operands))
        else:
            known = isinstance(x, np.generic) and is_supported(x.dtype)
            items.append(fresh(type(like), home.as_array(x), home) if known else x)
    if not several:
        return items[0]
    return tuple(items) if kind is tuple else rebuilt(result, items)


def _give_array(
    array: Any, rules: Rules, like: Any, home: Home, operands: Sequence[Operand]
) -> Any:
    """Replace an array that may share memory with operands; see `give`."""
    # An operand over the memory that a base owns has it as its base.
    base = array.base if type(array) is np.ndarray else None
    owner = type(base) is np.ndarray and base.base is None
    shares = []
    for operand, x in operands:
        if array is operand and x is not None:
            return x
        apart = owner and array is not operand and base is not operand and base is not operand.base
        if not apart and home.overlap(array, operand):
            shares.append(x)
    own = owner and not (shares or rules.const) and array.dtype in SUPPORTED
    if own and array.flags.carray:
        return fresh(type(like), array, home)
    blobs = [x for x in shares if isinstance(x, BlobCore)]
    if not (array.dtype in SUPPORTED or is_supported(array.dtype)):
        if isinstance(array, np.ndarray):
            # The caller cannot wait for it. Homes with other arrays have made none of NumPy's.
            (home if home.native else HOST).lend(array)
            # Writes to what Blobs share would not be tracked.
            array.flags.writeable &= not blobs
        return array
    if len(blobs) < len(shares) and (not rules.const or any(x is not None for x in shares)):
        return blob_over(array, like, home.device)
    # A result over memory that a Blob tracks must share that memory, or writes would be missed.
    sharing = [
        (x, window)
        for x in blobs
        for window in x.memory.windows(x.memory.side_of(home))
        if home.overlap(array, window.array)
    ]
    if sharing:
        # Of several Blobs over one memory, a const one, because the result may be its view.
        x, window = next((pair for pair in sharing if pair[0].readonly), sharing[0])
        return x.view_at(window.layout(home, array), readonly=rules.const)
    # Even reading the flags of an array whose elements overlap may warn.
    if rules.const or not can_adopt(array, home):
        direct = home.plain and not supervisors
        array = home.copy(array) if direct else compute(home, home.copy, array)
    return fresh(type(like), array, home)
