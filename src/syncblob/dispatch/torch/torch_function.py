"""One call of a PyTorch function with Blobs among its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._python_dispatch as _modes

from syncblob.blob.core import HOST_DATA, BlobCore
from syncblob.calls.compute import forgets_newest, overwrite
from syncblob.calls.nested import NESTED, instances, replaced
from syncblob.devices import HOST, timed_computations
from syncblob.devices.cuda import CudaBackend
from syncblob.dispatch.torch import tensors as over
from syncblob.dispatch.torch.devices import device_of_tensors
from syncblob.dispatch.torch.tensors import Loan, host_alias, host_loan, loan_of_its_own
from syncblob.dispatch.torch.tracing import untraced
from syncblob.dispatch.torch.written_arguments import Plan, plan_call
from syncblob.guards import require_device
from syncblob.memory import CONST, MUTABLE, in_room, writing
from syncblob.memory.untracked_aliases import expose
from syncblob.memory.verify import verifying

if TYPE_CHECKING:
    from syncblob._layout import Layout
    from syncblob.devices.base import Home

# Part of an error. Moving a Blob does not always help.
_ADVICE = (
    "torch computes where its tensors are, or where the Blobs are if there is no tensor; it has no "
    "simulated devices, and uses the host for them"
)

# Returns None outside of torch.func. Within, `requires_grad` may be False for recorded tensors.
_transformation: Callable[[], object] = torch._C._functorch.peek_interpreter_stack

# A Blob, and the loan that a reading function got.
_Lent = tuple[BlobCore, Loan]


@untraced
def call(  # the usual ways come first
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a torch function with Blobs, or nested sequences of them, in place of tensors.

    Returns
    -------
    Any
        The result of the function. Tensors in it that lie over a Blob's memory are aliases of the
        Blob, or copies if the Blob is const.

    Raises
    ------
    DeviceGuardError
        If a guard forbids that device.
    ValueError
        If a const Blob would be written, or the shape of an `out` differs from that of the result.
    """
    values = [*args, *kwargs.values()] if kwargs else [*args]
    names = tuple(kwargs) if kwargs else ()
    plan = plan_call(function, values, names)
    if names and plan.positional:
        # Many functions of torch.nn.functional pass all their options on by name.
        function, values, names = partial(function, **kwargs), [*args], ()
    direct = plan.direct and not _modes._is_in_torch_dispatch_mode
    if direct and HOST.direct:
        result = _call_directly(plan, function, values, names)
        if result is not NotImplemented:
            return result
    args = plan, function, values, names
    if plan.written:
        return writing(plan.blobs_in(values), _call_by_loans, *args, direct=direct)
    return _call_by_loans(*args, direct=direct)


def _call_by_loans(
    plan: Plan,
    function: Callable[..., Any],
    values: list[Any],
    names: tuple[str, ...],
    *,
    direct: bool,
) -> Any:
    """Implement `call` where tensors have to be brought or written."""
    tensors = plan.tensors_in(values)
    device, home = device_of_tensors(tensors, [x.device for x in plan.blobs_in(values)])
    if plan.computes:
        require_device(home.device, plan.name, _ADVICE)
    if direct and home is HOST and not (HOST.direct or verifying() or timed_computations.watchers):
        # A guard has been asked.
        result = _call_directly(plan, function, values, names)
        if result is not NotImplemented:
            return result
    # Whether autograd records the call, or `torch.func.linearize` does, by `make_fx`.
    recorded = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None or (
        torch.is_grad_enabled()
        and (any(x.requires_grad for x in tensors) or _transformation() is not None)
    )
    running = _Call(plan, (device, home), values, recorded=recorded)
    beginning = None
    try:
        running.lend(values)
        beginning = timed_computations.begun(home) if plan.computes else None
        if plan.written or home is HOST:
            return running.finish(_compute(function, values, names))
        return running.finish(
            in_room(home, plan.name, torch.OutOfMemoryError, _compute, function, values, names)
        )
    except RuntimeError as error:
        if "not resizable" not in str(error) or not running.written:
            raise
        shapes = " and ".join(str(x.shape) for x in running.written)
        raise ValueError(
            f"{plan.name} gives more elements than the Blob to be written has, of shape {shapes}; "
            "resize it first"
        ) from error
    finally:
        # Also after a failure, because work queued before it still runs.
        running.order_after()
        timed_computations.ended(home, plan.name, beginning)


