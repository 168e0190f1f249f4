"""What torch gets of Blobs: in one call of a function, as a tensor, as a parameter."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from syncblob._dtypes import is_bfloat16
from syncblob.blob.compute import bind, forgets_newest
from syncblob.blob.core import BlobCore
from syncblob.blob.forks import writes
from syncblob.devices.base import Accelerator
from syncblob.guards import require_device
from syncblob.interop import _torch_tensors as gate
from syncblob.interop._torch_devices import device_of_tensors, order_after, tensors_in
from syncblob.interop._torch_parameters import BlobParameter
from syncblob.interop._torch_schemas import UNREAD, written_arguments
from syncblob.interop._torch_tracing import untraced
from syncblob.memory import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from syncblob._shape import Layout
    from syncblob.devices.base import Home

__all__ = ["call", "parameter_over", "tensor_over"]

# For an error: to move a Blob does not always help.
_ADVICE = (
    "torch computes where its tensors are, or where the Blobs are if there is no tensor; it has no "
    "simulated devices, and uses the host for them"
)

# What autograd saves, and how often it had been written then.
_Saved = tuple[torch.Tensor, int]


@untraced
@writes("running")
def call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a torch function with Blobs in the places of tensors.

    Parameters
    ----------
    function
        What torch was asked to compute.
    args, kwargs
        Blobs, and nested sequences of them, among anything else.

    Returns
    -------
    Any
        What the function returns. A tensor in it that is over a Blob's memory is an alias of the
        Blob, of a const one a copy.

    Raises
    ------
    DeviceMismatchError
        If a Blob is on another accelerator than the tensors.
    DeviceGuardError
        If a guard forbids that device.
    ValueError
        If a const Blob is to be written, or an `out` has another shape than the result.
    """
    places: dict[int | str, Any] = dict(enumerate(args))
    places.update(kwargs)
    operands = [*places.values()]
    device, home = device_of_tensors(operands, [blob.device for blob in _blobs_in(operands)])
    name = getattr(function, "__name__", "torch")
    if function not in UNREAD or name.endswith("_like"):
        # The others ask for shape and dtype.
        require_device(home.device, name, _ADVICE)
    targets = written_arguments(function, args, kwargs)
    running = _Call(
        name,
        device,
        home,
        written=[places[place] for place in targets],
        followed=torch.is_grad_enabled() and any(x.requires_grad for x in tensors_in(operands)),
    )
    read = running.phantom if function in UNREAD else running.read
    for place, x in places.items():
        if place not in targets:
            places[place] = _replaced(x, BlobCore, read)
    # Last of all: what is read as well is on this side by now.
    for place, whole in targets.items():
        write = running.overwrite if whole else running.write
        places[place] = _replaced(places[place], BlobCore, write)
    for place, x in places.items():
        if place not in targets:
            places[place] = _replaced(x, torch.Tensor, running.apart)
    try:
        with running.keeping_apart():
            result = function(
                *(places[place] for place in range(len(args))),
                **{keyword: places[keyword] for keyword in kwargs},
            )
        return running.settle(result)
    finally:
        if isinstance(home, Accelerator):
            # Also after a failure: what was queued before it still runs.
            order_after(home)


@untraced
def tensor_over(blob: BlobCore, *, copy: bool | None) -> torch.Tensor:
    """Return a tensor over a Blob's data; see `Blob.to_torch`."""
    memory, layout = blob._memory, blob._layout
    if copy or (copy is None and blob._readonly):
        return gate.private(memory, layout, blob._side, "to_torch")
    if blob._readonly:
        raise ValueError(
            "a tensor can be written, and this Blob is a const view; leave out copy=False to get "
            "a copy, or use the Blob it was taken from"
        )
    if layout.reversed_axes:
        raise ValueError(
            f"torch has no tensors with negative strides such as {layout.strides}; use copy=True"
        )
    return gate.tensor_over_memory(memory, layout, blob._side, Access.MUTABLE, "to_torch")[0]


@untraced
def parameter_over(blob: BlobCore) -> BlobParameter:
    """Return a leaf over a Blob's data and diff; see `Blob.as_parameter`."""
    blob._require_writable("as_parameter")
    if blob.dtype.kind not in "fc" and not is_bfloat16(blob.dtype):
        raise TypeError(
            f"torch has gradients of floating-point and complex numbers, got {blob.dtype}; "
            "use .astype()"
        )
    if blob._layout.reversed_axes:
        raise ValueError(
            f"torch has no tensors with negative strides such as {blob.strides}; take the "
            "parameter of a copy"
        )
    memory, layout = blob._memory, blob._layout
    side, diff = blob._side, blob._diff_memory()
    blob._bind_partner(diff, side)
    gradient, _ = gate.tensor_over_memory(diff, layout, side, Access.MUTABLE, "as_parameter")
    data, _ = gate.tensor_over_memory(memory, layout, side, Access.MUTABLE, "as_parameter")
    return BlobParameter.over(data, gradient)


