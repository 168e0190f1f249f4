"""PyTorch functions called with Blobs.

Nearly always, everything lies ready on the host, or is only read on a CUDA device. So each plan
composes the texts of functions that make such calls, by loans of what is read, and aliases of what
is written. All other calls are a `Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.utils._python_dispatch as _modes

from syncblob._source_lines import user_instruction
from syncblob.blob.core import GPU_DATA, HOST_DATA, BlobCore
from syncblob.calls.nested import NESTED
from syncblob.calls.texts import arguments, compiler
from syncblob.calls.torch import tensors as over
from syncblob.calls.torch.devices import device_of_tensors
from syncblob.calls.torch.make_call import (
    ADVICE,
    Call,
    Lent,
    explain_resize,
    give,
    require_place,
    transformation,
)
from syncblob.calls.torch.plans import Plan, is_kind, plan_call, plan_with_flags
from syncblob.calls.torch.tensors import host_alias, host_loan
from syncblob.calls.torch.tracing import untraced
from syncblob.devices import HOST, supervisors, timed_computations
from syncblob.memory import attempt, has_written
from syncblob.memory.operations import running
from syncblob.transfers import require_device
from syncblob.transfers.verify import verifying

_CPU = torch.device("cpu")


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a torch function with Blobs, or nested sequences of them, in place of tensors.

    Tensors in the result that lie over a Blob's memory are aliases, or copies if it is const.
    """
    values, names = ((*args, *kwargs.values()), (*kwargs,)) if kwargs else (args, ())
    plan = plan_call(function, names, *map(type, values))
    if plan.flags:
        plan = plan_with_flags(plan, values)
    return (plan.run or _prepare(plan))(*values)


call_untraced: Callable[..., Any] = untraced(call)


# --- calls for which everything lies ready --------------------------------------------------------

# Argument n is x{n}, and its tensor t{n}. What cannot go on leaves the call to `begin`.
_START = """
def run({given}):
    if (supervisors and not may_run_on_host({given})) or modes._is_in_torch_dispatch_mode:
        return begin({given})
"""
_ELSEWHERE = """
    if x{n}.home.queues:
        return run_queued({given})
"""
_START_QUEUED = """
def run({given}):
    home = x{n}.home
    stream = None if plan.views or supervisors else home.order.plain()
    if stream is None:
        return begin({given})
"""
_READ_QUEUED = """
    kept = x{n}.accessor_arrays[GPU_DATA]
    loan{n} = kept.tensor if kept is not None and kept.shortcut.readable else None
    if loan{n} is None or x{n}.home is not home or loan{n}.tensor._version != loan{n}.version:
        return begin({given})
    t{n} = loan{n}.tensor
"""
_CALL_QUEUED = """
    try:
        result = function({call})
    except OutOfMemoryError:
        return begin({given})
    finally:
        home.order.note([{owners}], None, stream)
"""
# A loan would become an alias, and the next call would need a new one.
_VIEW = """
    if plan.views and x{n}.home.native:
        t{n} = host_alias(x{n}, HOST_DATA, user_instruction(3))
        if t{n} is not None:
            return function({call})
"""
_NUMBERS = """
    for item in x{n}:
        if type(item) is not int:
            return begin({given})
"""
_RECORD = """
    recording, recorded = is_grad_enabled(), False
    if {asks} and transformation() is not None:
        return begin({given})
"""
_WRITTEN = """
    t{n} = host_alias(x{n}, HOST_DATA, user_instruction(3)) if x{n}.home.native else None
    if t{n} is None:
        return begin({given})
    layout, start{n}, strides{n} = x{n}.known_layout, t{n}.data_ptr(), t{n}.stride()
    stop{n} = start{n} + layout.stop - layout.start
    shape{n} = layout.shape
"""
_WHOLE = """
    if not (layout.contiguous and layout.size):
        return begin({given})
"""
_WRITTEN_TENSOR = """
    if x{n}.is_cuda or (recording and x{n}.requires_grad):
        return begin({given})
    t{n}, (start{n}, stop{n}) = x{n}, storage_range(x{n})
"""
_SHAPE = """
    t{n} = shape_of(x{n})
    if t{n} is None:
        return begin({given})
"""
_TENSOR = """
    t{n} = x{n}
    if t{n}.is_cuda:
        return begin({given})
    if recording and t{n}.requires_grad:
        recorded = True
"""
_ITEMS = """
    lent{n} = []
    t{n} = lend_items(x{n}, name, lent{n}, recording=recording, writes={writes})
    if t{n} is None:
        return begin({given})
"""
_READ = """
    kept = x{n}.accessor_arrays[HOST_DATA]
    loan{n} = kept.tensor if kept is not None and kept.shortcut.readable else None
    if loan{n} is None or loan{n}.tensor._version != loan{n}.version:
        loan{n} = host_loan(x{n}, name)
        if loan{n} is None:
            return begin({given})
    t{n} = loan{n}.tensor
"""
# Autograd does not see writes to Blobs.
_APART = """
    if recorded:
        t{n} = t{n}.clone()
"""
_NOT_RECORDED = """
    if recorded:
        return begin({given})
"""
# An operand that is written, too, is one tensor. Others must not overlap it.
_OVERLAP = """
    if loan{n}.start < stop{m} and start{m} < loan{n}.stop:
        if x{n} is not x{m}:
            return begin({given})
        t{n}, loan{n} = t{m}, SAME
"""
_OVERLAP_TENSOR = """
    if t{n} is not t{m} and overlaps(t{n}, start{m}, stop{m}):
        return begin({given})
"""
_OVERLAP_ITEMS = """
    for _, loan in lent{n}:
        if loan.start < stop{m} and start{m} < loan.stop:
            return begin({given})
"""
_CALL = """
    result = function({call})
"""
_WRITE = """
    if running:
        has_written()
    try:
        result = function({call})
    except RuntimeError as error:
        explain_resize(error, name, ({written}))
        raise
"""
_STAYED = """
    if t{n}.shape != shape{n}:
        require_place(name, x{n}, t{n})
"""
_STAYED_IN_PLACE = """
    if t{n}.shape != shape{n} or t{n}.stride() != strides{n} or t{n}.data_ptr() != start{n}:
        require_place(name, x{n}, t{n}, (start{n}, strides{n}, False, False))
"""
# Zero without elements, and then the storage may still be that of a loan. Sparse tensors and the
# wrappers of torch.func have no storage.
_RESULT = """
    for tensor in result if isinstance(result, tuple) else (result,):
        try:
            address = tensor.data_ptr() if type(tensor) is Tensor else 0
        except RuntimeError:
            address = 0
        if not address{touched}:
            return give(result, {lent}, HOST, plan)
"""
_RESULT_OF_ITEMS = """
        for _, loan in lent{n}:
            if loan.start <= address <= loan.stop or loan.tensor._version != loan.version:
                return give(result, {lent}, HOST, plan)
"""
_END = """
    return result
"""

