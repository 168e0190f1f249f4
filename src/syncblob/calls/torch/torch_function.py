"""One call of a PyTorch function with Blobs among its arguments.

A call is *prepared*: its arguments become tensors on one device. It *runs*. Then its result is
*given*: tensors over a Blob's memory become aliases, and copies are written back. Its plan says
which arguments are read and which are written.

Nearly always, everything lies ready on the host: `_lend_ready` prepares such a call by loans of
what is read, and aliases of what is written. All other calls are a `Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._python_dispatch as _modes

from syncblob._source_lines import user_instruction
from syncblob.blob.core import GPU_DATA, HOST_DATA, BlobCore
from syncblob.calls.nested import NESTED, instances, replaced
from syncblob.calls.results import forgets_newest, overwrite
from syncblob.calls.torch import tensors as over
from syncblob.calls.torch.devices import device_of_tensors
from syncblob.calls.torch.plans import Plan, plan_call, plan_with_contents
from syncblob.calls.torch.tensors import Loan, host_alias, host_loan
from syncblob.calls.torch.tracing import untraced
from syncblob.devices import HOST, timed_computations
from syncblob.devices.cuda import CudaBackend
from syncblob.guards import require_device
from syncblob.memory import CONST, MUTABLE, has_written, in_room, run_writer
from syncblob.memory.operations import innermost_of
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

_CPU = torch.device("cpu")

# `user_instruction`, `_lend_ready` and `call` are of this package.
_DEPTH = 3

# Returns None outside of torch.func. Within, `requires_grad` may be False for recorded tensors.
_transformation: Callable[[], object] = torch._C._functorch.peek_interpreter_stack

# A Blob, and the loan that a reading function got.
_Lent = tuple[BlobCore, Loan]


# A tensor that is written: the Blob that it stands for, if any; the tensor; the addresses of its
# memory and of its end; its shape and strides before, or None for strides that stay.
_Target = tuple[
    "BlobCore | None", torch.Tensor, int, int, "tuple[int, ...]", "tuple[int, ...] | None"
]


def call(  # noqa: C901, PLR0912, PLR0915  # the checks at the end are inlined, because calls take time
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
    values: Sequence[Any] = args
    names: tuple[str, ...] = ()
    if kwargs:
        values, names = [*args, *kwargs.values()], (*kwargs,)
    # Few arguments are usual, and `map` takes time.
    match values:
        case [x]:
            plan = plan_call(function, names, type(x))
        case [x, y]:
            plan = plan_call(function, names, type(x), type(y))
        case _:
            plan = plan_call(function, names, *map(type, values))
    if plan.decisive:
        plan = plan_with_contents(plan, function, values, names)
    if names and plan.positional:
        # Many functions of torch.nn.functional pass all their options on by name.
        function, values, names = partial(function, **kwargs), args, ()
    lent: list[_Lent] = []
    targets: list[_Target] = []
    operands: list[Any] | None = None
    home: Any = HOST
    stream = None
    if plan.short and (HOST.direct or _may_run_on_host(plan, values)):
        if plan.plain and values[plan.read[0]].home.queues:
            operands, home, stream = _lend_queued(plan, values, lent)
        else:
            operands = _lend_ready(plan, values, lent, targets)
    if operands is None:
        return _call_anywhere(plan, function, values, names)
    try:
        if names:
            count, named = len(args), {}
            for place, name in enumerate(names, count):
                named[name] = operands[place]
            result = function(*operands[:count], **named)
        else:
            result = function(*operands)
    except torch.OutOfMemoryError:
        operands = None
    except RuntimeError as error:
        _explain_resize(error, plan.name, [x for x, *_ in targets if x is not None])
        raise
    finally:
        if stream is not None:
            home.order.note([loan.owner for _, loan in lent], None, stream)
    if operands is None:
        lent.clear()
        return _call_anywhere(plan, function, values, names)
    for blob, tensor, start, _, shape, strides in targets:
        if blob is not None and (
            tensor.shape != shape
            or (strides is not None and (tensor.stride() != strides or tensor.data_ptr() != start))
        ):
            _require_place(plan.name, blob, tensor, (start, strides, False, False))
    for tensor in result if isinstance(result, tuple) else (result,):
        try:
            # Zero without elements, and then the storage may still be that of a loan.
            address = tensor.data_ptr() if type(tensor) is torch.Tensor else 0
        except RuntimeError:
            # Sparse tensors and the wrappers of torch.func have no storage.
            address = 0
        for _, loan in lent:
            if (
                not address
                or loan.start <= address <= loan.stop
                or loan.tensor._version != loan.version
            ):
                return _give(result, lent, home, plan)
    return result


def _call_anywhere(
    plan: Plan, function: Callable[..., Any], values: Sequence[Any], names: tuple[str, ...]
) -> Any:
    """Make a call whose arguments have to be brought to a device, or written there."""
    there = Call(plan, function, values, names)
    if plan.written:
        return run_writer(plan.found_in(values, BlobCore), there.run)
    return there.run()


call_untraced: Callable[..., Any] = untraced(call)


# --- calls for which everything lies ready on the host --------------------------------------------


def _may_run_on_host(plan: Plan, values: Sequence[Any]) -> bool:
    """Return whether a call can use what lies ready on the host, although guards are active."""
    tensors = plan.found_in(values, torch.Tensor)
    _, home = device_of_tensors(tensors, [x.device for x in plan.found_in(values, BlobCore)])
    if plan.computes:
        require_device(home.device, plan.name, _ADVICE)
    return home is HOST and not (verifying() or timed_computations.watchers)


def _lend_ready(  # noqa: C901, PLR0911, PLR0912, PLR0915  # inlined, because calls take time
    plan: Plan, values: Sequence[Any], lent: list[_Lent], targets: list[_Target]
) -> list[Any] | None:
    """Return the operands of a call on the host, with tensors in place of Blobs.

    Adds what is read to `lent`, and what is written to `targets`. Returns None if more is needed
    than downloads of what is read, as if a tensor is on a CUDA device, or if operands overlap, or
    if a Blob has negative strides.
    """
    if _modes._is_in_torch_dispatch_mode:
        return None
    operands = [*values]
    if plan.views:
        # A loan would become an alias, and the next call would need a new one.
        x = operands[plan.read[0]]
        alias = host_alias(x, HOST_DATA, user_instruction(_DEPTH)) if x.home.native else None
        if alias is not None:
            operands[plan.read[0]] = alias
            return operands
    read, recorded, count = plan.read, False, len(operands)
    if not plan.plain:
        recording = torch.is_grad_enabled()
        if (recording or plan.written) and _transformation() is not None:
            return None
        for place, whole in plan.written.items():
            x = operands[place]
            if isinstance(x, BlobCore):
                layout: Any = x.known_layout
                native = x.home.native
                alias = host_alias(x, HOST_DATA, user_instruction(_DEPTH)) if native else None
                if alias is None or (whole and not (layout.contiguous and layout.size)):
                    return None
                operands[place] = alias
                start = alias.data_ptr()
                stop = start + layout.stop - layout.start
                strides = None if whole else alias.stride()
                targets.append((x, alias, start, stop, layout.shape, strides))
            elif isinstance(x, torch.Tensor):
                if x.is_cuda or (recording and x.requires_grad):
                    return None
                targets.append((None, x, *over.storage_range(x), (), None))
        for place in plan.shape_only:
            x = operands[place]
            if not x.home.native:
                return None
            kept = x.accessor_arrays[HOST_DATA]
            known = kept is not None and kept.shortcut.readable and kept.tensor is not None
            operands[place] = kept.tensor.tensor if known else over.empty(x.layout, _CPU)
        tensors = plan.tensors
        if plan.nested:
            # The items follow the operands, until they are tensors.
            read, tensors = [*read], [*tensors]
            for place in plan.nested:
                items = operands[place]
                if type(items) is not list and type(items) is not tuple:
                    return None
                for item_place, x in enumerate(items, len(operands)):
                    if isinstance(x, BlobCore):
                        read.append(item_place)
                    elif isinstance(x, torch.Tensor):
                        tensors.append(item_place)
                    elif isinstance(x, NESTED):
                        return None
                operands += items
        for place in tensors:
            x = operands[place]
            if x.is_cuda or (targets and _overlaps(x, targets)):
                return None
            if recording and x.requires_grad:
                recorded = True
        if recorded and targets:
            return None
    for place in read:
        x = operands[place]
        kept = x.accessor_arrays[HOST_DATA]
        loan = kept.tensor if kept is not None and kept.shortcut.readable else None
        if loan is None or loan.tensor._version != loan.version:
            loan = host_loan(x, plan.name)
            if loan is None:
                return None
        operands[place] = loan.tensor
        for blob, tensor, start, stop, _, _ in targets:
            if loan.start < stop and start < loan.stop:
                if x is not blob:
                    return None
                operands[place] = tensor
                break
        else:
            lent.append((x, loan))
            if recorded:
                # Autograd does not see writes to Blobs.
                operands[place] = loan.tensor.clone()
    for place in plan.nested:
        kind, stop = type(operands[place]), count + len(operands[place])
        operands[place] = operands[count:stop] if kind is list else tuple(operands[count:stop])
        del operands[count:stop]
    if innermost_of and targets:
        has_written()
    return operands


def _lend_queued(
    plan: Plan, values: Sequence[Any], lent: list[_Lent]
) -> tuple[list[Any] | None, Any, Any]:
    """Do as `_lend_ready` with Blobs that are read on a device that queues work.

    Returns the device and its stream, too, on which the use has to be noted.
    """
    operands, home = [*values], values[plan.read[0]].home
    stream = None if plan.views or _modes._is_in_torch_dispatch_mode else home.order.plain()
    if stream is None:
        return None, home, None
    for place in plan.read:
        x = operands[place]
        kept = x.accessor_arrays[GPU_DATA]
        loan = kept.tensor if kept is not None and kept.shortcut.readable else None
        if loan is None or x.home is not home or loan.tensor._version != loan.version:
            return None, home, None
        operands[place] = loan.tensor
        lent.append((x, loan))
    return operands, home, stream


def _overlaps(x: torch.Tensor, targets: Sequence[_Target]) -> bool:
    """Return whether a tensor may share memory with one that is written, and is not that."""
    start, stop = over.storage_range(x)
    for _, tensor, target_start, target_stop, _, _ in targets:
        if start < target_stop and target_start < stop and x is not tensor:
            return True
    return False


# --- all other calls ------------------------------------------------------------------------------


class Call:
    """A call whose arguments are brought to a device, and written there."""

    def __init__(
        self,
        plan: Plan,
        function: Callable[..., Any],
        values: Sequence[Any],
        names: tuple[str, ...],
    ) -> None:
        self._plan = plan
        self._function = function
        self._operands = [*values]
        self._names = names
        tensors = plan.found_in(values, torch.Tensor)
        blobs = plan.found_in(values, BlobCore)
        self._device, self._home = device_of_tensors(tensors, [x.device for x in blobs])
        if plan.computes:
            require_device(self._home.device, plan.name, _ADVICE)
        # Reusing a kept tensor skips the verification.
        self._keeps = plan.keeps and not verifying()
        # Whether torch keeps its inputs, and so gets copies: it does not see writes to Blobs. That
        # is if autograd records the call, or `torch.func.linearize` does, by `make_fx`.
        self._recorded = torch._C._get_dispatch_mode(
            torch._C._TorchDispatchModeKey.PROXY
        ) is not None or (
            torch.is_grad_enabled()
            and (any(x.requires_grad for x in tensors) or _transformation() is not None)
        )
        written = [values[place] for place in plan.written]
        self._written: list[BlobCore] = [*instances(written, BlobCore)]
        self._written_tensors = [*instances(written, torch.Tensor)]
        # One loan for each memory and layout, so that torch recognizes identical operands.
        self._read: dict[tuple[int, Layout], _Lent] = {}
        # Written Blobs, the tensors over their memory, and the places of these before.
        self._direct: list[tuple[BlobCore, torch.Tensor, Any]] = []
        # Copies of Blobs, and whether they are copied back even if torch counts no write. Needed if
        # an overwrite would discard the newest contents on the other side, for outputs with gaps,
        # for several outputs, for recorded calls, and for negative strides, which torch lacks.
        self._copies: list[tuple[BlobCore, torch.Tensor, bool]] = []

    def run(self) -> Any:
        """Prepare and run the call, and return its result."""
        plan, home = self._plan, self._home
        beginning = None
        try:
            self._prepare()
            beginning = timed_computations.begun(home) if plan.computes else None
            if plan.written or home is HOST:
                return self._finish(self._compute())
            return self._finish(in_room(home, plan.name, torch.OutOfMemoryError, self._compute))
        except RuntimeError as error:
            _explain_resize(error, plan.name, self._written)
            raise
        finally:
            # Also after a failure, because work queued before it still runs.
            if isinstance(home, CudaBackend):
                # CuPy's stream, on which transfers wait, comes after torch's.
                home.order.join()
                home.order.note([loan.owner for _, loan in self._read.values()])
            timed_computations.ended(home, plan.name, beginning)

    def _compute(self) -> Any:
        operands, names = self._operands, self._names
        split = len(operands) - len(names)
        named = dict(zip(names, operands[split:], strict=True))
        return self._function(*operands[:split], **named)

    # --- before ----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Replace Blobs by tensors, and order torch's work after that of this package."""
        plan, operands = self._plan, self._operands
        for place in plan.shape_only:
            operands[place] = over.empty(operands[place].layout, self._device)
        for place in (*plan.read, *plan.nested):
            operands[place] = replaced(operands[place], BlobCore, self._read_tensor)
        # Last, because inputs must be on this side before their memory is written.
        for place, whole in plan.written.items():
            write = partial(self._written_tensor, whole=whole)
            operands[place] = replaced(operands[place], BlobCore, write)
        if plan.written:
            for place in {*plan.read, *plan.tensors, *plan.nested} - plan.written.keys():
                operands[place] = replaced(operands[place], torch.Tensor, self._apart)
        if isinstance(self._home, CudaBackend):
            self._home.order.join()

    def _read_tensor(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read."""
        memory, layout = x.memory, x.layout
        written = [y.layout for y in self._written if y.memory is memory]
        if self._recorded or layout.reversed_axes or any(other != layout for other in written):
            copied = self._copied(x)
            self._copies.append((x, copied, False))
            return copied
        return self._loan(x).tensor

    def _loan(self, x: BlobCore) -> Loan:
        """Return the loan of a Blob, which it keeps unless a tensor of its memory is written."""
        memory, layout = x.memory, x.layout
        known = self._read.get((id(memory), layout))
        if known is not None:
            return known[1]
        loan = None
        if self._keeps and all(y.memory is not memory for y in self._written):
            if self._home is HOST:
                loan = host_loan(x, self._plan.name)
            else:
                loan = over.cuda_loan(x, self._home, self._plan.name)
        if loan is None:
            reason = self._plan.name
            loan = Loan(*over.tensor_over_memory(memory, layout, self._home, CONST, reason))
        self._read[id(memory), layout] = x, loan
        return loan

    def _copied(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor over a copy of a Blob."""
        if x.layout.reversed_axes or not self._recorded:
            return over.private(x.memory, x.layout, self._home, self._plan.name)
        # By torch, so that a CUDA graph copies again.
        with (
            torch.inference_mode(mode=False),
            torch._C._DisableFuncTorch(),
            _modes._disable_current_modes(),
        ):
            return self._loan(x).tensor.clone()

    def _apart(self, x: torch.Tensor) -> torch.Tensor:
        """Return an input tensor; a copy if it overlaps one that is written."""
        written = [*self._written_tensors, *(tensor for _, tensor, _ in self._direct)]
        return x.clone() if any(over.partially_overlaps(x, y) for y in written) else x

    def _written_tensor(self, x: BlobCore, *, whole: bool) -> torch.Tensor:
        """Return a tensor to read and write, or to overwrite as a whole, without a transfer.

        Torch resizes an output of another shape before it fails, and writes it without gaps. An
        empty one, which torch's users resize so, is left as it was.
        """
        name = self._plan.name
        x.require_writable(name)
        memory, layout = x.memory, x.layout
        alone = len(self._written) == 1 and layout.gapless and layout.size
        if whole and (not alone or forgets_newest(x, memory.side_of(self._home))):
            return self._copied_back(x, over.empty(layout, self._device))
        if layout.reversed_axes or self._recorded:
            # The same Blob twice is written twice.
            for y, tensor, late in self._copies:
                if late and y.memory is memory and y.layout == layout:
                    return tensor
            return self._copied_back(x, self._copied(x))
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

    def _copied_back(self, x: BlobCore, tensor: torch.Tensor) -> torch.Tensor:
        self._copies.append((x, tensor, True))
        return tensor

    # --- afterwards ------------------------------------------------------------------------------

    def _finish(self, result: Any) -> Any:
        """Write copies back, and make aliases of loans that are still in use.

        Returns the result, with the copies replaced by tensors over the Blobs, and tensors over
        const Blobs by copies.
        """
        plan, home = self._plan, self._home
        late = [(x, tensor) for x, tensor, late in self._copies if late]
        for x, tensor in late:
            _require_place(plan.name, x, tensor)
        for x, tensor, place in self._direct:
            _require_place(plan.name, x, tensor, place)
        # Within torch.func, it would refuse to write them.
        with torch._C._DisableFuncTorch():
            self._write_back(late)
            delivered = {id(tensor): self._delivered(x, tensor) for x, tensor in late}
            for x, tensor, is_late in self._copies:
                if not is_late and tensor._version:
                    x.require_writable(plan.name)
                    self._write_back([(x, tensor)])
        if delivered:
            # A recorded one has a graph.
            result = replaced(
                result, torch.Tensor, lambda x: x if x.requires_grad else delivered.get(id(x), x)
            )
        if isinstance(home, CudaBackend) and home.order.torch_captures():
            # The graph will write them again, and nobody says when.
            for x in self._written:
                layout, side = x.layout, x.memory.side_of(home)
                expose(x.memory.ledger, side, start=layout.start, stop=layout.stop)
        return _give(result, [] if self._recorded else [*self._read.values()], home, plan)

    def _write_back(self, pairs: Sequence[tuple[BlobCore, torch.Tensor]]) -> None:
        """Copy tensors into Blobs."""

        def copy(tensor: torch.Tensor, array: Any) -> None:
            over.tensor_of(self._home, array)[0].copy_(tensor)

        overwrites = []
        for x, tensor in pairs:
            axes = x.layout.reversed_axes
            contents = tensor.detach().flip(axes) if axes else tensor.detach()
            overwrites.append((x.memory, x.layout.forwards(), partial(copy, contents)))
        overwrite(overwrites, self._home, self._plan.name)

    def _delivered(self, x: BlobCore, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor with the contents of a Blob that a copy was written back to."""
        if x.layout.reversed_axes:
            return tensor
        reason = self._plan.name
        return over.tensor_over_memory(x.memory, x.layout, self._home, MUTABLE, reason)[0]


# --- results --------------------------------------------------------------------------------------


def _explain_resize(error: RuntimeError, name: str, written: Sequence[BlobCore]) -> None:
    """Raise a ValueError in place of torch's error for a Blob that it cannot resize."""
    if "not resizable" in str(error) and written:
        shapes = " and ".join(str(x.shape) for x in written)
        raise ValueError(
            f"{name} gives more elements than the Blob to be written has, of shape {shapes}; "
            "resize it first"
        ) from error


def _require_place(name: str, x: BlobCore, tensor: torch.Tensor, place: Any = None) -> None:
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


def _give(result: Any, lent: Sequence[_Lent], home: Home, plan: Plan) -> Any:
    """Make aliases of the loans that were written or whose memory a result shares.

    Returns the result, with tensors over const Blobs replaced by copies.
    """
    aliases: list[Loan] = []

    def become_alias(x: BlobCore, loan: Loan) -> None:
        if loan not in aliases:
            aliases.append(loan)
            loan.become_alias(x, home, plan.name)
            plan.views = plan.lone

    for x, loan in lent:
        if loan.was_written:
            loan.forget(x)
            x.require_writable(plan.name)
            become_alias(x, loan)

    def tracked(tensor: torch.Tensor) -> torch.Tensor:
        found = [(x, loan) for x, loan in lent if over.lies_in(tensor, loan.tensor)]
        # The loans of a Blob and of its first part have the same address.
        exact = [(x, loan) for x, loan in found if over.is_of_storage(tensor, loan.tensor)]
        writable = [(x, loan) for x, loan in exact or found if not x.readonly]
        for x, loan in writable:
            become_alias(x, loan)
        return over.apart(tensor) if found and not writable else tensor

    return replaced(result, torch.Tensor, tracked)
