"""Shapes, counts and indices."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncblob import Blob
from syncblob._shape import as_shape


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), ()),
        (5, (5,)),
        (np.int64(5), (5,)),
        ([2, 3], (2, 3)),
        ((np.uint8(2), 3), (2, 3)),
        (np.array([4, 0]), (4, 0)),
        ((dim for dim in (1, 2)), (1, 2)),
        (range(3), (0, 1, 2)),
        ((1,) * 64, (1,) * 64),
        ((2**63 - 1,), (2**63 - 1,)),
        ((0, 2**31, 2**31), (0, 2**31, 2**31)),
        ((2**31,), (2**31,)),
    ],
)
def test_shapes_become_tuples_of_plain_integers(shape, expected):
    result = as_shape(shape)
    assert result == expected
    assert all(type(dim) is int for dim in result)


@pytest.mark.parametrize("shape", [2.0, (2.0,), "12", (2, None), None, [[1, 2]], ("a",), {2: 3.5}])
def test_a_shape_of_a_wrong_kind_is_a_type_error_or_is_read_as_integers(shape):
    if isinstance(shape, dict):
        assert as_shape(shape) == (2,)
        return
    with pytest.raises(TypeError, match="shape"):
        as_shape(shape)


@pytest.mark.parametrize(
    ("shape", "itemsize", "message"),
    [
        (-1, 1, r"non-negative, got \(-1,\)"),
        ((2, -3, 4), 1, r"non-negative, got \(2, -3, 4\)"),
        ((0, -1), 1, "non-negative"),
        ((1,) * 65, 1, "at most 64 axes, got 65"),
        ((2**63,), 1, "exceeds"),
        ((2**61,), 4, "exceeds"),
        ((2**31, 2**31, 2**31), 1, "exceeds"),
    ],
)
def test_impossible_shapes_are_value_errors(shape, itemsize, message):
    with pytest.raises(ValueError, match=message):
        as_shape(shape, itemsize)


@given(st.lists(st.integers(0, 4), max_size=4).map(tuple))
def test_count_multiplies_a_range_of_axes(shape):
    for start in range(len(shape) + 1):
        assert Blob(shape).count(start) == math.prod(shape[start:])
        for end in range(start, len(shape) + 1):
            assert Blob(shape).count(start, end) == math.prod(shape[start:end])


@pytest.mark.parametrize("axes", [(2, 1), (-1, 2), (0, 5), (5, 5), (0, -1), (-1,), (5,)])
def test_count_refuses_what_is_no_range_of_axes(axes):
    with pytest.raises(IndexError, match="<= 4"):
        Blob((2, 3, 4, 5)).count(*axes)
    with pytest.raises(TypeError):
        Blob((2, 3, 4, 5)).count(*map(float, axes))
