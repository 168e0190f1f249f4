"""The order of work on a CUDA device: last uses of memory, PyTorch's stream, and graph captures.

Work of this package is on CuPy's current stream, and its transfers are on streams of their own. A
transfer waits for the last use of its bytes and for nothing else, if only this package has used
them. Bytes that were lent to other code may be used on any stream, so it waits for the device. This
would end a graph capture on any of its streams, so it is refused during a capture.

Uses are noted by `Stretch`: the work on a stream between two points. That is one comparison for
each operand, as long as no point is made.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
import weakref
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter, itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from syncblob._locks_lost_in_fork import Lock
from syncblob.devices.base import BesideCaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# CUDA's numbers of the default streams, and of the mode of a thread that captures forbid nothing.
_LEGACY, _PER_THREAD = 1, 2
_RELAXED = 2

# Above this number, the uses of ranges of an allocation are joined to uses of everything.
_RANGES = 64
_EVERYTHING = 0, 1 << 64

# Gets the pointer of the stream from the key of a use.
_STREAM = itemgetter(1)

# Held while uses change and while they are looked up to be waited for.
_adding = Lock()


def as_stream(stream: Any) -> Any:
    """Return a stream of CuPy's, a pointer or an object with ``__cuda_stream__`` as CuPy's."""
    from cupy.cuda import ExternalStream, Stream  # there is a CUDA device

    if isinstance(stream, (Stream, ExternalStream)):
        return stream
    if isinstance(stream, int):
        # The version of the protocol, and the address.
        stream = SimpleNamespace(__cuda_stream__=partial(tuple, (0, stream)))
    if hasattr(stream, "__cuda_stream__"):
        return Stream.from_external(stream)
    raise TypeError(
        "expected a CuPy stream, a stream pointer, an object with __cuda_stream__ or None, "
        f"got {stream!r}"
    )


class Stretch:
    """The work that is queued on a stream until a point is made: an event that closes the stretch.

    Whoever uses memory looks whether the stretch is open *after* the work was queued, and whoever
    makes the point numbers the stretch *before* the event is recorded. So the event is behind all
    work whose memory is noted with the stretch, without a lock. Of two stretches of a stream, the
    event of that with the larger number is behind the work of both.
    """

    __slots__ = ("__weakref__", "event", "number", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream: Any = stream
        self.event: Any = None
        # Infinite as long as it is open.
        self.number: float = math.inf


# Stands for the work of other code, on any stream. It never ends, and nobody waits for its event.
_OTHERS = Stretch(SimpleNamespace(ptr=-1))
_OTHERS.event = _OTHERS


class Allocation(weakref.ref[Any]):
    """Memory that only this package uses, except for what it has lent.

    Refers to the array that owns the memory, and counts as long as that is alive.
    """

    # It must not be freed before its last use on another stream.
    memory: Any
    # The pointer of the stream on which it was allocated, which can use it again at once.
    arena: int
    # The last stretch that used some bytes on a stream, by the first address and the end, and the
    # pointer of the stream.
    uses: dict[tuple[tuple[int, int], int], Stretch]
    # Whether a graph uses it, so that it has to stay where it is.
    captured: bool

    def add(self, key: tuple[tuple[int, int], int], stretch: Stretch) -> None:
        """Note a use, unless another thread has noted a later one of the same stream."""
        with _adding.held:
            if len(self.uses) >= _RANGES and key not in self.uses:
                # The latest of each stream, which comes last, stands for all.
                uses = sorted(self.uses.values(), key=attrgetter("number"))
                self.uses = {(_EVERYTHING, each.stream.ptr): each for each in uses}
            known = self.uses.get(key)
            if known is None or known.number < stretch.number:
                self.uses[key] = stretch


class Owner:
    """What CuPy's arrays over memory keep alive; it keeps the memory."""

    def __init__(self, memory: Any) -> None:
        self.memory: Any = memory


