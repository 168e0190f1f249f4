"""Indexing: views and copies of selected elements, and assignment to them."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype
from syncblob._layout import Layout
from syncblob._shape import is_basic_index, is_integer
from syncblob._weak_list import Reference
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import array_of_tensor, native_array
from syncblob.blob.core import NO_MEMORY, AnyBlob, BlobCore, fresh, making
from syncblob.blob.index_arrays import selection
from syncblob.calls.choose_home import require_device_of
from syncblob.calls.results import wrap, write_by
from syncblob.devices import HOST, supervisors
from syncblob.devices.base import is_on_device
from syncblob.interop.adopt import array_in
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
from syncblob.memory.ledger import first_write

if TYPE_CHECKING:
    from syncblob.devices.base import Home

# The index of all elements.
_EVERYTHING = (Ellipsis,)

# The holders of bytes that the host and the first accelerator have.
_BOTH = int(Head.SYNCED)

# The types of numbers that NumPy assigns as they are.
_NUMBERS = frozenset({bool, int, float, *(dtype.type for dtype in SUPPORTED if dtype.kind != "c")})

# Integers up to this raise nothing in any floating-point dtype.
_EXACT = 2048

# The types of nearly all entries of indices.
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


def get_item(blob: AnyBlob, key: Any) -> AnyBlob:
    """Index as NumPy does.

    Integers, slices, None and Ellipsis give a view; nothing moves. Arrays of integers or booleans
    give a new Blob, computed on this Blob's device.
    """
    full = _full_index(key)
    array = blob.raw_array
    if full is None:
        home = blob.home
        index = _at_hand(home, key) if home.plain and not supervisors else None
        if (
            index is not None
            and array is not None
            and (blob.shortcut.readable or blob.current_array("__getitem__") is array)
        ):
            selected: Any = array[index]
            # A copy. NumPy may have transposed it, which is its base then.
            if type(selected) is not np.ndarray or not (
                selected.base is None or selected.base.size == selected.size
            ):
                return wrap(selected, home, blob)
            return fresh(type(blob), selected, home)
        # Drop our references, so that the buffers can be evicted if memory is short.
        array = index = None
        key = _plain(key)
        if not is_basic_index(key):
            require_device_of("__getitem__", blob)
            return wrap(from_the_start(_select, blob, key), home, blob)
        full = _complete_index(key)
        array = blob.raw_array
    # The first condition is the usual case of the second.
    if array is None or blob.known_memory is None:
        array = blob.viewable_array()
    if array is not None:
        view = array[full]
        number = not (blob.shortcut.readable or view.shape)
        if number and blob.memory.spans.uniform is None:
            # A number is read next. In a split memory it would ask for its own few bytes each
            # time.
            blob.current_array()
        result = blob.view_of_array(array, view)
        if result is not None:
            return result
    return blob.view_at(blob.layout.derive(lambda a: a[full]))


def set_item(blob: BlobCore, key: Any, value: Any) -> None:
    """Assign to elements as NumPy does, on this Blob's device.

    Values are transferred to that device if needed. Assigning to all elements transfers nothing
    else; assigning to some is a mutable access. If the key or the value is invalid, nothing
    changes.
    """
    if blob.readonly:
        blob.require_writable("assignment")
    if supervisors:
        require_device_of("__setitem__", blob)
    full = _EVERYTHING if key is Ellipsis else _full_index(key)
    if full is None:
        index = _at_hand(blob.home, key)
        if index is None:
            key = _plain(key)
            if is_basic_index(key):
                full = _complete_index(key)
        if full is None:
            _set_selected(blob, key, index, value)
            return
    number = type(value) in _NUMBERS
    new = value if number else _value_at_hand(blob, value)
    if new is not None and _set_in_place(blob, full, new, whole=number):
        return
    if number:
        _set_in_one_step(blob, full, value)
    else:
        from_the_start(_bring_and_set, blob, full, value)


def _bring_and_set(blob: BlobCore, full: Any, value: Any) -> None:
    """Assign values that have to be brought or converted."""
    target = blob.layout if full is _EVERYTHING else blob.layout.derive(lambda a: a[full])
    if (
        isinstance(value, BlobCore)
        and value.known_memory is blob.memory
        and value.home is blob.home
        and value.layout == target
    ):
        # `blob[0] += 1` assigns what it has written already.
        return
    new = _value_on(blob, value, target.shape)
    if not _set_in_place(blob, full, new, whole=False):
        _set_in_one_step(blob, full, new)


def _set_selected(blob: BlobCore, key: Any, index: Any, value: Any) -> None:
    """Assign to the elements that arrays of integers or booleans select; `index` is at hand."""
    home = blob.home
    if home.native:
        new = value if type(value) in _NUMBERS else _value_at_hand(blob, value)
        if index is not None and new is not None:
            if isinstance(value, BlobCore) and value.known_memory is blob.known_memory:
                # NumPy assigns one by one.
                new = new.copy()
            if _set_in_place(blob, index, new, whole=True):
                return
        # The access below may transfer, so the index and the value are checked before.
        arrays = _keys_on(blob, key)
        new = _value_on(blob, value, _selected_shape(blob.shape, arrays))
        index = _foreign_keys_on(blob, arrays, key, "__setitem__")
        if _set_in_place(blob, index, new, whole=True):
            return
        function: Any = operator.setitem
    else:
        selected = selection(blob, key)
        new = _value_on(blob, value, selected.shape)
        index, function = selected.bring("__setitem__"), selected.setitem
    place = blob.memory, blob.layout, blob.side, "__setitem__"
    write_by(*place, partial(_call_to_set, function, index, new))


def _call_to_set(function: Any, key: Any, value: Any, array: Any) -> tuple[Any, ...]:
    """Return the call that sets elements of an array. No lambda, which would slow all variables."""
    return function, array, key, value


def _set_in_place(blob: BlobCore, index: Any, new: Any, *, whole: bool) -> bool:
    """Assign to elements of the Blob's array, if it may be written as it is; tell whether it was.

    Not if other sides would lose more than these elements. `whole` permits an access of all.
    """
    home, array = blob.home, blob.raw_array
    if not blob.shortcut.writable:
        array = _make_writable(blob, whole=whole)
    if array is None:
        return False
    shortcut = blob.shortcut
    note: Any = None
    try:
        writers = home.writers
        if writers is not None:
            note = {shortcut}
            writers.add(Reference(note, writers.discard))
            # The shortcut may have been revoked while the array was written.
            if not (shortcut.writable and blob.raw_array is array):
                return False
        if home.plain and not supervisors:
            array[index] = new
        else:
            home.compute(operator.setitem, array, index, new)
        return blob.shortcut.writable or blob.finish_write(home, "__setitem__", array)
    except ValueError:
        _require_broadcast(np.shape(new), _selected_shape(array.shape, index))
        raise
    finally:
        # Frames of an error would keep it.
        note = None


def _make_writable(blob: BlobCore, *, whole: bool) -> Any:
    """Return the Blob's array if it may be written without a loss of other sides, else None."""
    held = blob.known_memory
    # The second is the usual case of `_is_shared`.
    if held is NO_MEMORY or (held is not None and held.spans.uniform == _BOTH):
        return None
    if whole:
        # What a source or another side has must not be brought to be overwritten.
        ready = not blob.is_shared() and blob.current_array() is not None
        return blob.array_in(blob.home, MUTABLE, "__setitem__") if ready else None
    array = blob.current_array()
    return array if blob.shortcut.writable else None


