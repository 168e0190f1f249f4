"""Watched const exports: which writes cause a warning, and which do not."""

import sys
import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from in_threads import in_the_middle_of, in_threads
from interrupt_points import at_each_place
from made_blobs import READS, adopt, memory_on

from syncblob import (
    Blob,
    ConstWriteWarning,
    Head,
    StaleAliasWarning,
    record_transfers,
    verified_const,
)
from syncblob._dtypes import UINT8
from syncblob._layout import Layout
from syncblob.devices import Side
from syncblob.memory import Access, SyncedMemory, synced_memory
from syncblob.transfers.verify import verifying

COUNT = 4
WHOLE = Layout.raw(COUNT)
at = partial(memory_on, nbytes=COUNT)


class Target:
    """An object that a consumer keeps."""


def write_past_permissions(array):
    np.frombuffer((np.ctypeslib.ctypes.c_char * 1).from_address(array.ctypes.data), "u1")[...] = 9


def under_watch(memory, side, layout=WHOLE):
    return memory.export(side, Access.CONST, layout, "const", "NumPy")


@pytest.mark.parametrize("side", Side)
def test_a_const_export_under_watch_is_const_and_changes_no_state(side):
    memory = at(side)
    getattr(memory, READS[Side(1 - side)])()
    with verified_const():
        for each in Side:
            export = under_watch(memory, each)
            assert not export.flags.writeable
            assert export.tolist() == [1] * COUNT
    assert (memory.head, memory.device) == (Head.SYNCED, "simulated:0")


@pytest.mark.parametrize("side", Side)
def test_a_write_through_a_const_export_is_found_by_an_adoption(side):
    memory, check = at(Side.HOST), verified_const()
    with check, check:
        pass
    with check:
        export = under_watch(memory, Side.HOST)
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning, match=r"^a consumer wrote .* older contents now$"):
            adopt(memory, side, 5)
    assert not verifying()


@pytest.mark.parametrize("side", Side)
def test_an_alias_of_the_other_side_excuses_no_write(side):
    memory = at(side)
    alias = memory.export(Side(1 - side), Access.MUTABLE, WHOLE, "mutable", "NumPy")
    with verified_const():
        export = under_watch(memory, side)
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning):
            getattr(memory, READS[side])()
    del alias


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("changes", ["adoption", "push"])
def test_bytes_that_change_by_right_accuse_nobody(side, changes):
    memory = at(side, 7)
    getattr(memory, READS[Side(1 - side)])()
    if changes == "push":
        memory.mutable_cpu_data()[:] = 8
    with verified_const():
        where = Side.HOST if changes == "push" else side
        exports = [under_watch(memory, where, layout) for layout in (WHOLE, Layout.raw(1))]
        if changes == "adoption":
            adopt(memory, side, 5)
        else:
            memory.async_gpu_push()
        memory.cpu_data()
        memory.gpu_data()
        del exports


@pytest.mark.parametrize("side", Side)
def test_a_push_ends_no_watch_of_what_it_copies_from_or_leaves_as_it_is(side):
    memory = at(Side.HOST)
    memory.gpu_data()
    memory.array(Side.HOST, Access.MUTABLE, Layout.raw(2, 2), "use")[:] = 5
    with verified_const():
        export = under_watch(memory, side, Layout.raw(2, 0 if side else 2))
        memory.async_gpu_push()
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning):
            memory.cpu_data()


def test_a_comparison_imports_nothing(monkeypatch):
    """The last may come when the interpreter ends, and imports nothing any more."""
    monkeypatch.setitem(sys.modules, "zlib", None)
    with pytest.warns(ConstWriteWarning), verified_const():
        write_past_permissions(under_watch(at(Side.HOST), Side.HOST))


def test_the_library_that_wrote_is_named():
    library = {"__name__": "warp.types", "np": np}
    exec("def take(blob): return np.asarray(blob)", library)  # noqa: S102  # stands for Warp
    blob = Blob(COUNT, "uint8", device="simulated")
    blob[...] = 1
    with verified_const():
        array = library["take"](blob)
        write_past_permissions(array)
        message = r"^warp wrote through the const NumPy export of the host side made at .*watches"
        with pytest.warns(ConstWriteWarning, match=message):
            blob.gpu_data()


def test_a_read_ends_no_watch():
    memory = at(Side.HOST)
    with verified_const():
        export = under_watch(memory, Side.HOST)
        memory.cpu_data()
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning):
            memory.cpu_data()


