"""Devices: the host, CUDA devices and simulated devices."""

from syncblob.devices.base import Accelerator, Side
from syncblob.devices.device import CPU, Device
from syncblob.devices.host import HOST, allow_direct_calls, forbid_direct_calls
from syncblob.devices.selection import (
    accelerator,
    available_devices,
    current_accelerator,
    default_device,
    home_accelerator,
    home_of,
    owner_of,
    register,
    set_default_device,
    simulated,
    unregister,
    use_device,
)
from syncblob.devices.simulation import POISON, SimulatedBackend, SimulatedStream

__all__ = [
    "CPU",
    "HOST",
    "POISON",
    "Accelerator",
    "Device",
    "Side",
    "SimulatedBackend",
    "SimulatedStream",
    "accelerator",
    "allow_direct_calls",
    "available_devices",
    "current_accelerator",
    "default_device",
    "forbid_direct_calls",
    "home_accelerator",
    "home_of",
    "owner_of",
    "register",
    "set_default_device",
    "simulated",
    "unregister",
    "use_device",
]
