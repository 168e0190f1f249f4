"""Any call of a NumPy function with Blobs: bring operands to one home, compute, wrap results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import setitem
from types import MappingProxyType
from typing import Any

import numpy as np

from syncblob._dtypes import can_hold, is_supported
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import native_array
from syncblob.blob.core import HOST_DATA, BlobCore, fresh
from syncblob.calls.choose_home import common_home
from syncblob.calls.compute import forgets_newest, overwrite, wrap
from syncblob.calls.nested import instances, mapped
from syncblob.devices import HOST, Device, Side
from syncblob.devices.base import Home, is_on_device
from syncblob.guards import require_device
from syncblob.interop.adopt import adopt
from syncblob.memory import MUTABLE, compute, has_written
from syncblob.memory.operations import innermost
from syncblob.memory.window_allocation import divisible

# Types that are passed on unchanged.
LEAVES = (bool, int, float, complex, str, bytes, type, np.generic, np.dtype, np.ufunc)


def call(  # noqa: C901, PLR0913  # a call, and properties of its function
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    like: BlobCore,
    *,
    name: str,
    written: Mapping[int | str, bool] = MappingProxyType({}),
    plain: Collection[int | str] = (),
    home: Home | None = None,
    const: bool = False,
    by_name: bool = False,
) -> Any:
    """Call a function of arrays with Blobs in place of arrays. To be called by `from_the_start`.

    Parameters
    ----------
    function
        The function, which NumPy or, through its protocols, CuPy computes.
    args, kwargs
        Blobs, arrays of any library, nested sequences of them, and anything else.
    like
        The Blob whose device computes if no argument is a Blob.
    name
        The name of the function, for messages and the log.
    written
        The arguments that the function writes; True for those that it overwrites fully.
    plain
        The arguments for which an array stands for a tuple of numbers.
    home
        The home that computes, without a question to the guards; None for the accelerator if an
        operand is there and no array has a dtype that Blobs do not support, else the host.
    const
        Whether results that are views are const.
    by_name
        Whether to look up the function by name in the home's library, because its arrays do not
        dispatch to it.

    Returns
    -------
    Any
        The result, with arrays of supported dtypes replaced by Blobs. Arrays that share a Blob's
        memory become views of it.
    """
    arguments = joined(args, kwargs)
    wrapped = partial(of_device, like=like)
    for key, x in arguments.items():
        if key not in written:
            arguments[key] = mapped(x, wrapped)
    # An array in place of a tuple of numbers is not an operand.
    operands = [x for key, x in arguments.items() if key not in plain or isinstance(x, BlobCore)]
    running = Operands(name, like, home_of_arguments(operands, like) if home is None else home)
    if home is None and not HOST.direct:
        require_device(running.home.device, name)
    for key, x in arguments.items():
        # NumPy would dispatch again if a Blob remained among the arguments.
        if key not in written and (key not in plain or isinstance(x, BlobCore)):
            arguments[key] = mapped(x, running.read)
    # Last, because inputs must be on this home before their memory is written.
    for key, whole in written.items():
        arguments[key] = running.write(arguments[key], whole=whole)
    arrays, keywords = split(arguments)
    if by_name and not running.home.native:
        function = running.home.own(name)
        if isinstance(keywords.get("out"), tuple):
            (keywords["out"],) = keywords["out"]

    try:
        if written:
            has_written()
        result = compute(running.home, function, *arrays, **keywords)
        if running.late:
            # There may not be room for these beside what is about to be written.
            arguments, arrays, keywords = {}, [], {}
            running.release()
        running.deliver(result)
    finally:
        running.finish_write()
    return running.give(result, const=const)


def joined(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int | str, Any]:
    """Return arguments by position or keyword."""
    arguments: dict[int | str, Any] = dict(enumerate(args))
    arguments.update(kwargs)
    return arguments


def split(arguments: Mapping[int | str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments: the inverse of `joined`."""
    args = [x for key, x in arguments.items() if type(key) is int]
    return args, {key: x for key, x in arguments.items() if type(key) is str}


