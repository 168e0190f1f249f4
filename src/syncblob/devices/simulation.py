"""The simulated device: ordinary memory that behaves like a discrete accelerator.

Its memory is separate from the host's and poisoned on allocation, so that a missing copy shows as
NaN. Allocations and transfers are counted, and can be made to fail. Large asynchronous copies, and
those with a delay, run on another thread, so that a missing wait shows as poison, too. NumPy is its
array library.

It can also share the memory of the host. With a delay, computations run later then: what they write
appears when they have run, and is poison if their operands were written meanwhile.
"""

from __future__ import annotations

import _thread
import math
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import index
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from syncblob._formatting import human_bytes
from syncblob._layout import is_dummy
from syncblob._locks_lost_in_fork import Lock
from syncblob._weak_list import Reference, WeakList
from syncblob.devices.base import DLPACK_CPU, ENDING, NEEDED, Accelerator, Push, make_calls
from syncblob.devices.device import Device
from syncblob.devices.host import NumpyHome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob._layout import Layout
    from syncblob.devices.base import Moment

# All bits set: NaN in every floating-point type, -1 or the largest value in integers.
POISON = 0xFF

# The most bytes that are copied in less time than another thread needs to begin.
_AT_ONCE = 1 << 20

_COUNTERS = (
    *("allocations", "host_allocations", "uploads", "downloads", "peer_copies"),
    *("uploaded_bytes", "downloaded_bytes", "peer_bytes"),
)
_FAILING = ("allocation", "host_allocation", "transfer")


def _shortage(message: str, nbytes: int) -> MemoryError:
    """Return an error. A frame that raised it by a name would keep its objects alive."""
    error = MemoryError(message)
    vars(error)[NEEDED] = nbytes
    return error


def _copy_and_count(count: str, nbytes: str) -> Any:
    """Return a method that copies and counts, after the computations in shared memory.

    Work of a stream tells after which, because it would wait for ever for what comes behind it.
    """

    def copy(
        self: SimulatedBackend,
        source: NDArray[np.uint8],
        target: NDArray[np.uint8],
        *after: Push | None,
    ) -> None:
        for work in after or (self.last_computation,):
            if work is not None:
                work.wait()
        with self._lock.held:
            if self._countdowns:
                self._count_down("transfer")
            counts = vars(self)
            counts[count] += 1
            counts[nbytes] += source.nbytes
        target[:] = source

    return copy


