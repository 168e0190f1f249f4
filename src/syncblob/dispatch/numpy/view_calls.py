"""Calls that only make views. Nothing is transferred: arrays without contents stand for Blobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob.arrays.foreign import is_array
from syncblob.blob.core import BlobCore
from syncblob.dispatch.numpy import tables
from syncblob.dispatch.numpy.general_call import (
    Operands,
    home_of_arguments,
    joined,
    of_device,
    split,
)
from syncblob.dispatch.walk import instances, replaced

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def viewed_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> set[int | str]:
    """Return the positions and keywords of the arrays of which a call makes views.

    Empty if the call reads elements, or no argument is a Blob.
    """
    views = tables.VIEWS.get(function)
    if views is None or kwargs.get("out") is not None:
        return set()
    keys = {*range(len(args))} if views.several else {tables.first_argument(function, args)}
    candidates = {key: x for key, x in joined(args, kwargs).items() if key in keys}
    blobs = [x for x in candidates.values() if isinstance(x, BlobCore)]
    # An array of several Blobs is no view of one.
    if not blobs or len(blobs) < len([*instances([*candidates.values()], BlobCore)]):
        return set()
    if blobs[0].ndim < views.axes or not _is_view(function, args, kwargs, blobs[0]):
        return set()
    return {key for key, x in candidates.items() if is_array(x)}


def _is_view(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], x: BlobCore
) -> bool:
    """Return whether a call of a function that makes views makes one of a Blob."""
    layout = x._layout
    if function is np.ravel:
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
            np.reshape(layout.dummy(), *args[1:], **{**kwargs, "copy": False})
        except (TypeError, ValueError):
            return False
        return not kwargs.get("copy")
    return True


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
    running = _Views(function.__name__, like, home_of_arguments([*operands.values()], like))
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
