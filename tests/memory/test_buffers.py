"""How a memory gets, replaces and releases its buffers and its device."""

import pickle

import numpy as np
import pytest
from in_threads import in_threads
from made_blobs import HEADS, READS, filled

from syncblob import Blob, Head, SyncedMemory, use_device
from syncblob import simulated as simulated_device
from syncblob._layout import Layout
from syncblob.devices import HOST, Side
from syncblob.memory import Access
from syncblob.memory.accesses import assume_unaliased, expose
from syncblob.memory.ledger import Ledger

NBYTES = 64
VALUES = list(range(NBYTES))


def counting():
    return np.arange(NBYTES, dtype=np.uint8)


# --- memories over a given buffer ----------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
def test_a_memory_over_a_buffer_has_its_contents_there(side):
    buffer = counting()
    backend = simulated_device(1) if side is Side.ACCELERATOR else None
    with use_device("simulated:1"):
        memory = SyncedMemory.adopting(buffer, accelerator=backend)
        assert [x.writable for x in memory.shortcuts.values()] == [True]
        assert (memory.head, memory.nbytes) == (HEADS[side], NBYTES)
        assert memory.buffer(side) is buffer
        assert memory.buffer(Side(1 - side)) is None
        assert memory.accelerator is simulated_device(1)
        assert getattr(memory, READS[Side(1 - side)])().tolist() == VALUES


@pytest.mark.parametrize("device", ["cpu", "simulated:0", None])
def test_the_device_of_a_memory_over_a_buffer_can_be_given_and_stays(device):
    backend, other = simulated_device(1), device == "simulated:0"
    memory = SyncedMemory.adopting(counting(), accelerator=backend, device=device)
    assert memory.side_of(backend) == 1 + other
    assert memory.head is (Head.ELSEWHERE if other else Head.HEAD_AT_GPU)
    assert memory.gpu_data().tolist() == VALUES
    assert (memory.device, memory.head) == (device or "simulated:1", Head.HEAD_AT_GPU)
    assert memory.accelerator is (simulated_device(0) if other else backend)


# --- devices -------------------------------------------------------------------------------------


def test_accelerators_are_numbered_in_the_order_of_their_first_use():
    memory = SyncedMemory(NBYTES, device="cpu")
    homes = [HOST, *(simulated_device(index) for index in (2, 0, 1))]
    assert [memory.side_of(home) for home in homes] == [0, 1, 2, 3]
    assert [memory.home(side) for side in memory.all_sides] == homes
    names = ["HOST", "ACCELERATOR", "ACCELERATOR 2", "ACCELERATOR 3"]
    assert [side.name for side in memory.all_sides] == names
    assert all(memory.side_of(home) is Side(side) for side, home in enumerate(homes))


# --- errors --------------------------------------------------------------------------------------


def described(error):
    assert type(error) is MemoryError
    return str(error)


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("use", ["cpu_data", "mutable_cpu_data", "mutable_gpu_data"])
def test_without_memory_the_error_names_blob_line_and_remedy(simulated, use, written):
    blob = Blob((2, 3), device="simulated:0", name="weights")
    kind, where = "host_allocation", "cpu"
    if use == "mutable_gpu_data":
        kind, where = "allocation", "simulated:0"
    if written:
        blob.on("simulated:0" if where == "cpu" else "cpu")[...] = 1
    head, access = blob.head, getattr(blob, use)
    with simulated.failing(**{kind: 1}), pytest.raises(MemoryError, match="injected") as caught:
        access()
    text = described(caught.value)
    needed = f"needs 24 B on {where} for Blob 'weights' of shape (2, 3), float32, 24 bytes"
    assert f"; {use} {needed}, at {__file__}:" in text
    assert text.endswith(
        "access(); delete Blobs and aliases that are no longer needed, because a Blob keeps a "
        "buffer on each side that was used, or work on parts of it, as Blob.parts() does"
    )
    assert blob.head is head
    assert access().tolist() == [[written] * 3] * 2


@pytest.mark.parametrize(
    ("access", "what"),
    [
        (lambda blob: blob.prefetch(), "Blob of 24 bytes"),
        (lambda blob: blob.async_gpu_push(), "Blob of 24 bytes"),
        (lambda blob: blob + 1, "Blob of shape (2, 3), float32, 24 bytes"),
        (
            lambda blob: blob.memory.gather(Side.ACCELERATOR, blob[:, ::2].layout, "copy"),
            "Blob of shape (2, 2), float32, 16 bytes",
        ),
    ],
)
def test_every_way_to_need_memory_names_the_blob(simulated, access, what):
    blob = filled(1, (2, 3), device="simulated:0")
    with simulated.failing(allocation=1), pytest.raises(MemoryError) as caught:
        access(blob)
    assert f"on simulated:0 for {what}, at {__file__}:" in described(caught.value)


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_more_memory_than_there_is_is_refused_with_the_blob(device):
    blob = Blob(1 << 58, "int8", device=device, name="huge")
    with pytest.raises(MemoryError) as caught:
        blob[3].mutable_cpu_data()
    text = described(caught.value)
    assert text.startswith(f"{device} has no memory for 262144.0 TiB more; mutable_cpu_data ")
    assert "needs 262144.0 TiB on cpu for Blob 'huge' of shape (), int8, 1 bytes, at " in text


