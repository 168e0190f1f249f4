"""What a device is: its name, the two homes of a memory, and what a backend does."""

from __future__ import annotations

import enum
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray
    from torch import device as torch_device

    from syncblob._shape import Layout

__all__ = [
    "CPU",
    "DLPACK_CPU",
    "DLPACK_CUDA",
    "DLPACK_HOST_TYPES",
    "Accelerator",
    "Device",
    "Home",
    "Push",
    "Side",
    "kinds",
]

# DLPack's numbers for kinds of devices: DLDeviceType in dlpack.h.
DLPACK_CPU = 1
DLPACK_CUDA = 2
# kDLCPU, kDLCUDAHost, kDLROCMHost and kDLCUDAManaged can be read by the host.
DLPACK_HOST_TYPES = frozenset({DLPACK_CPU, 3, 11, 13})

# What a device can be called; `register` adds to them.
kinds: list[str] = ["cpu", "cuda", "simulated"]


class Side(enum.IntEnum):
    """The two homes of a memory."""

    HOST = 0
    ACCELERATOR = 1

    @property
    def other(self) -> Side:
        """The opposite side."""
        return _OTHER_SIDE[self]


_OTHER_SIDE = (Side.ACCELERATOR, Side.HOST)


class Device:
    """A place where a Blob can live: ``"cpu"``, ``"cuda:N"``, ``"simulated:N"``, a registered kind.

    A small value: equal to its string and hashed like it, so that code which compares or looks up
    device names works with either.

    Parameters
    ----------
    name
        The name, a Device, or a ``torch.device`` that is a host or a CUDA device. Without an index,
        ``"cuda"`` and the like mean index 0; ``torch.device("cuda")`` is torch's current device.

    Attributes
    ----------
    type
        ``"cpu"``, ``"cuda"``, ``"simulated"``, or a kind that `syncblob.devices.register` was told.
    index
        The N of the name; 0 for the host.

    Raises
    ------
    ValueError
        If there is no such kind of device. Whether one is there is not looked at.
    """

    __slots__ = ("_name", "index", "type")

    type: str
    index: int

    def __init__(self, name: str | Device | torch_device) -> None:
        if isinstance(name, Device):
            # Also one of a kind that was unregistered meanwhile.
            self.type, self.index = name.type, name.index
            self._name: str = str(name)
            return
        text = name if isinstance(name, str) else _torch_name(name) or repr(name)
        kind, colon, index = text.partition(":")
        if kind not in kinds or (colon and not (index.isascii() and index.isdigit())):
            *others, last = (f'"{accelerator}:N"' for accelerator in kinds[1:])
            raise ValueError(f'a device is "cpu", {", ".join(others)} or {last}, got {name!r}')
        if kind == "cpu" and int(index or 0) != 0:
            raise ValueError(f'there is one host, "cpu", got {name!r}')
        self.type = kind
        self.index = int(index or 0)
        self._name = kind if kind == "cpu" else f"{kind}:{self.index}"

    @property
    def torch(self) -> torch_device:
        """The ``torch.device`` where torch computes Blobs of this device; imports torch.

        That is the host for all but CUDA devices, also for a simulated device, whose memory is the
        host's: ``torch.zeros(3, device=blob.device.torch)``.
        """
        import torch  # whoever asks has it

        return torch.device(self._name if self.type == "cuda" else "cpu")

    def __str__(self) -> str:
        """Return the name."""
        return self._name

    def __repr__(self) -> str:
        """Show the name."""
        return f"Device({self._name!r})"

    def __eq__(self, other: object) -> bool:
        """Compare with a Device or a name."""
        if isinstance(other, Device):
            return self._name == other._name
        if isinstance(other, str):
            return self._name == other
        return NotImplemented

    def __hash__(self) -> int:
        """Hash like the name."""
        return hash(self._name)

    def __reduce__(self) -> tuple[Callable[[str], Device], tuple[str]]:
        """Pickle by name."""
        return (Device, (self._name,))


