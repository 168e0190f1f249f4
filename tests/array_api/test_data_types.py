"""Data types: limits, kinds, promotion and conversion."""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob

FLOATS = {"float16": "float16", "float32": "float32", "float64": "float64"}
FLOATS |= {"complex64": "float32", "complex128": "float64"}
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


@pytest.mark.parametrize("name", list(FLOATS))
def test_finfo_has_floats_of_python(name):
    limits = np.finfo(name)
    for given in (np.dtype(name), np.dtype(name).type, name, Blob(2, name)):
        found = xp.finfo(given)
        assert found.dtype == np.dtype(FLOATS[name])
        assert found.bits == limits.bits
        for attribute in ("eps", "max", "min", "smallest_normal"):
            assert type(getattr(found, attribute)) is float
            assert getattr(found, attribute) == float(getattr(limits, attribute))
    assert {type(found.bits), isinstance(found.dtype, np.dtype)} == {int, True}


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo_has_integers_of_python(name):
    limits = np.iinfo(name)
    for given in (np.dtype(name), np.dtype(name).type, Blob(2, name)):
        found = xp.iinfo(given)
        assert (found.bits, found.min, found.max) == (limits.bits, limits.min, limits.max)
        assert {type(found.bits), type(found.min), type(found.max)} == {int}
        assert found.dtype == np.dtype(name)


def test_limits_of_bfloat16():
    pytest.importorskip("ml_dtypes")
    found = xp.finfo("bfloat16")
    assert (found.bits, found.eps, found.smallest_normal) == (16, 2.0**-7, 2.0**-126)
    assert found.dtype.name == "bfloat16"
    assert xp.isdtype("bfloat16", "real floating")
    assert xp.isdtype("bfloat16", ("bool", "numeric"))
    assert not xp.isdtype("bfloat16", ("integral", np.float32))
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype("bfloat16", "bfloat16")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bool", "b"),
        ("signed integer", "i"),
        ("unsigned integer", "u"),
        ("integral", "iu"),
        ("real floating", "f"),
        ("complex floating", "c"),
        ("numeric", "iufc"),
        (("bool", "unsigned integer"), "bu"),
    ],
)
def test_kinds_of_dtypes(kind, expected):
    for name in ("bool", *INTEGERS, *FLOATS):
        assert xp.isdtype(np.dtype(name), kind) is (np.dtype(name).kind in expected)
        assert xp.isdtype(np.dtype(name), np.dtype(name))


def test_promotion_with_scalars_keeps_the_dtype_of_arrays():
    assert xp.result_type(Blob(1, "int8"), 1) == np.dtype("int8")
    assert xp.result_type(np.float32, 1j) == np.dtype("complex64")
    assert xp.result_type("int8", Blob(1, "uint8"), 1) == np.dtype("int16")
    assert xp.result_type(Blob(1, "int32"), 1.5) == np.dtype("float64")
    assert xp.result_type(np.float32(1), 2.0) == np.dtype("float32")
    # array-api-strict does the same, and SciPy relies on it.
    for scalars in ((), (1,), (1, 2.0)):
        with pytest.raises(ValueError, match="Blob"):
            xp.result_type(*scalars)
    for wrong in (np.array("text"), np.ma.ones(1), "text"):
        with pytest.raises(TypeError):
            xp.result_type(wrong)


def test_casts_that_promotion_makes():
    assert xp.can_cast(np.int8, np.int16) is True
    assert xp.can_cast(Blob(1, "int16"), np.int8) is False
    assert xp.can_cast("float32", "complex64")
    assert not xp.can_cast("complex64", "float64")


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_astype_returns_its_operand_or_moves_it(device):
    blob = xp.asarray([1.0, 2.5], device="cpu").to_device(device)
    assert xp.astype(blob, xp.float64, copy=False) is blob
    assert xp.astype(blob, xp.float32, device="cpu").device == "cpu"
    moved = xp.astype(blob, xp.float64, copy=False, device="simulated:1")
    assert (moved.device, moved.tolist()) == ("simulated:1", [1, 2.5])


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint64"])
def test_astype_does_not_drop_imaginary_parts(dtype):
    """The standard does not permit complex to real: astype "must raise"."""
    blob = xp.asarray([1 + 2j])
    with pytest.raises(TypeError, match="real"):
        xp.astype(blob, dtype)
    assert xp.astype(blob, "bool").tolist() == [True]
    with pytest.raises(TypeError, match="asarray"):
        xp.astype([1.0], dtype)
