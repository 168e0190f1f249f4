"""Tensors over memories.

A tensor is always writable, and so every one that somebody may keep is an alias on the mutable
path, tracked as any other. A tensor that a function only reads takes the const path. It is gone
when the function returns, unless a result is a view of it: then it becomes an alias after all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from syncblob._dtypes import is_bfloat16
from syncblob.devices.host import NumpyHome
from syncblob.interop import _capsule
from syncblob.interop._torch_devices import require_reach
from syncblob.memory import Access

if TYPE_CHECKING:
    from syncblob._shape import Layout
    from syncblob.devices import Side
    from syncblob.devices.base import Home
    from syncblob.memory import SyncedMemory

__all__ = [
    "address",
    "empty",
    "keep",
    "lies_in",
    "meet",
    "overwrite",
    "place_of",
    "private",
    "tensor_over_memory",
]

_KIND = "tensor"

# The pointer of CUDA's default stream, and the number that DLPack has for it.
_DEFAULT_STREAM = 0
_DLPACK_DEFAULT_STREAM = 1


def tensor_over_memory(
    memory: SyncedMemory, layout: Layout, side: Side, access: Access, reason: str
) -> tuple[torch.Tensor, Any]:
    """Return a tensor over one side of a memory, brought up to date as the access says.

    A writable one is an alias: leased until its storage is gone.

    Parameters
    ----------
    memory, layout
        What is lent. An axis of negative stride is reversed in the tensor.
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
    require_reach(memory.home(side))
    array = memory.export(side, access, layout.forwards(), reason, _KIND)
    if access is Access.CONST and isinstance(array, np.ndarray):
        # Torch has no tensors to read only: of an array that cannot be written it takes none, or
        # takes no notice, depending on its version. This array is nobody else's.
        array.flags.writeable = True
    return _tensor(memory.home(side), array)


def private(memory: SyncedMemory, layout: Layout, side: Side, reason: str) -> torch.Tensor:
    """Return a tensor over a C-contiguous copy of elements on one side.

    Parameters are those of `tensor_over_memory`.
    """
    home = memory.home(side)
    require_reach(home)
    return _tensor(home, home.compute(memory.elements(side, layout, reason).copy))[0]


def keep(memory: SyncedMemory, layout: Layout, side: Side, owner: object, reason: str) -> None:
    """Make an alias of a tensor that was lent to be read, and that somebody keeps or has written.

    That is a mutable access of the side.

    Parameters
    ----------
    memory, layout, side, reason
        As for `tensor_over_memory`.
    owner
        What `tensor_over_memory` returned with the tensor.
    """
    memory.export(side, Access.MUTABLE, layout, reason, _KIND, owner)


def overwrite(
    memory: SyncedMemory, layout: Layout, side: Side, reason: str, contents: torch.Tensor
) -> None:
    """Copy a tensor into one side; an axis of negative stride is reversed in the tensor.

    Parameters are those of `tensor_over_memory`.
    """
    home = memory.home(side)

    def copy(array: Any) -> None:
        _tensor(home, array)[0].copy_(contents)

    memory.write(side, Access.OVERWRITE, layout.forwards(), reason, copy)


def empty(layout: Layout, device: torch.device) -> torch.Tensor:
    """Return a tensor of the shape, the dtype and, but for their signs, the strides of a layout."""
    dtype = getattr(torch, layout.dtype.name)
    strides = [step // layout.dtype.itemsize for step in layout.forwards().strides]
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
