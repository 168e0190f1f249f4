"""Calls of PyTorch functions with Blobs.

A call is *prepared*: its arguments become tensors on one device. It *runs*. Then its result is
*given*: tensors over a Blob's memory become aliases, and copies are written back.

Nearly always, everything lies ready on the host, or is only read on a CUDA device. Then loans take
the place of what is read, and an alias that of what is written. All other calls are a `Call`, which
inspects its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._python_dispatch as _modes

from syncblob.blob.core import GPU_DATA, HOST_DATA, BlobCore
from syncblob.calls.engine import Cache, arguments, maker_of, plans_by_function
from syncblob.calls.nested import NESTED, instances, replace_instances
from syncblob.calls.results import forgets_newest, overwrite
from syncblob.calls.tables import split_keys
from syncblob.calls.torch import tensors as over
from syncblob.calls.torch.plans import Plan, Rule, rule_of
from syncblob.calls.torch.tensors import Loan, home_of_tensors, host_alias, loan_of
from syncblob.devices import HOST, supervisors, timed_computations
from syncblob.devices.cuda import CudaBackend
from syncblob.memory import CONST, MUTABLE, attempt, has_written, in_room
from syncblob.memory.accesses import expose
from syncblob.memory.operations import running
from syncblob.transfers import require_device
from syncblob.transfers.verify import verifying

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

_CPU = torch.device("cpu")

_PLAIN: tuple[Any, ...] = (list, tuple)
_INTEGERS = {int}

# A Blob, and the loan that a reading function got.
Lent = tuple[BlobCore, Loan]


@over.untraced
def call_untraced(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a torch function with Blobs where the compiler is loaded, and must not trace it."""
    # The types are those for which torch calls it.
    return BlobCore.class_of_results.__torch_function__(function, (), args, kwargs)


def _make(rule: Rule, kinds: Mapping[int | str, Any]) -> Callable[[Sequence[Any]], Any]:
    """Return the function that makes calls, given the arguments; those by keyword come last."""
    plan = Plan(rule, kinds)
    if not plan.flags:
        return _make_ready(plan, rule, kinds) if plan.short else partial(_begin, plan)
    # Their truth says what a call writes.
    keys = [[*kinds][n] for n in plan.flags]
    made = Cache(lambda truths: _make(rule, {**kinds, **dict(zip(keys, truths, strict=True))}))
    return lambda values: made[tuple([bool(values[n]) for n in plan.flags])](values)


# What makes the calls of a function, by the types of the arguments.
functions: Cache = plans_by_function(lambda function: rule_of(function)._replace(plan=_make))


# --- calls for which everything lies ready --------------------------------------------------------

