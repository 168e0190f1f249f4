"""Manipulation functions: views, corrections and errors."""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob


def test_what_is_written_to_a_view_is_in_its_blob(on):
    x = on([1.0, 2.0, 3.0])
    xp.flip(x)[0] = 7
    assert x.tolist() == [1, 2, 7]


@pytest.mark.parametrize("axes", [(), 0, (0,)], ids=str)
def test_a_view_without_axes_or_elements_is_one(axes):
    x = Blob((0,) if axes == 0 else (1,) * len(axes or ()))
    assert xp.flip(x, axis=axes).memory is x.memory


def test_repeated_elements_cannot_be_written(on):
    x = on([[1.0], [2.0]])
    y, z = xp.broadcast_arrays(x, on([1.0, 2.0, 3.0]))
    for view in (y, z, xp.broadcast_to(x, (2, 2))):
        with pytest.raises(ValueError, match="const view"):
            view[...] = 0
    assert x.tolist() == [[1], [2]]


def test_broadcast_elements_that_are_not_repeated_can_be_written(on):
    x = on([1.0, 2.0])
    xp.broadcast_to(x, (1, 2))[...] = 3
    xp.broadcast_arrays(x, on(1.0))[0][0] = 4
    assert x.tolist() == [4, 3]


def test_one_element_can_be_broadcast_to_none(on):
    assert xp.broadcast_to(on(1.0), (0, 2)).shape == (0, 2)


def test_broadcast_arrays_leaves_each_on_its_device(accelerator):
    there, here = xp.asarray([1.0], device=accelerator), xp.asarray([1.0, 2.0])
    with xp.no_transfers():
        results = xp.broadcast_arrays(there, here)
    assert type(results) is tuple
    assert [y.device for y in results] == [accelerator, "cpu"]
    assert xp.broadcast_arrays() == ()


def test_broadcast_shapes():
    assert xp.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert xp.broadcast_shapes() == ()


@pytest.mark.parametrize(("copy", "shared"), [(None, True), (False, True), (True, False)])
def test_reshape_copies_where_it_is_told_to(copy, shared, on):
    x = on([[1.0, 2.0]])
    assert (xp.reshape(x, (2,), copy=copy).memory is x.memory) is shared


def test_reshape_without_a_copy_is_refused_where_there_is_no_view(on):
    x = on([[1, 2, 3], [4, 5, 6]]).T
    assert xp.reshape(x, (6,)).tolist() == [1, 4, 2, 5, 3, 6]
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(x, (6,), copy=False)


def test_reshape_finds_one_dimension_and_no_more(on):
    with pytest.raises(ValueError, match=r"\(-1, -1\)"):
        xp.reshape(on([1, 2, 3]), (-1, -1))


def test_elements_are_stacked_on_the_device_of_the_first_blob(on):
    x = on(np.arange(3.0))
    stacked = xp.stack([*x, xp.sum(x)])
    assert (stacked.device, stacked.tolist()) == (x.device, [0, 1, 2, 3])
    assert xp.stack([*x]).tolist() == [0, 1, 2]


def test_unstack_returns_a_tuple(on):
    """The standard since 2023.12: a tuple of arrays."""
    x = on([[1, 2], [3, 4]])
    assert type(xp.unstack(x)) is tuple
    assert [y.tolist() for y in xp.unstack(x, axis=1)] == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("join", "numpys"),
    [
        (lambda *x: xp.concat(x), lambda *a: np.concat(a)),
        (lambda *x: xp.concat(list(x), axis=-1), lambda *a: np.concat(a, axis=-1)),
        (lambda *x: xp.concat(x, axis=None), lambda *a: np.concat(a, axis=None)),
        (lambda *x: xp.stack(x), lambda *a: np.stack(a)),
        (lambda *x: xp.stack(list(x), axis=-1), lambda *a: np.stack(a, axis=-1)),
    ],
)
class TestJoining:
    def test_promotes_and_copies(self, join, numpys, on):
        a, b = np.ones((2, 3), "f4"), np.zeros((2, 3), "f8")
        x, y = on(a), on(b)
        with xp.no_transfers():
            z = join(x, y)
        assert z.memory is not x.memory
        np.testing.assert_array_equal(np.asarray(z), numpys(a, b), strict=True)

    def test_of_one_copies_it(self, join, numpys, on):
        x = on([[1, 2]])
        y = join(x)
        y[...] = 0
        assert x.tolist() == [[1, 2]]
        assert y.shape == numpys(np.ones((1, 2))).shape

    def test_across_devices_is_on_the_accelerator(self, join, numpys, accelerator):
        a = np.ones((2, 3), "f4")
        z = join(xp.asarray(a), xp.asarray(2 * a, device=accelerator))
        assert z.device == accelerator
        np.testing.assert_array_equal(np.asarray(z), numpys(a, 2 * a), strict=True)


