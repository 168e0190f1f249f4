"""Searching functions: corrections and errors."""

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob


def test_nonzero_returns_a_tuple_of_blobs(on, device):
    result = xp.nonzero(on([[0, 3], [4, 0]]))
    assert type(result) is tuple
    assert [y.tolist() for y in result] == [[0, 1], [1, 0]]
    assert {(str(y.device), y.dtype) for y in result} == {(device, np.dtype(np.int64))}


def test_nonzero_refuses_a_blob_without_axes(on):
    """The standard: the function must raise if x is zero-dimensional."""
    with pytest.raises(ValueError, match="axes"):
        xp.nonzero(on(1))


def test_searchsorted_converts_a_scalar_to_the_dtype_of_the_blob(on):
    """The standard: a scalar becomes an array with the dtype that it has in operations with x1."""
    x = on([0.1, 0.2, 0.3], "f4")
    # In double precision, 0.2 is less than the nearest single precision number.
    assert xp.searchsorted(x, 0.2, side="right").tolist() == 2
    assert xp.searchsorted(x, 1).tolist() == 3
    assert xp.searchsorted(on([1, 2, 3]), 2.5).tolist() == 2
    with pytest.raises(OverflowError):
        xp.searchsorted(on([1, 2], "i1"), 300)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u1", "u8"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_takes_a_sorter_of_every_integer_dtype(dtype, side, on):
    """The standard: the sorter may have any integer dtype. NumPy refuses uint64."""
    a, v, order = np.array([3, 1, 2, 2]), np.array([[2], [0]]), [1, 2, 3, 0]
    result = xp.searchsorted(on(a), on(v), side=side, sorter=on(order, dtype))
    expected = np.searchsorted(a, v, side=side, sorter=order)
    np.testing.assert_array_equal(np.asarray(result), expected, strict=True)


@pytest.mark.parametrize(
    ("x1", "x2", "expected", "dtype"),
    [
        ([1, 2], 3, [1, 3], "i1"),
        (3, [1, 2], [3, 2], "i1"),
        ([1, 2], 2.5, [1, 2.5], "f4"),
        (7, [1, 2], [7, 2], "f4"),
        ([1, 2], 1j, [1, 1j], "c8"),
        ([True, True], False, [True, False], "?"),
    ],
)
def test_where_takes_a_scalar(x1, x2, expected, dtype, on):
    """The standard since 2024.12: x1 or x2 may be a scalar."""
    operands = [on(x, dtype) if isinstance(x, list) else x for x in (x1, x2)]
    result = xp.where(on([True, False]), *operands)
    np.testing.assert_array_equal(np.asarray(result), np.array(expected, dtype), strict=True)


def test_where_refuses_an_integer_that_does_not_fit(on):
    """The standard leaves this open. NumPy's operators refuse it; its `where` truncates bits."""
    with pytest.raises(OverflowError):
        xp.where(on([True]), on([1], "i1"), 300)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: xp.argmax(x, axis=2), IndexError),
        (lambda x: xp.argmin(x, axis=-3), IndexError),
        (lambda _: xp.argmax(Blob(0)), ValueError),
        (lambda x: xp.count_nonzero(x, axis=2), IndexError),
        (lambda x: xp.searchsorted(x, x), ValueError),
        (lambda x: xp.searchsorted(x[0], x, side="middle"), ValueError),
        (lambda x: xp.searchsorted(x[0], x, sorter=x[0]), TypeError),
        (lambda x: xp.searchsorted(x[0], x, sorter=[0, 1, 2]), TypeError),
        (lambda x: xp.searchsorted(x[0], None), TypeError),
        (lambda x: xp.searchsorted(1.0, x), TypeError),
        (lambda x: xp.searchsorted(x[0], x, sorter=xp.astype(x[0, :2], np.int64)), ValueError),
        (lambda x: xp.where(x, 1.0, 2.0), TypeError),
        (lambda x: xp.where(True, x, x), TypeError),  # noqa: FBT003  # the condition
        (lambda x: xp.where(x, None, x), TypeError),
        (lambda x: xp.where(x, x, [1, 1, 1]), TypeError),
        (lambda x: xp.where(x, x, Blob(2)), ValueError),
    ],
)
def test_refused(call, error, on):
    with pytest.raises(error):
        call(on(np.ones((2, 3))))
