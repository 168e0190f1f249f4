"""Blocks of ``multiprocessing.shared_memory`` as host buffers, which several processes have."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._forks import Lock
from syncblob.devices import Side
from syncblob.memory import SyncedMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.shared_memory import SharedMemory

    from syncblob.devices import Device

__all__ = ["attach", "create", "name_of"]

_patching = Lock()


class _Block:
    """What the arrays over a block keep alive: the block is closed when the last of them is gone.

    They are made from its ``__array_interface__``, and so have it as their base.
    """

    def __init__(self, shared: SharedMemory, nbytes: int, *, creator: bool) -> None:
        self.name = shared.name
        # Let go at once: while there is an array over it, it cannot be closed.
        self.start = np.frombuffer(shared.buf, np.uint8).ctypes.data  # type: ignore[arg-type]  # None where it is closed
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (self.start, False),
        }
        # At the end of the process arrays may be in use until the very last.
        weakref.finalize(self, shared.close).atexit = False
        if creator:
            weakref.finalize(self, _unlink, shared, os.getpid())


def create(name: str | None, nbytes: int, device: Device | str | None) -> SyncedMemory:
    """Make a memory whose host buffer is a new block, full of zeros.

    Parameters
    ----------
    name
        The name of the block; None for a new one.
    nbytes
        The capacity.
    device
        As for `SyncedMemory`.

    Raises
    ------
    FileExistsError
        If there is a block of that name.
    """
    from multiprocessing.shared_memory import SharedMemory

    try:
        # A block has at least one byte.
        shared = SharedMemory(name, create=True, size=max(nbytes, 1))
    except FileExistsError:
        raise FileExistsError(
            f"expected a new name, but there is shared memory named {name!r}; "
            "create=False attaches to it"
        ) from None
    return _memory_over(_Block(shared, nbytes, creator=True), device)


def attach(name: str, nbytes: int, device: Device | str | None) -> SyncedMemory:
    """Make a memory whose host buffer is an existing block.

    Raises
    ------
    FileNotFoundError
        If there is no block of that name.
    ValueError
        If it is smaller.
    """
    try:
        shared = _attached(name)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"expected shared memory named {name!r}, found none: it is removed with the Blob that "
            "made it; keep that Blob until all processes have attached"
        ) from None
    if shared.size < nbytes:
        size = shared.size
        shared.close()
        raise ValueError(
            f"expected shared memory of at least {nbytes} bytes, {name!r} has {size}; attach with "
            "the shape and the dtype it was made with"
        )
    return _memory_over(_Block(shared, nbytes, creator=False), device)


def name_of(memory: SyncedMemory) -> str | None:
    """Return the name of the block that is a memory's host buffer; None of a part, or no block."""
    buffer: Any = memory.buffer(Side.HOST)
    block: Any = buffer
    while isinstance(block, np.ndarray):
        block = block.base
    if not isinstance(block, _Block):
        return None
    return block.name if buffer.ctypes.data == block.start else None


def _memory_over(block: _Block, device: Device | str | None) -> SyncedMemory:
    memory = SyncedMemory.adopting(Side.HOST, np.asarray(block), device=device)
    memory.expose(Side.HOST, shared=True)
    return memory


def _attached(name: str) -> SharedMemory:
    """Attach without becoming responsible for the block, which stays its creator's."""
    attached = _attached_class()
    if sys.version_info >= (3, 13):
        return attached(name, track=False)
    with _untracked():
        return attached(name)


@cache
def _attached_class() -> type[SharedMemory]:
    from multiprocessing.shared_memory import SharedMemory

    class Attached(SharedMemory):
        def unlink(self) -> None:
            """Do nothing: the constructor would unlink the creator's block if mapping it fails."""

    return Attached


@contextmanager
def _untracked() -> Iterator[None]:
    """Keep what this thread attaches to from the resource tracker.

    Before Python 3.13 it is told of every block, and removes it from the system when the first
    process that attached has ended, even while the creator still uses it.
    """
    from multiprocessing import resource_tracker

    with _patching.held:
        thread = threading.get_ident()
        register = resource_tracker.register

        def of_other_threads(name: str, kind: str) -> None:
            if threading.get_ident() != thread:
                register(name, kind)

        resource_tracker.register = of_other_threads  # type: ignore[assignment]  # a bound method
        try:
            yield
        finally:
            resource_tracker.register = register


def _unlink(shared: SharedMemory, creator: int) -> None:
    """Take the name of a block from the system; a forked process leaves that to its parent."""
    if os.getpid() == creator:
        with suppress(FileNotFoundError):
            shared.unlink()
