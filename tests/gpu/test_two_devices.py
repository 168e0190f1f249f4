"""All operations of a Blob run on its own device, whichever device is current."""

import numpy as np
import pytest
from made_blobs import filled, values

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
    made = filled(X, X.shape, device=DEVICE)
    made.mutable_gpu_data()
    return made


def after(change):
    """Return a function that changes a Blob and returns it."""

    def changed():
        made = blob()
        change(made)
        return made

    return changed


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
    "a ufunc into a blob of the host": (lambda: np.add(blob(), 1, out=Blob(X.shape)), X + 1),
    "a new blob": (lambda: syncblob.arange(3, device=DEVICE), np.arange(3)),
    "indexing": (lambda: blob()[syncblob.asarray([1, 0])], X[[1, 0]]),
    "masking": (lambda: blob()[blob() > 2], X[X > 2]),
    "update": (after(updated), X - 1),
    "an asynchronous upload": (after(pushed), X),
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
