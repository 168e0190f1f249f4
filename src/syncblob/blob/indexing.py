"""Indexing: views and copies of selected elements, and assignment to them."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

import numpy as np

from syncblob._dtypes import as_dtype
from syncblob._layout import Layout
from syncblob._shape import is_basic_index, is_integer
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import native_array
from syncblob.blob.core import NO_MEMORY, AnyBlob, BlobCore, fresh, making
from syncblob.blob.index_arrays import indices_to_read, selection
from syncblob.calls.choose_home import require_device_of
from syncblob.calls.operands import blob_to_read
from syncblob.calls.results import wrap, write_by
from syncblob.devices import HOST, Side
from syncblob.devices.base import is_on_device
from syncblob.guards import may_compute_directly, require_device
from syncblob.memory import (
    CONST,
    MUTABLE,
    OVERWRITE,
    Head,
    Shortcut,
    acquire,
    compute,
    from_the_start,
)
from syncblob.memory.buffers import allocate_on_host
from syncblob.memory.history import first_write
from syncblob.memory.living_arrays import Reference

# The index of all elements.
_EVERYTHING = (Ellipsis,)

# The holders of bytes that the host and the first accelerator have.
_BOTH = int(Head.SYNCED)

_NUMBERS = frozenset({bool, int, float})

# Integers up to this raise nothing in any floating-point dtype.
_EXACT = 2048

# The types of nearly all entries of indices.
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


def get_item(blob: AnyBlob, key: Any) -> AnyBlob:
    """Return the elements that an index selects; see `Blob.__getitem__`."""
    full = _full_index(key)
    if full is None:
        if type(key) is type(blob) and key.home is blob.home and key.shape:
            # One Blob of integers or bool, the usual case.
            if not HOST.direct:
                require_device_of("__getitem__", blob)
            home = blob.home
            selected = from_the_start(_selected, blob, key)
            return fresh(type(blob), home.as_array(selected), home)
        key = _plain(key)
        if not is_basic_index(key):
            require_device_of("__getitem__", blob)
            return wrap(from_the_start(_selected, blob, key), blob.home, blob)
        full = _completed(key)
    # The first condition is the usual case of the second.
    array = blob.raw_array
    if array is None or blob.known_memory is None:
        array = blob.viewable_array()
    if array is not None:
        view = array[full]
        number = not (blob.shortcut.readable or view.shape)
        if number and blob.memory.ledger.spans.uniform is None:
            # A number is read next. In a split memory it would ask for its own few bytes each
            # time.
            blob.current_array()
        result = blob.view_of_array(array, view)
        if result is not None:
            return result
    return blob.view_at(blob.layout.derive(lambda a: a[full]))


def set_item(blob: BlobCore, key: Any, value: Any) -> None:  # noqa: C901, PLR0912  # the usual case is inlined
    """Assign to the elements that an index selects; see `Blob.__setitem__`."""
    if blob.readonly:
        blob.require_writable("assignment")
    full = _full_index(key)
    if full is not None and type(value) in _NUMBERS:
        home = blob.home
        direct = home.direct or may_compute_directly(home, "__setitem__")
        if not direct:
            require_device(home.device, "__setitem__")
        shortcut, array = blob.shortcut, blob.raw_array
        if not shortcut.writable:
            array = None
            held = blob.known_memory
            # The second is the usual case of `_is_shared`.
            known = held is NO_MEMORY or (held is not None and held.ledger.spans.uniform == _BOTH)
            if not known and not blob.is_shared():
                array = blob.array_in(home, MUTABLE, "__setitem__")
        if array is not None:
            if home.writers is None:
                if direct:
                    array[full] = value
                else:
                    home.compute(operator.setitem, array, full, value)
                written = blob.shortcut.writable or blob.finish_write(home, "__setitem__", array)
            else:
                written = _set_noted(blob, home.writers, array, full, value, direct=direct)
            if written:
                return
        untouched = blob.known_memory is NO_MEMORY and full is _EVERYTHING and home is HOST
        if not (untouched and direct and _fill(blob, value)):
            _assign_number(blob, full, value)
        return
    require_device_of("__setitem__", blob)
    side = blob.side
    key = _plain(key)
    if is_basic_index(key):
        full = _completed(key)
        target = blob.layout.derive(lambda a: a[full])
        if (
            isinstance(value, BlobCore)
            and value.known_memory is blob.memory
            and value.home is blob.home
            and value.layout == target
        ):
            # `blob[0] += 1` assigns what it has written already.
            return
        if isinstance(value, np.generic) and value.dtype.kind != "c":
            # NumPy raises for a value that does not fit, unless arrays select the elements.
            np.empty((), blob.dtype)[()] = value
        from_the_start(_assign, blob, side, target, value)
        return
    if blob.home.native:
        arrays = _keys_on(blob, key)
        new = _value_on(blob, value, _selected_shape(blob.shape, arrays))
        # This may transfer, so the index and the value are checked before.
        key = _foreign_keys_on(blob, arrays, key, "__setitem__")
        function: Any = operator.setitem
    else:
        selected = selection(blob, key)
        new = _value_on(blob, value, selected.shape)
        key, function = selected.bring("__setitem__"), selected.setitem
    place = blob.memory, blob.layout, side, "__setitem__"
    write_by(*place, partial(_setting, function, key, new))


def _setting(function: Any, key: Any, value: Any, array: Any) -> tuple[Any, ...]:
    """Return the call that sets elements of an array. No lambda, which would slow all variables."""
    return function, array, key, value


def _set_noted(  # noqa: PLR0913  # an assignment
    blob: BlobCore, writers: set[Any], array: Any, full: Any, value: Any, *, direct: bool
) -> bool:
    """Assign a number through an array, if it may still be written; return whether it was kept."""
    shortcut, home = blob.shortcut, blob.home
    note: Any = {shortcut}
    writers.add(Reference(note, writers.discard))
    try:
        if not (shortcut.writable and blob.raw_array is array):
            return False
        if direct:
            array[full] = value
        else:
            home.compute(operator.setitem, array, full, value)
        return blob.shortcut.writable or blob.finish_write(home, "__setitem__", array)
    finally:
        # Frames of an error would keep it.
        note = None


def _fill(blob: BlobCore, value: Any) -> bool:
    """Write a number into an untouched Blob of the host, which becomes fresh; see `BlobCore`.

    Returns False if there is no memory for it, or another thread has used the Blob meanwhile.
    """
    layout: Any = blob.known_layout
    try:
        buffer = allocate_on_host(layout.nbytes)
    except MemoryError:
        return False
    array = HOST.own_view(buffer, layout, writable=True)
    array[...] = value
    shortcut = Shortcut(first_write("__setitem__", layout.nbytes), usable=True)
    with making.held:
        # Nothing is called from here on, so no signal handler sees half of it. The memory comes
        # last; see the invariants.
        if blob.known_memory is not NO_MEMORY:
            return False
        blob.raw_array = array
        blob.shortcut = shortcut
        blob.known_memory = None
    return True


def _assign_number(blob: BlobCore, full: Any, value: Any) -> None:
    """Write a number into some elements of a Blob, as one step.

    They become that side's alone, and the others keep their heads.
    """
    home, whole = blob.home, blob.known_layout or blob.layout
    with making.held:
        # Together, because another thread may replace both.
        array, over = blob.raw_array, blob.shortcut.buffer
    # NumPy checks the index.
    target = None if array is None or not home.direct else array[full]
    start = None if target is None or not target.size else whole.first(full)
    if full is _EVERYTHING:
        layout = whole
    elif target is None or start is None:
        layout = whole.derive(lambda a: a[full])
    else:
        # As `derive`, in fewer steps.
        contiguous = target.flags.c_contiguous
        strides = None if contiguous else home.strides(target)
        layout = Layout(target.shape, target.dtype, strides, start)
    if type(value) is not int or abs(value) > _EXACT or layout.dtype.kind not in "fc":
        # A number that NumPy does not take changes no state.
        np.empty((), layout.dtype)[()] = value
    memory, side = blob.memory, blob.side
    if not home.direct:
        memory.write(side, OVERWRITE, layout, "__setitem__", operator.setitem, ..., value)
        return

    def fill(buffer: Any, written: list[object] | None = None) -> None:
        into = target
        if into is None or buffer is not over:
            into = buffer.view(home, layout, writable=True, own=True)
        # No call comes between the write and the note, so that no signal handler can.
        into[...] = value
        if written is not None:
            written.append(value)

    acquire(memory.ledger, side, OVERWRITE, layout, "__setitem__", fill)


# --- keys ----------------------------------------------------------------------------------------


def _full_index(key: Any) -> Any:
    """Complete an index of integers, slices, None and Ellipsis; return None for other indices.

    Handles only the usual types of entries. The Ellipsis makes a full index return a 0-d view
    instead of a scalar.
    """
    kind = type(key)
    if kind is int:
        return (key, ...)
    if kind is slice:
        return key
    if key is Ellipsis:
        return _EVERYTHING
    if kind is not tuple:
        return None
    for entry in key:
        if type(entry) not in _BASIC:
            return None
    return key if Ellipsis in key else (*key, ...)


def _completed(key: Any) -> Any:
    """Complete any basic index."""
    entries = key if isinstance(key, tuple) else (key,)
    return entries if any(entry is Ellipsis for entry in entries) else (*entries, Ellipsis)


def _selected_shape(shape: tuple[int, ...], key: Any) -> tuple[int, ...] | None:
    """Return the shape that an index selects; None if that depends on data on an accelerator."""
    entries = key if isinstance(key, tuple) else (key,)
    if any(is_on_device(entry) for entry in entries):
        return None
    return np.broadcast_to(np.uint8(0), shape)[key].shape


def _plain(key: Any) -> Any:
    """Replace objects with ``__index__``, such as 0-d Blobs and tensors, by integers.

    0-d ndarrays stay, because in NumPy they select a copy.
    """
    if isinstance(key, tuple):
        return tuple(_plain(entry) for entry in key)
    if isinstance(key, BlobCore):
        integer = not key.shape and key.dtype.kind in "iu"
        return operator.index(key) if integer else key  # type: ignore[arg-type]  # every Blob has __index__
    if isinstance(key, (int, np.generic, np.ndarray)):
        return key
    if is_array(key) and not is_on_device(key):
        # NumPy asks a tensor of one element for an integer, even if it is a mask or has axes.
        array = native_array(key)[0]
        if array.dtype.kind == "b" or (array.ndim and array.dtype.kind in "iu"):
            return array
    try:
        return operator.index(key) if is_integer(key) else key
    except TypeError:
        # All tensors have the method.
        return key


def _keys_on(blob: BlobCore, key: Any) -> Any:
    """Replace Blobs in an index by their arrays in the Blob's home."""
    if isinstance(key, tuple):
        return tuple(_keys_on(blob, entry) for entry in key)
    if isinstance(key, BlobCore):
        return key.array_in(blob.home, CONST, "__getitem__")
    return key