@pytest.mark.parametrize("dtype", ["i1", "u4", "i8", "u8"])
@pytest.mark.parametrize(("counts", "axis"), [([2, 0], 0), ([1, 2, 3], -1), ([3], None)])
def test_repeat_takes_counts_of_every_integer_dtype(counts, axis, dtype, on):
    """The standard: an array of repeats may have any integer dtype. NumPy refuses uint64."""
    a = np.arange(6).reshape(2, 3)
    result = xp.repeat(on(a), on(counts, dtype), axis=axis)
    np.testing.assert_array_equal(np.asarray(result), np.repeat(a, counts, axis), strict=True)


def test_tile_of_one_copy_is_no_view(on):
    x = on([1, 2])
    y = xp.tile(x, (1,))
    y[...] = 0
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: xp.broadcast_to(x, (3, 3)), ValueError),
        (lambda x: xp.broadcast_arrays(x, Blob(5)), ValueError),
        (lambda _: xp.broadcast_shapes((2,), (3,)), ValueError),
        (lambda _: xp.concat([]), ValueError),
        (lambda x: xp.concat([x, Blob(3)]), ValueError),
        (lambda x: xp.concat([x, x], axis=2), IndexError),
        (lambda x: xp.concat([x, 1.0]), TypeError),
        (lambda _: xp.stack(()), ValueError),
        (lambda x: xp.stack([x, xp.reshape(x, (6,))]), ValueError),
        (lambda x: xp.stack([x, [[1, 1, 1]] * 2]), TypeError),
        (lambda x: xp.stack([x], axis=None), TypeError),
        (lambda x: xp.expand_dims(x, 3), IndexError),
        (lambda x: xp.expand_dims(x, (0, 0)), ValueError),
        (lambda x: xp.flip(x, axis=2), IndexError),
        (lambda x: xp.moveaxis(x, 0, 2), IndexError),
        (lambda x: xp.moveaxis(x, (0, 1), (0,)), ValueError),
        (lambda x: xp.moveaxis(x, (0, 0), (0, 1)), ValueError),
        (lambda x: xp.permute_dims(x, (0,)), ValueError),
        (lambda x: xp.permute_dims(x, (0, 0)), ValueError),
        (lambda x: xp.permute_dims(x, (0, 2)), IndexError),
        (lambda x: xp.permute_dims(x, None), TypeError),
        (lambda x: xp.repeat(x, -1), ValueError),
        (lambda x: xp.repeat(x, 1.5), TypeError),
        (lambda x: xp.repeat(x, x, axis=0), TypeError),
        (lambda x: xp.repeat(x, 1, axis=2), IndexError),
        (lambda x: xp.reshape(x, (4,)), ValueError),
        (lambda x: xp.roll(x, 1, axis=2), IndexError),
        # The standard: a tuple of shifts requires a tuple of as many axes.
        (lambda x: xp.roll(x, (1, 1)), ValueError),
        (lambda x: xp.roll(x, (1, 1), axis=0), ValueError),
        (lambda x: xp.roll(x, (1,), axis=(0, 1)), ValueError),
        (lambda x: xp.squeeze(x, 0), ValueError),
        (lambda x: xp.squeeze(x, 2), IndexError),
        # The standard: the axis of squeeze is required.
        (lambda x: xp.squeeze(x, None), TypeError),
        (lambda x: xp.unstack(x, axis=2), IndexError),
        (lambda _: xp.unstack(Blob(())), IndexError),
    ],
)
def test_refused(call, error, on):
    with pytest.raises(error):
        call(on(np.ones((2, 3))))
