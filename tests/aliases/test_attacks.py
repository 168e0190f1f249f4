"""Programs that once lost a write, read an old value, hung or crashed."""

import os
import sys
import warnings

import numpy as np
import pytest
from interrupt_points import at_each_place
from other_processes import forked

from syncblob import Blob, Head, StaleAliasWarning, SyncedMemory, max_transfers, record_transfers
from syncblob.blob import core


def made(count=3):
    blob = Blob(count, "int32", device="simulated")
    blob.mutable_cpu_data()[...] = range(1, count + 1)
    return blob


def test_a_side_that_was_kept_is_that_of_the_memory_the_blob_has_now():
    blob = made()
    side = blob.cpu
    blob.share_data(made())
    np.asarray(side)[...] = 9
    assert blob.tolist() == [9, 9, 9]
    blob.resize(5)
    assert np.asarray(side).shape == (5,)


@pytest.mark.parametrize(
    "make",
    [lambda: Blob(3, device="simulated"), lambda: Blob(3, device="simulated") + 1],
    ids=["untouched", "result"],
)
@pytest.mark.parametrize("read", [np.asarray, Blob.gpu_data])
def test_a_signal_handler_may_write_while_the_memory_of_a_blob_is_made(make, read, monkeypatch):
    """The memory that the handler has made and written stays that of the Blob."""
    blob = make()
    handlers = [lambda: blob.on("cpu").__setitem__(..., 7)]

    class Interrupted(SyncedMemory):
        __slots__ = ()

        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            while handlers:
                handlers.pop()()

    monkeypatch.setattr(core, "SyncedMemory", Interrupted)
    assert read(blob).tolist() == [7, 7, 7]
    assert blob.cpu_data().tolist() == blob.gpu_data().tolist() == [7, 7, 7]


@pytest.mark.parametrize("counting", ["_count", "add", "book"])
def test_a_signal_handler_may_use_another_blob_while_a_transfer_is_counted(counting):
    """The handler runs at each line. It would hang at a lock that is not reentrant."""
    blob, other = made(), made()

    def trace(frame, _event, _argument):
        if frame.f_code.co_name == counting:
            other.mutable_cpu_data()
            other.gpu_data()
        return trace

    outside = sys.gettrace()
    with record_transfers(), max_transfers(1000):
        sys.settrace(trace)
        try:
            blob.gpu_data()
        finally:
            sys.settrace(outside)
    assert blob.gpu_data().tolist() == other.gpu_data().tolist() == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("own_stream", [False, True])
def test_a_forked_child_has_what_was_on_its_way(simulated, own_stream):
    stream = simulated.stream() if own_stream else None
    blob, later = made(), made()
    simulated.delay = 0.05
    blob.async_gpu_push(stream)

    def work():
        later.async_gpu_push(stream)
        assert blob.gpu_data().tolist() == later.gpu_data().tolist() == [1, 2, 3]
        simulated.synchronize()

    forked(work)
    assert blob.gpu_data().tolist() == [1, 2, 3]


def test_a_view_has_a_gradient_of_its_own_where_the_shared_one_is_too_small():
    blob = made(10)
    tail = blob[8:]
    blob.resize(3)
    blob.share_diff(Blob(3, "int32"))
    assert tail.cpu_diff().tolist() == [0, 0]


# --- aliases made between the search for aliases and the write ---------------------------------


def test_an_alias_that_the_warning_hook_makes_is_warned_of_too(monkeypatch):
    blob = made()
    kept = [np.from_dlpack(blob.gpu)]
    shown = []

    def show(message, *_, **__):
        shown.append(str(message))
        if len(kept) < 3:
            kept.append(np.from_dlpack(blob.gpu))

    with warnings.catch_warnings(action="always"):
        monkeypatch.setattr(warnings, "showwarning", show)
        blob.mutable_cpu_data()[...] = 7
    assert len(shown) == len(kept) == 3
    assert blob.tolist() == [7, 7, 7]