class Order:
    """Who has to wait for whom on one device."""

    def __init__(self, cupy: Any, index: int, driver: Any) -> None:
        self._array: Any = cupy.ndarray
        self._external_stream: Any = cupy.cuda.ExternalStream
        self._index = index
        self.device: Any = cupy.cuda.Device(index)
        self._exchange: Callable[[Any], int] = driver.cuThreadExchangeStreamCaptureMode
        self._current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
        self._capturing: Callable[[int], bool] = cupy.cuda.runtime.streamIsCapturing
        self._event: Callable[[], Any] = partial(cupy.cuda.Event, disable_timing=True)
        # Returns CuPy's current stream of the device, whichever device is current.
        self.current: Callable[[], Any] = partial(cupy.cuda.get_current_stream, index)
        # Returns the pointer of torch's current stream of a device.
        self._theirs: Callable[[int], int] = self._torchs_pointer
        # The last stretch of each stream, which it would keep alive. `_PER_THREAD` are several.
        self._stretches = WeakValueDictionary({_PER_THREAD: _OTHERS})
        # Numbers points in the order in which they were made.
        self._clock = itertools.count()
        # By the address of their memory, which is not used again before `_forget`.
        self._allocations: dict[int, Allocation] = {}
        # What all arrays over an allocation keep alive, except aliases, by the same address.
        self._owners: WeakValueDictionary[int, Owner] = WeakValueDictionary()
        # What must not be freed before stretches have ended: the buffers of pushes, and memory of
        # arrays that are gone, if other streams than that of its arena have used it. A finalizer
        # could not keep it, because in cyclic garbage CuPy's event may be destroyed first.
        self.under_way: dict[object, tuple[list[Stretch], object]] = {}
        # The streams that Blobs were used on: CuPy's, as long as they exist, and the pointers of
        # torch's own ones.
        self._passed: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._of_torch: set[int] = set()

    # --- streams and captures --------------------------------------------------------------------

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Allow calls on the device that CUDA forbids during captures of others.

        A capture on a stream that nobody can name, of another thread for example, is made invalid
        by an allocation, a wait or the query of an event anywhere, unless the thread says that they
        have nothing to do with it. PyTorch's allocators do the same.
        """
        mode = ctypes.c_int(_RELAXED)
        with self.device:
            self._exchange(ctypes.byref(mode))
            try:
                yield
            finally:
                self._exchange(ctypes.byref(mode))

    @staticmethod
    def torch() -> Any:
        """Return torch if it is loaded and uses CUDA, else None."""
        torch = sys.modules.get("torch")
        # A module that is being imported by another thread lacks these.
        cuda = getattr(torch, "cuda", None)
        return torch if cuda is not None and cuda.is_initialized() else None

    def _torchs_pointer(self, index: int) -> int:
        """Return the pointer of torch's current stream; of CuPy's until torch uses CUDA."""
        torch = self.torch()
        if torch is None:
            return int(self.current().ptr)
        # As `torch.cuda.current_stream(...).cuda_stream`, which takes 20 times as long.
        self._theirs = torch._C._cuda_getCurrentRawStream  # noqa: SLF001  # Triton calls it, too
        return self._theirs(index)

    def plain(self) -> Any:
        """Return CuPy's current stream if work there needs no more than a note; else None.

        So it is if the device is the current one, torch's stream is the same, and nothing is being
        captured on it.
        """
        stream = self.current()
        here = self._current_device() == self._index and self._theirs(self._index) == stream.ptr
        # As in `is_captured`, which is asked next.
        with suppress(RuntimeError):
            return stream if here and not stream.is_capturing() else None
        return None

    def is_captured(self, pointer: int) -> bool:
        """Return whether a graph is being captured on a stream, or a capture forbids its use."""
        try:
            with self.device:
                return self._capturing(pointer)
        except RuntimeError as error:
            # During a capture, CUDA may raise for the legacy stream, and CuPy raises for a failed
            # capture.
            if "captur" in str(error):
                return True
            raise

    def torch_captures(self) -> bool:
        """Return whether a graph is being captured on torch's current stream."""
        return self.is_captured(self._theirs(self._index))

    def captures(self, *pointers: int) -> bool:
        """Return whether a graph is being captured on CuPy's current stream, torch's, or others."""
        asked = {self.current().ptr, self._theirs(self._index), *pointers}
        return any(map(self.is_captured, asked))

    def _refuse(self, pointer: int) -> None:
        raise BesideCaptureError(
            f"bytes on cuda:{self._index} cannot be waited for while a CUDA graph is being "
            f"captured on the stream {pointer:#x}, because the wait would end the capture: "
            "transfer them before the capture or after it"
        )

    def synchronize(self) -> None:
        """Wait for the device.

        Raises a RuntimeError if a graph is being captured on a stream that Blobs were used on, or
        on a blocking one. The wait would end it.
        """
        passed = dict(self._passed.items())
        streams = {0, self.current().ptr, *passed, *self._of_torch}
        for pointer in filter(self.is_captured, streams):
            self._refuse(pointer)
        self.device.synchronize()

    def join(self, *, computing: bool = False) -> None:
        """Order CuPy's current stream and torch's after each other, if they differ.

        In a capture it does nothing: a graph cannot wait for work outside of it. Raises a
        RuntimeError before a computation, if a graph is being captured on torch's current stream
        and that is another one: CuPy's work would not be part of the graph.
        """
        ours, pointer = self.current(), self._theirs(self._index)
        if pointer == ours.ptr:
            return
        theirs = as_stream(pointer)
        # The number of a stream that is not torch's own is its address. It may be destroyed.
        if self.torch().cuda.current_stream(self._index).stream_id != pointer:
            self._of_torch.add(pointer)
        captured = self.is_captured(ours.ptr)
        if self.is_captured(pointer):
            # The legacy stream only counts as captured.
            if computing and not (captured and ours.ptr > _LEGACY):
                raise RuntimeError(
                    "a CUDA graph is being captured on torch's current stream, and an operation of "
                    "CuPy's would be on another one: call a function of torch's, or make that "
                    "stream current in CuPy, with cupy.cuda.Stream.from_external"
                )
        elif not captured:
            with self.device:
                reached, other = ours.record(self._event()), theirs.record(self._event())
                ours.wait_event(other)
                theirs.wait_event(reached)

    # --- memory and its uses ---------------------------------------------------------------------

    def known(self, array: Any) -> Allocation | None:
        """Return the allocation under an array; None if it is other code's."""
        # The memory of owners begins where the allocation does.
        return self._allocations.get(array.data.mem.ptr)

    def owner_of(self, buffer: Any) -> Owner:
        """Return what arrays over a buffer keep alive."""
        owner = Owner(buffer.data)
        with _adding.held:
            known = self.known(buffer) is not None
            return self._owners.setdefault(buffer.data.mem.ptr, owner) if known else owner

    def is_seen(self, buffer: Any) -> bool:
        """Return whether an array over a buffer may be in use; so it is if other code has it."""
        return self.known(buffer) is None or buffer.data.mem.ptr in self._owners

    def lend(self, array: Any) -> Any:
        """Record that other code uses an array on any stream from now on; return a view of it."""
        stream = self.current()
        if self._theirs(self._index) != stream.ptr:
            self.join()
        self._passed.setdefault(stream.ptr, stream)
        known = self._allocations.get(array.data.mem.ptr)
        if known is not None:
            start = array.data.ptr
            reach = (start, start + array.nbytes) if array.flags.c_contiguous else _EVERYTHING
            if (key := (reach, _OTHERS.stream.ptr)) not in known.uses:
                known.add(key, _OTHERS)
        return array.view()

    def note(self, operands: Iterable[Any], result: Any = None, stream: Any = None) -> None:  # noqa: C901, PLR0912  # inlined, because each operation calls it
        """Record that the work which was just queued on a stream uses arrays.

        They are found in lists, tuples and dictionaries, too. Those in the result that own their
        memory are this package's from now on. The stream is one that `plain` has returned, or the
        current one, whichever it is.
        """
        captured = False
        if stream is None:
            # First, because the work may be on torch's.
            self.join()
            stream, captured = self.current(), self.captures()
        stretch: Any = self._stretches.get(stream.ptr)
        if stretch is None or stretch.number != math.inf:
            stretch = self._stretches[stream.ptr] = Stretch(stream)
            self._passed.setdefault(stream.ptr, stream)
        if captured:
            stretch = _OTHERS
        given: list[Any] = []
        results: list[Any] = []
        values: list[Any]
        for values, arrays in (([*operands], given), ([result], results)):
            for x in values:
                if type(x) is self._array:
                    arrays.append(x)
                elif isinstance(x, (list, tuple, dict)):
                    # Its arrays come later in this loop.
                    values.extend(x.values() if isinstance(x, dict) else x)
        # The memory of operands that is other code's.
        others: list[Any] = []
        for x in given:
            memory = x.data.mem
            known = self._allocations.get(memory.ptr)
            if known is None:
                others.append(memory)
                continue
            start = x.data.ptr
            reach = (start, start + x.nbytes) if x.flags.c_contiguous else _EVERYTHING
            if known.uses.get(key := (reach, stretch.stream.ptr)) is not stretch:
                known.add(key, stretch)
            if captured:
                known.captured = True
        for x in results:
            memory = x.data.mem
            owns = x.base is None and x.size and memory.device_id == self._index
            if owns and memory not in others and memory.ptr not in self._allocations:
                made = Allocation(x, self._forget)
                made.memory, made.arena, made.captured = memory, stream.ptr, captured
                made.uses = {(_EVERYTHING, stretch.stream.ptr): stretch}
                self._allocations[memory.ptr] = made
        if isinstance(stream, self._external_stream):
            # The owner of the stream may destroy it at any time.
            self._end(stretch, captured=False)

    def _forget(self, allocation: Allocation) -> None:
        """Forget memory whose owner is gone. Finalisers call this, on any thread."""
        memory = allocation.memory
        self._allocations.pop(memory.ptr, None)
        at_once = {allocation.arena, _OTHERS.stream.ptr}
        uses = allocation.uses.copy()
        if not at_once.issuperset(map(_STREAM, uses)):
            left = [each for each in uses.values() if each.stream.ptr not in at_once]
            self.under_way[next(self._clock)] = left, memory

    def _end(self, stretch: Stretch, *, captured: bool = True) -> Any:
        """Return the event that closes a stretch; raise in a capture, if it may be `captured`."""
        with _adding.held, self.device:
            if stretch.event is None:
                if captured and self.is_captured(stretch.stream.ptr):
                    self._refuse(stretch.stream.ptr)
                stretch.number = next(self._clock)
                stretch.event = stretch.stream.record(self._event())
        return stretch.event

    def wait(self, stream: Any, buffer: Any) -> None:
        """Make a stream wait for the work that uses a buffer; wait here for that of other code."""
        known, uses = self._allocations.get(buffer.data.mem.ptr), list[Stretch]()
        lent, start = known is None, buffer.data.ptr
        stop = start + buffer.nbytes
        with _adding.held:
            for ((first, end), _), each in () if known is None else known.uses.items():
                if first < stop and start < end:
                    uses.append(each)
                    lent = lent or each is _OTHERS
        if lent:
            self.synchronize()
            return
        here = self._stretches.get(self.current().ptr)
        if here is not None:
            # A later transfer of what is used here before it need not wait for what comes after it.
            self._end(here, captured=False)
        for each in uses:
            if each.stream.ptr != stream.ptr:
                stream.wait_event(each.event or self._end(each))

    def drop_finished(self, *, wait: bool = False) -> bool:
        """Free memory whose last use is over, or wait for that; return whether there was any."""
        found = False
        for key, (stretches, _) in self.under_way.copy().items():
            try:
                events = [self._end(each) for each in stretches]
            except BesideCaptureError:
                # Until that capture has ended.
                continue
            found = True
            if not (wait or all(event.done for event in events)):
                # Nearly always, those after it have not happened either.
                break
            for event in events:
                event.synchronize()
            self.under_way.pop(key, None)
        return found
