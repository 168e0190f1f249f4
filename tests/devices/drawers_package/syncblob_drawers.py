"""A backend for arrays in drawers, in a package of its own."""

from __future__ import annotations

from typing import Any

import drawers
import numpy as np

from syncblob import Device, NoDeviceError
from syncblob.devices import HOST
from syncblob.devices.array_library import LibraryHome, Namespace


class Drawer(LibraryHome):
    """One drawer."""

    protocol = drawers.PROTOCOL
    dlpack_type = drawers.DLPACK_TYPE

    def __init__(self, index: int) -> None:
        if index >= drawers.DEVICES:
            raise NoDeviceError(f"drawer:{index}: there are {drawers.DEVICES}")
        self.device = Device(f"drawer:{index}")
        self.namespace = Namespace(drawers, index)

    # --- memory ----------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        inside = np.zeros(nbytes, np.uint8) if zeroed else np.full(nbytes, 0xFF, np.uint8)
        return drawers.Array(inside, self.device.index)

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> np.ndarray:
        return HOST.allocate(nbytes, zeroed=zeroed)

    def zero(self, buffer: Any) -> None:
        buffer.fill(0)

    def upload(self, host: np.ndarray, buffer: Any) -> None:
        buffer.put(host)

    def download(self, buffer: Any, host: np.ndarray) -> None:
        host[...] = buffer.asnumpy()

    def synchronize(self) -> None:
        pass

    # --- arrays ----------------------------------------------------------------------------------

    def address(self, array: Any) -> int:
        return array.data.ptr

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(step * array.itemsize for step in array.strides)

    def read_only(self, array: Any) -> bool:
        return not array.flags.writable

    def view(self, buffer: Any, layout: Any, *, writable: bool) -> Any:
        array, _ = self.alias(buffer, layout)
        array._inside.flags.writeable = writable
        return array

    def alias(self, exporter: Any, layout: Any) -> tuple[Any, object]:
        inside = np.ndarray(
            layout.shape, layout.dtype, exporter._inside, layout.offset, layout.strides
        )
        owner = Owner()
        return drawers.Array(inside, self.device.index, owner), owner

    def wrap(self, array: Any) -> Any:
        return array.reshape(-1).view(np.uint8)

    # --- other libraries -------------------------------------------------------------------------

    @classmethod
    def import_array(cls, x: Any, *, copy: bool | None = None) -> Any:
        del copy
        return x if isinstance(x, drawers.Array) else drawers.Array(*getattr(x, cls.protocol), x)

    @classmethod
    def device_of(cls, array: Any) -> Device:
        return Device(f"drawer:{array.drawer}")

    def describe(self, array: Any, *, readonly: bool) -> Any:
        inside = array._inside.view()
        inside.flags.writeable = not readonly
        return inside, array.drawer


class Owner:
    """What all views of an alias keep alive."""
