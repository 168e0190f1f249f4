"""Page-locked host memory that is kept and reused: locking and unlocking wait for the device."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections import Counter, defaultdict, deque
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._locks_lost_in_fork import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from syncblob.devices.cuda_streams import Order

# At most this many bytes of free memory are kept.
MOST_KEPT = 1 << 30

# As many blocks of a size are dropped before the device is waited for, to use them again.
_TOGETHER = 8

# MAP_FIXED of mmap(2) on Linux, which Python does not have.
_MAP_FIXED = 0x10


@lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Return the size of the blocks for buffers of a size: at most an eighth more, or 512 bytes.

    Cached: programs have few sizes.
    """
    # Small sizes are multiples of 512, as in CuPy's pool.
    step = 1 << max(nbytes.bit_length() - 4, 9)
    return -(-nbytes // step) * step


class _Block(weakref.ref[Any]):
    """A reference to the array under all arrays over a block, with the memory of the block."""

    memory: Any


class PageLocked:
    """An allocator of page-locked memory.

    Another library may still copy from or to a block that is dropped, on any stream. So it is used
    again once the device was waited for. That is done for several blocks together. Blocks are given
    back to CUDA if more than `MOST_KEPT` bytes are free, or CUDA has no memory left. `allocate` may
    be called at any time, the other methods where captures forbid nothing; see `Order.calls`.

    `lock` locks a number of bytes, and returns an object with `ptr` and `size`.
    """

    def __init__(self, lock: Callable[[int], Any], order: Order) -> None:
        self._lock_memory = lock
        self._order = order
        # By address, and the free ones by size. The end of a block calls nothing of ours or CUDA's.
        self._blocks: dict[int, _Block] = {}
        self._free: defaultdict[int, deque[_Block]] = defaultdict(deque)
        # How many of each size, the first, were dropped before the device was last waited for.
        self._usable: Counter[int] = Counter()
        # The bytes of all blocks.
        self.nbytes: int = 0
        self._lock = Lock()

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a buffer of at least one byte.

        Raises whatever locking memory raises, after all free memory has been given back.
        """
        size, memory = size_class(nbytes), None
        with self._lock.held:
            if not self._usable[size]:
                with self._order.calls():
                    memory = self._new_memory(size)
            if memory is None:
                self._usable[size] -= 1
                memory = self._free[size].popleft().memory
            # The last array over it drops this.
            array: Any = (ctypes.c_uint8 * size).from_address(memory.ptr)
            block = self._blocks[memory.ptr] = _Block(array, self._free[size].append)
            block.memory = memory
        return np.frombuffer(array, dtype=np.uint8, count=nbytes)

    def _new_memory(self, size: int) -> Any:
        """Return new memory of a size; None if the device was waited for, to use free memory."""
        self._order.drop_finished()
        self.give_back(MOST_KEPT)
        # Counted first: arrays may end during the wait.
        dropped = Counter({each: len(free) for each, free in self._free.copy().items()})
        if dropped[size] >= _TOGETHER:
            # Beside a capture, more memory is locked.
            with suppress(RuntimeError):
                self._order.synchronize()
                self._usable = dropped
                return None
        try:
            memory = self._lock_memory(size)
        except Exception:
            if not self.give_back():
                raise
            memory = self._lock_memory(size)
        self.nbytes += size
        return memory

    def give_back(self, most: int = 0) -> bool:
        """Give free memory back to CUDA, which waits, if it is more than `most`; return whether."""
        with self._lock.held:
            found = self._free.copy().items()
            if sum([size * len(free) for size, free in found]) <= most:
                return False
            self._usable.clear()
            for size, free in found:
                while free:
                    self.nbytes -= size
                    del self._blocks[free.popleft().memory.ptr]
        return True

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