def test_the_error_of_a_source_is_explained_too():
    def source():
        raise shortage

    # Its message does not come from its arguments.
    shortage = np._core._exceptions._ArrayMemoryError((3,), np.dtype("f8"))
    memory = SyncedMemory(NBYTES, source=source, name="file")
    with pytest.raises(MemoryError, match="Unable to allocate") as caught:
        memory.cpu_data()
    assert caught.value is shortage
    assert "for Blob 'file' of shape (64,), uint8, " in caught.value.__notes__[0]


@pytest.mark.parametrize("device", ["cpu", "simulated:1"])
def test_a_successor_is_for_the_same_device(device):
    memory = SyncedMemory(NBYTES, device=device, name="weights")
    memory.mutable_cpu_data()
    with use_device("simulated:0"):
        successor = memory.successor(8)
    assert (successor.nbytes, successor.head) == (8, Head.UNINITIALIZED)
    assert successor.accelerator is memory.accelerator
    assert (successor.device, successor.device_home) == (device, memory.device_home)
    assert successor.name == "weights"


# --- replacing a buffer --------------------------------------------------------------------------


def test_a_buffer_of_another_accelerator_is_adopted_there():
    memory = SyncedMemory(NBYTES, device="simulated:0")
    memory.mutable_cpu_data()[:] = 7
    memory.replace_side(counting(), simulated_device(1))
    assert memory.head is Head.ELSEWHERE
    assert memory.gpu_data().tolist() == VALUES


def test_a_buffer_of_another_size_is_refused_with_both_sizes():
    with pytest.raises(ValueError, match="expected 64 bytes") as caught:
        SyncedMemory(NBYTES).set_cpu_data(np.zeros(65, np.uint8))
    assert str(caught.value) == (
        "expected 64 bytes, the size of this memory (shared with every Blob and view over "
        "it), got 65"
    )


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_adoption_leaves_the_device(side, device):
    memory = SyncedMemory(NBYTES, device=device)
    memory.side_of(simulated_device(0))
    getattr(memory, f"mutable_{READS[Side(1 - side)]}")()
    memory.replace_side(counting(), simulated_device(0) if side else None)
    assert (memory.device, memory.head) == (device, HEADS[side])


# --- initial contents ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "device"),
    [(Side.HOST, "cpu"), (Side.HOST, "simulated"), (Side.ACCELERATOR, "simulated")],
)
def test_what_a_first_write_that_failed_has_left_reads_as_zeros(side, device):
    memory = SyncedMemory(NBYTES, device=device)

    def fail(array):
        array[...] = 7
        raise RuntimeError("injected")

    with pytest.raises(RuntimeError, match="injected"):
        memory.write(side, Access.MUTABLE, Layout.raw(NBYTES), "a write", fail)
    assert memory.head is Head.UNINITIALIZED
    assert getattr(memory, READS[side])().tolist() == [0] * NBYTES


# --- exposures and uses --------------------------------------------------------------------------


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("head", [head for head in Head if head is not Head.ELSEWHERE])
def test_a_writer_of_unknown_lifetime_leaves_its_side_alone_newest(side, head):
    memory = SyncedMemory(NBYTES, device="simulated")
    if head & Head.HEAD_AT_CPU:
        memory.mutable_cpu_data()
    elif head:
        memory.mutable_gpu_data()
    if head is Head.SYNCED:
        memory.gpu_data()
    if head is Head.SPLIT:
        memory.array(Side.HOST, Access.MUTABLE, Layout.raw(8), "test")
    assert memory.head is head
    expose(memory, side)
    assert memory.head is (HEADS[side] if head is Head.SYNCED else head)
    assert memory.aliased
    assume_unaliased(memory, 0, memory.nbytes)
    assert not memory.aliased


@pytest.mark.parametrize("read", READS.values())
def test_it_is_blank_until_somebody_has_touched_it(read):
    memory = SyncedMemory(NBYTES, device="simulated")
    assert memory.blank
    getattr(memory, read)()
    assert not memory.blank
    assert not SyncedMemory(NBYTES, source=counting).blank


def test_a_memory_is_not_pickled_and_says_what_can_be():
    with pytest.raises(TypeError) as caught:
        pickle.dumps(SyncedMemory(NBYTES))
    assert str(caught.value) == "a SyncedMemory is not copied or pickled; copy or pickle the Blob"


@pytest.mark.parametrize("side", Side)
def test_a_read_of_what_is_up_to_date_waits_for_nobody(side):
    memory = SyncedMemory(NBYTES, device="simulated")
    getattr(memory, f"mutable_{READS[side]}")()[:] = 7
    with memory.lock:
        assert in_threads(lambda: getattr(memory, READS[side])()[0]) == [7]


def test_a_buffer_that_another_thread_makes_amid_a_read_is_not_taken_for_the_newest(monkeypatch):
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.mutable_gpu_data()[:] = 7
    usable = Ledger.usable

    def overtaken(*args):
        monkeypatch.undo()
        found = usable(*args)
        memory.evict(Side.ACCELERATOR)
        memory.overwrite_gpu_data()[:] = 8
        memory.mutable_cpu_data()[:] = 9
        return found

    monkeypatch.setattr(Ledger, "usable", overtaken)
    assert memory.gpu_data().tolist() == [9] * NBYTES
