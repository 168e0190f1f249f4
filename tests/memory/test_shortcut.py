"""Shortcuts: in which states an array may be used at once, and when that ends."""

import gc
import operator
from contextlib import nullcontext
from functools import partial
from itertools import islice

import numpy as np
import pytest
from in_threads import in_threads
from made_blobs import READS, memory_on

import syncblob
from syncblob import Blob, Head, SyncedMemory, record_transfers, verified_const
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access, changes
from syncblob.memory.accesses import expose
from syncblob.memory.ledger import Ledger, Shortcut
from syncblob.memory.loans import Loans
from syncblob.memory.state_machine import Spans

NBYTES = 8
WHOLE = Layout.raw(NBYTES)
used = partial(memory_on, both_sides=True)
CONST, MUTABLE, OVERWRITE = Access
COPIES = {Side.HOST: "download", Side.ACCELERATOR: "upload"}


def usable(memory, side, layout=WHOLE):
    """Tell what the shortcut of a layout allows: "rw", "r" or ""."""
    shortcut = memory.shortcut(side, layout)
    assert shortcut.buffer is memory.whole[side] or not shortcut.readable
    assert shortcut.readable >= shortcut.writable
    return "r" * shortcut.readable + "w" * shortcut.writable


# --- states --------------------------------------------------------------------------------------


def written_elsewhere(memory, side):
    getattr(memory, f"mutable_{READS[Side(1 - side)]}")()[:] = 3


def synced(memory, side):
    getattr(memory, READS[Side(1 - side)])()


# What happens to a memory that was written on one side, and what arrays may be used at once for
# afterwards: on that side, and on the other. The last entry tells whether the other is used last.
STATES = {
    "nothing": (lambda *_: None, "rw", "", False),
    "a read of the other side": (synced, "r", "r", True),
    "a write on the other side": (written_elsewhere, "", "rw", True),
    "a borrow": (lambda m, side: m.lend(side, MUTABLE, WHOLE, "use"), "rw", "", False),
    "an alias": (lambda m, side: m.export(side, MUTABLE, WHOLE, "use", "DLPack"), "rw", "", False),
    "an exposure": (expose, "rw", "", False),
    "an exposure of the other side": (lambda m, side: expose(m, Side(1 - side)), "r", "", False),
}


@pytest.mark.parametrize("logging", [False, True])
@pytest.mark.parametrize(("happens", "here", "there", "used_last"), STATES.values(), ids=STATES)
@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize("side", Side)
def test_what_arrays_may_be_used_for_depends_on_who_holds_the_newest_contents(  # noqa: PLR0913, PLR0917
    side, both_sides, happens, here, there, used_last, logging
):
    with record_transfers() if logging else nullcontext():
        memory = used(side, both_sides=both_sides)
        kept = happens(memory, side)
        if logging and all(memory.buffer(each) is not None for each in Side):
            # The log wants to know of a use of the side that was not used last.
            here, there = ("", there) if used_last else (here, "")
        assert (usable(memory, side), usable(memory, Side(1 - side))) == (here, there)
        del kept


@pytest.mark.parametrize("side", Side)
def test_the_shortcut_of_a_side_stays_the_same_while_the_heads_change(side):
    memory = used(side)
    shortcut = memory.shortcut(side, WHOLE)
    for _ in range(3):
        written_elsewhere(memory, side)
        assert not shortcut.readable
        getattr(memory, f"mutable_{READS[side]}")()
        assert memory.shortcut(side, WHOLE) is memory.shortcut(side, Layout.raw(2, 4)) is shortcut
        assert shortcut.writable


@pytest.mark.parametrize("side", Side)
def test_the_shortcut_of_a_side_stays_when_the_other_is_evicted(side):
    memory = used(side)
    shortcut = memory.shortcut(side, WHOLE)
    assert memory.evict(Side(1 - side)) == NBYTES
    assert memory.shortcut(side, WHOLE) is shortcut


