"""Asynchronous uploads: what ends with them, what waits for them, and accesses during them."""

import gc
import signal
import sysconfig
import weakref
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

import numpy as np
import pytest
from in_threads import in_threads
from interrupt_points import at_each_place
from made_blobs import filled, memory_on

import syncblob
from syncblob import Blob, Head, SyncedMemory, record_transfers, verified_const
from syncblob._layout import Layout
from syncblob.devices import Side, simulation
from syncblob.memory import Access
from syncblob.memory.accesses import expose
from syncblob.memory.changes import SMALL
from syncblob.memory.state_machine import Spans

NBYTES = 64


at_cpu = partial(memory_on, Side.HOST, 7, NBYTES)


@contextmanager
def during(simulated, operation, use):
    """Call a function during every transfer of one kind, on the thread of the transfer."""
    real = getattr(simulated, operation)
    done = []

    def disturbed(*args):
        result = real(*args)
        use()
        done.append(True)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, operation, disturbed)
        yield done


def test_a_push_of_no_bytes_ends_borrows_too():
    memory = SyncedMemory(0, device="simulated")
    borrow = memory.mutable_cpu_data()
    with record_transfers() as log:
        memory.async_gpu_push()
    assert (memory.head, memory.spans.uniform) == (Head.SYNCED, Head.SYNCED)
    assert not borrow.flags.writeable
    assert len(log) == 0


def test_a_push_of_an_empty_view_does_nothing():
    blob = Blob((2, 3), device="simulated")
    blob[...] = 1
    blob[2:].mutable_cpu_data()
    with record_transfers() as log:
        blob[2:].async_gpu_push()
    assert (len(log), blob.head) == (0, Head.HEAD_AT_GPU)


def test_what_had_begun_of_a_push_that_fails_does_not_arrive_later(simulated, monkeypatch):
    memory = at_cpu()
    # Both sides hold the middle, so two pieces are missing.
    memory.array(Side.ACCELERATOR, Access.CONST, Layout.raw(8, 16), "use")
    real, calls = simulated.push, []

    def fails_at_the_second(host, buffer, stream):
        calls.append(stream)
        if len(calls) == 2:
            raise RuntimeError("injected")
        return real(host, buffer, stream)

    with monkeypatch.context() as patch:
        patch.setattr(simulated, "push", fails_at_the_second)
        with pytest.raises(RuntimeError, match="injected"):
            memory.async_gpu_push(simulated.stream(delay=0.2))
    memory.overwrite_gpu_data()[:] = 5
    calls[0].synchronize()
    assert memory.gpu_data().tolist() == [5] * NBYTES


def test_a_failed_push_gives_borrows_back_their_right_to_write(simulated):
    memory = at_cpu()
    borrow = memory.mutable_cpu_data()
    with simulated.failing(allocation=1), pytest.raises(MemoryError):
        memory.async_gpu_push()
    with pytest.raises(TypeError, match="stream"):
        memory.async_gpu_push(stream="none such")
    assert memory.head is Head.HEAD_AT_CPU
    borrow[0] = 5
    assert memory.gpu_data()[0] == 5


@pytest.mark.parametrize("aliased", [False, True])
@pytest.mark.parametrize("access", ["mutable_cpu_data", "overwrite_cpu_data", "gpu_data"])
def test_who_may_write_on_the_host_waits_for_the_upload(access, aliased, held):
    memory = at_cpu()
    if aliased:
        expose(memory, Side.HOST)
    memory.async_gpu_push()
    assert held.uploads == 0
    getattr(memory, access)()
    assert held.uploads == (2 if aliased and access == "gpu_data" else 1)


@pytest.mark.usefixtures("held")
def test_a_read_on_the_host_waits_for_a_download_behind_an_upload():
    memory = memory_on(Side.HOST, 1, 2 * SMALL)
    memory.lend(Side.ACCELERATOR, Access.OVERWRITE, Layout.raw(SMALL, SMALL), "use")[:] = 2
    memory.async_gpu_push(None, 0, SMALL)
    memory.prefetch(Side.HOST, SMALL, 2 * SMALL)
    assert len(memory.uploads) == 2
    assert memory.cpu_data().tolist() == [1] * SMALL + [2] * SMALL


