"""Page-locked host memory that is kept and reused: locking and unlocking wait for the device."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections import deque
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._locks_lost_in_fork import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# At most this many bytes of free memory are kept.
MOST_KEPT = 1 << 30

# As many blocks of a size are dropped before the device is waited for, to use them again.
_TOGETHER = 8

# The sizes of small blocks are multiples of this, as in CuPy's pool.
_UNIT = 512
# MAP_FIXED of mmap(2) on Linux, which Python does not have.
_MAP_FIXED = 0x10


@lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Return the size of the blocks for buffers of a size: at most an eighth more, or 512 bytes.

    Cached: programs have few sizes.
    """
    step = max(_UNIT, 1 << max(nbytes.bit_length() - 4, 0))
    return -(-nbytes // step) * step


class _Block(weakref.ref[Any]):
    """A reference to the array under all arrays over a block, with the memory of the block."""

    __slots__ = ("memory",)

    memory: Any


class PageLocked:
    """An allocator of page-locked memory.

    Another library may still copy from or to a block that is dropped, on any stream. So it is used
    again once the device was waited for. That is done for several blocks together. Blocks are given
    back to CUDA if more than `MOST_KEPT` bytes are free, or CUDA has no memory left. `take` may be
    called at any time, the other methods where captures forbid nothing; see `Order.calls`.

    `lock` locks a number of bytes, and returns an object with `ptr` and `size`. `synchronize` waits
    for the device; it raises a RuntimeError beside a capture.
    """

    def __init__(self, lock: Callable[[int], Any], synchronize: Callable[[], None]) -> None:
        self._lock_memory = lock
        self._synchronize = synchronize
        # The blocks that are in use or dropped, by address; those that are dropped; and the memory
        # of those that may be used, by size. The end of a block calls nothing of ours or CUDA's.
        self._blocks: dict[int, _Block] = {}
        self._dropped: deque[_Block] = deque()
        self._free: dict[int, list[Any]] = {}
        # The bytes of all blocks.
        self.nbytes: int = 0
        self._lock = Lock()

    def take(self, nbytes: int) -> NDArray[np.uint8] | None:
        """Return a buffer of `nbytes` bytes, at least one, if there is a block; else None."""
        size = size_class(nbytes)
        with self._lock.held:
            free = self._free.get(size)
            if not free:
                return None
            memory = free.pop()
            # The last array over it drops this.
            array: Any = (ctypes.c_uint8 * size).from_address(memory.ptr)
            block = _Block(array, self._dropped.append)
            block.memory = memory
            self._blocks[memory.ptr] = block
        return np.frombuffer(array, dtype=np.uint8, count=nbytes)

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a buffer as `take` does, of new memory if there is no block.

        Raises whatever locking memory raises, after all free memory has been given back.
        """
        size = size_class(nbytes)
        with self._lock.held:
            self.trim()
            # Counted first: arrays may end during the wait.
            dropped = [each.memory.size for each in list(self._dropped)]
            if not self._free.get(size) and dropped.count(size) >= _TOGETHER:
                # Beside a capture, more memory is locked.
                with suppress(RuntimeError):
                    self._synchronize()
                    self._reuse(len(dropped))
            while (buffer := self.take(nbytes)) is None:
                try:
                    memory = self._lock_memory(size)
                except Exception:
                    if not self.give_back():
                        raise
                else:
                    self._free.setdefault(size, []).append(memory)
                    self.nbytes += size
        return buffer

    def _reuse(self, count: int) -> None:
        """Let the blocks be used again that were dropped first."""
        for _ in range(count):
            memory = self._dropped.popleft().memory
            self._free.setdefault(memory.size, []).append(memory)

    def trim(self) -> None:
        """Give all free memory back if it is too much."""
        free = sum([size * len(blocks) for size, blocks in list(self._free.items())])
        if free + sum([block.memory.size for block in list(self._dropped)]) > MOST_KEPT:
            self.give_back()

    def give_back(self) -> bool:
        """Give all free memory back to CUDA, which waits for the device; return whether any was."""
        with self._lock.held:
            self._reuse(len(self._dropped))
            given, self._free = self._free, {}
            for size, memories in given.items():
                self.nbytes -= size * len(memories)
                for memory in memories:
                    self._blocks.pop(memory.ptr, None)
            return any(given.values())

    def after_fork(self) -> None:
        """Replace the memory in a forked child by private copies at the same addresses.

        The driver maps it shared, so that the child would write into the memory of its parent. What
        the parent writes while this runs may be copied. Raises an OSError if pages cannot be
        replaced.
        """
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
        for start, block in self._blocks.items():
            # Small blocks may share a page, which is copied for each.
            first = start // mmap.PAGESIZE * mmap.PAGESIZE
            nbytes = -(-(start + block.memory.size - first) // mmap.PAGESIZE) * mmap.PAGESIZE
            contents = ctypes.string_at(first, nbytes)
            found = library.mmap(first, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
            if found != first:
                raise OSError(ctypes.get_errno(), "page-locked memory cannot be made private")
            ctypes.memmove(first, contents, nbytes)