@pytest.mark.parametrize("side", Side)
def test_parts_may_be_used_on_the_side_that_holds_them(side):
    memory = used(side)
    memory.lend(Side(1 - side), MUTABLE, Layout.raw(2), "use")
    for start, expected in ((0, ""), (1, ""), (2, "rw"), (6, "rw")):
        assert usable(memory, side, Layout.raw(2, start)) == expected
    assert usable(memory, side) == ""
    assert usable(memory, Side(1 - side), Layout.raw(2)) == "rw"
    getattr(memory, READS[Side(1 - side)])()
    assert usable(memory, Side(1 - side), Layout.raw(2)) == "rw"
    assert usable(memory, Side(1 - side), Layout.raw(2, 1)) == "r"


@pytest.mark.parametrize("side", Side)
def test_a_part_keeps_its_shortcut_until_there_are_too_many(side, monkeypatch):
    memory = used(side)
    memory.lend(Side(1 - side), MUTABLE, Layout.raw(1), "use")
    first = memory.shortcut(side, Layout.raw(1, 1))
    memory.shortcut(side, Layout.raw(1, 2))
    assert first.writable
    assert memory.shortcut(side, Layout.raw(1, 1)) is first
    monkeypatch.setattr("syncblob.memory.ledger._MOST_SHORTCUTS", 4)
    for start in range(3, 6):
        memory.shortcut(side, Layout.raw(1, start))
    assert not first.writable


@pytest.mark.parametrize("side", Side)
def test_an_alias_of_other_bytes_hinders_nobody(side):
    memory = used(side)
    alias = memory.export(Side(1 - side), MUTABLE, Layout.raw(2), "use", "DLPack")
    assert usable(memory, side, Layout.raw(2, 2)) == "rw"
    assert usable(memory, side, Layout.raw(2, 1)) == ""
    del alias


def test_a_change_ends_the_shortcuts_of_all_parts():
    memory = SyncedMemory(1000, device="simulated")
    memory.mutable_gpu_data()
    memory.lend(Side.HOST, MUTABLE, Layout.raw(2), "use")
    # More of them than are kept.
    shortcuts = [memory.shortcut(Side.ACCELERATOR, Layout.raw(1, 2 + at)) for at in range(300)]
    assert shortcuts[-1].writable
    memory.lend(Side.HOST, MUTABLE, Layout.raw(1, 999), "use")
    assert not any(shortcut.readable or shortcut.writable for shortcut in shortcuts)


def test_finalisers_may_add_shortcuts_while_others_are_forgotten():
    memory = SyncedMemory(1000, device="simulated")
    memory.mutable_gpu_data()
    memory.lend(Side.HOST, MUTABLE, Layout.raw(2), "use")
    shortcuts = [memory.shortcut(Side.ACCELERATOR, Layout.raw(1, 2 + at)) for at in range(9)]
    starts = iter(range(20, 40))

    class Finaliser:
        def __init__(self):
            self.itself = self

        def __del__(self):
            # CPython 3.11 collects garbage where it makes a tuple, later versions between steps.
            for start in islice(starts, 1):
                Finaliser()
                memory.shortcut(Side.ACCELERATOR, Layout.raw(1, start))

    Finaliser()
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        memory.evict(Side.HOST)
    finally:
        gc.set_threshold(*thresholds)
    assert next(starts, 0) != 20  # some have run
    memory.forget_shortcuts()
    assert not any(shortcut.readable or shortcut.writable for shortcut in shortcuts)


def test_an_upload_under_way_may_be_read_from_but_not_written_to(held):
    memory = used(Side.HOST)
    here, there = (memory.shortcut(side, WHOLE) for side in Side)
    memory.async_gpu_push()
    assert not here.writable
    assert not there.readable
    assert (usable(memory, Side.HOST), usable(memory, Side.ACCELERATOR)) == ("r", "")
    assert held.uploads == 0
    memory.gpu_data()
    assert (usable(memory, Side.HOST), usable(memory, Side.ACCELERATOR)) == ("r", "r")