# The steps of such a call on the host, as text: a loop over the arguments would take longer than
# many calls. Argument n is x{n}, and the tensor in its place a{n}. What cannot go on leaves the
# call to others; until then nothing has changed.
_START = """
def run(values):
    {given} = values
    if _modes._is_in_torch_dispatch_mode or (supervisors and not _may_run_on_host(plan, values)):
        return _begin(plan, values)
"""
_SHAPE_ONLY = """
    if not x{n}.home.native:
        return _begin(plan, values)
    a{n} = over.empty(x{n}.layout, _CPU)
"""
# Every output with gaps gets its contents when the function has succeeded.
_TARGET = """
    a{n} = target = host_alias(x{n}, HOST_DATA) if x{n}.home.native else None
    layout = x{n}.known_layout
    if target is None or _transformation() is not None or not ({fits}):
        return _begin(plan, values)
    start = target.data_ptr()
    stop = start + layout.stop - layout.start
    place = {place}
"""
_TARGET_TENSOR = """
    a{n} = target = x{n}
    layout, (_, start, stop) = None, over.storage_of(target)
    if _transformation() is not None:
        return _begin(plan, values)
"""
_OTHERS = """
    lent = []
    others = _lend(plan, ({others}), lent, {target})
    if others is None:
        return {elsewhere}(plan, values)
    {replaced} = others
"""
# A loan would become an alias, and the next call would need a new one.
_VIEW = """
    a{n} = host_alias(x{n}, HOST_DATA) if plan.views and x{n}.home.native else None
    if a{n} is not None and not {lent}:
        return {call}
"""
# As in `_lend`, without a call.
_BLOB = """
    kept = x{n}.accessor_arrays[HOST_DATA]
    loan{n} = kept.tensor if kept is not None and kept.shortcut.readable else None
    if loan{n} is None or loan{n}.tensor._version != loan{n}.version:
        loan{n} = loan_of(x{n}, HOST, plan.name)
        if loan{n} is None:
            return {elsewhere}(plan, values)
    a{n} = loan{n}.tensor
"""
# An operand that is written, too, is one tensor.
_BESIDE_TARGET = """
    if loan{n}.start < stop and start < loan{n}.stop:
        if x{n} is not {x}:
            return _begin(plan, values)
        a{n} = target
"""
_READ = """
    result = {call}
    if {apart}not {lent} or _is_apart(result, lent := [{pairs}*{lent}]):
        return result
    return give(result, lent, HOST, plan, values)
"""
_WRITE = """
    if running:
        has_written()
    try:
        result = {call}
    except RuntimeError as error:
        _explain_resize(error, plan.name, {x})
        raise
    if layout is not None and (target.shape != layout.shape or {place} != place):
        _require_place(plan.name, {x}, target, place and (*place, False, False))
    return result if result is target else give(result, [{pairs}*{lent}], HOST, plan)
"""


def _make_ready(plan: Plan, rule: Rule, kinds: Mapping[int | str, Any]) -> Callable[..., Any]:
    """Return the function that makes calls of a short plan on the host, given the arguments."""
    blobs, others, count = plan.blobs, plan.others, len(kinds)
    target, whole = next(iter(plan.written.items()), (0, False))
    replaced = {*plan.shape_only, *plan.read, *plan.written}
    operands = [f"{'a' if n in replaced else 'x'}{n}" for n in range(count)]
    apart = "not loan{0}.start <= address <= loan{0}.stop and a{0}._version == loan{0}.version and "
    address = "(address := _address_of(result)) and " if blobs else ""
    words = {
        "given": "".join(f"x{n}, " for n in range(count)),
        "call": f"function({arguments(operands, split_keys(kinds)[1])})",
        "others": "".join(f"x{n}, " for n in others),
        "replaced": "".join(f"a{n}, " for n in others),
        "lent": "lent" if others else "()",
        "pairs": "".join(f"(x{n}, loan{n}), " for n in blobs),
        "apart": address + "".join(apart.format(n) for n in blobs),
        "x": f"x{target}",
        "target": f"(x{target}, target, start, stop)" if plan.written else "None",
        "elsewhere": "_begin" if plan.written else "_record" if others else "_queue",
        "fits": "layout.contiguous and layout.size" if whole else "True",
        "place": "None" if whole else "(target.data_ptr(), target.stride())",
    }
    steps = [(_START, 0), *((_SHAPE_ONLY, n) for n in plan.shape_only)]
    if plan.written:
        blob = issubclass([*kinds.values()][target], BlobCore)
        steps += [(_TARGET if blob else _TARGET_TENSOR, target)]
    steps += [(_OTHERS, 0)] * bool(others)
    for n in blobs:
        steps += [(_VIEW, n)] * (len(blobs) == 1 and not plan.written)
        steps += [(_BLOB, n), *[(_BESIDE_TARGET, n)] * bool(plan.written)]
    steps += [(_WRITE if plan.written else _READ, 0)]
    text = "".join(step.format(n=n, **words) for step, n in steps)
    return maker_of(text, ("plan", "function"), __name__)(plan, rule.function)


