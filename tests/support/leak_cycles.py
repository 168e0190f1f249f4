"""Cycles that each make a Blob, do one thing with it, and drop everything."""

import copy
import inspect
import pickle
import threading
import warnings

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob, StaleAliasWarning, simulated
from syncblob.devices import Side
from syncblob.memory.accesses import expose

try:
    import torch
except ImportError:
    torch = None

BACKEND = simulated(0)


def made(device="simulated"):
    blob = Blob((4, 8), device=device)
    blob.memory.side_of(BACKEND)
    blob.mutable_cpu_data()[...] = 1
    return blob


def sync():
    blob = made()
    blob.gpu_data()
    blob.mutable_gpu_data()
    blob.cpu_data()
    blob.mutable_cpu_diff()
    blob.gpu_diff()


def push():
    blob = made()
    blob.async_gpu_push()
    blob.gpu_data()


def push_that_nobody_waits_for():
    made().async_gpu_push()


def parts():
    """Use each row of a Blob in a different way."""
    blob = made()
    borrow = blob[0].mutable_cpu_data()
    kept = [np.asarray(blob[1].gpu), np.from_dlpack(blob[2].cpu)]
    blob[3].async_gpu_push()
    expose(blob.memory, Side.ACCELERATOR, start=96, stop=100)
    for _ in range(3):
        blob.cpu_data()
        blob.gpu_data()
        blob[:, ::3].copy()
        np.array(blob[1:, ::2])
        blob.tolist()
    with xp.verified_const():
        kept.append(np.asarray(blob[0].cpu.const))
        blob[0].mutable_gpu_data()
    assert blob.head is xp.Head.SPLIT
    assert not borrow.flags.writeable


def parts_of_a_source():
    contents = np.ones(128, np.uint8)
    blob = Blob.from_source((4, 8), "float32", lambda: contents, device="simulated")
    blob[0].cpu_data()
    blob[2].gpu_data()
    blob[:, 3].tolist()
    blob[1].overwrite_gpu_data()


def aliases():
    blob = made("cpu")
    kept = [np.asarray(blob.cpu), np.from_dlpack(blob), memoryview(np.asarray(blob.cpu))[1:]]
    blob.gpu_data()
    kept.append(blob)


def an_alias_that_outlives_its_blob():
    alias = np.from_dlpack(made())
    assert alias[0, 0] == 1


def an_alias_that_was_left_behind():
    blob = made()
    alias = np.asarray(blob.cpu)
    with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
        blob.mutable_gpu_data()
        blob.set_cpu_data(np.zeros((4, 8), np.float32))
    del alias


def an_alias_in_a_reference_cycle():
    loop = [np.from_dlpack(made())]
    loop.append(loop)


def a_capsule_that_nobody_takes():
    blob = made()
    blob.__dlpack__()
    blob.__dlpack__(max_version=(1, 0))
    blob.gpu.__dlpack__(max_version=(1, 0))
    blob.const.__dlpack__(max_version=(1, 0))


def a_capsule_that_outlives_its_blob():
    capsule = made().__dlpack__()
    assert "dltensor" in repr(capsule)


def imports():
    array = np.ones((4, 8), np.float32)
    blob = xp.asarray(array, device="simulated")
    assert xp.from_dlpack(array).shape == (4, 8)
    blob.gpu_data()
    other = Blob((4, 8), device="simulated")
    other.set_gpu_data(array)
    other.cpu_data()


def views():
    blob = made()
    view = blob[1:, ::2].T.reshape(-1)
    view.cpu_data()
    blob[::2].gpu_data()
    blob.resize(8, 8)
    blob.resize(4, 8)
    blob.share_data(made()[:])


def operators():
    blob, other = made(), made("cpu")
    result = (blob + other) * 2 - blob
    result += 1
    xp.sum(result @ other.T)
    np.add(blob, 1, out=other)


def pickles():
    blob = made()
    blob.gpu_data()
    pickle.loads(pickle.dumps(blob, 5)).cpu_data()
    buffers = []
    content = pickle.dumps(blob, 5, buffer_callback=buffers.append)
    pickle.loads(content, buffers=buffers)
    copy.deepcopy(blob)


def messages():
    blob = made()
    Blob.from_proto(blob.to_proto(write_diff=True)).cpu_diff()


def records():
    blob = made()
    with xp.record_transfers() as log, xp.max_transfers(5):
        blob.gpu_data()
    assert log.uploads == 1
    guard = xp.compute_only_on("simulated")
    with guard, guard, pytest.raises(xp.DeviceGuardError):
        xp.ones(3)
    assert guard(xp.ones)(3, device="simulated").tolist() == [1] * 3
    blob.explain()


def verified():
    blob = made()
    with xp.verified_const():
        kept = np.asarray(blob)
        blob.mutable_gpu_data()
    del kept


def an_exception_in_the_middle():
    blob, other = made(), made()
    alias = np.asarray(blob.cpu)
    for kind in ("allocation", "transfer"):
        with BACKEND.failing(**{kind: 1}), pytest.raises((MemoryError, RuntimeError)):
            xp.sum(blob.data[1:] + other.gpu_data())
    with pytest.raises(ValueError, match="reshape"):
        blob.reshape(5, 5)
    with pytest.raises(xp.TransferGuardError), xp.no_transfers():
        blob.gpu_data()
    del alias


def a_push_that_fails():
    blob = made()
    with BACKEND.failing(transfer=1):
        blob.async_gpu_push()
        with pytest.raises(RuntimeError, match="injected"):
            blob.gpu_data()


def threads():
    blob = made()

    def work():
        alias = np.asarray(blob.cpu)
        blob.gpu_data()
        alias[0, 0] = 2

    several = [threading.Thread(target=work) for _ in range(2)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()


def tensors():
    blob = made("cpu")
    tensor = torch.from_dlpack(blob)[1:]
    tensor.add_(1)
    torch.add(blob, 1)
    torch.as_tensor(blob.cpu)
    tensor = torch.from_dlpack(made())[1:]
    tensor.add_(1)
    xp.asarray(torch.ones(3), device="simulated").gpu_data()


def autograd():
    blob = made()
    parameter = blob.as_parameter()
    (torch.nn.functional.linear(torch.ones(2, 8), parameter) ** 2).sum().backward()
    blob.update()


def autograd_that_is_not_finished():
    loss = (made().as_parameter() * 2).sum()
    assert loss.requires_grad


# The functions above, in their order.
QUICK = [
    each
    for each in [*globals().values()]
    if inspect.isfunction(each) and each.__module__ == __name__ and each is not made
]
if torch is None:
    QUICK = [
        each for each in QUICK if each not in (tensors, autograd, autograd_that_is_not_finished)
    ]