def test_an_adopted_buffer_has_a_shortcut_of_its_own():
    memory = used(Side.HOST)
    old = memory.shortcut(Side.HOST, WHOLE)
    memory.set_cpu_data(np.zeros(NBYTES, np.uint8))
    new = memory.shortcut(Side.HOST, WHOLE)
    assert not old.readable
    assert new is not old
    assert new.writable


@pytest.mark.parametrize("side", Side)
def test_under_watch_nothing_may_be_used_at_once(side):
    memory = used(side)
    shortcut = memory.shortcut(side, WHOLE)
    with verified_const():
        export = memory.export(side, CONST, WHOLE, "use", "NumPy")
        assert not shortcut.readable
        assert usable(memory, side) == ""
        del export


def aliased_elsewhere(memory, side):
    return memory.export(Side(1 - side), MUTABLE, WHOLE, "use", "DLPack")


def watched_elsewhere(memory, side):
    return memory.export(Side(1 - side), CONST, WHOLE, "use", "NumPy")


@pytest.mark.filterwarnings("ignore::syncblob.StaleAliasWarning")
@pytest.mark.parametrize("happens", [aliased_elsewhere, watched_elsewhere, lambda *_: None])
@pytest.mark.parametrize("access", Access)
@pytest.mark.parametrize("side", Side)
def test_an_access_lets_arrays_be_used_at_once_only_if_nothing_concerns_them(side, access, happens):
    memory = used(side)
    shortcuts = [memory.shortcut(each, WHOLE) for each in Side]
    with verified_const() if happens is watched_elsewhere else nullcontext():
        kept = happens(memory, side)
        memory.acquire(side, access, WHOLE, "use")
        granted = ["r" * each.readable + "w" * each.writable for each in shortcuts]
        for each, now in zip(Side, granted, strict=True):
            # Who is allowed less than that asks again.
            assert usable(memory, each).startswith(now)
        # With no alias and no watch, nobody has to ask.
        assert kept is not None or granted == [usable(memory, each) for each in Side]
        del kept


# --- logs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
def test_a_log_that_is_opened_is_told_of_the_next_use_of_each_side(side):
    memory = used(side)
    synced(memory, side)
    shortcuts = [memory.shortcut(each, WHOLE) for each in Side]
    assert all(shortcut.readable for shortcut in shortcuts)
    with record_transfers() as log:
        assert not any(shortcut.readable for shortcut in shortcuts)
        for number, each in enumerate([side, side, Side(1 - side), Side(1 - side), side]):
            # As code with a shortcut does.
            if not memory.shortcut(each, WHOLE).readable:
                memory.acquire(each, CONST, WHOLE, "use")
            assert memory.shortcut(each, WHOLE).readable
            assert log.avoided == [0, 0, 1, 1, 2][number]
        memory.acquire(side, MUTABLE, WHOLE, "use")
        memory.acquire(Side(1 - side), CONST, WHOLE, "use")
        assert [shortcut.readable for shortcut in shortcuts] == [each is not side for each in Side]
    assert memory.shortcut(side, WHOLE).readable


def test_a_log_that_another_thread_opens_meanwhile_is_told_too(monkeypatch):
    memory = used(Side.HOST)
    log = record_transfers()
    ask = Ledger.usable

    def interrupted(self, *args):
        found = ask(self, *args)
        monkeypatch.undo()
        in_threads(log.__enter__)
        return found

    monkeypatch.setattr(Ledger, "usable", interrupted)
    try:
        assert not memory.shortcut(Side.HOST, WHOLE).readable
        memory.acquire(Side.HOST, CONST, WHOLE, "use")
        assert memory.shortcut(Side.HOST, WHOLE).writable
    finally:
        log.__exit__()


# --- interrupts and threads ----------------------------------------------------------------------


