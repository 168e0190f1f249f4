"""Views: Blobs that share the memories of another, with the same or another shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob._dtypes import SUPPORTED, is_supported, numpy_dtype
from syncblob._layout import Layout
from syncblob._shape import is_integer, shape_from
from syncblob.blob.copying import private_array
from syncblob.blob.core import HOST_DATA, AnyBlob, BlobCore, fresh
from syncblob.calls.choose_home import require_device_of
from syncblob.devices import HOST, Device, Side, home_of
from syncblob.interop.side_view import SideView
from syncblob.memory import CONST, MUTABLE, SyncedMemory

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


# --- the same elements ---------------------------------------------------------------------------


def view_as(blob: AnyBlob, dtype: DTypeLike | None) -> AnyBlob:
    """Return a view of the same bytes with another dtype; see `Blob.view`."""
    if dtype is None:
        return blob.view_at(blob.layout)
    wanted = numpy_dtype(dtype)
    if wanted not in SUPPORTED and not is_supported(wanted):
        # An ndarray, as of NumPy's functions. `dtype` itself, which may be a type of ndarrays.
        array: Any = blob.const_view(HOST_DATA, "view").view(dtype)
        return array
    if blob.home.native and wanted.alignment <= blob.dtype.alignment:
        return blob.derive(lambda a: a.view(wanted))
    view = blob.layout.derive(lambda a: a.view(wanted))
    if not view.aligned(wanted):
        raise ValueError(
            f"a view as {wanted} begins at byte {view.offset} of the memory, with strides "
            f"{view.strides}, and accelerators need multiples of {wanted.alignment}; use "
            ".copy().view(dtype)"
        )
    return blob.view_at(view)


def require_in_place(blob: BlobCore, value: Any, memory: SyncedMemory | None, name: str) -> None:
    """Accept the assignment of an in-place operator: its own operand, already written.

    Any other value raises an AttributeError.
    """
    blob.require_writable(f"assignment to {name}")
    if not isinstance(value, BlobCore) or value.memory is not memory or value.layout != blob.layout:
        raise AttributeError(
            f"{name} cannot be replaced; blob.{name}[...] = values copies values in, and "
            f"share_{name} takes another Blob's memory"
        )


def side_view(blob: BlobCore, *, host: bool) -> SideView:
    """Return one side as an object for other libraries; read-only if this Blob is const."""
    access = CONST if blob.readonly else MUTABLE

    def what() -> tuple[SyncedMemory, Side, Layout]:
        memory = blob.memory
        side = Side.HOST if host else blob.accelerator_side(memory)
        return memory, side, blob.layout

    return SideView(what, access, host=host)


def on(blob: AnyBlob, device: Device | str) -> AnyBlob:
    """Return a view whose operations run on another device; see `Blob.on`."""
    view = blob.view_at(blob.layout)
    view.home = home_of(device)
    for memory in (blob.memory, blob.existing_diff()):
        if memory is not None:
            memory.side_of(view.home)
    return view


# --- other shapes of the same elements -----------------------------------------------------------


def reshape(blob: AnyBlob, shape: tuple[Any, ...], *, copy: bool | None) -> AnyBlob:
    """Return the elements in C order in another shape; see `Blob.reshape`."""
    if copy:
        if not HOST.direct:
            require_device_of("reshape", blob)
        wanted = -1 if shape == (-1,) else _completed_shape(blob, shape_from(shape))
        return fresh(type(blob), private_array(blob, "reshape").reshape(wanted), blob.home)
    array = blob.viewable_array()
    if array is not None and array.flags.c_contiguous:
        try:
            view = blob.view_of_array(array, array.reshape(*shape))
        except (TypeError, ValueError):
            pass  # raised below, with our message
        else:
            if view is not None:
                return view
    # The copy below may have to wait for room. Nothing may be in use then.
    del array
    wanted = _completed_shape(blob, shape_from(shape))
    layout = blob.layout
    if layout.contiguous:
        return blob.view_at(Layout.c_order(wanted, layout.dtype, layout.offset))
    try:
        return blob.view_at(layout.derive(lambda a: a.reshape(wanted, copy=False)))
    except ValueError:
        if copy is False:
            raise ValueError(
                f"copy=False was asked for, but strides {blob.strides} allow no view of shape "
                f"{wanted}"
            ) from None
    return reshape(blob, shape, copy=True)


def _completed_shape(blob: BlobCore, shape: Any) -> tuple[int, ...]:
    """Replace a dimension of -1, and check the number of elements."""
    problem = "no dimension is less than -1"
    if min((shape,) if is_integer(shape) else shape, default=0) >= -1:
        try:
            return Layout.c_order(blob.shape, blob.dtype).dummy().reshape(shape).shape
        except ValueError as error:
            problem = str(error)
    raise ValueError(
        f"{problem}, got {shape} for a Blob of shape {blob.shape}; reshape keeps the count, resize "
        "changes it"
    )
