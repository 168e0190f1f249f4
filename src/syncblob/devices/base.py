"""The sides of a memory, and the interface of backends."""

from __future__ import annotations

import enum
import math
import operator
import time
from _thread import get_ident
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from syncblob._layout import Layout
from syncblob._source_lines import user_line
from syncblob._weak_list import WeakList
from syncblob.devices import timed_computations
from syncblob.errors import DeviceMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from syncblob.devices.device import Device

    # Returns when something happened, in seconds of `time.perf_counter`; None if it has not yet, or
    # if that is unknown.
    Moment: TypeAlias = Callable[[], float | None]


# DLPack's numbers for kinds of devices: DLDeviceType in dlpack.h.
DLPACK_CPU = 1
DLPACK_CUDA = 2
DLPACK_CUDA_MANAGED = 13
# kDLCPU, kDLCUDAHost and kDLROCMHost. The host must not read kDLCUDAManaged before the work on it.
DLPACK_HOST_TYPES = frozenset({DLPACK_CPU, 3, 11})

# The shortcuts through which threads are writing arrays without the lock, by an object of each
# write; see `Home.writers`.
WRITERS: dict[object, Any] = {}

# The blocks of `compute_only_on` and `verified_const`, and logs of operations, that are open in any
# thread. While there are any, fast paths ask `require_device`, or leave the call to slower ones. In
# a forked child, those of other threads never end, which is slower, but correct.
supervisors: set[object] = set()

# The attribute of a MemoryError with the bytes of the allocation that has failed.
NEEDED = "needed_nbytes"

# The attributes by which arrays on devices describe themselves.
protocols: list[str] = ["__cuda_array_interface__", "__sycl_usm_array_interface__"]


# Accelerators, and threads whose next computation there ends before its call does. Backends that
# share memory look at it after each; see `Accelerator.end_next`.
ENDING: set[tuple[Any, int]] = set()


class BesideCaptureError(RuntimeError):
    """What was asked for would end the capture of a graph."""


def is_on_device(x: object) -> bool:
    """Return whether an array is on a device, as its protocol tells."""
    return any(hasattr(x, protocol) for protocol in protocols)


class Side(enum.IntEnum):
    """The sides of a memory: the host, and accelerators in the order in which they were first used.

    ``Side(2)``, ``Side(3)`` and so on are the further accelerators. Each is one object.
    """

    HOST = 0
    ACCELERATOR = 1

    @classmethod
    def _missing_(cls, value: object) -> Side | None:
        """Make the side of a further accelerator."""
        if type(value) is not int or value < 0:
            return None
        side = int.__new__(cls, value)
        side._name_ = f"ACCELERATOR {value}"
        side._value_ = value
        # As `enum.Flag` does for combinations.
        return cls._value2member_map_.setdefault(value, side)  # type: ignore[return-value]  # of this class


