"""The device on which an operation on several operands runs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
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
    """Return the accelerator among homes, of several the `preferred` one; else the host."""
    accelerators = [home for home in homes if home is not HOST]
    return reduce(preferred, accelerators) if accelerators else HOST


def home_of(operands: Iterable[Any], like: BlobCore) -> Home:
    """Return the home where a call runs; the host if an accelerator cannot hold an operand."""
    home: Home | None = None
    for x in operands:
        if isinstance(x, BlobCore):
            if home is None or home is HOST:
                home = x.home
            elif x.home is not home and x.home is not HOST:
                home = preferred(home, x.home)
        elif not (isinstance(x, (str, bytes)) or can_hold(x.dtype)):
            return HOST
    return like.home if home is None else home


def preferred(home: Home, other: Home) -> Home:
    """Return one of two accelerators with operands: the default device, or else the first."""
    return other if other is not home and other.device == default_device() else home
