"""Tensors over Blobs and their memories.

A tensor is always writable. Therefore every tensor that may outlive a call is an alias on the
mutable path, tracked like any other alias.

A tensor that a torch function only reads is a *loan*: it takes the const path, and nothing
references it after the function has returned. The Blob keeps it for the next function, with its
other arrays (`BlobCore.accessor_arrays`), and it is valid as long as these. Each call is checked
afterwards. If the function has written the loan, or a result shares its storage, the Blob drops the
loan, and it becomes an alias.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.utils import _python_dispatch

from syncblob._dtypes import is_bfloat16
from syncblob._source_lines import user_instruction
from syncblob.arrays import dlpack_capsules
from syncblob.blob.core import GPU_DATA, HOST_DATA, HOST_DIFF, NOTHING_KEPT
from syncblob.devices import HOST, Device, Side, accelerator
from syncblob.errors import NoDeviceError
from syncblob.memory import CONST, MUTABLE, Access, SyncedMemory
from syncblob.memory.loans import NO_LOANS
from syncblob.transfers.verify import verifying

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.blob.core import AccessorArrays, BlobCore
    from syncblob.devices.base import Home

_KIND = "tensor"

# The methods that return the components of a sparse tensor.
_BY_ROWS, _BY_COLUMNS = (torch.sparse_csr, torch.sparse_bsr), (torch.sparse_csc, torch.sparse_bsc)
_SPARSE_PARTS = {
    torch.sparse_coo: ("_values", "_indices"),
    **dict.fromkeys(_BY_ROWS, ("values", "crow_indices", "col_indices")),
    **dict.fromkeys(_BY_COLUMNS, ("values", "ccol_indices", "row_indices")),
}

# Typed here, because the stubs say that it is never true.
_is_wrapper: Callable[[object], bool] = _python_dispatch.is_traceable_wrapper_subclass

# DLPack's stream for consumers that need no wait.
_NO_WAIT = -1


# --- tensors for the user -------------------------------------------------------------------------

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def untraced(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Make torch.compile, which is not imported, call a function instead of tracing it."""
    disabled: list[Callable[_Parameters, _Result]] = []

    @functools.wraps(function)
    def outside(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]  # torch's
        return disabled[0](*args, **kwargs)

    return outside


@untraced
def tensor_over(blob: BlobCore, *, copy: bool | None) -> torch.Tensor:
    """Return a tensor over a Blob's data; see `Blob.to_torch`."""
    if blob.home is HOST and not copy:
        alias = host_alias(blob, HOST_DATA)
        if alias is not None:
            return alias
    memory, layout = blob.memory, blob.layout
    if copy or (copy is None and blob.readonly):
        return private(memory, layout, blob.home, "to_torch")
    if blob.readonly:
        raise ValueError(
            "a tensor can be written, and this Blob is a const view; leave out copy=False to get "
            "a copy, or use the Blob it was taken from"
        )
    return alias_over(blob, blob.home, HOST_DATA, "to_torch")


def alias_over(blob: BlobCore, home: Home, place: int, reason: str) -> torch.Tensor:
    """Return a tracked alias of data or diff, by its place, in a home; not of a const Blob."""
    tensor = host_alias(blob, place) if home is HOST else None
    if tensor is None and blob.layout.reversed_axes:
        raise ValueError(
            f"torch has no tensors with negative strides such as {blob.layout.strides}; use a copy"
        )
    if tensor is None:
        memory = blob.memory_of(diff=place == HOST_DIFF)
        tensor, _ = tensor_over_memory(memory, blob.layout, home, MUTABLE, reason)
        # The next use finds an array for `host_alias`.
        blob.keep_arrays(place, memory)
    return tensor


def host_alias(blob: BlobCore, place: int) -> torch.Tensor | None:
    """Return an alias of data or diff on the host, if that changes and copies nothing; or None.

    The user's code is beyond at least two callers.
    """
    kept = blob.accessor_arrays[place]
    if kept is None:
        return None
    shortcut, exported = kept.shortcut, kept.exported
    if exported is None or not shortcut.writable:
        return None
    memory: Any = blob.known_memory
    layout: Any = blob.known_layout
    if place == HOST_DIFF:
        memory = blob.diff_memory()
        if shortcut.buffer is not memory.whole[Side.HOST]:
            # The Blob has another diff now, because its base shares one.
            return None
    array = exported.view()
    loans = memory.loans
    if loans is NO_LOANS:
        loans = memory.own_loans()
    loans.lend(array, _KIND, Side.HOST, layout.start, layout.stop, user_instruction(4))
    # As `_of_capsule`, without a call.
    inference = torch.is_inference_mode_enabled()
    tensor = (_of_capsule if inference else torch._C._from_dlpack)(array.__dlpack__())
    return tensor if shortcut.writable and memory.loans is loans else None


# --- loans ----------------------------------------------------------------------------------------


