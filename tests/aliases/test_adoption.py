"""Effects of adoption, and of the end of an exposure, on live aliases."""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from interrupt_points import at_each_place
from made_blobs import READS, adopt, memory_on

import syncblob
from syncblob import Blob, Head, record_transfers
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access
from syncblob.memory.accesses import assume_unaliased, expose
from syncblob.memory.loans import Loans

COUNT = 4
WHOLE = Layout.raw(COUNT)
at = partial(memory_on, nbytes=COUNT)


@pytest.mark.parametrize("side", Side)
def test_an_alias_of_a_buffer_that_was_replaced_is_of_no_concern_any_more(side):
    memory = at(side)
    alias = memory.export(side, Access.MUTABLE, WHOLE, "test", "NumPy")
    array = adopt(memory, side, 5)
    assert not alias.flags.writeable
    assert not memory.aliased
    getattr(memory, READS[Side(1 - side)])()
    assert memory.head is Head.SYNCED
    fresh = memory.export(side, Access.MUTABLE, WHOLE, "test", "NumPy")
    fresh[0] = 6
    assert array[0] == 6
    assert alias[0] == 1


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("exposed", Side)
def test_adoption_ends_the_exposure_of_both_sides(side, exposed):
    memory = at(side)
    expose(memory, exposed, shared=True)
    adopt(memory, side, 5)
    assert memory.aliased is (side is not exposed)
    assume_unaliased(memory, 0, memory.nbytes)
    expose(memory, exposed)
    assert memory.loans.foreign == 1 << side | 1 << exposed
    adopt(memory, side, 5)
    assert not memory.aliased
    with record_transfers() as log:
        for _ in range(2):
            getattr(memory, READS[Side(1 - side)])()
    assert len(log) == 1


@pytest.mark.parametrize("side", Side)
def test_an_adoption_that_is_interrupted_gives_borrows_back_their_right_to_write(monkeypatch, side):
    memory = at(Side.HOST)
    borrow = memory.mutable_cpu_data()
    revoke = Loans.revoke

    def interrupted(loans, *args, **kwargs):
        revoke(loans, *args, **kwargs)
        assert not borrow.flags.writeable
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Loans, "revoke", interrupted)
        with pytest.raises(KeyboardInterrupt):
            adopt(memory, side, 5)
    borrow[0] = 7
    assert memory.gpu_data().tolist() == [7, 1, 1, 1]
    adopt(memory, side, 5)
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == [5] * COUNT


def adopted(array):
    return syncblob.asarray(array, device="cpu").on("simulated")


def promised(array):
    blob = adopted(array)
    blob.assume_unaliased()
    return blob


def refreshed(array):
    blob = adopted(array)
    blob.refresh()
    return blob


def written_on_the_other_side(array):
    blob = adopted(array)
    blob += 0
    return blob


def set_as_host_data(array):
    blob = Blob(array.shape, dtype=array.dtype, device="simulated")
    blob.set_cpu_data(array)
    return blob


@pytest.mark.parametrize("make", [promised, refreshed, written_on_the_other_side, set_as_host_data])
def test_an_adopted_array_stays_and_sees_later_writes(make):
    array = np.ones(COUNT)
    blob = make(array)
    with pytest.raises(BufferError, match=r"the host side, which is an adopted array.*use a copy"):
        blob.evict("cpu")
    blob += 1
    np.asarray(blob)
    assert array.tolist() == [2] * COUNT
    copy = blob.copy()
    np.asarray(copy)
    assert copy.evict("cpu") == array.nbytes


def test_an_adopted_array_of_a_device_stays_there():
    array = np.ones(COUNT, np.float32)
    blob = Blob(COUNT, device="simulated")
    blob.set_gpu_data(array)
    blob.set_cpu_data(np.ones(COUNT, np.float32))
    assert [len(part) for part in blob.parts()] == [COUNT]
    with pytest.raises(BufferError, match="the accelerator side, which is an adopted array"):
        blob.evict("gpu")
    blob.mutable_cpu_data()[...] = 2
    blob.gpu_data()
    assert array.tolist() == [2] * COUNT


def seen_without_the_lock(memory):
    """Return the values that readers without the lock find, in all bytes and on both sides."""
    found = set()
    for side in Side:
        for place in range(COUNT):
            buffer = memory.newest(side, Layout.raw(1, place))
            if buffer is not None:
                found.add(int(buffer.array[place]))
    return found


@pytest.mark.parametrize("first", [Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED])
@pytest.mark.parametrize("rest", [Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED])
@pytest.mark.parametrize("side", Side)
def test_at_each_step_of_an_adoption_readers_find_the_old_contents_or_the_new_and_no_mixture(
    side, first, rest
):
    memory = at(Side.HOST)
    for head, layout in ((first, Layout.raw(1)), (rest, Layout.raw(COUNT - 1, 1))):
        if head is not Head.HEAD_AT_CPU:
            access = Access.CONST if head is Head.SYNCED else Access.MUTABLE
            memory.lend(Side.ACCELERATOR, access, layout, "use")
    package = str(Path(syncblob.__file__).parent)
    seen = []

    def trace(frame, _event, _argument):
        if not frame.f_code.co_filename.startswith(package):
            return None
        seen.append(seen_without_the_lock(memory))
        return trace

    outside = sys.gettrace()
    sys.settrace(trace)
    try:
        memory.replace_side(np.full(COUNT, 5, np.uint8), syncblob.simulated() if side else None)
    finally:
        sys.settrace(outside)
    assert (seen[0], seen[-1]) == ({1}, {5})
    assert all(found in ({1}, {5}, set()) for found in seen)
    # One side has all of the old contents until the new ones are there.
    if {first, rest} <= {Head.SYNCED, Head.HEAD_AT_GPU if side is Side.HOST else Head.HEAD_AT_CPU}:
        assert all(seen)


# Of an interrupt in a generator that ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@at_each_place
def test_an_adoption_that_is_interrupted_is_made_or_not(meanwhile):
    blob = Blob(8, device="simulated")
    blob[...] = 3
    blob.resize(4)

    def interrupt():
        raise KeyboardInterrupt

    def replace():
        with suppress(KeyboardInterrupt):
            blob.set_cpu_data(np.full(4, 9, np.float32))

    meanwhile(replace, interrupt)
    contents = blob.tolist()
    assert contents in ([3] * 4, [9] * 4)
    blob.resize(8)
    # The adopted array has no spare capacity, and a resize beyond the capacity keeps no contents.
    assert blob.tolist() == [3 if contents == [3] * 4 else 0] * 8
