"""The engine of calls: prepare the arguments, run the function, give its results.

A `Plan` says what a call does with its arguments. It depends on the function and on the types of
the arguments, and is made once for both. If all arrays are at hand on one device, `Plan.run` uses
them as they are. Otherwise a `Call` inspects the arguments, chooses the device, brings the arrays
there, and begins again if memory is short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SCALAR_CLASSES, SUPPORTED, can_hold, is_supported
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import native_array
from syncblob.blob.core import HOST_DATA, BlobCore, fresh
from syncblob.calls.aligned_results import out_for
from syncblob.calls.choose_home import home_of
from syncblob.calls.in_parts import compute_in_room
from syncblob.calls.index_checks import check_indices
from syncblob.calls.nested import instances, mapped, rebuilt
from syncblob.calls.operands import adopted, is_leaf, of_device
from syncblob.calls.results import forgets_newest, overwrite, wrap
from syncblob.devices import HOST, Side
from syncblob.devices.host import LARGE
from syncblob.interop.adopt import array_in, can_adopt
from syncblob.memory import CONST, MUTABLE, OVERWRITE, compute, from_the_start, has_written
from syncblob.memory.living_arrays import Reference
from syncblob.memory.operations import innermost, leave_room, lines
from syncblob.memory.windows import divisible
from syncblob.transfers import may_compute_directly, require_device

if TYPE_CHECKING:
    from syncblob.calls.tables import Rules
    from syncblob.devices.base import Home

# An array that a function gets, and what it stands for: a Blob, or an argument that is written.
# None for an array of the user's that is only read.
Operand = tuple[Any, Any]
Args = Sequence[Any]
Named = Mapping[str, Any]

_ndarray = np.ndarray
_asarray = np.asarray


class Plan:
    """What calls of a function do with arguments of certain types.

    Arguments are numbered: those by position first, then those by keyword. Numbers below are into
    this list.
    """

    __slots__ = ("blobs", "const", "native", "others", "renamed", "rules", "target", "tuples")

    def __init__(self, rules: Rules, count: int, kinds: Mapping[int | str, type]) -> None:
        self.rules: Rules = rules
        self.native: Any = rules.native
        self.const: bool = rules.const
        args = [kinds[key] for key in kinds if type(key) is int]
        named = {key: kind for key, kind in kinds.items() if type(key) is str}
        written = [key for key in rules.written(args, named) if kinds[key] is not type(None)]
        plain = rules.plain(args, named)
        # The Blobs that are read; lists, tuples and ndarrays. None for the first if each call has
        # to inspect its arguments.
        blobs: list[int] = []
        others: list[int] = []
        tuples: list[int] = []
        usual = rules.home is None and len(written) <= 1 and not rules.varies(args, named)
        # The Blob or ndarray that is written, or None.
        self.target: int | None = None
        for number, (key, kind) in enumerate(kinds.items()):
            if key in written:
                self.target = number
                usual = usual and (issubclass(kind, BlobCore) or kind is _ndarray)
            elif issubclass(kind, BlobCore):
                blobs.append(number)
            elif key in plain and kind in {list, tuple}:
                tuples.append(number)
            elif key not in plain and kind in {_ndarray, list, tuple}:
                others.append(number)
            else:
                usual = usual and is_leaf(kind)
        usual = usual and bool(blobs or others or self.target is not None)
        self.blobs: Any = tuple(blobs) if usual else None
        self.others: Any = tuple(others)
        # Tuples and lists of numbers, such as axes.
        self.tuples: Any = tuple(tuples)
        # Whether the list has to have the arguments by keyword.
        used = (*blobs, *others, *tuples, self.target or 0)
        self.renamed: bool = any(number >= count for number in used)

    def run(self, like: Any, args: Args, kwargs: Named) -> Any:  # noqa: C901, PLR0911, PLR0912  # inlined, because calls take time
        """Make a call; `like` is a Blob among the arguments, whose class results have."""
        blobs, home = self.blobs, like.home
        if home.queues and blobs and HOST.direct:
            result = self._run_queued(like, home, args, kwargs)
            if result is not NotImplemented:
                return result
        if blobs is None or not (home.direct or (home.native and not home.bounded)):
            return self.run_in_room(like, args, kwargs)
        arguments = [*args, *kwargs.values()] if self.renamed else [*args]
        operands: list[Operand] = []
        for number in blobs:
            x = arguments[number]
            # In this order; see `BlobCore`.
            shortcut, array = x.shortcut, x.raw_array
            if x.home is not home:
                return self.run_in_room(like, args, kwargs)
            if array is None or not shortcut.readable:
                ready = self._is_target_ready(arguments, home)
                array = self._bring(x, home, args, kwargs) if ready else None
                if array is None:
                    return self.run_in_room(like, args, kwargs)
            arguments[number] = array
            operands.append((array, x))
        if self.others and home is not HOST and not self._is_target_ready(arguments, home):
            return self.run_in_room(like, args, kwargs)
        for number in self.others:
            x = arguments[number]
            if type(x) is _ndarray:
                array = x if home is HOST else self._bring_ndarray(x, home, args, kwargs)
                operands.append((array, None))
            else:
                array = self._bring_items(x, home, operands, args, kwargs)
            if array is None:
                return self.run_in_room(like, args, kwargs)
            arguments[number] = array
        for number in self.tuples:
            for item in arguments[number]:
                if type(item) is not int:
                    return self.run_in_room(like, args, kwargs)
        if not (home.direct or may_compute_directly(home, self.rules.name)):
            return self.run_in_room(like, args, kwargs)
        if self.target is not None:
            return self._write(like, home, arguments, operands, args, kwargs)
        if not operands:
            return self.run_in_room(like, args, kwargs)
        if self.renamed:
            count = len(args)
            kwargs = dict(zip(kwargs, arguments[count:], strict=True))
            del arguments[count:]
        if self.rules.elementwise and home is HOST:
            for array, _ in operands:
                if array.nbytes >= LARGE and not kwargs:
                    kwargs = out_for(home, self.native, *arguments)
                    break
        result = self.native(*arguments, **kwargs) if kwargs else self.native(*arguments)
        # The usual results, in as few steps as possible.
        kind = type(result)
        if kind is _ndarray:
            if result.base is None and result.dtype in SUPPORTED:
                for array, _ in operands:
                    if result is array:
                        break
                else:
                    return fresh(type(like), result, home)
        elif kind in SCALAR_CLASSES:
            return fresh(type(like), _asarray(result), home)
        return give(result, self.rules, like, home, operands)

    def _run_queued(  # noqa: C901, PLR0912  # as above
        self, like: Any, home: Home, args: Args, kwargs: Named
    ) -> Any:
        """Make a call that only reads arrays at hand on a device that queues work.

        Returns NotImplemented, with nothing done, in other cases, and if memory is short.
        """
        rules = self.rules
        if self.target is not None or self.others or rules.indexes:
            return NotImplemented
        arguments = [*args, *kwargs.values()] if self.renamed else [*args]
        operands: list[Operand] = []
        for number in self.blobs:
            x = arguments[number]
            # In this order; see `BlobCore`.
            shortcut, array = x.shortcut, x.raw_array
            if x.home is not home or array is None or not shortcut.readable:
                return NotImplemented
            arguments[number] = array
            operands.append((array, x))
        for number in self.tuples:
            for item in arguments[number]:
                if type(item) is not int:
                    return NotImplemented
        if self.renamed:
            count = len(args)
            kwargs = dict(zip(kwargs, arguments[count:], strict=True))
            del arguments[count:]
        function = rules.function
        if rules.by_name or rules.with_library:
            function = rules.function_in(home, by_name=rules.by_name)
        try:
            if lines:
                leave_room(home)
            result = home.compute(function, *arguments, **kwargs)
        except MemoryError:
            return NotImplemented
        if getattr(result, "base", self) is None and result.dtype in SUPPORTED:
            for array, _ in operands:
                if result is array:
                    break
            else:
                return fresh(type(like), result, home)
        return give(result, rules, like, home, operands)

    def _is_target_ready(self, arguments: list[Any], home: Home) -> bool:
        """Return whether what is written can be written as it is.

        Otherwise the call may begin again, and what was copied for it would be copied twice.
        """
        if self.target is None:
            return True
        x = arguments[self.target]
        if type(x) is _ndarray:
            return home is HOST
        return x.home is home and x.raw_array is not None and x.shortcut.writable

    def _bring(self, x: Any, home: Home, args: Args, kwargs: Named) -> Any:
        """Bring a Blob's array up to date, if certainly the call is computed in its home.

        A guard that forbids the call has to do so before anything is copied.
        """
        if home.direct and _are_usual((*args, *kwargs.values()), home):
            return x.array_in(home, CONST, self.rules.name)
        return x.current_array()

    def _bring_ndarray(self, x: Any, home: Home, args: Args, kwargs: Named) -> Any:
        """Upload an ndarray that is only read; None as `_bring`."""
        if home.direct and x.flags.c_contiguous and _are_usual((*args, *kwargs.values()), home):
            return array_in(home, x, self.rules.name)
        return None

    def _bring_items(
        self, x: Any, home: Home, operands: list[Operand], args: Args, kwargs: Named
    ) -> Any:
        """Return a list or tuple with arrays in place of Blobs; None as `_bring`."""
        arrays: list[Any] = []
        for item in x:
            kind = type(item)
            array: Any = item
            if isinstance(item, BlobCore):
                shortcut, array = item.shortcut, item.raw_array
                if item.home is not home:
                    array = None
                elif array is None or not shortcut.readable:
                    array = self._bring(item, home, args, kwargs)
                operands.append((array, item))
            elif kind is _ndarray:
                array = item if home is HOST else self._bring_ndarray(item, home, args, kwargs)
                operands.append((array, None))
            elif kind is list or kind is tuple:
                array = self._bring_items(item, home, operands, args, kwargs)
            if array is None or not (array is not item or kind is _ndarray or is_leaf(kind)):
                return None
            arrays.append(array)
        return arrays if type(x) is list else tuple(arrays)

    def _write(  # noqa: PLR0913, PLR0917  # a call, and what was prepared of it
        self,
        like: Any,
        home: Home,
        arguments: list[Any],
        operands: list[Operand],
        args: Args,
        kwargs: Named,
    ) -> Any:
        """Make a call that writes one argument, if nothing has to be moved for it."""
        target: Any = self.target
        x = arguments[target]
        array, writers, note = x, None, None
        try:
            if type(x) is _ndarray:
                usable = home is HOST and x.flags.writeable
            else:
                array = writable_array(x, home, self.rules.name)
                usable = array is not None
                writers = home.writers
                if usable and writers is not None:
                    shortcut = x.shortcut
                    note = {shortcut}
                    writers.add(Reference(note, writers.discard))
                    # Again: it may have been revoked before.
                    usable = shortcut.writable and x.raw_array is array
            if usable:
                arguments[target] = array
                operands.append((array, x))
                count = len(args)
                if self.renamed:
                    kwargs = dict(zip(kwargs, arguments[count:], strict=True))
                    del arguments[count:]
                try:
                    result = self.native(*arguments, **kwargs)
                finally:
                    if array is not x and not x.shortcut.writable:
                        finish_write(x, home, array, self.rules.name)
                if result is None:
                    return None
                return x if result is array else give(result, self.rules, like, home, operands)
        finally:
            # Frames of an error would keep it.
            note = None
        return self.run_in_room(like, args, kwargs)

    def run_in_room(self, like: Any, args: Args, kwargs: Named) -> Any:
        """Make a call by inspecting its arguments; again if others use the room that it lacks."""
        rules = self.rules
        if rules.elementwise and not kwargs and (self.target is None or rules.in_place):
            call = partial(_call_elementwise, rules, like)
            return compute_in_room(call, rules.function, args, writes=rules.in_place)
        return from_the_start(_call, rules, like, args, kwargs)


def _are_usual(items: Any, home: Home) -> bool:
    """Return whether nested sequences contain nothing that is, or may be computed, elsewhere."""
    for x in items:
        kind = type(x)
        if isinstance(x, BlobCore):
            usual = x.home is home
        elif kind is list or kind is tuple:
            usual = _are_usual(x, home)
        else:
            usual = is_leaf(kind) or (kind is _ndarray and (home is HOST or x.dtype in SUPPORTED))
        if not usual:
            return False
    return True


# --- writes ---------------------------------------------------------------------------------------


def writable_array(x: Any, home: Home, name: str) -> Any:
    """Return a Blob's array in its home to write, if it is newest there; else None."""
    if x.readonly:
        x.require_writable(name)
    if x.home is not home:
        return None
    shortcut, array = x.shortcut, x.raw_array
    if array is not None and shortcut.writable:
        return array
    return None if x.current_array() is None else x.array_in(home, MUTABLE, name)


