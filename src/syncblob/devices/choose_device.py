"""Device selection: backends by name, the default device, and ``use_device``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, cast

from syncblob._locks_lost_in_fork import Lock
from syncblob.devices import cuda
from syncblob.devices.base import Accelerator, Home, protocols
from syncblob.devices.device import CPU, Device, factories, installed_backends
from syncblob.devices.host import HOST
from syncblob.devices.simulation import SimulatedBackend
from syncblob.devices.sycl import SyclBackend
from syncblob.errors import NoDeviceError

factories |= {"cuda": cuda.CudaBackend, "sycl": SyclBackend, "simulated": SimulatedBackend}
# The kinds that cannot be unregistered.
_OWN = frozenset(factories)
# By the names of their devices.
_backends: dict[str, Accelerator] = {}
_backends_lock = Lock()
_process_default = CPU


# The `use_device` blocks of this context, outermost first: the device of each, in a list that is
# emptied if the block is left in another context.
_chosen: ContextVar[tuple[list[Device], ...]] = ContextVar("syncblob_device", default=())
# Tells contexts apart: its tokens can be reset only in the context that made them.
_entered: ContextVar[None] = ContextVar("syncblob_entered")


def accelerator(device: Device | str) -> Accelerator:
    """Return the backend of an accelerator; the same object each time.

    Raises NoDeviceError if the device is not available; ValueError if there is no such kind of
    device, or it is the host; TypeError if the function registered for its kind returns something
    else.
    """
    known = _backends.get(str(device))
    if known is not None and known.device.type in factories:
        # Without making a device again.
        return known
    device = Device(device)
    if device == CPU:
        raise ValueError('expected an accelerator, as "cuda:N" or "simulated:N", got "cpu"')
    # Memories compare backends by identity, so there must be only one for each device.
    with _backends_lock.held:
        name = str(device)
        if name not in _backends:
            backend = _factory(device.type)(device.index)
            if getattr(backend, "device", None) != device:
                raise TypeError(
                    f"expected the factory registered for {device.type!r} to return a "
                    f"backend of {device}, got {backend!r}; see its `device`"
                )
            _backends[name] = backend
        return _backends[name]


def accelerators_in_use() -> list[Accelerator]:
    """Return the accelerators with memories that have had buffers there."""
    return [backend for backend in list(_backends.values()) if backend.residents]


def _factory(kind: str) -> Any:
    """Return what makes the backends of a kind. It is imported if a package offers it."""
    if kind not in factories:
        if kind not in installed_backends():
            raise NoDeviceError(f"the kind of device {kind!r} is not registered any more")
        _add(kind, installed_backends()[kind].load())
    return factories[kind]


def _add(kind: str, make: Any) -> None:
    factories[kind] = make
    protocols.append(getattr(make, "protocol", ""))


def register(kind: str, make: Callable[[int], Accelerator]) -> None:
    """Register a kind of accelerator in this process.

    Raises ValueError if the kind exists already, or is not an identifier; TypeError if `make`
    cannot be called.

    Parameters
    ----------
    kind
        An identifier. ``"kind:N"`` then names a device, and ``"kind"`` means ``"kind:0"``.
    make
        A function that is called with N when the device is first used. It returns the backend,
        whose `device` is ``"kind:N"``, or raises `syncblob.NoDeviceError` with the reason.
    """
    if not callable(make):
        raise TypeError(
            f"expected a function that returns the backend of a device number, got {make!r}"
        )
    with _backends_lock.held:
        known = ["cpu", *(factories | installed_backends())]
        if not kind.isidentifier() or kind in known:
            raise ValueError(
                f"expected the name of a new kind of device, got {kind!r}; there are "
                f"{', '.join(known)}"
            )
        _add(kind, make)


def unregister(kind: str) -> None:
    """Remove a registered kind. Its devices can no longer be named.

    Blobs on such a device stay usable. The devices keep their backends, even if the kind is
    registered again.

    Raises ValueError if the kind is not registered.
    """
    with _backends_lock.held:
        registered = sorted(factories.keys() - _OWN)
        if kind not in registered:
            raise ValueError(f"expected a registered kind, got {kind!r}; there are {registered}")
        installed_backends().pop(kind, None)
        protocols.remove(getattr(factories.pop(kind), "protocol", ""))


def memory_kind(device: Device | str) -> str:
    """Return ``"shared"`` or ``"separate"``; see `set_memory_kind`. ``"shared"`` for the host."""
    return "shared" if home_of(device).shared else "separate"


def set_memory_kind(device: Device | str, kind: str) -> None:
    """Let an accelerator share the memory of the host, or give it memory of its own.

    At first it shares what is one memory in hardware. Blobs then get one buffer for both, in which
    the host waits for the accelerator's work, and nothing is transferred. The new kind is that of
    what is allocated from now on.

    Parameters
    ----------
    device
        The accelerator. A ValueError says if it cannot share the memory of the host.
    kind
        ``"shared"`` or ``"separate"``.
    """
    if kind not in {"shared", "separate"}:
        raise ValueError(f"expected 'shared' or 'separate', got {kind!r}")
    accelerator(device).share_memory(shared=kind == "shared")


def set_memory_limit(device: Device | str, nbytes: int | None) -> AbstractContextManager[object]:
    """Limit the bytes on an accelerator. Beyond it, buffers are evicted, or allocations fail.

    Parameters
    ----------
    device
        The accelerator.
    nbytes
        The limit; None for none.

    Returns
    -------
    context manager
        In a ``with`` statement, it restores the limit before at the end of the block.
    """
    limit = None if nbytes is None else operator.index(nbytes)
    if limit is not None and limit < 1:
        raise ValueError(f"expected a number of bytes, at least 1, or None, got {nbytes}")
    home = accelerator(device)
    end = ExitStack()
    end.callback(home.limit_memory, home.limit_memory(limit))
    return end


def simulated(
    index: int = 0, *, capacity: int | None = None, shared: bool | None = None
) -> SimulatedBackend:
    """Return the backend of a simulated device, with its counters, failures and delays.

    Parameters
    ----------
    index
        The N of ``"simulated:N"``. Naming a simulated device creates it.
    capacity
        The bytes that the device has from now on; None leaves them as they are, initially without
        end.
    shared
        Whether it shares the memory of the host from now on; None leaves that as it is.
    """
    backend: Any = accelerator(f"simulated:{index}")
    if capacity is not None:
        backend.capacity = capacity
    if shared is not None:
        backend.share_memory(shared=shared)
    return cast("SimulatedBackend", backend)


def home_of(device: Device | str | None = None) -> Home:
    """Return the home of a device; None for the default device.

    Raises NoDeviceError if the device is not available.
    """
    if device is None:
        device = default_device() if _chosen.get() else _process_default
    # The usual object, without a call. An equal Device that is another object takes the next line.
    if device is CPU:
        return HOST
    if not isinstance(device, Device):
        device = Device(device)
    return HOST if device == CPU else accelerator(device)


def owner_of(x: object, dlpack_type: int = 0) -> type[Accelerator] | None:
    """Return the backend whose arrays have the protocol of an object, or a DLPack device type.

    None for NumPy's and CuPy's arrays, and for those of kinds that are not there.
    """
    if dlpack_type:
        with _backends_lock.held:
            for kind in installed_backends():
                _factory(kind)
    for made in [*factories.values()]:
        protocol, own = getattr(made, "protocol", ""), getattr(made, "dlpack_type", 0)
        if (protocol and hasattr(x, protocol)) or (own and own == dlpack_type):
            return made
    return None


def current_accelerator() -> Accelerator:
    """Return the accelerator that a memory uses if it has used none yet.

    This is the default device, or CuPy's current CUDA device if the default is the host.

    Raises NoDeviceError if there is none.
    """
    default = default_device()
    if default != CPU:
        return accelerator(default)
    try:
        return accelerator(f"cuda:{cuda.current_index()}")
    except NoDeviceError as error:
        raise NoDeviceError(f"an accelerator was needed, and {error}") from None


def default_device() -> Device:
    """Return the device of new Blobs: that of `use_device`, else the process's default."""
    for block in reversed(_chosen.get()):
        # A block has one device, or none as soon as any thread has ended it.
        for device in block:
            return device
    return _process_default


