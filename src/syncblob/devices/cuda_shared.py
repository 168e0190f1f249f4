"""Memory that a CUDA device shares with the host, through CuPy's allocator of managed memory."""

from __future__ import annotations

from typing import Any

import numpy as np

# The attributes cudaDevAttrPageableMemoryAccessUsesHostPageTables, with which a device uses any
# memory of the host, and cudaDevAttrDirectManagedMemAccessFromHost.
_HOST_PAGE_TABLES, _DIRECT_ACCESS = 100, 101


class SharedMemory:
    """The memory that a device shares, if it `can`: if nothing has to migrate."""

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy = cupy
        self._index = index
        ask = cupy.cuda.runtime.deviceGetAttribute
        self._reads_host = bool(ask(_HOST_PAGE_TABLES, index))
        self.can: bool = self._reads_host or bool(ask(_DIRECT_ACCESS, index))
        self._pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)

    def allocate(self, nbytes: int, dtype: Any) -> Any:
        """Return a buffer of managed memory."""
        return self._cupy.ndarray((nbytes,), dtype, self._pool.malloc(nbytes))

    def on_the_other(self, buffer: Any) -> Any:
        """Return the bytes of a buffer for the other processor; None if it cannot use them."""
        cuda, of_host = self._cupy.cuda, isinstance(buffer, np.ndarray)
        base = buffer
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, _OnHost) and base.buffer.nbytes == buffer.nbytes:
            return base.buffer
        address = buffer.ctypes.data if of_host else buffer.data.ptr
        kind = cuda.runtime.pointerGetAttributes(address).type
        if kind != cuda.runtime.memoryTypeManaged and not (of_host and self._reads_host):
            return None
        if not of_host:
            return np.asarray(_OnHost(buffer))
        memory = cuda.UnownedMemory(address, buffer.nbytes, buffer, self._index)
        return self._cupy.ndarray((buffer.nbytes,), np.uint8, cuda.MemoryPointer(memory, 0))


class _OnHost:
    """What an ndarray over a buffer of the device keeps alive."""

    def __init__(self, buffer: Any) -> None:
        self.buffer: Any = buffer
        of_bytes = {"typestr": "|u1", "shape": (buffer.nbytes,), "version": 3}
        self.__array_interface__ = {**of_bytes, "data": (buffer.data.ptr, False)}
