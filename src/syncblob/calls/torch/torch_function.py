"""PyTorch functions called with Blobs.

Nearly always, everything lies ready on the host, or is only read on a CUDA device. Such calls are
made here, with loans of what is read, and an alias of what is written. All others are a `Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.utils._python_dispatch as _modes

from syncblob._source_lines import user_instruction
from syncblob.blob.core import GPU_DATA, HOST_DATA, BlobCore
from syncblob.calls.engine import Cache, plans_by_function
from syncblob.calls.nested import NESTED, instances
from syncblob.calls.torch.make_call import (
    ADVICE,
    Call,
    Lent,
    explain_resize,
    give,
    require_place,
    transformation,
)
from syncblob.calls.torch.plans import Plan, Rule, plan_of, rule_of
from syncblob.calls.torch.tensors import (
    device_of_tensors,
    empty,
    host_alias,
    loan_of,
    overlaps,
    storage_of,
    untraced,
)
from syncblob.devices import HOST, supervisors, timed_computations
from syncblob.memory import attempt, has_written
from syncblob.memory.operations import running
from syncblob.transfers import require_device
from syncblob.transfers.verify import verifying

_CPU = torch.device("cpu")

_PLAIN: tuple[Any, ...] = (list, tuple)


@untraced
def call_untraced(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a torch function with Blobs where the compiler is loaded, and must not trace it."""
    # The types are those for which torch calls it.
    return BlobCore.class_of_results.__torch_function__(function, (), args, kwargs)


def _make(rule: Rule, kinds: Mapping[int | str, Any]) -> Callable[[Sequence[Any]], Any]:
    """Return the function that makes calls, given the arguments; those by keyword come last."""
    plan = plan_of(rule, kinds)
    if plan.flags:
        # Their truth says what a call writes.
        keys = [[*kinds][n] for n in plan.flags]
        made = Cache(lambda truths: _make(rule, {**kinds, **dict(zip(keys, truths, strict=True))}))
        return lambda values: made[tuple([bool(values[n]) for n in plan.flags])](values)
    run = _begin
    if plan.short:
        run = _read if plan.target is None else _write
    return partial(run, plan)


# What makes the calls of a function, by the types of the arguments.
functions: Cache = plans_by_function(lambda function: rule_of(function)._replace(plan=_make))


