"""DLPack, out of a memory (https://dmlc.github.io/dlpack/latest/python_spec.html).

The other direction is in `native`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._dtypes import is_bfloat16
from syncblob.devices import HOST, Side
from syncblob.devices.host import NumpyHome
from syncblob.errors import NoDeviceError
from syncblob.interop import _capsule
from syncblob.memory import CONST, Access

if TYPE_CHECKING:
    from syncblob._shape import Layout
    from syncblob.memory import SyncedMemory

__all__ = ["HOST_DEVICE", "device_of", "export"]

HOST_DEVICE = HOST.dlpack_device


def device_of(memory: SyncedMemory, side: Side) -> tuple[int, int]:
    """Answer ``__dlpack_device__``: where `export` lends when no device is named."""
    home, buffer = memory.home(side), memory.buffer(side)
    return home.dlpack_device if buffer is None else home.dlpack_device_of(buffer)


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
    homes = [HOST_DEVICE]
    with suppress(NoDeviceError):
        homes.append(memory.home(Side.ACCELERATOR).dlpack_device)
    if wanted in homes:
        return Side.ACCELERATOR
    raise BufferError(f"expected dl_device to be one of {homes}, got {dl_device}")


def _within_reach(memory: SyncedMemory, side: Side, own: Side) -> Side:
    """Return the Blob's own side for a request for the other, if that reaches it without a copy."""
    # The memory of a simulated device is the host's.
    if side is Side.HOST and isinstance(memory.home(own), NumpyHome):
        return own
    raise BufferError(
        f"copy=False was asked for, and {memory.home(side).device} is not the device of this Blob, "
        f"{memory.home(own).device}; .cpu and .gpu export the side that they name"
    )


def export(  # noqa: PLR0913  # the keywords of the protocol
    memory: SyncedMemory,
    layout: Layout,
    access: Access,
    *,
    side: Side,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Answer ``__dlpack__`` of a Blob or of one side of it: a capsule over one side of the memory.

    Parameters
    ----------
    memory, layout, side
        What is lent, and where.
    access
        What the consumer is going to do. A const access gives the capsule the read-only flag; a
        copy takes the const path in any case, and so does what `dl_device` asks of the other side:
        a copy.
    stream, max_version, dl_device, copy
        The keywords of the protocol; see `Blob.__dlpack__`.

    Raises
    ------
    BufferError
        If the request cannot be met: of the other side without a copy, unless that is the host and
        the memory of a simulated device, which it reaches, can be lent.
    """
    own, side = side, _named_side(memory, side, dl_device)
    reported = memory.home(side).dlpack_device
    if side is not own and copy is False:
        side = _within_reach(memory, side, own)
    elif side is not own:
        # A change of device is a copy: reading on the other side lends nothing of it.
        copy = True
    readonly = access is CONST
    versioned = max_version is not None and max_version[0] >= 1
    home = memory.home(side)
    if readonly and not copy and not versioned:
        raise BufferError(
            "a const Blob can be exported to consumers of DLPack 1.0 or later only "
            f"(max_version=(1, 0)), got max_version={max_version}; or use copy=True"
        )
    if layout.backwards and not copy:
        if layout.reversed_axes:
            # Some versions of PyTorch end the process when they are given one.
            raise BufferError(
                f"DLPack consumers such as torch take no negative strides, got {layout.strides}; "
                "use .copy(), or np.asarray() to read"
            )
        layout = layout.forwards()
    if stream is not None and isinstance(home, NumpyHome):
        raise BufferError(f"{home.device} has no streams: expected stream=None, got {stream!r}")
    if copy:
        array = home.compute(memory.elements(side, layout, "__dlpack__").copy)
        flags = _capsule.IS_COPIED
    else:
        array = memory.export(side, access, layout, "__dlpack__", "DLPack")
        # NumPy sets the flag itself, from the array.
        flags = _capsule.READ_ONLY if readonly and not isinstance(home, NumpyHome) else 0
    bfloat16 = is_bfloat16(layout.dtype)
    capsule = home.capsule(
        array.view(np.uint16) if bfloat16 else array, stream=stream, max_version=max_version
    )
    if flags or bfloat16 or reported != HOST_DEVICE:
        _capsule.edit(
            capsule,
            device_id=reported[1],
            code=_capsule.BFLOAT if bfloat16 else None,
            flags=flags,
        )
    return capsule
