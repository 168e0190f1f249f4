"""What adoption and the end of exposure make of living aliases."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from syncblob import Head, StaleAliasWarning, record_transfers
from syncblob._shape import Layout
from syncblob.devices import Side
from syncblob.memory import Access, SyncedMemory

COUNT = 4
WHOLE = Layout.raw(COUNT)
READS = {Side.HOST: "cpu_data", Side.ACCELERATOR: "gpu_data"}


def at(side: Side, value: int = 1) -> SyncedMemory:
    memory = SyncedMemory(COUNT, device="simulated")
    getattr(memory, f"overwrite_{READS[side]}")()[:] = value
    return memory


def exported(memory: SyncedMemory, side: Side, kind: str = "NumPy") -> Any:
    return memory.export(side, Access.MUTABLE, WHOLE, "test", kind)


def adopt(memory: SyncedMemory, side: Side, value: int) -> Any:
    array = np.full(COUNT, value, np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleAliasWarning)
        (memory.set_cpu_data if side is Side.HOST else memory.set_gpu_data)(array)
    return array


@pytest.mark.parametrize("side", Side)
def test_an_alias_of_a_buffer_that_was_replaced_is_of_no_concern_any_more(side: Side) -> None:
    memory = at(side)
    alias = exported(memory, side)
    array = adopt(memory, side, 5)
    assert not alias.flags.writeable
    assert not memory.aliased
    getattr(memory, READS[side.other])()
    assert memory.head is Head.SYNCED
    fresh = exported(memory, side)
    fresh[0] = 6
    assert array[0] == 6
    assert alias[0] == 1


@pytest.mark.parametrize("side", Side)
def test_borrows_of_a_buffer_that_was_replaced_are_not_counted(side: Side) -> None:
    memory = at(side)
    borrow = getattr(memory, f"mutable_{READS[side]}")()
    adopt(memory, side, 5)
    assert not borrow.flags.writeable
    assert len(memory.loans(side).borrows) == 0


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("exposed", Side)
def test_adoption_ends_the_exposure_of_both_sides(side: Side, exposed: Side) -> None:
    memory = at(side)
    memory.expose(exposed)
    adopt(memory, side, 5)
    assert not memory.aliased
    with record_transfers() as log:
        for _ in range(2):
            getattr(memory, READS[side.other])()
    assert len(log) == 1


@pytest.mark.parametrize("side", Side)
def test_an_alias_of_the_other_side_is_still_tracked_after_an_adoption(side: Side) -> None:
    memory = at(side.other)
    alias = exported(memory, side.other)
    adopt(memory, side, 5)
    assert not alias.flags.writeable
    assert memory.aliased
    assert getattr(memory, READS[side.other])().tolist() == alias.tolist() == [5] * COUNT


@pytest.mark.parametrize("side", Side)
def test_a_side_that_is_written_ends_the_exposure_of_the_other(side: Side) -> None:
    for write in ("mutable", "overwrite"):
        memory = at(side.other)
        memory.expose(side.other)
        getattr(memory, f"{write}_{READS[side]}")()
        assert not memory.aliased