@pytest.mark.parametrize("layout", [WHOLE, Layout.raw(2, 4)], ids=["whole", "part"])
def test_nothing_is_usable_if_a_signal_handler_writes_elsewhere_meanwhile(monkeypatch, layout):
    memory = used(Side.HOST)
    if layout is not WHOLE:
        # From now on, parts have shortcuts of their own. Those that end are forgotten.
        memory.lend(Side.ACCELERATOR, MUTABLE, Layout.raw(2), "use")
    ask = Ledger.usable

    def interrupted(self, *args):
        found = ask(self, *args)
        monkeypatch.undo()
        memory.mutable_gpu_data()[...] = 2
        return found

    monkeypatch.setattr(Ledger, "usable", interrupted)
    assert usable(memory, Side.HOST, layout) == ""
    assert memory.cpu_data().tolist() == [2] * NBYTES


def test_asking_for_a_shortcut_waits_for_no_transfer(simulated, monkeypatch):
    memory = used(Side.HOST)
    copy = simulated.upload

    def upload(*args):
        assert in_threads(lambda: usable(memory, Side.HOST)) == [""]
        copy(*args)

    monkeypatch.setattr(simulated, "upload", upload)
    memory.gpu_data()
    assert usable(memory, Side.HOST) == "r"


@pytest.mark.parametrize("side", Side)
def test_a_borrow_of_a_shortcut_that_is_revoked_meanwhile_is_made_again(side, monkeypatch):
    blob = blob_on(side)
    write = getattr(blob, f"mutable_{READS[side]}")
    write()
    record = Loans.lend

    def interrupted(self, *args):
        record(self, *args)
        monkeypatch.undo()
        getattr(blob, READS[Side(1 - side)])()

    monkeypatch.setattr(Loans, "lend", interrupted)
    borrow = write()
    borrow[...] = 5
    assert getattr(blob, READS[Side(1 - side)])().tolist() == [5] * NBYTES
    assert not borrow.flags.writeable


def test_what_another_thread_revokes_while_an_access_grants_it_stays_revoked():
    memory = used(Side.HOST)
    memory.shortcut(Side.HOST, WHOLE)
    memory.mutable_gpu_data()

    class Contended(Shortcut):
        @property
        def side(self):
            if memory.spans.uniform == Head.SYNCED and not revoked:
                in_threads(memory.revoke_shortcuts)
                revoked.append(True)
            return Side.HOST

        @side.setter
        def side(self, side):
            pass

    revoked, window = [], memory.whole[Side.HOST]
    shortcut = Contended(window)
    memory.shortcuts = {window: shortcut}
    memory.cpu_data()
    assert revoked
    assert not shortcut.readable


# --- the first write after both sides were read --------------------------------------------------


@pytest.mark.parametrize(("start", "stop"), [(0, NBYTES), (2, 6)])
@pytest.mark.parametrize("side", Side)
def test_a_side_that_holds_a_range_becomes_its_only_holder(side, start, stop):
    memory = used(side)
    synced(memory, side)
    shortcut = memory.shortcut(side, WHOLE)
    known = memory.history
    memory.acquire(side, MUTABLE, Layout.raw(stop - start, start), "use")
    assert shortcut.writable is (stop - start == NBYTES)
    with record_transfers():
        assert not shortcut.readable
    assert memory.spans.head(start, stop) is Head(1 << side)
    assert memory.shortcut(side, Layout.raw(stop - start, start)).writable
    assert memory.spans.head(stop, NBYTES) is (Head(1 << side) if stop == NBYTES else Head.SYNCED)
    last = memory.history[-1]
    assert (last.reason, last.copied, last.start, last.stop) == ("use", "", start, stop)
    memory.acquire(side, MUTABLE, Layout.raw(2, 2), "use again")
    assert len(memory.history) == len(known) + 1


