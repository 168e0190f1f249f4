"""Tensors over Blobs and their memories.

A tensor can always be written. So every tensor that somebody may keep is an alias on the mutable
path, tracked as any other.

A tensor that a function of torch's only reads is a *loan*: it takes the const path, and nobody has
it when the function has returned. So a Blob keeps it for the next function, beside the arrays that
it keeps (`Arrays._kept`): it is good as long as these are. What could make more of a loan than that
is looked for after each call. If the function has written it, or a result shares its storage, the
Blob forgets the loan, and it becomes an alias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.utils import _python_dispatch

from syncblob._dtypes import is_bfloat16
from syncblob.blob.compute import bind
from syncblob.blob.core import HOST_DATA, NOTHING_KEPT
from syncblob.devices import HOST, Side
from syncblob.dispatch.torch.devices import require_reach
from syncblob.dispatch.torch.tracing import untraced
from syncblob.interop import _capsule
from syncblob.memory import CONST, MUTABLE, OVERWRITE, Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncblob._shape import Layout
    from syncblob.blob.core import BlobCore, Kept
    from syncblob.devices.base import Home
    from syncblob.memory import SyncedMemory

__all__ = [
    "Loan",
    "address",
    "alias_over",
    "apart",
    "empty",
    "host_loan",
    "lies_in",
    "overwrite",
    "partially_overlaps",
    "place_of",
    "private",
    "tensor_over",
    "tensor_over_memory",
]

_KIND = "tensor"
# The frames between the user and `alias_over`'s export: its own, its caller's, that of `untraced`
# and that of Blob's method.
_OURS = 4

# The methods that give what a sparse tensor is made of.
_BY_ROWS = ("values", "crow_indices", "col_indices")
_BY_COLUMNS = ("values", "ccol_indices", "row_indices")
_SPARSE_PARTS = {
    torch.sparse_coo: ("_values", "_indices"),
    torch.sparse_csr: _BY_ROWS,
    torch.sparse_bsr: _BY_ROWS,
    torch.sparse_csc: _BY_COLUMNS,
    torch.sparse_bsc: _BY_COLUMNS,
}

# The stubs say that no tensor can be one.
_is_wrapper: Callable[[object], bool] = _python_dispatch.is_traceable_wrapper_subclass

# The pointer of CUDA's default stream, and the number that DLPack has for it.
_DEFAULT_STREAM = 0
_DLPACK_DEFAULT_STREAM = 1


# --- tensors for the user -------------------------------------------------------------------------


@untraced
def tensor_over(blob: BlobCore, *, copy: bool | None) -> torch.Tensor:
    """Return a tensor over a Blob's data; see `Blob.to_torch`."""
    memory, layout = blob._memory, blob._layout
    if copy or (copy is None and blob._readonly):
        return private(memory, layout, blob._side, "to_torch")
    if blob._readonly:
        raise ValueError(
            "a tensor can be written, and this Blob is a const view; leave out copy=False to get "
            "a copy, or use the Blob it was taken from"
        )
    if layout.reversed_axes:
        raise ValueError(
            f"torch has no tensors with negative strides such as {layout.strides}; use copy=True"
        )
    return alias_over(blob, memory, HOST_DATA, "to_torch")


def alias_over(blob: BlobCore, memory: SyncedMemory, place: int, reason: str) -> torch.Tensor:
    """Return a tensor over data or diff on a Blob's device: a tracked alias.

    Parameters
    ----------
    blob
        The Blob. It is not const, and no stride is negative.
    memory
        That of its data or diff.
    place
        `HOST_DATA` for data, `HOST_DIFF` for diff.
    reason
        The operation, for messages and for the journal.
    """
    kept, layout = blob._kept[place], blob._layout
    if kept is not None and blob._home is HOST:
        array = memory.export_again(kept[0], kept[3], _KIND, layout.start, layout.stop, _OURS)
        if array is not None:
            return _tensor(HOST, array)[0]
    tensor, _ = tensor_over_memory(memory, layout, blob._side, MUTABLE, reason)
    blob._keep(place, memory)
    return tensor