class _Lent(NamedTuple):
    """A tensor over a Blob's memory, and what lives as long as its storage."""

    blob: BlobCore
    tensor: torch.Tensor
    owner: Any
    place: Any
    """Where the tensor's elements were, when it was lent."""

    @classmethod
    def make(cls, blob: BlobCore, tensor: torch.Tensor, owner: Any) -> _Lent:
        """Note a tensor that was lent."""
        return cls(blob, tensor, owner, gate.place_of(tensor))


class _Call:
    """What a call has lent."""

    def __init__(
        self, name: str, device: torch.device, home: Home, *, written: list[Any], followed: bool
    ) -> None:
        self.name = name
        self.device = device
        self.home = home
        # What the function writes.
        self.written = [*_blobs_in(written)]
        self.written_tensors = [*tensors_in(written)]
        # Whether autograd follows the call, and whether it saves what nobody can replace.
        self.followed = followed
        self.copying = followed and _saves_unseen()
        # Of each memory and layout one tensor, so that torch sees where operands are the same.
        self._read: dict[tuple[int, Layout], _Lent] = {}
        self._direct: list[_Lent] = []
        # Written elsewhere, and delivered when the function has not failed: an overwrite forgets
        # the newest contents, which are on the other side; and torch has no negative strides.
        self._late: list[tuple[BlobCore, torch.Tensor]] = []
        # Lent to be read, as copies, because torch has no negative strides.
        self._copied: list[tuple[BlobCore, torch.Tensor]] = []

    # --- arguments -------------------------------------------------------------------------------

    def read(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read."""
        memory, layout = x._memory, x._layout
        known = self._read.get((id(memory), layout))
        if known is not None:
            return known.tensor
        side = bind(x, self.home)
        overlaps = any(y._memory is memory and y._layout != layout for y in self.written)
        if overlaps or self.copying:
            return gate.private(memory, layout, side, self.name)
        if layout.reversed_axes:
            copied = gate.private(memory, layout, side, self.name)
            self._copied.append((x, copied))
            return copied
        lent = _Lent.make(
            x, *gate.tensor_over_memory(memory, layout, side, Access.CONST, self.name)
        )
        if any(gate.meet(lent.tensor, tensor) for tensor in self.written_tensors):
            return lent.tensor.clone()
        self._read[id(memory), layout] = lent
        return lent.tensor

    def apart(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor that is read, copied if it meets one over a Blob that is written."""
        return x.clone() if any(gate.meet(x, lent.tensor) for lent in self._direct) else x

    def phantom(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor with this shape, dtype and strides. Nothing is read or moved."""
        return gate.empty(x._layout, self.device)

    def write(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read and write."""
        x._require_writable(self.name)
        memory, layout = x._memory, x._layout
        side = bind(x, self.home)
        if layout.reversed_axes:
            # Torch has no tensors with negative strides.
            scratch = gate.private(memory, layout, side, self.name)
            self._late.append((x, scratch))
            return scratch
        lent = self._read.pop((id(memory), layout), None)
        if lent is None:
            lent = _Lent.make(
                x, *gate.tensor_over_memory(memory, layout, side, Access.MUTABLE, self.name)
            )
        else:
            gate.keep(memory, layout, side, lent.owner, self.name)
        self._direct.append(lent)
        return lent.tensor

    def overwrite(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor that is going to be written completely. Nothing moves."""
        x._require_writable(self.name)
        if not forgets_newest(x, bind(x, self.home)):
            return self.write(x)
        scratch = gate.empty(x._layout, self.device)
        self._late.append((x, scratch))
        return scratch

    # --- meanwhile -------------------------------------------------------------------------------

    @contextmanager
    def keeping_apart(self) -> Iterator[None]:
        """Let autograd save copies of what it is lent: Blobs are written when it cannot see it."""
        with ExitStack() as stack:
            if self.followed and not self.copying:
                lent = (*self._read.values(), *self._direct)
                save = _saving_apart({gate.address(x.tensor) for x in lent} - {None})
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(save, _unsaved))
            yield

    # --- afterwards ------------------------------------------------------------------------------

    def settle(self, result: Any) -> Any:
        """Deliver what was written elsewhere, and make aliases of what somebody keeps.

        Returns
        -------
        Any
            The result, with tensors over the Blobs in the place of those that were written
            elsewhere, and copies in the place of those over const Blobs.
        """
        for x, tensor in (*self._late, *((lent.blob, lent.tensor) for lent in self._direct)):
            if tuple(tensor.shape) != x.shape:
                raise ValueError(
                    f"{self.name} gives shape {tuple(tensor.shape)}, and the Blob to be written "
                    f"has {x.shape}; resize it first"
                )
        for lent in self._direct:
            if gate.place_of(lent.tensor) != lent.place:
                raise ValueError(
                    f"{self.name} writes no elements, and gives a tensor another storage or other "
                    "strides, where a Blob cannot follow; use it on a tensor and assign that"
                )
        delivered = {id(scratch): self._deliver(x, scratch) for x, scratch in self._late}
        for lent in self._read.values():
            if _was_written(lent.tensor):
                lent.blob._require_writable(self.name)
                self._keep(lent)
        for x, copied in self._copied:
            if _was_written(copied):
                x._require_writable(self.name)
                self._deliver(x, copied)
        result = _replaced(result, torch.Tensor, lambda x: delivered.get(id(x), x))
        return _replaced(result, torch.Tensor, self._kept)

    def _deliver(self, x: BlobCore, scratch: torch.Tensor) -> torch.Tensor:
        """Copy what was written elsewhere into a Blob; return a tensor with its contents."""
        memory, layout, side = x._memory, x._layout, bind(x, self.home)
        axes = layout.reversed_axes
        contents = scratch.detach().flip(axes) if axes else scratch.detach()
        gate.overwrite(memory, layout, side, self.name, contents)
        if axes:
            return scratch
        return gate.tensor_over_memory(memory, layout, side, Access.MUTABLE, self.name)[0]

    def _kept(self, result: torch.Tensor) -> torch.Tensor:
        """Make an alias of a tensor that is over a Blob's memory; of a const Blob's, a copy."""
        for lent in self._read.values():
            if gate.lies_in(result, lent.tensor):
                if lent.blob._readonly:
                    return result.clone()
                self._keep(lent)
        return result

    def _keep(self, lent: _Lent) -> None:
        x = lent.blob
        gate.keep(x._memory, x._layout, bind(x, self.home), lent.owner, self.name)


def _was_written(tensor: torch.Tensor) -> bool:
    """Tell whether a function has written a tensor, though no schema and no parameter says so.

    Torch counts what is written, except in inference mode.
    """
    return not tensor.is_inference() and tensor._version > 0


def _saves_unseen() -> bool:
    """Tell whether autograd has no hooks here: the torch.func switches them off."""
    try:
        with torch.autograd.graph.saved_tensors_hooks(_same, _same):
            return False
    except RuntimeError:
        return True


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _saving_apart(addresses: set[int | None]) -> Callable[[torch.Tensor], _Saved]:
    """Make what saves tensors for autograd, and copies of those over some storages.

    The graph keeps this function: it knows no Blob and no tensor.
    """

    def save(x: torch.Tensor) -> _Saved:
        if gate.address(x) in addresses:
            x = x.clone()
        return x, x._version

    return save


def _unsaved(saved: _Saved) -> torch.Tensor:
    """Return what autograd has saved; it leaves this check to those who save in its place."""
    tensor, version = saved
    if tensor._version != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: a tensor of shape {tuple(tensor.shape)} is at version {tensor._version}; "
            f"expected version {version} instead"
        )
    return tensor


def _replaced(x: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """Replace what is of a kind in nested sequences and dicts, which stay if nothing changes."""
    if isinstance(x, kind):
        return replace(x)
    if isinstance(x, dict):
        values = {key: _replaced(item, kind, replace) for key, item in x.items()}
        return values if any(values[key] is not item for key, item in x.items()) else x
    if not isinstance(x, (list, tuple)):
        return x
    items = [_replaced(item, kind, replace) for item in x]
    if all(new is old for new, old in zip(items, x, strict=True)):
        return x
    if isinstance(x, list):
        return items
    # A named one is made of its fields.
    return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)


def _blobs_in(x: Any) -> Iterator[BlobCore]:
    """Find the Blobs in nested sequences and dicts."""
    if isinstance(x, BlobCore):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _blobs_in(item)
    elif isinstance(x, dict):
        yield from _blobs_in([*x.values()])
