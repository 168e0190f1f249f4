"""The gate to PyTorch: tensors over memories, and where its functions compute.

Importing this module imports torch; the rest of the package does so when a tensor is at hand.

A tensor is always writable, and so every one that somebody may keep is an alias on the mutable
path, tracked as any other. A tensor that a function only reads takes the const path. It is gone
when the function returns, unless a result is a view of it: then it becomes an alias after all.
"""

from __future__ import annotations

import functools
import operator
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from syncblob._dtypes import is_bfloat16
from syncblob.devices import HOST, Device, Side, accelerator
from syncblob.devices.host import NumpyHome
from syncblob.interop import _capsule
from syncblob.memory import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.utils.hooks import RemovableHandle

    from syncblob._shape import Layout
    from syncblob.devices.base import Accelerator, Home
    from syncblob.memory import SyncedMemory

__all__ = [
    "accept_blobs_in_modules",
    "address",
    "device_of_tensors",
    "empty",
    "keep",
    "lend",
    "lies_in",
    "meet",
    "order_after",
    "place_of",
    "private",
    "tensors_in",
    "untraced",
]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_KIND = "tensor"

# The pointer of CUDA's default stream, and the number that DLPack has for it.
_DEFAULT_STREAM = 0
_DLPACK_DEFAULT_STREAM = 1


# --- tracing -------------------------------------------------------------------------------------