def _call_directly(  # noqa: C901, PLR0911  # inlined, because calls take time
    plan: Plan, function: Callable[..., Any], values: Sequence[Any], names: tuple[str, ...]
) -> Any:
    """Implement `call` for the usual case: nothing is written, and torch computes on the host.

    Returns NotImplemented, without a call, in other cases, if a Blob has negative strides, and
    within torch.func where gradients are enabled.
    """
    recorded = False
    if plan.tensors or plan.nested_tensors:
        followed = torch.is_grad_enabled()
        if followed and _transformation() is not None:
            return NotImplemented
        for x in plan.tensors_in(values):
            if x.is_cuda:
                return NotImplemented
            recorded = recorded or (followed and x.requires_grad)
    operands = list(values)
    if plan.views:
        # A loan would become an alias, and the next call would need a new one.
        (place,) = plan.blobs
        x = operands[place]
        native = x.home.native
        alias = host_alias(x, x._held, HOST_DATA) if native else None
        if alias is not None:
            operands[place] = alias
            return _compute(function, operands, names)
        loan = loan_of_its_own(x, plan.name) if native else None
        if loan is not None:
            operands[place] = loan.tensor
            result = _compute(function, operands, names)
            if not _is_apart(result, [(x, loan)]):
                loan.become_alias(x, HOST, plan.name)
            return result
    lent = _lend(plan, operands, recorded=recorded)
    if lent is None:
        return NotImplemented
    result = _compute(function, operands, names) if names else function(*operands)
    if _is_apart(result, lent):
        return result
    return _finish_reading(result, lent, HOST, plan.name)


def _lend(plan: Plan, operands: list[Any], *, recorded: bool) -> list[_Lent] | None:
    """Replace Blobs by tensors, outside of lists the same one for the same elements.

    Autograd gets copies, because it does not see writes to Blobs. Returns Blobs and loans; None if
    `host_loan` does, or a Blob may be in a collection other than a list or tuple.
    """
    lent: list[_Lent] = []
    for place in plan.blobs:
        x = operands[place]
        loan = (_known(x, lent) if lent else None) or host_loan(x, plan.name)
        if loan is None:
            return None
        operands[place] = loan.tensor.clone() if recorded else loan.tensor
        lent.append((x, loan))
    for place in plan.nested_blobs:
        items = operands[place]
        kind = type(items)
        if kind is not list and kind is not tuple:
            return None
        tensors = [*items]
        for index, item in enumerate(items):
            if isinstance(item, NESTED):
                return None
            if isinstance(item, BlobCore):
                # Not compared with all others, because a list may be long.
                loan = host_loan(item, plan.name)
                if loan is None:
                    return None
                lent.append((item, loan))
                tensors[index] = loan.tensor.clone() if recorded else loan.tensor
        operands[place] = tensors if kind is list else tuple(tensors)
    return lent


def _known(x: BlobCore, lent: Sequence[_Lent]) -> Loan | None:
    """Return the loan of the same elements, if there is one."""
    for y, loan in lent:
        if y is x or (y._held is x._held and y.layout == x.layout):
            return loan
    return None


def _compute(function: Callable[..., Any], operands: list[Any], names: tuple[str, ...]) -> Any:
    """Call a function, whose last operands are keyword arguments."""
    if not names:
        return function(*operands)
    count = len(operands) - len(names)
    return function(*operands[:count], **dict(zip(names, operands[count:], strict=True)))


def _is_apart(result: Any, lent: Sequence[_Lent]) -> bool:
    """Return whether no loan was written and no result shares its memory, by a quick check.

    The result is a tensor or a tuple of tensors.
    """
    if type(result) is not torch.Tensor:
        return isinstance(result, tuple) and all(_is_apart(x, lent) for x in result)
    try:
        start = result.data_ptr()
    except RuntimeError:
        # Sparse tensors and the wrappers of torch.func have no storage.
        return False
    if not start:
        # Without elements, it may still share the storage of a loan.
        return False
    for _, loan in lent:
        if loan.start <= start <= loan.stop or loan.tensor._version != loan.version:
            return False
    return True


