"""Blocks of ``multiprocessing.shared_memory`` as host buffers, shared by several processes."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._layout import Layout
from syncblob._locks_lost_in_fork import Lock
from syncblob._source_lines import warn_user
from syncblob.devices import Device, Side
from syncblob.memory import CONST, SyncedMemory
from syncblob.memory.accesses import acquire, expose

if TYPE_CHECKING:
    from multiprocessing.shared_memory import SharedMemory

    from syncblob.memory.ledger import Ledger

_patching = Lock()


class _Block:
    """The object that arrays over a block keep alive; it closes the block after the last of them.

    The arrays are made from its ``__array_interface__``, so it is their base.
    """

    def __init__(self, shared: SharedMemory, nbytes: int, *, creator: bool) -> None:
        self.name = shared.name
        # A temporary array, because the block cannot be closed while an array over its buffer
        # exists.
        self.start = np.frombuffer(shared.buf, np.uint8).ctypes.data  # type: ignore[arg-type]  # None only if closed
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (self.start, False),
        }
        # At exit, arrays may be in use until the end of the process.
        weakref.finalize(self, shared.close).atexit = False
        if creator:
            weakref.finalize(self, _unlink, shared, os.getpid())


def create(name: str | None, nbytes: int, device: Device | str | None) -> SyncedMemory:
    """Make a memory whose host buffer is a new block, filled with zeros; None generates a name.

    Raises FileExistsError if there is a block with that name.
    """
    from multiprocessing.shared_memory import SharedMemory

    # A block has at least one byte.
    shared = SharedMemory(name, create=True, size=max(nbytes, 1))
    return _memory_over(_Block(shared, nbytes, creator=True), device)


def attach(name: str, nbytes: int, device: Device | str | None) -> SyncedMemory:
    """Make a memory whose host buffer is an existing block.

    Raises FileNotFoundError if there is no block with that name; ValueError if the block is smaller
    than `nbytes`.
    """
    try:
        shared = _attach_block(name)
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


def name_of(memory: Ledger) -> str | None:
    """Return the name of a memory's host block; None for a part of a block or other memory."""
    window: Any = memory.whole[Side.HOST]
    buffer = block = window and window.array
    while isinstance(block, np.ndarray):
        block = block.base
    if not isinstance(block, _Block):
        return None
    return block.name if buffer.ctypes.data == block.start else None


class _BlockMemory(SyncedMemory):
    """A memory over a block. As it ends, it brings there what is newer on a device."""

    __slots__ = ("creator",)

    # The process that made it; 0 once that is done. Absent if it was not made completely.
    creator: int

    def __del__(self) -> None:
        """Bring what this process has written on a device only."""
        creator, self.creator = getattr(self, "creator", 0), 0
        # What a forked process has on its device may be what its parent wrote, and brought since.
        if not creator or creator != os.getpid():
            return
        name, nbytes = name_of(self), self.nbytes
        if name is None or self.spans.common(0, nbytes) & 1 << Side.HOST:
            return
        try:
            with self.lock:
                # This may run within any code: the context is new, so that its guards do not apply.
                use = Side.HOST, CONST, Layout.raw(nbytes), "end of memory"
                Context().run(acquire, self, *use)
        except Exception as error:  # noqa: BLE001  # devices raise various errors
            warn_user(
                f"what this process has written on a device is lost to the shared memory {name!r}, "
                "whose last Blob here has ended, because of "
                f"{type(error).__name__}: {error}; read the Blob on the host before, as by "
                "numpy.asarray",
                RuntimeWarning,
            )


def _end(reference: weakref.ref[_BlockMemory]) -> None:
    memory = reference()
    if memory is not None:
        memory.__del__()


def _memory_over(block: _Block, device: Device | str | None) -> SyncedMemory:
    from multiprocessing.util import Finalize, register_after_fork

    memory = _BlockMemory.adopting(np.asarray(block), device=device)
    memory.creator = os.getpid()
    expose(memory, Side.HOST, shared=True)
    # Unlike `weakref.finalize`, this runs also at the end of processes that multiprocessing forks.
    # Such a process forgets what is registered when it starts, so we register again after that.
    register = partial(Finalize, callback=_end, args=(weakref.ref(memory),), exitpriority=0)
    register(memory)
    register_after_fork(memory, register)
    return memory


@cache
def _attached_type() -> type[SharedMemory]:
    """Make the type of an attached block, once: without a GIL, Python 3.13 frees no class."""
    from multiprocessing.shared_memory import SharedMemory

    class Attached(SharedMemory):
        def unlink(self) -> None:
            """No-op; otherwise the constructor would unlink the block if mapping it fails."""

    return Attached


def _attach_block(name: str) -> SharedMemory:
    """Attach without becoming responsible for unlinking the block."""
    if sys.version_info >= (3, 13):
        return _attached_type()(name, track=False)
    with _hide_from_tracker():
        return _attached_type()(name)


@contextmanager
def _hide_from_tracker() -> Iterator[None]:
    """Hide the blocks that this thread attaches to from the resource tracker.

    Before Python 3.13, attaching registers the block with the tracker, which unlinks it when the
    first attached process ends, even if the creator still uses it.
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
    """Unlink a block; a forked process leaves this to its parent."""
    if os.getpid() == creator:
        with suppress(FileNotFoundError):
            shared.unlink()
