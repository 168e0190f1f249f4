"""Loans: which of them may write into a range, and which lose their write permission."""

from functools import partial

import numpy as np
import pytest
from interrupt_points import at_each_place
from made_blobs import adopt

from syncblob import Blob, StaleAliasWarning, SyncedMemory
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.accesses import expose
from syncblob.memory.ledger import Ledger
from syncblob.memory.loans import BORROW, EXPOSED, NUMPY, Loans

ALL = Layout.raw(8)


def test_who_may_write_into_a_range_is_who_overlaps_it():
    loans, array = Loans(), np.zeros(8, np.uint8)
    loans.lend(array, "DLPack", Side.HOST, 8, 16)
    loans.lend(array, EXPOSED, Side.HOST, 32, 40)
    loans.lend(array, "DLPack", Side.ACCELERATOR, 0, 64)
    loans.lend(array, BORROW, Side.HOST, 0, 64)

    def writers(start, stop):
        return sorted(writer.start for writer in loans.writers(start, stop, 1 << Side.HOST))

    assert writers(0, 8) == writers(16, 32) == writers(40, 64) == []
    assert writers(0, 9) == [8]
    assert writers(15, 33) == [8, 32]
    assert writers(39, 64) == [32]
    known = [each for each in loans.writers(0, 64, 1 << Side.HOST) if not each.exposed]
    assert [alias.start for alias in known] == [8]


def test_an_alias_of_no_elements_keeps_its_permission():
    loans, arrays = Loans(), [np.zeros(4, np.uint8), np.zeros(0, np.uint8)]
    for array in arrays:
        loans.lend(array, NUMPY, Side.HOST, 4, 4 + array.nbytes)
    revoked = []
    loans.revoke(revoked, -1, None, aliases=-1)
    assert [array.flags.writeable for array in arrays] == [False, True]
    assert len(revoked) == 1


@pytest.mark.parametrize("side", Side)
def test_a_borrow_is_made_again_if_a_signal_handler_reads_the_other_side(monkeypatch, side):
    memory = SyncedMemory(8, device="simulated")
    memory.array(side, Access.OVERWRITE, ALL, "test")[...] = 1
    own_loans = Ledger.own_loans

    def interrupted(self):
        monkeypatch.undo()
        memory.array(Side(1 - side), Access.CONST, ALL, "handler")
        return own_loans(self)

    monkeypatch.setattr(Ledger, "own_loans", interrupted)
    memory.lend(side, Access.MUTABLE, ALL, "test")[...] = 2
    assert memory.array(Side(1 - side), Access.CONST, ALL, "test").tolist() == [2] * 8


def use_both_sides(blob):
    blob.gpu_data()
    blob.mutable_cpu_data()


@pytest.mark.parametrize("hand_out", [Blob.mutable_cpu_data, lambda blob: np.asarray(blob.cpu)])
@pytest.mark.parametrize("handler", [lambda blob: adopt(blob.memory, Side.HOST, 5), use_both_sides])
@at_each_place
def test_what_is_writable_is_tracked_whatever_a_handler_has_done(meanwhile, handler, hand_out):
    blob, arrays = Blob(8, "uint8", device="simulated"), []
    blob.on("cpu")[...] = 1
    meanwhile(lambda: arrays.append(hand_out(blob)), partial(handler, blob))
    for value in (2, 3):
        if arrays[0].flags.writeable:
            arrays[0][...] = value
            assert blob.gpu_data().tolist() == [value] * 8


@at_each_place
def test_an_exposure_is_known_whatever_a_handler_has_done(meanwhile):
    blob = Blob(8, "uint8", device="simulated")
    blob.on("cpu")[...] = 1
    memory = blob.memory
    meanwhile(lambda: expose(memory, Side.HOST), partial(use_both_sides, blob))
    for value in (2, 3):
        memory.buffer(Side.HOST)[:] = value
        assert memory.gpu_data().tolist() == [value] * 8


@pytest.mark.parametrize("hand_out", [Blob.mutable_cpu_data, lambda blob: np.asarray(blob.cpu)])
def test_what_a_write_beside_a_stale_alias_takes_back_is_not_writable(monkeypatch, hand_out):
    blob = Blob((2, 4), "uint8", device="simulated")
    blob[...] = 1
    stale = np.asarray(blob[0].cpu)
    with pytest.warns(StaleAliasWarning):
        blob[...] = 2
    home, arrays = blob.home, []
    compute = type(home).compute

    def interrupted(*args):
        monkeypatch.undo()
        compute(home, *args)
        arrays.append(hand_out(blob[1]))

    monkeypatch.setattr(home, "compute", interrupted)
    with pytest.warns(StaleAliasWarning):
        blob.scale_data(2)
    assert not stale.flags.writeable
    assert not arrays[0].flags.writeable
    assert blob.tolist() == [[4] * 4] * 2


def test_loans_that_are_given_up_meanwhile_are_not_used(monkeypatch):
    """The first read on another side gives up those of a memory that has lent nothing any more."""
    blob = Blob(8, "uint8", device="simulated")
    for _ in range(3):
        blob.mutable_cpu_data()[...] = 1
    lend = Loans.lend

    def interrupted(self, *args):
        monkeypatch.undo()
        blob.gpu_data()
        loan = lend(self, *args)
        blob.mutable_cpu_data()
        return loan

    monkeypatch.setattr(Loans, "lend", interrupted)
    borrow = blob.mutable_cpu_data()
    borrow[...] = 2
    assert blob.gpu_data().tolist() == [2] * 8
    assert not borrow.flags.writeable
