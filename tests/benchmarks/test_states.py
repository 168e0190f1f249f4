"""The benchmark of states: the Blobs are in them."""

import warnings

import pytest
from call_texts import texts

from benchmarks import states
from benchmarks.timing import Timer
from syncblob import Head, StaleAliasWarning
from syncblob.devices import Side

torch = pytest.importorskip("torch")

# The head of the part that the calls use, that of all bytes, and the number of buffers.
OWN, OTHER = "own side", "other side"
EXPECTED = {
    state: expected
    for expected, states_of in {
        (OWN, OWN, 1): "one buffer; view of one buffer",
        (OWN, OWN, 2): """
            own side newest; view of own side newest; alias; alias of other rows; borrow kept;
            exposed; log open; max_transfers; compute_only_on; of a source
            """,
        (OTHER, OTHER, 2): "other side newest; view of other side newest",
        ("both", "both", 2): "SYNCED; view of SYNCED; after a push",
        ("cpu", "cpu", 1): "after an eviction",
        # Of the accelerator's side, a buffer is there, and not one of everything.
        (OWN, "split", 1): "window",
        (OWN, "split", 2): """
            split, rows on own side; other side: alias of other rows; of a source, in part
            """,
    }.items()
    for state in texts(states_of.strip())
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
