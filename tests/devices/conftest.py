"""Fixtures of the tests on the model of CUDA, which need the fixture `machine`."""

import pytest

from syncblob.devices import accelerator


@pytest.fixture
def cupy():
    import cupy

    return cupy


@pytest.fixture
def backend():
    return accelerator("cuda:0")