def test_what_an_alias_may_write_during_a_push_to_it_is_copied_again():
    memory = at_cpu()
    use = Side.ACCELERATOR, Access.MUTABLE, Layout.raw(8, 16), "use", "DLPack"
    alias = memory.export(*use)
    with pytest.warns(syncblob.StaleAliasWarning):
        memory.mutable_cpu_data()[:] = 5
    memory.async_gpu_push()
    alias[:] = 9
    assert memory.spans.head(16, 24) is Head.HEAD_AT_CPU
    assert memory.spans.head(24, NBYTES) is Head.SYNCED
    assert memory.gpu_data().tolist() == [5] * NBYTES


def test_who_exposes_the_host_does_not_wait_for_the_upload(held):
    memory = at_cpu()
    memory.async_gpu_push()
    expose(memory, Side.HOST)
    assert (held.uploads, memory.head) == (0, Head.HEAD_AT_CPU)


def test_once_it_has_arrived_nobody_waits_any_more():
    memory = at_cpu()
    memory.async_gpu_push()
    memory.gpu_data()
    with memory.lock:
        assert in_threads(lambda: memory.gpu_data()[0]) == [7]


def test_a_push_waits_for_the_one_before(simulated):
    memory = at_cpu()
    expose(memory, Side.HOST)
    slow, fast = simulated.stream(delay=0.05), simulated.stream(delay=0.0)
    memory.async_gpu_push(slow)
    assert memory.head is Head.HEAD_AT_CPU
    memory.async_gpu_push(fast)
    memory.mutable_gpu_data()[:] = 9
    slow.synchronize()
    assert memory.cpu_data().tolist() == [9] * NBYTES


@pytest.mark.parametrize("pushed", [1, NBYTES])
@pytest.mark.parametrize("adopt", ["set_cpu_data", "set_gpu_data"])
def test_an_adoption_waits_for_uploads_from_and_into_what_it_replaces(held, adopt, pushed):
    memory = at_cpu()
    memory.async_gpu_push(None, 0, pushed)
    getattr(memory, adopt)(np.full(NBYTES, 3, np.uint8))
    assert held.uploads == 1


def test_a_second_prefetch_does_not_wait_for_the_first(held):
    memory = at_cpu()
    for _ in range(2):
        memory.prefetch(Side.ACCELERATOR, 0, NBYTES)
    assert held.uploads == 0
    assert memory.gpu_data().tolist() == [7] * NBYTES


def test_nothing_comes_between_a_push_and_its_start(simulated):
    memory = at_cpu()

    def use():
        assert memory.cpu_data().tolist() == [7] * NBYTES
        for disturbance in (
            memory.mutable_cpu_data,
            memory.gpu_data,
            lambda: memory.set_cpu_data(np.zeros(NBYTES, np.uint8)),
        ):
            with pytest.raises(RuntimeError) as caught:
                disturbance()
            assert str(caught.value) == (
                "this memory is in the middle of a transfer, and was used from a finaliser or a "
                "signal handler meanwhile; use the Blob outside of them"
            )
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            memory.async_gpu_push()
        shortcut = memory.shortcut(Side.HOST, Layout.raw(NBYTES))
        assert not shortcut.readable

    with during(simulated, "push", use) as done:
        memory.async_gpu_push()
    assert done == [True]
    assert memory.gpu_data().tolist() == [7] * NBYTES
    memory.mutable_cpu_data()


def test_a_side_under_watch_can_be_read_while_the_other_is_filled(simulated):
    blob = Blob(4, device="simulated")
    blob.mutable_gpu_data()[...] = 8
    with verified_const():
        export = np.asarray(blob.gpu.const)

        def use():
            assert blob.gpu_data().tolist() == [8] * 4

        with during(simulated, "download", use) as done:
            assert blob.cpu_data().tolist() == export.tolist()
    assert done == [True]


