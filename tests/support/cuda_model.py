"""A model of CUDA's streams, events, graphs and memory, for tests without a GPU.

There are two modes. A *lazy* device runs nothing by itself: an operation runs only when something
waits for it, and only in the order that streams and events require. So a missing wait shows as
stale contents. An *eager* device runs everything immediately, so work that must not overtake other
work does.

The memory of a device is ordinary memory, filled with poison when it is allocated and when it is
freed. Freed memory is reused immediately, even while queued work still uses it. Freeing memory that
is in no pool waits for the devices, as `cudaFree` and `cudaFreeHost` do. Forked processes share
page-locked memory, as the driver maps it.

The model follows the CUDA C++ Programming Guide and the documentation of the runtime: the legacy
default stream and the streams that are ordered with it, the calls that a capture forbids and those
that invalidate it. It has no concurrency of its own and no timing, and if CUDA allows several
behaviours, it has one of them. It can prove something about our use of streams, but not about CUDA.

`cupy_model` is CuPy on top of it.
"""

import ctypes
import itertools
import mmap
import threading
import time
import weakref
from collections import Counter
from contextlib import contextmanager

import numpy as np

POISON = 0xFF
# The addresses and the sizes of allocations are multiples of this.
GRANULE = 512

LEGACY, PER_THREAD = 1, 2
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
UNREGISTERED, HOST, DEVICE, MANAGED = range(4)
GLOBAL, THREAD_LOCAL, RELAXED = range(3)

INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, INVALID_HANDLE, NOT_PERMITTED = 1, 2, 101, 400, 800
UNSUPPORTED, INVALIDATED = 900, 901
UNJOINED, ISOLATION, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = range(904, 909)
ERRORS = {
    INVALID_VALUE: "cudaErrorInvalidValue: invalid argument",
    OUT_OF_MEMORY: "cudaErrorMemoryAllocation: out of memory",
    INVALID_DEVICE: "cudaErrorInvalidDevice: invalid device ordinal",
    INVALID_HANDLE: "cudaErrorInvalidResourceHandle: invalid resource handle",
    NOT_PERMITTED: "cudaErrorNotPermitted: operation not permitted",
    UNSUPPORTED: (
        "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
    ),
    INVALIDATED: (
        "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error during capture"
    ),
    UNJOINED: "cudaErrorStreamCaptureUnjoined: capturing stream has unjoined work",
    ISOLATION: (
        "cudaErrorStreamCaptureIsolation: dependency created on uncaptured work in another stream"
    ),
    IMPLICIT: (
        "cudaErrorStreamCaptureImplicit: operation would make the legacy stream depend on a "
        "capturing blocking stream"
    ),
    CAPTURED_EVENT: (
        "cudaErrorCapturedEvent: operation not permitted on an event last recorded in a capturing "
        "stream"
    ),
    WRONG_THREAD: (
        "cudaErrorStreamCaptureWrongThread: attempt to terminate a thread-local capture sequence "
        "from another thread"
    ),
}


class CUDARuntimeError(RuntimeError):
    """CuPy's exception."""

    def __init__(self, status):
        self.status = status
        super().__init__(ERRORS[status])


# --- work -----------------------------------------------------------------------------------------

# Threads queue, wait and free at the same time, and a thread that waits for a device runs the work
# of all its streams. Reentrant, because finalisers free memory anywhere.
_lock = threading.RLock()


class Work:
    """A queued operation, and the work that must run before it."""

    __slots__ = ("after", "at", "done", "run")

    def __init__(self, run, after):
        self.run = run
        self.after = after
        self.done = False
        # When it had run, in seconds.
        self.at = 0.0

    def finish(self):
        """Run it, after the work that it waits for and no other."""
        with _lock:
            stack = [self]
            while stack:
                work = stack[-1]
                first = [earlier for earlier in work.after if not earlier.done]
                if first and not work.done:
                    stack += first
                    continue
                stack.pop()
                if not work.done:
                    run, work.run, work.after, work.done = work.run, None, [], True
                    if run is not None:
                        run()
                    work.at = time.perf_counter()


class Capture:
    """A graph that is being captured, on one stream: this package joins none to it."""

    def __init__(self, mode):
        self.mode = mode
        self.thread = threading.get_ident()
        self.invalid = False
        self.nodes = []


