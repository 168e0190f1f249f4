"""Elementwise functions that correct CuPy, compared with NumPy on the host."""

import itertools
import math

import numpy as np
import pytest

import syncblob as xp

pytestmark = pytest.mark.gpu

INF, NAN = math.inf, math.nan
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.5, -7.25, INF, -INF, NAN)
PAIRS = [*itertools.product(NUMBERS, NUMBERS)]


def on_device(values):
    blob = xp.asarray(values, device="cuda:0")
    blob.mutable_gpu_data()
    return blob


def same(result, expected):
    """Compare values, NaN and the signs of zeros."""
    assert (result.device, result.dtype) == ("cuda:0", expected.dtype)
    actual = np.asarray(result)
    np.testing.assert_array_equal(actual, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_remainders_have_the_divisors_sign_also_where_it_is_infinite(dtype):
    x1, x2 = np.array(PAIRS, dtype).T.copy()
    with np.errstate(all="ignore"):
        expected = np.remainder(x1, x2)
        by_number, of_number = np.remainder(x1, x1.dtype.type(-INF)), np.remainder(INF, x1)
    a, b = on_device(x1), on_device(x2)
    with xp.no_transfers():
        results = [xp.remainder(a, b), a % b]
        same_dtype = (a % -INF, INF % a)
        a %= b
    for result in (*results, a):
        same(result, expected)
    for result, each in zip(same_dtype, (by_number, of_number), strict=True):
        same(result, each)


def test_remainders_of_integers():
    x = np.arange(-6, 6, dtype="int16")
    result = on_device(x) % on_device(np.full(12, -4, "int16"))
    assert result.dtype == "int16"
    assert result.tolist() == (x % -4).tolist()


@pytest.mark.parametrize("name", ["acosh", "log", "log1p", "tanh"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_of_infinite_and_undefined_parts(name, dtype):
    # The sign of an angle of pi is the sign of a zero, which CuPy's log1p does not keep.
    values = [complex(*pair) for pair in PAIRS if name != "log1p" or pair[1]]
    x = np.array(values, dtype)
    function = getattr(xp, name)
    result = np.asarray(function(on_device(x)))
    with np.errstate(all="ignore"):
        expected = np.asarray(function(xp.asarray(x)))
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            getattr(result, part), getattr(expected, part), rtol=1e-5, atol=1e-6
        )
    scalar = function(on_device(np.array(complex(0, NAN), dtype)))
    assert (scalar.shape, scalar.dtype) == ((), dtype)


@pytest.mark.parametrize(
    "shapes",
    [((2, 3, 3), (2, 3, 0)), ((2, 0, 0), (2, 0, 4)), ((2, 0, 0), (0,)), ((0, 3, 3), (3, 2))],
)
def test_systems_without_numbers_are_solved(shapes):
    x1, x2 = np.ones(shapes[0], "float32"), np.ones(shapes[1], "float32")
    x1 += np.eye(x1.shape[-1], dtype="float32")
    same(xp.linalg.solve(on_device(x1), on_device(x2)), np.linalg.solve(x1, x2))


def test_integers_have_no_negative_powers_and_indices_known_on_the_host_are_checked():
    x = on_device(np.arange(3))
    for call in (lambda: x**-1, lambda: np.power(x, -1), lambda: xp.pow(x, -1)):
        with pytest.raises(ValueError, match="negative integer"):
            call()
    host = xp.asarray(np.array([3]), device="cuda:0")
    for index in ([3], np.array([-4]), host):
        for call in (lambda i: x[i], lambda i: x.__setitem__(i, 1), x.take, lambda i: x.put(i, 1)):
            with pytest.raises(IndexError, match="out of bounds"):
                call(index)
    assert x.tolist() == [0, 1, 2]
    assert np.take(x, [4, -4], mode="wrap").tolist() == [1, 2]
    assert np.take(x, on_device(np.array([4, -4])), mode="clip").tolist() == [2, 0]
