"""Sources are read in parts: only the parts that are needed, when they are needed, and once."""

import gc
import weakref
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from fault_states import newest
from interrupt_points import at_each_place

from benchmarks.calls import package_calls
from syncblob import Blob, Head, SyncedMemory, record_transfers
from syncblob._layout import Layout
from syncblob.devices import POISON, Side
from syncblob.memory import Access
from syncblob.memory.buffers import Source

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

NBYTES = 64
VALUES = list(range(100, 100 + NBYTES))
HOST, ACCELERATOR = Side
CONST, MUTABLE, OVERWRITE = Access


class Reader:
    """A source that fills a given array and records which bytes were requested."""

    def __init__(self):
        self.asked = []
        self.calls = 0
        self.fails = False

    def __call__(self):
        self.calls += 1
        self.asked += range(NBYTES)
        return np.array(VALUES, np.uint8)

    def read_into(self, buffer, offset):
        if self.fails:
            buffer[: len(buffer) // 2] = POISON
            raise OSError("gone")
        self.asked += range(offset, offset + len(buffer))
        buffer[:] = VALUES[offset : offset + len(buffer)]


class Function:
    """A source that returns everything and counts its calls."""

    def __init__(self):
        self.calls = 0
        self.result = lambda: None
        self.fails = False

    def __call__(self):
        self.calls += 1
        if self.fails:
            raise OSError("gone")
        contents = np.array(VALUES, np.uint8)
        self.result = weakref.ref(contents)
        contents.flags.writeable = False
        return contents


SOURCES = pytest.mark.parametrize("make", [Reader, Function])


def memory_of(source, device="simulated"):
    return SyncedMemory(NBYTES, device=device, source=source)


def use(memory, side, access, start, stop):
    return memory.lend(side, access, Layout.raw(stop - start, start), "use")


def spans(memory):
    return [tuple(run) for run in memory.spans.runs(0, memory.nbytes)]


@SOURCES
@pytest.mark.parametrize("side", Side)
def test_the_first_rows_of_a_source_are_all_that_is_read(make, side, simulated):
    source = make()
    memory = memory_of(source)
    with record_transfers() as log:
        assert use(memory, side, CONST, 0, 10).tolist() == VALUES[:10]
    assert spans(memory) == [(0, 10, 1 << side), (10, NBYTES, 0)]
    assert (memory.head, memory.spans.head(0, 10)) == (Head.SPLIT, Head(1 << side))
    assert log.nbytes == (10 if side else 0)
    assert memory.buffer(Side(1 - side)) is None
    if make is Reader:
        assert source.asked == list(range(10))
    simulated.reset_counts()
    with record_transfers() as log:
        assert use(memory, Side(1 - side), CONST, 0, 20).tolist() == VALUES[:20]
    assert spans(memory) == [(0, 10, 3), (10, 20, 1 << Side(1 - side)), (20, NBYTES, 0)]
    assert log.nbytes == (10 if side else 20)
    assert simulated.allocations + simulated.host_allocations == 1


def test_what_a_source_returned_is_kept_until_all_of_it_was_taken():
    source = Function()
    memory = memory_of(source)
    for start, stop in ((0, 10), (40, NBYTES), (20, 40)):
        use(memory, HOST, CONST, start, stop)
        assert source.result() is not None
    use(memory, ACCELERATOR, OVERWRITE, 10, 20)
    gc.collect()
    assert (source.calls, source.result()) == (1, None)


def test_a_source_itself_is_let_go_when_all_of_it_was_taken():
    source = Function()
    gone = weakref.ref(source)
    memory = memory_of(source)
    del source
    use(memory, HOST, CONST, 0, 10)
    assert gone() is not None
    use(memory, ACCELERATOR, MUTABLE, 10, NBYTES)
    assert gone() is None
    assert memory.cpu_data().tolist() == VALUES


@SOURCES
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("access", [CONST, MUTABLE])
def test_a_source_that_fails_for_a_part_changes_nothing_and_is_asked_again(make, side, access):
    source = make()
    memory = memory_of(source)
    use(memory, HOST, OVERWRITE, 20, 30)[:] = 1
    use(memory, ACCELERATOR, OVERWRITE, 40, 50)[:] = 2
    before = spans(memory)
    borrows = [use(memory, HOST, MUTABLE, 20, 30), use(memory, ACCELERATOR, MUTABLE, 40, 50)]
    source.fails = True
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            use(memory, side, access, 10, NBYTES)
        assert spans(memory) == before
        assert all(borrow.flags.writeable for borrow in borrows)
    source.fails = False
    expected = list(VALUES)
    expected[20:30], expected[40:50] = [1] * 10, [2] * 10
    assert use(memory, side, access, 10, NBYTES).tolist() == expected[10:]
    assert list(newest(memory)) == expected


@SOURCES
def test_once_a_part_was_taken_there_is_no_peek(make):
    source = make()
    memory = memory_of(source)
    contents = memory.peek_at_source()
    assert contents.tolist() == VALUES
    assert (memory.head, memory.buffer(HOST)) == (Head.UNINITIALIZED, None)
    use(memory, HOST, CONST, 0, 1)
    assert memory.peek_at_source() is None


@SOURCES
@pytest.mark.parametrize("side", Side)
def test_private_copies_of_what_was_not_read_change_no_state(make, side):
    memory = memory_of(make())
    use(memory, HOST, OVERWRITE, 0, 10)[:] = 1
    use(memory, ACCELERATOR, OVERWRITE, 20, 30)[:] = 2
    before = spans(memory)
    expected = np.array(VALUES, np.uint8)
    expected[:10], expected[20:30] = 1, 2
    gapped = Layout((2, 16), np.dtype(np.uint8), (32, 2))
    copy = memory.gather(side, gapped, "test")
    assert copy.tolist() == expected.reshape(2, 32)[:, ::2].tolist()
    assert copy.flags.writeable
    assert spans(memory) == before
    assert list(newest(memory)) == expected.tolist()


def test_a_part_of_a_source_is_prefetched_and_not_pushed():
    memory = memory_of(Reader())
    with pytest.raises(RuntimeError, match="the head is UNINITIALIZED"):
        memory.async_gpu_push(None, 0, 10)
    memory.prefetch(ACCELERATOR, 8, 16)
    memory.prefetch(HOST, 12, 20)
    assert spans(memory) == [(0, 8, 0), (8, 12, 2), (12, 16, 3), (16, 20, 1), (20, NBYTES, 0)]
    assert memory.gpu_data().tolist() == VALUES


def test_a_peek_leaves_what_was_returned_where_it_was_kept_for_others_to_take():
    source = Function()
    memory = memory_of(source)
    for _ in range(2):
        assert memory.gather(HOST, Layout.raw(4, 8), "test").tolist() == VALUES[8:12]
        assert memory.peek_at_source().tolist() == VALUES
        assert source.calls == 1


@pytest.mark.parametrize(
    ("start", "stop", "calls"), [(0, NBYTES, 1), (0, 10, 0), (10, NBYTES - 10, 0)]
)
def test_the_function_is_called_for_all_bytes_at_once_alone(start, stop, calls):
    source = Reader()
    memory = SyncedMemory(NBYTES, device="simulated", source=source)
    array = memory.array(ACCELERATOR, CONST, Layout.raw(stop - start, start), "use")
    assert array.tolist() == VALUES[start:stop]
    assert (source.calls, len(source.asked)) == (calls, stop - start)


def test_what_the_function_returned_is_kept_for_the_next_access(simulated):
    source = Reader()
    memory = SyncedMemory(NBYTES, device="simulated", source=source)
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        memory.gpu_data()
    array = memory.array(ACCELERATOR, CONST, Layout.raw(10, 20), "use")
    assert array.tolist() == VALUES[20:30]
    assert (source.calls, len(source.asked)) == (1, NBYTES)


def test_a_new_part_of_a_source_takes_few_calls():
    class Zeros:
        def __call__(self):
            raise AssertionError("there is read_into")

        def read_into(self, buffer, _offset):
            buffer[:] = 0

    blob = Blob.from_source((100, 1000), "float32", Zeros())
    for first in 0, 10, 20:
        blob[first : first + 10].cpu_data()

    def read():
        blob[50:60].cpu_data()

    assert package_calls(read) < 50


class Again:
    """A source that can be read again."""

    def __call__(self):
        return np.arange(6, dtype=np.float32).view(np.uint8)

    def again(self):
        return Again()


def evicted(blob):
    blob[0] = 0
    with suppress(RuntimeError):  # if it was written meanwhile
        blob.evict()


@pytest.mark.parametrize("work", [evicted, lambda blob: blob[::2].on("cpu").copy()])
@at_each_place
def test_a_source_that_a_handler_has_used_up_is_read_again(meanwhile, work):
    blob = Blob.from_source(6, np.float32, Again(), device="simulated")
    meanwhile(partial(work, blob), blob.prefetch)
    assert blob.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_source_that_was_used_up_is_opened_again():
    source = Source(Again(), 24)
    assert source.rest() is source
    assert source.contents().view(np.float32).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("last", [0, 23])
def test_a_write_into_the_last_byte_that_a_source_has_is_kept(last):
    """Whoever writes there first has to tell: an eviction drops what the source has."""
    blob = Blob.from_source(24, np.uint8, Again(), device="simulated")
    blob.gpu_data()
    (blob[1:] if last == 0 else blob[:-1])[...] = 7
    kept = blob + 0
    blob += 1
    blob.evict()
    assert blob.tolist() == (kept + 1).tolist()
