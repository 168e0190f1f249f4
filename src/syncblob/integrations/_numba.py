"""Numba: compiled functions accept Blobs as they accept ndarrays.

Numba imports this module through its entry point before it compiles anything. A Blob becomes a
read-only host array, as by `numpy.asarray`; `Blob.cpu` becomes a writable one.
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

from syncblob._blob import Blob
from syncblob.interop.side_view import SideView
from syncblob.memory import CONST

if TYPE_CHECKING:
    from llvmlite import ir


def register() -> None:
    """No-op for Numba's entry point; importing this module registers the types."""


class _LentArray(types.Array):
    """The type of an argument that becomes an array, of a given type, in the call of a function."""

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
        """Return None: functions with array signatures do not lend, so they reject this type."""


register_model(_LentArray)(ArrayModel)


@lower_cast(_LentArray, types.Array)
def _(_context: Any, _builder: Any, _given: Any, _wanted: Any, array: ir.Value) -> ir.Value:
    """Use a lent array as an array, for variables that may also hold other arrays."""
    return array


@typeof_impl.register(Blob)
def _(blob: Blob, _context: Any) -> _LentArray:
    return _type_of(blob.dtype, blob.shape, blob.strides, writeable=False)


@typeof_impl.register(SideView)
def _(side: SideView, _context: Any) -> _LentArray:
    *_, layout = side._what()  # noqa: SLF001  # the public way would lend the array
    writeable = side._access is not CONST  # noqa: SLF001  # see above
    return _type_of(layout.dtype, layout.shape, layout.strides, writeable=writeable)


@lru_cache(maxsize=1024)
def _type_of(
    dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], *, writeable: bool
) -> _LentArray:
    like = as_strided(np.empty((), dtype), shape, strides, writeable=writeable)
    return _LentArray(typeof(like))


@unbox(_LentArray)
def _(typ: _LentArray, x: ir.Value, c: Any) -> NativeValue:
    """Lend an array for the duration of the call."""
    result = cgutils.alloca_once(c.builder, c.context.get_value_type(typ))
    failed = cgutils.alloca_once_value(c.builder, cgutils.true_bit)
    asarray = c.pyapi.unserialize(c.pyapi.serialize_object(np.asarray))
    array = c.pyapi.call_function_objargs(asarray, (x,))
    c.pyapi.decref(asarray)
    # Null if a guard or a device has raised an exception, which propagates.
    with c.builder.if_then(cgutils.is_not_null(c.builder, array)):
        native = unbox_array(typ, array, c)
        c.builder.store(native.value, result)
        c.builder.store(native.is_error, failed)
        c.pyapi.decref(array)
    return NativeValue(c.builder.load(result), is_error=c.builder.load(failed))
