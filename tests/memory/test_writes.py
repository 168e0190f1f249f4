"""Writes made in one step: their copies, their warnings, and the newest contents afterwards."""

import inspect
import operator
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

import numpy as np
import pytest
from made_blobs import filled, memory_on

import syncblob
from syncblob import (
    Blob,
    Head,
    StaleAliasWarning,
    SyncedMemory,
    compute_only_on,
    record_transfers,
    use_device,
    verified_const,
)
from syncblob._layout import Layout
from syncblob.calls.results import array_beside
from syncblob.devices import Side
from syncblob.devices.base import make_calls
from syncblob.devices.host import NumpyHome
from syncblob.memory import Access, acquire, changes, windows
from syncblob.memory.buffers import Buffers

# They count the bytes of parts of small memories.
pytestmark = pytest.mark.usefixtures("exact_parts")

NBYTES = 8
at = partial(memory_on, nbytes=NBYTES)
PART = Layout.raw(4, 2)


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (1, r"a DLPack alias [^;]*\]\. .* them .* they .* Delete them .* new ones afterwards"),
        (3, r"a [^;]*; a [^;]*; a [^;]*\]\. "),
        (5, r"a [^;]*; [^;]*; [^;]*; and 2 more\. "),
    ],
)
def test_a_warning_names_three_aliases(count, names):
    memory = at(Side.HOST)
    use = Side.HOST, Access.MUTABLE, PART, "use", "DLPack"
    aliases = [memory.export(*use) for _ in range(count)]
    with pytest.warns(StaleAliasWarning, match=f"^mutable_gpu_data makes aliases stale: {names}"):
        memory.mutable_gpu_data()
    del aliases


# --- signal handlers between a check and the action that follows ----------------------------------


@contextmanager
def at_the_start_of(function, handler, event="call"):
    """Call a handler at the start of a function, once: CPython runs signal handlers there.

    It also does after calls: at the "return".
    """
    file = inspect.unwrap(function).__code__.co_filename

    def profile(frame, now, _):
        code = frame.f_code
        # Mutation testing runs a copy, such as `x_take__mutmut_1`.
        name = code.co_name.partition("__mutmut_")[0].removeprefix("x_").rpartition("ǁ")[2]
        if now == event and code.co_filename == file and name == function.__name__:
            sys.setprofile(None)
            handler()

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(
    ("function", "rows"),
    [(changes.commit, slice(1, 4)), (acquire, slice(4)), (changes.commit, slice(4))],
)
def test_what_a_handler_writes_before_a_copy_is_not_overwritten_by_it(function, rows):
    blob = Blob(4, device="simulated")
    blob[...] = 1

    def handler():
        blob.mutable_cpu_data()[...] = 5

    with at_the_start_of(function, handler):
        read = blob[rows].cpu_data()
    assert read.tolist() == blob[rows].tolist() == [5] * len(read)


def test_a_push_of_a_handler_does_not_arrive_after_what_is_written_then(simulated):
    blob = filled(1, 4)
    stream = simulated.stream(delay=0.1)
    with at_the_start_of(changes.commit, lambda: blob.async_gpu_push(stream)):
        blob[:].mutable_gpu_data()[...] = 9
    stream.synchronize()
    assert blob.gpu_data().tolist() == [9] * 4


def test_a_read_sees_what_a_handler_has_pushed(simulated):
    blob = filled(1, 4)
    stream = simulated.stream(delay=0.1)
    with at_the_start_of(changes.commit, lambda: blob.async_gpu_push(stream)):
        assert blob[:].gpu_data().tolist() == [1] * 4


@pytest.mark.parametrize("use", ["mutable_gpu_data", "gpu_data", "overwrite_gpu_data"])
@pytest.mark.parametrize("function", [changes.commit, NumpyHome.compute])
def test_an_assignment_counts_whatever_a_handler_takes_in_its_midst(function, use):
    blob = Blob(4, device="simulated")
    blob[...] = 1
    blob.cpu_data()
    with at_the_start_of(function, getattr(blob, use)):
        blob.on("cpu")[...] = np.full(4, 5, np.float32)
    assert blob.tolist() == blob.gpu_data().tolist() == [5] * 4


@pytest.mark.parametrize(("place", "stale"), [(1, False), (2, True), (5, True), (6, False)])
@pytest.mark.parametrize("written", Side)
@pytest.mark.parametrize("aliased", Side)
def test_an_alias_that_a_handler_makes_after_the_check_is_warned_of(aliased, written, place, stale):
    memory, aliases = at(Side(1 - written)), []
    use = aliased, Access.MUTABLE, Layout.raw(1, place), "use", "DLPack"
    message = "^use makes aliases stale: a DLPack alias"
    warned = stale and aliased is not written
    with (
        at_the_start_of(changes.commit, lambda: aliases.append(memory.export(*use))),
        pytest.warns(StaleAliasWarning, match=message) if warned else nullcontext(),
    ):
        memory.lend(written, Access.MUTABLE, PART, "use")
    assert aliases[0].tolist() == [1]


