"""The devices that tests take as a parameter."""

import pytest

from syncblob.devices import simulated

# One of a backend that is not syncblob's: see tests/devices/drawers_package.
OTHER = "drawer:0"

SYCL = pytest.param("sycl:0", marks=[pytest.mark.sycl, pytest.mark.long])

# The device of the fixture `limited`. No other tests use it, so that nothing else needs room there.
LIMITED = "simulated:7"

# A simulated device that shares the memory of the host.
SHARED = "simulated:9"
simulated(9, shared=True)
_SHARED = pytest.param(SHARED, marks=pytest.mark.long)

# Accelerators on which everything works.
ACCELERATORS = ["simulated:0", pytest.param("cuda:0", marks=pytest.mark.gpu), SYCL, OTHER, _SHARED]

# Devices on which NumPy's functions and those of the array API compute.
DEVICES = ["cpu", "simulated:0", pytest.param(OTHER, marks=pytest.mark.long), SYCL, _SHARED]
