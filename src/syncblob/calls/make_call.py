"""Calls that inspect their arguments: they choose the device, and bring everything there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob import _corrected as corrected
from syncblob._dtypes import can_hold, is_supported
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import native_array
from syncblob.blob.core import HOST_DATA, BlobCore, fresh
from syncblob.calls.index_checks import check_indices
from syncblob.calls.nested import instances, map_items
from syncblob.calls.operands import home_of, is_leaf, of_device, shape_only
from syncblob.calls.results import Operand, assignment, end_write, forgets_newest, give, overwrite
from syncblob.calls.tables import INDICES, Arguments, Key, Rules, result_dtype
from syncblob.devices import HOST, supervisors
from syncblob.devices.base import is_on_device
from syncblob.devices.host import LARGE
from syncblob.interop.adopt import array_in
from syncblob.memory import CONST, MUTABLE, compute, has_written
from syncblob.memory.operations import current
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def make_call(rules: Rules, like: Any, given: Arguments) -> Any:
    """Make a call by inspecting its arguments. To be called by `from_the_start`."""
    if rules.elementwise:
        # Only NumPy's ufuncs take lists.
        given = {
            key: np.asarray(x) if type(key) is int and isinstance(x, (list, tuple)) else x
            for key, x in given.items()
        }
    call = Call(rules, like)
    arguments = call.prepare(given)
    try:
        result = call.run(arguments)
    finally:
        for x, array in call.written:
            end_write(x, call.home, array, rules.name)
    return give(result, rules, like, call.home, call.operands)


class Call:
    """The operands of one call in one home."""

    def __init__(self, rules: Rules, like: BlobCore) -> None:
        self.rules: Rules = rules
        self.name: str = rules.name
        self.like: BlobCore = like
        self.operands: list[Operand] = []
        # The Blobs that are written, and their arrays.
        self.written: list[tuple[BlobCore, Any]] = []
        # Targets, the arrays to copy into them after a successful call, and the arguments.
        self.late: list[tuple[Any, Any, Any]] = []

    def prepare(self, given: Arguments) -> dict[Key, Any]:
        """Choose the home, and replace Blobs and arrays in the arguments by arrays there."""
        rules, of_home = self.rules, partial(of_device, like=self.like)
        written = rules.written(given)
        # Before anything is transferred.
        for x in instances([given[key] for key in written], BlobCore):
            x.require_writable(self.name)
        operands = {
            key: x if key in written else map_items(x, of_home)
            for key, x in _operands(rules, given).items()
        }
        found = [*instances([*operands.values()], (BlobCore, np.ndarray, np.generic))]
        self.home: Home = rules.home or home_of(found, self.like)
        if rules.home is None and supervisors:
            require_device(self.home.device, self.name)
        if rules.check:
            rules.check(rules.native, *given.values())
        # Without a Blob among the arguments, one was passed as NumPy's ``like=``.
        blobs = [x for x in found if isinstance(x, BlobCore)]
        by_name = rules.by_name or not (rules.home or blobs)
        self.function: Any = rules.function_in(self.home, by_name=by_name)
        arguments: dict[Key, Any] = {**given, **operands}
        if rules.function in INDICES and not self.home.native:
            arguments = check_indices(rules.function, self.home, arguments)
            written, operands = rules.written(arguments), _operands(rules, arguments)
        # NumPy would dispatch again if a Blob remained among the arguments.
        for key, x in operands.items():
            if key not in written:
                arguments[key] = map_items(x, self.read)
        # Last, because inputs must be on this home before their memory is written.
        for key, whole in written.items():
            arguments[key] = self.write(arguments[key], whole=whole)
        return arguments

    def run(self, arguments: dict[Key, Any]) -> Any:
        """Call the function, and copy what it has written into temporary arrays."""
        arrays = [x for key, x in arguments.items() if type(key) is int]
        named = {key: x for key, x in arguments.items() if type(key) is str}
        if self.written or self.late:
            has_written()
        if self.rules.check:
            # What may have written into its operand is not called again.
            self.home.compute(self.function, *arrays, arrays[0])
            return arrays[0]
        if self.rules.elementwise and self.home is HOST and not named:
            named = _aligned_out(self.rules.native, arrays)
        result = compute(self.home, self.function, *arrays, **named)
        if self.late:
            # There may not be room for these beside what is about to be written.
            arguments.clear()
            arrays, named = [], {}
            self.deliver(result)
        return result

    def read(self, x: Any) -> Any:
        """Replace a Blob or an array by an array to read on the home; NumPy's are read-only."""
        if self.rules.empty and self.home.native:
            return shape_only(x)
        if not isinstance(x, BlobCore):
            if is_leaf(type(x)) or not is_array(x):
                return x
            array = native_array(x)[0]
            if self.home is not HOST and can_hold(array.dtype):
                array = array_in(self.home, array, self.name)
            self.operands.append((array, None))
            return array
        array = x.array_in(self.home, CONST, self.name)
        if isinstance(array, np.ndarray):
            array = array.view()
            array.flags.writeable = False
        self.operands.append((array, x))
        return array

    def write(self, x: Any, *, whole: bool) -> Any:
        """Replace Blobs and arrays by arrays on the home that the function can write.

        An overwrite that would discard the newest contents of another side is made after the call
        has succeeded. So are all of several if that concerns one, or some are of one memory, or
        the function may be called again for want of room for its other results.
        """
        items = x if isinstance(x, tuple) else (x,)
        memories = [item.memory for item in items if isinstance(item, BlobCore)]
        others = not self.home.plain and any(item is None for item in items)
        late = len({*memories}) < len(memories) or others
        late = late or any(self._is_late(item, whole=whole) for item in items)
        arrays = [self._write(item, whole=whole, late=late) for item in items]
        return tuple(arrays) if items is x else arrays[0]

    def _is_late(self, x: Any, *, whole: bool) -> bool:
        """Return whether a target is written after the call."""
        if not isinstance(x, BlobCore):
            return self.home is not HOST and is_array(x) and not is_on_device(x)
        current = x.home is self.home and x.shortcut.writable
        return whole and not current and forgets_newest(x, x.memory.side_of(self.home))

    def _write(self, x: Any, *, whole: bool, late: bool) -> Any:
        array: Any = x
        if not isinstance(x, BlobCore):
            if not is_array(x):
                return x
            array = native_array(x, copy=False)[0]
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                raise ValueError(f"{self.name} writes, and the array to be written is read-only")
        if late:
            target = array
            if whole and (not isinstance(x, BlobCore) or x.layout.gapless):
                shape, dtype = tuple(target.shape), target.dtype.newbyteorder("=")
                array = compute(self.home, self.home.namespace.empty, shape, dtype=dtype)
            else:
                array = compute(self.home, self.home.copy, self.read(target))
            self.late.append((target, array, x))
        elif isinstance(x, BlobCore):
            array = x.array_in(self.home, MUTABLE, self.name)
            self.written.append((x, array))
        self.operands.append((array, x))
        return array

    def deliver(self, result: Any) -> None:
        """Copy temporary arrays to their targets, unless the function has ignored `out`.

        What was read is dropped before, so that its memory can be evicted.
        """
        operation: Any = current()
        operation.operands = [target for target, _, _ in self.late]
        self.operands = [(array, x) for _, array, x in self.late]
        returned = result if isinstance(result, tuple) else (result,)
        # For an `out` without axes, `np.dot` returns a number.
        unnamed = result is None or isinstance(result, np.generic)
        overwrites, arrays = [], []
        for target, scratch, _ in self.late:
            written = unnamed or any(scratch is array for array in returned)
            if self.home.native and not written:
                continue
            if isinstance(target, BlobCore):
                overwrites.append((target.memory, target.layout, assignment, scratch))
            elif isinstance(target, np.ndarray) and self.home is not HOST:
                # A transfer can fail, so all of them come before the first write.
                blob = fresh(type(self.like), scratch, self.home)
                arrays.append((target, blob.const_view(HOST_DATA, self.name)))
            else:
                arrays.append((target, scratch))
        overwrite(overwrites, self.home, self.name)
        for target, array in arrays:
            # On the host at once: nothing else would wait for what a device writes there.
            home = HOST if isinstance(target, np.ndarray) else self.home
            home.compute(setitem, target, ..., array)


