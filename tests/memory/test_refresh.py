"""`refresh`: external writes into the host buffer become newest once."""

import pytest

import syncblob
from syncblob import Blob, Head
from syncblob.devices import Side
from syncblob.interop.export_cuda import is_exposed
from syncblob.memory import SyncedMemory
from syncblob.memory.accesses import expose, refresh
from syncblob.memory.loans import SHARED

HOST, ACCELERATOR = Side.HOST, Side.ACCELERATOR
NBYTES = 32


def both_hold():
    memory = SyncedMemory(NBYTES, device="simulated")
    memory.mutable_cpu_data()[...] = 1
    memory.gpu_data()
    assert memory.head is Head.SYNCED
    return memory


def exposed(memory, side):
    return sorted((loan.start, loan.stop, loan.kind is SHARED) for loan in memory.loans.of(side))


@pytest.mark.parametrize("still_exposed", [False, True])
def test_of_what_both_sides_hold_the_range_is_newest_on_the_host(still_exposed):
    memory = both_hold()
    refresh(memory, 8, 16, still_exposed=still_exposed)
    heads = [memory.spans.head(start, start + 8) for start in range(0, NBYTES, 8)]
    assert heads == [Head.SYNCED, Head.HEAD_AT_CPU, Head.SYNCED, Head.SYNCED]
    assert exposed(memory, HOST) == exposed(memory, ACCELERATOR) == []


def test_what_the_accelerator_alone_holds_stays_newest_there():
    memory = both_hold()
    memory.mutable_gpu_data()[:8] = 2
    refresh(memory, 0, NBYTES, still_exposed=False)
    assert memory.head is Head.HEAD_AT_GPU
    assert memory.cpu_data()[0] == 2


def test_the_range_is_no_longer_exposed_on_the_host_and_all_else_is():
    memory = both_hold()
    expose(memory, HOST, shared=True)
    expose(memory, ACCELERATOR, start=12)
    refresh(memory, 8, 16, still_exposed=False)
    assert exposed(memory, HOST) == [(0, 8, True), (16, NBYTES, True)]
    assert exposed(memory, ACCELERATOR) == [(12, NBYTES, False)]


def test_what_may_be_written_for_ever_can_stay_exposed():
    memory = both_hold()
    expose(memory, HOST, shared=True)
    memory.gpu_data()
    refresh(memory, 8, 16, still_exposed=True)
    assert exposed(memory, HOST) == [(0, NBYTES, True)]
    memory.mutable_gpu_data()
    assert not is_exposed(memory, ACCELERATOR, 0, NBYTES)


def test_it_is_refused_in_the_midst_of_a_transfer(monkeypatch):
    blob, device = Blob(NBYTES, "uint8", device="simulated"), syncblob.simulated()
    blob.mutable_cpu_data()[...] = 1
    blob.gpu_data()
    blob[:8].mutable_cpu_data()[...] = 2
    upload = device.upload

    def interrupted(*arrays):
        monkeypatch.setattr(device, "upload", upload)
        upload(*arrays)
        for use in (blob.refresh, blob[8:].mutable_cpu_data):
            with pytest.raises(RuntimeError, match="in the middle of a transfer"):
                use()

    monkeypatch.setattr(device, "upload", interrupted)
    blob[:8].mutable_gpu_data()
    assert device.upload is not interrupted
    assert blob[8:].head is Head.SYNCED
