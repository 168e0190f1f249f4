"""Counts of what a process holds: objects, memory, buffers of all devices, files, mappings."""

import gc
import os
import sys
import tracemalloc
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import syncblob
from syncblob._locks_lost_in_fork import _notified
from syncblob.devices import accelerators_in_use
from syncblob.devices.host import NumpyHome
from syncblob.memory import operations
from syncblob.transfers import followers, verify

_PROC = Path("/proc/self")


class Held(NamedTuple):
    """The counts at one moment."""

    objects: int
    blocks: int
    nbytes: int
    files: int
    mappings: int


def held():
    """Count after a garbage collection. `nbytes` is that of tracemalloc, if it is tracing."""
    # Without a GIL, one collection may free only what refers to the next.
    for _ in range(1 if getattr(sys, "_is_gil_enabled", lambda: True)() else 4):
        gc.collect()
    # References to what is gone are dropped now and then.
    lists = (
        _notified,
        followers,
        operations.keepers,
        *[home.residents for home in accelerators_in_use()],
    )
    for known in (*lists, verify._watches):
        known.living()
    has_proc = _PROC.is_dir()
    return Held(
        len(gc.get_objects()),
        sys.getallocatedblocks(),
        tracemalloc.get_traced_memory()[0],
        len(os.listdir(_PROC / "fd")) if has_proc else 0,  # noqa: PTH208  # a count
        (_PROC / "maps").read_bytes().count(b"\n") if has_proc else 0,
    )


def resident_nbytes():
    """Return the resident memory of the process; 0 if it is unknown."""
    if not _PROC.is_dir():
        return 0
    return int((_PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def watched_buffers():
    """Watch the buffers that are made inside a ``with`` block, on the host and on any device.

    Yields a function that returns how many were made, and how many of them are alive.
    """
    references = []
    allocate = NumpyHome.allocate

    def watched(home, nbytes, **keywords):
        buffer = allocate(home, nbytes, **keywords)
        # Every array over the buffer keeps the block that contains it.
        references.append(weakref.ref(buffer if buffer.base is None else buffer.base))
        return buffer

    def count():
        gc.collect()
        return len(references), sum(reference() is not None for reference in references)

    syncblob.simulated(0).synchronize()
    with mock.patch.object(NumpyHome, "allocate", watched):
        yield count
