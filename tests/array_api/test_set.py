"""Set functions: equality of elements, corrections and errors."""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob

UNIQUE = {
    xp.unique_all: ("values", "indices", "inverse_indices", "counts"),
    xp.unique_counts: ("values", "counts"),
    xp.unique_inverse: ("values", "inverse_indices"),
}


@pytest.mark.parametrize(("function", "fields"), UNIQUE.items(), ids=lambda x: str(x)[:24])
def test_unique_returns_a_named_tuple(function, fields, on, device):
    """The standard names the fields. The inverse has the shape of x."""
    result = function(on([[3, 1], [3, 2]], "i2"))
    assert result._fields == fields
    assert isinstance(result, tuple)
    everything = {
        "values": np.array([1, 2, 3], "i2"),
        "indices": np.array([1, 3, 0]),
        "inverse_indices": np.array([[2, 0], [2, 1]]),
        "counts": np.array([1, 1, 2]),
    }
    for name in fields:
        part = getattr(result, name)
        assert part.device == device
        np.testing.assert_array_equal(np.asarray(part), everything[name], strict=True)


def test_each_nan_is_another_element(on):
    """The standard: NaN compares unequal, so each NaN is distinct and has a count of one."""
    x = on([np.nan, 1.0, np.nan])
    assert xp.unique_values(x).shape == (3,)
    assert xp.unique_counts(x).counts.tolist() == [1, 1, 1]
    assert sorted(xp.unique_inverse(x).inverse_indices.tolist()) == [0, 1, 2]
    assert xp.unique_all(on([complex(0, np.nan)] * 2)).counts.tolist() == [1, 1]


def test_zeros_of_both_signs_are_one_element(on):
    """The standard: signed zeros are not distinct and are counted together."""
    values, counts = xp.unique_counts(on([0.0, -0.0, 0.0]))
    assert values.tolist() == [0]
    assert counts.tolist() == [3]
    assert xp.isin(on([-0.0]), on([0.0])).tolist() == [True]


def test_a_blob_without_axes_has_one_element(on):
    values, indices, inverse, counts = xp.unique_all(on(5))
    assert (values.tolist(), indices.tolist(), counts.tolist()) == ([5], [0], [1])
    assert inverse.shape == ()


@pytest.mark.parametrize(
    ("x1", "x2", "expected"),
    [
        ([[1, 2], [3, 4]], [2, 4, 6], [[False, True], [False, True]]),
        ([1, 2], 2, [False, True]),
        (2, [[1], [2]], True),
        (9, [1, 2], False),
        ([np.nan, 1.0], [np.nan, 1.0], [False, True]),
        ([], [1], []),
    ],
)
def test_isin(x1, x2, expected, on, device):
    """The standard since 2025.12: either argument may be a scalar."""
    operands = [on(x) if isinstance(x, list) else x for x in (x1, x2)]
    for invert in (False, True):
        result = xp.isin(*operands, invert=invert)
        assert result.device == device
        wanted = np.array(expected, bool) ^ invert
        np.testing.assert_array_equal(np.asarray(result), wanted, strict=True)


def test_isin_compares_a_scalar_as_equal_does(on):
    """The standard: elements are compared as by `equal`."""
    x, small = on([0.1], "f4"), on([1, 44], "i1")
    assert xp.isin(x, 0.1).tolist() == xp.equal(x, 0.1).tolist() == [True]
    # 300 modulo 256 is 44.
    assert xp.isin(small, 300).tolist() == [False, False]
    assert xp.isin(300, small, invert=True).tolist() is True


@pytest.mark.parametrize(
    "call", [lambda x: xp.isin(x, 1), lambda x: xp.isin(1, x), lambda x: xp.isin(Blob(2), [x])]
)
@pytest.mark.parametrize("other", [np.ones(2), [1.0, 2.0], 1.0, None], ids=repr)
def test_isin_wants_a_blob(call, other):
    with pytest.raises(TypeError, match="Blob"):
        call(other)