# Stands for the loan of an operand that is written, too.
_SAME = SimpleNamespace(start=1, stop=0, tensor=SimpleNamespace(_version=0), version=0)


def _prepare(plan: Plan) -> Callable[..., Any]:
    """Return the function that makes the calls of a plan, and keep it."""

    def begin(*values: Any) -> Any:
        there = Call(plan, values)
        if plan.written:
            # It pins what it writes.
            return attempt(there.run, *plan.found_in(values, BlobCore))
        return there.run()

    plan.run = begin
    if plan.short:
        values = {
            "plan": plan,
            "name": plan.name,
            "function": plan.function,
            "begin": begin,
            "may_run_on_host": partial(_may_run_on_host, plan),
        }
        if plan.plain and plan.read:
            values["run_queued"] = _run_of(_text(plan, queued=True), values)
        plan.run = _run_of(_text(plan), values)
    return plan.run


def _text(plan: Plan, *, queued: bool = False) -> str:
    """Compose the text of a call on the host, or of one that only reads on a CUDA device."""
    blobs = [n for n in plan.written if is_kind(plan.kinds[n], BlobCore)]
    tensors = [n for n in plan.written if is_kind(plan.kinds[n], torch.Tensor)]
    nested = [n for n in plan.nested if n not in plan.numbers]
    own = {*plan.read, *plan.shape_only, *plan.tensors, *nested, *blobs, *tensors}
    passed = [f"t{n}" if n in own else f"x{n}" for n in range(len(plan.kinds))]
    lent = [f"(x{n}, loan{n}), " for n in plan.read] + [f"*lent{n}, " for n in nested]
    words = {
        "given": ", ".join(f"x{n}" for n in range(len(passed))),
        "call": arguments(passed, plan.names),
        "asks": True if plan.written else "recording",
        "writes": bool(plan.written),
        "written": "".join(f"x{n}, " for n in blobs),
        "lent": f"[pair for pair in ({''.join(lent)}) if pair[1] is not SAME]",
        "touched": "".join(
            f" or loan{n}.start <= address <= loan{n}.stop"
            f" or loan{n}.tensor._version != loan{n}.version"
            for n in plan.read
        ),
        "owners": "".join(f"loan{n}.owner, " for n in plan.read),
        "home": "home" if queued else "HOST",
    }
    if queued:
        steps = [(_START_QUEUED, plan.read[0], 0), *((_NUMBERS, n, 0) for n in plan.numbers)]
        steps += [*((_READ_QUEUED, n, 0) for n in plan.read), (_CALL_QUEUED, 0, 0)]
    else:
        steps = _steps(plan, blobs, tensors, nested)
    if lent:
        steps += [(_RESULT, 0, 0), *((_RESULT_OF_ITEMS, n, 0) for n in nested)]
    steps.append((_END, 0, 0))
    return "".join(step.format(n=n, m=m, **words) for step, n, m in steps)


