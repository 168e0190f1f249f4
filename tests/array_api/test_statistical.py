"""Statistical functions: dtypes of results, corrections and errors."""

import itertools

import numpy as np
import pytest

import syncblob as xp
from syncblob import Blob

A = np.arange(1, 25, dtype="f4").reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ["int32", xp.float64, np.dtype("c16")])
def test_a_dtype_is_converted_to_first(name, dtype, on):
    result = getattr(xp, name)(on([2, 3], "i1"), dtype=dtype)
    assert result.dtype == np.dtype(dtype)
    with pytest.raises(TypeError, match="dtype"):
        getattr(xp, name)(on([2, 3]), dtype="no dtype")


@pytest.mark.parametrize(
    ("values", "dtype", "axis", "correction"),
    [
        ([1.0, 3.0], "f4", None, 2),
        ([1.0, 3.0], "f8", 0, 2.5),
        ([[1.0, 3.0]], "f4", (0, 1), 3),
        ([[1, 2], [3, 4]], "i4", -1, 2),
        ([1j, 2.0], "c8", None, 2),
        (1.0, "f4", None, 1),
        ([], "f4", None, 0),
    ],
)
def test_without_degrees_of_freedom_they_are_nan(values, dtype, axis, correction, on):
    """The standard: NaN if M - correction is 0 or less. NumPy divides by zero, giving infinity."""
    x = on(values, dtype)
    for function, keepdims in itertools.product((xp.var, xp.std), (False, True)):
        result = function(x, axis=axis, correction=correction, keepdims=keepdims)
        assert result.shape == np.sum(np.ones(x.shape), axis=axis, keepdims=keepdims).shape
        assert result.dtype == ("f8" if dtype == "i4" else np.empty(0, dtype).real.dtype)
        assert np.isnan(np.asarray(result)).all()


@pytest.mark.parametrize(("name", "initial"), [("cumulative_sum", 0), ("cumulative_prod", 1)])
class TestCumulative:
    def test_of_no_axes_counts_as_one(self, name, initial, on):
        assert getattr(xp, name)(on(5)).tolist() == [5]
        assert getattr(xp, name)(on(5), include_initial=True).tolist() == [initial, 5]

    def test_of_several_axes_wants_one(self, name, initial, on):
        """The standard: `axis` is required if x has more than one axis."""
        del initial
        with pytest.raises(ValueError, match="axis"):
            getattr(xp, name)(on(A))
        with pytest.raises(IndexError):
            getattr(xp, name)(on(A), axis=3)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: xp.sum(x, axis=3), IndexError),
        (lambda x: xp.mean(x, axis=(0, -4)), IndexError),
        (lambda x: xp.var(x, axis=3), IndexError),
        (lambda x: xp.std(x, axis=3, correction=100), IndexError),
        (lambda x: xp.prod(x, axis=(0, 0)), ValueError),
        (lambda _: xp.max(Blob(0)), ValueError),
        (lambda _: xp.min(Blob((2, 0)), axis=1), ValueError),
    ],
)
def test_refused(call, error, on):
    with pytest.raises(error):
        call(on(A))


@pytest.mark.parametrize("name", ["std", "var"])
def test_numpys_name_of_the_correction(name, on):
    x = on(A)
    result = getattr(xp, name)(x, axis=1, ddof=2)
    np.testing.assert_allclose(np.asarray(result), getattr(np, name)(A, axis=1, ddof=2), rtol=1e-6)
    with pytest.raises(ValueError, match=rf"{name} .*correction=1 .*ddof=0"):
        getattr(xp, name)(x, correction=1, ddof=0)