def _torch_name(name: object) -> str | None:
    """Return the name of a ``torch.device``; None of anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(name, torch.device):
        return None
    if name.type == "cuda" and name.index is None and torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    return str(name)


CPU = Device("cpu")


class Home(ABC):
    """One side's memory: makes buffers and lays arrays over them.

    A *buffer* is a one-dimensional uint8 array of the home's array library; slicing it gives a
    buffer of a part.
    """

    device: Device
    # Whether NumPy's functions compute here without further ado.
    native: bool
    # Whether they may be called without asking a guard: the home is native, and no `computed_on` is
    # open in any thread. `NumpyHome` sets it.
    direct: bool = False
    # The array library that computes here: NumPy, or CuPy through array-api-compat.
    namespace: ModuleType

    @abstractmethod
    def compute(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function of arrays that lie here."""

    @abstractmethod
    def as_array(self, result: Any) -> Any:
        """Return what a computation gave as an array: NumPy's functions also give scalars."""

    @abstractmethod
    def overlap(self, array: Any, buffer: Any) -> bool:
        """Tell whether an array lies within a buffer, or might."""

    @abstractmethod
    def allocate(self, nbytes: int, *, zeroed: bool = False) -> Any:
        """Return a new buffer. Its bytes are arbitrary unless `zeroed`."""

    @abstractmethod
    def zero(self, buffer: Any) -> None:
        """Set every byte of a buffer to zero."""

    @abstractmethod
    def view(self, buffer: Any, layout: Layout, *, writable: bool) -> Any:
        """Lay an array over a buffer, without a copy."""

    @abstractmethod
    def layout(self, array: Any, buffer: Any) -> Layout:
        """Return how an array, made by `view` or a view of such a one, lies in its buffer."""

    @abstractmethod
    def exporter(self, buffer: Any) -> Any:
        """Return what the aliases of a buffer are laid over. It is kept, and used for each."""

    @abstractmethod
    def alias(self, exporter: Any, layout: Layout) -> tuple[Any, object]:
        """Lay a writable array, whose lifetime can be seen, over an exporter's buffer.

        Returns
        -------
        array
            What a consumer gets.
        target
            An object that dies with the last array, slice, tensor or capsule made from `array`;
            it can be referenced weakly.
        """

    @abstractmethod
    def wrap(self, array: Any) -> Any:
        """Return the buffer under a dense C-contiguous array, without a copy."""

    @abstractmethod
    def capsule(self, array: Any, *, stream: Any, max_version: tuple[int, int] | None) -> Any:
        """Return the DLPack capsule of an array that lies here, without a copy."""

    @property
    @abstractmethod
    def dlpack_device(self) -> tuple[int, int]:
        """The DLPack device type and id of arrays that lie here."""

    def dlpack_device_of(self, buffer: Any) -> tuple[int, int]:
        """Return the DLPack device type and id of one buffer, where they can differ."""
        del buffer
        return self.dlpack_device


class Push(ABC):
    """An upload that is under way on another stream."""

    @abstractmethod
    def order(self) -> bool:
        """Make work that follows on the accelerator wait; return whether the upload is over."""

    @abstractmethod
    def wait(self) -> None:
        """Block until the upload is over. Raises what the upload raised."""

    @property
    def over(self) -> bool:
        """Whether an upload is over, once a wait for it has raised: a signal handler may have.

        A backend whose waits nothing interrupts can leave this as it is.
        """
        return True


class Accelerator(Home):
    """A home that is not the host, and the copies between the two.

    Copies move between buffers of equal length, and raise before any state has changed.
    """

    # Whether work that reads a buffer may still run when the call that started it has returned.
    asynchronous: bool = False

    @abstractmethod
    def allocate_host(self, nbytes: int, *, zeroed: bool = False) -> NDArray[np.uint8]:
        """Return a host buffer of the kind this accelerator copies fastest from and to."""

    @abstractmethod
    def upload(self, host: NDArray[np.uint8], buffer: Any) -> None:
        """Copy host to accelerator. Returns when `host` may be written again."""

    @abstractmethod
    def download(self, buffer: Any, host: NDArray[np.uint8]) -> None:
        """Copy accelerator to host, after all work that may still write to `buffer`."""

    @abstractmethod
    def push(self, host: NDArray[np.uint8], buffer: Any, stream: Any) -> Push:
        """Start an upload on `stream` and return at once."""

    @abstractmethod
    def synchronize(self) -> None:
        """Block until all work given to this device is done."""

    def wait_for_work(self) -> None:
        """Block until no work uses what a transfer is about to read or to replace.

        A backend that is not `asynchronous` can leave this as it is.
        """

    def is_page_locked(self, host: NDArray[np.uint8]) -> bool:
        """Tell whether copies from and to a host buffer run at full speed.

        A backend for which all host memory is alike can leave this as it is.
        """
        del host
        return True

    @property
    def capturing(self) -> bool:
        """Whether work is being captured into a graph, so that nothing can be downloaded now.

        A backend without graphs can leave this as it is.
        """
        return False
