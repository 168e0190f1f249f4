"""Injected failures: every allocation, transfer and use of a file can be made to fail once.

The simulated device has its own counters and failures. Host buffers, and the system functions for
files and shared memory, are wrapped.
"""

import errno
import io
import mmap
import os
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import syncblob
from syncblob.devices import HOST

MARK = "injected failure"
BACKEND = syncblob.simulated(0)

# Kinds of failures of the simulated device: the argument of `failing`, and the counters.
DEVICE_KINDS = {
    "allocation": ("allocations",),
    "host_allocation": ("host_allocations",),
    "transfer": ("uploads", "downloads"),
}

# Kinds of failures of the system. Files opened for writing may fill the disk.
_SYSTEM = [
    ("opening", os, "open"),
    ("flush", os, "fsync"),
    ("rename", os, "replace"),
    ("permissions", os, "chmod"),
    ("mapping", mmap, "mmap"),
    ("reading", os, "preadv" if hasattr(os, "preadv") else "read"),
]


class _Points:
    """Counts operations, and makes the requested one fail."""

    def __init__(self, kind="", number=0):
        self.counts = Counter()
        self._kind = kind
        self._number = number

    def passes(self, kind):
        """Count an operation; tell whether it may succeed."""
        self.counts[kind] += 1
        return kind != self._kind or self.counts[kind] != self._number

    def wrapped(self, kind, function):
        """Return a function that counts, and then calls or fails."""

        def call(*args, **keywords):
            if not self.passes(kind):
                raise _error(kind)
            return function(*args, **keywords)

        return call


class _FillingFile:
    """A file opened for writing. A write that fails has written half of its bytes."""

    def __init__(self, file, points):
        self._file = file
        self._points = points

    def write(self, content):
        if not self._points.passes("writing"):
            half = memoryview(content).cast("B")
            self._file.write(half[: len(half) // 2])
            raise OSError(errno.ENOSPC, f"{MARK}: the disk is full")
        return self._file.write(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def _error(kind):
    if kind == "host buffer":
        return MemoryError(f"{MARK} of a {kind}")
    return OSError(errno.EIO, f"{MARK} of {kind}")


@contextmanager
def _installed(points):
    opened = io.open

    def open_path(path, mode="r", *args, **keywords):
        file = opened(path, mode, *args, **keywords)
        is_written = "b" in mode and set(mode) & set("wax+")
        return _FillingFile(file, points) if is_written else file

    def open_method(path, mode="r", *args, **keywords):
        return open_path(path, mode, *args, **keywords)

    with ExitStack() as stack:
        allocate = points.wrapped("host buffer", HOST.allocate)
        stack.enter_context(mock.patch.object(HOST, "allocate", allocate, create=True))
        for kind, module, name in _SYSTEM:
            if hasattr(module, name):
                function = points.wrapped(kind, getattr(module, name))
                stack.enter_context(mock.patch.object(module, name, function))
        stack.enter_context(mock.patch.object(io, "open", open_path))
        stack.enter_context(mock.patch.object(Path, "open", open_method))
        yield


@contextmanager
def counting():
    """Count the operations inside a ``with`` block, by kind. Complete after the block."""
    points = _Points()
    BACKEND.synchronize()
    BACKEND.reset_counts()
    with _installed(points):
        yield points.counts
    BACKEND.synchronize()
    for kind, counters in DEVICE_KINDS.items():
        points.counts[kind] = sum(getattr(BACKEND, counter) for counter in counters)


@contextmanager
def failing(kind, number):
    """Make the operation of a kind with this number fail, once, inside a ``with`` block."""
    with ExitStack() as stack:
        if kind in DEVICE_KINDS:
            stack.enter_context(BACKEND.failing(**{kind: number}))
        else:
            stack.enter_context(_installed(_Points(kind, number)))
        yield


def was_injected(error):
    """Tell whether an exception is an injected one, or was caused by one."""
    while error is not None:
        if MARK in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