def set_default_device(device: Device | str) -> None:
    """Set the default device of the process, like ``Caffe::set_mode``.

    Raises NoDeviceError if the device is not available. The default is unchanged then.

    Parameters
    ----------
    device
        ``"cpu"`` (as at start), ``"cuda:N"`` or ``"simulated:N"``.
    """
    global _process_default  # noqa: PLW0603  # this function sets process-wide state
    _process_default = home_of(device).device


@contextmanager
def use_device(device: Device | str) -> Iterator[Device]:
    """Make `device` the default inside a ``with`` block.

    The setting is context-local: other threads and asyncio tasks do not see it, except tasks that
    are started in the block. A block that is left in another context, as when another thread closes
    or finalises a generator, ends everywhere, and changes nothing else there.

    Raises NoDeviceError if the device is not available.

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda:N"`` or ``"simulated:N"``.
    """
    device = home_of(device).device
    block = [device]
    token = _entered.set(None)
    try:
        _chosen.set((*_chosen.get(), block))
        yield device
    finally:
        # Not by a token: a block in a generator may end before an inner one.
        _chosen.set(tuple(other for other in _chosen.get() if other is not block))
        try:
            _entered.reset(token)
        except ValueError:
            # This is another context, and that of the block cannot be changed from here.
            block.clear()


def available_devices() -> tuple[Device, ...]:
    """Return the host, the available CUDA devices, and the simulated devices.

    Includes ``simulated:0``, and the other simulated devices and devices of registered kinds that
    have been used. Imports CuPy if there is an NVIDIA driver.
    """
    used = {Device("simulated:0")}
    with _backends_lock.held:
        devices = [backend.device for backend in _backends.values()]
    order = [*factories]
    used.update(device for device in devices if device.type in order and device.type != "cuda")
    return (
        CPU,
        *(Device(f"cuda:{index}") for index in range(cuda.device_count())),
        *sorted(used, key=lambda device: (order.index(device.type), device.index)),
    )