@pytest.mark.parametrize("evicts", [False, True])
def test_a_write_counts_that_a_handler_comes_before(evicts):
    memory = at(Side.ACCELERATOR)
    memory.cpu_data()

    def handler():
        if evicts:
            memory.evict(Side.ACCELERATOR)
            memory.gpu_data()
        memory.cpu_data()

    with at_the_start_of(changes.commit, handler, "return"):
        memory.write(Side.ACCELERATOR, Access.MUTABLE, PART, "a write", np.copyto, 5)
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == [1, 1, 5, 5, 5, 5, 1, 1]


@pytest.mark.parametrize("use", ["mutable_gpu_data", "overwrite_gpu_data"])
def test_an_assignment_that_begins_again_copies_no_more_and_keeps_its_reason(use):
    blob = Blob(4, device="simulated")
    blob.on("cpu")[...] = 1
    blob.mutable_gpu_data()
    blob.on("cpu")[...] = 2
    reason = blob.memory.history[-1].reason
    with record_transfers() as log, at_the_start_of(NumpyHome.view, getattr(blob, use)):
        blob.on("cpu")[...] = np.full(4, 5, np.float32)
    assert [entry.reason for entry in blob.memory.history][-2:] == [use, reason]
    assert log.nbytes == (16 if use == "mutable_gpu_data" else 0)
    assert blob.tolist() == [5] * 4


def test_an_output_whose_buffer_a_handler_has_evicted_gets_new_contents():
    blob = Blob((4, 3), device="simulated")
    blob.on("cpu")[...] = 1
    rows = blob[:2]
    rows.gpu_data()
    blob.on("cpu")[...] = 2
    blob.evict("gpu")
    array = array_beside(rows, blob.memory.home(Side.ACCELERATOR))
    assert (array.shape, array.dtype) == ((2, 3), np.float32)


def test_an_assignment_with_gaps_that_begins_again_is_made_again():
    blob = Blob(4, device="simulated")
    blob[...] = 1
    blob.cpu_data()
    view = blob.on("cpu")[::2]
    with at_the_start_of(NumpyHome.view, blob.mutable_gpu_data):
        view[...] = np.full(2, 5, np.float32)
    assert blob.tolist() == blob.gpu_data().tolist() == [5, 1, 5, 1]


@pytest.mark.parametrize("side", Side)
def test_a_handler_is_refused_in_the_midst_of_an_overwrite(side):
    memory = at(side)

    def fill(buffer, written):
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            memory.mutable_gpu_data()
        buffer.array[...] = 2
        written[0] = 1

    acquire(memory, Side.HOST, Access.OVERWRITE, Layout.raw(NBYTES), "use", fill)
    assert memory.gpu_data().tolist() == [2] * NBYTES


def test_a_handler_in_the_midst_of_a_write_reads_nothing_that_is_out_of_date():
    memory, found = at(Side.HOST, both_sides=True), []

    def fill(buffer, written):
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            memory.gpu_data()
        found.extend(memory.cpu_data())
        buffer.array[...] = 2
        written[0] = 1

    acquire(memory, Side.HOST, Access.MUTABLE, Layout.raw(NBYTES), "use", fill)
    assert (found, memory.gpu_data().tolist()) == ([1] * NBYTES, [2] * NBYTES)


@pytest.mark.parametrize("side", Side)
def test_a_write_of_no_elements_need_not_be_made_again(side):
    empty = np.empty(0, np.uint8)
    assert at(side).finish_write(side, Layout.raw(0), "use", empty)


def test_a_handler_in_the_midst_of_a_change_adds_no_accelerator():
    memory = SyncedMemory(NBYTES, device="cpu")
    memory.mutable_cpu_data()[:] = 1

    def handler():
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            memory.side_of(syncblob.simulated(1))

    with use_device("simulated:0"), at_the_start_of(Buffers.allocate, handler):
        memory.gpu_data()
    assert memory.accelerator.device == "simulated:0"
    assert memory.cpu_data().tolist() == [1] * NBYTES


@pytest.mark.filterwarnings("ignore:mutable_gpu_data makes aliases stale")
@pytest.mark.parametrize("aliased", [False, True])
def test_a_write_whose_buffer_a_handler_evicts_as_it_is_recorded_is_to_be_made_again(aliased):
    memory, layout, gpu = at(Side.HOST), Layout.raw(NBYTES), Side.ACCELERATOR
    alias = memory.export(Side.HOST, Access.MUTABLE, layout, "use", "DLPack") if aliased else None
    memory.mutable_gpu_data()
    array = memory.buffer(gpu)
    memory.cpu_data()
    array[:] = 7
    with at_the_start_of(changes.commit, lambda: memory.evict(gpu)):
        assert not memory.finish_write(gpu, layout, "a write", array)
    memory.gpu_data()
    memory.buffer(gpu)[:] = 7
    assert memory.finish_write(gpu, layout, "a write", memory.buffer(gpu))
    assert memory.cpu_data().tolist() == [7] * NBYTES
    del alias


