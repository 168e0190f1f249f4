"""A writable alias is tracked until its last use is gone, and not longer."""

import gc

import numpy as np
import pytest

from syncblob import Blob, Head, record_transfers
from syncblob.devices import accelerator

torch = pytest.importorskip("torch", reason="torch is one of the consumers")


def made(head="cpu"):
    """Make a Blob whose device is the side of its contents."""
    blob = Blob((2, 3), device="cpu" if head == "cpu" else "simulated:0")
    blob.memory.side_of(accelerator("simulated"))
    access = blob.mutable_cpu_data if head == "cpu" else blob.mutable_gpu_data
    access()[...] = 1
    return blob


def leases(blob):
    return len(blob.memory.loans.live)


def capsule(blob):
    return blob.__dlpack__(max_version=(1, 0))


MAKERS = {
    "numpy.asarray of a side": lambda blob: np.asarray(blob.cpu),
    "numpy.from_dlpack": np.from_dlpack,
    "numpy.from_dlpack of a side": lambda blob: np.from_dlpack(blob.cpu),
    "torch.from_dlpack": torch.from_dlpack,
    "torch.from_dlpack of a side": lambda blob: torch.from_dlpack(blob.cpu),
    "torch.as_tensor": torch.as_tensor,
    "torch.from_numpy": lambda blob: torch.from_numpy(np.asarray(blob.cpu)),
    "overwrite": lambda blob: torch.from_dlpack(blob.cpu.overwrite),
    "capsule": capsule,
    "old capsule": lambda blob: blob.__dlpack__(),
    "slice": lambda blob: np.asarray(blob.cpu)[1:, ::2],
    "transpose": lambda blob: np.from_dlpack(blob).T,
    "reinterpretation": lambda blob: np.asarray(blob.cpu).view(np.int32),
    "memoryview": lambda blob: memoryview(np.asarray(blob.cpu)),
    "memoryview of a slice": lambda blob: memoryview(np.asarray(blob.cpu)[1:]),
    "tensor slice": lambda blob: torch.from_dlpack(blob)[1:],
    "tensor reinterpretation": lambda blob: torch.from_dlpack(blob).view(torch.int32),
    "numpy of a tensor": lambda blob: torch.from_dlpack(blob).numpy(),
    "alias of a view": lambda blob: torch.from_dlpack(blob[1:]),
    "alias through data": lambda blob: torch.from_dlpack(blob.data),
}


@pytest.mark.parametrize("name", MAKERS)
def test_while_an_alias_lives_reads_of_the_other_side_copy_again_and_afterwards_not(name):
    blob = made()
    alias = MAKERS[name](blob)
    with record_transfers() as log:
        for _ in range(3):
            blob.gpu_data()
    assert (log.uploads, blob.head) == (3, Head.HEAD_AT_CPU)
    del alias
    with record_transfers() as log:
        for _ in range(3):
            blob.gpu_data()
    assert (log.uploads, blob.head) == (1, Head.SYNCED)


def test_consumers_that_read_only_are_not_tracked():
    blob = made()
    kept = [
        np.asarray(blob),
        np.from_dlpack(blob.const),
        torch.from_dlpack(blob.const),
        np.asarray(blob.cpu.const),
        np.array(blob),
        torch.from_dlpack(blob, copy=True),
        np.asarray(blob, dtype="float64"),
        np.asarray(blob.cpu, dtype="float64"),
    ]
    assert leases(blob) == 0
    blob.gpu_data()
    assert blob.head is Head.SYNCED
    assert len(kept) == 8


def test_an_alias_in_a_reference_cycle_lives_until_it_is_collected():
    blob = made()
    gc.disable()
    try:
        loop = [np.asarray(blob.cpu)]
        loop.append(loop)
        array = loop[0][1:]
        del loop
        array[0] = 4
        del array
        assert leases(blob) == 1
        assert blob.gpu_data()[1, 0] == 4
        gc.collect()
        assert leases(blob) == 0
    finally:
        gc.enable()


def test_the_diff_is_tracked_by_itself():
    blob = made()
    tensor = torch.from_dlpack(blob.diff)
    blob.gpu_data()
    assert blob.head is Head.SYNCED
    tensor[0, 0] = 3
    blob.gpu_diff()
    tensor[0, 0] = 4
    assert blob.gpu_diff()[0, 0] == 4


# --- `overwrite` of a side -----------------------------------------------------------------------


def test_whoever_takes_a_side_to_overwrite_it_gets_it_without_a_transfer():
    blob = Blob((2, 2), device="simulated")
    blob.mutable_gpu_data()[...] = 7
    with record_transfers() as log:
        torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=torch.from_dlpack(blob.cpu.overwrite))
        np.add(1, 1, out=np.asarray(blob.gpu.overwrite))
    assert len(log) == 0
    assert blob.tolist() == [[2, 2], [2, 2]]


def test_a_const_view_lends_no_side_to_write():
    const = made().const
    assert not np.asarray(const.cpu).flags.writeable
    for view in (const.cpu, const.gpu, made().cpu.const):
        with pytest.raises(ValueError, match="const"):
            _ = view.overwrite


def test_a_side_tells_what_it_is():
    blob = made()
    assert repr(blob.cpu) == (
        "<host side of a Blob, to read and write: shape=(2, 3), dtype=float32>"
    )
    assert blob.gpu.__dlpack_device__() == (1, 1)
    assert not hasattr(blob.cpu, "__cuda_array_interface__")
    assert not hasattr(blob.gpu, "__cuda_array_interface__")
    assert np.shares_memory(np.asarray(blob.gpu, copy=False), blob.gpu_data())
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(blob.gpu, "float64", copy=False)


# --- aliases of unknown lifetime -----------------------------------------------------------------


def test_a_copy_of_an_array_is_nobody_elses():
    for blob in (
        Blob.asarray(np.arange(3), device="simulated", copy=True),
        Blob.asarray(np.arange(6)[::2], device="simulated"),
    ):
        blob.gpu_data()
        assert blob.head is Head.SYNCED