def finish_write(x: Any, home: Home, array: Any, name: str) -> None:
    """Finish a write if the other side was read, or the buffer has left the memory, meanwhile."""
    if not (x.shortcut.writable or x.finish_write(home, name, array)):
        memory, layout = x.memory, x.layout
        if layout.shape == array.shape:
            memory.write(memory.side_of(home), OVERWRITE, layout, name, setitem, ..., array)


# --- any call ------------------------------------------------------------------------------------


def _call_elementwise(rules: Rules, like: Any, _kernel: Any, *args: Any) -> Any:
    return _call(rules, like, args, {})


def _call(rules: Rules, like: Any, args: Args, kwargs: Named) -> Any:
    """Make a call by inspecting its arguments. To be called by `from_the_start`."""
    if kwargs.get("writeable"):
        # Of `sliding_window_view`.
        rules = rules._replace(const=False)
    call = Call(rules, like)
    arguments = call.prepare(args, kwargs)
    try:
        result = call.run(arguments)
    finally:
        for x in call.written:
            x.finish_write(call.home, rules.name)
    return give(result, rules, like, call.home, call.operands)


def joined(args: Args, kwargs: Named) -> dict[int | str, Any]:
    """Return arguments by position or keyword."""
    arguments: dict[int | str, Any] = dict(enumerate(args))
    arguments.update(kwargs)
    return arguments


