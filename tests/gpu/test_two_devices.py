"""All operations of a Blob run on its own device, whichever device is current."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from made_blobs import values

import syncblob
from syncblob import Blob
from syncblob.devices import cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.device_count() == 1, reason="needs a second CUDA device"),
]

X = values()
DEVICE = "cuda:1"


def blob():
    made = Blob(X.shape, device=DEVICE)
    made.overwrite_cpu_data()[...] = X
    made.mutable_gpu_data()
    return made


def after(change):
    """Return a function that changes a Blob and returns it."""

    def changed():
        made = blob()
        change(made)
        return made

    return changed


def assign(key, value):
    return after(lambda x: x.__setitem__(key, value()))


def updated(x):
    x.overwrite_cpu_diff()[...] = 1
    x.mutable_gpu_diff()
    x.update()


def pushed(x):
    x.mutable_cpu_data()
    x.async_gpu_push()


CALLS = {
    "an operator": (lambda: blob() + blob(), X * 2),
    "an operator in place": (after(lambda x: x.__iadd__(2)), X + 2),
    "an operator with an array": (lambda: np.ones(3, "float32") + blob(), X + 1),
    "a ufunc": (lambda: np.sqrt(blob()), np.sqrt(X)),
    "a ufunc into an array": (lambda: np.add(blob(), 1, out=np.zeros_like(X)), X + 1),
    "a ufunc into a blob of the host": (lambda: np.add(blob(), 1, out=Blob(X.shape)), X + 1),
    "a function": (lambda: np.concatenate([blob(), blob()]), np.concatenate([X, X])),
    "a function of the array API": (lambda: syncblob.sum(blob(), axis=0), X.sum(axis=0)),
    "a new blob": (lambda: syncblob.arange(3, device=DEVICE), np.arange(3)),
    "a method": (lambda: blob().max(axis=1), X.max(axis=1)),
    "fill": (after(lambda x: x.fill(3)), np.full_like(X, 3)),
    "astype": (lambda: blob().astype("float64"), X),
    "copy": (lambda: Blob.copy(blob().T), X.T),
    "deepcopy": (lambda: copy.deepcopy(blob()), X),
    "pickle": (lambda: pickle.loads(pickle.dumps(blob())), X),
    "reshape": (lambda: blob().T.reshape(6), X.T.ravel()),
    "frequencies of another dtype": (
        lambda: syncblob.fft.fftfreq(4, dtype="float32", device=DEVICE),
        np.fft.fftfreq(4),
    ),
    "what a function only looks at": (lambda: np.diag(blob()), np.diag(X)),
    "asarray": (lambda: syncblob.asarray(blob(), copy=True), X),
    "asarray of a view": (lambda: syncblob.asarray(blob().gpu_data()[:, ::2]), X[:, ::2]),
    "indexing": (lambda: blob()[syncblob.asarray([1, 0])], X[[1, 0]]),
    "masking": (lambda: blob()[blob() > 2], X[X > 2]),
    "assigning a number": (assign(..., lambda: 3), np.full_like(X, 3)),
    "assigning a blob": (assign(..., blob), X),
    "assigning another dtype": (assign(..., lambda: blob().astype("float64")), X),
    "assigning by indices": (assign((..., [0, 1, 2]), lambda: 0), X * 0),
    "copy_from": (after(lambda x: x.copy_from(blob())), X),
    "copy_from another dtype": (after(lambda x: x.copy_from(np.ones((2, 3), "int8"))), X * 0 + 1),
    "update": (after(updated), X - 1),
    "scale_data": (after(lambda x: x.scale_data(2)), X * 2),
    "asum_data": (lambda: blob().asum_data(), X.sum()),
    "an asynchronous upload": (after(pushed), X),
    "a dlpack copy": (lambda: np.from_dlpack(blob(), device="cpu", copy=True), X),
    "another device": (lambda: blob().to_device("cuda:0"), X),
    "beside another device": (lambda: blob() + blob().to_device("cuda:0"), X * 2),
    "assigning from another device": (assign(..., lambda: blob().to_device("cuda:0")), X),
    "a view on another device": (lambda: blob().on("cuda:0") * 2, X * 2),
    "in place beside another device": (after(lambda x: x.__iadd__(x.to_device("cuda:0"))), X * 2),
}


def test_a_peer_copy_has_what_was_queued_on_both_devices():
    one, other = blob(), Blob(X.shape, device="cuda:0")
    for _ in range(100):
        one += 1
    with syncblob.record_transfers() as log:
        other.copy_from(one)
        other += one
    assert {entry.direction for entry in log} == {"peer"}
    np.testing.assert_allclose(np.asarray(other), 2 * (X + 100))


@pytest.mark.parametrize(("call", "expected"), CALLS.values(), ids=CALLS)
def test_it_is_done_on_the_blobs_device_and_the_current_one_stays(cupy, call, expected):
    with cupy.cuda.Device(0):
        result = call()
        assert cupy.cuda.runtime.getDevice() == 0
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-6)
