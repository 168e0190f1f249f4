"""Sorting functions: both directions, equal elements, NaN and errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncblob as xp


def sorted_by_hand(a, *, descending):
    """Return the indices of Python's stable sort, with NaN as the greatest value."""
    key = [(np.isnan(v), 0 if np.isnan(v) else v) for v in a.tolist()]
    return sorted(range(len(key)), key=lambda i: key[i], reverse=descending)


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -np.inf, np.inf, np.nan]), max_size=40),
    descending=st.booleans(),
)
@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_equal_elements_keep_their_order_in_both_directions(device, values, descending):
    """The standard: a stable sort keeps the relative order of equal elements."""
    a = np.array(values, "f8")
    x = xp.asarray(a, device=device)
    order = sorted_by_hand(a, descending=descending)
    assert xp.argsort(x, descending=descending).tolist() == order
    expected = a[order]
    result = np.asarray(xp.sort(x, descending=descending))
    np.testing.assert_array_equal(result, expected, strict=True)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[number], np.signbit(expected)[number])


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_sorts_along_an_axis(axis, descending, stable, on, device):
    a = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype("u1")
    x = on(a)
    with xp.no_transfers():
        values = xp.sort(x, axis=axis, descending=descending, stable=stable)
        indices = xp.argsort(x, axis=axis, descending=descending, stable=stable)
    step = slice(None, None, -1 if descending else 1)
    for result, ascending in (
        (values, np.sort(a, axis=axis)),
        (indices, np.argsort(a, axis=axis)),
    ):
        expected = np.moveaxis(np.moveaxis(ascending, axis, 0)[step], 0, axis)
        assert result.device == device
        np.testing.assert_array_equal(np.asarray(result), expected, strict=True)


def test_the_operand_stays_as_it_is(on):
    x = on([2, 1, 3])
    xp.sort(x, descending=True)[...] = 0
    assert x.tolist() == [2, 1, 3]


@pytest.mark.parametrize("function", [xp.sort, xp.argsort])
@pytest.mark.parametrize(
    ("axis", "error"), [(2, IndexError), (-3, IndexError), (None, TypeError), ((0, 1), TypeError)]
)
def test_other_axes_are_refused(function, axis, error, on):
    with pytest.raises(error):
        function(on([[1, 2]]), axis=axis)


@pytest.mark.parametrize("function", [xp.sort, xp.argsort])
def test_without_axes_there_is_nothing_to_sort(function, on):
    with pytest.raises(IndexError):
        function(on(1))


@pytest.mark.parametrize("device", ["cpu", "simulated:0"])
def test_a_result_is_in_c_order_in_both_directions(device):
    x = xp.asarray([[1, 3, 2], [5, 4, 6]], device=device)
    for descending in (False, True):
        for function in (xp.sort, xp.argsort):
            assert function(x, descending=descending).flags.c_contiguous