def test_a_write_ends_neither_exposures_of_its_side_nor_those_beside_it():
    memory = used(Side.ACCELERATOR)
    memory.lend(Side.HOST, MUTABLE, Layout.raw(4, 4), "use")
    expose(memory, Side.ACCELERATOR, stop=4)
    expose(memory, Side.HOST, start=4)
    memory.lend(Side.ACCELERATOR, MUTABLE, Layout.raw(4), "use")
    for value in (5, 6):
        memory.buffer(Side.ACCELERATOR)[:4] = value
        assert memory.array(Side.HOST, CONST, Layout.raw(4), "use").tolist() == [value] * 4
        memory.buffer(Side.HOST)[4:] = value
        assert (
            memory.array(Side.ACCELERATOR, CONST, Layout.raw(4, 4), "use").tolist() == [value] * 4
        )


def test_a_part_that_may_be_read_says_nothing_of_the_whole():
    memory = used(Side.HOST)
    synced(memory, Side.HOST)
    whole = memory.shortcut(Side.ACCELERATOR, WHOLE)
    memory.lend(Side.HOST, MUTABLE, Layout.raw(2, 2), "use")
    assert memory.shortcut(Side.ACCELERATOR, Layout.raw(2)).readable
    assert not whole.readable


def test_nothing_is_written_in_the_midst_of_another_access(monkeypatch):
    memory = used(Side.HOST)
    synced(memory, Side.HOST)
    replaced = Spans.replaced

    def interrupted(*args):
        monkeypatch.undo()
        with pytest.raises(RuntimeError, match="in the middle of a transfer"):
            memory.mutable_gpu_data()
        return replaced(*args)

    # Another test may have made the plan.
    changes._known_plan.cache_clear()
    monkeypatch.setattr(Spans, "replaced", interrupted)
    memory.lend(Side.HOST, MUTABLE, Layout.raw(4), "use")[...] = 5
    assert Spans.replaced is replaced
    assert memory.gpu_data().tolist() == [5] * 4 + [1] * 4


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", [MUTABLE, OVERWRITE])
def test_no_bytes_and_bytes_beyond_the_end_change_nothing(access):
    memory = used(Side.HOST)
    synced(memory, Side.HOST)
    before = memory.spans, memory.history
    memory.acquire(Side.HOST, access, Layout.raw(0, 2), "use")
    memory.acquire(Side.HOST, access, Layout.raw(2, NBYTES), "use")
    assert (memory.spans, memory.history) == before
    # Another thread may have resized the Blob.
    memory.acquire(Side.HOST, access, Layout.raw(2, NBYTES - 1), "use")
    assert memory.spans.head(0, NBYTES - 1) is Head.SYNCED
    assert memory.spans.head(NBYTES - 1, NBYTES) is Head.HEAD_AT_CPU
    memory.mutable_gpu_data()[...] = 7
    memory.acquire(Side.HOST, access, Layout.raw(2, NBYTES - 1), "use")
    assert memory.cpu_data().tolist() == [7] * NBYTES


# --- Blobs ---------------------------------------------------------------------------------------


def synced_blob(shape, device, dtype="float32"):
    """Make a Blob of ones that was used on both sides, and then in a computation."""
    blob = Blob(shape, dtype, device=device)
    blob.memory.side_of(syncblob.simulated())
    blob.mutable_cpu_data()[...] = 1
    blob.gpu_data(), blob.cpu_data(), blob + blob
    return blob


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_an_operator_that_raises_leaves_what_both_sides_hold(device):
    blob = synced_blob(NBYTES, device, "int32")
    assert blob.head is Head.SYNCED
    other = Blob((2, NBYTES), "int32", device=device)
    for operand, error in (
        (blob, TypeError),
        (other, ValueError),
        (2.5, TypeError),
        (1 << 40, OverflowError),
    ):
        with pytest.raises(error):
            (operator.itruediv if operand is blob else operator.iadd)(blob, operand)
    for key, value, error in (
        (NBYTES, 1, IndexError),
        (0, 1 << 40, OverflowError),
        (slice(2), 1 << 40, OverflowError),
    ):
        with pytest.raises(error):
            blob[key] = value
    assert blob.head is Head.SYNCED
    assert blob.tolist() == [1] * NBYTES


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_number_that_does_not_fit_leaves_what_both_sides_hold(device, dtype):
    blob = synced_blob(NBYTES, device, dtype)
    with np.errstate(all="raise"), pytest.raises((OverflowError, FloatingPointError)):
        blob += 10**400
    assert blob.head is Head.SYNCED