@pytest.mark.parametrize(("way", "both"), [("lend", True), ("export", True), ("export", False)])
def test_an_eviction_in_whose_midst_a_handler_writes_fails_and_loses_nothing(way, both):
    memory, arrays = at(Side.ACCELERATOR), []
    if both:
        memory.cpu_data()

    def handler():
        what = ("DLPack",) * (way == "export")
        use = Side.ACCELERATOR, Access.MUTABLE, Layout.raw(NBYTES), "use", *what
        arrays.append(getattr(memory, way)(*use))
        arrays[0][:] = 7

    with (
        at_the_start_of(changes.commit, handler),
        pytest.raises(RuntimeError, match=r"^this memory .* used from a .*signal handler"),
    ):
        memory.evict(Side.ACCELERATOR)
    arrays[0][:] = 8
    assert memory.cpu_data().tolist() == [8] * NBYTES


def test_an_eviction_that_is_interrupted_trusts_no_copy_that_an_alias_may_write():
    memory = at(Side.HOST)
    alias = memory.export(Side.HOST, Access.MUTABLE, PART, "use", "DLPack")
    with pytest.warns(StaleAliasWarning):
        memory.mutable_gpu_data()[:] = 5

    def interrupt():
        raise KeyboardInterrupt

    with at_the_start_of(windows._plan_eviction, interrupt), pytest.raises(KeyboardInterrupt):
        memory.evict(Side.ACCELERATOR)
    alias[:] = 9
    assert memory.gpu_data().tolist() == memory.cpu_data().tolist() == [5, 5, 9, 9, 9, 9, 5, 5]


def test_an_export_of_what_is_evicted_is_watched_no_longer():
    memory = at(Side.ACCELERATOR)
    memory.cpu_data()
    with verified_const():
        export = memory.export(Side.ACCELERATOR, Access.CONST, PART, "use", "NumPy")
        memory.evict(Side.ACCELERATOR)
        assert memory.cpu_data().tolist() == [1] * NBYTES
        del export


@pytest.mark.parametrize("side", Side)
def test_what_a_write_has_written_when_it_fails_is_seen_on_both_sides(side):
    memory = at(side)
    memory.cpu_data(), memory.gpu_data()

    def fail(array):
        array[:2] = 5
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.write(side, Access.MUTABLE, PART, "a write", fail)
    assert memory.cpu_data().tolist() == memory.gpu_data().tolist() == [1, 1, 5, 5, 1, 1, 1, 1]


@pytest.mark.parametrize("both", [0, 2])
def test_an_interrupt_right_after_an_assignment_leaves_it_made(both, monkeypatch):
    blob = Blob(4, device="simulated")
    blob[...] = 1
    blob[:both].cpu_data()
    borrow = blob[both:].mutable_gpu_data()
    compute = NumpyHome.compute

    def interrupted(home, function, *args, **kwargs):
        result = compute(home, function, *args, **kwargs)
        if function is make_calls:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(NumpyHome, "compute", interrupted)
        # Beside a guard, operations are computed by the home.
        with compute_only_on("cpu"), pytest.raises(KeyboardInterrupt):
            blob.on("cpu")[...] = np.full(4, 5, np.float32)
    assert blob.head is Head.HEAD_AT_CPU
    assert not borrow.flags.writeable
    assert blob.tolist() == blob.gpu_data().tolist() == [5] * 4


def test_an_interrupt_right_after_a_guarded_assignment_of_a_number_leaves_it_made():
    blob = filled(1, 40)
    blob[:20].mutable_gpu_data()

    def interrupt(_frame, event, function):
        if event == "c_return" and function is operator.setitem:
            raise KeyboardInterrupt

    with verified_const():
        sys.setprofile(interrupt)
        with suppress(KeyboardInterrupt):
            blob[...] = 7
        sys.setprofile(None)
    assert set(blob.tolist()) in ({1}, {7})


def test_assigning_a_number_spares_aliases_and_uploads_of_other_elements(simulated):
    blob = Blob(2, device="simulated")
    blob[...] = 0
    alias = np.from_dlpack(blob[1].cpu)
    with pytest.warns(StaleAliasWarning):
        blob[1].mutable_gpu_data()[...] = 1
    blob[0] = 5  # a warning would be an error
    host = blob.on("cpu")
    alias = np.from_dlpack(host)
    blob[1].async_gpu_push(simulated.stream(delay=0.3))
    host[0] = 6
    assert not blob.memory.uploads[0].begun[0].over
    del alias
    assert blob.tolist() == [6, 1]


@pytest.mark.filterwarnings("ignore:.* makes aliases stale")
@pytest.mark.parametrize("side", Side)
def test_a_write_leaves_what_the_other_side_wrote_meanwhile_whatever_aliases_it_has(side):
    memory, other, layout = at(side), Side(1 - side), Layout.raw(NBYTES)
    alias = memory.export(side, Access.MUTABLE, layout, "use", "DLPack")
    memory.array(other, Access.MUTABLE, layout, "use")[:] = 2
    memory.array(side, Access.MUTABLE, layout, "use")[:] = 3
    memory.array(other, Access.MUTABLE, PART, "use")[:] = 4
    assert memory.finish_write(side, layout, "use")
    assert memory.array(side, Access.CONST, layout, "use").tolist() == [3, 3, 4, 4, 4, 4, 3, 3]
    del alias