def _operands(rules: Rules, given: Arguments) -> dict[Key, Any]:
    """Return the arguments to compute with: no array in place of a tuple of numbers."""
    plain = rules.plain(given)
    return {key: x for key, x in given.items() if key not in plain or type(x) is not np.ndarray}


def _aligned_out(kernel: Any, operands: Sequence[Any]) -> dict[str, Any]:
    """Return ``out=`` with aligned memory for a large result on the host; empty for others."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    # `floor_divide` would copy its result there.
    if kernel is corrected.floor_divide or max(x.nbytes for x in arrays) < LARGE:
        return {}
    shape: tuple[int, ...]
    try:
        if kernel is np.matmul:
            (rows, _), (_, columns) = (x.shape for x in arrays)
            shape = rows, columns
        elif all(x.flags.c_contiguous for x in arrays) and not getattr(kernel, "signature", None):
            shape = np.broadcast_shapes(*[x.shape for x in arrays])
        else:
            return {}
    except ValueError:
        # The kernel's own message is better.
        return {}
    kinds: list[Any] = [getattr(x, "dtype", type(x)) for x in operands]
    dtype = result_dtype(kernel, *kinds)
    known = dtype is not None and is_supported(dtype)
    return {"out": HOST.empty(shape, dtype)} if known else {}