class Loan:
    """A tensor over a Blob's data that torch functions read."""

    __slots__ = ("owner", "start", "stop", "tensor", "version")

    def __init__(self, tensor: torch.Tensor, owner: Any) -> None:
        self.tensor: torch.Tensor = tensor
        # Lives exactly as long as the tensor's storage.
        self.owner: object = owner
        self.version: int = tensor._version
        # The addresses of the storage and of its end.
        self.start: int
        self.stop: int
        _, self.start, self.stop = storage_of(tensor)

    @property
    def was_written(self) -> bool:
        """Whether the tensor was written, although no schema or parameter declares it."""
        return self.tensor._version != self.version

    def become_alias(self, x: BlobCore, home: Home, reason: str) -> bool:
        """Turn this loan into an alias, which is a mutable access. The Blob drops the loan.

        Returns False if another thread has replaced the buffer under the tensor meanwhile.
        """
        self.forget(x)
        memory, layout = x.memory, x.layout
        side = memory.side_of(home)
        memory.track(side, layout, reason, _KIND, self.owner)
        window: Any = memory.window_over(side, *layout.reach)
        return not layout.size or home.overlap(self.owner, window.array)

    def forget(self, x: BlobCore) -> None:
        """Make a Blob drop this loan."""
        for place in (HOST_DATA, GPU_DATA):
            kept = x.accessor_arrays[place]
            if kept is not None and kept.tensor is self:
                _keep(x, place, x.layout, kept, None)


def loan_of(x: BlobCore, home: Home, reason: str) -> Loan | None:
    """Lend a Blob's newest data in a home, with the tensor that it keeps there or a new one.

    Returns None if the home is another one than where functions of this Blob alone run, and for
    negative strides.
    """
    if not (x.home.native if home is HOST else x.home is home) or x.layout.reversed_axes:
        return None
    require_reach(home)
    place = HOST_DATA if home is HOST else GPU_DATA
    kept, layout, array = x.accessor_arrays[place], x.layout, None
    if kept is None or not kept.shortcut.readable:
        array = x.array_in(home, CONST, reason)
        if kept is None or not kept.shortcut.readable:
            # Asks for the shortcut again.
            x.keep_arrays(place, x.memory)
            kept = x.accessor_arrays[place]
    window = kept and kept.shortcut.buffer
    # Beside an alias, it stays unreadable. Another thread may have replaced the buffer.
    over = array is not None and window is not None and home.overlap(array, window.array)
    if kept is None or not (kept.shortcut.readable or over):
        return Loan(*tensor_over_memory(x.memory, layout, home, CONST, reason))
    loan: Loan | None = kept.tensor
    # The version check detects writes through references that were not found.
    if loan is None or loan.was_written:
        const = kept.const if home is HOST else kept.const.array
        loan = Loan(*tensor_of(home, const.view()))
        if layout.size:
            _keep(x, place, layout, kept, loan)
    return loan


def _keep(x: BlobCore, place: int, layout: Layout, kept: AccessorArrays, loan: Loan | None) -> None:
    """Store a loan of a layout, or None, with a Blob's kept arrays."""
    arrays = x.accessor_arrays
    x.accessor_arrays = (*arrays[:place], kept._replace(tensor=loan), *arrays[place + 1 :])
    # If another thread has resized the Blob meanwhile, the kept arrays are out of date.
    if x.known_layout is not layout:
        x.accessor_arrays = NOTHING_KEPT


# --- tensors over memories ------------------------------------------------------------------------


def tensor_over_memory(
    memory: SyncedMemory, layout: Layout, home: Home, access: Access, reason: str
) -> tuple[torch.Tensor, Any]:
    """Return a tensor over a memory in one home after an access, and what lives as long.

    A writable one is an alias. That of a const access must not be written: use it for a `Loan`.
    Axes with negative strides are reversed.
    """
    require_reach(home)
    side, layout = memory.side_of(home), layout.forwards()
    if access is CONST and not verifying():
        # Not an export, because nothing but the call uses the array, and the call is noted.
        array = memory.array(side, access, layout, reason)
    else:
        array = memory.export(side, access, layout, reason, _KIND)
    return tensor_of(home, array)


def private(memory: SyncedMemory, layout: Layout, home: Home, reason: str) -> torch.Tensor:
    """Return a tensor over a C-contiguous copy of elements in one home."""
    require_reach(home)
    return tensor_of(home, memory.copy_of(memory.side_of(home), layout, reason))[0]


