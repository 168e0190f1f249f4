"""Fixtures shared by the tests of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices import DEVICES

import syncblob


@pytest.fixture(params=[*DEVICES, pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device: the host, the simulated device, and CUDA if there is a GPU."""
    name: str = request.param
    return name


@pytest.fixture
def on(device: str) -> Callable[..., syncblob.Blob]:
    """Make Blobs whose contents are on the device only."""

    def make(values: Any, dtype: str | None = None) -> syncblob.Blob:
        blob = syncblob.asarray(np.array(values, dtype), device=device)
        if device != "cpu":
            blob.mutable_gpu_data()
        return blob

    return make