def split(arguments: Mapping[int | str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments: the inverse of `joined`."""
    args = [x for key, x in arguments.items() if type(key) is int]
    return args, {key: x for key, x in arguments.items() if type(key) is str}


class Call:
    """The operands of one call in one home.

    Attributes
    ----------
    operands
        See `Operand`.
    written
        The Blobs that are written.
    late
        Targets, and the arrays to copy into them after a successful call.
    """

    __slots__ = ("by_name", "home", "late", "like", "name", "operands", "rules", "written")

    def __init__(self, rules: Rules, like: BlobCore) -> None:
        self.rules: Rules = rules
        self.name: str = rules.name
        self.like: BlobCore = like
        self.operands: list[Operand] = []
        self.written: list[BlobCore] = []
        self.late: list[tuple[Any, Any]] = []

    def prepare(self, args: Args, kwargs: Named) -> dict[int | str, Any]:
        """Choose the home, and replace Blobs and arrays in the arguments by arrays there."""
        rules = self.rules
        written, plain = rules.written(args, kwargs), rules.plain(args, kwargs)
        arguments = joined(args, kwargs)
        of_home = partial(of_device, like=self.like)
        found: list[Any] = []
        for key, x in arguments.items():
            if not (isinstance(x, BlobCore) or is_leaf(type(x)) or key in written):
                arguments[key] = mapped(x, of_home)
            # An array in place of a tuple of numbers is not an operand.
            if not is_leaf(type(x)) and (key not in plain or type(x) is not _ndarray):
                found += instances(arguments[key], (BlobCore, _ndarray, np.generic))
        self.home: Home = rules.home or home_of(found, self.like)
        if rules.home is None and not HOST.direct:
            require_device(self.home.device, self.name)
        # Without a Blob among the arguments, one was passed as NumPy's ``like=``.
        blobs = [x for x in found if isinstance(x, BlobCore)]
        self.by_name: bool = rules.by_name or not (rules.home or blobs)
        if rules.indexes and not self.home.native:
            arguments = check_indices(rules.function, self.home, arguments)
            written = rules.written(*split(arguments))
        # NumPy would dispatch again if a Blob remained among the arguments.
        for key, x in arguments.items():
            if key not in written and (key not in plain or type(x) is not _ndarray):
                arguments[key] = self.read(x) if isinstance(x, BlobCore) else mapped(x, self.read)
        # Last, because inputs must be on this home before their memory is written.
        for key, whole in written.items():
            arguments[key] = self.write(arguments[key], whole=whole)
        return arguments

    def run(self, arguments: dict[int | str, Any]) -> Any:
        """Call the function, and copy what it has written into temporary arrays."""
        function = self.rules.function_in(self.home, by_name=self.by_name)
        arrays, named = split(arguments)
        if self.rules.elementwise and not (named or self.rules.in_place):
            named = out_for(self.home, self.rules.native, *arrays)
        if self.written or self.late:
            has_written()
        if self.rules.in_place:
            # What may have written into its operand is not called again.
            self.home.compute(function, *arrays, arrays[0])
            return arrays[0]
        result = compute(self.home, function, *arrays, **named)
        if self.late:
            # There may not be room for these beside what is about to be written.
            arguments.clear()
            arrays, named = [], {}
            self.release()
        self.deliver(result)
        return result

    def read(self, x: Any) -> Any:
        """Replace a Blob or an array by an array to read on the home; NumPy's are read-only."""
        blob = x
        if not isinstance(x, BlobCore):
            if is_leaf(type(x)) or not is_array(x):
                return x
            array = native_array(x)[0]
            if self.home is HOST or not can_hold(array.dtype):
                self.operands.append((array, None))
                return array
            if type(array) is _ndarray and array.dtype in SUPPORTED and array.flags.c_contiguous:
                array = array_in(self.home, array, self.name)
                self.operands.append((array, None))
                return array
            blob = adopted(array, self.like, self.home.device)
        array = blob.array_in(self.home, CONST, self.name)
        if isinstance(array, _ndarray):
            array = array.view()
            array.flags.writeable = False
        self.operands.append((array, blob))
        return array

    def write(self, x: Any, *, whole: bool) -> Any:
        """Replace Blobs and arrays by arrays on the home that the function can write.

        Fully overwritten operands are not transferred. They are written after the call has
        succeeded, because an overwrite discards the newest contents on the other side. If one of
        several results is written after the call, all are, so that a failure changes none. So are
        several in windows of one memory: that of one may replace that of another. A const
        Blob or a read-only array raises a ValueError before anything changes.
        """
        items = x if isinstance(x, tuple) else (x,)
        targets = [self._target(item) for item in items]
        late = any(self._is_late(target, whole=whole) for target in targets) or (
            len(targets) > 1 and self._share_windows(targets)
        )
        arrays = [
            self._write(target, item, whole=whole, late=late)
            for item, target in zip(items, targets, strict=True)
        ]
        return tuple(arrays) if items is x else arrays[0]

    def _target(self, x: Any) -> Any:
        """Return a Blob, or an array to write in place of one of any library; None for others."""
        if isinstance(x, BlobCore):
            x.require_writable(self.name)
            return x
        if not is_array(x):
            return None
        array = native_array(x, copy=False)[0]
        if isinstance(array, _ndarray) and not array.flags.writeable:
            raise ValueError(f"{self.name} writes, and the array to be written is read-only")
        return array

    def _write(self, target: Any, x: Any, *, whole: bool, late: bool) -> Any:
        if target is None:
            return x
        array = target
        if late:
            if whole and (not isinstance(target, BlobCore) or target.layout.gapless):
                shape, dtype = tuple(target.shape), target.dtype.newbyteorder("=")
                array = compute(self.home, self.home.namespace.empty, shape, dtype=dtype)
            else:
                array = compute(self.home, self.home.copy, self.read(target))
            self.late.append((target, array))
        elif isinstance(target, BlobCore):
            self.written.append(target)
            array = target.array_in(self.home, MUTABLE, self.name)
        self.operands.append((array, x))
        return array

    def _is_late(self, target: Any, *, whole: bool) -> bool:
        """Return whether a target is written after the call."""
        if isinstance(target, BlobCore):
            current = target.home is self.home and target.shortcut.writable
            return (
                whole and not current and forgets_newest(target, target.memory.side_of(self.home))
            )
        return self.home is not HOST and isinstance(target, _ndarray)

    def _share_windows(self, targets: Sequence[Any]) -> bool:
        """Return whether several targets are in one memory, which may have windows on the home."""
        memories = [x.memory for x in targets if isinstance(x, BlobCore)]
        return len({*memories}) < len(memories) and any(
            divisible(each.ledger.buffers) and each.buffer(each.side_of(self.home)) is None
            for each in memories
        )

    def release(self) -> None:
        """Drop the arrays that were read, so that their memory can be evicted."""
        operation: Any = innermost()
        operation.operands = [target for target, _ in self.late]
        late = [array for _, array in self.late]
        self.operands = [
            (array, x) for array, x in self.operands if any(array is each for each in late)
        ]

    def deliver(self, result: Any) -> None:
        """Copy temporary arrays to their targets.

        NumPy's functions return None or what they write. Some ignore `out`, as `np.fft.irfft2`.
        """
        returned = result if isinstance(result, tuple) else (result,)
        overwrites, arrays = [], []
        for target, scratch in self.late:
            written = result is None or any(scratch is array for array in returned)
            if self.home.native and not written:
                continue
            if isinstance(target, BlobCore):
                overwrites.append((target.memory, target.layout, partial(_put, scratch)))
            elif isinstance(target, _ndarray) and self.home is not HOST:
                # A transfer can fail, so all of them come before the first write.
                blob = fresh(type(self.like), scratch, self.home)
                arrays.append((target, blob.const_view(HOST_DATA, self.name)))
            else:
                arrays.append((target, scratch))
        overwrite(overwrites, self.home, self.name)
        for target, array in arrays:
            self.home.compute(setitem, target, ..., array)


def _put(values: Any, array: Any) -> None:
    array[...] = values


# --- results --------------------------------------------------------------------------------------


def give(result: Any, rules: Rules, like: Any, home: Home, operands: Sequence[Operand]) -> Any:
    """Replace arrays and NumPy scalars in a result by Blobs; operands by what they stand for.

    An array that shares memory with a Blob becomes a view of it, const if the rules say so.
    """
    kind = type(result)
    if kind is bool or kind is int:
        return _number(result, like, home, rules.name)
    if isinstance(result, (list, tuple)):
        items = [give(x, rules, like, home, operands) for x in result]
        return tuple(items) if kind is tuple else rebuilt(result, items)
    if isinstance(result, np.generic):
        known = is_supported(result.dtype)
        return fresh(type(like), home.as_array(result), home) if known else result
    if not (kind is _ndarray or is_array(result)):
        return result
    return _give_array(result, rules, like, home, operands)


def _is_own(array: Any, operands: Sequence[Operand], rules: Rules) -> bool:
    """Return whether an array of NumPy's certainly shares no memory with operands, in few steps."""
    base = array.base
    if base is not None and (
        type(base) is not _ndarray or base.base is not None or rules.const or not array.flags.carray
    ):
        return False
    for operand, _ in operands:
        # An operand over the memory that the base owns would have it as its base.
        if array is operand or (base is not None and (base is operand or base is operand.base)):
            return False
    return True


def _give_array(
    array: Any, rules: Rules, like: Any, home: Home, operands: Sequence[Operand]
) -> Any:
    """Replace any array; see `give`."""
    if type(array) is _ndarray and array.dtype in SUPPORTED and _is_own(array, operands, rules):
        return fresh(type(like), array, home)
    shares = []
    for operand, x in operands:
        if array is operand and x is not None:
            return x
        if home.overlap(array, operand):
            shares.append(x)
    blobs = [x for x in shares if isinstance(x, BlobCore)]
    if not (array.dtype in SUPPORTED or is_supported(array.dtype)):
        if blobs and isinstance(array, _ndarray):
            # Writes to it would not be tracked.
            array.flags.writeable = False
        return array
    if not shares or (rules.const and not any(x is not None for x in shares)):
        # Even reading the flags of an array whose elements overlap may warn.
        if rules.const or not can_adopt(array, home):
            array = home.copy(array) if home.direct else compute(home, home.copy, array)
        return fresh(type(like), array, home)
    if len(blobs) < len(shares):
        return adopted(array, like, home.device)
    blob: Any = wrap(array, home, *blobs)
    return blob.const if rules.const and blob.base is not None else blob


def _number(x: Any, like: BlobCore, home: Home, name: str) -> Any:
    """Return a Python number that a function computed, and record it as a download of one element.

    Not for CuPy, which has copied the number already, or returned an array instead.
    """
    if home is HOST or not home.native:
        return x
    blob = fresh(type(like), home.as_array(x), home)
    return blob.memory.gather(Side.HOST, blob.layout, name).item()


# --- plans ----------------------------------------------------------------------------------------


def _make_plan(rules_of: Any, function: Any, names: tuple[str, ...], *kinds: type) -> Any:
    count = len(kinds) - len(names)
    by_key: dict[int | str, type] = dict(enumerate(kinds[:count]))
    by_key.update(zip(names, kinds[count:], strict=True))
    rules = rules_of(function)
    return (rules.plan or Plan)(rules, count, by_key)


# Returns the plan of calls of a function with arguments of certain types. `rules_of` returns the
# rules of the function; the last arguments have the `names`. Programs have far fewer patterns. The
# limit keeps functions and classes that are created repeatedly from accumulating.
plan_of: Callable[..., Any] = lru_cache(maxsize=4096)(_make_plan)