def test_a_borrow_that_its_owner_made_read_only_stays_so(simulated):
    memory = at_cpu()
    borrow = memory.mutable_cpu_data()
    borrow.flags.writeable = False
    with simulated.failing(transfer=1), pytest.raises(RuntimeError, match="injected"):
        memory.gpu_data()
    assert not borrow.flags.writeable


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("interruption", [TimeoutError, KeyboardInterrupt])
@pytest.mark.parametrize("access", ["gpu_data", "mutable_gpu_data", "mutable_cpu_data"])
def test_a_wait_that_a_signal_has_ended_is_waited_for_again(simulated, gate, access, interruption):
    def interrupt(*_):
        raise interruption

    blob = filled(1, 3, "int32")
    blob.async_gpu_push()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        # Again later, because Python drops an error that is raised in a finaliser.
        signal.setitimer(signal.ITIMER_REAL, 0.02, 1)
        with pytest.raises(interruption):
            getattr(blob, access)()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gate.set()
    assert blob.head is Head.SYNCED
    assert blob.gpu_data().tolist() == [1, 1, 1]
    blob.mutable_gpu_data()[...] = 7
    simulated.synchronize()
    assert blob.gpu_data().tolist() == blob.cpu_data().tolist() == [7, 7, 7]


def test_waiting_for_a_stream_that_has_nothing_to_do_takes_no_delay(simulated):
    stream = simulated.stream(delay=1000)
    stream.synchronize()
    simulated.synchronize()


def test_a_push_that_failed_keeps_nothing_alive(simulated):
    gc.collect()
    gc.disable()
    try:
        blob = filled(1, 3, "int32")
        with simulated.failing(transfer=1):
            blob.async_gpu_push()
            with suppress(RuntimeError):
                blob.gpu_data()
        gone = weakref.ref(blob.memory)
        del blob
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            # The error is of the stream's thread, which waits. What ends there ends only now.
            gc.collect()
        assert gone() is None
    finally:
        gc.enable()


def failed(push):
    with syncblob.simulated().failing(transfer=1):
        push()
        with suppress(RuntimeError):
            syncblob.simulated().synchronize()


def test_a_copy_that_meets_a_failed_push_leaves_the_host_with_the_newest():
    blob = filled(5, 8)
    blob.resize(4)
    failed(blob.async_gpu_push)
    other = Blob(8, device="simulated")
    with pytest.raises(RuntimeError, match="injected failure"):
        blob.copy_from(other, resize=True)
    assert blob.head is Head.HEAD_AT_CPU
    assert blob.gpu_data().tolist() == [5] * 4


def test_what_a_signal_handler_writes_while_a_failed_push_is_noted_is_kept(monkeypatch):
    memory, changed = at_cpu(), Spans.changed
    failed(partial(memory.async_gpu_push, None, 0, 8))

    def interrupted(*args):
        monkeypatch.undo()
        memory.lend(Side.ACCELERATOR, Access.OVERWRITE, Layout.raw(8, 16), "use")[:] = 1
        return changed(*args)

    monkeypatch.setattr(Spans, "changed", interrupted)
    with pytest.raises(RuntimeError, match="injected failure"):
        memory.mutable_cpu_data()
    assert Spans.changed is changed
    assert memory.cpu_data().tolist() == [7] * 16 + [1] * 8 + [7] * (NBYTES - 24)


def test_nothing_is_usable_if_a_signal_handler_learns_meanwhile_that_a_push_has_failed(monkeypatch):
    memory, common = at_cpu(), Spans.common
    failed(memory.async_gpu_push)

    def interrupted(*args):
        found = common(*args)
        monkeypatch.undo()
        with pytest.raises(RuntimeError, match="injected failure"):
            memory.gpu_data()
        return found

    monkeypatch.setattr(Spans, "common", interrupted)
    assert not memory.shortcut(Side.ACCELERATOR, Layout.raw(NBYTES)).readable
    assert Spans.common is common


@pytest.mark.parametrize("fails", [False, True])
def test_who_finishes_a_write_on_the_accelerator_waits_for_what_is_on_its_way(simulated, fails):
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.mutable_gpu_data()[:] = 1
    memory.lend(Side.HOST, Access.OVERWRITE, Layout.raw(8, 8), "use")[:] = 7
    memory.cpu_data()
    with simulated.failing(transfer=1) if fails else nullcontext():
        memory.async_gpu_push(simulated.stream(delay=0.1), 8, 16)
        with pytest.raises(RuntimeError, match="injected") if fails else nullcontext():
            memory.finish_write(Side.ACCELERATOR, Layout.raw(NBYTES), "a write")
    assert memory.spans.head(0, 8) is Head.HEAD_AT_GPU
    assert memory.spans.head(8, 16) is (Head.HEAD_AT_CPU if fails else Head.HEAD_AT_GPU)
    expected = [1] * 8 + [7] * 8 + [1] * (NBYTES - 16)
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == expected