def _finish_reading(result: Any, lent: Sequence[_Lent], home: Home, name: str) -> Any:
    """Make aliases of the loans that were written or whose memory a result shares.

    Returns the result, with tensors over const Blobs replaced by copies.
    """
    aliases: list[Loan] = []

    def become_alias(x: BlobCore, loan: Loan) -> None:
        if loan not in aliases:
            aliases.append(loan)
            loan.become_alias(x, home, name)

    for x, loan in lent:
        if loan.was_written:
            loan.forget(x)
            x._require_writable(name)
            become_alias(x, loan)

    def tracked(tensor: torch.Tensor) -> torch.Tensor:
        found = [(x, loan) for x, loan in lent if over.lies_in(tensor, loan.tensor)]
        # The loans of a Blob and of its first part have the same address.
        exact = [(x, loan) for x, loan in found if over.is_of_storage(tensor, loan.tensor)]
        writable = [(x, loan) for x, loan in exact or found if not x._readonly]
        for x, loan in writable:
            become_alias(x, loan)
        return over.apart(tensor) if found and not writable else tensor

    return replaced(result, torch.Tensor, tracked)


class _Call:
    """The loans and the written arguments of one call, on any device."""

    def __init__(
        self, plan: Plan, place: tuple[torch.device, Home], values: Sequence[Any], *, recorded: bool
    ) -> None:
        self._plan = plan
        self._name = plan.name
        self._device, self._home = place
        # Reusing a kept tensor skips the verification.
        self._keeps = plan.keeps and not verifying()
        # Whether torch keeps its inputs, and so gets copies: it does not see writes to Blobs.
        self._recorded = recorded
        written = [values[place] for place in plan.written]
        self.written: list[BlobCore] = [*instances(written, BlobCore)]
        self._written_tensors = [*instances(written, torch.Tensor)]
        # One loan for each memory and layout, so that torch recognizes identical operands.
        self._read: dict[tuple[int, Layout], _Lent] = {}
        # Written Blobs, the tensors over their memory, and the address and strides of these before.
        self._direct: list[tuple[BlobCore, torch.Tensor, Any]] = []
        # Temporary tensors, copied to the Blobs after a successful call. Needed if an overwrite
        # would discard the newest contents on the other side, for outputs with gaps, for several
        # outputs, for recorded calls, and for negative strides, which torch lacks.
        self._late: list[tuple[BlobCore, torch.Tensor]] = []
        # Copies of Blobs that are read.
        self._copies: list[tuple[BlobCore, torch.Tensor]] = []

    # --- before ----------------------------------------------------------------------------------

    def lend(self, values: list[Any]) -> None:
        """Replace Blobs by tensors, and order torch's work after that of this package."""
        plan = self._plan
        for place in (*plan.blobs, *plan.nested_blobs):
            if place not in plan.written:
                lend = self._shape_only if place in plan.shape_only else self._read_tensor
                values[place] = replaced(values[place], BlobCore, lend)
        # Last, because inputs must be on this side before their memory is written.
        for place, whole in plan.written.items():
            write = self._overwritten_tensor if whole else self._written_tensor
            values[place] = replaced(values[place], BlobCore, write)
        if plan.written:
            read = {*plan.blobs, *plan.nested_blobs, *plan.tensors, *plan.nested_tensors}
            for place in read.difference(plan.written):
                values[place] = replaced(values[place], torch.Tensor, self._apart)
        if isinstance(self._home, CudaBackend):
            self._home.join()

    def _read_tensor(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read."""
        memory, layout = x.memory, x.layout
        written = [y.layout for y in self.written if y.memory is memory]
        if self._recorded or layout.reversed_axes or any(other != layout for other in written):
            copied = self._copied(x)
            self._copies.append((x, copied))
            return copied
        return self._loan(x).tensor

    def _loan(self, x: BlobCore) -> Loan:
        """Return the loan of a Blob, which it keeps unless a tensor of its memory is written."""
        memory, layout = x.memory, x.layout
        known = self._read.get((id(memory), layout))
        if known is not None:
            return known[1]
        loan = None
        if self._keeps and all(y.memory is not memory for y in self.written):
            if self._home is HOST:
                loan = host_loan(x, self._name)
            else:
                loan = over.cuda_loan(x, self._home, self._name)
        if loan is None:
            loan = Loan(*over.tensor_over_memory(memory, layout, self._home, CONST, self._name))
        self._read[id(memory), layout] = x, loan
        return loan

    def _copied(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor over a copy of a Blob."""
        if x.layout.reversed_axes or not self._recorded:
            return over.private(x.memory, x.layout, self._home, self._name)
        # By torch, so that a CUDA graph copies again.
        with (
            torch.inference_mode(mode=False),
            torch._C._DisableFuncTorch(),
            _modes._disable_current_modes(),
        ):
            return self._loan(x).tensor.clone()

    def _shape_only(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor with this shape, dtype and strides. Reads and transfers nothing."""
        return over.empty(x.layout, self._device)

    def _apart(self, x: torch.Tensor) -> torch.Tensor:
        """Return an input tensor; a copy if it overlaps one that is written."""
        written = [*self._written_tensors, *(tensor for _, tensor, _ in self._direct)]
        return x.clone() if any(over.partially_overlaps(x, y) for y in written) else x

    def _written_tensor(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read and write."""
        x._require_writable(self._name)
        memory, layout = x.memory, x.layout
        if layout.reversed_axes or self._recorded:
            # The same Blob twice is written twice.
            for y, scratch in self._late:
                if y.memory is memory and y.layout == layout:
                    return scratch
            scratch = self._copied(x)
            self._late.append((x, scratch))
            return scratch
        known = self._read.pop((id(memory), layout), None)
        if known is None:
            tensor, _ = over.tensor_over_memory(memory, layout, self._home, MUTABLE, self._name)
        else:
            known[1].become_alias(x, self._home, self._name)
            tensor = known[1].tensor
        self._direct.append((x, tensor, over.place_of(tensor)))
        return tensor

    def _overwritten_tensor(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to overwrite completely. Causes no transfer.

        Torch resizes an output of another shape before it fails, and writes it without gaps. An
        empty one, which torch's users resize so, is left as it was.
        """
        x._require_writable(self._name)
        alone = len(self.written) == 1 and x.layout.gapless and x.size
        if alone and not forgets_newest(x, x.memory.side_of(self._home)):
            return self._written_tensor(x)
        scratch = over.empty(x.layout, self._device)
        self._late.append((x, scratch))
        return scratch

    # --- afterwards ------------------------------------------------------------------------------

    def order_after(self) -> None:
        """Order CuPy's stream, on which transfers wait, after torch's, and record what was read."""
        home = self._home
        if isinstance(home, CudaBackend):
            home.join()
            home.order.note([loan.owner for _, loan in self._read.values()])

    def finish(self, result: Any) -> Any:
        """Copy temporary tensors to their Blobs, and make aliases of loans that are still in use.

        Returns the result, with temporary tensors replaced by tensors over the Blobs, and tensors
        over const Blobs by copies.
        """
        for x, tensor in (*self._late, *(written[:2] for written in self._direct)):
            if tuple(tensor.shape) != x.shape:
                raise ValueError(
                    f"{self._name} gives shape {tuple(tensor.shape)}, and the Blob to be written "
                    f"has {x.shape}; resize it first"
                )
        for _, tensor, place in self._direct:
            if over.place_of(tensor) != place:
                raise ValueError(
                    f"{self._name} changes a tensor's storage or strides, "
                    "which a Blob cannot do; call it on a tensor and assign the result"
                )
        # Within torch.func, it would refuse to write them.
        with torch._C._DisableFuncTorch():
            self._deliver(self._late)
            delivered = {id(scratch): self._delivered(x, scratch) for x, scratch in self._late}
            for x, copied in self._copies:
                if copied._version:
                    x._require_writable(self._name)
                    self._deliver([(x, copied)])
        if delivered:
            # A recorded one has a graph.
            result = replaced(
                result, torch.Tensor, lambda x: x if x.requires_grad else delivered.get(id(x), x)
            )
        if isinstance(self._home, CudaBackend) and self._home.order.torch_captures():
            # The graph will write them again, and nobody says when.
            for x in self.written:
                memory, layout = x.memory, x.layout
                side = memory.side_of(self._home)
                expose(memory.ledger, side, start=layout.start, stop=layout.stop)
        lent = [] if self._recorded else [*self._read.values()]
        return _finish_reading(result, lent, self._home, self._name)

    def _deliver(self, pairs: Sequence[tuple[BlobCore, torch.Tensor]]) -> None:
        """Copy temporary tensors into Blobs."""
        overwrites = []
        for x, scratch in pairs:
            axes = x.layout.reversed_axes
            contents = scratch.detach().flip(axes) if axes else scratch.detach()
            write = partial(self._copy, contents)
            overwrites.append((x.memory, x.layout.forwards(), write))
        overwrite(overwrites, self._home, self._name)

    def _copy(self, contents: torch.Tensor, array: Any) -> None:
        over.tensor_of(self._home, array)[0].copy_(contents)

    def _delivered(self, x: BlobCore, scratch: torch.Tensor) -> torch.Tensor:
        """Return a tensor with the contents of a Blob that a temporary one was copied into."""
        if x.layout.reversed_axes:
            return scratch
        return over.tensor_over_memory(x.memory, x.layout, self._home, MUTABLE, self._name)[0]
