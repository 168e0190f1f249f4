"""Indexing: slices, which are views, index arrays and masks, which copy, and assignments."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import SUPPORTED, as_dtype
from syncblob._source_lines import user_instruction
from syncblob.arrays.foreign import is_array
from syncblob.arrays.native import array_of_tensor, native_array
from syncblob.blob.core import NO_MEMORY, AnyBlob, BlobCore, fresh, making
from syncblob.blob.indexing_without_numpy import selection
from syncblob.blob.scalars import indexable
from syncblob.calls.results import give, overwrite_by, write_by
from syncblob.calls.tables import Rules
from syncblob.devices import HOST, home_of, supervisors
from syncblob.devices.base import is_on_device
from syncblob.interop.adopt import array_in
from syncblob.memory import CONST, FRESH, compute, from_the_start
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncblob.devices.base import Home

# What `give` has to know of a copy of elements.
_GETITEM = Rules("__getitem__", operator.getitem, operator.getitem)

# The index of all elements.
_EVERYTHING = (Ellipsis,)

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
    # To complete the usual keys here saves a call.
    kind = type(key)
    full = key if kind is slice else (key, ...) if kind is int else _full_index(key)
    if full is None:
        home = blob.home
        direct = home.plain and not supervisors
        index = _index_at_hand(home, key) if direct else None
        if index is None:
            key = _plain(key)
            full = _full_index(key)
    if full is None:
        if not direct:
            require_device(blob.device, "__getitem__")
            return give(from_the_start(_select, blob, key), _GETITEM, blob, home, ())
        if index is None:
            index = _bring_index(blob, key)
        array = blob.raw_array
        if array is None or not blob.shortcut.readable:
            array = blob.array_in(home, CONST, "__getitem__")
        selected: Any = array[index]
        # A copy. NumPy may have transposed it, which is its base then.
        if type(selected) is np.ndarray and (
            selected.base is None or selected.base.size == selected.size
        ):
            return fresh(type(blob), selected, home)
        return give(selected, _GETITEM, blob, home, ())
    array = blob.raw_array
    # As in `derive`.
    if array is None or blob.known_memory is None:
        array = blob.viewable_array()
    return blob.view_of_array(array, array[full])


def set_item(blob: BlobCore, key: Any, value: Any) -> None:
    """Assign to elements as NumPy does, on this Blob's device.

    Values are transferred to that device if needed. Assigning to all elements transfers nothing
    else; assigning to some is a mutable access. If the key or the value is invalid, nothing
    changes.
    """
    if blob.readonly:
        blob.require_writable("assignment")
    if supervisors:
        require_device(blob.device, "__setitem__")
    full = _EVERYTHING if key is Ellipsis else _full_index(key)
    if full is None:
        index = _index_at_hand(blob.home, key) if blob.home.plain and not supervisors else None
        if index is None:
            key = _plain(key)
            full = _full_index(key)
        if full is None:
            _set_selected(blob, key, index, value)
            return
    number = type(value) in _NUMBERS
    new = value if number else _value_at_hand(blob, value)
    if new is not None and _set_in_place(blob, full, new):
        return
    if number:
        _set_in_one_step(blob, full, value)
    elif blob.home.plain and not supervisors:
        _bring_and_set(blob, full, value)
    else:
        from_the_start(_bring_and_set, blob, full, value)


def _bring_and_set(blob: BlobCore, full: Any, value: Any) -> None:
    """Assign values that have to be brought or converted."""
    shape = blob.shape if full is _EVERYTHING else _selected_shape(blob.shape, full)
    if (
        isinstance(value, BlobCore)
        and value.known_memory is blob.memory
        and value.home is blob.home
        and value.shape == shape
        and value.layout == blob.layout.derive(lambda a: a[full])
    ):
        # `blob[0] += 1` assigns what it has written already.
        return
    new = _value_on(blob, value, shape)
    if not _set_in_place(blob, full, new):
        _set_in_one_step(blob, full, new)


def _set_selected(blob: BlobCore, key: Any, index: Any, value: Any) -> None:
    """Assign to the elements that arrays of integers or booleans select; `index` is at hand."""
    home = blob.home
    if home.native:
        new = value if type(value) in _NUMBERS else _value_at_hand(blob, value)
        if index is None or new is None or not blob.shortcut.writable:
            # The access may transfer, so the index and the value are checked before.
            known = _index_in(home, key, "__setitem__", uploads=False) if index is None else index
            new = _value_on(blob, value, _selected_shape(blob.shape, known))
            index = _index_in(home, key, "__setitem__") if index is None else index
        elif isinstance(value, BlobCore) and value.known_memory is blob.known_memory:
            # NumPy assigns one by one.
            new = new.copy()
        if _set_in_place(blob, index, new):
            return
        function: Any = operator.setitem
    else:
        selected = selection(blob, key)
        new = _value_on(blob, value, selected.shape)
        index, function = selected.bring("__setitem__"), selected.setitem
    place = blob.memory, blob.layout, blob.side, "__setitem__"
    from_the_start(write_by, *place, function, index, new)


def _set_in_place(blob: BlobCore, index: Any, new: Any) -> bool:
    """Assign to elements of the Blob's array, if it may be written as it is; tell whether it was.

    Not if other sides would lose more than these elements.
    """
    home, array = blob.home, blob.raw_array
    if not blob.shortcut.writable:
        held = blob.known_memory
        if held is NO_MEMORY:
            return False
        holders = None if held is None else held.spans.uniform
        if holders is not None and holders != 1 << blob.side:
            return False
        current = blob.current_array()
        array = current if blob.shortcut.writable else None
    if array is None:
        return False
    shortcut = blob.shortcut
    writers, note = home.writers, None
    try:
        if writers is not None:
            note = object()
            writers[note] = shortcut
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
        # Without a call before, so that no interrupt leaves the note.
        if writers is not None:
            writers.pop(note, None)


def _fill(blob: BlobCore, value: Any) -> bool:
    """Write into an untouched Blob of the host, which becomes fresh; see `BlobCore`.

    Returns False if there is no memory for it, or another thread has used the Blob meanwhile.
    """
    layout: Any = blob.known_layout
    try:
        buffer = home_of().allocate_host(layout.nbytes)
    except MemoryError:
        return False
    array = HOST.own_view(buffer, layout, writable=True)
    array[...] = value
    # Two more frames are ours: those of the caller and of `set_item`.
    origin = "__setitem__", *user_instruction(4)
    with making.held:
        # Nothing is called from here on, so no signal handler sees half of it. The memory comes
        # last; see the invariants.
        if blob.known_memory is not NO_MEMORY:
            return False
        blob.raw_array = array
        blob.shortcut = FRESH
        blob.origin = origin
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
    layout = whole
    if full is not _EVERYTHING:
        known = target is not None and over is not None
        layout = over.layout(home, target) if known else whole.derive(lambda a: a[full])
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
    overwrite_by(blob, new, "__setitem__", layout, target, over)


# --- keys ----------------------------------------------------------------------------------------


def _full_index(key: Any) -> Any:
    """Complete an index of integers, slices, None and Ellipsis; return None for other indices.

    Handles only the usual types of entries. The Ellipsis makes a full index return a 0-d view
    instead of a scalar.
    """
    kind = type(key)
    if kind is int or key is None:
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


def _plain(key: Any) -> tuple[Any, ...]:
    """Return an index as a tuple of integers, slices, None, Ellipsis, Blobs, arrays and lists."""
    return tuple(map(_entry, key if isinstance(key, tuple) else (key,)))


def _entry(x: Any) -> Any:
    """Replace objects with ``__index__``, such as 0-d Blobs and tensors, by integers.

    0-d ndarrays stay, because in NumPy they select a copy. Arrays of other libraries on the host
    become ndarrays, and sequences become lists, whose transfers are not recorded.
    """
    if type(x) in _BASIC or isinstance(x, (np.ndarray, list)):
        return x
    if isinstance(x, BlobCore):
        integer = not x.shape and x.dtype.kind in "iu"
        return operator.index(x) if integer else x  # type: ignore[arg-type]  # every Blob has __index__
    on_device = is_on_device(x)
    if is_array(x) and not on_device:
        # NumPy asks a tensor of one element for an integer, even if it is a mask or has axes.
        array = native_array(x)[0]
        if array.ndim or array.dtype.kind == "b":
            return array
    if not (isinstance(x, (bool, np.bool)) or (on_device and x.ndim)):
        try:
            return operator.index(x)
        except TypeError:
            # All tensors have the method.
            pass
    if on_device:
        return x
    array = np.asarray(x)
    # NumPy raises for what is no index, and names what is one.
    entry = array if array.dtype.kind == "b" else x
    return array.tolist() if array.ndim else entry


def _index_at_hand(home: Home, key: Any) -> Any:
    """Return an index with the arrays that Blobs keep in a native home in their place.

    None if something has to be transferred, and if there are other entries than those of `_plain`.
    """
    kind, found = type(key), []
    if kind is list or (kind is np.ndarray and home is HOST):
        return key
    for x in key if kind is tuple else (key,):
        if isinstance(x, BlobCore):
            entry = x.raw_array
            if entry is None or not entry.ndim or x.home is not home:
                return None
            if not (x.shortcut.readable or x.current_array("__getitem__") is entry):
                return None
            if kind is not tuple:
                return entry
        else:
            entry, known = x, type(x)
            if not (known in _BASIC or known is list or (known is np.ndarray and home is HOST)):
                return None
        found.append(entry)
    return tuple(found)


def _index_in(
    home: Home, key: Sequence[Any], reason: str, *, uploads: bool = True
) -> tuple[Any, ...]:
    """Return a plain index with arrays in a home; ndarrays are uploaded, which is recorded."""
    return tuple(
        [
            x.array_in(home, CONST, reason)
            if isinstance(x, BlobCore)
            else array_in(home, x, reason)
            if uploads and isinstance(x, np.ndarray) and x.ndim
            else x
            for x in key
        ]
    )


def _selected_shape(shape: tuple[int, ...], index: Any) -> tuple[int, ...]:
    """Return the shape that an index selects. NumPy checks the index."""
    return indexable(shape)[index].shape


# --- elements ------------------------------------------------------------------------------------


def _select(blob: BlobCore, key: tuple[Any, ...]) -> Any:
    """Copy the elements that a plain index with arrays selects."""
    home = blob.home
    if not home.native:
        selected = selection(blob, key)
        array = blob.array_in(home, CONST, "__getitem__")
        return compute(home, selected.getitem, array, selected.bring("__getitem__"))
    index = _bring_index(blob, key)
    return compute(home, operator.getitem, blob.array_in(home, CONST, "__getitem__"), index)


def _bring_index(blob: BlobCore, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a plain index to read with, with arrays in the Blob's home."""
    # Nothing is uploaded for an index that is wrong.
    _selected_shape(blob.shape, _index_in(blob.home, key, "__getitem__", uploads=False))
    return _index_in(blob.home, key, "__getitem__")


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
        array = value if type(value) is np.ndarray else array_of_tensor(value)
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
        tensor, given = array_of_tensor(value), value
        value = native_array(value)[0] if tensor is None else tensor
        if value.dtype not in SUPPORTED:
            as_dtype(value.dtype.newbyteorder("="))
        if isinstance(given, (list, tuple)) and {value.dtype.kind, blob.dtype.kind} <= {"i", "u"}:
            # NumPy raises for an integer that does not fit.
            value = np.asarray(given, blob.dtype)
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
    if target is None or shape == target:
        return
    # NumPy's assignment drops leading axes of length 1.
    extra = max(len(shape) - len(target), 0)
    trimmed = shape[extra:]
    fits = set(shape[:extra]) <= {1} and all(
        dim in {1, wanted} for dim, wanted in zip(trimmed[::-1], target[::-1], strict=False)
    )
    if not fits:
        raise ValueError(f"cannot assign values of shape {shape} to elements of shape {target}")
