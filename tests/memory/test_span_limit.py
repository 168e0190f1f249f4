"""Maps with many spans: their lengths, what a widened access copies, and that no data is lost."""

import random

import numpy as np
import pytest
from fault_states import newest
from in_threads import in_the_middle_of

from syncblob import Head, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access, attempt, changes

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

HOST, ACCELERATOR = Side
CONST, MUTABLE, OVERWRITE = Access
# A low limit saves time. `tests/devices/test_cuda.py` has a map of the usual length.
MAX_SPANS = 128
# Accesses of every other byte make more spans than a map may have.
NBYTES = MAX_SPANS + 100
NEW = 200


@pytest.fixture(autouse=True)
def _shorter_maps(monkeypatch):
    monkeypatch.setattr(changes, "MAX_SPANS", MAX_SPANS)


def counting():
    return (np.arange(NBYTES) % 199).astype(np.uint8)


def use(memory, side, access, start, stop):
    return memory.lend(side, access, Layout.raw(stop - start, start), "use")


def made(holders):
    """Make a memory that is newest on one side or on both, or that has a source."""
    if holders == "source":
        return SyncedMemory(NBYTES, device="simulated", source=counting)
    memory = SyncedMemory(NBYTES, device="simulated")
    (memory.overwrite_gpu_data if holders == "accelerator" else memory.overwrite_cpu_data)()[:] = (
        counting()
    )
    if holders == "both":
        memory.gpu_data()
    return memory


def places(order):
    result = list(range(1, NBYTES, 2))
    if order == "shuffled":
        random.Random(1).shuffle(result)  # noqa: S311  # an order, not a secret
    return result


@pytest.mark.parametrize("holders", ["host", "accelerator", "both", "source"])
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("order", ["forwards", pytest.param("shuffled", marks=pytest.mark.long)])
def test_accesses_of_every_other_byte(holders, side, access, order):
    memory = made(holders)
    contents = counting()
    longest = 0
    with record_transfers() as log:
        for place in places(order):
            array = use(memory, side, access, place, place + 1)
            longest = max(longest, len(memory.spans.holders))
            if access is not OVERWRITE:
                assert array[0] == contents[place]
            if access is not CONST:
                array[0] = contents[place] = place % 100
    # What only the source has is not read, so it parts the spans.
    assert longest <= (2 * MAX_SPANS if holders == "source" else MAX_SPANS)
    assert list(newest(memory)) == contents.tolist()
    # No byte is copied twice, and none that both sides hold.
    assert log.nbytes <= (0 if holders == "both" else NBYTES)
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == contents.tolist()


@pytest.mark.parametrize("delay", [None, 0.001])
def test_pushes_of_every_other_byte_push_nothing_else(simulated, delay):
    memory = made("host")
    stream = None if delay is None else simulated.stream(delay=delay)
    with record_transfers() as log:
        for place in places("forwards"):
            memory.async_gpu_push(stream, place, place + 1)
    simulated.synchronize()
    assert log.nbytes == NBYTES // 2
    assert memory.gpu_data().tolist() == memory.cpu_data().tolist() == counting().tolist()


