"""Aliases, watched exports, `assume_unaliased` and copies of parts ignore other parts."""

import warnings

import numpy as np
import pytest
from fault_states import newest

from syncblob import (
    Blob,
    ConstWriteWarning,
    Head,
    StaleAliasWarning,
    record_transfers,
    verified_const,
)

try:
    import torch
except ImportError:
    torch = None

SHAPE = (4, 6)
ROW = 6 * 4
OTHER = {"cpu": "gpu", "gpu": "cpu"}
HERE = pytest.mark.parametrize("here", ["cpu", "gpu"])

CONSUMERS = {
    "numpy": np.asarray,
    "numpy dlpack": np.from_dlpack,
    "capsule": lambda side: side.__dlpack__(max_version=(1, 0)),
    "memoryview": lambda side: memoryview(np.asarray(side)),
}
if torch is not None:
    CONSUMERS["torch"] = torch.from_dlpack
CONSUMER = pytest.mark.parametrize("consumer", CONSUMERS)


def made(here="cpu"):
    """Make a Blob of four rows that is newest on one side and counts up."""
    blob = Blob(SHAPE, device="simulated")
    getattr(blob, f"mutable_{here}_data")()[...] = np.arange(24).reshape(SHAPE)
    return blob


def values(blob):
    contents = np.frombuffer(newest(blob.memory), np.float32)
    return contents[: blob.size].reshape(blob.shape)


def heads(blob):
    letters = {Head.HEAD_AT_CPU: "H", Head.HEAD_AT_GPU: "G", Head.SYNCED: "B", Head.SPLIT: "-"}
    return "".join(letters[blob[row].head] for row in range(len(blob)))


# --- aliases -------------------------------------------------------------------------------------


@HERE
@CONSUMER
def test_an_alias_of_a_row_makes_that_row_sticky_and_nothing_else(here, consumer):
    blob = made(here)
    alias = CONSUMERS[consumer](getattr(blob[1], here))
    read = getattr(blob, f"{OTHER[here]}_data")
    with record_transfers() as log:
        for _ in range(3):
            read()
    letter = "H" if here == "cpu" else "G"
    assert heads(blob) == f"B{letter}BB"
    assert log.nbytes == blob.nbytes + 2 * ROW
    assert [transfer.offset for transfer in log] == [0, ROW, ROW]
    del alias
    read()
    assert blob.head is Head.SYNCED


@HERE
@CONSUMER
def test_a_write_on_the_other_side_warns_of_aliases_of_what_it_writes(here, consumer):
    blob = made(here)
    alias = CONSUMERS[consumer](getattr(blob[1:3], here))
    there = OTHER[here]
    for row in (0, 3):
        getattr(blob[row], f"mutable_{there}_data")()[...] = -1
        getattr(blob[row], f"overwrite_{there}_data")()[...] = -1
        np.asarray(getattr(blob[row], there))[...] = -1
    for row in (1, 2):
        with pytest.warns(StaleAliasWarning) as caught:
            getattr(blob[row], f"mutable_{there}_data")()
        assert len(caught) == 1
    assert values(blob)[::3].tolist() == [[-1] * 6] * 2
    assert alias is not None


@HERE
def test_a_numpy_alias_loses_its_permission_only_where_it_is_left_behind(here):
    blob = made(here)
    rows = [np.asarray(getattr(blob[row], here)) for row in range(4)]
    with pytest.warns(StaleAliasWarning):
        getattr(blob[1:3], f"mutable_{OTHER[here]}_data")()
    assert [row.flags.writeable for row in rows] == [True, False, False, True]
    rows[0][...] = 5
    assert getattr(blob, f"{OTHER[here]}_data")()[0].tolist() == [5] * 6


@HERE
def test_an_alias_of_a_part_is_good_again_when_that_part_is(here):
    blob = made(here)
    alias = np.from_dlpack(getattr(blob[1:3], here))
    with pytest.warns(StaleAliasWarning):
        getattr(blob[2], f"mutable_{OTHER[here]}_data")()[...] = 9
    # The half that was not written is still valid.
    alias[0] = 8
    assert getattr(blob[1], f"{OTHER[here]}_data")().tolist() == [8] * 6
    assert getattr(blob[2], f"{here}_data")().tolist() == alias[1].tolist() == [9] * 6
    alias[1] = 7
    assert getattr(blob[2], f"{OTHER[here]}_data")().tolist() == [7] * 6


# --- watched exports -----------------------------------------------------------------------------


def write_past_permissions(array):
    address = array.__array_interface__["data"][0]
    np.ctypeslib.ctypes.memset(address, 1, 4)


@HERE
def test_a_borrow_of_a_part_excuses_writes_into_that_part(here):
    for row, accuses in ((0, True), (1, False), (slice(1, 3), False), (slice(2, 4), True)):
        blob = made(here)
        with verified_const(), warnings.catch_warnings(record=True, action="always") as caught:
            borrow = getattr(blob[row], f"mutable_{here}_data")()
            export = np.asarray(getattr(blob[1], here).const)
            write_past_permissions(export)
            getattr(blob[3], f"{here}_data")()
        assert [warning.category for warning in caught] == [ConstWriteWarning] * accuses
        assert borrow.flags.writeable


@HERE
def test_writes_by_right_beside_a_watched_view_accuse_nobody_and_end_nothing(here):
    blob = made(here)
    there = OTHER[here]
    with verified_const():
        export = np.asarray(getattr(blob[1], here).const)
        getattr(blob[0], f"mutable_{here}_data")()[...] = 5
        getattr(blob[2:], f"overwrite_{there}_data")()[...] = 6
        getattr(blob[2:], f"{here}_data")()
        getattr(blob[3], here).overwrite.__dlpack__()
    write_past_permissions(export)
    with pytest.warns(ConstWriteWarning):
        blob.tolist()


@HERE
def test_writes_by_right_into_a_watched_view_accuse_nobody(here):
    there = OTHER[here]
    for access in (
        lambda blob: getattr(blob, f"mutable_{here}_data")().fill(3),
        lambda blob: getattr(blob[1, 2:], f"mutable_{here}_data")().fill(3),
        lambda blob: (
            getattr(blob[1:], f"overwrite_{there}_data")().fill(3),
            getattr(blob[1, 2:], f"{here}_data")(),
        ),
        lambda blob: (blob.resize(1, 6), blob.resize(*SHAPE)),
    ):
        blob = made(here)
        with verified_const():
            export = np.asarray(getattr(blob[1], here).const)
            access(blob)
            blob.cpu_data()
            blob.gpu_data()
            del export


# --- threads -------------------------------------------------------------------------------------


def test_what_an_alias_touches_is_held_by_both_sides_after_a_copy(simulated):
    """The alias ends where the copied part begins."""
    blob = Blob(8, "uint8", device="simulated")
    blob.mutable_gpu_data()
    alias = np.from_dlpack(blob[:4].cpu)
    blob.cpu_data()
    simulated.reset_counts()
    blob[4:].gpu_data()
    assert simulated.uploads == 0
    del alias