class Home(ABC):
    """The memory of one side: allocates buffers, and returns arrays over them.

    A *buffer* is a one-dimensional uint8 array of the home's array library; a slice of it is a
    buffer of a part. What is not abstract, here and in the other classes, is right for backends
    that lack what it is about, or cannot tell; they need not override it.
    """

    device: Device
    # Whether NumPy's functions can be called directly on arrays here.
    native: bool
    # Whether they can be called without `compute`, which has nothing to count or to delay. A class
    # derives this from `native` and `bounded`; an object that changes these changes it, too.
    plain: bool = False
    # Whether `compute` notes itself which arrays are used, so that it can be given those at hand.
    queues: bool = False
    # Whether NumPy's functions make views of arrays here. Otherwise the views are computed from
    # layouts.
    views: bool = True
    # Whether an allocation may fail because other buffers hold the memory, so that it helps to
    # evict them.
    bounded: bool = False
    # Whether indices and exponents that only this device holds are checked, which waits for the
    # work that computes them. The library itself need not check any.
    checks_values: bool = True
    # Who writes an array here without the lock adds its shortcut before it looks whether it may be
    # used. None as long as no buffer of the home leaves a memory.
    writers: dict[object, Any] | None = None
    # The array library of this home: NumPy, CuPy through array-api-compat, or a backend's own.
    namespace: ModuleType
    # Whether its memory is that of the host. A Blob has one buffer for such homes.
    shared: bool = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Derive `plain`."""
        super().__init_subclass__(**keywords)
        cls.plain = getattr(cls, "native", False) and not cls.bounded

    def room(self) -> tuple[float, float]:
        """Return how many bytes are free, and how many there are, as far as that is known."""
        return math.inf, math.inf

    def can_hold(self, nbytes: int) -> bool:
        """Return whether an allocation could succeed if nothing else was there."""
        return nbytes <= self.room()[1]

    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function with arrays of this home."""
        if timed_computations.watchers:
            return timed_computations.run(self, function, args, keywords)
        return function(*args, **keywords)

    def used(self, *arrays: Any) -> None:  # noqa: B027  # only some record it
        """Record that work which uses arrays was started, if they are no arguments of `compute`."""

    def own(self, name: str) -> Callable[..., Any]:
        """Return the function of this home's library of a name, such as ``"linalg.inv"``."""
        return operator.attrgetter(name)(self.namespace)

    @abstractmethod
    def as_array(self, result: Any) -> Any:
        """Convert the result of a computation to an array; NumPy's functions may return scalars."""

    def owns(self, array: Any) -> bool:
        """Return whether an array is no view of another, so that none shares its memory.

        False is the safe answer, if the library cannot tell.
        """
        return array.base is None

    def read_only(self, array: Any) -> bool:
        """Return whether an array must not be written, in a library with such arrays."""
        return False

    def settle(self, buffer: Any) -> None:  # noqa: B027  # only some have to
        """Order later computations after all work that may use a buffer."""

    def holder(self, buffer: Any) -> str:
        """Return what keeps a buffer where it is; empty if it can leave."""
        return ""

    @abstractmethod
    def overlap(self, array: Any, buffer: Any) -> bool:
        """Return whether an array may share memory with a buffer."""

    @abstractmethod
    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        """Return a new buffer. Its bytes are arbitrary unless `zeroed`."""

    @abstractmethod
    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a host buffer of the kind that this home copies fastest."""

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return a new array with arbitrary contents. Call it by `compute`."""
        return self.namespace.empty(shape, dtype=dtype)

    def astype(self, array: Any, dtype: Any, order: str = "C") -> Any:
        """Return a copy of an array in a dtype. Call it by `compute`."""
        return array.astype(dtype, order=order, copy=True)

    def copy(self, array: Any) -> Any:
        """Return a C-contiguous copy of an array. Call it by `compute`."""
        return self.astype(array, array.dtype)

    @abstractmethod
    def zero(self, buffer: Any) -> None:
        """Set every byte of a buffer to zero."""

    @abstractmethod
    def view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Lay an array over a buffer, without a copy."""

    def own_view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Lay an array over a buffer, only to be passed to `compute`, and not to other code."""
        return self.view(buffer, layout, writable=writable)

    def lend(self, array: Any) -> None:  # noqa: B027  # only some record it
        """Record that other code uses an array that `own_view` has returned."""

    def accessor_views(self, buffer: Any, layout: Layout) -> tuple[Any, Any] | None:
        """Return two objects that Blobs keep, whose ``view()`` does again what `view` does.

        The arrays of the first need not be writable. None if there are none. Then each access calls
        `view`.
        """
        return None

    @abstractmethod
    def address(self, array: Any) -> int:
        """Return the address of the first element of an array of this home."""

    def strides(self, array: Any) -> tuple[int, ...]:
        """Return the strides of an array in bytes."""
        return tuple(array.strides)

    def layout(self, array: Any, address: int) -> Layout:
        """Return the layout of an array in a memory whose first byte would be at an address."""
        offset = self.address(array) - address if array.size else 0
        return Layout(tuple(array.shape), array.dtype, self.strides(array), offset)

    def exporter(self, buffer: Any) -> Any:
        """Return the object over which aliases of a buffer are made. It is kept and reused."""
        return buffer

    @abstractmethod
    def alias(self, exporter: Any, layout: Layout) -> tuple[Any, object]:
        """Return a writable array over an exporter's buffer, and an object that tells its lifetime.

        The object is weakly referenceable, and lives as long as any array, slice, tensor or capsule
        made from the array.
        """

    @abstractmethod
    def wrap(self, array: Any) -> Any:
        """Return the buffer under a dense C-contiguous array, without a copy."""

    def capsule(self, array: Any, *, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return the DLPack capsule of an array of this home, without a copy."""
        return array.__dlpack__(stream=stream, max_version=max_version)

    @property
    @abstractmethod
    def dlpack_device(self) -> tuple[int, int]:
        """The DLPack device type and id of arrays of this home."""

    def moment(self) -> Moment:
        """Return a function that tells when all work that was started so far has run."""
        now = time.perf_counter()
        return lambda: now


class Push(ABC):
    """An asynchronous upload, or download, on another stream."""

    @abstractmethod
    def order(self) -> bool:
        """Make later work on the accelerator wait; return whether the upload has finished."""

    @abstractmethod
    def wait(self) -> None:
        """Block until the upload has finished. Raises the upload's exception."""

    @property
    def arrived(self) -> bool:
        """Whether it has certainly succeeded, for all later work, too. Does not wait.

        Accesses of backends that cannot tell wait by the methods above.
        """
        return False

    @property
    def over(self) -> bool:
        """Whether the upload has finished, after a wait for it has raised.

        A signal handler can interrupt a wait.
        """
        return True

    @property
    def arrival(self) -> Moment:
        """A function that tells when the upload had arrived. It keeps no buffer alive."""
        return lambda: None


class Finished(Push):
    """A copy that was made before the call returned."""

    arrived = True

    def order(self) -> bool:
        """Return True."""
        return True

    def wait(self) -> None:
        """No-op."""


def make_calls(calls: Iterable[Callable[[], object]]) -> None:
    """Make calls in C, so that no signal handler can run between them."""
    deque(map(operator.call, calls), 0)


def begin(begun: list[Push], start_copy: Callable[..., Push], *arrays: Any) -> Push:
    """Start an asynchronous copy. One call in C also notes its push, whatever interrupts it."""
    begun.extend(map(start_copy, *[(array,) for array in arrays]))
    return begun[0]


class Accelerator(Home):
    """A home that is not the host, with the copies between it and the host.

    Copies are between buffers of equal length, and raise before any state changes.
    """

    # The attribute by which arrays of this accelerator's library describe themselves, such as
    # "__sycl_usm_array_interface__", and their DLPack device type; empty and 0 if there is none.
    protocol: str = ""
    dlpack_type: int = 0

    @classmethod
    def import_array(cls, x: Any, *, copy: bool | None = None) -> Any:
        """Return an array of this accelerator's library over the memory of an object.

        Only called with objects that have `protocol`, or are of `dlpack_type`. ValueError or
        BufferError if ``copy=False`` and a copy is needed.
        """
        raise NotImplementedError

    def describe(self, array: Any, *, readonly: bool) -> Any:
        """Return what `protocol` says of an array of this accelerator."""
        raise NotImplementedError

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """The library's DLPack type and the index of the device."""
        return (self.dlpack_type, self.device.index)

    @classmethod
    def device_of(cls, array: Any) -> Device:
        """Return the device of an array of this accelerator's library."""
        raise NotImplementedError

    bounded: bool = True
    writers: dict[object, Any] | None = WRITERS
    # The memories that have had buffers here, in the order of the first.
    residents: WeakList

    # Whether its memory can be that of the host, and whether that of any accelerator was.
    can_share: bool = False
    any_shared: bool = False

    def __new__(cls, *_args: object, **_keywords: object) -> Self:
        """Make what every backend has, also if its ``__init__`` does not call that of this."""
        self = super().__new__(cls)
        self.residents = WeakList()
        return self

    def share_memory(self, *, shared: bool) -> None:
        """Allocate memory that the host can use as well, or memory of the device's own."""
        if shared and not self.can_share:
            raise ValueError(f"{self.device} does not share its memory with the host")
        self.shared = shared
        Accelerator.any_shared = Accelerator.any_shared or shared

    def share(self, buffer: Any) -> Any:
        """Return a buffer over one of the host, or the reverse; None if the other cannot use it."""
        del buffer

    def finish(self, buffer: Any) -> None:
        """Wait for all work that may use a buffer. Then the host may use it."""
        del buffer
        self.synchronize()

    def end_next(self) -> None:
        """Let this thread's next computation end before its call does: the host may write."""
        ENDING.add((self, get_ident()))

    def end(self) -> None:
        """Wait for the work of a computation that `end_next` has announced."""
        announced = self, get_ident()
        if announced in ENDING:
            ENDING.discard(announced)
            self.synchronize()

    def require_powers(self, x1: Any, x2: Any) -> None:
        """Raise ValueError for a negative power of an integer, as far as `checks_values` allows."""
        base, exponent = (
            "i" if type(x) is int else getattr(x, "dtype", np.dtype("O")).kind for x in (x1, x2)
        )
        if base not in "biu" or exponent != "i":
            return
        if is_on_device(x2):
            # A number of a device is an array, too.
            x2 = int(self.own("min")(x2)) if self.checks_values and x2.size else 0
        if x2 < 0:
            raise ValueError(
                "expected non-negative exponents of integers, got a negative integer; convert the "
                "base to floats"
            )

    def mismatch(self, array: Any) -> DeviceMismatchError:
        """Return the error for an array of another device."""
        return DeviceMismatchError(
            f"expected an array on {self.device}, got one of shape {array.shape} on "
            f"{self.device_of(array)}, at {user_line().describe()}; arrays are not copied between "
            "accelerators: copy it through the host"
        )

    def is_seen(self, buffer: Any) -> bool:
        """Return whether an array that a method of this backend has made over a buffer is in use.

        So it is if other code may have the buffer. Only buffers that nobody sees are evicted when
        memory is short.
        """
        return True

    def give_back(self) -> bool:
        """Give freed memory that libraries keep back to the device; tell whether there was any."""
        return False

    def limit_memory(self, nbytes: int | None) -> int | None:
        """Let allocations fail that pass a number of bytes, or none; return the limit so far."""
        raise NotImplementedError(f"the memory of {self.device} cannot be limited")

    @abstractmethod
    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        """Copy from host to accelerator, after all work that may use `buffer`.

        Returns when `host` can be written again.
        """

    @abstractmethod
    def download(self, buffer: Any, host: NDArray[np.uint8]) -> None:
        """Copy from accelerator to host, after all work that may use `buffer`."""

    def reaches(self, other: Any) -> bool:
        """Return whether `copy_from` copies from another home without the host."""
        return False

    def copy_from(self, other: Accelerator, contents: Any, buffer: Any) -> None:
        """Copy from a buffer of another accelerator, after all work that may use either."""
        host = self.allocate_host(buffer.nbytes)
        other.download(contents, host)
        self.upload(host, buffer)

    def push(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
        """Start an upload on `stream` and return at once. By default, copy before returning.

        It keeps both buffers until it is over: after an error, the memory does not. If this raises,
        or an interrupt does, what it has started has to be over.

        Raises TypeError if there is no such stream; None is the device's own.
        """
        if stream is not None:
            raise TypeError(f"expected stream=None on {self.device}, got {stream!r}")
        self.upload(host, buffer)
        return Finished()

    def pull(self, buffer: Any, host: NDArray[np.uint8]) -> Push:
        """Start a download, after all work that may use `buffer`. By default, wait for it."""
        self.download(buffer, host)
        return Finished()

    @abstractmethod
    def synchronize(self) -> None:
        """Block until all work on this device has finished."""

    def is_page_locked(self, host: NDArray[np.uint8]) -> bool:
        """Return whether copies from and to a host buffer run at full speed."""
        return True

    @property
    def capturing(self) -> bool:
        """Whether work is being captured into a graph, so that downloads are impossible."""
        return False
