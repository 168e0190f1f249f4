"""Devices: the host, CUDA devices and simulated devices."""

from syncblob.devices.base import Accelerator as Accelerator
from syncblob.devices.base import Side as Side
from syncblob.devices.base import supervisors as supervisors
from syncblob.devices.choose_device import accelerator as accelerator
from syncblob.devices.choose_device import accelerators_in_use as accelerators_in_use
from syncblob.devices.choose_device import available_devices as available_devices
from syncblob.devices.choose_device import current_accelerator as current_accelerator
from syncblob.devices.choose_device import default_device as default_device
from syncblob.devices.choose_device import home_of as home_of
from syncblob.devices.choose_device import memory_kind as memory_kind
from syncblob.devices.choose_device import owner_of as owner_of
from syncblob.devices.choose_device import register as register
from syncblob.devices.choose_device import set_default_device as set_default_device
from syncblob.devices.choose_device import set_memory_kind as set_memory_kind
from syncblob.devices.choose_device import set_memory_limit as set_memory_limit
from syncblob.devices.choose_device import simulated as simulated
from syncblob.devices.choose_device import unregister as unregister
from syncblob.devices.choose_device import use_device as use_device
from syncblob.devices.device import CPU as CPU
from syncblob.devices.device import Device as Device
from syncblob.devices.host import HOST as HOST
from syncblob.devices.simulation import POISON as POISON
from syncblob.devices.simulation import SimulatedBackend as SimulatedBackend
from syncblob.devices.simulation import SimulatedStream as SimulatedStream