# --- loans ----------------------------------------------------------------------------------------


class Loan:
    """A tensor over a Blob's data that a function of torch's reads.

    Attributes
    ----------
    tensor
        The tensor.
    owner
        What lives exactly as long as the tensor's storage.
    version
        How often torch says that the tensor was written, when it was made.
    start, stop
        The addresses where the memory behind the tensor's storage begins and ends.
    """

    __slots__ = ("owner", "start", "stop", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, owner: Any) -> None:
        self.tensor: torch.Tensor = tensor
        self.owner: object = owner
        self.version: int = tensor._version
        storage = tensor.untyped_storage()
        self.start: int = storage.data_ptr()
        self.stop: int = self.start + storage.nbytes()

    @property
    def was_written(self) -> bool:
        """Whether the tensor was written, though neither a schema nor a parameter says so."""
        return self.tensor._version != self.version

    def become_alias(self, x: BlobCore, home: Home, reason: str) -> None:
        """Make an alias of the loan of a Blob, which somebody keeps or has written.

        That is a mutable access of the home's side. The Blob keeps the loan no longer.
        """
        self.forget(x)
        memory, layout = x._memory, x._layout
        memory.export(bind(x, home), MUTABLE, layout, reason, _KIND, self.owner)

    def forget(self, x: BlobCore) -> None:
        """Let a Blob keep the loan no longer."""
        kept = x._kept[HOST_DATA]
        if kept is not None and kept[4] is self:
            _keep(x, x._layout, kept, None)


def host_loan(x: BlobCore, reason: str) -> Loan | None:
    """Lend a Blob's data on the host, brought up to date there: once more, or for the first time.

    Parameters
    ----------
    x
        The Blob, which keeps the loan.
    reason
        The function.

    Returns
    -------
    Loan or None
        None of a Blob on a device that torch knows, or with negative strides.
    """
    kept = x._kept[HOST_DATA]
    if kept is not None:
        loan: Loan | None = kept[4]
        # Somebody may have got hold of the tensor in a way that nobody sees, and written it.
        if loan is not None and loan.tensor._version == loan.version:
            held: Any = x._held
            layout: Any = x._placed
            if held._exclusive_buffer is kept[0] or held.read_again(0, layout, reason, kept[0]):
                return loan
    return _new_host_loan(x, reason)


def _new_host_loan(x: BlobCore, reason: str) -> Loan | None:
    memory, layout = x._memory, x._layout
    if not x._home.native or layout.reversed_axes:
        return None
    loan = Loan(*tensor_over_memory(memory, layout, Side.HOST, CONST, reason))
    if layout.size:
        x._keep(HOST_DATA, memory)
        kept = x._kept[HOST_DATA]
        # The buffer may be another one by now.
        if kept is not None and _address_of(kept[1]) == loan.tensor.data_ptr():
            _keep(x, layout, kept, loan)
    return loan


def _keep(x: BlobCore, layout: Layout, kept: Kept, loan: Loan | None) -> None:
    """Let a Blob keep a loan of a layout, or none, beside the arrays that it keeps."""
    x._kept = ((*kept[:4], loan), *x._kept[1:])
    # A resize on another thread forgets what is kept, before or now.
    if x._placed is not layout:
        x._kept = NOTHING_KEPT


def _address_of(array: np.ndarray[Any, Any]) -> int:
    return array.__array_interface__["data"][0]


