"""The gate to PyTorch: tensors over memories, and where its functions compute.

Importing this module imports torch; the rest of the package does so when a tensor is at hand.

A tensor is always writable, and so every one that somebody may keep is an alias on the mutable
path, tracked as any other. A tensor that a function only reads takes the const path. It is gone
when the function returns, unless a result is a view of it: then it becomes an alias after all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

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
    "BlobParameter",
    "accept_blobs_in_modules",
    "device_of_tensors",
    "empty",
    "keep",
    "lend",
    "lies_in",
    "order_after",
    "private",
    "tensors_in",
]

_KIND = "tensor"

# The pointer of CUDA's default stream, and the number that DLPack has for it.
_DEFAULT_STREAM = 0
_DLPACK_DEFAULT_STREAM = 1


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
    return _tensor(_home(memory, side), array.copy())[0]


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
    # Sparse tensors, and the stand-ins of torch's own transformations, have no storage to ask for.
    with suppress(RuntimeError):
        address = result.untyped_storage().data_ptr()
        return address != 0 and address == tensor.untyped_storage().data_ptr()
    return False


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


# --- parameters ----------------------------------------------------------------------------------

# Where a tensor keeps its gradient.
_GRAD: Any = torch.Tensor.grad


class BlobParameter(torch.nn.Parameter):
    """A parameter over a Blob's data, whose gradient is over the Blob's diff and stays there.

    Where another parameter would get or drop a gradient, this one writes into diff: setting `grad`
    to a tensor copies it, setting it to None, as ``zero_grad`` does, sets diff to zero. A copy of
    it is a parameter as any other.
    """

    _diff: torch.Tensor | None = None

    @classmethod
    def over(cls, data: torch.Tensor, diff: torch.Tensor) -> BlobParameter:
        """Make a leaf whose storage is that of `data`, and whose gradient is `diff`."""
        parameter = cls(data)
        parameter._diff = diff
        _GRAD.__set__(parameter, diff)
        parameter.register_post_accumulate_grad_hook(_settle_gradient)  # type: ignore[no-untyped-call]  # torch's
        return parameter

    @property
    def grad(self) -> torch.Tensor | None:
        """The gradient: a tensor over the Blob's diff."""
        found: torch.Tensor | None = _GRAD.__get__(self)
        return found

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        diff = self._diff
        if diff is None:
            _GRAD.__set__(self, value)
            return
        with torch.no_grad():
            if value is None:
                diff.zero_()
            elif value is not diff:
                diff.copy_(value)
        _GRAD.__set__(self, diff)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None


def _settle_gradient(parameter: torch.Tensor) -> None:
    """Put a gradient that autograd has not accumulated in place into diff, with its graph."""
    diff = parameter._diff  # type: ignore[attr-defined]  # noqa: SLF001  # a hook of that class
    gradient = parameter.grad
    if gradient is not None and gradient.data_ptr() != diff.data_ptr():
        settled = diff.detach()
        with torch.set_grad_enabled(gradient.requires_grad):
            settled.copy_(gradient)
        _GRAD.__set__(parameter, settled)


# --- modules -------------------------------------------------------------------------------------


def accept_blobs_in_modules() -> RemovableHandle:
    """Let every ``torch.nn.Module`` of this process take Blobs, whatever it asks of its inputs.

    Most modules need this not: they hand their inputs to functions. Recurrent layers, attention and
    InstanceNorm ask for what only a tensor has. Afterwards each positional argument of a module
    that is a Blob is replaced by a tensor over it: a tracked alias, on the mutable path, on the
    Blob's device; of a const Blob a copy.

    Returns
    -------
    torch.utils.hooks.RemovableHandle
        Its ``remove()`` ends this, and so does leaving a ``with`` block over it.
    """
    hook: Any = _with_tensors  # declared to return nothing, documented to return the inputs
    return register_module_forward_pre_hook(hook)


def _with_tensors(_module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    # By its method: this module lies below Blob.
    methods: list[Callable[[], torch.Tensor] | None]
    methods = [getattr(x, "to_torch", None) for x in inputs]
    if not any(methods):
        return None
    return tuple(
        x if method is None else method() for x, method in zip(inputs, methods, strict=True)
    )