def test_a_const_export_is_watched_as_long_as_what_its_consumer_keeps():
    memory, target = at(Side.HOST), Target()
    with verified_const():
        memory.export(Side.HOST, Access.CONST, WHOLE, "test", "CUDA", target)
        memory.buffer(Side.HOST)[0] = 9
        with pytest.warns(ConstWriteWarning, match="const CUDA export"):
            del target
    # Other threads may go on.
    assert in_threads(lambda: memory.lock.acquire(timeout=5)) == [True]


def test_an_alias_lives_as_long_as_what_its_consumer_keeps():
    memory, target = at(Side.HOST), Target()
    memory.export(Side.HOST, Access.MUTABLE, WHOLE, "test", "CUDA", target)
    assert memory.aliased
    del target
    assert not memory.aliased


def test_what_has_no_permission_to_lose_is_left_behind_all_the_same():
    memory, target = at(Side.HOST), Target()
    array = memory.export(Side.HOST, Access.MUTABLE, WHOLE, "test", "CUDA", target)
    with pytest.warns(StaleAliasWarning, match="a CUDA alias"):
        memory.mutable_gpu_data()
    assert array.flags.writeable
    assert memory.aliased


@pytest.mark.parametrize("where", Side)
@pytest.mark.parametrize("side", Side)
def test_a_private_copy_finds_a_write_through_a_const_export_and_ends_no_watch(side, where):
    memory = at(side)
    gapped = Layout((2,), UINT8, (2,))
    with verified_const():
        export = under_watch(memory, side)
        for number in range(2):
            memory.gather(where, gapped, "test")
            memory.buffer(side)[1] = 10 + number
            with pytest.warns(ConstWriteWarning):
                memory.gather(where, gapped, "test")
        assert export[1] == 11


@pytest.mark.parametrize("bring", [Blob.gpu_data, Blob.prefetch])
@pytest.mark.parametrize("there", ["cpu", "simulated:1"])
def test_a_copy_from_elsewhere_hides_no_write_through_a_const_export(there, bring):
    blob = Blob(COUNT, "uint8", device="simulated:0")
    blob[...] = 1
    with verified_const():
        export = np.asarray(blob.gpu.const)
        blob.on(there)[...] = 2
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning):
            bring(blob)
    assert blob.gpu_data().tolist() == [2] * COUNT


@pytest.mark.parametrize(("place", "accuses"), [(0, True), (1, False), (2, False), (3, True)])
@pytest.mark.parametrize("side", Side)
def test_an_alias_excuses_writes_into_its_own_part(side, place, accuses):
    memory = at(side)
    alias = memory.export(side, Access.MUTABLE, Layout.raw(2, 1), "test", "DLPack")
    with verified_const(), warnings.catch_warnings(record=True, action="always") as caught:
        export = memory.export(side, Access.CONST, Layout.raw(1, place), "const", "NumPy")
        write_past_permissions(export)
        getattr(memory, READS[side])()
    assert [warning.category for warning in caught] == [ConstWriteWarning] * accuses
    assert alias.shape == (2,)


@pytest.mark.parametrize("use", [SyncedMemory.cpu_data, SyncedMemory.gpu_data, None])
def test_a_consumer_that_kept_only_the_address_is_found_until_the_block_ends(use):
    memory = at(Side.ACCELERATOR)
    with warnings.catch_warnings(record=True, action="always") as caught, verified_const():
        for _ in range(3):  # the last one alone is named
            address = under_watch(memory, Side.HOST).ctypes.data
        memory.mutable_gpu_data()[:] = 5
        assert memory.cpu_data().tolist() == [5] * COUNT
        np.ctypeslib.ctypes.memset(address, 9, 1)
        if use is not None:
            use(memory)
    assert [warning.category for warning in caught] == [ConstWriteWarning]
    np.ctypeslib.ctypes.memset(address, 8, 1)
    memory.cpu_data()
    assert memory.watch is None


def test_the_exports_that_have_ended_and_are_checked_are_the_last_of_each_memory():
    memory = SyncedMemory(1000, device="simulated")
    memory.cpu_data()
    with verified_const():
        for place in range(1000):
            address = under_watch(memory, Side.HOST, Layout.raw(1, place)).ctypes.data
        assert len(memory.watch._checks) == 65
        memory.lend(Side.HOST, Access.MUTABLE, Layout.raw(1, 998), "use")
        np.ctypeslib.ctypes.memset(address - 2, 9, 1)
        with pytest.warns(ConstWriteWarning):
            memory.cpu_data()


def test_a_living_export_is_suspected_before_one_that_has_ended():
    memory = at(Side.HOST)
    with verified_const(), warnings.catch_warnings(record=True, action="always") as caught:
        under_watch(memory, Side.HOST, Layout.raw(1))
        export = memory.export(Side.HOST, Access.CONST, WHOLE, "const", "living")
        write_past_permissions(export)
        memory.cpu_data()
    assert ["living" in str(warning.message) for warning in caught] == [True]