class Stream:
    """A stream. `blocking` ones are ordered with the legacy stream of their device."""

    def __init__(self, machine, device, *, blocking, legacy):
        self.machine = machine
        self.device = device
        self.blocking = blocking
        self.legacy = legacy
        self.destroyed = False
        self.last = None
        self.capture = None

    def queue(self, run, *, after=()):
        """Append work, outside of any capture."""
        with _lock:
            work = Work(run, [*self.before(), *after])
            self.last = work
        if self.machine.eager:
            work.finish()
        return work

    def before(self):
        """Return the work that newly queued work runs after."""
        streams = [self]
        if self.legacy:
            streams += self.machine.blocking_streams(self.device)
        elif self.blocking:
            streams.append(self.machine.legacy[self.device])
        return [stream.last for stream in streams if stream.last and not stream.last.done]

    def add(self, run):
        """Queue work, or capture it."""
        self.check()
        if self.capture is None:
            return self.queue(run)
        self.capture.nodes.append(run)
        return None

    def check(self):
        """Raise if a capture forbids the operation."""
        if self.legacy:
            self.machine.check_legacy(self.device)
        if self.capture is not None and self.capture.invalid:
            raise CUDARuntimeError(INVALIDATED)

    def finish(self):
        """Wait for all queued work."""
        with _lock:
            for work in self.before():
                work.finish()
            if self.last is not None:
                self.last.finish()


class Event:
    """An event: the work, or the place in a capture, that was last recorded."""

    def __init__(self, device):
        self.device = device
        self.work = None
        self.capture = None


# --- memory ---------------------------------------------------------------------------------------