def test_what_has_arrived_when_a_write_of_a_part_ends_is_stale_there(simulated):
    blob = Blob(NBYTES, "uint8", device="simulated")
    blob.cpu_data()
    blob.mutable_gpu_data()[...] = 1
    blob.prefetch("cpu")
    simulated.synchronize()
    # The prefetch may be that of another thread, while the function writes.
    blob.memory.buffer(Side.ACCELERATOR)[:8] = 2
    blob.memory.finish_write(Side.ACCELERATOR, Layout.raw(8), "a write")
    assert blob.cpu_data().tolist() == [2] * 8 + [1] * (NBYTES - 8)


@pytest.mark.parametrize("start", ["gpu_data", "prefetch", "async_gpu_push"])
def test_what_a_push_has_moved_was_not_avoided(start):
    blob = Blob(4, device="simulated")
    blob.gpu_data()
    blob.mutable_cpu_data()
    with syncblob.record_transfers() as log:
        blob.mutable_cpu_data()[...] = 1
        getattr(blob, start)()
        blob.gpu_data()
    assert (log.nbytes, log.avoided) == (16, 0)


def test_a_read_of_a_part_on_the_host_waits_for_no_upload(held):
    memory = at_cpu()
    memory.lend(Side.ACCELERATOR, Access.MUTABLE, Layout.raw(8, 8), "use")
    assert memory.head is Head.SPLIT
    memory.async_gpu_push(held.stream(), 4, 8)
    # The last part must be downloaded.
    for layout in (Layout.raw(8), Layout.raw(12, 4)):
        assert memory.lend(Side.HOST, Access.CONST, layout, "use").shape
        assert len(memory.uploads) == 1
    # The bytes before and after those of the upload.
    for layout in (Layout.raw(4), Layout.raw(4, 8)):
        memory.lend(Side.HOST, Access.MUTABLE, layout, "use")
        assert len(memory.uploads) == 1
    memory.lend(Side.HOST, Access.MUTABLE, Layout.raw(4, 4), "use")
    assert not memory.uploads


@pytest.mark.parametrize("first", [0, 16])
def test_a_use_on_the_accelerator_comes_after_each_upload_of_its_range(held, monkeypatch, first):
    memory = at_cpu()
    stream = held.stream()
    for start in (0, 16):
        memory.async_gpu_push(stream, start, start + 8)
    uploads, ordered = memory.uploads, []

    def order(push):
        ordered.append(push)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(type(uploads[0].begun[0]), "order", order)
        memory.lend(Side.ACCELERATOR, Access.CONST, Layout.raw(24 - first, first), "use")
    expected = {id(upload.begun[0]) for upload in uploads if upload.start >= first}
    assert {id(push) for push in ordered} == expected
    # Neither has finished.
    assert memory.uploads == uploads


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("use", ["gpu_data", "mutable_cpu_data"])
def test_a_push_is_waited_for_once(simulated, monkeypatch, use, fails):
    """Also one of a backend that cannot tell whether it has arrived."""
    monkeypatch.setattr(simulation._Work, "arrived", False)
    memory = at_cpu()
    with simulated.failing(transfer=1) if fails else nullcontext():
        memory.async_gpu_push(simulated.stream(delay=0.02))
        with pytest.raises(RuntimeError, match="injected failure") if fails else nullcontext():
            getattr(memory, use)()
    assert memory.uploads == ()
    assert memory.head is (Head.SYNCED if use == "gpu_data" and not fails else Head.HEAD_AT_CPU)


@pytest.mark.parametrize("there", ["cpu", "simulated:0"])
@at_each_place
def test_a_copy_into_which_a_handler_comes_that_writes_elsewhere_loses_nothing(meanwhile, there):
    blob = Blob(16, device="simulated:0")
    blob.on("simulated:1").gpu_data()
    blob.on(there)[...] = 1
    newest = [1]

    def handle():
        with suppress(RuntimeError):
            blob.on("simulated:1")[...] = 2
            newest[0] = 2

    def copy():
        # It refuses if what it began to copy is old.
        with suppress(RuntimeError):
            blob.prefetch("cpu" if there != "cpu" else None)

    meanwhile(copy, handle)
    for device in ("cpu", "simulated:0", "simulated:1"):
        assert np.asarray(blob.on(device).on("cpu")).tolist() == newest * 16