def test_what_other_processes_wrote_accuses_nobody():
    blob = Blob.in_shared_memory((COUNT,), device="simulated")
    blob[...] = 1
    blob.assume_unaliased()
    with verified_const():
        export = np.asarray(blob)
        np.ctypeslib.ctypes.memset(export.ctypes.data, 0, 4)  # as another process does
        blob.refresh()
        assert blob.gpu_data().tolist() == [0, 1, 1, 1]


def test_bytes_that_left_their_side_or_use_are_not_watched():
    blob = Blob((4, COUNT), device="simulated")
    with verified_const():
        np.asarray(blob[3])
        blob.resize(1, COUNT)
        blob.set_cpu_data(np.ones((1, COUNT), np.float32))
        np.asarray(blob)
        other = Blob(COUNT, device="simulated")
        np.asarray(other)
        assert other.evict("cpu")
        assert (blob.tolist(), other.tolist()) == ([[1] * COUNT], [0] * COUNT)


@pytest.mark.parametrize("side", Side)
def test_an_eviction_compares_what_it_frees(side):
    memory = at(side)
    memory.cpu_data(), memory.gpu_data()
    with verified_const():
        export = under_watch(memory, side)
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning):
            memory.evict(side)
        assert memory.watch is None
        assert getattr(memory, READS[side])().tolist() == [1] * COUNT


@pytest.mark.parametrize("written", [False, True])
def test_an_eviction_compares_what_its_bytes_move_to_and_ends_no_watch_there(written):
    memory = at(Side.HOST)
    with verified_const():
        export = under_watch(memory, Side.HOST)
        memory.mutable_gpu_data()[:] = 5
        if written:
            write_past_permissions(export)
        with pytest.warns(ConstWriteWarning) if written else nullcontext():
            memory.evict(Side.ACCELERATOR)
        assert export.tolist() == [5] * COUNT
        write_past_permissions(export)
        with pytest.warns(ConstWriteWarning):
            memory.cpu_data()


def in_use_by_another_thread(memory):
    """Let another thread hold the lock while a block runs."""

    def use(wait):
        with memory.lock:
            wait()

    return in_the_middle_of(use)


def test_an_export_without_elements_does_not_outlive_its_buffer():
    blob = Blob((4, 0), device="simulated")
    blob.mutable_gpu_data()
    with verified_const():
        exported = np.from_dlpack(blob.const)
        blob.evict("gpu")
        assert np.asarray(blob).shape == exported.shape
    part = Blob(1 << 19, device="simulated")[1000:2000]
    part[...] = 1
    with verified_const():
        exported = np.from_dlpack(part[:0].const)
        part.evict("gpu")
        assert part.tolist() == [1] * 1000


def test_an_export_that_ends_waits_for_nobody_and_is_compared_by_the_next_access():
    memory = at(Side.HOST)
    with verified_const():
        export = under_watch(memory, Side.HOST)
        write_past_permissions(export)
        with in_use_by_another_thread(memory):
            del export
        with pytest.warns(ConstWriteWarning):
            memory.cpu_data()


def test_an_export_that_ends_during_a_transfer_is_not_compared(monkeypatch):
    memory = at(Side.HOST)
    memory.gpu_data()
    with verified_const():
        exports = [under_watch(memory, Side.HOST)]
        memory.mutable_gpu_data()[:] = 2

        def download(buffer, host):
            host[:] = buffer
            exports.clear()  # as the garbage collector does, at any time

        monkeypatch.setattr(memory.accelerator, "download", download)
        assert memory.cpu_data().tolist() == [2] * COUNT
        memory.gpu_data()


# --- exports of parts ----------------------------------------------------------------------------

SHAPE = (4, 6)
OTHER = {"cpu": "gpu", "gpu": "cpu"}


def in_rows(here):
    """Make a Blob of four rows that is newest on one side."""
    blob = Blob(SHAPE, device="simulated")
    getattr(blob, f"mutable_{here}_data")()[...] = 3
    return blob


@pytest.mark.parametrize("here", ["cpu", "gpu"])
def test_a_borrow_of_a_part_excuses_writes_into_that_part(here):
    for row, accuses in ((0, True), (1, False), (slice(1, 3), False), (slice(2, 4), True)):
        blob = in_rows(here)
        with verified_const(), warnings.catch_warnings(record=True, action="always") as caught:
            borrow = getattr(blob[row], f"mutable_{here}_data")()
            export = np.asarray(getattr(blob[1], here).const)
            write_past_permissions(export)
            getattr(blob[3], f"{here}_data")()
        assert [warning.category for warning in caught] == [ConstWriteWarning] * accuses
        assert borrow.flags.writeable