def _record(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call that autograd may record, with copies: it does not see writes to Blobs."""
    operands = [*values]
    tensors = [*instances([values[n] for n in plan.others], torch.Tensor)]
    here = tensors and _transformation() is None and not any(x.is_cuda for x in tensors)
    lent = _lend(plan, [values[n] for n in plan.blobs], []) if here else None
    if not lent:
        return _queue(plan, values)
    for n, tensor in zip(plan.blobs, lent, strict=True):
        operands[n] = tensor.clone()
    return plan.compute(*operands)


def _queue(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call that writes nothing, with the tensors that Blobs keep on a CUDA device."""
    lent: list[Lent] = []
    ready = not (supervisors or plan.shape_only)
    operands = _lend(plan, values, lent, place=GPU_DATA) if ready else None
    if operands is None:
        return _begin(plan, values)
    home: Any = lent[0][0].home
    stream = home.order.plain()
    for x, _ in lent:
        if stream is None or x.home is not home:
            return _begin(plan, values)
    try:
        result = plan.compute(*operands)
    except torch.OutOfMemoryError:
        return _begin(plan, values)
    finally:
        home.order.note([loan.owner for _, loan in lent], None, stream)
    return result if _is_apart(result, lent) else give(result, lent, home, plan, values)


def _lend(
    plan: Plan,
    items: Iterable[Any],
    lent: list[Lent],
    target: tuple[Any, Any, int, int] | None = None,
    place: int = HOST_DATA,
) -> list[Any] | None:
    """Return items with tensors that lie ready in place of Blobs; None unless all do.

    `target` is what the call writes, if anything: that, the tensor in its place, and the addresses
    of the tensor. `place` is that of the arrays with which Blobs keep the tensors.
    """
    y, written, start, stop = target or (None, None, 0, 0)
    found = [*items]
    for n, x in enumerate(found):
        if isinstance(x, BlobCore):
            kept = x.accessor_arrays[place]
            loan = kept.tensor if kept is not None and kept.shortcut.readable else None
            if loan is None or loan.tensor._version != loan.version:
                loan = None if place else loan_of(x, HOST, plan.name)
                if loan is None:
                    return None
            if not (loan.start < stop and start < loan.stop):
                found[n] = loan.tensor
                lent.append((x, loan))
            elif x is y:
                # An operand that is written, too, is one tensor.
                found[n] = written
            else:
                return None
        elif isinstance(x, NESTED) and (type(x) is list or {*map(type, x)} != _INTEGERS):
            inner = _lend(plan, x, lent, target, place) if type(x) in _PLAIN else None
            if inner is None:
                return None
            found[n] = inner if type(x) is list else tuple(inner)
        elif isinstance(x, torch.Tensor) and (
            place
            or x.is_cuda
            or _transformation() is not None
            or (x.requires_grad and torch.is_grad_enabled())
            or (stop and x is not written and over.overlaps(x, start, stop))
        ):
            return None
    return found


def _may_run_on_host(plan: Plan, values: Sequence[Any]) -> bool:
    """Return whether a call can use what lies ready on the host, although guards are active."""
    tensors = [*instances(values, torch.Tensor)]
    home = home_of_tensors(tensors, [x.device for x in instances(values, BlobCore)])
    if plan.computes:
        require_device(home.device, plan.name, _ADVICE)
    return home is HOST and not (verifying() or timed_computations.watchers)


# --- calls that inspect their arguments -----------------------------------------------------------


def _begin(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call by inspecting its arguments."""
    call = Call(plan, values)
    # It pins what it writes.
    return attempt(call.run, *instances(values, BlobCore)) if plan.written else call.run()


class Call:
    """A call whose arguments are brought to a device, and written there."""

    def __init__(self, plan: Plan, values: Sequence[Any]) -> None:
        self._plan = plan
        self._values = values
        self._operands = [*values]
        tensors, blobs = [*instances(values, torch.Tensor)], [*instances(values, BlobCore)]
        self._home: Home = home_of_tensors(tensors, [x.device for x in blobs])
        if plan.computes:
            require_device(self._home.device, plan.name, _ADVICE)
        # Whether torch keeps its inputs, and so gets copies: it does not see writes to Blobs. That
        # is if autograd records the call, or `torch.func.linearize` does, by `make_fx`.
        self._recorded = torch._C._get_dispatch_mode(
            torch._C._TorchDispatchModeKey.PROXY
        ) is not None or (
            torch.is_grad_enabled()
            and (any(x.requires_grad for x in tensors) or _transformation() is not None)
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
            _explain_resize(error, plan.name, *self._written)
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
        for n in plan.shape_only:
            operands[n] = over.empty(operands[n].layout, self._home.device.torch)
        for n in plan.read:
            operands[n] = replace_instances(operands[n], BlobCore, self._read_tensor)
        # Last, because inputs must be on this side before their memory is written.
        for n, whole in plan.written.items():
            write = partial(self._written_tensor, whole=whole)
            operands[n] = replace_instances(operands[n], BlobCore, write)
        written = [*instances([operands[n] for n in plan.written], torch.Tensor)]
        clear = partial(over.clear_of, others=written)
        for n in {*plan.read} - plan.written.keys() if written else ():
            operands[n] = replace_instances(operands[n], torch.Tensor, clear)
        if isinstance(self._home, CudaBackend):
            self._home.order.join()

    def _read_tensor(self, x: BlobCore) -> torch.Tensor:
        """Return a tensor to read."""
        memory, layout = x.memory, x.layout
        overlapped = any(y.memory is memory and y.layout != layout for y in self._written)
        if not (self._recorded or layout.reversed_axes or overlapped):
            return self._loan(x).tensor
        return self._copy_of(x, late=False)

    def _loan(self, x: BlobCore) -> Loan:
        """Return the loan of a Blob, which it keeps unless a tensor of its memory is written."""
        memory, layout = x.memory, x.layout
        known = self._read.get((id(memory), layout))
        if known is not None:
            return known[1]
        loan, reason = None, self._plan.name
        # Reusing a kept tensor skips the verification.
        keeps = self._plan.keeps and not verifying()
        if keeps and all(y.memory is not memory for y in self._written):
            loan = loan_of(x, self._home, reason)
        if loan is None:
            loan = Loan(*over.tensor_over_memory(memory, layout, self._home, CONST, reason))
        self._read[id(memory), layout] = x, loan
        return loan

    def _copy_of(self, x: BlobCore, *, late: bool) -> torch.Tensor:
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
            tensor = over.empty(layout, self._home.device.torch)
            self._copies[id(memory), layout, True] = x, tensor
            return tensor
        if layout.reversed_axes or self._recorded:
            return self._copy_of(x, late=True)
        known = self._read.pop((id(memory), layout), None)
        if known is not None and known[1].become_alias(x, self._home, name):
            tensor = known[1].tensor
        else:
            tensor = over.alias_over(x, self._home, HOST_DATA, name)
        self._direct.append((x, tensor, over.place_of(tensor)))
        return tensor

    # --- afterwards ------------------------------------------------------------------------------

    def _finish(self, result: Any) -> Any:
        """Write copies back, make aliases of loans that are in use, and return the result."""
        plan, home = self._plan, self._home
        changed = {
            id(tensor): (x, tensor)
            for (_, _, late), (x, tensor) in self._copies.items()
            if late or tensor._version
        }
        for x, tensor in changed.values():
            x.require_writable(plan.name)
            _require_place(plan.name, x, tensor)
        for x, tensor, place in self._direct:
            _require_place(plan.name, x, tensor, place)

        def deliver(tensor: torch.Tensor) -> torch.Tensor:
            x, _ = changed.get(id(tensor), (None, None))
            # A recorded one has a graph.
            if x is None or x.layout.reversed_axes or tensor.requires_grad:
                return tensor
            return over.tensor_over_memory(x.memory, x.layout, home, MUTABLE, plan.name)[0]

        # Within torch.func, it would refuse to write them.
        with torch._C._DisableFuncTorch():
            self._write_back(changed.values())
            result = replace_instances(result, torch.Tensor, deliver)
        if isinstance(home, CudaBackend) and home.order.torch_captures():
            # The graph will write them again, and nobody says when.
            for x in self._written:
                expose(x.memory, x.memory.side_of(home), start=x.layout.start, stop=x.layout.stop)
        lent = [] if self._recorded else [*self._read.values()]
        again = None if plan.written else self._values
        return result if _is_apart(result, lent) else give(result, lent, home, plan, again)

    def _write_back(self, pairs: Iterable[tuple[BlobCore, torch.Tensor]]) -> None:
        """Copy tensors into Blobs."""

        def copy(array: Any, tensor: torch.Tensor) -> Callable[[], Any]:
            return partial(over.tensor_of(self._home, array)[0].copy_, tensor)

        overwrites = []
        for x, tensor in pairs:
            axes = x.layout.reversed_axes
            contents = tensor.detach().flip(axes) if axes else tensor.detach()
            overwrites.append((x.memory, x.layout.forwards(), copy, contents))
        overwrite(overwrites, self._home, self._plan.name)


# --- results --------------------------------------------------------------------------------------


def _explain_resize(error: RuntimeError, name: str, *written: Any) -> None:
    """Raise a ValueError in place of torch's error for a Blob that it cannot resize."""
    shapes = " and ".join(str(x.shape) for x in written if isinstance(x, BlobCore))
    if "not resizable" in str(error) and shapes:
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


def _address_of(result: Any) -> int:
    """Return the address of a tensor; 0 for other objects."""
    try:
        # Zero without elements, and then the storage may still be that of a loan.
        return result.data_ptr() if type(result) is torch.Tensor else 0
    except RuntimeError:
        # Sparse tensors and the wrappers of torch.func have no storage.
        return 0


def _is_apart(result: Any, lent: Sequence[Lent]) -> bool:
    """Return whether a result surely shares no memory with loans, and none of them was written."""
    for part in result if isinstance(result, tuple) else (result,):
        address = _address_of(part)
        for _, loan in lent:
            written = loan.tensor._version != loan.version
            if written or not address or loan.start <= address <= loan.stop:
                return False
    return True


def give(
    result: Any, lent: Sequence[Lent], home: Home, plan: Plan, values: Sequence[Any] | None = None
) -> Any:
    """Make aliases of loans that a function has written or returns; return the result.

    A function that writes nothing is called again, with `values`, if another thread has replaced a
    buffer of which it returns a view.
    """
    aliases: list[Loan] = []
    replaced = False

    def become_alias(x: BlobCore, loan: Loan) -> None:
        nonlocal replaced
        if loan not in aliases:
            aliases.append(loan)
            replaced = not loan.become_alias(x, home, plan.name) or replaced
            plan.views = len(plan.blobs) == 1

    for x, loan in lent:
        if loan.was_written:
            loan.forget(x)
            x.require_writable(plan.name)
            become_alias(x, loan)

    def track(tensor: torch.Tensor) -> torch.Tensor:
        found = [(x, loan) for x, loan in lent if over.lies_in(tensor, loan.tensor)]
        # The loans of a Blob and of its first part have the same address.
        storage = over.storage_of(tensor)[0]
        exact = [pair for pair in found if over.storage_of(pair[1].tensor)[0] == storage]
        writable = [(x, loan) for x, loan in exact or found if not x.readonly]
        for x, loan in writable:
            become_alias(x, loan)
        return over.apart(tensor) if found and not writable else tensor

    result = replace_instances(result, torch.Tensor, track)
    return result if values is None or not replaced else _begin(plan, values)