class Block:
    """Memory of a device, or page-locked host memory. It lives as long as references to it."""

    def __init__(self, nbytes, device, kind):
        self.nbytes = -(-nbytes // GRANULE) * GRANULE
        self.device = device
        self.kind = kind
        if kind == HOST:
            # The pages are shared with forked processes, as the driver maps them.
            pages = mmap.mmap(-1, -(-max(self.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE)
            self._storage = np.frombuffer(pages, np.uint8)
        else:
            self._storage = np.empty(self.nbytes + GRANULE, np.uint8)
        self.address = -(-self._storage.ctypes.data // GRANULE) * GRANULE
        self.poison()
        self.enter()

    def enter(self):
        """Add it to the table of blocks by address."""
        for place in range(self.nbytes // GRANULE):
            _blocks[self.address // GRANULE + place] = self

    def poison(self):
        ctypes.memset(self.address, POISON, self.nbytes)


# The blocks, by granules of the address.
_blocks = weakref.WeakValueDictionary()


def block_at(address, nbytes=1):
    """Return the block of an address. The range must lie in the block."""
    block = _blocks.get(address // GRANULE)
    if block is not None and address + nbytes > block.address + block.nbytes:
        raise CUDARuntimeError(INVALID_VALUE)
    return block


# --- the machine ----------------------------------------------------------------------------------

# Includes streams of past machines: CuPy objects may outlive the test that made them.
_streams = {}
_events = {}
_handles = itertools.count(0x10000)

FAILING = frozenset(
    """allocation pinned_allocation memcpyAsync memcpyPeerAsync memsetAsync eventCreate
    eventRecord eventQuery eventSynchronize streamWaitEvent streamSynchronize
    deviceSynchronize""".split()
)


class Machine:
    """A computer with some CUDA devices. The methods in camel case are the runtime's functions.

    `devices`: the number of devices.
    `eager`: Run work as soon as it is queued.
    `can_pin`: whether more host memory can be page-locked.
    `attributes`: those that devices have, by CUDA's numbers.
    `peers`, `enabled`: whether devices can access each other's memory, and the pairs that do.
    `calls`: how often functions that block the caller or wait for the device were called, by name.
    """

    def __init__(self, devices=2, *, eager=False):
        self.devices = devices
        self.eager = eager
        self.can_pin = True
        self.attributes = set()
        self.peers = True
        self.enabled = []
        self.calls = Counter()
        self.legacy = [
            Stream(self, device, blocking=False, legacy=True) for device in range(devices)
        ]
        self._streams = list(self.legacy)
        self._captures = []
        self._countdowns = {}
        self._threads = threading.local()
        # Freed memory, by the pool and the stream that can reuse it.
        self._free = {}

    # --- for tests ---

    @contextmanager
    def failing(self, **kth):
        """Make the k-th call of a kind fail, once, inside a ``with`` block; the first is 1.

        Allocations fail for lack of memory, other calls with an invalid handle. A failed call has
        no effect.
        """
        if set(kth) - FAILING or any(k < 1 for k in kth.values()):
            raise ValueError(f"expected {', '.join(sorted(FAILING))} with k >= 1, got {kth}")
        self._countdowns = dict(kth)
        try:
            yield
        finally:
            self._countdowns = {}

    def fails(self, kind):
        """Count down to a failure."""
        countdown = self._countdowns.pop(kind, 0)
        if countdown > 1:
            self._countdowns[kind] = countdown - 1
        return countdown == 1

    def fail(self, kind):
        if self.fails(kind):
            raise CUDARuntimeError(INVALID_HANDLE)

    def finish(self, *, latest_first=False):
        """Run all queued work, stream by stream."""
        for stream in list(self._streams)[:: -1 if latest_first else 1]:
            if stream.last is not None:
                stream.last.finish()

    @property
    def idle(self):
        """Whether nothing is queued."""
        return all(stream.last is None or stream.last.done for stream in self._streams)

    # --- existing streams ---

    def blocking_streams(self, device):
        return [stream for stream in self._streams if stream.blocking and stream.device == device]

    def stream(self, handle):
        self._refuse_callbacks()
        if handle in (0, LEGACY):
            return self.legacy[self.getDevice()]
        if handle == PER_THREAD:
            own = self._threads.__dict__.setdefault("streams", {})
            device = self.getDevice()
            if device not in own:
                own[device] = self._new_stream(device, blocking=True)
            return own[device]
        if handle not in _streams:
            raise CUDARuntimeError(INVALID_HANDLE)
        return _streams[handle]

    def streamCreateWithPriority(self, flags, priority):
        del priority
        stream = self._new_stream(self.getDevice(), blocking=not flags & 1)
        handle = next(_handles)
        _streams[handle] = stream
        return handle

    def _new_stream(self, device, *, blocking):
        stream = Stream(self, device, blocking=blocking, legacy=False)
        with _lock:
            there = [s for s in self._streams if not (s.destroyed and _idle(s))]
            self._streams = [*there, stream]
        return stream

    def streamDestroy(self, stream):
        found = _streams.pop(stream, None)
        if found is not None:
            # Queued work still runs.
            found.destroyed = True

    # --- what a capture forbids ---

    def _invalidate(self, captures, status):
        if captures:
            for capture in captures:
                capture.invalid = True
            raise CUDARuntimeError(status)

    def check_legacy(self, device):
        """Raise if a stream that is ordered with the legacy stream is being captured."""
        self._invalidate(self._captures_of_blocking(device), IMPLICIT)

    def _captures_of_blocking(self, device):
        return [s.capture for s in self.blocking_streams(device) if s.capture is not None]

    def check_unsafe(self):
        """Raise for calls that may wait for work, if the mode of a capture forbids them."""
        self._refuse_callbacks()
        here = threading.get_ident()
        mode = getattr(self._threads, "capture_mode", GLOBAL)
        self._invalidate(
            [
                capture
                for capture in self._captures
                if mode != RELAXED
                and (
                    (capture.mode == GLOBAL and mode == GLOBAL)
                    or (capture.mode != RELAXED and capture.thread == here)
                )
            ],
            UNSUPPORTED,
        )

    def threadExchangeStreamCaptureMode(self, mode):
        """Set what captures may forbid the calling thread; return what they could before."""
        before = getattr(self._threads, "capture_mode", GLOBAL)
        self._threads.capture_mode = mode
        return before

    # --- host callbacks ---

    def launch_host(self, stream, function):
        """Queue a host function, which must not call CUDA."""

        def run():
            self._threads.in_callback = True
            try:
                function()
            finally:
                self._threads.in_callback = False

        self.stream(stream).add(run)

    def _refuse_callbacks(self):
        if getattr(self._threads, "in_callback", False):
            raise CUDARuntimeError(NOT_PERMITTED)

    # --- devices ---

    def getDeviceCount(self):
        return self.devices

    def getDevice(self):
        return getattr(self._threads, "device", 0)

    def setDevice(self, device):
        if not 0 <= device < self.devices:
            raise CUDARuntimeError(INVALID_DEVICE)
        self._threads.device = device

    def deviceSynchronize(self):
        self.calls["deviceSynchronize"] += 1
        self.check_unsafe()
        device = self.getDevice()
        streams = [stream for stream in self._streams if stream.device == device]
        self._invalidate([s.capture for s in streams if s.capture is not None], UNSUPPORTED)
        self.fail("deviceSynchronize")
        for stream in streams:
            stream.finish()

    # --- streams and events ---

    def _waitable(self, handle):
        self.check_unsafe()
        stream = self.stream(handle)
        stream.check()
        if stream.capture is not None:
            self._invalidate([stream.capture], UNSUPPORTED)
        return stream

    def streamSynchronize(self, stream):
        found = self._waitable(stream)
        self.fail("streamSynchronize")
        found.finish()

    def streamQuery(self, stream):
        found = self._waitable(stream)
        return 0 if not found.before() and _idle(found) else 600

    def streamWaitEvent(self, stream, event, flags=0):
        del flags
        waiting, awaited = self.stream(stream), self._event(event)
        waiting.check()
        self.fail("streamWaitEvent")
        if awaited.capture is not None and awaited.capture is not waiting.capture:
            self._invalidate([awaited.capture], UNJOINED)
        elif awaited.work is not None:
            if waiting.capture is not None:
                self._invalidate([waiting.capture], ISOLATION)
            waiting.queue(None, after=(awaited.work,))

    def eventCreateWithFlags(self, flags):
        del flags
        self.fail("eventCreate")
        handle = next(_handles)
        _events[handle] = Event(self.getDevice())
        return handle

    def eventDestroy(self, event):
        _events.pop(event, None)

    def _event(self, handle):
        if handle not in _events:
            raise CUDARuntimeError(INVALID_HANDLE)
        return _events[handle]

    def eventRecord(self, event, stream):
        recorded, on = self._event(event), self.stream(stream)
        if recorded.device != on.device:
            raise CUDARuntimeError(INVALID_HANDLE)
        on.check()
        self.fail("eventRecord")
        recorded.work = on.add(None)
        recorded.capture = on.capture

    def _recorded(self, event):
        self.check_unsafe()
        recorded = self._event(event)
        if recorded.capture is not None:
            self._invalidate([recorded.capture], CAPTURED_EVENT)
        return recorded.work

    def eventQuery(self, event):
        work = self._recorded(event)
        self.fail("eventQuery")
        # Work counts as done while it runs, which is under the lock.
        with _lock:
            return 0 if work is None or work.done else 600

    def eventSynchronize(self, event):
        work = self._recorded(event)
        self.fail("eventSynchronize")
        if work is not None:
            work.finish()

    def eventElapsedTime(self, start, end):
        works = [self._recorded(event) for event in (start, end)]
        if any(work is None or not work.done for work in works):
            raise CUDARuntimeError(INVALID_HANDLE)
        first, last = (work.at for work in works if work is not None)
        return (last - first) * 1e3

    # --- graphs ---

    def streamBeginCapture(self, stream, mode=RELAXED):
        found = self.stream(stream)
        if found.legacy or found.capture is not None:
            raise CUDARuntimeError(UNSUPPORTED)
        found.capture = Capture(mode)
        self._captures.append(found.capture)

    def streamEndCapture(self, stream):
        found = self.stream(stream)
        capture = found.capture
        if capture is None:
            raise CUDARuntimeError(INVALID_VALUE)
        if capture.mode != RELAXED and capture.thread != threading.get_ident():
            raise CUDARuntimeError(WRONG_THREAD)
        self._captures.remove(capture)
        found.capture = None
        if capture.invalid:
            raise CUDARuntimeError(INVALIDATED)
        return capture.nodes

    def deviceGetAttribute(self, attrib, device):
        del device
        return int(attrib in self.attributes)

    def streamIsCapturing(self, stream):
        found = self.stream(stream)
        # Unlike other calls, this one is allowed and invalidates nothing.
        if found.legacy and self._captures_of_blocking(found.device):
            raise CUDARuntimeError(IMPLICIT)
        if found.capture is not None and found.capture.invalid:
            raise RuntimeError(
                "the stream was capturing, but an error has invalidated the capture sequence"
            )
        return found.capture is not None

    def graphLaunch(self, graph, stream):
        on = self.stream(stream)
        on.check()
        if on.capture is not None:
            self._invalidate([on.capture], UNSUPPORTED)
        for run in graph:
            on.queue(run)

    # --- kernels and copies ---

    def launch(self, stream, kernel):
        """Queue a kernel: a function that reads and writes memory when it runs."""
        on = self.stream(stream)
        if on.device != self.getDevice():
            raise CUDARuntimeError(INVALID_HANDLE)
        on.add(kernel)

    def _copying(self, dst, src, size, kind):
        """Return the objects that keep the memory of a copy alive, and the kind of host memory."""
        to, of = block_at(dst, size), block_at(src, size)
        # Managed memory is that of both.
        managed = [block is not None and block.kind == MANAGED for block in (to, of)]
        on_device = [block is not None and block.kind == DEVICE for block in (to, of)]
        wanted = kind in (TO_DEVICE, ON_DEVICE), kind in (TO_HOST, ON_DEVICE)
        if any(not m and d != w for m, d, w in zip(managed, on_device, wanted, strict=True)):
            raise CUDARuntimeError(INVALID_VALUE)
        host = of if kind == TO_DEVICE else to
        return (to, of), UNREGISTERED if host is None else host.kind

    def memcpyAsync(self, dst, src, size, kind, stream):
        on = self.stream(stream)
        on.check()
        self.fail("memcpyAsync")
        if not size:
            return
        kept, host = self._copying(dst, src, size, kind)
        staged = host == UNREGISTERED and on.capture is None
        if staged and kind == TO_DEVICE:
            # Pageable memory is read before the call returns.
            contents = ctypes.string_at(src, size)
            on.add(lambda: (kept, ctypes.memmove(dst, contents, size)))
            return
        work = on.add(lambda: (kept, ctypes.memmove(dst, src, size)))
        if staged and kind == TO_HOST and work is not None:
            # Pageable memory is written before the call returns.
            work.finish()

    def deviceEnablePeerAccess(self, peerDevice):
        pair = self.getDevice(), peerDevice
        if not self.peers or pair in self.enabled:
            raise CUDARuntimeError(INVALID_VALUE)
        self.enabled.append(pair)

    def memcpyPeerAsync(self, dst, dstDevice, src, srcDevice, size, stream):
        on = self.stream(stream)
        on.check()
        self.fail("memcpyPeerAsync")
        if size:
            kept = block_at(dst, size), block_at(src, size)
            if [None if one is None else one.device for one in kept] != [dstDevice, srcDevice]:
                raise CUDARuntimeError(INVALID_VALUE)
            on.add(lambda: (kept, ctypes.memmove(dst, src, size)))

    def memsetAsync(self, ptr, value, size, stream):
        on = self.stream(stream)
        on.check()
        self.fail("memsetAsync")
        if size:
            kept = block_at(ptr, size)
            if kept is None:
                raise CUDARuntimeError(INVALID_VALUE)
            on.add(lambda: (kept, ctypes.memset(ptr, value, size)))

    # --- memory ---

    def allocate(self, nbytes, kind, *, pool):
        """Return memory of the current device, from a pool or new, and where to return it to."""
        host = kind == HOST
        if self.fails("pinned_allocation" if host else "allocation"):
            raise CUDARuntimeError(OUT_OF_MEMORY)
        size = -(-nbytes // GRANULE) * GRANULE
        device = -1 if host else self.getDevice()
        home = (pool, device, kind, size)
        # Memory from a pool is locked already.
        locked = not host or self.can_pin or bool(pool)
        with _lock:
            free = self._free.get(home)
            if free and locked:
                return free.pop(), home
        if host and not self.can_pin:
            raise CUDARuntimeError(OUT_OF_MEMORY)
        self.check_unsafe()
        self.calls["hostAlloc" if host else "malloc"] += 1
        return Block(size, device, kind), home

    def free(self, block, home):
        """Free memory that is in no pool: waits for all work, and a capture may forbid it."""
        self.check_unsafe()
        self.calls["freeHost" if block.kind == HOST else "free"] += 1
        self.finish()
        self.give_back(block, home, None)

    def give_back(self, block, home, stream):
        """Return memory to a pool, which may reuse it, poisoned, after the work of its stream."""
        with _lock:
            if stream is None or stream.last is None or stream.last.done:
                block.poison()
            else:
                stream.last = Work(block.poison, [stream.last])
            # The garbage collector clears weak references before it runs the finaliser that
            # returns the memory.
            block.enter()
            self._free.setdefault(home, []).append(block)

    def memGetInfo(self):
        """Return the free and the total memory of the current device."""
        return 1 << 30, 80 << 30

    def has_free(self, nbytes, pool, kind):
        """Return whether a pool has free memory of a size on the current device."""
        size = -(-nbytes // GRANULE) * GRANULE
        with _lock:
            return bool(self._free.get((pool, self.getDevice(), kind, size)))

    def free_bytes(self, pool):
        """Return the size of the free memory of a pool on the current device."""
        with _lock:
            return sum(
                size * len(free)
                for (of, device, _, size), free in self._free.items()
                if isinstance(of, tuple) and of[0] is pool and device == self.getDevice()
            )

    def forget_free(self):
        """Discard the free memory of all pools."""
        with _lock:
            self._free.clear()


def _idle(stream):
    return stream.last is None or stream.last.done
