"""Utility functions: corrections and errors."""

import numpy as np
import pytest

import syncblob as xp

A = np.array([[1, 4, 9, 16], [0, 0, 5, 7]])


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