def _foreign_keys_on(blob: BlobCore, key: Any, original: Any, reason: str) -> Any:
    """Transfer arrays of other libraries in an index to an accelerator, so that this is recorded.

    `key` is the original index with arrays in place of Blobs.
    """
    if blob.home is HOST or isinstance(original, BlobCore):
        return key
    if isinstance(original, tuple):
        pairs = zip(key, original, strict=True)
        return tuple(_foreign_keys_on(blob, *pair, reason) for pair in pairs)
    if is_array(original) and not is_on_device(original):
        indices = indices_to_read(original, blob)
        if isinstance(indices, BlobCore):
            return indices.array_in(blob.home, CONST, reason)
    return key


# --- elements ------------------------------------------------------------------------------------


def _selected(blob: BlobCore, key: Any) -> Any:
    """Copy the elements that arrays of integers or booleans select."""
    home = blob.home
    if home.native:
        array = blob.array_in(home, CONST, "__getitem__")
        arrays = _foreign_keys_on(blob, _keys_on(blob, key), key, "__getitem__")
        return compute(home, operator.getitem, array, arrays)
    selected = selection(blob, key)
    array = blob.array_in(home, CONST, "__getitem__")
    return compute(home, selected.getitem, array, selected.bring("__getitem__"))


def _assign(blob: BlobCore, side: Side, target: Layout, value: Any) -> None:
    """Assign to the elements of a layout."""
    new = _value_on(blob, value, target.shape)
    blob.memory.write(side, OVERWRITE, target, "__setitem__", operator.setitem, ..., new)


