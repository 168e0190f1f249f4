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
from operator import attrgetter
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

# Held while uses change and while they are looked up to be waited for.
_adding = Lock()


def is_capturing(asked: Callable[..., bool], *stream: int) -> bool:
    """Return whether CuPy or PyTorch says that a stream is captured, or a capture forbids it."""
    try:
        return bool(asked(*stream))
    except RuntimeError as error:
        # During a capture, CUDA may raise for the legacy stream, and CuPy raises for a failed
        # capture.
        if "captur" in str(error):
            return True
        raise


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


# Stands for the work of other code, on any stream.
_OTHERS = Stretch(SimpleNamespace(ptr=-1))


class Allocation(weakref.ref[Any]):
    """Memory that only this package uses, except for what it has lent.

    Refers to the array that owns the memory, and counts as long as that is alive.
    """

    # It must not be freed before its last use on another stream.
    memory: Any
    # The pointer of the stream on which it was allocated, which can use it again at once.
    arena: int
    # The last stretch that used some bytes on a stream, by the first address, the end, and the
    # pointer of the stream.
    uses: dict[tuple[int, int, int], Stretch]
    # Refers to what all arrays over it keep alive, except aliases.
    owner: Callable[[], Owner | None]
    # Whether a graph uses it, so that it has to stay where it is.
    captured: bool

    def add(self, key: tuple[int, int, int], stretch: Stretch) -> None:
        """Note a use, unless another thread has noted a later one of the same stream."""
        with _adding.held:
            if len(self.uses) >= _RANGES and key not in self.uses:
                # The latest of each stream, which comes last, stands for all.
                uses = sorted(self.uses.values(), key=attrgetter("number"))
                self.uses = {(*_EVERYTHING, each.stream.ptr): each for each in uses}
            known = self.uses.get(key)
            if known is None or known.number < stretch.number:
                self.uses[key] = stretch