@pytest.mark.parametrize("holders", ["host", "source"])
def test_one_access_too_many_brings_all_that_its_side_lacks_but_no_source(holders):
    memory = (
        made("host")
        if holders == "host"
        else SyncedMemory(NBYTES, device="simulated", source=Numbers())
    )
    access = CONST if holders == "host" else MUTABLE
    kept = [use(memory, ACCELERATOR, access, at, at + 1) for at in range(1, MAX_SPANS - 1, 2)]
    assert len(memory.spans.holders) == 2 * len(kept) + 1 == MAX_SPANS - 1
    first, second = MAX_SPANS + 20, MAX_SPANS + 40
    with record_transfers() as log:
        use(memory, ACCELERATOR, CONST, first, first + 1)
        assert log.nbytes == (NBYTES - MAX_SPANS // 2 + 1 if holders == "host" else 1)
        use(memory, ACCELERATOR, CONST, second, second + 1)
    assert log.nbytes == (NBYTES - MAX_SPANS // 2 + 1 if holders == "host" else 2)
    assert len(memory.spans.holders) == (1 if holders == "host" else MAX_SPANS + 3)
    assert memory.gpu_data().tolist() == counting().tolist()


def test_a_map_may_have_as_many_spans_as_the_limit_and_no_more():
    memory = made("host")
    for place in [*range(1, MAX_SPANS - 1, 2), NBYTES - 1]:
        use(memory, ACCELERATOR, MUTABLE, place, place + 1)
    assert len(memory.spans.holders) == MAX_SPANS
    use(memory, ACCELERATOR, MUTABLE, MAX_SPANS + 20, MAX_SPANS + 21)
    assert len(memory.spans.holders) < MAX_SPANS


def test_what_somebody_may_write_is_not_joined():
    memory = made("host")
    alias = memory.export(HOST, MUTABLE, Layout.raw(40, 40), "use", "DLPack")
    for place in places("forwards"):
        if not 40 <= place < 80:
            use(memory, ACCELERATOR, MUTABLE, place, place + 1)
    assert len(memory.spans.holders) <= MAX_SPANS
    assert memory.spans.common(40, 80) == 1 << HOST
    alias[:] = NEW
    assert memory.gpu_data()[40:80].tolist() == [NEW] * 40


def test_nothing_is_joined_while_another_thread_may_write():
    memory = made("host")
    for place in range(1, MAX_SPANS - 1, 2):
        use(memory, ACCELERATOR, MUTABLE, place, place + 1)
    before = len(memory.spans.holders)
    with in_the_middle_of(lambda wait: attempt(wait, memory)):
        for place in (MAX_SPANS + 20, MAX_SPANS + 40):
            use(memory, ACCELERATOR, MUTABLE, place, place + 1)
    assert len(memory.spans.holders) == before + 4 > MAX_SPANS
    assert memory.spans.common(MAX_SPANS, MAX_SPANS + 20) == 1 << HOST
    use(memory, ACCELERATOR, MUTABLE, MAX_SPANS + 60, MAX_SPANS + 61)
    assert len(memory.spans.holders) <= MAX_SPANS


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("access", [CONST, MUTABLE, OVERWRITE])
def test_what_somebody_has_borrowed_is_not_joined(side, access):
    memory = made("both")
    for place in range(1, MAX_SPANS - 1, 2):
        use(memory, side, MUTABLE, place, place + 1)
    # From now on no byte is on both sides.
    use(memory, Side(1 - side), MUTABLE, MAX_SPANS - 1, NBYTES)
    for place in range(0, MAX_SPANS, 2):
        if place != MAX_SPANS - 2:
            use(memory, Side(1 - side), MUTABLE, place, place + 1)
    assert len(memory.spans.holders) > MAX_SPANS - 4
    borrows = [use(memory, Side(1 - side), MUTABLE, place, place + 1) for place in range(0, 40, 2)]
    expected = np.frombuffer(newest(memory), np.uint8).copy()
    for place in (MAX_SPANS + 20, MAX_SPANS + 40, MAX_SPANS + 60):
        array = use(memory, side, access, place, place + 1)
        if access is not CONST:
            array[0] = expected[place] = NEW
    assert len(memory.spans.holders) <= MAX_SPANS
    for place, borrow in zip(range(0, 40, 2), borrows, strict=True):
        borrow[0] = expected[place] = NEW
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == expected.tolist()


@pytest.mark.parametrize("read", [False, True])
def test_what_is_computed_counts_although_the_map_got_too_long_meanwhile(read):
    nbytes = 4 * MAX_SPANS
    memory = SyncedMemory(nbytes, device="simulated")
    memory.overwrite_cpu_data()[:] = 1
    # One byte on the host between bytes on the accelerator is the smallest span.
    use(memory, ACCELERATOR, MUTABLE, 4, 5)
    use(memory, ACCELERATOR, MUTABLE, 6, 8)
    array = memory.array(HOST, MUTABLE, Layout.raw(1, 5), "use")
    if read:
        use(memory, ACCELERATOR, CONST, 5, 6)
    for place in range(12, nbytes, 4):
        use(memory, ACCELERATOR, MUTABLE, place, place + 2)
    assert memory.spans.head(5, 6) is Head.HEAD_AT_GPU
    array[:] = NEW
    memory.finish_write(HOST, Layout.raw(1, 5), "use")
    assert memory.spans.head(5, 6) is Head.HEAD_AT_CPU
    assert memory.gpu_data()[4:8].tolist() == [1, NEW, 1, 1]


def test_what_is_on_its_way_stays_the_hosts_too_however_long_the_map_gets(simulated):
    memory = made("host")
    use(memory, HOST, MUTABLE, 1, 2)[:] = 77
    memory.async_gpu_push(simulated.stream(delay=0.5), 1, 2)
    for place in (0, 2, *range(4, NBYTES, 2)):
        use(memory, ACCELERATOR, MUTABLE, place, place + 1)[:] = NEW
    assert len(memory.spans.holders) <= MAX_SPANS
    assert use(memory, HOST, CONST, 1, 2).tolist() == [77]


class Numbers:
    """A source that can be read in parts."""

    def __call__(self):
        raise AssertionError("there is read_into")

    def read_into(self, buffer, offset):
        buffer[:] = counting()[offset : offset + len(buffer)]
