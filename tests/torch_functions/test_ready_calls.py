"""Calls for which everything lies ready on the host: how little they call, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import syncblob
from benchmarks.calls import calls_made
from syncblob import Blob

torch = pytest.importorskip("torch")
F = torch.nn.functional

FOLDER = str(Path(syncblob.__file__).parent)


def ready(device="cpu", shape=(8, 8)):
    """Make a Blob that torch has read on the host, and written there."""
    blob = Blob(shape, device=device)
    blob[...] = 1
    for _ in range(2):
        torch.relu_(blob)
        torch.clone(blob)
    return blob


T = torch.ones(8, 8)
MASK = T > 0
CALLS = {
    "add": torch.add,
    "a number": lambda a, _: torch.add(a, 1),
    "out=": lambda a, b: torch.add(a, a, out=b),
    "out= of an operand": lambda a, b: torch.add(a, b, out=b),
    "in place": lambda a, _: torch.relu_(a),
    "into a tensor": lambda a, _: T.clone().copy_(a),
    "linear": lambda a, _: F.linear(a, T, T[0]),
    "relu": lambda a, _: F.relu(a),
    "softmax": lambda a, _: F.softmax(a, dim=0),
    "cat": lambda a, b: torch.cat([a, b]),
    "stack": lambda a, b: torch.stack((a, T, b)),
    "where": lambda a, b: torch.where(MASK, a, b),
    "sum": lambda a, _: torch.sum(a, dim=0),
    "max": lambda a, _: torch.max(a, dim=0),
    "zeros_like": lambda a, _: torch.zeros_like(a),
    "tensor + blob": lambda a, _: T + a,
}


def functions_called(call):
    return [name for file, name in calls_made(call) if file.startswith(FOLDER)]


@pytest.fixture(autouse=True)
def _without_compiler(monkeypatch):
    # Once it is loaded, it is kept from tracing each call, by functions of its own.
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_calls_few_functions(call, device):
    a, b = ready(device), ready(device)
    for _ in range(2):
        call(a, b)
    names = functions_called(lambda: call(a, b))
    assert len(names) <= 6, names


def test_a_tensor_over_a_blob_calls_few_functions():
    blob = ready()
    functions_called(blob.to_torch)
    assert len(functions_called(blob.to_torch)) <= 6


def test_a_view_that_no_schema_declares_is_known():
    blob = ready()
    view = F.dropout(blob, 0.25, training=False)
    assert blob.memory.aliased
    view.fill_(3)
    assert blob.tolist() == [[3] * 8] * 8
    apart = F.dropout(blob, 0.25, training=True)
    del view
    assert not blob.memory.aliased
    apart.fill_(4)
    assert blob.tolist() == [[3] * 8] * 8


REFUSED = {
    "an out of fewer elements": (lambda b: torch.add(T[:4], 1, out=b), "gives shape"),
    "an out of more elements": (
        lambda b: torch.add(torch.ones(9, 9), 1, out=b),
        r"more elements|gives shape \(9, 9\)",
    ),
    "transposed": (torch.ops.aten.t_, "storage or strides"),
    "other strides": (
        lambda b: torch.ops.aten.as_strided_(b, [8, 8], [1, 8]),
        "storage or strides",
    ),
    "another shape": (lambda b: torch.ops.aten.resize_(b, [1, 2]), "gives shape"),
    "another storage": (
        lambda b: torch.ops.aten.set_.source_Tensor(b, torch.zeros(8, 8)),
        "storage or strides",
    ),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(("call", "match"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_a_blob_cannot_follow_is_refused(call, match, elsewhere):
    blob = ready("simulated")
    if elsewhere:
        blob.mutable_gpu_data()
    with pytest.raises(ValueError, match=match):
        call(blob)
    assert blob.shape == (8, 8)
    assert not blob.memory.aliased
    assert torch.clone(blob).shape == (8, 8)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_operands_that_overlap_are_kept_apart(device):
    blob = ready(device, shape=(100,))
    blob[...] = np.arange(100)
    low, high, tensor = blob[:-1], blob[1:], blob.cpu_data()
    for _ in range(2):
        torch.relu_(low), torch.relu_(high)
    torch.add(low, 1, out=high)
    assert blob.tolist() == [0, *range(1, 100)]
    # A tensor over the same elements, read and written.
    alias = blob.on("cpu").to_torch()
    torch.add(alias[:-1], 1, out=high)
    assert blob.tolist() == [0, *range(1, 100)]
    alias[1:] = low
    assert blob.tolist() == [0, *range(99)]
    del tensor