def test_a_hook_that_makes_an_alias_each_time_stops_the_write_and_not_the_program(monkeypatch):
    blob = made()
    kept = [np.from_dlpack(blob.gpu)]
    with warnings.catch_warnings(action="always"):
        monkeypatch.setattr(
            warnings, "showwarning", lambda *_, **__: kept.append(np.from_dlpack(blob.gpu))
        )
        with pytest.raises(RuntimeError) as caught:
            blob.mutable_cpu_data()
    assert len(kept) == 1 + 100
    assert str(caught.value) == (
        "mutable_cpu_data gave up after 100 warnings, because new aliases appeared after each; "
        "first stop the thread or the warning hook that makes them"
    )
    assert blob.head is Head.HEAD_AT_GPU
    kept[0][0] = 9
    assert blob.tolist() == [9, 2, 3]


@pytest.mark.parametrize(
    "write",
    [
        lambda blob: blob.mutable_cpu_data().fill(9),
        lambda blob: blob.overwrite_cpu_data().fill(9),
        lambda blob: np.asarray(blob.cpu).fill(9),
        lambda blob: np.from_dlpack(blob.cpu).fill(9),
        lambda blob: blob.set_cpu_data(np.full(3, 9, np.int32)),
    ],
)
@at_each_place
def test_no_alias_slips_in_before_a_write_unannounced(meanwhile, write):
    """An alias is made at each place in turn, as another thread or a finaliser could do."""
    blob, aliases, late = made(), [], []
    blob.mutable_gpu_data()

    def work():
        try:
            write(blob)
        except ValueError:
            # The borrow was revoked, so the late write raises.
            late.append(True)

    with warnings.catch_warnings(record=True, action="always") as caught:
        meanwhile(work, lambda: aliases.append(np.from_dlpack(blob.gpu)))
    if aliases and not caught and not late:
        assert aliases[0].tolist() == blob.gpu_data().tolist() == [9, 9, 9]
    assert blob.cpu_data().tolist() == blob.gpu_data().tolist()


# --- interrupts ---------------------------------------------------------------------------------


def test_a_living_blob_is_not_made_again():
    blob = made()
    alias = np.from_dlpack(blob.cpu)
    with pytest.raises(TypeError, match="resize"):
        blob.__init__(4)
    alias[0] = 9
    assert blob.tolist() == [9, 2, 3]


# --- nothing has changed -------------------------------------------------------------------------


def test_a_refused_resize_leaves_the_borrows_of_data_alone():
    blob = made()
    borrow, alias = blob.mutable_cpu_data(), np.from_dlpack(blob.diff)
    with pytest.raises(StaleAliasWarning):
        blob.resize(10)
    borrow[0] = 5
    assert blob.tolist() == [5, 2, 3]
    assert alias is not None


@pytest.mark.parametrize("copy_diff", [False, True])
@pytest.mark.parametrize("count", [2, 5, 20])
def test_a_refused_copy_changes_nothing(count, copy_diff):
    blob = made(10)
    blob.resize(3)
    alias = np.from_dlpack((blob.diff if copy_diff else blob).cpu)
    source = made(count)
    source.diff[...] = 4
    with pytest.raises(StaleAliasWarning):
        blob.copy_from(source, copy_diff=copy_diff, resize=True)
    assert (blob.shape, blob.tolist()) == ((3,), [1, 2, 3])
    assert alias is not None


@pytest.mark.parametrize("kind", ["allocation", "transfer"])
@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("copy_diff", [False, True])
def test_a_failed_copy_changes_nothing(kind, count, copy_diff, simulated):
    for which in range(1, 4):
        blob = made(10)
        blob.resize(3)
        blob.mutable_gpu_data()
        blob.diff[...] = 6
        source = made(count)
        source.diff[...] = 4
        try:
            with simulated.failing(**{kind: which}):
                blob.copy_from(source, copy_diff=copy_diff, resize=True)
        except (MemoryError, RuntimeError):
            assert (blob.shape, blob.tolist()) == ((3,), [1, 2, 3])
            assert blob.diff.tolist() == [6, 6, 6]
        else:
            assert blob.shape == (count,)


def test_a_conversion_that_raises_leaves_the_contents_alone():
    blob = made()
    for key in (..., [0, 1, 2], np.ones(3, dtype=bool)):
        with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
            blob[key] = np.array([9, np.nan, 8])
    single = Blob(2)
    single[...] = 1
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        single.copy_from(np.array([1.0, 1e300]))
    assert (blob.tolist(), single.tolist()) == ([1, 2, 3], [1, 1])
