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
import sys
import threading
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob._locks_lost_in_fork import Lock
from syncblob.devices.base import BesideCaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# CUDA's numbers of the default streams, and of the mode of a thread that captures forbid nothing.
_LEGACY, _PER_THREAD = 1, 2
_RELAXED = 2

# Above this number, the ranges of an allocation that no array lies over are joined to one.
_RANGES = 64

# Held while uses change and while they are looked up to be waited for.
_adding = Lock()
_new = object.__new__


def is_capturing(stream: Any) -> bool:
    """Return whether a graph is being captured on a stream, or a capture forbids its use."""
    return _is_true(stream.is_capturing)


def _is_true(asked: Callable[..., bool], *stream: int) -> bool:
    """Return the answer of CuPy or PyTorch whether a stream is capturing."""
    try:
        return bool(asked(*stream))
    except RuntimeError as error:
        # During a capture, CUDA may raise for the legacy stream, and CuPy raises for a failed
        # capture.
        if "captur" in str(error):
            return True
        raise


class Stretch:
    """The work that is queued on a stream until a point is made: an event that closes the stretch.

    Whoever uses memory looks whether the stretch is open *after* the work was queued, and whoever
    makes the point closes the stretch *before* the event is recorded. So the event of a stretch is
    behind all work whose memory is noted with it, without a lock. Several stretches of one stream
    may be open.

    Attributes
    ----------
    stream, pointer
        The stream, which lives as long as this, and its address.
    closed
        Whether it is no more to be noted with.
    event, number
        The event; None until it is recorded. Of two stretches of a stream, the event of that with
        the larger number is behind the work of both.
    """

    __slots__ = ("__weakref__", "closed", "event", "number", "pointer", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream: Any = stream
        self.pointer: int = stream.ptr
        self.closed: bool = False
        self.event: Any = None
        self.number: float = float("inf")


class Range:
    """Bytes of an allocation that are used together.

    Attributes
    ----------
    start, stop
        The address of the first byte, and that of the end.
    uses
        The last stretch of each stream that used them, by the pointer of the stream.
    lent
        Whether other code may use them, on any stream.
    owner
        A weak reference to what all arrays over exactly these bytes keep alive, except aliases.
    """

    __slots__ = ("allocation", "lent", "owner", "start", "stop", "uses")

    def __init__(self, allocation: Allocation, start: int, stop: int) -> None:
        self.allocation: Allocation = allocation
        self.start: int = start
        self.stop: int = stop
        self.uses: dict[int, Stretch] = {}
        self.lent: bool = False
        self.owner: Any = _nobody

    def absorb(self, other: Range) -> None:
        """Add another range, whose bytes are used together with these from now on."""
        self.start, self.stop = min(self.start, other.start), max(self.stop, other.stop)
        self.lent = self.lent or other.lent
        for stretch in other.uses.values():
            _add_later(self.uses, stretch)


class Allocation(Range):
    """Memory that only this package uses, except for what it has lent.

    Attributes
    ----------
    root
        A weak reference to the array that owns the memory. All is forgotten with it.
    parts
        The ranges that are used on their own, by their bounds. This object stands for all the rest.
    arena
        The pointer of the stream on which the memory was allocated, which can use it again at once.
    kept
        The memory, if it must not be freed before its last use: that was on another stream.
    captured
        Whether a graph uses it, so that it has to stay where it is.
    loans
        See `Order.loans`.
    """

    __slots__ = ("arena", "captured", "kept", "loans", "parts", "root")

    root: Any
    parts: dict[tuple[int, int], Range]
    arena: int
    kept: Any
    captured: bool
    loans: dict[Any, Any]

    @property
    def allocation(self) -> Allocation:  # type: ignore[override]  # without a cycle
        """Return itself, as the other ranges have it."""
        return self

    def part(self, start: int, stop: int) -> Range:
        """Return the range of some bytes."""
        if start <= self.start and stop >= self.stop:
            return self
        found = self.parts.get((start, stop))
        if found is None:
            with _adding.held:
                if len(self.parts) >= _RANGES:
                    self._join()
                found = self.parts.setdefault((start, stop), Range(self, start, stop))
        return found

    def _join(self) -> None:
        """Join the ranges that no array lies over."""
        rest = None
        for bounds, part in list(self.parts.items()):
            if part.owner() is None:
                del self.parts[bounds]
                rest = part if rest is None else rest
                rest.absorb(part)
        if rest is not None:
            self.parts[rest.start, rest.stop] = rest


class Owner:
    """What CuPy's arrays over a buffer keep alive; it references memory and knows the range."""

    __slots__ = ("__weakref__", "memory", "range")

    def __init__(self, memory: Any, found: Range | None) -> None:
        self.memory: Any = memory
        self.range: Range | None = found


def _nobody() -> None:
    return None


def _add_later(uses: dict[int, Stretch], stretch: Stretch) -> None:
    """Keep the later of two stretches of a stream."""
    known = uses.get(stretch.pointer)
    if known is None or known.number < stretch.number:
        uses[stretch.pointer] = stretch


class _Root(weakref.ref):  # type: ignore[type-arg]  # of any array
    """A weak reference to an array, with the address of its memory."""

    __slots__ = ("address",)

    address: int


class _Local(threading.local):
    """The last stretch of a thread, weakly, so that it does not keep the stream."""

    stretch: Any = staticmethod(_nobody)


class Order:
    """Who has to wait for whom on one device.

    Parameters
    ----------
    cupy
        CuPy.
    index
        The number of the device.
    driver
        The library of the driver.

    Attributes
    ----------
    calls
        Allows calls that CUDA forbids during captures of others; see `_Calls`.
    leaving
        Allocations whose arrays are gone, with the memory, until their last uses are over.
    """

    def __init__(self, cupy: Any, index: int, driver: Any) -> None:
        self._cupy = cupy
        self._index = index
        self.device: Any = cupy.cuda.Device(index)
        self.calls: _Calls = _Calls(self, driver.cuThreadExchangeStreamCaptureMode)
        # CuPy's current stream of the device, whichever device is current.
        self._current: Callable[[], Any] = partial(cupy.cuda.get_current_stream, index)
        self._current_device: Callable[[], int] = cupy.cuda.runtime.getDevice
        self._kind: type = cupy.ndarray
        self._local = _Local()
        # Numbers points in the order in which they were made.
        self._clock = itertools.count()
        # By the address of their memory. An address is used again, so an entry counts only as long
        # as its root is alive.
        self._allocations: dict[int, Allocation] = {}
        self.leaving: deque[Allocation] = deque()
        self._forget = partial(_forget, weakref.ref(self))
        # See `torch`, which is called several times for each operation.
        self._torch: Any = None
        # The streams that Blobs were used on: CuPy's by their addresses, as long as they exist, and
        # the addresses of torch's, which exist as long as the process.
        self._passed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._passed_of_torch: set[int] = set()

    # --- streams and captures --------------------------------------------------------------------

    def torch(self) -> Any:
        """Return torch if it is loaded and uses CUDA, else None."""
        if self._torch is None:
            torch = sys.modules.get("torch")
            # A module that is being imported by another thread lacks these.
            cuda = getattr(torch, "cuda", None)
            if cuda is not None and cuda.is_initialized():
                self._torch = torch
        return self._torch

    def torch_captures(self) -> bool:
        """Return whether a graph is being captured on torch's current stream."""
        torch = self.torch()
        return torch is not None and _is_true(torch.cuda.is_current_stream_capturing)

    def plain(self) -> Any:
        """Return CuPy's current stream if work there needs no more than a note; else None.

        So it is if the device is the current one, torch's stream is the same, it is not that of a
        thread, and nothing is being captured on it.
        """
        torch = self._torch or self.torch()
        if self._current_device() != self._index:
            return None
        stream = self._current()
        pointer = stream.ptr
        if torch is not None:
            # As `torch.cuda.current_stream(...).cuda_stream`, which takes 20 times as long.
            theirs = torch._C._cuda_getCurrentRawStream(self._index)  # noqa: SLF001  # Triton calls it, too
            if theirs != pointer and (theirs or _LEGACY) != (pointer or _LEGACY):
                return None
        if pointer > _LEGACY and (pointer == _PER_THREAD or is_capturing(stream)):
            # The legacy stream cannot be captured.
            return None
        return stream

    def is_captured_on(self, stream: Any) -> bool:
        """Return whether a graph is being captured on a stream, or on torch's current one."""
        try:
            if stream.is_capturing():
                return True
        except RuntimeError as error:
            # As in `_is_true`.
            if "captur" in str(error):
                return True
            raise
        torch = self._torch or self.torch()
        if torch is None:
            return False
        theirs = torch._C._cuda_getCurrentRawStream(self._index)  # noqa: SLF001  # as above
        same = (theirs or _LEGACY) == (stream.ptr or _LEGACY)
        return not same and _is_true(torch.cuda.is_current_stream_capturing)

    def _refuse(self, pointer: int) -> None:
        raise BesideCaptureError(
            f"bytes on cuda:{self._index} cannot be waited for while a CUDA graph is being "
            f"captured on the stream {pointer:#x}, because the wait would end the capture: "
            "transfer them before the capture or after it"
        )

    def synchronize(self) -> None:
        """Wait for the device.

        Raises
        ------
        RuntimeError
            If a graph is being captured on a stream that Blobs were used on, or on a blocking one.
            The wait would end it.
        """
        is_captured = self._cupy.cuda.runtime.streamIsCapturing
        passed = [stream.ptr for each in self._passed.valuerefs() if (stream := each()) is not None]
        for pointer in {0, self._current().ptr, *passed, *self._passed_of_torch}:
            if _is_true(is_captured, pointer):
                self._refuse(pointer)
        self.device.synchronize()

    def _record(self, stream: Any) -> Any:
        """Return a new event after the work queued so far on a stream, without a time."""
        return stream.record(self._cupy.cuda.Event(disable_timing=True))

    def join(self, *, computing: bool = False) -> None:
        """Order CuPy's current stream and torch's after each other, if they differ.

        In a capture it does nothing: a graph cannot wait for work outside of it.

        Raises
        ------
        RuntimeError
            Before a computation, if a graph is being captured on torch's current stream and that
            is another one: CuPy's work would not be part of the graph.
        """
        torch = self._torch or self.torch()
        if torch is None:
            return
        pointer: int = torch._C._cuda_getCurrentRawStream(self._index)  # noqa: SLF001  # as above
        if (pointer or _LEGACY) == (self._current().ptr or _LEGACY):
            return
        if (
            pointer not in self._passed_of_torch
            # The number of a stream that is not torch's own is its address. It may be destroyed.
            and self._torch.cuda.current_stream(self._index).stream_id != pointer
        ):
            self._passed_of_torch.add(pointer)
        if self.torch_captures():
            if computing:
                raise RuntimeError(
                    "a CUDA graph is being captured on torch's current stream, and an operation of "
                    "CuPy's would be on another one: call a function of torch's, or make that "
                    "stream current in CuPy, with cupy.cuda.Stream.from_external"
                )
            return
        ours = self._current()
        if is_capturing(ours):
            return
        stream = self._cupy.cuda.Stream
        theirs = stream.from_external(Pointer(pointer)) if pointer else stream.null
        with self.device:
            reached, other = self._record(ours), self._record(theirs)
            ours.wait_event(other)
            theirs.wait_event(reached)

    # --- uses ------------------------------------------------------------------------------------

    def _known(self, array: Any) -> Allocation | None:
        """Return the allocation under an array; None if it is other code's."""
        owner = getattr(array.data.mem, "_owner", None)
        if type(owner) is Owner:
            return None if owner.range is None else owner.range.allocation
        known = self._allocations.get(array.data.mem.ptr)
        return None if known is None or known.root() is None else known

    def range_of(self, array: Any) -> Range | None:
        """Return the bytes under an array; None if they are other code's.

        They may be more than its elements need.
        """
        owner = getattr(array.data.mem, "_owner", None)
        found = owner.range if type(owner) is Owner else self._known(array)
        if found is None:
            return None
        start, nbytes = array.data.ptr, array.nbytes
        if nbytes == found.stop - found.start or not array.flags.c_contiguous:
            return found
        return found.allocation.part(start, start + nbytes)

    def owner_of(self, buffer: Any, start: int, stop: int) -> Owner:
        """Return what arrays over some bytes of a buffer, from its first, keep alive."""
        known = self._known(buffer)
        if known is None:
            return Owner(buffer.data, None)
        first = buffer.data.ptr
        found = known.part(first + start, first + stop)
        with _adding.held:
            owner = found.owner()
            if owner is None:
                owner = Owner(buffer.data, found)
                found.owner = weakref.ref(owner)
        return owner

    def is_seen(self, buffer: Any) -> bool:
        """Return whether an array over a buffer is alive, or other code may have the memory."""
        known = self._known(buffer)
        if known is None or known.captured:
            return True
        # Tensors that were kept for functions of PyTorch's do not count, unless one is using them.
        known.loans.clear()
        return any(part.owner() is not None for part in [known, *known.parts.values()])

    def is_captured(self, buffer: Any) -> bool:
        """Return whether a graph uses a buffer."""
        known = self._known(buffer)
        return known is not None and known.captured

    def lend(self, array: Any) -> None:
        """Record that other code may use an array from now on, on any stream."""
        self._pass(self._current())
        found = self.range_of(array)
        if found is not None and array.size:
            found.lent = True

    def loans(self, buffer: Any) -> dict[Any, Any] | None:
        """Return what is kept with a buffer until it is gone; None if other code may have it."""
        known = self._known(buffer)
        return None if known is None else known.loans

    def _pass(self, stream: Any) -> None:
        """Remember a stream of CuPy's that Blobs were used on."""
        if stream.ptr not in self._passed:
            self._passed[stream.ptr] = stream

    def _stretch(self, stream: Any) -> Stretch:
        """Return the open stretch of a stream. Call it after the work was queued."""
        stretch: Stretch | None = self._local.stretch()
        if stretch is None or stretch.closed or stretch.pointer != stream.ptr:
            stretch = Stretch(stream)
            self._local.stretch = weakref.ref(stretch)
            self._pass(stream)
        return stretch

    def note(  # noqa: C901, PLR0912, PLR0915  # inlined, because each operation calls it
        self, operands: Iterable[Any], result: Any = None, stream: Any = None
    ) -> None:
        """Record that the work which was just queued on a stream uses arrays.

        Parameters
        ----------
        operands
            The arguments of a computation. Arrays are found in lists, tuples and dictionaries, too.
        result
            Its result. Arrays in it that own their memory are this package's from now on.
        stream
            A stream that `plain` has returned. None stands for the current one, whichever it is.
        """
        stretch = None
        if stream is None:
            stream = self._current()
            if not (stream.ptr == _PER_THREAD or is_capturing(stream) or self.torch_captures()):
                stretch = self._stretch(stream)
            elif stream.ptr != _PER_THREAD:
                self._note_capture((operands, result))
        else:
            stretch = self._local.stretch()
            if stretch is None or stretch.closed or stretch.pointer != stream.ptr:
                stretch = self._stretch(stream)
        kind: Any = self._kind
        allocations, given = self._allocations, []
        for x in operands:
            if type(x) is kind:
                given.append(x)
            elif isinstance(x, (list, tuple, dict)):
                _add_arrays(x, kind, given)
        for array in given:
            owner = getattr(array.data.mem, "_owner", None)
            found = owner.range if type(owner) is Owner else None
            if found is None or array.nbytes != found.stop - found.start:
                found = self.range_of(array)
            if found is None or not array.size:
                continue
            if stretch is None:
                found.lent = True
            elif found.uses.get(stretch.pointer) is not stretch:
                stretch = self._add(found, stretch)
        results: list[Any] = []
        if type(result) is kind:
            results.append(result)
        elif isinstance(result, (list, tuple, dict)):
            _add_arrays(result, kind, results)
        for array in results:
            memory = array.data.mem
            start = memory.ptr
            known = allocations.get(start)
            if (
                array.base is not None
                or not (known is None or known.root() is None)
                or type(getattr(memory, "_owner", None)) is Owner
                or not array.size
                or memory.device_id != self._index
            ):
                continue
            for x in given:
                if x.data.mem is memory:
                    # Operands that are not known are other code's.
                    break
            else:
                made = _new(Allocation)
                made.start, made.stop, made.owner = start, start + memory.size, _nobody
                made.parts, made.loans, made.kept, made.arena = {}, {}, None, stream.ptr
                made.lent = stretch is None
                made.captured = made.lent and stream.ptr != _PER_THREAD
                made.uses = {} if stretch is None else {stretch.pointer: stretch}
                made.root = _Root(array, self._forget)
                made.root.address = start
                allocations[start] = made
                if stretch is not None and stretch.closed:
                    stretch = self._add(made, stretch)
        if stretch is not None and isinstance(stream, self._cupy.cuda.ExternalStream):
            # The owner of the stream may destroy it at any time.
            self._close(stretch)

    def note_copy(self, buffer: Any, stream: Any, event: Any) -> None:
        """Record that a copy on a stream, which an event is behind, uses a buffer."""
        found = self.range_of(buffer)
        if found is not None:
            stretch = Stretch(stream)
            stretch.closed, stretch.event = True, event
            with _adding.held:
                stretch.number = next(self._clock)
                _add_later(found.uses, stretch)
            self._keep(found.allocation, stretch)

    def _keep(self, allocation: Allocation, stretch: Stretch) -> None:
        """Keep memory until it was used, if that is on another stream than its own."""
        if stretch.pointer != allocation.arena and allocation.kept is None:
            root = allocation.root()
            if root is not None:
                allocation.kept = root.data.mem

    def _note_capture(self, values: Iterable[Any]) -> None:
        """Record that a graph uses arrays."""
        for array in _add_arrays(values, self._kind, []):
            known = self._known(array)
            if known is not None:
                known.captured = True

    def _add(self, found: Range, stretch: Stretch) -> Stretch:
        """Note a use in a range; return the stretch, which may be a new one."""
        with _adding.held:
            while True:
                found.uses[stretch.pointer] = stretch
                # Afterwards: it replaces another thread's, whose work may be later than a point
                # that was made meanwhile.
                if not stretch.closed:
                    break
                stretch = self._stretch(stretch.stream)
        self._keep(found.allocation, stretch)
        return stretch

    def _close(self, stretch: Stretch, *, needed: bool = True) -> Any:
        """Return the event that closes a stretch, on the current device.

        Raises
        ------
        RuntimeError
            If it is needed, and a graph is being captured on the stream.
        """
        if stretch.event is None:
            with _adding.held:
                if stretch.event is None:
                    if is_capturing(stretch.stream):
                        if needed:
                            self._refuse(stretch.pointer)
                        return None
                    stretch.closed = True
                    stretch.number = next(self._clock)
                    stretch.event = self._record(stretch.stream)
        return stretch.event

    def wait(self, stream: Any, buffer: Any) -> None:
        """Make a stream wait for all work that may use a buffer.

        Waits itself for the device, if other code may use the buffer; see `synchronize`.
        """
        known = self._known(buffer)
        uses: dict[int, Stretch] = {}
        lent = known is None
        if known is not None:
            start, stop = buffer.data.ptr, buffer.data.ptr + buffer.nbytes
            with _adding.held:
                uses.update(known.uses)
                lent = known.lent
                for each in known.parts.values():
                    if each.start < stop and start < each.stop:
                        lent = lent or each.lent
                        for stretch in each.uses.values():
                            _add_later(uses, stretch)
        if lent:
            self.synchronize()
            return
        current: Stretch | None = self._local.stretch()
        if current is not None:
            # A later transfer of what is used here before it need not wait for what comes after it.
            self._close(current, needed=False)
        for pointer, stretch in uses.items():
            if pointer != stream.ptr:
                stream.wait_event(self._close(stretch))

    def events_of(self, allocation: Allocation) -> list[Any]:
        """Return the events after the last uses of memory on other streams than its own."""
        uses: dict[int, Stretch] = {}
        for each in (allocation, *allocation.parts.values()):
            for stretch in each.uses.values():
                _add_later(uses, stretch)
        uses.pop(allocation.arena, None)
        events = [self._close(stretch) for stretch in uses.values()]
        allocation.parts.clear()
        return events


class _Calls:
    """Allows calls that CUDA forbids during captures of others, in a ``with`` statement.

    A capture on a stream that nobody can name, of another thread for example, is made invalid by an
    allocation, a wait or the query of an event anywhere, unless the thread says that they have
    nothing to do with it. PyTorch's allocators do the same.
    """

    def __init__(self, order: Order, exchange: Callable[[Any], int]) -> None:
        self._order = order
        self._exchange = exchange
        # The modes of a thread before its calls.
        self._modes = _Modes()

    def __enter__(self) -> Any:
        order, mode = self._order, ctypes.c_int(_RELAXED)
        order.device.__enter__()
        self._exchange(ctypes.byref(mode))
        self._modes.list.append(mode)
        return order._current()  # noqa: SLF001  # of this module

    def __exit__(self, *exception: object) -> None:
        self._exchange(ctypes.byref(self._modes.list.pop()))
        self._order.device.__exit__(*exception)


class _Modes(threading.local):
    def __init__(self) -> None:
        self.list: list[Any] = []


def _forget(order: weakref.ref[Order], root: _Root) -> None:
    """Forget memory whose owner is gone. Finalisers call this, on any thread."""
    known = order()
    allocation = None if known is None else known._allocations.get(root.address)  # noqa: SLF001  # the callback of this class
    if known is not None and allocation is not None and allocation.root is root:
        known._allocations.pop(root.address, None)  # noqa: SLF001  # as above
        # Loans know what keeps them, and would wait for the garbage collector.
        allocation.loans.clear()
        if allocation.kept is not None:
            known.leaving.append(allocation)
        else:
            allocation.parts.clear()


def _add_arrays(values: Any, kind: type, found: list[Any]) -> list[Any]:
    """Append the arrays in lists, tuples and dictionaries."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, kind):
            found.append(value)
        elif isinstance(value, (list, tuple, dict)):
            _add_arrays(value, kind, found)
    return found


class Pointer:
    """A stream of which only the address is known."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:  # a protocol of CUDA's
        """Return the version of the protocol and the address."""
        return (0, self._address)
