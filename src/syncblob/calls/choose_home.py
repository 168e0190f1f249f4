"""The device on which an operation on several operands runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from syncblob._dtypes import can_hold
from syncblob.blob.core import BlobCore
from syncblob.devices import HOST, default_device, supervisors
from syncblob.transfers import require_device

if TYPE_CHECKING:
    from syncblob.devices.base import Home


def require_device_of(name: str, *operands: Any) -> None:
    """Raise if a guard forbids the device that an operation would run on. Causes no transfer."""
    if not supervisors:
        return
    homes = [x.home for x in operands if isinstance(x, BlobCore)]
    if homes:
        require_device(common_home(homes).device, name)


def common_home(homes: Iterable[Home]) -> Home:
    """Return the accelerator among homes; of several the default device, or else the first.

    Return the host if there is none.
    """
    accelerators = [*dict.fromkeys(home for home in homes if home is not HOST)]
    preferred = [home for home in accelerators[1:] if home.device == default_device()]
    return (*preferred, *accelerators, HOST)[0]


def home_of(operands: Iterable[Any], like: BlobCore) -> Home:
    """Return the home where a call runs; the host if an accelerator cannot hold an operand."""
    homes = []
    for x in operands:
        if isinstance(x, BlobCore):
            homes.append(x.home)
        elif not (isinstance(x, (str, bytes)) or can_hold(x.dtype)):
            return HOST
    return common_home(homes) if homes else like.home
