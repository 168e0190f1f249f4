"""Cycles that each make a Blob, do one thing with it, and drop everything."""

import copy  # noqa: F401  # for the statements
import pickle  # noqa: F401  # as above
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


def an_alias_that_was_left_behind():
    blob = made()
    alias = np.asarray(blob.cpu)
    with warnings.catch_warnings(action="ignore", category=StaleAliasWarning):
        blob.mutable_gpu_data()
        blob.set_cpu_data(np.zeros((4, 8), np.float32))
    del alias


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


# The others, of Blobs `b` and `c`, as statements.
STATEMENTS = """
sync: b.gpu_data(); b.mutable_gpu_data(); b.cpu_data(); b.mutable_cpu_diff(); b.gpu_diff()
push: b.async_gpu_push(); b.gpu_data()
push_that_nobody_waits_for: b.async_gpu_push()
parts_of_a_source: s = source(); s[0].cpu_data(); s[2].gpu_data(); s[:, 3].tolist()
    s[1].overwrite_gpu_data()
aliases: kept = [np.asarray(c.cpu), np.from_dlpack(c), memoryview(np.asarray(c.cpu))[1:]]
    c.gpu_data(); kept.append(c)
an_alias_that_outlives_its_blob: alias = np.from_dlpack(b); del b; assert alias[0, 0] == 1
an_alias_in_a_reference_cycle: loop = [np.from_dlpack(b)]; loop.append(loop)
a_capsule_that_nobody_takes: b.__dlpack__(); b.__dlpack__(max_version=(1, 0))
    b.gpu.__dlpack__(max_version=(1, 0)); b.const.__dlpack__(max_version=(1, 0))
a_capsule_that_outlives_its_blob: kept = b.__dlpack__(); del b; assert "dltensor" in repr(kept)
imports: a = np.ones((4, 8), np.float32); xp.asarray(a, device="simulated").gpu_data()
    assert xp.from_dlpack(a).shape == (4, 8); b.set_gpu_data(a); b.cpu_data()
views: b[1:, ::2].T.reshape(-1).cpu_data(); b[::2].gpu_data(); b.resize(8, 8); b.resize(4, 8)
    b.share_data(c[:])
operators: d = (b + c) * 2 - b; d += 1; xp.sum(d @ c.T); np.add(b, 1, out=c)
pickles: b.gpu_data(); pickle.loads(pickle.dumps(b, 5)).cpu_data(); buffers = []
    content = pickle.dumps(b, 5, buffer_callback=buffers.append)
    pickle.loads(content, buffers=buffers); copy.deepcopy(b)
messages: Blob.from_proto(b.to_proto(write_diff=True)).cpu_diff()
"""
OF_TORCH = """
tensors: t = torch.from_dlpack(c)[1:]; t.add_(1); torch.add(c, 1); torch.as_tensor(c.cpu)
    t = torch.from_dlpack(b)[1:]; t.add_(1)
    xp.asarray(torch.ones(3), device="simulated").gpu_data()
autograd: p = b.as_parameter()
    (torch.nn.functional.linear(torch.ones(2, 8), p) ** 2).sum().backward(); b.update()
autograd_that_is_not_finished: loss = (b.as_parameter() * 2).sum(); assert loss.requires_grad
"""


def source():
    return Blob.from_source((4, 8), "float32", lambda: np.ones(128, np.uint8), device="simulated")


def in_words(text):
    """Return functions of statements."""
    for line in text.strip().replace("\n    ", "; ").splitlines():
        name, _, statements = line.partition(": ")
        scope = globals().copy()
        exec(f"def {name}():\n    b, c = made(), made('cpu')\n    {statements}", scope)  # noqa: S102  # ours
        yield scope[name]


QUICK = [
    parts,
    an_alias_that_was_left_behind,
    records,
    an_exception_in_the_middle,
    a_push_that_fails,
    threads,
    *in_words(STATEMENTS),
    *(in_words(OF_TORCH) if torch else ()),
]
