"""The order of work on a CUDA device: last uses of buffers, PyTorch's stream, and graph captures.

Work of this package is on CuPy's current stream, and its transfers are on streams of their own. A
transfer waits for the last use of its bytes and for nothing else, if only this package has used
them. Bytes that were lent to other code may be used on any stream, so it waits for the device. This
would end a graph capture on any of its streams, so it is refused during a capture.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from syncblob._locks_lost_in_fork import Lock
from syncblob.devices.base import Calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# CUDA's numbers of the default streams, and of the mode of a thread that captures forbid nothing.
_LEGACY, _PER_THREAD = 1, 2
_RELAXED = 2

# In place of the pointer of a stream: other code, which may use any.
_ANY = -1

# How many points of a stream are remembered. Older uses wait for the oldest of these.
_POINTS = 8
# Above this number, the uses of a buffer are joined to one.
_USES = 64

_adding = Lock()


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


class _Uses:
    """The uses of an allocation.

    Attributes
    ----------
    root
        A weak reference to the array that owns the memory. The uses are forgotten with it.
    last
        The number of the last use, and the stream, by range and pointer of the stream. The stream
        is None for other code, which may use the range on any stream.
    loans
        See `Order.loans`.
    """

    def __init__(self, root: weakref.ref[Any]) -> None:
        self.root = root
        self.last: dict[tuple[int, int, int], tuple[int, Any]] = {}
        self.loans: dict[Any, Any] = {}

    def add(self, start: int, stop: int, number: int, stream: Any) -> None:
        # Another thread's use must not come between the last ones and those that replace them.
        with _adding.held:
            self.last[start, stop, _ANY if stream is None else stream.ptr] = number, stream
            if len(self.last) > _USES:
                self._join()

    def _join(self) -> None:
        joined: dict[int, tuple[int, int, tuple[int, Any]]] = {}
        for (low, high, pointer), use in sorted(self.last.items(), key=lambda use: use[1][0]):
            first, last, _ = joined.get(pointer, (low, high, use))
            joined[pointer] = min(low, first), max(high, last), use
        self.last = {(*ends, pointer): use for pointer, (*ends, use) in joined.items()}  # type: ignore[misc]  # two ends

    def of(self, start: int, stop: int) -> dict[int, tuple[int, Any]]:
        """Return the last use of a range by each stream."""
        found: dict[int, tuple[int, Any]] = {}
        for (low, high, pointer), use in [*self.last.items()]:
            if low < stop and start < high and use[0] >= found.get(pointer, use)[0]:
                found[pointer] = use
        return found


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
    """

    def __init__(self, cupy: Any, index: int, driver: Any) -> None:
        self._cupy = cupy
        self._index = index
        self.device: Any = cupy.cuda.Device(index)
        self._exchange: Callable[[Any], int] = driver.cuThreadExchangeStreamCaptureMode
        # CuPy's current stream of the device, whichever device is current.
        self._current: Callable[[], Any] = partial(cupy.cuda.get_current_stream, index)
        # Numbers uses and points in the order in which they were made.
        self._clock = itertools.count()
        # By the address of their memory. An address is used again, so an entry counts only as long
        # as its root is alive.
        self._uses: dict[int, _Uses] = {}
        # The last points of each stream, with their events.
        self._points: dict[int, deque[tuple[int, Any]]] = {}
        # See `torch`, which is called several times for each operation.
        self._torch: Any = None
        # The streams that Blobs were used on: CuPy's by their addresses, as long as they exist, and
        # the addresses of torch's, which exist as long as the process.
        self._passed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._passed_of_torch: set[int] = set()

    # --- streams and captures --------------------------------------------------------------------

    def calls(self) -> _Calls:
        """Allow calls that CUDA forbids during captures of others, on this device.

        A capture on a stream that nobody can name, of another thread for example, is made invalid
        by an allocation, a wait or the query of an event anywhere, unless the thread says that they
        have nothing to do with it. PyTorch's allocators do the same.
        """
        return _Calls(self.device, self._exchange, self._current)

    def torch(self) -> Any:
        """Return torch if it is loaded and uses CUDA, else None."""
        if self._torch is None:
            torch = sys.modules.get("torch")
            # A module that is being imported by another thread lacks these.
            cuda = getattr(torch, "cuda", None)
            if cuda is not None and cuda.is_initialized():
                self._torch = torch
        return self._torch

    def torch_stream(self) -> int | None:
        """Return the pointer of torch's current stream, if it is another one than CuPy's."""
        torch = self.torch()
        if torch is None:
            return None
        # As `torch.cuda.current_stream(...).cuda_stream`, which takes 20 times as long.
        theirs: int = torch._C._cuda_getCurrentRawStream(self._index)  # noqa: SLF001  # Triton calls it, too
        ours: int = self._current().ptr
        return None if (theirs or _LEGACY) == (ours or _LEGACY) else theirs

    def torch_captures(self) -> bool:
        """Return whether a graph is being captured on torch's current stream."""
        torch = self.torch()
        return torch is not None and _is_true(torch.cuda.is_current_stream_capturing)

    def _pass(self, stream: Any) -> None:
        """Remember a stream of CuPy's that Blobs were used on."""
        if stream.ptr not in self._passed:
            self._passed[stream.ptr] = stream

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
                raise RuntimeError(
                    f"bytes on cuda:{self._index} that other code may use on any stream cannot be "
                    f"waited for while a CUDA graph is being captured on the stream {pointer:#x}, "
                    "because the wait would end the capture: transfer them before the capture or "
                    "after it"
                )
        self.device.synchronize()

    def mark(self) -> Any:
        """Return an event after the work queued so far on the current streams."""
        self.join()
        return self._record(self._current())

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
        pointer = self.torch_stream()
        if pointer is None:
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

    def own(self, root: Any) -> _Uses:
        """Begin to record the uses of an array that owns its memory and that no other code has."""
        address = root.data.mem.ptr
        uses = _Uses(weakref.ref(root, partial(_forget, weakref.ref(self), address)))
        self._uses[address] = uses
        return uses

    def _known(self, array: Any) -> _Uses | None:
        """Return the uses of an array's memory; None if other code may have it."""
        uses = self._uses.get(array.data.mem.ptr)
        return None if uses is None or uses.root() is None else uses

    def lend(self, array: Any) -> None:
        """Record that other code may use an array from now on, on any stream."""
        self._pass(self._current())
        uses = self._known(array)
        if uses is not None and array.size:
            uses.add(*_bounds(array), next(self._clock), None)

    def loans(self, buffer: Any) -> dict[Any, Any] | None:
        """Return what is kept with a buffer until it is gone; None if other code may have it."""
        uses = self._known(buffer)
        return None if uses is None else uses.loans

    def note(self, operands: Iterable[Any], result: Any = (), stream: Any = None) -> None:
        """Record that a stream, by default the current one, uses arrays.

        Parameters
        ----------
        operands
            The arguments of a computation. Arrays are found in some containers, too.
        result
            Its result. Arrays in it that own their memory are this package's from now on.
        stream
            The stream.
        """
        kind = self._cupy.ndarray
        given = _arrays(operands, kind, [])
        stream = self._current() if stream is None else stream
        self._pass(stream)
        if stream.ptr == _PER_THREAD or is_capturing(stream) or self.torch_captures():
            # Events on it say nothing about its work: its number means another stream in another
            # thread, or a graph is launched later.
            stream = None
        results = [result] if isinstance(result, kind) else _arrays((result,), kind, [])
        for array in (*given, *results):
            uses = self._known(array)
            if not array.size:
                continue
            if uses is None and array.base is None and array.device.id == self._index:
                # Operands that are not known are other code's.
                foreign = any(array.data.mem is operand.data.mem for operand in given)
                uses = None if foreign else self.own(array)
            if uses is not None:
                uses.add(*_bounds(array), next(self._clock), stream)

    def _point(self, stream: Any) -> Any:
        """Remember how far a stream has come, and return the event."""
        # The number comes first: what was numbered before it is before the event.
        number = next(self._clock)
        points = self._points.setdefault(stream.ptr, deque())
        # The oldest event serves again: who still waits for it now waits for more.
        event = points.popleft()[1] if len(points) >= _POINTS else None
        event = self._record(stream) if event is None else stream.record(event)
        points.append((number, event))
        return event

    def wait(self, stream: Any, buffer: Any) -> None:
        """Make a stream wait for all work that may use a buffer.

        Waits itself for the device, if other code may use the buffer; see `synchronize`.
        """
        known = self._known(buffer)
        uses = {_ANY: (0, None)} if known is None else known.of(*_bounds(buffer))
        if _ANY in uses:
            self.synchronize()
            return
        current = self._current()
        if current.ptr != _PER_THREAD:
            # A later transfer of what is used here before it need not wait for what comes after it.
            self._point(current)
        for pointer, (number, user) in uses.items():
            if pointer != stream.ptr:
                points = list(self._points.get(pointer, ()))
                event = next((event for made, event in points if made > number), None)
                stream.wait_event(self._point(user) if event is None else event)


