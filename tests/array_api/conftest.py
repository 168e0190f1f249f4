"""Fixtures shared by the tests of the array API."""

import numpy as np
import pytest
from devices import DEVICES

import syncblob


@pytest.fixture(params=[*DEVICES, pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request):
    """The name of a device: the host, the simulated device, and CUDA if there is a GPU."""
    return request.param


@pytest.fixture
def on(device):
    """Make Blobs whose contents are on the device only."""

    def make(values, dtype=None):
        blob = syncblob.asarray(np.array(values, dtype), device=device)
        if device != "cpu":
            blob.mutable_gpu_data()
        return blob

    return make
