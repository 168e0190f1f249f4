"""Borrows and aliases made from arrays that the Blob keeps are equivalent to the first ones."""

import _thread
import operator
import warnings
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
from in_threads import in_threads
from made_blobs import HEADS, READS

from syncblob import Blob, StaleAliasWarning, simulated
from syncblob.devices import Side
from syncblob.devices.host import NumpyHome
from syncblob.memory.loans import BORROW, Loan, Loans

COUNT = 4
NOTHING = [(0, 0), (0, 0)]


@dataclass(frozen=True)
class Way:
    """One way to get a writable array of a side."""

    name: str
    side: Side
    alias: bool = False

    def __call__(self, blob):
        if self.alias:
            return np.from_dlpack(blob)
        return getattr(blob, f"mutable_{READS[self.side]}")()

    def read(self, blob):
        return getattr(blob, READS[self.side])()

    def read_other_side(self, blob):
        return getattr(blob, READS[Side(1 - self.side)])()


BORROWS = [Way("host", Side.HOST), Way("accelerator", Side.ACCELERATOR)]
ALIAS = Way("alias", Side.HOST, alias=True)
WAY = pytest.mark.parametrize("way", [*BORROWS, ALIAS], ids=lambda way: way.name)
SIDES = pytest.mark.parametrize("both_sides", [False, True], ids=["one side", "both sides"])


def used(way, *, both_sides=False):
    """Make a Blob of ones that has been read and written on a side several times."""
    blob = Blob(COUNT, "uint8", device="cpu" if way.side is Side.HOST else "simulated:0")
    blob.memory.side_of(simulated(0))
    if both_sides:
        way.read_other_side(blob)
    getattr(blob, f"mutable_{READS[way.side]}")()[...] = 1
    for _ in range(3):
        way(blob)
        way.read(blob)
    assert (blob.head, loans(blob)) == (HEADS[way.side], NOTHING)
    assert (blob.memory.buffer(Side(1 - way.side)) is not None) == both_sides
    return blob


def loans(blob):
    """Return the numbers of borrows and aliases of each side."""
    sides = [[loan.kind is BORROW for loan in blob.memory.loans.of(side)] for side in Side]
    return [(sum(borrows), len(borrows) - sum(borrows)) for borrows in sides]


@WAY
@SIDES
def test_each_array_is_one_of_its_own_and_is_noted(way, both_sides):
    blob = used(way, both_sides=both_sides)
    first, second = way(blob), way(blob)
    assert first is not second
    assert np.shares_memory(first, second)
    noted = loans(blob)
    assert noted.pop(way.side) == ((0, 2) if way.alias else (2, 0))
    assert noted == [(0, 0)]
    second[0] = 5
    assert way.read_other_side(blob)[0] == first[0] == 5
    del first, second
    assert loans(blob) == NOTHING


def test_what_numpy_cannot_export_and_what_is_const_is_lent_as_before():
    pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 of its own")
    blob = Blob(COUNT, "bfloat16", device="simulated")
    for value in range(4):
        blob.mutable_cpu_data()[...] = value
        assert blob.cpu_data().tolist() == [value] * COUNT
    const = used(ALIAS).const
    for _ in range(4):
        assert np.asarray(const).tolist() == [1] * COUNT
        assert not np.from_dlpack(const).flags.writeable


@pytest.mark.parametrize("way", [BORROWS[0], ALIAS], ids=lambda way: way.name)
def test_while_there_is_one_buffer_nobody_is_waited_for(way):
    blob = used(way)
    with blob.memory.lock:
        (array,) = in_threads(lambda: way(blob))
    assert array.tolist() == [1] * COUNT


def test_what_another_thread_does_meanwhile_ends_no_borrow_that_is_still_to_come():
    blob = used(BORROWS[0])
    loans = blob.memory.loans
    meddled = []

    class Meddling(set[Loan]):
        def add(self, borrow):
            super().add(borrow)
            if not meddled:
                meddled.append(True)
                blob.gpu_data()

    loans.live = Meddling(loans.live)
    borrow = blob.mutable_cpu_data()
    borrow[0] = 9
    assert blob.gpu_data()[0] == 9
    assert meddled


