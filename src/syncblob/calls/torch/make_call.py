"""Calls of PyTorch functions that inspect their arguments.

A call is *prepared*: its arguments become tensors on one device. It *runs*. Then its result is
*given*: tensors over a Blob's memory become aliases, and copies are written back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._python_dispatch as _modes

from syncblob.blob.core import HOST_DATA, BlobCore
from syncblob.calls.nested import instances, replaced
from syncblob.calls.results import forgets_newest, overwrite
from syncblob.calls.torch import tensors as over
from syncblob.calls.torch.tensors import Loan, device_of_tensors, loan_of
from syncblob.devices import HOST, timed_computations
from syncblob.devices.cuda import CudaBackend
from syncblob.memory import CONST, MUTABLE, has_written, in_room
from syncblob.memory.accesses import expose
from syncblob.transfers import require_device
from syncblob.transfers.verify import verifying

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.calls.torch.plans import Plan
    from syncblob.devices.base import Home

# Part of an error. Moving a Blob does not always help.
ADVICE = (
    "torch computes where its tensors are, or where the Blobs are if there is no tensor; it has no "
    "simulated devices, and uses the host for them"
)

# Returns None outside of torch.func. Within, `requires_grad` may be False for recorded tensors.
transformation: Callable[[], object] = torch._C._functorch.peek_interpreter_stack

# A Blob, and the loan that a reading function got.
Lent = tuple[BlobCore, Loan]


class Call:
    """A call whose arguments are brought to a device, and written there."""

    def __init__(self, plan: Plan, values: Sequence[Any]) -> None:
        self._plan = plan
        self._operands = [*values]
        tensors, blobs = [*instances(values, torch.Tensor)], [*instances(values, BlobCore)]
        self._device, self._home = device_of_tensors(tensors, [x.device for x in blobs])
        if plan.computes:
            require_device(self._home.device, plan.name, ADVICE)
        # Whether torch keeps its inputs, and so gets copies: it does not see writes to Blobs. That
        # is if autograd records the call, or `torch.func.linearize` does, by `make_fx`.
        self._recorded = torch._C._get_dispatch_mode(
            torch._C._TorchDispatchModeKey.PROXY
        ) is not None or (
            torch.is_grad_enabled()
            and (any(x.requires_grad for x in tensors) or transformation() is not None)
        )
        self._written: list[BlobCore] = [*instances([values[n] for n in plan.written], BlobCore)]
        # One loan for each memory and layout, so that torch recognizes identical operands.
        self._read: dict[tuple[int, Layout], Lent] = {}
        # Written Blobs, the tensors over their memory, and the places of these before.
        self._direct: list[tuple[BlobCore, torch.Tensor, Any]] = []
        # Copies of Blobs, by whether they are copied back even if torch counts no write. Needed if
        # an overwrite would discard the newest contents on the other side, for outputs with gaps,
        # for several outputs, for recorded calls, and for negative strides, which torch lacks.
        self._copies: dict[tuple[int, Layout, bool], tuple[BlobCore, torch.Tensor]] = {}

    def run(self, *_pinned: BlobCore) -> Any:
        """Prepare and run the call, and return its result."""
        plan, home = self._plan, self._home
        if plan.written:
            has_written()
        beginning = None
        try:
            self._prepare()
            beginning = timed_computations.begin(home) if plan.computes else None
            if plan.written or home is HOST:
                return self._finish(self._compute())
            return self._finish(in_room(home, plan.name, torch.OutOfMemoryError, self._compute))
        except RuntimeError as error:
            explain_resize(error, plan.name, self._written)
            raise
        finally:
            # Also after a failure, because work queued before it still runs.
            if isinstance(home, CudaBackend):
                home.order.note([loan.owner for _, loan in self._read.values()])
            timed_computations.end(home, plan.name, beginning)

    def _compute(self) -> Any:
        return self._plan.compute(*self._operands)

    # --- before ----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Replace Blobs by tensors, and order torch's work after that of this package."""
        plan, operands = self._plan, self._operands
        for place in plan.shape_only:
            operands[place] = over.empty(operands[place].layout, self._device)
        for place in plan.read:
            operands[place] = replaced(operands[place], BlobCore, self._read_tensor)
        # Last, because inputs must be on this side before their memory is written.
        for place, whole in plan.written.items():
            write = partial(self._written_tensor, whole=whole)
            operands[place] = replaced(operands[place], BlobCore, write)
        written = [*instances([operands[place] for place in plan.written], torch.Tensor)]
        clear = partial(over.clear_of, others=written)
        for place in {*plan.read} - plan.written.keys() if written else ():
            operands[place] = replaced(operands[place], torch.Tensor, clear)
        if isinstance(self._home, CudaBackend):
            self._home.order.join()

    def _read_tensor(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read."""
        memory, layout = x.memory, x.layout
        overlapped = any(y.memory is memory and y.layout != layout for y in self._written)
        if not (self._recorded or layout.reversed_axes or overlapped):
            return self._loan(x).tensor
        return self._copied(x, late=False)

    def _loan(self, x: BlobCore) -> Loan:
        """Return the loan of a Blob, which it keeps unless a tensor of its memory is written."""
        memory, layout = x.memory, x.layout
        known = self._read.get((id(memory), layout))
        if known is not None:
            return known[1]
        loan = None
        reason = self._plan.name
        # Reusing a kept tensor skips the verification.
        keeps = self._plan.keeps and not verifying()
        if keeps and all(y.memory is not memory for y in self._written):
            loan = loan_of(x, self._home, reason)
        if loan is None:
            loan = Loan(*over.tensor_over_memory(memory, layout, self._home, CONST, reason))
        self._read[id(memory), layout] = x, loan
        return loan

    def _copied(self, x: BlobCore, *, late: bool) -> torch.Tensor:
        """Return a tensor over a copy of a Blob: the same one for the same Blob."""
        key = id(x.memory), x.layout, late
        if key in self._copies:
            return self._copies[key][1]
        if x.layout.reversed_axes or not self._recorded:
            tensor = over.private(x.memory, x.layout, self._home, self._plan.name)
        else:
            # By torch, so that a CUDA graph copies again.
            with (
                torch.inference_mode(mode=False),
                torch._C._DisableFuncTorch(),
                _modes._disable_current_modes(),
            ):
                tensor = self._loan(x).tensor.clone()
        self._copies[key] = x, tensor
        return tensor

    def _written_tensor(self, x: BlobCore, *, whole: bool) -> torch.Tensor:
        """Return a tensor to read and write, or to overwrite as a whole, without a transfer."""
        name = self._plan.name
        x.require_writable(name)
        memory, layout = x.memory, x.layout
        alone = len(self._written) == 1 and layout.gapless and layout.size
        if whole and (not alone or forgets_newest(x, memory.side_of(self._home))):
            tensor = over.empty(layout, self._device)
            self._copies[id(memory), layout, True] = x, tensor
            return tensor
        if layout.reversed_axes or self._recorded:
            return self._copied(x, late=True)
        known = self._read.pop((id(memory), layout), None)
        if known is None:
            tensor, _ = over.tensor_over_memory(memory, layout, self._home, MUTABLE, name)
            if self._home is HOST:
                # The next call finds an array for `host_alias`.
                x.keep_arrays(HOST_DATA, memory)
        else:
            known[1].become_alias(x, self._home, name)
            tensor = known[1].tensor
        self._direct.append((x, tensor, over.place_of(tensor)))
        return tensor

    # --- afterwards ------------------------------------------------------------------------------

    def _finish(self, result: Any) -> Any:
        """Write copies back, make aliases of loans that are in use, and return the result."""
        plan, home = self._plan, self._home
        copies = self._copies.items()
        changed = [pair for (_, _, late), pair in copies if late or pair[1]._version]
        for x, tensor in changed:
            x.require_writable(plan.name)
            require_place(plan.name, x, tensor)
        for x, tensor, place in self._direct:
            require_place(plan.name, x, tensor, place)
        # Within torch.func, it would refuse to write them.
        with torch._C._DisableFuncTorch():
            self._write_back(changed)
            delivered = {
                id(tensor): over.tensor_over_memory(x.memory, x.layout, home, MUTABLE, plan.name)[0]
                for x, tensor in changed
                if not x.layout.reversed_axes
            }
        if delivered:
            # A recorded one has a graph.
            result = replaced(
                result, torch.Tensor, lambda x: x if x.requires_grad else delivered.get(id(x), x)
            )
        if isinstance(home, CudaBackend) and home.order.torch_captures():
            # The graph will write them again, and nobody says when.
            for x in self._written:
                layout, side = x.layout, x.memory.side_of(home)
                expose(x.memory, side, start=layout.start, stop=layout.stop)
        return give(result, [] if self._recorded else [*self._read.values()], home, plan)

    def _write_back(self, pairs: Sequence[tuple[BlobCore, torch.Tensor]]) -> None:
        """Copy tensors into Blobs."""

        def copy(array: Any, tensor: torch.Tensor) -> None:
            over.tensor_of(self._home, array)[0].copy_(tensor)

        overwrites = []
        for x, tensor in pairs:
            axes = x.layout.reversed_axes
            contents = tensor.detach().flip(axes) if axes else tensor.detach()
            overwrites.append((x.memory, x.layout.forwards(), copy, contents))
        overwrite(overwrites, self._home, self._plan.name)


# --- results --------------------------------------------------------------------------------------


def explain_resize(error: RuntimeError, name: str, written: Sequence[BlobCore]) -> None:
    """Raise a ValueError in place of torch's error for a Blob that it cannot resize."""
    if "not resizable" in str(error) and written:
        shapes = " and ".join(str(x.shape) for x in written)
        raise ValueError(
            f"{name} gives more elements than the Blob to be written has, of shape {shapes}; "
            "resize it first"
        ) from error


def require_place(name: str, x: BlobCore, tensor: torch.Tensor, place: Any = None) -> None:
    """Raise unless a tensor that was written still has the shape of its Blob, and its place."""
    if tuple(tensor.shape) != x.shape:
        raise ValueError(
            f"{name} gives shape {tuple(tensor.shape)}, and the Blob to be written has {x.shape}; "
            "resize it first"
        )
    if place is not None and over.place_of(tensor) != place:
        raise ValueError(
            f"{name} changes a tensor's storage or strides, "
            "which a Blob cannot do; call it on a tensor and assign the result"
        )


def give(result: Any, lent: Sequence[Lent], home: Home, plan: Plan) -> Any:
    """Make aliases of loans that a function has written or returns; return the result."""
    aliases: list[Loan] = []

    def become_alias(x: BlobCore, loan: Loan) -> None:
        if loan not in aliases:
            aliases.append(loan)
            loan.become_alias(x, home, plan.name)
            plan.views = len(plan.blobs) == 1

    for x, loan in lent:
        if loan.was_written:
            loan.forget(x)
            x.require_writable(plan.name)
            become_alias(x, loan)

    def tracked(tensor: torch.Tensor) -> torch.Tensor:
        found = [(x, loan) for x, loan in lent if over.lies_in(tensor, loan.tensor)]
        # The loans of a Blob and of its first part have the same address.
        storage = over.storage_of(tensor)[0]
        exact = [pair for pair in found if over.storage_of(pair[1].tensor)[0] == storage]
        writable = [(x, loan) for x, loan in exact or found if not x.readonly]
        for x, loan in writable:
            become_alias(x, loan)
        return over.apart(tensor) if found and not writable else tensor

    return replaced(result, torch.Tensor, tracked)
