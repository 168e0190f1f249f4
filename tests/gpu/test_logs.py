"""What CUDA's clock tells a log."""

import time

import pytest
from made_blobs import filled

from syncblob import Blob, record_transfers

pytestmark = pytest.mark.gpu

# The clocks of the host and of the device are compared through an event.
SECONDS = 1e-3


def test_operations_and_uploads_have_the_times_of_the_device(cupy):
    blob = filled(1, 1 << 24, device="cuda:0")
    (Blob(3, device="cuda:0") * 2).sum().item()  # compiles the kernels
    start = time.perf_counter()
    with record_transfers(operations=True) as log:
        blob.async_gpu_push()
        total = (blob * 2).sum().item()
    end = time.perf_counter()
    cupy.cuda.Device(0).synchronize()
    assert total == 2 << 24
    pushed = log[0]
    assert pushed.asynchronous
    assert start - SECONDS <= pushed.start < pushed.arrived <= end + SECONDS
    multiply, add = log.operations[:2]
    assert (multiply.name, add.name) == ("multiply", "sum")
    assert pushed.start <= multiply.start + SECONDS
    assert 0 < multiply.seconds < end - start
    assert multiply.start + multiply.seconds <= add.start + SECONDS
    assert add.start + add.seconds <= end + SECONDS
