"""Fixtures shared by the tests of CuPy, its kernels and Numba: Blobs on a CUDA device."""

import made_blobs
import pytest


@pytest.fixture
def cupy():
    """Return CuPy. Only tests with the gpu mark use it. They are skipped without a device."""
    import cupy

    return cupy


@pytest.fixture
def on_cuda():
    """Make a Blob of cuda:0 with a given head. Its contents count up."""
    return lambda head, shape=(2, 3), dtype="float32": made_blobs.on_cuda(head, dtype, shape)
