"""Exports by the CUDA array interface, version 3, and by those of other devices' libraries.

https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import is_bfloat16
from syncblob._source_lines import user_instruction
from syncblob.devices import Accelerator
from syncblob.devices.cuda import CudaBackend
from syncblob.errors import NoDeviceError
from syncblob.memory import CONST, MUTABLE, Head
from syncblob.memory.accesses import expose

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Side
    from syncblob.memory import Access, SyncedMemory

CUDA = CudaBackend.protocol
# What CuPy calls of a Blob without that interface.
CUPY = "__cupy_get_ndarray__"


def require_protocol(memory: SyncedMemory, side: Side, protocol: str) -> Accelerator:
    """Return the device of a side. Raise AttributeError if its arrays do not have a protocol."""
    wanted = CUDA if protocol == CUPY else protocol
    try:
        home = memory.home(side)
    except NoDeviceError as error:
        raise AttributeError(f"{protocol}: {error}") from None
    if isinstance(home, Accelerator) and home.protocol == wanted:
        return home
    raise AttributeError(f"{protocol}: arrays of {home.device} do not have {wanted}")


def _require_dtype(layout: Layout, protocol: str) -> None:
    if is_bfloat16(layout.dtype):
        raise AttributeError(f"{protocol}: it does not support bfloat16; use DLPack")


def array_over_memory(
    memory: SyncedMemory, side: Side, layout: Layout, access: Access, protocol: str, target: object
) -> tuple[Accelerator, Any]:
    """Return an accelerator, and an array over its side for the protocol of its library.

    `target` is an object that only the consumer keeps. Raises AttributeError if the device's arrays
    do not have the protocol, or it does not support the dtype.
    """
    home = require_protocol(memory, side, protocol)
    _require_dtype(layout, protocol)
    kind = "CUDA array interface" if protocol == CUDA else protocol
    return home, memory.export(side, access, layout, protocol, kind, target)


def for_cupy(memory: SyncedMemory, side: Side, lender: Any) -> Callable[[], Any]:
    """Return the function that CuPy calls if an object has no ``__cuda_array_interface__``.

    It returns a CuPy array over the accelerator's side, through the DLPack of `lender`. Only its
    call causes a transfer. Raises AttributeError if this memory cannot be on a CUDA device.
    """
    require_protocol(memory, side, CUPY)
    import cupy  # installed: there is a CUDA device

    return lambda: cupy.from_dlpack(lender)


def is_exposed(memory: SyncedMemory, side: Side, start: int, stop: int) -> bool:
    """Tell whether all of a range is exposed on a side, and only that side holds it."""
    over = memory.loans.writers(start, stop, 1 << side)
    exposed = any(each.exposed and each.start <= start and stop <= each.stop for each in over)
    return exposed and memory.spans.any(start, stop) == 1 << side


def interface(  # a Blob, and what is made of it
    memory: SyncedMemory,
    side: Side,
    layout: Layout,
    kept: tuple[Any, ...],
    lend: Callable[[Access], Any],
    *,
    readonly: bool,
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the interface of a Blob's side, and the arrays that the Blob keeps for its readers.

    `lend` returns an array over that side, for an access.

    Libraries read the attribute twice: to test for it and to get it. The first read must give the
    newest contents, but it may be the test alone, so it makes a borrow. The second one exposes the
    memory, and must not repeat the warning. Numba reads it once, and keeps the address.
    """
    exposed_before = is_exposed(memory, side, layout.start, layout.stop)
    access = CONST if readonly or exposed_before else MUTABLE
    unchanged = memory.spans.head(*layout.reach, side) is Head.HEAD_AT_GPU
    _require_dtype(layout, CUDA)
    memory.make_whole(side, layout)
    home: Any = memory.home(side)
    array = lend(access)
    # Those that are kept are alive, so no other buffer has their address.
    asked = any(array.data.ptr == each.data.ptr for each in kept)
    if access is not CONST and ((asked and unchanged) or user_instruction()[2] == "numba"):
        expose(memory, side, start=layout.start, stop=layout.stop)
    return home.describe(array, readonly=readonly), kept if asked else (*kept, array)
