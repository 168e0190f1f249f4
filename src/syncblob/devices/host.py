"""The host: ordinary memory, as NumPy arrays."""

from __future__ import annotations

import ctypes
import math
from pickle import PickleBuffer
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._formatting import human_bytes
from syncblob.devices.base import DLPACK_CPU, Home
from syncblob.devices.device import CPU

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob._layout import Layout


# A cache line. Consumers with vector code, such as JAX, share no other memory.
_ALIGNMENT = 64
# Results have this alignment from so many bytes on, and else NumPy's, because to give NumPy their
# memory takes time. Interleaved, the fastest calls of ``-x``, ``x + 1`` and ``x + y`` with float32
# took 0.99, 1.02 and 1.04 of the time without it at 16 MiB, and 1.01, 1.13 and 1.05 at 8 MiB.
LARGE = 16 << 20
# NumPy's large arrays begin 16 bytes into a page. If a result began a little further into its page
# than an operand, each load would wait for an earlier store ("4K aliasing"), and `numpy.negative`
# took 15 to 30 % longer. So large arrays begin in the middle of a page.
_PAGE = 4096

_first_byte: Any = ctypes.c_char.from_buffer


class NumpyHome(Home):
    """A home whose buffers are NumPy arrays."""

    native = True
    # In C, without a call of ours.
    capsule: Any = staticmethod(np.ndarray.__dlpack__)
    bounded = False
    namespace: ModuleType = np

    def as_array(self, result: Any) -> NDArray[Any]:
        """Return an array; a 0-d array for a NumPy scalar."""
        return np.asarray(result)

    def read_only(self, array: NDArray[Any]) -> bool:
        return not array.flags.writeable

    def overlap(self, array: NDArray[Any], buffer: NDArray[np.uint8]) -> bool:
        return np.may_share_memory(array, buffer)

    def allocate(
        self, nbytes: int, *, zeroed: bool = False, alignment: int = _ALIGNMENT
    ) -> NDArray[np.uint8]:
        """Return a new buffer, aligned to 64 bytes. 0 leaves the alignment of a small one to NumPy.

        That takes less memory.
        """
        make = np.zeros if zeroed else np.empty
        step, offset = (_PAGE, _PAGE // 2) if nbytes >= LARGE else (alignment, 0)
        try:
            block = make(nbytes + step, np.uint8)
        except MemoryError:
            # NumPy's message has the shape of this block, which nobody has asked for.
            raise MemoryError(
                f"{self.device} has no memory for {human_bytes(nbytes)} more"
            ) from None
        if not step:
            return block
        # Several times faster than the array interface. Of a view, because NumPy keeps what it has
        # told of a buffer with the array.
        start = (offset - ctypes.addressof(_first_byte(block[:1]))) % step
        return block[start : start + nbytes]

    def zero(self, buffer: NDArray[np.uint8]) -> None:
        buffer.fill(0)

    def view(self, buffer: NDArray[np.uint8], layout: Layout, *, writable: bool) -> NDArray[Any]:
        array: NDArray[Any] = np.ndarray(
            layout.shape, layout.dtype, buffer[:], layout.offset, layout.strides
        )
        if not writable:
            array.flags.writeable = False
        return array

    own_view = view

    def accessor_views(
        self, buffer: NDArray[np.uint8], layout: Layout
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return a read-only and a writable array over a buffer."""
        writable = self.view(buffer, layout, writable=True)
        const = writable.view()
        const.flags.writeable = False
        return const, writable

    def address(self, array: NDArray[Any]) -> int:
        try:
            return ctypes.addressof(_first_byte(array))
        except (BufferError, TypeError, ValueError):
            # Of any array, but it takes five times as long.
            return array.__array_interface__["data"][0]

    def exporter(self, buffer: NDArray[np.uint8]) -> PickleBuffer:
        """Return a base for aliases, which NumPy does not skip as it skips arrays."""
        return PickleBuffer(buffer)  # type: ignore[arg-type]  # an array is a Buffer

    def alias(self, exporter: Any, layout: Layout) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return an array with an observable lifetime over an exporter's buffer.

        Its base is not an array. NumPy makes the last array above such a base the base of every
        slice and view, so all of them keep this array alive.
        """
        array: NDArray[Any] = np.ndarray(
            layout.shape, layout.dtype, exporter, layout.offset, layout.strides
        )
        return array, array

    def wrap(self, array: NDArray[Any]) -> NDArray[np.uint8]:
        return array.reshape(-1).view(np.uint8)


class _Host(NumpyHome):
    device = CPU
    shared = True

    # Not a property, because every export reads it.
    dlpack_device: tuple[int, int] = (DLPACK_CPU, 0)

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        return self.allocate(nbytes, zeroed=zeroed)

    # NumPy's functions, which give large arrays aligned memory here.

    def empty(self, shape: Any, dtype: Any) -> NDArray[Any]:
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < LARGE:
            return np.empty(shape, dtype)
        buffer: Any = self.allocate(nbytes)
        return np.ndarray(shape, dtype, buffer)

    def zeros(self, shape: Any, dtype: Any) -> NDArray[Any]:
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < LARGE:
            return np.zeros(shape, dtype)
        buffer: Any = self.allocate(nbytes, zeroed=True)
        return np.ndarray(shape, dtype, buffer)

    def ones(self, shape: Any, dtype: Any) -> NDArray[Any]:
        array = self.empty(shape, dtype)
        array.fill(1)
        return array

    def full(self, shape: Any, fill_value: Any, dtype: Any = None) -> NDArray[Any]:
        """Return an array of one value, or with the values of an array."""
        array = self.empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype)
        np.copyto(array, fill_value, casting="unsafe")
        return array

    def astype(self, array: NDArray[Any], dtype: Any, order: Any = "C") -> NDArray[Any]:
        if array.size * dtype.itemsize < LARGE or order != "C":
            return array.astype(dtype, order)
        return self.full(array.shape, array, dtype)


HOST = _Host()