def test_what_another_thread_does_meanwhile_leaves_no_alias_behind_that_is_still_to_come(
    monkeypatch,
):
    blob = used(ALIAS)
    lend = Loans.lend
    meddled = []

    def meddle(*args):
        lend(*args)
        if not meddled:
            meddled.append(True)
            with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
                blob.mutable_gpu_data()

    monkeypatch.setattr(Loans, "lend", meddle)
    alias = np.from_dlpack(blob)
    alias[0] = 9
    assert blob.cpu_data()[0] == blob.gpu_data()[0] == 9
    assert meddled


# --- in the middle of a change ------------------------------------------------------------------


@pytest.mark.parametrize(("owner", "name"), [(Loans, "revoke"), (Loans, "note_end")])
@pytest.mark.parametrize("change", ["gpu_data", "mutable_gpu_data", "async_gpu_push", "set"])
@WAY
def test_what_a_finaliser_asks_in_the_middle_of_a_change_is_refused(
    monkeypatch, owner, name, change, way
):
    blob = used(BORROWS[0])
    borrow = blob.mutable_cpu_data()
    original = getattr(owner, name)
    refused = []

    def meddle(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        if not refused:
            refused.append(True)
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                way(blob)
        return result

    monkeypatch.setattr(owner, name, meddle)
    if change == "set":
        blob.set_cpu_data(np.full(COUNT, 1, "uint8"))
    else:
        getattr(blob, change)()
    assert refused
    assert not borrow.flags.writeable
    monkeypatch.undo()
    for value in (7, 8):
        blob.mutable_cpu_data()[...] = value
        assert (blob.gpu_data() == value).all()
        assert (blob.cpu_data() == value).all()


def test_a_resize_on_another_thread_forgets_what_is_being_kept(monkeypatch):
    blob = Blob(6)
    blob.mutable_cpu_diff()
    made = []
    original = NumpyHome.view

    def meddle(self, *args, **keywords):
        made.append(original(self, *args, **keywords))
        # It is about to be kept.
        if len(made) == 1:
            monkeypatch.undo()
            in_threads(lambda: blob.resize(2))
        return made[-1]

    monkeypatch.setattr(NumpyHome, "view", meddle)
    blob.cpu_data()
    assert len(made) == 1
    assert blob.shape == blob.cpu_data().shape == blob.mutable_cpu_data().shape == (2,)
    assert np.from_dlpack(blob).shape == (2,)


def test_exports_to_threads_without_frames_of_python():
    blob = Blob(COUNT)
    done = _thread.allocate_lock()
    for _ in range(2):
        done.acquire()
        steps = map(operator.call, [blob.__dlpack__, done.release])
        _thread.start_new_thread(list, (steps,))
        assert done.acquire(timeout=60)
        done.release()


def test_a_buffer_that_was_replaced_is_let_go():
    blob = Blob(COUNT)
    for _ in range(2):
        blob += 1
        blob.mutable_cpu_data()
        old = weakref.ref(blob.memory.buffer(Side.HOST))
        blob.set_cpu_data(np.zeros(COUNT, "f4"))
        assert old() is None


# --- without an accelerator ----------------------------------------------------------------------


@pytest.mark.parametrize("both_sides", [False, True])
def test_the_first_alias_of_a_side_is_noted_there(*, both_sides):
    """Nothing writable has been noted before on the host, or only on the device."""
    blob = Blob(COUNT, "uint8", device="cpu")
    blob.memory.side_of(simulated(0))
    if both_sides:
        blob.mutable_gpu_data()[...] = 1
        blob.overwrite_cpu_data()[...] = 2
        np.from_dlpack(blob)
    blob.cpu_data()
    alias = np.from_dlpack(blob)
    assert loans(blob) == [(0, 1), (0, 0)]
    with pytest.warns(StaleAliasWarning):
        blob.mutable_gpu_data()
    del alias
    assert loans(blob) == NOTHING
