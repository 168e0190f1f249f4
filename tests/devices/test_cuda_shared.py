"""CUDA devices that share the memory of the host, on the model of CUDA."""

from functools import partial

import cupy_model
import numpy as np
import pytest
from cuda_model import Machine
from cupy_model import compute, launch
from made_blobs import filled

import syncblob
from syncblob import Blob, memory_kind, record_transfers
from syncblob.devices import Side, accelerator
from syncblob.memory import OVERWRITE

HOST_PAGE_TABLES, DIRECT_ACCESS = 100, 101


@pytest.fixture(params=[{DIRECT_ACCESS}, {HOST_PAGE_TABLES}], ids=["managed", "page tables"])
def machine(request):
    machine = Machine(1)
    machine.attributes |= request.param
    with cupy_model.installed(machine):
        yield machine


def add(array, number):
    launch(lambda values: values.__iadd__(number), array)


def test_what_the_hardware_reports_is_the_default():
    for attributes, kind in [(set(), "separate"), ({HOST_PAGE_TABLES}, "shared")]:
        machine = Machine(1)
        machine.attributes |= attributes
        with cupy_model.installed(machine):
            assert memory_kind("cuda") == kind
            if kind == "separate":
                with pytest.raises(ValueError, match="does not share its memory"):
                    syncblob.set_memory_kind("cuda", "shared")


@pytest.mark.parametrize("first", ["cpu", "gpu"])
def test_the_host_waits_for_the_uses_of_the_buffer(machine, first):
    del machine
    blob = Blob(1000, "int32", device="cuda")
    getattr(blob, f"mutable_{first}_data")()
    with record_transfers() as log:
        for turn in range(1, 4):
            add(blob.mutable_gpu_data(), 1)
            assert blob.cpu_data().tolist() == [2 * turn - 1] * 1000
            blob.mutable_cpu_data()[...] += 1
    assert (len(log), log.shared) == (0, 1)


def test_a_write_on_the_host_waits_for_work_that_reads(machine):
    del machine
    blob, copied = filled(5, 10, "int32", device="cuda"), Blob(10, "int32", device="cuda")
    launch(np.copyto, copied.overwrite_gpu_data(), blob.gpu_data())
    blob.overwrite_cpu_data()[...] = 9
    assert copied.tolist() == [5] * 10


def test_an_operation_ends_with_its_call_if_the_host_may_write(machine):
    blob, seen = filled(5, 10, "int32", device="cuda"), []
    alias = np.asarray(blob.cpu)
    compute(blob, lambda array: seen.append(int(array[0])))
    alias[...] = 9
    machine.finish()
    assert seen == [5]


def test_ordinary_memory_is_shared_if_the_device_reads_it(machine):
    values = np.arange(10, dtype=np.int32)
    blob = syncblob.asarray(values, device="cpu").on("cuda")
    with record_transfers() as log:
        add(blob.mutable_gpu_data(), 1)
        assert blob.tolist() == list(range(1, 11))
    reads = HOST_PAGE_TABLES in machine.attributes
    assert (len(log), values[0]) == ((0, 1) if reads else (2, 1))


# What the host writes into memory that it gets from the pool, before the device uses that.


def overwrite(source):
    return filled(source().view(np.int32), 8, "int32", device="cuda")


def read_source(side, source):
    blob = Blob.from_source(8, "int32", source, device="cuda")
    getattr(blob, f"{side}_data")()
    return blob


def read_source_beside_a_write(source):
    blob = Blob.from_source(8, "int32", source, device="cuda")
    blob[:1].overwrite_gpu_data().fill(0)
    blob[1:].cpu_data()
    return blob


def zero_what_a_failed_write_has_left(source):
    def fail(*_):
        raise ArithmeticError

    blob = Blob(8, "int32", device="cuda")
    with pytest.raises(ArithmeticError):
        blob.memory.write(Side.ACCELERATOR, OVERWRITE, blob.layout, "write", fail)
    blob.mutable_cpu_data()[...] += source().view(np.int32)
    return blob


@pytest.mark.parametrize(
    "make",
    [
        overwrite,
        partial(read_source, "cpu"),
        partial(read_source, "gpu"),
        read_source_beside_a_write,
        zero_what_a_failed_write_has_left,
    ],
)
def test_the_host_waits_for_work_on_memory_that_was_freed(machine, make):
    del machine
    freed = Blob(8, "int32", device="cuda")
    launch(lambda values: values.fill(3), freed.overwrite_gpu_data())
    del freed
    blob = make(lambda: np.arange(8, dtype=np.int32).view(np.uint8))
    accelerator("cuda").synchronize()
    assert blob.tolist() == [*range(8)]
