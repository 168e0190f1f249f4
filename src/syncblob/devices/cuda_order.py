"""The order of work on a CUDA device: last uses of buffers, PyTorch's stream, and graph captures.

Work of this package is on CuPy's current stream, and its transfers are on streams of their own. A
transfer waits for the last use of its bytes and for nothing else, if only this package has used
them. Bytes that were lent to other code may be used on any stream, so it waits for the device. This
would end a graph capture on any of its streams, so it is refused during a capture.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import weakref
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# CUDA's numbers of the default streams, and of the mode of a thread that captures forbid nothing.
_LEGACY, _PER_THREAD = 1, 2
_RELAXED = 2

# In place of the pointer of a stream: other code, which may use any.
_ANY = -1

# How many points of a stream are remembered. Older uses wait for the oldest of these.
_POINTS = 8
# Above this number, the uses of a buffer are joined to one.
_USES = 64


def is_capturing(stream: Any) -> bool:
    """Return whether a graph is being captured on a stream, or a capture forbids its use."""
    return _is_true(stream.is_capturing)


def _is_true(asked: Callable[[], bool]) -> bool:
    """Return the answer of CuPy or PyTorch whether a stream is capturing."""
    try:
        return bool(asked())
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
        self.last[start, stop, _ANY if stream is None else stream.ptr] = number, stream
        if len(self.last) > _USES:
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
        self._exchange: Callable[[Any], int] | None = getattr(
            driver, "cuThreadExchangeStreamCaptureMode", None
        )
        # Numbers uses and points in the order in which they were made.
        self._clock = itertools.count()
        # By the address of their memory. An address is used again, so an entry counts only as long
        # as its root is alive.
        self._uses: dict[int, _Uses] = {}
        # The last points of each stream, with their events.
        self._points: dict[int, deque[tuple[int, Any]]] = {}
        # See `_streams`.
        self._seen: tuple[list[int], list[weakref.ref[Any]]] = [], []

    # --- streams and captures --------------------------------------------------------------------

    @contextmanager
    def calls(self) -> Iterator[Any]:
        """Allow calls that CUDA forbids during captures of others, on this device.

        A capture on a stream that nobody can name, of another thread for example, is made invalid
        by an allocation, a wait or the query of an event anywhere, unless the thread says that they
        have nothing to do with it. PyTorch's allocators do the same.
        """
        mode = ctypes.c_int(_RELAXED)
        with self.device:
            if self._exchange is not None:
                self._exchange(ctypes.byref(mode))
            try:
                yield self._cupy.cuda.get_current_stream()
            finally:
                if self._exchange is not None:
                    self._exchange(ctypes.byref(mode))

    def torch(self) -> Any:
        """Return torch if it is loaded and uses CUDA, else None."""
        torch = sys.modules.get("torch")
        # A module that is being imported by another thread lacks these.
        cuda = getattr(torch, "cuda", None)
        return torch if cuda is not None and cuda.is_initialized() else None

    def torch_stream(self) -> int | None:
        """Return the pointer of torch's current stream, if it is another one than CuPy's."""
        torch = self.torch()
        if torch is None:
            return None
        theirs: int = torch.cuda.current_stream(self._index).cuda_stream
        ours: int = self._cupy.cuda.get_current_stream().ptr
        return None if (theirs or _LEGACY) == (ours or _LEGACY) else theirs

    def torch_captures(self) -> bool:
        """Return whether a graph is being captured on torch's current stream."""
        torch = self.torch()
        return torch is not None and _is_true(torch.cuda.is_current_stream_capturing)

    def _streams(self) -> list[Any]:
        """Return the streams of CuPy's and torch's that are alive, the default ones included.

        Finding them takes tens of milliseconds, because all objects are searched. This is only done
        if the references to the classes, of which each stream has one, are not as many as before.
        """
        torch = self.torch()
        kinds = [self._cupy.cuda.Stream, *([] if torch is None else [torch.cuda.Stream])]
        references = [sys.getrefcount(kind) for kind in kinds]
        before, seen = self._seen
        streams = [stream for stream in (known() for known in seen) if stream is not None]
        if before != references or len(streams) < len(seen):
            streams = [each for each in gc.get_referrers(*kinds) if type(each) in kinds]
            self._seen = references, [weakref.ref(stream) for stream in streams]
        return streams

    def synchronize(self) -> None:
        """Wait for the device.

        Raises
        ------
        RuntimeError
            If a graph is being captured on a stream of CuPy's or torch's. The wait would end it.
        """
        runtime = self._cupy.cuda.runtime
        for stream in self._streams():
            pointer = getattr(stream, "ptr", None) or getattr(stream, "cuda_stream", 0)
            index = getattr(stream, "device_id", getattr(stream, "device_index", -1))
            if index in {-1, self._index} and _is_true(partial(runtime.streamIsCapturing, pointer)):
                raise RuntimeError(
                    f"bytes on cuda:{self._index} that other code may use on any stream cannot be "
                    f"waited for while a CUDA graph is being captured on {stream!r}, because the "
                    "wait would end the capture: transfer them before the capture or after it"
                )
        self.device.synchronize()

    def mark(self) -> Any:
        """Return an event after the work queued so far on the current streams."""
        self.join()
        return self._cupy.cuda.get_current_stream().record()

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
        if self.torch_captures():
            if computing:
                raise RuntimeError(
                    "a CUDA graph is being captured on torch's current stream, and an operation of "
                    "CuPy's would be on another one: call a function of torch's, or make that "
                    "stream current in CuPy, with cupy.cuda.Stream.from_external"
                )
            return
        ours = self._cupy.cuda.get_current_stream()
        if is_capturing(ours):
            return
        stream = self._cupy.cuda.Stream
        theirs = stream.from_external(Pointer(pointer)) if pointer else stream.null
        reached, other = ours.record(), theirs.record()
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
        given = [*_arrays(operands, kind)]
        stream = self._cupy.cuda.get_current_stream() if stream is None else stream
        if stream.ptr == _PER_THREAD or is_capturing(stream) or self.torch_captures():
            # Events on it say nothing about its work: its number means another stream in another
            # thread, or a graph is launched later.
            stream = None
        for array in (*given, *_arrays((result,), kind)):
            uses = self._known(array)
            owns = array.base is None and array.size and array.device.id == self._index
            if uses is None and owns:
                # Operands that are not known are other code's.
                foreign = any(array.data.mem is operand.data.mem for operand in given)
                uses = None if foreign else self.own(array)
            if uses is not None and array.size:
                uses.add(*_bounds(array), next(self._clock), stream)

    def point(self, stream: Any = None) -> Any:
        """Remember how far a stream has come, by default the current one, and return the event."""
        stream = self._cupy.cuda.get_current_stream() if stream is None else stream
        if stream.ptr == _PER_THREAD:
            return None
        # The number comes first: what was numbered before it is before the event.
        number = next(self._clock)
        event = stream.record()
        self._points.setdefault(stream.ptr, deque(maxlen=_POINTS)).append((number, event))
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
        for pointer, (number, user) in uses.items():
            if pointer != stream.ptr:
                points = list(self._points.get(pointer, ()))
                event = next((event for made, event in points if made > number), None)
                stream.wait_event(self.point(user) if event is None else event)


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


def _arrays(values: Iterable[Any], kind: type) -> Iterator[Any]:
    """Yield the arrays in arguments, also in containers, partial functions and closures."""
    for value in values:
        if isinstance(value, kind):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _arrays(value, kind)
        elif isinstance(value, dict):
            yield from _arrays(value.values(), kind)
        elif isinstance(value, partial):
            yield from _arrays((value.func, *value.args, *value.keywords.values()), kind)
        elif isinstance(getattr(value, "__self__", None), kind):
            yield value.__self__
        elif getattr(value, "__closure__", None):
            yield from _arrays((cell.cell_contents for cell in value.__closure__), kind)


class Pointer:
    """A stream of which only the address is known."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:  # a protocol of CUDA's
        """Return the version of the protocol and the address."""
        return (0, self._address)
