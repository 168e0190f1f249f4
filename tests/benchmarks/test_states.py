"""The benchmark of states: the Blobs are in them."""

import warnings

import pytest

from benchmarks import states
from benchmarks.timing import Timer
from syncblob import Head, StaleAliasWarning
from syncblob.devices import Side

torch = pytest.importorskip("torch")

# The head of the part that the calls use, that of all bytes, and the number of buffers.
OWN, OTHER = "own side", "other side"
EXPECTED = {
    "one buffer": (OWN, OWN, 1),
    "SYNCED": ("both", "both", 2),
    "own side newest": (OWN, OWN, 2),
    "other side newest": (OTHER, OTHER, 2),
    "view of one buffer": (OWN, OWN, 1),
    "view of SYNCED": ("both", "both", 2),
    "view of own side newest": (OWN, OWN, 2),
    "view of other side newest": (OTHER, OTHER, 2),
    "split, rows on own side": (OWN, "split", 2),
    "alias": (OWN, OWN, 2),
    "alias of other rows": (OWN, OWN, 2),
    "other side: alias of other rows": (OWN, "split", 2),
    "borrow kept": (OWN, OWN, 2),
    "exposed": (OWN, OWN, 2),
    "log open": (OWN, OWN, 2),
    "max_transfers": (OWN, OWN, 2),
    "compute_only_on": (OWN, OWN, 2),
    "after a push": ("both", "both", 2),
    "after an eviction": ("cpu", "cpu", 1),
    # Of the accelerator's side, a buffer is there, and not one of everything.
    "window": (OWN, "split", 1),
    "of a source": (OWN, OWN, 2),
    "of a source, in part": (OWN, "split", 2),
}
by_state = pytest.mark.parametrize("state", states.STATES, ids=lambda state: state.name)
by_device = pytest.mark.parametrize("device", states.DEVICES)


@by_device
@by_state
def test_a_blob_is_in_the_state_also_when_it_is_established_again(state, device):
    heads = {"both": Head.SYNCED, "split": Head.SPLIT, "cpu": Head.HEAD_AT_CPU}
    heads |= dict(zip((OWN, OTHER), (Head.HEAD_AT_CPU, Head.HEAD_AT_GPU), strict=True))
    if device != "cpu":
        heads[OWN], heads[OTHER] = heads[OTHER], heads[OWN]
    part, whole, buffers = EXPECTED[state.name]
    operands = states.Operands(state, device)
    for _ in range(2):
        for blob in operands.arguments[:2]:
            memory = blob.memory
            assert blob.shape == (8, 8)
            assert str(blob.device) == device
            assert blob.head is heads[part]
            assert memory.head is heads[whole]
            assert sum(memory.buffer(side) is not None for side in Side) == buffers
        with warnings.catch_warnings():
            # These writes leave aliases behind.
            warnings.simplefilter("ignore", StaleAliasWarning)
            operands.arguments[0].mutable_gpu_data()
            operands.arguments[1].mutable_cpu_data()
        operands.establish()


@pytest.mark.long
def test_each_call_is_measured_in_the_states_that_it_keeps():
    measured = states.measure(Timer(brief=True))
    for device, (side, _) in states.DEVICES.items():
        rows = [row for row in measured.rows if row.section.startswith(device)]
        found = {(row.ours, row.cell.column) for row in rows}
        assert {call for call, _ in found} >= {*states.calls(side, torch), "median", "worst"}
        assert {state for _, state in found} == {*EXPECTED}
        assert ("a + b", "own side newest") in found
        assert not {("a + b", "other side newest"), ("a += b", "SYNCED")} & found