# --- tensors over memories ------------------------------------------------------------------------


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
        and must not be: use it for a `Loan`.
    reason
        The operation, for messages and for the journal.

    Returns
    -------
    tensor : torch.Tensor
    owner
        What lives exactly as long as the tensor's storage.
    """
    home = memory.home(side)
    require_reach(home)
    array = memory.export(side, access, layout.forwards(), reason, _KIND)
    if access is CONST and isinstance(array, np.ndarray):
        # Torch has no tensors to read only: of an array that cannot be written it takes none, or
        # takes no notice, depending on its version. This array is nobody else's.
        array.flags.writeable = True
    return _tensor(home, array)


def private(memory: SyncedMemory, layout: Layout, side: Side, reason: str) -> torch.Tensor:
    """Return a tensor over a C-contiguous copy of elements on one side.

    Parameters are those of `tensor_over_memory`.
    """
    home = memory.home(side)
    require_reach(home)
    return _tensor(home, home.compute(memory.elements(side, layout, reason).copy))[0]


def overwrite(
    memory: SyncedMemory, layout: Layout, side: Side, reason: str, contents: torch.Tensor
) -> None:
    """Copy a tensor into one side; an axis of negative stride is reversed in the tensor.

    Parameters are those of `tensor_over_memory`.
    """
    home = memory.home(side)

    def copy(array: Any) -> None:
        _tensor(home, array)[0].copy_(contents)

    memory.write(side, OVERWRITE, layout.forwards(), reason, copy)


def empty(layout: Layout, device: torch.device) -> torch.Tensor:
    """Return a tensor of the shape, the dtype and, but for their signs, the strides of a layout."""
    dtype = getattr(torch, layout.dtype.name)
    strides = [step // layout.dtype.itemsize for step in layout.forwards().strides]
    return torch.empty_strided(layout.shape, strides, dtype=dtype, device=device)


def lies_in(result: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Tell whether a tensor, or a part that it is made of, is over the storage of another."""
    found = address(result)
    if found is None:
        return any(lies_in(part, tensor) for part in _parts(result))
    return found == address(tensor)


def apart(result: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor that shares none of the parts that it is made of."""
    if not _is_wrapper(result):
        return result.clone()
    # The clone of a nested tensor shares its offsets.
    kind: Any = type(result)
    names, context = kind.__tensor_flatten__(result)
    parts = {name: apart(getattr(result, name)) for name in names}
    return kind.__tensor_unflatten__(parts, context, result.shape, result.stride())


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that a tensor without a storage is made of."""
    if is_functorch_wrapped_tensor(tensor):
        return [get_unwrapped(tensor)]
    if _is_wrapper(tensor):
        wrapper: Any = tensor
        return [getattr(tensor, name) for name in wrapper.__tensor_flatten__()[0]]
    return [getattr(tensor, name)() for name in _SPARSE_PARTS.get(tensor.layout, ())]


def address(tensor: torch.Tensor) -> int | None:
    """Return where a tensor's storage begins; None where it has none, or one of no bytes."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except RuntimeError:
        # Sparse and nested tensors, and the stand-ins of torch's own transformations, have none.
        return None


def partially_overlaps(tensor: torch.Tensor, other: torch.Tensor) -> bool:
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
    if not home.native:
        stream = torch.cuda.current_stream(home.device.index).cuda_stream
        if stream == _DEFAULT_STREAM:
            stream = _DLPACK_DEFAULT_STREAM
    bfloat16 = is_bfloat16(array.dtype)
    if bfloat16:
        array = array.view(np.uint16)
    # A capsule of the kind that every version of torch understands. `torch.from_numpy` would do for
    # most dtypes, but not within a transformation of torch's, which gets a tensor of its own there.
    capsule = home.capsule(array, stream=stream, max_version=None)
    if bfloat16:
        _capsule.edit(capsule, code=_capsule.BFLOAT)
    # What `torch.utils.dlpack.from_dlpack` does with a capsule.
    if not torch.is_inference_mode_enabled():
        return torch._C._from_dlpack(capsule), array
    # Torch does not count the writes into a tensor that was made in inference mode.
    with torch.inference_mode(mode=False):
        return torch._C._from_dlpack(capsule), array