def _fill(blob: BlobCore, value: Any) -> bool:
    """Write into an untouched Blob of the host, which becomes fresh; see `BlobCore`.

    Returns False if there is no memory for it, or another thread has used the Blob meanwhile.
    """
    layout: Any = blob.known_layout
    try:
        buffer = allocate_on_host(layout.nbytes)
    except MemoryError:
        return False
    array = HOST.own_view(buffer, layout, writable=True)
    array[...] = value
    shortcut = Shortcut(first_write("__setitem__", array.nbytes), usable=True)
    with making.held:
        # Nothing is called from here on, so no signal handler sees half of it. The memory comes
        # last; see the invariants.
        if blob.known_memory is not NO_MEMORY:
            return False
        blob.raw_array = array
        blob.shortcut = shortcut
        blob.known_memory = None
    return True


def _set_in_one_step(blob: BlobCore, full: Any, new: Any) -> None:
    """Assign to some elements of a Blob, which become that side's alone; the others keep heads."""
    home, whole = blob.home, blob.known_layout or blob.layout
    with making.held:
        # Together, because another thread may replace both.
        array, over = blob.raw_array, blob.shortcut.buffer
    direct = home.plain and not supervisors
    # NumPy checks the index.
    target = array[full] if direct and array is not None else None
    start = None if target is None or not target.size else whole.first(full)
    if full is _EVERYTHING:
        layout = whole
    elif target is None or start is None:
        layout = whole.derive(lambda a: a[full])
    else:
        # `derive` would do the same, in more steps.
        contiguous = target.flags.c_contiguous
        strides = None if contiguous else home.strides(target)
        layout = Layout(target.shape, target.dtype, strides, start)
    if getattr(new, "shape", ()):
        _require_broadcast(tuple(new.shape), layout.shape)
    elif (type(new) is not int or abs(new) > _EXACT or layout.dtype.kind not in "fc") and (
        home.native or type(new) in _NUMBERS
    ):
        # A number that NumPy does not take changes no state.
        np.empty((), layout.dtype)[()] = new
    untouched = full is _EVERYTHING and blob.known_memory is NO_MEMORY and home is HOST
    if untouched and direct and _fill(blob, new):
        return
    memory, side = blob.memory, blob.side
    if not direct:
        memory.write(side, OVERWRITE, layout, "__setitem__", operator.setitem, ..., new)
        return

    def fill(buffer: Any, written: list[object] | None = None) -> None:
        into = target
        if into is None or buffer is not over:
            into = buffer.view(home, layout, writable=True, own=True)
        # No call comes between the write and the note, so that no signal handler can.
        into[...] = new
        if written is not None:
            written.append(new)

    acquire(memory, side, OVERWRITE, layout, "__setitem__", fill)


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