def _begin(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call by inspecting its arguments."""
    there = Call(plan, values)
    if plan.written:
        # It pins what it writes.
        return attempt(there.run, *instances(values, BlobCore))
    return there.run()


# --- calls for which everything lies ready --------------------------------------------------------


def _read(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call that writes nothing, on the host."""
    special = supervisors or _modes._is_in_torch_dispatch_mode
    if special and not _may_run_on_host(plan, values):
        return _begin(plan, values)
    operands = [*values]
    lent: list[Lent] = []
    for n in plan.shape_only:
        if not values[n].home.native:
            return _begin(plan, values)
        operands[n] = empty(values[n].layout, _CPU)
    if plan.views and values[plan.blobs[0]].home.native:
        # A loan would become an alias, and the next call would need a new one.
        alias = host_alias(values[plan.blobs[0]], HOST_DATA, user_instruction(3))
        if alias is not None and _lend(plan, operands, plan.others, lent) and not lent:
            operands[plan.blobs[0]] = alias
            return plan.compute(*operands)
    rest = plan.others
    for n in plan.blobs:
        x = operands[n]
        # As in `_lend`, without a call.
        kept = x.accessor_arrays[HOST_DATA]
        loan = kept.tensor if kept is not None and kept.shortcut.readable else None
        if loan is None or loan.tensor._version != loan.version:
            rest = [*rest, n]
        else:
            operands[n] = loan.tensor
            lent.append((x, loan))
    if rest and not _lend(plan, operands, rest, lent):
        return _record(plan, values) if plan.others else _read_queued(plan, values)
    result = plan.compute(*operands)
    return result if not lent or _is_apart(result, lent) else give(result, lent, HOST, plan)


def _record(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call that autograd may record, with copies: it does not see writes to Blobs."""
    operands = [*values]
    tensors = [*instances([values[n] for n in plan.others], torch.Tensor)]
    here = tensors and transformation() is None and not any(x.is_cuda for x in tensors)
    if not (here and plan.blobs and _lend(plan, operands, plan.blobs, [])):
        return _read_queued(plan, values)
    for n in plan.blobs:
        operands[n] = operands[n].clone()
    return plan.compute(*operands)


def _read_queued(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call that writes nothing, with the tensors that Blobs keep on a CUDA device."""
    operands = [*values]
    lent: list[Lent] = []
    if supervisors or plan.shape_only or not _lend(plan, operands, plan.read, lent, place=GPU_DATA):
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
    return result if _is_apart(result, lent) else give(result, lent, home, plan)


def _write(plan: Plan, values: Sequence[Any]) -> Any:
    """Make a call that writes one Blob or tensor, on the host."""
    special = supervisors or _modes._is_in_torch_dispatch_mode
    if transformation() is not None or (special and not _may_run_on_host(plan, values)):
        return _begin(plan, values)
    n: Any = plan.target
    x, whole = values[n], plan.written[n]
    layout: Any = None
    strides = None
    if not isinstance(x, BlobCore):
        tensor, (_, start, stop) = x, storage_of(x)
    else:
        layout = x.known_layout
        # Every other output gets its contents when the function has succeeded.
        ready = layout is not None and (not whole or (layout.contiguous and layout.size))
        ready = ready and x.home.native
        tensor = host_alias(x, HOST_DATA, user_instruction(3)) if ready else None
        if tensor is None:
            return _begin(plan, values)
        start = tensor.data_ptr()
        stop = start + layout.stop - layout.start
        strides = None if whole else tensor.stride()
    operands = [*values]
    operands[n] = tensor
    lent: list[Lent] = []
    target = x, tensor, start, stop
    if plan.read and not _lend(plan, operands, plan.read, lent, target):
        return _begin(plan, values)
    if running:
        has_written()
    try:
        result = plan.compute(*operands)
    except RuntimeError as error:
        explain_resize(error, plan.name, () if tensor is x else (x,))
        raise
    if layout is not None and not (
        tensor.shape == layout.shape
        and (whole or (tensor.stride() == strides and tensor.data_ptr() == start))
    ):
        require_place(plan.name, x, tensor, None if whole else (start, strides, False, False))
    if result is tensor or not lent or _is_apart(result, lent):
        return result
    return give(result, lent, HOST, plan)


def _lend(
    plan: Plan,
    items: list[Any],
    places: Iterable[int],
    lent: list[Lent],
    target: tuple[Any, Any, int, int] = (None, None, 0, 0),
    place: int = HOST_DATA,
) -> bool:
    """Put tensors that lie ready in the places of Blobs; return whether all do.

    `target` is what the call writes, the tensor in its place, and the addresses of that. `place` is
    that of the arrays with which Blobs keep the tensors.
    """
    y, written, start, stop = target
    for n in places:
        x = items[n]
        if isinstance(x, BlobCore):
            kept = x.accessor_arrays[place]
            loan = kept.tensor if kept is not None and kept.shortcut.readable else None
            if loan is None or loan.tensor._version != loan.version:
                loan = None if place else loan_of(x, HOST, plan.name)
                if loan is None:
                    return False
            if not (loan.start < stop and start < loan.stop):
                items[n] = loan.tensor
                lent.append((x, loan))
            elif x is y:
                # An operand that is written, too, is one tensor.
                items[n] = written
            else:
                return False
        elif isinstance(x, NESTED) and {*map(type, x)} != {int}:
            inner, kind = [*x], type(x)
            if kind not in _PLAIN or not _lend(plan, inner, range(len(x)), lent, target, place):
                return False
            items[n] = kind(inner)
        elif isinstance(x, torch.Tensor) and (
            place
            or x.is_cuda
            or transformation() is not None
            or (x.requires_grad and torch.is_grad_enabled())
            or (stop and x is not written and overlaps(x, start, stop))
        ):
            return False
    return True


def _is_apart(result: Any, lent: Sequence[Lent]) -> bool:
    """Return whether a result surely shares no memory with loans, and none of them was written."""
    for tensor in result if isinstance(result, tuple) else (result,):
        try:
            # Zero without elements, and then the storage may still be that of a loan.
            address = tensor.data_ptr() if type(tensor) is torch.Tensor else 0
        except RuntimeError:
            # Sparse tensors and the wrappers of torch.func have no storage.
            address = 0
        if not address:
            return not lent
        for _, loan in lent:
            if loan.start <= address <= loan.stop or loan.tensor._version != loan.version:
                return False
    return True


def _may_run_on_host(plan: Plan, values: Sequence[Any]) -> bool:
    """Return whether a call can use what lies ready on the host, although guards are active."""
    if _modes._is_in_torch_dispatch_mode:
        return False
    tensors = [*instances(values, torch.Tensor)]
    _, home = device_of_tensors(tensors, [x.device for x in instances(values, BlobCore)])
    if plan.computes:
        require_device(home.device, plan.name, ADVICE)
    return home is HOST and not (verifying() or timed_computations.watchers)
