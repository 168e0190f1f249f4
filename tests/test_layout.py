"""Layouts against NumPy's own views of real arrays."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from syncblob._layout import Layout

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


@given(programs())
@example((np.zeros(4, "f4"), None, Layout((2,), np.dtype("f4"), (4,), 8)))
@example((np.zeros(4, "f4"), None, Layout((2,), np.dtype("f4"), (8,), 0)))
@example((np.zeros(4, "f4"), None, Layout((4,), np.dtype("f4"), (0,), 0)))
def test_gapless_tells_whether_every_byte_of_the_range_would_be_written_once(program):
    array, _, layout = program
    memory = np.zeros(array.nbytes, np.uint8)
    np.ndarray(layout.shape, f"V{layout.dtype.itemsize}", memory, layout.offset, layout.strides)[
        ...
    ] = np.void(b"\xff" * layout.dtype.itemsize)
    once = layout.nbytes == layout.stop - layout.start
    assert layout.gapless == (once and bool(memory[layout.start : layout.stop].all()))