def _value_on(blob: BlobCore, value: Any, shape: tuple[int, ...] | None) -> Any:
    """Bring a value to the Blob's home in its dtype, after checking its dtype and shape."""
    if isinstance(value, np.generic):
        if value.dtype.kind != "c":
            return value.astype(blob.dtype)
    elif isinstance(value, (int, float, complex)):
        return np.array(value, dtype=blob.dtype)[()]
    if not isinstance(value, BlobCore):
        value = native_array(value)[0]
        as_dtype(value.dtype.newbyteorder("="))
    if value.dtype.kind == "c" and blob.dtype.kind != "c":
        raise TypeError(f"cannot assign {value.dtype} values to a Blob of dtype {blob.dtype}")
    _require_broadcast(tuple(value.shape), shape)
    array, home = value, blob.home
    if not isinstance(value, np.ndarray) or home is not HOST:
        if not isinstance(value, BlobCore):
            value = blob_to_read(value, blob)
        array = value.array_in(blob.home, CONST, "__setitem__")
        if value.memory is blob.memory:
            # Copy, because the source must be newest here before the target is overwritten.
            array = compute(home, array.copy)
    # Before anything is written, because under `numpy.errstate` this may raise.
    return array if array.dtype == blob.dtype else compute(home, array.astype, blob.dtype)


def _require_broadcast(shape: tuple[int, ...], target: tuple[int, ...] | None) -> None:
    """Raise unless a shape broadcasts to the target; None means that only the device can tell."""
    if target is None:
        return
    # NumPy's assignment drops leading axes of length 1.
    extra = max(len(shape) - len(target), 0)
    trimmed = shape[extra:]
    fits = set(shape[:extra]) <= {1} and all(
        dim in {1, wanted} for dim, wanted in zip(trimmed[::-1], target[::-1], strict=False)
    )
    if not fits:
        raise ValueError(f"cannot assign values of shape {shape} to elements of shape {target}")


def in_c_order(values: Any, shape: tuple[int, ...]) -> Any:
    """Reshape values, at least one, in C order, repeated or truncated as by ``ndarray.flat``."""
    flat = values.reshape(-1)
    size = math.prod(shape)
    if flat.shape == (1,):
        return flat.reshape(())
    if flat.shape[0] < size:
        flat = np.resize(flat, size)
    return flat[:size].reshape(shape)
