"""Numba's compiled functions of Blobs: ``@njit`` takes them as it takes ndarrays.

Numba finds this module by its entry point and imports it before it compiles anything. A Blob is a
read-only array on the host, as of `numpy.asarray`; `Blob.cpu` is one that may be written.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import typeof
from numba.core import cgutils, types
from numba.core.boxing import unbox_array
from numba.core.datamodel.models import ArrayModel
from numba.extending import NativeValue, lower_cast, register_model, typeof_impl, unbox
from numpy.lib.stride_tricks import as_strided

from syncblob.blob import Blob
from syncblob.interop.side_view import SideView
from syncblob.memory import CONST

if TYPE_CHECKING:
    from llvmlite import ir

__all__ = ["register"]


def register() -> None:
    """Do nothing: Numba's entry point calls it, and importing this module has registered all."""


class _LentArray(types.Array):
    """The type of what becomes an array when a function is called with it.

    Parameters
    ----------
    array
        The type of the array.
    """

    def __init__(self, array: types.Array) -> None:
        super().__init__(
            array.dtype,
            array.ndim,
            array.layout,
            readonly=not array.mutable,
            name=f"lent {array.name}",
            aligned=array.aligned,
        )

    def can_convert_to(self, typingctx: Any, other: types.Type) -> None:
        """Tell that no function whose signature asks for an array takes this: it would not lend."""


register_model(_LentArray)(ArrayModel)


@lower_cast(_LentArray, types.Array)
def _(_context: Any, _builder: Any, _given: Any, _wanted: Any, array: ir.Value) -> ir.Value:
    """Go on with a lent array where a variable may hold another as well."""
    return array


@typeof_impl.register(Blob)
def _(blob: Blob, _context: Any) -> _LentArray:
    return _typed(blob.dtype, blob.shape, blob.strides, writeable=False)


@typeof_impl.register(SideView)
def _(side: SideView, _context: Any) -> _LentArray:
    _, layout = side._what()  # noqa: SLF001  # asking for the array would lend it
    writeable = side._access is not CONST  # noqa: SLF001  # see above
    return _typed(layout.dtype, layout.shape, layout.strides, writeable=writeable)


@lru_cache(maxsize=1024)
def _typed(
    dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], *, writeable: bool
) -> _LentArray:
    like = as_strided(np.empty((), dtype), shape, strides, writeable=writeable)
    return _LentArray(typeof(like))


@unbox(_LentArray)
def _(typ: _LentArray, x: ir.Value, c: Any) -> NativeValue:
    """Lend an array for as long as the function uses it."""
    result = cgutils.alloca_once(c.builder, c.context.get_value_type(typ))
    failed = cgutils.alloca_once_value(c.builder, cgutils.true_bit)
    asarray = c.pyapi.unserialize(c.pyapi.serialize_object(np.asarray))
    array = c.pyapi.call_function_objargs(asarray, (x,))
    c.pyapi.decref(asarray)
    # If a guard or a device refuses, its exception is raised.
    with c.builder.if_then(cgutils.is_not_null(c.builder, array)):
        native = unbox_array(typ, array, c)
        c.builder.store(native.value, result)
        c.builder.store(native.is_error, failed)
        c.pyapi.decref(array)
    return NativeValue(c.builder.load(result), is_error=c.builder.load(failed))
