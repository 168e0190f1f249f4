"""Inspection: the capabilities, devices and dtypes of this namespace."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncblob import devices as _devices
from syncblob.devices import Device

# The capabilities and dtypes are NumPy's, on every device.
_numpys: Any = np.__array_namespace_info__()


class Info:
    """The standard's inspection functions; ``__array_namespace_info__`` returns an instance."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Return the supported features: boolean indexing, data-dependent shapes, up to 64 axes."""
        # NumPy 2.2 does not state its limit of dimensions.
        return {**_numpys.capabilities(), "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the default device: that of `use_device`, else that of the process."""
        return _devices.default_device()

    def default_dtypes(
        self, *, device: Device | str | None = None
    ) -> dict[str, np.dtype[np.generic]]:
        """Return the default dtypes, which are the same on every device."""
        _check(device)
        return dict(_numpys.default_dtypes())

    def devices(self) -> tuple[Device, ...]:
        """Return the available devices."""
        return _devices.available_devices()

    def dtypes(
        self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[np.generic]]:
        """Return the standard's dtypes, the same on every device; `kind` as for `isdtype`."""
        _check(device)
        # NumPy gives the class of the booleans in place of their dtype.
        return {name: np.dtype(each) for name, each in _numpys.dtypes(kind=kind).items()}


def __array_namespace_info__() -> Info:  # noqa: N807  # the standard's name
    """Return the inspection functions: capabilities, devices, dtypes and the defaults."""
    return Info()


def _check(device: Device | str | None) -> None:
    if device is not None:
        Device(device)
