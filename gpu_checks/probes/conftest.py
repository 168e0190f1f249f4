"""What the probes share: CuPy or the model, Blobs in a state, and work that starts late."""

import numpy as np
import pytest

from gpu_checks.device import cupy_of_this_machine, delay, is_model, warm_up
from syncblob import Blob
from syncblob.devices import accelerator


@pytest.fixture(autouse=True)
def cupy():
    """Return CuPy or the model, with the kernels of the probes loaded."""
    warm_up()
    return cupy_of_this_machine()


@pytest.fixture
def backend():
    return accelerator("cuda:0")


@pytest.fixture
def torch():
    """Return PyTorch built for CUDA."""
    torch = None if is_model() else pytest.importorskip("torch")
    if torch is None or not torch.cuda.is_available():
        pytest.skip("needs a GPU, and PyTorch built for CUDA")
    return torch


class Work:
    """Work on the device, and what it saw."""

    size = 1 << 12

    def blob(self, value, size=size, dtype="float32"):
        """Make a Blob that holds a value on both sides, and wait for the device."""
        blob = Blob(size, dtype, device="cuda:0")
        blob.overwrite_cpu_data().fill(value)
        blob.prefetch()
        cupy_of_this_machine().cuda.Device(0).synchronize()
        return blob

    def read_late(self, array, stream):
        """Queue a copy of an array on a stream, after a delay."""
        cupy = cupy_of_this_machine()
        seen = cupy.zeros(array.shape, array.dtype)
        cupy.cuda.Device().synchronize()
        delay(stream)
        with stream:
            seen[...] = array
        return seen

    def seen(self, array):
        """Return the unique values of an array, at most a few."""
        return [float(value) for value in np.unique(array.get())[:4]]


@pytest.fixture
def work():
    return Work()