KEYS = [3, -1, (2, -3), slice(1, 3), (slice(None, None, -2), 1), (..., 2), (slice(0), 1), (None, 1)]


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_number_is_written_into_the_selected_elements_alone(device, key):
    blob = synced_blob((4, 5), device)
    expected = np.ones((4, 5), "f4")
    for value in (7, 8):
        blob[key] = value
        expected[key] = value
        selected = blob[key]
        with record_transfers() as log:
            there = blob.gpu_data() if device == "cpu" else blob.cpu_data()
        assert there.tolist() == expected.tolist()
        layout = selected.layout
        assert log.nbytes == (layout.stop - layout.start if selected.size else 0)


# --- copies of everything ------------------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
def test_what_is_written_and_written_again_is_noted_once(side):
    blob = blob_on(side)
    before = blob.memory.history
    blob.memory.revoke_shortcuts()
    getattr(blob, f"mutable_{READS[side]}")()[...] = 2
    assert blob.memory.history == before


@pytest.mark.parametrize("kind", ["", "mutable_"])
@pytest.mark.parametrize("side", Side)
def test_the_side_that_a_copy_of_everything_fills_is_not_given_meanwhile(
    side, kind, simulated, monkeypatch
):
    blob = blob_on(side)
    copy = getattr(simulated, COPIES[Side(1 - side)])
    refused = []

    def meddle(*args):
        for access in (
            getattr(blob, READS[Side(1 - side)]),
            getattr(blob, f"mutable_{READS[Side(1 - side)]}"),
            getattr(blob, f"mutable_{READS[side]}"),
            lambda: blob.prefetch("simulated" if side is Side.HOST else "cpu"),
            lambda: getattr(blob, f"set_{READS[side]}")(np.zeros(NBYTES, np.uint8)),
        ):
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                access()
        assert getattr(blob, READS[side])().tolist() == [1] * NBYTES
        refused.append(True)
        copy(*args)

    monkeypatch.setattr(simulated, COPIES[Side(1 - side)], meddle)
    assert getattr(blob, kind + READS[Side(1 - side)])().tolist() == [1] * NBYTES
    assert refused == [True]
    getattr(blob, f"mutable_{READS[side]}")()


def blob_on(side):
    """Make a Blob that was used on both sides and then written on one of them."""
    blob = Blob(NBYTES, "uint8", device="simulated")
    for _ in range(2):
        getattr(blob, READS[Side(1 - side)])()
        getattr(blob, f"mutable_{READS[side]}")()[...] = 1
    return blob


def test_a_watch_of_what_had_to_be_copied_ends_the_shortcuts():
    memory = used(Side.HOST)
    shortcut = memory.shortcut(Side.HOST, WHOLE)
    memory.shortcut(Side.ACCELERATOR, WHOLE)
    assert shortcut.readable
    with verified_const():
        export = memory.export(Side.ACCELERATOR, CONST, WHOLE, "use", "DLPack")
        assert not shortcut.readable
    del export


def test_logs_hear_of_a_memory_that_got_its_second_buffer_without_a_shortcut():
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.cpu_data()
    shortcut = memory.shortcut(Side.HOST, WHOLE)
    memory.mutable_gpu_data()
    memory.cpu_data()
    with record_transfers():
        assert not shortcut.readable
    memory.shortcut(Side.HOST, WHOLE)
    memory.mutable_gpu_data()
    memory.cpu_data()
    assert shortcut.readable
    with record_transfers():
        assert not shortcut.readable