class _Calls:
    """Calls on a device, in a ``with`` statement; see `Order.calls`."""

    __slots__ = ("_current", "_device", "_exchange", "_mode")

    def __init__(
        self, device: Any, exchange: Callable[[Any], int], current: Callable[[], Any]
    ) -> None:
        self._device = device
        self._exchange = exchange
        self._current = current
        self._mode = ctypes.c_int(_RELAXED)

    def __enter__(self) -> Any:
        self._device.__enter__()
        self._exchange(ctypes.byref(self._mode))
        return self._current()

    def __exit__(self, *exception: object) -> None:
        self._exchange(ctypes.byref(self._mode))
        self._device.__exit__(*exception)


def _forget(order: weakref.ref[Order], address: int, root: weakref.ref[Any]) -> None:
    """Forget the uses of memory whose owner is gone."""
    found = order()
    if found is not None:
        uses = found._uses.get(address)  # noqa: SLF001  # the callback of this class
        if uses is not None and uses.root is root:
            found._uses.pop(address, None)  # noqa: SLF001  # as above
            # Loans know what keeps them, and would wait for the garbage collector.
            uses.loans.clear()


def _bounds(array: Any) -> tuple[int, int]:
    """Return the address of an array and that of its end; those of its memory if it has gaps."""
    memory = array.data.mem
    if array.flags.c_contiguous:
        start: int = array.data.ptr
        return start, start + array.nbytes
    return memory.ptr, memory.ptr + memory.size


def _arrays(values: Iterable[Any], kind: type, found: list[Any]) -> list[Any]:
    """Append the arrays in arguments, also in containers, partial functions and closures."""
    for value in values:
        if isinstance(value, kind):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            _arrays(value, kind, found)
        elif isinstance(value, dict):
            _arrays(value.values(), kind, found)
        elif isinstance(value, Calls):
            _arrays(value.calls, kind, found)
        elif isinstance(value, partial):
            _arrays((value.func, *value.args, *value.keywords.values()), kind, found)
        elif isinstance(getattr(value, "__self__", None), kind):
            found.append(value.__self__)
        elif getattr(value, "__closure__", None):
            _arrays((cell.cell_contents for cell in value.__closure__), kind, found)
    return found


class Pointer:
    """A stream of which only the address is known."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:  # a protocol of CUDA's
        """Return the version of the protocol and the address."""
        return (0, self._address)
