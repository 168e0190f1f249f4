"""DLPack exports of a memory (https://dmlc.github.io/dlpack/latest/python_spec.html).

Imports are in `native`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_bfloat16, register_for_dlpack
from syncblob.arrays import dlpack_capsules
from syncblob.devices import HOST, Side
from syncblob.errors import NoDeviceError
from syncblob.memory import CONST, Access, SyncedMemory

if TYPE_CHECKING:
    from syncblob._layout import Layout

HOST_DEVICE = HOST.dlpack_device


def _named_side(memory: SyncedMemory, side: Side, dl_device: tuple[int, int] | None) -> Side:
    if dl_device is None:
        return side
    try:
        wanted = (int(dl_device[0]), int(dl_device[1]))
    except (TypeError, ValueError, IndexError):
        raise BufferError(
            f"expected dl_device to be a pair of numbers, as (1, 0), got {dl_device!r}"
        ) from None
    if wanted == HOST_DEVICE:
        return Side.HOST
    devices: dict[tuple[int, int], Side] = {}
    for known in memory.all_sides:
        with suppress(NoDeviceError):
            devices.setdefault(memory.home(known).dlpack_device, known)
    if wanted in devices:
        return devices[wanted]
    raise BufferError(f"expected dl_device to be one of {[*devices]}, got {dl_device}")


def export(  # noqa: PLR0913  # the keywords of the protocol
    memory: SyncedMemory,
    layout: Layout,
    access: Access,
    *,
    side: Side,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Implement ``__dlpack__`` of a Blob or a SideView; see `Blob.__dlpack__`.

    A const access sets the capsule's read-only flag. Copies always take the const path; so does
    `dl_device` naming the other side, which makes a copy.

    Raises BufferError if the request cannot be met, such as one for the other side without a copy.
    """
    own, side = side, _named_side(memory, side, dl_device)
    reported = memory.home(side).dlpack_device
    if side is not own and copy is False:
        # The host can read the memory of a simulated device.
        if side is not Side.HOST or not memory.home(own).native:
            raise BufferError(
                f"copy=False was asked for, and {memory.home(side).device} is not the device of "
                f"this Blob, {memory.home(own).device}; .cpu and .gpu export the side that they "
                "name"
            )
        side = own
    elif side is not own:
        # A change of device is a copy, so that nothing of the other side is lent.
        copy = True
    readonly = access is CONST
    versioned = max_version is not None and max_version[0] >= 1
    home = memory.home(side)
    if readonly and not copy and not versioned:
        raise BufferError(
            "a const Blob can be exported to consumers of DLPack 1.0 or later only "
            f"(max_version=(1, 0)), got max_version={max_version}; or use copy=True"
        )
    if layout.reversed_axes and not copy:
        # Some versions of PyTorch abort the process for negative strides.
        raise BufferError(
            f"DLPack consumers such as torch take no negative strides, got {layout.strides}; "
            "use .copy(), or np.asarray() to read"
        )
    if stream is not None and home.native:
        raise BufferError(f"{home.device} has no streams: expected stream=None, got {stream!r}")
    if copy:
        array = memory.copy_of(side, layout, "__dlpack__")
        flags = dlpack_capsules.IS_COPIED
    else:
        # Without the negative strides of axes that have one element.
        array = memory.export(side, access, layout.forwards(), "__dlpack__", "DLPack")
        # NumPy sets the flag itself, according to the array.
        flags = dlpack_capsules.READ_ONLY if readonly and not home.native else 0
    bfloat16 = is_bfloat16(array.dtype)
    if bfloat16:
        register_for_dlpack(array.dtype)
        array = array.view(np.uint16)
    capsule = home.capsule(array, stream=stream, max_version=max_version)
    # Also of managed memory, which CuPy calls kDLCUDAManaged: torch takes no such device, and NumPy
    # would read it without a wait.
    if flags or bfloat16 or reported != HOST_DEVICE:
        code = dlpack_capsules.BFLOAT if bfloat16 else None
        dlpack_capsules.edit(capsule, device=reported, code=code, flags=flags)
    return capsule
