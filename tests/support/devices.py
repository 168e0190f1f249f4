"""The devices that tests take as a parameter."""

import pytest

# One of a backend that is not syncblob's: see tests/devices/drawers_package.
OTHER = "drawer:0"

SYCL = pytest.param("sycl:0", marks=[pytest.mark.sycl, pytest.mark.long])

# The device of the fixture `limited`. No other tests use it, so that nothing else needs room there.
LIMITED = "simulated:7"

# Accelerators on which everything works.
ACCELERATORS = ["simulated:0", pytest.param("cuda:0", marks=pytest.mark.gpu), SYCL, OTHER]

# Devices on which NumPy's functions and those of the array API compute.
DEVICES = ["cpu", "simulated:0", pytest.param(OTHER, marks=pytest.mark.long), SYCL]
