"""Calls that only make views. Nothing is transferred: arrays without contents stand for Blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.arrays.foreign import is_array
from syncblob.blob.core import BlobCore
from syncblob.dispatch.numpy import tables
from syncblob.dispatch.numpy.general_call import Operands, common_home, joined, of_device, split
from syncblob.dispatch.walk import instances, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from syncblob.devices.base import Home


def viewed_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> set[int | str]:
    """Return the positions and keywords of the arrays of which a call makes views.

    Empty if the call reads elements, or no argument is a Blob.
    """
    keys: set[int | str]
    if kwargs.get("out") is not None:
        return set()
    if function in tables.VIEWS_OF_ONE:
        keys = {tables.first_argument(function, args)}
    elif function in tables.VIEWS_OF_SEVERAL:
        keys = {*range(len(args))}
    else:
        return set()
    candidates = {key: x for key, x in joined(args, kwargs).items() if key in keys}
    arrays = {key for key, x in candidates.items() if is_array(x)}
    blobs = [x for x in candidates.values() if isinstance(x, BlobCore)]
    # An array of several Blobs is no view of one.
    if not blobs or len(blobs) < len([*instances([*candidates.values()], BlobCore)]):
        return set()
    if function in tables.VIEWS:
        return arrays
    if len(blobs) < len(arrays) or not _makes_views(function, args, kwargs, blobs):
        return set()
    return arrays


def _makes_views(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    blobs: Sequence[BlobCore],
) -> bool:
    """Return whether a call of a function that makes views or copies makes only views."""
    x = blobs[0]
    if function is np.ravel:
        layout = x._layout
        flags = layout.dummy().flags
        order: Any = tables.value_of(function, "order", args, kwargs) or "C"
        return {
            "C": flags.c_contiguous,
            "F": flags.f_contiguous,
            "A": flags.forc,
            "K": layout.gapless and not layout.backwards,
        }.get(order, False)
    if function is np.reshape:
        try:
            np.reshape(x._layout.dummy(), *args[1:], **{**kwargs, "copy": False})
        except (TypeError, ValueError):
            return False
        return not kwargs.get("copy")
    if function is np.astype:
        return not kwargs.get("copy", True) and np.dtype(args[1]) == x.dtype
    if (function is np.einsum and len(blobs) > 1) or (
        function is np.meshgrid and any(x.ndim > 1 for x in blobs)
    ):
        return False
    # For the others, the numbers of axes and the dtypes decide, so small arrays can be tried.
    small = {id(x): np.zeros((1,) * x.ndim, x.dtype) for x in blobs}
    result = function(
        *[small.get(id(x), x) for x in args],
        **{name: small.get(id(x), x) for name, x in kwargs.items()},
    )
    origins = {id(array) for array in small.values()}
    views = result if isinstance(result, (list, tuple)) else (result,)
    return all(id(_origin(view)) in origins for view in views)


def call_for_views(  # noqa: PLR0913  # a call, and properties of its function
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    like: BlobCore,
    viewed: Collection[int | str],
    *,
    const: bool,
) -> Any:
    """Call a function that makes only views, of Blobs and of other arrays, which are adopted.

    The parameters are those of `call`; `viewed` is the result of `viewed_arguments`.
    """
    arguments = joined(args, kwargs)
    operands = {key: of_device(arguments[key], like) for key in viewed}
    running = _Views(function.__name__, like, common_home([*operands.values()], like))
    for key, x in arguments.items():
        # The other arguments are axes, shapes and the like, which are read.
        arguments[key] = running.read(operands[key]) if key in viewed else _read(x)
    arrays, keywords = split(arguments)
    result = function(*arrays, **keywords)
    return running.give(result, const=const)


def _read(x: Any) -> Any:
    return replaced(x, BlobCore, np.asarray)


class _Views(Operands):
    """The operands of a call that only makes views, replaced by arrays without contents."""

    __slots__ = ("_origins",)

    def __init__(self, name: str, like: BlobCore, home: Home) -> None:
        super().__init__(name, like, home)
        self._origins: dict[int, BlobCore] = {}

    def _const(self, x: BlobCore) -> Any:
        array = x._layout.dummy()
        self._origins[id(_origin(array))] = x
        return array

    def _blob_of(self, array: Any, *, const: bool) -> Any:
        x = self._origins.get(id(_origin(array)))
        if x is not None:
            return x._view(x._layout.of_dummy(array), readonly=const)
        # Copied, because NumPy may warn if the flags of results of `broadcast_arrays` are read.
        return self._adopted(array.copy() if const else array)


def _origin(array: Any) -> Any:
    """Return the last object in the chain of bases, which all views of an array share."""
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array