class SimulatedBackend(NumpyHome, Accelerator):
    """One simulated accelerator.

    Attributes
    ----------
    allocations, host_allocations
        Buffers allocated on the device, and on the host for it.
    uploads, downloads, uploaded_bytes, downloaded_bytes
        Transfers made; asynchronous ones count when they have run.
    peer_copies, peer_bytes
        Copies from other simulated devices.
    delay
        The seconds that an asynchronous upload waits before it copies. In shared memory, those
        after which computations write their results.
    capacity
        The bytes that the device has; None if it never runs out. Results of computations count,
        their temporary arrays do not. An allocation beyond it raises MemoryError.
    """

    allocations: int
    host_allocations: int
    uploads: int
    downloads: int
    peer_copies: int
    uploaded_bytes: int
    downloaded_bytes: int
    peer_bytes: int
    can_share = True
    # Memory that the host can read; the host itself has id 0.
    dlpack_device: tuple[int, int] = (DLPACK_CPU, 1)

    def __init__(self, number: int) -> None:
        self.device: Device = Device(f"simulated:{number}")
        self.dlpack_device = (DLPACK_CPU, number + 1)
        self.delay: float = 0.0
        # The last computation in shared memory.
        self.last_computation: Push | None = None
        self._capacity: int | None = None
        self._limit: int | None = None
        # The buffers and results that are alive. Entries vanish at any time, on any thread.
        self._blocks: set[_Block] = set()
        self._discard = self._blocks.discard
        # A signal handler may run on the thread that holds it.
        self._lock = Lock()
        # By the id of a buffer: an array that refers to it, and that all arrays over it refer to.
        self._roots: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._countdowns: dict[str, int] = {}
        self._default_stream: SimulatedStream | None = None
        self._streams = WeakList()
        self.reset_counts()

    def share_memory(self, *, shared: bool) -> None:
        self.finish(None)
        super().share_memory(shared=shared)
        self._update_bounds()

    @property
    def capacity(self) -> int | None:
        """See `SimulatedBackend`."""
        return self._capacity

    @capacity.setter
    def capacity(self, nbytes: int | None) -> None:
        if nbytes is not None and index(nbytes) < 0:
            raise ValueError(f"expected a number of bytes, at least 0, or None, got {nbytes}")
        self._capacity = nbytes
        self._update_bounds()

    def limit_memory(self, nbytes: int | None) -> int | None:
        """Let allocations fail that would pass a number of bytes, as beyond `capacity`."""
        before, self._limit = self._limit, nbytes
        self._update_bounds()
        return before

    def _update_bounds(self) -> None:
        self.bounded: bool = self.shared or (self._capacity, self._limit) != (None, None)
        # Results count, and are late in shared memory, only if `compute` makes them.
        self.plain: bool = self.native and not self.bounded

    @property
    def used_nbytes(self) -> int:
        """The bytes of the buffers that are alive; with a capacity or limit, of results, too."""
        return sum(block.nbytes for block in list(self._blocks))

    def reset_counts(self) -> None:
        """Set all counters to zero."""
        for name in _COUNTERS:
            setattr(self, name, 0)

    @contextmanager
    def failing(self, **kth: int) -> Iterator[None]:
        """Make the k-th operation of a kind fail, once, inside a ``with`` block.

        Parameters
        ----------
        **kth
            ``allocation=k``, ``host_allocation=k``, ``transfer=k``; the first is 1. Allocations
            fail with MemoryError, transfers with RuntimeError, both before any change.
        """
        unknown = set(kth) - set(_FAILING)
        if unknown or any(k < 1 for k in kth.values()):
            raise ValueError(f"expected {', '.join(_FAILING)} with k >= 1, got {kth}")
        with self._lock.held:
            self._countdowns = dict(kth)
        try:
            yield
        finally:
            with self._lock.held:
                self._countdowns = {}

    def stream(self, *, delay: float | None = None) -> SimulatedStream:
        """Make a stream for asynchronous uploads, with its own thread."""
        stream = SimulatedStream(self, delay)
        self._streams.add(stream)
        return stream

    # --- the interface of backends ---------------------------------------------------------------

    def allocate(
        self, nbytes: int, *, zeroed: bool = False, alignment: int = 0
    ) -> NDArray[np.uint8]:
        with self._lock.held:
            self._count_down("allocation")
            self.allocations += 1
        if self.bounded:
            self._require_room(nbytes)
        buffer = super().allocate(nbytes, zeroed=zeroed, alignment=alignment)
        # The base is the array that owns the memory.
        self._charge(buffer if buffer.base is None else buffer.base, nbytes)
        if not zeroed:
            buffer.fill(POISON)
        return buffer

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call the function. With a capacity or limit, count the arrays that it returns, if new."""
        call = partial(super().compute, function, *args, **keywords)
        late = self.shared and self.delay
        result = self._compute_late(call, (args, keywords)) if late else call()
        if self.bounded:
            # One that the device adopted is not new either: an operand that was written.
            out = keywords.get("out")
            operands = (*args, *(out if isinstance(out, tuple) else (out,)))
            for array in result if isinstance(result, (list, tuple)) else (result,):
                if isinstance(array, np.ndarray):
                    self._count_result(array, operands)
        return result

    def _compute_late(self, call: Callable[[], Any], arguments: Any) -> Any:
        """Make a call, and let what it has written appear after the delay."""
        self.finish(None)
        operands = [x for x in _arrays(arguments) if not is_dummy(x)]
        before = [(x, x.copy()) for x in operands]
        result = call()
        written = [
            (x, old) for x, old in before if x.flags.writeable and x.tobytes() != old.tobytes()
        ]
        # What is read-only is a view, of no elements if it shares no memory with an operand. Arrays
        # of objects have no poison.
        made = [
            x
            for x in _arrays([result])
            if x.flags.writeable
            and not (x.dtype.hasobject or any(map(partial(np.may_share_memory, x), operands)))
        ]
        # Views, which stay writable when a borrow becomes read-only.
        outputs = [(x.view(), x.copy()) for x in (*(x for x, _ in written), *made)]
        # Nothing else: other threads may be writing operands that are only read.
        for x, old in [*written, *((x, self.empty(x.shape, x.dtype)) for x in made)]:
            x[...] = old

        def run() -> None:
            intact = all(x.tobytes() == old.tobytes() for x, old in before)
            for x, new in outputs:
                x[...] = new if intact else self.empty(x.shape, x.dtype)

        with self._lock.held:
            # So that the last of all threads is known.
            self._own_stream().submit(run, _AT_ONCE + 1, computes=True)
        if ENDING:
            self.end()
        return result

    def lend(self, array: Any) -> None:
        """Wait for the work, because other code cannot."""
        self.finish(array)

    def capsule(self, array: Any, *, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return NumPy's DLPack capsule, when the work is done; see `lend`."""
        if self.last_computation is not None:
            self.last_computation.wait()
        return array.__dlpack__(stream=stream, max_version=max_version)

    def share(self, buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return buffer[:]

    def finish(self, buffer: Any) -> None:
        del buffer
        if self.last_computation is not None:
            self.last_computation.wait()

    def _count_result(self, owner: NDArray[Any], operands: Sequence[Any]) -> None:
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        known = (
            # It is a root, or over memory of others.
            owner.base is not None
            or _is_charged(owner)
            or any(isinstance(x, np.ndarray) and np.may_share_memory(x, owner) for x in operands)
        )
        if not known:
            self._charge(owner, owner.nbytes)

    def view(self, buffer: NDArray[np.uint8], layout: Layout, *, writable: bool) -> NDArray[Any]:
        """Return an array over a buffer, for any use. It keeps the buffer's root alive."""
        self.finish(buffer)
        return self.own_view(buffer, layout, writable=writable)

    def own_view(
        self, buffer: NDArray[np.uint8], layout: Layout, *, writable: bool
    ) -> NDArray[Any]:
        with self._lock.held:
            root = self._roots.get(id(buffer))
            if root is None:
                # NumPy makes the last array above a base that is no array the base of all views.
                # Of a view, because NumPy keeps with an array what it has told of its buffer; but a
                # view of a view does not keep that alive, so that its id would be used again.
                exporter: Any = self.exporter(buffer[:] if buffer.base is None else buffer)
                root = self._roots[id(buffer)] = np.ndarray(buffer.nbytes, np.uint8, exporter)
        return super().view(root, layout, writable=writable)

    def accessor_views(
        self, buffer: NDArray[np.uint8], layout: Layout
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        # `view` has to wait each time.
        return None if self.shared else super().accessor_views(buffer, layout)

    def alias(self, exporter: Any, layout: Layout) -> tuple[NDArray[Any], NDArray[Any]]:
        self.finish(None)
        return super().alias(exporter, layout)

    def is_seen(self, buffer: NDArray[np.uint8]) -> bool:
        """Look for the buffer's root. A buffer that does not count is not the device's own."""
        owner = buffer if buffer.base is None else buffer.base
        return id(buffer) in self._roots or not _is_charged(owner)

    def room(self) -> tuple[float, float]:
        bound = self._bound()
        return (bound if bound == math.inf else bound - self.used_nbytes), bound

    def _bound(self) -> float:
        return min(math.inf if bound is None else bound for bound in (self._capacity, self._limit))

    def _require_room(self, nbytes: int, counted: int = 0) -> None:
        """Raise MemoryError if the device is too full for bytes, of which some count already."""
        bound = self._bound()
        if bound < math.inf and (used := self.used_nbytes - counted) + nbytes > bound:
            raise _shortage(
                f"{self.device} has no memory for {human_bytes(nbytes)} more: {human_bytes(used)} "
                f"of {'its' if bound != self._limit else 'the'} {human_bytes(int(bound))} "
                f"{'that set_memory_limit allows ' * (bound == self._limit)}are in use",
                nbytes,
            )

    def _charge(self, owner: NDArray[Any], nbytes: int) -> None:
        """Count an array as long as it lives, or raise MemoryError if there is no room."""
        block = _Block(owner, self._discard)
        block.nbytes = nbytes
        # Two threads may not take the same room; nor may a signal handler, so it counts first.
        with self._lock.held:
            self._blocks.add(block)
            try:
                if self.bounded:
                    self._require_room(nbytes, counted=nbytes)
            except MemoryError:
                self._blocks.discard(block)
                raise

    def empty(self, shape: Any, dtype: Any) -> NDArray[Any]:
        array: NDArray[Any] = np.empty(shape, dtype)
        self.wrap(array).fill(POISON)
        return array

    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        with self._lock.held:
            self._count_down("host_allocation")
            self.host_allocations += 1
        return super().allocate(nbytes, zeroed=zeroed)

    upload: Any = _copy_and_count("uploads", "uploaded_bytes")
    download: Any = _copy_and_count("downloads", "downloaded_bytes")
    _copy_from_peer = _copy_and_count("peer_copies", "peer_bytes")

    def reaches(self, other: object) -> bool:
        return isinstance(other, SimulatedBackend)

    def copy_from(
        self, other: Accelerator, contents: NDArray[np.uint8], buffer: NDArray[np.uint8]
    ) -> None:
        """Copy from another device; from another simulated one without the host."""
        if self.reaches(other):
            other.finish(contents)
            self._copy_from_peer(contents, buffer)
        else:
            super().copy_from(other, contents, buffer)

    def push(self, host: NDArray[np.uint8], buffer: NDArray[np.uint8], stream: Any) -> Push:
        if stream is None:
            stream = self._own_stream()
        if not isinstance(stream, SimulatedStream) or stream.backend is not self:
            raise TypeError(f"expected a stream of {self.device} or None, got {stream!r}")
        last = self.last_computation
        return self._begin(stream, lambda: self.upload(host, buffer, last), host.nbytes)

    def pull(self, buffer: NDArray[np.uint8], host: NDArray[np.uint8]) -> Push:
        last, stream = self.last_computation, self._own_stream()
        return self._begin(stream, lambda: self.download(buffer, host, last), host.nbytes)

    def _begin(self, stream: SimulatedStream, copy: Callable[[], None], nbytes: int) -> Push:
        """Start a copy. If an interrupt raises, it is over."""
        try:
            return stream.submit(copy, nbytes)
        except BaseException:
            stream.synchronize()
            raise

    def _own_stream(self) -> SimulatedStream:
        with self._lock.held:
            stream = self._default_stream = self._default_stream or self.stream()
        return stream

    def synchronize(self) -> None:
        """Wait for computations, and for the asynchronous uploads on all streams."""
        self.finish(None)
        for stream in self._streams.living():
            stream.synchronize()

    def _count_down(self, kind: str) -> None:
        """Raise if this operation of a kind is to fail. Call it under the lock."""
        countdown = self._countdowns.pop(kind, 0)
        if countdown > 1:
            self._countdowns[kind] = countdown - 1
        elif countdown == 1:
            if kind == "transfer":
                raise RuntimeError(f"{self.device}: injected failure of a transfer")
            where = "a host" if kind == "host_allocation" else "an"
            raise MemoryError(f"{self.device}: injected failure of {where} allocation")

    def __repr__(self) -> str:
        """Return the device and the counters."""
        counts = ", ".join(f"{name}={getattr(self, name)}" for name in _COUNTERS)
        return f"<SimulatedBackend {self.device}: {counts}>"


def _arrays(x: Any) -> list[NDArray[Any]]:
    """Return the arrays in nested lists, tuples and dictionaries."""
    if isinstance(x, np.ndarray):
        return [x]
    items = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [array for item in items for array in _arrays(item)]


class _Block(Reference):
    """A reference to an array that owns memory of the device."""

    __slots__ = ("nbytes",)

    nbytes: int


def _is_charged(owner: NDArray[Any]) -> bool:
    """Return whether an array that owns memory counts on a device."""
    return any(isinstance(each, _Block) for each in weakref.getweakrefs(owner))


class SimulatedStream:
    """A thread that runs asynchronous copies in order.

    A small copy without a delay takes less time than to wake the thread. So it runs at once, if the
    thread has nothing to do.

    Parameters
    ----------
    backend
        The device.
    delay
        The seconds to wait before each upload; None for the backend's `delay` at that time.
    """

    # The process of the thread; 0 until there is one.
    _process: int = 0

    def __init__(self, backend: SimulatedBackend, delay: float | None = None) -> None:
        self.backend = backend
        self.delay = delay
        self._start()

    def _start(self) -> None:
        self._last: _Work | None = None
        self._queue: SimpleQueue[tuple[SimulatedStream, _Work] | None] = SimpleQueue()
        # Not by `threading`, whose wait for the start of the thread an interrupt can break.
        _thread.start_new_thread(_run_all, (self._queue,))
        self._process = os.getpid()

    def __del__(self) -> None:
        """End the thread after the queued work."""
        if self._process == os.getpid():
            self._queue.put(None)

    def submit(self, copy: Callable[[], None], nbytes: int, *, computes: bool = False) -> Push:
        """Queue a copy, or what a computation writes."""
        delay, last = self.backend.delay if self.delay is None else self.delay, self._last
        within = _runs_here(self._queue)
        if not within and (delay or nbytes > _AT_ONCE or not (last is None or last.over)):
            return self._enqueue(copy, delay, computes=computes)
        # A finaliser may run on the thread, amid other work.
        work = _Work(copy, self._queue, 0.0 if within else delay)
        work.run()
        if not isinstance(work.error, Exception | None):
            # A signal handler has interrupted the copy, on this thread.
            work.wait()
        return work

    def synchronize(self) -> None:
        """Block until everything queued so far has run."""
        self._enqueue(lambda: None, 0.0).wait()

    def _enqueue(
        self, function: Callable[[], None], delay: float, *, computes: bool = False
    ) -> _Work:
        if self._process != os.getpid():
            # In a forked child: the thread exists only in the parent.
            self._start()
        work = self._last = _Work(function, self._queue, delay)
        # With the stream, which has to live until the work has run.
        calls = [partial(self._queue.put, (self, work))]
        if computes:
            calls.append(partial(setattr, self.backend, "last_computation", work))
        # Together, so that an interrupt leaves no work that nothing waits for.
        make_calls(calls)
        return work


class _Work(Push):
    """Work of a stream's thread that can be waited for.

    It waits on a single lock, which an interrupt leaves intact. The waits of `concurrent` and
    `threading` consist of several steps in Python.
    """

    def __init__(self, function: Callable[[], None], queue: object, delay: float) -> None:
        self._process = os.getpid()
        self._function: Callable[[], None] | None = function
        self._queue = queue
        self._delay = delay
        self.error: BaseException | None = None
        # Gets the time when it has run.
        self._ended: list[float] = []
        self._running = _thread.allocate_lock()
        self._running.acquire()

    def run(self) -> None:
        """Run the work after its delay, and release waiters."""
        try:
            if self._delay:
                time.sleep(self._delay)
            if self._function is not None:
                self._function()
        except BaseException as error:  # noqa: BLE001  # raised in `wait`
            # Without the traceback, which would keep all objects of the callers' frames alive.
            self.error = error.with_traceback(None)
        finally:
            self._ended.append(time.perf_counter())
            self._function = None
            self._running.release()

    def order(self) -> bool:
        self.wait()
        return True

    def wait(self) -> None:
        """Block until the work has finished. Raises its exception, once.

        RuntimeError on the stream's own thread, where a finaliser has interrupted other work.
        """
        if self._process != os.getpid():
            # In a forked child: the parent's thread works only in the parent.
            function, self._function = self._function, None
            if function is not None:
                function()
            return
        if not self.over and _runs_here(self._queue):
            raise RuntimeError(
                "a finaliser has interrupted the work of a simulated device, and would wait for "
                "that device; use Blobs outside of finalisers"
            )
        with self._running:
            pass
        if self.error is None:
            return
        try:
            raise self.error
        finally:
            # The traceback of a kept exception would keep the callers' frames alive.
            self.error = None
            del self

    @property
    def arrived(self) -> bool:
        return self._function is None and self.error is None

    @property
    def over(self) -> bool:
        return self._function is None

    @property
    def arrival(self) -> Moment:
        ended = self._ended
        return lambda: ended[0] if ended else None


# By thread, the queue that it runs.
_queues: dict[int, object] = {}


def _runs_here(queue: object) -> bool:
    """Return whether this is the thread that runs a queue."""
    return _queues.get(_thread.get_ident()) is queue


def _run_all(queue: SimpleQueue[tuple[SimulatedStream, _Work] | None]) -> None:
    _queues[_thread.get_ident()] = queue
    while (queued := queue.get()) is not None:
        queued[1].run()
        del queued
    del _queues[_thread.get_ident()]
