"""Asking the guards whether an operation may run where its Blobs are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncblob.blob._base import BlobBase
from syncblob.devices import CPU, HOST
from syncblob.guards import require_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob.devices.base import Home

__all__ = ["compute", "require_device_of"]


def require_device_of(name: str, *operands: Any) -> None:
    """Refuse an operation if a guard forbids the device that it would run on. Nothing moves.

    Where a call takes noticeable time, callers look at ``HOST.direct`` themselves.

    Parameters
    ----------
    name
        The operation, for the message.
    *operands
        It would run where these Blobs are: on the accelerator, if one of them is there. What is no
        Blob is passed over.

    Raises
    ------
    DeviceGuardError
        If it is to run elsewhere.
    """
    if HOST.direct:
        # No `computed_on` is open.
        return
    found = [x.device for x in operands if isinstance(x, BlobBase)]
    if found:
        require_device(next((device for device in found if device != CPU), CPU), name)


def compute(home: Home, kernel: Callable[..., Any], *arrays: Any) -> Any:
    """Call a function of arrays that lie in a home, if the guards let that device compute."""
    require_device(home.device, kernel.__name__)
    return home.compute(kernel, *arrays)