class Operands:
    """The operands of one call in one home. Results have the class of `like`."""

    __slots__ = ("_blobs", "_foreign", "_passed", "home", "late", "like", "name", "written")

    def __init__(self, name: str, like: BlobCore, home: Home) -> None:
        self.name: str = name
        self.like: BlobCore = like
        self.home: Home = home
        # The Blobs and the user's arrays that are read or written.
        self._blobs: list[BlobCore] = []
        self._foreign: list[Any] = []
        # By id: each array passed to the function, and the argument that it replaces.
        self._passed: dict[int, tuple[Any, Any]] = {}
        # Targets, and the arrays to copy into them after a successful call.
        self.late: list[tuple[Any, Any]] = []
        # The Blobs that are written.
        self.written: list[BlobCore] = []

    # --- before ----------------------------------------------------------------------------------

    def read(self, x: Any) -> Any:
        """Replace a Blob or an array by an array to read on the home."""
        if isinstance(x, BlobCore):
            return self._pass(self._const(x), x)
        if x is None or isinstance(x, LEAVES) or not is_array(x):
            return x
        array = native_array(x)[0]
        if self.home is not HOST and can_hold(array.dtype):
            blob = adopted(array, self.like, self.home.device)
            return self._pass(self._const(blob), blob)
        self._foreign.append(array)
        return array

    def take(self, operands: Iterable[tuple[Any, BlobCore]]) -> None:
        """Record the arrays passed to the function, each with its Blob."""
        for array, x in operands:
            self._blobs.append(x)
            self._pass(array, x)

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
            item
            if target is None
            else self._pass(self._write(target, whole=whole, late=late), item)
            for item, target in zip(items, targets, strict=True)
        ]
        return tuple(arrays) if items is x else arrays[0]

    def _target(self, x: Any) -> Any:
        """Return a Blob, or an array to write in place of one of any library; None for others."""
        if isinstance(x, BlobCore):
            x._require_writable(self.name)
            return x
        if not is_array(x):
            return None
        array = native_array(x, copy=False)[0]
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise ValueError(f"{self.name} writes, and the array to be written is read-only")
        return array

    def _write(self, target: Any, *, whole: bool, late: bool) -> Any:
        own = isinstance(target, BlobCore)
        if late:
            if whole and (not own or target.layout.gapless):
                shape, dtype = tuple(target.shape), target.dtype.newbyteorder("=")
                array = compute(self.home, self.home.namespace.empty, shape, dtype=dtype)
            else:
                array = compute(self.home, self.read(target).copy)
            self.late.append((target, array))
            return array
        if not own:
            self._foreign.append(target)
            return target
        self._blobs.append(target)
        self.written.append(target)
        array = target._make_writable(self.name) if target.home is self.home else None
        if array is None:
            side = target.memory.side_of(self.home)
            array = target._array_on(side, MUTABLE, self.name)
        return array

    def _is_late(self, target: Any, *, whole: bool) -> bool:
        """Return whether a target is written after the call."""
        if isinstance(target, BlobCore):
            current = target.home is self.home and target._shortcut.writable
            return (
                whole and not current and forgets_newest(target, target.memory.side_of(self.home))
            )
        return self.home is not HOST and isinstance(target, np.ndarray)

    def _share_windows(self, targets: Sequence[Any]) -> bool:
        """Return whether several targets are in one memory, which may have windows on the home."""
        memories = [x.memory for x in targets if isinstance(x, BlobCore)]
        return len({*memories}) < len(memories) and any(
            divisible(each.ledger.buffers) and each.buffer(each.side_of(self.home)) is None
            for each in memories
        )

    def _pass(self, array: Any, x: Any) -> Any:
        self._passed[id(array)] = (array, x)
        return array

    def _const(self, x: BlobCore) -> Any:
        """Return a Blob's data on the home; NumPy arrays are read-only."""
        self._blobs.append(x)
        array = x._array_in(self.home, self.name)
        if isinstance(array, np.ndarray):
            array = array.view()
            array.flags.writeable = False
        return array

    # --- afterwards ------------------------------------------------------------------------------

    def release(self) -> None:
        """Drop the arrays that were read, so that their memory can be evicted."""
        operation: Any = innermost()
        operation.operands = [target for target, _ in self.late]
        self._passed = {id(array): self._passed[id(array)] for _, array in self.late}

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
                write = partial(_write, scratch)
                overwrites.append((target.memory, target.layout, write))
            elif isinstance(target, np.ndarray) and self.home is not HOST:
                # A transfer can fail, so all of them come before the first write.
                arrays.append(
                    (target, fresh(type(self.like), scratch, self.home)._read(HOST_DATA, self.name))
                )
            else:
                arrays.append((target, scratch))
        overwrite(overwrites, self.home, self.name)
        for target, array in arrays:
            self.home.compute(setitem, target, ..., array)

    def finish_write(self) -> None:
        """Finish all writes."""
        for x in self.written:
            x._finish_write(self.home, self.name)

    def give(self, result: Any, *, const: bool) -> Any:
        """Replace arrays and NumPy scalars by Blobs; inputs by the arguments they stand for."""
        if isinstance(result, (list, tuple)):
            return mapped(result, partial(self.give, const=const))
        scalar = isinstance(result, np.generic)
        if type(result) is bool or type(result) is int:
            return number(result, self.like, self.home, self.name)
        if not (scalar or is_array(result)) or not is_supported(result.dtype):
            return result
        passed = self._passed.get(id(result))
        if passed is not None:
            return passed[1]
        if scalar:
            return fresh(type(self.like), self.home.as_array(result), self.home)
        return self._blob_of(result, const=const)

    def _blob_of(self, array: Any, *, const: bool) -> Any:
        overlap = self.home.overlap
        if const and not any(overlap(array, passed) for passed, _ in self._passed.values()):
            # Copied, because even reading the flags of such an array may warn.
            return fresh(type(self.like), compute(self.home, array.copy), self.home)
        if any(overlap(array, foreign) for foreign in self._foreign):
            return adopted(array, self.like, self.home.device)
        blob: Any = wrap(array, self.home, *(self._blobs or [self.like]))
        return blob.const if const and blob._base is not None else blob


