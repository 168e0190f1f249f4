"""Windows: an accelerator holds the parts of a large memory that were needed there, and no more."""

import itertools
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from devices import LIMITED
from hypothesis import given
from hypothesis import strategies as st
from in_threads import in_the_middle_of, in_threads
from made_blobs import filled

import syncblob
from syncblob import Blob, Head
from syncblob._layout import Layout
from syncblob.calls.results import write_by
from syncblob.devices import POISON, Side
from syncblob.devices.base import WRITERS
from syncblob.memory import CONST, from_the_start, room, windows
from syncblob.memory.buffers import Window, find_window
from syncblob.memory.ledger import Ledger


def ranges(blob):
    """Return the windows of a Blob, in elements."""
    itemsize = blob.dtype.itemsize
    return [
        (w.start // itemsize, w.stop // itemsize) for w in blob.memory.windows(Side.ACCELERATOR)
    ]


def numbered(count=100):
    return filled(np.arange(count), count, "int32", device=LIMITED)


def test_ten_rows_of_a_large_blob_allocate_ten_rows(limited):
    blob = Blob((1024, 1024), device=LIMITED)
    blob[:10].on("cpu")[...] = 1
    assert blob[:10].sum().item() == 10 * 1024
    assert limited.used_nbytes == 10 * 1024 * 4
    assert limited.uploaded_bytes == 10 * 1024 * 4
    blob[:10].mutable_gpu_data()[...] = 2
    blob[20:30].mutable_gpu_data()[...] = 3
    blob[10:20].mutable_gpu_data()[...] = 4
    blob[:10].mutable_cpu_data()
    found = [(x.blob.split()[-1], x.line.text[-1]) for x in syncblob.memory_summary(LIMITED).rows]
    assert found == [("40960", "2"), ("81920", "4"), ("122880", "3")]
    assert set(blob[:10].cpu_data().ravel()) == {2}


@pytest.mark.usefixtures("simulated")
def test_a_small_memory_has_one_buffer():
    blob = Blob(1 << 18, device=LIMITED)
    blob[:10].gpu_data()
    assert ranges(blob) == [(0, 1 << 18)]
    assert blob.memory.buffer(Side.ACCELERATOR) is not None


@pytest.mark.usefixtures("small")
def test_an_access_makes_the_union_of_the_windows_that_it_overlaps(limited):
    blob = numbered()
    for start, stop in ((10, 20), (30, 35), (25, 28)):
        assert blob[start:stop].gpu_data().tolist() == list(range(start, stop))
    assert ranges(blob) == [(10, 20), (25, 28), (30, 35)]
    # In one window already.
    blob[12:18].gpu_data()
    assert ranges(blob) == [(10, 20), (25, 28), (30, 35)]
    blob[15:26].mutable_gpu_data()[...] = -1
    assert ranges(blob) == [(10, 28), (30, 35)]
    assert blob[10:28].gpu_data().tolist() == [10, 11, 12, 13, 14, *[-1] * 11, 26, 27]
    # Only what was not there has moved.
    assert limited.uploaded_bytes == (10 + 5 + 3 + 5) * 4
    assert blob.tolist()[8:30] == [8, 9, 10, 11, 12, 13, 14, *[-1] * 11, 26, 27, 28, 29]


@pytest.mark.usefixtures("small")
def test_a_part_without_elements_has_an_address():
    blob = Blob(100, "uint8", device=LIMITED)
    assert blob[3:3].gpu_data().size == np.from_dlpack(blob[3:3].gpu).size == 0
    assert blob[99:99].mutable_gpu_data().size == np.from_dlpack(blob[99:99].gpu).size == 0
    assert ranges(blob) == [(0, 1)]
    blob.memory.acquire(Side.ACCELERATOR, CONST, Layout.raw(8, 100), "a read after a resize")
    assert ranges(blob) == [(0, 1), (99, 100)]


def test_a_part_of_a_window_that_is_all_of_it_is_its_array():
    window = Window(4, 12, np.arange(8, dtype=np.uint8))
    assert window.part(4, 12) is window.array
    assert window.part(6, 12).tolist() == [2, 3, 4, 5, 6, 7]
    assert window.part(4, 10).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("small")
def test_most_of_a_memory_gets_one_buffer():
    blob = numbered()
    blob[:30].gpu_data()
    blob[60:80].gpu_data()
    assert ranges(blob) == [(0, 30), (60, 80)]
    blob[80].gpu_data()
    assert ranges(blob) == [(0, 100)]
    assert blob.sum().item() == 4950
    blob = numbered()
    assert blob[20:75].gpu_data().tolist() == [*range(20, 75)]
    assert blob.memory.buffer(Side.ACCELERATOR).nbytes == blob.nbytes


@pytest.mark.usefixtures("small")
def test_a_window_is_enough_if_there_is_no_room_for_all(limited):
    limited.capacity = 300
    blob = numbered()
    assert blob[:60].gpu_data().tolist() == list(range(60))
    assert ranges(blob) == [(0, 60)]
    limited.capacity = 30
    with pytest.raises(MemoryError, match=r"gpu_data needs 320 B on .* of shape \(80,\)"):
        blob[:80].gpu_data()


@pytest.mark.usefixtures("small")
def test_unwritten_parts_are_zeros_and_belong_to_nobody():
    blob = Blob(100, "int32", device=LIMITED)
    assert blob[10:20].sum().item() == 0
    assert (blob[10:20].head, blob[20:].head) == (Head.HEAD_AT_GPU, Head.UNINITIALIZED)
    blob[12:30] += 1
    assert blob.tolist() == [0] * 12 + [1] * 18 + [0] * 70
    assert "not read yet" not in str(blob.explain())


@pytest.mark.usefixtures("small", "limited")
def test_a_window_that_is_overwritten_is_not_filled_before():
    window = numbered()[10:20].overwrite_gpu_data()
    assert window.tobytes() == bytes([POISON]) * window.nbytes


@pytest.mark.usefixtures("small")
def test_a_source_is_read_into_windows(limited):
    values = np.arange(100, dtype=np.int32)
    blob = Blob.from_source(100, "int32", lambda: values.view(np.uint8), device=LIMITED)
    assert blob[40:50].sum().item() == values[40:50].sum()
    assert (limited.uploaded_bytes, ranges(blob)) == (40, [(40, 50)])
    assert blob.evict("gpu") == 40
    assert blob[40:50].head is Head.HEAD_AT_CPU
    assert blob.tolist() == values.tolist()


@pytest.mark.usefixtures("small", "machine")
def test_a_borrow_without_permission_gets_a_buffer_that_need_not_grow():
    """CuPy arrays have none. Over a window that may be replaced, it would be an alias."""
    blob = filled(1, 100, "int32", device="cuda:0")
    borrow = blob[10:20].mutable_gpu_data()
    assert ranges(blob) == [(0, 100)]
    assert not blob.memory.aliased
    del borrow


@pytest.mark.usefixtures("small")
def test_an_alias_of_a_part_gets_a_buffer_that_need_not_grow():
    blob = numbered()
    alias = np.asarray(blob[10:20].gpu)
    assert blob.memory.buffer(Side.ACCELERATOR) is not None
    blob[15:30].mutable_gpu_data()[...] = -1
    alias[:5] = -2
    assert blob.tolist()[8:22] == [8, 9, *[-2] * 5, *[-1] * 7]


@pytest.mark.usefixtures("small")
def test_an_alias_keeps_its_window_from_moving(limited):
    limited.capacity = 200
    blob = numbered()
    alias = np.asarray(blob[10:20].gpu)
    assert ranges(blob) == [(10, 20)]
    with pytest.raises(BufferError, match=r"bytes 40 to 80 .* NumPy alias .*test_win.* Blob$"):
        blob[15:30].gpu_data()
    alias[...] = -1
    assert blob[12:18].gpu_data().tolist() == [-1] * 6
    assert blob[30:40].gpu_data().tolist() == list(range(30, 40))
    del alias
    assert blob[15:30].gpu_data().tolist() == [-1] * 5 + list(range(20, 30))


@pytest.mark.usefixtures("small")
def test_an_alias_of_a_part_gets_a_window_if_one_of_another_part_has_one(limited):
    limited.capacity = 200
    blob = numbered()
    first = np.asarray(blob[10:20].gpu)
    limited.capacity = None
    second = np.asarray(blob[50:60].gpu)
    first[...], second[...] = -1, -2
    assert blob.tolist() == [*range(10), *[-1] * 10, *range(20, 50), *[-2] * 10, *range(60, 100)]


@pytest.mark.usefixtures("small")
def test_an_alias_elsewhere_leaves_an_access_its_own_window():
    blob = numbered()
    blob[:50].gpu_data()
    window = blob.memory.windows(Side.ACCELERATOR)[0]
    blob.memory.own_loans().lend(window.array, "test", Side.ACCELERATOR, 0, 200)
    # Most of the memory is asked for now, but not at the price of an error.
    assert blob[60:70].gpu_data().tolist() == list(range(60, 70))
    assert ranges(blob) == [(0, 50), (60, 70)]


@pytest.mark.usefixtures("small")
def test_what_a_window_holds_is_read_without_the_lock():
    part = numbered()[10:20]
    part.gpu_data(), part.gpu_data()
    with part.memory.lock:
        assert in_threads(part.gpu_data)[0].tolist() == [*range(10, 20)]


def numbered_and_part():
    """Return a Blob and a view of it whose window has been computed with, read and written."""
    blob = numbered()
    part = blob[10:20]
    part += 1
    part.gpu_data(), part.gpu_data()
    part[0] = part[0] * 2
    return blob, part


@pytest.mark.usefixtures("small")
def test_a_view_over_a_window_needs_no_lock_until_something_changes():
    _, part = numbered_and_part()
    with part.memory.lock:
        assert in_threads(lambda: (part + 1).sum().item()) == [176]
        assert in_threads(part.gpu_data)[0][3:5].tolist() == [14, 15]
    part[5] = 0
    with part.memory.lock:
        in_threads(lambda: part.__iadd__(1))
    assert part.on("cpu").tolist() == [23, 13, 14, 15, 16, 1, 18, 19, 20, 21]


@pytest.mark.usefixtures("small")
def test_a_view_follows_its_bytes_into_a_larger_window():
    blob, part = numbered_and_part()
    inner = part[2:4]
    blob[5:30] *= 10
    assert (part[:3] + 0).tolist() == [220, 120, 130]
    assert (inner + 0).tolist() == [130, 140]
    inner[0] = 5
    blob[:40].mutable_gpu_data()[13] = 6
    assert (inner.tolist(), blob[11:15].tolist()) == ([5, 6], [120, 5, 6, 150])


@pytest.mark.usefixtures("small")
def test_windows_that_views_have_used_are_freed_and_make_room(limited):
    blob, part = numbered_and_part()
    limited.capacity = 150
    # There is no room beside what the view has used, before it is let go of.
    other = blob[60:90]
    assert other.sum().item() == sum(range(60, 90))
    assert ranges(blob) == [(60, 90)]
    assert (part + 0).tolist()[:3] == [22, 12, 13]
    assert part.evict("gpu") == 40
    other.evict("gpu")
    assert limited.used_nbytes == 0


@pytest.mark.usefixtures("small")
def test_a_borrow_of_a_window_that_was_replaced_can_write_no_longer():
    blob = numbered()
    borrow, beside = blob[10:20].mutable_gpu_data(), blob[40:50].mutable_gpu_data()
    borrow[...] = 7
    blob[15:25].gpu_data()
    assert (borrow.flags.writeable, beside.flags.writeable) == (False, True)
    assert blob[10:20].tolist() == [7] * 10


@pytest.mark.usefixtures("small")
def test_what_leaves_the_host_gets_a_window(limited):
    values = np.arange(9000, dtype=np.int32)
    blob = Blob.from_source(9000, "int32", lambda: values.view(np.uint8), device=LIMITED)
    blob[10:20].mutable_cpu_data()[...] = 7
    blob.evict("cpu")
    assert (ranges(blob), limited.used_nbytes) == ([(10, 20)], 40)
    assert blob[5:25].tolist() == [*range(5, 10), *[7] * 10, *range(20, 25)]


@pytest.mark.usefixtures("small", "limited")
def test_nobody_writes_without_the_lock_what_is_leaving_the_host(monkeypatch):
    memory = numbered().memory
    memory.lend(Side.ACCELERATOR, CONST, Layout.raw(40), "use")
    memory.mutable_cpu_data()
    shortcut, found = memory.shortcut(Side.HOST, Layout.raw(400)), []
    assert shortcut.writable
    compare = Ledger.compare_watch

    def look(*args, **keywords):
        found.append(shortcut.writable)
        compare(*args, **keywords)

    monkeypatch.setattr(Ledger, "compare_watch", look)
    memory.evict(Side.HOST)
    assert found
    assert not any(found)


@pytest.mark.usefixtures("small")
def test_views_let_go_of_windows_that_were_replaced(limited):
    blob, part = numbered_and_part()
    blob[10:24].gpu_data()
    assert limited.used_nbytes == 14 * 4
    assert (part + 0).tolist()[:3] == [22, 12, 13]
    blob.set_gpu_data(np.zeros(100, np.int32))
    assert limited.used_nbytes == 0


@pytest.mark.usefixtures("small")
def test_a_policy_knows_when_windows_were_used(limited):
    limited.capacity = 130
    blobs = [numbered() for _ in range(5)]
    syncblob.set_eviction_policy(lambda window: window.age)
    try:
        for place in (0, 1, 2, 3, 1, 4):
            blobs[place][:10].gpu_data()
    finally:
        syncblob.set_eviction_policy(None)
    assert [ranges(blob) for blob in blobs] == [[], [(0, 10)], [], [(0, 10)], [(0, 10)]]


@pytest.mark.usefixtures("small")
def test_an_access_that_gets_no_window_leaves_exports_under_watch(limited):
    limited.capacity = 200
    blob = numbered()
    with syncblob.verified_const():
        export = blob.memory.export(Side.ACCELERATOR, CONST, blob[:10].layout, "use", "DLPack")
        alias = np.asarray(blob[12:20].gpu)
        with pytest.raises(BufferError, match="NumPy alias"):
            blob[5:15].gpu_data()
        export.flags.writeable = True
        export[0] = 9
        with pytest.warns(syncblob.ConstWriteWarning):
            blob[:10].gpu_data()
    del alias


def writing(part, write):
    """Return a call that writes a view on the accelerator by a function."""
    place = part.memory, part.layout, Side.ACCELERATOR
    return partial(from_the_start, write_by, *place, "a write", write)


def during_a_write(part):
    """Let another thread write a view while a block runs."""
    return in_the_middle_of(lambda wait: writing(part, wait)())


def during_a_noted_write(part):
    """Let another thread seem to write a view without the lock while a block runs."""
    return patch.dict(WRITERS, {0: part.memory.shortcut(Side.ACCELERATOR, part.layout)})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("use", [during_a_write, during_a_noted_write])
@pytest.mark.parametrize("used", [False, True])
def test_what_another_thread_may_be_writing_keeps_its_window(use, used):
    blob, other = numbered(), numbered()
    part = blob[:50]
    part.gpu_data(), other.gpu_data()
    with use(part if used else other):
        assert blob[60:70].gpu_data().tolist() == list(range(60, 70))
        blob[80:90].async_gpu_push()
        # Neither copy is trusted to have all of the write.
        assert (blob[60:70].head is blob[80:90].head is Head.HEAD_AT_CPU) is used
    assert ranges(blob) == ([(0, 50), (60, 70)] if used else [(0, 100)])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("read", [lambda x: x.gpu_data().tolist(), lambda x: (x + 0).tolist()])
def test_a_window_is_not_replaced_while_another_thread_writes_into_it(read):
    blob = numbered()
    part, began = blob[:50], threading.Event()
    part.gpu_data()

    def write(array):
        began.set()
        # Time for the other thread to come as far as it can.
        time.sleep(0.1)
        array[...] = -1

    def read_everything():
        assert began.wait(20)
        return read(blob)

    _, found = in_threads(writing(part, write), read_everything)
    assert found == blob.tolist() == [-1] * 50 + list(range(50, 100))


@pytest.mark.usefixtures("small")
def test_nobody_waits_forever_for_a_write(monkeypatch):
    monkeypatch.setattr(room, "PATIENCE", 0.02)
    blob = numbered()
    part = blob[:50]
    part.gpu_data()
    with during_a_write(part), pytest.raises(MemoryError, match="another thread is using"):
        blob.gpu_data()
    assert blob.gpu_data().tolist() == list(range(100))


REMEDY = (
    r"bytes 200 to 240 .* cannot leave simulated:\d, because of a NumPy alias .*; delete the "
    r"alias, or use a copy, as of blob\.copy\(\), which can leave$"
)


@pytest.mark.usefixtures("small")
def test_an_eviction_that_an_alias_refuses_ends_no_borrow(limited):
    limited.capacity = 100
    blob = numbered()
    borrow, alias = blob[:10].mutable_gpu_data(), np.asarray(blob[50:60].gpu)
    with pytest.raises(BufferError, match=REMEDY):
        blob.evict("gpu")
    assert limited.downloaded_bytes == 0
    borrow[...] = alias[...] = 7
    assert blob.tolist()[:12] == [7] * 10 + [10, 11]


@pytest.mark.timeout(20)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("has_source", [False, True])
def test_what_leaves_the_host_makes_no_room_for_the_rest_of_it(limited, has_source):
    def source():
        return np.arange(100, dtype=np.int32).view(np.uint8)

    # It is gone when the eviction asks for it.
    source.again = lambda: None
    blob = Blob.from_source(100, "int32", source, device=LIMITED) if has_source else numbered()
    blob.cpu_data()
    blob[30:40].gpu_data()
    limited.capacity = 300
    with pytest.raises(MemoryError, match="evict needs 400 B"):
        blob.evict("cpu")
    assert ranges(blob) == [(30, 40)]
    limited.capacity = None
    assert blob.evict("cpu") == blob.nbytes
    assert blob.gpu_data().tolist() == list(range(100))


@pytest.mark.usefixtures("small")
def test_the_parts_of_a_walk_fit_on_a_small_device(limited):
    blob, limited.capacity = numbered(), 160
    assert sum(part.sum().item() for part in blob.parts()) == 4950
    assert [part.nbytes for part in blob.parts()] == [32] * 12 + [16]


@pytest.mark.usefixtures("small")
def test_a_walk_waits_for_no_other_thread_to_bring_its_next_part(limited, monkeypatch):
    monkeypatch.setattr(room, "_take_turn", None)
    blob, other = numbered(), numbered(10)
    other.gpu_data()
    with during_a_write(other):
        # There is no room for two parts, as long as that thread writes.
        limited.capacity = 300
        assert [part.sum().item() for part in blob.parts(nbytes=200)] == [1225, 3725]


@pytest.mark.usefixtures("small")
def test_a_walk_leaves_what_an_alias_needs_without_an_error(limited, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    blob, limited.capacity = numbered(), 300
    walk = blob.parts(nbytes=40)
    alias = np.asarray(next(walk).gpu)
    del walk
    assert not raised
    assert ranges(blob) == [(0, 10)]
    walk = blob.parts(nbytes=40)
    next(walk)
    with pytest.raises(ZeroDivisionError):
        walk.throw(ZeroDivisionError)
    walk = blob.parts(nbytes=40)
    assert [part.tolist()[0] for part in walk] == [*range(0, 100, 10)]
    assert alias.tolist() == list(range(10))


@pytest.mark.usefixtures("small")
def test_windows_that_another_thread_uses_are_not_evicted_by_hand():
    part = numbered()[:50]
    part.gpu_data()
    with during_a_write(part), pytest.raises(BufferError, match="another thread"):
        part.evict("gpu")
    assert part.evict("gpu") == part.nbytes


@pytest.mark.usefixtures("small")
def test_a_walk_leaves_what_another_thread_uses(limited):
    blob = numbered()
    blob[50:].gpu_data()
    with during_a_write(blob[50:]):
        assert [part.sum().item() for part in blob[:50].parts(nbytes=100)] == [300, 925]
    # It is evicted when room is needed.
    limited.capacity = limited.used_nbytes
    assert numbered(25).sum().item() == 300


@pytest.mark.usefixtures("small")
def test_a_blob_made_smaller_has_a_window_of_its_bytes():
    blob = numbered()
    blob.resize(50)
    blob.mutable_gpu_data()[40:] = -1
    assert ranges(blob) == [(0, 50)]
    blob.resize(60)
    assert blob.tolist() == list(range(40)) + [-1] * 10 + list(range(50, 60))
    assert blob[45:55].gpu_data().tolist() == [-1] * 5 + list(range(50, 55))


@pytest.mark.usefixtures("small")
def test_a_view_among_the_results_is_a_view_of_the_blob():
    blob = numbered()
    part = blob[10:20].on(LIMITED)
    part.sum()
    result = np.broadcast_to(part, (2, 10))
    blob[10:20] += 1
    assert result.tolist() == [list(range(11, 21))] * 2


@pytest.mark.usefixtures("small")
def test_what_two_windows_hold_is_gathered_and_downloaded(limited):
    blob = numbered(60)
    for start in (10, 15):
        blob[start : start + 5].mutable_gpu_data()[...] += 100
    limited.reset_counts()
    assert blob[8:22:3].tolist() == [8, 111, 114, 117, 20]
    assert limited.downloaded_bytes == 3 * 4
    assert blob[10:20:4].tolist() == [110, 114, 118]
    for side in Side:
        copy = blob.memory.gather(side, blob[10:20].layout, "test")
        assert copy.tolist() == [*range(110, 120)]
    limited.reset_counts()
    assert blob.cpu_data()[8:22].tolist() == [8, 9, *range(110, 120), 20, 21]
    assert (limited.downloaded_bytes, limited.downloads) == (40, 2)
    # What the host holds is not divided where windows begin that lack it.
    blob.mutable_cpu_data()
    blob.memory.gather(Side.ACCELERATOR, blob[10:20:4].layout, "test")
    assert limited.uploads == 1


@pytest.mark.usefixtures("small")
def test_another_accelerator_copies_what_a_window_holds(limited):
    limited.capacity = 300
    blob = numbered()
    alias = np.asarray(blob[10:20].gpu)
    alias[...] = 7
    with syncblob.record_transfers() as log:
        assert blob.on("simulated:0")[12:18].gpu_data().tolist() == [7] * 6
    [one] = log
    assert (one.direction, one.nbytes, one.offset, one.reason) == ("peer", 24, 48, "gpu_data")
    assert one.because.startswith("a NumPy alias of the accelerator side, created at")


REACHES = st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda pair: (pair[0], sum(pair)))


@given(st.sets(st.integers(0, 60)), REACHES)
def test_a_window_is_found_as_in_a_list(ends, reach):
    start, stop = reach
    windows = tuple(Window(*ends, None) for ends in list(itertools.pairwise(sorted(ends)))[::2])
    held = [each for each in windows if each.start <= start and stop <= each.stop]
    assert [find_window(windows, start, stop)] == (held or [None])


@pytest.mark.usefixtures("small", "limited")
def test_making_a_window_takes_no_more_steps_if_there_are_many():
    blob = Blob((4000, 8), device=LIMITED)
    blob.mutable_cpu_data()
    steps = []
    for row in range(0, 4000, 10):
        part = blob[row]
        steps.append(0)

        def count(*_):
            steps[-1] += 1

        sys.setprofile(count)
        try:
            part.gpu_data()
        finally:
            sys.setprofile(None)
    assert len(blob.memory.windows(Side.ACCELERATOR)) == 400
    assert max(steps[-20:]) < 2 * max(steps[10:30])


@pytest.mark.usefixtures("small")
def test_pushes_go_into_windows(limited):
    blob = numbered()
    limited.delay = 0.01
    blob[10:20].async_gpu_push()
    blob[30:40].prefetch()
    # This replaces a window that an upload is under way to.
    assert blob[15:25].gpu_data().tolist() == list(range(15, 25))
    assert blob[30:40].gpu_data().tolist() == list(range(30, 40))
    assert limited.uploaded_bytes == 25 * 4
    limited.delay = 0.0
    limited.capacity = 30
    with pytest.raises(MemoryError, match="async_gpu_push needs 40 B"):
        blob[60:70].async_gpu_push()


@pytest.mark.parametrize("reason", ["async_gpu_push", "prefetch", "evict", "gpu_data"])
def test_a_copy_that_makes_room_names_who_needs_it(limited, reason):
    limited.capacity = 400
    other, blob = numbered(), numbered()
    other.mutable_gpu_data()
    with syncblob.record_transfers() as log:
        getattr(blob, reason)(*["cpu"] * (reason == "evict"))
    assert log[0].reason == f"eviction for {reason}"
    assert other.head is Head.HEAD_AT_CPU


@pytest.mark.usefixtures("small")
def test_two_results_in_parts_of_one_blob_are_both_written():
    numbers, blob = numbered(), Blob(100, "int32", device=LIMITED)
    # The window of the second result replaces that of the first.
    np.divmod(numbers[:40], 7, out=(blob[:40], blob[40:80]), where=numbers[:40] > 4)
    expected = np.zeros(100, np.int32)
    expected[5:40], expected[45:80] = divmod(np.arange(5, 40), 7)
    assert blob.tolist() == expected.tolist()


@pytest.mark.parametrize("write", ["+=", "mask"])
def test_a_window_that_another_thread_evicts_before_there_is_an_array_over_it(write):
    count, threads = 400_000, []
    with syncblob.set_memory_limit("simulated:0", count * 4):
        blob, other = (Blob(count, device="simulated:0") for _ in range(2))
        for each in (blob, other):
            each.overwrite_cpu_data()[...] = 0
        view = blob[:1000]
        view.gpu_data()
        mask = np.arange(1000) > -1

        def use():
            with suppress(MemoryError):
                other.gpu_data()

        def evict_after_an_access(frame, event, _):
            code = frame.f_code.co_name, frame.f_back.f_code.co_name
            if event == "return" and code[0] == "acquire" != code[1]:
                sys.setprofile(None)
                thread = threading.Thread(target=use)
                threads.append(thread)
                thread.start()
                thread.join(0.2)

        sys.setprofile(evict_after_an_access)
        if write == "+=":
            view += 1
        else:
            view[mask] = 1
        sys.setprofile(None)
        for thread in threads:
            thread.join()
        assert len(threads) == 1
        assert (np.array(view) == 1).all()


@pytest.mark.usefixtures("limited", "small")
@pytest.mark.parametrize("reach", [(0, 100), (35, 60), (10, 45)])
def test_a_window_that_a_signal_handler_makes_before_another_one(monkeypatch, reach):
    blob = numbered()
    original = windows.commit

    def interrupted(*args, **keywords):
        monkeypatch.setattr(windows, "commit", original)
        blob[slice(*reach)].mutable_gpu_data()[...] = -1
        return original(*args, **keywords)

    monkeypatch.setattr(windows, "commit", interrupted)
    assert blob[30:40].gpu_data().tolist() == [
        -1 if reach[0] <= i < reach[1] else i for i in range(30, 40)
    ]
    assert len(ranges(blob)) == 1
    assert blob.tolist() == [-1 if reach[0] <= i < reach[1] else i for i in range(100)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "write",
    [
        lambda view: np.clip(view, 50, 60, out=view),
        lambda view: view.__setitem__(np.arange(10) > -1, 50),
        lambda view: view.scale_data(3),
        lambda view: view.sort(),
    ],
)
def test_a_signal_handler_that_gets_a_larger_window_before_a_write(limited, monkeypatch, write):
    blob = numbered()
    blob[10:20].on("cpu")[...] = np.arange(10, 0, -1)
    expected = Blob(10, "int32")
    expected[...] = np.arange(10, 0, -1)
    write(expected)
    blob[10:20].gpu_data()
    compute = limited.compute

    def interrupted(*args, **keywords):
        monkeypatch.setattr(limited, "compute", compute)
        blob[:40].gpu_data()
        return compute(*args, **keywords)

    monkeypatch.setattr(limited, "compute", interrupted)
    write(blob[10:20])
    assert limited.compute is compute
    assert blob[10:20].tolist() == expected.tolist()
    assert ranges(blob) == [(0, 40)]


@pytest.mark.usefixtures("small")
def test_an_alias_is_refused_in_the_midst_of_the_transfer_of_another_window(limited, monkeypatch):
    blob, upload = numbered(), limited.upload

    def interrupted(*arrays):
        monkeypatch.setattr(limited, "upload", upload)
        upload(*arrays)
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            np.asarray(blob[60:70].gpu)[...] = -1

    monkeypatch.setattr(limited, "upload", interrupted)
    blob[30:40].mutable_gpu_data()[...] = 0
    assert limited.upload is not interrupted
    assert ranges(blob) == [(30, 40)]
    assert blob.tolist() == [0 if 30 <= i < 40 else i for i in range(100)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "use", [lambda blob: blob[15:25].gpu_data(), lambda blob: blob.evict("gpu")]
)
def test_what_uses_a_window_is_waited_for_before_another_takes_its_place(limited, monkeypatch, use):
    blob, _ = numbered_and_part()
    (window,), settled = blob.memory.windows(Side.ACCELERATOR), []
    monkeypatch.setattr(limited, "settle", settled.append)
    use(blob)
    assert window.array in settled
    assert window not in blob.memory.windows(Side.ACCELERATOR)
