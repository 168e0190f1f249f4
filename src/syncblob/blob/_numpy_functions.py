"""NumPy's functions on Blobs: ``__array_ufunc__`` and ``__array_function__``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_supported
from syncblob.blob._numpy_calls import blob_home, blobs_in, call, direct, phantom
from syncblob.blob.compute import SCALARS, require_device_of
from syncblob.blob.core import BlobCore
from syncblob.blob.elementwise import binary, unary
from syncblob.devices import HOST, Side
from syncblob.interop import numpy_functions as tables
from syncblob.interop.foreign import is_stranger
from syncblob.interop.native import native_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["array_function", "array_ufunc"]


def array_ufunc(
    blob: BlobCore,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compute a ufunc, or one of its methods; see `Blob.__array_ufunc__`."""
    if not kwargs and method == "__call__" and ufunc in tables.ELEMENTWISE:
        if len(inputs) == 1:
            return unary(ufunc, blob)
        x1, x2 = inputs
        if type(x1) is type(x2) or type(x2) in SCALARS:
            return binary(ufunc, x1, x2)
        if _at_hand(blob, x2 if x1 is blob else x1):
            array1 = blob._array if x1 is blob else x1
            array2 = blob._array if x2 is blob else x2
            result = ufunc(array1, array2)
            return blob._fresh(np.asarray(result), blob._home)
    if is_stranger(_kinds(*inputs, *kwargs.get("out", ())), "__array_ufunc__"):
        return NotImplemented
    written: dict[int | str, bool] = {}
    if "out" in kwargs:
        # A reduction writes all of it, whatever is masked.
        written["out"] = kwargs.get("where", True) is True or method != "__call__"
    if method == "at":
        written[0] = False
    name, function = ufunc.__name__, ufunc
    if method != "__call__":
        name, function = f"{name}.{method}", getattr(ufunc, method)
    # The second operand of these is an index, which may be a tuple.
    index = 1 if method in {"at", "reduceat"} else None
    arrays = [
        np.asarray(x) if isinstance(x, (list, tuple)) and place != index else x
        for place, x in enumerate(inputs)
    ]
    return call(
        function,
        arrays,
        kwargs,
        blob,
        name=name,
        written=written,
        by_name=method != "__call__",
    )


def array_function(
    blob: BlobCore,
    func: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compute one of NumPy's other functions; see `Blob.__array_function__`."""
    others = [kind for kind in types if not issubclass(kind, BlobCore)]
    if others and is_stranger(others, "__array_function__"):
        return NotImplemented
    result = _without_elements(func, args, kwargs)
    if result is not NotImplemented:
        return result
    written = tables.written_arguments(func, args, kwargs)
    if not written and func not in tables.SPECIAL:
        result = direct(func, args, kwargs, blob)
        if result is not NotImplemented:
            return result
    everything = (*args, *kwargs.values())
    home = HOST if func in tables.TEXTS_AND_FILES else None
    with_arrays = any(isinstance(x, np.ndarray) for x in everything)
    return call(
        func,
        args,
        kwargs,
        blob,
        name=func.__name__,
        written=written,
        plain=tables.plain_arguments(func, args, kwargs) if with_arrays else (),
        home=home,
        const=func in tables.OVERLAPPING,
        # This Blob was given as `like`, which NumPy keeps for itself.
        by_name=home is None and next(blobs_in(everything), None) is None,
    )


def _at_hand(blob: BlobCore, other: Any) -> bool:
    """Tell whether NumPy can compute with this Blob's array and an operand as they are."""
    if not blob._array_is_current():
        return False
    home = blob._home
    if not home.direct:
        return False
    if isinstance(other, np.generic):
        return is_supported(other.dtype)
    return type(other) is np.ndarray and home is HOST and is_supported(other.dtype)


def _empty_like(
    blob: BlobCore,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Make a Blob of this one's shape, dtype and device, without reading this one."""
    require_device_of(function.__name__, blob)
    model = phantom(blob)
    return call(
        lambda *rest, **named: function(model, *rest, **named),
        args,
        kwargs,
        blob,
        name=function.__name__,
        home=blob_home(blob),
    )


def _kinds(*operands: Any) -> Iterator[type]:
    """Return the types of what is not a Blob."""
    return (type(x) for x in operands if not isinstance(x, BlobCore))


def _without_elements(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function that needs no element of a Blob; NotImplemented if it is another one."""
    if function in tables.QUESTIONS:
        numbers = tables.plain_arguments(function, args, kwargs)
        asked = [x if place in numbers else phantom(x) for place, x in enumerate(args)]
        named = {name: x if name in numbers else phantom(x) for name, x in kwargs.items()}
        return function(*asked, **named)
    if function in tables.SHARING:
        return _share_memory(function, *args, **kwargs)
    first = args[0] if args else None
    if isinstance(first, BlobCore):
        if function in tables.VIEWS:
            view = first._derived(lambda a: function(a, *args[1:], **kwargs))
            const = function in tables.OVERLAPPING and not kwargs.get("writeable")
            return view._view(view._layout, readonly=True) if const else view
        if function in tables.EMPTY_LIKE and blob_home(first).native:
            return _empty_like(first, function, args[1:], kwargs)
    return NotImplemented


def _share_memory(function: Callable[..., Any], a: Any, b: Any, max_work: Any = None) -> bool:
    """Compare what there is of two operands on either side. Nothing moves."""
    return any(
        bool(function(x, y, max_work=max_work))
        for x in _arrays_of(a)
        for y in _arrays_of(b)
        if type(x) is type(y)
    )


def _arrays_of(x: Any) -> list[Any]:
    """Return arrays over what a Blob has on either side."""
    if not isinstance(x, BlobCore):
        return [native_array(x)[0]]
    memory = x._memory
    homes = {Side.HOST: HOST, Side.ACCELERATOR: memory.accelerator}
    return [
        home.view(buffer, x._layout, writable=False)
        for side, home in homes.items()
        if home is not None and (buffer := memory.buffer(side)) is not None
    ]
