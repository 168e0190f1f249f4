"""Memories that are given up, and memories that a fork made unusable."""

import numpy as np
import pytest
from in_threads import in_threads
from made_blobs import filled, memory_on

from syncblob import StaleAliasWarning, simulated
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.changes import leave
from syncblob.memory.loans import announcing

NBYTES = 8
LOST = "another thread was using this memory when the process forked"


def give_all_up(memories, give_up):
    first, *others = memories
    announcing(first, "a test", leave, others, give_up)


def test_nothing_comes_between_while_memories_are_given_up():
    memories = [memory_on(Side.HOST) for _ in range(3)]
    shortcuts = [memory.shortcut(Side.HOST, Layout.raw(NBYTES)) for memory in memories]
    assert all(shortcut.writable for shortcut in shortcuts)
    given_up = []

    def give_up():
        assert not any(shortcut.readable for shortcut in shortcuts)
        for memory in memories:
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                memory.mutable_cpu_data()
        given_up.append(True)

    give_all_up(memories, give_up)
    assert given_up == [True]
    for memory in memories:
        assert memory.mutable_cpu_data().tolist() == [1] * NBYTES


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("place", [0, NBYTES - 1])
def test_what_was_lent_on_either_side_can_write_no_longer(side, place):
    memories = [memory_on(side) for _ in range(2)]
    layout = Layout.raw(1, place)
    borrow = memories[0].lend(side, Access.MUTABLE, layout, "use")
    alias = memories[1].export(side, Access.MUTABLE, layout, "use", "NumPy")
    with pytest.warns(StaleAliasWarning, match="^a test makes aliases stale: a NumPy"):
        give_all_up(memories, lambda: None)
    assert not borrow.flags.writeable
    assert not alias.flags.writeable


@pytest.mark.parametrize("interrupted", range(2))
def test_a_memory_in_the_midst_of_a_transfer_is_not_given_up(interrupted, monkeypatch):
    memories, device = [memory_on(Side.HOST) for _ in range(2)], simulated()
    borrow, upload = memories[0].mutable_cpu_data(), device.upload

    def handler(*arrays):
        upload(*arrays)
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            give_all_up(memories, pytest.fail)
        monkeypatch.undo()

    monkeypatch.setattr(device, "upload", handler)
    assert memories[interrupted].gpu_data().tolist() == [1] * NBYTES
    assert device.upload == upload
    assert borrow.flags.writeable == (interrupted == 1)


@pytest.mark.parametrize("place", [0, NBYTES - 1])
@pytest.mark.parametrize("aliased", range(3))
def test_an_alias_of_one_byte_of_any_memory_is_warned_of_before_all_are_given_up(aliased, place):
    memories = [memory_on(Side.HOST) for _ in range(3)]
    layout = Layout.raw(1, place)
    alias = memories[aliased].export(Side.HOST, Access.MUTABLE, layout, "use", "DLPack")
    given_up = []
    with pytest.warns(StaleAliasWarning, match=r"^a test makes aliases stale: a DLPack") as caught:
        give_all_up(memories, lambda: given_up.append(len(caught)))
    assert given_up == [1]
    assert alias.tolist() == [1]


# --- after a fork --------------------------------------------------------------------------------
#
# These tests call the code for a child process in this process. test_forks.py tests real forks.


def test_of_a_lost_memory_nothing_is_given_that_was_kept():
    blob = filled(1, NBYTES, "uint8")
    for _ in range(3):
        blob.cpu_data(), blob.mutable_cpu_data(), np.from_dlpack(blob.cpu)
    assert blob.memory.shortcut(Side.HOST, Layout.raw(NBYTES)).writable
    in_threads(blob.memory.lock.acquire)
    blob.memory.after_fork()
    for access in (blob.memory.cpu_data, blob.mutable_cpu_data, lambda: np.from_dlpack(blob.cpu)):
        with pytest.raises(RuntimeError, match=LOST):
            access()