def _steps(
    plan: Plan, blobs: Sequence[int], tensors: Sequence[int], nested: Sequence[int]
) -> list[tuple[str, int, int]]:
    """Return the steps of a call on the host, given what is written, and the collections."""
    steps = [(_START, 0, 0), *((_NUMBERS, n, 0) for n in plan.numbers)]
    if plan.plain and plan.read:
        steps.append((_ELSEWHERE, plan.read[0], 0))
    steps += [*((_VIEW, n, 0) for n in plan.read if plan.lone)]
    if not plan.plain:
        steps.append((_RECORD, 0, 0))
    for n in blobs:
        steps += [(_WRITTEN, n, 0), *([(_WHOLE, n, 0)] if plan.written[n] else [])]
    for kind, places in (
        (_WRITTEN_TENSOR, tensors),
        (_SHAPE, plan.shape_only),
        (_TENSOR, plan.tensors),
        (_ITEMS, nested),
        (_READ, plan.read),
    ):
        steps += [(kind, n, 0) for n in places]
    if plan.written and not plan.plain:
        steps.append((_NOT_RECORDED, 0, 0))
    elif not plan.plain:
        steps += [(_APART, n, 0) for n in plan.read]
    for m in [*blobs, *tensors]:
        for kind, places in (
            (_OVERLAP, plan.read),
            (_OVERLAP_TENSOR, plan.tensors),
            (_OVERLAP_ITEMS, nested),
        ):
            steps += [(kind, n, m) for n in places]
    steps.append((_WRITE if plan.written else _CALL, 0, 0))
    for n in blobs:
        steps.append((_STAYED if plan.written[n] else _STAYED_IN_PLACE, n, 0))
    return steps


def _may_run_on_host(plan: Plan, *values: Any) -> bool:
    """Return whether a call can use what lies ready on the host, although guards are active."""
    tensors = plan.found_in(values, torch.Tensor)
    _, home = device_of_tensors(tensors, [x.device for x in plan.found_in(values, BlobCore)])
    if plan.computes:
        require_device(home.device, plan.name, ADVICE)
    return home is HOST and not (verifying() or timed_computations.watchers)


def _shape_of(x: Any) -> torch.Tensor | None:
    """Return a tensor of the shape of a Blob, whose elements must not be read; None on CUDA."""
    if not x.home.native:
        return None
    kept = x.accessor_arrays[HOST_DATA]
    known = kept is not None and kept.shortcut.readable and kept.tensor is not None
    tensor: torch.Tensor = kept.tensor.tensor if known else over.empty(x.layout, _CPU)
    return tensor


def _lend_items(items: Any, name: str, lent: list[Lent], *, recording: bool, writes: bool) -> Any:
    """Return a list or tuple with tensors in place of Blobs; None if the call has to begin."""
    tensors: list[Any] = []
    if type(items) is not list and type(items) is not tuple:
        return None
    for x in items:
        tensor = x
        if isinstance(x, BlobCore):
            kept = x.accessor_arrays[HOST_DATA]
            loan = kept.tensor if kept is not None and kept.shortcut.readable else None
            if loan is None or loan.tensor._version != loan.version:
                loan = host_loan(x, name)
                if loan is None:
                    return None
            lent.append((x, loan))
            tensor = loan.tensor
        elif isinstance(x, torch.Tensor):
            if writes or x.is_cuda or (recording and x.requires_grad):
                return None
        elif isinstance(x, NESTED):
            return None
        tensors.append(tensor)
    return tensors if type(items) is list else tuple(tensors)


def _overlaps(x: torch.Tensor, start: int, stop: int) -> bool:
    """Return whether the storage of a tensor has addresses of a range."""
    own_start, own_stop = over.storage_range(x)
    return own_start < stop and start < own_stop


# What the steps use.
_NAMES: dict[str, Any] = {
    "__name__": __name__,
    "HOST": HOST,
    "HOST_DATA": HOST_DATA,
    "supervisors": supervisors,
    "GPU_DATA": GPU_DATA,
    "OutOfMemoryError": torch.OutOfMemoryError,
    "SAME": _SAME,
    "Tensor": torch.Tensor,
    "running": running,
    "modes": _modes,
    "is_grad_enabled": torch.is_grad_enabled,
    "transformation": transformation,
    "user_instruction": user_instruction,
    "host_alias": host_alias,
    "host_loan": host_loan,
    "storage_range": over.storage_range,
    "shape_of": _shape_of,
    "lend_items": _lend_items,
    "overlaps": _overlaps,
    "has_written": has_written,
    "explain_resize": explain_resize,
    "require_place": require_place,
    "give": give,
}
_run_of = compiler(__file__, _NAMES)
