"""Shapes, counts and indices."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
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


def accepted(shape, itemsize):
    try:
        as_shape(shape, itemsize)
    except ValueError:
        return False
    return True


@given(
    st.lists(st.sampled_from([0, 1, 3, 2**16, 2**31, 2**62]), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4, 16]),
)
@example([100000, 100000, 0], 4)
@example([2**62, 4, 0], 1)
def test_whether_a_shape_overflows_does_not_depend_on_the_order_of_its_axes(dims, itemsize):
    verdicts = {accepted(order, itemsize) for order in itertools.permutations(dims)}
    assert len(verdicts) == 1
    if math.prod(dims) * itemsize > 2**63 - 1:
        assert verdicts == {False}


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


@pytest.mark.parametrize(
    ("key", "basic"),
    [
        (0, True),
        (np.int64(2), True),
        (slice(None), True),
        (None, True),
        (Ellipsis, True),
        ((), True),
        ((0, slice(1, None, -2), None, Ellipsis), True),
        (True, False),
        (np.True_, False),
        ([0, 1], False),
        (np.array([0]), False),
        ((0, [1]), False),
        ((slice(None), True), False),
    ],
)
def test_basic_indices_are_those_that_give_views(key, basic):
    blob = Blob((3, 3, 3, 3))
    assert (blob[key].memory is blob.memory) is basic
    array = np.zeros((3, 3, 3, 3))
    full = key if basic is False or key is Ellipsis else np.index_exp[key]
    assert np.shares_memory(array, array[full]) is basic