def empty(layout: Layout, device: torch.device) -> torch.Tensor:
    """Return an empty tensor with the shape, dtype and absolute strides of a layout."""
    dtype = getattr(torch, layout.dtype.name)
    strides = [abs(step) // layout.dtype.itemsize for step in layout.strides]
    return torch.empty_strided(layout.shape, strides, dtype=dtype, device=device)


def lies_in(result: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Return whether a tensor, or a component of it, has the address of another's storage."""
    _, start, _ = storage_of(result)
    if start:
        return start == storage_of(tensor)[1]
    return any(lies_in(part, tensor) for part in _parts(result))


def apart(result: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor that shares no component with it."""
    if not _is_wrapper(result):
        return result.clone()
    # The clone of a nested tensor shares its offsets.
    kind: Any = type(result)
    names, context = kind.__tensor_flatten__(result)
    parts = {name: apart(getattr(result, name)) for name in names}
    return kind.__tensor_unflatten__(parts, context, result.shape, result.stride())


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the components of a tensor without storage."""
    if is_functorch_wrapped_tensor(tensor):
        return [get_unwrapped(tensor)]
    if _is_wrapper(tensor):
        wrapper: Any = tensor
        return [getattr(tensor, name) for name in wrapper.__tensor_flatten__()[0]]
    return [getattr(tensor, name)() for name in _SPARSE_PARTS.get(tensor.layout, ())]


def storage_of(tensor: torch.Tensor) -> tuple[int, int, int]:
    """Return the identity of a tensor's storage, its address, and that of its end.

    They are 0 if it has none, and the addresses if there are no elements.
    """
    try:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
    except RuntimeError:
        # Sparse and nested tensors and the wrappers of torch.func have none.
        return 0, 0, 0
    return storage._cdata, start, start + storage.nbytes()


def overlaps(tensor: torch.Tensor, start: int, stop: int) -> bool:
    """Return whether the storage of a tensor has addresses of a range."""
    _, own_start, own_stop = storage_of(tensor)
    return own_start < stop and start < own_stop


def clear_of(tensor: torch.Tensor, others: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return a tensor; a copy if it shares memory with another one that has other elements."""
    for other in others:
        _, start, stop = storage_of(other)
        if overlaps(tensor, start, stop) and not tensor.is_set_to(other):
            return tensor.clone()
    return tensor


def place_of(tensor: torch.Tensor) -> tuple[int, tuple[int, ...], bool, bool]:
    """Return the address and strides of a tensor with storage, and how it reads its elements."""
    return tensor.data_ptr(), tensor.stride(), tensor.is_conj(), tensor.is_neg()


def tensor_of(home: Home, array: Any) -> tuple[torch.Tensor, Any]:
    """Return a tensor over an array that nobody else uses, and what its storage keeps alive."""
    if home.native and not array.flags.writeable:
        # Torch has no read-only tensors: depending on its version, it rejects a read-only array or
        # ignores the flag.
        array.flags.writeable = True
    # The home has ordered torch's stream after its work.
    stream = None if home.native else _NO_WAIT
    bfloat16 = is_bfloat16(array.dtype)
    if bfloat16:
        array = array.view(np.uint16)
    # An unversioned capsule, which every version of torch supports. `torch.from_numpy` would work
    # for most dtypes, but within torch.func it returns a wrapper.
    capsule = home.capsule(array, stream=stream, max_version=None)
    if bfloat16 or not home.native:
        # Torch takes managed memory only as that of the device.
        device = None if home.native else home.dlpack_device
        dlpack_capsules.edit(
            capsule, device=device, code=dlpack_capsules.BFLOAT if bfloat16 else None
        )
    return _of_capsule(capsule), array


def _of_capsule(capsule: Any) -> torch.Tensor:
    """Do what `torch.utils.dlpack.from_dlpack` does with a capsule."""
    if not torch.is_inference_mode_enabled():
        return torch._C._from_dlpack(capsule)
    # Torch does not count the writes into a tensor that was made in inference mode.
    with torch.inference_mode(mode=False):
        return torch._C._from_dlpack(capsule)


# --- devices --------------------------------------------------------------------------------------

# The devices that torch was found to use, because asking it is slow.
_reached: set[Device] = set()


def require_reach(home: Home) -> None:
    """Raise a NoDeviceError if this PyTorch cannot use the device of a home."""
    if home.device.type != "cuda" or home.device in _reached:
        return
    if torch.cuda.is_available():
        # Otherwise nobody could ask for its current stream before its first function.
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch's stubs lack its result
        _reached.add(home.device)
        return
    built = torch.version.cuda
    reason = f"built for CUDA {built}, finds no device" if built else "was built without CUDA"
    raise NoDeviceError(
        f"PyTorch cannot use {home.device}: torch {torch.__version__} {reason}. Install a build "
        "for this device, or compute on the host, with blob.on('cpu')"
    )


def home_of_tensors(tensors: Sequence[torch.Tensor], devices: Iterable[Device]) -> Home:
    """Return the home where a function of tensors runs.

    The devices, which are those of the Blobs, matter only if all tensors are 0-d on the host.
    """
    names = [str(tensor.device) for tensor in tensors if tensor.is_cuda]
    if not names and not any(tensor.ndim for tensor in tensors):
        names = [str(device) for device in devices if device.type == "cuda"]
    home: Home = accelerator(names[0]) if names else HOST
    require_reach(home)
    return home