def untraced(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Let torch.compile call a function as it is, in place of tracing it.

    Does not import the compiler.
    """
    disabled: list[Callable[_Parameters, _Result]] = []

    @functools.wraps(function)
    def outside(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]  # torch's
        return disabled[0](*args, **kwargs)

    return outside


# --- tensors over memories -----------------------------------------------------------------------


def lend(
    memory: SyncedMemory, layout: Layout, side: Side, access: Access, reason: str
) -> tuple[torch.Tensor, Any]:
    """Return a tensor over one side of a memory, brought up to date as the access says.

    A writable one is an alias: leased until its storage is gone.

    Parameters
    ----------
    memory, layout
        What is lent. Its strides are not negative.
    side
        Where.
    access
        What is going to be done with it. A tensor of a const access may be written all the same,
        and must not be: use it for work that is over soon, or `keep` it.
    reason
        The operation, for messages and for the journal.

    Returns
    -------
    tensor : torch.Tensor
    owner
        What lives exactly as long as the tensor's storage.
    """
    array = memory.export(side, access, layout, reason, _KIND)
    if access is Access.CONST and isinstance(array, np.ndarray):
        # Torch has no tensors to read only: of an array that cannot be written it takes none, or
        # takes no notice, depending on its version. This array is nobody else's.
        array.flags.writeable = True
    return _tensor(_home(memory, side), array)


def private(memory: SyncedMemory, layout: Layout, side: Side, reason: str) -> torch.Tensor:
    """Return a tensor over a C-contiguous copy of one side; parameters are those of `lend`."""
    array = memory.array(side, Access.CONST, layout, reason)
    home = _home(memory, side)
    return _tensor(home, home.compute(array.copy))[0]


def keep(memory: SyncedMemory, layout: Layout, side: Side, owner: object, reason: str) -> None:
    """Make an alias of a tensor that was lent to be read, and that somebody keeps or has written.

    That is a mutable access of the side.

    Parameters
    ----------
    memory, layout, side, reason
        As for `lend`.
    owner
        What `lend` returned with the tensor.
    """
    memory.export(side, Access.MUTABLE, layout, reason, _KIND, owner)


def empty(layout: Layout, device: torch.device) -> torch.Tensor:
    """Return a tensor of the shape, dtype and, unless some are negative, strides of a layout."""
    dtype = getattr(torch, layout.dtype.name)
    if any(step < 0 for step in layout.strides):
        return torch.empty(layout.shape, dtype=dtype, device=device)
    strides = [step // layout.dtype.itemsize for step in layout.strides]
    return torch.empty_strided(layout.shape, strides, dtype=dtype, device=device)


def lies_in(result: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is over the storage of another."""
    found = address(result)
    return found is not None and found == address(tensor)


def address(tensor: torch.Tensor) -> int | None:
    """Return where a tensor's storage begins; None where it has none, or one of no bytes."""
    # Sparse tensors, and the stand-ins of torch's own transformations, have no storage to ask for.
    with suppress(RuntimeError):
        return tensor.untyped_storage().data_ptr() or None
    return None


def meet(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors share memory, and not element by element.

    Torch sees that of one storage only, and each export of a Blob is a storage of its own.
    """
    starts = address(tensor), address(other)
    if None in starts or (tensor.shape == other.shape and place_of(tensor) == place_of(other)):
        return False
    first, second = (x.untyped_storage() for x in (tensor, other))
    return (
        first.data_ptr() < second.data_ptr() + second.nbytes()
        and second.data_ptr() < first.data_ptr() + first.nbytes()
    )


def place_of(tensor: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    """Return where the elements of a tensor with storage are: an address and the strides."""
    return tensor.data_ptr(), tensor.stride()


def _tensor(home: Home, array: Any) -> tuple[torch.Tensor, Any]:
    """Lay a tensor over an array; return it and what its storage keeps alive."""
    stream = None
    if not isinstance(home, NumpyHome):
        stream = torch.cuda.current_stream(home.device.index).cuda_stream
        if stream == _DEFAULT_STREAM:
            stream = _DLPACK_DEFAULT_STREAM
    bfloat16 = is_bfloat16(array.dtype)
    if bfloat16:
        array = array.view(np.uint16)
    # A capsule of the kind that every version of torch understands.
    capsule = home.capsule(array, stream=stream, max_version=None)
    if bfloat16:
        _capsule.edit(capsule, code=_capsule.BFLOAT)
    return torch.utils.dlpack.from_dlpack(capsule), array


def _home(memory: SyncedMemory, side: Side) -> Home:
    backend = memory.accelerator
    return HOST if side is Side.HOST or backend is None else backend


# --- where to compute ----------------------------------------------------------------------------


def tensors_in(x: Any) -> Iterator[torch.Tensor]:
    """Find the tensors in nested sequences and dicts."""
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from tensors_in(item)
    elif isinstance(x, dict):
        yield from tensors_in([*x.values()])


def device_of_tensors(operands: Any, devices: list[Device]) -> tuple[torch.device, Home]:
    """Return where a function computes.

    Parameters
    ----------
    operands
        Its arguments.
    devices
        Those of the Blobs among them. They decide where no tensor does: tensors without axes are
        used on any device. Simulated devices are none of torch's, and count as the host.

    Returns
    -------
    device : torch.device
    home : Home
        The host, or the backend of the CUDA device.
    """
    tensors = [*tensors_in(operands)]
    found = next((str(tensor.device) for tensor in tensors if tensor.is_cuda), None)
    if found is None and not any(tensor.ndim for tensor in tensors):
        found = next((str(device) for device in devices if device.type == "cuda"), None)
    if found is None:
        return torch.device("cpu"), HOST
    return torch.device(found), accelerator(found)


def order_after(backend: Accelerator) -> None:
    """Make CuPy's current stream wait for torch's, if they differ: later transfers are on it."""
    import cupy  # only where a CUDA tensor is at hand

    index = backend.device.index
    stream = torch.cuda.current_stream(index)
    with cupy.cuda.Device(index):
        current = cupy.cuda.get_current_stream().ptr
    if current != stream.cuda_stream:
        torch.cuda.ExternalStream(current, device=index).wait_stream(stream)  # type: ignore[no-untyped-call]  # torch's


# --- modules -------------------------------------------------------------------------------------


def accept_blobs_in_modules() -> RemovableHandle:
    """Let every ``torch.nn.Module`` of this process take Blobs, whatever it asks of its inputs.

    Most modules need this not: they hand their inputs to functions. Recurrent layers, attention and
    InstanceNorm ask for what only a tensor has. Afterwards each Blob among the positional arguments
    of a module, and in tuples and lists among them, is replaced by a tensor over it: a tracked
    alias, on the mutable path, on the Blob's device; of a const Blob a copy.

    Returns
    -------
    torch.utils.hooks.RemovableHandle
        Its ``remove()`` ends this, and so does leaving a ``with`` block over it.
    """
    hook: Any = _with_tensors  # declared to return nothing, documented to return the inputs
    return register_module_forward_pre_hook(hook)


def _with_tensors(_module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_as_tensor, inputs))


def _as_tensor(x: Any) -> Any:
    """Replace a Blob, or those in a tuple or list such as a recurrent layer's state."""
    if type(x) in {tuple, list}:
        items = [_as_tensor(item) for item in x]
        # A list without Blobs stays the caller's, who may look at it afterwards.
        return type(x)(items) if any(map(operator.is_not, items, x)) else x
    # By its method: this module lies below Blob.
    method = getattr(x, "to_torch", None)
    return x if method is None else method()