def _complete_index(key: Any) -> Any:
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


def _at_hand(home: Home, key: Any) -> Any:
    """Return an index with the arrays that Blobs keep in their place.

    None if something has to be transferred, and for other basic indices than `_full_index` takes.
    """
    kind, found = type(key), None
    if kind is np.ndarray:
        found = key if home is HOST else None
    elif kind is list:
        found = key if home.native else None
    elif isinstance(key, BlobCore):
        array = key.raw_array
        if array is not None and array.ndim and key.home is home:
            readable = key.shortcut.readable or key.current_array("__getitem__") is array
            found = array if readable else None
    elif kind is tuple:
        entries = []
        for entry in key:
            entries.append(entry if type(entry) in _BASIC else _at_hand(home, entry))
            if entries[-1] is None is not entry:
                return None
        found = tuple(entries)
    return found


def _keys_on(blob: BlobCore, key: Any) -> Any:
    """Replace Blobs in an index by their arrays in the Blob's home."""
    if isinstance(key, tuple):
        return tuple([_keys_on(blob, entry) for entry in key])
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
        return tuple([_foreign_keys_on(blob, *pair, reason) for pair in pairs])
    if is_array(original) and not is_on_device(original):
        array = native_array(original)[0]
        if array.ndim and array.dtype.kind in "biu":
            return array_in(blob.home, array, reason)
    return key


# --- elements ------------------------------------------------------------------------------------


def _select(blob: BlobCore, key: Any) -> Any:
    """Copy the elements that arrays of integers or booleans select."""
    home = blob.home
    if home.native:
        array = blob.array_in(home, CONST, "__getitem__")
        arrays = _foreign_keys_on(blob, _keys_on(blob, key), key, "__getitem__")
        return compute(home, operator.getitem, array, arrays)
    selected = selection(blob, key)
    array = blob.array_in(home, CONST, "__getitem__")
    return compute(home, selected.getitem, array, selected.bring("__getitem__"))


def _value_at_hand(blob: BlobCore, value: Any) -> Any:
    """Return a value as an array in the Blob's home and dtype; None if it has to be brought."""
    home, own = blob.home, blob.raw_array
    if isinstance(value, BlobCore):
        array = value.raw_array
        if array is None or value.home is not home:
            return None
        if not (value.shortcut.readable or value.current_array("__setitem__") is array):
            return None
    elif home is HOST:
        array = value if type(value) is np.ndarray else array_of_tensor(value, keep=False)
    else:
        return None
    known = array is not None and array.dtype == (blob.dtype if own is None else own.dtype)
    return array if known else None


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
    home = blob.home
    if isinstance(value, BlobCore):
        array = value.array_in(home, CONST, "__setitem__")
        if value.memory is blob.memory:
            # Copy, because the source must be newest here before the target is overwritten.
            array = compute(home, home.copy, array)
    else:
        array = array_in(home, value, "__setitem__")
    # Before anything is written, because under `numpy.errstate` this may raise.
    return array if array.dtype == blob.dtype else compute(home, home.astype, array, blob.dtype)


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