class Owner:
    """What CuPy's arrays over memory keep alive; it keeps the memory."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: Any) -> None:
        self.memory: Any = memory


# Refers to no owner.
_nobody = weakref.ref(Owner(None))


class Order:
    """Who has to wait for whom on one device."""

    def __init__(self, cupy: Any, index: int, driver: Any) -> None:
        self._cupy = cupy
        self._index = index
        self.device: Any = cupy.cuda.Device(index)
        self._exchange: Callable[[Any], int] = driver.cuThreadExchangeStreamCaptureMode
        self._current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
        self._event: Callable[[], Any] = partial(cupy.cuda.Event, disable_timing=True)
        # Returns CuPy's current stream of the device, whichever device is current.
        self.current: Callable[[], Any] = partial(cupy.cuda.get_current_stream, index)
        # Returns the pointer of torch's current stream of a device.
        self._theirs: Callable[[int], int] = self._torchs_pointer
        # The last stretch of each stream, which it would keep alive.
        self._stretches: WeakValueDictionary[int, Stretch] = WeakValueDictionary()
        # Numbers points in the order in which they were made.
        self._clock = itertools.count()
        # By the address of their memory, which is not used again before `_forget`.
        self._allocations: dict[int, Allocation] = {}
        # What must not be freed before stretches have ended: the buffers of pushes, and memory of
        # arrays that are gone, if other streams than that of its arena have used it. A finalizer
        # could not keep it, because in cyclic garbage CuPy's event may be destroyed first.
        self.under_way: dict[object, tuple[Iterable[Stretch], object]] = {}
        # The streams that Blobs were used on: CuPy's, as long as they exist, and torch's own ones.
        self._passed: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._of_torch: dict[int, Any] = {}

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
        # As in `is_capturing`, which is asked next.
        with suppress(RuntimeError):
            return stream if here and not stream.is_capturing() else None
        return None

    def torch_captures(self) -> bool:
        """Return whether a graph is being captured on torch's current stream."""
        torch = self.torch()
        return torch is not None and is_capturing(torch.cuda.is_current_stream_capturing)

    def captures(self) -> bool:
        """Return whether a graph is being captured on CuPy's current stream or on torch's."""
        return is_capturing(self.current().is_capturing) or self.torch_captures()

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
        current, null = self.current(), self._cupy.cuda.Stream.null
        streams = {**self._of_torch, **dict(self._passed.items()), 0: null, current.ptr: current}
        with self.device:
            for each in streams.values():
                if is_capturing(each.is_capturing):
                    self._refuse(each.ptr)
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
            self._of_torch[pointer] = theirs
        captured = is_capturing(ours.is_capturing)
        if self.torch_captures():
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
        known = self.known(buffer)
        if known is None:
            return Owner(buffer.data)
        with _adding.held:
            owner = known.owner() or Owner(buffer.data)
            known.owner = weakref.ref(owner)
        return owner

    def lend(self, array: Any) -> Any:
        """Record that other code uses an array, on any stream, after the work queued so far.

        Returns a view of the array.
        """
        stream = self.current()
        if self._theirs(self._index) != stream.ptr:
            self.join()
        self._passed.setdefault(stream.ptr, stream)
        known = self._allocations.get(array.data.mem.ptr)
        if known is not None:
            start = array.data.ptr
            key = start, start + array.nbytes, _OTHERS.stream.ptr
            if not array.flags.c_contiguous:
                key = *_EVERYTHING, _OTHERS.stream.ptr
            if key not in known.uses:
                known.add(key, _OTHERS)
        return array.view()

    def note(  # noqa: C901, PLR0912  # inlined, because each operation calls it
        self, operands: Iterable[Any], result: Any = None, stream: Any = None
    ) -> None:
        """Record that the work which was just queued on a stream uses arrays.

        They are found in lists, tuples and dictionaries, too. Those in the result that own their
        memory are this package's from now on. The stream is one that `plain` has returned, or the
        current one, whichever it is.
        """
        captured = False
        if stream is None:
            stream, captured = self.current(), self.captures()
        stretch: Any = _OTHERS
        # Each thread has a stream of the same pointer.
        if not (captured or stream.ptr == _PER_THREAD):
            stretch = self._stretches.get(stream.ptr)
            if stretch is None or stretch.number != math.inf:
                stretch = Stretch(stream)
                self._stretches[stretch.stream.ptr] = stretch
                self._passed.setdefault(stretch.stream.ptr, stream)
        kind: Any = self._cupy.ndarray
        given: list[Any] = []
        for x in operands:
            if type(x) is kind:
                given.append(x)
            elif isinstance(x, (list, tuple, dict)):
                _add_arrays(x, kind, given)
        # The memory of operands that is other code's.
        others: list[Any] = []
        for array in given:
            memory = array.data.mem
            known = self._allocations.get(memory.ptr)
            if known is None:
                others.append(memory)
                continue
            start = array.data.ptr
            key = start, start + array.nbytes, stretch.stream.ptr
            if not array.flags.c_contiguous:
                key = *_EVERYTHING, stretch.stream.ptr
            if known.uses.get(key) is not stretch:
                known.add(key, stretch)
            if captured:
                known.captured = True
        results: list[Any] = []
        if type(result) is kind:
            results.append(result)
        elif result is not None:
            _add_arrays((result,), kind, results)
        for array in results:
            memory = array.data.mem
            owns = array.base is None and array.size and memory.device_id == self._index
            if owns and memory not in others and memory.ptr not in self._allocations:
                made = Allocation(array, self._forget)
                made.memory, made.arena, made.owner = memory, stream.ptr, _nobody
                made.captured, made.uses = captured, {(*_EVERYTHING, stretch.stream.ptr): stretch}
                self._allocations[memory.ptr] = made
        if isinstance(stream, self._cupy.cuda.ExternalStream) and stretch is not _OTHERS:
            # The owner of the stream may destroy it at any time.
            self._close(stretch)

    def _forget(self, allocation: Allocation) -> None:
        """Forget memory whose owner is gone. Finalisers call this, on any thread."""
        memory = allocation.memory
        self._allocations.pop(memory.ptr, None)
        at_once = allocation.arena, _OTHERS.stream.ptr
        uses = [*allocation.uses.values()]
        for each in uses:
            if each.stream.ptr not in at_once:
                left = [x for x in uses if x.stream.ptr not in at_once]
                self.under_way[next(self._clock)] = left, memory
                break

    def _close(self, stretch: Stretch) -> Any:
        """Return the event that closes a stretch, whose stream is not being captured."""
        with _adding.held:
            if stretch.event is None:
                stretch.number = next(self._clock)
                stretch.event = stretch.stream.record(self._event())
        return stretch.event

    def _end(self, stretch: Stretch) -> Any:
        """Return the event as `_close` does. Raises a BesideCaptureError in a capture."""
        if stretch.event is None and is_capturing(stretch.stream.is_capturing):
            self._refuse(stretch.stream.ptr)
        return self._close(stretch)

    def wait(self, stream: Any, buffer: Any) -> None:
        """Make a stream wait for all work that may use a buffer.

        Waits itself for the device, if other code may use the buffer; see `synchronize`.
        """
        known = self._allocations.get(buffer.data.mem.ptr)
        if known is None:
            self.synchronize()
            return
        uses: list[Stretch] = []
        lent, start = False, buffer.data.ptr
        stop = start + buffer.nbytes
        with _adding.held:
            for (first, end, _), each in known.uses.items():
                if first < stop and start < end:
                    uses.append(each)
                    lent = lent or each is _OTHERS
        if lent:
            self.synchronize()
            return
        here = self._stretches.get(self.current().ptr)
        if here is not None and here.event is None:
            # A later transfer of what is used here before it need not wait for what comes after it.
            self._close(here)
        for each in uses:
            if each.stream.ptr != stream.ptr:
                stream.wait_event(each.event or self._end(each))

    def drop_finished(self, *, wait: bool = False) -> bool:
        """Free memory whose last use is over, or wait for that; return whether there was any."""
        found = False
        for key in [*self.under_way]:
            stretches, _ = self.under_way.get(key, ((), None))
            try:
                events = [self._end(each) for each in stretches]
            except BesideCaptureError:
                # Until that capture has ended.
                continue
            found = True
            if wait:
                for event in events:
                    event.synchronize()
            elif not all(event.done for event in events):
                # Nearly always, those after it have not happened either.
                break
            self.under_way.pop(key, None)
        return found


def _add_arrays(values: Any, kind: type, found: list[Any]) -> list[Any]:
    """Append the arrays in lists, tuples and dictionaries."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, kind):
            found.append(value)
        elif isinstance(value, (list, tuple, dict)):
            _add_arrays(value, kind, found)
    return found
