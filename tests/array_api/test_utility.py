"""Utility functions: corrections and errors."""

from __future__ import annotations

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob

A = np.array([[1, 4, 9, 16], [0, 0, 5, 7]])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_is_numpys_and_a_blob_of_the_device(name, axis, keepdims, on, device):
    x = on(A)
    with xp.no_transfers():
        result = getattr(xp, name)(x, axis=axis, keepdims=keepdims)
    assert isinstance(result, Blob)
    assert result.device == device
    expected = np.asarray(getattr(np, name)(A, axis=axis, keepdims=keepdims))
    np.testing.assert_array_equal(np.asarray(result), expected, strict=True)


def test_truth_of_what_is_no_number_and_of_nothing(on):
    """The standard: NaN and infinities are True. For an empty array, all is True, any False."""
    assert xp.all(on([np.nan, np.inf, -np.inf])).tolist() is True
    assert xp.all(on([])).tolist() is True
    assert xp.any(on([])).tolist() is False


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["i2", "u1", "f4", "c8", "?"])
def test_differences_are_numpys(dtype, axis, n, on, device):
    a = A.astype(dtype)
    x = on(a)
    with xp.no_transfers():
        result = xp.diff(x, axis=axis, n=n)
    assert result.device == device
    np.testing.assert_array_equal(np.asarray(result), np.diff(a, n=n, axis=axis), strict=True)


def test_no_differences_are_a_copy(on):
    x = on([1, 2])
    xp.diff(x, n=0)[...] = 0
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_what_is_put_before_and_behind_counts(n, on):
    """The standard: the axis has M + N1 + N2 - n elements. NumPy ignores N1 and N2 if n is 0."""
    before, behind = A[:, :1] - 5, A[:, :2] + 30
    whole = np.concatenate([before, A, behind], axis=1)
    result = xp.diff(on(A), n=n, prepend=on(before), append=on(behind))
    np.testing.assert_array_equal(np.asarray(result), np.diff(whole, n=n), strict=True)
    result = xp.diff(on(A), n=n, append=on(behind))
    np.testing.assert_array_equal(np.asarray(result), np.diff(whole[:, 1:], n=n), strict=True)


def test_differences_across_devices_are_on_the_accelerator(accelerator):
    result = xp.diff(xp.asarray([4, 5]), prepend=xp.asarray([1], device=accelerator))
    assert result.device == accelerator
    assert result.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: xp.all(x, axis=2), IndexError),
        (lambda x: xp.any(x, axis=(0, -3)), IndexError),
        (lambda x: xp.diff(x, axis=2), IndexError),
        (lambda x: xp.diff(x, axis=2, n=0), IndexError),
        (lambda x: xp.diff(x[0, 0]), IndexError),
        (lambda x: xp.diff(x, n=-1), ValueError),
        (lambda x: xp.diff(x, prepend=x[0]), ValueError),
        (lambda x: xp.diff(x, prepend=x[:1]), ValueError),
        (lambda x: xp.diff(x, prepend=0), TypeError),
        (lambda x: xp.diff(x, append=[[1], [1]]), TypeError),
    ],
)
def test_refused(call, error, on):
    with pytest.raises(error):
        call(on(A))


@pytest.mark.parametrize("function", [xp.all, xp.any, xp.diff])
@pytest.mark.parametrize("other", [np.ones(2), [1.0, 2.0], 1.0, None], ids=repr)
def test_other_than_blobs_are_refused(function, other):
    with pytest.raises(TypeError, match="Blob"):
        function(other)
