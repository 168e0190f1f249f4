"""Fixtures shared by the tests of CuPy, its kernels and Numba: Blobs on a CUDA device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import made_blobs
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from syncblob import Blob


@pytest.fixture
def cupy() -> ModuleType:
    """Return CuPy. Only tests with the gpu mark use it. They are skipped without a device."""
    import cupy

    return cupy


@pytest.fixture
def on_cuda() -> Callable[..., Blob]:
    """Make a Blob of cuda:0 with a given head. Its contents count up."""
    return lambda head, shape=(2, 3), dtype="float32": made_blobs.on_cuda(head, dtype, shape)
