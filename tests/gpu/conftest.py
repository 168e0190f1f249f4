"""Fixtures shared by the tests of CuPy, its kernels and Numba: Blobs on a CUDA device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from made_blobs import values

from syncblob import Blob, Head

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.fixture
def cupy() -> ModuleType:
    """Return CuPy. Only tests with the gpu mark use it. They are skipped without a device."""
    import cupy

    return cupy


@pytest.fixture
def on_cuda() -> Callable[..., Blob]:
    """Make a Blob of cuda:0 with a given head. Its contents count up."""

    def make(head: Head, shape: Any = (2, 3), dtype: Any = "float32") -> Blob:
        blob = Blob(shape, dtype, device="cuda:0")
        if head:
            blob.overwrite_cpu_data()[...] = values(dtype, shape)
        if head & Head.HEAD_AT_GPU:
            blob.mutable_gpu_data()
        if head is Head.SYNCED:
            blob.cpu_data()
        return blob

    return make
