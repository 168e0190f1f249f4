"""Shapes and layouts against NumPy's own views of real arrays."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from syncblob._shape import (
    Layout,
    as_shape,
    canonical_axis,
    contiguous_strides,
    count,
    is_basic_index,
    shape_string,
)

DTYPES = [np.dtype(name) for name in ("uint8", "float16", "float32", "complex128")]
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
steps = st.sampled_from([None, 1, 2, 3, -1, -2, -3])


def filled(shape, dtype):
    return np.arange(math.prod(shape)).astype(dtype).reshape(shape)


def bytes_of(array):
    """Return the memory of a C-contiguous array as bytes."""
    return array.reshape(-1).view(np.uint8)


@st.composite
def basic_keys(draw, shape):
    """Draw a basic index that fits a shape; because of its Ellipsis, the result is not a scalar."""
    entries = []
    for dim in shape[: draw(st.integers(0, len(shape)))]:
        bounds = st.none() | st.integers(-dim - 2, dim + 2)
        choices = [st.builds(slice, bounds, bounds, steps)]
        if dim:
            choices.append(st.integers(-dim, dim - 1))
        entries.append(draw(st.one_of(choices)))
        if draw(st.integers(0, 4)) == 0:
            entries.append(None)
    return (*entries, Ellipsis)


@st.composite
def programs(draw):
    """Draw an array and nested views of it: pairs of the real view and the derived layout."""
    array = filled(draw(shapes), draw(st.sampled_from(DTYPES)))
    view, layout = array, Layout.c_order(array.shape, array.dtype)
    for _ in range(draw(st.integers(1, 4))):
        action = draw(st.sampled_from(["index", "transpose", "reshape"]))
        if action == "index":
            key = draw(basic_keys(view.shape))

            def step(a, key=key):
                return a[key]

        elif action == "transpose":
            order = draw(st.permutations(range(view.ndim)))

            def step(a, order=tuple(order)):
                return a.transpose(order)

        else:
            dims = list(view.shape)
            place = draw(st.integers(0, len(dims)))
            dims = [*dims[:place], 1, *dims[place:]] if draw(st.booleans()) else [view.size]

            def step(a, dims=tuple(dims)):
                return a.reshape(dims, copy=False)

        try:
            view = step(view)
        except ValueError:
            with pytest.raises(ValueError, match="copy"):
                layout.derive(step)
            continue
        layout = layout.derive(step)
    return array, view, layout


@given(programs())
def test_derived_layouts_are_those_of_numpys_views(program):
    array, view, layout = program
    assert layout.shape == view.shape
    assert layout.dtype == view.dtype
    assert layout.size == view.size
    assert layout.nbytes == view.nbytes
    assert layout.contiguous == view.flags.c_contiguous
    memory = bytes_of(array)
    reached = np.ndarray(layout.shape, layout.dtype, memory, layout.offset, layout.strides)
    np.testing.assert_array_equal(reached, view)
    if view.size:
        assert layout.strides == view.strides
        start = array.__array_interface__["data"][0]
        assert view.__array_interface__["data"][0] == start + layout.offset


@given(programs(), st.sampled_from(["of the view", "of the memory"]))
@example((np.zeros(4, "f4"), None, Layout((2,), np.dtype("f4"), (4,), 8)), "of the view")
@example((np.zeros(4, "f4"), None, Layout((2,), np.dtype("f4"), (8,), 0)), "of the view")
@example((np.zeros(4, "f4"), None, Layout((4,), np.dtype("f4"), (0,), 0)), "of the memory")
def test_covers_tells_whether_every_byte_would_be_written(program, bytes_asked):
    array, _, layout = program
    memory = np.zeros(array.nbytes, np.uint8)
    np.ndarray(layout.shape, f"V{layout.dtype.itemsize}", memory, layout.offset, layout.strides)[
        ...
    ] = np.void(b"\xff" * layout.dtype.itemsize)
    nbytes = layout.nbytes if bytes_asked == "of the view" else array.nbytes
    assert layout.covers(nbytes) == bool(memory[:nbytes].all())
    assert not layout.covers(array.nbytes + 1)


@given(shapes, st.sampled_from(DTYPES))
def test_c_order_has_numpys_strides(shape, dtype):
    layout = Layout.c_order(shape, dtype, 64)
    assert layout.contiguous
    assert layout.offset == 64
    assert layout.strides == contiguous_strides(shape, dtype.itemsize)
    if math.prod(shape):
        assert layout.strides == np.empty(shape, dtype).strides


def test_raw_layouts_are_bytes():
    layout = Layout.raw(7)
    assert (layout.shape, layout.dtype, layout.nbytes) == ((7,), np.uint8, 7)
    assert layout.covers(7)


def test_layouts_compare_and_hash_by_all_fields():
    first = Layout((2, 3), np.dtype("f4"), (12, 4), 8)
    assert first == Layout((2, 3), np.dtype("f4"), (12, 4), 8)
    assert hash(first) == hash(Layout((2, 3), np.dtype("f4"), (12, 4), 8))
    others = [
        Layout((3, 2), np.dtype("f4"), (12, 4), 8),
        Layout((2, 3), np.dtype("i4"), (12, 4), 8),
        Layout((2, 3), np.dtype("f4"), (4, 8), 8),
        Layout((2, 3), np.dtype("f4"), (12, 4), 0),
    ]
    assert first not in others
    assert first != "Layout"
    assert repr(first) == "Layout(shape=(2, 3), dtype=float32, strides=(12, 4), offset=8)"


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
    with pytest.raises(TypeError, match="a shape is an integer or a tuple of integers, got"):
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


@given(shapes)
def test_count_multiplies_a_range_of_axes(shape):
    for start in range(len(shape) + 1):
        assert count(shape, start) == math.prod(shape[start:])
        for end in range(start, len(shape) + 1):
            assert count(shape, start, end) == math.prod(shape[start:end])


@pytest.mark.parametrize("axes", [(2, 1), (-1, 2), (0, 5), (5, 5), (0, -1), (-1,), (5,)])
def test_count_refuses_what_is_no_range_of_axes(axes):
    with pytest.raises(IndexError, match="expected 0 <= start <= end <= 4"):
        count((2, 3, 4, 5), *axes)


@pytest.mark.parametrize("axes", [("0",), (0, "1"), (1.0,), (0, 2.0)])
def test_count_refuses_axes_that_are_not_integers(axes):
    with pytest.raises(TypeError):
        count((2, 3, 4, 5), *axes)


def test_axes_count_from_either_end():
    shape = (2, 3, 4, 5)
    assert [canonical_axis(axis, shape) for axis in range(-4, 4)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert type(canonical_axis(np.int8(-1), shape)) is int


@pytest.mark.parametrize("axis", [-5, 4])
def test_axes_out_of_range_are_index_errors_that_name_the_shape(axis):
    with pytest.raises(IndexError, match=rf"axis {axis} is out of range .* shape \(2, 3, 4, 5\)"):
        canonical_axis(axis, (2, 3, 4, 5))


def test_a_shape_without_axes_has_no_axis_at_all():
    with pytest.raises(IndexError, match="axis 0"):
        canonical_axis(0, ())


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((2, 3, 4, 5), "2 3 4 5 (120)"), ((), "(1)"), ((0, 5), "0 5 (0)"), ((7,), "7 (7)")],
)
def test_shapes_are_spelled_as_caffe_does(shape, expected):
    assert shape_string(shape) == expected


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
    assert is_basic_index(key) is basic
    array = np.zeros((3, 3, 3, 3))
    full = key if basic is False or key is Ellipsis else np.index_exp[key]
    assert np.shares_memory(array, array[full]) is basic
