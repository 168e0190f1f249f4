"""Blobs made from a shape and not used yet. The first use makes their memory."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from in_threads import in_threads

from syncblob import Blob

DEVICES = pytest.mark.parametrize("device", ["cpu", "simulated"])


def torch_sum(blob):
    torch = pytest.importorskip("torch")
    return torch.sum(blob).item()


def assign(blob):
    blob[0] = 0
    return blob


def add_in_place(blob):
    blob += 0
    return blob


def resize(blob):
    blob.resize(2, 3)
    return blob


def share(blob):
    other = Blob((2, 3))
    other.share_data(blob)
    return other


USES = {
    "operator": lambda blob: blob + 0,
    "in place": add_in_place,
    "assignment": assign,
    "slice": lambda blob: blob[1:],
    "mask": lambda blob: blob[np.array([True, False])],
    "transpose": lambda blob: blob.T,
    "ufunc": lambda blob: np.add(blob, 0),
    "function": lambda blob: np.concatenate([blob, blob]),
    "torch": torch_sum,
    "asarray": np.asarray,
    "DLPack": np.from_dlpack,
    "accessor": lambda blob: blob.cpu_data(),
    "diff": lambda blob: blob.diff,
    "copy": copy.deepcopy,
    "pickle": lambda blob: pickle.loads(pickle.dumps(blob)),
    "resize": resize,
    "share_data": share,
    "other device": lambda blob: blob.on("cpu"),
    "other dtype": lambda blob: blob.astype("int64"),
    "asum_data": lambda blob: blob.asum_data(),
}


@DEVICES
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_first_use_finds_zeros(use, device):
    assert not np.asarray(use(Blob((2, 3), device=device))).any()


def test_threads_that_come_first_find_the_same_memory():
    for _ in range(50):
        found = in_threads(*[partial(getattr, Blob(3), "memory")] * 4)
        assert len({id(memory) for memory in found}) == 1


def test_blobs_of_one_shape_are_resized_apart():
    first, second = Blob((2, 3)), Blob((2, 3))
    first[...] = 1
    first.resize(1)
    assert second.shape == (2, 3)
    assert second[...].tolist() == [[0] * 3] * 2
    first.resize(2, 3)
    assert first.tolist() == [[1, 1, 1], [1, 1, 1]]
