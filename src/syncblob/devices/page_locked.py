"""Page-locked host memory that is kept and reused: locking and unlocking wait for the device."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._locks_lost_in_fork import Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

# At most this many bytes of free memory are kept.
MOST_KEPT = 1 << 30

# As many blocks of a size are dropped before the device is waited for, to use them again.
_TOGETHER = 8

# The sizes of small blocks are multiples of this, as in CuPy's pool.
_UNIT = 512
# A forked child copies its pages in pieces of this size.
_PIECE = 1 << 24

# MAP_FIXED of mmap(2) on Linux, which Python does not have, and memory that a forked child keeps,
# because it cannot call CUDA to free it.
_MAP_FIXED = 0x10
_never_freed: list[Any] = []


def size_class(nbytes: int) -> int:
    """Return the size of the blocks for buffers of a size: at most an eighth more, or 512 bytes."""
    step = max(_UNIT, 1 << max(nbytes.bit_length() - 4, 0))
    return -(-nbytes // step) * step


class PageLocked:
    """An allocator of page-locked memory.

    Another library may still copy from or to a block that is dropped, on any stream. So it is used
    again once the device was waited for. That is done for several blocks together. Blocks are given
    back to CUDA if more than `MOST_KEPT` bytes are free, if CUDA has no memory left, and at exit.
    Call the methods outside of captures only. Dropping a block calls nothing of CUDA's.

    Parameters
    ----------
    lock
        Locks memory: takes a number of bytes, and returns an object with `ptr`.
    synchronize
        Waits for the device; raises a RuntimeError beside a capture.
    """

    def __init__(self, lock: Callable[[int], Any], synchronize: Callable[[], None]) -> None:
        self._lock_memory = lock
        self._synchronize = synchronize
        # Finalisers, which run anywhere, append to this.
        self._dropped: deque[tuple[int, Any]] = deque()
        self._free: dict[int, list[Any]] = {}
        # The sizes of all blocks, by address.
        self._sizes: dict[int, int] = {}
        self._lock = Lock()
        self._stores = self._dropped, self._free
        self._end = weakref.finalize(self, _clear, self._stores)

    @property
    def kept(self) -> int:
        """The bytes of the blocks that were dropped."""
        free = sum(size * len(blocks) for size, blocks in list(self._free.items()))
        return free + sum(block[0] for block in list(self._dropped))

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a buffer of `nbytes` bytes, at least one.

        Raises whatever locking memory raises, after all free memory has been given back.
        """
        size = size_class(nbytes)
        with self._lock.held:
            free = self._free.setdefault(size, [])
            if not free and [each for each, _ in list(self._dropped)].count(size) >= _TOGETHER:
                self._collect()
            memory = free.pop() if free else None
        if memory is None:
            try:
                memory = self._lock_memory(size)
            except Exception:
                if not self.give_back():
                    raise
                memory = self._lock_memory(size)
            self._sizes[memory.ptr] = size
        block: Any = (ctypes.c_uint8 * size).from_address(memory.ptr)
        # The last array over it drops this.
        block.owner = _Owner(self._dropped, size, memory)
        return np.frombuffer(block, dtype=np.uint8, count=nbytes)

    def _collect(self) -> None:
        """Wait for the device, and let the blocks be used again that were dropped before."""
        # Counted first: finalisers may append more meanwhile.
        count = len(self._dropped)
        # Beside a capture, more memory is locked.
        with suppress(RuntimeError):
            self._synchronize()
            for _ in range(count):
                size, memory = self._dropped.popleft()
                self._free.setdefault(size, []).append(memory)

    def trim(self) -> None:
        """Give all free memory back if it is too much."""
        if self._dropped and self.kept > MOST_KEPT:
            self.give_back()

    def give_back(self) -> bool:
        """Give all free memory back to CUDA, which waits for the device; return whether any was."""
        with self._lock.held:
            given = [memory for free in self._free.values() for memory in free]
            # One by one, because finalisers append on other threads.
            given += [self._dropped.popleft()[1] for _ in range(len(self._dropped))]
            for memory in given:
                self._sizes.pop(memory.ptr, None)
            _clear(self._stores)
        return bool(given)

    def after_fork(self) -> None:
        """Make the memory private in a forked child; it would write into its parent's."""
        self._end.detach()
        _never_freed.extend(self._stores)
        make_private((address, address + size) for address, size in self._sizes.items())


class _Owner:
    """Belongs to the arrays over a block; its end is theirs."""

    __slots__ = ("_block", "_dropped")

    def __init__(self, dropped: deque[tuple[int, Any]], size: int, memory: Any) -> None:
        self._dropped = dropped
        self._block = (size, memory)

    def __del__(self) -> None:
        self._dropped.append(self._block)


def _clear(stores: Iterable[Any]) -> None:
    for store in stores:
        store.clear()


def make_private(ranges: Iterable[tuple[int, int]]) -> None:
    """Replace the pages of address ranges by private copies at the same addresses.

    The driver maps page-locked memory shared, so that a forked child would write into the memory of
    its parent. All arrays over it stay valid. What the parent writes while this runs may be copied.

    Raises
    ------
    OSError
        If the pages cannot be replaced.
    """
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    page = mmap.PAGESIZE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    end = 0
    for start, stop in sorted(ranges):
        # Small blocks may share a page.
        at, end = max(start // page * page, end), max(-(-stop // page) * page, end)
        for piece in range(at, end, _PIECE):
            nbytes = min(_PIECE, end - piece)
            contents = ctypes.string_at(piece, nbytes)
            found = library.mmap(piece, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
            if found != piece:
                raise OSError(ctypes.get_errno(), "page-locked memory cannot be made private")
            ctypes.memmove(piece, contents, nbytes)
