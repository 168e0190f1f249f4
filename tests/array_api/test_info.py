"""Inspection: the namespace describes itself correctly."""

import numpy as np
import pytest

import syncblob as xp

INFO = xp.__array_namespace_info__()


def test_capabilities_are_true():
    capabilities = INFO.capabilities()
    assert set(capabilities) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    blob = xp.arange(4)
    assert capabilities["boolean indexing"]
    assert blob[blob > 1].tolist() == [2, 3]
    assert capabilities["data-dependent shapes"]
    assert xp.nonzero(blob)[0].shape == (3,)
    most = capabilities["max dimensions"]
    assert xp.ones((1,) * most).ndim == most
    with pytest.raises(ValueError, match=r"dimension|axes"):
        xp.ones((1,) * (most + 1))


def test_the_default_device_is_the_one_in_use():
    assert INFO.default_device() == "cpu"
    with xp.use_device("simulated:1"):
        assert INFO.default_device() == "simulated:1"
        assert xp.zeros(1).device == INFO.default_device()


def test_devices_can_be_used():
    devices = INFO.devices()
    assert isinstance(devices, tuple)
    assert "cpu" in devices
    for device in devices:
        assert xp.zeros(1, device=device).device == device


def test_default_dtypes_are_those_of_results():
    for device in (None, "cpu", "simulated:0", INFO.default_device()):
        defaults = INFO.default_dtypes(device=device)
        assert defaults == {
            "real floating": np.dtype("float64"),
            "complex floating": np.dtype("complex128"),
            "integral": np.dtype("int64"),
            "indexing": np.dtype("int64"),
        }
        assert all(isinstance(dtype, np.dtype) for dtype in defaults.values())
    assert xp.asarray(1.0).dtype == xp.zeros(1).dtype == defaults["real floating"]
    assert xp.asarray(1j).dtype == defaults["complex floating"]
    assert xp.asarray(1).dtype == xp.arange(1).dtype == defaults["integral"]
    assert xp.argmax(xp.ones(3)).dtype == defaults["indexing"]
    defaults.clear()
    assert INFO.default_dtypes()


KINDS = """
    bool, signed integer, unsigned integer, real floating, complex floating, integral, numeric
""".strip().split(", ")


@pytest.mark.parametrize("kind", [None, (), ("bool", "real floating"), *KINDS])
def test_dtypes_are_numpys(kind):
    found = INFO.dtypes(kind=kind, device="simulated:0")
    theirs = np.__array_namespace_info__().dtypes(kind=kind)
    assert found == {name: np.dtype(dtype) for name, dtype in theirs.items()}
    # scikit-learn looks up dtypes by their hash.
    assert all(isinstance(dtype, np.dtype) for dtype in found.values())
