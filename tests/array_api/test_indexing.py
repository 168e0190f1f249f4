"""Indexing functions: corrections and errors."""

import numpy as np
import pytest

import syncblob as xp

A = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "u8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_accepts_indices_of_every_integer_dtype(axis, dtype, on, device):
    """The standard: indices may have any integer dtype. NumPy refuses uint64."""
    x, indices = on(A), on([2, 0, 0], dtype)
    with xp.no_transfers():
        result = xp.take(x, indices, axis=axis)
    assert result.device == device
    np.testing.assert_array_equal(np.asarray(result), np.take(A, [2, 0, 0], axis), strict=True)


def test_take_counts_from_the_end(on):
    """The standard since 2024.12: -1 is the last element. With one axis, `axis` is optional."""
    assert xp.take(on([5, 6, 7]), on([-1, 0])).tolist() == [7, 5]
    assert xp.take(on([5, 6, 7]), on([], "i8")).shape == (0,)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8"])
@pytest.mark.parametrize(
    ("axis", "indices"), [(-1, [[1], [0], [3]]), (0, [[2, 1, 0, 0]]), (1, [[1, 1, 0, 3, 2]])]
)
def test_take_along_axis_is_numpys(axis, indices, dtype, on, device):
    """The standard: the other axes are broadcast."""
    x, wanted = on(A), on(indices, dtype)
    with xp.no_transfers():
        result = xp.take_along_axis(x, wanted, axis=axis)
    assert result.device == device
    expected = np.take_along_axis(A, np.array(indices), axis=axis)
    np.testing.assert_array_equal(np.asarray(result), expected, strict=True)


def test_the_default_axis_is_the_last(on):
    """The standard: axis=-1."""
    assert xp.take_along_axis(on(A), on([[-1]] * 3)).tolist() == [[3], [7], [11]]


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_indices_out_of_range_are_refused_where_numpy_computes(device):
    x, far = xp.asarray([1, 2], device=device), xp.asarray([2], device=device)
    for function in (xp.take, xp.take_along_axis):
        with pytest.raises(IndexError):
            function(x, far)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        # The standard: indices are one-dimensional integers, and several axes require `axis`.
        (xp.take, ValueError),
        (lambda x, i: xp.take(x, xp.reshape(i, (1, 1)), axis=0), ValueError),
        (lambda x, i: xp.take(x, xp.astype(i, xp.bool), axis=0), TypeError),
        (lambda x, i: xp.take(x, xp.astype(i, xp.float32), axis=0), TypeError),
        (lambda x, i: xp.take(x, i, axis=2), IndexError),
        (lambda x, _: xp.take(x, 0, axis=0), TypeError),
        (lambda x, _: xp.take(x, [0], axis=0), TypeError),
        (xp.take_along_axis, ValueError),
        (lambda x, _: xp.take_along_axis(x, xp.astype(x, xp.float32)), TypeError),
        (lambda x, _: xp.take_along_axis(x, xp.astype(x, xp.bool)), TypeError),
        (lambda x, _: xp.take_along_axis(x, x, axis=2), IndexError),
        (lambda x, _: xp.take_along_axis(x, x, axis=None), TypeError),
        (lambda x, _: xp.take_along_axis(x, 0), TypeError),
    ],
)
def test_refused(call, error, on):
    with pytest.raises(error):
        call(on(A), on([0]))