@pytest.mark.parametrize("side", Side)
def test_a_const_export_that_is_made_amid_a_borrow_accuses_nobody(monkeypatch, side):
    """Another thread makes it between the access and the record of the borrow."""
    memory, exports = at(side), []
    acquire = synced_memory.acquire

    def overtaken(*args):
        monkeypatch.undo()
        window = acquire(*args)
        exports.append(under_watch(memory, side))
        return window

    with warnings.catch_warnings(action="error"), verified_const():
        monkeypatch.setattr(synced_memory, "acquire", overtaken)
        memory.lend(side, Access.MUTABLE, WHOLE, "use")[...] = 2
    assert exports[0].tolist() == [2] * COUNT


@pytest.mark.parametrize("here", ["cpu", "gpu"])
def test_writes_by_right_beside_a_watched_view_accuse_nobody_and_end_nothing(here):
    blob = in_rows(here)
    there = OTHER[here]
    with verified_const():
        export = np.asarray(getattr(blob[1], here).const)
        getattr(blob[0], f"mutable_{here}_data")()[...] = 5
        getattr(blob[2:], f"overwrite_{there}_data")()[...] = 6
        getattr(blob[2:], f"{here}_data")()
        getattr(blob[3], here).overwrite.__dlpack__()
    write_past_permissions(export)
    with pytest.warns(ConstWriteWarning):
        blob.tolist()


@pytest.mark.parametrize("here", ["cpu", "gpu"])
def test_writes_by_right_into_a_watched_view_accuse_nobody(here):
    there = OTHER[here]
    for access in (
        lambda blob: getattr(blob, f"mutable_{here}_data")().fill(3),
        lambda blob: getattr(blob[1, 2:], f"mutable_{here}_data")().fill(3),
        lambda blob: (
            getattr(blob[1:], f"overwrite_{there}_data")().fill(3),
            getattr(blob[1, 2:], f"{here}_data")(),
        ),
        lambda blob: (blob.resize(1, 6), blob.resize(*SHAPE)),
    ):
        blob = in_rows(here)
        with verified_const():
            export = np.asarray(getattr(blob[1], here).const)
            access(blob)
            blob.cpu_data()
            blob.gpu_data()
            del export


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_upload_into_an_export_is_no_write_of_its_consumer(simulated, asynchronous):
    memory = at(Side.HOST)
    with verified_const():
        target = Target()
        memory.export(Side.ACCELERATOR, Access.CONST, WHOLE, "use", "DLPack", target)
        assert memory.history[-1].reason == "use"
        memory.mutable_cpu_data()[:] = 3
        if asynchronous:
            # Its bytes may arrive at any time, so they are not watched any longer.
            memory.async_gpu_push(simulated.stream(delay=0.02))
        assert memory.gpu_data().tolist() == [3] * COUNT
        memory.buffer(Side.ACCELERATOR)[0] = 9
        with nullcontext() if asynchronous else pytest.warns(ConstWriteWarning, match="DLPack"):
            memory.gpu_data()
        del target


def test_a_use_of_a_side_under_watch_may_write_and_counts_what_it_avoids():
    memory = at(Side.HOST)
    memory.gpu_data()
    with verified_const(), record_transfers() as log:
        target = Target()
        memory.export(Side.HOST, Access.CONST, WHOLE, "use", "DLPack", target)
        memory.gpu_data()
        memory.cpu_data()
        avoided = log.avoided
        memory.mutable_cpu_data()[:] = 7
        memory.cpu_data()
        del target
    assert avoided == 2


@pytest.mark.parametrize("reverse", [False, True])
@at_each_place
def test_a_handler_may_write_in_the_midst_of_an_export_and_make_one_in_that_of_a_write(
    meanwhile, reverse
):
    blob, exports = Blob(COUNT, device="cpu"), []
    blob[...] = 1
    write = partial(blob.__setitem__, ..., 2)
    with verified_const():
        if reverse:
            np.asarray(blob)
            meanwhile(write, partial(np.from_dlpack, blob))
        else:
            meanwhile(lambda: exports.append(np.asarray(blob)), write)
    assert blob.tolist() in ([1] * COUNT, [2] * COUNT)  # in a transfer, it is refused


@at_each_place
def test_a_handler_may_evict_what_an_export_under_watch_is_over(meanwhile):
    blob = Blob(COUNT, device="simulated")
    blob[...] = 1
    np.asarray(blob)
    with verified_const():
        meanwhile(partial(np.asarray, blob), partial(blob.evict, "cpu"))
        assert blob.tolist() == [1] * COUNT