def _write(values: Any, array: Any) -> None:
    array[...] = values


def number(x: Any, like: BlobCore, home: Home, name: str) -> Any:
    """Return a Python number that a function computed, and record it as a download of one element.

    Not for CuPy, which has copied the number already, or returned an array instead.
    """
    if home is HOST or not home.native:
        return x
    blob = fresh(type(like), home.as_array(x), home)
    return blob.memory.gather(Side.HOST, blob.layout, name).item()


def shape_only(x: Any) -> Any:
    """Replace a Blob by an array of the same shape, strides and dtype, which must not be read."""
    if not isinstance(x, BlobCore):
        return x
    # It may be out of date, and has the shape nevertheless.
    array = x._array
    return array if isinstance(array, np.ndarray) else x.layout.dummy()


def home_of_arguments(operands: Any, like: BlobCore) -> Home:
    """Return the accelerator that operands are on, else the host; see `common_home`.

    Also the host if an array or a NumPy scalar has a dtype that accelerators do not support.
    """
    found = [*instances(operands, (BlobCore, np.ndarray, np.generic))]
    homes = [x.home for x in found if isinstance(x, BlobCore)]
    others = [x for x in found if not isinstance(x, (BlobCore, str, bytes))]
    if not homes:
        return like.home
    return common_home(homes) if all(can_hold(x.dtype) for x in others) else HOST


def of_device(x: Any, like: BlobCore) -> Any:
    """Wrap an array on a device in a Blob, because its device determines where to compute."""
    if x is None or isinstance(x, (BlobCore, np.ndarray, *LEAVES)):
        return x
    return adopted(native_array(x)[0], like, None) if is_on_device(x) else x


def adopted(array: Any, like: BlobCore, device: Device | None) -> BlobCore:
    """Make a Blob for use on a device, over an array that has other owners."""
    memory, layout = adopt(array, dtype=None, device=device, copy=None)
    return like._of(memory, layout)
