"""`Blob.prefetch("cpu")`: downloads that still run when the call returns, and who waits."""

import cupy_model
import numpy as np
import pytest
from cuda_model import CUDARuntimeError, Machine
from made_blobs import filled

import syncblob
from syncblob import Blob, Head
from syncblob.blob.core import fresh
from syncblob.devices import accelerator
from syncblob.memory import CONST, changes

HOST, GPU, SYNCED = Head.HEAD_AT_CPU, Head.HEAD_AT_GPU, Head.SYNCED


@pytest.fixture(params=["simulated:0", "lazy", "eager"])
def device(request):
    """Give a simulated device whose copies are late, or the model of a CUDA device."""
    if request.param == "simulated:0":
        backend = syncblob.simulated()
        backend.synchronize()
        backend.delay = 0.02
        yield request.param
        backend.delay = 0.0
        backend.synchronize()
        return
    with cupy_model.installed(Machine(2, eager=request.param == "eager")):
        yield "cuda:0"


def on_device(device, value=3, shape=(4, 5)):
    """Make a Blob whose newest contents are on the device; no other code has its memory there."""
    blob = filled(value, shape, device=device)
    blob.prefetch()
    home = blob.home
    array = blob.array_in(home, CONST, "test")
    made = fresh(Blob, home.compute(home.copy, array), home)
    assert made.head is GPU
    return made


def values(array):
    """Return the unique values of an array of either library."""
    return set(np.asarray(getattr(array, "get", lambda: array)()).ravel().tolist())


def test_a_download_is_started_and_reads_on_the_host_wait_for_it(device):
    blob = on_device(device)
    with syncblob.record_transfers() as log:
        blob.prefetch("cpu")
        assert blob.head is SYNCED
        blob.prefetch("cpu")
        assert values(blob.gpu_data()) == {3}
        assert values(blob.cpu_data()) == {3}
    assert (log.uploads, log.downloads) == (0, 1)
    assert log[0].asynchronous
    assert log[0].reason == "prefetch"
    [entry] = [str(entry) for entry in blob.memory.history if entry.reason == "prefetch"]
    assert entry.startswith("prefetch: HEAD_AT_GPU -> SYNCED, download, at ")


def test_a_write_on_the_device_comes_after_the_download(device):
    blob = on_device(device)
    blob.prefetch("cpu")
    host = blob.memory.buffer(0)
    array = blob.mutable_gpu_data()
    array.fill(7)
    assert blob.head is GPU
    accelerator(device).synchronize()
    # The host got what was there when the download was started.
    assert set(host.view("float32").tolist()) == {3}
    assert values(blob.cpu_data()) == {7}


def test_a_download_comes_after_one_that_was_started_before(device):
    blob = on_device(device)
    for value in (4, 5, 6):
        blob.prefetch("cpu")
        blob.mutable_gpu_data().fill(value)
    blob.prefetch("cpu")
    assert blob.head is SYNCED
    assert values(blob.cpu_data()) == values(blob.gpu_data()) == {6}


def test_a_part_is_downloaded_and_the_others_stay(device, monkeypatch):
    monkeypatch.setattr(changes, "SMALL", 0)
    blob = on_device(device)
    with syncblob.record_transfers() as log:
        blob[1].prefetch("cpu")
        assert blob.head is Head.HEAD_AT_GPU or blob.head is Head.SPLIT
        assert blob[1].head is SYNCED
        assert values(blob[1].cpu_data()) == {3}
    assert log.nbytes == blob[1].nbytes
    blob[1].mutable_cpu_data()[...] = 9
    blob[1].async_gpu_push()
    blob.prefetch("cpu")
    assert set(np.ravel(blob.tolist())) == {3, 9}


@pytest.mark.parametrize("row", [0, 3])
def test_what_lies_beside_a_part_of_a_small_memory_comes_along_at_once(device, row, monkeypatch):
    blob = on_device(device)
    monkeypatch.setattr(changes, "SMALL", blob.nbytes)
    with syncblob.record_transfers() as log:
        blob[row].prefetch("cpu")
    [one] = log
    assert (one.nbytes, one.asynchronous, one.reason) == (blob.nbytes, False, "prefetch")
    assert values(blob.cpu_data()) == {3}


def test_bytes_that_an_alias_may_write_are_downloaded_at_once(device):
    blob = on_device(device)
    alias = syncblob.asarray(blob.gpu) if device != "cuda:0" else blob.gpu.__dlpack__()
    with syncblob.record_transfers() as log:
        blob.prefetch("cpu")
    assert (log.downloads, log[0].asynchronous, blob.head) == (1, False, GPU)
    del alias


def test_a_device_is_named(device):
    blob = Blob(3)
    blob[...] = 2
    blob.prefetch(device)
    assert (blob.head, blob.device) == (SYNCED, "cpu")
    assert blob.memory.accelerator.device == device
    with pytest.raises(ValueError, match="a device is"):
        blob.prefetch("gpu")
    assert values(blob.gpu_data()) == {2}


def test_a_download_that_cannot_start_changes_nothing():
    with cupy_model.installed(machine := Machine(1)):
        blob = on_device("cuda:0")
        for kind in ("memcpyAsync", "eventCreate", "pinned_allocation"):
            with machine.failing(**{kind: 1}):
                if kind == "pinned_allocation":
                    blob.memory.buffer(0)
                    blob.prefetch("cpu")
                    continue
                with pytest.raises(CUDARuntimeError):
                    blob.prefetch("cpu")
            assert blob.head is GPU
        assert values(blob.cpu_data()) == {3}


def test_a_download_that_fails_leaves_the_newest_contents_on_the_device():
    backend = syncblob.simulated()
    blob = on_device("simulated:0")
    with backend.failing(transfer=1):
        blob.prefetch("cpu")
        with pytest.raises(RuntimeError, match="injected failure"):
            blob.cpu_data()
    assert blob.head is GPU
    assert values(blob.cpu_data()) == {3}


def test_a_loop_of_downloads_does_not_wait_for_the_device():
    with cupy_model.installed(machine := Machine(1)):
        x = filled(1, 64, device="cuda:0")
        home = x.home
        array = x.array_in(home, CONST, "test")
        results = []
        machine.calls.clear()
        for _ in range(4):
            result = fresh(Blob, home.compute(home.copy, array), home)
            result.prefetch("cpu")
            results.append(result)
        assert not machine.idle
        assert [values(result.cpu_data()) for result in results] == [{1}] * 4
        assert not machine.calls["deviceSynchronize"]
